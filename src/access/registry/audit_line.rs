//! What a line of the audit log shows beside the change itself: the members that changed, before and after. Worked out when
//! the change takes effect, so that the file holds each change once.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::State;
use crate::access::issued::{AuditEntry, Change};

/// Members of stored things that are no setting, or that nobody may see.
const HIDDEN_MEMBERS: [&str; 5] = ["id", "sha256", "created_ms", "updated_ms", "created_by"];

/// A line of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditLine {
    /// The change as it is stored: its time, the administrator and the action.
    pub entry: AuditEntry,
    /// What is different now.
    pub changes: Vec<ChangedMember>,
}

/// A member that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct ChangedMember {
    /// Name of the member. `on`: whether a key of the configuration, an account or a team is switched on. `result` and `settings`: how a
    /// reload ended and the names of the settings that it changed. `fingerprint`, `alias`, `share`, `overridden` and `reason`: which shadow may be
    /// tried, and the checks that were overridden. `event` and `result`: which alert was sent to the
    /// receiver, and `sent` or why it was not. `before_ms` and `owner`: which records were deleted.
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
        Change::SwitchHolder { kind, name, .. } => switched(Some(!state.disabled.contains(&(*kind, name.clone())))),
        Change::Reload { .. }
        | Change::PromoteShadow { .. }
        | Change::SendAlert { .. }
        | Change::DeleteRecords { .. } => Map::new(),
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
        Change::SwitchHolder { on, .. } => switched(Some(*on)),
        Change::PutAccount(account) => members(Some(account)),
        Change::PutTeam(team) => members(Some(team)),
        Change::SendAlert { event, result, .. } => members(Some(&json!({ "event": event, "result": result }))),
        Change::Reload { result, settings } => members(Some(&json!({ "result": result, "settings": settings }))),
        Change::PromoteShadow { shadow: _, fingerprint, alias, share, overridden, reason } => members(Some(&json!({
            "fingerprint": fingerprint, "alias": alias, "share": share,
            "overridden": (!overridden.is_empty()).then_some(overridden), "reason": reason,
        }))),
        Change::DeleteRecords { before_ms, owner } => members(Some(&json!({ "before_ms": before_ms, "owner": owner }))),
        Change::RevokeKey { .. } | Change::RemoveAccount { .. } | Change::RemoveTeam { .. } => Map::new(),
    }
}

fn switched(on: Option<bool>) -> Map<String, Value> {
    Map::from_iter([("on".to_owned(), json!(on))])
}

fn members(thing: Option<&impl Serialize>) -> Map<String, Value> {
    let Some(Ok(Value::Object(mut members))) = thing.map(serde_json::to_value) else { return Map::new() };
    members.retain(|name, _| !HIDDEN_MEMBERS.contains(&name.as_str()));
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::issued::{IssuedAccount, IssuedKey, IssuedTeam, StoredLimit};

    fn shown(thing: &impl Serialize) -> Vec<String> {
        members(Some(thing)).into_iter().map(|(name, _)| name).collect()
    }

    /// A member that is new must be named here, or among those that are hidden.
    #[test]
    fn these_members_of_keys_accounts_and_teams_are_shown_and_no_others() {
        let spend = || Some(StoredLimit { amount: "5".to_owned(), reset: None });
        let (text, texts) = (String::new, || vec![String::new()]);
        let key = IssuedKey {
            id: 1,
            name: text(),
            label: text(),
            sha256: text(),
            account: text(),
            scopes: texts(),
            created_ms: 1,
            updated_ms: 1,
            created_by: text(),
            disabled: true,
            expires_ms: Some(1),
            spend: spend(),
            requests_per_minute: Some(1),
            tokens_per_minute: Some(1),
            concurrency: Some(1),
            allowed_models: texts(),
            blocked_models: texts(),
            allowed_providers: texts(),
            blocked_providers: texts(),
            objective: Some(text()),
            task: Some(text()),
            explore: Some(false),
            min_quality: Some(json!(0.7)),
            quality_unknown: Some(text()),
            aliases: [(text(), text())].into(),
            external_user: Some(text()),
        };
        let limits = ["requests_per_minute", "tokens_per_minute", "concurrency"];
        let mut expected = vec!["name", "label", "account", "scopes", "disabled", "expires_ms", "spend"];
        expected.extend(limits);
        expected.extend(["allowed_models", "blocked_models", "allowed_providers", "blocked_providers"]);
        expected.extend(["objective", "task", "min_quality", "quality_unknown", "explore", "aliases", "external_user"]);
        expected.sort_unstable();
        let mut found = shown(&key);
        found.sort_unstable();
        assert_eq!(found, expected);
        let account = IssuedAccount {
            name: text(),
            team: Some(text()),
            spend: spend(),
            requests_per_minute: Some(1),
            tokens_per_minute: Some(1),
            concurrency: Some(1),
        };
        let mut found = shown(&account);
        found.sort_unstable();
        assert_eq!(found, ["concurrency", "name", "requests_per_minute", "spend", "team", "tokens_per_minute"]);
        let mut found = shown(&IssuedTeam { name: text(), spend: spend() });
        found.sort_unstable();
        assert_eq!(found, ["name", "spend"]);
    }
}
