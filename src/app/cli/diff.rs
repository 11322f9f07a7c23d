//! `diff`: what another configuration would have chosen for recorded traffic, and what that would cost.

mod remote;

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    thread,
};

use clap::Args;
use pointsman_base::clock;
use pointsman_config::{Config, Environment};
use pointsman_ledger::{
    entry::Filter,
    facts::label,
    fault::Fault,
    generations::owner_label,
    traffic::{Sample, Traffic, Wanted},
};

use super::{CommandOutput, Finished, ledger, load, moment::moment, refused};
use crate::api::diff::{
    configuration::ComparedConfiguration,
    limit::Limit,
    report::DiffReport,
    run::{DiffRequest, Pace, run as compare},
    text,
};

/// Exit code of wrong use: the others say what the answer is.
pub(super) const EXIT_USAGE: u8 = 64;

/// What to compare, over which records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct DiffCommand {
    /// Configuration after the change; default: ./config.toml
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Configuration before it; default: the one of each decision
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Records from this time on: 24h, 7d, 2026-11-23T06:00:00Z, 2026-11-23 or Unix milliseconds
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Records before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Conditions: alias=NAME, objective=NAME, key=NAME, separated by spaces
    #[arg(long = "where", value_name = "CONDITIONS")]
    pub conditions: Option<String>,
    /// Directory of a ledger, its database file, or an export; default: ledger.data_dir of the configuration
    #[arg(long, value_name = "PATH")]
    pub ledger: Option<PathBuf>,
    /// The admin address of a running gateway, which then compares its own records
    #[arg(long)]
    pub url: Option<String>,
    /// With --url: environment variable with a key that has the scope admin; default: POINTSMAN_API_KEY
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// About so many records, chosen by hashes of their ids
    #[arg(long, value_name = "N")]
    pub sample: Option<u64>,
    /// A figure that may not grow by more: 'spend > +5%', 'first_token_p95 > +10%', 'failures > +0.2pp'; may be repeated
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Vec<String>,
    /// A limit counts as kept only if the whole interval keeps it
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, for a pull request
    #[arg(long)]
    pub markdown: bool,
    /// Number of moved decisions that are shown
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub examples: u8,
    /// Threads; default: one per processor
    #[arg(long, value_name = "N")]
    pub threads: Option<u8>,
    /// Not there yet: run recorded observations through other statistics and breakers
    #[arg(long, hide = true)]
    pub open_loop: bool,
}

/// Compares, and gives the report.
///
/// # Errors
/// Why there is none.
pub(super) fn run(command: &DiffCommand, environment: &Environment) -> Finished {
    let limits =
        command.fail_if.iter().map(|text| Limit::parse(text)).collect::<Result<Vec<_>, _>>().map_err(misused)?;
    if command.open_loop {
        return Err(refused("--open-loop does not exist yet: only single decisions can be made again"));
    }
    if let Some(url) = &command.url {
        return remote::report(command, url, environment).and_then(|report| shown(command, &report));
    }
    let after = configuration(command.config.as_deref(), environment)?;
    let before = match &command.against {
        Some(path) => Some(configuration(Some(path), environment)?),
        None => None,
    };
    let place = command.ledger.clone().or_else(|| after.ledger.data_dir.clone());
    let place = place.ok_or_else(|| misused("no ledger is configured; name one with --ledger".to_owned()))?;
    let traffic = Traffic::open(&place).map_err(|fault| unreadable(&fault))?;
    let wanted = wanted(command, (&after, &place), &traffic)?;
    let named = |config: &Config| ComparedConfiguration::new(config.source.clone(), config);
    let request = DiffRequest {
        before: before.as_ref().map(named),
        after: named(&after),
        wanted,
        limits,
        strict: command.strict,
        examples: usize::from(command.examples),
        threads: command.threads.map_or_else(processors, usize::from),
        pace: Pace::Full,
    };
    let compared = compare(&traffic, &request, &AtomicBool::new(false))
        .map_err(|why| CommandOutput { text: format!("pointsman: {why}\n"), code: why.exit_code() })?;
    shown(command, &DiffReport::new(&compared, &request, clock::unix_millis()))
}

fn shown(command: &DiffCommand, report: &DiffReport) -> Finished {
    let text = match (command.json, command.markdown) {
        (true, _) => serde_json::to_string_pretty(report).map_err(refused)? + "\n",
        (_, true) => text::markdown(report),
        _ => text::plain(report),
    };
    Ok(CommandOutput { text, code: report.exit_code() })
}

fn configuration(path: Option<&Path>, environment: &Environment) -> Result<Config, CommandOutput> {
    load(path, environment).map(|loaded| loaded.config)
}

/// The records that the command names. `until` is now where it names none, so that both passes read the same ones.
fn wanted(
    command: &DiffCommand,
    (config, place): (&Config, &Path),
    traffic: &Traffic,
) -> Result<Wanted, CommandOutput> {
    let (since_ms, until) = moments(command)?;
    let until = until.unwrap_or_else(clock::unix_millis);
    let filter = Filter { since_ms, until_ms: Some(until.saturating_sub(1)), ..Filter::default() };
    let mut wanted = Wanted { filter, ..Wanted::default() };
    for condition in command.conditions.iter().flat_map(|text| text.split_whitespace()) {
        let (name, value) = condition.split_once('=').ok_or_else(|| misused(format!("'{condition}': {CONDITIONS}")))?;
        let labels = &mut wanted.filter.labels;
        match name {
            "alias" => labels.push((label::ALIAS, vec![value.into()])),
            "objective" => labels.push((label::OBJECTIVE, vec![value.into()])),
            "key" if traffic.exported().is_some() => {
                let number = value.strip_prefix("key-").and_then(|number| number.parse().ok());
                let names = || misused(format!("'{condition}': keys of an export are called key-1, key-2, …"));
                wanted.exported_key = Some(number.ok_or_else(names)?);
            }
            "key" => labels.push((label::KEY, vec![key(value, config, place)?])),
            _ => return Err(misused(format!("'{condition}': {CONDITIONS}"))),
        }
    }
    if let Some(sample) = command.sample {
        let all = traffic.count(&wanted).map_err(|fault| unreadable(&fault))?;
        wanted.sample = Sample::of(sample, all);
    }
    Ok(wanted)
}

/// `--since` and `--until`, Unix milliseconds.
fn moments(command: &DiffCommand) -> Result<(Option<i64>, Option<i64>), CommandOutput> {
    let time = |name: &str, text: &Option<String>| {
        text.as_ref().map(|text| moment(text).ok_or_else(|| misused(format!("--{name} {text}: {TIMES}")))).transpose()
    };
    Ok((time("since", &command.since)?, time("until", &command.until)?))
}

const CONDITIONS: &str = "conditions are alias=NAME, objective=NAME and key=NAME, separated by spaces";
const TIMES: &str =
    "a time is a span such as 24h or 7d before now, 2026-11-23T06:00:00Z, 2026-11-23 or Unix milliseconds";

/// The label of a key: by its name, or its number as 16 hexadecimal digits.
fn key(name: &str, config: &Config, place: &Path) -> Result<Box<str>, CommandOutput> {
    let folder = if place.is_dir() { place } else { place.parent().unwrap_or(Path::new(".")) };
    let known = ledger::keys(config, folder).and_then(|keys| Some(keys.named(name)?.id));
    let number = || u64::from_str_radix(name, 16).ok().filter(|_| name.len() == 16);
    let unknown = || misused(format!("no key is called '{name}' in the configuration or in {}", folder.display()));
    known.or_else(number).map(owner_label).ok_or_else(unknown)
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn unreadable(fault: &Fault) -> CommandOutput {
    let advice = match fault {
        Fault::NoLedger(_) => "; name a directory with ledger.db, the file itself, or an export with --ledger",
        _ => "",
    };
    refused(format!("{fault}{advice}"))
}

fn misused(why: String) -> CommandOutput {
    CommandOutput { text: format!("pointsman: {why}; see 'pointsman diff --help'\n"), code: EXIT_USAGE }
}
