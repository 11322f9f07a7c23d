//! One side of a comparison: a configuration as far as decisions depend on it.

use std::{collections::BTreeMap, fs, sync::Arc};

use pointsman_config::{Config, ExploreConfig, SimulationMode, digest_of};
use pointsman_domain::{Catalog, Endpoint, Provider, ProviderSlug, ProviderState};
use pointsman_routing::explain::{diff::Side, prices_times};

/// A configuration, and what of it depends on the machine that reads it.
#[derive(Clone)]
pub(crate) struct ComparedConfiguration {
    /// What it is called in the answer.
    pub name: String,
    /// Choices at random, which no decision made again has.
    pub explore: ExploreConfig,
    /// SHA-256 of its text in hexadecimal; `None` where it is no whole text.
    pub sha256: Option<String>,
    side: Side,
    /// Real providers that are off because their key is not here.
    without_key: Vec<ProviderSlug>,
    /// Whether simulated providers are off only as long as a real one is on.
    simulates_if_alone: bool,
}

impl ComparedConfiguration {
    pub(crate) fn new(name: String, config: &Config) -> ComparedConfiguration {
        ComparedConfiguration {
            name,
            explore: config.routing.explore.clone(),
            sha256: None,
            side: Side {
                catalog: Arc::new(config.catalog(0)),
                policy: Arc::new(config.routing_policy(0)),
                objective: Some(config.routing.objective),
            },
            without_key: config.providers_without_key.clone(),
            simulates_if_alone: config.simulation.mode == SimulationMode::Auto,
        }
    }

    /// This configuration, with the digest of its file where it comes from one.
    pub(crate) fn of_file(config: &Config) -> ComparedConfiguration {
        let read = ComparedConfiguration::new(config.source.clone(), config);
        match fs::read_to_string(&config.source) {
            Ok(text) => read.with_text(&text),
            Err(_) => read,
        }
    }

    /// The same with the digest of the text that it was read from.
    #[must_use]
    pub(crate) fn with_text(self, text: &str) -> ComparedConfiguration {
        ComparedConfiguration { sha256: Some(hex::encode(digest_of(text))), ..self }
    }

    /// The same with the prices of some providers times a factor. A factor of 1 changes nothing.
    #[must_use]
    pub(crate) fn with_prices(mut self, factors: &BTreeMap<String, f64>) -> ComparedConfiguration {
        let factor_of = |catalog: &Catalog, endpoint: &Endpoint| {
            let provider = catalog.provider_of(endpoint)?;
            factors.get(provider.slug.as_str()).copied().filter(|factor| (factor - 1.0).abs() > f64::EPSILON)
        };
        let mut catalog = Catalog::clone(&self.side.catalog);
        for (endpoint, before) in catalog.endpoints.iter_mut().zip(&self.side.catalog.endpoints) {
            let Some(factor) = factor_of(&self.side.catalog, before) else { continue };
            let pricing = before.pricing.as_deref().and_then(|pricing| prices_times(pricing, factor));
            endpoint.pricing = pricing.map(Arc::new);
        }
        self.side.catalog = Arc::new(catalog);
        self.sha256 = None;
        self
    }

    /// Whether it has a provider of this name.
    pub(crate) fn has_provider(&self, slug: &str) -> bool {
        self.side.catalog.providers.iter().any(|provider| provider.slug.as_str() == slug)
    }

    /// The side for decisions that were made with this catalog. A provider whose key is not on this machine counts as it did
    /// there: a comparison needs no keys.
    pub(crate) fn beside(&self, recorded: &Catalog) -> Side {
        let state_of = |provider: &Provider| {
            let was = recorded.providers.iter().find(|one| one.slug == provider.slug)?;
            let is_unknown = self.without_key.contains(&provider.slug) && was.is_on();
            let follows = provider.simulated && self.simulates_if_alone && !self.without_key.is_empty();
            (is_unknown || follows).then(|| was.state.clone())
        };
        let differs = |provider: &Provider| state_of(provider).is_some_and(|state| state != provider.state);
        if !self.side.catalog.providers.iter().any(differs) {
            return self.side.clone();
        }
        let mut catalog = (*self.side.catalog).clone();
        for provider in &mut catalog.providers {
            let state: Option<ProviderState> = state_of(provider);
            provider.state = state.unwrap_or_else(|| provider.state.clone());
        }
        Side { catalog: Arc::new(catalog), ..self.side.clone() }
    }

    /// Providers whose keys are missing here.
    pub(crate) fn without_key(&self) -> impl Iterator<Item = &str> {
        self.without_key.iter().map(ProviderSlug::as_str)
    }
}
