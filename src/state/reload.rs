//! Replaces the configuration while requests run.
//!
//! The new setup is prepared next to the one in force; then one pointer is swapped. Each request uses one setup from its
//! start to its end. `preview` tells what would change. `watch` detects changed files, `stable_files` waits until they are
//! completely written, and [`crate::state::reload_status`] holds the result.

pub(crate) mod preview;
mod stable_files;
pub(crate) mod watch;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use pointsman_actors::{
    catalog::ReplaceCatalog,
    ledger::SetBounds,
    provider_health::{self, AdoptionRefused},
};
use pointsman_base::clock;
use pointsman_config::{Config, LoadedConfig, PendingRestart, ReadOutcome};
use pointsman_domain::Catalog;

use crate::{
    base::log_output,
    state::{
        gateway::Shared,
        setup::{Setup, SetupDraft, SetupError},
    },
};

use crate::state::reload_status::{CatalogueChange, ConfigReloaded, ConfigVersion};
pub use crate::state::reload_status::{Reload, ReloadOutcome, ReloadTrigger};
use stable_files::{MAX_PAUSE, StabilityCheck};

/// Longest wait for the health actor to switch to another catalog.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads before files that change while they are read are given up.
const MAX_READS: u32 = 5;

/// Fault of a reload that panicked. The panic message is only in the log.
const PANICKED: &str = "the gateway failed to prepare it; its panic is in the log before this";

/// Why a configuration was not adopted. The one in force stays.
#[derive(Debug)]
pub enum AdoptError {
    /// It cannot become a setup.
    Impossible(SetupError),
    /// It would be safe only after a restart, or it widens or removes all access without confirming that.
    Unsafe(Vec<String>),
    /// The health actor did not answer.
    Silent,
    /// Its preparation panicked.
    Panicked,
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdoptError::Impossible(error) => error.fmt(f),
            AdoptError::Unsafe(why) => f.write_str(&why.join("; ")),
            AdoptError::Silent => f.write_str("the actor that owns the statistics did not answer; try again"),
            AdoptError::Panicked => f.write_str(PANICKED),
        }
    }
}

impl std::error::Error for AdoptError {}

/// Reads the configuration again from its source and adopts it if it is valid and different. Returns the result and the
/// files that were read. Must not be cancelled: a caller that may be cancelled spawns a task for it.
pub(crate) async fn reload(shared: &Shared, cause: ReloadTrigger) -> (Reload, Vec<PathBuf>) {
    let _guard = shared.process.reloads.lock().await;
    let running = shared.setup.load_full();
    let (read, files) = read_when_stable(&running).await;
    let mut reopened = Vec::new();
    let (outcome, changes, pending) = match read.and_then(|loaded| check_reloadable(loaded, &running.config)) {
        Err(faults) => (ReloadOutcome::Refused(faults), Vec::new(), Vec::new()),
        Ok((loaded, pending)) if loaded.config == running.config => (ReloadOutcome::Unchanged, Vec::new(), pending),
        Ok((mut loaded, pending)) => {
            let changes = changes(&loaded, &running, &pending);
            keep_waiting(&mut loaded, &running, &pending);
            match adopt_locked(shared, loaded, Some(cause)).await {
                Ok((_, names)) => {
                    reopened = names;
                    (ReloadOutcome::Changed, changes, pending)
                }
                Err(error) => (ReloadOutcome::Refused(vec![error.to_string()]), Vec::new(), pending),
            }
        }
    };
    let version = shared.setup.load().version;
    let reload = Reload { cause, outcome, version, at_ms: clock::unix_millis(), changes, reopened, pending };
    ConfigReloaded { reload: &reload, before: shared.process.reloads.status.last().as_ref() }
        .emit(&shared.process.metrics);
    shared.process.reloads.status.set_last(reload.clone());
    (reload, files)
}

/// Reads the configuration when its files are stable. Reads it again if one of them changed meanwhile.
async fn read_when_stable(running: &Arc<Setup>) -> (Result<LoadedConfig, Vec<String>>, Vec<PathBuf>) {
    let mut files = running.config.files();
    let pause = running.config.reload.debounce.min(MAX_PAUSE);
    let mut stability = StabilityCheck::new(pause);
    for _ in 0..MAX_READS {
        if !stability.wait(&files).await {
            break;
        }
        let (read, named) = read(Arc::clone(running)).await;
        let known = named.iter().all(|file| files.contains(file));
        if stability.is_unchanged(&files).await && known {
            return (read, named);
        }
        files = named;
    }
    let busy = format!(
        "its files are still being written; they are read when they have not changed for {} ms",
        pause.as_millis()
    );
    (Err(vec![busy]), files)
}

/// Reads the configuration on a blocking thread. Returns the configuration or its faults, and the files.
async fn read(running: Arc<Setup>) -> (Result<LoadedConfig, Vec<String>>, Vec<PathBuf>) {
    let no_file = "it was passed to this gateway as text and can only be replaced by the program that embeds it";
    match actix_rt::task::spawn_blocking(move || running.config.read_again()).await {
        Ok(Some(ReadOutcome { config, files })) => {
            (config.map_err(|faults| faults.iter().map(ToString::to_string).collect()), files)
        }
        Ok(None) => (Err(vec![no_file.to_owned()]), Vec::new()),
        Err(_) => (Err(vec![PANICKED.to_owned()]), Vec::new()),
    }
}

/// The configuration with all restart-only settings as they are in force, and the settings that wait for a restart.
fn check_reloadable(
    mut loaded: LoadedConfig,
    running: &Config,
) -> Result<(LoadedConfig, Vec<PendingRestart>), Vec<String>> {
    let pending = loaded.config.keep_restart_settings(running)?;
    Ok((loaded, pending))
}

/// The keys whose values change; empty when either configuration was not read from text.
fn changes(loaded: &LoadedConfig, running: &Setup, pending: &[PendingRestart]) -> Vec<String> {
    let both = loaded.written.as_ref().zip(running.written.as_ref());
    both.map(|(new, old)| new.changes_since(old, pending)).unwrap_or_default()
}

/// Notes in a configuration what stays in force for the keys that wait for a restart.
fn keep_waiting(loaded: &mut LoadedConfig, running: &Setup, pending: &[PendingRestart]) {
    if let (Some(new), Some(old)) = (&mut loaded.written, &running.written) {
        new.keep_waiting(old, pending);
    }
}

/// Puts a configuration into force and returns its version.
///
/// # Errors
/// See [`AdoptError`]. After an error nothing has changed.
pub(crate) async fn adopt(shared: &Shared, mut loaded: LoadedConfig) -> Result<u64, AdoptError> {
    let _guard = shared.process.reloads.lock().await;
    let running = shared.setup.load_full();
    let waiting = loaded.config.keep_restart_settings(&running.config).map_err(AdoptError::Unsafe)?;
    for pending in &waiting {
        log::warn!("{pending}");
    }
    keep_waiting(&mut loaded, &running, &waiting);
    adopt_locked(shared, loaded, None).await.map(|(version, _)| version)
}

/// Records and logs the configuration of the start.
pub(crate) fn begin(shared: &Shared) {
    announce(shared, 1, None);
}

fn announce(shared: &Shared, version: u64, cause: Option<ReloadTrigger>) {
    let (setup, at_ms) = (shared.setup.load(), clock::unix_millis());
    let written = setup.written.clone();
    shared.process.reloads.status.set_loaded(ConfigVersion { version, at_ms, cause, written });
    for warning in setup.config.warnings() {
        log::warn!("{warning}");
    }
    let log = &setup.config.log;
    log_output::configure(log.format, log.level, log.requests);
    let keys = setup.keys.callers().into_iter().map(|caller| (caller.id, Arc::clone(&caller.key.name)));
    shared.process.metrics.adopt(&setup.catalog, keys);
    shared.records.shadows.adopt(&setup.config.shadows, version, at_ms);
    shared.process.metrics.alerts.adopt(setup.config.alerts.iter().map(|receiver| &*receiver.name));
    shared.process.metrics.config_in_force(version, at_ms);
}

/// Returns the version, and the names of what had a configuration fault and is tried again at once.
async fn adopt_locked(
    shared: &Shared,
    loaded: LoadedConfig,
    cause: Option<ReloadTrigger>,
) -> Result<(u64, Vec<String>), AdoptError> {
    let before = shared.setup.load_full();
    let version = before.version + 1;
    let running = Arc::clone(&before);
    // Not on a worker thread, because it reads certificates and starts simulated providers.
    let draft = actix_rt::task::spawn_blocking(move || SetupDraft::new(loaded, version, Some(&running))).await;
    let draft = draft.map_err(|_| AdoptError::Panicked)?.map_err(AdoptError::Impossible)?;
    let (catalog, policy) = (Arc::clone(&draft.catalog), Arc::clone(&draft.policy));
    let (health, live) = (shared.actors.control.health(), draft.live(&before));
    let published = provider_health::adopt(&health, Arc::clone(&catalog), policy, live, ADOPT_TIMEOUT).await;
    let published = published.map_err(|AdoptionRefused| AdoptError::Silent)?;
    let (providers, endpoints) = SetupDraft::corrected(&draft.config, &catalog, &before);
    let (providers, endpoints) = published.live.pardon(clock::now(), &providers, &endpoints);
    let reopened = names(&catalog, &providers, &endpoints);
    let ledger = draft.config.ledger.clone();
    if let Some(change) = CatalogueChange::between(&before.catalog, &catalog, clock::unix_millis()) {
        shared.process.reloads.status.set_catalogue(change);
    }
    shared.setup.store(Arc::new(draft.adopt(
        published,
        shared.access.startup_key.as_ref(),
        &shared.access.registry,
        Some(&before),
    )));
    shared.actors.control.catalog().do_send(ReplaceCatalog(catalog));
    shared.actors.control.ledger().do_send(SetBounds { capacity: ledger.capacity, max_age: ledger.max_age });
    announce(shared, version, cause);
    Ok((version, reopened))
}

/// Names of providers and endpoints, as logs and answers of reloads show them.
fn names(catalog: &Catalog, providers: &[u32], endpoints: &[u32]) -> Vec<String> {
    let slug = |index: &u32| catalog.providers.get(*index as usize).map(|provider| provider.slug.to_string());
    let of_endpoint = |index: &u32| {
        let endpoint = catalog.endpoint(*index)?;
        Some(format!("{} at {}", catalog.model_of(endpoint)?.id, catalog.provider_of(endpoint)?.slug))
    };
    providers.iter().filter_map(slug).chain(endpoints.iter().filter_map(of_endpoint)).collect()
}
