/// Prediction for this request at an endpoint, without exploration noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Median time to the first token, seconds.
    pub first_token_p50: f64,
    /// 95th percentile of the time to the first token, seconds.
    pub first_token_p95: f64,
    /// Output tokens per second after the first.
    pub tokens_per_second: f64,
    /// Median time to the last byte, seconds.
    pub total_p50: f64,
    /// 95th percentile of the time to the last byte, seconds.
    pub total_p95: f64,
    /// Expected cost, dollars.
    pub cost: f64,
    /// Probability that the attempt fails or exceeds its time budget.
    pub failure: f64,
    /// Whether measurements contributed; otherwise only priors did.
    pub measured: bool,
}

impl Prediction {
    /// No prediction: the attempt does not count in the calibration.
    pub const NONE: Prediction = Prediction {
        first_token_p50: 0.0,
        first_token_p95: 0.0,
        tokens_per_second: 0.0,
        total_p50: 0.0,
        total_p95: 0.0,
        cost: 0.0,
        failure: 0.0,
        measured: false,
    };
}
