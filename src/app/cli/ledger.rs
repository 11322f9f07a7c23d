//! `ledger export`, `verify` and `compact`: what an operator does with the ledger on disk.
//!
//! Without `--url` they work on the directory of a stopped gateway. The directory is locked for as long as they run. `export`
//! and `verify` change nothing in it: what the journal holds is taken over in memory only. A running gateway is asked through
//! its admin listener, page by page.

mod export;
mod remote;
mod strip;
mod verify;

use std::{
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand};
use pointsman_config::{Config, Environment};
use pointsman_ledger::{accounts::AccountLog, disk::SystemDisk, fault::Fault, inspection};

use super::{
    CommandOutput, EXIT_DIFFERENT, config_argument::ConfigArgument, gateway::ADMIN_KEY_VARIABLE, refused, report,
    success,
};
use crate::{access::keys::KeyTable, state::accounts};

/// The ledger: a directory of a stopped gateway, or a running gateway.
#[derive(Debug, Default, Args)]
pub(super) struct LedgerPlace {
    #[command(flatten)]
    config: ConfigArgument,
    /// Ledger of a stopped gateway; default: ledger.data_dir of the configuration
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Running gateway instead: its admin address, such as http://127.0.0.1:8081
    #[arg(long, conflicts_with_all = ["data_dir", "config"])]
    url: Option<String>,
    /// Environment variable with an administrator's key; default: POINTSMAN_ADMIN_KEY
    #[arg(long, value_name = "NAME", requires = "url")]
    key_env: Option<String>,
}

/// Form of exported records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ExportFormat {
    /// One JSON object per line.
    #[default]
    Jsonl,
    /// One row per record, after a row of names.
    Csv,
}

/// What to do with the ledger.
#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Write records to stdout, newest first, one per line
    Export(ExportArguments),
    /// Read every record, and compare the sums of the activity with the records
    Verify {
        #[command(flatten)]
        place: LedgerPlace,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give free space of the file back to the disk; the gateway must be stopped
    Compact {
        #[command(flatten)]
        config: ConfigArgument,
        /// Directory of the ledger; default: ledger.data_dir of the configuration
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which records, and in which form.
#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    #[command(flatten)]
    place: LedgerPlace,
    /// Form of the records; costs are exact decimals in both
    #[arg(long, value_enum, default_value = "jsonl")]
    format: ExportFormat,
    /// Earliest time of a record: 2026-11-23T06:00:00Z, 2026-11-23 or Unix milliseconds
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Records before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Statuses, separated by commas: completed, failed, cancelled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// A file for 'pointsman diff' instead, without ids, keys, tags, sessions and addresses
    #[arg(long, requires = "out", conflicts_with_all = ["url", "status", "format"])]
    strip: bool,
    /// The file for --strip, such as traffic.pmx
    #[arg(long, value_name = "FILE", requires = "strip")]
    out: Option<PathBuf>,
    /// With --strip: about so many records, chosen by hashes of their ids
    #[arg(long, value_name = "N", requires = "strip")]
    sample: Option<u64>,
}

impl LedgerCommand {
    /// The configuration named behind the command.
    pub(super) fn config_mut(&mut self) -> &mut Option<PathBuf> {
        match self {
            LedgerCommand::Export(arguments) => &mut arguments.place.config.config,
            LedgerCommand::Verify { place, .. } => &mut place.config.config,
            LedgerCommand::Compact { config, .. } => &mut config.config,
        }
    }
}

impl From<io::Error> for CommandOutput {
    fn from(error: io::Error) -> CommandOutput {
        match error.kind() {
            // As for every command: nobody reads any more, which is not an error.
            io::ErrorKind::BrokenPipe => success(String::new()),
            _ => refused(format!("the output cannot be written: {error}")),
        }
    }
}

/// Runs the command. Results go to `output`, everything else to stderr.
pub(super) fn run(command: &LedgerCommand, environment: &Environment, output: &mut impl Write) -> ExitCode {
    let done = match command {
        LedgerCommand::Export(arguments) => match &arguments.out {
            Some(out) => strip::run(arguments, out, environment, output),
            None => export::run(arguments, environment, output),
        },
        LedgerCommand::Verify { place, json } => verify::run(place, *json, environment, output),
        LedgerCommand::Compact { config, data_dir, json } => {
            let place = LedgerPlace { config: config.clone(), data_dir: data_dir.clone(), ..LedgerPlace::default() };
            compact(&place, *json, environment, output)
        }
    };
    match done.and_then(|code| output.flush().map(|()| code).map_err(CommandOutput::from)) {
        Ok(code) => ExitCode::from(code),
        Err(CommandOutput { text, code }) => {
            let _ = io::stderr().write_all(text.as_bytes());
            ExitCode::from(code)
        }
    }
}

fn compact(
    place: &LedgerPlace,
    json: bool,
    environment: &Environment,
    output: &mut impl Write,
) -> Result<u8, CommandOutput> {
    let (path, _) = directory(place, environment)?;
    let done = inspection::compact(&path).map_err(|fault| failed(&fault, "compact"))?;
    let freed = done.before.saturating_sub(done.after);
    if json {
        let page = serde_json::json!({
            "directory": path, "bytes_before": done.before, "bytes_after": done.after, "bytes_given_back": freed,
        });
        writeln!(output, "{page:#}")?;
        return Ok(0);
    }
    writeln!(output, "{}: {} bytes before, {} after, {freed} given back", path.display(), done.before, done.after)?;
    Ok(0)
}

/// The directory, and the keys of the configuration if it can be read.
fn directory(place: &LedgerPlace, environment: &Environment) -> Result<(PathBuf, Option<KeyTable>), CommandOutput> {
    let config = match Config::load(place.config.config.as_deref(), environment) {
        Ok(loaded) => Some(loaded.config),
        // A named directory can be read without a configuration: only the names of keys are missing.
        Err(_) if place.data_dir.is_some() && place.config.config.is_none() => None,
        Err(faults) => return Err(refused(report(&faults))),
    };
    let configured = config.as_ref().and_then(|config| config.ledger.data_dir.clone());
    let path = place.data_dir.clone().or(configured);
    let path = path.ok_or_else(|| refused("no directory is configured; name one with --data-dir"))?;
    let keys = config.as_ref().and_then(|config| keys(config, &path));
    Ok((path, keys))
}

/// The configured keys and those issued in the directory. `None` if the issued keys cannot be read.
pub(super) fn keys(config: &Config, path: &Path) -> Option<KeyTable> {
    let log = AccountLog::open(Arc::new(SystemDisk::new(path))).ok()?;
    let registry = accounts::registry(&config.limits, Some(log)).ok()?;
    registry.adopt(config);
    Some(KeyTable::new(config, None, registry.issued_table(), |key| registry.configured_caller(key)))
}

/// Says why the directory cannot be used, and how it can.
fn failed(fault: &Fault, command: &str) -> CommandOutput {
    match fault {
        Fault::InUse(path) if command == "compact" => refused(format!(
            "{path} is in use by a running gateway, which gives space back by itself when an eighth of the file is free; \
             stop it, and run this again"
        )),
        Fault::InUse(path) => refused(format!(
            "{path} is in use by a running gateway; ask it through its admin listener, with an administrator's key in \
             {ADMIN_KEY_VARIABLE}: pointsman ledger {command} --url http://127.0.0.1:8081"
        )),
        Fault::NoLedger(_) => {
            refused(format!("{fault}; name the gateway's ledger.data_dir with --data-dir, or its configuration"))
        }
        Fault::Damaged(_) => CommandOutput { code: EXIT_DIFFERENT, ..refused(fault) },
        _ => refused(fault),
    }
}

fn note(message: &str) {
    let _ = writeln!(io::stderr(), "pointsman: {message}");
}

/// Tells on stderr how far a long command is: after the first second, then each second on a terminal and every ten seconds
/// elsewhere.
struct Progress {
    next: Instant,
    terminal: bool,
}

impl Progress {
    fn new() -> Progress {
        Progress { next: Instant::now() + Duration::from_secs(1), terminal: io::stderr().is_terminal() }
    }

    fn tell(&mut self, records: u64) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + Duration::from_secs(if self.terminal { 1 } else { 10 });
            note(&format!("{records} records so far"));
        }
    }
}
