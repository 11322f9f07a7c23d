//! The `Server-Timing` header: where a request's time went, for the network panel of a browser and for scripts.
//!
//! It names slugs, statuses and words of our own, nothing of a provider's.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use pointsman_actors::domain::{AttemptRecord, Tick};

use super::GenerationDraft;
use crate::proxy::dispatch::attempt::Attempt;

/// Attempts that are told of, the first ones: no plan of ordinary length has more.
const MOST_ATTEMPTS: usize = 8;
/// Of a longer slug this much is told.
const SLUG_BYTES: usize = 48;

/// The phases of the attempt the answer waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptPhases {
    queue: Duration,
    connect: Option<Duration>,
    tls: Option<Duration>,
    first_token: Option<Tick>,
}

impl AttemptPhases {
    /// Those of `attempt`.
    pub(super) fn of(attempt: &Attempt) -> AttemptPhases {
        AttemptPhases {
            queue: attempt.turn.queue,
            connect: attempt.phases.connect,
            tls: attempt.phases.tls,
            first_token: attempt.first_token,
        }
    }
}

impl GenerationDraft {
    /// The header's value at `now`. `queue`, `connect` and `tls` are of the attempt that serves; `ttft` and `total`
    /// count from the moment the request was accepted; `total` is missing while a stream still runs.
    pub(super) fn server_timing(&self, now: Tick) -> String {
        let mut list = MetricList(String::with_capacity(192));
        list.add("route", self.routing);
        let running = self.running.iter().flatten().map(|running| &running.attempt);
        let latest = self.latest.or_else(|| running.clone().next().map(AttemptPhases::of));
        if let Some(latest) = latest {
            list.add("queue", latest.queue);
            let reached = latest.first_token.map(|first| first - self.accepted);
            for (name, took) in [("connect", latest.connect), ("tls", latest.tls), ("ttft", reached)] {
                if let Some(took) = took {
                    list.add(name, took);
                }
            }
        }
        if !self.runs() {
            list.add("total", now - self.accepted);
        }
        let count = self.record.attempts.len() + running.clone().count();
        for n in 1..=count.min(MOST_ATTEMPTS) as u32 {
            if let Some(ended) = self.record.attempts.iter().find(|attempt| attempt.n == n) {
                let took = Duration::from_millis(ended.duration_ms);
                list.add_attempt(n, &ended.provider_slug, end(ended), took);
            } else if let Some(attempt) = running.clone().find(|attempt| attempt.turn.n == n) {
                list.add_attempt(n, &attempt.names().slug, format_args!("running"), now - attempt.started);
            }
        }
        list.0
    }
}

/// The status of an answer, good or bad, else the word for how the attempt ended: a good status says nothing about an answer
/// that was broken off.
fn end(attempt: &AttemptRecord) -> impl fmt::Display {
    fmt::from_fn(move |f| match attempt.status.filter(|status| *status >= 400 || attempt.error_type.is_none()) {
        Some(status) => write!(f, "{status}"),
        None => f.write_str(attempt.outcome()),
    })
}

/// A list of metrics under construction. Writing to a string cannot fail.
struct MetricList(String);

impl MetricList {
    fn add(&mut self, name: &str, took: Duration) {
        self.separate();
        let _ = write!(self.0, "{name};dur={}", Millis(took));
    }

    fn add_attempt(&mut self, n: u32, slug: &str, end: impl fmt::Display, took: Duration) {
        self.separate();
        let slug = slug.get(..SLUG_BYTES).unwrap_or(slug);
        let _ = write!(self.0, "attempt-{n};desc=\"{slug} {end}\";dur={}", Millis(took));
    }

    fn separate(&mut self) {
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
    }
}

/// Milliseconds with as many decimals as there are microseconds, written without floats.
struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match (micros / 1000, micros % 1000) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, rest) => write!(f, "{whole}.{rest:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_with_decimals() {
        let mut list = MetricList(String::new());
        list.add("route", Duration::from_micros(50));
        list.add("queue", Duration::ZERO);
        list.add("ttft", Duration::from_micros(120_340));
        list.add_attempt(1, "swift", 500, Duration::from_millis(40));
        assert_eq!(list.0, "route;dur=0.050, queue;dur=0, ttft;dur=120.340, attempt-1;desc=\"swift 500\";dur=40");
    }

    #[test]
    fn a_long_slug_is_cut() {
        let mut list = MetricList(String::new());
        list.add_attempt(12, &"x".repeat(500), "timeout", Duration::ZERO);
        assert!(list.0.len() < 100 && list.0.ends_with("x timeout\";dur=0"), "{}", list.0);
    }
}
