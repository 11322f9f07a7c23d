//! `accounts` and `teams`: lists them with their budgets, sets them up, changes, disables and removes them, at a running gateway or
//! in the data directory of a stopped one.

use actix_web::http::Method;
use clap::{Args, Subcommand};
use pointsman_config::{Config, Environment};
use pointsman_dialect::percent::encoded;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    CommandOutput, Finished,
    admin_place::{AdminClient, AdminPlace, RateArguments, StoppedGateway, given, stopped_gateway},
    columns::{dollars, list, shown},
};
use crate::{
    access::{
        issued::{Actor, Change, HolderKind, StoredLimit},
        registry::Registry,
    },
    api::admin::accounts::{check_name, read_account, read_team},
};

/// What to do with which accounts.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AccountsRequest {
    #[command(subcommand)]
    action: AccountsAction,
    #[command(flatten)]
    pub(super) place: AdminPlace,
}

/// What to do with which teams.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TeamsRequest {
    #[command(subcommand)]
    action: TeamsAction,
    #[command(flatten)]
    pub(super) place: AdminPlace,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum AccountsAction {
    /// List the accounts that have keys or limits
    List,
    /// Set up an account
    Create(AccountArguments),
    /// Change limits or the team of an account; what is not named stays
    Limit(AccountArguments),
    /// Remove the limits and the team of an account, unless its team is disabled; its keys and records stay
    Remove {
        /// Name of the account
        name: String,
    },
    /// Refuse all keys of an account until it is enabled
    Disable {
        /// Name of the account
        name: String,
    },
    /// Accept the keys of a disabled account again
    Enable {
        /// Name of the account
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum TeamsAction {
    /// List the teams
    List,
    /// Set up a team: a budget that several accounts share
    Create(TeamArguments),
    /// Change the limit of a team; what is not named stays
    Limit(TeamArguments),
    /// Remove a team; its accounts stay
    Remove {
        /// Name of the team
        name: String,
    },
    /// Refuse all keys of the accounts of a team until it is enabled
    Disable {
        /// Name of the team
        name: String,
    },
    /// Accept the keys of the accounts of a disabled team again
    Enable {
        /// Name of the team
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize)]
struct TeamArguments {
    /// Name
    #[serde(skip)]
    name: String,
    /// Spending limit in US dollars, such as 25.00, or none
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    limit: Option<String>,
    /// When the limit starts again: daily, weekly, monthly or never
    #[arg(long, value_name = "PERIOD")]
    limit_reset: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize)]
struct AccountArguments {
    #[command(flatten)]
    #[serde(flatten)]
    budget: TeamArguments,
    /// The team whose budget it shares, or none
    #[arg(long)]
    team: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    rates: RateArguments,
}

/// The members that arguments set; `null` for those that are cleared.
fn members(arguments: &impl Serialize) -> Map<String, Value> {
    let mut members = given(arguments);
    for (name, cleared) in [("limit", "none"), ("limit_reset", "never"), ("team", "none")] {
        if let Some(value) = members.get_mut(name).filter(|value| **value == cleared) {
            *value = Value::Null;
        }
    }
    members
}

/// The path of the calls for all of them.
fn path(kind: HolderKind) -> String {
    format!("/api/v1/admin/{}", kind.plural())
}

/// Members that a call sets.
const fn settable(kind: HolderKind) -> &'static [&'static str] {
    match kind {
        HolderKind::Account => {
            &["limit", "limit_reset", "team", "requests_per_minute", "tokens_per_minute", "concurrency"]
        }
        HolderKind::Team => &["limit", "limit_reset"],
    }
}

/// What to do.
enum Action<'a> {
    List,
    Create(&'a str, Map<String, Value>),
    Limit(&'a str, Map<String, Value>),
    Remove(&'a str),
    Switch(&'a str, bool),
}

/// Runs `accounts`.
pub(super) fn accounts(request: &AccountsRequest, environment: &Environment) -> Finished {
    let action = match &request.action {
        AccountsAction::List => Action::List,
        AccountsAction::Create(account) => Action::Create(&account.budget.name, members(account)),
        AccountsAction::Limit(account) => Action::Limit(&account.budget.name, members(account)),
        AccountsAction::Remove { name } => Action::Remove(name),
        AccountsAction::Disable { name } => Action::Switch(name, false),
        AccountsAction::Enable { name } => Action::Switch(name, true),
    };
    run(HolderKind::Account, &action, &request.place, environment)
}

/// Runs `teams`.
pub(super) fn teams(request: &TeamsRequest, environment: &Environment) -> Finished {
    let action = match &request.action {
        TeamsAction::List => Action::List,
        TeamsAction::Create(team) => Action::Create(&team.name, members(team)),
        TeamsAction::Limit(team) => Action::Limit(&team.name, members(team)),
        TeamsAction::Remove { name } => Action::Remove(name),
        TeamsAction::Disable { name } => Action::Switch(name, false),
        TeamsAction::Enable { name } => Action::Switch(name, true),
    };
    run(HolderKind::Team, &action, &request.place, environment)
}

fn run(kind: HolderKind, action: &Action<'_>, place: &AdminPlace, environment: &Environment) -> Finished {
    place.run(
        environment,
        |gateway| at_running(kind, action, gateway),
        |config| at_stopped(kind, action, config),
        |holders| match (place.json, action) {
            (true, _) => format!("{}\n", json!({ "data": holders })),
            (false, Action::List) => table(kind, &holders),
            (false, Action::Create(name, _)) => format!("The {} '{name}' is set up.\n", kind.word()),
            (false, Action::Limit(name, _)) => format!("The {} '{name}' is changed.\n", kind.word()),
            (false, Action::Remove(name)) => format!("The {} '{name}' is removed.\n", kind.word()),
            (false, Action::Switch(name, on)) => {
                format!("The {} '{name}' is {}.\n", kind.word(), if *on { "enabled" } else { "disabled" })
            }
        },
    )
}

/// All of them after the action.
fn at_running(kind: HolderKind, action: &Action<'_>, gateway: &AdminClient) -> Result<Vec<Value>, CommandOutput> {
    let all = || gateway.call(Method::GET, &path(kind), None).map(|page| list(&page, "data").to_vec());
    let one = |name: &str| format!("{}/{}", path(kind), encoded(name));
    let page = match action {
        Action::List => return all(),
        Action::Create(name, members) => {
            gateway.call(Method::PUT, &one(name), Some(merged(kind, &all()?, name, members, true)?))
        }
        Action::Limit(name, members) => {
            gateway.call(Method::PUT, &one(name), Some(merged(kind, &all()?, name, members, false)?))
        }
        Action::Remove(name) => gateway.call(Method::DELETE, &one(name), None),
        Action::Switch(name, on) => {
            let verb = if *on { "enable" } else { "disable" };
            gateway.call(Method::POST, &format!("{}/{verb}", one(name)), None)
        }
    };
    Ok(list(&page?, "data").to_vec())
}

/// The members of a call that leaves what is not named as it is.
fn merged(
    kind: HolderKind,
    all: &[Value],
    name: &str,
    members: &Map<String, Value>,
    is_new: bool,
) -> Result<Value, CommandOutput> {
    let word = kind.word();
    let known = all.iter().find(|known| known.get("name").and_then(Value::as_str) == Some(name));
    // Accounts that only keys name have nothing set yet.
    let is_set_up = known.is_some_and(|known| known.get("origin").and_then(Value::as_str) != Some("keys"));
    match (is_new, known) {
        (true, _) if is_set_up => {
            return Err(format!("the {word} '{name}' is there already; 'pointsman {word}s limit' changes it").into());
        }
        (false, None) => {
            return Err(format!("there is no {word} '{name}'; 'pointsman {word}s create' sets it up").into());
        }
        _ => {}
    }
    let before = known.and_then(Value::as_object).into_iter().flatten();
    let before = before.filter(|(member, value)| settable(kind).contains(&member.as_str()) && !value.is_null());
    let mut merged: Map<String, Value> = before.map(|(member, value)| (member.clone(), value.clone())).collect();
    for (member, value) in members {
        match value {
            Value::Null => merged.remove(member),
            value => merged.insert(member.clone(), value.clone()),
        };
    }
    // Without a limit there is no period.
    if members.get("limit").is_some_and(Value::is_null) {
        merged.remove("limit_reset");
    }
    Ok(Value::Object(merged))
}

/// All of them after the action, in the directory of a gateway that does not run. What they spent is not known there.
fn at_stopped(kind: HolderKind, action: &Action<'_>, config: &Config) -> Result<Vec<Value>, CommandOutput> {
    let StoppedGateway { registry, actor, .. } = &stopped_gateway(config)?;
    match action {
        Action::List => {}
        Action::Create(name, members) => set(kind, registry, actor, config, (name, members, true))?,
        Action::Limit(name, members) => set(kind, registry, actor, config, (name, members, false))?,
        Action::Remove(name) => {
            if !registry.is_set_up(kind, name) {
                let word = kind.word();
                return Err(format!("no {word} '{name}' was set up; 'pointsman {word}s list' shows them").into());
            }
            registry.record(actor.clone(), Change::remove(kind, name)).map_err(|fault| fault.to_string())?;
        }
        Action::Switch(name, on) => {
            let known = |row: &Value| row.get("name").and_then(Value::as_str) == Some(*name);
            let is_named =
                kind == HolderKind::Account && registry.account_names().iter().any(|(_, other)| other == name);
            if !is_named && !stored(kind, registry, config).iter().any(known) {
                let word = kind.word();
                return Err(format!("there is no {word} '{name}'; 'pointsman {word}s list' shows them").into());
            }
            registry.switch_holder(actor.clone(), kind, name, *on).map_err(|fault| fault.to_string())?;
        }
    }
    Ok(stored(kind, registry, config))
}

fn set(
    kind: HolderKind,
    registry: &Registry,
    actor: &Actor,
    config: &Config,
    (name, members, is_new): (&str, &Map<String, Value>, bool),
) -> Result<(), CommandOutput> {
    check_name(name, registry.is_configured(kind, name)).map_err(|fault| fault.message)?;
    let merged = merged(kind, &stored(kind, registry, config), name, members, is_new)?;
    let merged = merged.as_object().cloned().unwrap_or_default();
    let change = match kind {
        HolderKind::Account => {
            let account = read_account(name, &merged).map_err(|fault| fault.message)?;
            if let Some(team) = account.team.as_ref().filter(|team| !registry.has_team(team)) {
                return Err(format!("there is no team '{team}'; 'pointsman teams create' sets one up").into());
            }
            Change::PutAccount(account)
        }
        HolderKind::Team => Change::PutTeam(read_team(name, &merged).map_err(|fault| fault.message)?),
    };
    registry.record(actor.clone(), change).map_err(|fault| fault.to_string().into())
}

/// The accounts or teams that were set up, and those of the configuration, as a running gateway lists them.
fn stored(kind: HolderKind, registry: &Registry, config: &Config) -> Vec<Value> {
    let mut all: Vec<Value> = match kind {
        HolderKind::Account => registry.accounts().iter().map(|account| row(account, account.spend.as_ref())).collect(),
        HolderKind::Team => registry.teams().iter().map(|team| row(team, team.spend.as_ref())).collect(),
    };
    let configured = |name: &str, team: Option<&str>, spend: Option<StoredLimit>| {
        let mut row = json!({ "name": name, "team": team, "origin": "configuration" });
        add_limit(&mut row, spend.as_ref());
        row
    };
    match kind {
        HolderKind::Account => all.extend(config.accounts.iter().map(|account| {
            configured(&account.name, account.team.as_deref(), account.limits.spend.map(StoredLimit::new))
        })),
        HolderKind::Team => {
            all.extend(config.teams.iter().map(|team| configured(&team.name, None, team.spend.map(StoredLimit::new))));
        }
    }
    let disabled = registry.disabled(kind);
    for name in &disabled {
        if !all.iter().any(|row| row.get("name").and_then(Value::as_str) == Some(name)) {
            all.push(json!({ "name": name, "origin": "keys" }));
        }
    }
    for row in all.iter_mut().filter_map(Value::as_object_mut) {
        let is_disabled =
            row.get("name").and_then(Value::as_str).is_some_and(|name| disabled.iter().any(|other| other == name));
        row.insert("disabled".to_owned(), json!(is_disabled));
    }
    all
}

/// What was set up, with the names of the API.
fn row(holder: &impl Serialize, spend: Option<&StoredLimit>) -> Value {
    let mut row = serde_json::to_value(holder).unwrap_or_default();
    if let Some(members) = row.as_object_mut() {
        members.remove("spend");
        members.insert("origin".to_owned(), json!("administrator"));
    }
    add_limit(&mut row, spend);
    row
}

fn add_limit(row: &mut Value, spend: Option<&StoredLimit>) {
    let Some(members) = row.as_object_mut() else { return };
    members.insert("limit".to_owned(), json!(spend.map(|spend| &spend.amount)));
    members.insert("limit_reset".to_owned(), json!(spend.and_then(|spend| spend.reset.as_ref())));
}

/// A table with one line each; the name stands last, so that it is never cut.
fn table(kind: HolderKind, holders: &[Value]) -> String {
    if holders.is_empty() {
        return format!("There are no {}s.\n", kind.word());
    }
    let line = |parts: [&str; 7]| {
        let [today, month, limit, left, reset, team, name] = parts;
        let team = if kind == HolderKind::Account { format!("{team:<16} ") } else { String::new() };
        format!("{today:>10} {month:>10} {limit:>10} {left:>10} {reset:<8} {team}{name}\n")
    };
    let title = kind.word().to_uppercase();
    let mut lines = line(["TODAY $", "MONTH $", "LIMIT $", "LEFT $", "RESET", "TEAM", &title]);
    for holder in holders {
        let [today, month, left] =
            ["/usage_daily", "/usage_monthly", "/limit_remaining"].map(|path| dollars(holder, path));
        // A running gateway gives the limit as a number.
        let limit = match holder.get("limit") {
            Some(Value::String(text)) => text.clone(),
            _ => dollars(holder, "/limit"),
        };
        let [reset, team, mut name] = ["/limit_reset", "/team", "/name"].map(|path| shown(holder, path));
        if holder.get("disabled") == Some(&Value::Bool(true)) {
            name.push_str("  (disabled)");
        }
        lines.push_str(&line([&today, &month, &limit, &left, &reset, &team, &name]));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Value> {
        vec![
            json!({ "name": "blue", "origin": "administrator", "limit": 5, "limit_reset": "daily", "team": "web", "usage": 1 }),
            json!({ "name": "ci", "origin": "keys", "limit": null }),
        ]
    }

    #[test]
    fn what_is_not_named_stays_and_what_is_cleared_goes() {
        let members = |text: Value| text.as_object().unwrap().clone();
        let merge = |members: &Map<String, Value>, is_new| {
            merged(HolderKind::Account, &known(), "blue", members, is_new).map_err(|failed| failed.text)
        };
        let changed = merge(&members(json!({ "concurrency": 4 })), false).unwrap();
        assert_eq!(changed, json!({ "limit": 5, "limit_reset": "daily", "team": "web", "concurrency": 4 }));
        let cleared = merge(&members(json!({ "limit": null, "team": null })), false).unwrap();
        assert_eq!(cleared, json!({}));
        assert!(merge(&Map::new(), true).unwrap_err().contains("accounts limit"));
    }

    #[test]
    fn an_account_that_only_keys_name_can_be_set_up_and_an_unknown_one_not_changed() {
        assert!(merged(HolderKind::Account, &known(), "ci", &Map::new(), true).is_ok());
        let unknown = merged(HolderKind::Team, &known(), "nobody", &Map::new(), false);
        assert!(unknown.is_err_and(|failed| failed.text.contains("teams create")));
    }

    #[test]
    fn a_list_is_a_table_with_the_name_at_its_end() {
        let team = json!({ "name": "web", "limit": "5.00", "limit_reset": "daily", "usage_daily": 0.25 });
        let expected = "   TODAY $    MONTH $    LIMIT $     LEFT $ RESET    TEAM\n     0.250          -       5.00          - daily    web\n";
        assert_eq!(table(HolderKind::Team, &[team]), expected);
        assert_eq!(table(HolderKind::Account, &[]), "There are no accounts.\n");
    }
}
