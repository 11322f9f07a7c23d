//! A limit of calls in progress, and the time after which a refused one should find a permit.
//!
//! Only work that is sent to a provider is timed. Calls that are refused, or answered by the gateway alone, take a permit
//! while they last, and say nothing of the time for which the others keep theirs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use pointsman_base::clock;
use pointsman_domain::Tick;

/// A limit of requests in progress; 0 means no limit.
#[derive(Debug, Default)]
pub struct ConcurrencyLimit {
    taken: AtomicU32,
    most: AtomicU32,
    /// Mean time of the last requests under the limit, microseconds; 0 before the first has ended.
    mean_us: AtomicU64,
}

/// Each request that ends moves the mean time by the difference to its own, divided by this.
const MEAN_WEIGHT_DIVISOR: u64 = 8;
/// Shortest time that a refused request is told to wait.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Longest time that a refused request is told to wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl ConcurrencyLimit {
    /// Sets the limit.
    pub fn set(&self, most: Option<u32>) {
        self.most.store(most.unwrap_or_default(), Ordering::Relaxed);
    }

    /// The limit; 0 without one.
    pub fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }

    /// Requests in progress.
    pub fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Counts a request until the guard is dropped. `None` when the limit is reached.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Option<InProgress> {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let in_progress = InProgress { limit: Arc::clone(self), since: None };
        let most = self.most.load(Ordering::Relaxed);
        (most == 0 || taken < most).then_some(in_progress)
    }

    /// Time after which a permit should be free: while all are taken, one of them is given up every mean time of a request,
    /// divided by the permits.
    pub fn wait(&self) -> Duration {
        let permits = u64::from(self.most.load(Ordering::Relaxed).max(1));
        Duration::from_micros(self.mean_us.load(Ordering::Relaxed).div_ceil(permits)).clamp(MIN_WAIT, MAX_WAIT)
    }

    fn ended(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let weighted = |mean: u64| mean - mean / MEAN_WEIGHT_DIVISOR + took / MEAN_WEIGHT_DIVISOR;
        let mean = |mean: u64| Some(if mean == 0 { took } else { weighted(mean) });
        let _ = self.mean_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mean);
    }
}

/// Guard of one request in progress.
#[derive(Debug)]
pub struct InProgress {
    limit: Arc<ConcurrencyLimit>,
    /// Since when it is timed.
    since: Option<Tick>,
}

impl InProgress {
    /// Counts the time from `since` to the end of the request among those that tell others how long to wait.
    pub fn time_from(&mut self, since: Tick) {
        self.since = Some(since);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        if let Some(since) = self.since.filter(|_| self.limit.most.load(Ordering::Relaxed) > 0) {
            self.limit.ended(clock::now().since(since));
        }
        self.limit.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_place_follows_the_requests_that_ended_and_is_bounded() {
        let limit = ConcurrencyLimit::default();
        limit.set(Some(4));
        assert_eq!(limit.wait(), MIN_WAIT, "nothing has ended yet");
        limit.ended(Duration::from_secs(40));
        assert_eq!(limit.wait(), Duration::from_secs(10));
        limit.set(Some(1));
        assert_eq!(limit.wait(), Duration::from_secs(40));
        (0..40).for_each(|_| limit.ended(Duration::from_secs(8)));
        assert!((8..9).contains(&limit.wait().as_secs()), "{:?}", limit.wait());
        (0..100).for_each(|_| limit.ended(Duration::MAX));
        assert_eq!(limit.wait(), MAX_WAIT);
        (0..400).for_each(|_| limit.ended(Duration::ZERO));
        assert_eq!(limit.wait(), MIN_WAIT);
    }

    #[test]
    fn a_refused_request_takes_no_place_and_only_one_that_is_timed_changes_the_mean() {
        clock::start();
        let limit = Arc::new(ConcurrencyLimit::default());
        let mean = || limit.mean_us.load(Ordering::Relaxed);
        limit.set(Some(1));
        let mut first = limit.take().unwrap();
        assert!(limit.take().is_none());
        assert_eq!((limit.taken(), mean()), (1, 0));
        first.time_from(clock::now());
        drop(first);
        let timed = mean();
        assert!(timed > 0);
        drop(limit.take().unwrap());
        assert_eq!((limit.taken(), mean()), (0, timed), "a call that reached no provider");
    }
}
