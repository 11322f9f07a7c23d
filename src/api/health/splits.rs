//! `GET /health/splits`: the parts of divided aliases, and their canaries; the same as gauges.

use actix_web::HttpResponse;
use pointsman_domain::SplitPart;
use pointsman_routing::split::guard::Arm;
use prometheus::proto::MetricFamily;
use serde::Serialize;

use crate::{
    api::{answer::uncached, auth::Reader, models::measurements::rfc_3339, number::Figure},
    base::{error::ApiError, events::Families},
    state::{
        canaries::{Canaries, DividedAlias, Trial},
        gateway::Worker,
    },
};

/// Shows every alias that divides its requests and had some since the start.
///
/// # Errors
/// 403 without the scope `read`.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    let canaries = &by.worker.shared.records.canaries;
    let report = canaries.report(&by.worker.setup.catalog);
    let data = report.iter().map(|divided| DividedBody::new(divided, canaries)).collect();
    Ok(uncached(&SplitsBody { object: "health.splits", data }))
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct SplitsBody<'a> {
    /// Always `health.splits`.
    pub(crate) object: &'static str,
    /// The aliases that divide their requests and had some since the start of the process, by name.
    pub(crate) data: Vec<DividedBody<'a>>,
}

view! {
    pub(crate) struct DividedBody<'a> {
        fn new((alias, divided): &'a (String, DividedAlias), canaries: &Canaries) {
            let canary = |trial: &Trial| CanaryBody::new(trial, !canaries.has_stopped(alias, &trial.canary));
            let requests =
                |(part, requests): &(SplitPart, u64)| PartRequestsBody { part: part.name(), requests: *requests };
        }

        /// The alias.
        pub(crate) alias: &'a str = alias,
        /// Its parts that had requests.
        pub(crate) parts: Vec<PartRequestsBody> = divided.parts.iter().map(requests).collect(),
        /// Its canary; `null` without one.
        pub(crate) canary: Option<CanaryBody> = divided.trial.as_ref().map(canary),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PartRequestsBody {
    /// `own`: the alias itself. `rule 1`, `share 1`, `canary`: as in the configuration.
    pub(crate) part: String,
    /// Requests that ended, since the start.
    pub(crate) requests: u64,
}

view! {
    pub(crate) struct CanaryBody {
        fn new(trial: &Trial, serves: bool) {}

        /// Whether it serves: `false` once it has fallen back.
        pub(crate) serves: bool = serves,
        /// When it fell back; `null` if it has not, or before the last start. RFC 3339, UTC.
        pub(crate) fell_back_at: Option<String> = trial.breach.map(|(_, at_ms)| rfc_3339(at_ms)),
        /// The guardrail that it exceeded, `max_spend`, `max_failures` or `max_ttft`; `null` if it has not, or before the last start.
        pub(crate) exceeded: Option<&'static str> = trial.breach.map(|(breach, _)| breach.limit),
        /// Share of the requests that it is to get.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) share: Figure = Figure::rounded(trial.canary.share, 4),
        /// Its requests, until it fell back.
        pub(crate) canary: ArmBody = ArmBody::new(&trial.evidence.canary),
        /// The other requests of the alias in that time, without those of rules.
        pub(crate) others: ArmBody = ArmBody::new(&trial.evidence.others),
    }
}

view! {
    /// What became of requests.
    pub(crate) struct ArmBody {
        fn new(arm: &Arm) {}

        /// Their number.
        pub(crate) requests: u64 = arm.requests,
        /// Those whose client was shown a failure.
        pub(crate) failures: u64 = arm.failures,
        /// Mean US dollars of a request, all attempts together.
        pub(crate) mean_cost: Figure = Figure::significant(arm.mean_spend()),
        /// 95th percentile of the milliseconds to the first content, in steps of 5 %; `null` without any.
        pub(crate) ttft_p95_ms: Option<Figure> = arm.first_token_p95().map(Figure::millis),
    }
}

/// The current gauges. Aliases and parts are those of the configuration.
pub(crate) fn families(worker: &Worker) -> Vec<MetricFamily> {
    let canaries = &worker.shared.records.canaries;
    let report = canaries.report(&worker.setup.catalog);
    let trials = || report.iter().filter_map(|(alias, divided)| Some((alias, divided.trial.as_ref()?)));
    Families::of(|families| {
        let requests = report.iter().flat_map(|(alias, divided)| {
            divided.parts.iter().map(move |(part, count)| ([alias.clone(), part.name()], *count as f64))
        });
        let help = "Ended requests of a part of an alias since the start";
        families.gauges("split_requests", help, ["alias", "part"], requests);
        let serves =
            trials().map(|(alias, trial)| ([alias], f64::from(u8::from(!canaries.has_stopped(alias, &trial.canary)))));
        let help = "0 once the canary of the alias has fallen back";
        families.gauges("canary_serves", help, ["alias"], serves);
        let mut by_arm = |name: &str, help: &str, of: fn(&Arm) -> f64| {
            let arms = trials().flat_map(|(alias, Trial { evidence, .. })| {
                [([&**alias, "canary"], of(&evidence.canary)), ([&**alias, "others"], of(&evidence.others))]
            });
            families.gauges(name, help, ["alias", "of"], arms);
        };
        by_arm("canary_failure_ratio", "Share of failed requests", Arm::failure_share);
        by_arm("canary_spend_dollars", "Mean cost of a request", Arm::mean_spend);
    })
}
