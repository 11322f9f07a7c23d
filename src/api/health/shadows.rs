//! `GET /health/shadows`: what shadow policies would have chosen; the same as gauges.

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_config::ShadowConfig;
use pointsman_domain::{Catalog, EndpointId};
use pointsman_routing::explain::diff::{Calibration, Predicted, ShadowMove};
use prometheus::proto::MetricFamily;
use serde::Serialize;

use crate::{
    api::{answer::uncached, auth::Reader, models::measurements::rfc_3339, number::Figure},
    base::{error::ApiError, events::Families},
    state::{
        gateway::{GatewayView, Worker},
        shadows::ObservedShadow,
    },
};

/// Most moves that are shown.
const MOST_MOVES: usize = 20;

/// Shows every shadow of the configuration.
///
/// # Errors
/// 403 without the scope `read`.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&ShadowsBody { object: "health.shadows", data: observed(&by.worker) }))
}

/// The shadows of the configuration in force, in its order.
pub(crate) fn observed(view: &GatewayView) -> Vec<ShadowBody> {
    let (observed, calibration) = view.shared.records.shadows.report();
    let of = |config: &ShadowConfig| {
        let shadow = observed.iter().find(|shadow| shadow.name == config.name)?;
        Some(ShadowBody::new(config, shadow, &calibration, &view.setup.catalog))
    };
    view.setup.config.shadows.iter().filter_map(of).collect()
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ShadowsBody {
    /// Always `health.shadows`.
    pub(crate) object: &'static str,
    /// The shadow policies, in the order of the configuration.
    pub(crate) data: Vec<ShadowBody>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ShadowBody {
    /// Its name.
    pub(crate) shadow: String,
    /// Twelve digits of what it changes, for which requests, and what is compared: another one is another shadow.
    pub(crate) fingerprint: String,
    /// The keys that it changes, with their values; what might be a secret is not shown.
    pub(crate) overrides: String,
    /// Whether it still decides: `false` after its `until`.
    pub(crate) decides: bool,
    /// Since when it counts: the start, or its last change. RFC 3339, UTC.
    pub(crate) since: String,
    /// Ended requests that it decided.
    pub(crate) decisions: u64,
    /// Requests that it did not decide because the worker was more than 5 ms behind, or its decision failed.
    pub(crate) skipped: u64,
    /// Share of its decisions with the same first choice; `null` before the first.
    pub(crate) agreement: Option<Figure>,
    /// Expected figures of the choices that served. Predictions, corrected by what was measured.
    pub(crate) serving: PredictedBody,
    /// The same of its own choices.
    pub(crate) predicted: PredictedBody,
    /// From where to where it would move requests, the most frequent first; at most 20.
    pub(crate) moves: Vec<ShadowMoveBody>,
}

/// Expected means of a request's first attempt; all `null` before the first decision.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PredictedBody {
    /// US dollars.
    pub(crate) cost: Option<Figure>,
    /// Milliseconds to the first token: mean of the medians.
    pub(crate) first_token_ms: Option<Figure>,
    /// Probability that it fails.
    pub(crate) failure: Option<Figure>,
}

/// Requests that a shadow would move alike.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ShadowMoveBody {
    /// The choice that served; `null` if no endpoint could, and for the rest of more than 1,024 different moves.
    pub(crate) from: Option<String>,
    /// Its own choice.
    pub(crate) to: Option<String>,
    /// Their number.
    pub(crate) decisions: u64,
    /// Change of their expected cost, US dollars.
    pub(crate) cost: Figure,
}

impl ShadowBody {
    fn new(
        config: &ShadowConfig,
        observed: &ObservedShadow,
        calibration: &Calibration,
        catalog: &Catalog,
    ) -> ShadowBody {
        let tally = &observed.tally;
        let predicted = tally.predicted(calibration).map(|predicted| (tally.decisions > 0).then_some(predicted));
        let [serving, predicted] = predicted.map(PredictedBody::new);
        let moves = tally.moves(calibration);
        ShadowBody {
            shadow: config.name.to_string(),
            fingerprint: config.fingerprint(),
            overrides: config.overrides.clone(),
            decides: config.until.is_none_or(|until| until.timestamp_millis() > clock::unix_millis()),
            since: rfc_3339(observed.since_ms),
            decisions: tally.decisions,
            skipped: observed.skipped,
            agreement: agreement(observed).map(|share| Figure::rounded(share, 4)),
            serving,
            predicted,
            moves: moves.iter().take(MOST_MOVES).map(|moved| ShadowMoveBody::new(moved, catalog)).collect(),
        }
    }
}

impl PredictedBody {
    fn new(predicted: Option<Predicted>) -> PredictedBody {
        PredictedBody {
            cost: predicted.map(|predicted| Figure::significant(predicted.cost)),
            first_token_ms: predicted.map(|predicted| Figure::rounded(predicted.first_token * 1e3, 1)),
            failure: predicted.map(|predicted| Figure::significant(predicted.failure)),
        }
    }
}

impl ShadowMoveBody {
    fn new(moved: &ShadowMove, catalog: &Catalog) -> ShadowMoveBody {
        let name = |id: Option<EndpointId>| {
            let endpoint = catalog.endpoints.iter().find(|endpoint| Some(endpoint.id) == id)?;
            Some(format!("{} at {}", catalog.model_of(endpoint)?.id, catalog.provider_of(endpoint)?.slug))
        };
        ShadowMoveBody {
            from: name(moved.from),
            to: name(moved.to),
            decisions: moved.decisions,
            cost: Figure::significant(moved.cost),
        }
    }
}

fn agreement(shadow: &ObservedShadow) -> Option<f64> {
    (shadow.tally.decisions > 0).then(|| shadow.tally.agreed as f64 / shadow.tally.decisions as f64)
}

/// The current gauges. Their names are those of the configuration.
pub(crate) fn families(worker: &Worker) -> Vec<MetricFamily> {
    if worker.setup.shadows.is_none() {
        return Vec::new();
    }
    let (observed, calibration) = worker.shared.records.shadows.report();
    let count = |of: fn(&ObservedShadow) -> u64| observed.iter().map(move |it| ([&*it.name], of(it) as f64));
    Families::of(|families| {
        let decisions = "Ended requests that a shadow policy decided, too";
        families.counters("shadow_decisions_total", decisions, ["shadow"], count(|it| it.tally.decisions));
        let skipped = "Requests that a shadow did not decide: the worker was behind, or the decision failed";
        families.counters("shadow_skipped_total", skipped, ["shadow"], count(|it| it.skipped));
        let agreements = observed.iter().filter_map(|it| Some(([&*it.name], agreement(it)?)));
        let help = "Share of its decisions with the same first choice";
        families.gauges("shadow_agreement_ratio", help, ["shadow"], agreements);
        let spend = observed.iter().filter_map(|it| {
            let [serving, predicted] = it.tally.predicted(&calibration);
            (serving.cost > 0.0).then(|| ([&*it.name], predicted.cost / serving.cost))
        });
        let help = "Expected cost of its choices by that of those that served";
        families.gauges("shadow_predicted_spend_ratio", help, ["shadow"], spend);
    })
}
