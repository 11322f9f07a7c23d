//! Which records a command decides again, and under which configuration: for `diff`, `estimate` and `regret`.

use std::{
    path::{Path, PathBuf},
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

use super::{CommandOutput, ledger, load, moment::moment, refused};
use crate::api::diff::{
    configuration::ComparedConfiguration,
    run::{DiffRequest, Pace},
};

/// Exit code of wrong use: the others say what the answer is.
pub(super) const EXIT_USAGE: u8 = 64;

/// The records, and a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RecordedTraffic {
    /// Configuration, of diff and estimate the one after the change; default: ./config.toml
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
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
    /// About so many records, chosen by hashes of their ids
    #[arg(long, value_name = "N")]
    pub sample: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Threads; default: one per processor
    #[arg(long, value_name = "N")]
    pub threads: Option<u8>,
}

impl RecordedTraffic {
    /// The records, and what is asked about them: what would have been chosen, without limits.
    pub(super) fn open(&self, environment: &Environment) -> Result<(Traffic, DiffRequest), CommandOutput> {
        let after = configuration(self.config.as_deref(), environment)?;
        let place = self.ledger.clone().or_else(|| after.ledger.data_dir.clone());
        let place = place.ok_or_else(|| misused("no ledger is configured; name one with --ledger".to_owned()))?;
        let traffic = Traffic::open(&place).map_err(|fault| unreadable(&fault))?;
        let wanted = self.wanted((&after, &place), &traffic)?;
        let request = DiffRequest {
            before: None,
            after: ComparedConfiguration::of_file(&after),
            wanted,
            limits: Vec::new(),
            strict: false,
            exact_only: false,
            examples: 0,
            estimate: false,
            open_loop: false,
            threads: self.threads.map_or_else(processors, usize::from),
            pace: Pace::Full,
        };
        Ok((traffic, request))
    }

    /// `until` is now where the command names none, so that both passes read the same records.
    fn wanted(&self, (config, place): (&Config, &Path), traffic: &Traffic) -> Result<Wanted, CommandOutput> {
        let (since_ms, until) = self.moments()?;
        let until = until.unwrap_or_else(clock::unix_millis);
        let filter = Filter { since_ms, until_ms: Some(until.saturating_sub(1)), ..Filter::default() };
        let mut wanted = Wanted { filter, ..Wanted::default() };
        for condition in self.conditions() {
            let (name, value) = condition?;
            let labels = &mut wanted.filter.labels;
            match name {
                "alias" => labels.push((label::ALIAS, vec![value.into()])),
                "objective" => labels.push((label::OBJECTIVE, vec![value.into()])),
                "key" if traffic.exported().is_some() => {
                    let number = value.strip_prefix("key-").and_then(|number| number.parse().ok());
                    let names = || misused(format!("'{name}={value}': keys of an export are called key-1, key-2, …"));
                    wanted.exported_key = Some(number.ok_or_else(names)?);
                }
                "key" => labels.push((label::KEY, vec![key(value, config, place)?])),
                _ => return Err(no_condition(name)),
            }
        }
        if let Some(sample) = self.sample {
            let all = traffic.count(&wanted).map_err(|fault| unreadable(&fault))?;
            wanted.sample = Sample::of(sample, all);
        }
        Ok(wanted)
    }

    /// `--since` and `--until`, Unix milliseconds.
    pub(super) fn moments(&self) -> Result<(Option<i64>, Option<i64>), CommandOutput> {
        let time = |name: &str, text: &Option<String>| {
            text.as_ref()
                .map(|text| moment(text).ok_or_else(|| misused(format!("--{name} {text}: {TIMES}"))))
                .transpose()
        };
        Ok((time("since", &self.since)?, time("until", &self.until)?))
    }

    /// The names and values of `--where`.
    pub(super) fn conditions(&self) -> impl Iterator<Item = Result<(&str, &str), CommandOutput>> {
        let conditions = self.conditions.iter().flat_map(|text| text.split_whitespace());
        conditions.map(|condition| condition.split_once('=').ok_or_else(|| no_condition(condition)))
    }
}

pub(super) fn no_condition(condition: &str) -> CommandOutput {
    misused(format!("'{condition}': {CONDITIONS}"))
}

pub(super) fn configuration(path: Option<&Path>, environment: &Environment) -> Result<Config, CommandOutput> {
    load(path, environment).map(|loaded| loaded.config)
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

pub(super) fn misused(why: String) -> CommandOutput {
    CommandOutput { text: format!("pointsman: {why}\n"), code: EXIT_USAGE }
}

/// What a command says at its end; about wrong use also where its help is.
pub(super) fn with_help(command: &str, said: CommandOutput) -> CommandOutput {
    if said.code != EXIT_USAGE {
        return said;
    }
    let text = format!("{}; see 'pointsman {command} --help'\n", said.text.trim_end());
    CommandOutput { text, ..said }
}
