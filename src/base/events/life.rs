//! Events in the life of the process: configurations that come and go, what administrators do, actors that die.

use std::time::Duration;

use prometheus::{Gauge, IntCounterVec, IntGauge, IntGaugeVec};

use super::{Metrics, instruments::Instruments};

/// The actors that are watched.
const ACTORS: [&str; 4] = ["catalog", "health", "ledger", "router"];

/// What `/metrics` shows of them.
pub struct LifeMetrics {
    pub(crate) reloads: IntCounterVec,
    config_version: IntGauge,
    /// Unix seconds.
    config_loaded: Gauge,
    pub(crate) last_reload_good: IntGauge,
    pub(crate) restart_pending: IntGauge,
    replaced: IntCounterVec,
    silent: IntCounterVec,
    places: IntGaugeVec,
    places_taken: IntGaugeVec,
}

impl LifeMetrics {
    pub(super) fn new(make: &Instruments<'_>) -> Result<LifeMetrics, prometheus::Error> {
        let loaded = "When the configuration in force was taken over";
        let waiting = "Settings of the configuration on disk that wait for a restart";
        let replaced = "Actors that were replaced because they panicked";
        let silent = "Times an actor did not answer the watchdog in time";
        let metrics = LifeMetrics {
            reloads: make.counters("config_reload_total", "Attempts to read the configuration again", &["result"])?,
            config_version: make.gauge("config_version", "Version of the configuration in force")?,
            config_loaded: make.moment("config_last_success_timestamp_seconds", loaded)?,
            last_reload_good: make
                .gauge("config_last_reload_successful", "0 while the configuration on disk is refused")?,
            restart_pending: make.gauge("config_restart_pending", waiting)?,
            replaced: make.counters("actor_restarts_total", replaced, &["actor"])?,
            silent: make.counters("actor_silent_total", silent, &["actor"])?,
            places: make.gauges("provider_places", "Calls a provider gets at a time", &["provider"])?,
            places_taken: make.gauges("provider_places_taken", "Calls that a provider has now", &["provider"])?,
        };
        metrics.last_reload_good.set(1);
        for actor in ACTORS {
            let _ = (metrics.replaced.with_label_values(&[actor]), metrics.silent.with_label_values(&[actor]));
        }
        for result in ["changed", "unchanged", "refused"] {
            // Shown as 0 before it first happens, so that a rate over it is right.
            let _ = metrics.reloads.with_label_values(&[result]);
        }
        Ok(metrics)
    }
}

/// A configuration is in force from now on.
pub struct ConfigInForce {
    /// Its version.
    pub version: u64,
    /// The moment, Unix milliseconds.
    pub at_ms: i64,
}

impl ConfigInForce {
    /// Shows it in the gauges.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.life.config_version.set(i64::try_from(self.version).unwrap_or(i64::MAX));
        metrics.life.config_loaded.set(self.at_ms as f64 / 1e3);
        log::debug!("configuration {} is in force", self.version);
    }
}

/// An administrator did something to the running gateway.
pub struct Administered<'a> {
    /// Label of the administrator's key.
    pub by: &'a str,
    /// What, with a verb.
    pub what: &'a str,
    /// To whom, or how many; `None` where the verb says it all.
    pub whom: Option<&'a str>,
}

impl Administered<'_> {
    /// Logs it at `warn`: somebody will want to know who it was.
    pub fn emit(&self) {
        match self.whom {
            Some(whom) => log::warn!("administration: '{}' {} {whom:?}", self.by, self.what),
            None => log::warn!("administration: '{}' {}", self.by, self.what),
        }
    }
}

/// An actor was gone, and another one took its place.
pub struct ActorReplaced<'a> {
    /// Which.
    pub actor: &'a str,
}

impl ActorReplaced<'_> {
    /// Counts it; logs it as an error, because somebody has to find out why it panicked.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.life.replaced.with_label_values(&[self.actor]).inc();
        log::error!("actor '{}' was gone and is replaced; its panic is in the log before this", self.actor);
    }
}

/// An actor is there and does not answer.
pub struct ActorSilent<'a> {
    /// Which.
    pub actor: &'a str,
    /// How long it was waited for.
    pub patience: Duration,
}

impl ActorSilent<'_> {
    /// Counts it; logs it as an error.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.life.silent.with_label_values(&[self.actor]).inc();
        log::error!("actor '{}' has not answered for {:.0} s", self.actor, self.patience.as_secs_f64());
    }
}

impl Metrics {
    /// Shows how the places of every provider stand now; those of a provider that is gone are no longer shown.
    pub fn observe_places<'p>(&self, places: impl Iterator<Item = (&'p str, usize, usize)>) {
        self.life.places.reset();
        self.life.places_taken.reset();
        for (provider, taken, most) in places {
            self.life.places.with_label_values(&[provider]).set(super::gauge_value(most));
            self.life.places_taken.with_label_values(&[provider]).set(super::gauge_value(taken));
        }
    }

    /// How often an actor was replaced.
    pub(crate) fn replacements(&self, actor: &str) -> u64 {
        self.life.replaced.with_label_values(&[actor]).get()
    }
}
