//! How long blobs are kept.

use std::sync::Arc;

use super::memory_disk::MemoryDisk;
use crate::{
    database::Ledger,
    disk::Disk,
    entry::{Entry, Facts, Id},
    packed::Packed,
    queue::{Item, Queued},
    record::FORMAT,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Blobs that are kept although no entry refers to them.
const ALWAYS_KEPT: i64 = 16;

/// A record that refers to blob `number`, as its catalogue and its policy.
fn record(number: u8) -> Vec<u8> {
    [&[FORMAT][..], &[number; 64], &[number; 8]].concat()
}

struct Shelf {
    ledger: Ledger,
    ordinal: u64,
}

impl Shelf {
    fn new() -> Shelf {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(7));
        Shelf { ledger: Ledger::open(&disk, u64::MAX).unwrap(), ordinal: 0 }
    }

    fn commit(&mut self, items: impl IntoIterator<Item = Item>) {
        let queued = |item| {
            self.ordinal += 1;
            Queued { item, position: None, ordinal: self.ordinal }
        };
        let items: Vec<Queued> = items.into_iter().map(queued).collect();
        self.ledger.commit(1, &items, &[]).unwrap();
    }

    /// Stores blob `number`.
    fn put(&mut self, number: u8) {
        self.commit([Item::Blob([number; 32], Arc::from(vec![number; 20_000]))]);
    }

    /// Stores some entries. They refer to blob `number`.
    fn refer(&mut self, number: u8, day: i64) {
        let entry = |at: i64| {
            let created_ms = day * DAY_MS + at;
            let tail = [number; 24];
            let id = Id::new((created_ms / 1_000) as u64, tail);
            Item::Entry(Packed::new(&Entry { id, created_ms, facts: Facts::default(), bytes: record(number) }))
        };
        self.commit((0..40).map(entry));
    }

    fn has(&self, number: u8) -> bool {
        self.ledger.view().unwrap().blob(&[number; 32]).unwrap().is_some()
    }
}

#[test]
fn a_blob_is_dropped_a_day_after_the_last_entry_that_refers_to_it_but_the_sixteen_used_last_stay() {
    let mut shelf = Shelf::new();
    for number in 0..20 {
        shelf.put(number);
        shelf.refer(number, i64::from(number) * 10);
    }
    // The first blob is used again.
    shelf.refer(0, 200);
    assert_eq!(shelf.ledger.retain_blobs(201 * DAY_MS).unwrap(), 0, "every blob has entries");
    while shelf.ledger.retain(15 * DAY_MS, u64::MAX).unwrap() {}
    assert_eq!(shelf.ledger.retain_blobs(201 * DAY_MS).unwrap(), 1);
    assert!(!shelf.has(1) && shelf.has(0) && shelf.has(2));
    while shelf.ledger.retain(195 * DAY_MS, u64::MAX).unwrap() {}
    // Nothing but the entries of blob 0 is left: with it the sixteen used last stay.
    assert_eq!(shelf.ledger.retain_blobs(201 * DAY_MS).unwrap(), 3);
    assert_eq!((0..20).filter(|number| shelf.has(*number)).count() as i64, ALWAYS_KEPT);
    assert!(shelf.has(0) && !shelf.has(4) && shelf.has(5));
    // A dropped blob can be stored again.
    shelf.put(1);
    assert!(shelf.has(1));
}

#[test]
fn the_day_counts_from_the_oldest_entry_that_is_left() {
    let mut shelf = Shelf::new();
    (0..20).for_each(|number| shelf.put(number));
    shelf.refer(0, 0);
    (1..20).for_each(|number| shelf.refer(number, 1));
    while shelf.ledger.retain(DAY_MS / 2, u64::MAX).unwrap() {}
    assert_eq!(shelf.ledger.retain_blobs(90 * DAY_MS).unwrap(), 0, "entries of the same day may still be on their way");
    while shelf.ledger.retain(2 * DAY_MS, u64::MAX).unwrap() {}
    assert_eq!(shelf.ledger.retain_blobs(90 * DAY_MS).unwrap(), 4);
    assert!(!shelf.has(0));
}

#[test]
fn a_blob_that_nothing_has_referred_to_is_as_old_as_the_first_look_at_it() {
    let mut shelf = Shelf::new();
    (0..20).for_each(|number| shelf.put(number));
    assert_eq!(shelf.ledger.retain_blobs(10 * DAY_MS).unwrap(), 0);
    assert_eq!(shelf.ledger.retain_blobs(11 * DAY_MS).unwrap(), 0);
    assert_eq!(shelf.ledger.retain_blobs(11 * DAY_MS + 1).unwrap(), 4);
}

#[test]
fn a_blob_that_is_stored_again_stays_until_entries_refer_to_it() {
    let mut shelf = Shelf::new();
    for number in 0..20 {
        shelf.put(number);
        shelf.refer(number, i64::from(number) * 10);
    }
    while shelf.ledger.retain(185 * DAY_MS, u64::MAX).unwrap() {}
    shelf.put(0);
    assert_eq!(shelf.ledger.retain_blobs(195 * DAY_MS).unwrap(), 3);
    assert!(shelf.has(0) && !shelf.has(1));
    assert_eq!(shelf.ledger.retain_blobs(195 * DAY_MS).unwrap(), 1, "of the seventeen that are left");
    assert!(shelf.has(0) && !shelf.has(4));
}
