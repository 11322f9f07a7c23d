//! Which generations have spans. Decided when all is known: after the end.

use std::time::Duration;

use pointsman_config::TracesConfig;
use pointsman_domain::{Generation, TraceParent, is_in_share, span_of, trace_of};

/// Keeps every generation whose client keeps the trace, every one that is worth a look, and a share of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    ratio: f64,
    slow: Duration,
}

impl Sampler {
    /// The sampler of a configuration.
    pub fn new(config: &TracesConfig) -> Sampler {
        Sampler { ratio: config.sample_ratio, slow: config.slow }
    }

    /// Whether the spans of an ended generation are sent.
    pub fn keeps(&self, record: &Generation) -> bool {
        self.is_sampled_at_head(record) || self.is_worth_a_look(record)
    }

    /// The span of attempt `n` of a generation, or of the generation itself for 0, as its children name it.
    pub fn context(&self, record: &Generation, n: u32) -> TraceParent {
        TraceParent {
            trace: trace_of_record(record),
            span: span_of(record.id, n),
            sampled: self.is_sampled_at_head(record),
        }
    }

    /// The part of the choice that is known from the beginning: what the client says, or else the share of traces.
    fn is_sampled_at_head(&self, record: &Generation) -> bool {
        match record.trace_parent {
            Some(parent) => parent.sampled,
            None => is_in_share(trace_of(record.id), self.ratio),
        }
    }

    /// Whether it failed, needed another attempt, or took long. That a client left is no failure.
    fn is_worth_a_look(&self, record: &Generation) -> bool {
        let slow_us = i64::try_from(self.slow.as_micros()).unwrap_or(i64::MAX);
        let is_slow = record.served.is_some_and(|served| served.until_us.saturating_sub(served.from_us) >= slow_us);
        record.status.is_failure() || record.rescued() || record.hedged() || is_slow
    }
}

/// The trace of a generation: its client's, or else its own.
pub fn trace_of_record(record: &Generation) -> u128 {
    record.trace_parent.map_or_else(|| trace_of(record.id), |parent| parent.trace)
}
