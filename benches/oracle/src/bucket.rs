//! The token bucket of an endpoint that limits its callers.

use std::time::Duration;

/// Requests a limited endpoint takes at once, in seconds of its rate, and at least.
const BURST_SECONDS: f64 = 1.0;
const BURST_LEAST: f64 = 2.0;

/// A token bucket.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    tokens: f64,
    at: f64,
    rate: Option<f64>,
}

impl Bucket {
    /// Brought up to now, under this limit.
    #[must_use]
    pub fn at(self, now: f64, limit: Option<f64>) -> Bucket {
        let Some(rate) = limit else { return Bucket { at: now, ..Bucket::default() } };
        let most = (rate * BURST_SECONDS).max(BURST_LEAST);
        let before = if self.rate == limit { self.tokens } else { most };
        Bucket { tokens: (before + rate * (now - self.at)).min(most), at: now, rate: limit }
    }

    /// Whether it would take another request.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.rate.is_none() || self.tokens >= 1.0
    }

    /// After it took a request, if it did.
    #[must_use]
    pub fn asked(self) -> Bucket {
        if self.admits() { Bucket { tokens: self.tokens - 1.0, ..self } } else { self }
    }

    /// Whole seconds until it would take another, as providers say it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = (1.0 - self.tokens) / self.rate?;
        Some(Duration::from_secs_f64(wait.ceil().max(1.0)))
    }
}
