//! `regret`: what recorded decisions came to beyond better ones, and what exploration, restrictions and ignorance cost of it.

use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};
use pointsman_config::Environment;

use super::{CommandOutput, Finished, recorded_traffic::RecordedTraffic, refused};
use crate::api::diff::{
    regret_report::RegretReport,
    regret_run::{RegretRequest, run as review},
    regret_text,
    run::DiffRequest,
};

/// Which records, and how they are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RegretCommand {
    #[command(flatten)]
    pub records: RecordedTraffic,
    /// Show each day, too
    #[arg(long, value_name = "SPAN")]
    pub by: Option<Span>,
}

/// What requests are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Span {
    /// The day in UTC.
    Day,
}

/// Reviews the records, and gives the report.
///
/// # Errors
/// Why there is none.
pub(super) fn run(command: &RegretCommand, environment: &Environment) -> Finished {
    let (traffic, request) = command.records.open(environment)?;
    let DiffRequest { wanted, threads, pace, .. } = request;
    let by_day = command.by == Some(Span::Day);
    let request = RegretRequest { wanted, by_day, threads, pace, most_kept: usize::MAX };
    let reviewed = review(&traffic, &request, &AtomicBool::new(false))
        .map_err(|why| CommandOutput { text: format!("pointsman: {why}\n"), code: why.exit_code() })?;
    let report = RegretReport::new(&reviewed);
    let text = match command.records.json {
        true => serde_json::to_string_pretty(&report).map_err(refused)? + "\n",
        false => regret_text::plain(&report),
    };
    Ok(CommandOutput { text, code: report.exit_code() })
}
