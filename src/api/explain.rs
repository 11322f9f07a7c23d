//! `GET` and `POST /route/explain`: explains the routing of a generation, with `why_not` also why a named endpoint was not
//! chosen.

use actix_web::{HttpRequest, HttpResponse, web};
use pointsman_actors::{
    domain::Generation,
    explain::{reason_sentence, why_not_after},
};

use super::{answer::uncached, explain_view::ExplainBody, why_not_view};
use crate::{
    access::keys::Caller,
    api::{auth::Authorized, lookup},
    base::error::ApiError,
    config::Scope,
    proxy::body::read_json,
    state::gateway::Worker,
};

/// Explains the generation named in the query.
///
/// # Errors
/// 400 without an id, 404 for an id that the caller may not read.
pub async fn by_query(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    explain(&worker, &caller, lookup::id_in_query(&request), why_not_view::in_query(&request)?).await
}

/// Explains the generation named in the body, or else in the query.
///
/// # Errors
/// As [`by_query`].
pub async fn by_body(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    let body = read_json(&request, payload, worker.setup.body_limits(&caller)).await?;
    let (id, why_not) = lookup::id_in_body(&body)?;
    let why_not =
        why_not.map_or_else(|| why_not_view::in_query(&request), |name| why_not_view::checked(name).map(Some))?;
    explain(&worker, &caller, id.or_else(|| lookup::id_in_query(&request)), why_not).await
}

async fn explain(
    worker: &Worker,
    caller: &Caller,
    id: Option<String>,
    why_not: Option<String>,
) -> Result<HttpResponse, ApiError> {
    let record = lookup::find(worker, caller, id).await?;
    let explain = move || {
        let generation = lookup::with_probabilities(&record);
        let Generation { decision, attempts, policy, catalog, .. } = &generation;
        let why_not = why_not.map(|name| why_not_after(&name, decision, attempts, policy, catalog));
        (generation, why_not)
    };
    let (generation, why_not) = worker.analyse(caller, explain).await?;
    let catalog = &generation.catalog;
    let reason = reason_sentence(&generation.decision, catalog, &generation.attempts);
    let body = ExplainBody::new(&generation, catalog, &reason).with_why_not(why_not.as_ref(), &generation, catalog);
    Ok(uncached(&body))
}
