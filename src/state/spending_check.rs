//! Compares what spending limits count with what the ledger says, exactly, while calls go on.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    thread,
    time::Duration,
};

use pointsman_base::clock;
use pointsman_domain::Usd;
use pointsman_ledger::{fault::Fault, generations::GenerationStore};

use crate::{access::registry::Registry, state::accounts::for_each_sum};

/// Most comparisons until the differences are only those that stay.
const LOOKS: usize = 5;
/// Time between two of them: longer than a call that has been counted is on its way into the ledger.
const PAUSE: Duration = Duration::from_millis(200);

/// What was compared.
#[derive(Debug, Default)]
pub struct SpendingCheck {
    /// Keys, accounts and teams whose spending was compared.
    pub compared: u64,
    /// Each difference, in words.
    pub faults: Vec<String>,
}

/// A counter, and what the ledger says.
type Difference = (Usd, Usd);

/// Compares the spending of every key, account and team with the ledger. A difference that two looks find alike is a fault; what
/// changes meanwhile is looked at again. Reads the disk and blocks up to a second.
///
/// # Errors
/// The disk refuses.
pub fn check(registry: &Registry, ledger: &GenerationStore) -> Result<SpendingCheck, Fault> {
    if !registry.holders.is_spending_known() {
        return Ok(SpendingCheck::default());
    }
    let mut earlier: BTreeMap<String, Difference> = BTreeMap::new();
    let mut compared = 0;
    for look in 0..LOOKS {
        if look > 0 {
            thread::sleep(PAUSE);
        }
        let (count, different) = differences(registry, ledger)?;
        compared = count.max(compared);
        let stay = different.iter().all(|(holder, difference)| earlier.get(holder) == Some(difference));
        if stay {
            return Ok(SpendingCheck { compared, faults: different.iter().map(in_words).collect() });
        }
        earlier = different;
    }
    Ok(SpendingCheck { compared, faults: Vec::new() })
}

fn in_words((holder, (counted, recorded)): (&String, &Difference)) -> String {
    format!("the {holder} has spent ${counted} by its limit, and ${recorded} by the records")
}

/// How many holders stood still while they were compared, and those that differ.
fn differences(registry: &Registry, ledger: &GenerationStore) -> Result<(u64, BTreeMap<String, Difference>), Fault> {
    let budgets = registry.holders.named_budgets();
    let spent = || budgets.iter().map(|(_, budget)| budget.read(clock::unix_millis()).spent.total).collect::<Vec<_>>();
    let before = spent();
    let mut recorded: HashMap<_, Usd> = HashMap::new();
    for_each_sum(registry, ledger, |sum| {
        for budget in &sum.budgets {
            *recorded.entry(Arc::as_ptr(budget)).or_default() += sum.cost;
        }
    })?;
    let (mut count, mut different) = (0, BTreeMap::new());
    for (((name, budget), before), after) in budgets.iter().zip(before).zip(spent()) {
        if before != after {
            continue;
        }
        count += 1;
        let recorded = recorded.get(&Arc::as_ptr(budget)).copied().unwrap_or_default();
        if recorded != after {
            different.insert(name.clone(), (after, recorded));
        }
    }
    Ok((count, different))
}
