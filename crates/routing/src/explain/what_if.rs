//! A decision under hypothetical conditions: other prices, another state of an endpoint, another objective.
//!
//! The overrides apply to copies of the snapshot and the live state. Serving never reads these copies.

use std::{sync::Arc, time::Duration};

use pointsman_domain::{
    Catalog, Circuit, Decision, Endpoint, EndpointOverride, FailureCause, FailureKind, Invalid, InvalidReason,
    PriceOverride, PriceTier, Pricing, ProviderState, Query, RouteError, ServiceTierPrices, Sourced, Tick, Usd,
    Weights, WhatIf,
};

use super::{
    counterfactual::{Figure, certain_quality, weights_at},
    hypothetical_stats::{PredictionOverride, adjusted},
    name_resolution::{self, suggestions},
};
use crate::decide::{context::DecisionContext, decide};
use crate::stats::{EndpointStats, Gate, LiveEndpoint, LiveProvider, LiveView, Snapshot};

/// Duration of a hypothetical cooldown.
const COOLDOWN: Duration = Duration::from_secs(1);
/// Maximum number of allowed names in the error for an unknown name.
const MAX_ALLOWED: usize = 50;

/// A [`WhatIf`] with the endpoints that its names stand for.
#[derive(Debug, Clone)]
pub struct ResolvedWhatIf {
    what_if: WhatIf,
    /// The endpoints of each entry, as indices into the catalog.
    endpoints: Vec<Vec<u32>>,
}

/// Copies of everything that a decision reads.
#[derive(Debug, Clone)]
pub struct WhatIfWorld {
    /// Statistics, catalog and policy.
    pub snapshot: Snapshot,
    /// Live state of endpoints and providers.
    pub live: LiveView,
    /// The request.
    pub query: Query,
}

impl ResolvedWhatIf {
    /// Resolves the names of `what_if`.
    ///
    /// # Errors
    /// For an unknown name: the path of the member and the allowed names.
    pub fn new(what_if: WhatIf, catalog: &Catalog) -> Result<ResolvedWhatIf, Invalid> {
        let resolved = what_if.endpoints.iter().enumerate().map(|(index, entry)| resolve(catalog, index, entry));
        Ok(ResolvedWhatIf { endpoints: resolved.collect::<Result<_, _>>()?, what_if })
    }

    /// Copies of `snapshot`, `live` and `query` with the overrides applied.
    pub fn world(&self, snapshot: &Snapshot, live: &LiveView, query: &Query, now: Tick) -> WhatIfWorld {
        let mut world = WhatIfWorld::real(snapshot, live, query);
        if let Some(objective) = self.what_if.objective {
            world.query.objective = Sourced { value: objective, ..world.query.objective };
        }
        if let Some(weights) = self.what_if.weights {
            world.query.weights = imagined_weights(weights, world.query.weights);
        }
        let entries = || self.what_if.endpoints.iter().zip(&self.endpoints);
        world.override_catalog(entries().filter(|(entry, _)| changes_catalog(entry)));
        for (entry, endpoints) in entries() {
            for index in endpoints {
                world.override_live_state(entry, *index, now);
                world.override_estimates(entry, *index, now);
            }
        }
        world
    }
}

/// One weight alone is a share: that of time or cost beside the other one, that of quality beside both. The others keep their
/// ratio. Several weights stand for themselves.
fn imagined_weights(imagined: Weights, now: Weights) -> Weights {
    let Weights { latency, cost, quality } = imagined;
    let is_share = |weight: f64, others: f64| others == 0.0 && weight <= 1.0 && now.latency + now.cost > 0.0;
    match imagined {
        _ if is_share(latency, cost + quality) => weights_at(Figure::LatencyWeight, latency, now),
        _ if is_share(cost, latency + quality) => weights_at(Figure::LatencyWeight, 1.0 - cost, now),
        _ if is_share(quality, latency + cost) => weights_at(Figure::QualityWeight, quality, now),
        several => several,
    }
}

/// The endpoints of the entry at `position`.
fn resolve(catalog: &Catalog, position: usize, entry: &EndpointOverride) -> Result<Vec<u32>, Invalid> {
    let (model, provider) = (entry.model.as_deref(), entry.provider.as_deref());
    let endpoints = name_resolution::endpoints(catalog, model, provider);
    if !endpoints.is_empty() {
        return Ok(endpoints);
    }
    let at = |member: &str| format!("what_if.endpoints[{position}].{member}");
    if let Some(name) = model.filter(|name| name_resolution::endpoints(catalog, Some(name), None).is_empty()) {
        let mut similar = suggestions(catalog, name);
        similar.retain(|name| !name_resolution::endpoints(catalog, Some(name), None).is_empty());
        let known = catalog.models.iter().map(|model| model.id.to_string());
        let allowed: Vec<String> = if similar.is_empty() { known.take(MAX_ALLOWED).collect() } else { similar };
        return Err(unknown_name(at("model"), format!("No model is called '{name}'."), allowed));
    }
    let name = provider.unwrap_or_default();
    let serving = |endpoint: &&Endpoint| {
        model.is_none_or(|name| {
            catalog.model_of(endpoint).is_some_and(|model| model.id.as_str().eq_ignore_ascii_case(name))
        })
    };
    let slugs = catalog.endpoints.iter().filter(serving).filter_map(|endpoint| catalog.provider_of(endpoint));
    let mut slugs: Vec<String> = slugs.map(|provider| provider.slug.to_string()).collect();
    slugs.sort_unstable();
    slugs.dedup();
    slugs.truncate(MAX_ALLOWED);
    let message = match model {
        Some(model) => format!("'{model}' has no endpoint at a provider called '{name}'."),
        None => format!("No provider is called '{name}'."),
    };
    Err(unknown_name(at("provider"), message, slugs))
}

fn unknown_name(param: String, message: String, allowed: Vec<String>) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, param, message).allowing(allowed)
}

/// The live state of every endpoint and provider, with defaults for unused ones.
fn complete(live: &LiveView, snapshot: &Snapshot) -> LiveView {
    let mut live = live.clone();
    live.endpoints.resize(snapshot.catalog.endpoints.len(), LiveEndpoint::default());
    live.providers.resize(snapshot.catalog.providers.len(), LiveProvider::default());
    live
}

impl WhatIfWorld {
    /// Copies without an override.
    pub fn real(snapshot: &Snapshot, live: &LiveView, query: &Query) -> WhatIfWorld {
        WhatIfWorld { snapshot: snapshot.clone(), live: complete(live, snapshot), query: query.clone() }
    }

    /// The decision under these conditions.
    ///
    /// # Errors
    /// When no endpoint can serve the request.
    pub fn decide(&self, now: Tick, seed: Option<u64>) -> Result<Decision, RouteError> {
        decide(&self.snapshot, &self.live, &self.query, now, seed)
    }

    /// Overrides prices and switches endpoints on or off. The catalog is large, so it is copied only if needed.
    fn override_catalog<'e>(&mut self, entries: impl Iterator<Item = (&'e EndpointOverride, &'e Vec<u32>)>) {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return;
        }
        let mut catalog = (*self.snapshot.catalog).clone();
        for (entry, endpoints) in entries {
            endpoints.iter().for_each(|index| override_endpoint(&mut catalog, *index, entry));
        }
        // Statistics hold facts from the catalog. A provider that is switched on changes all of its endpoints.
        for (stats, endpoint) in self.snapshot.endpoints.iter_mut().zip(&catalog.endpoints) {
            *stats = EndpointStats::new(&catalog, endpoint, stats.estimates);
        }
        self.snapshot.catalog = Arc::new(catalog);
    }

    fn override_live_state(&mut self, entry: &EndpointOverride, index: u32, now: Tick) {
        if entry.circuit.is_some() {
            self.copy_provider_gate(index);
        }
        let base = self.snapshot.policy.breaker.base;
        let Some(cell) = self.live.endpoints.get_mut(index as usize) else { return };
        cell.in_flight = entry.in_flight.unwrap_or(cell.in_flight);
        let Some(circuit) = entry.circuit else { return };
        (cell.due, cell.tokens) = (None, None);
        cell.used = true;
        let cause = |kind, status| Some(FailureCause { kind, status: Some(status) });
        (cell.gate, cell.last) = match circuit {
            Circuit::Closed => (Gate::Passing, cell.last),
            Circuit::Open => (Gate::Open { until: now.plus(base) }, cause(FailureKind::Server, 503)),
            Circuit::HalfOpen => (Gate::HalfOpen { since: Tick(0) }, cause(FailureKind::Server, 503)),
            Circuit::Cooldown => (Gate::Cooling { until: now.plus(COOLDOWN) }, cause(FailureKind::RateLimited, 429)),
        };
        cell.failures = if circuit == Circuit::Open { self.snapshot.policy.breaker.consecutive } else { cell.failures };
    }

    /// Moves the circuit breaker of a provider to each of its endpoints, so that an override can change one of them.
    fn copy_provider_gate(&mut self, index: u32) {
        let catalog = &self.snapshot.catalog;
        let Some(provider) = catalog.endpoint(index).map(|endpoint| endpoint.provider) else { return };
        let Some(state) = self.live.providers.get_mut(provider as usize).map(std::mem::take) else { return };
        let cells = self.live.endpoints.iter_mut().zip(&catalog.endpoints);
        for (cell, _) in cells.filter(|(_, endpoint)| endpoint.provider == provider) {
            let gate = cell.gate.and(state.gate);
            if gate != cell.gate {
                (cell.gate, cell.failures, cell.last) = (gate, state.failures, state.last);
            }
        }
    }

    fn override_estimates(&mut self, entry: &EndpointOverride, index: u32, now: Tick) {
        let overrides = [
            entry.first_token.map(PredictionOverride::FirstToken),
            entry.tokens_per_second.map(PredictionOverride::TokensPerSecond),
            entry.failure_probability.map(PredictionOverride::FailureProbability),
        ];
        if let Some(quality) = entry.quality {
            self.override_quality(index, quality);
        }
        for target in overrides.into_iter().flatten() {
            self.override_prediction(target, index, now);
        }
    }

    /// Sets the quality of an endpoint for the class of the request.
    pub(crate) fn override_quality(&mut self, index: u32, value: f64) {
        if let Some(class) = self.query.task_class {
            let table = self.snapshot.quality.with(index, class.task, certain_quality(value));
            self.snapshot.quality = Arc::new(table);
        }
    }

    /// Adjusts the estimates of an endpoint so that the prediction equals `target`.
    pub(crate) fn override_prediction(&mut self, target: PredictionOverride, index: u32, now: Tick) {
        let context = DecisionContext::new(&self.snapshot, &self.live, &self.query, now, None);
        let adjusted =
            self.snapshot.endpoints.get(index as usize).map(|stats| adjusted(target, &context, index, stats));
        if let (Some(stats), Some(adjusted)) = (self.snapshot.endpoints.get_mut(index as usize), adjusted) {
            *stats = adjusted;
        }
    }
}

/// Whether the entry overrides a member of the catalog.
fn changes_catalog(entry: &EndpointOverride) -> bool {
    entry.price != PriceOverride::default() || entry.off.is_some()
}

/// Prices times a factor.
pub fn prices_times(pricing: &Pricing, factor: f64) -> Option<Pricing> {
    priced(Some(pricing), &PriceOverride { factor: Some(factor), ..PriceOverride::default() })
}

fn override_endpoint(catalog: &mut Catalog, index: u32, entry: &EndpointOverride) {
    let Some(endpoint) = catalog.endpoints.get_mut(index as usize) else { return };
    if entry.price != PriceOverride::default() {
        endpoint.pricing = priced(endpoint.pricing.as_deref(), &entry.price).map(Arc::new);
    }
    endpoint.disabled = entry.off.unwrap_or(endpoint.disabled);
    let provider = endpoint.provider as usize;
    if let Some(provider) = catalog.providers.get_mut(provider).filter(|_| entry.off == Some(false)) {
        provider.state = ProviderState::On;
    }
}

/// The prices with those of `other`. Unknown prices remain unknown unless prompt and completion are given.
fn priced(pricing: Option<&Pricing>, other: &PriceOverride) -> Option<Pricing> {
    let given = other.prompt.is_some() && other.completion.is_some();
    let unknown = given.then(Pricing::default);
    let pricing = pricing.or(unknown.as_ref())?;
    let scaled = |price: Usd| match other.factor {
        Some(factor) => Usd::from_f64(price.to_f64() * factor).unwrap_or(price),
        None => price,
    };
    let tier = |tier: &PriceTier| PriceTier {
        above_prompt_tokens: tier.above_prompt_tokens,
        prompt: other.prompt.unwrap_or(scaled(tier.prompt)),
        completion: other.completion.unwrap_or(scaled(tier.completion)),
        internal_reasoning: tier.internal_reasoning.map(scaled),
        input_cache_read: tier.input_cache_read.map(scaled),
        input_cache_write: tier.input_cache_write.map(scaled),
        input_cache_write_1h: tier.input_cache_write_1h.map(scaled),
        audio: tier.audio.map(scaled),
        audio_output: tier.audio_output.map(scaled),
    };
    let service = |tier: &ServiceTierPrices| {
        Some(ServiceTierPrices { name: tier.name, pricing: priced(Some(&tier.pricing), other)? })
    };
    Some(Pricing {
        prompt: other.prompt.unwrap_or(scaled(pricing.prompt)),
        completion: other.completion.unwrap_or(scaled(pricing.completion)),
        request: other.request.unwrap_or(scaled(pricing.request)),
        image: other.image.unwrap_or(scaled(pricing.image)),
        web_search: scaled(pricing.web_search),
        internal_reasoning: pricing.internal_reasoning.map(scaled),
        input_cache_read: pricing.input_cache_read.map(scaled),
        input_cache_write: pricing.input_cache_write.map(scaled),
        input_cache_write_1h: pricing.input_cache_write_1h.map(scaled),
        audio: pricing.audio.map(scaled),
        audio_output: pricing.audio_output.map(scaled),
        tiers: pricing.tiers.iter().map(tier).collect(),
        service_tiers: pricing.service_tiers.iter().filter_map(service).collect(),
        geographies: pricing.geographies.clone(),
    })
}
