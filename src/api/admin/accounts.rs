//! `/admin/accounts` and `/admin/teams`: limits and spending of accounts, and the budgets that teams share.

use std::{collections::BTreeSet, sync::Arc};

use actix_web::{HttpRequest, HttpResponse, web};
use pointsman_base::clock;
use pointsman_config::is_account_name;
use pointsman_domain::{Invalid, ResetPeriod};
use serde::Serialize;
use serde_json::{Map, Value};

use super::audit;
use crate::{
    access::{
        budget::BudgetReading,
        issued::{Change, IssuedAccount, IssuedTeam},
    },
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        keys::{
            issued_key::{account_name, rate, spend_limit, wrong},
            issued_keys::members,
        },
        number::Dollars,
        path_name::PathName,
    },
    base::{error::ApiError, events},
    state::gateway::{GatewayView, Worker},
};

/// Lists all accounts that have keys or limits.
///
/// # Errors
/// None of its own.
pub(crate) async fn list(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: accounts(&worker) }))
}

/// All accounts that have keys or limits.
pub(crate) fn accounts(worker: &Worker) -> Vec<HolderBody> {
    let registry = &worker.shared.registry;
    let body = |(number, name): (u64, String)| {
        let account = registry.holders.account(number);
        let reading = account.budget.read(clock::unix_millis());
        HolderBody::new(name, Some(format!("{number:016x}")), registry.team_of(number), &reading)
    };
    registry.account_names().into_iter().map(body).collect()
}

/// Lists all teams.
///
/// # Errors
/// None of its own.
pub(crate) async fn list_teams(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: teams(&worker) }))
}

/// All teams.
pub(crate) fn teams(worker: &Worker) -> Vec<HolderBody> {
    let body = |name: Arc<str>| {
        let reading = worker.shared.registry.holders.team(&name).budget.read(clock::unix_millis());
        HolderBody::new(name.as_ref().to_owned(), None, None, &reading)
    };
    team_names(worker).into_iter().map(body).collect()
}

/// Names of all teams, in order.
pub(crate) fn team_names(worker: &GatewayView) -> BTreeSet<Arc<str>> {
    let configured = worker.setup.config.teams.iter().map(|team| Arc::clone(&team.name));
    configured.chain(worker.shared.registry.teams().into_iter().map(|team| Arc::from(team.name))).collect()
}

/// Sets the limits and the team of an account, which need not exist. Members that are left out are cleared.
///
/// # Errors
/// 400 for a bad member or an account of the configuration, 404 without a durable ledger, 503 when it cannot be stored.
pub(crate) async fn put(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    check_name(&name, worker.shared.registry.is_configured(&name).0)?;
    let members = members(&worker, &caller, &request, payload).await?;
    let account = read_account(&name, &members)?;
    if let Some(team) = account.team.as_ref().filter(|team| !worker.shared.registry.has_team(team)) {
        return Err(wrong("team", format!("an existing team, and there is no '{team}'")).into());
    }
    events::Administered { by: &caller.key.name, what: "sets the account", whom: Some(&name) }.emit();
    audit::record(&worker, audit::actor(&request, &caller), Change::PutAccount(account)).await?;
    list(Administrator(caller), worker).await
}

/// Sets the budget of a team.
///
/// # Errors
/// As [`put`].
pub(crate) async fn put_team(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    check_name(&name, worker.shared.registry.is_configured(&name).1)?;
    let members = members(&worker, &caller, &request, payload).await?;
    if let Some(unknown) = members.keys().find(|name| !["limit", "limit_reset"].contains(&name.as_str())) {
        return Err(wrong(unknown, "left out: a team has limit and limit_reset").into());
    }
    let team = IssuedTeam { name: name.to_owned(), spend: spend_limit(None, &members)? };
    events::Administered { by: &caller.key.name, what: "sets the team", whom: Some(&name) }.emit();
    audit::record(&worker, audit::actor(&request, &caller), Change::PutTeam(team)).await?;
    list_teams(Administrator(caller), worker).await
}

/// Removes the limits and the team of an account. Its keys and records stay.
///
/// # Errors
/// 404, 503 when it cannot be stored.
pub(crate) async fn remove(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    if !worker.shared.registry.accounts().iter().any(|account| *account.name == *name) {
        return Err(ApiError::no_such("account"));
    }
    let change = Change::RemoveAccount { name: name.to_owned() };
    events::Administered { by: &caller.key.name, what: "removes the account", whom: Some(&name) }.emit();
    audit::record(&worker, audit::actor(&request, &caller), change).await?;
    list(Administrator(caller), worker).await
}

/// Removes a team. Accounts that name it are without a team budget until it is set again.
///
/// # Errors
/// 404, 503 when it cannot be stored.
pub(crate) async fn remove_team(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    if !worker.shared.registry.teams().iter().any(|team| *team.name == *name) {
        return Err(ApiError::no_such("team"));
    }
    let change = Change::RemoveTeam { name: name.to_owned() };
    events::Administered { by: &caller.key.name, what: "removes the team", whom: Some(&name) }.emit();
    audit::record(&worker, audit::actor(&request, &caller), change).await?;
    list_teams(Administrator(caller), worker).await
}

fn check_name(name: &str, is_configured: bool) -> Result<(), Invalid> {
    if is_configured {
        return Err(wrong("name", "changed in the configuration, which has an entry of this name"));
    }
    if is_account_name(name) { Ok(()) } else { Err(wrong("name", "a name of 1 to 128 visible characters")) }
}

fn read_account(name: &str, members: &Map<String, Value>) -> Result<IssuedAccount, Invalid> {
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

/// An account or a team.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct HolderBody {
    /// Its name.
    pub(crate) name: String,
    /// Only of an account. Its number, as 16 hexadecimal digits. It identifies the records of the account, also after
    /// its keys were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The team whose budget it shares; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) team: Option<String>,
    /// Spending limit in US dollars; `null` without one.
    pub(crate) limit: Option<Dollars>,
    /// What is left of the limit in US dollars, never below 0: amounts reserved for running requests are not. `null`
    /// without a limit.
    pub(crate) limit_remaining: Option<Dollars>,
    /// How often the limit starts again, at midnight UTC: every day, every Monday, or on the first of the month. `null`
    /// if never.
    #[cfg_attr(test, schemars(with = "Option<crate::base::words::ResetPeriod>"))]
    pub(crate) limit_reset: Option<&'static str>,
    /// US dollars reserved for running requests: the highest possible cost of each.
    reserved: Dollars,
    /// US dollars spent, ever; of attempts whose price is known.
    usage: Dollars,
    /// US dollars spent since midnight UTC; of attempts whose price is known.
    pub(crate) usage_daily: Dollars,
    /// US dollars spent since Monday, midnight UTC; of attempts whose price is known.
    usage_weekly: Dollars,
    /// US dollars spent since the first of the month, midnight UTC; of attempts whose price is known.
    pub(crate) usage_monthly: Dollars,
}

impl HolderBody {
    fn new(name: String, owner: Option<String>, team: Option<String>, reading: &BudgetReading) -> HolderBody {
        let BudgetReading { limit, available, spent, reserved } = *reading;
        HolderBody {
            name,
            owner,
            team,
            limit: limit.map(|limit| Dollars(limit.amount)),
            limit_remaining: available.map(Dollars),
            limit_reset: limit.and_then(|limit| limit.reset).map(ResetPeriod::as_str),
            reserved: Dollars(reserved),
            usage: Dollars(spent.total),
            usage_daily: Dollars(spent.day),
            usage_weekly: Dollars(spent.week),
            usage_monthly: Dollars(spent.month),
        }
    }
}
