//! `/admin/generations`: the generations of all keys, newest first, from the durable ledger.

use actix_web::{HttpRequest, HttpResponse};

use crate::{
    api::{auth::Administrator, generations, ledger_query::Listed},
    base::error::ApiError,
    state::gateway::Worker,
};

/// Lists the generations of all keys.
///
/// # Errors
/// 400 for a bad filter or cursor, 404 without a durable ledger.
pub(crate) async fn list(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    generations::respond(&worker, &caller, Listed::Everybody(&worker), request.query_string()).await
}
