//! `/admin/activity`: requests, tokens and cost of all keys by day or hour, model, provider and key.

use actix_web::{HttpRequest, HttpResponse};

use crate::{
    api::{
        auth::Administrator,
        generations::{activity, ledger_query::Listed},
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Shows the activity of all keys.
///
/// # Errors
/// 400 for a bad parameter, 404 without a durable ledger.
pub(crate) async fn show(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    activity::respond(&worker, &caller, Listed::Everybody(&worker), request.query_string()).await
}
