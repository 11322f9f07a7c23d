//! Pages of entries, newest first, over the queue and the database.
//!
//! Blocks overlap in time, because an entry is stored when it ends and ordered by when it began. Blocks are visited from
//! the greatest last key down; an entry is given out once every block that could hold a greater key has been read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    blocks::{self, Row},
    database::{self, INDEXES, PAYLOADS, View, redb_fault},
    entry::{Entry, Facts, Filter, Id, Key},
    fault::{Fault, unless_damaged},
    packed::Packed,
};

/// Which page.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Conditions on entries.
    pub filter: Filter,
    /// The cursor that the page before gave; entries before it are shown. `None` begins with the newest.
    pub after: Option<Key>,
    /// Most entries.
    pub limit: usize,
    /// Blocks to look into before an incomplete page is given: bounds the time of a rare filter. Of blocks whose header shows
    /// that they hold nothing of it, 64 times as many may be passed.
    pub blocks: usize,
}

/// Headers that may be read in the time that it takes to look into a block.
const HEADERS_PER_BLOCK: usize = 64;

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// Where to go on. `None` if nothing older matches. May be given with few or no entries, when the budget was used up.
    pub next: Option<Key>,
    /// Entries created at or before this time may have been dropped by retention.
    pub aged_out_ms: Option<i64>,
    /// Blocks that are damaged: their entries are left out.
    pub damaged: BTreeSet<u64>,
}

/// Where a matching entry is.
enum Place {
    Waiting(Packed),
    Stored { block: u64, row: usize },
}

/// Blocks that a page has read.
struct Reader<'v> {
    view: &'v View,
    rows: HashMap<u64, Vec<Row>>,
    bytes: HashMap<u64, Vec<u8>>,
}

impl Reader<'_> {
    fn entry(&mut self, place: Place) -> Result<Entry, Fault> {
        let (block, row) = match place {
            Place::Waiting(entry) => return Ok(entry.entry()),
            Place::Stored { block, row } => (block, row),
        };
        if !self.bytes.contains_key(&block) {
            let bytes = blocks::expand(&self.view.part(PAYLOADS, block)?)?;
            self.bytes.insert(block, bytes);
        }
        let found = self.rows.get(&block).zip(self.bytes.get(&block));
        let entry = found.and_then(|(rows, bytes)| blocks::entry(rows, row, bytes));
        entry.ok_or_else(|| Fault::Damaged(format!("block {block}")))
    }
}

/// Reads a page. `waiting` must have been copied from the queue before `view` was opened.
///
/// # Errors
/// The disk refuses, or a block is damaged.
pub fn read(query: &Query, waiting: &[Packed], view: &View) -> Result<Page, Fault> {
    let state = view.state()?;
    let after = query.after.unwrap_or(Key { created_ms: i64::MAX, id: Id([u8::MAX; Id::LENGTH]) });
    let mut reader = Reader { view, rows: HashMap::new(), bytes: HashMap::new() };
    let mut page = Page { entries: Vec::new(), next: None, aged_out_ms: state.aged_out_ms, damaged: BTreeSet::new() };
    let matches = |entry: &&Packed| {
        let created_ms = entry.key().created_ms;
        entry.key() < after
            && query.filter.has_time(created_ms)
            && query.filter.admits(created_ms, &entry.entry().facts)
    };
    let waiting = waiting.iter().filter(matches);
    let mut found: BTreeMap<Key, Place> = waiting.map(|entry| (entry.key(), Place::Waiting(entry.clone()))).collect();
    let (mut visited, mut passed) = (0, 0);
    let most_passed = query.blocks.saturating_mul(HEADERS_PER_BLOCK);
    let newest = query.filter.until_ms.map_or(after.created_ms, |until| until.min(after.created_ms));
    let top = newest.saturating_add(state.span_ms);
    let headers = view.headers()?;
    for row in headers.range(..=(top, u64::MAX)).map_err(redb_fault)?.rev() {
        let (key, bytes) = row.map_err(redb_fault)?;
        let (last_ms, block) = key.value();
        let unread = Key { created_ms: last_ms.saturating_add(1), id: Id::MIN };
        give_out(&mut page, &mut found, &mut reader, query.limit, unread)?;
        if page.next.is_some() {
            return Ok(page);
        }
        // The cursor must move, or the next page would stop here again.
        if (visited >= query.blocks || passed >= most_passed) && unread < after {
            page.next = Some(unread);
            return Ok(page);
        }
        if query.filter.since_ms.is_some_and(|since| last_ms < since) {
            break;
        }
        let Some(header) = unless_damaged(block, database::header(bytes.value()))? else {
            page.damaged.insert(block);
            continue;
        };
        if header.first >= after {
            continue;
        }
        if !header.may_admit(&query.filter) {
            passed += 1;
            continue;
        }
        visited += 1;
        let rows = view.part(INDEXES, block).and_then(|index| blocks::rows(&index));
        let Some(rows) = unless_damaged(block, rows)? else {
            page.damaged.insert(block);
            continue;
        };
        for (at, row) in rows.iter().enumerate() {
            if row.key < after && query.filter.admits(row.key.created_ms, &row.facts) {
                found.entry(row.key).or_insert(Place::Stored { block, row: at });
            }
        }
        reader.rows.insert(block, rows);
    }
    give_out(&mut page, &mut found, &mut reader, query.limit, Key { created_ms: i64::MIN, id: Id::MIN })?;
    Ok(page)
}

/// Counts of all entries, stored or waiting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of entries.
    pub entries: u64,
    /// Least and greatest `created_ms`.
    pub range_ms: Option<(i64, i64)>,
    /// Entries by label of one field. Entries without such a label are not counted here.
    pub by_label: BTreeMap<Box<str>, u64>,
}

impl Summary {
    fn add(&mut self, range_ms: (i64, i64), count: u64) {
        self.entries += count;
        let (least, greatest) = self.range_ms.unwrap_or(range_ms);
        self.range_ms = Some((least.min(range_ms.0), greatest.max(range_ms.1)));
    }
}

/// Counts entries by their labels in `field`. Reads the header of every block, and the index of blocks with several labels:
/// about 0.1 ms each.
///
/// # Errors
/// The disk refuses, or a block is damaged.
pub fn summary(field: u8, waiting: &[Packed], view: &View) -> Result<Summary, Fault> {
    let mut summary = Summary::default();
    let labels = |facts: &Facts| -> Vec<Box<str>> {
        facts.labels.iter().filter(|(other, _)| *other == field).map(|(_, text)| text.clone()).collect()
    };
    for entry in waiting {
        let created_ms = entry.key().created_ms;
        summary.add((created_ms, created_ms), 1);
        labels(&entry.entry().facts).into_iter().for_each(|label| *summary.by_label.entry(label).or_default() += 1);
    }
    for row in view.headers()?.range((i64::MIN, 0)..).map_err(redb_fault)? {
        let (key, bytes) = row.map_err(redb_fault)?;
        let block = key.value().1;
        let Some(header) = unless_damaged(block, database::header(bytes.value()))? else { continue };
        summary.add((header.first.created_ms, header.last.created_ms), u64::from(header.count));
        if let Some(only) = header.only_label(field) {
            *summary.by_label.entry(only.into()).or_default() += u64::from(header.count);
            continue;
        }
        let rows = view.part(INDEXES, block).and_then(|index| blocks::rows(&index));
        for row in unless_damaged(block, rows)?.unwrap_or_default() {
            labels(&row.facts).into_iter().for_each(|label| *summary.by_label.entry(label).or_default() += 1);
        }
    }
    Ok(summary)
}

/// Moves the greatest entries that are not below `bound` onto the page. Sets the cursor when the page is full.
fn give_out(
    page: &mut Page,
    found: &mut BTreeMap<Key, Place>,
    reader: &mut Reader<'_>,
    limit: usize,
    bound: Key,
) -> Result<(), Fault> {
    while let Some(top) = found.last_entry()
        && *top.key() >= bound
    {
        if page.entries.len() >= limit {
            page.next = page.entries.last().map(Entry::key);
            return Ok(());
        }
        let place = top.remove();
        match place {
            Place::Stored { block, .. } if page.damaged.contains(&block) => {}
            Place::Stored { block, .. } => match unless_damaged(block, reader.entry(place))? {
                Some(entry) => page.entries.push(entry),
                None => drop(page.damaged.insert(block)),
            },
            Place::Waiting(_) => page.entries.push(reader.entry(place)?),
        }
    }
    Ok(())
}
