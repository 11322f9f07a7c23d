//! Statistics of all endpoints: fed with events, published as snapshots and figures.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pointsman_domain::{Catalog, EndpointEvent, EndpointId, EventKind, ModelId, RoutingPolicy, Tick};

use super::snapshot::{EndpointStats, Facts, Prices, Snapshot};

use crate::quality::{Evidence, QualityTable};
use crate::stats::{
    model::{
        lengths::{LengthClass, OutputLengths},
        prior::Prior,
        prompt_scale::PromptScales,
        saved::{ImplausibleValue, Restart},
        siblings::Priors,
    },
    observe::{
        calibration::{CalibrationCounts, Calibrations, Calibrator, EndpointCalibration},
        endpoint::EndpointStatistics,
        figures::{EndpointFigures, FigureSums, Figures},
        ring::Merge as _,
    },
    persist::state::{RejectedEntry, Restored, SavedState},
};

/// Why an unreadable entry is rejected.
const UNREADABLE: ImplausibleValue = ImplausibleValue("it holds something else than numbers");

/// Statistics of every endpoint. Owned by one actor.
#[derive(Debug, Clone)]
pub struct Statistics {
    catalog: Arc<Catalog>,
    policy: Arc<RoutingPolicy>,
    endpoints: Vec<EndpointStatistics>,
    /// By position, as `endpoints`.
    calibrators: Vec<Calibrator>,
    positions: BTreeMap<EndpointId, u32>,
    /// What the catalog says of each endpoint, by position.
    facts: Vec<(Facts, Prices)>,
    lengths: OutputLengths,
    prompts: PromptScales,
    priors: Priors,
    evidence: Arc<Evidence>,
    quality: Arc<QualityTable>,
    latest: Tick,
}

impl Statistics {
    /// Without observations.
    pub fn new(catalog: Arc<Catalog>, policy: Arc<RoutingPolicy>) -> Statistics {
        Statistics {
            endpoints: vec![EndpointStatistics::default(); catalog.endpoints.len()],
            calibrators: vec![Calibrator::default(); catalog.endpoints.len()],
            positions: positions(&catalog),
            facts: facts(&catalog),
            lengths: OutputLengths::new(&catalog),
            prompts: PromptScales::new(&catalog),
            priors: Priors::configured(&policy.stats),
            evidence: Arc::default(),
            quality: Arc::new(QualityTable::of_catalog(&catalog, &Evidence::default())),
            latest: Tick::default(),
            catalog,
            policy,
        }
    }

    /// Adds an event. Events of endpoints that left the catalog are ignored.
    pub fn apply(&mut self, event: &EndpointEvent) {
        let Some(&position) = self.positions.get(&event.endpoint) else { return };
        let Some(endpoint) = self.catalog.endpoint(position) else { return };
        let Some(statistics) = self.endpoints.get_mut(position as usize) else { return };
        self.latest = self.latest.max(event.at);
        statistics.apply(event, self.priors.of(endpoint.model), &self.policy);
        if let Some(calibrator) = self.calibrators.get_mut(position as usize) {
            calibrator.judge(event);
        }
        if let EventKind::Completed { completion_tokens, max_tokens, prompt_ratio, .. } = event.kind {
            self.lengths.observe(endpoint.model, LengthClass::of(max_tokens), completion_tokens);
            if let Some(ratio) = prompt_ratio {
                self.prompts.observe(endpoint.model, ratio);
            }
        }
    }

    /// Time of the newest event.
    pub fn latest(&self) -> Tick {
        self.latest
    }

    /// Snapshot as of the newest event.
    pub fn snapshot(&mut self, version: u64) -> Snapshot {
        self.snapshot_at(version, self.latest)
    }

    /// Snapshot as of `now`, or as of the newest event if that is later. Also updates the priors.
    pub fn snapshot_at(&mut self, version: u64, now: Tick) -> Snapshot {
        let now = now.max(self.latest);
        self.learn_priors(now);
        // Those of most endpoints of a large catalog follow from one prior.
        let mut usual: Option<(Prior, EndpointStats)> = None;
        let published = self.facts.iter().zip(&self.endpoints).map(|(facts, statistics)| {
            let prior = self.priors.of(facts.0.model);
            let (facts, prices) = facts.clone();
            if let Some((_, usual)) = usual.as_ref().filter(|(of, _)| !statistics.is_observed && *of == prior) {
                return EndpointStats { facts, prices, ..*usual };
            }
            let stats = EndpointStats::of((facts, prices), statistics.estimates(now, prior, &self.policy));
            if !statistics.is_observed {
                usual = Some((prior, stats.clone()));
            }
            stats
        });
        Snapshot {
            version,
            catalog: Arc::clone(&self.catalog),
            policy: Arc::clone(&self.policy),
            at: now,
            endpoints: published.collect(),
            lengths: self.lengths.clone(),
            prompts: self.prompts.clone(),
            quality: Arc::clone(&self.quality),
        }
    }

    /// State for a later process. `learned_at_ms` is the time of the last event in milliseconds since 1970.
    pub fn export(&self, learned_at_ms: i64) -> SavedState {
        let endpoints = self.catalog.endpoints.iter().zip(&self.endpoints);
        let endpoints = endpoints.filter_map(|(endpoint, statistics)| {
            Some((self.catalog.name_of(endpoint)?, statistics.export(self.latest, self.policy.stats.half_life)?))
        });
        let models =
            || self.catalog.models.iter().enumerate().map(|(position, model)| (position, model.id.to_string()));
        SavedState {
            learned_at_ms,
            endpoints: endpoints.collect(),
            models: models().filter_map(|(at, name)| Some((name, self.lengths.export(at)?))).collect(),
            prompts: models().filter_map(|(at, name)| Some((name, self.prompts.export(at)?))).collect(),
            ..SavedState::default()
        }
    }

    /// Restores the state of an earlier process, which is `age` old. Entries of endpoints that the catalog does not
    /// have are ignored, implausible ones rejected one by one.
    pub fn import(&mut self, state: &SavedState, now: Tick, age: Duration) -> Restored {
        let restart = Restart { now, age };
        self.latest = self.latest.max(now);
        let mut restored = Restored { unknown: state.entries(), ..Restored::default() };
        self.restore_endpoints(state, restart, &mut restored);
        self.learn_priors(self.latest);
        self.restore_lengths(state, &mut restored);
        self.restore_prompts(state, &mut restored);
        restored
    }

    /// Restores endpoints of the catalog and subtracts them from `unknown`.
    fn restore_endpoints(&mut self, state: &SavedState, restart: Restart, restored: &mut Restored) {
        for (endpoint, statistics) in self.catalog.endpoints.iter().zip(&mut self.endpoints) {
            let Some(name) = self.catalog.name_of(endpoint) else { continue };
            let known = match state.endpoints.get(&name) {
                Some(known) => EndpointStatistics::restored(known, restart),
                None if state.unreadable_endpoints.contains(&name) => Err(UNREADABLE),
                None => continue,
            };
            restored.unknown = restored.unknown.saturating_sub(1);
            match known {
                Ok(known) => {
                    *statistics = known;
                    restored.endpoints += 1;
                }
                Err(why) => restored.rejected.push(RejectedEntry { whose: name, why }),
            }
        }
    }

    /// Restores output lengths of models.
    fn restore_lengths(&mut self, state: &SavedState, restored: &mut Restored) {
        for (position, model) in self.catalog.models.iter().enumerate() {
            let name = model.id.as_str();
            let known = match state.models.get(name) {
                Some(classes) => self.lengths.restore(position, classes),
                None if state.unreadable_models.contains(name) => Err(UNREADABLE),
                None => continue,
            };
            restored.unknown = restored.unknown.saturating_sub(1);
            if let Err(why) = known {
                restored.rejected.push(RejectedEntry { whose: name.to_owned(), why });
            }
        }
    }

    /// Restores prompt scales of models.
    fn restore_prompts(&mut self, state: &SavedState, restored: &mut Restored) {
        for (position, model) in self.catalog.models.iter().enumerate() {
            let Some(known) = state.prompts.get(model.id.as_str()) else { continue };
            if let Err(why) = self.prompts.restore(position, *known) {
                restored.rejected.push(RejectedEntry { whose: model.id.to_string(), why });
            }
        }
    }

    fn learn_priors(&mut self, now: Tick) {
        let measured: Vec<_> = self.endpoints.iter().map(|endpoint| endpoint.measured(now, &self.policy)).collect();
        let measured = |position: u32| measured.get(position as usize).copied().unwrap_or_default();
        self.priors = Priors::learned(&self.catalog, &self.policy.stats, measured);
    }

    /// Replaces the catalog. Endpoints and models in both keep their statistics.
    pub fn replace_catalog(&mut self, catalog: Arc<Catalog>) {
        self.endpoints = carried(&self.endpoints, &self.positions, &catalog);
        self.calibrators = carried(&self.calibrators, &self.positions, &catalog);
        let known = |id: &ModelId| self.catalog.models.iter().position(|model| model.id == *id);
        let models: Vec<Option<usize>> = catalog.models.iter().map(|model| known(&model.id)).collect();
        self.lengths = self.lengths.carried(&models);
        self.prompts = self.prompts.carried(&models);
        self.positions = positions(&catalog);
        self.facts = facts(&catalog);
        self.quality = Arc::new(QualityTable::of_catalog(&catalog, &self.evidence));
        self.catalog = catalog;
    }

    /// What ratings say from now on, and the table that follows for a catalog; for another one than that in use it is made anew.
    pub fn adopt_evidence(&mut self, evidence: Arc<Evidence>, of: &Arc<Catalog>, quality: Arc<QualityTable>) {
        let is_in_use = Arc::ptr_eq(&self.catalog, of);
        self.quality = if is_in_use { quality } else { Arc::new(QualityTable::of_catalog(&self.catalog, &evidence)) };
        self.evidence = evidence;
    }

    /// Replaces the policy.
    pub fn replace_policy(&mut self, policy: Arc<RoutingPolicy>) {
        self.policy = policy;
    }

    /// Figures with windows that end at `now`.
    pub fn figures(&self, now: Tick) -> Figures {
        let sums: Vec<_> = self.endpoints.iter().map(|endpoint| endpoint.sums(now)).collect();
        let endpoints = self
            .catalog
            .endpoints
            .iter()
            .zip(&sums)
            .map(|(endpoint, sums)| EndpointFigures { endpoint: endpoint.id, summary: sums.summary() });
        let providers = (0_u32..).take(self.catalog.providers.len()).map(|provider| {
            let its = self.catalog.endpoints.iter().zip(&sums).filter(|(endpoint, _)| endpoint.provider == provider);
            let mut all = FigureSums::default();
            its.for_each(|(_, sums)| all.add(sums));
            all.summary()
        });
        Figures {
            catalog_version: self.catalog.version,
            endpoints: endpoints.collect(),
            providers: providers.collect(),
        }
    }

    /// Calibration over the hour that ends at `now`.
    pub fn calibrations(&self, now: Tick) -> Calibrations {
        let mut overall = CalibrationCounts::default();
        let mut providers = vec![CalibrationCounts::default(); self.catalog.providers.len()];
        let endpoints = self.catalog.endpoints.iter().zip(&self.calibrators).map(|(endpoint, calibrator)| {
            let counts = calibrator.sum(now);
            overall.merge(&counts);
            if let Some(provider) = providers.get_mut(endpoint.provider as usize) {
                provider.merge(&counts);
            }
            EndpointCalibration { endpoint: endpoint.id, calibration: counts.summary() }
        });
        Calibrations {
            catalog_version: self.catalog.version,
            endpoints: endpoints.collect(),
            overall: overall.summary(),
            providers: providers.iter().map(CalibrationCounts::summary).collect(),
        }
    }
}

/// The values by position in another catalog; the default for new endpoints.
fn carried<T: Clone + Default>(known: &[T], from: &BTreeMap<EndpointId, u32>, to: &Catalog) -> Vec<T> {
    let find = |id: &EndpointId| known.get(*from.get(id)? as usize).cloned();
    to.endpoints.iter().map(|endpoint| find(&endpoint.id).unwrap_or_default()).collect()
}

fn facts(catalog: &Catalog) -> Vec<(Facts, Prices)> {
    catalog.endpoints.iter().map(|endpoint| (Facts::of(catalog, endpoint), Prices::of(catalog, endpoint))).collect()
}

fn positions(catalog: &Catalog) -> BTreeMap<EndpointId, u32> {
    catalog.endpoints.iter().map(|endpoint| endpoint.id).zip(0..).collect()
}
