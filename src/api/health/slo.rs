//! `GET /health/slo`: attainment of latency targets and their remaining error budgets.

use std::time::Duration;

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_config::Scope;
use pointsman_domain::{Alias, Objective, Source, Sourced};
use pointsman_routing::stats::{RequestedTarget, Tally, TargetReport, WINDOWS};
use serde::Serialize;

use crate::{
    api::{answer::uncached, auth::Authorized, number::Figure},
    base::error::ApiError,
    state::gateway::Worker,
};

/// Shows all latency targets: those of aliases, also unused ones, then those set by requests.
///
/// # Errors
/// 403 without the scope `read`.
pub(crate) async fn show(Authorized(caller): Authorized, worker: Worker) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    let reports = reports(&worker);
    Ok(uncached(&SloBody::new(&reports)))
}

/// The reports on all targets.
pub(crate) fn reports(worker: &Worker) -> Vec<TargetReport> {
    let mut reports = worker.shared.history.targets.report(clock::now());
    let objective = worker.setup.config.routing.objective;
    let configured = worker.setup.catalog.aliases.iter().flat_map(|alias| configured(alias, objective));
    let unused: Vec<_> = configured.filter(|unused| !reports.iter().any(|report| is_same(unused, report))).collect();
    reports.splice(0..0, unused);
    reports
}

/// The targets of an alias before its first request.
fn configured(alias: &Alias, default: Objective) -> Vec<TargetReport> {
    let Some(value) = alias.preferred_max_latency else { return Vec::new() };
    let preference = Sourced { value, source: Source::Alias };
    RequestedTarget { name: &alias.id, objective: alias.objective.unwrap_or(default), preference }.unasked().collect()
}

fn is_same(one: &TargetReport, other: &TargetReport) -> bool {
    let target = |report: &TargetReport| (report.source, report.objective, report.percentile, report.bound);
    target(one) == target(other) && one.name == other.name
}

#[derive(Serialize)]
pub(crate) struct SloBody<'a> {
    pub(crate) object: &'static str,
    pub(crate) data: Vec<TargetBody<'a>>,
}

#[derive(Serialize)]
pub(crate) struct TargetBody<'a> {
    pub(crate) target: &'a str,
    pub(crate) objective: &'static str,
    pub(crate) source: &'static str,
    pub(crate) percentile: &'static str,
    pub(crate) max_ttft_ms: Figure,
    pub(crate) margin: Figure,
    pub(crate) windows: Vec<WindowBody>,
}

#[derive(Serialize)]
pub(crate) struct WindowBody {
    pub(crate) window_secs: u64,
    pub(crate) requests: u64,
    pub(crate) met: u64,
    pub(crate) missed: u64,
    pub(crate) attainment: Option<Figure>,
    pub(crate) allowed_misses: Figure,
    pub(crate) error_budget_left: Option<Figure>,
    pub(crate) burn_rate: Option<Figure>,
}

impl<'a> SloBody<'a> {
    pub(crate) fn new(reports: &'a [TargetReport]) -> SloBody<'a> {
        SloBody { object: "health.slo", data: reports.iter().map(TargetBody::new).collect() }
    }
}

impl<'a> TargetBody<'a> {
    fn new(report: &'a TargetReport) -> TargetBody<'a> {
        TargetBody {
            target: &report.name,
            objective: report.objective.as_str(),
            source: if report.source == Source::Alias { "alias" } else { "request" },
            percentile: report.percentile.as_str(),
            max_ttft_ms: Figure::millis(report.bound.as_secs_f64()),
            margin: Figure::rounded(report.margin, 3),
            windows: WINDOWS
                .iter()
                .zip(&report.windows)
                .map(|(window, tally)| WindowBody::new(report, *window, tally))
                .collect(),
        }
    }
}

impl WindowBody {
    fn new(report: &TargetReport, window: Duration, tally: &Tally) -> WindowBody {
        WindowBody {
            window_secs: window.as_secs(),
            requests: tally.requests(),
            met: tally.met,
            missed: tally.missed,
            attainment: tally.attainment().map(Figure::share),
            allowed_misses: Figure::rounded(report.allowed(tally), 2),
            error_budget_left: report.budget_left(tally).map(Figure::share),
            burn_rate: report.burn_rate(tally).map(|rate| Figure::rounded(rate, 3)),
        }
    }
}
