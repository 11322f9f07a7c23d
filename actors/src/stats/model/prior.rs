//! What is expected of an endpoint before it was measured. Made in `siblings`.

/// Expectations for unmeasured endpoints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prior {
    /// To the first token, of an empty prompt, ln seconds.
    pub first_token: f64,
    /// Growth of that per prompt token, relative to an empty prompt.
    pub prompt_slope: f64,
    /// Per output token, ln seconds.
    pub per_token: f64,
    /// Probability that an attempt fails.
    pub failure: f64,
}
