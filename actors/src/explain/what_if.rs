//! A decision in a world that is not: other prices, another state of an endpoint, another objective.
//!
//! Applied to copies; nothing that serves requests sees them.

use std::{sync::Arc, time::Duration};

use super::{
    imagined::{ImaginedPrediction, towards},
    name_resolution::{self, suggestions},
};
use crate::decide::{context::DecisionContext, decide};
use crate::{
    domain::{
        Catalog, Circuit, Decision, Endpoint, EndpointOverride, FailureCause, FailureKind, Invalid, InvalidReason,
        PriceOverride, Pricing, ProviderState, Query, RouteError, Sourced, Tick, Usd, WhatIf,
    },
    stats::{EndpointStats, Gate, LiveEndpoint, LiveProvider, LiveView, Snapshot},
};

/// How long an imagined cooldown lasts.
const COOLDOWN: Duration = Duration::from_secs(1);
/// Most names that are listed where an unknown one was given.
const LISTED: usize = 50;

/// A [`WhatIf`] whose names are resolved.
#[derive(Debug, Clone)]
pub struct ResolvedWhatIf {
    what_if: WhatIf,
    /// The endpoints that each entry means, by position.
    meant: Vec<Vec<u32>>,
}

/// A world with everything that decides.
#[derive(Debug, Clone)]
pub struct WhatIfWorld {
    /// Its statistics, catalog and policy.
    pub snapshot: Snapshot,
    /// Its fast cells.
    pub live: LiveView,
    /// What is asked in it.
    pub query: Query,
}

impl ResolvedWhatIf {
    /// Resolves the names of `what_if`.
    ///
    /// # Errors
    /// For a name that means nobody: where it stands, and which names there are.
    pub fn new(what_if: WhatIf, catalog: &Catalog) -> Result<ResolvedWhatIf, Invalid> {
        let meant = what_if.endpoints.iter().enumerate().map(|(position, entry)| meant(catalog, position, entry));
        Ok(ResolvedWhatIf { meant: meant.collect::<Result<_, _>>()?, what_if })
    }

    /// The world it makes of this one.
    #[must_use]
    pub fn world(&self, snapshot: &Snapshot, live: &LiveView, query: &Query, now: Tick) -> WhatIfWorld {
        let mut world = WhatIfWorld::real(snapshot, live, query);
        if let Some(objective) = self.what_if.objective {
            world.query.objective = Sourced { value: objective, ..world.query.objective };
        }
        if let Some(weights) = self.what_if.weights {
            world.query.weights = weights;
        }
        let entries = || self.what_if.endpoints.iter().zip(&self.meant);
        world.change_catalog(entries().filter(|(entry, _)| changes_catalog(entry)));
        for (entry, meant) in entries() {
            for index in meant {
                world.change_cells(entry, *index, now);
                world.change_estimates(entry, *index, now);
            }
        }
        world
    }
}

fn meant(catalog: &Catalog, position: usize, entry: &EndpointOverride) -> Result<Vec<u32>, Invalid> {
    let (model, provider) = (entry.model.as_deref(), entry.provider.as_deref());
    let meant = name_resolution::endpoints(catalog, model, provider);
    if !meant.is_empty() {
        return Ok(meant);
    }
    let at = |member: &str| format!("what_if.endpoints[{position}].{member}");
    if let Some(name) = model.filter(|name| name_resolution::endpoints(catalog, Some(name), None).is_empty()) {
        let mut alike = suggestions(catalog, name);
        alike.retain(|name| !name_resolution::endpoints(catalog, Some(name), None).is_empty());
        let known = catalog.models.iter().map(|model| model.id.to_string());
        let allowed: Vec<String> = if alike.is_empty() { known.take(LISTED).collect() } else { alike };
        return Err(nobody(at("model"), format!("No model is called '{name}'."), allowed));
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
    slugs.truncate(LISTED);
    let message = match model {
        Some(model) => format!("'{model}' has no endpoint at a provider called '{name}'."),
        None => format!("No provider is called '{name}'."),
    };
    Err(nobody(at("provider"), message, slugs))
}

fn nobody(param: String, message: String, allowed: Vec<String>) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, param, message).allowing(allowed)
}

/// The cells of every endpoint and provider, also of those nobody uses.
fn whole(live: &LiveView, snapshot: &Snapshot) -> LiveView {
    let mut live = live.clone();
    live.endpoints.resize(snapshot.catalog.endpoints.len(), LiveEndpoint::UNUSED);
    live.providers.resize(snapshot.catalog.providers.len(), LiveProvider::UNUSED);
    live
}

impl WhatIfWorld {
    /// The world as it is.
    #[must_use]
    pub fn real(snapshot: &Snapshot, live: &LiveView, query: &Query) -> WhatIfWorld {
        WhatIfWorld { snapshot: snapshot.clone(), live: whole(live, snapshot), query: query.clone() }
    }

    /// What would be decided in it.
    ///
    /// # Errors
    /// When nothing would be left.
    pub fn decide(&self, now: Tick, seed: Option<u64>) -> Result<Decision, RouteError> {
        decide(&self.snapshot, &self.live, &self.query, now, seed)
    }

    /// Prices, and who is switched off. A catalog is large: it is copied once, and only if something in it is otherwise.
    fn change_catalog<'e>(&mut self, entries: impl Iterator<Item = (&'e EndpointOverride, &'e Vec<u32>)>) {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return;
        }
        let mut catalog = (*self.snapshot.catalog).clone();
        for (entry, meant) in entries {
            meant.iter().for_each(|index| change_endpoint(&mut catalog, *index, entry));
        }
        // What statistics keep of the catalog, of all endpoints: a provider that is on is so for all of its own.
        for (stats, endpoint) in self.snapshot.endpoints.iter_mut().zip(&catalog.endpoints) {
            *stats = EndpointStats::new(&catalog, &self.snapshot.policy, endpoint, stats.estimates);
        }
        self.snapshot.catalog = Arc::new(catalog);
    }

    fn change_cells(&mut self, entry: &EndpointOverride, index: u32, now: Tick) {
        if entry.circuit.is_some() {
            self.take_over_gates(index);
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

    /// Hands the gate of an endpoint's provider to each of its endpoints, so that one of them can stand otherwise.
    fn take_over_gates(&mut self, index: u32) {
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

    fn change_estimates(&mut self, entry: &EndpointOverride, index: u32, now: Tick) {
        let goals = [
            entry.first_token.map(ImaginedPrediction::FirstToken),
            entry.tokens_per_second.map(ImaginedPrediction::TokensPerSecond),
            entry.failure_probability.map(ImaginedPrediction::FailureProbability),
        ];
        for goal in goals.into_iter().flatten() {
            self.retarget(goal, index, now);
        }
    }

    /// Bends what is known of an endpoint towards a prediction.
    pub(crate) fn retarget(&mut self, goal: ImaginedPrediction, index: u32, now: Tick) {
        let case = DecisionContext::new(&self.snapshot, &self.live, &self.query, now, None);
        let bent = self.snapshot.endpoints.get(index as usize).map(|stats| towards(goal, &case, index, stats));
        if let (Some(stats), Some(bent)) = (self.snapshot.endpoints.get_mut(index as usize), bent) {
            *stats = bent;
        }
    }
}

/// Whether it is about something that stands in the catalog.
fn changes_catalog(entry: &EndpointOverride) -> bool {
    entry.price != PriceOverride::default() || entry.off.is_some()
}

fn change_endpoint(catalog: &mut Catalog, index: u32, entry: &EndpointOverride) {
    let Some(endpoint) = catalog.endpoints.get_mut(index as usize) else { return };
    endpoint.pricing = Arc::new(priced(&endpoint.pricing, &entry.price));
    endpoint.disabled = entry.off.unwrap_or(endpoint.disabled);
    let provider = endpoint.provider as usize;
    if let Some(provider) = catalog.providers.get_mut(provider).filter(|_| entry.off == Some(false)) {
        provider.state = ProviderState::On;
    }
}

fn priced(pricing: &Pricing, other: &PriceOverride) -> Pricing {
    let scaled = |price: Usd| match other.factor {
        Some(factor) => Usd::from_f64(price.to_f64() * factor).unwrap_or(price),
        None => price,
    };
    Pricing {
        prompt: other.prompt.unwrap_or(scaled(pricing.prompt)),
        completion: other.completion.unwrap_or(scaled(pricing.completion)),
        request: other.request.unwrap_or(scaled(pricing.request)),
        image: other.image.unwrap_or(scaled(pricing.image)),
        web_search: scaled(pricing.web_search),
        internal_reasoning: pricing.internal_reasoning.map(scaled),
        input_cache_read: pricing.input_cache_read.map(scaled),
        input_cache_write: pricing.input_cache_write.map(scaled),
    }
}
