//! What an operator does with a ledger beside serving: look at it, verify it, give disk space back.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use pointsman_base::clock;

use crate::{
    database::Ledger,
    directory::{DATABASE, Directory},
    fault::Fault,
    generations::{GenerationStore, settings},
    handle::Store,
    recovery::Recovery,
    settings::Settings,
    verify::{self, Verification},
};

/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Size of the database before and after [`compact`], bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// Gives the free space of the database in `path` back to the disk. No process may use the directory.
///
/// # Errors
/// There is no ledger, it is in use or damaged, or the disk refuses.
pub fn compact(path: &Path) -> Result<Compacted, Fault> {
    let directory = Directory::open_existing(path)?;
    let length = || std::fs::metadata(path.join(DATABASE)).map(|file| file.len());
    let before = length()?;
    let ledger = Ledger::open(&directory.disk(), u64::MAX)?;
    ledger.compact()?;
    drop(ledger);
    Ok(Compacted { before, after: length()? })
}

impl GenerationStore {
    /// Opens a ledger that no process uses, to look at it: nothing on the disk changes.
    ///
    /// # Errors
    /// There is no ledger, it is in use or damaged, or the disk refuses.
    pub fn inspect(path: &Path) -> Result<GenerationStore, Fault> {
        let directory = Directory::open_existing(path)?;
        // Without a database file, what there is lies in the journal.
        if !path.join(DATABASE).exists() {
            return Err(Fault::NoLedger(path.display().to_string()));
        }
        Ok(GenerationStore::over(Store::inspect(directory, settings(Settings::default()))?))
    }

    /// What was found in the journal when the ledger was opened.
    pub fn recovery(&self) -> Recovery {
        self.store.status().recovery
    }

    /// Checks the form of the whole file. Gives what is wrong with it, a sentence each.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn check_file(&self) -> Result<Vec<String>, Fault> {
        self.store.contents()?.1.check()
    }

    /// Reads every stored record and compares columns and sums with them. `progress` is told the number of records, once a second.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<Verification, Fault> {
        let _one_at_a_time = self.verifying.lock();
        let age = i64::try_from(self.store.max_sum_age().as_millis()).unwrap_or(i64::MAX);
        let oldest_sum_ms = clock::unix_millis().saturating_sub(age);
        let (waiting, ledger) = self.store.contents()?;
        let mut told = Instant::now();
        let mut tell = |records| {
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                progress(records);
            }
        };
        verify::verify(&ledger, &waiting, oldest_sum_ms, &mut |entry| self.check(entry), &mut tell)
    }
}
