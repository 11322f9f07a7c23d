//! `GET /models/stats`: what was measured of each model at each provider, and what it would score.

use actix_web::{HttpResponse, http::header, web::Query};
use pointsman_actors::{
    decide::reference_scores,
    domain::{Catalog, Resolved, Target},
};
use serde::{Deserialize, Serialize};

use super::{
    health_view::{EndpointHealthBody, ScoresBody},
    readings::Readings,
};
use crate::{auth::Authorized, clock, config::Scope, error::ApiError, gateway::ThisWorker};

/// What may be asked.
#[derive(Deserialize)]
pub(crate) struct Filter {
    model: Option<String>,
}

#[derive(Serialize)]
struct StatsBody<'a> {
    data: Vec<EndpointHealthBody<'a>>,
}

/// Shows every endpoint that can be called, or those of one model. Scores are those of a reference request
/// of 1,000 prompt and 256 completion tokens.
///
/// # Errors
/// 403 without the scope `read`, 404 for a model that nobody knows.
pub(crate) async fn show(
    Authorized(caller): Authorized,
    ThisWorker(worker): ThisWorker,
    filter: Query<Filter>,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    let readings = Readings::take(&worker).await?;
    let snapshot = worker.shared.snapshot.load();
    let catalog = &*snapshot.catalog;
    let model = filter.model.as_deref().map(|name| position(catalog, name)).transpose()?;
    let scores = reference_scores(&snapshot, &readings.live, readings.clocks.now);
    let wanted = (0_u32..).zip(&catalog.endpoints).filter(|(_, it)| model.is_none_or(|model| it.model == model));
    let data = wanted.filter_map(|(position, _)| {
        let scores = scores.get(position as usize).copied().flatten().map(ScoresBody::new);
        EndpointHealthBody::new(catalog, position, &readings, scores.unwrap_or_default())
    });
    let body = StatsBody { data: data.collect() };
    Ok(HttpResponse::Ok().insert_header((header::CACHE_CONTROL, "no-store")).json(body))
}

fn position(catalog: &Catalog, name: &str) -> Result<u32, ApiError> {
    match catalog.resolve(name, clock::today()) {
        Resolved::Found(Target::Model(position)) => Ok(position),
        Resolved::Retired(date) => Err(ApiError::retired_model("model", name, date, Vec::new())),
        Resolved::Found(Target::Alias(_)) | Resolved::Unknown => {
            Err(ApiError::unknown_model("model", name, Vec::new()))
        }
    }
}
