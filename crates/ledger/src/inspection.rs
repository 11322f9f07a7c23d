//! What an operator does with a ledger beside serving: look at it, verify it, give disk space back.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

use crate::{
    activity::{Activity, ActivityCounters, ActivityRow},
    database::Ledger,
    directory::{DATABASE, Directory},
    entry::Entry,
    fault::Fault,
    generations::{GenerationStore, head, settings},
    handle::Store,
    packed::Packed,
    recovery::Recovery,
    settings::Settings,
    sums::{NewSums, SlotSums, slot},
    verify::{Checks, Difference, Verification},
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
    let mut ledger = Ledger::open(&*directory.disk())?;
    while ledger.compact()? {}
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
    #[must_use]
    pub fn recovery(&self) -> Recovery {
        self.store.status().recovery
    }

    /// Checks the checksums of the whole file, of a ledger that was opened by [`GenerationStore::inspect`]. `false` if the
    /// file had to be mended to be read.
    ///
    /// # Errors
    /// The disk refuses, or the file is damaged.
    pub fn check_file(&self) -> Result<bool, Fault> {
        self.store.check_file()
    }

    /// Reads every stored record and compares the sums with them. `progress` is told the number of records, once a second.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn verify(&self, progress: impl FnMut(u64)) -> Result<Verification, Fault> {
        let _one_at_a_time = self.verifying.lock();
        self.store.verify(&mut GenerationChecks { store: self, progress, told: Instant::now() })
    }
}

fn sums_of(entry: &Packed) -> SlotSums {
    let mut sums = NewSums::default();
    sums.count(entry, &Activity);
    sums.into_sums()
}

struct GenerationChecks<'s, P> {
    store: &'s GenerationStore,
    progress: P,
    told: Instant,
}

impl<P: FnMut(u64)> Checks for GenerationChecks<'_, P> {
    fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        let name =
            || {
                entry.id.0.get(8..).map(|tail| {
                    format!("gen-{}-{}", entry.id.time(), String::from_utf8_lossy(tail).trim_end_matches('\0'))
                })
            };
        let name = || name().unwrap_or_default();
        let generation = self.store.read(entry).map_err(|fault| format!("record {}: {fault}", name()))?;
        let recorded = head(&generation).entry();
        if sums_of(&Packed::of(&recorded)) != sums_of(&Packed::of(entry)) {
            return Err(format!("record {}: its figures are not those in the index", name()));
        }
        Ok(())
    }

    fn blob(&mut self, hash: &[u8; 32], bytes: &[u8]) -> Result<(), String> {
        let is_same = Sha256::digest(bytes).as_slice() == hash;
        is_same.then_some(()).ok_or_else(|| "its bytes are not what was written".to_owned())
    }

    fn difference(&self, Difference { slot_ms, key, stored, counted }: &Difference<'_>) -> String {
        let time = chrono::DateTime::from_timestamp_millis(*slot_ms).unwrap_or_default().format("%FT%TZ");
        let slot = slot(*slot_ms);
        let row = |sum: &Option<&[u8]>| sum.and_then(|sum| ActivityRow::read(slot, key, sum));
        let (stored, counted) = (row(stored), row(counted));
        let Some(named) = stored.as_ref().or(counted.as_ref()) else {
            return format!("a sum of the 15 minutes from {time} cannot be read");
        };
        let (model, provider, owner) = (&named.model, &named.provider, &named.owner);
        let figures = |row: &Option<ActivityRow>| figures(&row.as_ref().map(|row| row.counters).unwrap_or_default());
        let (stored, counted) = (figures(&stored), figures(&counted));
        let different = stored.iter().zip(&counted).filter(|(stored, counted)| stored != counted);
        let texts: Vec<String> = different
            .map(|((name, stored), (_, counted))| format!("{name}: counted {stored}, records give {counted}"))
            .collect();
        format!(
            "sums of the 15 minutes from {time}, model {model}, provider {provider}, owner {owner}: {}",
            texts.join("; ")
        )
    }

    fn progress(&mut self, entries: u64) {
        if self.told.elapsed() >= PROGRESS_INTERVAL {
            self.told = Instant::now();
            (self.progress)(entries);
        }
    }
}

/// The counters and the cost, each with its name.
fn figures(counters: &ActivityCounters) -> Vec<(&'static str, String)> {
    let counts = ActivityCounters::NAMES.into_iter().zip(counters.counts().map(|count| count.to_string()));
    counts.chain([("cost", counters.cost.to_string())]).collect()
}
