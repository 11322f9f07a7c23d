//! Spending limits of keys, accounts and teams.
//!
//! A request reserves its worst-case cost with its key, its account and its team before the first attempt. It settles with
//! its actual cost when it ends; whatever else ends it gives the reservation back. A reservation lives in memory only: a
//! process that is killed leaves none behind, and what was spent is read back from the ledger.

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_base::clock;
use pointsman_domain::{SpendLimit, SpendingMeter, Spent, Usd};

use crate::{
    access::lease::{Lease, LeaseAnswer, LeaseReport, LeaseTerms, Moment},
    base::error::{ApiError, BudgetHolder, BudgetShortfall},
};

/// The budget of one key, account or team.
#[derive(Debug)]
pub struct Budget {
    holder: BudgetHolder,
    state: Mutex<BudgetState>,
}

#[derive(Debug, Default)]
struct BudgetState {
    limit: Option<SpendLimit>,
    meter: SpendingMeter,
    /// With replicas that share the limit.
    lease: Option<(Lease, LeaseTerms)>,
}

/// Why an amount was not reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// The limit leaves no room.
    Limit(BudgetShortfall),
    /// The limit may leave room, and the part of it that this replica leased does not.
    Lease(BudgetHolder),
}

impl From<Shortage> for ApiError {
    fn from(shortage: Shortage) -> ApiError {
        match shortage {
            Shortage::Limit(shortfall) => ApiError::out_of_budget(&shortfall),
            Shortage::Lease(holder) => ApiError::lease_used_up(holder),
        }
    }
}

/// State of a budget at one time.
#[derive(Debug, Clone, Copy)]
pub struct BudgetReading {
    /// The limit.
    pub limit: Option<SpendLimit>,
    /// What is left of the limit; reserved amounts are not. Other replicas count as far as they have reported.
    pub available: Option<Usd>,
    /// Amounts spent.
    pub spent: Spent,
    /// Reserved for running requests.
    pub reserved: Usd,
}

impl Budget {
    /// A budget without a limit, of which nothing is spent.
    pub fn new(holder: BudgetHolder) -> Budget {
        Budget { holder, state: Mutex::default() }
    }

    /// Sets the limit. What is spent and reserved stays counted.
    pub fn set_limit(&self, limit: Option<SpendLimit>) {
        self.state.lock().limit = limit;
    }

    /// Whether there is a limit.
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
    pub fn read(&self, now_ms: i64) -> BudgetReading {
        let state = self.state.lock();
        BudgetReading {
            limit: state.limit,
            available: state.limit.map(|limit| state.available(limit, now_ms)),
            spent: state.meter.read(now_ms),
            reserved: state.meter.reserved(),
        }
    }

    /// Shares the limit with other replicas from now on.
    pub fn lease_by(&self, terms: LeaseTerms) {
        self.state.lock().lease = Some((Lease::default(), terms));
    }

    /// What is to be reported of the lease; `None` if nothing is new.
    pub fn report_lease(&self, at: Moment, is_forced: bool) -> Option<LeaseReport> {
        let BudgetState { limit, meter, lease } = &mut *self.state.lock();
        let (lease, terms) = lease.as_mut()?;
        lease.report((*limit)?, meter, at, terms, is_forced)
    }

    /// Says that Redis does not answer: the whole lease is used now.
    pub fn cut_off_lease(&self) {
        if let Some((lease, _)) = self.state.lock().lease.as_mut() {
            lease.cut_off();
        }
    }

    /// Gives back what is not used with the next report: this replica ends.
    pub fn give_lease_back(&self) {
        if let Some((lease, _)) = self.state.lock().lease.as_mut() {
            lease.give_back();
        }
    }

    /// Takes the answer to a report over.
    pub fn take_lease(&self, report: &LeaseReport, answer: LeaseAnswer, at: Moment) {
        if let Some((lease, _)) = self.state.lock().lease.as_mut() {
            lease.take(report, answer, at);
        }
    }

    /// Refuses a request when the limit is used up.
    fn check(&self) -> Result<(), ApiError> {
        let state = self.state.lock();
        let Some(limit) = state.limit else { return Ok(()) };
        let now_ms = clock::unix_millis();
        if state.is_exhausted(limit, now_ms) {
            return Err(ApiError::out_of_budget(&self.shortfall(limit, Usd::ZERO, None, now_ms)));
        }
        Ok(())
    }

    fn reserve(&self, amount: Usd, now_ms: i64) -> Result<(), Shortage> {
        let mut state = self.state.lock();
        let Some(limit) = state.limit else {
            let _ = state.meter.reserve(amount, None, now_ms);
            return Ok(());
        };
        let of_lease = state.lease.map(|(lease, terms)| {
            let amount = lease.amount(limit, Moment { now_ms, now: clock::now() }, &terms);
            SpendLimit { amount, ..limit }
        });
        let Err(available) = state.meter.reserve(amount, Some(of_lease.unwrap_or(limit)), now_ms) else {
            return Ok(());
        };
        let left = state.available(limit, now_ms);
        match &mut state.lease {
            Some((lease, _)) if amount <= left => {
                lease.want(amount);
                Err(Shortage::Lease(self.holder))
            }
            None => Err(Shortage::Limit(self.shortfall(limit, available, Some(amount), now_ms))),
            Some(_) => Err(Shortage::Limit(self.shortfall(limit, left, Some(amount), now_ms))),
        }
    }

    fn give_up_lease(&self) {
        if let Some((lease, _)) = self.state.lock().lease.as_mut() {
            lease.give_up();
        }
    }

    fn shortfall(&self, limit: SpendLimit, available: Usd, needed: Option<Usd>, now_ms: i64) -> BudgetShortfall {
        let resets_at_ms = limit.reset.map(|reset| reset.next_start_ms(now_ms));
        BudgetShortfall { holder: self.holder, limit: limit.amount, available, needed, resets_at_ms }
    }
}

impl BudgetState {
    /// What is left of the limit, as far as this replica knows.
    fn available(&self, limit: SpendLimit, now_ms: i64) -> Usd {
        let others = self.lease.and_then(|(lease, _)| lease.others(limit, now_ms)).unwrap_or_default();
        (self.meter.available(limit, now_ms) - others.used).max(Usd::ZERO)
    }

    fn is_exhausted(&self, limit: SpendLimit, now_ms: i64) -> bool {
        let others = self.lease.and_then(|(lease, _)| lease.others(limit, now_ms)).unwrap_or_default();
        let left = SpendLimit { amount: (limit.amount - others.spent).max(Usd::ZERO), ..limit };
        self.meter.is_exhausted(limit, now_ms)
            || (!others.spent.is_zero() && !limit.amount.is_zero())
                && self.meter.since_reset(limit.reset, now_ms) >= left.amount
    }
}

/// A team of accounts.
#[derive(Debug)]
pub struct Team {
    /// Its name.
    pub name: Arc<str>,
    /// Its spending.
    pub budget: Arc<Budget>,
}

/// The budgets that a request of one key counts against.
#[derive(Debug, Clone)]
pub struct Budgets {
    all: [Option<Arc<Budget>>; 3],
    team: Option<Arc<Team>>,
}

impl Budgets {
    /// The budgets of a key, its account, and its team if it has one.
    pub fn new(key: Arc<Budget>, account: Arc<Budget>, team: Option<Arc<Team>>) -> Budgets {
        let of_team = team.as_ref().map(|team| Arc::clone(&team.budget));
        Budgets { all: [Some(key), Some(account), of_team], team }
    }

    fn all(&self) -> impl Iterator<Item = &Budget> {
        self.all.iter().flatten().map(Arc::as_ref)
    }

    /// Whether one of them has a limit.
    pub fn are_limited(&self) -> bool {
        self.all().any(|budget| budget.is_limited())
    }

    /// The limit of which least is left, with its holder and what is left.
    pub fn tightest(&self, now_ms: i64) -> Option<(BudgetHolder, SpendLimit, Usd)> {
        let limited = self.all().filter_map(|budget| {
            let BudgetReading { limit, available, .. } = budget.read(now_ms);
            Some((budget.holder, limit?, available?))
        });
        limited.min_by_key(|(_, _, available)| *available)
    }

    /// Name of the team.
    pub fn team_name(&self) -> Option<Arc<str>> {
        self.team.as_ref().map(|team| Arc::clone(&team.name))
    }

    /// The first of key, account and team that has a limit.
    pub fn limited_holder(&self) -> Option<BudgetHolder> {
        self.all().find(|budget| budget.is_limited()).map(|budget| budget.holder)
    }

    /// Refuses a request when one of them is used up.
    ///
    /// # Errors
    /// 402 with what is left and when it resets.
    pub fn check(&self) -> Result<(), ApiError> {
        self.all().try_for_each(Budget::check)
    }

    /// Reserves an amount with all of them, or with none.
    ///
    /// # Errors
    /// The shortage of the first that has no room.
    pub fn reserve(&self, amount: Usd) -> Result<Reservation, Shortage> {
        let mut reservation = Reservation { budgets: self.clone(), amount: Usd::ZERO };
        reservation.extend(amount).map(|()| reservation)
    }
}

impl Budgets {
    /// Asks for no further part of a limit: the request that needed it has gone.
    pub fn give_up_leases(&self) {
        self.all().for_each(|budget| budget.give_up_lease());
    }
}

/// A reserved amount. Given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budgets: Budgets,
    amount: Usd,
}

impl Reservation {
    /// Name of the team whose budget is among those that pay.
    pub fn team(&self) -> Option<&Arc<str>> {
        self.budgets.team.as_ref().map(|team| &team.name)
    }

    /// The reserved amount.
    pub fn amount(&self) -> Usd {
        self.amount
    }

    /// Reserves more with all budgets, or with none.
    ///
    /// # Errors
    /// The shortage of the first that has no room.
    pub fn extend(&mut self, more: Usd) -> Result<(), Shortage> {
        let more = more.max(Usd::ZERO);
        let now_ms = clock::unix_millis();
        for (position, budget) in self.budgets.all().enumerate() {
            if let Err(shortage) = budget.reserve(more, now_ms) {
                self.budgets.all().take(position).for_each(|reserved| reserved.state.lock().meter.release(more));
                return Err(shortage);
            }
        }
        self.amount += more;
        Ok(())
    }

    /// Gives the reservation back and counts the actual cost, at the time when the request began in Unix milliseconds.
    pub fn settle(mut self, cost: Usd, at_ms: i64) {
        let reserved = std::mem::take(&mut self.amount);
        for budget in self.budgets.all() {
            let mut state = budget.state.lock();
            state.meter.release(reserved);
            state.meter.add(cost, at_ms);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.amount.is_zero() {
            self.budgets.all().for_each(|budget| budget.state.lock().meter.release(self.amount));
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
        let team = Arc::new(Team { name: "blue".into(), budget: team });
        let budgets = Budgets::new(Arc::clone(&key), Arc::new(Budget::new(BudgetHolder::Account)), Some(team));
        let mut reservation = budgets.reserve(usd("3")).unwrap();
        let Shortage::Limit(shortfall) = reservation.extend(usd("3")).unwrap_err() else { panic!() };
        assert_eq!((shortfall.holder, shortfall.available), (BudgetHolder::Team, usd("2")));
        assert_eq!(key.read(0).reserved, usd("3"));
        drop(reservation);
        assert_eq!(key.read(0).reserved, Usd::ZERO);
        assert_eq!(key.read(0).available, Some(usd("10")));
    }
}
