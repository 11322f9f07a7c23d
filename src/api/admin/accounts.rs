//! `/admin/accounts` and `/admin/teams`: limits and spending of accounts, and the budgets that teams share.

use std::{collections::BTreeSet, sync::Arc};

use actix_web::{HttpResponse, web};
use pointsman_base::clock;
use pointsman_config::{AccountConfig, HolderLimits, is_account_name};
use pointsman_domain::{Invalid, ResetPeriod};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::audit;
use crate::{
    access::{
        budget::BudgetReading,
        issued::{Change, HolderKind, IssuedAccount, IssuedTeam},
    },
    api::{
        answer::{Data, uncached},
        auth::{Administrator, Authorized},
        keys::{
            issued_key::{account_name, rate, spend_limit, wrong},
            issued_keys::members,
        },
        number::Dollars,
        path_name::PathName,
    },
    base::error::ApiError,
    state::gateway::{GatewayView, Worker},
};

/// Lists all accounts that have keys or limits, or all teams.
///
/// # Errors
/// None of its own.
pub(crate) async fn list(kind: HolderKind, by: Administrator) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: holders(kind, &by.worker) }))
}

/// All accounts that have keys or limits, or all teams.
pub(crate) fn holders(kind: HolderKind, worker: &Worker) -> Vec<HolderBody> {
    match kind {
        HolderKind::Account => accounts(worker),
        HolderKind::Team => teams(worker),
    }
}

/// All accounts that have keys or limits.
pub(crate) fn accounts(worker: &Worker) -> Vec<HolderBody> {
    let registry = &worker.shared.access.registry;
    let (set_up, disabled) = (registry.accounts(), registry.disabled(HolderKind::Account));
    let body = |(number, name): (u64, String)| {
        let account = registry.holders.account(number);
        let reading = account.budget.read(clock::unix_millis());
        let issued = set_up.iter().find(|account| account.name == name);
        let settings = match worker.setup.config.accounts.iter().find(|account| *account.name == *name) {
            Some(account) => AccountSettings::configured(account),
            None => issued.map(AccountSettings::issued).unwrap_or_default(),
        };
        let holder = HolderBody::new(name, settings.origin, registry.team_of(number), &reading);
        let disabled = disabled.contains(&holder.name);
        HolderBody { owner: Some(format!("{number:016x}")), limits: settings.limits, disabled, ..holder }
    };
    registry.account_names().into_iter().map(body).collect()
}

/// All teams.
pub(crate) fn teams(worker: &Worker) -> Vec<HolderBody> {
    let disabled = worker.shared.access.registry.disabled(HolderKind::Team);
    let body = |name: Arc<str>| {
        let reading = worker.shared.access.registry.holders.team(&name).budget.read(clock::unix_millis());
        let is_configured = worker.setup.config.teams.iter().any(|team| team.name == name);
        let origin = if is_configured { Origin::Configuration } else { Origin::Administrator };
        let holder = HolderBody::new(name.as_ref().to_owned(), origin, None, &reading);
        HolderBody { disabled: disabled.contains(&holder.name), ..holder }
    };
    team_names(worker).into_iter().map(body).collect()
}

/// Names of all teams, in order.
pub(crate) fn team_names(worker: &GatewayView) -> BTreeSet<Arc<str>> {
    let (configured, registry) = (&worker.setup.config.teams, &worker.shared.access.registry);
    // A disabled team stays in sight when it is removed.
    let set_up = registry.teams().into_iter().map(|team| team.name).chain(registry.disabled(HolderKind::Team));
    configured.iter().map(|team| Arc::clone(&team.name)).chain(set_up.map(Arc::from)).collect()
}

/// Sets the limits and the team of an account, which need not exist, or the budget of a team. Members that are left out are
/// cleared.
///
/// # Errors
/// 400 for a bad member, an entry of the configuration, and a team that would refuse the key of the call itself, 404 without a
/// durable ledger, 503 when it cannot be stored.
pub(crate) async fn put(
    kind: HolderKind,
    by: Administrator,
    payload: web::Payload,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    check_name(&name, by.worker.shared.access.registry.is_configured(kind, &name))?;
    let members = members(&by, payload).await?;
    set(&by, kind, &name, &members).await?;
    list(kind, by).await
}

/// Sets an account or a team to what `members` say.
///
/// # Errors
/// As [`put`].
pub(crate) async fn set(
    by: &Authorized,
    kind: HolderKind,
    name: &str,
    members: &Map<String, Value>,
) -> Result<(), ApiError> {
    let registry = &by.worker.shared.access.registry;
    check_name(name, registry.is_configured(kind, name))?;
    let change = match kind {
        HolderKind::Account => {
            let account = read_account(name, members)?;
            if let Some(team) = account.team.as_ref().filter(|team| !registry.has_team(team)) {
                return Err(wrong("team", format!("an existing team, and there is no '{team}'")).into());
            }
            refuse_own_lockout(by, &account)?;
            Change::PutAccount(account)
        }
        HolderKind::Team => Change::PutTeam(read_team(name, members)?),
    };
    let what = format!("sets the {}", kind.word());
    audit::change(by, (&what, name), |registry, actor| registry.record(actor, change)).await
}

/// Refuses to put the account of the call itself into a disabled team, as [`switch`] refuses to disable its own.
fn refuse_own_lockout(by: &Authorized, account: &IssuedAccount) -> Result<(), ApiError> {
    let disabled = by.worker.shared.access.registry.disabled(HolderKind::Team);
    match account.team.as_ref().filter(|team| disabled.contains(team)) {
        Some(team) if is_own(by, HolderKind::Account, &account.name) => {
            let message = format!(
                "A key cannot put its own account into the disabled team '{team}': enable the team first, or use another \
                 key with the scope admin."
            );
            Err(ApiError::bad_query("team", message))
        }
        _ => Ok(()),
    }
}

/// Removes the limits and the team of an account, whose keys and records stay; or a team: accounts that name it are without a
/// team budget until it is set again. What is disabled stays disabled: an account whose team is disabled is not removed.
///
/// # Errors
/// 404, 400 for an account whose team is disabled, 503 when it cannot be stored.
pub(crate) async fn remove(kind: HolderKind, by: Administrator, name: PathName) -> Result<HttpResponse, ApiError> {
    delete(&by, kind, &name).await?;
    list(kind, by).await
}

/// Removes the limits and the team of an account, or a team.
///
/// # Errors
/// As [`remove`].
pub(crate) async fn delete(by: &Authorized, kind: HolderKind, name: &str) -> Result<(), ApiError> {
    if !by.worker.shared.access.registry.is_set_up(kind, name) {
        return Err(ApiError::no_such(kind.word()));
    }
    let what = format!("removes the {}", kind.word());
    let change = Change::remove(kind, name);
    audit::change(by, (&what, name), |registry, actor| registry.record(actor, change)).await
}

/// Disables an account or a team, wherever it is set up, or enables it again.
///
/// # Errors
/// As [`switch`].
pub(crate) async fn post_switch(
    kind: HolderKind,
    on: bool,
    by: Administrator,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    switch(&by, kind, &name, on).await?;
    list(kind, by).await
}

/// Disables an account or a team, or enables it. The keys of a disabled account, or of all accounts of a disabled team, are
/// refused; running calls continue.
///
/// # Errors
/// 404 for an unknown name, 400 when it would refuse the key of the call itself, 503 when it cannot be stored.
pub(crate) async fn switch(by: &Authorized, kind: HolderKind, name: &str, on: bool) -> Result<(), ApiError> {
    let word = kind.word();
    if !holders(kind, &by.worker).iter().any(|holder| holder.name == name) {
        return Err(ApiError::no_such(word));
    }
    if !on && is_own(by, kind, name) {
        let message = format!("A key cannot disable its own {word}: use another key with the scope admin.");
        return Err(ApiError::bad_query("name", message));
    }
    let what = format!("{} the {word}", if on { "enables" } else { "disables" });
    let holder = name.to_owned();
    audit::change(by, (&what, name), move |registry, actor| registry.switch_holder(actor, kind, &holder, on)).await
}

/// Whether the key of a call belongs to this account or team.
pub(crate) fn is_own(by: &Authorized, kind: HolderKind, name: &str) -> bool {
    match kind {
        HolderKind::Account => *by.caller.account_name == *name,
        HolderKind::Team => by.caller.account.team.load().as_ref().is_some_and(|team| *team.name == *name),
    }
}

/// Refuses the name of an account or a team that cannot be set here.
///
/// # Errors
/// 400 for the name of an entry of the configuration, and for what is no name.
pub(crate) fn check_name(name: &str, is_configured: bool) -> Result<(), Invalid> {
    if is_configured {
        return Err(wrong("name", "changed in the configuration, which has an entry of this name"));
    }
    if is_account_name(name) { Ok(()) } else { Err(wrong("name", "a name of 1 to 128 visible characters")) }
}

/// A team with these members.
///
/// # Errors
/// 400 that names the member.
pub(crate) fn read_team(name: &str, members: &Map<String, Value>) -> Result<IssuedTeam, Invalid> {
    if let Some(unknown) = members.keys().find(|name| !["limit", "limit_reset"].contains(&name.as_str())) {
        return Err(wrong(unknown, "left out: a team has limit and limit_reset"));
    }
    Ok(IssuedTeam { name: name.to_owned(), spend: spend_limit(None, members)? })
}

/// An account with these members.
///
/// # Errors
/// 400 that names the member.
pub(crate) fn read_account(name: &str, members: &Map<String, Value>) -> Result<IssuedAccount, Invalid> {
    let mut account = IssuedAccount { name: name.to_owned(), ..IssuedAccount::default() };
    for (name, value) in members {
        match name.as_str() {
            "team" if value.is_null() => {}
            "team" => account.team = Some(account_name(name, value)?),
            "requests_per_minute" => account.requests_per_minute = rate(name, value)?,
            "tokens_per_minute" => account.tokens_per_minute = rate(name, value)?,
            "concurrency" => account.concurrency = rate(name, value)?,
            "limit" | "limit_reset" => {}
            _ => return Err(wrong(name, "left out: there is no such member")),
        }
    }
    account.spend = spend_limit(None, members)?;
    Ok(account)
}

/// Where an account or a team is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// In the configuration, where it is changed.
    Configuration,
    /// By an administrator while the gateway ran.
    Administrator,
    /// Only keys name it.
    #[default]
    Keys,
}

/// Limits of an account as they are set.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct AccountLimitsBody {
    /// Only of an account. Most requests per minute; absent: the default of the configuration; 0: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests_per_minute: Option<u32>,
    /// Only of an account. Most tokens per minute, in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tokens_per_minute: Option<u32>,
    /// Only of an account. Most requests in progress at once, in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<u32>,
}

#[derive(Default)]
struct AccountSettings {
    origin: Origin,
    limits: AccountLimitsBody,
}

impl AccountSettings {
    fn configured(account: &AccountConfig) -> AccountSettings {
        // The configuration holds the limits with the defaults filled in: without a limit it is 0.
        let HolderLimits { requests_per_minute, tokens_per_minute, concurrency, .. } = account.limits;
        let set = |limit: Option<u32>| Some(limit.unwrap_or(0));
        let limits = AccountLimitsBody {
            requests_per_minute: set(requests_per_minute),
            tokens_per_minute: set(tokens_per_minute),
            concurrency: set(concurrency),
        };
        AccountSettings { origin: Origin::Configuration, limits }
    }

    fn issued(account: &IssuedAccount) -> AccountSettings {
        let IssuedAccount { requests_per_minute, tokens_per_minute, concurrency, .. } = *account;
        let limits = AccountLimitsBody { requests_per_minute, tokens_per_minute, concurrency };
        AccountSettings { origin: Origin::Administrator, limits }
    }
}

view! {
    /// An account or a team.
    pub(crate) struct HolderBody {
        fn new(name: String, origin: Origin, team: Option<String>, reading: &BudgetReading) {
            let BudgetReading { limit, available, spent, reserved } = *reading;
        }

        /// Its name.
        pub(crate) name: String = name,
        /// Where it is set up: in the `configuration`, by an `administrator` while the gateway ran, or nowhere, when only
        /// `keys` name it.
        pub(crate) origin: Origin = origin,
        /// Whether an administrator disabled it: the keys of the account, or of all accounts of the team, are refused.
        pub(crate) disabled: bool = false,
        /// Only of an account. Its number, as 16 hexadecimal digits. It identifies the records of the account, also after
        /// its keys were removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<String> = None,
        /// The team whose budget it shares; absent without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) team: Option<String> = team,
        /// Spending limit in US dollars; `null` without one.
        pub(crate) limit: Option<Dollars> = limit.map(|limit| Dollars(limit.amount)),
        #[serde(flatten)]
        limits: AccountLimitsBody = AccountLimitsBody::default(),
        /// What is left of the limit in US dollars, never below 0: amounts reserved for running requests are not. `null`
        /// without a limit.
        pub(crate) limit_remaining: Option<Dollars> = available.map(Dollars),
        /// How often the limit starts again, at midnight UTC: every day, every Monday, or on the first of the month. `null`
        /// if never.
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::ResetPeriod>"))]
        pub(crate) limit_reset: Option<&'static str> = limit.and_then(|limit| limit.reset).map(ResetPeriod::as_str),
        /// US dollars reserved for running requests: the highest possible cost of each.
        reserved: Dollars = Dollars(reserved),
        /// US dollars spent, ever; of attempts whose price is known.
        pub(crate) usage: Dollars = Dollars(spent.total),
        /// US dollars spent since midnight UTC; of attempts whose price is known.
        pub(crate) usage_daily: Dollars = Dollars(spent.day),
        /// US dollars spent since Monday, midnight UTC; of attempts whose price is known.
        pub(crate) usage_weekly: Dollars = Dollars(spent.week),
        /// US dollars spent since the first of the month, midnight UTC; of attempts whose price is known.
        pub(crate) usage_monthly: Dollars = Dollars(spent.month),
    }
}

impl HolderBody {
    /// The members of a call that sets an account as it is.
    pub(crate) fn members(&self) -> Map<String, Value> {
        let limits = self.limits;
        let members = [
            ("team", json!(self.team)),
            ("limit", json!(self.limit.map(|limit| limit.0.to_string()))),
            ("limit_reset", json!(self.limit_reset)),
            ("requests_per_minute", json!(limits.requests_per_minute)),
            ("tokens_per_minute", json!(limits.tokens_per_minute)),
            ("concurrency", json!(limits.concurrency)),
        ];
        let set = members.into_iter().filter(|(_, value)| !value.is_null());
        set.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
