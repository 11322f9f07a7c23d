//! The slow statistics as published: one immutable copy for all routers.
//!
//! Whatever a decision would have to compute from them alone is computed here, once per publication instead of
//! once per decision and candidate: exponentials, prices as floats, counts decayed up to [`Snapshot::at`].

use std::sync::Arc;

use super::{Fit, OutputLengths};
use crate::domain::{Catalog, Pricing, RoutingPolicy, Tick};

/// Everything slow that a decision reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Counted up at each publication.
    pub version: u64,
    /// The catalog all positions refer to.
    pub catalog: Arc<Catalog>,
    /// The constants in force.
    pub policy: Arc<RoutingPolicy>,
    /// The moment up to which everything was decayed: that of the newest event.
    pub at: Tick,
    /// By position in the catalog.
    pub endpoints: Vec<EndpointStats>,
    /// Expected output tokens.
    pub lengths: OutputLengths,
}

/// What is known of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointStats {
    /// The estimates.
    pub estimates: Estimates,
    /// What follows from them.
    pub curve: Curve,
    /// 95th percentile of the total time over its median.
    pub total_p95: f64,
    /// Its prices, for ranking.
    pub prices: Prices,
}

impl EndpointStats {
    /// The estimates with what follows from them.
    #[must_use]
    pub fn new(estimates: Estimates, pricing: &Pricing) -> EndpointStats {
        let curve = Curve::of(estimates.fit.intercept, estimates.fit.variance, estimates.per_token);
        EndpointStats { estimates, curve, total_p95: libm::exp(estimates.tail), prices: Prices::of(pricing) }
    }
}

/// Estimates of one endpoint, decayed up to the snapshot's moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// First token over load.
    pub fit: Fit,
    /// Observations it rests on.
    pub weight: f64,
    /// When the last of them came.
    pub observed: Option<Tick>,
    /// Mean ln seconds per output token.
    pub per_token: f64,
    /// Variance of ln seconds per output token.
    pub per_token_variance: f64,
    /// 95th percentile of ln(actual ÷ predicted) total time.
    pub tail: f64,
    /// Failures, as read.
    pub failures: f64,
    /// Successes, as read.
    pub successes: f64,
}

/// What follows from an endpoint's estimates alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Median seconds to the first token at low load.
    pub first_token: f64,
    /// Seconds per output token at low load.
    pub per_token: f64,
    /// Standard deviation of ln seconds to the first token.
    pub sigma: f64,
    /// Mean over median.
    pub mean: f64,
    /// 95th percentile over median.
    pub p95: f64,
    /// Age over expectation from which one unanswered request is evidence.
    pub late_alone: f64,
    /// ... and from which two are.
    pub late_together: f64,
    /// Beyond this multiple of the median, either way, lies nothing.
    pub far: f64,
}

impl Curve {
    /// Standard deviations at which one unanswered request is evidence, and two are.
    const LATE_ALONE: f64 = 1.9;
    const LATE_TOGETHER: f64 = 1.5;
    const FAR: f64 = 4.0;
    /// The 95th percentile of the standard normal distribution.
    pub const Z95: f64 = 1.645;

    /// The curve of an intercept (ln s), a variance (ln²) and a mean ln seconds per token.
    #[must_use]
    pub fn of(intercept: f64, variance: f64, per_token: f64) -> Curve {
        let sigma = variance.sqrt();
        Curve {
            first_token: libm::exp(intercept),
            per_token: libm::exp(per_token),
            sigma,
            mean: libm::exp(variance / 2.0),
            p95: libm::exp(Curve::Z95 * sigma),
            late_alone: libm::exp(Curve::LATE_ALONE * sigma),
            late_together: libm::exp(Curve::LATE_TOGETHER * sigma),
            far: libm::exp(Curve::FAR * sigma),
        }
    }
}

/// Prices as ranking values, dollars. They never enter a bill.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prices {
    /// Per input token.
    pub prompt: f64,
    /// Per output token.
    pub completion: f64,
    /// Per request.
    pub request: f64,
    /// Per image.
    pub image: f64,
}

impl Prices {
    fn of(pricing: &Pricing) -> Prices {
        Prices {
            prompt: pricing.prompt.to_f64(),
            completion: pricing.completion.to_f64(),
            request: pricing.request.to_f64(),
            image: pricing.image.to_f64(),
        }
    }

    /// Expected dollars of a request.
    #[must_use]
    pub fn cost(&self, prompt_tokens: u32, output_tokens: f64, images: u32) -> f64 {
        f64::from(prompt_tokens) * self.prompt
            + output_tokens * self.completion
            + self.request
            + f64::from(images) * self.image
    }
}
