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

use pointsman_config::{Config, Environment};
use pointsman_ledger::{accounts::AccountLog, disk::SystemDisk, fault::Fault, inspection};

use super::{EXIT_CONFIGURATION, EXIT_DIFFERENT, EXIT_UNREACHABLE, report};
use crate::{access::keys::KeyTable, state::accounts};

/// The ledger of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LedgerPlace {
    /// The configuration named on the command line.
    pub config: Option<PathBuf>,
    /// The directory, instead of that of the configuration.
    pub data_dir: Option<PathBuf>,
    /// A running gateway's admin listener, instead of a directory.
    pub url: Option<String>,
    /// Environment variable with an administrator's key.
    pub key_env: Option<String>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerCommand {
    /// Write records to stdout, newest first.
    Export {
        /// Their form.
        format: ExportFormat,
        /// Conditions: `since`, `until`, `status` and their values.
        conditions: Vec<(&'static str, String)>,
    },
    /// Write a file of records without names.
    Strip {
        /// Records from this time on.
        since: Option<String>,
        /// Records before this time.
        until: Option<String>,
        /// About so many of them.
        sample: Option<u64>,
        /// The file.
        out: PathBuf,
    },
    /// Read every record, and compare the sums with them.
    Verify {
        /// Print the result as JSON.
        json: bool,
    },
    /// Give free space back to the disk.
    Compact {
        /// Print JSON.
        json: bool,
    },
}

/// Why a command failed.
#[derive(Debug)]
enum Failed {
    /// The command line, the configuration, or a ledger that cannot be used.
    Refused(String),
    /// The gateway does not answer.
    Unreachable(String),
    /// Stored data is damaged.
    Damaged(String),
    /// Nobody reads the output any more.
    Closed,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failed::Closed,
            _ => Failed::Refused(format!("the output cannot be written: {error}")),
        }
    }
}

/// Runs the command. Results go to `output`, everything else to stderr.
pub fn run(
    place: &LedgerPlace,
    command: &LedgerCommand,
    environment: &Environment,
    output: &mut impl Write,
) -> ExitCode {
    let done = match command {
        LedgerCommand::Export { format, conditions } => export::run(place, *format, conditions, environment, output),
        LedgerCommand::Strip { since, until, sample, out } => {
            strip::run(place, (since.as_deref(), until.as_deref()), *sample, out, environment, output)
        }
        LedgerCommand::Verify { json } => verify::run(place, *json, environment, output),
        LedgerCommand::Compact { json } => compact(place, *json, environment, output),
    };
    let done = done.and_then(|code| output.flush().map(|()| code).map_err(Failed::from));
    let (code, message) = match done {
        Ok(code) => (code, None),
        // As for every command: a closed pipe is not an error.
        Err(Failed::Closed) => (0, None),
        Err(Failed::Refused(message)) => (EXIT_CONFIGURATION, Some(message)),
        Err(Failed::Unreachable(message)) => (EXIT_UNREACHABLE, Some(message)),
        Err(Failed::Damaged(message)) => (EXIT_DIFFERENT, Some(message)),
    };
    if let Some(message) = message {
        note(&message);
    }
    ExitCode::from(code)
}

fn compact(place: &LedgerPlace, json: bool, environment: &Environment, output: &mut impl Write) -> Result<u8, Failed> {
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
fn directory(place: &LedgerPlace, environment: &Environment) -> Result<(PathBuf, Option<KeyTable>), Failed> {
    let config = match Config::load(place.config.as_deref(), environment) {
        Ok(loaded) => Some(loaded.config),
        // A named directory can be read without a configuration: only the names of keys are missing.
        Err(_) if place.data_dir.is_some() && place.config.is_none() => None,
        Err(faults) => return Err(Failed::Refused(report(&faults))),
    };
    let configured = config.as_ref().and_then(|config| config.ledger.data_dir.clone());
    let path = place.data_dir.clone().or(configured);
    let path =
        path.ok_or_else(|| Failed::Refused("no directory is configured; name one with --data-dir".to_owned()))?;
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
fn failed(fault: &Fault, command: &str) -> Failed {
    match fault {
        Fault::InUse(path) if command == "compact" => Failed::Refused(format!(
            "{path} is in use by a running gateway, which gives space back by itself when an eighth of the file is free; \
             stop it, and run this again"
        )),
        Fault::InUse(path) => Failed::Refused(format!(
            "{path} is in use by a running gateway; ask it through its admin listener, with an administrator's key in \
             POINTSMAN_API_KEY: pointsman ledger {command} --url http://127.0.0.1:8081"
        )),
        Fault::NoLedger(_) => Failed::Refused(format!(
            "{fault}; name the gateway's ledger.data_dir with --data-dir, or its configuration"
        )),
        Fault::Damaged(_) => Failed::Damaged(fault.to_string()),
        _ => Failed::Refused(fault.to_string()),
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
