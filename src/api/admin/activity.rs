//! `/admin/activity`, `/admin/activity.csv` and `/admin/activity/explain`: requests, tokens and cost of all keys.

use actix_web::HttpResponse;

use crate::{
    api::{
        answer::uncached,
        auth::Administrator,
        generations::{
            activity::{self, explanation},
            ledger_query::Listed,
        },
    },
    base::error::ApiError,
};

/// Shows the activity of all keys.
///
/// # Errors
/// 400 for a bad parameter, 404 without a durable ledger.
pub(crate) async fn show(by: Administrator) -> Result<HttpResponse, ApiError> {
    Ok(uncached(
        &activity::read(&by.worker, &by.caller, Listed::Everybody(&by.worker), by.query()).await?.body(&by.worker),
    ))
}

/// The same as CSV.
///
/// # Errors
/// As [`show`].
pub(crate) async fn csv(by: Administrator) -> Result<HttpResponse, ApiError> {
    activity::respond_csv(&by.worker, &by.caller, Listed::Everybody(&by.worker), by.query()).await
}

/// Explains a change of the spending of all keys.
///
/// # Errors
/// As [`show`].
pub(crate) async fn explain(by: Administrator) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&explanation::read(&by.worker, &by.caller, Listed::Everybody(&by.worker), by.query()).await?))
}
