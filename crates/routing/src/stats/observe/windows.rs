//! Counts of recent outcomes in slots of a minute, five minutes and an hour.

use std::time::Duration;

use pointsman_domain::Tick;

use super::{
    errors::{ErrorClass, ErrorCounts},
    histogram::{Bucket, Histogram},
    ring::{Merge, Ring},
};

/// Counts of one time slot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Window {
    pub successes: u64,
    pub errors: ErrorCounts,
    /// Seconds to the last byte.
    pub total: Histogram,
    /// Seconds to the first token of streams.
    pub first_token: Histogram,
    /// Output tokens per second.
    pub throughput: Histogram,
}

impl Merge for Window {
    fn merge(&mut self, other: &Window) {
        self.successes += other.successes;
        self.errors.add(&other.errors);
        self.total.merge(&other.total);
        self.first_token.merge(&other.first_token);
        self.throughput.merge(&other.throughput);
    }
}

impl Window {
    /// Share of successes, without 429s and account faults.
    pub(crate) fn success_rate(&self) -> Option<f64> {
        let failures = self.errors.timeout + self.errors.connect + self.errors.server + self.errors.other;
        let answers = self.successes + failures;
        (answers > 0).then(|| self.successes as f64 / answers as f64)
    }
}

/// Windows of one endpoint: five minutes, half an hour, a day.
#[derive(Debug, Clone)]
pub(crate) struct Windows {
    minutes: Ring<Window, 5>,
    half_hour: Ring<Window, 6>,
    day: Ring<Window, 24>,
}

impl Default for Windows {
    fn default() -> Windows {
        Windows {
            minutes: Ring::new(Duration::from_secs(60)),
            half_hour: Ring::new(Duration::from_secs(5 * 60)),
            day: Ring::new(Duration::from_secs(60 * 60)),
        }
    }
}

impl Windows {
    /// Length of the first window in seconds.
    pub(crate) const SECONDS: u64 = 300;

    pub(crate) fn first_token(&mut self, now: Tick, seconds: f64) {
        for window in [self.minutes.slot(now), self.half_hour.slot(now)].into_iter().flatten() {
            window.first_token.record(seconds);
        }
    }

    /// Adds a complete answer that took `seconds`, with its rate of output tokens if it is known.
    pub(crate) fn success(&mut self, now: Tick, seconds: f64, tokens_per_second: Option<f64>) {
        let (total, rate) = (Bucket::of(seconds), tokens_per_second.and_then(Bucket::of));
        for window in [self.minutes.slot(now), self.half_hour.slot(now)].into_iter().flatten() {
            window.total.count_in(total);
            window.throughput.count_in(rate);
            window.successes += 1;
        }
        self.day.slot(now).into_iter().for_each(|window| window.successes += 1);
    }

    pub(crate) fn error(&mut self, now: Tick, class: ErrorClass) {
        let slots = [self.minutes.slot(now), self.half_hour.slot(now), self.day.slot(now)];
        slots.into_iter().flatten().for_each(|window| window.errors.count(class));
    }

    /// Sums over five minutes, half an hour and a day before `now`.
    pub(crate) fn sums(&self, now: Tick) -> [Window; 3] {
        [self.minutes.sum(now), self.half_hour.sum(now), self.day.sum(now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(n: u64) -> Tick {
        Tick(n * 60_000_000)
    }

    #[test]
    fn five_minutes_forget_what_the_day_remembers() {
        let mut windows = Windows::default();
        windows.success(minute(1), 0.5, None);
        windows.error(minute(3), ErrorClass::Server);
        let rates = |now| windows.sums(minute(now)).map(|window| window.success_rate());
        let [minutes, ..] = rates(4);
        assert_eq!(minutes, Some(0.5));
        let [minutes, ..] = rates(6);
        assert_eq!(minutes, Some(0.0));
        let [_, half_hour, _] = rates(20);
        assert_eq!(half_hour, Some(0.5));
        assert_eq!(rates(60), [None, None, Some(0.5)]);
    }
}
