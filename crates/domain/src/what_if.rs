use super::{
    circuit::Circuit,
    money::Usd,
    objective::{Objective, Weights},
};

/// Hypothetical changes for a preview. Names are resolved in `pointsman_routing::explain`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WhatIf {
    /// Replaces the objective.
    pub objective: Option<Objective>,
    /// Replaces the weights of `balanced`; one alone is a share, and the others keep their ratio.
    pub weights: Option<Weights>,
    /// Changes of endpoints, applied in this order.
    pub endpoints: Vec<EndpointOverride>,
}

/// Hypothetical changes of the endpoints with this model or provider. `None` means unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EndpointOverride {
    /// Endpoints of this model; of all models when absent.
    pub model: Option<String>,
    /// Endpoints at this provider (slug, display name, or `slug/variant`); at all providers when absent.
    pub provider: Option<String>,
    /// Prices.
    pub price: PriceOverride,
    /// State of the circuit breaker.
    pub circuit: Option<Circuit>,
    /// Whether the endpoint is switched off.
    pub off: Option<bool>,
    /// Requests in flight.
    pub in_flight: Option<u32>,
    /// Median time to the first token of this request, seconds.
    pub first_token: Option<f64>,
    /// Output tokens per second for this request.
    pub tokens_per_second: Option<f64>,
    /// Probability that this request fails or exceeds its time budget.
    pub failure_probability: Option<f64>,
    /// Probability that its answers are acceptable.
    pub quality: Option<f64>,
}

/// Hypothetical prices in dollars.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PriceOverride {
    /// Per input token.
    pub prompt: Option<Usd>,
    /// Per output token.
    pub completion: Option<Usd>,
    /// Per request.
    pub request: Option<Usd>,
    /// Per image.
    pub image: Option<Usd>,
    /// Factor on all prices, applied before the other members.
    pub factor: Option<f64>,
}
