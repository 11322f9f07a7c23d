//! What attempts beyond the ordinary ones may cost: token buckets that all workers of the process share.
//!
//! A plan may name three endpoints behind open circuits, every late attempt may be raced, and further ones may follow those
//! that failed; the buckets see to it that nothing of it multiplies the traffic. How much a request brings in is policy and comes as an argument.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Attempts past open circuits that may be saved up, and so many of last resort: a short outage is tried through.
const RETRIES_SAVED: i64 = 20;
/// Hedges that may be saved up: few, because an upstream that slows down is late for everybody at once.
const HEDGES_SAVED: i64 = 5;
/// Hedges there are at the start.
const HEDGES_AT_FIRST: i64 = 1;

/// A millionth of a token is the smallest share a request may bring in.
const TOKEN: i64 = 1_000_000;

/// The buckets of a process.
#[derive(Debug)]
pub struct Budgets {
    /// For attempts at endpoints whose circuit is open, and beside overdue ones.
    pub retry: Budget,
    /// For those of last resort: apart, so that a request which nobody can answer takes nothing from others.
    pub last_resort: Budget,
    /// For attempts that race another.
    pub hedge: Budget,
}

impl Default for Budgets {
    fn default() -> Budgets {
        let full = || Budget::new(RETRIES_SAVED, RETRIES_SAVED);
        Budgets { retry: full(), last_resort: full(), hedge: Budget::new(HEDGES_AT_FIRST, HEDGES_SAVED) }
    }
}

/// One bucket. Nothing in it blocks.
#[derive(Debug)]
pub struct Budget {
    /// Millionths of a token.
    saved: AtomicI64,
    most: i64,
}

impl Budget {
    fn new(tokens: i64, most: i64) -> Budget {
        Budget { saved: AtomicI64::new(tokens * TOKEN), most: most * TOKEN }
    }

    /// A request came: so many tokens more, usually a fraction of one.
    pub fn earn(&self, tokens: f64) {
        self.add((tokens * TOKEN as f64) as i64);
    }

    /// Takes a token, if one is there.
    #[must_use]
    pub fn take(&self) -> bool {
        self.saved.fetch_update(Relaxed, Relaxed, |saved| (saved >= TOKEN).then(|| saved - TOKEN)).is_ok()
    }

    /// Puts back a token that was not used.
    pub fn give_back(&self) {
        self.add(TOKEN);
    }

    fn add(&self, tokens: i64) {
        // Full most of the time: then looking is all there is to do.
        let more = |saved: i64| (saved < self.most).then(|| self.most.min(saved.saturating_add(tokens)));
        _ = self.saved.fetch_update(Relaxed, Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &Budget) -> usize {
        std::iter::repeat_with(|| budget.take()).take_while(|taken| *taken).count()
    }

    #[test]
    fn retries_start_full_and_hedges_with_one() {
        let budgets = Budgets::default();
        assert_eq!([&budgets.retry, &budgets.last_resort, &budgets.hedge].map(taken), [20, 20, 1]);
    }

    #[test]
    fn requests_bring_in_their_share_up_to_the_most() {
        let budget = Budget::new(0, 5);
        (0..14).for_each(|_| budget.earn(0.2));
        assert_eq!(taken(&budget), 2);
        (0..1000).for_each(|_| budget.earn(0.2));
        assert_eq!(taken(&budget), 5);
        (0..50).for_each(|_| budget.earn(0.02));
        assert_eq!(taken(&budget), 1, "no share is lost to rounding");
    }

    #[test]
    fn a_token_that_was_not_used_is_put_back() {
        let budget = Budget::new(1, 5);
        assert!(budget.take());
        budget.give_back();
        assert_eq!(taken(&budget), 1);
    }
}
