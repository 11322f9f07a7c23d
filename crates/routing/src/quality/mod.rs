//! How good the answers of endpoints are: scores that somebody measured, and ratings that clients send.
//!
//! A quality is the probability that an answer is acceptable, for one class of task: a beta distribution around the score, with the
//! ratings on top. Stored are sums of ratings alone (`sums`), from which `evidence` follows for a day and `table` for a catalog.
//! Nothing here reads a clock: days are arguments.

mod alike;
mod belief;
mod beta;
mod drift;
mod evidence;
mod posterior;
mod rated;
mod report;
mod share;
mod sums;
mod table;

pub use alike::{Known, with_others};
pub(crate) use beta::beta_quantile;
pub use drift::Drift;
pub use evidence::{Evidence, RATE_DAYS, Traffic, TrafficTable};
pub use posterior::Posterior;
pub use rated::{Rated, UNIT};
pub use report::{ModelQuality, report};
pub use sums::RatingSums;
pub use table::{QualityTable, ScoredEndpoint};

#[cfg(test)]
mod tests;
