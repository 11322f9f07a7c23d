//! What is known of endpoints, which of them serves a request, and why.
//!
//! * [`explain`]: reasons, why-not, what-if and replay of decisions.
//! * [`decide`]: which candidates, in which order.
//! * [`quality`]: how good the answers of endpoints are, from scores and ratings.
//! * [`spend_pace`]: how calls of an alias keep to a mean cost.
//! * [`split`]: which part of a divided alias.
//! * [`stats`]: models, live state and observations of endpoints.
//!
//! There is no actix, no clock, no randomness and no I/O here: time and chance are arguments.

pub mod decide;
pub mod explain;
pub mod quality;
#[expect(clippy::disallowed_methods, reason = "a pace ranks, and bills nobody")]
pub mod spend_pace;
pub mod split;
pub mod stats;
