//! Time-outs and race delays of an attempt, from the usual times of its endpoint.
//!
//! Computed from a recorded candidate for the few that are called; they do not affect the choice.

use std::time::Duration;

use pointsman_domain::{Candidate, RoutingPolicy};

/// Factor on the predicted generation time before a plain answer is raced.
const GENERATION_SLACK: f64 = 1.2;
/// The learned time-out: this multiple of the expected time at two standard deviations above it ...
const CLOCK_FACTOR: f64 = 4.0;
const CLOCK_SIGMA: f64 = 2.0;
/// ... but at least this.
const CLOCK_FLOOR: Duration = Duration::from_secs(2);

/// Delay after which a second attempt may race this one: `hedge.sigma` standard deviations above the expected first
/// token, and for a plain answer 1.2 times the predicted generation more.
pub fn hedge_after(candidate: &Candidate, streamed: bool, policy: &RoutingPolicy) -> Duration {
    let generation = if streamed { 0.0 } else { generation(candidate) };
    let first_token = (candidate.inputs.expected - generation).max(0.0);
    let late = libm::exp(policy.hedge.sigma * candidate.inputs.variance.sqrt());
    seconds(first_token * late + GENERATION_SLACK * generation)
}

/// Time-out of a stream's first byte: four times the expected time at two standard deviations above it, at least 2 s
/// and at most the configured time-out.
pub fn first_byte_clock(candidate: &Candidate, policy: &RoutingPolicy) -> Duration {
    let late = libm::exp(CLOCK_SIGMA * candidate.inputs.variance.sqrt());
    let most = policy.clocks.first_byte;
    seconds(CLOCK_FACTOR * candidate.inputs.expected * late).clamp(CLOCK_FLOOR.min(most), most)
}

/// Delay after which a plain answer is overdue under any objective: four times its expected total time at two standard
/// deviations above it, at least 2 s. The response head comes last, so a hanging upstream cannot be told from a working
/// one: a second attempt may race this one, which is not ended. Without measurements it is the time that a stream has
/// until its first content.
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

/// A `Duration` of any number of seconds, at most `Duration::MAX`.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
