//! The command line: parses the arguments, and runs the commands that need no server.
//!
//! [`run`] runs every command except `serve`, for which it returns the checked configuration. Binds no listener.

mod admin_place;
mod alerts;
mod arguments;
mod audit;
mod catalog;
mod check;
mod columns;
mod connect;
mod diff;
mod doctor;
mod explain;
mod gateway;
mod health;
mod holders;
mod init;
mod keygen;
mod keys;
mod ledger;
mod logs;
mod models;
mod moment;
mod names;
mod reference;
mod reload;
mod replay;
mod spend;

use std::{
    ffi::OsString,
    fmt,
    io::{BufRead as _, BufWriter, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory as _, Parser, error::ErrorKind};
use pointsman_config::{Config, Environment, Fault, LoadedConfig, schema};

use self::arguments::{Arguments, ConfigArgument, ConfigCommand, Subcommands};
use crate::base::licenses;

pub use alerts::AlertsRequest;
pub use audit::AuditRequest;
pub use catalog::CatalogRequest;
pub use check::{CheckRequest, summary};
pub use connect::ConnectRequest;
pub use diff::DiffCommand;
pub use doctor::DoctorRequest;
pub use explain::{ExplainRequest, PreviewRequest};
pub use health::HealthRequest;
pub use holders::{AccountsRequest, TeamsRequest};
pub use init::InitRequest;
pub use keygen::NewKey;
pub use keys::KeysRequest;
pub use ledger::{ExportFormat, LedgerCommand, LedgerPlace};
pub use logs::LogsRequest;
pub use models::ModelsRequest;
pub use reference::complete;
pub use reload::ReloadRequest;
pub use replay::ReplayRequest;
pub use spend::SpendRequest;

/// Exit code when a replayed decision differs from the recorded one, a gateway is not ready, the ledger has a fault, or a
/// receiver of alerts does not take a test.
pub const EXIT_DIFFERENT: u8 = 1;
/// Exit code when the command line or the configuration is invalid.
pub const EXIT_CONFIGURATION: u8 = 2;
/// Exit code when the address cannot be listened on.
pub const EXIT_BIND: u8 = 3;
/// Exit code when a gateway cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 4;

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Start the server.
    Serve {
        /// The configuration named on the command line.
        config: Option<PathBuf>,
    },
    /// Check the configuration.
    Check(CheckRequest),
    /// Check whether this machine can serve.
    Doctor(DoctorRequest),
    /// Write a first configuration.
    Init(InitRequest),
    /// Write the settings of an agent.
    Connect(ConnectRequest),
    /// Generate a key.
    Keygen {
        /// Label of the key.
        name: String,
        /// Print JSON.
        json: bool,
    },
    /// List models and prices.
    Models(ModelsRequest),
    /// Compare prices with a price list.
    Catalog(CatalogRequest),
    /// Explain a generation.
    Explain(ExplainRequest),
    /// Show where a request would go.
    Preview(PreviewRequest),
    /// Show generations as lines.
    Logs(LogsRequest),
    /// Show what was spent.
    Spend(Box<SpendRequest>),
    /// Ask a gateway whether it is ready.
    Health(HealthRequest),
    /// Have a gateway read its configuration again.
    Reload(ReloadRequest),
    /// Test the receivers of alerts.
    Alerts(AlertsRequest),
    /// Issue, list, rotate, disable or revoke keys.
    Keys(KeysRequest),
    /// List, set up or remove accounts.
    Accounts(AccountsRequest),
    /// List, set up or remove teams.
    Teams(TeamsRequest),
    /// Show what administrators changed.
    Audit(AuditRequest),
    /// Compare what another configuration would have chosen.
    Diff(DiffCommand),
    /// Repeat a recorded decision.
    Replay(ReplayRequest),
    /// Export, verify or compact the ledger on disk.
    Ledger(LedgerPlace, LedgerCommand),
    /// Show every key of the configuration with its value.
    ShowConfig {
        /// The configuration named on the command line.
        config: Option<PathBuf>,
        /// Print JSON.
        json: bool,
    },
    /// Show every default and the built-in catalogue.
    ShowDefaults {
        /// Print JSON.
        json: bool,
    },
    /// Print this text: help or version.
    Print(String),
}

/// Why a command line is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pointsman: {}", self.0)
    }
}

impl std::error::Error for UsageError {}

impl Command {
    /// Parses the arguments, without the name of the program.
    ///
    /// # Errors
    /// When an argument is unknown, incomplete, given twice, or does not belong to its command.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
        let name = OsString::from("pointsman");
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let page = help_of(&arguments);
        match Arguments::try_parse_from(std::iter::once(name).chain(arguments)) {
            Ok(arguments) => {
                Command::from_arguments(arguments).map_err(|UsageError(why)| UsageError(format!("{why}; see '{page}'")))
            }
            Err(error) => match error.kind() {
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Ok(Command::Print(error.to_string())),
                _ => Err(UsageError(format!("{}; see '{page}'", reason(&error)))),
            },
        }
    }

    fn from_arguments(Arguments { config, command }: Arguments) -> Result<Command, UsageError> {
        let before = config.config;
        let path_of = |given: ConfigArgument| match (before.clone(), given.config) {
            (Some(_), Some(_)) => Err(UsageError("--config is given twice".to_owned())),
            (before, given) => Ok(before.or(given)),
        };
        let refuse_config = |command: &str| match &before {
            Some(_) => Err(UsageError(format!("--config does not belong to '{command}'"))),
            None => Ok(()),
        };
        match command {
            None => Ok(Command::Serve { config: before }),
            Some(Subcommands::Serve(given)) => Ok(Command::Serve { config: path_of(given)? }),
            Some(Subcommands::Check(mut request)) => {
                request.config = path_of(ConfigArgument { config: request.config.take() })?;
                Ok(Command::Check(request))
            }
            Some(Subcommands::Config(ConfigCommand::Show { defaults: true, json, .. })) => {
                refuse_config("config show --defaults").map(|()| Command::ShowDefaults { json })
            }
            Some(Subcommands::Config(ConfigCommand::Show { config, json, .. })) => {
                Ok(Command::ShowConfig { config: path_of(config)?, json })
            }
            Some(Subcommands::Keygen { name, json }) => {
                refuse_config("keygen").map(|()| Command::Keygen { name, json })
            }
            Some(Subcommands::Connect(request)) => refuse_config("connect").map(|()| Command::Connect(request)),
            Some(Subcommands::Init(request)) => refuse_config("init").map(|()| Command::Init(request)),
            Some(Subcommands::Doctor(mut request)) => {
                request.config = path_of(ConfigArgument { config: request.config.take() })?;
                Ok(Command::Doctor(request))
            }
            Some(Subcommands::Diff(mut request)) => {
                request.config = path_of(ConfigArgument { config: request.config.take() })?;
                Ok(Command::Diff(request))
            }
            Some(Subcommands::Models(mut request)) => {
                request.config = path_of(ConfigArgument { config: request.config.take() })?;
                Ok(Command::Models(request))
            }
            Some(Subcommands::Catalog(mut request)) => {
                let given = request.config_mut();
                *given = path_of(ConfigArgument { config: given.take() })?;
                Ok(Command::Catalog(request))
            }
            Some(Subcommands::Explain(request)) => refuse_config("explain").map(|()| Command::Explain(request)),
            Some(Subcommands::Preview(request)) => refuse_config("preview").map(|()| Command::Preview(request)),
            Some(Subcommands::Spend(request)) => refuse_config("spend").map(|()| Command::Spend(request)),
            Some(Subcommands::Logs(request)) => refuse_config("logs").map(|()| Command::Logs(request)),
            Some(Subcommands::Health(mut request)) => {
                request.config = path_of(ConfigArgument { config: request.config.take() })?;
                Ok(Command::Health(request))
            }
            Some(Subcommands::Reload(request)) => refuse_config("reload").map(|()| Command::Reload(request)),
            Some(Subcommands::Alerts(request)) => refuse_config("alerts").map(|()| Command::Alerts(request)),
            Some(Subcommands::Schema) => refuse_config("schema").map(|()| Command::Print(schema())),
            Some(Subcommands::Completions { shell }) => {
                refuse_config("completions").map(|()| Command::Print(reference::completions(shell)))
            }
            Some(Subcommands::Licenses) => {
                refuse_config("licenses").map(|()| Command::Print(licenses::TEXT.to_owned()))
            }
            Some(Subcommands::Man) => refuse_config("man").map(|()| Command::Print(reference::man())),
            Some(Subcommands::Keys(mut request)) => {
                request.place.config = path_of(ConfigArgument { config: request.place.config.take() })?;
                Ok(Command::Keys(request))
            }
            Some(Subcommands::Accounts(mut request)) => {
                request.place.config = path_of(ConfigArgument { config: request.place.config.take() })?;
                Ok(Command::Accounts(request))
            }
            Some(Subcommands::Teams(mut request)) => {
                request.place.config = path_of(ConfigArgument { config: request.place.config.take() })?;
                Ok(Command::Teams(request))
            }
            Some(Subcommands::Audit(mut request)) => {
                request.place.config = path_of(ConfigArgument { config: request.place.config.take() })?;
                Ok(Command::Audit(request))
            }
            Some(Subcommands::Replay(request)) => match (refuse_config("replay")?, ReplayRequest::from(request)) {
                ((), ReplayRequest { generation: None, file: None, .. }) => {
                    Err(UsageError("replay needs the id of a generation, or --file".to_owned()))
                }
                ((), request) => Ok(Command::Replay(request)),
            },
            Some(Subcommands::Ledger(command)) => {
                let (place, command) = command.parts();
                let config = path_of(ConfigArgument { config: place.config })?;
                Ok(Command::Ledger(LedgerPlace { config, ..place }, command))
            }
            Some(Subcommands::Version) => Ok(Command::Print(VERSION.to_owned())),
        }
    }
}

const VERSION: &str = concat!("pointsman ", env!("CARGO_PKG_VERSION"), "\n");

/// The help that belongs to a command line: that of its command, as far as it names one.
fn help_of(arguments: &[OsString]) -> String {
    let mut page = "pointsman".to_owned();
    let mut command = Arguments::command();
    for word in arguments.iter().filter_map(|argument| argument.to_str()) {
        if let Some(below) = command.find_subcommand(word).cloned() {
            page.push_str(&format!(" {word}"));
            command = below;
        }
    }
    format!("{page} --help")
}

/// The error message of clap, in one line.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    // What follows it names the help a second time.
    let message: Vec<&str> =
        lines.filter(|line| !line.is_empty()).take_while(|line| !line.starts_with("For more information")).collect();
    joined(&message).trim_start_matches("error: ").to_owned()
}

/// Lines as one: a list follows its colon, everything else a semicolon.
fn joined(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(if text.is_empty() {
            ""
        } else if text.ends_with(':') {
            " "
        } else {
            "; "
        });
        text.push_str(line);
    }
    text
}

/// The step after [`run`].
#[derive(Debug)]
pub enum Next {
    /// Start the server with this configuration.
    Serve(Box<LoadedConfig>),
    /// Print the output and exit.
    Finish(CommandOutput),
    /// Exit: the output was printed already.
    Exit(ExitCode),
}

/// Output of a command that needs no server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// What to print.
    pub text: String,
    /// Exit code; above [`EXIT_DIFFERENT`] the text goes to standard error, unless it is JSON.
    pub code: u8,
}

impl CommandOutput {
    /// Prints the text and returns the exit code. Talk goes to stderr, a result to stdout: JSON is one, whatever it tells.
    #[must_use]
    pub fn print(&self) -> ExitCode {
        // A closed pipe (`pointsman check | head`) is not an error.
        let _ = if self.code <= EXIT_DIFFERENT || self.text.starts_with('{') {
            std::io::stdout().lock().write_all(self.text.as_bytes())
        } else {
            std::io::stderr().lock().write_all(self.text.as_bytes())
        };
        ExitCode::from(self.code)
    }
}

/// Runs the command, up to the point where a server is needed. Prints nothing, except for commands with endless output.
pub fn run(arguments: impl IntoIterator<Item = OsString>, environment: &Environment) -> Next {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_diff = help_of(&arguments) == "pointsman diff --help";
    let output = match Command::parse(arguments) {
        Err(fault) if is_diff => CommandOutput { text: format!("{fault}\n"), code: diff::EXIT_USAGE },
        Err(fault) => failure(format!("{fault}\n")),
        Ok(Command::Serve { config }) => match load(config.as_deref(), environment) {
            Ok(config) => return Next::Serve(Box::new(config)),
            Err(output) => output,
        },
        Ok(Command::Check(request)) => check::run(&request, environment),
        Ok(Command::Keygen { name, json: false }) => success(NewKey::random().report(&name)),
        Ok(Command::Keygen { name, json: true }) => success(NewKey::random().json(&name)),
        Ok(Command::Connect(request)) => connect::run(&request, environment),
        Ok(Command::Init(request)) => init::run(&request, environment),
        Ok(Command::Doctor(request)) => doctor::run(&request, environment),
        Ok(Command::Models(request)) => models::run(&request, environment),
        Ok(Command::Catalog(request)) => catalog::run(&request, environment),
        Ok(Command::Explain(request)) => explain::explain(&request, environment),
        Ok(Command::Preview(request)) => explain::preview(&request, environment),
        Ok(Command::Logs(request)) => logs::run(&request, environment),
        Ok(Command::Spend(request)) => spend::run(&request, environment),
        Ok(Command::Health(request)) => health::run(&request, environment),
        Ok(Command::Reload(request)) => reload::run(&request, environment),
        Ok(Command::Alerts(request)) => alerts::run(&request, environment),
        Ok(Command::Keys(request)) => keys::run(&request, environment),
        Ok(Command::Accounts(request)) => holders::accounts(&request, environment),
        Ok(Command::Teams(request)) => holders::teams(&request, environment),
        Ok(Command::Audit(request)) => audit::run(&request, environment),
        Ok(Command::Diff(command)) => match diff::run(&command, environment) {
            Ok(report) => {
                // A report is a result, whatever it says.
                let _ = std::io::stdout().lock().write_all(report.text.as_bytes());
                return Next::Exit(ExitCode::from(report.code));
            }
            Err(output) => output,
        },
        Ok(Command::Replay(request)) => replay::run(&request, environment),
        Ok(Command::Ledger(place, command)) => {
            let mut output = BufWriter::new(std::io::stdout().lock());
            return Next::Exit(ledger::run(&place, &command, environment, &mut output));
        }
        Ok(Command::ShowConfig { config, json }) => Config::show(config.as_deref(), environment)
            .map_or_else(|faults| failure(report(&faults)), |shown| success(if json { values(&shown) } else { shown })),
        Ok(Command::ShowDefaults { json }) => {
            let shown = Config::show_defaults();
            success(if json { values(&shown) } else { shown })
        }
        Ok(Command::Print(text)) => success(text),
    };
    Next::Finish(output)
}

/// The values of a configuration as JSON.
fn values(shown: &str) -> String {
    let values: toml::Table = toml::from_str(shown).unwrap_or_default();
    format!("{:#}\n", serde_json::json!(values))
}

fn load(path: Option<&Path>, environment: &Environment) -> Result<LoadedConfig, CommandOutput> {
    Config::load(path, environment).map_err(|faults| failure(report(&faults)))
}

fn success(text: String) -> CommandOutput {
    CommandOutput { text, code: 0 }
}

fn failure(text: String) -> CommandOutput {
    CommandOutput { text, code: EXIT_CONFIGURATION }
}

/// Whether a person agrees; `None` where nobody can be asked, because there is no terminal.
fn is_agreed(question: &str) -> Option<bool> {
    let mut talk = std::io::stderr();
    if !(talk.is_terminal() && std::io::stdin().is_terminal()) {
        return None;
    }
    let _ = write!(talk, "{question} [y/N] ").and_then(|()| talk.flush());
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Some(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// All faults, one per line, and their number.
#[must_use]
pub fn report(faults: &[Fault]) -> String {
    let lines: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    let count = if faults.len() == 1 { "1 fault".to_owned() } else { format!("{} faults", faults.len()) };
    format!("{lines}\nThe configuration has {count}. docs/CONFIG.md in the repository describes every key.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, UsageError> {
        Command::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn a_wrong_command_line_names_the_help_of_its_command() {
        for (line, help) in [
            ("explain --lst", "'pointsman explain --help'"),
            ("keys create", "'pointsman keys create --help'"),
            ("-c x.toml replay", "'pointsman replay --help'"),
            ("chekc", "'pointsman --help'"),
        ] {
            let fault = parse(line).unwrap_err().to_string();
            assert!(fault.ends_with(help) && fault.matches("--help").count() == 1, "{fault}");
        }
    }

    #[test]
    fn a_command_line_becomes_a_command() {
        let file = || Some(PathBuf::from("x.toml"));
        for (line, command) in [
            ("", Command::Serve { config: None }),
            ("serve", Command::Serve { config: None }),
            ("--config x.toml", Command::Serve { config: file() }),
            ("serve --config=x.toml", Command::Serve { config: file() }),
            ("-c x.toml check", Command::Check(CheckRequest { config: file(), ..CheckRequest::default() })),
            ("check --json", Command::Check(CheckRequest { json: true, ..CheckRequest::default() })),
            ("keygen", Command::Keygen { name: "my-key".to_owned(), json: false }),
            ("keygen --name team --json", Command::Keygen { name: "team".to_owned(), json: true }),
            ("replay gen-1-x --url http://h --key-env K", {
                let given = |text: &str| Some(text.to_owned());
                let (generation, url, key_env) = (given("gen-1-x"), given("http://h"), given("K"));
                Command::Replay(ReplayRequest { generation, url, key_env, ..ReplayRequest::default() })
            }),
            ("replay --file x.toml", Command::Replay(ReplayRequest { file: file(), ..ReplayRequest::default() })),
            ("config show", Command::ShowConfig { config: None, json: false }),
            ("config show --effective -c x.toml", Command::ShowConfig { config: file(), json: false }),
            ("config show --defaults --json", Command::ShowDefaults { json: true }),
            ("ledger export --data-dir d --format csv --status failed", {
                let place = LedgerPlace { data_dir: Some(PathBuf::from("d")), ..LedgerPlace::default() };
                let conditions = vec![("status", "failed".to_owned())];
                Command::Ledger(place, LedgerCommand::Export { format: ExportFormat::Csv, conditions })
            }),
            ("-c x.toml ledger verify --json", {
                let place = LedgerPlace { config: file(), ..LedgerPlace::default() };
                Command::Ledger(place, LedgerCommand::Verify { json: true })
            }),
            ("ledger verify --url http://h --key-env K", {
                let given = |text: &str| Some(text.to_owned());
                let place = LedgerPlace { url: given("http://h"), key_env: given("K"), ..LedgerPlace::default() };
                Command::Ledger(place, LedgerCommand::Verify { json: false })
            }),
            ("ledger compact", Command::Ledger(LedgerPlace::default(), LedgerCommand::Compact { json: false })),
            ("version", Command::Print(VERSION.to_owned())),
            ("licenses", Command::Print(licenses::TEXT.to_owned())),
            ("-V", Command::Print(VERSION.to_owned())),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn an_invalid_command_line_is_refused_with_the_reason() {
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
            (
                "logs --jsn",
                "unexpected argument '--jsn' found; tip: a similar argument exists: '--json'; see 'pointsman logs",
            ),
            ("models --url", "'--url <URL>' but none was supplied; see 'pointsman models --help'"),
            ("keys create", "the following required arguments were not provided: <NAME>; see"),
            ("replay a -c b", "unexpected argument '-c'"),
            ("ledger compact --url http://h", "unexpected argument '--url'"),
            ("ledger export --key-env K", "--url"),
            ("-c a ledger export -c b", "--config is given twice"),
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
            ("ledger", "compact"),
            ("ledger export --help", "--since <TIME>"),
            ("ledger verify --help", "--data-dir <DIR>"),
        ] {
            let Ok(Command::Print(help)) = parse(line) else { panic!("{line}") };
            assert!(help.contains(holds), "{line}: {help}");
            let widest = help.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(110), "{line}: {widest:?}");
        }
    }
}
