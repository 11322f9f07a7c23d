//! What one transaction stores: items of the queue, in order, with watermarks and sums.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::LazyLock,
};

use rusqlite::{Connection, Transaction, params, types::ToSqlOutput};

use super::{
    Ledger, State,
    columns::{self, Names, Row},
    groups, placeholders,
    sums::NewSums,
    versions,
};
use crate::{
    fault::Fault,
    packed::Packed,
    queue::{Item, Queued},
};

/// Bits of a place within a group.
pub const PLACE_BITS: u32 = 8;

/// The parameter of the first column of a [`Row`]. Parameters without a value are null.
const FIRST_COLUMN: usize = 4;

static INSERT: LazyLock<String> = LazyLock::new(|| {
    let values = placeholders(FIRST_COLUMN - 1 + Row::COUNT);
    format!("insert or ignore into stored_generations (place, tail, record, {}) values ({values})", Row::columns())
});

impl Ledger {
    /// Commits items in order, with watermarks and sums; `forgotten` are segments that no longer exist.
    ///
    /// # Errors
    /// The disk refuses. It may have been committed all the same: compare `run` and `ordinal`.
    pub fn commit(&self, run: u64, items: &[Queued], forgotten: &[String]) -> Result<(), Fault> {
        self.change(|transaction, names| {
            let mut state = State::read(transaction)?;
            let mut entries: Vec<&Packed> = Vec::with_capacity(items.len());
            for queued in items {
                match &queued.item {
                    Item::Entry(entry) => entries.push(entry),
                    Item::Blob(hash, bytes) => versions::put(transaction, hash, bytes)?,
                    Item::Gap => {}
                }
            }
            versions::note_used(transaction, &entries)?;
            store(transaction, names, &mut state, entries)?;
            if let Some(last) = items.last() {
                (state.run, state.ordinal) = (run, last.ordinal);
            }
            put_watermarks(transaction, items, forgotten)?;
            state.write(transaction)
        })
    }

    /// End of the last committed frame of a segment.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn watermark(&self, segment: &str) -> Result<u64, Fault> {
        let view = self.view()?;
        let mut find = view.connection()?.prepare_cached("select place from watermarks where segment = ?1")?;
        let mut rows = find.query([segment])?;
        Ok(rows.next()?.map_or(Ok(0), |row| row.get::<_, i64>(0))?.cast_unsigned())
    }
}

fn store(
    transaction: &Transaction<'_>,
    names: &mut Names,
    state: &mut State,
    mut entries: Vec<&Packed>,
) -> Result<(), Fault> {
    entries.sort_by_key(|entry| entry.key());
    let mut sums = NewSums::default();
    // Most entries have the labels of others, and most columns of an entry those of the one before it.
    let (mut labelled, mut bound) = (BTreeMap::<&[u8], Row>::new(), [None; Row::COUNT]);
    let mut insert = transaction.prepare_cached(&INSERT)?;
    let mut put =
        transaction.prepare_cached("insert into stored_records (id, newest_ms, bytes) values (?1, ?2, ?3)")?;
    for group in entries.chunks(groups::ENTRIES) {
        let number = state.next_group;
        for (place, entry) in group.iter().enumerate() {
            let facts = entry.facts();
            let labels = match labelled.entry(facts.label_bytes()) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => *new.insert(Row::of_labels(&facts, &mut |name| names.number(transaction, name))?),
            };
            let row = labels.with_numbers(&facts);
            for (at, (value, bound)) in (FIRST_COLUMN..).zip(row.values().into_iter().zip(&mut bound)) {
                if *bound != value {
                    insert.raw_bind_parameter(at, value)?;
                    *bound = value;
                }
            }
            insert.raw_bind_parameter(2, ToSqlOutput::Borrowed(columns::tail_of(entry.id())))?;
            insert.raw_bind_parameter(3, number << PLACE_BITS | place as i64)?;
            let mut key = columns::key_of(entry.key().created_ms, entry.id());
            loop {
                insert.raw_bind_parameter(1, key)?;
                if insert.raw_execute()? > 0 {
                    sums.count(entry.key().created_ms, &row);
                    state.entries += 1;
                    break;
                }
                if is_same(transaction, key, entry)? {
                    break;
                }
                key = columns::key_after(key);
            }
        }
        let bytes = groups::pack(group.iter().map(|entry| entry.bytes()))?;
        let newest_ms = group.last().map_or(0, |entry| entry.key().created_ms);
        put.execute(params![number, newest_ms, bytes])?;
        state.stored += bytes.len() as u64;
        state.next_group += 1;
    }
    sums.write(transaction)
}

/// Whether the entry at this key is this one, which came twice.
fn is_same(connection: &Connection, key: i64, entry: &Packed) -> Result<bool, Fault> {
    let mut find = connection.prepare_cached("select tail = ?2 from stored_generations where place = ?1")?;
    let tail = ToSqlOutput::Borrowed(columns::tail_of(entry.id()));
    Ok(find.query_row(params![key, tail], |row| row.get(0))?)
}

fn put_watermarks(transaction: &Transaction<'_>, items: &[Queued], forgotten: &[String]) -> Result<(), Fault> {
    let mut forget = transaction.prepare_cached("delete from watermarks where segment = ?1")?;
    for segment in forgotten {
        forget.execute([segment])?;
    }
    // Positions of a segment come in order: its last one counts.
    let positions = items.iter().filter_map(|queued| queued.position.as_ref());
    let ends: BTreeMap<&str, u64> = positions.map(|at| (at.segment.name.as_str(), at.to)).collect();
    let mut put = transaction.prepare_cached("insert or replace into watermarks (segment, place) values (?1, ?2)")?;
    for (segment, end) in ends {
        put.execute(params![segment, end.cast_signed()])?;
    }
    Ok(())
}

impl State {
    pub(super) fn read(connection: &Connection) -> Result<State, Fault> {
        let mut read = connection
            .prepare_cached("select entries, stored, aged_out_ms, run, ordinal, next_group from state where id = 1")?;
        let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(i64::cast_unsigned);
        Ok(read.query_row([], |row| {
            Ok(State {
                entries: number(row, 0)?,
                stored: number(row, 1)?,
                aged_out_ms: row.get(2)?,
                run: number(row, 3)?,
                ordinal: number(row, 4)?,
                next_group: row.get(5)?,
            })
        })?)
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<(), Fault> {
        let mut write = connection.prepare_cached(
            "update state set entries = ?1, stored = ?2, aged_out_ms = ?3, run = ?4, ordinal = ?5, next_group = ?6",
        )?;
        let (entries, stored) = (self.entries.cast_signed(), self.stored.cast_signed());
        let (run, ordinal) = (self.run.cast_signed(), self.ordinal.cast_signed());
        write.execute(params![entries, stored, self.aged_out_ms, run, ordinal, self.next_group])?;
        Ok(())
    }
}
