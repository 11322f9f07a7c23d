//! What ratings say now: faded with their age, by model, class and endpoint.

/// Evidence of all ratings.
#[derive(Debug, Clone, Default)]
pub struct Evidence {}
