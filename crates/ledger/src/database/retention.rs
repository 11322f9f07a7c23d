//! What is dropped: entries by age and size, those that somebody deletes, and free pages. Always in small transactions, so that
//! nobody who stores waits for long.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Transaction, params};

use super::{
    Ledger, State,
    columns::{first_key, last_key, ms_of},
    commit::PLACE_BITS,
    groups, ratings, reading,
};
use crate::{activity::slot, entry::Filter, fault::Fault};

/// Most rows, and most groups, that one transaction drops.
const ROWS_AT_ONCE: i64 = 4_096;
const GROUPS_AT_ONCE: i64 = 128;
/// Rows that one transaction of a deletion on request looks at.
const LOOKED_AT_ONCE: i64 = 2_048;
/// Free pages that one step gives back to the disk, and their least share of the file: fewer are used again soon.
const PAGES_AT_ONCE: i64 = 128;
const FREE_SHARE: i64 = 8;

impl Ledger {
    /// Drops the oldest entries: some of those before `oldest_ms`, and more until at most `most_bytes` are left. Gives whether
    /// there may be more to drop.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn retain(&self, oldest_ms: i64, most_bytes: u64) -> Result<bool, Fault> {
        let bound_ms = {
            let view = self.view()?;
            let over = view.state()?.stored.saturating_sub(most_bytes);
            let by_size = if over == 0 { None } else { view.newest_of_oldest(over)? };
            let connection = view.connection()?;
            // What retention dropped is not there again, but for the bytes of groups that were too many for one transaction.
            let bound_ms = oldest_ms.max(by_size.map_or(i64::MIN, |newest_ms| newest_ms.saturating_add(1)));
            let has_row = "select exists (select 1 from stored_generations where place < ?1)";
            let has_row: bool = connection.query_row(has_row, [first_key(bound_ms)], |row| row.get(0))?;
            let has_group = "select exists (select 1 from stored_records where newest_ms < ?1)";
            let has_group: bool = connection.query_row(has_group, [bound_ms], |row| row.get(0))?;
            if !has_row && !has_group {
                return Ok(false);
            }
            bound_ms
        };
        self.change(|transaction, _| drop_before(transaction, bound_ms))
    }

    /// Gives some free pages back to the disk, if there are many. Gives whether there may be more.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn give_pages_back(&self) -> Result<bool, Fault> {
        let (free, all) = {
            let view = self.view()?;
            let count =
                |pragma| view.connection()?.query_row(pragma, [], |row| row.get::<_, i64>(0)).map_err(Fault::from);
            (count("pragma freelist_count")?, count("pragma page_count")?)
        };
        if free < PAGES_AT_ONCE || free < all / FREE_SHARE {
            return Ok(false);
        }
        self.change(|transaction, _| {
            Ok(transaction.execute_batch(&format!("pragma incremental_vacuum({PAGES_AT_ONCE})"))?)
        })?;
        Ok(true)
    }

    /// Deletes the entries that the filter admits. Sums stay. Gives the number of deleted entries.
    ///
    /// # Errors
    /// The disk refuses; some entries may be deleted.
    pub fn delete(&self, filter: &Filter) -> Result<u64, Fault> {
        let (mut from, until) = (filter.since_ms.map_or(0, first_key), filter.until_ms.map_or(i64::MAX, last_key));
        if filter.until_ms.is_some_and(|until| until < 0) {
            return Ok(0);
        }
        let mut deleted = 0;
        loop {
            let (count, next) = self.change(|transaction, _| delete_some(transaction, filter, (from, until)))?;
            deleted += count;
            let Some(next) = next else { return Ok(deleted) };
            from = next;
        }
    }
}

impl super::View<'_> {
    /// The latest entry in the oldest groups that together take more than `bytes`.
    fn newest_of_oldest(&self, bytes: u64) -> Result<Option<i64>, Fault> {
        let mut find = self
            .connection()?
            .prepare_cached("select newest_ms, length(bytes) from stored_records order by newest_ms limit ?1")?;
        let mut rows = find.query([GROUPS_AT_ONCE])?;
        let (mut left, mut newest) = (bytes, None);
        while left > 0
            && let Some(row) = rows.next()?
        {
            newest = Some(row.get::<_, i64>(0)?);
            left = left.saturating_sub(row.get::<_, i64>(1)?.cast_unsigned());
        }
        Ok(newest)
    }
}

fn drop_before(transaction: &Transaction<'_>, bound_ms: i64) -> Result<bool, Fault> {
    let mut state = State::read(transaction)?;
    let last = "select max(place), count(*) from (select place from stored_generations where place < ?1 order by place limit ?2)";
    let (last, count) = transaction.query_row(last, [first_key(bound_ms), ROWS_AT_ONCE], |row| {
        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?))
    })?;
    if let Some(last) = last {
        transaction.execute("delete from stored_generations where place <= ?1", [last])?;
        ratings::drop_until(transaction, ms_of(last))?;
        state.entries = state.entries.saturating_sub(count.cast_unsigned());
        state.aged_out_ms = state.aged_out_ms.max(Some(ms_of(last)));
    }
    let mut has_more = true;
    // The bytes go after the rows that refer to them.
    if count < ROWS_AT_ONCE {
        let mut find = transaction.prepare_cached(
            "select id, length(bytes) from stored_records where newest_ms < ?1 order by newest_ms limit ?2",
        )?;
        let doomed = find.query_map([bound_ms, GROUPS_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let doomed: Vec<(i64, i64)> = doomed.collect::<Result<_, _>>()?;
        let mut delete = transaction.prepare_cached("delete from stored_records where id = ?1")?;
        for (group, bytes) in &doomed {
            delete.execute([group])?;
            state.stored = state.stored.saturating_sub(bytes.cast_unsigned());
        }
        has_more = doomed.len() as i64 == GROUPS_AT_ONCE;
    }
    state.write(transaction)?;
    Ok(has_more)
}

/// Deletes from the next rows. Gives the number of deleted entries, and where to go on.
fn delete_some(
    transaction: &Transaction<'_>,
    filter: &Filter,
    (from, until): (i64, i64),
) -> Result<(u64, Option<i64>), Fault> {
    let admits = reading::conditions(transaction, filter)?;
    let select = format!(
        "select place, record, {admits} from stored_generations where place between ?1 and ?2 order by place limit {LOOKED_AT_ONCE}"
    );
    let (mut doomed, mut last, mut count) = (BTreeMap::<i64, BTreeSet<i64>>::new(), None, 0);
    let (mut keys, mut slots) = (Vec::new(), BTreeSet::new());
    {
        let mut rows = transaction.prepare(&select)?;
        let mut rows = rows.query([from, until])?;
        while let Some(row) = rows.next()? {
            let (key, record): (i64, i64) = (row.get(0)?, row.get(1)?);
            (last, count) = (Some(key), count + 1);
            if row.get(2)? {
                keys.push(key);
                slots.insert(slot(ms_of(key)));
                doomed.entry(record >> PLACE_BITS).or_default().insert(record & ((1 << PLACE_BITS) - 1));
            }
        }
    }
    let next = last.filter(|_| count == LOOKED_AT_ONCE).map(|last| last + 1);
    if keys.is_empty() {
        return Ok((0, next));
    }
    let mut state = State::read(transaction)?;
    let mut delete = transaction.prepare_cached("delete from stored_generations where place = ?1")?;
    keys.iter().try_for_each(|key| ratings::drop_of(transaction, *key))?;
    keys.iter().try_for_each(|key| delete.execute([key]).map(drop))?;
    let mut note = transaction.prepare_cached("insert or ignore into deletions (slot) values (?1)")?;
    slots.iter().try_for_each(|slot| note.execute([slot]).map(drop))?;
    for (group, places) in doomed {
        let (before, after) = rewrite(transaction, group, &places)?;
        state.stored = state.stored.saturating_sub(before) + after;
    }
    state.entries = state.entries.saturating_sub(keys.len() as u64);
    state.write(transaction)?;
    Ok((keys.len() as u64, next))
}

/// Writes a group again without the entries in these places. One that is damaged, or empty, goes. Gives its bytes before and
/// after.
fn rewrite(transaction: &Transaction<'_>, group: i64, places: &BTreeSet<i64>) -> Result<(u64, u64), Fault> {
    let mut find = transaction.prepare_cached("select bytes from stored_records where id = ?1")?;
    let stored: Vec<u8> = find.query_row([group], |row| row.get(0))?;
    let expanded = groups::expand(&stored).unwrap_or_default();
    let kept = (0..).zip(groups::entries(&expanded));
    let kept: Vec<&[u8]> = kept.map(|(at, entry)| if places.contains(&at) { &[] } else { entry }).collect();
    // Others of a damaged group may have rows: it is left to them.
    if expanded.is_empty() {
        return Ok((0, 0));
    }
    let before = stored.len() as u64;
    if kept.iter().all(|entry| entry.is_empty()) {
        transaction.execute("delete from stored_records where id = ?1", [group])?;
        return Ok((before, 0));
    }
    let packed = groups::pack(kept.into_iter())?;
    transaction.execute("update stored_records set bytes = ?2 where id = ?1", params![group, packed])?;
    Ok((before, packed.len() as u64))
}
