//! What an operator does with a ledger beside serving: look at it, verify it, give disk space back.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

use crate::store::{
    activity::{Activity, ActivityCounters, ActivityRow, FormerActivity},
    database::Ledger,
    directory::{DATABASE, Directory},
    entry::{Entry, RollUp},
    facts::{label, number},
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
        let mut recorded = head(&generation).entry();
        if !entry.facts.labels.iter().any(|(field, _)| *field == label::TEAM) {
            // An earlier version wrote less into the index.
            recorded.facts.labels.retain(|(field, _)| *field != label::TEAM);
            recorded.facts.numbers.retain(|(field, _)| *field < number::CACHE_WRITE_TOKENS);
        }
        if sums_of(&Packed::of(&recorded)) != sums_of(&Packed::of(entry)) {
            return Err(format!("record {}: its figures are not those in the index", name()));
        }
        Ok(())
    }

    fn blob(&mut self, hash: &[u8; 32], bytes: &[u8]) -> Result<(), String> {
        let is_same = Sha256::digest(bytes).as_slice() == hash;
        is_same.then_some(()).ok_or_else(|| "its bytes are not what was written".to_owned())
    }

    fn former_sums(&self) -> Option<&'static dyn RollUp> {
        Some(&FormerActivity)
    }

    fn difference(&self, Difference { slot_ms, key, stored, counted, by_former }: &Difference<'_>) -> Option<String> {
        let time = chrono::DateTime::from_timestamp_millis(*slot_ms).unwrap_or_default().format("%FT%TZ");
        let slot = slot(*slot_ms);
        let row = |sum: &Option<&[u8]>| sum.and_then(|sum| ActivityRow::read(slot, key, sum));
        let (stored, counted) = (row(stored), row(counted));
        let Some(named) = stored.as_ref().or(counted.as_ref()) else {
            return Some(format!("a sum of the 15 minutes from {time} cannot be read"));
        };
        if let (Some(stored), Some(counted), Some(by_former)) = (&stored, &counted, row(by_former))
            && stored.counters.is_as_before(&counted.counters, &by_former.counters)
        {
            return None;
        }
        let (model, provider, owner) = (&named.model, &named.provider, &named.owner);
        let figures = |row: &Option<ActivityRow>| figures(&row.as_ref().map(|row| row.counters).unwrap_or_default());
        let (stored, counted) = (figures(&stored), figures(&counted));
        let different = stored.iter().zip(&counted).filter(|(stored, counted)| stored != counted);
        let texts: Vec<String> = different
            .map(|((name, stored), (_, counted))| format!("{name}: counted {stored}, records give {counted}"))
            .collect();
        Some(format!(
            "sums of the 15 minutes from {time}, model {model}, provider {provider}, owner {owner}: {}",
            texts.join("; ")
        ))
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

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Instant};

    use pointsman_actors::domain::{Generation, GenerationId, GenerationStatus};

    use super::*;
    use crate::{
        api::{route_samples, samples},
        base::clock,
    };

    /// Verifies a directory in which these generations were stored with these sums.
    fn verified(name: &str, sums: Arc<dyn RollUp>, statuses: &[GenerationStatus]) -> Verification {
        let path = std::env::temp_dir().join(format!("pointsman-inspection-{name}-{}", std::process::id()));
        let sums = Settings { sums, ..settings(Settings::default()) };
        let store = GenerationStore::over(Store::open(Directory::open(&path).unwrap(), sums).unwrap());
        let mut recorder = store.recorder(0);
        let created_ms = clock::unix_millis() - 3_600_000;
        for (number, status) in statuses.iter().enumerate() {
            let id = GenerationId::new(created_ms as u64 / 1_000, [number as u64; 3]);
            let generation = route_samples::generation(&samples::catalog());
            recorder.record(&Generation { id, created_ms, status: *status, ..generation }, None);
        }
        recorder.write();
        store.flush(Instant::now() + Duration::from_secs(30)).unwrap();
        drop((recorder, store));
        let found = GenerationStore::inspect(&path).unwrap().verify(|_| {}).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        found
    }

    #[test]
    fn sums_of_an_earlier_version_that_count_cancelled_generations_as_failed_are_no_fault() {
        use GenerationStatus::{Cancelled, Completed, Failed};
        let statuses = [Completed, Failed, Cancelled, Cancelled];
        for (name, sums) in [("now", Arc::new(Activity) as Arc<dyn RollUp>), ("before", Arc::new(FormerActivity))] {
            let found = verified(name, sums, &statuses);
            assert_eq!((found.entries, found.slots, found.faults), (4, 1, Vec::new()), "{name}");
        }
    }

    #[test]
    fn only_the_failed_may_be_more_by_the_cancelled_and_unknown_costs_be_less() {
        let counted = ActivityCounters {
            requests: 9,
            failed: 2,
            prompt_tokens: 70,
            unknown_costs: 3,
            ..ActivityCounters::default()
        };
        let by_its_rule = ActivityCounters { failed: 5, unknown_costs: 0, ..counted };
        let is_as_before = |stored: ActivityCounters| stored.is_as_before(&counted, &by_its_rule);
        assert!((2..=5).all(|failed| is_as_before(ActivityCounters { failed, ..counted })));
        assert!(![0, 1, 6].into_iter().any(|failed| is_as_before(ActivityCounters { failed, ..counted })));
        assert!((0..=3).all(|unknown_costs| is_as_before(ActivityCounters { unknown_costs, ..counted })));
        assert!(!is_as_before(ActivityCounters { unknown_costs: 4, ..counted }));
        assert!(!is_as_before(ActivityCounters { prompt_tokens: 71, ..by_its_rule }));
    }
}
