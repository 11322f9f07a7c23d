//! The routing's memory: what the statistics know, in a file that the next process begins with.
//!
//! Nothing here ever stops a start or a request. A file that cannot be read is a cold start, one that cannot be
//! written is tried again; both are said once in the log, and shown at `/health/memory` and in metrics. What the file
//! says is for [`SavedState`] to know; when it is written, for [`pointsman_actors::actors::persistence`].

pub mod file;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_actors::{
    actors::persistence::StatsStore,
    stats::{Restored, SavedState, Statistics},
};

use self::file::Lock;
use crate::{base::clock, config::MemoryConfig};

/// Entries that were not believed are named in the log up to this many.
const MOST_NAMED: usize = 10;

/// The file, and how it fares.
#[derive(Debug)]
pub struct RoutingMemory {
    path: PathBuf,
    lock: Mutex<Option<Lock>>,
    standing: Mutex<RoutingMemoryStatus>,
}

/// How the memory fares.
#[derive(Debug, Clone, Default)]
pub struct RoutingMemoryStatus {
    /// What the process began with.
    pub recalled: Recalled,
    /// When it was last written, in milliseconds since 1970.
    pub saved_at_ms: Option<i64>,
    /// How large it was then.
    pub bytes: u64,
    /// How often it was written.
    pub saves: u64,
    /// How often it could not be written.
    pub failures: u64,
    /// Why it cannot be written now.
    pub trouble: Option<String>,
}

/// What a process began with.
#[derive(Debug, Clone, Default)]
pub enum Recalled {
    /// There was no file.
    #[default]
    Nothing,
    /// There was one that could not be used, for this reason.
    Unusable(String),
    /// What was learned before.
    Learned {
        /// When the newest of it was learned, in milliseconds since 1970.
        at_ms: i64,
        /// How long ago that was at the start.
        age: Duration,
        /// What became of it.
        restored: Restored,
    },
}

impl RoutingMemory {
    /// Teaches `statistics` what the file knows. `None` when there is to be no memory. Blocks on reading the file.
    #[must_use]
    pub fn recall(config: &MemoryConfig, statistics: &mut Statistics) -> Option<Arc<RoutingMemory>> {
        let path = config.path.clone()?;
        let recalled = recalled(&path, statistics);
        recalled.log(&path);
        let standing = Mutex::new(RoutingMemoryStatus { recalled, ..RoutingMemoryStatus::default() });
        let memory = RoutingMemory { path, lock: Mutex::default(), standing };
        // Now rather than after the first answers: who starts a gateway is still looking.
        let locked = memory.locked(|_| Ok(()));
        memory.note(locked.map(|()| None));
        Some(Arc::new(memory))
    }

    /// How it fares.
    #[must_use]
    pub fn standing(&self) -> RoutingMemoryStatus {
        self.standing.lock().clone()
    }

    /// Does something that needs the right to write. The right is kept; the process before this one may take a
    /// while to give it back.
    fn locked(&self, write: impl FnOnce(&Lock) -> io::Result<()>) -> io::Result<()> {
        let mut held = self.lock.lock();
        let lock = match held.take() {
            Some(lock) => lock,
            None => Lock::take(&self.path)?,
        };
        write(held.insert(lock))
    }

    /// Takes down how writing went, `None` for nothing written yet; says so when that is news.
    fn note(&self, written: io::Result<Option<u64>>) {
        let mut standing = self.standing.lock();
        match written {
            Ok(bytes) => {
                if standing.trouble.take().is_some() {
                    log::info!("routing memory {} is written again", self.path.display());
                }
                if let Some(bytes) = bytes {
                    standing.saves += 1;
                    standing.bytes = bytes;
                    standing.saved_at_ms = Some(clock::unix_millis());
                }
            }
            Err(error) => {
                standing.failures += 1;
                let trouble = error.to_string();
                if standing.trouble.as_ref() != Some(&trouble) {
                    log::warn!("routing memory {} cannot be written: {trouble}", self.path.display());
                    standing.trouble = Some(trouble);
                }
            }
        }
    }
}

impl StatsStore for RoutingMemory {
    fn save(&self, state: &SavedState) -> bool {
        let text = state.to_json();
        let written = self.locked(|lock| file::replace(&self.path, &text, lock));
        let kept = written.is_ok();
        self.note(written.map(|()| Some(text.len() as u64)));
        kept
    }
}

fn recalled(path: &Path, statistics: &mut Statistics) -> Recalled {
    let text = match file::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Recalled::Nothing,
        Err(error) => return Recalled::Unusable(error.to_string()),
    };
    match SavedState::parse(&text) {
        Ok(state) => {
            let at_ms = state.learned_at_ms;
            // The wall's clock may have been set back meanwhile.
            let age = Duration::from_millis(u64::try_from(clock::unix_millis().saturating_sub(at_ms)).unwrap_or(0));
            let restored = statistics.import(&state, clock::now(), age);
            Recalled::Learned { at_ms, age, restored }
        }
        Err(fault) => Recalled::Unusable(fault.to_string()),
    }
}

impl Recalled {
    fn log(&self, path: &Path) {
        let path = path.display();
        match self {
            Recalled::Nothing => log::info!("routing memory {path}: nothing there yet"),
            Recalled::Unusable(why) => log::warn!("routing memory {path} is not used: {why}; starting cold"),
            Recalled::Learned { age, restored: Restored { endpoints, unknown, rejected }, .. } => {
                let age = age.as_secs();
                log::info!("routing memory {path}: {endpoints} endpoints as of {age} s ago, {unknown} unknown");
                for rejected in rejected.iter().take(MOST_NAMED) {
                    log::warn!("routing memory: {} starts cold: {}", rejected.whose, rejected.why);
                }
                if rejected.len() > MOST_NAMED {
                    log::warn!("routing memory: so do {} more", rejected.len() - MOST_NAMED);
                }
            }
        }
    }
}
