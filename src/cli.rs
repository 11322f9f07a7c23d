//! The command line: what was asked for, and the commands that need no server.
//!
//! [`run`] answers `check`, `keygen`, `replay`, `--help` and `--version` and hands a checked configuration back for
//! `serve`. Binding is not done here.

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

use lexopt::{Arg, Parser, ValueExt};

use crate::config::{Config, Environment, Fault, Loaded};

pub use keygen::NewKey;
pub use replay::ReplayOrder;
pub use summary::summary;

/// Exit code when a decision made again is not the one that was recorded.
pub const EXIT_DIFFERENT: u8 = 1;
/// Exit code when the command line or the configuration is wrong.
pub const EXIT_CONFIGURATION: u8 = 2;
/// Exit code when the address cannot be listened on.
pub const EXIT_BIND: u8 = 3;

/// What `--help` prints.
pub const HELP: &str = "\
Pointsman routes language-model requests: one OpenAI-compatible address in front of many providers,
with live, explained choices.

USAGE
  pointsman [serve] [--config FILE]     start the server
  pointsman check [--config FILE]       check the configuration and say what it comes to; binds nothing
  pointsman keygen [--name NAME]        make a key for a caller, with the lines to put in the configuration
  pointsman replay GENERATION [--url URL] [--key-env NAME] [--file FILE]
                                        make a recorded routing decision again, from the numbers of its
                                        record, and say 'identical' or what came out differently
  pointsman --help | --version

OPTIONS
  -c, --config FILE   configuration to read; default: ./config.toml if it exists, else the built-in one
      --name NAME     label of the new key in logs and records; default: my-key
      --url URL       the gateway that holds the record; default: http://127.0.0.1:8080
      --key-env NAME  the variable with a key that may read the record; default: POINTSMAN_API_KEY, or on this
                      machine the development key
      --file FILE     a saved page of /api/v1/route/replay instead of a gateway

FIRST STEPS
  Without any account, against the simulated providers that Pointsman starts itself:

    POINTSMAN__SIMULATION__MODE=on pointsman

    curl http://127.0.0.1:8080/api/v1/chat/completions \\
      -H 'Authorization: Bearer sk-pointsman-development' \\
      -H 'Content-Type: application/json' \\
      -d '{\"model\": \"service/auto\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'

  With a provider: set its variable, such as OPENAI_API_KEY, and start again. Any OpenAI or OpenRouter
  client works with the base address http://127.0.0.1:8080/api/v1.

ENVIRONMENT
  <PROVIDER>_API_KEY        a provider's key, under the name its api_key_env gives; setting it switches the
                            provider on. 'pointsman check' lists the names.
  POINTSMAN__SECTION__KEY   overrides a key of the configuration, for example POINTSMAN__SERVER__BIND or
                            POINTSMAN__PROVIDERS__OLLAMA__ENABLED; the value is TOML, or plain text
  RUST_LOG                  what is logged, such as debug or pointsman=debug; default: info

EXIT CODES
  0  stopped in order, the check found nothing wrong, or the decision came out identical
  1  the decision came out differently
  2  the command line or the configuration is wrong, every fault is printed; or there is no such record
  3  the address cannot be listened on

config.toml in the repository describes every key.
";

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
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
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

impl From<lexopt::Error> for UsageFault {
    fn from(error: lexopt::Error) -> UsageFault {
        UsageFault(format!("not understood: {error}"))
    }
}

impl Command {
    /// Reads the arguments, the program's own name left out.
    ///
    /// # Errors
    /// When an argument is unknown, incomplete, given twice, or does not belong to its command.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageFault> {
        let mut parser = Parser::from_args(arguments);
        let (mut command, mut given) = (None, Given::default());
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
                Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
                Arg::Short('c') | Arg::Long("config") => once(&mut given.config, parser.value()?.into(), "--config")?,
                Arg::Long("name") => once(&mut given.name, parser.value()?.string()?, "--name")?,
                Arg::Long("url") => once(&mut given.url, parser.value()?.string()?, "--url")?,
                Arg::Long("key-env") => once(&mut given.key_env, parser.value()?.string()?, "--key-env")?,
                Arg::Long("file") => once(&mut given.file, parser.value()?.into(), "--file")?,
                Arg::Value(word) if command.is_none() => command = Some(word.string()?),
                Arg::Value(word) if command.as_deref() == Some("replay") && given.generation.is_none() => {
                    given.generation = Some(word.string()?);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Command::assemble(command.as_deref().unwrap_or("serve"), given)
    }

    fn assemble(command: &str, given: Given) -> Result<Command, UsageFault> {
        let belonging: &[&str] = match command {
            "serve" | "check" => &["--config"],
            "keygen" => &["--name"],
            "replay" => &["--url", "--key-env", "--file"],
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            other => return Err(UsageFault(format!("'{other}' is no command"))),
        };
        if let Some(stray) = given.options().find(|option| !belonging.contains(option)) {
            return Err(UsageFault(format!("{stray} does not belong to '{command}'")));
        }
        let Given { config, name, generation, url, key_env, file } = given;
        match command {
            "check" => Ok(Command::Check { config }),
            "keygen" => Ok(Command::Keygen { name: name.unwrap_or_else(|| "my-key".to_owned()) }),
            "replay" if generation.is_none() && file.is_none() => {
                Err(UsageFault("replay needs the id of a generation, or --file".to_owned()))
            }
            "replay" => Ok(Command::Replay(ReplayOrder { generation, url, key_env, file })),
            _ => Ok(Command::Serve { config }),
        }
    }
}

/// What was given besides the command.
#[derive(Default)]
struct Given {
    config: Option<PathBuf>,
    name: Option<String>,
    generation: Option<String>,
    url: Option<String>,
    key_env: Option<String>,
    file: Option<PathBuf>,
}

impl Given {
    /// The options among it.
    fn options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (self.config.is_some(), "--config"),
            (self.name.is_some(), "--name"),
            (self.url.is_some(), "--url"),
            (self.key_env.is_some(), "--key-env"),
            (self.file.is_some(), "--file"),
        ];
        given.into_iter().filter_map(|(given, option)| given.then_some(option))
    }
}

fn once<T>(slot: &mut Option<T>, value: T, option: &str) -> Result<(), UsageFault> {
    if slot.replace(value).is_some() {
        return Err(UsageFault(format!("{option} is given twice")));
    }
    Ok(())
}

/// What is left to do after [`run`].
#[derive(Debug)]
pub enum Next {
    /// Start the server with this configuration.
    Serve(Box<Loaded>),
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
        Ok(Command::Help) => result(HELP.to_owned()),
        Ok(Command::Version) => result(concat!("pointsman ", env!("CARGO_PKG_VERSION"), "\n").to_owned()),
    };
    Next::Finish(answer)
}

fn load(path: Option<&Path>, environment: &Environment) -> Result<Loaded, Answer> {
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
    format!("{lines}\nThe configuration has {count}. config.toml in the repository describes every key.\n")
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
            ("check --help", Command::Help),
            ("help", Command::Help),
            ("-V", Command::Version),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_reason() {
        for (line, reason) in [
            ("start", "'start' is no command"),
            ("serve check", "unexpected argument \"check\""),
            ("--port 80", "invalid option '--port'"),
            ("--config", "missing argument for option '--config'"),
            ("-c a -c b", "--config is given twice"),
            ("keygen --config a", "--config does not belong to 'keygen'"),
            ("check --name a", "--name does not belong to 'check'"),
            ("serve --url a", "--url does not belong to 'serve'"),
            ("replay", "replay needs the id of a generation, or --file"),
            ("replay a b", "unexpected argument \"b\""),
            ("replay a -c b", "--config does not belong to 'replay'"),
        ] {
            let shown = parse(line).map_or_else(|fault| fault.to_string(), |command| format!("{command:?}"));
            assert!(shown.contains(reason), "{line}: {shown}");
        }
    }

    #[test]
    fn the_help_fits_on_an_ordinary_terminal() {
        let widest = HELP.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(110), "{widest:?}");
    }
}
