//! Pages against a sorted list, and retention.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::memory_disk::MemoryDisk;
use crate::{
    activity::{grouping::Grouping, slot},
    engine::{Engine, Now, Shared},
    entry::{Entry, Facts, Filter, Id, Key},
    facts::{label, number},
    packed::Packed,
    page::{self, Query},
    queue::Item,
    settings::Settings,
};

const START_MS: i64 = 1_700_000_000_000;

struct Shelf {
    shared: Arc<Shared>,
    engine: Engine,
    entries: Vec<Entry>,
}

/// `count` entries, one a second, which end up to two minutes after they began; the last few still wait in the queue.
fn shelf(count: usize, settings: Settings) -> Shelf {
    let mut dice = StdRng::seed_from_u64(1);
    let mut order: Vec<(i64, Entry)> = (0..count).map(|number| entry(number as i64, &mut dice)).collect();
    order.sort_by_key(|(ended, _)| *ended);
    let disk = Arc::new(MemoryDisk::new(0));
    let shared = Shared::new(disk, settings, 1, START_MS);
    let mut engine = Engine::new(Arc::clone(&shared));
    for (place, (ended, entry)) in order.iter().enumerate() {
        shared.queue.push(Item::Entry(Packed::new(entry)), None, Instant::now());
        if place % 97 == 0 {
            engine.step(Now { instant: Instant::now(), unix_ms: *ended }, true);
        }
    }
    let mut entries: Vec<Entry> = order.into_iter().map(|(_, entry)| entry).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.key()));
    Shelf { shared, engine, entries }
}

fn entry(number: i64, dice: &mut StdRng) -> (i64, Entry) {
    let mut tail = [0; 24];
    dice.fill(&mut tail);
    let created_ms = START_MS + number * 1_000;
    // One in ten is slow.
    let took = if dice.random_bool(0.1) { dice.random_range(0..120_000) } else { 500 };
    let model = if dice.random_bool(0.02) { "rare" } else { "common" };
    let facts = Facts { labels: vec![(label::MODEL, model.into())], numbers: vec![(number::FIRST_TOKEN_MS, took)] };
    let id = Id::new((created_ms / 1_000) as u64, tail);
    (created_ms + took, Entry { id, created_ms, facts, bytes: vec![number as u8; 40] })
}

/// All pages of a query, joined.
fn all_pages(shelf: &Shelf, query: &Query) -> Vec<Entry> {
    let (mut query, mut read) = (query.clone(), Vec::new());
    loop {
        let page = shelf.shared.page(&query).unwrap();
        assert!(page.entries.len() <= query.limit);
        read.extend(page.entries);
        let Some(next) = page.next else { return read };
        assert!(query.after.is_none_or(|after| next < after), "the cursor must move");
        query.after = Some(next);
    }
}

#[test]
fn pages_joined_are_the_sorted_list_whatever_filter_limit_and_budget() {
    let shelf = shelf(2_000, Settings::default());
    let labels = |text: &str| Filter { labels: vec![(label::MODEL, vec![text.into()])], ..Filter::default() };
    let between = |since: i64, until: i64| Filter {
        since_ms: Some(START_MS + since),
        until_ms: Some(START_MS + until),
        ..Filter::default()
    };
    let slow = Filter { numbers: vec![(number::FIRST_TOKEN_MS, 60_000..=i64::MAX)], ..Filter::default() };
    for filter in [Filter::default(), labels("rare"), labels("absent"), between(300_000, 900_500), slow] {
        let expected: Vec<&Entry> =
            shelf.entries.iter().filter(|entry| filter.admits(entry.created_ms, &entry.facts)).collect();
        for (limit, blocks) in [(1_000, 1_000), (50, 1), (7, 3), (50, 1_000)] {
            let read = all_pages(&shelf, &Query { filter: filter.clone(), after: None, limit, blocks });
            assert!(read.iter().eq(expected.iter().copied()), "{filter:?}, limit {limit}, blocks {blocks}");
        }
    }
}

#[test]
fn a_filter_that_nothing_passes_looks_at_a_bounded_number_of_rows_per_page() {
    let mut shelf = shelf(0, Settings::default());
    let mut dice = StdRng::seed_from_u64(4);
    for number in 0..1_000 {
        shelf.shared.queue.push(Item::Entry(Packed::new(&entry(number, &mut dice).1)), None, Instant::now());
    }
    shelf.engine.step(Now { instant: Instant::now(), unix_ms: START_MS }, true);
    let filter = Filter { labels: vec![(label::MODEL, vec!["absent".into()])], ..Filter::default() };
    let (mut query, mut pages) = (Query { filter, after: None, limit: 10, blocks: 1 }, 0);
    loop {
        let page = shelf.shared.page(&query).unwrap();
        (query.after, pages) = (page.next, pages + 1);
        assert!(page.entries.is_empty());
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(pages, 4, "256 of 1,000 rows each");
}

#[test]
fn entries_of_one_millisecond_come_in_the_order_of_their_ids_however_many_share_a_place() {
    let mut shelf = shelf(0, Settings::default());
    // The first characters of an id are its place in the table: these have one of three.
    let entry = |number: u8| {
        let mut tail = [b'a' + number % 3; 24];
        tail[3] = number;
        let facts = Facts { labels: vec![(label::MODEL, "common".into())], ..Facts::default() };
        Entry { id: Id::new((START_MS / 1_000) as u64, tail), created_ms: START_MS, facts, bytes: vec![number] }
    };
    let entries: Vec<Entry> = (0..200).map(entry).collect();
    for part in entries.chunks(70) {
        // The first of each part comes again: it is there once.
        for entry in part.iter().chain(part.first()).chain(entries.first()) {
            shelf.shared.queue.push(Item::Entry(Packed::new(entry)), None, Instant::now());
        }
        shelf.engine.step(Now { instant: Instant::now(), unix_ms: START_MS }, true);
    }
    shelf.entries = entries;
    shelf.entries.sort_by_key(|entry| std::cmp::Reverse(entry.key()));
    for limit in [1, 7, 1_000] {
        let read = all_pages(&shelf, &Query { limit, blocks: 1, ..Query::default() });
        assert!(read == shelf.entries, "limit {limit}: {} entries", read.len());
    }
    assert!(shelf.entries.iter().all(|entry| shelf.shared.get(&entry.id).unwrap().as_ref() == Some(entry)));
    let sums = shelf.shared.sums(&Grouping::all(slot(START_MS)..=slot(START_MS))).unwrap();
    assert_eq!(sums.values().map(|sum| sum.requests).sum::<u64>(), 200);
}

#[test]
fn a_cursor_stays_where_it_is_while_entries_arrive() {
    let mut shelf = shelf(500, Settings::default());
    let first = shelf.shared.page(&Query { limit: 50, blocks: 100, ..Query::default() }).unwrap();
    let mut dice = StdRng::seed_from_u64(2);
    for number in 1_000..1_100 {
        let (_, entry) = entry(number, &mut dice);
        shelf.shared.queue.push(Item::Entry(Packed::new(&entry)), None, Instant::now());
    }
    shelf.engine.step(Now { instant: Instant::now(), unix_ms: START_MS }, true);
    let second = shelf.shared.page(&Query { limit: 50, blocks: 100, after: first.next, ..Query::default() }).unwrap();
    assert_eq!(second.entries, shelf.entries[50..100]);
}

#[test]
fn retention_by_age_drops_what_is_older_and_pages_tell_how_far() {
    let settings = Settings { max_age: Duration::from_secs(1_000), ..Settings::default() };
    let mut shelf = shelf(2_000, settings);
    let end_ms = START_MS + 2_000_000;
    shelf.engine.step(Now { instant: Instant::now() + Duration::from_secs(120), unix_ms: end_ms }, true);
    let page = shelf.shared.page(&Query { limit: usize::MAX, blocks: usize::MAX, ..Query::default() }).unwrap();
    let kept: BTreeSet<Key> = page.entries.iter().map(Entry::key).collect();
    let aged_out_ms = page.aged_out_ms.unwrap();
    assert!(aged_out_ms < end_ms - 1_000_000);
    let young: BTreeSet<Key> =
        shelf.entries.iter().map(Entry::key).filter(|key| key.created_ms > aged_out_ms).collect();
    assert!(young == kept && kept.len() == 1_000, "{}", kept.len());
    let gone = shelf.entries.last().unwrap();
    assert_eq!(shelf.shared.get(&gone.id).unwrap(), None);
}

#[test]
fn retention_by_size_drops_the_oldest_until_the_rest_fits() {
    let settings = Settings { max_bytes: 60_000, ..Settings::default() };
    let mut shelf = shelf(4_000, settings);
    shelf.engine.step(Now { instant: Instant::now() + Duration::from_secs(120), unix_ms: START_MS }, true);
    let state = shelf.shared.database().unwrap().state().unwrap();
    assert!((50_000..=60_000).contains(&state.stored), "{state:?}");
    let page = shelf.shared.page(&Query { limit: 20, blocks: 1_000, ..Query::default() }).unwrap();
    assert_eq!(page.entries, shelf.entries[..20], "the newest stay");
}

#[test]
fn deleted_entries_are_gone_and_all_others_stay_where_they_were() {
    let mut shelf = shelf(2_000, Settings::default());
    shelf.engine.step(Now { instant: Instant::now(), unix_ms: START_MS }, true);
    let filters = [
        Filter { labels: vec![(label::MODEL, vec!["rare".into()])], ..Filter::default() },
        Filter { until_ms: Some(START_MS + 400_000), ..Filter::default() },
        Filter { labels: vec![(label::MODEL, vec!["never".into()])], ..Filter::default() },
        Filter::default(),
    ];
    for filter in filters {
        let (gone, kept): (Vec<Entry>, Vec<Entry>) =
            shelf.entries.iter().cloned().partition(|entry| filter.admits(entry.created_ms, &entry.facts));
        let deleted = shelf.shared.database().unwrap().delete(&filter).unwrap();
        assert_eq!(deleted, gone.len() as u64, "{filter:?}");
        let read = all_pages(&shelf, &Query { limit: 100, blocks: 1_000, ..Query::default() });
        assert!(read == kept, "{filter:?}: {} entries, expected {}", read.len(), kept.len());
        assert!(gone.iter().all(|entry| shelf.shared.get(&entry.id).unwrap().is_none()), "{filter:?}");
        shelf.entries = kept;
    }
}

#[test]
fn a_summary_counts_every_entry_by_its_label() {
    let shelf = shelf(2_000, Settings::default());
    let waiting: Vec<_> = shelf.shared.queue.entries().into_iter().map(|(_, entry)| entry).collect();
    let summary = page::summary(label::MODEL, &waiting, &shelf.shared.database().unwrap().view().unwrap()).unwrap();
    let rare = shelf.entries.iter().filter(|entry| *entry.facts.labels[0].1 == *"rare").count() as u64;
    assert_eq!((summary.entries, summary.by_label["rare"], summary.by_label["common"]), (2_000, rare, 2_000 - rare));
    let (newest, oldest) = (&shelf.entries[0], &shelf.entries[1_999]);
    assert_eq!(summary.range_ms, Some((oldest.created_ms, newest.created_ms)));
}
