//! `GET /generation`: the record of a generation.

use actix_web::HttpResponse;

use super::generation_view::GenerationBody;
use crate::{
    api::{
        answer::uncached, auth::Reader, decisions::sentences::Sentences, generations::lookup,
        query_parameters::QueryParameters,
    },
    base::error::ApiError,
};

/// Shows the record named in the query.
///
/// # Errors
/// 400 without an id or with an unknown parameter, 404 for an id that the caller may not read.
pub async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    let query = QueryParameters::read(by.query(), &lookup::PARAMETERS)?;
    let generation = lookup::find(&by.worker, &by.caller, lookup::id_in_query(&query)).await?;
    let names = by.worker.setup.keys.names_of(generation.owner, generation.key);
    let sentences = Sentences::of(&generation);
    Ok(uncached(&GenerationBody::new(&generation, &generation.catalog, &sentences, &names)))
}
