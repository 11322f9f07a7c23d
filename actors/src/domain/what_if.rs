use super::{
    circuit::Circuit,
    money::Usd,
    objective::{Objective, Weights},
};

/// What a preview is to imagine otherwise. Whom the names mean is resolved in [`crate::decide`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WhatIf {
    /// Another objective.
    pub objective: Option<Objective>,
    /// Other weights of `balanced`.
    pub weights: Option<Weights>,
    /// Endpoints that stand otherwise, in the order in which they are changed.
    pub endpoints: Vec<EndpointOverride>,
}

/// How the endpoints of a name stand otherwise. What is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EndpointOverride {
    /// Those of this model; of any when absent.
    pub model: Option<String>,
    /// Those at this provider (slug, display name, or `slug/variant`); at any when absent.
    pub provider: Option<String>,
    /// Prices.
    pub price: PriceOverride,
    /// The state of the circuit.
    pub circuit: Option<Circuit>,
    /// Whether it is switched off.
    pub off: Option<bool>,
    /// Requests in flight.
    pub in_flight: Option<u32>,
    /// Median time to the first token of this request, seconds.
    pub first_token: Option<f64>,
    /// Output tokens per second for this request.
    pub tokens_per_second: Option<f64>,
    /// Probability that this request fails there or runs out of time.
    pub failure_probability: Option<f64>,
}

/// Prices that are otherwise, in dollars.
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
    /// All of them times this, before the others count.
    pub factor: Option<f64>,
}
