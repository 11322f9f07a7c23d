//! `doctor`: whether this machine can serve. Configuration, clock, data directory, and one free call to each provider.
//!
//! The call reads the provider's list of models, which costs nothing and shows name resolution, connection, TLS and key
//! at once. A request for a generation is sent only with `--spend`, and no key is ever printed.

mod provider;
mod spend;

use std::{
    fmt::Write as _,
    fs,
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::Args;
use futures_util::future::join_all;
use pointsman_config::{Config, Environment};
use pointsman_domain::ProviderState;
use pointsman_ledger::{directory::Directory, fault::Fault as StoreFault};
use serde_json::{Value, json};

use super::{CommandOutput, EXIT_DIFFERENT, Finished, columns::count, names, refused};

/// What to check.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DoctorRequest {
    /// Configuration to read; default: ./config.toml if it exists, else the built-in one
    #[arg(id = "doctor_config", short = 'c', long = "config", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Only this provider; it must be on
    #[arg(long, value_name = "SLUG", add = names::providers())]
    provider: Option<String>,
    /// Call every endpoint once as well, which costs money: says at most how much, and asks on a terminal
    #[arg(long)]
    spend: bool,
    /// Do not ask before the calls of --spend
    #[arg(long, requires = "spend")]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pointsman_domain::named! {
    /// Result of a check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Status {
        Passed = "ok",
        /// Not a fault, but worth reading; does not change the exit code.
        Notice = "notice",
        /// Not checked, because it is switched off or an earlier check failed.
        Skipped = "skipped",
        Failed = "failed",
    }
}

/// One row: a check of a subject.
#[derive(Debug, Clone)]
struct Check {
    /// `configuration`, `machine` or the slug of a provider.
    subject: String,
    name: &'static str,
    status: Status,
    detail: String,
    remedy: Option<String>,
}

impl Check {
    fn new(subject: &str, name: &'static str, status: Status, detail: impl Into<String>) -> Check {
        Check { subject: subject.to_owned(), name, status, detail: detail.into(), remedy: None }
    }

    fn failed(subject: &str, name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..Check::new(subject, name, Status::Failed, detail) }
    }

    fn json(&self) -> Value {
        json!({
            "subject": self.subject,
            "check": self.name,
            "status": self.status.as_str(),
            "detail": self.detail,
            "remedy": self.remedy,
        })
    }
}

/// Runs all checks. The exit code is 1 if one failed.
pub(super) fn run(request: &DoctorRequest, environment: &Environment) -> Finished {
    let checks = match Config::load(request.config.as_deref(), environment) {
        Err(faults) => faults
            .iter()
            .map(|fault| Check::failed("configuration", "valid", fault.to_string(), "correct this key"))
            .collect(),
        Ok(loaded) => {
            let config = &loaded.config;
            if let Some(slug) = request.provider.as_deref().filter(|slug| !is_on(config, slug)) {
                let why = "is on; 'pointsman check' lists all and says why one is off";
                return Err(refused(format!("no provider '{slug}' {why}")));
            }
            let mut checks = all(config, request.provider.as_deref());
            if request.spend {
                checks.extend(paid(config, request, &checks));
            }
            checks
        }
    };
    let failed = checks.iter().filter(|check| check.status == Status::Failed).count();
    let text = if request.json {
        let rows: Vec<Value> = checks.iter().map(Check::json).collect();
        format!("{}\n", json!({ "ok": failed == 0, "failed": failed, "checks": rows }))
    } else {
        table(&checks, failed)
    };
    Ok(CommandOutput { text, code: if failed == 0 { 0 } else { EXIT_DIFFERENT } })
}

fn is_on(config: &Config, slug: &str) -> bool {
    config.providers.iter().any(|provider| provider.slug.as_str() == slug)
}

fn all(config: &Config, only: Option<&str>) -> Vec<Check> {
    let mut checks = vec![Check::new("configuration", "valid", Status::Passed, config.source.clone())];
    let warnings = config.warnings().iter();
    checks.extend(warnings.map(|warning| Check::new("configuration", "warning", Status::Notice, warning.to_string())));
    checks.push(clock(SystemTime::now()));
    checks.push(data_directory(config.ledger.durable_directory()));
    let catalog = config.catalog(1);
    let wanted = |slug: &str| only.is_none_or(|only| only == slug);
    let asked: Vec<_> = config.providers.iter().filter(|provider| wanted(provider.slug.as_str())).collect();
    if !asked.is_empty() && std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr(), "Asking {} for their models …", count(asked.len(), "provider"));
    }
    let calls = join_all(asked.iter().map(|provider| provider::check(provider, &catalog)));
    checks.extend(actix_web::rt::System::new().block_on(calls).into_iter().flatten());
    for provider in catalog.providers.iter().filter(|provider| only.is_none() && !provider.is_on()) {
        if let ProviderState::Off(why) = &provider.state {
            checks.push(Check::new(provider.slug.as_str(), "on", Status::Skipped, why.clone()));
        }
    }
    if config.providers.is_empty() {
        let detail = "no real provider is on; simulated ones need no check";
        checks.push(Check::new("configuration", "providers", Status::Notice, detail));
    }
    checks
}

/// One call of every endpoint, if the operator agrees to what they can cost. A provider of which a free check failed is not
/// called; models that its list lacks are, because the call tells more than the list.
fn paid(config: &Config, request: &DoctorRequest, free: &[Check]) -> Vec<Check> {
    let has_failed = |slug: &str| {
        free.iter().any(|check| check.subject == slug && check.status == Status::Failed && check.name != "models")
    };
    let (calls, mut checks) = spend::plan(config, &config.catalog(1), request.provider.as_deref(), has_failed);
    if calls.is_empty() {
        checks.push(Check::new("configuration", "calls", Status::Notice, "no endpoint can be called for money"));
    } else if spend::is_agreed(&calls, request.yes) {
        checks.extend(actix_web::rt::System::new().block_on(spend::run(config.clone(), &calls)));
    } else {
        checks.push(Check::new("configuration", "calls", Status::Skipped, "not made: you did not agree"));
    }
    checks
}

/// The clock of a machine that was never set stands years in the past.
fn clock(now: SystemTime) -> Check {
    /// 2026-01-01, seconds since 1970: before the first release.
    const EARLIEST: u64 = 1_767_225_600;
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let shown = httpdate::fmt_http_date(now);
    if seconds < EARLIEST {
        return Check::failed("machine", "clock", format!("says {shown}"), "set the clock, for example by NTP");
    }
    Check::new("machine", "clock", Status::Passed, shown)
}

/// Whether records can be stored. Makes no directory; a file that is made to try is removed at once.
fn data_directory(path: Option<&Path>) -> Check {
    let check = |status, detail: String| Check::new("machine", "data directory", status, detail);
    let Some(path) = path else {
        return check(Status::Notice, "records are in memory only (ledger.durability = \"off\")".to_owned());
    };
    let shown = path.display();
    let failed = |why: String| {
        let remedy = "give this user the directory, or name another in ledger.data_dir";
        Check::failed("machine", "data directory", format!("{shown}: {why}"), remedy)
    };
    match Directory::open_existing(path) {
        Err(StoreFault::InUse(_)) => return check(Status::Passed, format!("{shown} is in use by a running gateway")),
        Err(StoreFault::NoLedger(_)) | Ok(_) => {}
        Err(fault) => return failed(fault.to_string()),
    }
    let Some(existing) = path.ancestors().find(|folder| folder.as_os_str().is_empty() || folder.exists()) else {
        return failed("no part of the path exists".to_owned());
    };
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let probe = existing.join(format!(".pointsman-doctor-{}", std::process::id()));
    if let Err(error) = fs::OpenOptions::new().write(true).create_new(true).open(&probe) {
        return failed(format!("{} cannot be written: {error}", existing.display()));
    }
    let _ = fs::remove_file(&probe);
    let detail = if existing == path { "can be written" } else { "will be made at the first start" };
    check(Status::Passed, format!("{shown} {detail}"))
}

fn table(checks: &[Check], failed: usize) -> String {
    let mut text = String::new();
    let width = checks.iter().map(|check| check.subject.chars().count()).max().unwrap_or(0).max(14);
    for check in checks {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<8} {:<width$} {:<15} {}",
            check.status.as_str(),
            check.subject,
            check.name,
            printable(&check.detail)
        );
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "{:indent$}-> {remedy}", "", indent = width + 26);
        }
    }
    let verdict =
        if failed == 0 { "Nothing is wrong.".to_owned() } else { format!("{} failed.", count(failed, "check")) };
    let _ = writeln!(text, "\n{verdict}");
    text
}

/// Without control characters, which could move the cursor of a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_was_never_set_is_a_finding() {
        assert_eq!(clock(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400)).status, Status::Failed);
        assert_eq!(clock(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)).status, Status::Passed);
    }

    #[test]
    fn a_data_directory_below_a_file_is_a_finding_and_nothing_is_made() {
        let folder = std::env::temp_dir().join(format!("pointsman-doctor-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let missing = folder.join("data");
        assert_eq!(data_directory(Some(&missing)).status, Status::Passed);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
        let file = folder.join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(data_directory(Some(&file.join("data"))).status, Status::Failed);
        fs::remove_dir_all(&folder).unwrap();
    }
}
