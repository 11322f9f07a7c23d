//! Alerts: the notices of the verdict that begin, last or end, posted to the receivers of the configuration.
//!
//! `api` says what needs attention; [`watch`] decides what is told, [`outbox`] what waits; [`delivery`] runs both, and `sender`
//! makes the calls. All of it runs on the thread that started the gateway, in tasks of its own: no call of a client waits for
//! it, and without a receiver nothing is looked at. What waits is written to a file in the data directory before it is sent.

pub mod delivery;
pub mod outbox;
mod sender;
pub mod watch;

use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use self::outbox::Outbox;
use crate::state::routing_memory::file::{self, Lock};

/// Name of the file.
const FILE: &str = "alerts.json";

/// The outbox and its file. One per process.
pub struct Alerts {
    outbox: Mutex<Outbox>,
    /// `None` if alerts are kept in memory only.
    path: Option<PathBuf>,
    /// Held while the file is written, so that an older state cannot replace a newer one. Holds the lock of the file once it
    /// was taken.
    writing: tokio::sync::Mutex<Option<Lock>>,
}

impl Alerts {
    /// The outbox that an earlier process left in `directory`. Blocks on reading it.
    pub fn open(directory: Option<&Path>) -> Alerts {
        let path = directory.map(|directory| directory.join(FILE));
        let read = |path: &PathBuf| match file::read(path) {
            Ok(None) => Ok(Outbox::default()),
            Ok(Some(text)) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let outbox = path.as_ref().map_or_else(|| Ok(Outbox::default()), read).unwrap_or_else(|why| {
            log::error!(event = "alerts"; "{FILE} in the data directory cannot be read, so alerts in it are lost: {why}");
            Outbox::default()
        });
        Alerts { outbox: Mutex::new(outbox), path, writing: tokio::sync::Mutex::default() }
    }

    /// Reads the state of the outbox.
    pub fn read<T>(&self, read: impl FnOnce(&Outbox) -> T) -> T {
        read(&self.outbox.lock())
    }

    /// Writes the outbox to its file. A failure is logged: alerts are then sent all the same.
    async fn save(&self) {
        let Some(path) = self.path.clone() else { return };
        let mut writing = self.writing.lock().await;
        let Ok(text) = serde_json::to_vec(&*self.outbox.lock()) else { return };
        let lock = writing.take();
        let written = actix_rt::task::spawn_blocking(move || {
            let lock = lock.map_or_else(|| Lock::take(&path), Ok)?;
            let replaced = file::replace(&path, &text, &lock);
            Ok::<_, std::io::Error>((lock, replaced))
        });
        match written.await {
            Ok(Ok((lock, replaced))) => {
                *writing = Some(lock);
                if let Err(error) = replaced {
                    log::error!(event = "alerts"; "{FILE} cannot be written, so a restart may lose or repeat alerts: {error}");
                }
            }
            Ok(Err(error)) => log::error!(event = "alerts"; "{FILE} cannot be written: {error}"),
            Err(_) => log::error!(event = "alerts"; "writing {FILE} panicked"),
        }
    }
}
