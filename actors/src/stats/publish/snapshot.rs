//! The slow statistics as published: one immutable copy for all routers.
//!
//! Whatever a decision would have to compute from them alone is computed here, once per publication instead of
//! once per decision and candidate: exponentials, prices as floats, counts decayed up to [`Snapshot::at`].

use std::sync::Arc;

use crate::domain::{Catalog, Endpoint, EndpointId, Modalities, ParameterSet, Pricing, Provider, RoutingPolicy, Tick};
use crate::stats::model::{
    estimates::{Curve, Estimates},
    lengths::OutputLengths,
    prompt_scale::PromptScales,
};

/// Everything slow that a decision reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Counted up at each publication.
    pub version: u64,
    /// The catalog all positions refer to.
    pub catalog: Arc<Catalog>,
    /// The constants in force.
    pub policy: Arc<RoutingPolicy>,
    /// The moment up to which everything was decayed: that of the newest event, or later while nothing happens.
    pub at: Tick,
    /// By position in the catalog; worked out under `policy`.
    pub endpoints: Vec<EndpointStats>,
    /// Expected output tokens.
    pub lengths: OutputLengths,
    /// Prompt tokens per estimated one.
    pub prompts: PromptScales,
}

/// What is known of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointStats {
    /// What every request asks of it.
    pub facts: Facts,
    /// The estimates.
    pub estimates: Estimates,
    /// What follows from them.
    pub curve: Curve,
    /// 95th percentile of the total time over its median.
    pub total_p95: f64,
    /// The same of the time to the first token.
    pub first_token_p95: f64,
    /// Its prices, for ranking.
    pub prices: Prices,
}

impl EndpointStats {
    /// The estimates of an endpoint with what follows from them.
    #[must_use]
    pub fn new(catalog: &Catalog, endpoint: &Endpoint, estimates: Estimates) -> EndpointStats {
        let fit = &estimates.fit;
        let prompt_token = fit.prompt_slope * libm::exp(fit.intercept);
        EndpointStats {
            facts: Facts::of(catalog, endpoint),
            estimates,
            curve: Curve::of(fit.intercept, fit.variance, estimates.per_token, prompt_token),
            total_p95: libm::exp(estimates.tail),
            first_token_p95: libm::exp(estimates.first_tail),
            prices: Prices::of(catalog, endpoint),
        }
    }
}

/// The few facts of the catalog that almost every request asks for, side by side: a decision over hundreds of
/// endpoints would otherwise spend its time fetching models and providers from all over the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Which endpoint.
    pub id: EndpointId,
    /// Position of its model.
    pub model: u32,
    /// Position of its provider.
    pub provider: u32,
    /// Parameters it honours.
    pub parameters: ParameterSet,
    /// Inputs its model takes.
    pub input: Modalities,
    /// Outputs its model gives.
    pub output: Modalities,
    /// Whether its provider is on.
    pub on: bool,
    /// Whether it may be called at all: its provider is on, it is not disabled, its model never expires.
    pub plain: bool,
    /// Context window, tokens.
    pub context_length: u32,
    /// Longest prompt, tokens; the context window where none is given.
    pub longest_prompt: u32,
    /// Longest answer, tokens; all there are where none is given.
    pub longest_answer: u32,
    /// Whether its price is known.
    pub priced: bool,
}

impl Facts {
    fn of(catalog: &Catalog, endpoint: &Endpoint) -> Facts {
        let model = catalog.model_of(endpoint);
        let on = catalog.provider_of(endpoint).is_some_and(Provider::is_on);
        let stays = model.is_some_and(|model| model.expiration_date.is_none());
        let limits = endpoint.limits;
        Facts {
            id: endpoint.id,
            model: endpoint.model,
            provider: endpoint.provider,
            parameters: endpoint.parameters,
            input: model.map_or(Modalities::NONE, |model| model.architecture.input),
            output: model.map_or(Modalities::NONE, |model| model.architecture.output),
            on,
            plain: on && stays && !endpoint.disabled,
            context_length: limits.context_length,
            longest_prompt: limits.max_prompt_tokens.unwrap_or(limits.context_length),
            longest_answer: limits.longest_answer(),
            priced: endpoint.pricing.is_some(),
        }
    }
}

/// Prices as ranking values, dollars. They never enter a bill.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prices {
    /// Per input token.
    pub prompt: f64,
    /// What an input token costs less when it is read from the provider's cache; 0 where no such price is known.
    pub cached_saving: f64,
    /// Per output token.
    pub completion: f64,
    /// Per request.
    pub request: f64,
    /// Per image.
    pub image: f64,
}

impl Prices {
    /// The prices of an endpoint. Unknown ones are assumed to be the highest of its model, or else of the catalog: an
    /// endpoint without a price never ranks as a cheap one.
    fn of(catalog: &Catalog, endpoint: &Endpoint) -> Prices {
        if let Some(pricing) = &endpoint.pricing {
            return Prices::known(pricing);
        }
        let highest = |is_counted: &dyn Fn(&Endpoint) -> bool| {
            let counted = catalog.endpoints.iter().filter(|other| is_counted(other));
            counted.filter_map(|other| other.pricing.as_deref()).map(Prices::known).reduce(Prices::highest)
        };
        highest(&|other| other.model == endpoint.model).or_else(|| highest(&|_| true)).unwrap_or_default()
    }

    fn highest(self, other: Prices) -> Prices {
        Prices {
            prompt: self.prompt.max(other.prompt),
            cached_saving: 0.0,
            completion: self.completion.max(other.completion),
            request: self.request.max(other.request),
            image: self.image.max(other.image),
        }
    }

    fn known(pricing: &Pricing) -> Prices {
        Prices {
            prompt: pricing.prompt.to_f64(),
            cached_saving: cached_saving(pricing),
            completion: pricing.completion.to_f64(),
            request: pricing.request.to_f64(),
            image: pricing.image.to_f64(),
        }
    }

    /// Expected dollars of a request.
    #[must_use]
    pub fn cost(&self, prompt_tokens: f64, output_tokens: f64, images: f64) -> f64 {
        prompt_tokens * self.prompt + output_tokens * self.completion + self.request + images * self.image
    }
}

fn cached_saving(pricing: &Pricing) -> f64 {
    let prompt = pricing.prompt.to_f64();
    pricing.input_cache_read.map_or(0.0, |cached| (prompt - cached.to_f64()).max(0.0))
}
