//! What is promised.

use pointsman_domain::Objective;

use crate::request::Aim;

/// Mean regret over the scenarios, and that of the worst one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The mean stays below.
    pub mean: f64,
    /// The worst one too.
    pub worst: f64,
}

/// Attempts per request where nothing is wrong.
pub const ATTEMPTS_PER_REQUEST: f64 = 1.06;
/// First attempts lost after the first failure of a dead endpoint was read.
pub const AFTER_FIRST: usize = 3;
/// Failed first attempts in an outage, probes included.
pub const WASTED: usize = 10;
/// Median |ln(actual ÷ predicted)| at endpoints whose σ is 0.5 or less.
pub const CALIBRATION: f64 = 0.35;
/// Percent of answers within the predicted 95th percentile, where nothing happens.
pub const WITHIN: (f64, f64) = (93.0, 97.0);

/// The goal of an objective. A mixed run has none of its own.
#[must_use]
pub const fn regret(aim: Aim) -> Option<Goal> {
    match aim {
        Aim::All(Objective::Fastest) => Some(Goal { mean: 0.05, worst: 0.12 }),
        Aim::All(Objective::Cheapest) => Some(Goal { mean: 0.05, worst: 0.10 }),
        Aim::All(Objective::Reliable | Objective::Balanced) => Some(Goal { mean: 0.08, worst: 0.15 }),
        Aim::Mixed => None,
    }
}
