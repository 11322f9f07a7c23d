//! The queries of `docs/LEDGER.md` and what they give: `UPDATE_EXPECT=1` writes it.

use std::{fmt::Write as _, sync::Arc};

use rusqlite::{Connection, types::ValueRef};

use super::memory_disk::MemoryDisk;
use crate::{
    activity::{
        Sums,
        grouping::{Dimension, Grouping, Period},
        slot,
    },
    database::Ledger,
    disk::Disk,
    entry::{Entry, Facts, Id},
    facts::{label, number},
    packed::Packed,
    queue::{Item, Queued},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/LEDGER.md");
/// 2026-11-23T06:00:00Z
const START_MS: i64 = 1_795_413_600_000;

/// A generation of two days of three teams, every five minutes.
fn entry(at: u64) -> Entry {
    let chance =
        |salt: u64, below: u64| (at * 7_919 + salt * 104_729).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 9_973 % below;
    let (model, provider, price) =
        [("acme/small", "acme", 1), ("acme/small", "bolt", 1), ("nova/large", "nova", 8)][chance(1, 3) as usize];
    let failed = chance(2, 12) == 0;
    let mut labels = vec![
        (label::MODEL, model),
        (label::PROVIDER, provider),
        (label::OWNER, ["51c3a17be2b80d01", "8e0d94c2aa713f55", "f00d5eed00c0ffee"][chance(3, 3) as usize]),
        (label::KEY, ["0f1c0d8a2b3e4d11", "7d90a2c4e6188b22"][chance(4, 2) as usize]),
        (label::STATUS, if failed { "failed" } else { "completed" }),
        (label::REQUESTED_MODEL, "team/default"),
        (label::TEAM, ["search", "support", "web"][chance(3, 3) as usize]),
        (label::ALIAS, "team/default"),
        (label::OBJECTIVE, ["balanced", "cheapest"][chance(5, 2) as usize]),
        (label::TASK, ["general", "code"][chance(6, 2) as usize]),
    ];
    if provider == "bolt" {
        labels.push((label::VARIANT, "fp8"));
    }
    if failed {
        labels.push((label::CAUSE, ["rate_limited", "timeout"][chance(7, 2) as usize]));
    } else if chance(8, 9) == 0 {
        labels.push((label::EVENT, "rescued"));
    }
    let (prompt, completion) = (400 + chance(9, 4_000), if failed { 0 } else { 30 + chance(10, 600) });
    let nanos = ((prompt * 250 + completion * 1_000) * price) as i64;
    let mut numbers = vec![
        (number::COST_MILLIS, nanos / 1_000_000),
        (number::COST_REST, nanos % 1_000_000 * 1_000_000),
        (number::PROMPT_TOKENS, prompt as i64),
        (number::COMPLETION_TOKENS, completion as i64),
        (number::CACHED_TOKENS, (prompt / 2 * chance(11, 2)) as i64),
        (number::COST_NANOS, nanos),
    ];
    if !failed {
        numbers.push((number::FIRST_TOKEN_MS, (120 + chance(12, 900) * (1 + chance(1, 3))) as i64));
    }
    let mut tail = [0; 24];
    tail[..22].copy_from_slice(format!("{:022}", chance(13, 9_000) * 1_000_000_007).as_bytes());
    let created_ms = START_MS + at as i64 * 300_000;
    let labels = labels.into_iter().map(|(field, text)| (field, text.into())).collect();
    Entry {
        id: Id::new((created_ms / 1_000) as u64, tail),
        created_ms,
        facts: Facts { labels, numbers },
        bytes: vec![0],
    }
}

/// The answer as `sqlite3 -box` does without the box.
fn table(connection: &Connection, query: &str) -> String {
    let mut statement = connection.prepare(query).unwrap();
    let mut lines = vec![statement.column_names().map(str::to_owned).collect::<Vec<_>>()];
    let columns = lines[0].len();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let text = |at| match row.get_ref(at).unwrap() {
            ValueRef::Null => String::new(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            ValueRef::Blob(_) => panic!("a column of bytes"),
        };
        lines.push((0..columns).map(text).collect());
    }
    assert!(lines.len() > 1, "{query} gives nothing");
    let width = |at: usize| lines.iter().map(|line| line[at].len()).max().unwrap();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            line.iter().enumerate().map(|(at, cell)| format!("{cell:width$}", width = width(at))).collect();
        writeln!(text, "{}", cells.join("  ").trim_end()).unwrap();
    }
    text
}

#[test]
fn the_page_about_the_ledger_shows_what_its_queries_give() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(1));
    let _ledger = filled(&disk);
    let connection = Connection::open(disk.folder().join("ledger.db")).unwrap();
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (mut written, mut rest, mut queries) = (String::new(), page.as_str(), 0);
    while let Some((before, after)) = rest.split_once("```sql\n") {
        let (query, after) = after.split_once("```\n").unwrap();
        let (_, after) = after.split_once("```\n").unwrap();
        let (_, after) = after.split_once("```\n").unwrap();
        write!(written, "{before}```sql\n{query}```\n\n```\n{}```\n", table(&connection, query)).unwrap();
        (rest, queries) = (after, queries + 1);
    }
    written.push_str(rest);
    assert_eq!(queries, 8);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(PAGE, &written).unwrap();
    }
    assert!(page == written || std::env::var_os("UPDATE_EXPECT").is_some(), "UPDATE_EXPECT=1 writes the page");
}

#[test]
fn a_copy_by_vacuum_into_is_whole_while_the_ledger_is_written() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(2));
    let ledger = Ledger::open(&disk, u64::MAX).unwrap();
    let item = |at: u64| Queued { item: Item::Entry(Packed::new(&entry(at))), position: None, ordinal: at + 1 };
    ledger.commit(1, &(0..300).map(item).collect::<Vec<_>>(), &[]).unwrap();
    let file = disk.folder().join("ledger.db");
    let reader = Connection::open_with_flags(&file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let copy = disk.folder().join("copy.db");
    reader.execute("vacuum into ?1", [copy.to_string_lossy()]).unwrap();
    ledger.commit(1, &(300..310).map(item).collect::<Vec<_>>(), &[]).unwrap();
    let counts = |connection: &Connection| {
        let count = |of: &str| connection.query_row(of, [], |row| row.get::<_, i64>(0)).unwrap();
        (count("select count(*) from generations"), count("select sum(requests) from activity"))
    };
    assert_eq!(counts(&reader), (310, 310));
    let copy = Connection::open(copy).unwrap();
    assert_eq!(counts(&copy), (300, 300));
    assert_eq!(copy.query_row("pragma integrity_check", [], |row| row.get::<_, String>(0)).unwrap(), "ok");
}

#[test]
fn the_tables_of_the_schema_have_the_columns_that_are_written() {
    let schema = Connection::open_in_memory().unwrap();
    schema.execute_batch(include_str!("../database/schema.sql")).unwrap();
    let columns = |table: &str| {
        let mut names = schema.prepare(&format!("select name from pragma_table_info('{table}')")).unwrap();
        let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
        names.collect::<Result<Vec<_>, _>>().unwrap().join(", ")
    };
    let row = crate::database::columns::Row::columns();
    assert_eq!(columns("stored_generations"), format!("place, tail, record, {row}"));
}

/// A ledger with the first 400 generations.
fn filled(disk: &Arc<dyn Disk>) -> Ledger {
    let ledger = Ledger::open(disk, u64::MAX).unwrap();
    let item = |at: u64| Queued { item: Item::Entry(Packed::new(&entry(at))), position: None, ordinal: at + 1 };
    ledger.commit(1, &(0..400).map(item).collect::<Vec<_>>(), &[]).unwrap();
    ledger
}

#[test]
fn sums_are_added_up_by_the_database_as_by_hand_whatever_is_asked() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new(2));
    let ledger = filled(&disk);
    let view = ledger.view().unwrap();
    let slots = slot(START_MS)..=slot(START_MS) + 200;
    let all = view.sums(&Grouping::all(slots.clone())).unwrap();
    let named =
        |dimension, names: &[&str]| (dimension, names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let day = Some(Period { slots: 96, offset: 22 });
    for (by, period, only, groups) in [
        (vec![], None, vec![], 1),
        (vec![Dimension::Team], None, vec![], 3),
        (vec![Dimension::Task, Dimension::Model], day, vec![], 8),
        (vec![Dimension::Provider], None, vec![named(Dimension::Team, &["search", "web"])], 3),
        (
            vec![Dimension::Key],
            day,
            vec![named(Dimension::Model, &["nova/large"]), named(Dimension::Objective, &["cheapest"])],
            4,
        ),
        (vec![Dimension::Team], None, vec![named(Dimension::Team, &["nobody"])], 0),
        (vec![Dimension::Team], None, vec![named(Dimension::Alias, &[""])], 0),
    ] {
        let asked = Grouping { slots: slots.clone(), by, period, only };
        let mut by_hand = Sums::new();
        for ((slot, key), counters) in &all {
            if let Some(place) = asked.place(*slot, key.clone()) {
                by_hand.entry(place).or_default().add(counters);
            }
        }
        let summed = view.sums(&asked).unwrap();
        assert_eq!(summed.len(), groups, "{asked:?}");
        assert_eq!(summed, by_hand, "{asked:?}");
    }
}
