//! `GET /route/replay`: repeats a recorded decision.

use std::sync::Arc;

use actix_web::HttpResponse;
use pointsman_domain::Generation;
use pointsman_routing::explain::replay;
use serde::Serialize;

use crate::{
    access::keys::Caller,
    api::{
        answer::{Data, uncached},
        auth::Reader,
        generations::lookup,
        query_parameters::QueryParameters,
    },
    base::error::ApiError,
    proxy::replay::{Recorded, ReplayResult},
    state::gateway::Worker,
};

/// The recorded inputs, and the comparison of the repeated decision with the recorded one.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ReplayBody<'a> {
    /// Id of the generation.
    generation_id: &'a str,
    #[serde(flatten)]
    result: ReplayResult,
    /// The recorded decision. `pointsman replay --file` reads the whole page.
    recorded: Recorded,
}

/// Repeats the decision of a generation from its record only.
///
/// # Errors
/// 400 without an id or with an unknown parameter, 404 for an id that the caller may not read.
pub async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    let query = QueryParameters::read(by.query(), &lookup::PARAMETERS)?;
    let generation = lookup::find(&by.worker, &by.caller, lookup::id_in_query(&query)).await?;
    let (result, recorded) = repeat(&by.worker, &by.caller, &generation).await?;
    let data = ReplayBody { generation_id: generation.id.as_str(), result, recorded };
    Ok(uncached(&Data { data }))
}

/// Repeats the decision of `generation`: the comparison, and the recorded inputs.
///
/// # Errors
/// As other analyses.
pub(crate) async fn repeat(
    worker: &Worker,
    caller: &Caller,
    generation: &Generation,
) -> Result<(ReplayResult, Recorded), ApiError> {
    let (decision, policy) = (Arc::clone(&generation.decision), Arc::clone(&generation.policy));
    let catalog = Arc::clone(&worker.setup.catalog);
    let repeat = move || {
        let recorded = Recorded::new(&decision, &policy, &catalog);
        (ReplayResult::new(&replay(&decision, &policy), &recorded), recorded)
    };
    worker.analyse(caller, repeat).await
}
