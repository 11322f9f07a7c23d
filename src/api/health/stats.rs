//! `GET /models/stats`: measurements and scores of each model at each provider.

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_domain::{Catalog, Target};
use pointsman_routing::{decide::reference_scores, stats::Snapshot};

use super::health_view::{EndpointHealthBody, ScoresBody};
use crate::{
    access::keys::Caller,
    api::{
        answer::{Data, uncached},
        auth::Reader,
        models::measurements::Measurements,
        query_parameters::QueryParameters,
    },
    base::error::ApiError,
    proxy::names::NameScope,
    state::gateway::Worker,
};

/// Shows all enabled endpoints, or those of one model. The scores are for a reference request of 1,000 prompt and 256
/// completion tokens.
///
/// # Errors
/// 400 for an unknown parameter, 403 without the scope `read`, 404 for an unknown model.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    let query = QueryParameters::read(by.query(), &["model"])?;
    let measurements = Measurements::now(&by.worker).await?;
    let snapshot = by.worker.setup.published.snapshot();
    let catalog = &*snapshot.catalog;
    let model = query.get("model").map(|name| position(&by.worker, catalog, &by.caller, name)).transpose()?;
    Ok(uncached(&Data { data: endpoint_bodies(&snapshot, &measurements, model) }))
}

/// The measurements of all enabled endpoints, or of those of the model at this position.
pub(crate) fn endpoint_bodies<'a>(
    snapshot: &'a Snapshot,
    measurements: &Measurements,
    model: Option<u32>,
) -> Vec<EndpointHealthBody<'a>> {
    let catalog = &*snapshot.catalog;
    let scores = reference_scores(snapshot, &measurements.live, measurements.clocks.now);
    let wanted = (0_u32..).zip(&catalog.endpoints).filter(|(_, it)| model.is_none_or(|model| it.model == model));
    let bodies = wanted.filter_map(|(position, _)| {
        let scores = scores.get(position as usize).copied().flatten().map(ScoresBody::new);
        EndpointHealthBody::new(catalog, position, measurements, scores.unwrap_or_default())
    });
    bodies.collect()
}

/// The position of the model that `name` means in a request of the caller.
fn position(worker: &Worker, catalog: &Catalog, caller: &Caller, name: &str) -> Result<u32, ApiError> {
    let (config, today) = (&worker.setup.config, clock::today());
    let scope = NameScope { catalog, config, caller: Some(caller), is_messages: false, today };
    match scope.target(name, "model")? {
        Target::Model(position) => Ok(position),
        Target::Alias(_) => Err(ApiError::unknown_model("model", name, &[], Vec::new())),
    }
}
