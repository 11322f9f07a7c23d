//! The command line: what was asked for, and the commands that need no server.
//!
//! [`run`] answers every command but `serve`, for which it hands a checked configuration back. Binding is not done here.

mod arguments;
mod keygen;
mod replay;
mod summary;

use std::{
    ffi::OsString,
    fmt,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, error::ErrorKind};

use self::arguments::{Arguments, ConfigArgument, ConfigCommand, Subcommands};
use crate::config::{Config, Environment, Fault, LoadedConfig};

pub use keygen::NewKey;
pub use replay::ReplayOrder;
pub use summary::summary;

/// Exit code when a decision made again is not the one that was recorded.
pub const EXIT_DIFFERENT: u8 = 1;
/// Exit code when the command line or the configuration is wrong.
pub const EXIT_CONFIGURATION: u8 = 2;
/// Exit code when the address cannot be listened on.
pub const EXIT_BIND: u8 = 3;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Start the server.
    Serve {
        /// The configuration named on the command line.
        config: Option<PathBuf>,
    },
    /// Check the configuration.
    Check {
        /// The configuration named on the command line.
        config: Option<PathBuf>,
    },
    /// Make a key.
    Keygen {
        /// Its label.
        name: String,
    },
    /// Make a recorded decision again.
    Replay(ReplayOrder),
    /// Show every key of the configuration with its value.
    ShowConfig {
        /// The configuration named on the command line.
        config: Option<PathBuf>,
    },
    /// Show every default and the built-in catalogue.
    ShowDefaults,
    /// Print this text: a help, or the version.
    Print(String),
}

/// Why a command line is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageFault(String);

impl fmt::Display for UsageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pointsman: {}; 'pointsman --help' shows what is", self.0)
    }
}

impl std::error::Error for UsageFault {}

impl Command {
    /// Reads the arguments, the program's own name left out.
    ///
    /// # Errors
    /// When an argument is unknown, incomplete, given twice, or does not belong to its command.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageFault> {
        let name = OsString::from("pointsman");
        match Arguments::try_parse_from(std::iter::once(name).chain(arguments)) {
            Ok(arguments) => Command::assemble(arguments),
            Err(error) => match error.kind() {
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Ok(Command::Print(error.to_string())),
                _ => Err(UsageFault(reason(&error))),
            },
        }
    }

    fn assemble(Arguments { config, command }: Arguments) -> Result<Command, UsageFault> {
        let before = config.config;
        let own = |given: ConfigArgument| match (before.clone(), given.config) {
            (Some(_), Some(_)) => Err(UsageFault("--config is given twice".to_owned())),
            (before, given) => Ok(before.or(given)),
        };
        let stray = |command: &str| match &before {
            Some(_) => Err(UsageFault(format!("--config does not belong to '{command}'"))),
            None => Ok(()),
        };
        match command {
            None => Ok(Command::Serve { config: before }),
            Some(Subcommands::Serve(given)) => Ok(Command::Serve { config: own(given)? }),
            Some(Subcommands::Check(given)) => Ok(Command::Check { config: own(given)? }),
            Some(Subcommands::Config(ConfigCommand::Show { defaults: true, .. })) => {
                stray("config show --defaults").map(|()| Command::ShowDefaults)
            }
            Some(Subcommands::Config(ConfigCommand::Show { config, .. })) => {
                Ok(Command::ShowConfig { config: own(config)? })
            }
            Some(Subcommands::Keygen { name }) => stray("keygen").map(|()| Command::Keygen { name }),
            Some(Subcommands::Replay(order)) => match (stray("replay")?, ReplayOrder::from(order)) {
                ((), ReplayOrder { generation: None, file: None, .. }) => {
                    Err(UsageFault("replay needs the id of a generation, or --file".to_owned()))
                }
                ((), order) => Ok(Command::Replay(order)),
            },
            Some(Subcommands::Version) => Ok(Command::Print(VERSION.to_owned())),
        }
    }
}

const VERSION: &str = concat!("pointsman ", env!("CARGO_PKG_VERSION"), "\n");

/// What clap says is wrong, in one line.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let told: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    told.join(" ").trim_start_matches("error: ").to_owned()
}

/// What is left to do after [`run`].
#[derive(Debug)]
pub enum Next {
    /// Start the server with this configuration.
    Serve(Box<LoadedConfig>),
    /// Print the answer and exit.
    Finish(Answer),
}

/// The answer of a command that needs no server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What to print.
    pub text: String,
    /// Exit code; what could not be done at all is printed to standard error.
    pub code: u8,
}

impl Answer {
    /// Prints the answer and gives the exit code.
    #[must_use]
    pub fn print(&self) -> ExitCode {
        // A reader that went away (`pointsman check | head`) is no reason to fail.
        let _ = if self.code <= EXIT_DIFFERENT {
            std::io::stdout().lock().write_all(self.text.as_bytes())
        } else {
            std::io::stderr().lock().write_all(self.text.as_bytes())
        };
        ExitCode::from(self.code)
    }
}

/// Does what the arguments ask for, up to the point where a server is needed. Prints nothing.
pub fn run(arguments: impl IntoIterator<Item = OsString>, environment: &Environment) -> Next {
    let answer = match Command::parse(arguments) {
        Err(fault) => refusal(format!("{fault}\n")),
        Ok(Command::Serve { config }) => match load(config.as_deref(), environment) {
            Ok(config) => return Next::Serve(Box::new(config)),
            Err(answer) => answer,
        },
        Ok(Command::Check { config }) => {
            load(config.as_deref(), environment).map_or_else(|answer| answer, |loaded| result(summary(&loaded.config)))
        }
        Ok(Command::Keygen { name }) => result(NewKey::random().report(&name)),
        Ok(Command::Replay(order)) => replay::answer(&order, environment),
        Ok(Command::ShowConfig { config }) => {
            Config::show(config.as_deref(), environment).map_or_else(|faults| refusal(report(&faults)), result)
        }
        Ok(Command::ShowDefaults) => result(Config::show_defaults()),
        Ok(Command::Print(text)) => result(text),
    };
    Next::Finish(answer)
}

fn load(path: Option<&Path>, environment: &Environment) -> Result<LoadedConfig, Answer> {
    Config::load(path, environment).map_err(|faults| refusal(report(&faults)))
}

fn result(text: String) -> Answer {
    Answer { text, code: 0 }
}

fn refusal(text: String) -> Answer {
    Answer { text, code: EXIT_CONFIGURATION }
}

/// Every fault on a line of its own, and how many there are.
#[must_use]
pub fn report(faults: &[Fault]) -> String {
    let lines: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    let count = if faults.len() == 1 { "1 fault".to_owned() } else { format!("{} faults", faults.len()) };
    format!("{lines}\nThe configuration has {count}. docs/CONFIG.md in the repository describes every key.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, UsageFault> {
        Command::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_command_line_becomes_a_command() {
        let file = || Some(PathBuf::from("x.toml"));
        for (line, command) in [
            ("", Command::Serve { config: None }),
            ("serve", Command::Serve { config: None }),
            ("--config x.toml", Command::Serve { config: file() }),
            ("serve --config=x.toml", Command::Serve { config: file() }),
            ("-c x.toml check", Command::Check { config: file() }),
            ("check", Command::Check { config: None }),
            ("keygen", Command::Keygen { name: "my-key".to_owned() }),
            ("keygen --name team", Command::Keygen { name: "team".to_owned() }),
            ("replay gen-1-x --url http://h --key-env K", {
                let given = |text: &str| Some(text.to_owned());
                let (generation, url, key_env) = (given("gen-1-x"), given("http://h"), given("K"));
                Command::Replay(ReplayOrder { generation, url, key_env, file: None })
            }),
            ("replay --file x.toml", Command::Replay(ReplayOrder { file: file(), ..ReplayOrder::default() })),
            ("config show", Command::ShowConfig { config: None }),
            ("config show --effective -c x.toml", Command::ShowConfig { config: file() }),
            ("config show --defaults", Command::ShowDefaults),
            ("version", Command::Print(VERSION.to_owned())),
            ("-V", Command::Print(VERSION.to_owned())),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_reason() {
        for (line, reason) in [
            ("start", "unrecognized subcommand 'start'"),
            ("serve check", "unexpected argument 'check'"),
            ("--port 80", "unexpected argument '--port'"),
            ("--config", "a value is required for '--config <FILE>'"),
            ("-c a -c b", "'--config <FILE>' cannot be used multiple times"),
            ("-c a check -c b", "--config is given twice"),
            ("keygen --config a", "unexpected argument '--config'"),
            ("-c a keygen", "--config does not belong to 'keygen'"),
            ("check --name a", "unexpected argument '--name'"),
            ("serve --url a", "unexpected argument '--url'"),
            ("replay", "replay needs the id of a generation, or --file"),
            ("replay a b", "unexpected argument 'b'"),
            ("replay a -c b", "unexpected argument '-c'"),
            ("config show --defaults --effective", "'--defaults' cannot be used with '--effective'"),
            ("config show --defaults -c a", "'--defaults' cannot be used with '--config"),
        ] {
            let shown = parse(line).map_or_else(|fault| fault.to_string(), |command| format!("{command:?}"));
            assert!(shown.contains(reason), "{line}: {shown}");
            assert!(shown.starts_with("pointsman: ") && shown.lines().count() == 1, "{line}: {shown}");
        }
    }

    #[test]
    fn every_help_is_printed_and_fits_on_an_ordinary_terminal() {
        for (line, holds) in [
            ("--help", "keygen"),
            ("help", "EXIT CODES"),
            ("check --help", "--config <FILE>"),
            ("config", "show"),
            ("config show --help", "--defaults"),
            ("replay --help", "--key-env <NAME>"),
        ] {
            let Ok(Command::Print(help)) = parse(line) else { panic!("{line}") };
            assert!(help.contains(holds), "{line}: {help}");
            let widest = help.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(110), "{line}: {widest:?}");
        }
    }
}
