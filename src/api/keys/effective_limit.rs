//! JSON of the spending limit that a key meets first.

use std::sync::Arc;

use pointsman_domain::ResetPeriod;
use serde::Serialize;

use crate::{access::keys::Caller, api::number::Dollars, base::error::BudgetHolder};

/// Of the limits of the key, its account and its team the one of which least is left.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EffectiveLimit"))]
pub(crate) struct EffectiveLimitBody {
    /// The holder of the limit: the key, its account or its team.
    #[cfg_attr(test, schemars(extend("enum" = ["key", "account", "team"])))]
    pub(crate) holder: &'static str,
    /// Name of the key, the account or the team.
    pub(crate) name: String,
    /// The limit in US dollars.
    pub(crate) limit: Dollars,
    /// What is left of it in US dollars, never below 0: amounts reserved for running requests are not.
    pub(crate) remaining: Dollars,
    /// How often it starts again, at midnight UTC: every day, every Monday, or on the first of the month. `null` if
    /// never.
    #[cfg_attr(test, schemars(with = "Option<crate::base::words::ResetPeriod>"))]
    pub(crate) reset: Option<&'static str>,
}

impl EffectiveLimitBody {
    /// That of a caller; `None` if neither key nor account nor team has a limit.
    pub(crate) fn tightest(caller: &Caller, now_ms: i64) -> Option<EffectiveLimitBody> {
        let budgets = caller.budgets();
        let (holder, limit, remaining) = budgets.tightest(now_ms)?;
        let (holder, name): (_, Option<Arc<str>>) = match holder {
            BudgetHolder::Key => ("key", Some(Arc::clone(&caller.key.name))),
            BudgetHolder::Account => ("account", Some(Arc::clone(&caller.account_name))),
            BudgetHolder::Team => ("team", budgets.team_name()),
        };
        Some(EffectiveLimitBody {
            holder,
            name: name.as_deref().unwrap_or_default().to_owned(),
            limit: Dollars(limit.amount),
            remaining: Dollars(remaining),
            reset: limit.reset.map(ResetPeriod::as_str),
        })
    }
}
