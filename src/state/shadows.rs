//! What shadow policies would have chosen: their sums since the start, or since one of them changed.
//!
//! Only requests that a shadow decided come here.

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_config::{Config, ShadowConfig};
use pointsman_domain::{Catalog, Generation, RoutingPolicy};
use pointsman_routing::explain::diff::{Calibration, Shadow, ShadowTally, Side, Watched};

/// The shadows of a configuration, ready to decide. `None` without any.
pub(super) fn of(config: &Config, catalog: &Arc<Catalog>, policy: &Arc<RoutingPolicy>) -> Option<Arc<[Shadow]>> {
    if config.shadows.is_empty() {
        return None;
    }
    let objective = Some(config.routing.objective);
    let serving = Side { catalog: Arc::clone(catalog), policy: Arc::clone(policy), objective };
    let shadow = |shadow: &ShadowConfig| {
        let side = Side {
            catalog: Arc::clone(&shadow.catalog),
            policy: Arc::clone(&shadow.policy),
            objective: Some(shadow.default_objective),
        };
        let watched = Watched { share: shadow.share, alias: shadow.alias.clone(), objective: shadow.objective };
        Shadow::new(Arc::clone(&shadow.name), watched, &side, &serving)
    };
    Some(config.shadows.iter().map(shadow).collect())
}

/// The sums of all shadows. One per process; it survives a reload.
#[derive(Default)]
pub struct Shadows(Mutex<Observed>);

#[derive(Default)]
struct Observed {
    shadows: Vec<ObservedShadow>,
    calibration: Calibration,
}

/// The sums of one shadow.
#[derive(Debug, Clone)]
pub struct ObservedShadow {
    /// Its name.
    pub name: Arc<str>,
    /// Since when it counts, Unix milliseconds.
    pub since_ms: i64,
    /// What it would have chosen.
    pub tally: ShadowTally,
    /// Requests that it did not decide because the worker was behind.
    pub skipped: u64,
    /// What it changes, and for which requests.
    definition: (String, Watched),
    /// The first version of the configuration with this definition.
    version: u64,
}

impl Shadows {
    /// Begins anew for each shadow that is new or changed, and forgets what is gone.
    pub fn adopt(&self, shadows: &[ShadowConfig], version: u64, now_ms: i64) {
        let mut observed = self.0.lock();
        let known = std::mem::take(&mut observed.shadows);
        observed.shadows = shadows.iter().map(|config| ObservedShadow::new(config, &known, version, now_ms)).collect();
    }

    /// Counts what shadows chose for a generation that ended.
    pub fn ended(&self, generation: &Generation) {
        if generation.shadows.is_empty() {
            return;
        }
        let mut observed = self.0.lock();
        observed.calibration.add(generation);
        for choice in &generation.shadows {
            let is_it = |shadow: &&mut ObservedShadow| {
                shadow.name == choice.shadow && shadow.version <= generation.catalog.version
            };
            if let Some(shadow) = observed.shadows.iter_mut().find(is_it) {
                shadow.tally.add(generation, choice);
            }
        }
    }

    /// Counts a request that this shadow did not decide.
    pub fn skipped(&self, name: &str) {
        let mut observed = self.0.lock();
        if let Some(shadow) = observed.shadows.iter_mut().find(|shadow| &*shadow.name == name) {
            shadow.skipped += 1;
        }
    }

    /// All sums, and what was measured of the requests that they are about.
    pub fn report(&self) -> (Vec<ObservedShadow>, Calibration) {
        let observed = self.0.lock();
        (observed.shadows.clone(), observed.calibration.clone())
    }
}

impl ObservedShadow {
    fn new(config: &ShadowConfig, known: &[ObservedShadow], version: u64, now_ms: i64) -> ObservedShadow {
        let watched = Watched { share: config.share, alias: config.alias.clone(), objective: config.objective };
        let definition = (config.overrides.clone(), watched);
        let is_same = |one: &&ObservedShadow| one.name == config.name && one.definition == definition;
        known.iter().find(is_same).cloned().unwrap_or_else(|| ObservedShadow {
            name: Arc::clone(&config.name),
            since_ms: now_ms,
            tally: ShadowTally::default(),
            skipped: 0,
            definition,
            version,
        })
    }
}
