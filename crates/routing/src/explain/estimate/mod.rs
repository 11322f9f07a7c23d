//! What another policy would have come to, estimated from recorded requests whose choices were partly left to chance, and when
//! nothing can be said.
//!
//! An [`Observation`] is one request: its outcome, how much likelier the other policy would have made the same choice
//! (`weight`), and what the model predicted. [`estimators`] turns them into figures with errors, [`Diagnostics`] says how much of
//! the sample speaks about the other policy, and [`Finding`] is a rule that refuses a figure, or warns of it. [`Sample`] does all
//! of it for recorded requests.
//!
//! What is assumed: the recorded probabilities are right, and one request's outcome does not depend on where others went. The
//! first is tested by the mean weight; the second is false near the limits of an endpoint, hence the rule about shifted traffic.

mod diagnostics;
pub mod estimators;
mod finding;
mod intervals;
mod observation;
mod sample;
mod support;
mod traffic_shift;

pub use diagnostics::Diagnostics;
pub(in crate::explain) use diagnostics::effective_failures;
pub use finding::Finding;
pub(in crate::explain) use finding::{about_missing, about_sample, about_shifts};
pub use intervals::{clopper_pearson, confidence_sequence};
pub use observation::{LEAST_PROBABILITY, Observation, Observations};
pub(in crate::explain) use sample::FEWEST_FAILURES;
pub use sample::{Bound, CostOfChance, Estimated, Labels, LoggedRequest, Measure, Measured, Sample, SliceOfSample};
pub use support::Position;
pub(in crate::explain) use support::{is_limit, outcome_values};
pub use traffic_shift::{TrafficShift, TrafficShifts};

#[cfg(test)]
mod tests;
