//! `diff`: what another configuration would have chosen for recorded traffic, and what that would cost. `estimate`: what would
//! have happened.

mod remote;

use std::{path::PathBuf, sync::atomic::AtomicBool};

use clap::Args;
use pointsman_base::clock;
use pointsman_config::Environment;
use pointsman_ledger::traffic::Traffic;
use serde::Serialize;

use super::{
    CommandOutput, Finished,
    recorded_traffic::{RecordedTraffic, configuration, misused},
    refused,
};
use crate::api::diff::{
    configuration::ComparedConfiguration,
    estimate_report::EstimateReport,
    estimate_text,
    limit::Limit,
    report::DiffReport,
    run::{Compared, DiffRequest, run as compare},
    text,
};

/// What to compare, over which records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct DiffCommand {
    #[command(flatten)]
    pub records: RecordedTraffic,
    /// Configuration before it; default: the one of each decision
    #[arg(long, value_name = "FILE", conflicts_with = "estimate")]
    pub against: Option<PathBuf>,
    /// The admin address of a running gateway, which then compares its own records
    #[arg(long, conflicts_with = "estimate")]
    pub url: Option<String>,
    /// With --url: environment variable with a key that has the scope admin; default: POINTSMAN_ADMIN_KEY
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// A figure that may not grow by more: 'spend > +5%', 'first_token_p95 > +10%', 'failures > +0.2pp'; may be repeated
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Vec<String>,
    /// A limit counts as kept only if the whole interval keeps it
    #[arg(long)]
    pub strict: bool,
    /// Leave decisions out whose choice does not follow from the record
    #[arg(long, conflicts_with_all = ["estimate", "open_loop"])]
    pub exact_only: bool,
    /// Print Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Number of moved decisions that are shown
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub examples: u8,
    /// Say what would have happened, too, as 'pointsman estimate' does
    #[arg(long)]
    pub estimate: bool,
    /// Answer keys that work over time (half-lives, priors, breakers, pacing, gains of targets) by running the recorded attempts
    /// through statistics and breakers with other constants
    #[arg(long, conflicts_with_all = ["estimate", "against"])]
    pub open_loop: bool,
}

/// A configuration, and the records from which its effects are estimated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct EstimateCommand {
    #[command(flatten)]
    pub records: RecordedTraffic,
}

/// Both reports as JSON.
#[derive(Serialize)]
struct WithEstimate<'r> {
    #[serde(flatten)]
    report: &'r DiffReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<EstimateReport>,
}

/// Compares, and gives the report.
///
/// # Errors
/// Why there is none.
pub(super) fn run(command: &DiffCommand, environment: &Environment) -> Finished {
    let limits =
        command.fail_if.iter().map(|text| Limit::parse(text)).collect::<Result<Vec<_>, _>>().map_err(misused)?;
    if let Some(url) = &command.url {
        return remote::report(command, url, environment).and_then(|report| shown(command, &report, None));
    }
    let (traffic, request) = command.records.open(environment)?;
    let before = match &command.against {
        Some(path) => Some(configuration(Some(path), environment)?),
        None => None,
    };
    let request = DiffRequest {
        before: before.as_ref().map(ComparedConfiguration::of_file),
        limits,
        strict: command.strict,
        exact_only: command.exact_only,
        examples: usize::from(command.examples),
        estimate: command.estimate,
        open_loop: command.open_loop,
        ..request
    };
    let compared = compared(&traffic, &request)?;
    let report = DiffReport::new(&compared, &request, clock::unix_millis());
    let estimate = command.estimate.then(|| EstimateReport::new(&compared, &request));
    shown(command, &report, estimate)
}

fn shown(command: &DiffCommand, report: &DiffReport, estimate: Option<EstimateReport>) -> Finished {
    let and_estimate = estimate.as_ref().map_or_else(String::new, |estimate| {
        let sections = estimate_text::sections(estimate);
        if command.markdown { format!("\n```\n{sections}```\n") } else { format!("\n{sections}") }
    });
    let text = match (command.records.json, command.markdown) {
        (true, _) => serde_json::to_string_pretty(&WithEstimate { report, estimate }).map_err(refused)? + "\n",
        (_, true) => text::markdown(report) + &and_estimate,
        _ => text::plain(report) + &and_estimate,
    };
    Ok(CommandOutput { text, code: report.exit_code() })
}

/// Estimates, and gives the report.
///
/// # Errors
/// Why there is none.
pub(super) fn estimate(command: &EstimateCommand, environment: &Environment) -> Finished {
    let (traffic, request) = command.records.open(environment)?;
    let request = DiffRequest { estimate: true, ..request };
    let report = EstimateReport::new(&compared(&traffic, &request)?, &request);
    let text = match command.records.json {
        true => serde_json::to_string_pretty(&report).map_err(refused)? + "\n",
        false => estimate_text::plain(&report),
    };
    Ok(CommandOutput { text, code: report.exit_code() })
}

fn compared(traffic: &Traffic, request: &DiffRequest) -> Result<Compared, CommandOutput> {
    compare(traffic, request, &AtomicBool::new(false))
        .map_err(|why| CommandOutput { text: format!("pointsman: {why}\n"), code: why.exit_code() })
}
