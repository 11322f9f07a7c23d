//! `GET /health/slo`: attainment of latency targets and their remaining error budgets, and spend paces.

use std::time::Duration;

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_domain::{Alias, Objective, Source, Sourced};
use pointsman_routing::{
    spend_pace::PacedAlias,
    stats::{DAY_SLOT, RequestedTarget, Tally, TargetReport, WINDOWS},
};
use serde::Serialize;

use super::spend_pace::{self, SpendPaceBody};
use crate::{
    api::{answer::uncached, auth::Reader, models::measurements::rfc_3339, number::Figure},
    base::error::ApiError,
    state::gateway::GatewayView,
};

/// Shows all latency targets: those of aliases, also unused ones, then those set by requests. Beside them the spend paces of aliases.
///
/// # Errors
/// 403 without the scope `read`.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    let reports = reports(&by.worker);
    Ok(uncached(&SloBody::new(&reports, &spend_pace::paces(&by.worker))))
}

/// The reports on all targets.
pub(crate) fn reports(worker: &GatewayView) -> Vec<TargetReport> {
    let mut reports = worker.shared.records.history.targets.report(clock::now());
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

view! {
    pub(crate) struct SloBody<'a> {
        pub(crate) fn new(reports: &'a [TargetReport], paces: &'a [PacedAlias]) {}

        /// Always `health.slo`.
        pub(crate) object: &'static str = "health.slo",
        /// Each bound of `preferred_max_latency`: those of aliases first, used or not, then those of requests, of which the
        /// 64 used last are kept.
        pub(crate) data: Vec<TargetBody<'a>> = reports.iter().map(TargetBody::new).collect(),
        /// Each alias with `spend_pace`, in the order of the configuration.
        pub(crate) spend_paces: Vec<SpendPaceBody<'a>> = paces.iter().map(SpendPaceBody::new).collect(),
    }
}

view! {
    pub(crate) struct TargetBody<'a> {
        fn new(report: &'a TargetReport) {}

        /// The alias or model that was asked for.
        pub(crate) target: &'a str = &report.name,
        /// What the choice optimises.
        #[cfg_attr(test, schemars(with = "crate::base::words::Objective"))]
        pub(crate) objective: &'static str = report.objective.as_str(),
        /// Whether the configuration of an alias or requests set it.
        #[cfg_attr(test, schemars(extend("enum" = ["alias", "request"])))]
        pub(crate) source: &'static str = if report.source == Source::Alias { "alias" } else { "request" },
        /// Share of streams whose first token is to come in time.
        #[cfg_attr(test, schemars(with = "crate::base::words::Percentile"))]
        pub(crate) percentile: &'static str = report.percentile.as_str(),
        /// The bound: milliseconds from the acceptance of a request to its first token, with one decimal.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) max_ttft_ms: Figure = Figure::millis(report.bound.as_secs_f64()),
        /// Factor by which decisions are stricter (above 1) or laxer (below 1) than the bound, because of past misses;
        /// three decimals.
        pub(crate) margin: Figure = Figure::rounded(report.margin, 3),
        /// The last five minutes, hour and day.
        pub(crate) windows: Vec<WindowBody> = WINDOWS
            .iter()
            .zip(&report.windows)
            .map(|(window, tally)| WindowBody::new(report, *window, tally))
            .collect(),
        /// The last day in quarters of an hour.
        pub(crate) day: DayBody = DayBody::new(&report.day),
    }
}

view! {
    /// One array per figure, of the same length, oldest slot first. The last slot is not over.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct DayBody {
        fn new(slots: &[Tally]) {
            let step_ms = i64::try_from(DAY_SLOT.as_millis()).unwrap_or(i64::MAX);
            let passed_ms = i64::try_from(clock::now().0 / 1_000).unwrap_or_default() % step_ms;
            let start_ms = clock::unix_millis() - passed_ms - (slots.len() as i64 - 1) * step_ms;
            let column = |of: fn(&Tally) -> u64| slots.iter().map(of).collect();
        }

        /// When the first slot begins. RFC 3339, UTC, with milliseconds.
        pub(crate) start: String = rfc_3339(start_ms),
        /// Length of a slot in seconds: 900.
        pub(crate) step_s: u64 = DAY_SLOT.as_secs(),
        /// First tokens in time.
        pub(crate) met: Vec<u64> = column(|slot| slot.met),
        /// Late first tokens, and calls that failed.
        pub(crate) missed: Vec<u64> = column(|slot| slot.missed),
    }
}

view! {
    pub(crate) struct WindowBody {
        fn new(report: &TargetReport, window: Duration, tally: &Tally) {}

        /// Length of the window in seconds: 300, 3600 or 86400.
        pub(crate) window_secs: u64 = window.as_secs(),
        /// Streams under the target that ended in the window: `met` and `missed` together. Not counted are those that
        /// failed because of their own content, and those whose client left before the bound had passed.
        pub(crate) requests: u64 = tally.requests(),
        /// First tokens in time.
        pub(crate) met: u64 = tally.met,
        /// Late first tokens, and calls that failed.
        pub(crate) missed: u64 = tally.missed,
        /// `met` by `requests`, 0 to 1 with four decimals; `null` without a request.
        pub(crate) attainment: Option<Figure> = tally.attainment().map(Figure::share),
        /// Misses that the percentile allows: for p95, 5 % of `requests`. Two decimals.
        pub(crate) allowed_misses: Figure = Figure::rounded(report.allowed(tally), 2),
        /// Share of them that is left, with four decimals: 1 without misses, below 0 after too many; `null` without a
        /// request.
        pub(crate) error_budget_left: Option<Figure> = report.budget_left(tally).map(Figure::share),
        /// `missed` by `allowed_misses`, with three decimals: above 1 the target is missed; `null` without a request.
        pub(crate) burn_rate: Option<Figure> = report.burn_rate(tally).map(|rate| Figure::rounded(rate, 3)),
    }
}
