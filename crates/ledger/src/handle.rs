//! The store as others call it: threads, readers, status.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use pointsman_base::clock;
use tokio::sync::oneshot;

use crate::{
    activity::{
        ActivityKey, Spending, Sums,
        grouping::{Dimension, Grouping},
        slot,
    },
    database::{Group, Identity, Ledger, View, columns::Row},
    directory::Directory,
    disk::Disk,
    engine::{Blob, Engine, Now, Shared},
    entry::{Entry, Filter, Id},
    facts::label,
    fault::Fault,
    journal::{Position, Started, Trouble, Writer},
    packed::Packed,
    page::{self, Page, Query, Summary},
    queue::{Bounds, Item},
    recovery::Recovery,
    settings::Settings,
};

/// How the store is. Cheap to ask.
#[derive(Debug, Clone)]
pub struct Status {
    /// Why records are not journaled or not stored, and since when. `None`: all is well.
    pub trouble: Option<Arc<Trouble>>,
    /// Items that wait in memory.
    pub queued: usize,
    /// How many of those no journal holds: lost if the process ends now.
    pub unjournaled: usize,
    /// Entries lost since the start, because neither disk nor memory had room.
    pub dropped: u64,
    /// What was found at the start.
    pub recovery: Recovery,
    /// An earlier ledger was moved out of the way since the start, with what had been spent.
    pub is_set_aside: bool,
    /// Bytes of the database's write-ahead log: grows while another program holds a transaction open.
    pub wal_bytes: u64,
}

/// Size of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Entries, stored or waiting.
    pub entries: u64,
    /// Bytes of stored records.
    pub bytes: u64,
    /// Entries created at or before this time, Unix milliseconds, may have been dropped by retention.
    pub aged_out_ms: Option<i64>,
}

/// Callers that wait until something is durable.
type Waiting = Vec<(Position, oneshot::Sender<io::Result<()>>)>;

struct Control {
    shared: Arc<Shared>,
    waiting: Mutex<(Waiting, bool)>,
    sync_called: Condvar,
    stepped: (Mutex<()>, Condvar),
    flushing: AtomicUsize,
    stop: AtomicBool,
}

/// A running store. Dropping it ends its threads without storing what waits; the journal keeps that for the next start.
pub struct Store {
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
    /// Held for as long as the threads run.
    _directory: Directory,
}

/// Appends the entries of one worker thread. When it is dropped it writes what waits.
pub struct Recorder {
    writer: Writer,
    /// Blobs that the journal has not taken yet.
    blobs: Vec<PendingBlob>,
    /// Finished entries that wait for [`Recorder::write`].
    batch: Vec<(Packed, Option<Started>)>,
    control: Arc<Control>,
}

/// A blob that the journal has not taken yet.
struct PendingBlob {
    blob: Blob,
    /// The journal refused it: it waits in memory for the database.
    is_refused: bool,
}

impl Store {
    /// Starts the store on the files of the directory, or what stands in for them: reads what the journal holds and begins two
    /// threads. A disk that fails is no error here: the status tells, and the store tries again.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn open(disk: Arc<dyn Disk>, directory: Directory, settings: Settings) -> Result<Store, Fault> {
        let shared = Shared::new(disk, settings, rand::random(), clock::unix_millis());
        let mut engine = Engine::new(Arc::clone(&shared));
        // Before anybody asks: what an earlier process left is visible, or the status tells why not.
        engine.step(now(), true);
        let control = Control::new(shared);
        let (storing, syncing) = (Arc::clone(&control), Arc::clone(&control));
        let threads = vec![
            thread::Builder::new().name("ledger-store".to_owned()).spawn(move || storing.store(engine))?,
            thread::Builder::new().name("ledger-sync".to_owned()).spawn(move || syncing.sync())?,
        ];
        Ok(Store { control, threads, _directory: directory })
    }

    /// Opens a store that no process uses, to look at it: what the journal holds is read into memory, and neither it nor the
    /// database changes.
    ///
    /// # Errors
    /// The disk refuses, or the database is damaged.
    pub fn inspect(directory: Directory, settings: Settings) -> Result<Store, Fault> {
        let queue = Bounds { items: usize::MAX, bytes: usize::MAX };
        let settings = Settings { queue, ..settings };
        let shared = Shared::new(directory.disk(), settings, rand::random(), clock::unix_millis());
        Engine::new(Arc::clone(&shared)).look(now())?;
        Ok(Store { control: Control::new(shared), threads: Vec::new(), _directory: directory })
    }

    /// A recorder for one worker thread.
    pub fn recorder(&self, worker: u16) -> Recorder {
        let writer = self.control.shared.journal.writer(worker);
        Recorder { writer, blobs: Vec::new(), batch: Vec::new(), control: Arc::clone(&self.control) }
    }

    /// The blob with this hash.
    ///
    /// # Errors
    /// The database is closed, the disk refuses, or the blob is damaged.
    pub fn blob(&self, hash: &[u8; 32]) -> Result<Option<Vec<u8>>, Fault> {
        self.control.shared.blob(hash)
    }

    /// The entry with this id, stored or waiting. Reads the disk.
    ///
    /// # Errors
    /// The database is closed, the disk refuses, or its group is damaged.
    pub fn get(&self, id: &Id) -> Result<Option<Entry>, Fault> {
        self.control.shared.get(id)
    }

    /// A page of entries, newest first, stored or waiting. Reads the disk.
    ///
    /// # Errors
    /// As for [`Store::get`].
    pub fn page(&self, query: &Query) -> Result<Page, Fault> {
        self.control.shared.page(query)
    }

    /// Whether the database can be read.
    ///
    /// # Errors
    /// It is closed for the moment.
    pub fn check_open(&self) -> Result<(), Fault> {
        self.control.shared.read(|_| Ok(()))
    }

    /// Sums of entries, stored or waiting, as they are asked for. Reads the disk.
    ///
    /// # Errors
    /// As for [`Store::get`].
    pub fn sums(&self, grouping: &Grouping) -> Result<Sums, Fault> {
        self.control.shared.sums(grouping)
    }

    /// Answers that were admitted from a time on and before another, Unix milliseconds, stored or waiting, by some of their names.
    /// Reads the disk.
    ///
    /// # Errors
    /// As for [`Store::get`].
    pub fn answers(&self, by: &[Dimension], from_ms: i64, until_ms: i64) -> Result<BTreeMap<ActivityKey, u64>, Fault> {
        self.control.shared.answers(by, from_ms, until_ms)
    }

    /// What was spent, by day, account, key and team. Reads the disk.
    ///
    /// # Errors
    /// As for [`Store::get`].
    pub fn spending(&self) -> Result<Vec<Spending>, Fault> {
        self.control.shared.spending()
    }

    /// Deletes the entries that the filter admits, after everything recorded so far has been stored. Journal segments in use
    /// keep their copies until they are full. Blocks for some seconds per million entries.
    ///
    /// # Errors
    /// Not stored by `deadline`, or the disk refuses; some entries may be deleted.
    pub fn delete(&self, filter: &Filter, deadline: Instant) -> Result<u64, Fault> {
        self.flush(deadline)?;
        self.control.shared.read(|ledger| ledger.delete(filter))
    }

    /// The identity of the database: it changes when a new file takes the place of a damaged one.
    ///
    /// # Errors
    /// The database is closed, or the disk refuses.
    pub fn identity(&self) -> Result<Identity, Fault> {
        self.control.shared.read(Ledger::identity)
    }

    /// At most `most` stored groups with a greater number than `after`, in the order in which they were written. Every entry
    /// comes in one of them. Reads the disk.
    ///
    /// # Errors
    /// The database is closed, or the disk refuses.
    pub fn groups_after(&self, after: Option<u64>, most: usize) -> Result<Vec<Group>, Fault> {
        self.control.shared.read(|ledger| ledger.view()?.groups_after(after, most))
    }

    /// At most `most` of the first entries that wait for the database, after the one with this ordinal.
    pub fn waiting_after(&self, ordinal: u64, most: usize) -> Vec<(u64, Packed)> {
        self.control.shared.queue.entries_after(ordinal, most)
    }

    /// Number of stored and waiting entries, bytes on disk and the time of what retention dropped last.
    ///
    /// # Errors
    /// The database is closed, or the disk refuses.
    pub fn size(&self) -> Result<Size, Fault> {
        let waiting = self.control.shared.queue.load().items as u64;
        let state = self.control.shared.read(|ledger| ledger.state())?;
        Ok(Size { entries: state.entries + waiting, bytes: state.stored, aged_out_ms: state.aged_out_ms })
    }

    /// Counts of all entries, by their labels in `field`. Reads the disk.
    ///
    /// # Errors
    /// As for [`Store::get`].
    pub fn summary(&self, field: u8) -> Result<Summary, Fault> {
        let waiting: Vec<_> = self.control.shared.queue.entries().into_iter().map(|(_, entry)| entry).collect();
        self.control.shared.read(|ledger| page::summary(field, &waiting, &ledger.view()?))
    }

    /// The database, and what waits for it.
    ///
    /// # Errors
    /// The database is closed.
    pub(super) fn contents(&self) -> Result<(Vec<Packed>, Arc<Ledger>), Fault> {
        let shared = &self.control.shared;
        let waiting = shared.queue.entries().into_iter().map(|(_, entry)| entry).collect();
        Ok((waiting, shared.database()?))
    }

    /// The database itself.
    ///
    /// # Errors
    /// It is closed.
    pub(super) fn database(&self) -> Result<Arc<Ledger>, Fault> {
        self.control.shared.database()
    }

    /// Age at which sums lose their time.
    pub(super) fn max_sum_age(&self) -> Duration {
        self.control.shared.settings.max_sum_age
    }

    /// Whether no entry can be lost for want of room: the disk works, or memory has room for so many more.
    pub fn has_room_for(&self, entries: usize) -> bool {
        let shared = &self.control.shared;
        let works = shared.journal.trouble().is_none() && shared.trouble.load().is_none();
        works || shared.queue.has_room_for(entries)
    }

    /// How the store is.
    pub fn status(&self) -> Status {
        let shared = &self.control.shared;
        let load = shared.queue.load();
        Status {
            trouble: shared.journal.trouble().or_else(|| shared.trouble.load_full()),
            queued: load.items,
            unjournaled: load.unjournaled,
            dropped: shared.queue.dropped(),
            recovery: **shared.recovery.load(),
            is_set_aside: shared.is_set_aside.load(Relaxed),
            wal_bytes: shared.ledger.load().as_ref().map_or(0, |ledger| ledger.wal_bytes()),
        }
    }

    /// Waits until everything recorded so far is in the database and journal segments without a writer are deleted.
    ///
    /// # Errors
    /// Not done by `deadline`. What is journaled is stored at the next start.
    pub fn flush(&self, deadline: Instant) -> Result<(), Fault> {
        let control = &self.control;
        control.flushing.fetch_add(1, SeqCst);
        control.shared.queue.call();
        let (lock, stepped) = &control.stepped;
        let mut guard = lock.lock();
        let done = loop {
            let load = control.shared.queue.load();
            if load.items == 0 && !load.spilled {
                break Ok(());
            }
            if Instant::now() >= deadline {
                break Err(Fault::Stopped);
            }
            // The engine may have stepped between the look and this wait: look again soon.
            stepped.wait_until(&mut guard, deadline.min(Instant::now() + Duration::from_millis(20)));
        };
        control.flushing.fetch_sub(1, SeqCst);
        done
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.control.stop.store(true, SeqCst);
        self.control.shared.queue.call();
        self.control.sync_called.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Recorder {
    /// Records a finished entry: one `write` call, then visible to readers. Never waits for `fsync` or the database.
    ///
    /// `started` is what [`Recorder::start`] gave for it, also on another worker.
    ///
    /// # Errors
    /// The journal could not be written. The entry waits in memory for the database all the same.
    pub fn record(&mut self, entry: Packed, started: Option<Started>) -> io::Result<Position> {
        self.write_blobs();
        let position = self.writer.append(&entry, clock::unix_millis());
        drop(started);
        let known = position.as_ref().ok().cloned();
        self.control.shared.queue.push(Item::Entry(entry), known, Instant::now());
        position
    }

    /// Keeps a blob under its hash. It is in the journal of this worker before every entry that is recorded or begun later, so
    /// that no crash leaves one without it. While the disk fails it is tried again with each of them, and waits in memory.
    pub fn put_blob(&mut self, hash: [u8; 32], bytes: Arc<[u8]>) {
        let blob = (hash, bytes);
        self.control.shared.remember_blob(&blob);
        self.blobs.push(PendingBlob { blob, is_refused: false });
    }

    fn write_blobs(&mut self) {
        for PendingBlob { blob, is_refused } in std::mem::take(&mut self.blobs) {
            let (hash, bytes) = &blob;
            let position = self.writer.append_blob(hash, bytes, clock::unix_millis()).ok();
            let is_journaled = position.is_some();
            if is_journaled || !is_refused {
                let item = Item::Blob(*hash, Arc::clone(bytes));
                self.control.shared.queue.push(item, position, Instant::now());
            }
            if !is_journaled {
                self.blobs.push(PendingBlob { blob, is_refused: true });
            }
        }
    }

    /// Adds a finished entry to those that the next [`Recorder::write`] records: until then nobody sees it, and a killed process
    /// loses it. Gives how many wait.
    pub fn add(&mut self, entry: Packed, started: Option<Started>) -> usize {
        self.batch.push((entry, started));
        self.batch.len()
    }

    /// Records what was added, as [`Recorder::record`] does: one `write` call for all. Entries that the journal cannot take wait
    /// in memory for the database.
    pub fn write(&mut self) {
        self.write_blobs();
        if self.batch.is_empty() {
            return;
        }
        let entries = self.batch.iter().map(|(entry, _)| entry);
        let positions = self.writer.append_all(entries, clock::unix_millis()).unwrap_or_default();
        let mut positions = positions.into_iter();
        let now = Instant::now();
        for (entry, started) in self.batch.drain(..) {
            drop(started);
            self.control.shared.queue.push(Item::Entry(entry), positions.next().flatten(), now);
        }
    }

    /// Records that an entry has begun.
    ///
    /// # Errors
    /// The journal could not be written: if the process ends, nothing tells of the entry.
    pub fn start(&mut self, entry: &Packed) -> io::Result<Started> {
        self.write_blobs();
        self.writer.start(entry, clock::unix_millis())
    }

    /// Becomes ready when the entry at `position` is durable: the `fsync` is made at once, by the thread of the
    /// journal, for all who wait.
    pub fn durable(&self, position: Position) -> oneshot::Receiver<io::Result<()>> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.control.waiting.lock();
        waiting.0.push((position, sender));
        self.control.sync_called.notify_one();
        receiver
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.write();
    }
}

impl Control {
    fn new(shared: Arc<Shared>) -> Arc<Control> {
        Arc::new(Control {
            shared,
            waiting: Mutex::default(),
            sync_called: Condvar::new(),
            stepped: Default::default(),
            flushing: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        })
    }

    fn store(&self, mut engine: Engine) {
        while !self.stop.load(SeqCst) {
            let next = engine.step(now(), self.flushing.load(SeqCst) > 0);
            self.stepped.1.notify_all();
            let load = self.shared.queue.load();
            self.shared.queue.wait(next, load.items == 0 && self.shared.trouble.load().is_none());
        }
    }

    fn sync(&self) {
        while !self.stop.load(SeqCst) {
            let waiting = {
                let mut waiting = self.waiting.lock();
                if waiting.0.is_empty() {
                    self.sync_called.wait_for(&mut waiting, self.shared.settings.sync_within);
                }
                std::mem::take(&mut waiting.0)
            };
            let result = self.shared.journal.sync(clock::unix_millis());
            for (position, waiter) in waiting {
                let done = if position.segment.is_synced(position.to) { Ok(()) } else { copy(&result) };
                // Nobody waits any more when the client has left.
                let _ = waiter.send(done);
            }
        }
    }
}

/// A result without its cause, for several who wait.
fn copy(result: &io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(error.kind().into()),
    }
}

fn now() -> Now {
    Now { instant: Instant::now(), unix_ms: clock::unix_millis() }
}

impl Shared {
    /// Reads the database, unless it is closed.
    fn read<T>(&self, read: impl FnOnce(&Ledger) -> Result<T, Fault>) -> Result<T, Fault> {
        read(&*self.database()?)
    }

    /// The entry with this id, stored or waiting.
    ///
    /// # Errors
    /// The database is closed, the disk refuses, or its group is damaged.
    pub fn get(&self, id: &Id) -> Result<Option<Entry>, Fault> {
        match self.queue.entry(id) {
            Some(entry) => Ok(Some(entry.entry())),
            None => self.read(|ledger| ledger.view()?.entry(id)),
        }
    }

    /// The blob with this hash, stored or waiting.
    ///
    /// # Errors
    /// As for [`Shared::get`].
    pub fn blob(&self, hash: &[u8; 32]) -> Result<Option<Vec<u8>>, Fault> {
        match self.queue.blob(hash) {
            Some(bytes) => Ok(Some(bytes.to_vec())),
            None => self.read(|ledger| ledger.view()?.blob(hash)),
        }
    }

    /// A page of entries, stored or waiting.
    ///
    /// # Errors
    /// As for [`Shared::get`].
    pub fn page(&self, query: &Query) -> Result<Page, Fault> {
        let waiting: Vec<_> = self.queue.entries().into_iter().map(|(_, entry)| entry).collect();
        self.read(|ledger| page::read(query, &waiting, &ledger.view()?))
    }

    /// Sums, stored or waiting.
    ///
    /// # Errors
    /// As for [`Shared::get`].
    pub fn sums(&self, grouping: &Grouping) -> Result<Sums, Fault> {
        let waiting = self.queue.entries();
        self.read(|ledger| {
            let view = ledger.view()?;
            let (counted, mut sums) = (self.counted(&view)?, view.sums(grouping)?);
            for (_, entry) in waiting.iter().filter(|(ordinal, _)| *ordinal > counted) {
                let facts = entry.facts();
                if let Some(place) = grouping.place(slot(entry.key().created_ms), ActivityKey::of(&facts)) {
                    sums.entry(place).or_default().add(&Row::of(&facts, &mut |_| Ok(0))?.counters());
                }
            }
            Ok(sums)
        })
    }

    /// Answers that were admitted from a time on and before another, Unix milliseconds, stored or waiting, by some of their names.
    ///
    /// # Errors
    /// As for [`Shared::get`].
    pub fn answers(&self, by: &[Dimension], from_ms: i64, until_ms: i64) -> Result<BTreeMap<ActivityKey, u64>, Fault> {
        let waiting = self.queue.entries();
        self.read(|ledger| {
            let view = ledger.view()?;
            let (counted, mut answers) = (self.counted(&view)?, view.answers(by, from_ms, until_ms)?);
            for (_, entry) in waiting.iter().filter(|(ordinal, _)| *ordinal > counted) {
                let facts = entry.facts();
                let is_meant = (from_ms..until_ms).contains(&entry.key().created_ms);
                if is_meant && !Row::of(&facts, &mut |_| Ok(0))?.failed {
                    *answers.entry(ActivityKey::of(&facts).only(|name| by.contains(&name))).or_default() += 1;
                }
            }
            Ok(answers)
        })
    }

    /// What was spent, stored or waiting.
    fn spending(&self) -> Result<Vec<Spending>, Fault> {
        const DAY_MS: i64 = 86_400_000;
        let waiting = self.queue.entries();
        self.read(|ledger| {
            let view = ledger.view()?;
            let (counted, mut spent) = (self.counted(&view)?, view.spending()?);
            for (_, entry) in waiting.iter().filter(|(ordinal, _)| *ordinal > counted) {
                let facts = entry.facts();
                let [owner, key, team] =
                    [label::OWNER, label::KEY, label::TEAM].map(|field| facts.label(field).to_owned());
                let day_ms = Some(entry.key().created_ms.div_euclid(DAY_MS).saturating_mul(DAY_MS));
                let cost = Row::of(&facts, &mut |_| Ok(0))?.counters().cost;
                spent.push(Spending { day_ms, owner, key, team, cost });
            }
            Ok(spent)
        })
    }

    /// The last item of this process's queue that the database counts.
    fn counted(&self, view: &View<'_>) -> Result<u64, Fault> {
        let state = view.state()?;
        Ok(if state.run == self.run { state.ordinal } else { 0 })
    }
}
