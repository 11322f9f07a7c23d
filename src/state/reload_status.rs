//! Status of the configuration: the version in force, the result of the last reload, settings that wait for a restart.
//!
//! This module holds the status and the lock for reloads. [`crate::state::reload`] performs them.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use pointsman_config::{PendingRestart, WrittenConfig};
use pointsman_domain::Catalog;
use tokio::sync::MutexGuard;

use crate::base::events::Metrics;

/// A reload that changed prices or retirements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueChange {
    /// The version that brought it.
    pub version: u64,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
    /// Each price and each date that is different, for people.
    pub changes: Vec<String>,
}

impl CatalogueChange {
    /// What is different in `after`, for endpoints and models of both catalogs; `None` if nothing is.
    pub fn between(before: &Catalog, after: &Catalog, at_ms: i64) -> Option<CatalogueChange> {
        let known = |id| before.endpoints.iter().find(|endpoint| endpoint.id == id);
        let prices = after.endpoints.iter().filter(|new| known(new.id).is_some_and(|old| old.pricing != new.pricing));
        let prices = prices.filter_map(|endpoint| {
            let (model, provider) = (after.model_of(endpoint)?, after.provider_of(endpoint)?);
            Some(format!("prices of {} at {}", model.id, provider.name))
        });
        let retired = after.models.iter().filter_map(|new| {
            let old = before.models.iter().find(|old| old.id == new.id)?;
            let day = new.expiration_date.map_or_else(|| "not retired".to_owned(), |day| format!("retired on {day}"));
            (old.expiration_date != new.expiration_date).then(|| format!("{} is {day}", new.id))
        });
        let changes: Vec<String> = prices.chain(retired).collect();
        (!changes.is_empty()).then_some(CatalogueChange { version: after.version, at_ms, changes })
    }
}

/// Lock and status of reloads. Only one reload runs at a time.
#[derive(Debug, Default)]
pub struct Reloads {
    lock: tokio::sync::Mutex<()>,
    /// Result of the last reload.
    pub status: ReloadStatus,
}

impl Reloads {
    /// Waits for other reloads. No other reload runs while the guard is held.
    pub async fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().await
    }
}

pointsman_domain::named! {
    /// Cause of a reload.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ReloadTrigger {
        /// A file changed.
        File = "file",
        /// SIGHUP.
        Signal = "signal",
        /// An administrator.
        Admin = "admin",
    }
}

/// Result of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// The new configuration is in force.
    Changed,
    /// The new configuration equals the one in force.
    Unchanged,
    /// The new configuration has faults, and the one in force stays: one sentence per fault.
    Refused(Vec<String>),
}

impl ReloadOutcome {
    /// Name in metrics and answers.
    pub const fn as_str(&self) -> &'static str {
        match self {
            ReloadOutcome::Changed => "changed",
            ReloadOutcome::Unchanged => "unchanged",
            ReloadOutcome::Refused(_) => "refused",
        }
    }

    /// The faults of a refused configuration; empty for other results.
    pub fn faults(&self) -> &[String] {
        match self {
            ReloadOutcome::Refused(faults) => faults,
            ReloadOutcome::Changed | ReloadOutcome::Unchanged => &[],
        }
    }
}

/// One reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// What started it.
    pub cause: ReloadTrigger,
    /// Its result.
    pub outcome: ReloadOutcome,
    /// The version in force afterwards.
    pub version: u64,
    /// Its end, in Unix milliseconds.
    pub at_ms: i64,
    /// The keys that changed; empty unless the result is [`ReloadOutcome::Changed`].
    pub changes: Vec<String>,
    /// Providers and endpoints that had refused the gateway's key, account or model and are tried again at once, because that has
    /// changed.
    pub reopened: Vec<String>,
    /// Changed settings that only a restart can apply.
    pub pending: Vec<PendingRestart>,
}

impl fmt::Display for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.cause.as_str();
        match &self.outcome {
            ReloadOutcome::Changed => {
                write!(f, "configuration {} is in force ({cause})", self.version)?;
                let changes = self.changes.join(", ");
                if !changes.is_empty() {
                    write!(f, "; changed: {changes}")?;
                }
                let reopened = self.reopened.join(", ");
                if reopened.is_empty() { Ok(()) } else { write!(f, "; tried again at once: {reopened}") }
            }
            ReloadOutcome::Unchanged => write!(f, "the configuration is unchanged ({cause})"),
            ReloadOutcome::Refused(faults) => {
                write!(f, "the new configuration is refused ({cause}); version {} stays in force", self.version)?;
                faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
            }
        }
    }
}

/// Event: a reload ended.
pub struct ConfigReloaded<'a> {
    /// The reload.
    pub reload: &'a Reload,
    /// The reload before it.
    pub before: Option<&'a Reload>,
}

impl ConfigReloaded<'_> {
    /// Counts the reload. Logs a refusal with all its faults at `error`, and each setting that newly waits for a restart
    /// at `warn`.
    pub fn emit(&self, metrics: &Metrics) {
        let ConfigReloaded { reload, before } = self;
        let life = &metrics.life;
        life.reloads.with_label_values(&[reload.outcome.as_str()]).inc();
        life.last_reload_good.set(i64::from(reload.outcome.faults().is_empty()));
        life.restart_pending.set(i64::try_from(reload.pending.len()).unwrap_or(i64::MAX));
        match reload.outcome {
            ReloadOutcome::Changed => log::info!("{reload}"),
            // Otherwise the refusal would be the last word of the log.
            ReloadOutcome::Unchanged if before.is_some_and(|before| !before.outcome.faults().is_empty()) => {
                log::info!("{reload}: the refused one is gone, version {} is in force", reload.version);
            }
            ReloadOutcome::Unchanged => log::debug!("{reload}"),
            ReloadOutcome::Refused(_) => log::error!("{reload}"),
        }
        let known = before.map(|before| &*before.pending).unwrap_or_default();
        for pending in reload.pending.iter().filter(|pending| !known.contains(pending)) {
            log::warn!("{pending}");
        }
    }
}

/// Most times that are kept at which a configuration came into force.
const MOST_LOADED: usize = 50;
/// Most configurations whose keys are kept, for comparisons. Those of the built-in catalogue take about 300 kB.
const MOST_COMPARED: usize = 10;

/// A configuration that came into force.
#[derive(Debug, Clone)]
pub struct ConfigVersion {
    /// Its number.
    pub version: u64,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
    /// What started the reload; `None` for the start, and for a program that embeds the gateway.
    pub cause: Option<ReloadTrigger>,
    /// Its keys; `None` if it was not read from text, and for old ones.
    pub written: Option<Arc<WrittenConfig>>,
}

/// When configurations came into force, and the last reload.
#[derive(Debug, Default)]
pub struct ReloadStatus(Mutex<StatusState>);

#[derive(Debug, Default, Clone)]
struct StatusState {
    /// Oldest first.
    loaded: Vec<ConfigVersion>,
    catalogue: Option<CatalogueChange>,
    last: Option<Reload>,
}

impl ReloadStatus {
    /// Records that a configuration came into force.
    pub fn set_loaded(&self, version: ConfigVersion) {
        let mut state = self.0.lock();
        state.loaded.push(version);
        if state.loaded.len() > MOST_LOADED {
            // The first one is the start.
            state.loaded.remove(1);
        }
        let old = state.loaded.len().saturating_sub(MOST_COMPARED);
        state.loaded.iter_mut().take(old).for_each(|version| version.written = None);
    }

    /// The configurations that came into force, oldest first: that of the start and the last ones.
    pub fn versions(&self) -> Vec<ConfigVersion> {
        self.0.lock().loaded.clone()
    }

    /// Records the last reload.
    pub fn set_last(&self, reload: Reload) {
        self.0.lock().last = Some(reload);
    }

    /// Records that a reload changed prices or retirements.
    pub fn set_catalogue(&self, change: CatalogueChange) {
        self.0.lock().catalogue = Some(change);
    }

    /// The last reload that changed prices or retirements.
    pub fn catalogue(&self) -> Option<CatalogueChange> {
        self.0.lock().catalogue.clone()
    }

    /// When the configuration in force was loaded, in Unix milliseconds.
    pub fn loaded_ms(&self) -> i64 {
        self.0.lock().loaded.last().map(|version| version.at_ms).unwrap_or_default()
    }

    /// When the process started and configurations came into force, with the word for it, oldest first: the start and the last
    /// reloads.
    pub fn loaded(&self) -> Vec<(i64, &'static str)> {
        let words = ["start"].into_iter().chain(std::iter::repeat("reload"));
        self.0.lock().loaded.iter().map(|version| version.at_ms).zip(words).collect()
    }

    /// The last reload since the start.
    pub fn last(&self) -> Option<Reload> {
        self.0.lock().last.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pointsman_config::Config;

    use super::*;

    fn catalog(version: u64, price: &str, more: &str) -> Catalog {
        let text = format!(
            "[simulation]\nmode = \"off\"\n[providers.acme]\nname = \"Acme\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
             [[models]]\nid = \"acme/small\"\ncontext_length = 1000\n{more}\n\
             endpoints = [{{ provider = \"acme\", upstream_model = \"s\", pricing = {{ prompt = \"{price}\", completion = \"1\" }} }}]\n"
        );
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        Config::parse(&text, "test", Path::new("."), &environment).unwrap().catalog(version)
    }

    #[test]
    fn the_start_and_the_last_reloads_are_kept() {
        let status = ReloadStatus::default();
        for version in 0..100 {
            let written = Some(Arc::default());
            status.set_loaded(ConfigVersion { version, at_ms: version as i64, cause: None, written });
        }
        let loaded = status.loaded();
        assert_eq!((loaded.len(), loaded[0], loaded[1]), (MOST_LOADED, (0, "start"), (51, "reload")));
        assert_eq!(status.loaded_ms(), 99);
        let compared = status.versions().into_iter().filter(|version| version.written.is_some());
        assert_eq!(compared.map(|version| version.version).collect::<Vec<_>>(), (90..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_change_of_the_catalogue_names_prices_and_retirements() {
        let before = catalog(1, "1", "");
        let between = |after: &Catalog| CatalogueChange::between(&before, after, 7).map(|change| change.changes);
        assert_eq!(between(&catalog(2, "1", "description = \"Small.\"")), None);
        let after = catalog(2, "2", "expiration_date = \"2027-01-31\"");
        assert_eq!(between(&after).unwrap(), ["prices of acme/small at Acme", "acme/small is retired on 2027-01-31"]);
        assert_eq!(CatalogueChange::between(&before, &after, 7).unwrap().version, 2);
    }
}
