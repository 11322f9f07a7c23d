//! How good the answers of endpoints are: scores that somebody measured, and ratings that clients send.
//!
//! A quality is the probability that an answer is acceptable, for one class of task. Nothing here reads a clock: the day is an argument.

mod beta;
mod evidence;
mod posterior;
mod table;

pub(crate) use beta::beta_quantile;
pub use evidence::Evidence;
pub use posterior::Posterior;
pub use table::{QualityTable, ScoredEndpoint};
