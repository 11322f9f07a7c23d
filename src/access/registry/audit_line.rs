//! What a line of the audit log shows beside the change itself: the members that changed, before and after. Worked out when
//! the change takes effect, so that the file holds each change once.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::State;
use crate::access::issued::{AuditEntry, Change};

/// Members of stored things that are no setting, or that nobody may see.
const UNTOLD: [&str; 5] = ["id", "sha256", "created_ms", "updated_ms", "created_by"];

/// A line of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditLine {
    /// Who did what, when and from where.
    pub entry: AuditEntry,
    /// What is different now.
    pub changes: Vec<ChangedMember>,
}

/// A member that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedMember {
    /// Its name.
    pub member: String,
    /// Its value before; `null` if it had none.
    pub from: Value,
    /// Its value since; `null` if it has none.
    pub to: Value,
}

/// What `change` is about to change. The state is that before it.
pub(super) fn changes(state: &State, change: &Change) -> Vec<ChangedMember> {
    let (before, after) = (before(state, change), after(change));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let of = |members: &Map<String, Value>, name: &str| members.get(name).cloned().unwrap_or_default();
    let changed = names.into_iter().map(|name| (name, of(&before, name), of(&after, name)));
    changed
        .filter(|(_, from, to)| from != to)
        .map(|(name, from, to)| ChangedMember { member: name.clone(), from, to })
        .collect()
}

fn before(state: &State, change: &Change) -> Map<String, Value> {
    match change {
        Change::CreateKey(key)
        | Change::UpdateKey(key)
        | Change::RotateKey(key)
        | Change::DisableKey(key)
        | Change::EnableKey(key) => members(state.keys.get(&key.id)),
        Change::RevokeKey { id, .. } => members(state.keys.get(id)),
        Change::SwitchKey { name, .. } => switched(state.switched.get(name).copied()),
        Change::PutAccount(account) => members(state.accounts.get(&account.name)),
        Change::RemoveAccount { name } => members(state.accounts.get(name)),
        Change::PutTeam(team) => members(state.teams.get(&team.name)),
        Change::RemoveTeam { name } => members(state.teams.get(name)),
        Change::Reload { .. } | Change::DeleteRecords { .. } | Change::CarrySpending(_) => Map::new(),
    }
}

fn after(change: &Change) -> Map<String, Value> {
    match change {
        Change::CreateKey(key)
        | Change::UpdateKey(key)
        | Change::RotateKey(key)
        | Change::DisableKey(key)
        | Change::EnableKey(key) => members(Some(&**key)),
        Change::SwitchKey { on, .. } => switched(*on),
        Change::PutAccount(account) => members(Some(account)),
        Change::PutTeam(team) => members(Some(team)),
        Change::Reload { result, settings } => members(Some(&json!({ "result": result, "settings": settings }))),
        Change::DeleteRecords { before_ms, owner } => members(Some(&json!({ "before_ms": before_ms, "owner": owner }))),
        Change::RevokeKey { .. } | Change::RemoveAccount { .. } | Change::RemoveTeam { .. } => Map::new(),
        Change::CarrySpending(_) => Map::new(),
    }
}

fn switched(on: Option<bool>) -> Map<String, Value> {
    Map::from_iter([("on".to_owned(), json!(on))])
}

fn members(thing: Option<&impl Serialize>) -> Map<String, Value> {
    let Some(Ok(Value::Object(mut members))) = thing.map(serde_json::to_value) else { return Map::new() };
    members.retain(|name, _| !UNTOLD.contains(&name.as_str()));
    members
}
