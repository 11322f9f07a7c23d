//! When a canary falls back: outcomes of its requests beside those of the others of its alias.
//!
//! Requests are dealt out by chance, so the two differ by the canary alone. It falls back once it is *surely* worse than its
//! guardrail allows. "Surely" holds although it is looked at after every request: the limits are those of an asymptotic confidence
//! sequence (Waudby-Smith and others, 2021), which errs for one canary in twenty over its whole life, not with every look.
//! Nothing here promotes a canary.

use std::time::Duration;

use pointsman_domain::Guardrail;

/// Fewest requests of each kind before anything is concluded.
const FEWEST: u64 = 50;
/// Probability that a canary falls back without a reason, over its whole life, for each of three limits.
const ERROR: f64 = 0.05 / 3.0;
/// Square of the width parameter of the sequence: it is tightest at about a thousand requests.
const RHO_SQUARED: f64 = 0.0113;
/// Times to the first content are counted in buckets that each are 5 % longer than the one before, from 1 ms on.
const BUCKETS: usize = 300;
const BUCKET: f64 = 1.05;
/// The percentile of times that is compared.
const PERCENTILE: f64 = 0.95;
/// Excess of a sum of dollars, as a share of it, that is left to rounding.
const ROUNDING: f64 = 1e-9;

/// How one request ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// Whether the client was shown a failure.
    pub failed: bool,
    /// US dollars for all attempts.
    pub spend: f64,
    /// Time to the first content; `None` if there was none.
    pub first_token: Option<Duration>,
}

/// Requests of one kind.
#[derive(Debug, Clone, Default)]
pub struct Arm {
    /// Their number.
    pub requests: u64,
    /// Failures that clients were shown.
    pub failures: u64,
    /// US dollars.
    pub spend: f64,
    spend_squares: f64,
    timed: u64,
    times: Vec<u32>,
}

/// What is known of a canary and of the other requests of its alias.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The canary.
    pub canary: Arm,
    /// All others that no rule led elsewhere.
    pub others: Arm,
}

/// Which limit was exceeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breach {
    /// The key of the limit: `max_spend`, `max_failures` or `max_ttft`.
    pub limit: &'static str,
    /// The figure of the canary: dollars per request, share of failures, or seconds.
    pub canary: f64,
    /// That of the others.
    pub others: f64,
}

impl Arm {
    /// Counts a request.
    pub fn add(&mut self, ended: Ended) {
        self.requests += 1;
        self.failures += u64::from(ended.failed);
        self.spend += ended.spend;
        self.spend_squares += ended.spend * ended.spend;
        if let Some(time) = ended.first_token {
            self.times.resize(BUCKETS, 0);
            if let Some(count) = self.times.get_mut(bucket(time)) {
                *count += 1;
                self.timed += 1;
            }
        }
    }

    /// Share of failures.
    pub fn failure_share(&self) -> f64 {
        self.failures as f64 / self.requests.max(1) as f64
    }

    /// Dollars per request.
    pub fn mean_spend(&self) -> f64 {
        self.spend / self.requests.max(1) as f64
    }

    /// Variance of the mean; at least as if one request had cost nothing or twice as much, so that equal costs do not make it 0.
    fn spend_variance(&self) -> f64 {
        let (requests, mean) = (self.requests.max(1) as f64, self.mean_spend());
        (self.spend_squares / requests - mean * mean).max(mean * mean / requests) / requests
    }

    /// The bucket of the 95th percentile of times.
    fn percentile(&self) -> Option<usize> {
        let wanted = (self.timed as f64 * PERCENTILE).ceil() as u64;
        let mut seen = 0;
        let reaches = |count: &u32| {
            seen += u64::from(*count);
            seen >= wanted
        };
        if self.timed == 0 { None } else { self.times.iter().position(reaches) }
    }

    /// The 95th percentile of the seconds to the first content.
    pub fn first_token_p95(&self) -> Option<f64> {
        self.percentile().map(seconds)
    }

    /// Requests whose first content came later than `bucket`.
    fn later_than(&self, bucket: usize) -> u64 {
        self.times.iter().skip(bucket + 1).map(|count| u64::from(*count)).sum()
    }
}

fn bucket(time: Duration) -> usize {
    let millis = (time.as_secs_f64() * 1e3).max(1.0);
    ((libm::log(millis) / libm::log(BUCKET)) as usize).min(BUCKETS - 1)
}

/// The end of a bucket.
fn seconds(bucket: usize) -> f64 {
    libm::pow(BUCKET, (bucket + 1) as f64) / 1e3
}

impl Evidence {
    /// The first limit that the canary surely exceeds.
    pub fn breach(&self, guardrail: &Guardrail) -> Option<Breach> {
        let Evidence { canary, others } = self;
        if canary.requests < FEWEST || others.requests < FEWEST {
            return None;
        }
        self.failures(guardrail).or_else(|| self.spend(guardrail)).or_else(|| self.first_token(guardrail))
    }

    fn failures(&self, guardrail: &Guardrail) -> Option<Breach> {
        let allowed = guardrail.failures?;
        let [canary, others] = [&self.canary, &self.others].map(Arm::failure_share);
        let variance = |arm: &Arm| share_variance(arm.failures, arm.requests);
        let excess = canary - others - allowed;
        let is_sure = is_sure(excess, variance(&self.canary) + variance(&self.others), self.canary.requests);
        is_sure.then_some(Breach { limit: "max_failures", canary, others })
    }

    fn spend(&self, guardrail: &Guardrail) -> Option<Breach> {
        let factor = 1.0 + guardrail.spend?;
        let [canary, others] = [&self.canary, &self.others].map(Arm::mean_spend);
        let variance = self.canary.spend_variance() + factor * factor * self.others.spend_variance();
        let excess = canary - factor * others * (1.0 + ROUNDING);
        let is_sure = is_sure(excess, variance, self.canary.requests);
        is_sure.then_some(Breach { limit: "max_spend", canary, others })
    }

    /// By the share of the canary's requests that are later than the others' percentile allows.
    fn first_token(&self, guardrail: &Guardrail) -> Option<Breach> {
        let factor = 1.0 + guardrail.first_token?;
        let usual = self.others.percentile()?;
        if self.canary.timed < FEWEST || self.others.timed < FEWEST {
            return None;
        }
        let bound = usual + (libm::log(factor) / libm::log(BUCKET)).ceil() as usize;
        let (late, timed) = (self.canary.later_than(bound), self.canary.timed);
        let excess = late as f64 / timed as f64 - (1.0 - PERCENTILE);
        // The others' percentile is an estimate, too.
        let of_percentile = PERCENTILE * (1.0 - PERCENTILE) / self.others.timed as f64;
        let is_sure = is_sure(excess, share_variance(late, timed) + of_percentile, timed);
        let canary = self.canary.first_token_p95()?;
        is_sure.then_some(Breach { limit: "max_ttft", canary, others: seconds(usual) })
    }
}

/// Variance of a share, which no run without failures makes 0.
fn share_variance(count: u64, of: u64) -> f64 {
    let share = (count + 1) as f64 / (of + 2) as f64;
    share * (1.0 - share) / of.max(1) as f64
}

/// Whether a mean is above 0 by more than the half-width of the sequence after `count` observations.
fn is_sure(mean: f64, variance_of_mean: f64, count: u64) -> bool {
    let n = count as f64;
    let grown = n * RHO_SQUARED + 1.0;
    let squared = 2.0 * grown / (n * RHO_SQUARED) * libm::log(grown.sqrt() / ERROR);
    mean > (variance_of_mean * squared).sqrt() && mean > 0.0
}

#[cfg(test)]
mod tests;
