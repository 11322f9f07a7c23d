//! Figures at `/health/providers`, `/models/stats` and in metrics. Decisions do not use them.

use pointsman_domain::{EndpointId, FailureKind, Tick};

use super::{
    histogram::Histogram,
    ring::Merge as _,
    windows::{Window, Windows},
};

use crate::stats::observe::errors::ErrorCounts;

/// Figures of every endpoint and provider, by position in the catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// Version of that catalog.
    pub catalog_version: u64,
    /// By endpoint.
    pub endpoints: Vec<EndpointFigures>,
    /// By provider, over all of its endpoints.
    pub providers: Vec<Summary>,
}

/// Figures of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointFigures {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The figures.
    pub summary: Summary,
}

/// Summary of a recent window. Durations are in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Length of the window in seconds, unless a field says otherwise.
    pub window_seconds: u64,
    /// Completed attempts: successes and errors. Cancelled attempts and mistakes of clients are not counted.
    pub requests: u64,
    /// Complete answers.
    pub successes: u64,
    /// Errors.
    pub errors: ErrorCounts,
    /// Share of successes, without 429s and account faults. `None` without an attempt.
    pub success_rate: Option<f64>,
    /// Time to the last byte.
    pub latency: Quantiles,
    /// Time to the first token of streams.
    pub first_token: Quantiles,
    /// Output tokens per second.
    pub throughput: Quantiles,
    /// Time to the first token in the last half hour.
    pub first_token_half_hour: Quantiles,
    /// Output tokens per second in the last half hour.
    pub throughput_half_hour: Quantiles,
    /// Share of successes in the last half hour.
    pub success_rate_half_hour: Option<f64>,
    /// Share of successes in the last day.
    pub success_rate_day: Option<f64>,
    /// The last counted error.
    pub last_error: Option<LastError>,
    /// Consecutive failures; for a provider, of its worst endpoint.
    pub consecutive_failures: u32,
}

/// Observed percentiles; `None` without observations.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 75th percentile.
    pub p75: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Moving average over about the last sixteen observations, whatever their age.
    pub ewma: Option<f64>,
    /// Observations in the window.
    pub count: u64,
}

/// An error and when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastError {
    /// When it happened.
    pub at: Tick,
    /// Kind of failure.
    pub kind: FailureKind,
    /// Upstream status, if there was one.
    pub status: Option<u16>,
}

/// A moving average over about the last sixteen observations.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Average {
    value: f64,
    count: u32,
}

impl Average {
    const SPAN: u32 = 16;

    pub(crate) fn observe(&mut self, value: f64) {
        self.count = (self.count + 1).min(Average::SPAN);
        self.value += (value - self.value) / f64::from(self.count);
    }

    pub(crate) fn get(&self) -> Option<f64> {
        (self.count > 0).then_some(self.value)
    }
}

/// The moving averages of one endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Averages {
    pub total: Average,
    pub first_token: Average,
    pub throughput: Average,
}

/// What figures are computed from: sums over windows, and values without a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct FigureSums {
    pub minutes: Window,
    pub half_hour: Window,
    pub day: Window,
    pub averages: [Option<f64>; 3],
    pub last_error: Option<LastError>,
    pub consecutive_failures: u32,
}

impl FigureSums {
    /// Adds the sums of another endpoint of the same provider.
    pub(crate) fn add(&mut self, other: &FigureSums) {
        for (mine, theirs) in self.averages.iter_mut().zip(other.averages) {
            // Weighted by observations, so that a rarely used endpoint hardly changes the provider's average.
            let (old, new) = (self.minutes.successes as f64, other.minutes.successes as f64);
            *mine = match (*mine, theirs) {
                (Some(a), Some(b)) if old + new > 0.0 => Some((a * old + b * new) / (old + new)),
                (mine, theirs) => mine.or(theirs),
            };
        }
        self.minutes.merge(&other.minutes);
        self.half_hour.merge(&other.half_hour);
        self.day.merge(&other.day);
        let newer = |error: &LastError| self.last_error.is_none_or(|mine| error.at > mine.at);
        self.last_error = other.last_error.filter(newer).or(self.last_error);
        self.consecutive_failures = self.consecutive_failures.max(other.consecutive_failures);
    }

    pub(crate) fn summary(&self) -> Summary {
        let [total, first_token, throughput] = self.averages;
        Summary {
            window_seconds: Windows::SECONDS,
            requests: self.minutes.successes + self.minutes.errors.total(),
            successes: self.minutes.successes,
            errors: self.minutes.errors,
            success_rate: self.minutes.success_rate(),
            latency: quantiles(&self.minutes.total, total),
            first_token: quantiles(&self.minutes.first_token, first_token),
            throughput: quantiles(&self.minutes.throughput, throughput),
            first_token_half_hour: quantiles(&self.half_hour.first_token, first_token),
            throughput_half_hour: quantiles(&self.half_hour.throughput, throughput),
            success_rate_half_hour: self.half_hour.success_rate(),
            success_rate_day: self.day.success_rate(),
            last_error: self.last_error,
            consecutive_failures: self.consecutive_failures,
        }
    }
}

fn quantiles(histogram: &Histogram, ewma: Option<f64>) -> Quantiles {
    Quantiles {
        p50: histogram.quantile(0.5),
        p75: histogram.quantile(0.75),
        p90: histogram.quantile(0.9),
        p95: histogram.quantile(0.95),
        p99: histogram.quantile(0.99),
        ewma,
        count: histogram.count(),
    }
}
