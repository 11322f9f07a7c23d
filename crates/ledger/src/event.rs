//! What happened on the way of a generation, as filters and columns know it.

use pointsman_domain::Generation;
use pointsman_routing::stats::{missed_target, slower_than_predicted};

/// What happened on the way of a generation, of the field [`label::EVENT`](crate::facts::label::EVENT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It completed although an attempt failed.
    Rescued,
    /// A second attempt raced the first.
    Hedged,
    /// Noise made the choice.
    Explored,
    /// Its first token missed a latency target.
    MissedTarget,
    /// Its first token came later than the predicted 95th percentile.
    SlowerThanPredicted,
}

impl Event {
    /// All of them.
    pub const ALL: [Event; 5] =
        [Event::Rescued, Event::Hedged, Event::Explored, Event::MissedTarget, Event::SlowerThanPredicted];

    /// Its label, and its name in queries.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Event::Rescued => "rescued",
            Event::Hedged => "hedged",
            Event::Explored => "explored",
            Event::MissedTarget => "missed_target",
            Event::SlowerThanPredicted => "slower_than_predicted",
        }
    }

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
