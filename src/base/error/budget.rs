//! 402: a spending limit leaves no room.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};
use pointsman_domain::Usd;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{ApiError, class};

/// The holder of a spending limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetHolder {
    /// The key itself.
    Key,
    /// The account of the key.
    Account,
    /// The team of the account.
    Team,
}

impl BudgetHolder {
    const fn reason(self) -> &'static str {
        match self {
            BudgetHolder::Key => "key_limit",
            BudgetHolder::Account => "account_limit",
            BudgetHolder::Team => "team_limit",
        }
    }

    /// Why a key is refused whose holder is disabled: the reason of the error, and the state of the key.
    pub const fn disabled(self) -> &'static str {
        match self {
            BudgetHolder::Key => "disabled_key",
            BudgetHolder::Account => "disabled_account",
            BudgetHolder::Team => "disabled_team",
        }
    }

    const fn of_whom(self) -> &'static str {
        match self {
            BudgetHolder::Key => "this API key",
            BudgetHolder::Account => "the account of this API key",
            BudgetHolder::Team => "the team of this API key",
        }
    }
}

/// What a spending limit lacks for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetShortfall {
    /// The holder of the limit.
    pub holder: BudgetHolder,
    /// The limit.
    pub limit: Usd,
    /// What is left of it, without what running requests have reserved.
    pub available: Usd,
    /// Highest possible cost of the request; `None` when the limit is used up anyway.
    pub needed: Option<Usd>,
    /// When the limit starts again, Unix milliseconds.
    pub resets_at_ms: Option<i64>,
}

/// `error.metadata.budget`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(super) struct BudgetBody {
    /// The spending limit in US dollars.
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    limit: Option<Box<RawValue>>,
    /// What is left of it in US dollars, without what running requests have reserved.
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    remaining: Option<Box<RawValue>>,
    /// Highest possible cost of the request in US dollars; absent if the limit is used up anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    needed: Option<Box<RawValue>>,
    /// When the limit starts again; `null` if it does not by itself. RFC 3339, UTC.
    resets_at: Option<String>,
}

/// Exact decimal digits as a JSON number.
fn number(amount: Usd) -> Option<Box<RawValue>> {
    RawValue::from_string(amount.to_string()).ok()
}

impl ApiError {
    /// 402: a spending limit leaves no room for the request.
    pub fn out_of_budget(shortfall: &BudgetShortfall) -> ApiError {
        let BudgetShortfall { holder, limit, available, needed, resets_at_ms } = *shortfall;
        let time = |at: DateTime<chrono::Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
        let resets_at = resets_at_ms.and_then(DateTime::from_timestamp_millis).map(time);
        let reset = match &resets_at {
            Some(at) => format!("The limit starts again at {at}."),
            None => "The limit does not start again by itself; ask the operator to raise it.".to_owned(),
        };
        let of_whom = holder.of_whom();
        let message = match needed {
            None => format!("The spending limit of ${limit} of {of_whom} is used up. {reset}"),
            Some(needed) => format!(
                "This request may cost up to ${needed}, and ${available} of the spending limit of ${limit} of {of_whom} is left. \
                 A smaller 'max_tokens' lowers the highest cost. {reset}"
            ),
        };
        let mut error = ApiError::payment_required(message, holder.reason());
        error.0.budget = Some(Box::new(BudgetBody {
            limit: number(limit),
            remaining: number(available),
            needed: needed.and_then(number),
            resets_at,
        }));
        error
    }

    /// 402: a spending limit, or without a holder the ceiling of the request, applies, and no endpoint that could serve has
    /// a known price.
    pub fn unknown_price_under_limit(holder: Option<BudgetHolder>) -> ApiError {
        let limited = match holder {
            Some(BudgetHolder::Key) => "This API key has a spending limit",
            Some(BudgetHolder::Account) => "The account of this API key has a spending limit",
            Some(BudgetHolder::Team) => "The team of this API key has a spending limit",
            None => "This request has the ceiling max_cost",
        };
        let message = format!(
            "{limited}, and the prices of the endpoints that could serve this request are not known. Ask the operator to \
             configure prices, or use another model."
        );
        ApiError::payment_required(message, "price_unknown")
    }

    /// 402: the request costs more than its own ceiling, before any output.
    pub fn above_max_cost(ceiling: Usd, least: Usd) -> ApiError {
        let why = if least > ceiling {
            format!("its prompt with one output token costs at least ${least}")
        } else {
            "no endpoint that could keep within it takes a limit of output tokens".to_owned()
        };
        let message = format!("This request has the ceiling max_cost = ${ceiling}, and {why}.");
        ApiError::payment_required(message, "max_cost").with_param("max_cost")
    }

    /// 503: a spending limit applies, and what was spent before this start cannot be read yet.
    pub fn spending_unknown() -> ApiError {
        let message = "This API key has a spending limit, and what was spent before the gateway started cannot be read from its \
                       ledger at the moment.";
        class::UNAVAILABLE.error("spending_unknown", message).retry_after(Duration::from_secs(10))
    }

    /// 503: the part of a spending limit that this replica leased is used up, and it gets no further one at the moment.
    pub fn lease_used_up(holder: BudgetHolder) -> ApiError {
        let message = format!(
            "Replicas share the spending limit of {}, and this one has no part of it left. It gets a further part when Redis \
             answers and the other replicas leave one.",
            holder.of_whom()
        );
        class::UNAVAILABLE.error("budget_lease_used_up", message).retry_after(Duration::from_secs(1))
    }

    fn payment_required(message: String, reason: &'static str) -> ApiError {
        class::PAYMENT_REQUIRED.error(reason, message)
    }
}
