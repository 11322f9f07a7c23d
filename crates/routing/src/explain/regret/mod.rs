//! Regret: what recorded decisions came to beyond better ones, and how much of that exploration, restrictions and ignorance cost.
//!
//! [`Timeline`] holds what the records knew of each endpoint, and when. [`Hindsight`] makes a decision again three times, each time
//! with one thing less in its way: without chance, also without [`Restriction`]s, and also with what the records of the next minute
//! know ([`FORESIGHT_MS`]) and how probably endpoints failed by all of their attempts (`failure_history`). [`Regrets`] keeps a few
//! figures of each request and says what the differences come to: exploration, restrictions, ignorance, and the rest of the total,
//! which is what the requests measurably came to beyond the last of the three.
//! It also compares with every endpoint alone ([`FixedEndpoint`]).
//!
//! What nobody measured within the minute stays unknown: the last of the three choices knows more than the decision did, not
//! everything.

mod attempts;
mod failure_history;
mod figure;
mod figures;
mod fixed;
mod hindsight;
mod regrets;
mod request;
mod scales;
mod timeline;

pub use figure::RegretFigure;
pub use figures::{LEAST_GROUP, Regret, Restricted, Yardstick};
pub use fixed::{Fixed, FixedEndpoint};
pub use hindsight::{FORESIGHT_MS, Hindsight, Observed};
pub use regrets::Regrets;
pub use request::Group;
pub use timeline::Timeline;

pub use super::diff::Restriction;
