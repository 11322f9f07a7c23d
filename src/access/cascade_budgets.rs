//! What second answers of cascades have cost in the current hour, by alias.
//!
//! Counted at this gateway alone, from the hour of the clock in which a call began. A restart begins with nothing spent.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use pointsman_domain::Usd;

const HOUR_MS: i64 = 3_600_000;

/// The spending of all aliases with a cascade. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CascadeBudgets(Arc<Mutex<HashMap<Arc<str>, Hour>>>);

#[derive(Debug)]
struct Hour {
    /// Counted from the Unix epoch.
    number: i64,
    /// Spent and reserved.
    taken: Usd,
}

/// Money reserved for one second answer. What is left of it returns to its hour when it is dropped.
#[derive(Debug)]
pub struct CascadeReservation {
    budgets: CascadeBudgets,
    alias: Arc<str>,
    hour: i64,
    left: Usd,
}

impl CascadeBudgets {
    /// Reserves `amount` of the hourly `budget` of an alias, at this time in Unix milliseconds. `None` if it does not fit.
    pub fn reserve(&self, alias: &str, amount: Usd, budget: Usd, now_ms: i64) -> Option<CascadeReservation> {
        let number = now_ms.div_euclid(HOUR_MS);
        let mut hours = self.0.lock();
        hours.retain(|_, hour| hour.number >= number);
        let alias: Arc<str> = alias.into();
        let hour = hours.entry(Arc::clone(&alias)).or_insert(Hour { number, taken: Usd::ZERO });
        if hour.taken + amount > budget {
            return None;
        }
        hour.taken += amount;
        Some(CascadeReservation { budgets: self.clone(), alias, hour: hour.number, left: amount })
    }
}

impl CascadeReservation {
    /// Takes what the answer has cost, which may be more than was reserved.
    pub fn settle(mut self, cost: Usd) {
        self.left = self.left - cost;
    }
}

impl Drop for CascadeReservation {
    fn drop(&mut self) {
        let mut hours = self.budgets.0.lock();
        if let Some(hour) = hours.get_mut(&self.alias).filter(|hour| hour.number == self.hour) {
            hour.taken = hour.taken - self.left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_MS: i64 = 12 * HOUR_MS;

    fn cents(cents: i128) -> Usd {
        Usd::from_femto(cents * 10_000_000_000_000)
    }

    fn fits(budgets: &CascadeBudgets, alias: &str, amount: i128, now_ms: i64) -> bool {
        budgets.reserve(alias, cents(amount), cents(10), now_ms).is_some()
    }

    #[test]
    fn an_hour_takes_no_more_than_its_budget_and_what_is_not_spent_returns() {
        let budgets = CascadeBudgets::default();
        let first = budgets.reserve("a", cents(8), cents(10), NOON_MS).unwrap();
        assert!(!fits(&budgets, "a", 3, NOON_MS));
        assert!(fits(&budgets, "b", 10, NOON_MS), "another alias");
        first.settle(cents(2));
        assert!(fits(&budgets, "a", 8, NOON_MS) && !fits(&budgets, "a", 9, NOON_MS));
    }

    #[test]
    fn an_answer_that_cost_more_than_was_reserved_counts_in_full() {
        let budgets = CascadeBudgets::default();
        budgets.reserve("a", cents(1), cents(10), NOON_MS).unwrap().settle(cents(9));
        assert!(!fits(&budgets, "a", 2, NOON_MS) && fits(&budgets, "a", 1, NOON_MS));
    }

    #[test]
    fn each_hour_begins_anew_and_what_ends_in_a_later_one_changes_nothing_there() {
        let budgets = CascadeBudgets::default();
        let late = budgets.reserve("a", cents(10), cents(10), NOON_MS - 1).unwrap();
        assert!(!fits(&budgets, "a", 1, NOON_MS - 1));
        let taken = budgets.reserve("a", cents(10), cents(10), NOON_MS).unwrap();
        late.settle(Usd::ZERO);
        assert!(!fits(&budgets, "a", 1, NOON_MS));
        drop(taken);
        assert!(fits(&budgets, "a", 10, NOON_MS));
    }
}
