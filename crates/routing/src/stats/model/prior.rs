//! Priors for an endpoint without observations. Computed in `siblings`.

/// Prior of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prior {
    /// ln seconds to the first token of an empty prompt.
    pub first_token: f64,
    /// Growth per prompt token, relative to an empty prompt.
    pub prompt_slope: f64,
    /// ln seconds per output token.
    pub per_token: f64,
    /// Failure probability.
    pub failure: f64,
}
