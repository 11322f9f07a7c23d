//! What the models say about one endpoint at one moment, and the curve that follows from it.

use crate::stats::model::latency::Fit;

/// Estimates of one endpoint, decayed up to the snapshot's moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// First token over load.
    pub fit: Fit,
    /// Observations it rests on.
    pub weight: f64,
    /// Seconds since the last of them; infinite before the first.
    pub age: f64,
    /// Mean ln seconds per output token.
    pub per_token: f64,
    /// Observations that rests on.
    pub pace_weight: f64,
    /// Share of output tokens that answers show; hidden reasoning belongs to the time before the first content.
    pub shown: f64,
    /// Variance of ln seconds per output token.
    pub per_token_variance: f64,
    /// 95th percentile of ln(actual ÷ predicted) total time.
    pub tail: f64,
    /// The same of the time to the first token.
    pub first_tail: f64,
    /// Failures, as read.
    pub failures: f64,
    /// Successes, as read.
    pub successes: f64,
    /// The failure probability that is usual among its siblings.
    pub usual_failure: f64,
}

/// What follows from an endpoint's estimates alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Median seconds to the first token at low load, of an empty prompt.
    pub first_token: f64,
    /// Seconds that each prompt token adds to that.
    pub prompt_token: f64,
    /// Seconds per output token at low load.
    pub per_token: f64,
    /// Standard deviation of ln seconds to the first token.
    pub sigma: f64,
    /// Mean over median.
    pub mean: f64,
    /// Beyond this multiple of the median, either way, lies nothing.
    pub far: f64,
}

impl Curve {
    const FAR: f64 = 4.0;
    /// The 95th percentile of the standard normal distribution.
    pub const Z95: f64 = 1.645;

    /// The curve of an intercept (ln s), a variance (ln²), a mean ln seconds per output token and seconds per
    /// prompt token.
    #[must_use]
    pub fn of(intercept: f64, variance: f64, per_token: f64, prompt_token: f64) -> Curve {
        let sigma = variance.sqrt();
        Curve {
            first_token: libm::exp(intercept),
            prompt_token,
            per_token: libm::exp(per_token),
            sigma,
            mean: libm::exp(variance / 2.0),
            far: libm::exp(Curve::FAR * sigma),
        }
    }
}
