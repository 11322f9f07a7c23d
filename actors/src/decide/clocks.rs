//! How long an attempt is waited for, measured by what its endpoint usually takes.
//!
//! Made from a recorded candidate, for the few that are called: nothing of it is part of the choice.

use std::time::Duration;

use crate::domain::{Candidate, RoutingPolicy};

/// A plain answer may take this much longer than predicted to generate before it is raced.
const GENERATION_SLACK: f64 = 1.2;
/// The learned clock: so many times what is expected at two standard deviations above it ...
const CLOCK_FACTOR: f64 = 4.0;
const CLOCK_SIGMA: f64 = 2.0;
/// ... and never less than this.
const CLOCK_FLOOR: Duration = Duration::from_secs(2);

/// After how long without a sign of life a second attempt may race this one: `hedge.sigma` standard deviations
/// above the expected first token, and for a plain answer 1.2 times the predicted generation more.
#[must_use]
pub fn hedge_after(candidate: &Candidate, streamed: bool, policy: &RoutingPolicy) -> Duration {
    let generation = if streamed { 0.0 } else { generation(candidate) };
    let first_token = (candidate.inputs.expected - generation).max(0.0);
    let late = libm::exp(policy.hedge.sigma * candidate.inputs.variance.sqrt());
    seconds(first_token * late + GENERATION_SLACK * generation)
}

/// The clock on a stream's first byte: four times what is expected at two standard deviations above it, at least
/// 2 s and at most the configured clock.
#[must_use]
pub fn first_byte_clock(candidate: &Candidate, policy: &RoutingPolicy) -> Duration {
    let late = libm::exp(CLOCK_SIGMA * candidate.inputs.variance.sqrt());
    let most = policy.clocks.first_byte;
    seconds(CLOCK_FACTOR * candidate.inputs.expected * late).clamp(CLOCK_FLOOR.min(most), most)
}

/// After how long a plain answer is overdue, whatever the objective: four times what the whole of it is expected to take
/// at two standard deviations above that, at least 2 s. Its head comes last, so no clock tells a hanging upstream from
/// one at work: that is why it may be raced then, and is not ended. Where nothing was measured yet it is what a stream
/// would have had to its first content.
#[must_use]
pub fn overdue_after(candidate: &Candidate, policy: &RoutingPolicy) -> Duration {
    let clocks = &policy.clocks;
    if !candidate.predicted.measured {
        return clocks.first_byte.saturating_add(clocks.first_content);
    }
    let late = libm::exp(CLOCK_SIGMA * candidate.inputs.spread);
    seconds(CLOCK_FACTOR * candidate.inputs.expected * late).max(CLOCK_FLOOR.min(clocks.first_byte))
}

fn generation(candidate: &Candidate) -> f64 {
    (candidate.predicted.total_p50 - candidate.predicted.first_token_p50).max(0.0)
}

/// Anything a `Duration` cannot hold is a very long time.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
