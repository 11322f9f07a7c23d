//! Keys, accounts and spending across restarts: the file of changes, and what was spent according to the ledger.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use pointsman_actors::domain::Usd;

use crate::{
    access::{
        issued::{Actor, CarriedSpending, Change},
        keys::KeyTable,
        registry::{ChangeLog, Registry},
    },
    base::clock,
    state::gateway::Shared,
    store::{accounts::AccountLog, fault::Fault, generations::GenerationStore},
};

const DAY_MS: i64 = 86_400_000;
const SLOT_MS: i64 = 15 * 60_000;
/// Age at which sums of spending are carried over into the file of changes. More than a month, so that the sums of the
/// current periods come from the ledger, and less than the 90 days for which the ledger keeps sums.
const CARRY_AGE_MS: i64 = 45 * DAY_MS;

impl ChangeLog for AccountLog {
    fn append(&self, change: &[u8]) -> io::Result<()> {
        AccountLog::append(self, change)
    }
}

/// Time between two attempts to read what was spent, and between two looks for sums to carry over.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
const CARRY_INTERVAL: Duration = Duration::from_secs(3600);

/// Keeps spending known while the gateway runs: reads it again if the ledger could not be read at the start, and carries old
/// sums over. Ends with the gateway.
pub fn start_upkeep(shared: &Arc<Shared>) {
    if shared.ledger.is_none() {
        return;
    }
    let weak = Arc::downgrade(shared);
    actix_rt::spawn(async move {
        let mut interval = RETRY_INTERVAL;
        loop {
            actix_rt::time::sleep(interval).await;
            let Some((shared, ledger)) =
                weak.upgrade().and_then(|shared| Some((shared.clone(), shared.ledger.clone()?)))
            else {
                return;
            };
            let done = actix_rt::task::spawn_blocking(move || {
                let (registry, setup) = (&shared.registry, shared.setup.load_full());
                if !registry.holders.is_spending_known() {
                    // Before the ledger is read, so that a request that ends meanwhile is counted twice rather than not at all.
                    registry.holders.forget_spent();
                    restore_spending(registry, &setup.keys, &ledger);
                }
                carry_spending(registry, &setup.keys, &ledger, clock::unix_millis());
                registry.holders.is_spending_known()
            });
            interval = if done.await.unwrap_or(false) { CARRY_INTERVAL } else { RETRY_INTERVAL };
        }
    });
}

/// Counts what was spent before this start, from the sums of the ledger. If it cannot be read, spending is unknown. Reads the
/// disk.
pub fn restore_spending(registry: &Registry, keys: &KeyTable, ledger: &GenerationStore) {
    let restored = try_restore(registry, keys, ledger);
    if let Err(fault) = &restored {
        log::error!(
            "what was spent before this start cannot be read, so keys with a spending limit get 503 until it can: {fault}"
        );
    }
    registry.holders.set_spending_known(restored.is_ok());
}

fn try_restore(registry: &Registry, keys: &KeyTable, ledger: &GenerationStore) -> Result<(), Fault> {
    let carried = registry.carried();
    let rows = ledger.activity(carried.until_ms, i64::MAX)?;
    let holders = &registry.holders;
    for (account, key, amount) in &carried.sums {
        let amount: Usd = amount.parse().unwrap_or_default();
        holders.account(*account).budget.add_to_total(amount);
        if let Some(team) = holders.account(*account).team.load().as_ref() {
            team.add_to_total(amount);
        }
        if *key != 0 {
            holders.key(*key).budget.add_to_total(amount);
        }
    }
    let former = Former::of(keys);
    for row in rows {
        let (account, key) = former.holders(&row.owner, &row.key);
        let state = holders.account(account);
        let team = state.team.load();
        let key = (key != 0).then(|| holders.key(key));
        let budgets = [Some(&state.budget), team.as_ref(), key.as_ref().map(|key| &key.budget)];
        budgets.into_iter().flatten().for_each(|budget| budget.add(row.counters.cost, row.slot_ms));
    }
    Ok(())
}

/// Carries sums that the ledger is about to forget over into the file of changes. The next call tries again what fails. Reads
/// and writes the disk.
pub fn carry_spending(registry: &Registry, keys: &KeyTable, ledger: &GenerationStore, now_ms: i64) {
    if let Err(fault) = try_carry(registry, keys, ledger, now_ms) {
        log::warn!("sums of spending are not carried over: {fault}");
    }
}

fn try_carry(registry: &Registry, keys: &KeyTable, ledger: &GenerationStore, now_ms: i64) -> Result<(), Fault> {
    let mut carried = registry.carried();
    let until_ms = (now_ms - CARRY_AGE_MS).div_euclid(SLOT_MS) * SLOT_MS;
    if until_ms < carried.until_ms + DAY_MS {
        return Ok(());
    }
    let rows = ledger.activity(carried.until_ms, until_ms - 1)?;
    if rows.is_empty() {
        return Ok(());
    }
    let former = Former::of(keys);
    let mut sums: HashMap<(u64, u64), Usd> = HashMap::new();
    for (account, key, amount) in &carried.sums {
        *sums.entry((*account, *key)).or_default() += amount.parse().unwrap_or_default();
    }
    for row in rows {
        *sums.entry(former.holders(&row.owner, &row.key)).or_default() += row.counters.cost;
    }
    let mut sums: Vec<_> = sums.into_iter().map(|((account, key), sum)| (account, key, sum.to_string())).collect();
    sums.sort_unstable();
    carried = CarriedSpending { until_ms, sums };
    let actor = Actor { by: "gateway".into(), from: String::new(), request_id: None };
    registry
        .record(actor, Change::CarrySpending(carried))
        .map_err(|fault| Fault::Disk(io::Error::other(fault.to_string())))
}

/// Accounts and keys of records that name the owner of an earlier version.
struct Former(HashMap<u64, (u64, u64)>);

impl Former {
    fn of(keys: &KeyTable) -> Former {
        let callers = keys.callers();
        let former = callers.iter().filter_map(|caller| Some((caller.former_owner?, (caller.owner, caller.id))));
        Former(former.collect())
    }

    /// Number of the account, and of the key if it is known.
    fn holders(&self, owner: &str, key: &str) -> (u64, u64) {
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
        let (owner, key) = (number(owner), number(key));
        self.0.get(&owner).copied().unwrap_or((owner, key))
    }
}

/// The registry, with the changes in `log`.
///
/// # Errors
/// A change cannot be read.
pub fn registry(
    limits: &crate::config::LimitsConfig,
    stored: Option<(AccountLog, crate::store::accounts::StoredChanges)>,
) -> Result<Arc<Registry>, Fault> {
    let (log, changes) = match stored {
        Some((log, stored)) => {
            if stored.torn > 0 {
                log::warn!("an unfinished change of keys or accounts ({} bytes) was cut off", stored.torn);
            }
            (Some(Box::new(log) as Box<dyn ChangeLog>), stored.changes)
        }
        None => (None, Vec::new()),
    };
    let registry = Registry::new(limits, log, &changes);
    registry.map(Arc::new).map_err(|unreadable| Fault::Damaged(unreadable.to_string()))
}
