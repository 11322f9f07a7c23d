//! Going over from one configuration to another while requests run.
//!
//! Everything that can go wrong is tried out beside what runs; then one pointer is swapped. Requests that came before
//! end under the setup they began with, requests that come after begin under the new one, and none sees two. `watch`
//! notices that files changed, `quiet` waits until they are whole, `standing` is what pages tell about it.

mod quiet;
pub(crate) mod watch;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use pointsman_actors::actors::{
    catalog::ReplaceCatalog,
    ledger::SetBounds,
    provider_health::{self, AdoptionRefused},
};

use crate::{
    base::{clock, events},
    config::{Config, LoadedConfig, PendingRestart, ReadOutcome},
    state::{
        gateway::Shared,
        setup::{Setup, SetupDraft, SetupError},
    },
};

use crate::state::reload_status::ConfigReloaded;
pub use crate::state::reload_status::{Reload, ReloadOutcome, ReloadTrigger};

/// How long the owner of the statistics may take to go over to another catalog.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Times that files which change while they are read are read again.
const MOST_READINGS: u32 = 5;

/// What is told where our own work panicked: the message itself went to the log.
const PANICKED: &str = "the gateway failed to prepare it; its panic is in the log before this";

/// Why another configuration was not taken over. The one in force goes on.
#[derive(Debug)]
pub enum AdoptError {
    /// It cannot be put to work.
    Impossible(SetupError),
    /// It would be safe only after a restart, or lets in everybody or nobody without saying that this is meant.
    Unsafe(Vec<String>),
    /// The owner of the statistics did not answer.
    Silent,
    /// Preparing it panicked.
    Broke,
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdoptError::Impossible(error) => error.fmt(f),
            AdoptError::Unsafe(why) => f.write_str(&why.join("; ")),
            AdoptError::Silent => f.write_str("the owner of the statistics did not answer; try again"),
            AdoptError::Broke => f.write_str(PANICKED),
        }
    }
}

impl std::error::Error for AdoptError {}

/// Reads the configuration again from where it came from, and takes it over if it is whole and says anything new. Tells
/// how that ended, and which files had a part in it. Not to be left unfinished: whoever may be cancelled has it done
/// by a task of its own.
pub(crate) async fn reload(shared: &Shared, cause: ReloadTrigger) -> (Reload, Vec<PathBuf>) {
    let _alone = shared.reloads.alone().await;
    let running = shared.setup.load_full();
    let (read, files) = read_when_quiet(&running).await;
    let (outcome, changes, pending) = match read.and_then(|loaded| follow(loaded, &running.config)) {
        Err(faults) => (ReloadOutcome::Refused(faults), Vec::new(), Vec::new()),
        Ok((loaded, pending)) if loaded.config == running.config => (ReloadOutcome::Unchanged, Vec::new(), pending),
        Ok((loaded, pending)) => {
            let changes = changes(&loaded, &running, &pending);
            match adopt_alone(shared, loaded).await {
                Ok(_) => (ReloadOutcome::Changed, changes, pending),
                Err(error) => (ReloadOutcome::Refused(vec![error.to_string()]), Vec::new(), pending),
            }
        }
    };
    let version = shared.setup.load().version;
    let reload = Reload { cause, outcome, version, at_ms: clock::unix_millis(), changes, pending };
    ConfigReloaded { reload: &reload, before: shared.reloads.standing.last().as_ref() }.emit(&shared.metrics);
    shared.reloads.standing.note(reload.clone());
    (reload, files)
}

/// Reads it once its files are left alone, and again where one of them changed meanwhile.
async fn read_when_quiet(running: &Arc<Setup>) -> (Result<LoadedConfig, Vec<String>>, Vec<PathBuf>) {
    let mut files = running.config.files();
    let pause = running.config.reload.debounce.min(quiet::LONGEST_PAUSE);
    let mut watched = quiet::Quiet::new(pause);
    for _ in 0..MOST_READINGS {
        if !watched.wait(&files).await {
            break;
        }
        let (read, named) = read(Arc::clone(running)).await;
        let known = named.iter().all(|file| files.contains(file));
        if watched.is_still(&files).await && known {
            return (read, named);
        }
        files = named;
    }
    let busy = format!(
        "its files are still being written; they are read once they have been left alone for {} ms",
        pause.as_millis()
    );
    (Err(vec![busy]), files)
}

/// Reads it on a thread that may wait for files: the configuration or its faults, and the files.
async fn read(running: Arc<Setup>) -> (Result<LoadedConfig, Vec<String>>, Vec<PathBuf>) {
    let given = "it was given to this gateway as text, and can only be replaced by its program";
    match actix_rt::task::spawn_blocking(move || running.config.read_again()).await {
        Ok(Some(ReadOutcome { config, files })) => {
            (config.map_err(|faults| faults.iter().map(ToString::to_string).collect()), files)
        }
        Ok(None) => (Err(vec![given.to_owned()]), Vec::new()),
        Err(_) => (Err(vec![PANICKED.to_owned()]), Vec::new()),
    }
}

/// The configuration as it can follow the one that runs, and what it has to leave to a restart.
fn follow(mut loaded: LoadedConfig, running: &Config) -> Result<(LoadedConfig, Vec<PendingRestart>), Vec<String>> {
    let pending = loaded.config.follow(running)?;
    Ok((loaded, pending))
}

/// The keys it changes of what is in force; none where either was given by the program and not read.
fn changes(loaded: &LoadedConfig, running: &Setup, pending: &[PendingRestart]) -> Vec<String> {
    let both = loaded.written.as_ref().zip(running.written.as_ref());
    both.map(|(new, old)| new.changes_since(old, pending)).unwrap_or_default()
}

/// Takes over a configuration, and gives the version it is in force under.
///
/// # Errors
/// See [`AdoptError`]; nothing has changed then.
pub(crate) async fn adopt(shared: &Shared, mut loaded: LoadedConfig) -> Result<u64, AdoptError> {
    let _alone = shared.reloads.alone().await;
    let running = shared.setup.load_full();
    for pending in loaded.config.follow(&running.config).map_err(AdoptError::Unsafe)? {
        log::warn!("{pending}");
    }
    adopt_alone(shared, loaded).await
}

/// Notes the configuration that the gateway begins with.
pub(crate) fn begin(shared: &Shared) {
    in_force(shared, 1);
}

fn in_force(shared: &Shared, version: u64) {
    let at_ms = clock::unix_millis();
    shared.reloads.standing.loaded(at_ms);
    for warning in shared.setup.load().config.warnings() {
        log::warn!("{warning}");
    }
    events::ConfigInForce { version, at_ms }.emit(&shared.metrics);
}

async fn adopt_alone(shared: &Shared, loaded: LoadedConfig) -> Result<u64, AdoptError> {
    let before = shared.setup.load_full();
    let version = before.version + 1;
    let beside = Arc::clone(&before);
    // Reads certificates and starts simulated providers: not on a thread that serves.
    let drafted = actix_rt::task::spawn_blocking(move || SetupDraft::new(loaded, version, Some(&beside))).await;
    let draft = drafted.map_err(|_| AdoptError::Broke)?.map_err(AdoptError::Impossible)?;
    let (catalog, policy) = (Arc::clone(&draft.catalog), Arc::clone(&draft.policy));
    let (health, live) = (shared.control.health(), draft.live(&before));
    let published = provider_health::adopt(&health, Arc::clone(&catalog), policy, live, ADOPT_TIMEOUT).await;
    let published = published.map_err(|AdoptionRefused| AdoptError::Silent)?;
    let ledger = draft.config.ledger.clone();
    shared.setup.store(Arc::new(draft.adopt(published, shared.of_this_start.as_ref(), Some(&before))));
    shared.control.catalog().do_send(ReplaceCatalog(catalog));
    shared.control.ledger().do_send(SetBounds { capacity: ledger.capacity, max_age: ledger.max_age });
    in_force(shared, version);
    Ok(version)
}
