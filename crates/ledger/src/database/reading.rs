//! What others read: entries by their ids, the rows of a page, groups in the order in which they came.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use rusqlite::{Connection, OptionalExtension as _, params, types::ToSqlOutput};

use super::{
    Ledger, State,
    columns::{self, FAILED, LABELS, NUMBERS, Row},
    commit::PLACE_BITS,
    groups,
};
use crate::{
    entry::{Entry, Filter, Id, TextFilter},
    event::Event,
    facts::{label, number},
    fault::{Fault, unless_damaged},
    packed::Packed,
};

/// A consistent view of the database.
pub struct View<'l> {
    ledger: &'l Ledger,
    /// Gone only when the view is dropped.
    connection: Option<Connection>,
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && connection.execute_batch("rollback").is_ok()
        {
            self.ledger.give_back(connection);
        }
    }
}

/// Entries that were stored together.
#[derive(Debug)]
pub struct Group {
    /// Its number.
    pub number: u64,
    /// The time of its latest entry.
    pub newest_ms: i64,
    /// Its entries; none if it is damaged.
    pub entries: Vec<Entry>,
    /// Its entries cannot be read.
    pub is_damaged: bool,
}

/// A row of a page: the place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its key.
    pub key: i64,
    /// Number of its group.
    pub group: i64,
    /// Its place there.
    pub at: usize,
}

impl Place {
    fn of(key: i64, record: i64) -> Place {
        let at = record & ((1 << PLACE_BITS) - 1);
        Place { key, group: record >> PLACE_BITS, at: usize::try_from(at).unwrap_or_default() }
    }
}

impl<'l> View<'l> {
    pub(super) const fn new(ledger: &'l Ledger, connection: Connection) -> View<'l> {
        View { ledger, connection: Some(connection) }
    }

    pub(super) fn connection(&self) -> Result<&Connection, Fault> {
        self.connection.as_ref().ok_or(Fault::Unavailable)
    }

    /// What the database knows of itself.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn state(&self) -> Result<State, Fault> {
        State::read(self.connection()?)
    }

    fn place(&self, id: &Id) -> Result<Option<Place>, Fault> {
        let second_ms = i64::try_from(id.time()).unwrap_or(i64::MAX).saturating_mul(1_000);
        let (first, last) = (columns::first_key(second_ms), columns::last_key(second_ms.saturating_add(999)));
        let tail = ToSqlOutput::Borrowed(columns::tail_of(id));
        let mut find = self.connection()?.prepare_cached(
            "select place, record from stored_generations where place between ?1 and ?2 and tail = ?3",
        )?;
        let place = find.query_row(params![first, last, tail], |row| Ok(Place::of(row.get(0)?, row.get(1)?)));
        Ok(place.optional()?)
    }

    /// Whether there is an entry with this id.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn has(&self, id: &Id) -> Result<bool, Fault> {
        Ok(self.place(id)?.is_some())
    }

    /// The entry with this id, whose time is the second of the entry.
    ///
    /// # Errors
    /// The disk refuses, or its group is damaged.
    pub fn entry(&self, id: &Id) -> Result<Option<Entry>, Fault> {
        let Some(place) = self.place(id)? else { return Ok(None) };
        let found = self.group(place.group)?.and_then(|bytes| groups::entry(&bytes, place.at));
        found.map_or_else(|| Err(lost(place.group)), |entry| Ok(Some(entry.entry())))
    }

    /// The expanded bytes of a group.
    ///
    /// # Errors
    /// The disk refuses, or it is damaged.
    pub fn group(&self, number: i64) -> Result<Option<Vec<u8>>, Fault> {
        self.packed_group(number)?.map(|packed| groups::expand(&packed)).transpose()
    }

    /// At most `most` groups with a greater number than `after`, or all for `None`, in their order.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn groups_after(&self, after: Option<u64>, most: usize) -> Result<Vec<Group>, Fault> {
        let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut find = self
            .connection()?
            .prepare_cached("select id, bytes, newest_ms from stored_records where id > ?1 order by id limit ?2")?;
        let mut rows = find.query([after, most])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let number = row.get::<_, i64>(0)?.cast_unsigned();
            let expanded = unless_damaged(number, groups::expand(row.get_ref(1)?.as_blob().unwrap_or_default()))?;
            let (is_damaged, bytes) = (expanded.is_none(), expanded.unwrap_or_default());
            let entries = groups::entries(&bytes).filter_map(Packed::read).map(|entry| entry.entry()).collect();
            found.push(Group { number, newest_ms: row.get(2)?, entries, is_damaged });
        }
        Ok(found)
    }

    /// Tells the place of every entry that the filter may admit, from the latest at or before `until` down to `since`, keys both;
    /// of the others only the key. Ends when `tell` gives `false`.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn each_row(
        &self,
        filter: &Filter,
        (since, until): (i64, i64),
        mut tell: impl FnMut(i64, Option<Place>) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let connection = self.connection()?;
        let admits = conditions(connection, filter)?;
        let select = format!(
            "select place, record, {admits} from stored_generations where place between ?1 and ?2 order by place desc"
        );
        let mut rows = connection.prepare(&select)?;
        let mut rows = rows.query([since, until])?;
        while let Some(row) = rows.next()? {
            let key = row.get(0)?;
            let place = if row.get(2)? { Some(Place::of(key, row.get(1)?)) } else { None };
            if !tell(key, place)? {
                break;
            }
        }
        Ok(())
    }

    /// Places of at most so many entries that the filter admits, in the order of time, after this key.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn places_after(&self, filter: &Filter, after: Option<i64>, most: usize) -> Result<Vec<Place>, Fault> {
        let connection = self.connection()?;
        let (since, until) = key_range(filter);
        let since = after.map_or(since, |after| since.max(after.saturating_add(1)));
        let select = format!(
            "select place, record from stored_generations where place between ?1 and ?2 and {} order by place limit ?3",
            conditions(connection, filter)?
        );
        let mut rows = connection.prepare(&select)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let places = rows.query_map(params![since, until, most], |row| Ok(Place::of(row.get(0)?, row.get(1)?)))?;
        Ok(places.collect::<Result<_, _>>()?)
    }

    /// Number of entries that the filter admits.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn count_admitted(&self, filter: &Filter) -> Result<u64, Fault> {
        let connection = self.connection()?;
        let (since, until) = key_range(filter);
        let count = format!(
            "select count(*) from stored_generations where place between ?1 and ?2 and {}",
            conditions(connection, filter)?
        );
        Ok(connection.query_row(&count, [since, until], |row| row.get::<_, i64>(0))?.cast_unsigned())
    }

    /// The bytes of a group as they are stored.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn packed_group(&self, number: i64) -> Result<Option<Vec<u8>>, Fault> {
        let mut find = self.connection()?.prepare_cached("select bytes from stored_records where id = ?1")?;
        Ok(find.query_row([number], |row| row.get(0)).optional()?)
    }

    /// The number of entries, with the least and the greatest time of them.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn extent(&self) -> Result<(u64, Option<(i64, i64)>), Fault> {
        let select = "select count(*), min(place), max(place) from stored_generations";
        Ok(self.connection()?.query_row(select, [], |row| {
            let range = row.get::<_, Option<i64>>(1)?.zip(row.get::<_, Option<i64>>(2)?);
            let range_ms = range.map(|(least, greatest)| (columns::ms_of(least), columns::ms_of(greatest)));
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), range_ms))
        })?)
    }

    /// The greatest time of an entry.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn newest_ms(&self) -> Result<Option<i64>, Fault> {
        let newest = "select max(place) from stored_generations";
        Ok(self.connection()?.query_row(newest, [], |row| row.get::<_, Option<i64>>(0))?.map(columns::ms_of))
    }

    /// The number of entries by their labels in `field`.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn label_counts(&self, field: u8) -> Result<BTreeMap<Box<str>, u64>, Fault> {
        let Some((_, column)) = LABELS.iter().find(|(other, _)| *other == field) else { return Ok(BTreeMap::new()) };
        let mut count = self.connection()?.prepare(&format!(
            "select text, count(*) from stored_generations join names on names.id = {column} group by {column}"
        ))?;
        let counts = count.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
        Ok(counts.collect::<Result<_, _>>()?)
    }

    /// The columns of an entry.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn row(&self, id: &Id) -> Result<Option<Row>, Fault> {
        let Some(place) = self.place(id)? else { return Ok(None) };
        let failed = columns::find_name(self.connection()?, FAILED)?.unwrap_or(-1);
        let select = format!("select {} from stored_generations where place = ?1", Row::columns());
        let mut find = self.connection()?.prepare_cached(&select)?;
        Ok(Some(find.query_row([place.key], |row| Row::read(row, failed))?))
    }

    /// The number of a name.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Fault> {
        columns::find_name(self.connection()?, name)
    }

    /// The name of a number.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn name(&self, number: i64) -> Result<Option<Box<str>>, Fault> {
        let mut find = self.connection()?.prepare_cached("select text from names where id = ?1")?;
        Ok(find.query_row([number], |row| row.get(0)).optional()?)
    }
}

/// A record that its columns promise is not in its group.
pub fn lost(group: i64) -> Fault {
    Fault::Damaged(format!("a record of group {group}"))
}

/// The least and the greatest key of what the times of a filter admit.
fn key_range(filter: &Filter) -> (i64, i64) {
    (filter.since_ms.map_or(0, columns::first_key), filter.until_ms.map_or(i64::MAX, columns::last_key))
}

/// The conditions of a filter but for its times, as an expression over columns. All values in it are integers.
pub fn conditions(connection: &Connection, filter: &Filter) -> Result<String, Fault> {
    let mut all = "1".to_owned();
    for (field, texts) in &filter.labels {
        if *field == label::EVENT {
            let has = |(_, event): &(usize, Event)| texts.iter().any(|text| **text == *event.as_str());
            let bits: i64 = Event::ALL.into_iter().enumerate().filter(has).map(|(bit, _)| 1 << bit).sum();
            let _ = write!(all, " and events & {bits} <> 0");
            continue;
        }
        let mut numbers = BTreeSet::new();
        for text in texts {
            numbers.extend(if text.is_empty() { Some(0) } else { columns::find_name(connection, text)? });
        }
        let _ = write!(all, " and {}", is_among(*field, &numbers));
    }
    for (field, range) in &filter.numbers {
        let (least, greatest) = (range.start(), range.end());
        let known = if *field == number::COST_NANOS { " and cost_unknown = 0" } else { "" };
        let column = if *field == number::COST_NANOS { Some("cost_nanos") } else { number_column(*field) };
        let column = column.unwrap_or("null");
        let _ = write!(all, "{known} and coalesce({column} between {least} and {greatest}, 0)");
    }
    if let Some(text) = &filter.text {
        let _ = write!(all, " and {}", has_text(connection, text)?);
    }
    Ok(all)
}

fn number_column(field: u8) -> Option<&'static str> {
    NUMBERS.iter().find(|(other, _)| *other == field).map(|(_, column)| *column)
}

fn is_among(field: u8, numbers: &BTreeSet<i64>) -> String {
    match LABELS.iter().find(|(other, _)| *other == field) {
        Some((_, column)) if !numbers.is_empty() => {
            let list: Vec<String> = numbers.iter().map(i64::to_string).collect();
            format!("{column} in ({})", list.join(", "))
        }
        _ => "0".to_owned(),
    }
}

/// Whether a label contains the text: of the few names that there are, those are looked for that do.
fn has_text(connection: &Connection, text: &TextFilter) -> Result<String, Fault> {
    let mut names = connection.prepare_cached("select id, text from names")?;
    let mut rows = names.query([])?;
    let mut numbers = BTreeSet::new();
    while let Some(row) = rows.next()? {
        if row.get_ref(1)?.as_str().unwrap_or_default().to_lowercase().contains(&*text.lowercase) {
            numbers.insert(row.get(0)?);
        }
    }
    let any: Vec<String> = text.fields.iter().map(|field| is_among(*field, &numbers)).collect();
    Ok(format!("({})", any.join(" or ")))
}
