//! `GET /activity`: requests, tokens and cost of the caller from the sums of the durable ledger, by any of team, account, key,
//! model, provider, alias, objective, task, day and hour, with totals and the change to the period before. Sums outlive the
//! records. The activity of all keys is in [`crate::api::admin::activity`]; why a cost changed in [`explanation`].
//!
//! The ledger adds up slots of 15 minutes. `since` and `until` are rounded outwards to them.

pub(crate) mod explanation;
mod names;
mod query;
mod reading;
pub(crate) mod view;

use actix_web::HttpResponse;

pub(crate) use self::reading::read;
use super::ledger_query::Listed;
use crate::{
    access::keys::Caller,
    api::{answer::uncached, auth::Reader, csv},
    base::error::ApiError,
    state::gateway::Worker,
};

/// Shows the activity of the caller.
///
/// # Errors
/// 400 for a bad parameter, 404 without a durable ledger.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&read(&by.worker, &by.caller, Listed::Own(&by.caller), by.query()).await?.body(&by.worker)))
}

/// The same as CSV.
///
/// # Errors
/// As [`show`].
pub(crate) async fn csv(by: Reader) -> Result<HttpResponse, ApiError> {
    respond_csv(&by.worker, &by.caller, Listed::Own(&by.caller), by.query()).await
}

/// The same as CSV.
///
/// # Errors
/// As [`show`].
pub(crate) async fn respond_csv(
    worker: &Worker,
    caller: &Caller,
    listed: Listed<'_>,
    query: &str,
) -> Result<HttpResponse, ApiError> {
    let text = read(worker, caller, listed, query).await?.body(worker).csv().into_text();
    Ok(csv::file("activity.csv").body(text))
}

#[cfg(test)]
mod tests;
