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
        Shadow::new(Arc::clone(&shadow.name), watched(shadow), &side, &serving)
    };
    Some(config.shadows.iter().map(shadow).collect())
}

fn watched(config: &ShadowConfig) -> Watched {
    Watched {
        share: config.share,
        alias: config.alias.clone(),
        objective: config.objective,
        until_ms: config.until.map(|until| until.timestamp_millis()),
    }
}

/// What it changes, for which requests, and what it is compared with. Another end makes nothing wrong of what was counted.
fn definition(config: &ShadowConfig) -> ([u8; 32], Watched) {
    (config.digest, Watched { until_ms: None, ..watched(config) })
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
    /// The digest of what it changes and is compared with, and for which requests.
    definition: ([u8; 32], Watched),
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
        known.iter().find(|one| one.is_of(config)).cloned().unwrap_or_else(|| ObservedShadow {
            name: Arc::clone(&config.name),
            since_ms: now_ms,
            tally: ShadowTally::default(),
            skipped: 0,
            definition: definition(config),
            version,
        })
    }

    /// Whether it counted what this shadow chose.
    pub fn is_of(&self, config: &ShadowConfig) -> bool {
        self.name == config.name && self.definition == definition(config)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pointsman_config::Environment;

    use super::*;

    fn shadows(last: &str, until: &str) -> Vec<ShadowConfig> {
        let many = "\"x\", ".repeat(50);
        let toml = format!(
            "[[shadow]]\nname = \"one\"\n{until}\n[shadow.overrides]\nrouting.explore.aliases = [{many}\"{last}\"]"
        );
        Config::parse(&toml, "test", Path::new("."), &Environment::default()).unwrap().shadows
    }

    #[test]
    fn a_shadow_begins_anew_when_it_changes_behind_what_is_shown_of_it_and_not_with_another_end() {
        let observed = Shadows::default();
        let since = |shadows: &[ShadowConfig], now_ms: i64| {
            observed.adopt(shadows, 1, now_ms);
            observed.report().0.first().map(|shadow| shadow.since_ms)
        };
        let (before, after) = (shadows("a", ""), shadows("b", ""));
        assert_eq!(before.first().map(|one| &one.overrides), after.first().map(|one| &one.overrides));
        assert_eq!((since(&before, 1), since(&before, 2)), (Some(1), Some(1)));
        assert_eq!(since(&shadows("a", "until = 2099-01-01"), 3), Some(1));
        assert_eq!(since(&after, 4), Some(4));
    }

    #[test]
    fn a_shadow_begins_anew_and_has_another_fingerprint_when_what_it_is_laid_over_changes() {
        let of = |world: &str, alias: &str| {
            let toml = format!(
                "{world}\n[[aliases]]\nname = \"chat\"\n{alias}\n[[shadow]]\nname = \"one\"\n\
                 where = {{ alias = \"service/chat\" }}\n[shadow.overrides]\n'aliases[\"chat\"].objective' = \"cheapest\""
            );
            Config::parse(&toml, "test", Path::new("."), &Environment::default()).unwrap().shadows
        };
        let fingerprint = |shadows: &[ShadowConfig]| shadows.first().map(ShadowConfig::fingerprint);
        let first = of("", "");
        let same = [of("", ""), of("", "description = \"Small talk\""), of("[limits]\nmax_n = 3", "")];
        let other = [
            of("", "blocked_models = [\"openai/*\"]"),
            of("", "objective = \"fastest\""),
            of("[routing]\nobjective = \"fastest\"", ""),
            of("[routing]\nexploration = 0.25", ""),
        ];
        for (changed, begins) in same.iter().map(|same| (same, 1)).chain(other.iter().map(|other| (other, 2))) {
            let observed = Shadows::default();
            observed.adopt(&first, 1, 1);
            observed.adopt(changed, 2, 2);
            assert_eq!(observed.report().0.first().map(|shadow| shadow.since_ms), Some(begins));
            assert_eq!(fingerprint(changed) == fingerprint(&first), begins == 1);
        }
    }
}
