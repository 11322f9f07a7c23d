//! What is kept of each request, and how requests are told apart.

use std::sync::Arc;

use pointsman_domain::Objective;

use super::hindsight::Reviewed;

/// Requests that are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The alias; `None` for fixed models.
    pub alias: Option<Arc<str>>,
    /// The objective.
    pub objective: Objective,
    /// Midnight, Unix milliseconds, UTC; `None` for all days.
    pub day_ms: Option<i64>,
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Sets requests in an order of their own: sums have the same bits however they were read.
    pub draw: u64,
    pub cluster: u64,
    pub at_ms: i64,
    pub objective: Objective,
    /// Weight of time beside that of cost under `balanced`, 0 to 1.
    pub time_share: f64,
    pub reviewed: Reviewed,
}
