//! A damaged block costs its own entries only, and a verification names it and every sum that is not what the entries give.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use redb::{ReadableTable as _, TableDefinition};

use super::memory_disk::{Failing, MemoryDisk};
use crate::{
    database::{INDEXES, PAYLOADS},
    disk::Disk as _,
    engine::{Engine, Now, Shared},
    entry::{Entry, Facts, Filter, Id, RollUp},
    facts_view::FactsView,
    packed::Packed,
    page::{self, Query},
    queue::Item,
    settings::Settings,
    verify::{self, Checks, Difference, Verification},
};

const START_MS: i64 = 1_700_000_100_000;
/// One block of 256 entries, 6 seconds from one to the next.
const BLOCK_MS: i64 = 256 * 6_000;
const SUMS: TableDefinition<'_, (i64, &[u8]), &[u8]> = TableDefinition::new("sums");

struct Count;

impl RollUp for Count {
    fn key(&self, _: &FactsView<'_>, key: &mut Vec<u8>) -> bool {
        key.extend(b"all");
        true
    }

    fn count(&self, _: &FactsView<'_>, sum: &mut Vec<u8>) {
        let counted = if sum.is_empty() { 0 } else { number(sum) };
        *sum = (counted + 1).to_le_bytes().to_vec();
    }

    fn merge(&self, sum: &mut Vec<u8>, more: &[u8]) {
        *sum = (number(sum) + number(more)).to_le_bytes().to_vec();
    }

    fn blobs(&self, _: &[u8]) -> [Option<[u8; 32]>; 2] {
        [None; 2]
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

struct Words;

impl Checks for Words {
    fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        (entry.bytes != b"bad").then_some(()).ok_or_else(|| "record is bad".to_owned())
    }

    fn blob(&mut self, _: &[u8; 32], bytes: &[u8]) -> Result<(), String> {
        (bytes != b"bad").then_some(()).ok_or_else(|| "is bad".to_owned())
    }

    fn difference(&self, found: &Difference<'_>) -> String {
        format!("{} {:?} {:?}", found.slot_ms, found.stored.map(number), found.counted.map(number))
    }

    fn progress(&mut self, _: u64) {}
}

struct Shelf {
    disk: MemoryDisk,
    shared: Arc<Shared>,
    engine: Engine,
    run: u64,
}

fn settings() -> Settings {
    Settings { sums: Arc::new(Count), ..Settings::default() }
}

fn now() -> Now {
    Now { instant: Instant::now(), unix_ms: START_MS + 4 * BLOCK_MS }
}

fn entry(at: i64) -> Entry {
    let created_ms = START_MS + at * 6_000;
    let facts = Facts { labels: vec![(0, if at % 2 == 0 { "even" } else { "odd" }.into())], numbers: Vec::new() };
    let mut tail = [0; 24];
    tail[..8].copy_from_slice(&at.wrapping_mul(0x5851_f42d_4c95_7f2d).to_be_bytes());
    let bytes = (1..100).map(|n| ((at + 7) * (at + n) * n / 16) as u8).collect();
    Entry { id: Id::new((created_ms / 1_000) as u64, tail), created_ms, facts, bytes }
}

impl Shelf {
    /// Three full blocks: 0, 1 and 2.
    fn new() -> Shelf {
        let mut shelf = Shelf::over(MemoryDisk::new(3), 1);
        (0..3 * 256).for_each(|at| shelf.push(Item::Entry(Packed::of(&entry(at)))));
        shelf.engine.step(now(), true);
        shelf
    }

    fn over(disk: MemoryDisk, run: u64) -> Shelf {
        let shared = Shared::new(Arc::new(disk.clone()), settings(), run, START_MS);
        Shelf { disk, engine: Engine::new(Arc::clone(&shared)), shared, run }
    }

    fn push(&self, item: Item) {
        self.shared.queue.push(item, None, Instant::now());
    }

    /// Changes a byte of a stored part, wherever the file holds it.
    fn damage(&mut self, part: TableDefinition<'static, (u64, u32), &'static [u8]>, block: u64) {
        let stored = {
            let ledger = self.shared.ledger.read();
            ledger.as_ref().unwrap().view().unwrap().part(part, block).unwrap()
        };
        let needle = &stored[..stored.len().min(200)];
        let file = self.disk.open("ledger.redb").unwrap();
        let bytes = self.disk.read("ledger.redb").unwrap();
        let places: Vec<usize> =
            bytes.windows(needle.len()).enumerate().filter(|(_, at)| *at == needle).map(|(at, _)| at).collect();
        assert!(!places.is_empty());
        for place in places {
            let at = place + needle.len() / 2;
            file.write_at(at as u64, &[!bytes[at]]).unwrap();
        }
        let disk = self.disk.killed();
        *self = Shelf::over(disk, self.run + 1);
        self.engine.step(now(), true);
        assert!(self.shared.trouble.load().is_none());
    }

    fn verify(&self) -> Verification {
        let ledger = self.shared.ledger.read();
        let view = ledger.as_ref().unwrap().view().unwrap();
        verify::verify(&view, &Count, i64::MIN, &mut Words).unwrap()
    }
}

#[test]
fn a_damaged_block_costs_its_own_entries_only_and_the_verification_names_it() {
    for part in [INDEXES, PAYLOADS] {
        let mut shelf = Shelf::new();
        shelf.damage(part, 1);
        // What comes later is stored.
        shelf.push(Item::Entry(Packed::of(&entry(1_000))));
        shelf.engine.step(now(), true);
        let mut query = Query { limit: 100, blocks: 64, ..Query::default() };
        let (mut seen, mut damaged) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let page = shelf.shared.page(&query).unwrap();
            seen.extend(page.entries.iter().map(|entry| entry.id));
            damaged.extend(page.damaged);
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        let whole: BTreeSet<Id> = (0..256).chain(512..768).chain([1_000]).map(|at| entry(at).id).collect();
        assert!(seen == whole && damaged == BTreeSet::from([1]), "{} entries, damaged {damaged:?}", seen.len());
        assert!(whole.iter().all(|id| shelf.shared.get(id).unwrap().is_some()));

        let found = shelf.verify();
        assert_eq!((found.blocks, found.fault_count, found.entries), (4, 1, 513), "{:?}", found.faults);
        assert!(found.faults[0].starts_with("block 1, 2023-"), "{:?}", found.faults);
        assert!(found.slots > 0 && found.slots_left_out >= 2, "{found:?}");

        let even = Filter { labels: vec![(0, vec!["even".into()])], ..Filter::default() };
        let ledger = shelf.shared.ledger.read();
        let ledger = ledger.as_ref().unwrap();
        assert_eq!(page::summary(0, &[], &ledger.view().unwrap()).unwrap().entries, 3 * 256 + 1);
        assert_eq!(ledger.delete(&even).unwrap(), 257);
    }
}

#[test]
fn a_short_last_block_that_is_damaged_does_not_keep_new_entries_out() {
    let mut shelf = Shelf::new();
    shelf.push(Item::Entry(Packed::of(&entry(900))));
    shelf.engine.step(now(), true);
    shelf.damage(INDEXES, 3);
    shelf.push(Item::Entry(Packed::of(&entry(901))));
    shelf.engine.step(now(), true);
    assert!(shelf.shared.trouble.load().is_none());
    assert_eq!(shelf.shared.queue.load().items, 0);
    assert!(shelf.shared.get(&entry(901).id).unwrap().is_some());
}

#[test]
fn a_damaged_blob_is_replaced_when_it_is_stored_again() {
    let hash = [9; 32];
    let blob: Arc<[u8]> = (0..300_u32).map(|n| (n * n) as u8).collect();
    let mut shelf = Shelf::new();
    shelf.push(Item::Blob(hash, Arc::clone(&blob)));
    shelf.engine.step(now(), true);
    let packed = crate::blocks::compress(&blob).unwrap();
    let bytes = shelf.disk.read("ledger.redb").unwrap();
    let file = shelf.disk.open("ledger.redb").unwrap();
    for (at, _) in bytes.windows(packed.len()).enumerate().filter(|(_, at)| *at == packed) {
        file.write_at(at as u64 + 40, &[!bytes[at + 40]]).unwrap();
    }
    let mut shelf = Shelf::over(shelf.disk.killed(), 2);
    shelf.engine.step(now(), true);
    assert!(shelf.shared.blob(&hash).is_err());
    assert_eq!(shelf.verify().fault_count, 1);
    shelf.push(Item::Blob(hash, Arc::clone(&blob)));
    shelf.engine.step(now(), true);
    assert_eq!(shelf.shared.blob(&hash).unwrap().unwrap(), *blob);
    assert_eq!(shelf.verify().fault_count, 0);
}

#[test]
fn every_sum_that_is_not_what_the_entries_give_is_named_and_no_other() {
    let shelf = Shelf::new();
    let found = shelf.verify();
    assert_eq!((found.fault_count, found.entries, found.slots_left_out), (0, 768, 0), "{:?}", found.faults);
    let slots: Vec<i64> = {
        let ledger = shelf.shared.ledger.read();
        let transaction = ledger.as_ref().unwrap().database.begin_write().unwrap();
        let mut table = transaction.open_table(SUMS).unwrap();
        let slots: Vec<i64> = table.iter().unwrap().map(|row| row.unwrap().0.value().0).collect();
        table.insert((slots[1], &b"all"[..]), &7_u64.to_le_bytes()[..]).unwrap();
        table.remove((slots[3], &b"all"[..])).unwrap();
        table.insert((slots[0], &b"more"[..]), &5_u64.to_le_bytes()[..]).unwrap();
        drop(table);
        transaction.commit().unwrap();
        slots
    };
    assert_eq!(found.slots, slots.len() as u64);
    let ms = |slot: i64| slot * 900_000;
    let expected = [
        format!("{} Some(5) None", ms(slots[0])),
        format!("{} Some(7) Some(150)", ms(slots[1])),
        format!("{} None Some(150)", ms(slots[3])),
    ];
    assert_eq!(shelf.verify().faults, expected);
}

#[test]
fn slots_of_which_entries_were_deleted_or_aged_out_are_left_out_and_the_others_are_compared() {
    let shelf = Shelf::new();
    let all = shelf.verify().slots;
    {
        let ledger = shelf.shared.ledger.read();
        let ledger = ledger.as_ref().unwrap();
        let first = Filter {
            since_ms: Some(START_MS + 300 * 6_000),
            until_ms: Some(START_MS + 301 * 6_000),
            ..Filter::default()
        };
        assert_eq!(ledger.delete(&first).unwrap(), 2);
    }
    let found = shelf.verify();
    assert_eq!((found.fault_count, found.slots, found.slots_left_out), (0, all - 1, 1), "{:?}", found.faults);
    {
        let ledger = shelf.shared.ledger.read();
        assert_eq!(ledger.as_ref().unwrap().retain(START_MS + BLOCK_MS, u64::MAX).unwrap(), 256);
    }
    let found = shelf.verify();
    assert_eq!((found.fault_count, found.entries), (0, 768 - 256 - 2), "{:?}", found.faults);
    assert!(found.slots > 0 && found.slots < all - 1 && found.slots + found.slots_left_out == all, "{found:?}");
}

#[test]
fn a_record_that_cannot_be_read_is_named() {
    let mut shelf = Shelf::new();
    shelf.push(Item::Entry(Packed::of(&Entry { bytes: b"bad".to_vec(), ..entry(800) })));
    shelf.engine.step(now(), true);
    assert_eq!(shelf.verify().faults, ["record is bad (in block 3)"]);
}

#[test]
fn a_database_that_takes_the_place_of_a_damaged_one_has_the_blobs_that_entries_refer_to() {
    let mut shelf = Shelf::new();
    shelf.shared.remember_blob(&([7; 32], Arc::from(&b"catalog"[..])));
    // After a failure the database is closed, and opened anew.
    shelf.disk.set_failing(Failing::From(shelf.disk.operations()));
    shelf.push(Item::Entry(Packed::of(&entry(1_000))));
    shelf.engine.step(now(), true);
    shelf.disk.set_failing(Failing::Nothing);
    shelf.disk.open("ledger.redb").unwrap().write_at(0, &[0; 4_096]).unwrap();
    shelf.engine.step(Now { instant: Instant::now() + Duration::from_secs(5), ..now() }, true);
    assert!(shelf.shared.trouble.load().is_none());
    assert_eq!(shelf.shared.get(&entry(1).id).unwrap(), None, "the damaged database was set aside");
    assert!(shelf.shared.get(&entry(1_000).id).unwrap().is_some());
    assert_eq!(shelf.shared.blob(&[7; 32]).unwrap().as_deref(), Some(&b"catalog"[..]));
}

const DAY_MS: i64 = 86_400_000;

/// A ledger with one entry on each of 200 days.
fn two_hundred_days() -> Shelf {
    let mut shelf = Shelf::over(MemoryDisk::new(5), 1);
    let of_day = |day| Entry { created_ms: START_MS + day * DAY_MS, ..entry(day) };
    (0..200).for_each(|day| shelf.push(Item::Entry(Packed::of(&of_day(day)))));
    shelf.engine.step(Now { unix_ms: START_MS, ..now() }, true);
    shelf
}

/// Sums after retention: the count of long ago, and the number of days that are kept apart.
fn after_retention(shelf: &Shelf, oldest_ms: i64) -> (u64, usize) {
    let ledger = shelf.shared.ledger.read();
    let ledger = ledger.as_ref().unwrap();
    ledger.retain_sums(oldest_ms, &Count).unwrap();
    let view = ledger.view().unwrap();
    let long_ago = view.sums_of_long_ago().unwrap();
    (long_ago.values().map(|sum| number(sum)).sum(), view.sums(i64::MIN, i64::MAX).unwrap().len())
}

#[test]
fn sums_that_age_are_added_up_exactly_and_the_last_days_keep_theirs_whatever_the_clock_says() {
    let shelf = two_hundred_days();
    assert_eq!(after_retention(&shelf, START_MS), (0, 200));
    assert_eq!(after_retention(&shelf, START_MS + 100 * DAY_MS), (100, 100));
    assert_eq!(after_retention(&shelf, START_MS + 9_999 * DAY_MS), (155, 45), "a clock that is years ahead");
    assert_eq!(after_retention(&shelf, START_MS), (155, 45));
}
