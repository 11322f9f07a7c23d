//! What one call of an embedding request gave.

use crate::json::Raw;

/// Vectors, in the order of the inputs.
pub(super) struct Vectors<'b> {
    pub(super) values: Vec<Raw<'b>>,
    /// Counted prompt tokens; `None` if the provider does not tell.
    pub(super) tokens: Option<u64>,
}
