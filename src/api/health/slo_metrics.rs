//! Latency targets as gauges, computed when `/metrics` is read, so that expired targets disappear.
//!
//! Target names are aliases and model ids. `shared.intents.targets` bounds their number.

use pointsman_base::clock;
use pointsman_routing::stats::{Tally, TargetReport, WINDOWS};
use prometheus::proto::MetricFamily;

use crate::{base::events::Families, state::gateway::Worker};

const TARGET: [&str; 4] = ["target", "objective", "percentile", "bound_seconds"];
const WINDOW: [&str; 5] = ["target", "objective", "percentile", "bound_seconds", "window_seconds"];

/// The current gauges.
pub(crate) fn read(worker: &Worker) -> Vec<MetricFamily> {
    let reports = worker.shared.records.history.targets.report(clock::now());
    Families::of(|families| {
        let margin = "Factor by which decisions are stricter than the bound; below 1: laxer";
        families.gauges("slo_margin", margin, TARGET, reports.iter().map(|report| (target(report), report.margin)));
        let mut by_window = |name: &str, help: &str, of: fn(&TargetReport, &Tally) -> Option<f64>| {
            families.gauges(name, help, WINDOW, reports.iter().flat_map(|report| windows(report, of)));
        };
        by_window("slo_requests", "Streams counted in the window", |_, tally| Some(tally.requests() as f64));
        let attainment = "Share of the streams with a first token in time";
        by_window("slo_attainment_ratio", attainment, |_, tally| tally.attainment());
        let budget = "Share of the allowed misses that is left";
        by_window("slo_error_budget_left_ratio", budget, TargetReport::budget_left);
        let burn = "Speed at which the error budget is spent; 1: as fast as allowed";
        by_window("slo_burn_rate", burn, TargetReport::burn_rate);
    })
}

fn target(report: &TargetReport) -> [String; 4] {
    let (objective, percentile) = (report.objective.as_str(), report.percentile.as_str());
    [report.name.to_string(), objective.to_owned(), percentile.to_owned(), report.bound.as_secs_f64().to_string()]
}

/// A figure of each window of a target, as far as it is known.
fn windows(
    report: &TargetReport,
    of: fn(&TargetReport, &Tally) -> Option<f64>,
) -> impl Iterator<Item = ([String; 5], f64)> {
    WINDOWS.iter().zip(&report.windows).filter_map(move |(length, tally)| {
        let [target, objective, percentile, bound] = target(report);
        Some(([target, objective, percentile, bound, length.as_secs().to_string()], of(report, tally)?))
    })
}
