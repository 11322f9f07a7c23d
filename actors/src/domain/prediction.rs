/// What is expected of an endpoint for this request, without noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Median time to the first token, seconds.
    pub first_token_p50: f64,
    /// 95th percentile of it, seconds.
    pub first_token_p95: f64,
    /// Output tokens per second after the first.
    pub tokens_per_second: f64,
    /// Median time to the last byte, seconds.
    pub total_p50: f64,
    /// 95th percentile of it, seconds.
    pub total_p95: f64,
    /// Expected cost, dollars.
    pub cost: f64,
    /// Probability that the attempt fails or runs out of time.
    pub failure: f64,
    /// Whether any of it rests on measurements; otherwise on priors alone.
    pub measured: bool,
}

impl Prediction {
    /// Nothing was predicted: the attempt says nothing about how well predictions hold.
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
