//! What another policy would have chosen for a request, decided beside it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The choice of one shadow policy for one request. Nobody was called for it. At most 40 bytes in a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShadowChoice {
    /// Name of the shadow.
    pub shadow: Arc<str>,
    /// Position of its choice in the catalog of the decision; `None` if no endpoint could have served.
    pub choice: Option<u32>,
    /// By how much the score of the endpoint that was really chosen is higher (worse) than that of the choice, under the
    /// shadow's own policy; `None` if the shadow excludes that endpoint.
    pub gap: Option<f32>,
    /// Expected cost of the choice, dollars at the shadow's prices.
    pub cost: f32,
    /// Median time to its first token, seconds.
    pub first_token: f32,
    /// Probability that it fails.
    pub failure: f32,
}
