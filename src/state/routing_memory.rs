//! Routing memory: the statistics and the spend paces of aliases, saved in a file that the next process loads.
//!
//! A failure here never prevents a start or fails a request. If the file cannot be read, the process starts without
//! statistics; if it cannot be written, the next save tries again. Both are logged once and shown at `/health/memory`
//! and in metrics. [`SavedState`] defines the format of the file, [`pointsman_actors::persistence`] the times
//! of saving.

pub mod file;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_actors::persistence::StatsStore;
use pointsman_base::clock;
use pointsman_config::MemoryConfig;
use pointsman_domain::Catalog;
use pointsman_routing::{
    spend_pace::SpendPaces,
    stats::{Restored, SavedState, Statistics},
};

use self::file::Lock;

/// Longest list of rejected entries in the log.
const MAX_LOGGED: usize = 10;

/// The file and its status.
#[derive(Debug)]
pub struct RoutingMemory {
    path: PathBuf,
    paces: Arc<SpendPaces>,
    lock: Mutex<Option<Lock>>,
    status: Mutex<RoutingMemoryStatus>,
}

/// Status of the routing memory.
#[derive(Debug, Clone, Default)]
pub struct RoutingMemoryStatus {
    /// Result of loading the file at the start.
    pub loaded: LoadOutcome,
    /// Time of the last save, in milliseconds since 1970.
    pub saved_at_ms: Option<i64>,
    /// Size of the file at the last save.
    pub bytes: u64,
    /// Number of successful saves.
    pub saves: u64,
    /// Number of failed saves.
    pub failures: u64,
    /// Error of the last save, if it failed.
    pub write_error: Option<String>,
}

/// Result of loading the file at the start.
#[derive(Debug, Clone, Default)]
pub enum LoadOutcome {
    /// There was no file.
    #[default]
    NoFile,
    /// The file could not be used, for this reason.
    Unusable(String),
    /// The statistics were loaded.
    Loaded {
        /// Time of the newest observation, in milliseconds since 1970.
        at_ms: i64,
        /// Age of the newest observation at the start.
        age: Duration,
        /// Number of entries that were used, unknown or rejected.
        restored: Restored,
    },
}

impl RoutingMemory {
    /// Loads the file into `statistics` and `paces`, those of aliases of the catalog. `None` when no file is configured. Blocks.
    pub fn load(
        config: &MemoryConfig,
        catalog: &Catalog,
        statistics: &mut Statistics,
        paces: &Arc<SpendPaces>,
    ) -> Option<Arc<RoutingMemory>> {
        let path = config.path.clone()?;
        let loaded = load_file(&path, catalog, statistics, paces);
        loaded.log(&path);
        let status = Mutex::new(RoutingMemoryStatus { loaded, ..RoutingMemoryStatus::default() });
        let memory = RoutingMemory { path, paces: Arc::clone(paces), lock: Mutex::default(), status };
        // Locking now shows an unwritable file at the start, not at the first save.
        let locked = memory.with_lock(|_| Ok(()));
        memory.record(locked.map(|()| None));
        Some(Arc::new(memory))
    }

    /// Current status.
    pub fn status(&self) -> RoutingMemoryStatus {
        self.status.lock().clone()
    }

    /// Runs `write` under the lock of the file. The lock is kept once it is taken; a previous process may still hold it
    /// at the start.
    fn with_lock(&self, write: impl FnOnce(&Lock) -> io::Result<()>) -> io::Result<()> {
        let mut held = self.lock.lock();
        let lock = match held.take() {
            Some(lock) => lock,
            None => Lock::take(&self.path)?,
        };
        write(held.insert(lock))
    }

    /// Records the result of a save: its bytes, or `None` when only the lock was taken. Logs when the result changes.
    fn record(&self, written: io::Result<Option<u64>>) {
        let mut status = self.status.lock();
        match written {
            Ok(bytes) => {
                if status.write_error.take().is_some() {
                    log::info!("routing memory {} can be written again", self.path.display());
                }
                if let Some(bytes) = bytes {
                    status.saves += 1;
                    status.bytes = bytes;
                    status.saved_at_ms = Some(clock::unix_millis());
                }
            }
            Err(error) => {
                status.failures += 1;
                let write_error = error.to_string();
                if status.write_error.as_ref() != Some(&write_error) {
                    log::warn!("routing memory {} cannot be written: {write_error}", self.path.display());
                    status.write_error = Some(write_error);
                }
            }
        }
    }
}

impl StatsStore for RoutingMemory {
    fn save(&self, mut state: SavedState) -> bool {
        state.spend_paces = self.paces.export();
        let text = state.to_json();
        let written = self.with_lock(|lock| file::replace(&self.path, &text, lock));
        let saved = written.is_ok();
        self.record(written.map(|()| Some(text.len() as u64)));
        saved
    }
}

fn load_file(path: &Path, catalog: &Catalog, statistics: &mut Statistics, paces: &SpendPaces) -> LoadOutcome {
    let text = match file::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return LoadOutcome::NoFile,
        Err(error) => return LoadOutcome::Unusable(error.to_string()),
    };
    match SavedState::parse(&text) {
        Ok(mut state) => {
            restore_paces(&mut state, catalog, paces);
            let at_ms = state.learned_at_ms;
            // The wall clock may have been set back.
            let age = Duration::from_millis(u64::try_from(clock::unix_millis().saturating_sub(at_ms)).unwrap_or(0));
            let restored = statistics.import(&state, clock::now(), age);
            LoadOutcome::Loaded { at_ms, age, restored }
        }
        Err(fault) => LoadOutcome::Unusable(fault.to_string()),
    }
}

/// Restores the paces of aliases that have the same ceiling as then.
fn restore_paces(state: &mut SavedState, catalog: &Catalog, paces: &SpendPaces) {
    let has = |id: &str, ceiling| catalog.aliases.iter().any(|it| it.id == id && it.spend_pace == Some(ceiling));
    let rejected = paces.restore(std::mem::take(&mut state.spend_paces), has);
    if state.has_unreadable_paces {
        log::warn!("routing memory: the spend paces cannot be read, and begin anew");
    } else if !rejected.is_empty() {
        log::warn!(
            "routing memory: spend paces begin anew, because their values are out of range: {}",
            rejected.join(", ")
        );
    }
}

impl LoadOutcome {
    fn log(&self, path: &Path) {
        let path = path.display();
        match self {
            LoadOutcome::NoFile => log::info!("routing memory {path}: the file does not exist yet"),
            LoadOutcome::Unusable(why) => log::warn!("routing memory {path} is not used: {why}; starting without it"),
            LoadOutcome::Loaded { age, restored: Restored { endpoints, unknown, rejected }, .. } => {
                let age = age.as_secs();
                log::info!("routing memory {path}: {endpoints} endpoints as of {age} s ago, {unknown} unknown");
                for rejected in rejected.iter().take(MAX_LOGGED) {
                    log::warn!("routing memory: {} is not restored: {}", rejected.whose, rejected.why);
                }
                if rejected.len() > MAX_LOGGED {
                    log::warn!("routing memory: {} more are not restored", rejected.len() - MAX_LOGGED);
                }
            }
        }
    }
}
