//! The engine: moves entries from the queue and the journal into the database.
//!
//! [`Engine::step`] does what is due and says when to call it again. It has no thread and no clock of its own: those
//! are in [`crate::handle`]. A disk that fails makes it try again later; until then entries wait in the queue and in the
//! journal, and readers go on. A database that is damaged is set aside.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

use crate::{
    database::Ledger,
    directory::{self, Format},
    disk::Disk,
    fault::Fault,
    journal::{
        Journal, Position, Segment, Trouble,
        frame::{Frame, Frames, Kind},
    },
    packed::Packed,
    queue::{Item, Queue},
    recovery::{self, Recovery},
    settings::Settings,
};

/// Bytes of a segment that are read back at once.
const READ_AT_ONCE: u64 = 1024 * 1024;
/// Items that are worth a transaction at once, and most of one. Large, because every transaction syncs the file.
const BATCH: usize = 2_048;
/// Longest wait of an item that no journal holds.
const UNJOURNALED_WAIT: Duration = Duration::from_millis(200);
/// First wait after a failure; each further one is twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// Longest wait after a failure.
pub const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// A clock may be set forward so far before ages are not counted to it any more.
const BELIEVED_STEP: Duration = Duration::from_secs(86_400);
/// Blobs that are remembered: the catalogues and policies in force, and those of requests that began before a reload.
const REMEMBERED_BLOBS: usize = 8;
/// Time between two looks for entries that are too old.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);

/// What the engine, writers and readers share.
pub struct Shared {
    /// The files.
    pub disk: Arc<dyn Disk>,
    /// The segments.
    pub journal: Arc<Journal>,
    /// What waits.
    pub queue: Queue,
    /// The database. `None` until it could be opened.
    pub ledger: ArcSwapOption<Ledger>,
    /// Why nothing is committed at present.
    pub trouble: ArcSwapOption<Trouble>,
    /// What was found at the start.
    pub recovery: ArcSwap<Recovery>,
    /// An earlier ledger was moved out of the way: a newer version wrote it, or it could not be read.
    pub is_set_aside: AtomicBool,
    /// Settings.
    pub settings: Settings,
    /// Tells this process from those before.
    pub run: u64,
    /// The blobs that entries of this process refer to, the latest first: a database that takes the place of a damaged one
    /// needs them.
    blobs: Mutex<VecDeque<Blob>>,
}

/// A blob with its hash.
pub type Blob = ([u8; 32], Arc<[u8]>);

impl Shared {
    /// Remembers a blob that entries refer to from now on.
    pub fn remember_blob(&self, blob: &Blob) {
        let mut blobs = self.blobs.lock();
        blobs.retain(|(hash, _)| *hash != blob.0);
        blobs.truncate(REMEMBERED_BLOBS - 1);
        blobs.push_front(blob.clone());
    }

    /// Everything empty, nothing opened. `run` must differ from that of every earlier process.
    pub fn new(disk: Arc<dyn Disk>, settings: Settings, run: u64, now_ms: i64) -> Arc<Shared> {
        Arc::new(Shared {
            journal: Arc::new(Journal::new(
                Arc::clone(&disk),
                now_ms,
                run,
                (settings.segment_bytes, settings.journal_bytes),
            )),
            disk,
            queue: Queue::new(settings.queue, BATCH.min(settings.queue.items / 2)),
            ledger: ArcSwapOption::empty(),
            trouble: ArcSwapOption::empty(),
            recovery: ArcSwap::default(),
            is_set_aside: AtomicBool::new(false),
            settings,
            run,
            blobs: Mutex::default(),
        })
    }

    /// The open database.
    ///
    /// # Errors
    /// There is none.
    pub fn database(&self) -> Result<Arc<Ledger>, Fault> {
        self.ledger.load_full().ok_or(Fault::Unavailable)
    }
}

/// A moment on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For waits.
    pub instant: Instant,
    /// Milliseconds since 1970, for ages and names.
    pub unix_ms: i64,
}

/// Moves entries into the database. One per store.
pub struct Engine {
    shared: Arc<Shared>,
    /// The format number was checked.
    checked: bool,
    /// Left-over segments were found.
    recovered: bool,
    /// The database was found damaged.
    damaged: bool,
    /// Segments deleted since the last commit.
    forgotten: Vec<String>,
    retry: Option<(Instant, Duration)>,
    retention_at: Option<Instant>,
    /// The first step.
    begun: Option<Now>,
}

impl Engine {
    /// An engine that has done nothing yet.
    pub fn new(shared: Arc<Shared>) -> Engine {
        Engine {
            shared,
            checked: false,
            recovered: false,
            damaged: false,
            forgotten: Vec::new(),
            retry: None,
            retention_at: None,
            begun: None,
        }
    }

    /// Does what is due at `now`; when `all`, commits also what could wait. Gives the time of the next step.
    pub fn step(&mut self, now: Now, all: bool) -> Instant {
        if let Some((at, _)) = self.retry
            && now.instant < at
        {
            return at;
        }
        match self.work(now, all) {
            Ok(next) => {
                self.succeeded();
                next
            }
            Err(fault) => self.failed(&fault, now),
        }
    }

    /// Opens the database to look at it, and reads the journal into the queue, which must have room for it: no file changes.
    ///
    /// # Errors
    /// The disk refuses, or the database is damaged.
    pub fn look(&mut self, now: Now) -> Result<(), Fault> {
        let ledger = Ledger::inspect(&self.shared.disk)?;
        self.recover(&ledger, now)?;
        self.shared.ledger.store(Some(Arc::new(ledger)));
        self.read_back(now)
    }

    fn work(&mut self, now: Now, all: bool) -> Result<Instant, Fault> {
        if self.shared.ledger.load().is_none() {
            self.open(now)?;
        }
        loop {
            self.read_back(now)?;
            let load = self.shared.queue.load();
            let wait = if load.unjournaled > 0 { UNJOURNALED_WAIT } else { self.shared.settings.settle };
            let due_at = load.oldest.map(|oldest| oldest + wait);
            let due = due_at.is_some_and(|at| at <= now.instant);
            if load.items > 0 && (all || due || load.spilled || load.is_batch) {
                self.commit(now)?;
                continue;
            }
            // One small step at a time: what waits to be stored comes first.
            let retention_at = self.retain(now)?;
            let next = due_at.map_or(retention_at, |at| at.min(retention_at));
            // A segment can be behind for a moment, between a write and the entry of the queue.
            return Ok(if load.spilled { next.min(now.instant + UNJOURNALED_WAIT) } else { next });
        }
    }

    fn open(&mut self, now: Now) -> Result<(), Fault> {
        let disk = &self.shared.disk;
        if !self.checked {
            let found = match directory::check_format(&**disk, now.unix_ms)? {
                Format::SetAside(folder) => Some(("a newer version; its files were", folder)),
                Format::OldSetAside(folder) => Some(("an earlier version; its database was", folder)),
                Format::Fresh | Format::Current => None,
            };
            if let Some((what, folder)) = found {
                self.shared.is_set_aside.store(true, Relaxed);
                log::warn!(
                    "the ledger was written by {what} moved to {folder}. What keys, accounts and teams had spent is there \
                     and counts against no limit"
                );
            }
            self.checked = true;
        }
        let log_bytes = self.shared.settings.log_bytes;
        let opened = match self.damaged {
            true => Err(Fault::Damaged("found by a commit".to_owned())),
            false => Ledger::open(disk, log_bytes),
        };
        let ledger = match opened {
            Err(Fault::Damaged(what)) => {
                let folder = directory::set_aside_database(&**disk, now.unix_ms)?;
                self.damaged = false;
                self.shared.is_set_aside.store(true, Relaxed);
                log::error!(
                    "the ledger's database cannot be read ({what}); it was moved to {folder}, a new one begins. What keys, \
                     accounts and teams had spent is in the old one: a start counts none of it against their limits"
                );
                let ledger = Ledger::open(disk, log_bytes)?;
                ledger.put_blobs(self.shared.blobs.lock().make_contiguous())?;
                ledger
            }
            opened => opened?,
        };
        if !self.recovered {
            self.recover(&ledger, now)?;
            self.log_recovery();
        }
        self.shared.ledger.store(Some(Arc::new(ledger)));
        Ok(())
    }

    fn recover(&mut self, ledger: &Ledger, now: Now) -> Result<(), Fault> {
        let shared = &self.shared;
        let left_over = recovery::find(&*shared.disk, &shared.journal, ledger)?;
        let found = left_over.recovery;
        // No segment is deleted while something without a journal position waits: these are stored first.
        for entry in left_over.started.into_iter().filter_map(|entry| (shared.settings.interrupted)(entry)) {
            shared.queue.push(Item::Entry(Packed::new(&entry)), None, now.instant);
        }
        shared.recovery.store(Arc::new(found));
        shared.journal.adopt(left_over.segments);
        shared.queue.set_spilled(true);
        self.recovered = true;
        Ok(())
    }

    fn log_recovery(&self) {
        let found = **self.shared.recovery.load();
        if found.segments > 0 {
            log::info!(
                "the ledger's journal held {} entries that were not stored yet and {} that had begun; {} of {} segments \
                 had a torn end, {} bytes in all",
                found.entries,
                found.interrupted,
                found.torn,
                found.segments,
                found.torn_bytes
            );
        }
    }

    /// Reads what the queue had no room for, as far as it has room now.
    fn read_back(&self, now: Now) -> Result<(), Fault> {
        let load = self.shared.queue.load();
        if !load.spilled || load.items > self.shared.settings.queue.items / 2 {
            return Ok(());
        }
        self.shared.queue.set_spilled(false);
        let mut behind = false;
        for segment in self.shared.journal.segments() {
            // What could not be read must not be forgotten.
            let read = if segment.is_behind() { self.read_segment(&segment, now) } else { Ok(()) };
            behind |= segment.is_behind();
            if read.is_err() {
                self.shared.queue.set_spilled(true);
                return read;
            }
        }
        if behind {
            self.shared.queue.set_spilled(true);
        }
        Ok(())
    }

    fn read_segment(&self, segment: &Arc<Segment>, now: Now) -> Result<(), Fault> {
        use std::sync::atomic::Ordering::SeqCst;
        let (mut from, needed) = (segment.queued.load(SeqCst), segment.needed());
        let mut most = READ_AT_ONCE;
        while from < needed {
            let (begin, end) = (from, needed.min(from + most));
            let bytes = self.shared.disk.read_part(&segment.path(), begin..end)?;
            for frame in Frames::new(&bytes, begin).filter(|frame| frame.kind != Kind::Started) {
                let position = Position { segment: Arc::clone(segment), from, to: frame.end };
                from = frame.end;
                if !self.shared.queue.refill(item(&frame), position, now.instant) {
                    return Ok(());
                }
            }
            match from == begin {
                true if end == needed => break,
                // A frame is longer than the part, or all of it are beginnings.
                true => most = needed - from,
                false => most = READ_AT_ONCE,
            }
        }
        if from < needed && segment.queued.load(SeqCst) == from {
            log::error!("{} bytes of the ledger's journal cannot be read back", needed - from);
            let position = Position { segment: Arc::clone(segment), from, to: needed };
            self.shared.queue.refill(Item::Gap, position, now.instant);
        }
        Ok(())
    }

    fn commit(&mut self, now: Now) -> Result<(), Fault> {
        let shared = &self.shared;
        let ledger = shared.database()?;
        if self.retry.is_some() {
            // A commit that was reported as failed may have succeeded.
            let state = ledger.state()?;
            if state.run == shared.run {
                shared.queue.commit(state.ordinal, now.instant);
            }
        }
        let items = shared.queue.hold(BATCH);
        let Some(last) = items.last() else { return Ok(()) };
        ledger.commit(shared.run, &items, &self.forgotten)?;
        shared.queue.commit(last.ordinal, now.instant);
        shared.journal.note_recovery();
        self.forgotten.clear();
        self.delete_segments(now);
        Ok(())
    }

    fn delete_segments(&mut self, now: Now) {
        if self.shared.queue.load().unjournaled == 0 {
            self.forgotten.extend(self.shared.journal.delete_done(now.unix_ms));
        }
    }

    /// Drops some of what is too old or too much. Gives the time of the next look: now, if there may be more to drop.
    fn retain(&mut self, now: Now) -> Result<Instant, Fault> {
        if let Some(at) = self.retention_at.filter(|at| now.instant < *at) {
            return Ok(at);
        }
        let now_ms = self.believed_ms(now);
        let settings = &self.shared.settings;
        let before = |age: Duration| now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let ledger = self.shared.database()?;
        let more = ledger.retain(before(settings.max_age), settings.max_bytes)?
            || ledger.retain_sums(before(settings.max_sum_age))?
            || ledger.give_pages_back()?;
        if more {
            return Ok(now.instant);
        }
        ledger.retain_blobs(now_ms)?;
        self.delete_segments(now);
        let next = now.instant + RETENTION_INTERVAL;
        self.retention_at = Some(next);
        Ok(next)
    }

    /// The time that ages are counted to. A clock that was set forward by more than [`BELIEVED_STEP`] since the first step may be
    /// wrong, and what is dropped does not come back: it is believed at the next start.
    fn believed_ms(&mut self, now: Now) -> i64 {
        let begun = *self.begun.get_or_insert(now);
        let passed = now.instant.saturating_duration_since(begun.instant).saturating_add(BELIEVED_STEP);
        now.unix_ms.min(begun.unix_ms.saturating_add(i64::try_from(passed.as_millis()).unwrap_or(i64::MAX)))
    }

    fn succeeded(&mut self) {
        self.retry = None;
        if self.shared.trouble.swap(None).is_some() {
            log::info!("the ledger's database can be written again");
        }
    }

    fn failed(&mut self, fault: &Fault, now: Now) -> Instant {
        self.shared.queue.release();
        // Readers go on with a database that cannot be written, but not with one that is damaged.
        if matches!(fault, Fault::Damaged(_)) && self.shared.ledger.swap(None).is_some() {
            self.damaged = true;
        }
        if self.shared.trouble.load().is_none() {
            log::error!("the ledger's database cannot be written ({fault}); records wait in the journal and in memory");
            let trouble = Trouble { since_ms: now.unix_ms, reason: fault.to_string() };
            self.shared.trouble.store(Some(Arc::new(trouble)));
        }
        let wait = self.retry.map_or(FIRST_RETRY, |(_, wait)| (wait * 2).min(LONGEST_RETRY));
        let at = now.instant + wait;
        self.retry = Some((at, wait));
        at
    }
}

fn item(frame: &Frame<'_>) -> Item {
    let item = match frame.kind {
        Kind::Entry => frame.entry().map(Item::Entry),
        Kind::Blob => frame.blob().map(|(hash, bytes)| Item::Blob(hash, bytes.into())),
        Kind::Started => None,
    };
    item.unwrap_or(Item::Gap)
}
