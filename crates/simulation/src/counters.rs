//! Counters of a simulated provider, for tests and demonstrations.

use std::sync::{
    Arc,
    atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Counters of one simulated provider since its start.
#[derive(Debug, Default)]
pub struct Counters {
    requests: AtomicU64,
    in_flight: AtomicU32,
    completed: AtomicU64,
    cancelled: AtomicU64,
    failed: AtomicU64,
    truncated: AtomicU64,
    rate_limited: AtomicU64,
}

impl Counters {
    /// Requests for chat and images, including refused ones.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Requests admitted and not ended.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Complete answers.
    pub fn completed(&self) -> u64 {
        self.completed.load(Acquire)
    }

    /// Requests whose client disconnected before the end, including those that hang.
    pub fn cancelled(&self) -> u64 {
        self.cancelled.load(Acquire)
    }

    /// Requests answered with a simulated 500.
    pub fn failed(&self) -> u64 {
        self.failed.load(Acquire)
    }

    /// Answers that were truncated.
    pub fn truncated(&self) -> u64 {
        self.truncated.load(Acquire)
    }

    /// Requests answered with a 429.
    pub fn rate_limited(&self) -> u64 {
        self.rate_limited.load(Relaxed)
    }

    pub(super) fn record_request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn record_rate_limited(&self) {
        self.rate_limited.fetch_add(1, Relaxed);
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Failed,
    Truncated,
    Cancelled,
}

/// One request in flight. Counts its end when dropped: as cancelled, unless another end was set before.
#[derive(Debug)]
pub(super) struct InFlight {
    counters: Arc<Counters>,
    end: End,
}

impl InFlight {
    pub(super) fn begin(counters: &Arc<Counters>) -> InFlight {
        counters.in_flight.fetch_add(1, Relaxed);
        InFlight { counters: Arc::clone(counters), end: End::Cancelled }
    }

    /// Sets how the request ends, as soon as that is certain.
    pub(super) fn ends(&mut self, end: End) {
        self.end = end;
    }

    /// Requests in flight at this provider, this one included.
    pub(super) fn count(&self) -> u32 {
        self.counters.in_flight()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let ended = match self.end {
            End::Completed => &self.counters.completed,
            End::Failed => &self.counters.failed,
            End::Truncated => &self.counters.truncated,
            End::Cancelled => &self.counters.cancelled,
        };
        // In this order, so that a reader that sees the end also sees the smaller number in flight.
        self.counters.in_flight.fetch_sub(1, Relaxed);
        ended.fetch_add(1, Release);
    }
}
