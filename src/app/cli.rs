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
mod config_argument;
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
mod promote;
mod quality;
mod recorded_traffic;
mod reference;
mod regret;
mod reload;
mod replay;
mod spend;

use std::{
    ffi::OsString,
    fmt,
    io::{BufRead as _, BufWriter, IsTerminal as _, Write},
    path::Path,
    process::ExitCode,
};

use clap::{CommandFactory as _, Parser, error::ErrorKind};
use pointsman_config::{Config, Environment, Fault, LoadedConfig, schema};

use self::arguments::{Arguments, ConfigCommand, Subcommands};
use crate::base::licenses;

pub use check::summary;
pub use keygen::NewKey;
pub use reference::complete;

/// Exit code when a replayed decision differs from the recorded one, a gateway is not ready, the ledger has a fault, or a
/// receiver of alerts does not take a test.
pub const EXIT_DIFFERENT: u8 = 1;
/// Exit code when the command line or the configuration is invalid.
pub const EXIT_CONFIGURATION: u8 = 2;
/// Exit code when the address cannot be listened on.
pub const EXIT_BIND: u8 = 3;
/// Exit code when a gateway cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 4;

/// Parses the arguments, without the name of the program. `Err` is what is to be printed: a help text, or why the command line
/// is invalid.
fn parse(arguments: &[OsString]) -> Result<Arguments, CommandOutput> {
    let page = help_of(arguments);
    let has_own_codes = ["diff", "estimate", "regret"].iter().any(|name| page == format!("pointsman {name} --help"));
    let code = if has_own_codes { recorded_traffic::EXIT_USAGE } else { EXIT_CONFIGURATION };
    let invalid = |why: String| CommandOutput { text: format!("pointsman: {why}; see '{page}'\n"), code };
    let parsed = Arguments::try_parse_from(std::iter::once(&OsString::from("pointsman")).chain(arguments));
    let mut parsed = parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            success(error.to_string())
        }
        _ => invalid(reason(&error)),
    })?;
    let (Some(before), Some(command)) = (&parsed.config.config, &mut parsed.command) else { return Ok(parsed) };
    match command.config() {
        Some(Some(_)) => Err(invalid("--config is given twice".to_owned())),
        Some(given) => {
            *given = Some(before.clone());
            Ok(parsed)
        }
        None => {
            let name = page.trim_start_matches("pointsman ").trim_end_matches(" --help");
            let option = if name == "config show" { " --defaults" } else { "" };
            Err(invalid(format!("--config does not belong to '{name}{option}'")))
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

/// Options of other servers that say where to listen.
const ADDRESS_OPTIONS: [&str; 5] = ["'--port'", "'--host'", "'--bind'", "'--listen'", "'-p'"];

/// The error message of clap, in one line.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    if let Some(option) = ADDRESS_OPTIONS.into_iter().find(|option| text.contains(&format!("argument {option} found")))
    {
        return format!(
            "unexpected argument {option} found; set server.bind in the configuration, or POINTSMAN__SERVER__BIND=127.0.0.1:8080"
        );
    }
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

/// What a command says at its end; `Err` where it cannot do its work.
type Finished = Result<CommandOutput, CommandOutput>;

/// Runs the command, up to the point where a server is needed. Prints nothing, except for commands with endless output.
pub fn run(arguments: impl IntoIterator<Item = OsString>, environment: &Environment) -> Next {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let finished = match parse(&arguments) {
        Err(output) => Err(output),
        Ok(Arguments { config, command: None } | Arguments { command: Some(Subcommands::Serve(config)), .. }) => {
            match load(config.config.as_deref(), environment) {
                Ok(config) => return Next::Serve(Box::new(config)),
                Err(output) => Err(output),
            }
        }
        Ok(Arguments { command: Some(command), .. }) => match command {
            Subcommands::Diff(command) => return reported("diff", diff::run(&command, environment)),
            Subcommands::Estimate(command) => return reported("estimate", diff::estimate(&command, environment)),
            Subcommands::Regret(command) => return reported("regret", regret::run(&command, environment)),
            Subcommands::Ledger(command) => {
                let mut output = BufWriter::new(std::io::stdout().lock());
                return Next::Exit(ledger::run(&command, environment, &mut output));
            }
            command => finish(&command, environment),
        },
    };
    Next::Finish(finished.unwrap_or_else(|output| output))
}

/// A report is a result, whatever it says.
fn reported(command: &str, finished: Finished) -> Next {
    match finished {
        Ok(report) => {
            let _ = std::io::stdout().lock().write_all(report.text.as_bytes());
            Next::Exit(ExitCode::from(report.code))
        }
        Err(output) => Next::Finish(recorded_traffic::with_help(command, output)),
    }
}

fn finish(command: &Subcommands, environment: &Environment) -> Finished {
    match command {
        Subcommands::Check(request) => Ok(check::run(request, environment)),
        Subcommands::Keygen { name, json: false } => Ok(success(NewKey::random().report(name))),
        Subcommands::Keygen { name, json: true } => Ok(success(NewKey::random().json(name))),
        Subcommands::Connect(request) => connect::run(request, environment),
        Subcommands::Init(request) => init::run(request, environment),
        Subcommands::Doctor(request) => doctor::run(request, environment),
        Subcommands::Models(request) => models::run(request, environment),
        Subcommands::Catalog(request) => catalog::run(request, environment),
        Subcommands::Quality(request) => quality::run(request, environment),
        Subcommands::Explain(request) => explain::explain(request, environment),
        Subcommands::Preview(request) => explain::preview(request, environment),
        Subcommands::Logs(request) => logs::run(request, environment),
        Subcommands::Spend(request) => spend::run(request, environment),
        Subcommands::Health(request) => health::run(request, environment),
        Subcommands::Reload(request) => reload::run(request, environment),
        Subcommands::Promote(request) => promote::run(request, environment),
        Subcommands::Alerts(request) => alerts::run(request, environment),
        Subcommands::Keys(request) => keys::run(request, environment),
        Subcommands::Accounts(request) => holders::accounts(request, environment),
        Subcommands::Teams(request) => holders::teams(request, environment),
        Subcommands::Audit(request) => audit::run(request, environment),
        Subcommands::Replay(request) => replay::run(request, environment),
        Subcommands::Config(ConfigCommand::Show { config, defaults, json, .. }) => {
            let shown = match defaults {
                true => Config::show_defaults(),
                false => {
                    Config::show(config.config.as_deref(), environment).map_err(|faults| failure(report(&faults)))?
                }
            };
            Ok(success(if *json { values(&shown) } else { shown }))
        }
        Subcommands::Schema => Ok(success(schema())),
        Subcommands::Completions { shell } => Ok(success(reference::completions(*shell))),
        Subcommands::Man => Ok(success(reference::man())),
        Subcommands::Licenses => Ok(success(licenses::TEXT.to_owned())),
        Subcommands::Version
        | Subcommands::Serve(_)
        | Subcommands::Diff(_)
        | Subcommands::Estimate(_)
        | Subcommands::Regret(_)
        | Subcommands::Ledger(_) => Ok(success(VERSION.to_owned())),
    }
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

/// Why the command cannot do its work.
fn refused(why: impl fmt::Display) -> CommandOutput {
    failure(format!("pointsman: {why}\n"))
}

impl From<String> for CommandOutput {
    fn from(why: String) -> CommandOutput {
        refused(why)
    }
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
pub fn report(faults: &[Fault]) -> String {
    let lines: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    let count = if faults.len() == 1 { "1 fault".to_owned() } else { format!("{} faults", faults.len()) };
    format!("{lines}\nThe configuration has {count}. docs/CONFIG.md in the repository describes every key.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, CommandOutput> {
        super::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    /// What is said about a command line that is not run.
    fn said(line: &str) -> String {
        parse(line).map_or_else(|output| output.text.trim_end().to_owned(), |arguments| format!("{arguments:?}"))
    }

    #[test]
    fn a_wrong_command_line_names_the_help_of_its_command() {
        for (line, help) in [
            ("explain --lst", "'pointsman explain --help'"),
            ("keys create", "'pointsman keys create --help'"),
            ("-c x.toml replay", "'pointsman replay --help'"),
            ("chekc", "'pointsman --help'"),
        ] {
            let fault = said(line);
            assert!(fault.ends_with(help) && fault.matches("--help").count() == 1, "{fault}");
        }
    }

    #[test]
    fn a_command_line_becomes_a_command() {
        for (line, parsed) in [
            ("", "config: None }, command: None"),
            ("serve", "command: Some(Serve(ConfigArgument { config: None }))"),
            ("--config x.toml", "config: Some(\"x.toml\") }, command: None"),
            ("serve --config=x.toml", "Serve(ConfigArgument { config: Some(\"x.toml\") })"),
            ("-c x.toml serve", "Serve(ConfigArgument { config: Some(\"x.toml\") })"),
            ("-c x.toml check", "Check(CheckRequest { config: Some(\"x.toml\"), json: false"),
            ("check --json", "Check(CheckRequest { config: None, json: true"),
            ("keygen", "Keygen { name: \"my-key\", json: false }"),
            ("keygen --name team --json", "Keygen { name: \"team\", json: true }"),
            (
                "replay gen-1-x --url http://h --key-env K",
                "Replay(ReplayRequest { generation: Some(\"gen-1-x\"), url: Some(\"http://h\"), key_env: Some(\"K\"), file: None",
            ),
            ("replay --file x.toml", "generation: None, url: None, key_env: None, file: Some(\"x.toml\")"),
            ("config show --effective -c x.toml", "config: Some(\"x.toml\") }, effective: true, defaults: false"),
            ("-c x.toml config show", "Show { config: ConfigArgument { config: Some(\"x.toml\") }"),
            ("config show --defaults --json", "defaults: true, json: true"),
            ("ledger export --data-dir d --format csv --status failed", "data_dir: Some(\"d\")"),
            ("ledger export --data-dir d --format csv --status failed", "format: Csv"),
            ("-c x.toml ledger verify --json", "config: Some(\"x.toml\") }, data_dir: None"),
            ("-c x.toml ledger compact", "Compact { config: ConfigArgument { config: Some(\"x.toml\") }"),
            ("ledger verify --url http://h --key-env K", "url: Some(\"http://h\"), key_env: Some(\"K\")"),
            ("version", "command: Some(Version)"),
            ("-V", VERSION.trim_end()),
        ] {
            assert!(said(line).contains(parsed), "{line}: {}", said(line));
        }
    }

    #[test]
    fn an_invalid_command_line_is_refused_with_the_reason() {
        for (line, reason) in [
            ("start", "unrecognized subcommand 'start'"),
            ("serve check", "unexpected argument 'check'"),
            ("--port 80", "unexpected argument '--port' found; set server.bind in the configuration"),
            ("--config", "a value is required for '--config <FILE>'"),
            ("-c a -c b", "'--config <FILE>' cannot be used multiple times"),
            ("-c a check -c b", "--config is given twice"),
            ("keygen --config a", "unexpected argument '--config'"),
            ("-c a keygen", "--config does not belong to 'keygen'"),
            ("check --name a", "unexpected argument '--name'"),
            ("serve --url a", "unexpected argument '--url'"),
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
            let shown = said(line);
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
            let help = said(line);
            assert!(help.contains(holds), "{line}: {help}");
            let widest = help.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(110), "{line}: {widest:?}");
        }
    }
}
