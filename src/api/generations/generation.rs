//! `GET /generation`: the record of a generation.

use actix_web::{HttpRequest, HttpResponse};
use pointsman_config::Scope;

use super::generation_view::GenerationBody;
use crate::{
    api::{
        answer::uncached, auth::Authorized, decisions::sentences::Sentences, generations::lookup,
        query_parameters::QueryParameters,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Shows the record named in the query.
///
/// # Errors
/// 400 without an id or with an unknown parameter, 404 for an id that the caller may not read.
pub async fn show(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    let query = QueryParameters::read(request.query_string(), &lookup::PARAMETERS)?;
    let generation = lookup::find(&worker, &caller, lookup::id_in_query(&query)).await?;
    let names = worker.setup.keys.names_of(generation.owner, generation.key);
    let sentences = Sentences::of(&generation);
    Ok(uncached(&GenerationBody::new(&generation, &generation.catalog, &sentences, &names)))
}
