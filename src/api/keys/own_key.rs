//! `GET /key` and `GET /credits`: permissions and spending of the calling key.

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_domain::Usd;
use serde::Serialize;

use super::{effective_limit::EffectiveLimitBody, key_view::KeyBody};
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Authorized,
        number::Dollars,
    },
    base::error::ApiError,
};

/// Shows the calling key. Needs no scope.
///
/// # Errors
/// None of its own.
pub(crate) async fn show(by: Authorized) -> Result<HttpResponse, ApiError> {
    let now_ms = clock::unix_millis();
    let (reading, effective) = (by.caller.state.budget.read(now_ms), EffectiveLimitBody::tightest(&by.caller, now_ms));
    Ok(uncached(&Data { data: KeyBody::new(&by.caller.key, by.caller.is_admin(), &reading, effective) }))
}

/// Shows the spending of the account of the calling key; for an administrator, of all accounts. `total_credits` is the
/// spending limit of the account; 0 without a limit.
///
/// # Errors
/// None of its own.
pub(crate) async fn credits(by: Authorized) -> Result<HttpResponse, ApiError> {
    let now_ms = clock::unix_millis();
    let body = if by.caller.is_admin() {
        let total = by.worker.shared.access.registry.holders.total_spent(now_ms);
        CreditsBody { total_credits: Dollars(Usd::ZERO), total_usage: Dollars(total) }
    } else {
        let reading = by.caller.account.budget.read(now_ms);
        let limit = reading.limit.map_or(Usd::ZERO, |limit| limit.amount);
        CreditsBody { total_credits: Dollars(limit), total_usage: Dollars(reading.spent.total) }
    };
    Ok(uncached(&Data { data: body }))
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct CreditsBody {
    /// Spending limit of the account in US dollars; 0 without one, and for an administrator.
    total_credits: Dollars,
    /// US dollars that the account has spent, ever; for an administrator, all accounts.
    total_usage: Dollars,
}
