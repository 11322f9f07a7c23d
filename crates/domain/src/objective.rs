use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

crate::named! {
    /// What the routing optimises for a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub enum Objective {
        /// The least expected dollars per successful answer.
        Cheapest = "cheapest",
        /// The least predicted seconds to the last byte.
        Fastest = "fastest",
        /// The least probability of failure.
        Reliable = "reliable",
        /// Time and cost together, each against the median of the pool.
        #[default]
        Balanced = "balanced",
    }
}

impl FromStr for Objective {
    type Err = ();

    fn from_str(text: &str) -> Result<Objective, ()> {
        Objective::ALL.into_iter().find(|objective| objective.as_str() == text).ok_or(())
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Weights of time, cost and quality in `balanced`: each ≥ 0, not all of them zero. Only their ratios matter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Weight of time.
    pub latency: f64,
    /// Weight of cost.
    pub cost: f64,
    /// Weight of quality; 0: quality does not count.
    pub quality: f64,
}

impl Weights {
    /// Weights of time and cost alone, if both are finite and ≥ 0 and their sum is above 0.
    pub fn new(latency: f64, cost: f64) -> Option<Weights> {
        Weights { latency, cost, quality: 0.0 }.checked()
    }

    /// The weights, if all of them are ≥ 0 and their sum is above 0 and finite.
    pub fn checked(self) -> Option<Weights> {
        let all = [self.latency, self.cost, self.quality];
        let good = all.iter().all(|weight| *weight >= 0.0) && self.sum() > 0.0 && self.sum().is_finite();
        good.then_some(self)
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.latency + self.cost + self.quality
    }
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { latency: 0.5, cost: 0.5, quality: 0.0 }
    }
}
