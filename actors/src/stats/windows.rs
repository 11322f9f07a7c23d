//! What happened lately, counted by the minute, the five minutes and the hour.

use std::time::Duration;

use super::{ErrorClass, ErrorCounts, histogram::Histogram};
use crate::domain::Tick;

/// Slots of equal span that are reused in turn; a slot older than the ring is empty.
#[derive(Debug, Clone)]
struct Ring<const SLOTS: usize> {
    span: Duration,
    slots: [(u64, Window); SLOTS],
}

impl<const SLOTS: usize> Ring<SLOTS> {
    fn new(span: Duration) -> Ring<SLOTS> {
        Ring { span, slots: std::array::from_fn(|_| (0, Window::default())) }
    }

    fn slot(&mut self, now: Tick) -> Option<&mut Window> {
        let turn = self.turn(now);
        let (held, window) = self.slots.get_mut((turn % SLOTS as u64) as usize)?;
        if *held != turn {
            (*held, *window) = (turn, Window::default());
        }
        Some(window)
    }

    fn sum(&self, now: Tick) -> Window {
        let turn = self.turn(now);
        let recent = self.slots.iter().filter(|(held, _)| *held <= turn && *held + SLOTS as u64 > turn);
        recent.fold(Window::default(), |mut sum, (_, window)| {
            sum.merge(window);
            sum
        })
    }

    /// Counted from 1, so that untouched slots are older than any.
    fn turn(&self, now: Tick) -> u64 {
        SLOTS as u64 + now.0 / u64::try_from(self.span.as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

/// What happened in one span of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Window {
    pub successes: u64,
    pub errors: ErrorCounts,
    /// Seconds to the last byte.
    pub total: Histogram,
    /// Seconds to the first token, of streams.
    pub first_token: Histogram,
    /// Output tokens per second.
    pub throughput: Histogram,
}

impl Window {
    pub(super) fn merge(&mut self, other: &Window) {
        self.successes += other.successes;
        self.errors.add(&other.errors);
        self.total.merge(&other.total);
        self.first_token.merge(&other.first_token);
        self.throughput.merge(&other.throughput);
    }

    /// The share of successes among what says something about the provider: a 429 is a promise, and a wrong
    /// key is ours, so neither counts.
    pub(super) fn success_rate(&self) -> Option<f64> {
        let failures = self.errors.timeout + self.errors.connect + self.errors.server + self.errors.other;
        let answers = self.successes + failures;
        (answers > 0).then(|| self.successes as f64 / answers as f64)
    }
}

/// The rings of one endpoint: five minutes, half an hour, a day.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    minutes: Ring<5>,
    half_hour: Ring<6>,
    day: Ring<24>,
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
    /// Seconds that [`Windows::minutes`] looks back.
    pub(super) const SECONDS: u64 = 300;

    pub(super) fn first_token(&mut self, now: Tick, seconds: f64) {
        for window in [self.minutes.slot(now), self.half_hour.slot(now)].into_iter().flatten() {
            window.first_token.record(seconds);
        }
    }

    /// A whole answer took so many seconds; its tokens came at this rate, where that can be told.
    pub(super) fn success(&mut self, now: Tick, seconds: f64, tokens_per_second: Option<f64>) {
        for window in [self.minutes.slot(now), self.half_hour.slot(now)].into_iter().flatten() {
            window.total.record(seconds);
            if let Some(rate) = tokens_per_second {
                window.throughput.record(rate);
            }
        }
        self.each(now, |window| window.successes += 1);
    }

    pub(super) fn error(&mut self, now: Tick, class: ErrorClass) {
        self.each(now, |window| window.errors.count(class));
    }

    fn each(&mut self, now: Tick, mut change: impl FnMut(&mut Window)) {
        let slots = [self.minutes.slot(now), self.half_hour.slot(now), self.day.slot(now)];
        slots.into_iter().flatten().for_each(&mut change);
    }

    pub(super) fn minutes(&self, now: Tick) -> Window {
        self.minutes.sum(now)
    }

    pub(super) fn half_hour(&self, now: Tick) -> Window {
        self.half_hour.sum(now)
    }

    pub(super) fn day(&self, now: Tick) -> Window {
        self.day.sum(now)
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
        assert_eq!(windows.minutes(minute(4)).success_rate(), Some(0.5));
        assert_eq!(windows.minutes(minute(6)).success_rate(), Some(0.0));
        assert_eq!(windows.minutes(minute(60)).success_rate(), None);
        assert_eq!(windows.half_hour(minute(20)).success_rate(), Some(0.5));
        assert_eq!(windows.day(minute(60)).success_rate(), Some(0.5));
    }

    #[test]
    fn a_429_and_a_wrong_key_of_ours_leave_the_success_rate_alone() {
        let mut windows = Windows::default();
        windows.success(minute(1), 0.5, None);
        windows.error(minute(1), ErrorClass::RateLimited);
        windows.error(minute(1), ErrorClass::Auth);
        assert_eq!(windows.minutes(minute(1)).success_rate(), Some(1.0));
    }
}
