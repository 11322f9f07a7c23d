//! The retry budget: token buckets for additional attempts, shared by all workers of the process.
//!
//! Attempts at endpoints with open circuits, hedges and attempts of last resort each cost a token, so that they cannot
//! multiply the traffic. A fallback to an endpoint with a closed circuit costs none: `max_attempts` limits it. The tokens
//! that a request adds are set by the routing policy and passed as an argument; `proxy::dispatch::plan_run` takes them.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Capacity of the retry bucket and of the last-resort bucket, in tokens: enough for the requests of a short outage.
const RETRY_CAPACITY: i64 = 20;
/// Capacity of the hedge bucket, in tokens. Small, because a slow upstream delays all its requests at once.
const HEDGE_CAPACITY: i64 = 5;
/// Tokens in the hedge bucket at the start.
const INITIAL_HEDGES: i64 = 1;

/// Units per token: a request may add as little as a millionth of a token.
const TOKEN: i64 = 1_000_000;

/// The buckets of a process.
#[derive(Debug)]
pub struct RetryBudget {
    /// For attempts at endpoints whose circuit is open, and for second attempts next to overdue ones.
    pub retry: TokenBucket,
    /// For attempts of last resort. Separate, so that a request which no endpoint can serve uses no tokens of others.
    pub last_resort: TokenBucket,
    /// For hedges.
    pub hedge: TokenBucket,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        let full = || TokenBucket::new(RETRY_CAPACITY, RETRY_CAPACITY);
        RetryBudget { retry: full(), last_resort: full(), hedge: TokenBucket::new(INITIAL_HEDGES, HEDGE_CAPACITY) }
    }
}

/// One token bucket, without locks.
#[derive(Debug)]
pub struct TokenBucket {
    /// In millionths of a token.
    available: AtomicI64,
    /// In millionths of a token.
    capacity: i64,
}

impl TokenBucket {
    fn new(tokens: i64, capacity: i64) -> TokenBucket {
        TokenBucket { available: AtomicI64::new(tokens * TOKEN), capacity: capacity * TOKEN }
    }

    /// Adds the tokens of one request, usually a fraction of one.
    pub fn earn(&self, tokens: f64) {
        self.add((tokens * TOKEN as f64) as i64);
    }

    /// Takes a token. `false` when there is none.
    pub fn take(&self) -> bool {
        let take_one = |available: i64| (available >= TOKEN).then(|| available - TOKEN);
        self.available.fetch_update(Relaxed, Relaxed, take_one).is_ok()
    }

    /// Returns an unused token.
    pub fn give_back(&self) {
        self.add(TOKEN);
    }

    fn add(&self, tokens: i64) {
        // A full bucket is not written, to avoid contention between workers.
        let add =
            |available: i64| (available < self.capacity).then(|| self.capacity.min(available.saturating_add(tokens)));
        _ = self.available.fetch_update(Relaxed, Relaxed, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &TokenBucket) -> usize {
        std::iter::repeat_with(|| bucket.take()).take_while(|taken| *taken).count()
    }

    #[test]
    fn retries_start_full_and_hedges_with_one() {
        let tokens = RetryBudget::default();
        assert_eq!([&tokens.retry, &tokens.last_resort, &tokens.hedge].map(taken), [20, 20, 1]);
    }

    #[test]
    fn requests_add_their_fraction_of_a_token_up_to_the_capacity() {
        let bucket = TokenBucket::new(0, 5);
        (0..14).for_each(|_| bucket.earn(0.2));
        assert_eq!(taken(&bucket), 2);
        (0..1000).for_each(|_| bucket.earn(0.2));
        assert_eq!(taken(&bucket), 5);
        (0..50).for_each(|_| bucket.earn(0.02));
        assert_eq!(taken(&bucket), 1, "no fraction is lost to rounding");
    }

    #[test]
    fn an_unused_token_is_returned() {
        let bucket = TokenBucket::new(1, 5);
        assert!(bucket.take());
        bucket.give_back();
        assert_eq!(taken(&bucket), 1);
    }
}
