//! Events of the process: reloads, actions of administrators, stopped actors.

use std::time::Duration;

use pointsman_domain::Task;
use pointsman_routing::{quality::Drift, split::guard::Breach};
use prometheus::{Gauge, IntCounterVec, IntGauge};

use super::{Metrics, instruments::Instruments};

/// The actors that are watched.
const ACTORS: [&str; 4] = ["catalog", "health", "ledger", "router"];

/// Metrics of these events.
pub struct LifeMetrics {
    pub(crate) reloads: IntCounterVec,
    config_version: IntGauge,
    /// Unix seconds.
    config_loaded: Gauge,
    pub(crate) last_reload_good: IntGauge,
    pub(crate) restart_pending: IntGauge,
    replaced: IntCounterVec,
    silent: IntCounterVec,
}

impl LifeMetrics {
    pub(super) fn new(make: &Instruments<'_>) -> Result<LifeMetrics, prometheus::Error> {
        let loaded = "When the configuration in force was loaded";
        let waiting = "Settings of the configuration on disk that wait for a restart";
        let replaced = "Actors that were replaced because they panicked";
        let silent = "Times an actor did not answer the watchdog in time";
        let metrics = LifeMetrics {
            reloads: make.counters("config_reloads_total", "Attempts to read the configuration again", &["result"])?,
            config_version: make.gauge("config_version", "Version of the configuration in force")?,
            config_loaded: make.timestamp("config_last_success_timestamp_seconds", loaded)?,
            last_reload_good: make
                .gauge("config_last_reload_successful", "0 while the configuration on disk is refused")?,
            restart_pending: make.gauge("config_restart_pending", waiting)?,
            replaced: make.counters("actor_restarts_total", replaced, &["actor"])?,
            silent: make.counters("actor_silent_total", silent, &["actor"])?,
        };
        metrics.last_reload_good.set(1);
        for actor in ACTORS {
            let _ = (metrics.replaced.with_label_values(&[actor]), metrics.silent.with_label_values(&[actor]));
        }
        for result in ["changed", "unchanged", "refused"] {
            // Exported as 0 before the first event, so that rates are correct.
            let _ = metrics.reloads.with_label_values(&[result]);
        }
        Ok(metrics)
    }
}

/// A canary exceeded its guardrail: from now on its alias serves without it.
pub struct CanaryFellBack<'a> {
    /// The alias.
    pub alias: &'a str,
    /// What was exceeded.
    pub breach: Breach,
}

impl CanaryFellBack<'_> {
    /// Logs it at `warn`.
    pub fn emit(&self) {
        let CanaryFellBack { alias, breach: Breach { limit, canary, others } } = self;
        log::warn!(
            event = "canary_fell_back";
            "the canary of {alias} fell back: it exceeds {limit} ({canary:.6} of its requests, {others:.6} of the others); \
             until its definition changes, {alias} is served without it"
        );
    }
}

/// The ratings of a model have become worse. Told once for each fall.
pub struct QualityDrifted<'a> {
    /// Catalog id of the model.
    pub model: &'a str,
    /// Class of the tasks.
    pub task: Task,
    /// The fall.
    pub drift: Drift,
}

impl QualityDrifted<'_> {
    /// Logs it at `warn`.
    pub fn emit(&self) {
        let QualityDrifted { model, task, drift: Drift { before, after, .. } } = self;
        log::warn!(
            event = "quality_drift";
            "answers of {model} for the class {} have become worse: their last ratings have a mean of {after:.2}, those before of \
             {before:.2}; earlier ratings of the accounts that saw it count half from now on",
            task.as_str()
        );
    }
}

/// An administrator changed the running gateway: logs it at `warn`, for audits. `by` is the label of the key, `what` the action,
/// beginning with a verb, and `whom` its object, if any.
pub fn administered(by: &str, what: &str, whom: Option<&str>) {
    match whom {
        Some(whom) => log::warn!(event = "administration", key = by; "administration: '{by}' {what} {whom:?}"),
        None => log::warn!(event = "administration", key = by; "administration: '{by}' {what}"),
    }
}

/// Somebody tried to log in to the console: logs it at `warn`, for audits. `from` is the address of the browser, or of the proxy
/// before it, and `by` the label of the administrator's key; `None` if the login was refused.
pub fn console_login(from: &str, by: Option<&str>) {
    match by {
        Some(by) => log::warn!(event = "console_login", key = by; "console: '{by}' logged in from {from}"),
        None => log::warn!(event = "console_login"; "console: a login from {from} was refused"),
    }
}

impl Metrics {
    /// A configuration came into force, at this time in Unix milliseconds: updates the gauges and logs the version at `debug`.
    pub fn config_in_force(&self, version: u64, at_ms: i64) {
        self.life.config_version.set(i64::try_from(version).unwrap_or(i64::MAX));
        self.life.config_loaded.set(at_ms as f64 / 1e3);
        log::debug!(event = "config"; "configuration {version} is in force");
    }

    /// A stopped actor was replaced: counts it, and logs it at `error`, because the panic has to be investigated.
    pub fn actor_replaced(&self, actor: &str) {
        self.life.replaced.with_label_values(&[actor]).inc();
        log::error!(event = "actor"; "actor '{actor}' stopped and was replaced; its panic is in the log before this");
    }

    /// An actor runs and has not answered for the time that was `waited`: counts it, and logs it at `error`.
    pub fn actor_silent(&self, actor: &str, waited: Duration) {
        self.life.silent.with_label_values(&[actor]).inc();
        log::error!(event = "actor"; "actor '{actor}' has not answered for {:.0} s", waited.as_secs_f64());
    }

    /// Number of replacements of an actor.
    pub(crate) fn replacements(&self, actor: &str) -> u64 {
        self.life.replaced.with_label_values(&[actor]).get()
    }
}
