use serde::{Deserialize, Serialize};

crate::named! {
    /// The unit of a score. Lower is always better.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum ScoreUnit {
        /// Seconds to the last byte.
        Seconds = "s",
        /// Dollars per successful answer.
        Usd = "usd",
        /// Probability of failure.
        Probability = "probability",
        /// Ratio to the medians of the pool.
        None = "none",
    }
}

/// One addend of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreTerm {
    /// Name of the addend, such as `expected_cost`.
    pub name: &'static str,
    /// Value in the unit of the score.
    pub value: f64,
}

/// The addends of one score, at most [`ScoreTerms::MAX_TERMS`], without a heap allocation. Summed in order they
/// are the score exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreTerms {
    names: &'static [&'static str],
    values: [f64; ScoreTerms::MAX_TERMS],
}

impl ScoreTerms {
    /// The most terms a score has.
    pub const MAX_TERMS: usize = 5;

    /// The terms of these names and values, in this order; values beyond the names are 0.
    pub const fn new(names: &'static [&'static str], values: [f64; ScoreTerms::MAX_TERMS]) -> ScoreTerms {
        ScoreTerms { names, values }
    }

    /// The terms, in order.
    pub fn iter(&self) -> impl Iterator<Item = ScoreTerm> {
        self.names.iter().zip(self.values).map(|(name, value)| ScoreTerm { name, value })
    }

    /// The score.
    pub fn sum(&self) -> f64 {
        // Unused values are 0, so no loop over the names is needed.
        self.values.iter().sum()
    }
}
