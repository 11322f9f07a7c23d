//! How requests and the task that leases parts of spending limits meet.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::access::{
    budget::{Budgets, Reservation, Shortage},
    lease::LeaseTerms,
};
use pointsman_domain::Usd;

/// Longest time that a request waits for a lease while Redis answers.
const LONGEST_WAIT: Duration = Duration::from_millis(600);

/// Where they meet.
#[derive(Debug)]
pub struct Leasing {
    /// How leases are taken.
    pub terms: LeaseTerms,
    /// A request needs more than is leased.
    wanted: Notify,
    /// Leases were answered.
    answered: Notify,
    is_reachable: AtomicBool,
}

impl Leasing {
    /// Nothing is reached yet.
    pub fn new(terms: LeaseTerms) -> Leasing {
        Leasing { terms, wanted: Notify::new(), answered: Notify::new(), is_reachable: AtomicBool::new(false) }
    }

    /// Says whether Redis answers. Wakes the requests that wait.
    pub fn answered(&self, is_reachable: bool) {
        self.is_reachable.store(is_reachable, Ordering::Release);
        self.answered.notify_waiters();
    }

    /// Becomes ready when a request needs a lease.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Reserves an amount, and waits for a lease for a moment if only that is missing and Redis answers.
    ///
    /// # Errors
    /// As [`Budgets::reserve`].
    pub async fn reserve(&self, budgets: &Budgets, amount: Usd) -> Result<Reservation, Shortage> {
        let deadline = Instant::now() + LONGEST_WAIT;
        loop {
            let answered = self.answered.notified();
            let mut answered = std::pin::pin!(answered);
            answered.as_mut().enable();
            let reserved = budgets.reserve(amount);
            if !matches!(reserved, Err(Shortage::Lease(_))) {
                return reserved;
            }
            self.wanted.notify_one();
            let is_over = !self.is_reachable.load(Ordering::Acquire) || timeout_at(deadline, answered).await.is_err();
            if is_over {
                budgets.give_up_leases();
                return reserved;
            }
        }
    }
}
