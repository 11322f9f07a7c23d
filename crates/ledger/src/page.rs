//! Pages of entries, newest first, over the queue and the database.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    database::{
        View, columns, groups,
        reading::{Place, lost},
    },
    entry::{Entry, Filter, Id, Key},
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
    /// Most rows to look at before an incomplete page is given, in blocks of 256: bounds the time of a rare filter.
    pub blocks: usize,
}

/// Rows of a block of [`Query::blocks`].
const ROWS_PER_BLOCK: usize = 256;
/// Expanded groups that a page keeps.
const GROUPS_KEPT: usize = 64;

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// Where to go on. `None` if nothing older matches. May be given with few or no entries, when the budget was used up.
    pub next: Option<Key>,
    /// Entries created at or before this time may have been dropped by retention.
    pub aged_out_ms: Option<i64>,
    /// Groups that are damaged: their entries are left out.
    pub damaged: BTreeSet<u64>,
    /// Entries that match, and lie in them.
    pub unreadable: usize,
}

/// Groups that were read.
struct Groups<'v, 'l> {
    view: &'v View<'l>,
    expanded: HashMap<i64, Vec<u8>>,
}

impl Groups<'_, '_> {
    fn entry(&mut self, place: Place) -> Result<Entry, Fault> {
        if !self.expanded.contains_key(&place.group) {
            let bytes = self.view.group(place.group)?.ok_or_else(|| lost(place.group))?;
            if self.expanded.len() >= GROUPS_KEPT {
                self.expanded.clear();
            }
            self.expanded.insert(place.group, bytes);
        }
        let found = self.expanded.get(&place.group).and_then(|bytes| groups::entry(bytes, place.at));
        found.map(|entry| entry.entry()).ok_or_else(|| lost(place.group))
    }
}

/// Reads a page. `waiting` must have been copied from the queue before `view` was opened.
///
/// # Errors
/// The disk refuses.
pub fn read(query: &Query, waiting: &[Packed], view: &View<'_>) -> Result<Page, Fault> {
    let filter = &query.filter;
    let after = query.after.unwrap_or(Key { created_ms: i64::MAX, id: Id([u8::MAX; Id::LENGTH]) });
    let mut page = Page { aged_out_ms: view.state()?.aged_out_ms, ..Page::default() };
    let mut found: BTreeMap<Key, Entry> = BTreeMap::new();
    for entry in waiting.iter().filter(|entry| entry.key() < after && filter.has_time(entry.key().created_ms)) {
        let entry = entry.entry();
        if filter.admits(entry.created_ms, &entry.facts) {
            found.insert(entry.key(), entry);
        }
    }
    let mut groups = Groups { view, expanded: HashMap::new() };
    let (mut looked_at, most) = (0_usize, query.blocks.saturating_mul(ROWS_PER_BLOCK));
    let mut stored = 0;
    // Within a millisecond rows have an order of their own: it is read whole.
    let mut unread: Option<Key> = None;
    let mut last_ms = None;
    view.each_row(filter, keys(filter, after), |key, place| {
        let ms = columns::ms_of(key);
        if last_ms.is_some_and(|last| ms < last) && (stored > query.limit || looked_at >= most) {
            unread = Some(Key { created_ms: ms.saturating_add(1), id: Id::MIN });
            return Ok(false);
        }
        last_ms = Some(ms);
        looked_at += 1;
        let Some(place) = place else { return Ok(true) };
        match unless_damaged(place.group.cast_unsigned(), groups.entry(place))? {
            Some(entry) if entry.key() < after => {
                stored += 1;
                found.insert(entry.key(), entry);
            }
            Some(_) => {}
            None => {
                page.damaged.insert(place.group.cast_unsigned());
                page.unreadable += 1;
            }
        }
        Ok(true)
    })?;
    if let Some(unread) = unread {
        found = found.split_off(&unread);
    }
    let is_cut = found.len() > query.limit;
    page.entries.extend(found.into_values().rev().take(query.limit));
    page.next = if is_cut { page.entries.last().map(Entry::key) } else { unread };
    Ok(page)
}

/// The least and the greatest key of what may be on the page.
fn keys(filter: &Filter, after: Key) -> (i64, i64) {
    // Of the millisecond of the cursor something may be left.
    let newest_ms = if after.id == Id::MIN { after.created_ms.saturating_sub(1) } else { after.created_ms };
    let newest_ms = filter.until_ms.map_or(newest_ms, |until| until.min(newest_ms));
    let first = filter.since_ms.map_or(0, columns::first_key);
    if newest_ms < 0 { (1, 0) } else { (first, columns::last_key(newest_ms)) }
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
    fn add(&mut self, created_ms: i64) {
        self.entries += 1;
        let (least, greatest) = self.range_ms.unwrap_or((created_ms, created_ms));
        self.range_ms = Some((least.min(created_ms), greatest.max(created_ms)));
    }
}

/// Counts entries by their labels in `field`.
///
/// # Errors
/// The disk refuses.
pub fn summary(field: u8, waiting: &[Packed], view: &View<'_>) -> Result<Summary, Fault> {
    let (entries, range_ms) = view.extent()?;
    let mut summary = Summary { entries, range_ms, by_label: view.label_counts(field)? };
    for entry in waiting {
        summary.add(entry.key().created_ms);
        let label = entry.facts().label(field);
        if !label.is_empty() {
            *summary.by_label.entry(label.into()).or_default() += 1;
        }
    }
    Ok(summary)
}
