//! Spending limits of keys, accounts and teams.
//!
//! A request reserves its worst-case cost with its key, its account and its team before the first attempt. It settles with
//! its actual cost when it ends; whatever else ends it gives the reservation back. A reservation lives in memory only: a
//! process that is killed leaves none behind, and what was spent is read back from the ledger.

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_actors::domain::{SpendLimit, SpendingMeter, Spent, Usd};

use crate::base::{
    clock,
    error::{ApiError, BudgetHolder, BudgetShortfall},
};

/// The budget of one key, account or team.
#[derive(Debug)]
pub struct Budget {
    holder: BudgetHolder,
    state: Mutex<BudgetState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct BudgetState {
    limit: Option<SpendLimit>,
    meter: SpendingMeter,
}

/// State of a budget at one time.
#[derive(Debug, Clone, Copy)]
pub struct BudgetReading {
    /// The limit.
    pub limit: Option<SpendLimit>,
    /// What is left of the limit; reserved amounts are not.
    pub available: Option<Usd>,
    /// Amounts spent.
    pub spent: Spent,
    /// Reserved for running requests.
    pub reserved: Usd,
}

impl Budget {
    /// A budget without a limit, of which nothing is spent.
    #[must_use]
    pub fn new(holder: BudgetHolder) -> Budget {
        Budget { holder, state: Mutex::default() }
    }

    /// Sets the limit. What is spent and reserved stays counted.
    pub fn set_limit(&self, limit: Option<SpendLimit>) {
        self.state.lock().limit = limit;
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.state.lock().limit.is_some()
    }

    /// Adds a cost with its time in Unix milliseconds.
    pub fn add(&self, cost: Usd, at_ms: i64) {
        self.state.lock().meter.add(cost, at_ms);
    }

    /// Adds an amount of long ago, which counts in the total alone.
    pub fn add_to_total(&self, cost: Usd) {
        self.state.lock().meter.add_to_total(cost);
    }

    /// Forgets what was spent. What is reserved stays.
    pub fn forget_spent(&self) {
        self.state.lock().meter.forget_spent();
    }

    /// The state now.
    #[must_use]
    pub fn read(&self, now_ms: i64) -> BudgetReading {
        let BudgetState { limit, meter } = *self.state.lock();
        BudgetReading {
            limit,
            available: limit.map(|limit| meter.available(limit, now_ms)),
            spent: meter.read(now_ms),
            reserved: meter.reserved(),
        }
    }

    /// Refuses a request when the limit is used up.
    fn check(&self, now_ms: i64) -> Result<(), ApiError> {
        let BudgetState { limit, meter } = *self.state.lock();
        match limit {
            Some(limit) if meter.is_exhausted(limit, now_ms) => {
                Err(ApiError::out_of_budget(&self.shortfall(limit, Usd::ZERO, None, now_ms)))
            }
            _ => Ok(()),
        }
    }

    fn reserve(&self, amount: Usd, now_ms: i64) -> Result<(), BudgetShortfall> {
        let mut state = self.state.lock();
        let limit = state.limit;
        state.meter.reserve(amount, limit, now_ms).map_err(|available| {
            let limit = limit.unwrap_or(SpendLimit { amount: Usd::ZERO, reset: None });
            self.shortfall(limit, available, Some(amount), now_ms)
        })
    }

    fn shortfall(&self, limit: SpendLimit, available: Usd, needed: Option<Usd>, now_ms: i64) -> BudgetShortfall {
        let resets_at_ms = limit.reset.map(|reset| reset.next_start_ms(now_ms));
        BudgetShortfall { holder: self.holder, limit: limit.amount, available, needed, resets_at_ms }
    }
}

/// The budgets that a request of one key counts against.
#[derive(Debug, Clone)]
pub struct Budgets(Vec<Arc<Budget>>);

impl Budgets {
    /// The budgets of a key, its account, and its team if it has one.
    #[must_use]
    pub fn new(key: Arc<Budget>, account: Arc<Budget>, team: Option<Arc<Budget>>) -> Budgets {
        Budgets([Some(key), Some(account), team].into_iter().flatten().collect())
    }

    /// Whether one of them has a limit.
    #[must_use]
    pub fn are_limited(&self) -> bool {
        self.0.iter().any(|budget| budget.is_limited())
    }

    /// Refuses a request when one of them is used up.
    ///
    /// # Errors
    /// 402 with what is left and when it resets.
    pub fn check(&self) -> Result<(), ApiError> {
        let now_ms = clock::unix_millis();
        self.0.iter().try_for_each(|budget| budget.check(now_ms))
    }

    /// Reserves an amount with all of them, or with none.
    ///
    /// # Errors
    /// The shortfall of the first that has no room.
    pub fn reserve(&self, amount: Usd) -> Result<Reservation, BudgetShortfall> {
        let mut reservation = Reservation { budgets: self.clone(), amount: Usd::ZERO };
        reservation.extend(amount).map(|()| reservation)
    }
}

/// A reserved amount. Given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budgets: Budgets,
    amount: Usd,
}

impl Reservation {
    /// The reserved amount.
    #[must_use]
    pub fn amount(&self) -> Usd {
        self.amount
    }

    /// Reserves more with all budgets, or with none.
    ///
    /// # Errors
    /// The shortfall of the first that has no room.
    pub fn extend(&mut self, more: Usd) -> Result<(), BudgetShortfall> {
        let more = more.max(Usd::ZERO);
        let now_ms = clock::unix_millis();
        for (position, budget) in self.budgets.0.iter().enumerate() {
            if let Err(shortfall) = budget.reserve(more, now_ms) {
                self.budgets.0.iter().take(position).for_each(|reserved| reserved.state.lock().meter.release(more));
                return Err(shortfall);
            }
        }
        self.amount += more;
        Ok(())
    }

    /// Gives the reservation back and counts the actual cost, at the time when the request began in Unix milliseconds.
    pub fn settle(mut self, cost: Usd, at_ms: i64) {
        let reserved = std::mem::take(&mut self.amount);
        for budget in &self.budgets.0 {
            let mut state = budget.state.lock();
            state.meter.release(reserved);
            state.meter.add(cost, at_ms);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.amount.is_zero() {
            self.budgets.0.iter().for_each(|budget| budget.state.lock().meter.release(self.amount));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    fn budget(holder: BudgetHolder, limit: &str) -> Arc<Budget> {
        let budget = Budget::new(holder);
        budget.set_limit(Some(SpendLimit { amount: usd(limit), reset: None }));
        Arc::new(budget)
    }

    #[test]
    fn two_hundred_threads_on_a_budget_for_a_hundred_get_exactly_a_hundred() {
        clock::start();
        let (key, account) = (budget(BudgetHolder::Key, "150"), budget(BudgetHolder::Account, "100"));
        let budgets = Budgets::new(Arc::clone(&key), Arc::clone(&account), None);
        let threads: Vec<_> = (0..200)
            .map(|_| {
                let budgets = budgets.clone();
                thread::spawn(move || {
                    let reservation = budgets.reserve(usd("1")).ok()?;
                    thread::yield_now();
                    reservation.settle(usd("1"), 0);
                    Some(())
                })
            })
            .collect();
        let admitted = threads.into_iter().filter_map(|thread| thread.join().unwrap()).count();
        // A thread that finds the account full may hold a unit of the key for a moment, and no unit of the account.
        assert_eq!(admitted, 100);
        for budget in [&key, &account] {
            let reading = budget.read(0);
            assert_eq!((reading.spent.total, reading.reserved), (usd("100"), Usd::ZERO));
        }
        assert!(budgets.check().is_err());
    }

    #[test]
    fn a_dropped_reservation_and_a_refused_extension_leave_nothing_behind() {
        let (key, team) = (budget(BudgetHolder::Key, "10"), budget(BudgetHolder::Team, "5"));
        let budgets = Budgets::new(Arc::clone(&key), Arc::new(Budget::new(BudgetHolder::Account)), Some(team));
        let mut reservation = budgets.reserve(usd("3")).unwrap();
        let shortfall = reservation.extend(usd("3")).unwrap_err();
        assert_eq!((shortfall.holder, shortfall.available), (BudgetHolder::Team, usd("2")));
        assert_eq!(key.read(0).reserved, usd("3"));
        drop(reservation);
        assert_eq!(key.read(0).reserved, Usd::ZERO);
        assert_eq!(key.read(0).available, Some(usd("10")));
    }
}
