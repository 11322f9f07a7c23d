//! The journal: segment files that workers append to.
//!
//! A [`Writer`] belongs to one worker and writes one segment at a time. The kernel has an entry when
//! [`Writer::append`] returns; [`Journal::sync`], called by another thread, makes it durable. Segments are deleted by the
//! engine, not here.

pub mod frame;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::{
    directory::{self, JOURNAL},
    disk::{Disk, DiskFile},
    packed::Packed,
};
use frame::Kind;

/// Wait after a failed write before the disk is tried again, so that a full disk costs a request nothing.
const RETRY_AFTER_MS: i64 = 1_000;

/// A journal file, shared by its writer, the syncing thread and the engine. Counters are bytes from the beginning.
#[derive(Debug)]
pub struct Segment {
    /// Name below the journal folder. Never used twice.
    pub name: String,
    /// `None` for a segment that an earlier process wrote.
    file: Option<Box<dyn DiskFile>>,
    /// End of the last frame that the kernel has.
    written: AtomicU64,
    /// End of the last frame that is durable.
    synced: AtomicU64,
    /// End of the last frame that has to reach the database; frames of started entries do not.
    needed: AtomicU64,
    /// End of the last frame that was put into the queue. Changed under the lock of the queue only.
    pub queued: AtomicU64,
    /// End of the last frame that the database holds.
    pub committed: AtomicU64,
    /// No more frames will be written.
    sealed: AtomicBool,
    /// Holds bytes that are no frames and not just a torn end: the file is set aside instead of deleted.
    damaged: bool,
    /// Entries whose beginning is recorded here, and which are still running.
    running: AtomicUsize,
}

impl Segment {
    /// A segment that an earlier process left, of which the database holds everything before `committed`.
    pub fn left_over(name: String, needed: u64, committed: u64, damaged: bool) -> Segment {
        Segment {
            name,
            file: None,
            written: AtomicU64::new(needed),
            synced: AtomicU64::new(needed),
            needed: AtomicU64::new(needed),
            queued: AtomicU64::new(committed),
            committed: AtomicU64::new(committed),
            sealed: AtomicBool::new(true),
            damaged,
            running: AtomicUsize::new(0),
        }
    }

    fn fresh(name: String, file: Box<dyn DiskFile>) -> Segment {
        let segment = Segment { file: Some(file), ..Segment::left_over(name, 0, 0, false) };
        segment.sealed.store(false, SeqCst);
        segment
    }

    /// Path below the directory of the store.
    pub fn path(&self) -> String {
        format!("{JOURNAL}/{}", self.name)
    }

    /// Whether frames wait in the file that were not put into the queue.
    pub fn is_behind(&self) -> bool {
        self.queued.load(SeqCst) < self.needed.load(SeqCst)
    }

    /// End of the last frame that has to reach the database.
    pub fn needed(&self) -> u64 {
        self.needed.load(SeqCst)
    }

    /// End of the last frame that the kernel has.
    pub fn written(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// Whether everything up to `end` is durable.
    pub fn is_synced(&self, end: u64) -> bool {
        self.synced.load(SeqCst) >= end
    }

    /// Whether nobody needs the file any more.
    pub fn is_done(&self) -> bool {
        // Read in this order: a writer raises `needed` and `running` before it seals.
        self.sealed.load(SeqCst)
            && self.running.load(SeqCst) == 0
            && self.committed.load(SeqCst) >= self.needed.load(SeqCst)
    }

    fn sync(&self) -> io::Result<()> {
        let written = self.written.load(SeqCst);
        let Some(file) = self.file.as_ref().filter(|_| !self.is_synced(written)) else { return Ok(()) };
        file.sync()?;
        self.synced.fetch_max(written, SeqCst);
        Ok(())
    }
}

/// Where a frame lies. Frames of one segment are put into the queue in order: `from` is the end of the one before.
#[derive(Debug, Clone)]
pub struct Position {
    /// The file.
    pub segment: Arc<Segment>,
    /// End of the frame before, frames of started entries left out.
    pub from: u64,
    /// End of this frame.
    pub to: u64,
}

/// The recorded beginning of an entry. Its segment is kept until this value is dropped, which must not happen before
/// the finished entry is appended.
#[derive(Debug)]
pub struct Started {
    segment: Arc<Segment>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.segment.running.fetch_sub(1, SeqCst);
    }
}

/// A disk that refuses, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Milliseconds since 1970.
    pub since_ms: i64,
    /// What the system said.
    pub reason: String,
}

/// All segments of this process.
pub struct Journal {
    disk: Arc<dyn Disk>,
    /// Begins the names of segments: tells processes apart.
    prefix: String,
    segment_bytes: u64,
    /// Most bytes of all segments.
    most_bytes: u64,
    segments: Mutex<Vec<Arc<Segment>>>,
    next: AtomicU64,
    trouble: ArcSwapOption<Trouble>,
    sync_failed: AtomicBool,
}

impl Journal {
    /// A journal without segments. `run` must differ from that of every earlier journal with segments left.
    pub fn new(disk: Arc<dyn Disk>, start_ms: i64, run: u64, (segment_bytes, most_bytes): (u64, u64)) -> Journal {
        let prefix = format!("{:014}-{run:016x}", start_ms.max(0));
        let segments = Mutex::new(Vec::new());
        Journal {
            disk,
            prefix,
            segment_bytes,
            most_bytes,
            segments,
            next: AtomicU64::new(0),
            trouble: ArcSwapOption::empty(),
            sync_failed: AtomicBool::new(false),
        }
    }

    /// A writer for one thread.
    #[must_use]
    pub fn writer(self: &Arc<Journal>, worker: u16) -> Writer {
        let journal = Arc::clone(self);
        Writer { journal, worker, segment: None, end: 0, from: 0, buffer: Vec::new(), failed: None }
    }

    /// Whether this journal writes, or wrote, the segment of this name.
    pub fn is_own(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The disk refused for one segment; the others are durable.
    pub fn sync(&self, now_ms: i64) -> io::Result<()> {
        let mut result = Ok(());
        for segment in self.segments() {
            // One that fails does not keep the others waiting.
            result = result.and(segment.sync());
        }
        match &result {
            Ok(()) if self.sync_failed.swap(false, SeqCst) => self.trouble.store(None),
            Err(error) if !self.sync_failed.swap(true, SeqCst) => {
                log::error!("the ledger's journal cannot be made durable ({error}); it is tried again");
                let reason = format!("the journal cannot be made durable: {error}");
                self.trouble.store(Some(Arc::new(Trouble { since_ms: now_ms, reason })));
            }
            _ => {}
        }
        result
    }

    /// The segments that have not been deleted.
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.lock().clone()
    }

    /// Adds segments that an earlier process left.
    pub fn adopt(&self, left_over: Vec<Arc<Segment>>) {
        self.segments.lock().extend(left_over);
    }

    /// Deletes the files that nobody needs, and gives their names. A file that cannot be deleted is tried again later.
    pub fn delete_done(&self, now_ms: i64) -> Vec<String> {
        let done: Vec<Arc<Segment>> = self.segments().into_iter().filter(|segment| segment.is_done()).collect();
        let gone = |segment: &&Arc<Segment>| match self.discard(segment, now_ms) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let gone: Vec<String> = done.iter().filter(gone).map(|segment| segment.name.clone()).collect();
        self.segments.lock().retain(|segment| !gone.contains(&segment.name));
        gone
    }

    fn discard(&self, segment: &Segment, now_ms: i64) -> io::Result<()> {
        if !segment.damaged {
            return self.disk.remove(&segment.path());
        }
        let folder = directory::set_aside(&*self.disk, &segment.path(), now_ms)?;
        log::warn!("a damaged segment of the ledger's journal was moved to {folder}");
        Ok(())
    }

    /// Notes that the disk takes writes again, although nothing was journaled since it failed.
    pub fn note_recovery(&self) {
        if !self.sync_failed.load(SeqCst) {
            self.trouble.store(None);
        }
    }

    /// Why entries are not journaled at present.
    pub fn trouble(&self) -> Option<Arc<Trouble>> {
        self.trouble.load_full()
    }
}

/// Appends the entries of one worker. When it is dropped its segment is sealed.
pub struct Writer {
    journal: Arc<Journal>,
    worker: u16,
    segment: Option<Arc<Segment>>,
    /// End of the last frame of the segment.
    end: u64,
    /// End of the last frame that has to reach the database.
    from: u64,
    buffer: Vec<u8>,
    failed: Option<(i64, io::ErrorKind)>,
}

impl Writer {
    /// Writes a finished entry: one `write` call, and now and then a new file.
    ///
    /// # Errors
    /// The entry is too long, the disk refuses, or refused within the last second.
    pub fn append(&mut self, entry: &Packed, now_ms: i64) -> io::Result<Position> {
        self.buffer.clear();
        let fits = frame::put_entry(&mut self.buffer, Kind::Entry, entry);
        self.write_needed(fits, now_ms)
    }

    /// Writes finished entries: one `write` call, and now and then a new file. Gives the place of each, in order; an entry that
    /// is too long has none.
    ///
    /// # Errors
    /// The disk refuses, or refused within the last second.
    pub fn append_all<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a Packed>,
        now_ms: i64,
    ) -> io::Result<Vec<Option<Position>>> {
        self.buffer.clear();
        let put = |entry: &Packed| {
            let fits = frame::put_entry(&mut self.buffer, Kind::Entry, entry);
            fits.then_some(self.buffer.len() as u64)
        };
        let ends: Vec<Option<u64>> = entries.map(put).collect();
        let segment = self.write(!self.buffer.is_empty(), now_ms)?;
        let start = self.end - self.buffer.len() as u64;
        let mut place = |end: u64| {
            let (from, to) = (self.from, start + end);
            self.from = to;
            Position { from, to, segment: Arc::clone(&segment) }
        };
        let positions = ends.into_iter().map(|end| end.map(&mut place)).collect();
        segment.written.store(self.end, SeqCst);
        segment.needed.store(self.end, SeqCst);
        Ok(positions)
    }

    /// Writes a blob.
    ///
    /// # Errors
    /// As for [`Writer::append`].
    pub fn append_blob(&mut self, hash: &[u8; 32], bytes: &[u8], now_ms: i64) -> io::Result<Position> {
        self.buffer.clear();
        let fits = frame::put_blob(&mut self.buffer, hash, bytes);
        self.write_needed(fits, now_ms)
    }

    /// Writes that an entry has begun. If the process ends before the entry is finished, the next one is given `entry`.
    ///
    /// # Errors
    /// As for [`Writer::append`].
    pub fn start(&mut self, entry: &Packed, now_ms: i64) -> io::Result<Started> {
        self.buffer.clear();
        let fits = frame::put_entry(&mut self.buffer, Kind::Started, entry);
        let segment = self.write(fits, now_ms)?;
        segment.running.fetch_add(1, SeqCst);
        segment.written.store(self.end, SeqCst);
        Ok(Started { segment })
    }

    fn write_needed(&mut self, fits: bool, now_ms: i64) -> io::Result<Position> {
        let segment = self.write(fits, now_ms)?;
        let position = Position { from: self.from, to: self.end, segment };
        self.from = self.end;
        position.segment.written.store(self.end, SeqCst);
        position.segment.needed.store(self.end, SeqCst);
        Ok(position)
    }

    /// Writes the buffer, and gives the segment it went to.
    fn write(&mut self, fits: bool, now_ms: i64) -> io::Result<Arc<Segment>> {
        if !fits {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the record is longer than a frame may be"));
        }
        if let Some((at, kind)) = self.failed
            && (at..at.saturating_add(RETRY_AFTER_MS)).contains(&now_ms)
        {
            return Err(kind.into());
        }
        let written = self.write_now();
        match &written {
            Ok(_) if self.failed.take().is_some() => {
                log::info!("the ledger's journal can be written again");
                self.journal.trouble.store(None);
            }
            Ok(_) => {}
            Err(error) => self.note(error, now_ms),
        }
        written
    }

    fn write_now(&mut self) -> io::Result<Arc<Segment>> {
        if self.end >= self.journal.segment_bytes {
            self.seal();
        }
        let segment = match &self.segment {
            Some(segment) => Arc::clone(segment),
            None => self.begin()?,
        };
        let file = segment.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        if let Err(error) = file.write_at(self.end, &self.buffer) {
            // Part of the frame may lie there. Nothing is written after it.
            let _ = file.set_length(self.end);
            self.seal();
            return Err(error);
        }
        self.end += self.buffer.len() as u64;
        Ok(segment)
    }

    fn begin(&mut self) -> io::Result<Arc<Segment>> {
        let held: u64 = self.journal.segments().iter().map(|segment| segment.written()).sum();
        if held >= self.journal.most_bytes {
            let full = "the database takes nothing, and the journal holds as much as it may";
            return Err(io::Error::new(io::ErrorKind::StorageFull, full));
        }
        let number = self.journal.next.fetch_add(1, SeqCst);
        let name = format!("{}-{}-{number:06}.log", self.journal.prefix, self.worker);
        let file = self.journal.disk.create(&format!("{JOURNAL}/{name}"))?;
        let segment = Arc::new(Segment::fresh(name, file));
        self.journal.segments.lock().push(Arc::clone(&segment));
        (self.end, self.from) = (0, 0);
        self.segment = Some(Arc::clone(&segment));
        Ok(segment)
    }

    fn note(&mut self, error: &io::Error, now_ms: i64) {
        if self.failed.is_none() || self.journal.trouble.load().is_none() {
            log::error!("the ledger's journal cannot be written ({error}); records wait in memory until it can");
            let trouble = Trouble { since_ms: now_ms, reason: format!("the journal cannot be written: {error}") };
            self.journal.trouble.store(Some(Arc::new(trouble)));
        }
        self.failed = Some((now_ms, error.kind()));
    }

    /// Lets the next frame begin a new segment.
    pub fn seal(&mut self) {
        if let Some(segment) = self.segment.take() {
            segment.sealed.store(true, SeqCst);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.seal();
    }
}
