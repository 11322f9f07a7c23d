//! A damaged group costs its own entries only, a verification names it and every sum and column that is not what the records
//! say, and a database that cannot be written is still read.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::memory_disk::{Failing, MemoryDisk};
use crate::{
    activity::grouping::Grouping,
    database::sums::LONG_AGO,
    disk::Disk as _,
    engine::{Engine, Now, Shared},
    entry::{Entry, Facts, Filter, Id},
    facts::label,
    packed::Packed,
    page::{self, Query},
    queue::Item,
    settings::Settings,
    verify::{self, Verification},
};

const START_MS: i64 = 1_700_000_100_000;
/// Time from one entry to the next.
const STEP_MS: i64 = 6_000;
const DAY_MS: i64 = 86_400_000;

struct Shelf {
    disk: MemoryDisk,
    shared: Arc<Shared>,
    engine: Engine,
    run: u64,
}

fn now() -> Now {
    Now { instant: Instant::now(), unix_ms: START_MS + 1_000 * STEP_MS }
}

fn entry(at: i64) -> Entry {
    let created_ms = START_MS + at * STEP_MS;
    let facts =
        Facts { labels: vec![(label::MODEL, if at % 2 == 0 { "even" } else { "odd" }.into())], numbers: Vec::new() };
    let mut tail = [0; 24];
    tail[..8].copy_from_slice(&at.wrapping_mul(0x5851_f42d_4c95_7f2d).to_be_bytes());
    let bytes = (1..100).map(|n| ((at + 7) * (at + n) * n / 16) as u8).collect();
    Entry { id: Id::new((created_ms / 1_000) as u64, tail), created_ms, facts, bytes }
}

impl Shelf {
    /// Twenty-four full groups.
    fn new() -> Shelf {
        let mut shelf = Shelf::over(MemoryDisk::new(3), 1);
        (0..768).for_each(|at| shelf.push(Item::Entry(Packed::new(&entry(at)))));
        shelf.step();
        shelf
    }

    fn over(disk: MemoryDisk, run: u64) -> Shelf {
        let settings =
            Settings { log_bytes: 2 * 1024 * 1024, journal_bytes: 4_000, segment_bytes: 1_000, ..Settings::default() };
        let shared = Shared::new(Arc::new(disk.clone()), settings, run, START_MS);
        Shelf { disk, engine: Engine::new(Arc::clone(&shared)), shared, run }
    }

    fn push(&self, item: Item) {
        self.shared.queue.push(item, None, Instant::now());
    }

    fn step(&mut self) {
        self.engine.step(now(), true);
    }

    /// The next process.
    fn restarted(&self) -> Shelf {
        let mut shelf = Shelf::over(self.disk.killed(), self.run + 1);
        shelf.step();
        assert!(shelf.shared.trouble.load().is_none());
        shelf
    }

    /// Changes the database as another program would.
    fn change(&self, sql: &str) {
        let connection = Connection::open(self.disk.folder().join("ledger.db")).unwrap();
        assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
    }

    fn verify(&self) -> Verification {
        let mut check = |entry: &Entry| (entry.bytes != b"bad").then_some(()).ok_or_else(|| "record is bad".to_owned());
        verify::verify(&self.shared.database().unwrap(), &[], i64::MIN, &mut check, &mut |_| ()).unwrap()
    }
}

#[test]
fn a_damaged_group_costs_its_own_entries_only_and_the_verification_names_it() {
    let mut shelf = Shelf::new();
    // A byte in the middle of the fourth group.
    shelf.change("update stored_records set bytes = cast(substr(bytes, 1, 300) || x'5a' || substr(bytes, 302) as blob) where id = 3");
    // What comes later is stored.
    shelf.push(Item::Entry(Packed::new(&entry(1_000))));
    shelf.step();
    let mut query = Query { limit: 100, blocks: 64, ..Query::default() };
    let (mut seen, mut damaged, mut unreadable) = (BTreeSet::new(), BTreeSet::new(), 0);
    loop {
        let page = shelf.shared.page(&query).unwrap();
        seen.extend(page.entries.iter().map(|entry| entry.id));
        damaged.extend(page.damaged);
        unreadable += page.unreadable;
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    let whole: BTreeSet<Id> = (0..96).chain(128..768).chain([1_000]).map(|at| entry(at).id).collect();
    assert_eq!((seen.len(), &damaged, unreadable), (whole.len(), &BTreeSet::from([3]), 32));
    assert!(seen == whole && whole.iter().all(|id| shelf.shared.get(id).unwrap().is_some()));
    assert!(shelf.shared.get(&entry(100).id).is_err());

    let found = shelf.verify();
    assert_eq!((found.blocks, found.fault_count, found.entries), (25, 1, 737), "{:?}", found.faults);
    assert!(found.faults[0].starts_with("group 3, 2023-"), "{:?}", found.faults);
    assert!(found.slots > 0 && found.slots_left_out == 0, "columns are whole: {found:?}");

    let even = Filter { labels: vec![(label::MODEL, vec!["even".into()])], ..Filter::default() };
    let ledger = shelf.shared.database().unwrap();
    assert_eq!(page::summary(label::MODEL, &[], &ledger.view().unwrap()).unwrap().entries, 769);
    assert_eq!(ledger.delete(&even).unwrap(), 385);
    assert!(shelf.restarted().shared.get(&entry(1).id).unwrap().is_some());
}

#[test]
fn a_damaged_blob_is_replaced_when_it_is_stored_again() {
    let hash = [9; 32];
    let blob: Arc<[u8]> = (0..300_u32).map(|n| (n * n) as u8).collect();
    let mut shelf = Shelf::new();
    shelf.push(Item::Blob(hash, Arc::clone(&blob)));
    shelf.step();
    assert_eq!(shelf.shared.blob(&hash).unwrap().unwrap(), *blob);
    shelf.change("update versions set bytes = cast(substr(bytes, 1, 40) || x'5a' || substr(bytes, 42) as blob)");
    assert!(shelf.shared.blob(&hash).is_err());
    assert_eq!(shelf.verify().fault_count, 1);
    shelf.push(Item::Blob(hash, Arc::clone(&blob)));
    shelf.step();
    assert_eq!(shelf.shared.blob(&hash).unwrap().unwrap(), *blob);
}

#[test]
fn every_sum_and_every_column_that_is_not_what_the_records_give_is_named_and_no_other() {
    let shelf = Shelf::new();
    let found = shelf.verify();
    assert_eq!((found.fault_count, found.entries, found.slots_left_out), (0, 768, 0), "{:?}", found.faults);
    let first = START_MS / 900_000;
    shelf.change(&format!("update stored_sums set requests = 7 where slot = {} and model = 1", first + 1));
    shelf.change(&format!("delete from stored_sums where slot = {}", first + 3));
    shelf.change("update stored_generations set prompt_tokens = 5 where record = 2");
    let faults = shelf.verify().faults;
    let has = |text: &str| faults.iter().filter(|fault| fault.contains(text)).count();
    assert_eq!(has("requests: counted 7, records give 75"), 1, "{faults:?}");
    assert_eq!(has("requests: counted 0, records give 75"), 2, "{faults:?}");
    assert_eq!(has("its columns are not what it says (in group 0)"), 1, "{faults:?}");
    assert_eq!((has("prompt_tokens: counted 0, records give 5"), faults.len()), (1, 5), "{faults:?}");
}

#[test]
fn slots_of_which_entries_were_deleted_or_aged_out_are_left_out_and_the_others_are_compared() {
    let shelf = Shelf::new();
    let all = shelf.verify().slots;
    let ledger = shelf.shared.database().unwrap();
    let first = Filter {
        since_ms: Some(START_MS + 300 * STEP_MS),
        until_ms: Some(START_MS + 301 * STEP_MS),
        ..Filter::default()
    };
    assert_eq!(ledger.delete(&first).unwrap(), 2);
    let found = shelf.verify();
    assert_eq!((found.fault_count, found.slots, found.slots_left_out), (0, all - 1, 1), "{:?}", found.faults);
    while ledger.retain(START_MS + 256 * STEP_MS, u64::MAX).unwrap() {}
    let found = shelf.verify();
    assert_eq!((found.fault_count, found.entries), (0, 768 - 256 - 2), "{:?}", found.faults);
    assert!(found.slots > 0 && found.slots < all - 1 && found.slots + found.slots_left_out == all, "{found:?}");
}

#[test]
fn a_record_that_cannot_be_read_is_named() {
    let mut shelf = Shelf::new();
    shelf.push(Item::Entry(Packed::new(&Entry { bytes: b"bad".to_vec(), ..entry(800) })));
    shelf.step();
    assert_eq!(shelf.verify().faults, ["record is bad (in group 24)"]);
}

#[test]
fn a_database_that_takes_the_place_of_a_damaged_one_has_the_blobs_that_entries_refer_to() {
    let shelf = Shelf::new();
    let (folder, disk) = (shelf.disk.folder().to_owned(), shelf.disk.killed());
    drop(shelf);
    let mut bytes = std::fs::read(folder.join("ledger.db")).unwrap();
    bytes[100..].fill(0x5a);
    std::fs::write(folder.join("ledger.db"), bytes).unwrap();
    let mut shelf = Shelf::over(disk, 2);
    shelf.shared.remember_blob(&([7; 32], Arc::from(&b"catalog"[..])));
    shelf.push(Item::Entry(Packed::new(&entry(1_000))));
    shelf.step();
    assert!(shelf.shared.trouble.load().is_none(), "{:?}", shelf.shared.trouble.load());
    assert_eq!(shelf.shared.get(&entry(1).id).unwrap(), None, "the damaged database was set aside");
    assert!(shelf.shared.get(&entry(1_000).id).unwrap().is_some());
    assert_eq!(shelf.shared.blob(&[7; 32]).unwrap().as_deref(), Some(&b"catalog"[..]));
}

#[test]
fn a_database_of_a_build_before_the_first_release_is_set_aside_and_a_new_one_begins() {
    let shelf = Shelf::new();
    let connection = Connection::open(shelf.disk.folder().join("ledger.db")).unwrap();
    connection.execute_batch("pragma user_version = 2").unwrap();
    drop(connection);
    let mut shelf = shelf.restarted();
    assert!(shelf.disk.names().iter().any(|name| name.starts_with("set-aside")), "{:?}", shelf.disk.names());
    assert_eq!(shelf.shared.get(&entry(1).id).unwrap(), None);
    shelf.push(Item::Entry(Packed::new(&entry(900))));
    shelf.step();
    assert!(shelf.shared.get(&entry(900).id).unwrap().is_some());
}

#[test]
fn a_database_that_turns_out_damaged_in_a_commit_is_set_aside_and_nothing_that_waits_is_lost() {
    let mut shelf = Shelf::new();
    // Pages of the tables, but not the first one: the file is opened, and refuses what touches them.
    let path = shelf.disk.folder().join("ledger.db");
    let connection = Connection::open(&path).unwrap();
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    drop(connection);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[16_384..].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    shelf.push(Item::Entry(Packed::new(&entry(900))));
    for wait in 0..4 {
        shelf.engine.step(Now { instant: Instant::now() + Duration::from_secs(wait * 3), ..now() }, true);
    }
    assert!(shelf.shared.trouble.load().is_none(), "{:?}", shelf.shared.trouble.load());
    assert!(shelf.disk.names().iter().any(|name| name.starts_with("set-aside")), "{:?}", shelf.disk.names());
    assert!(shelf.shared.get(&entry(900).id).unwrap().is_some());
}

#[test]
fn a_database_that_cannot_be_written_is_read_on_and_takes_everything_when_it_can() {
    let mut shelf = Shelf::new();
    shelf.disk.set_failing(Failing::From(shelf.disk.operations()));
    shelf.push(Item::Entry(Packed::new(&entry(1_000))));
    shelf.step();
    assert!(shelf.shared.trouble.load().is_some());
    assert!(shelf.shared.get(&entry(1).id).unwrap().is_some(), "readers go on");
    assert_eq!(shelf.shared.page(&Query { limit: 10, blocks: 64, ..Query::default() }).unwrap().entries.len(), 10);
    shelf.disk.set_failing(Failing::Nothing);
    // A program that writes: the ledger waits for it, and goes on.
    let other = Connection::open(shelf.disk.folder().join("ledger.db")).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let later = |secs| Now { instant: Instant::now() + Duration::from_secs(secs), ..now() };
    shelf.engine.step(later(5), true);
    let reason = shelf.shared.trouble.load_full().unwrap().reason.clone();
    assert!(shelf.shared.queue.load().items == 1, "{reason}");
    other.execute_batch("rollback").unwrap();
    shelf.engine.step(later(10), true);
    assert!(shelf.shared.trouble.load().is_none() && shelf.shared.queue.load().items == 0);
}

#[test]
fn a_reader_that_holds_a_transaction_open_sees_what_it_saw_and_neither_log_nor_journal_grows_without_bound() {
    let mut shelf = Shelf::new();
    let other = Connection::open(shelf.disk.folder().join("ledger.db")).unwrap();
    let count = || other.query_row("select count(*) from generations", [], |row| row.get::<_, i64>(0)).unwrap();
    other.execute_batch("begin").unwrap();
    assert_eq!(count(), 768);
    let (mut writer, mut recorded) = (shelf.shared.journal.writer(0), 768);
    for part in 0..40 {
        for at in 0..20 {
            let entry = Packed::new(&entry(1_000 + part * 20 + at));
            let position = writer.append(&entry, START_MS + part * 2_000).ok();
            shelf.shared.queue.push(Item::Entry(entry), position, Instant::now());
            recorded += 1;
        }
        shelf.engine.step(Now { instant: Instant::now() + Duration::from_secs(part as u64 * 5), ..now() }, true);
    }
    let log = || std::fs::metadata(shelf.disk.folder().join("ledger.db-wal")).unwrap().len();
    assert!((2..4).contains(&(log() / 1_048_576)), "{} bytes", log());
    let journal: u64 = shelf.shared.journal.segments().iter().map(|segment| segment.written()).sum();
    assert!((4_000..6_000).contains(&journal), "{journal} bytes");
    assert!(shelf.shared.trouble.load_full().unwrap().reason.contains("transaction"));
    assert!(shelf.shared.journal.trouble().unwrap().reason.contains("the journal holds as much as it may"));
    assert_eq!(count(), 768);
    other.execute_batch("commit").unwrap();
    shelf.engine.step(Now { instant: Instant::now() + Duration::from_secs(9_000), ..now() }, true);
    assert!(shelf.shared.trouble.load().is_none() && log() < 2 * 1_048_576);
    assert_eq!(count(), recorded);
}

#[test]
fn every_prefix_of_the_log_is_a_ledger_of_the_first_transactions() {
    let mut shelf = Shelf::over(MemoryDisk::new(4), 1);
    for at in 0..12 {
        shelf.push(Item::Entry(Packed::new(&entry(at))));
        shelf.step();
    }
    let folder = shelf.disk.folder().to_owned();
    let (database, log) =
        (std::fs::read(folder.join("ledger.db")).unwrap(), std::fs::read(folder.join("ledger.db-wal")).unwrap());
    let torn = MemoryDisk::new(4);
    let mut counts = BTreeSet::new();
    for cut in (0..=log.len()).step_by(5_003).chain([log.len()]) {
        for name in ["ledger.db-shm", "ledger.db-wal", "ledger.db"] {
            let _ = std::fs::remove_file(torn.folder().join(name));
        }
        std::fs::write(torn.folder().join("ledger.db"), &database).unwrap();
        std::fs::write(torn.folder().join("ledger.db-wal"), &log[..cut]).unwrap();
        let mut shelf = Shelf::over(torn.clone(), 2);
        shelf.step();
        assert!(shelf.shared.trouble.load().is_none(), "cut at {cut}: {:?}", shelf.shared.trouble.load());
        let count = shelf.shared.database().unwrap().state().unwrap().entries as i64;
        assert!((0..12).all(|at| shelf.shared.get(&entry(at).id).unwrap().is_some() == (at < count)), "cut at {cut}");
        assert_eq!(shelf.verify().faults, Vec::<String>::new(), "cut at {cut}");
        counts.insert(count);
    }
    assert!(counts.len() > 6 && counts.contains(&12), "{counts:?}");
}

/// A ledger with one entry on each of 200 days.
fn two_hundred_days() -> Shelf {
    let mut shelf = Shelf::over(MemoryDisk::new(5), 1);
    let of_day = |day| Entry { created_ms: START_MS + day * DAY_MS, ..entry(day) };
    (0..200).for_each(|day| shelf.push(Item::Entry(Packed::new(&of_day(day)))));
    shelf.engine.step(Now { unix_ms: START_MS, ..now() }, true);
    shelf
}

/// Sums after retention: the count of long ago, and the number of days that are kept apart.
fn after_retention(shelf: &Shelf, oldest_ms: i64) -> (u64, usize) {
    let ledger = shelf.shared.database().unwrap();
    while ledger.retain_sums(oldest_ms).unwrap() {}
    let view = ledger.view().unwrap();
    let long_ago = view.sums_of(LONG_AGO).unwrap();
    (long_ago.values().map(|sum| sum.requests).sum(), view.sums(&Grouping::all(i64::MIN..=i64::MAX)).unwrap().len())
}

#[test]
fn sums_that_age_are_added_up_exactly_and_the_last_days_keep_theirs_whatever_the_clock_says() {
    let shelf = two_hundred_days();
    assert_eq!(after_retention(&shelf, START_MS), (0, 200));
    assert_eq!(after_retention(&shelf, START_MS + 100 * DAY_MS), (100, 100));
    assert_eq!(after_retention(&shelf, START_MS + 9_999 * DAY_MS), (155, 45), "a clock that is years ahead");
    assert_eq!(after_retention(&shelf, START_MS), (155, 45));
}
