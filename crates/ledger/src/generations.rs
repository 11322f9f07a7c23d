//! The ledger on disk: generations in the durable store.

use std::{
    collections::HashSet,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pointsman_domain::{Generation, GenerationId, GenerationStatus, Usd};

use crate::{
    directory::Directory,
    disk::Disk,
    entry::{Entry, Facts, Filter, Id},
    event::Event,
    facts::{FEMTO_PER_MILLI, FEMTO_PER_NANO, label, number},
    fault::Fault,
    handle::{Recorder, Store},
    journal::Started,
    other_replicas::{self, ForeignPage},
    packed::{Packed, Packer},
    page::Query,
    queue::Bounds,
    record::{self, ContentHash, RecordFault, RecordWriter, Versions},
    settings::Settings,
    version_cache::{VersionBytes, VersionCache},
    write_batch::{Saving, WriteBatch},
};

/// How long a deletion waits until everything recorded so far is stored.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bounds of the ledger.
#[derive(Debug, Clone, Copy)]
pub struct LedgerBounds {
    /// Age at which records are deleted.
    pub max_age: Duration,
    /// Size of the records, bytes, above which the oldest are deleted.
    pub max_bytes: u64,
    /// Whether a record is awaited until the disk has it; otherwise until the kernel has it.
    pub sync: bool,
    /// Most that waits in memory for the disk.
    pub queue: Bounds,
}

/// Generations on disk. Shared by all threads.
pub struct GenerationStore {
    pub(super) store: Store,
    versions: VersionCache,
    pub(super) verifying: Mutex<()>,
    sync: bool,
}

/// A page of generations.
#[derive(Debug)]
pub struct GenerationPage {
    /// Newest first. Records that cannot be read are left out.
    pub generations: Vec<Arc<Generation>>,
    /// Records that could not be read.
    pub unreadable: usize,
    /// Damaged groups of up to 32 records, some of which were left out.
    pub damaged_blocks: usize,
    /// Where to go on; `None` at the end.
    pub next: Option<crate::entry::Key>,
    /// Records created at or before this time, Unix milliseconds, may have been deleted.
    pub aged_out_ms: Option<i64>,
}

impl GenerationStore {
    /// Opens the ledger in `path`, which is created when it is missing. Blocks on reading what an earlier process left.
    ///
    /// # Errors
    /// Another process uses the directory, or it cannot be created or written.
    pub fn open(path: &Path, bounds: LedgerBounds) -> Result<GenerationStore, Fault> {
        GenerationStore::open_in(Directory::open(path)?, bounds)
    }

    /// Opens the ledger in a directory that this process holds. Blocks as [`GenerationStore::open`].
    ///
    /// # Errors
    /// No thread can be made.
    pub fn open_in(directory: Directory, bounds: LedgerBounds) -> Result<GenerationStore, Fault> {
        GenerationStore::open_on(directory.disk(), directory, bounds)
    }

    /// The same with another disk in place of the files of the directory.
    ///
    /// # Errors
    /// As for [`GenerationStore::open`].
    pub fn open_on(disk: Arc<dyn Disk>, directory: Directory, bounds: LedgerBounds) -> Result<GenerationStore, Fault> {
        let LedgerBounds { max_age, max_bytes, sync, queue } = bounds;
        let journal_bytes = max_bytes.max(Settings::default().journal_bytes);
        let bounds = Settings { max_age, max_bytes, journal_bytes, queue, ..Settings::default() };
        Ok(GenerationStore { sync, ..GenerationStore::over(Store::open(disk, directory, settings(bounds))?) })
    }

    pub(super) fn over(store: Store) -> GenerationStore {
        GenerationStore { store, versions: VersionCache::default(), verifying: Mutex::default(), sync: false }
    }

    /// A recorder for one worker thread.
    pub fn recorder(&self, worker: u16) -> GenerationRecorder {
        GenerationRecorder {
            recorder: self.store.recorder(worker),
            writer: RecordWriter::default(),
            sync: self.sync,
            packer: Packer::default(),
            batch: None,
        }
    }

    /// The record with this id, if its owner passes. The record of another owner is not read, so that its faults are not told.
    /// Reads the disk.
    ///
    /// # Errors
    /// The disk fails, or the record cannot be read.
    pub fn get(&self, id: GenerationId, owner: impl Fn(u64) -> bool) -> Result<Option<Generation>, Fault> {
        match self.store.get(&entry_id(id))? {
            Some(entry) if owner(owner_of(&entry)) => self.read(&entry).map(Some),
            // It may wait in memory while the database is closed, which nobody is told who asks for an unknown one.
            Some(_) => self.store.check_open().map(|()| None),
            None => Ok(None),
        }
    }

    /// A page of records, newest first. Reads the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub fn page(&self, query: &Query) -> Result<GenerationPage, Fault> {
        self.page_with(query, ForeignPage::default())
    }

    /// The same together with a page of the records that replicas share, read by the same query. Reads the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub fn page_with(&self, query: &Query, foreign: ForeignPage) -> Result<GenerationPage, Fault> {
        let ForeignPage { entries, next, versions } = foreign;
        let page = other_replicas::merge(self.store.page(query)?, entries, next, query.limit);
        let (mut generations, mut unreadable) = (Vec::with_capacity(page.entries.len()), page.unreadable);
        let versions = self.versions(Some(&versions));
        for entry in &page.entries {
            match generation(entry, &versions) {
                Ok(generation) => generations.push(Arc::new(generation)),
                Err(fault) => {
                    unreadable += 1;
                    log::warn!("a stored record cannot be read: {fault}");
                }
            }
        }
        let (next, aged_out_ms, damaged_blocks) = (page.next, page.aged_out_ms, page.damaged.len());
        Ok(GenerationPage { generations, unreadable, damaged_blocks, next, aged_out_ms })
    }

    /// Deletes records: those created before a time, Unix milliseconds, of an owner, or both. Sums stay. Gives their number.
    ///
    /// # Errors
    /// The disk fails, or is too slow; some records may be deleted.
    pub fn delete(&self, before_ms: Option<i64>, owner: Option<u64>) -> Result<u64, Fault> {
        let labels = owner.map(|owner| (label::OWNER, vec![owner_label(owner)]));
        let until_ms = before_ms.map(|before| before.saturating_sub(1));
        let filter = Filter { until_ms, labels: labels.into_iter().collect(), ..Filter::default() };
        self.store.delete(&filter, Instant::now() + DELETE_TIMEOUT)
    }

    /// Catalogs and policies that are in memory.
    pub fn known_versions(&self) -> HashSet<ContentHash> {
        self.versions.known()
    }

    /// The entries of the ledger: their state, sums and replication.
    pub fn entries(&self) -> &Store {
        &self.store
    }

    /// The record of an entry that another replica wrote. Catalogs and policies that this ledger does not have come from
    /// `versions`.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn read_foreign(&self, entry: &Entry, versions: &VersionBytes) -> Result<Generation, Fault> {
        generation(entry, &self.versions(Some(versions)))
    }

    /// The versions of the ledger, and others that came with records.
    fn versions(&self, foreign: Option<&VersionBytes>) -> impl Versions {
        self.versions.over(move |hash| match self.store.blob(&hash.0) {
            Ok(Some(bytes)) => Some(bytes),
            // What came from elsewhere under this hash must have it.
            _ => foreign?.get(&hash).filter(|bytes| hash.is_of(bytes)).cloned(),
        })
    }

    pub(super) fn read(&self, entry: &Entry) -> Result<Generation, Fault> {
        generation(entry, &self.versions(None))
    }
}

/// The record of an entry.
///
/// # Errors
/// It cannot be read.
pub(super) fn read_entry(entry: &Entry, versions: &impl Versions) -> Result<Generation, Fault> {
    generation(entry, versions)
}

fn generation(entry: &Entry, versions: &impl Versions) -> Result<Generation, Fault> {
    let read = record::read(&entry.bytes, versions).map_err(|fault| match fault {
        RecordFault::Newer { .. } => Fault::NewerRecord,
        fault => Fault::Damaged(fault.to_string()),
    });
    let mut generation = read?;
    generation.key = u64::from_str_radix(label_of(&entry.facts, label::KEY), 16).unwrap_or_default();
    generation.team = Some(label_of(&entry.facts, label::TEAM)).filter(|team| !team.is_empty()).map(Arc::from);
    // Only its beginning was recorded: the process ended before the generation did.
    if generation.status == GenerationStatus::Running {
        generation.status = GenerationStatus::Truncated;
    }
    Ok(generation)
}

/// Most records that are written with one call.
const MAX_BATCH: usize = 256;

/// Records the generations of one worker thread.
pub struct GenerationRecorder {
    recorder: Recorder,
    writer: RecordWriter,
    sync: bool,
    packer: Packer,
    /// Of the records that wait for [`GenerationRecorder::write`].
    batch: Option<WriteBatch>,
}

impl GenerationRecorder {
    /// Records that a generation runs, so that a killed process leaves a trace of it. One `write` call. `None` if the
    /// journal could not be written.
    pub fn start(&mut self, generation: &Generation) -> Option<Started> {
        let entry = self.entry(generation);
        self.recorder.start(&entry).ok()
    }

    /// Records an ended generation. Its answer must not end before what it gives is ready: `None` if nobody has to wait.
    /// A journal that cannot be written is no error here: the record waits in memory, and the status of the store tells.
    ///
    /// Somebody must call [`GenerationRecorder::write`] soon, unless the records are awaited until the disk has them.
    pub fn record(&mut self, generation: &Generation, started: Option<Started>) -> Option<Saving> {
        let entry = self.entry(generation);
        if self.sync {
            let position = self.recorder.record(entry, started).ok()?;
            return Some(Saving::Disk(self.recorder.durable(position)));
        }
        let batch = self.batch.get_or_insert_default().clone();
        if self.recorder.add(entry, started) >= MAX_BATCH {
            self.write();
        }
        Some(Saving::Kernel(batch))
    }

    /// Whether records wait for [`GenerationRecorder::write`].
    pub const fn is_waiting(&self) -> bool {
        self.batch.is_some()
    }

    /// Writes the records that wait, with one `write` call, and lets their answers end.
    pub fn write(&mut self) {
        self.recorder.write();
        self.batch.take().into_iter().for_each(|batch| batch.end());
    }

    fn entry(&mut self, generation: &Generation) -> Packed {
        pack_head(generation, &mut self.packer);
        let versions = self.writer.append(generation, self.packer.record());
        for version in versions.into_iter().flatten() {
            self.recorder.put_blob(version.hash.0, version.bytes.into());
        }
        self.packer.finish()
    }
}

/// The id of a generation in the store: its seconds, then its random characters.
pub fn entry_id(id: GenerationId) -> Id {
    let (seconds, suffix) = id.parts();
    let mut tail = [0; 24];
    if let Some(place) = tail.get_mut(..GenerationId::SUFFIX) {
        place.copy_from_slice(suffix);
    }
    Id::new(seconds.unwrap_or(u64::MAX), tail)
}

/// The owner of an entry.
pub fn owner_of(entry: &Entry) -> u64 {
    u64::from_str_radix(label_of(&entry.facts, label::OWNER), 16).unwrap_or_default()
}

/// The label of an owner or of a key.
pub fn owner_label(owner: u64) -> Box<str> {
    format!("{owner:016x}").into()
}

/// An amount in [`number::COST_NANOS`], rounded down.
pub fn nanos(cost: Usd) -> i64 {
    const PER_NANO: i64 = FEMTO_PER_NANO as i64;
    let of_many = |_| i64::try_from(cost.femto() / FEMTO_PER_NANO).unwrap_or(i64::MAX);
    i64::try_from(cost.femto()).map_or_else(of_many, |cost| cost / PER_NANO)
}

/// The entry of a generation without its record: what filters and sums see.
pub(super) fn head(generation: &Generation) -> Packed {
    let mut packer = Packer::default();
    pack_head(generation, &mut packer);
    packer.finish()
}

/// Begins the entry of a generation: everything but the record.
fn pack_head(generation: &Generation, packer: &mut Packer) {
    let model = generation.model.as_ref().unwrap_or(&generation.requested_model);
    let (mut owner, mut key) = ([0; 16], [0; 16]);
    for (digits, number) in [(&mut owner, generation.owner), (&mut key, generation.key)] {
        let _ = hex::encode_to_slice(number.to_be_bytes(), digits);
    }
    let mut labels = Fields::<&str>::default();
    labels.put(label::MODEL, model);
    labels.put(label::OWNER, str::from_utf8(&owner).unwrap_or_default());
    labels.put(label::STATUS, generation.status.as_str());
    labels.put(label::REQUESTED_MODEL, &generation.requested_model);
    if let Some(slug) = &generation.provider_slug {
        labels.put(label::PROVIDER, slug);
    }
    if generation.key != 0 {
        labels.put(label::KEY, str::from_utf8(&key).unwrap_or_default());
    }
    labels.put(label::TEAM, generation.team.as_deref().unwrap_or_default());
    if let Some(alias) = &generation.decision.router {
        labels.put(label::ALIAS, alias);
    }
    labels.put(label::OBJECTIVE, generation.decision.objective.value.as_str());
    if let Some(class) = &generation.decision.task_class {
        labels.put(label::TASK, class.task.as_str());
    }
    if generation.status.is_failure()
        && let Some(cause) = generation.attempts.last().and_then(|attempt| attempt.error_type.as_deref())
    {
        labels.put(label::CAUSE, cause);
    }
    let served = generation.served_endpoint();
    if let Some(variant) = served.map(|endpoint| &endpoint.variant).filter(|variant| !variant.is_empty()) {
        labels.put(label::VARIANT, variant);
    }
    for event in Event::ALL.into_iter().filter(|event| event.happened(generation)) {
        labels.put(label::EVENT, event.as_str());
    }
    let usage = &generation.usage;
    let spent = generation.known_spending();
    let (cost_millis, cost_rest) = divided(spent);
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let mut numbers = Fields::<i64>::default();
    numbers.put(number::COST_MILLIS, cost_millis);
    numbers.put(number::COST_REST, cost_rest);
    numbers.put(number::PROMPT_TOKENS, count(usage.prompt_tokens));
    numbers.put(number::COMPLETION_TOKENS, count(usage.completion_tokens));
    numbers.put(number::CACHED_TOKENS, count(usage.cached_tokens));
    numbers.put(number::REASONING_TOKENS, count(usage.reasoning_tokens));
    let rare = [
        (number::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
        (number::CACHE_WRITE_1H_TOKENS, usage.cache_write_1h_tokens),
        (number::AUDIO_TOKENS, usage.audio_tokens),
        (number::AUDIO_OUTPUT_TOKENS, usage.audio_output_tokens),
        (number::IMAGES, usage.images),
        (number::WEB_SEARCHES, usage.web_searches),
    ];
    rare.into_iter().filter(|(_, amount)| *amount > 0).for_each(|(field, amount)| numbers.put(field, count(amount)));
    let (cost, served) = (generation.cost.unwrap_or_default(), generation.total_cost().unwrap_or_default());
    let parts = [
        (number::INPUT_NANOS, cost.prompt + cost.audio),
        (number::CACHE_NANOS, cost.cache_read + cost.cache_write + cost.cache_write_1h),
        (number::OUTPUT_NANOS, cost.output()),
        (number::LOST_NANOS, spent - served),
    ];
    parts.into_iter().filter(|(_, part)| !part.is_zero()).for_each(|(field, part)| numbers.put(field, nanos(part)));
    // Without a known cost it passes no filter on cost.
    if let Some(cost) = generation.spent() {
        numbers.put(number::COST_NANOS, nanos(cost));
    }
    if let Some(millis) = generation.latency_ms {
        numbers.put(number::FIRST_TOKEN_MS, count(millis));
    }
    if let Some(millis) = generation.generation_time_ms {
        numbers.put(number::DURATION_MS, count(millis));
    }
    packer.begin(entry_id(generation.id), generation.created_ms, labels.list(), numbers.list());
}

/// An amount in whole thousandths of a dollar, and the rest.
fn divided(cost: Usd) -> (i64, i64) {
    const PER_MILLI: i64 = FEMTO_PER_MILLI as i64;
    let cost = cost.femto();
    // Below 9,223 dollars a machine word is enough.
    i64::try_from(cost).map_or_else(
        |_| {
            let whole = i64::try_from(cost / FEMTO_PER_MILLI).unwrap_or(i64::MAX);
            (whole, i64::try_from(cost % FEMTO_PER_MILLI).unwrap_or_default())
        },
        |cost| (cost / PER_MILLI, cost % PER_MILLI),
    )
}

/// Fields of the facts of one generation: of numbers there are at most nineteen, of labels seventeen.
#[derive(Default)]
struct Fields<T> {
    list: [(u8, T); 19],
    length: usize,
}

impl<T> Fields<T> {
    fn put(&mut self, field: u8, value: T) {
        if let Some(place) = self.list.get_mut(self.length) {
            *place = (field, value);
            self.length += 1;
        }
    }

    fn list(&self) -> &[(u8, T)] {
        self.list.get(..self.length).unwrap_or_default()
    }
}

/// Settings of a store of generations.
pub(super) fn settings(bounds: Settings) -> Settings {
    Settings { interrupted: Arc::new(interrupted), ..bounds }
}

/// Marks the entry of a generation that ran when its process ended.
fn interrupted(mut entry: Entry) -> Option<Entry> {
    for (field, text) in &mut entry.facts.labels {
        if *field == label::STATUS {
            *text = GenerationStatus::Truncated.as_str().into();
        }
    }
    Some(entry)
}

fn label_of(facts: &Facts, field: u8) -> &str {
    facts.labels.iter().find(|(other, _)| *other == field).map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_divided_as_whole_numbers_are() {
        for femto in
            [0, 1, 999_999_999_999, 1_000_000_000_000, i128::from(i64::MAX), i128::from(i64::MAX) + 1, -5, 1 << 70]
        {
            let rest = i64::try_from(femto % FEMTO_PER_MILLI).unwrap();
            assert_eq!(divided(Usd::from_femto(femto)), (i64::try_from(femto / FEMTO_PER_MILLI).unwrap(), rest));
            assert_eq!(nanos(Usd::from_femto(femto)), i64::try_from(femto / FEMTO_PER_NANO).unwrap());
        }
    }
}
