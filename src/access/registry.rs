//! What administrators set up while the gateway runs: issued keys, disabled keys, accounts, teams, and the audit log.
//!
//! All of it is in memory, so no failure of the disk affects a key. A change is stored first and takes effect then. Only the
//! refusal of a key takes effect even if it cannot be stored.

mod audit_line;
mod sharing;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt, io,
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_domain::SpendLimit;

use pointsman_base::clock;
use pointsman_config::{AccountConfig, Config, HolderLimits, Key, LimitsConfig, TeamConfig};

pub use self::audit_line::{AuditLine, ChangedMember};
use self::sharing::Sharing;
pub use self::sharing::{ChangeId, Imported, SharedChange, is_readable};

use crate::{
    access::{
        holders::{Holders, account_number, key_number},
        issued::{Actor, AuditEntry, Change, HolderKind, IssuedAccount, IssuedKey, IssuedTeam, StoredLimit},
        keys::{Caller, IssuedTable},
    },
    base::error::BudgetHolder,
};

/// Lines of the audit log in memory. The file keeps all.
const MAX_AUDIT: usize = 10_000;
/// Most issued keys.
pub const MAX_ISSUED: usize = 100_000;

/// Where changes are stored.
pub trait ChangeLog: Send + Sync {
    /// Stores a change. Durable when it returns.
    ///
    /// # Errors
    /// The disk is full or refuses. The change is then not stored.
    fn append(&self, change: &[u8]) -> io::Result<()>;
}

/// Why a change was not made.
#[derive(Debug)]
pub enum ChangeFault {
    /// Nothing can be stored, because records are kept in memory only.
    NotDurable,
    /// The disk refused.
    Disk(io::Error),
    /// The disk refused; the key is refused all the same until the process ends.
    DisabledUntilRestart(io::Error),
    /// There is no such thing.
    Unknown,
    /// Another key has the name.
    NameTaken,
    /// The limit of issued keys is reached.
    TooMany,
    /// The account is not removed: its team, which is disabled, would no longer refuse its keys.
    TeamDisabled(String),
}

impl fmt::Display for ChangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeFault::NotDurable => f.write_str("records are kept in memory only"),
            ChangeFault::Disk(error) | ChangeFault::DisabledUntilRestart(error) => {
                write!(f, "the disk refused: {error}")
            }
            ChangeFault::Unknown => f.write_str("there is no such entry"),
            ChangeFault::NameTaken => f.write_str("the name is taken"),
            ChangeFault::TooMany => write!(f, "there are {MAX_ISSUED} issued keys, the most there may be"),
            ChangeFault::TeamDisabled(team) => {
                write!(f, "the account's team '{team}' is disabled: enable it first, or choose another team")
            }
        }
    }
}

/// A stored change that cannot be read.
#[derive(Debug)]
pub struct UnreadableChange(String);

impl fmt::Display for UnreadableChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stored change of keys or accounts cannot be read; it may be of a later version: {}", self.0)
    }
}

/// All of it. One per process.
pub struct Registry {
    /// Usage of limits, and spending.
    pub holders: Holders,
    issued: Arc<IssuedTable>,
    log: Option<Box<dyn ChangeLog>>,
    /// Held for a whole change, so that changes are stored in the order in which they take effect. The disk is written
    /// while only this is locked.
    turn: Mutex<()>,
    state: Mutex<State>,
    /// Changes that other replicas have yet to hear of; `None` if they are not shared.
    sharing: Mutex<Option<Sharing>>,
}

#[derive(Default)]
struct State {
    keys: BTreeMap<u64, IssuedKey>,
    /// Switched keys of the configuration, by name.
    switched: BTreeMap<String, bool>,
    accounts: BTreeMap<String, IssuedAccount>,
    teams: BTreeMap<String, IssuedTeam>,
    /// Disabled accounts and teams, wherever they are set up.
    disabled: BTreeSet<(HolderKind, String)>,
    audit: VecDeque<AuditLine>,
    configured: Configured,
}

/// The part of the configuration in force that callers are made from.
#[derive(Default, Clone)]
struct Configured {
    limits: LimitsConfig,
    /// Names of the keys and of their accounts.
    keys: Vec<(Arc<str>, Arc<str>)>,
    accounts: HashMap<Arc<str>, AccountConfig>,
    teams: HashMap<Arc<str>, TeamConfig>,
}

impl Registry {
    /// The state after the stored `changes`, oldest first. Further changes go to `log`.
    ///
    /// # Errors
    /// A change cannot be read.
    pub fn new(
        limits: &LimitsConfig,
        log: Option<Box<dyn ChangeLog>>,
        changes: &[Vec<u8>],
    ) -> Result<Registry, UnreadableChange> {
        let mut state = State::default();
        state.configured.limits = limits.clone();
        let entries = changes.iter().map(|change| read_change(change, limits)).collect::<Result<Vec<_>, _>>()?;
        let mut passed_over = entries.len().saturating_sub(MAX_AUDIT);
        for entry in entries {
            // What changed is worked out only for lines that stay in memory.
            if passed_over > 0 {
                passed_over -= 1;
                state.change(&entry.change);
            } else {
                state.apply(entry);
            }
        }
        let (issued, turn) = (Arc::default(), Mutex::default());
        let sharing = Mutex::default();
        Ok(Registry { holders: Holders::new(limits), issued, log, turn, state: Mutex::new(state), sharing })
    }

    /// The table of issued keys.
    pub fn issued_table(&self) -> &Arc<IssuedTable> {
        &self.issued
    }

    /// Takes over the limits, accounts and teams of a configuration that comes into force.
    pub fn adopt(&self, config: &Config) {
        let mut state = self.state.lock();
        state.configured = Configured {
            limits: config.limits.clone(),
            keys: config.keys.iter().map(|key| (Arc::clone(&key.name), key.account_name())).collect(),
            accounts: config.accounts.iter().map(|account| (Arc::clone(&account.name), account.clone())).collect(),
            teams: config.teams.iter().map(|team| (Arc::clone(&team.name), team.clone())).collect(),
        };
        self.publish(&state);
    }

    /// The caller of a key of the configuration in force, or the anonymous caller.
    pub fn configured_caller(&self, key: &Key) -> Caller {
        let state = self.state.lock();
        let anonymous = key.sha256 == Key::anonymous().sha256;
        let id = if anonymous { 0 } else { key_number(&key.name) };
        let caller = self.caller(&state, id, key.clone(), false);
        // A key that is refused although that could not be stored stays refused.
        let life = &caller.state.life;
        if life.switched().is_none() && !anonymous {
            life.switch(state.switched.get(&*key.name).copied());
        }
        caller
    }

    fn caller(&self, state: &State, id: u64, key: Key, is_issued: bool) -> Caller {
        let account_name = key.account_name();
        // Records of callers without a key have the owner 0.
        let owner = if id == 0 { 0 } else { account_number(&account_name) };
        let (key_state, account) = (self.holders.key(id), self.holders.account(owner));
        key_state.limits.set(&HolderLimits {
            requests_per_minute: key.requests_per_minute,
            tokens_per_minute: key.tokens_per_minute,
            concurrency: key.concurrency,
            spend: None,
        });
        key_state.budget.set_limit(key.spend);
        self.set_account(state, owner, &account_name);
        Caller { id, owner, account_name, is_issued, key, state: key_state, account }
    }

    /// Sets the limits and the team of an account.
    fn set_account(&self, state: &State, number: u64, name: &str) {
        let (limits, team) = state.account(name);
        let account = self.holders.account(number);
        account.limits.set(&limits);
        account.free_pool.set(state.configured.limits.free_requests_per_minute);
        account.budget.set_limit(limits.spend);
        account.set_disabled(state.disabled_holder(name, team.as_deref()));
        account.team.store(team.map(|name| self.holders.team(&name)));
    }

    /// Sets the limits of all teams, also of those that no account is in.
    fn set_teams(&self, state: &State) {
        let named = state.configured.teams.keys().map(|name| &**name).chain(state.teams.keys().map(String::as_str));
        named.for_each(|name| drop(self.holders.team(name)));
        self.holders.teams().iter().for_each(|team| team.budget.set_limit(state.team_limit(&team.name)));
    }

    /// Puts the issued keys of `state` in place. Called while the state is locked, so that an older one cannot win.
    fn publish(&self, state: &State) {
        let caller = |key: &IssuedKey| {
            let made = key.key(&state.configured.limits)?;
            Some(self.caller(state, key.id, made, true))
        };
        self.issued.replace(state.keys.values().filter_map(caller).collect());
        state.account_names().into_iter().for_each(|name| self.set_account(state, account_number(name), name));
        self.set_teams(state);
    }

    /// Names of all accounts that have keys or limits, each with its number.
    pub fn account_names(&self) -> Vec<(u64, String)> {
        let state = self.state.lock();
        state.account_names().into_iter().map(|name| (account_number(name), name.to_owned())).collect()
    }

    /// The issued keys, oldest first.
    pub fn keys(&self) -> Vec<IssuedKey> {
        let mut keys: Vec<IssuedKey> = self.state.lock().keys.values().cloned().collect();
        keys.sort_by_key(|key| (key.created_ms, key.id));
        keys
    }

    /// The issued key with this number.
    pub fn key(&self, id: u64) -> Option<IssuedKey> {
        self.state.lock().keys.get(&id).cloned()
    }

    /// The accounts that administrators set up.
    pub fn accounts(&self) -> Vec<IssuedAccount> {
        self.state.lock().accounts.values().cloned().collect()
    }

    /// The teams that administrators set up.
    pub fn teams(&self) -> Vec<IssuedTeam> {
        self.state.lock().teams.values().cloned().collect()
    }

    /// Whether the configuration has an account or a team of this name.
    pub fn is_configured(&self, kind: HolderKind, name: &str) -> bool {
        let configured = &self.state.lock().configured;
        match kind {
            HolderKind::Account => configured.accounts.contains_key(name),
            HolderKind::Team => configured.teams.contains_key(name),
        }
    }

    /// Whether administrators set up an account or a team of this name.
    pub fn is_set_up(&self, kind: HolderKind, name: &str) -> bool {
        let state = self.state.lock();
        match kind {
            HolderKind::Account => state.accounts.contains_key(name),
            HolderKind::Team => state.teams.contains_key(name),
        }
    }

    /// Names of the accounts, or of the teams, that are disabled.
    pub fn disabled(&self, kind: HolderKind) -> Vec<String> {
        let state = self.state.lock();
        let of_kind = state.disabled.iter().filter(|(other, _)| *other == kind);
        of_kind.map(|(_, name)| name.clone()).collect()
    }

    /// Whether a team of this name exists.
    pub fn has_team(&self, name: &str) -> bool {
        self.is_configured(HolderKind::Team, name) || self.is_set_up(HolderKind::Team, name)
    }

    /// The last lines of the audit log, newest first.
    pub fn audit(&self, most: usize) -> Vec<AuditLine> {
        self.audit_of(|_| true, 0, most).0
    }

    /// The lines of the audit log that pass `keeps`, newest first: at most `most` after the first `skipped` of them, and how
    /// many there are.
    pub fn audit_of(
        &self,
        keeps: impl Fn(&AuditEntry) -> bool,
        skipped: usize,
        most: usize,
    ) -> (Vec<AuditLine>, usize) {
        let state = self.state.lock();
        let passing = || state.audit.iter().rev().filter(|line| keeps(&line.entry));
        (passing().skip(skipped).take(most).cloned().collect(), passing().count())
    }

    /// Name of the team of the account with this number.
    pub fn team_of(&self, account: u64) -> Option<String> {
        let state = self.state.lock();
        let name = state.account_names().into_iter().find(|name| account_number(name) == account)?;
        state.account(name).1.map(|team| team.as_ref().to_owned())
    }

    /// Issues a key.
    ///
    /// # Errors
    /// The name is taken, there are too many, or the change cannot be stored.
    pub fn create(&self, actor: Actor, key: IssuedKey) -> Result<(), ChangeFault> {
        let _turn = self.turn.lock();
        {
            let state = self.state.lock();
            if state.names_key(&key.name, None) {
                return Err(ChangeFault::NameTaken);
            }
            if state.keys.len() >= MAX_ISSUED {
                return Err(ChangeFault::TooMany);
            }
        }
        self.store(actor, Change::CreateKey(Box::new(key)))
    }

    /// Changes an issued key. `change` edits it and names the action. A key that it disables is refused at once, also if the
    /// disk fails.
    ///
    /// # Errors
    /// There is no such key, the new name is taken, or the change cannot be stored.
    pub fn change(
        &self,
        actor: Actor,
        id: u64,
        change: impl FnOnce(&mut IssuedKey) -> fn(Box<IssuedKey>) -> Change,
    ) -> Result<IssuedKey, ChangeFault> {
        let _turn = self.turn.lock();
        let mut key = self.key(id).ok_or(ChangeFault::Unknown)?;
        let action = change(&mut key);
        if self.state.lock().names_key(&key.name, Some(id)) {
            return Err(ChangeFault::NameTaken);
        }
        key.updated_ms = clock::unix_millis();
        let life = &self.holders.key(id).life;
        if key.disabled {
            life.refuse();
        }
        let change = action(Box::new(key.clone()));
        // A refusal that could not be stored is lifted by nothing else.
        let settles = key.disabled || matches!(change, Change::EnableKey(_));
        match self.store(actor, change) {
            Ok(()) => {
                if settles {
                    life.settle(None);
                }
                Ok(key)
            }
            Err(ChangeFault::Disk(error)) if key.disabled => Err(ChangeFault::DisabledUntilRestart(error)),
            Err(fault) => Err(fault),
        }
    }

    /// Removes an issued key for good.
    ///
    /// # Errors
    /// There is no such key, or the change cannot be stored.
    pub fn revoke(&self, actor: Actor, id: u64) -> Result<(), ChangeFault> {
        let _turn = self.turn.lock();
        let name = self.key(id).ok_or(ChangeFault::Unknown)?.name;
        self.holders.key(id).life.refuse();
        disabled(self.store(actor, Change::RevokeKey { id, name }))
    }

    /// Disables or enables a key of the configuration; `None` leaves it to the configuration again. Without a file for changes
    /// it lasts until the process ends.
    ///
    /// # Errors
    /// The change cannot be stored.
    pub fn switch(&self, actor: Actor, name: &str, on: Option<bool>) -> Result<(), ChangeFault> {
        let _turn = self.turn.lock();
        let life = &self.holders.key(key_number(name)).life;
        if on == Some(false) {
            life.refuse();
        }
        let stored = self.store_or_apply(actor, Change::SwitchKey { name: name.to_owned(), on });
        if stored.is_ok() {
            life.settle(on);
        }
        if on == Some(false) { disabled(stored) } else { stored }
    }

    /// Disables or enables an account or a team, wherever it is set up. Disabling takes effect even if it cannot be stored;
    /// without a file for changes both last until the process ends.
    ///
    /// # Errors
    /// The change cannot be stored.
    pub fn switch_holder(&self, actor: Actor, kind: HolderKind, name: &str, on: bool) -> Result<(), ChangeFault> {
        let _turn = self.turn.lock();
        let change = Change::SwitchHolder { kind, name: name.to_owned(), on };
        let stored = self.store_or_apply(actor, change.clone());
        if on || stored.is_ok() {
            return stored;
        }
        let mut state = self.state.lock();
        state.change(&change);
        self.publish(&state);
        disabled(stored)
    }

    /// Makes any other change.
    ///
    /// # Errors
    /// It cannot be stored, or it removes an account whose team is disabled.
    pub fn record(&self, actor: Actor, change: Change) -> Result<(), ChangeFault> {
        let _turn = self.turn.lock();
        if let Change::RemoveAccount { name } = &change
            && let Some(team) = self.state.lock().disabled_team_of(name)
        {
            return Err(ChangeFault::TeamDisabled(team));
        }
        match change {
            Change::Reload { .. }
            | Change::PromoteShadow { .. }
            | Change::SendAlert { .. }
            | Change::DeleteRecords { .. } => self.store_or_apply(actor, change),
            _ => self.store(actor, change),
        }
    }

    fn store_or_apply(&self, actor: Actor, change: Change) -> Result<(), ChangeFault> {
        if self.log.is_some() {
            return self.store(actor, change);
        }
        let mut state = self.state.lock();
        state.apply(AuditEntry { at_ms: clock::unix_millis(), actor, change });
        self.publish(&state);
        Ok(())
    }

    /// Stores a change, then lets it take effect. Called with the turn.
    fn store(&self, actor: Actor, change: Change) -> Result<(), ChangeFault> {
        let log = self.log.as_ref().ok_or(ChangeFault::NotDurable)?;
        let entry = AuditEntry { at_ms: clock::unix_millis(), actor, change };
        let line = serde_json::to_vec(&entry).map_err(|error| ChangeFault::Disk(error.into()))?;
        log.append(&line).map_err(ChangeFault::Disk)?;
        self.note_unsent(line);
        let removed = if let Change::RemoveAccount { name } = &entry.change { Some(name.clone()) } else { None };
        let mut state = self.state.lock();
        state.apply(entry);
        self.publish(&state);
        if let Some(name) = removed {
            self.set_account(&state, account_number(&name), &name);
        }
        Ok(())
    }
}

/// The fault of a change that took effect all the same.
fn disabled(stored: Result<(), ChangeFault>) -> Result<(), ChangeFault> {
    stored.map_err(|fault| match fault {
        ChangeFault::Disk(error) => ChangeFault::DisabledUntilRestart(error),
        fault => fault,
    })
}

/// A stored change.
fn read_change(change: &[u8], limits: &LimitsConfig) -> Result<AuditEntry, UnreadableChange> {
    let entry: AuditEntry = serde_json::from_slice(change).map_err(|error| UnreadableChange(error.to_string()))?;
    match &entry.change {
        Change::CreateKey(key) | Change::UpdateKey(key) | Change::RotateKey(key) if key.key(limits).is_none() => {
            Err(UnreadableChange(format!("the key '{}'", key.name)))
        }
        _ => Ok(entry),
    }
}

impl State {
    fn apply(&mut self, entry: AuditEntry) {
        let changes = audit_line::changes(self, &entry.change);
        self.change(&entry.change);
        self.audit.push_back(AuditLine { entry, changes });
        if self.audit.len() > MAX_AUDIT {
            self.audit.pop_front();
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::CreateKey(key)
            | Change::UpdateKey(key)
            | Change::RotateKey(key)
            | Change::DisableKey(key)
            | Change::EnableKey(key) => {
                self.keys.insert(key.id, (**key).clone());
            }
            Change::RevokeKey { id, .. } => {
                self.keys.remove(id);
            }
            Change::SwitchKey { name, on } => {
                match on {
                    Some(on) => self.switched.insert(name.clone(), *on),
                    None => self.switched.remove(name),
                };
            }
            Change::PutAccount(account) => {
                self.accounts.insert(account.name.clone(), account.clone());
            }
            Change::RemoveAccount { name } => {
                self.accounts.remove(name);
            }
            Change::PutTeam(team) => {
                self.teams.insert(team.name.clone(), team.clone());
            }
            Change::RemoveTeam { name } => {
                self.teams.remove(name);
            }
            Change::SwitchHolder { kind, name, on: true } => {
                self.disabled.remove(&(*kind, name.clone()));
            }
            Change::SwitchHolder { kind, name, on: false } => {
                self.disabled.insert((*kind, name.clone()));
            }
            Change::Reload { .. }
            | Change::PromoteShadow { .. }
            | Change::SendAlert { .. }
            | Change::DeleteRecords { .. } => {}
        }
    }

    /// Which of an account and its team is disabled.
    fn disabled_holder(&self, account: &str, team: Option<&str>) -> Option<BudgetHolder> {
        let is_disabled = |kind, name: &str| self.disabled.contains(&(kind, name.to_owned()));
        let of_team = || team.filter(|team| is_disabled(HolderKind::Team, team)).map(|_| BudgetHolder::Team);
        if self.disabled.is_empty() {
            None
        } else if is_disabled(HolderKind::Account, account) {
            Some(BudgetHolder::Account)
        } else {
            of_team()
        }
    }

    /// The team of an account, if it is disabled.
    fn disabled_team_of(&self, account: &str) -> Option<String> {
        let team = self.account(account).1?.as_ref().to_owned();
        self.disabled.contains(&(HolderKind::Team, team.clone())).then_some(team)
    }

    fn account_names(&self) -> BTreeSet<&str> {
        let of_keys = self.configured.keys.iter().map(|(_, account)| &**account);
        let of_issued = self.keys.values().map(|key| key.account.as_str());
        let configured = self.configured.accounts.keys().map(|name| &**name);
        let disabled = self.disabled.iter().filter(|(kind, _)| *kind == HolderKind::Account);
        let set_up = self.accounts.keys().chain(disabled.map(|(_, name)| name)).map(String::as_str);
        of_keys.chain(of_issued).chain(configured).chain(set_up).collect()
    }

    /// Whether a key other than the issued one with number `id` has this name.
    fn names_key(&self, name: &str, id: Option<u64>) -> bool {
        let issued = self.keys.values().any(|key| key.name == name && Some(key.id) != id);
        issued || self.configured.keys.iter().any(|(known, _)| **known == *name) || Key::is_reserved(name)
    }

    /// The limits and the team of an account. The configuration wins over what administrators set up.
    fn account(&self, name: &str) -> (HolderLimits, Option<Arc<str>>) {
        let Configured { limits, accounts, .. } = &self.configured;
        if let Some(account) = accounts.get(name) {
            return (account.limits, account.team.clone());
        }
        let default = || IssuedAccount { name: name.to_owned(), ..IssuedAccount::default() };
        let account = self.accounts.get(name).cloned().unwrap_or_else(default);
        (account.limits(limits), account.team.map(Arc::from))
    }

    fn team_limit(&self, name: &str) -> Option<SpendLimit> {
        match self.configured.teams.get(name) {
            Some(team) => team.spend,
            None => self.teams.get(name)?.spend.as_ref().and_then(StoredLimit::limit),
        }
    }
}
