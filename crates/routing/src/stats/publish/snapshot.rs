//! Snapshot of the statistics: one immutable copy for all routers.
//!
//! Values that depend on the statistics alone are precomputed here, once per snapshot instead of once per decision
//! and candidate: exponentials, prices as floats, counts decayed to [`Snapshot::at`].

use std::{iter, sync::Arc};

use pointsman_domain::{
    Catalog, Endpoint, EndpointId, Modalities, PriceTier, Pricing, Provider, RequestedService, RoutingPolicy,
    ServedService, Tick,
};

use crate::{
    quality::QualityTable,
    stats::model::{
        estimates::{Curve, Estimates},
        lengths::OutputLengths,
        prompt_scale::PromptScales,
    },
};

/// The statistics that a decision reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Incremented with each snapshot.
    pub version: u64,
    /// The catalog that positions refer to.
    pub catalog: Arc<Catalog>,
    /// The policy in force.
    pub policy: Arc<RoutingPolicy>,
    /// Time to which values are decayed: that of the newest event, or later.
    pub at: Tick,
    /// By position in the catalog, computed with `policy`.
    pub endpoints: Vec<EndpointStats>,
    /// Expected output tokens.
    pub lengths: OutputLengths,
    /// Prompt tokens per estimated one.
    pub prompts: PromptScales,
    /// How good answers are.
    pub quality: Arc<QualityTable>,
}

/// Statistics of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointStats {
    /// Facts of the catalog.
    pub facts: Facts,
    /// The estimates.
    pub estimates: Estimates,
    /// Precomputed from the estimates.
    pub curve: Curve,
    /// Ratio of the 95th percentile of the total time to its median.
    pub total_p95: f64,
    /// The same for the time to the first token.
    pub first_token_p95: f64,
    /// Its prices, for ranking.
    pub prices: Prices,
}

impl EndpointStats {
    /// The estimates with the values computed from them.
    pub fn new(catalog: &Catalog, endpoint: &Endpoint, estimates: Estimates) -> EndpointStats {
        EndpointStats::of((Facts::of(catalog, endpoint), Prices::of(catalog, endpoint)), estimates)
    }

    /// The same with what the catalog says of the endpoint.
    pub(super) fn of((facts, prices): (Facts, Prices), estimates: Estimates) -> EndpointStats {
        let fit = &estimates.fit;
        let level = Curve::new(fit.intercept, fit.variance, estimates.per_token, 0.0);
        EndpointStats {
            facts,
            estimates,
            curve: Curve { prompt_token: fit.prompt_slope * level.first_token, ..level },
            total_p95: libm::exp(estimates.tail),
            first_token_p95: libm::exp(estimates.first_tail),
            prices,
        }
    }
}

/// Facts of the catalog that every forecast reads, in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The endpoint.
    pub id: EndpointId,
    /// Position of its model.
    pub model: u32,
    /// Position of its provider.
    pub provider: u32,
    /// Output modalities of its model.
    pub output: Modalities,
    /// Whether its provider is on.
    pub on: bool,
    /// Longest answer, tokens; by default unlimited.
    pub longest_answer: u32,
}

impl Facts {
    pub(super) fn of(catalog: &Catalog, endpoint: &Endpoint) -> Facts {
        let model = catalog.model_of(endpoint);
        let on = catalog.provider_of(endpoint).is_some_and(Provider::is_on);
        Facts {
            id: endpoint.id,
            model: endpoint.model,
            provider: endpoint.provider,
            output: model.map_or(Modalities::NONE, |model| model.architecture.output),
            on,
            longest_answer: endpoint.limits.longest_answer(),
        }
    }
}

/// Prices of an endpoint in dollars, as floats for ranking. Not used for billing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prices {
    /// Prices of a prompt of any length that is in no tier.
    base: Rates,
    /// Prompts with more tokens than this have these prices; by ascending length. Most endpoints have no tiers.
    tiers: Option<Arc<[(f64, Rates)]>>,
    /// Prices with those of services that have some of their own, and a factor for all of them. Most endpoints have none.
    services: Option<(Arc<Pricing>, f64)>,
}

/// Prices for prompts of some length.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Per input token.
    pub prompt: f64,
    /// Discount per input token that is read from the provider's cache; 0 if unknown.
    pub cached_saving: f64,
    /// Per output token.
    pub completion: f64,
    /// Per request.
    pub request: f64,
    /// Per image.
    pub image: f64,
}

impl Prices {
    /// Prices of an endpoint. Unknown prices are taken to be the highest of its model, or else of the catalog, so that
    /// such an endpoint never ranks as cheap.
    pub(super) fn of(catalog: &Catalog, endpoint: &Endpoint) -> Prices {
        if let Some(pricing) = &endpoint.pricing {
            let tier = |tier: &PriceTier| (tier.above_prompt_tokens as f64, Rates::new(&tier.pricing(pricing)));
            let tiers = (!pricing.tiers.is_empty()).then(|| pricing.tiers.iter().map(tier).collect());
            let has_services = !pricing.service_tiers.is_empty() || !pricing.geographies.is_empty();
            let services = has_services.then(|| (Arc::clone(pricing), 1.0));
            return Prices { base: Rates::new(pricing), tiers, services };
        }
        let highest = |is_counted: &dyn Fn(&Endpoint) -> bool| {
            let counted = catalog.endpoints.iter().filter(|other| is_counted(other));
            let rates = counted.filter_map(|other| other.pricing.as_deref()).flat_map(Rates::of_all_tiers);
            rates.reduce(Rates::highest)
        };
        let base = highest(&|other| other.model == endpoint.model).or_else(|| highest(&|_| true)).unwrap_or_default();
        Prices { base, tiers: None, services: None }
    }

    /// The prices for a prompt of this length.
    #[inline]
    pub fn at(&self, prompt_tokens: f64) -> Rates {
        let Some(tiers) = &self.tiers else { return self.base };
        let tier = tiers.iter().rev().find(|(above, _)| *above < prompt_tokens);
        tier.map_or(self.base, |(_, rates)| *rates)
    }

    /// The same of the service that the endpoint will be asked for. Without the name of one that has a price it is the standard.
    #[inline]
    pub fn asked(&self, service: RequestedService, prompt_tokens: f64) -> Rates {
        match &self.services {
            Some((pricing, factor)) if service != RequestedService::default() => {
                let asked = service.asked(Some(pricing));
                if asked == ServedService::default() {
                    return self.at(prompt_tokens);
                }
                Rates::new(&pricing.served(&asked, prompt_tokens as u64)).times(*factor)
            }
            _ => self.at(prompt_tokens),
        }
    }

    /// The same prices times a factor.
    pub fn times(&self, factor: f64) -> Prices {
        let tiers =
            self.tiers.as_ref().map(|tiers| tiers.iter().map(|(above, rates)| (*above, rates.times(factor))).collect());
        let services = self.services.as_ref().map(|(pricing, own)| (Arc::clone(pricing), own * factor));
        Prices { base: self.base.times(factor), tiers, services }
    }

    /// Expected dollars of a request.
    pub fn cost(&self, prompt_tokens: f64, output_tokens: f64, images: f64) -> f64 {
        self.at(prompt_tokens).cost(prompt_tokens, output_tokens, images)
    }
}

impl Rates {
    fn highest(self, other: Rates) -> Rates {
        Rates {
            prompt: self.prompt.max(other.prompt),
            cached_saving: 0.0,
            completion: self.completion.max(other.completion),
            request: self.request.max(other.request),
            image: self.image.max(other.image),
        }
    }

    fn of_all_tiers(pricing: &Pricing) -> impl Iterator<Item = Rates> {
        iter::once(Rates::new(pricing)).chain(pricing.tiers.iter().map(|tier| Rates::new(&tier.pricing(pricing))))
    }

    fn new(pricing: &Pricing) -> Rates {
        Rates {
            prompt: pricing.prompt.to_f64(),
            cached_saving: cached_saving(pricing),
            completion: pricing.completion.to_f64(),
            request: pricing.request.to_f64(),
            image: pricing.image.to_f64(),
        }
    }

    fn times(self, factor: f64) -> Rates {
        Rates {
            prompt: self.prompt * factor,
            cached_saving: self.cached_saving * factor,
            completion: self.completion * factor,
            request: self.request * factor,
            image: self.image * factor,
        }
    }

    /// Expected dollars of a request.
    pub fn cost(&self, prompt_tokens: f64, output_tokens: f64, images: f64) -> f64 {
        prompt_tokens * self.prompt + output_tokens * self.completion + self.request + images * self.image
    }
}

fn cached_saving(pricing: &Pricing) -> f64 {
    let prompt = pricing.prompt.to_f64();
    pricing.input_cache_read.map_or(0.0, |cached| (prompt - cached.to_f64()).max(0.0))
}
