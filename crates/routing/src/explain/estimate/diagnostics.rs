//! How much of a sample speaks about the other policy.

use super::{estimators::Point, observation::Observations};

/// Share of the requests with the largest weights whose part of all weight is looked at.
const TOP: usize = 100;
/// Difference of a mean weight that is none.
const ROUNDING: f64 = 1e-9;

/// Figures about the weights of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Diagnostics {
    /// Requests.
    pub requests: usize,
    /// Groups of requests that depend on each other.
    pub clusters: usize,
    /// Requests whose choice the other policy could have made, too.
    pub matched: usize,
    /// (Σ w)² / Σ w²: that many requests of the other policy itself would say as much.
    pub effective: f64,
    /// Mean weight; it must be 1, less what is unsupported.
    pub mean_weight: Point,
    /// Share of choices of the other policy that were hardly ever made.
    pub unsupported: f64,
    /// The largest weight.
    pub largest: f64,
    /// Part of all weight that one request in a hundred carries.
    pub top_share: f64,
}

impl Diagnostics {
    /// Of these requests.
    #[must_use]
    pub fn new(all: &Observations) -> Diagnostics {
        let mut weights: Vec<f64> = all.iter().map(|one| one.weight).collect();
        weights.sort_unstable_by(|one, other| other.total_cmp(one));
        let (sum, squares) = (all.sum(|one| one.weight), all.sum(|one| one.weight * one.weight));
        let top: f64 = weights.iter().take(weights.len().div_ceil(TOP)).sum();
        let mean = all.mean(|one| one.weight);
        Diagnostics {
            requests: all.len(),
            clusters: all.clusters().count(),
            matched: weights.iter().take_while(|weight| **weight > 0.0).count(),
            effective: if squares > 0.0 { sum * sum / squares } else { 0.0 },
            mean_weight: Point { value: mean, error: all.error_of_mean(mean, |one| one.weight) },
            unsupported: all.mean(|one| one.unsupported),
            largest: weights.first().copied().unwrap_or_default(),
            top_share: if sum > 0.0 { top / sum } else { 0.0 },
        }
    }

    /// Share of requests whose choice the other policy could have made, too.
    #[must_use]
    pub fn agreement(&self) -> f64 {
        self.matched as f64 / self.requests.max(1) as f64
    }

    /// By how many standard errors the mean weight is off, and by how much.
    pub(super) fn weight_error(&self) -> (f64, f64) {
        let off = (self.mean_weight.value - (1.0 - self.unsupported)).abs();
        // A mean of equal weights differs from theirs by rounding alone.
        (if off > ROUNDING { off / self.mean_weight.error } else { 0.0 }, off)
    }
}

/// Effective number of failures among the requests that the other policy could have sent the same way.
pub(in crate::explain) fn effective_failures(all: &Observations) -> f64 {
    all.effective(|one| one.weight * one.outcome)
}
