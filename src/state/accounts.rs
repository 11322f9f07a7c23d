//! Keys, accounts and spending across restarts: the file of changes, and what was spent according to the ledger.

use std::{io, sync::Arc, time::Duration};

use pointsman_domain::Usd;
use pointsman_ledger::{accounts::AccountLog, activity::Spending, fault::Fault, generations::GenerationStore};

use crate::{
    access::{
        budget::Budget,
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
    if shared.records.ledger.is_none() || shared.access.registry.holders.is_spending_known() {
        return;
    }
    let weak = Arc::downgrade(shared);
    actix_rt::spawn(async move {
        let mut is_known = false;
        while !is_known {
            actix_rt::time::sleep(RETRY_INTERVAL).await;
            let Some((shared, ledger)) =
                weak.upgrade().and_then(|shared| Some((shared.clone(), shared.records.ledger.clone()?)))
            else {
                return;
            };
            let done = actix_rt::task::spawn_blocking(move || {
                let registry = &shared.access.registry;
                // Before the ledger is read, so that a request that ends meanwhile is counted twice rather than not at all.
                registry.holders.forget_spent();
                restore_spending(registry, &ledger);
                registry.holders.is_spending_known()
            });
            is_known = done.await.unwrap_or(false);
        }
    });
}

/// Counts what was spent before this start, from the sums of the ledger. If it cannot be read, spending is unknown. Reads the
/// disk.
pub fn restore_spending(registry: &Registry, ledger: &GenerationStore) {
    let restored = try_restore(registry, ledger);
    if let Err(fault) = &restored {
        log::error!(
            "what was spent before this start cannot be read, so keys with a spending limit get 503 until it can: {fault}"
        );
    }
    registry.holders.set_spending_known(restored.is_ok());
}

fn try_restore(registry: &Registry, ledger: &GenerationStore) -> Result<(), Fault> {
    for_each_sum(registry, ledger, |sum| {
        sum.budgets.iter().for_each(|budget| match sum.day_ms {
            Some(day_ms) => budget.add(sum.cost, day_ms),
            None => budget.add_to_total(sum.cost),
        });
    })
}

/// What the ledger says that was spent.
pub(super) struct SpentSum {
    /// The budgets that it counts for.
    pub(super) budgets: Vec<Arc<Budget>>,
    pub(super) cost: Usd,
    /// Beginning of its day, Unix milliseconds; `None` if it is of long ago.
    pub(super) day_ms: Option<i64>,
}

/// Reads what was spent from the ledger on disk.
pub(super) fn for_each_sum(
    registry: &Registry,
    ledger: &GenerationStore,
    mut add: impl FnMut(SpentSum),
) -> Result<(), Fault> {
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
    for Spending { day_ms, owner, key, team, cost } in ledger.entries().spending()? {
        let budgets = registry.holders.budgets_of(number(&owner), number(&key), &team);
        add(SpentSum { budgets, cost, day_ms });
    }
    Ok(())
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
