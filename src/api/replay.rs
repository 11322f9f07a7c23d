//! `GET /route/replay`: a recorded decision, made again.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse};
use pointsman_actors::explain::replay;
use serde::Serialize;

use super::answer::{Data, uncached};
use crate::{
    api::{auth::Authorized, lookup},
    base::error::ApiError,
    config::Scope,
    proxy::record::{Recorded, ReplayResult},
    state::gateway::Worker,
};

/// What was recorded, what came out of it, and whether that is the same.
#[derive(Serialize)]
struct ReplayBody<'a> {
    generation_id: &'a str,
    #[serde(flatten)]
    verdict: ReplayResult,
    recorded: Recorded,
}

/// Makes the decision behind a generation again, from nothing but its record.
///
/// # Errors
/// 400 without an id, 404 for an id that is not the caller's.
pub async fn show(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    let generation = lookup::find(&worker, &caller, lookup::id_in_query(&request)).await?;
    let (record, catalog) = (Arc::clone(&generation), Arc::clone(&worker.setup.catalog));
    let make_again = move || {
        let recorded = Recorded::new(&record.decision, &record.policy, &catalog);
        (ReplayResult::new(&replay(&record.decision, &record.policy), &recorded), recorded)
    };
    let (verdict, recorded) = worker.analyse(&caller, make_again).await?;
    let data = ReplayBody { generation_id: generation.id.as_str(), verdict, recorded };
    Ok(uncached(&Data { data }))
}
