//! Random operations on the store and on a map, over a disk that fails at operation N, with processes killed and power cut.
//!
//! After every restart on a healthy disk: what was promised is there, nothing is there twice or changed, sums count what
//! is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::memory_disk::{Failing, MemoryDisk};
use crate::{
    activity::grouping::Grouping,
    engine::{Engine, Now, Shared},
    entry::{Entry, Facts, Filter, Id},
    facts::{label, number},
    fault::Fault,
    journal::{Started, Writer},
    packed::Packed,
    page::Query,
    queue::{Bounds, Item},
    settings::Settings,
};

const WORKERS: usize = 2;

/// What a loss may not touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kept {
    /// In the memory of the process only.
    Nowhere,
    /// In the kernel.
    Kernel,
    /// On the disk.
    Disk,
}

pub(super) struct World {
    dice: StdRng,
    disk: MemoryDisk,
    pub(super) shared: Arc<Shared>,
    engine: Engine,
    writers: Vec<Writer>,
    running: Vec<(Entry, Started)>,
    /// Begun when a process ended: may come back as interrupted.
    lost_starts: BTreeMap<Id, (Entry, Kept)>,
    entries: BTreeMap<Id, (Entry, Kept)>,
    blobs: BTreeMap<[u8; 32], Kept>,
    now: Now,
    number: u64,
}

fn settings() -> Settings {
    Settings {
        queue: Bounds { items: 24, bytes: 1024 * 1024 },
        settle: Duration::from_secs(2),
        segment_bytes: 3_000,
        interrupted: Arc::new(|entry| Some(Entry { bytes: b"interrupted".to_vec(), ..entry })),
        ..Settings::default()
    }
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let disk = MemoryDisk::new(seed);
        let now = Now { instant: Instant::now(), unix_ms: 1_700_000_000_000 };
        let shared = Shared::new(Arc::new(disk.clone()), settings(), 1, now.unix_ms);
        let writers = (0..WORKERS).map(|worker| shared.journal.writer(worker as u16)).collect();
        World {
            dice: StdRng::seed_from_u64(seed),
            disk,
            engine: Engine::new(Arc::clone(&shared)),
            shared,
            writers,
            running: Vec::new(),
            lost_starts: BTreeMap::new(),
            entries: BTreeMap::new(),
            blobs: BTreeMap::new(),
            now,
            number: 1,
        }
    }

    pub(super) fn entry(&mut self) -> Entry {
        self.number += 1;
        let mut tail = [0; 24];
        self.dice.fill(&mut tail);
        let created_ms = self.now.unix_ms - self.dice.random_range(0..5_000);
        let bytes = vec![self.number as u8; self.dice.random_range(0..700)];
        let facts = Facts {
            labels: vec![(label::MODEL, "model".into())],
            numbers: vec![(number::DURATION_MS, self.number as i64)],
        };
        Entry { id: Id::new((created_ms / 1_000) as u64, tail), created_ms, facts, bytes }
    }

    pub(super) fn act(&mut self) {
        match self.dice.random_range(0..100) {
            0..38 => {
                let entry = self.entry();
                self.append(entry, None);
            }
            38..45 => self.append_several(),
            45..52 => {
                let (entry, writer) = (self.entry(), self.dice.random_range(0..WORKERS));
                if let Ok(started) = self.writers[writer].start(&Packed::new(&entry), self.now.unix_ms) {
                    self.running.push((entry, started));
                }
            }
            52..58 if !self.running.is_empty() => {
                let at = self.dice.random_range(0..self.running.len());
                let (entry, started) = self.running.swap_remove(at);
                self.append(entry, Some(started));
            }
            58..64 => self.sync(),
            64..68 => self.put_blob(),
            68..86 => {
                let all = self.dice.random_bool(0.3);
                self.step(all);
            }
            86..88 => self.writers[0].seal(),
            _ => self.look(),
        }
        let pause = self.dice.random_range(0..400);
        self.pass(Duration::from_millis(pause));
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.unix_ms += time.as_millis() as i64;
    }

    pub(super) fn append(&mut self, entry: Entry, started: Option<Started>) {
        let writer = self.dice.random_range(0..WORKERS);
        let position = self.writers[writer].append(&Packed::new(&entry), self.now.unix_ms).ok();
        drop(started);
        let kept = if position.is_some() { Kept::Kernel } else { Kept::Nowhere };
        self.shared.queue.push(Item::Entry(Packed::new(&entry)), position, self.now.instant);
        self.entries.insert(entry.id, (entry, kept));
    }

    /// Appends entries that end in one turn of an event loop.
    fn append_several(&mut self) {
        let entries: Vec<Entry> = (0..self.dice.random_range(1..9)).map(|_| self.entry()).collect();
        let packed: Vec<Packed> = entries.iter().map(Packed::new).collect();
        let writer = self.dice.random_range(0..WORKERS);
        let positions = self.writers[writer].append_all(packed.iter(), self.now.unix_ms).unwrap_or_default();
        let mut positions = positions.into_iter();
        for (entry, packed) in entries.into_iter().zip(packed) {
            let position = positions.next().flatten();
            let kept = if position.is_some() { Kept::Kernel } else { Kept::Nowhere };
            self.shared.queue.push(Item::Entry(packed), position, self.now.instant);
            self.entries.insert(entry.id, (entry, kept));
        }
    }

    fn put_blob(&mut self) {
        self.number += 1;
        let hash = [self.number as u8; 32];
        let bytes = vec![self.number as u8; 20_000];
        let position = self.writers[0].append_blob(&hash, &bytes, self.now.unix_ms).ok();
        let kept = if position.is_some() { Kept::Kernel } else { Kept::Nowhere };
        self.shared.queue.push(Item::Blob(hash, bytes.into()), position, self.now.instant);
        let known = self.blobs.entry(hash).or_insert(kept);
        *known = kept.max(*known);
    }

    fn sync(&mut self) {
        if self.shared.journal.sync(self.now.unix_ms).is_ok() {
            let journaled = self.entries.values_mut().map(|(_, kept)| kept).chain(self.blobs.values_mut());
            journaled.filter(|kept| **kept == Kept::Kernel).for_each(|kept| *kept = Kept::Disk);
        }
    }

    pub(super) fn step(&mut self, all: bool) {
        self.engine.step(self.now, all);
        let load = self.shared.queue.load();
        // An empty queue: all is committed, but for what had to be dropped.
        if load.items == 0 && !load.spilled && self.shared.queue.dropped() == 0 {
            self.entries.values_mut().for_each(|(_, kept)| *kept = Kept::Disk);
            self.blobs.values_mut().for_each(|kept| *kept = Kept::Disk);
        }
    }

    /// Looks up what is there while the disk may fail: an error is an answer, a wrong entry is not.
    fn look(&mut self) {
        let complete = self.shared.queue.dropped() == 0 && !self.shared.queue.load().spilled;
        for (id, (entry, _)) in &self.entries {
            match self.shared.get(id) {
                Ok(Some(found)) => assert_eq!(found, *entry),
                Ok(None) => assert!(!complete, "{id:?} is gone"),
                Err(Fault::Damaged(what)) => panic!("{what}"),
                Err(_) => {}
            }
        }
    }

    /// The process ends; another begins on a healthy disk.
    pub(super) fn restart(&mut self, cut: bool) {
        self.disk.set_failing(Failing::Nothing);
        let lost = if cut { Kept::Kernel } else { Kept::Nowhere };
        for (entry, started) in self.running.drain(..) {
            self.lost_starts.insert(entry.id, (entry, if cut { Kept::Nowhere } else { Kept::Kernel }));
            std::mem::forget(started);
        }
        let disk = if cut { self.disk.power_cut() } else { self.disk.killed() };
        self.number += 1;
        // Two processes begin in one millisecond: a test of names.
        let shared = Shared::new(Arc::new(disk.clone()), settings(), self.number, self.now.unix_ms);
        self.engine = Engine::new(Arc::clone(&shared));
        self.writers = (0..WORKERS).map(|worker| shared.journal.writer(worker as u16)).collect();
        (self.disk, self.shared) = (disk, shared);
        self.engine.step(self.now, true);
        assert!(self.shared.trouble.load().is_none(), "{:?}", self.shared.trouble.load());
        self.compare(lost);
    }

    /// Compares everything with the model, of which what is no better kept than `lost` may be missing.
    fn compare(&mut self, lost: Kept) {
        let query = Query { limit: usize::MAX, blocks: usize::MAX, ..Query::default() };
        let page = self.shared.page(&query).unwrap();
        assert!(page.entries.is_sorted_by(|a, b| a.key() > b.key()), "out of order, or twice");
        let sums = self.shared.sums(&Grouping::all(0..=i64::MAX / 2)).unwrap();
        let counted: u64 = sums.values().map(|sum| sum.requests).sum();
        let present: BTreeSet<Id> = page.entries.iter().map(|entry| entry.id).collect();
        for entry in page.entries {
            let id = entry.id;
            assert_eq!(self.shared.get(&id).unwrap().as_ref(), Some(&entry));
            match self.entries.get_mut(&id) {
                // Its beginning outlived its end.
                Some((known, kept)) if *kept <= lost && entry.bytes == b"interrupted" => {
                    known.bytes.clone_from(&entry.bytes);
                    assert_eq!(entry, *known);
                }
                Some((known, _)) => assert_eq!(entry, *known),
                None => {
                    let begun = self.lost_starts.get(&id).map(|(begun, _)| begun);
                    let begun = begun.unwrap_or_else(|| panic!("{id:?} was never recorded"));
                    let interrupted = Entry { bytes: b"interrupted".to_vec(), ..begun.clone() };
                    assert_eq!(entry, interrupted);
                    self.entries.insert(id, (interrupted, Kept::Disk));
                }
            }
        }
        assert_eq!(counted, present.len() as u64, "sums");
        self.lost_starts.retain(|id, (_, kept)| {
            assert!(present.contains(id) || *kept <= lost, "{id:?} had begun and is gone");
            false
        });
        self.entries.retain(|id, (_, kept)| {
            assert!(present.contains(id) || *kept <= lost, "{id:?}, kept {kept:?}, is gone");
            present.contains(id)
        });
        let shared = &self.shared;
        self.blobs.retain(|hash, kept| {
            let found = shared.blob(hash).unwrap();
            assert!(found.is_some() || *kept <= lost, "blob {hash:?}, kept {kept:?}, is gone");
            assert!(found.as_ref().is_none_or(|bytes| *bytes == vec![hash[0]; 20_000]));
            found.is_some()
        });
        // What one process saw, the next sees.
        self.entries.values_mut().for_each(|(_, kept)| *kept = Kept::Disk);
        self.blobs.values_mut().for_each(|kept| *kept = Kept::Disk);
    }

    /// The disk heals and time passes, without a restart: everything is there but what was dropped.
    pub(super) fn heal(&mut self) {
        self.disk.set_failing(Failing::Nothing);
        // The longest pause between two tries.
        self.pass(Duration::from_secs(2));
        self.step(true);
        assert!(self.shared.trouble.load().is_none(), "{:?}", self.shared.trouble.load());
        let load = self.shared.queue.load();
        assert_eq!((load.items, load.spilled), (0, false));
        let lost = if self.shared.queue.dropped() == 0 { None } else { Some(Kept::Nowhere) };
        let before = self.entries.len() as u64;
        match lost {
            None => {
                let known: Vec<Id> = self.entries.keys().copied().collect();
                assert!(known.iter().all(|id| self.shared.get(id).unwrap().is_some()), "something is gone");
            }
            Some(lost) => {
                self.compare(lost);
                let missing = before - self.entries.len() as u64;
                assert!(missing <= self.shared.queue.dropped(), "{missing} missing");
            }
        }
    }
}

/// Runs `steps` operations, in which the disk fails from time to time and processes end.
fn run(seed: u64, steps: usize) {
    let mut world = World::new(seed);
    let mut fate = StdRng::seed_from_u64(seed ^ 0xfa7e);
    for _ in 0..4 {
        let at = world.disk.operations() + fate.random_range(0..150);
        world.disk.set_failing(match fate.random_range(0..3) {
            0 => Failing::Nothing,
            1 => Failing::One(at),
            _ => Failing::From(at),
        });
        for _ in 0..steps {
            world.act();
        }
        match fate.random_range(0..3) {
            0 => world.heal(),
            1 => world.restart(false),
            _ => world.restart(true),
        }
    }
    world.restart(false);
}

#[test]
fn whatever_the_disk_does_nothing_promised_is_lost_and_nothing_is_doubled() {
    let seeds = std::env::var("STORE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(16);
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        run(seed, 40);
    }
}

#[test]
fn a_disk_that_fails_at_each_single_operation_loses_nothing() {
    let operations = {
        let mut world = World::new(7);
        (0..60).for_each(|_| world.act());
        world.disk.operations()
    };
    for operation in (0..operations).step_by(7) {
        let mut world = World::new(7);
        world.disk.set_failing(Failing::One(operation));
        (0..60).for_each(|_| world.act());
        world.heal();
        world.restart(false);
    }
}

#[test]
fn a_process_killed_between_journal_and_database_loses_and_doubles_nothing() {
    let mut world = World::new(3);
    world.step(true);
    let entries: Vec<Entry> = (0..20).map(|_| world.entry()).collect();
    entries.iter().for_each(|entry| world.append(entry.clone(), None));
    world.restart(false);
    assert_eq!(world.shared.recovery.load().entries, 20);
    // Stored now; the segments of the first process are gone, and a third process finds nothing to move.
    assert_eq!(world.entries.len(), 20);
    world.restart(false);
    assert_eq!(world.shared.recovery.load().entries, 0);
    assert!(world.disk.names().iter().all(|name| !name.starts_with("journal/")), "{:?}", world.disk.names());
}

#[test]
fn an_entry_that_had_begun_comes_back_as_interrupted_once() {
    let mut world = World::new(4);
    world.step(true);
    let (finished, begun) = (world.entry(), world.entry());
    let started = world.writers[0].start(&Packed::new(&finished), world.now.unix_ms).unwrap();
    world.append(finished, Some(started));
    let started = world.writers[1].start(&Packed::new(&begun), world.now.unix_ms).unwrap();
    world.running.push((begun, started));
    world.restart(false);
    assert_eq!(world.shared.recovery.load().interrupted, 1);
    world.restart(false);
    assert_eq!(world.shared.recovery.load().interrupted, 0);
    let query = Query { limit: 10, blocks: 10, filter: Filter::default(), after: None };
    assert_eq!(world.shared.page(&query).unwrap().entries.len(), 2);
}

#[test]
fn a_full_disk_keeps_entries_in_bounded_memory_drops_the_oldest_and_counts_them() {
    let mut world = World::new(5);
    world.step(true);
    world.disk.set_failing(Failing::From(world.disk.operations()));
    let entries: Vec<Entry> = (0..30).map(|_| world.entry()).collect();
    entries.iter().for_each(|entry| world.append(entry.clone(), None));
    world.pass(Duration::from_secs(5));
    world.step(true);
    let reason = world.shared.trouble.load_full().unwrap().reason.clone();
    assert!(reason.contains("disk"), "{reason}");
    assert!(world.shared.journal.trouble().is_some());
    assert_eq!((world.shared.queue.load().items, world.shared.queue.dropped()), (24, 6));
    world.disk.set_failing(Failing::Nothing);
    world.pass(Duration::from_secs(30));
    world.step(true);
    assert!(world.shared.trouble.load().is_none());
    let stored = entries.iter().filter(|entry| world.shared.get(&entry.id).unwrap().is_some()).count();
    assert_eq!(stored, 24);
    assert!(world.shared.get(&entries[5].id).unwrap().is_none());
    let after = world.entry();
    world.append(after, None);
    assert!(world.shared.journal.trouble().is_none(), "the journal is written again");
}

#[test]
fn what_the_queue_has_no_room_for_is_read_back_from_the_journal() {
    let mut world = World::new(6);
    world.step(true);
    let entries: Vec<Entry> = (0..200).map(|_| world.entry()).collect();
    entries.iter().for_each(|entry| world.append(entry.clone(), None));
    assert_eq!(world.shared.queue.load().items, 24);
    world.heal();
    assert_eq!(world.shared.queue.dropped(), 0);
    assert!(entries.iter().all(|entry| world.shared.get(&entry.id).unwrap().as_ref() == Some(entry)));
}

#[test]
fn a_journal_torn_at_every_byte_of_its_last_frames_keeps_the_frames_before() {
    let build = || {
        let mut world = World::new(8);
        world.step(true);
        let entries: Vec<Entry> = (0..4).map(|_| world.entry()).map(|e| Entry { bytes: vec![1; 20], ..e }).collect();
        let at =
            |entry: &Entry, world: &mut World| world.writers[0].append(&Packed::new(entry), world.now.unix_ms).unwrap();
        let ends: Vec<(String, u64)> = entries
            .iter()
            .map(|entry| at(entry, &mut world))
            .map(|position| (position.segment.path(), position.to))
            .collect();
        (world, entries, ends)
    };
    let (_, _, ends) = build();
    for cut in ends[0].1..=ends[3].1 {
        let (mut world, entries, ends) = build();
        let file = crate::disk::Disk::open(&world.disk, &ends[0].0).unwrap();
        file.set_length(cut).unwrap();
        let whole = ends.iter().filter(|(_, end)| *end <= cut).count();
        for entry in &entries[..whole] {
            world.entries.insert(entry.id, (entry.clone(), Kept::Kernel));
        }
        world.restart(false);
        let recovery = **world.shared.recovery.load();
        let torn = cut - ends[whole - 1].1;
        assert_eq!((recovery.entries, recovery.torn_bytes), (whole as u64, torn), "cut at {cut}");
        assert_eq!(recovery.torn, u64::from(torn > 0));
        assert!(world.disk.names().iter().all(|name| !name.contains("journal")), "{:?}", world.disk.names());
    }
}

#[test]
fn a_damaged_segment_is_set_aside_and_a_newer_format_is_never_destroyed() {
    use crate::{directory::FORMAT, disk::Disk as _};
    let mut world = World::new(9);
    world.step(true);
    let (entries, mut path) = ([world.entry(), world.entry()], String::new());
    for entry in &entries {
        path = world.writers[0].append(&Packed::new(entry), world.now.unix_ms).unwrap().segment.path();
    }
    world.disk.open(&path).unwrap().write_at(12, b"damage").unwrap();
    world.restart(false);
    world.writers.clear();
    let aside: Vec<String> = world.disk.names().into_iter().filter(|name| name.starts_with("set-aside")).collect();
    assert!(aside.len() == 1 && aside[0].ends_with(&path), "{aside:?}");
    world.disk.replace("format", (FORMAT + 1).to_string().as_bytes()).unwrap();
    world.restart(false);
    let names = world.disk.names();
    assert!(names.iter().any(|name| name.starts_with("set-aside") && name.ends_with("/ledger.db")), "{names:?}");
    assert_eq!(world.disk.read("format").unwrap(), FORMAT.to_string().as_bytes());
}

#[test]
fn the_database_of_an_earlier_engine_is_set_aside_once_and_not_changed() {
    use crate::disk::Disk as _;
    let old = b"written by an engine before the first release";
    let mut world = World::new(11);
    std::fs::write(world.disk.folder().join("ledger.redb"), old).unwrap();
    world.step(true);
    assert!(world.shared.is_set_aside.load(std::sync::atomic::Ordering::Relaxed));
    assert!(world.shared.trouble.load().is_none());
    world.restart(false);
    assert!(!world.shared.is_set_aside.load(std::sync::atomic::Ordering::Relaxed));
    let kept: Vec<_> = std::fs::read_dir(world.disk.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let aside = kept.iter().map(|folder| folder.join("ledger.redb")).find(|file| file.exists()).unwrap();
    assert!(aside.to_string_lossy().contains("set-aside-"));
    assert_eq!(std::fs::read(aside).unwrap(), old);
}

#[test]
fn a_database_that_is_no_database_is_set_aside_and_a_new_one_begins() {
    use crate::disk::Disk as _;
    let mut world = World::new(10);
    std::fs::write(world.disk.folder().join("ledger.db"), [7; 9_000]).unwrap();
    world.step(true);
    assert!(world.shared.trouble.load().is_none());
    assert!(world.disk.names().iter().any(|name| name.starts_with("set-aside")));
}

#[test]
fn a_clock_that_is_set_forward_and_back_loses_no_entry_and_doubles_none() {
    for seed in 0..6 {
        let mut world = World::new(seed);
        let mut clock = StdRng::seed_from_u64(seed ^ 0xc10c);
        let mut recorded = 0;
        for step in 0..240 {
            if step % 12 == 0 {
                // Up to a day, as a wrong time zone or a late time server does.
                world.now.unix_ms += clock.random_range(-86_400_000..=86_400_000);
            }
            world.act();
            recorded = recorded.max(world.entries.len());
            assert_eq!(world.shared.queue.dropped(), 0);
            if step % 80 == 79 {
                let before: BTreeSet<Id> = world.entries.keys().copied().collect();
                world.restart(false);
                assert!(before.iter().all(|id| world.entries.contains_key(id)));
            }
        }
        assert!(recorded > 50);
        let labels = world.entries.values().map(|(entry, _)| entry.id).collect::<BTreeSet<_>>();
        assert_eq!(labels.len(), world.entries.len());
    }
}

#[test]
fn a_disk_that_was_full_for_a_minute_holds_everything_two_seconds_after_it_has_room() {
    let mut world = World::new(12);
    world.step(true);
    world.disk.set_failing(Failing::From(world.disk.operations()));
    let end = world.now.instant + Duration::from_secs(60);
    let mut next = world.now.instant;
    for number in 0.. {
        if world.now.instant >= end {
            break;
        }
        if number < 20 {
            let entry = world.entry();
            world.append(entry, None);
        }
        world.pass(Duration::from_millis(100));
        if world.now.instant >= next {
            next = world.engine.step(world.now, false);
        }
    }
    assert!(world.shared.trouble.load().is_some());
    world.disk.set_failing(Failing::Nothing);
    let pause = next.saturating_duration_since(world.now.instant);
    assert!(pause <= Duration::from_secs(2), "{pause:?}");
    world.pass(pause);
    world.engine.step(world.now, false);
    assert_eq!((world.shared.queue.load().items, world.shared.queue.dropped()), (0, 0));
    world.restart(true);
    assert_eq!(world.entries.len(), 20);
}

#[test]
fn a_clock_that_is_set_years_ahead_ages_nothing_out_before_the_next_start() {
    let mut world = World::new(13);
    let year = Duration::from_secs(365 * 86_400).as_millis() as i64;
    for number in 0..10 {
        let entry = world.entry();
        world.append(entry, None);
        world.now.unix_ms += if number == 5 { 10 * year } else { 0 };
        world.pass(Duration::from_secs(100));
        world.step(true);
    }
    assert!(world.entries.keys().all(|id| world.shared.get(id).unwrap().is_some()));
    world.now.unix_ms -= 10 * year;
    world.restart(false);
    assert_eq!(world.entries.len(), 10);
    // Time that passed is believed.
    let mut world = World::new(14);
    let entry = world.entry();
    world.append(entry, None);
    world.step(true);
    world.pass(Duration::from_secs(30 * 86_400));
    world.step(true);
    assert!(world.entries.keys().all(|id| world.shared.get(id).unwrap().is_none()));
}
