//! `/admin/activity`, `/admin/activity.csv` and `/admin/activity/explain`: requests, tokens and cost of all keys.

use actix_web::{HttpRequest, HttpResponse};

use crate::{
    api::{
        auth::Administrator,
        generations::{
            activity::{self, explanation},
            ledger_query::Listed,
        },
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

/// The same as CSV.
///
/// # Errors
/// As [`show`].
pub(crate) async fn csv(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    activity::respond_csv(&worker, &caller, Listed::Everybody(&worker), request.query_string()).await
}

/// Explains a change of the spending of all keys.
///
/// # Errors
/// As [`show`].
pub(crate) async fn explain(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    explanation::respond(&worker, &caller, Listed::Everybody(&worker), request.query_string()).await
}
