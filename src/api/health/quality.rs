//! `GET /health/quality`: how good the answers of models are, as far as scores and ratings say; the same as gauges.

use std::sync::Arc;

use actix_web::{HttpResponse, web};
use pointsman_domain::{Catalog, Quality};
use pointsman_routing::quality::{Drift, Evidence, ModelQuality, ScoredEndpoint, report};
use prometheus::proto::MetricFamily;
use serde::Serialize;

use crate::{
    api::{
        answer::uncached, auth::Reader, decisions::quality_view::ScoreBody, models::measurements::rfc_3339,
        number::Figure,
    },
    base::{error::ApiError, events::Families},
    state::gateway::Worker,
};

/// Shows every model and class of which something is known.
///
/// # Errors
/// 403 without the scope `read`.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    let (shared, setup) = (Arc::clone(&by.worker.shared), Arc::clone(&by.worker.setup));
    let evidence = web::block(move || shared.records.feedback.evidence_now(setup.config.feedback.max_share));
    let evidence = evidence.await.map_err(|_| ApiError::internal())?;
    let data = known(&by.worker.setup.catalog, &evidence).iter().map(ModelQualityBody::new).collect();
    Ok(uncached(&QualityHealthBody { object: "health.quality", data }))
}

/// What is known of the models of a catalog.
pub(crate) fn known<'a>(catalog: &'a Catalog, evidence: &Evidence) -> Vec<ModelQuality<'a>> {
    let models = catalog.models.iter().map(|model| (model.id.as_str(), &model.quality));
    report(models, ScoredEndpoint::of_catalog(catalog), evidence)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct QualityHealthBody<'a> {
    /// Always `health.quality`.
    object: &'static str,
    /// Models and classes with a score or with ratings, in the order of the catalog.
    data: Vec<ModelQualityBody<'a>>,
}

view! {
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct ModelQualityBody<'a> {
        pub(crate) fn new(known: &ModelQuality<'a>) {}

        /// Catalog id of the model.
        pub(crate) model: &'a str = known.model,
        /// Class of the tasks.
        #[cfg_attr(test, schemars(with = "crate::base::words::Task"))]
        pub(crate) task: &'static str = known.task.as_str(),
        /// The score of the configuration; `null` without one.
        pub(crate) score: Option<ScoreBody<'a>> = known.score.map(ScoreBody::new),
        /// Ratings by users and programs that the ledger has.
        pub(crate) ratings: u64 = known.ratings,
        /// Share of the answers of the last 30 days that were rated; `null` without answers.
        pub(crate) rating_rate: Option<Figure> = known.rate.map(Figure::share),
        /// What is believed now; `null`: unknown.
        pub(crate) quality: Option<BelievedBody> = known.quality.map(BelievedBody::new),
        /// Whether the ratings are shown only and steer nothing: answers of this model are rated more than 1.5 times as often as those of
        /// other models of the class, or as rarely.
        pub(crate) selective: bool = known.is_selective,
        /// Whether an account has sent more ratings than count of it (`feedback.max_share`).
        pub(crate) capped: bool = known.is_capped,
        /// The fall that the ratings show now; `null` without one.
        pub(crate) drift: Option<DriftBody> = known.drift.map(DriftBody::new),
        /// What judges say; `null` without their ratings. It steers nothing.
        pub(crate) judged: Option<BelievedBody> = known.judged.map(BelievedBody::new),
    }
}

view! {
    /// What is believed of a quality.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct BelievedBody {
        fn new(quality: Quality) {}

        /// Mean of the posterior: the share of answers that are acceptable.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) mean: Figure = Figure::share(quality.mean),
        /// Its lower tenth.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) p10: Figure = Figure::share(quality.tenth),
        /// Ratings that count in it: faded with their age, and limited by account.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) ratings: Figure = Figure::rounded(quality.ratings, 1),
    }
}

view! {
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct DriftBody {
        fn new(drift: Drift) {}

        /// When it was found. RFC 3339, UTC.
        pub(crate) found_at: String = rfc_3339(drift.found_ms),
        /// Mean of the ratings before the last 56.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) before: Figure = Figure::share(drift.before),
        /// Mean of the 56.
        #[cfg_attr(test, schemars(with = "f64"))]
        pub(crate) after: Figure = Figure::share(drift.after),
    }
}

/// The current gauges. Models are those of the configuration.
pub(crate) async fn families(worker: &Worker) -> Vec<MetricFamily> {
    let (evidence, catalog) = (worker.shared.records.feedback.published(), Arc::clone(&worker.setup.catalog));
    web::block(move || metrics(&known(&catalog, &evidence))).await.unwrap_or_default()
}

fn metrics(known: &[ModelQuality<'_>]) -> Vec<MetricFamily> {
    Families::of(|families| {
        let mut gauge = |name: &str, help: &str, of: fn(&ModelQuality<'_>) -> Option<f64>| {
            let rows = known.iter().filter_map(|it| Some(([it.model, it.task.as_str()], of(it)?)));
            families.gauges(name, help, ["model", "task"], rows);
        };
        let mean = "Share of acceptable answers that is believed, from scores and ratings";
        gauge("quality_mean", mean, |it| Some(it.quality?.mean));
        gauge("quality_p10", "Lower tenth of that belief", |it| Some(it.quality?.tenth));
        gauge("quality_ratings", "Ratings of users and programs in the ledger", |it| Some(it.ratings as f64));
        let selective = "1 while ratings steer nothing because their rate differs from that of others";
        gauge("quality_selective", selective, |it| Some(f64::from(u8::from(it.is_selective))));
        let drift = "1 while ratings show that answers have become worse";
        gauge("quality_drift", drift, |it| Some(f64::from(u8::from(it.drift.is_some()))));
    })
}
