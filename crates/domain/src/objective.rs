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

/// Weights of time and cost in `balanced`: both ≥ 0, not both zero. Only their ratio matters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Weight of time.
    pub latency: f64,
    /// Weight of cost.
    pub cost: f64,
}

impl Weights {
    /// The weights, if both are finite and ≥ 0 and their sum is above 0.
    pub fn new(latency: f64, cost: f64) -> Option<Weights> {
        let good = latency.is_finite() && cost.is_finite() && latency >= 0.0 && cost >= 0.0 && latency + cost > 0.0;
        good.then_some(Weights { latency, cost })
    }
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { latency: 0.5, cost: 0.5 }
    }
}
