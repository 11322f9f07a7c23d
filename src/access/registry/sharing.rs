//! Changes that replicas share.
//!
//! All replicas apply the same changes in one order, that of PostgreSQL. A change of this replica takes effect here at once,
//! before it has its place in that order. So whatever comes from there is applied first, and the own changes that have no place
//! yet once more behind it: the state is always that of the common order followed by what is still to be sent.

use std::collections::{BTreeSet, HashSet, VecDeque};

use pointsman_config::LimitsConfig;
use sha2::{Digest as _, Sha256};

use super::{Registry, State};
use crate::access::{
    holders::{account_number, key_number},
    issued::{AuditEntry, Change, IssuedKey},
};

/// SHA-256 of a stored change. Two equal changes of one millisecond are one.
pub type ChangeId = [u8; 32];

/// A stored change on its way between replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedChange {
    /// Its identity.
    pub id: ChangeId,
    /// The change as it is stored.
    pub line: Vec<u8>,
}

impl SharedChange {
    /// The change in this line.
    pub fn new(line: Vec<u8>) -> SharedChange {
        SharedChange { id: Sha256::digest(&line).into(), line }
    }
}

/// What came of changes from other replicas.
#[derive(Debug, Default)]
pub struct Imported {
    /// Deletions of records by administrators, of this replica too.
    pub deletions: Vec<AuditEntry>,
    /// Changes that cannot be read: a later version made them.
    pub unreadable: usize,
}

/// Called when there is something to send.
type Wake = Box<dyn Fn() + Send + Sync>;

/// What is known of the common order.
pub(super) struct Sharing {
    /// Changes of this replica.
    own: HashSet<ChangeId>,
    /// Changes that have no place in the common order yet, oldest first.
    unsent: VecDeque<SharedChange>,
    wake: Wake,
}

/// Whether this version can read the change in this line, with all values of its key.
pub fn is_readable(line: &[u8]) -> bool {
    let Ok(entry) = serde_json::from_slice::<AuditEntry>(line) else { return false };
    match &entry.change {
        Change::CreateKey(key) | Change::UpdateKey(key) | Change::RotateKey(key) => {
            key.key(&LimitsConfig::default()).is_some()
        }
        _ => true,
    }
}

impl Registry {
    /// Shares changes from now on. `own` are the stored changes of this replica, `unsent` those without a place in the common
    /// order. `wake` is called when there are more.
    pub fn share(&self, own: HashSet<ChangeId>, unsent: Vec<SharedChange>, wake: Wake) {
        *self.sharing.lock() = Some(Sharing { own, unsent: unsent.into(), wake });
    }

    /// The changes that have no place in the common order yet, oldest first.
    pub fn unsent(&self) -> Vec<SharedChange> {
        self.sharing.lock().as_ref().map_or_else(Vec::new, |sharing| sharing.unsent.iter().cloned().collect())
    }

    /// Lets these changes find a place in the common order again, because it was lost.
    pub fn send_again(&self, changes: Vec<SharedChange>) {
        if let Some(sharing) = self.sharing.lock().as_mut() {
            let waiting: HashSet<ChangeId> = sharing.unsent.iter().map(|change| change.id).collect();
            for change in changes.into_iter().rev().filter(|change| !waiting.contains(&change.id)) {
                sharing.unsent.push_front(change);
            }
        }
    }

    pub(super) fn note_unsent(&self, line: Vec<u8>) {
        if let Some(sharing) = self.sharing.lock().as_mut() {
            let change = SharedChange::new(line);
            sharing.own.insert(change.id);
            sharing.unsent.push_back(change);
            (sharing.wake)();
        }
    }

    /// Lets changes take effect that have their place in the common order, in that order. Own ones are among them.
    pub fn import(&self, changes: &[SharedChange]) -> Imported {
        let _turn = self.turn.lock();
        let mut sharing = self.sharing.lock();
        let Some(sharing) = sharing.as_mut() else { return Imported::default() };
        let placed: HashSet<ChangeId> = changes.iter().map(|change| change.id).collect();
        sharing.unsent.retain(|change| !placed.contains(&change.id));
        let mut state = self.state.lock();
        let (mut imported, mut touched) = (Imported::default(), Touched::default());
        for change in changes {
            let Ok(entry) = serde_json::from_slice::<AuditEntry>(&change.line) else {
                imported.unreadable += 1;
                continue;
            };
            touched.note(&entry.change);
            if matches!(entry.change, Change::DeleteRecords { .. }) {
                imported.deletions.push(entry.clone());
            }
            if sharing.own.contains(&change.id) {
                state.change(&entry.change);
            } else {
                state.apply(entry);
            }
        }
        for change in &sharing.unsent {
            if let Ok(entry) = serde_json::from_slice::<AuditEntry>(&change.line) {
                touched.note(&entry.change);
                state.change(&entry.change);
            }
        }
        self.publish(&state);
        self.finish(&state, &touched);
        imported
    }

    /// What does not follow from the published keys and accounts alone.
    fn finish(&self, state: &State, touched: &Touched) {
        for name in &touched.accounts {
            self.set_account(state, account_number(name), name);
        }
        for name in &touched.switched {
            self.holders.key(key_number(name)).life.switch(state.switched.get(name).copied());
        }
        for id in &touched.keys {
            let is_refused = state.keys.get(id).is_none_or(|key| key.disabled);
            self.holders.key(*id).life.switch(is_refused.then_some(false));
        }
    }
}

/// What changes are about.
#[derive(Default)]
struct Touched {
    keys: BTreeSet<u64>,
    switched: BTreeSet<String>,
    accounts: BTreeSet<String>,
}

impl Touched {
    fn note(&mut self, change: &Change) {
        match change {
            Change::CreateKey(key)
            | Change::UpdateKey(key)
            | Change::RotateKey(key)
            | Change::DisableKey(key)
            | Change::EnableKey(key) => {
                let IssuedKey { id, .. } = &**key;
                self.keys.insert(*id);
            }
            Change::RevokeKey { id, .. } => _ = self.keys.insert(*id),
            Change::SwitchKey { name, .. } => _ = self.switched.insert(name.clone()),
            Change::RemoveAccount { name } => _ = self.accounts.insert(name.clone()),
            Change::PutAccount(_)
            | Change::PutTeam(_)
            | Change::RemoveTeam { .. }
            // All accounts that have keys are published again.
            | Change::SwitchHolder { .. }
            | Change::Reload { .. }
            | Change::PromoteShadow { .. }
            | Change::SendAlert { .. }
            | Change::DeleteRecords { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{
        issued::{Actor, HolderKind, IssuedAccount},
        registry::{ChangeLog, tests::key},
    };
    use crate::base::error::BudgetHolder;
    use pointsman_base::clock;

    struct Nowhere;

    impl ChangeLog for Nowhere {
        fn append(&self, _: &[u8]) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn replica() -> Registry {
        clock::start();
        let registry = Registry::new(&LimitsConfig::default(), Some(Box::new(Nowhere)), &[]).unwrap();
        registry.share(HashSet::new(), Vec::new(), Box::new(|| {}));
        registry
    }

    fn by(name: &str) -> Actor {
        Actor { by: name.into(), from: "here".into(), request_id: None }
    }

    /// Gives the changes of the replicas their places in the order of `order`.
    fn exchange(replicas: &[&Registry], order: &mut Vec<SharedChange>) {
        let begun = order.len();
        for replica in replicas {
            let unsent = replica.unsent().into_iter();
            let new: Vec<_> = unsent.filter(|change| !order.contains(change)).collect();
            order.extend(new);
        }
        replicas.iter().for_each(|replica| drop(replica.import(&order[begun..])));
    }

    #[test]
    fn replicas_that_changed_the_same_key_agree_once_their_changes_have_an_order() {
        let (one, two, mut order) = (replica(), replica(), Vec::new());
        one.create(by("one"), key("shared")).unwrap();
        exchange(&[&one, &two], &mut order);
        assert_eq!(two.keys(), one.keys());
        let limit = |limit: u32| {
            move |key: &mut IssuedKey| -> fn(Box<IssuedKey>) -> Change {
                key.requests_per_minute = Some(limit);
                Change::UpdateKey
            }
        };
        two.change(by("two"), key_number("shared"), limit(2)).unwrap();
        one.change(by("one"), key_number("shared"), limit(1)).unwrap();
        exchange(&[&two, &one], &mut order);
        assert_eq!(two.keys(), one.keys());
        assert_eq!(one.keys()[0].requests_per_minute, Some(1), "the later place wins");
        assert_eq!((one.audit(9).len(), two.audit(9).len()), (3, 3), "each change is in each audit log once");
    }

    #[test]
    fn a_key_disabled_here_stays_disabled_while_an_older_change_comes_back() {
        let (one, mut order) = (replica(), Vec::new());
        one.create(by("one"), key("mine")).unwrap();
        order.extend(one.unsent());
        let disable = |key: &mut IssuedKey| -> fn(Box<IssuedKey>) -> Change {
            key.disabled = true;
            Change::DisableKey
        };
        one.change(by("one"), key_number("mine"), disable).unwrap();
        one.import(&order);
        assert!(one.keys()[0].disabled);
        assert_eq!(one.unsent().len(), 1);
    }

    #[test]
    fn a_revoked_or_switched_key_is_refused_by_the_other_replica() {
        let (one, two, mut order) = (replica(), replica(), Vec::new());
        one.create(by("one"), key("gone")).unwrap();
        one.switch(by("one"), "configured", Some(false)).unwrap();
        let account = IssuedAccount { name: "blue".to_owned(), ..IssuedAccount::default() };
        one.record(by("one"), Change::PutAccount(account)).unwrap();
        exchange(&[&one, &two], &mut order);
        let switched = |name: &str| two.holders.key(key_number(name)).life.switched();
        assert_eq!((two.accounts().len(), switched("configured"), switched("gone")), (1, Some(false), None));
        one.revoke(by("one"), key_number("gone")).unwrap();
        one.switch(by("one"), "configured", None).unwrap();
        exchange(&[&one, &two], &mut order);
        assert_eq!((two.keys().len(), switched("configured"), switched("gone")), (0, None, Some(false)));
    }

    #[test]
    fn an_account_that_one_replica_disables_is_refused_by_the_other_until_it_is_enabled() {
        let (one, two, mut order) = (replica(), replica(), Vec::new());
        one.create(by("one"), key("mine")).unwrap();
        for (on, expected) in [(false, Some(BudgetHolder::Account)), (true, None)] {
            one.switch_holder(by("one"), HolderKind::Account, "mine", on).unwrap();
            exchange(&[&one, &two], &mut order);
            assert_eq!(two.holders.account(account_number("mine")).disabled(), expected);
        }
    }

    #[test]
    fn a_change_of_a_later_version_is_left_out_and_the_others_take_effect() {
        let (one, two) = (replica(), replica());
        one.create(by("one"), key("known")).unwrap();
        let mut changes =
            vec![SharedChange::new(br#"{"at_ms":1,"by":"a","from":"b","change":{"action":"fly"}}"#.to_vec())];
        changes.extend(one.unsent());
        assert_eq!(two.import(&changes).unreadable, 1);
        assert_eq!(two.keys().len(), 1);
    }
}
