//! The binary: reads the command line, starts, stops.

use std::{env, process::ExitCode};

use pointsman::{
    app::{
        cli::{self, EXIT_BIND, Next},
        serve,
    },
    config::Environment,
};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is logged unless `RUST_LOG` says otherwise. The HTTP library reports every broken head of a client as an
/// error: any client could fill the log.
const LOGGED: &str = "info,actix_server=warn,actix_http=off";

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(LOGGED)).init();
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
