//! What happened on the way of a generation, as filters and columns know it.

use pointsman_domain::Generation;
use pointsman_routing::stats::{missed_target, slower_than_predicted};

pointsman_domain::named! {
    /// What happened on the way of a generation, of the field [`label::EVENT`](crate::facts::label::EVENT).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Event {
        /// It completed although an attempt failed.
        Rescued = "rescued",
        /// A second attempt raced the first.
        Hedged = "hedged",
        /// Noise made the choice.
        Explored = "explored",
        /// Its first token missed a latency target.
        MissedTarget = "missed_target",
        /// Its first token came later than the predicted 95th percentile.
        SlowerThanPredicted = "slower_than_predicted",
    }
}

impl Event {
    /// Whether it happened to `generation`.
    #[must_use]
    pub fn happened(self, generation: &Generation) -> bool {
        match self {
            Event::Rescued => generation.rescued(),
            Event::Hedged => generation.hedged(),
            Event::Explored => generation.decision.explored,
            Event::MissedTarget => missed_target(generation),
            Event::SlowerThanPredicted => slower_than_predicted(generation),
        }
    }
}
