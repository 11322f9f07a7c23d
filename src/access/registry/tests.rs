//! Changes of keys, accounts and teams, on a log that may refuse.

use std::sync::atomic::{AtomicBool, Ordering};

use pointsman_domain::Task;

use super::*;

/// A log that keeps its lines, and refuses when told to.
#[derive(Clone, Default)]
struct TestLog {
    lines: Arc<Mutex<Vec<Vec<u8>>>>,
    refuses: Arc<AtomicBool>,
}

impl ChangeLog for TestLog {
    fn append(&self, change: &[u8]) -> io::Result<()> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.lines.lock().push(change.to_vec());
        Ok(())
    }
}

fn actor() -> Actor {
    Actor { by: "admin".to_owned(), from: "127.0.0.1".to_owned(), request_id: None }
}

pub(super) fn key(name: &str) -> IssuedKey {
    let sha256 = hex::encode(pointsman_config::digest_of(name));
    let (id, account) = (key_number(name), name.to_owned());
    IssuedKey { id, name: name.to_owned(), sha256, account, scopes: vec!["read".to_owned()], ..IssuedKey::default() }
}

fn registry(log: &TestLog) -> Registry {
    let lines = log.lines.lock().clone();
    Registry::new(&LimitsConfig::default(), Some(Box::new(log.clone())), &lines).unwrap()
}

#[test]
fn the_state_after_a_restart_is_the_state_before_it() {
    clock::start();
    let log = TestLog::default();
    let before = registry(&log);
    for name in ["one", "two", "three"] {
        before.create(actor(), key(name)).unwrap();
    }
    before.revoke(actor(), key_number("two")).unwrap();
    let disable = |key: &mut IssuedKey| -> fn(Box<IssuedKey>) -> Change {
        key.disabled = true;
        Change::DisableKey
    };
    before.change(actor(), key_number("three"), disable).unwrap();
    before.switch(actor(), "configured", Some(false)).unwrap();
    let account = IssuedAccount { name: "blue".to_owned(), ..IssuedAccount::default() };
    before.record(actor(), Change::PutAccount(account)).unwrap();
    let after = registry(&log);
    assert_eq!(after.keys(), before.keys());
    assert_eq!((after.accounts(), after.audit(99)), (before.accounts(), before.audit(99)));
    assert_eq!(after.state.lock().switched, before.state.lock().switched);
    assert_eq!(after.audit(99).len(), 7);
}

#[test]
fn a_disk_that_refuses_issues_nothing_and_yet_refuses_the_disabled_key() {
    clock::start();
    let log = TestLog::default();
    let registry = registry(&log);
    registry.create(actor(), key("one")).unwrap();
    log.refuses.store(true, Ordering::Relaxed);
    assert!(matches!(registry.create(actor(), key("two")), Err(ChangeFault::Disk(_))));
    assert_eq!(registry.keys().len(), 1);
    let life = |name: &str| registry.holders.key(key_number(name)).life.switched();
    let revoked = registry.revoke(actor(), key_number("one"));
    assert!(matches!(revoked, Err(ChangeFault::DisabledUntilRestart(_))), "{revoked:?}");
    let switched = registry.switch(actor(), "configured", Some(false));
    assert!(matches!(switched, Err(ChangeFault::DisabledUntilRestart(_))), "{switched:?}");
    assert_eq!((life("one"), life("configured")), (Some(false), Some(false)));
    assert!(matches!(registry.switch(actor(), "configured", None), Err(ChangeFault::Disk(_))));
    assert_eq!(life("configured"), Some(false), "what is not stored does not let a key in again");
    let configured = Key { name: "configured".into(), ..Key::startup_key([1; 32], &[]) };
    assert!(registry.configured_caller(&configured).is_disabled(), "nor does a reload");
}

#[test]
fn only_an_administrator_who_enables_it_lets_in_a_key_whose_refusal_was_not_stored() {
    clock::start();
    let log = TestLog::default();
    let registry = registry(&log);
    registry.create(actor(), key("one")).unwrap();
    let life = || registry.holders.key(key_number("one")).life.switched();
    let update = |key: &mut IssuedKey| -> fn(Box<IssuedKey>) -> Change {
        key.external_user = Some("ada".to_owned());
        Change::UpdateKey
    };
    let enable = |_: &mut IssuedKey| -> fn(Box<IssuedKey>) -> Change { Change::EnableKey };
    log.refuses.store(true, Ordering::Relaxed);
    registry.revoke(actor(), key_number("one")).unwrap_err();
    log.refuses.store(false, Ordering::Relaxed);
    registry.change(actor(), key_number("one"), update).unwrap();
    assert_eq!(life(), Some(false), "a change of something else");
    registry.change(actor(), key_number("one"), enable).unwrap();
    assert_eq!(life(), None);
}

#[test]
fn a_team_has_its_limit_before_an_account_is_in_it_and_none_when_it_is_removed() {
    clock::start();
    let log = TestLog::default();
    let registry = registry(&log);
    let limit = SpendLimit { amount: "5".parse().unwrap(), reset: None };
    let team = IssuedTeam { name: "blue".to_owned(), spend: Some(StoredLimit::new(limit)) };
    registry.record(actor(), Change::PutTeam(team)).unwrap();
    let shown = |registry: &Registry| registry.holders.team("blue").budget.read(0).limit;
    assert_eq!(shown(&registry), Some(limit));
    let after = Registry::new(&LimitsConfig::default(), None, &log.lines.lock()).unwrap();
    after.publish(&after.state.lock());
    assert_eq!(shown(&after), Some(limit), "after a restart");
    registry.record(actor(), Change::RemoveTeam { name: "blue".to_owned() }).unwrap();
    assert_eq!(shown(&registry), None);
}

fn in_team(account: &str, team: &str) -> Change {
    Change::PutAccount(IssuedAccount { name: account.to_owned(), team: Some(team.to_owned()), ..Default::default() })
}

#[test]
fn a_disabled_account_or_team_stays_disabled_when_it_is_removed_and_after_a_restart() {
    clock::start();
    let log = TestLog::default();
    let before = registry(&log);
    before.record(actor(), in_team("shop", "sales")).unwrap();
    before.create(actor(), IssuedKey { account: "shop".to_owned(), ..key("one") }).unwrap();
    let disabled = |registry: &Registry| registry.holders.account(account_number("shop")).disabled();
    before.switch_holder(actor(), HolderKind::Team, "sales", false).unwrap();
    assert_eq!(disabled(&before), Some(BudgetHolder::Team));
    before.record(actor(), in_team("shop", "other")).unwrap();
    before.switch_holder(actor(), HolderKind::Account, "shop", false).unwrap();
    before.record(actor(), Change::remove(HolderKind::Account, "shop")).unwrap();
    let after = registry(&log);
    after.publish(&after.state.lock());
    for registry in [&before, &after] {
        assert_eq!(disabled(registry), Some(BudgetHolder::Account));
        assert_eq!(registry.disabled(HolderKind::Team), ["sales"]);
    }
    after.switch_holder(actor(), HolderKind::Account, "shop", true).unwrap();
    assert_eq!(disabled(&after), None, "it is in no team any more");
}

#[test]
fn an_account_is_not_removed_while_its_team_is_disabled() {
    clock::start();
    let registry = registry(&TestLog::default());
    registry.record(actor(), in_team("shop", "sales")).unwrap();
    registry.create(actor(), IssuedKey { account: "shop".to_owned(), ..key("one") }).unwrap();
    registry.switch_holder(actor(), HolderKind::Team, "sales", false).unwrap();
    let remove = || registry.record(actor(), Change::remove(HolderKind::Account, "shop"));
    assert!(matches!(remove(), Err(ChangeFault::TeamDisabled(team)) if team == "sales"));
    assert_eq!(registry.holders.account(account_number("shop")).disabled(), Some(BudgetHolder::Team));
    registry.switch_holder(actor(), HolderKind::Team, "sales", true).unwrap();
    remove().unwrap();
}

#[test]
fn an_account_that_is_disabled_is_refused_although_the_disk_cannot_store_that() {
    clock::start();
    let log = TestLog::default();
    let registry = registry(&log);
    registry.create(actor(), key("shop")).unwrap();
    log.refuses.store(true, Ordering::Relaxed);
    let disabled = || registry.holders.account(account_number("shop")).disabled();
    let refused = registry.switch_holder(actor(), HolderKind::Account, "shop", false);
    assert!(matches!(refused, Err(ChangeFault::DisabledUntilRestart(_))), "{refused:?}");
    assert_eq!(disabled(), Some(BudgetHolder::Account));
    assert!(matches!(registry.switch_holder(actor(), HolderKind::Account, "shop", true), Err(ChangeFault::Disk(_))));
    assert_eq!(disabled(), Some(BudgetHolder::Account), "what is not stored does not let keys in again");
}

#[test]
fn a_stored_change_that_cannot_be_read_is_an_error() {
    for line in ["nonsense", "{}", r#"{"at_ms":1,"by":"a","from":"b","change":{"action":"fly"}}"#] {
        let read = Registry::new(&LimitsConfig::default(), None, &[line.as_bytes().to_vec()]);
        assert!(read.is_err(), "{line}");
    }
}

#[test]
fn a_key_with_a_class_of_tasks_that_only_a_later_version_knows_is_a_key() {
    let of =
        |task: &str| IssuedKey { task: Some(task.to_owned()), ..key("one") }.key(&LimitsConfig::default()).unwrap();
    assert_eq!(of("code").task, Some(Task::Code));
    assert_eq!(of("poems").task, None);
}
