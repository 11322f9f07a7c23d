//! What a rated answer counts for, and how that fades.

use std::sync::Arc;

use pointsman_domain::{EndpointId, Task};

use super::posterior::Answers;

/// A whole rating, in the unit of the sums.
pub const UNIT: i64 = 1_000_000;

/// What one rated answer adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rated {
    /// Class of its task.
    pub task: Task,
    /// Catalog id of the model that served.
    pub model: Arc<str>,
    /// The endpoint that served.
    pub endpoint: EndpointId,
    /// Whether a model judged it.
    pub is_judged: bool,
    /// The account that rated it.
    pub rater: u64,
    /// Day on which it was served, since 1970.
    pub day: i32,
    /// When it was rated and which of that time it is: their order.
    pub order: (i64, u64),
    /// What the rating counts for, in [`UNIT`]s.
    pub weight: i64,
    /// How much of that is accepted.
    pub accepted: i64,
}

/// Ratings of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Their number.
    pub count: i64,
    /// Their weights, in [`UNIT`]s.
    pub weight: i64,
    /// How much of that is accepted.
    pub accepted: i64,
}

impl Sum {
    pub(super) fn answers(self) -> Answers {
        let unit = |sum: i64| sum as f64 / UNIT as f64;
        Answers { accepted: unit(self.accepted), rejected: unit(self.weight.saturating_sub(self.accepted)) }
    }

    pub(super) fn add(&mut self, other: Sum) {
        self.count = self.count.saturating_add(other.count);
        self.weight = self.weight.saturating_add(other.weight);
        self.accepted = self.accepted.saturating_add(other.accepted);
    }
}

/// How much of a rating of `day` is left `today`.
pub(super) fn faded(today: i32, day: i32, half_life: f64) -> f64 {
    libm::exp2(-f64::from(today.saturating_sub(day).max(0)) / half_life)
}
