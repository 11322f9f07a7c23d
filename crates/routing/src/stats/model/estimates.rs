//! Posterior estimates of one endpoint at one time, and the curve computed from them.

use crate::stats::model::latency::Fit;

/// Estimates of one endpoint, decayed to the time of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// Latency fit.
    pub fit: Fit,
    /// Weight of the latency fit, in observations.
    pub weight: f64,
    /// Seconds since the last observation; infinite before the first.
    pub age: f64,
    /// Mean ln seconds per output token.
    pub per_token: f64,
    /// Weight of the pace estimate, in observations.
    pub pace_weight: f64,
    /// Share of output tokens that answers show. Hidden reasoning belongs to the time before the first content.
    pub shown: f64,
    /// Variance of ln seconds per output token.
    pub per_token_variance: f64,
    /// 95th percentile of ln(actual ÷ predicted) total time.
    pub tail: f64,
    /// 95th percentile of ln(actual ÷ predicted) time to the first token.
    pub first_tail: f64,
    /// Decayed failures.
    pub failures: f64,
    /// Decayed successes.
    pub successes: f64,
    /// Usual failure probability of its siblings.
    pub usual_failure: f64,
}

/// Precomputed from the estimates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Median seconds to the first token at low load with an empty prompt.
    pub first_token: f64,
    /// Seconds per prompt token.
    pub prompt_token: f64,
    /// Seconds per output token at low load.
    pub per_token: f64,
    /// Standard deviation of ln seconds to the first token.
    pub sigma: f64,
    /// Ratio of mean to median.
    pub mean: f64,
}

impl Curve {
    /// The 95th percentile of the standard normal distribution.
    pub const Z95: f64 = 1.645;

    /// From an intercept (ln s), a variance (ln²), a mean of ln seconds per output token and seconds per prompt token.
    pub fn new(intercept: f64, variance: f64, per_token: f64, prompt_token: f64) -> Curve {
        let sigma = variance.sqrt();
        Curve {
            first_token: libm::exp(intercept),
            prompt_token,
            per_token: libm::exp(per_token),
            sigma,
            mean: libm::exp(variance / 2.0),
        }
    }
}
