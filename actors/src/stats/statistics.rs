//! All slow statistics: fed with events, read as snapshots and figures.

use std::{collections::HashMap, sync::Arc};

use super::{
    EndpointFigures, EndpointStats, Figures, LengthClass, OutputLengths, Snapshot,
    endpoint::{EndpointStatistics, WINDOW},
    figures::Tally,
    prior::Priors,
};
use crate::domain::{Catalog, EndpointId, Event, EventKind, RoutingPolicy, Tick};

/// The slow statistics of every endpoint. Owned by one actor; nothing in it is shared.
#[derive(Debug, Clone)]
pub struct Statistics {
    catalog: Arc<Catalog>,
    policy: Arc<RoutingPolicy>,
    endpoints: Vec<EndpointStatistics>,
    positions: HashMap<EndpointId, u32>,
    lengths: OutputLengths,
    priors: Priors,
    latest: Tick,
}

impl Statistics {
    /// Nothing known about the endpoints of the catalog.
    #[must_use]
    pub fn new(catalog: Arc<Catalog>, policy: Arc<RoutingPolicy>) -> Statistics {
        Statistics {
            endpoints: vec![EndpointStatistics::default(); catalog.endpoints.len()],
            positions: positions(&catalog),
            lengths: OutputLengths::new(&catalog),
            priors: Priors::configured(&policy.stats),
            latest: Tick::default(),
            catalog,
            policy,
        }
    }

    /// Takes in one event. Events of endpoints that left the catalog are ignored.
    pub fn apply(&mut self, event: &Event) {
        let Some(&position) = self.positions.get(&event.endpoint) else { return };
        let Some(endpoint) = self.catalog.endpoint(position) else { return };
        let Some(statistics) = self.endpoints.get_mut(position as usize) else { return };
        self.latest = self.latest.max(event.at);
        statistics.apply(event, self.priors.of(endpoint.model), &self.policy);
        if let EventKind::Completed { completion_tokens, max_tokens, .. } = event.kind {
            self.lengths.observe(endpoint.model, LengthClass::of(max_tokens), completion_tokens);
        }
    }

    /// One immutable copy for the routers. Also renews what is believed of unmeasured endpoints.
    pub fn snapshot(&mut self, version: u64) -> Snapshot {
        let endpoints = &self.endpoints;
        let measured =
            |position: u32| endpoints.get(position as usize).map_or((None, None), EndpointStatistics::measured);
        self.priors = Priors::learned(&self.catalog, &self.policy.stats, measured);
        let published = self.catalog.endpoints.iter().zip(&self.endpoints).map(|(endpoint, statistics)| {
            let estimates = statistics.estimates(self.latest, self.priors.of(endpoint.model), &self.policy);
            EndpointStats::new(&self.catalog, endpoint, estimates)
        });
        Snapshot {
            version,
            catalog: Arc::clone(&self.catalog),
            policy: Arc::clone(&self.policy),
            at: self.latest,
            endpoints: published.collect(),
            lengths: self.lengths.clone(),
        }
    }

    /// Goes over to another catalog; endpoints and models that both know keep what is known about them.
    pub fn replace_catalog(&mut self, catalog: Arc<Catalog>) {
        let known = |endpoint: &EndpointId| self.endpoints.get(*self.positions.get(endpoint)? as usize).cloned();
        let endpoints = catalog.endpoints.iter().map(|endpoint| known(&endpoint.id).unwrap_or_default());
        self.endpoints = endpoints.collect();
        self.lengths = self.lengths.carried(&self.catalog, &catalog);
        self.positions = positions(&catalog);
        self.catalog = catalog;
    }

    /// Goes over to another policy.
    pub fn replace_policy(&mut self, policy: Arc<RoutingPolicy>) {
        self.policy = policy;
    }

    /// The figures people read, with windows that end at `now`.
    #[must_use]
    pub fn figures(&self, now: Tick) -> Figures {
        let seconds = WINDOW.as_secs();
        let tallies: Vec<_> = self.endpoints.iter().map(|endpoint| endpoint.tally(now)).collect();
        let endpoints = self
            .catalog
            .endpoints
            .iter()
            .zip(&tallies)
            .map(|(endpoint, tally)| EndpointFigures { endpoint: endpoint.id, summary: tally.summary(seconds) });
        let providers = (0_u32..).take(self.catalog.providers.len()).map(|provider| {
            let its = self.catalog.endpoints.iter().zip(&tallies).filter(|(endpoint, _)| endpoint.provider == provider);
            let mut sum = Tally::default();
            its.for_each(|(_, tally)| sum.add(tally));
            sum.summary(seconds)
        });
        Figures {
            catalog_version: self.catalog.version,
            endpoints: endpoints.collect(),
            providers: providers.collect(),
        }
    }
}

fn positions(catalog: &Catalog) -> HashMap<EndpointId, u32> {
    catalog.endpoints.iter().map(|endpoint| endpoint.id).zip(0..).collect()
}
