//! Latency targets as gauges, computed when `/metrics` is read, so that expired targets disappear.
//!
//! Target names are aliases and model ids. `shared.intents.targets` bounds their number.

use pointsman_base::clock;
use pointsman_routing::stats::{TargetReport, WINDOWS};
use prometheus::{Error, GaugeVec, Opts, Registry, proto::MetricFamily};

use crate::{base::events::PREFIX, state::gateway::Worker};

const TARGET: [&str; 4] = ["target", "objective", "percentile", "bound_seconds"];
const WINDOW: [&str; 5] = ["target", "objective", "percentile", "bound_seconds", "window_seconds"];

/// The current gauges.
pub(crate) fn read(worker: &Worker) -> Vec<MetricFamily> {
    families(&worker.shared.records.history.targets.report(clock::now())).unwrap_or_default()
}

fn families(reports: &[TargetReport]) -> Result<Vec<MetricFamily>, Error> {
    let registry = Registry::new_custom(Some(PREFIX.to_owned()), None)?;
    let gauge = |name: &str, help: &str, labels: &[&str]| {
        let gauge = GaugeVec::new(Opts::new(name, help), labels)?;
        registry.register(Box::new(gauge.clone())).map(|()| gauge)
    };
    let margin = gauge("slo_margin", "Factor by which decisions are stricter than the bound; below 1: laxer", &TARGET)?;
    let requests = gauge("slo_requests", "Streams counted in the window", &WINDOW)?;
    let attainment = gauge("slo_attainment_ratio", "Share of the streams with a first token in time", &WINDOW)?;
    let budget = gauge("slo_error_budget_left_ratio", "Share of the allowed misses that is left", &WINDOW)?;
    let burn = gauge("slo_burn_rate", "Speed at which the error budget is spent; 1: as fast as allowed", &WINDOW)?;
    for report in reports {
        let bound = report.bound.as_secs_f64().to_string();
        let labels = [&*report.name, report.objective.as_str(), report.percentile.as_str(), &bound];
        margin.with_label_values(&labels).set(report.margin);
        for (length, tally) in WINDOWS.iter().zip(&report.windows) {
            let length = length.as_secs().to_string();
            let [target, objective, percentile, bound] = labels;
            let labels = [target, objective, percentile, bound, &length];
            requests.with_label_values(&labels).set(tally.requests() as f64);
            let known = [
                (&attainment, tally.attainment()),
                (&budget, report.budget_left(tally)),
                (&burn, report.burn_rate(tally)),
            ];
            for (gauge, value) in known {
                if let Some(value) = value {
                    gauge.with_label_values(&labels).set(value);
                }
            }
        }
    }
    Ok(registry.gather())
}
