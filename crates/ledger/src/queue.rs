//! Entries on their way from the workers to the database: bounded, and visible to readers.
//!
//! A worker puts its entry in after it wrote the journal. The engine looks at the front, commits it, and only then takes it
//! out, so that a reader who looks here first and into the database second misses nothing.
//!
//! When the queue is full, what the journal holds is left to the journal and read back later. Only entries that no
//! journal holds can be lost: the oldest is dropped and counted.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Instant,
};

use parking_lot::{Condvar, Mutex};

use crate::{entry::Id, journal::Position, packed::Packed};

/// Memory that a blob's bookkeeping takes, in bytes.
const BLOB_OVERHEAD: usize = 128;

/// Something to be committed.
#[derive(Debug, Clone)]
pub enum Item {
    /// A finished entry.
    Entry(Packed),
    /// A blob under its hash.
    Blob([u8; 32], Arc<[u8]>),
    /// Bytes of the journal that cannot be read: nothing to store, but the segment may be deleted after them.
    Gap,
}

impl Item {
    fn weight(&self) -> usize {
        match self {
            Item::Entry(entry) => entry.weight(),
            Item::Blob(_, bytes) => BLOB_OVERHEAD + bytes.len(),
            Item::Gap => 0,
        }
    }
}

/// Hashes ids, which are random at their end, in a few instructions.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).chain(rest.iter().map(|byte| u64::from(*byte)));
        self.0 = words.fold(self.0, |sum, word| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// An item of the queue.
#[derive(Debug, Clone)]
pub struct Queued {
    /// What is to be committed.
    pub item: Item,
    /// Where the journal holds it.
    pub position: Option<Position>,
    /// Counts the items of this process, from 1.
    pub ordinal: u64,
}

/// Most that the queue holds.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Items.
    pub items: usize,
    /// Their estimated memory, in bytes.
    pub bytes: usize,
}

#[derive(Default)]
struct State {
    items: VecDeque<Queued>,
    /// The ordinal of each entry.
    ordinals: HashMap<Id, u64, BuildHasherDefault<IdHasher>>,
    blobs: HashMap<[u8; 32], Arc<[u8]>>,
    bytes: usize,
    ordinal: u64,
    /// Length of the front that is being committed and must stay.
    held: usize,
    /// When the oldest item came.
    oldest: Option<Instant>,
    /// Items without a journal position.
    unjournaled: usize,
    /// Positions were left to the journal.
    spilled: bool,
    /// The engine sleeps until something comes.
    idle: bool,
    /// The engine knows that there is a batch.
    is_batch: bool,
    /// Somebody asked the engine to act at once.
    called: bool,
}

impl State {
    fn is_over(&self, bounds: Bounds, weight: usize) -> bool {
        // An empty queue takes an item of any size, or that item would never come through.
        !self.items.is_empty() && (self.items.len() >= bounds.items || self.bytes + weight > bounds.bytes)
    }

    fn insert(&mut self, item: Item, position: Option<Position>, now: Instant) {
        self.bytes += item.weight();
        self.unjournaled += usize::from(position.is_none());
        self.ordinal += 1;
        let ordinal = self.ordinal;
        match &item {
            Item::Entry(entry) => drop(self.ordinals.insert(*entry.id(), ordinal)),
            Item::Blob(hash, bytes) => drop(self.blobs.insert(*hash, Arc::clone(bytes))),
            Item::Gap => {}
        }
        if let Some(position) = &position {
            position.segment.queued.store(position.to, SeqCst);
        }
        self.oldest.get_or_insert(now);
        self.items.push_back(Queued { item, position, ordinal });
    }

    fn forget(&mut self, queued: &Queued) {
        self.bytes = self.bytes.saturating_sub(queued.item.weight());
        self.unjournaled -= usize::from(queued.position.is_none());
        match &queued.item {
            // An entry that came twice is found in its later place.
            Item::Entry(entry) if self.ordinals.get(entry.id()) == Some(&queued.ordinal) => {
                self.ordinals.remove(entry.id());
            }
            Item::Entry(_) | Item::Gap => {}
            // Several workers bring the same blob.
            Item::Blob(hash, bytes) if self.blobs.get(hash).is_some_and(|kept| Arc::ptr_eq(kept, bytes)) => {
                self.blobs.remove(hash);
            }
            Item::Blob(..) => {}
        }
    }

    /// Makes room for an item that no journal holds. Gives the number of entries lost: none or one. `None` if nothing may go:
    /// without a blob all entries that refer to it would be lost.
    fn evict(&mut self) -> Option<u64> {
        // The last item with a position is the last of its segment, so that the segment can be read on from there.
        let held = self.held;
        let journaled = self.items.iter().rposition(|queued| queued.position.is_some()).filter(|at| *at >= held);
        let is_entry = |queued: &Queued| matches!(queued.item, Item::Entry(_));
        let oldest = || self.items.range(held..).position(is_entry).map(|at| held + at);
        let at = journaled.or_else(oldest)?;
        let gone = self.items.remove(at)?;
        self.forget(&gone);
        let Some(position) = gone.position else { return Some(1) };
        position.segment.queued.store(position.from, SeqCst);
        self.spilled = true;
        Some(0)
    }
}

/// What the engine needs to decide whether to act.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Items waiting.
    pub items: usize,
    /// Items of which the journal has no copy.
    pub unjournaled: usize,
    /// When the oldest came.
    pub oldest: Option<Instant>,
    /// Whether the journal holds items that the queue had no room for.
    pub spilled: bool,
    /// Whether the items are worth committing at once.
    pub is_batch: bool,
}

/// The queue.
pub struct Queue {
    state: Mutex<State>,
    work: Condvar,
    bounds: Bounds,
    /// Items that make a batch worth committing at once.
    batch: usize,
    dropped: AtomicU64,
}

impl Queue {
    /// An empty queue. `batch` items wake the engine.
    pub fn new(bounds: Bounds, batch: usize) -> Queue {
        Queue { state: Mutex::default(), work: Condvar::new(), bounds, batch, dropped: AtomicU64::new(0) }
    }

    /// Puts an item in. Never waits for the disk.
    pub fn push(&self, item: Item, position: Option<Position>, now: Instant) {
        let mut state = self.state.lock();
        let full = state.is_over(self.bounds, item.weight());
        match position {
            Some(position) if full || position.segment.queued.load(SeqCst) != position.from => state.spilled = true,
            Some(position) => state.insert(item, Some(position), now),
            None => {
                while state.is_over(self.bounds, item.weight()) {
                    let Some(lost) = state.evict() else { break };
                    self.dropped.fetch_add(lost, SeqCst);
                }
                state.insert(item, None, now);
                // The engine may have planned to sleep for longer than such an item may wait.
                state.called |= state.unjournaled == 1;
            }
        }
        // Told once: when the item came that made the batch.
        let is_batch = self.is_batch(&state) && !state.is_batch;
        state.is_batch |= is_batch;
        state.called |= is_batch;
        if state.idle || state.called {
            state.idle = false;
            self.work.notify_one();
        }
    }

    /// Puts an item back in that the journal held. `false` if there is no room or it does not follow the one before.
    pub fn refill(&self, item: Item, position: Position, now: Instant) -> bool {
        let mut state = self.state.lock();
        let fits = !state.is_over(self.bounds, item.weight()) && position.segment.queued.load(SeqCst) == position.from;
        if fits {
            state.insert(item, Some(position), now);
        }
        fits
    }

    /// Notes that the journal holds more, or no more, than the queue was given.
    pub fn set_spilled(&self, spilled: bool) {
        self.state.lock().spilled = spilled;
    }

    /// The first items, at most `limit`. They stay until [`Queue::commit`] or [`Queue::release`].
    pub fn hold(&self, limit: usize) -> Vec<Queued> {
        let mut state = self.state.lock();
        let front: Vec<Queued> = state.items.iter().take(limit).cloned().collect();
        state.held = front.len();
        front
    }

    /// Takes out everything up to an ordinal: the database holds it.
    pub fn commit(&self, ordinal: u64, now: Instant) {
        let mut state = self.state.lock();
        state.held = 0;
        while let Some(queued) = state.items.pop_front_if(|queued| queued.ordinal <= ordinal) {
            state.forget(&queued);
            if let Some(position) = &queued.position {
                position.segment.committed.fetch_max(position.to, SeqCst);
            }
        }
        state.oldest = (!state.items.is_empty()).then_some(now);
        state.is_batch = self.is_batch(&state);
    }

    /// Keeps the held items for another attempt.
    pub fn release(&self) {
        self.state.lock().held = 0;
    }

    /// How much waits.
    pub fn load(&self) -> Load {
        let state = self.state.lock();
        Load {
            items: state.items.len(),
            unjournaled: state.unjournaled,
            oldest: state.oldest,
            spilled: state.spilled,
            is_batch: self.is_batch(&state),
        }
    }

    fn is_batch(&self, state: &State) -> bool {
        state.items.len() >= self.batch || state.bytes >= self.bounds.bytes / 4
    }

    /// Whether so many more entries of average size are within the bounds.
    pub fn has_room_for(&self, entries: usize) -> bool {
        let state = self.state.lock();
        let average = state.bytes / state.items.len().max(1);
        state.items.len() + entries < self.bounds.items && state.bytes + average * entries < self.bounds.bytes
    }

    /// Entries lost because the queue was full and no journal held them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(SeqCst)
    }

    /// The entry with this id, if it waits.
    pub fn entry(&self, id: &Id) -> Option<Packed> {
        let state = self.state.lock();
        let ordinal = state.ordinals.get(id)?;
        let at = state.items.binary_search_by_key(ordinal, |queued| queued.ordinal).ok()?;
        match &state.items.get(at)?.item {
            Item::Entry(entry) => Some(entry.clone()),
            Item::Blob(..) | Item::Gap => None,
        }
    }

    /// The blob with this hash, if it waits.
    pub fn blob(&self, hash: &[u8; 32]) -> Option<Arc<[u8]>> {
        self.state.lock().blobs.get(hash).cloned()
    }

    /// All entries that wait, with their ordinals.
    pub fn entries(&self) -> Vec<(u64, Packed)> {
        self.entries_after(0, usize::MAX)
    }

    /// At most `most` of the first entries with a greater ordinal than `after`.
    pub fn entries_after(&self, after: u64, most: usize) -> Vec<(u64, Packed)> {
        let state = self.state.lock();
        let from = state.items.partition_point(|queued| queued.ordinal <= after);
        let entry = |queued: &Queued| match &queued.item {
            Item::Entry(entry) => Some((queued.ordinal, entry.clone())),
            Item::Blob(..) | Item::Gap => None,
        };
        state.items.range(from..).filter_map(entry).take(most).collect()
    }

    /// Wakes the engine, also when nothing waits.
    pub fn call(&self) {
        self.state.lock().called = true;
        self.work.notify_one();
    }

    /// Sleeps until `deadline`, a full batch or a call; an `idle` engine, until anything comes. May return early.
    pub fn wait(&self, deadline: Instant, idle: bool) {
        let mut state = self.state.lock();
        let awaited = state.called || (idle && !state.items.is_empty());
        if !awaited {
            state.idle = idle;
            self.work.wait_until(&mut state, deadline);
        }
        (state.called, state.idle) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::entry::{Entry, Facts};

    fn entry(number: u64) -> Packed {
        let mut tail = [0; 24];
        tail[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        Packed::new(&Entry { id: Id::new(7, tail), created_ms: 7, facts: Facts::default(), bytes: vec![0; 8] })
    }

    fn queue(items: usize, batch: usize) -> Queue {
        Queue::new(Bounds { items, bytes: 1024 * 1024 }, batch)
    }

    #[test]
    fn a_full_queue_finds_exactly_the_entries_that_it_still_holds() {
        let queue = queue(5, 100);
        let entries: Vec<Packed> = (0..9).map(entry).collect();
        for (at, entry) in entries.iter().enumerate() {
            // The third is being committed: what comes later is dropped from behind it.
            if at == 3 {
                assert_eq!(queue.hold(3).len(), 3);
            }
            queue.push(Item::Entry(entry.clone()), None, Instant::now());
        }
        let found: Vec<usize> = (0..9).filter(|at| queue.entry(entries[*at].id()).is_some()).collect();
        assert_eq!(found, [0, 1, 2, 7, 8]);
        assert_eq!(queue.dropped(), 4);
        let other = entry(99);
        assert_eq!(queue.entry(other.id()), None);
        assert_eq!(queue.state.lock().ordinals.len(), 5, "what is gone is forgotten");
        assert_eq!(queue.entry(entries[7].id()).as_ref(), Some(&entries[7]));
    }

    #[test]
    fn a_full_queue_drops_entries_and_keeps_the_blobs_that_they_refer_to() {
        let queue = queue(3, 100);
        let blob = Item::Blob([7; 32], Arc::from(&b"catalog"[..]));
        queue.push(blob.clone(), None, Instant::now());
        (0..9).for_each(|number| queue.push(Item::Entry(entry(number)), None, Instant::now()));
        assert_eq!(queue.blob(&[7; 32]).as_deref(), Some(&b"catalog"[..]));
        assert_eq!((queue.dropped(), queue.load().items), (7, 3));
        // Of two copies the first is committed.
        queue.push(Item::Blob([7; 32], Arc::from(&b"catalog"[..])), None, Instant::now());
        queue.commit(1, Instant::now());
        assert!(queue.blob(&[7; 32]).is_some());
    }

    #[test]
    fn a_batch_that_is_complete_before_the_engine_waits_is_told_once() {
        let queue = queue(100, 4);
        (0..6).for_each(|number| queue.push(Item::Entry(entry(number)), None, Instant::now()));
        assert!(queue.load().is_batch);
        let started = Instant::now();
        queue.wait(started + Duration::from_secs(30), false);
        assert!(started.elapsed() < Duration::from_secs(20), "it waited although there was a batch");
        // A disk that fails must not be asked again and again: the engine waits although the batch is still there.
        let pause = Duration::from_millis(30);
        let started = Instant::now();
        queue.wait(started + pause, false);
        assert!(started.elapsed() >= pause);
    }
}
