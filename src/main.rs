//! The binary: reads the command line, starts, stops.

use std::{env, process::ExitCode};

use pointsman::{
    app::{
        cli::{self, EXIT_BIND, Next},
        serve,
    },
    base::log_output,
};
use pointsman_config::Environment;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if cli::complete(env::args_os()) {
        return ExitCode::SUCCESS;
    }
    log_output::install();
    let code = run();
    log_output::flush();
    code
}

fn run() -> ExitCode {
    let config = match cli::run(env::args_os().skip(1), &Environment::of_process()) {
        Next::Serve(config) => *config,
        Next::Finish(answer) => return answer.print(),
        Next::Exit(code) => return code,
    };
    match actix_web::rt::System::new().block_on(serve::serve(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            ExitCode::from(EXIT_BIND)
        }
    }
}
