//! Estimators of the mean outcome under the other policy.
//!
//! ```text
//! DM     mean of expected                          the model alone: it cannot see its own error
//! IPS    mean of w·r                               unbiased and noisy
//! SNIPS  Σ w·r / Σ w                               needs no prediction
//! DR     mean of expected + w·(r − predicted)      unbiased if either the probabilities or the model are right
//! ```
//!
//! Errors are standard errors over clusters.

use super::observation::{Observation, Observations};

/// Standard deviations on either side of a 95 % interval.
pub(in crate::explain) const Z95: f64 = 1.959_963_985;

/// A figure with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The figure.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

impl Point {
    /// The 95 % interval.
    #[must_use]
    pub fn interval(&self) -> [f64; 2] {
        [self.value - Z95 * self.error, self.value + Z95 * self.error]
    }
}

/// A doubly robust estimate with limited weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clipped {
    /// The figure.
    pub point: Point,
    /// By how much the limit may have moved it at most.
    pub bias: f64,
}

fn mean(all: &Observations, value: impl Fn(&Observation) -> f64) -> Point {
    let centre = all.mean(&value);
    Point { value: centre, error: all.error_of_mean(centre, value) }
}

/// The mean outcome as it was.
#[must_use]
pub fn recorded(all: &Observations) -> Point {
    mean(all, |one| one.outcome)
}

/// What the model predicts, over every choice of the other policy.
#[must_use]
pub fn direct_method(all: &Observations) -> f64 {
    all.mean(|one| one.expected + one.expected_unsupported)
}

/// Inverse propensity scores.
#[must_use]
pub fn ips(all: &Observations) -> Point {
    mean(all, |one| one.weight * one.outcome)
}

/// Self-normalised inverse propensity scores.
#[must_use]
pub fn snips(all: &Observations) -> Point {
    let weights = all.sum(|one| one.weight);
    let value = all.sum(|one| one.weight * one.outcome) / weights;
    Point { value, error: all.error_of_sum(|one| one.weight * (one.outcome - value)) / weights }
}

/// By how much the self-normalised estimate differs from the mean outcome as it was, by the delta method.
#[must_use]
pub fn snips_difference(all: &Observations) -> Point {
    let (own, other, weight) = (recorded(all).value, snips(all).value, all.mean(|one| one.weight));
    let deviation = |one: &Observation| one.weight * (one.outcome - other) / weight - (one.outcome - own);
    Point { value: other - own, error: all.error_of_mean(0.0, deviation) }
}

/// Doubly robust, over the choices with support.
#[must_use]
pub fn doubly_robust_supported(all: &Observations) -> Point {
    mean(all, |one| one.doubly_robust(one.weight))
}

fn whole(one: &Observation) -> f64 {
    one.doubly_robust(one.weight) + one.expected_unsupported
}

/// Doubly robust; of choices without support the prediction counts.
#[must_use]
pub fn doubly_robust(all: &Observations) -> Point {
    mean(all, whole)
}

/// Doubly robust with no weight above the square root of the sample.
#[must_use]
pub fn clipped(all: &Observations) -> Clipped {
    let most = (all.len() as f64).sqrt();
    let point = mean(all, |one| one.doubly_robust(one.weight.min(most)) + one.expected_unsupported);
    let weights = all.sum(|one| one.weight);
    let cut = all.sum(|one| (one.weight - most).max(0.0));
    let worst = all.iter().map(|one| (one.outcome - one.predicted).abs()).fold(0.0, f64::max);
    Clipped { point, bias: if weights > 0.0 { cut / weights * worst } else { 0.0 } }
}

/// By how much the other policy differs from its own, doubly robust on both sides. Where both choose alike, a request adds nothing to
/// the error.
#[must_use]
pub fn difference(all: &Observations) -> Point {
    mean(all, Observation::difference)
}

/// The same as a share of the outcomes, by the delta method.
#[must_use]
pub fn relative_difference(all: &Observations) -> Point {
    let (difference, own) = (all.mean(Observation::difference), all.mean(|one| one.outcome));
    let deviation =
        |one: &Observation| (one.difference() - difference) / own - difference / (own * own) * (one.outcome - own);
    Point { value: difference / own, error: all.error_of_mean(0.0, deviation) }
}
