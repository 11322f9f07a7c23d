//! Keys, accounts and spending across restarts: the file of changes, and what was spent according to the ledger.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use pointsman_domain::Usd;
use pointsman_ledger::{accounts::AccountLog, activity::ActivityRow, fault::Fault, generations::GenerationStore};

use crate::{
    access::{
        budget::Budget,
        keys::KeyTable,
        registry::{ChangeLog, Registry},
    },
    state::gateway::Shared,
};

impl ChangeLog for AccountLog {
    fn append(&self, change: &[u8]) -> io::Result<()> {
        AccountLog::append(self, change)
    }
}

/// Time between two attempts to read what was spent.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Reads what was spent again if the ledger could not be read at the start. Ends with the gateway.
pub fn start_upkeep(shared: &Arc<Shared>) {
    if shared.ledger.is_none() || shared.registry.holders.is_spending_known() {
        return;
    }
    let weak = Arc::downgrade(shared);
    actix_rt::spawn(async move {
        let mut is_known = false;
        while !is_known {
            actix_rt::time::sleep(RETRY_INTERVAL).await;
            let Some((shared, ledger)) =
                weak.upgrade().and_then(|shared| Some((shared.clone(), shared.ledger.clone()?)))
            else {
                return;
            };
            let done = actix_rt::task::spawn_blocking(move || {
                let (registry, setup) = (&shared.registry, shared.setup.load_full());
                // Before the ledger is read, so that a request that ends meanwhile is counted twice rather than not at all.
                registry.holders.forget_spent();
                restore_spending(registry, &setup.keys, &ledger);
                registry.holders.is_spending_known()
            });
            is_known = done.await.unwrap_or(false);
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
    for_each_sum(registry, keys, ledger, |sum| {
        sum.budgets.iter().for_each(|budget| match sum.slot_ms {
            Some(slot_ms) => budget.add(sum.cost, slot_ms),
            None => budget.add_to_total(sum.cost),
        });
    })
}

/// What the ledger says that was spent.
pub(super) struct SpentSum {
    /// The budgets that it counts for.
    pub(super) budgets: Vec<Arc<Budget>>,
    pub(super) cost: Usd,
    /// Beginning of its 15 minutes, Unix milliseconds; `None` if it is of long ago.
    pub(super) slot_ms: Option<i64>,
    /// Whether the records say which team they count for.
    pub(super) names_team: bool,
}

/// Reads all sums of the ledger from the disk.
pub(super) fn for_each_sum(
    registry: &Registry,
    keys: &KeyTable,
    ledger: &GenerationStore,
    mut add: impl FnMut(SpentSum),
) -> Result<(), Fault> {
    let carried = registry.carried();
    let (long_ago, rows) = (ledger.activity_of_long_ago()?, ledger.activity(carried.until_ms, i64::MAX)?);
    let budgets = |account, key, team: Option<&str>| registry.holders.budgets_of(account, key, team);
    // An earlier version carried these over.
    for (account, key, amount) in &carried.sums {
        let cost: Usd = amount.parse().unwrap_or_default();
        add(SpentSum { budgets: budgets(*account, *key, None), cost, slot_ms: None, names_team: false });
    }
    let former = Former::of(keys);
    let of_row = |row: &ActivityRow, slot_ms| {
        let (account, key) = former.holders(&row.owner, &row.key);
        let (cost, names_team) = (row.counters.cost, row.team.is_some());
        SpentSum { budgets: budgets(account, key, row.team.as_deref()), cost, slot_ms, names_team }
    };
    long_ago.iter().for_each(|row| add(of_row(row, None)));
    rows.iter().for_each(|row| add(of_row(row, Some(row.slot_ms))));
    Ok(())
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
    limits: &pointsman_config::LimitsConfig,
    stored: Option<(AccountLog, pointsman_ledger::accounts::StoredChanges)>,
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
