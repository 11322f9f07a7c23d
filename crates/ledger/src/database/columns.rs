//! The columns of a generation: what people and filters ask, as integers. Texts that repeat are numbers of the table `names`.

use std::collections::HashMap;

use pointsman_domain::Usd;
use rusqlite::{Connection, OptionalExtension as _};

use crate::{
    activity::counters::ActivityCounters,
    entry::Id,
    event::Event,
    facts::{FEMTO_PER_MILLI, FEMTO_PER_NANO, label, number},
    facts_view::FactsView,
    fault::Fault,
};

/// Labels, with the columns that hold the numbers of their names. The first eight are those that sums are kept by.
pub const LABELS: [(u8, &str); 12] = [
    (label::OWNER, "account"),
    (label::KEY, "key"),
    (label::TEAM, "team"),
    (label::MODEL, "model"),
    (label::PROVIDER, "provider"),
    (label::ALIAS, "alias"),
    (label::OBJECTIVE, "objective"),
    (label::TASK, "task"),
    (label::STATUS, "status"),
    (label::REQUESTED_MODEL, "requested_model"),
    (label::CAUSE, "cause"),
    (label::VARIANT, "variant"),
];
/// How many of [`LABELS`] sums are kept by.
pub const DIMENSIONS: usize = 8;

/// Numbers, with their columns; the first fourteen are the last of the [`ActivityCounters`]. Most records have no number in most of
/// them, which takes a byte.
pub const NUMBERS: [(u8, &str); 16] = [
    (number::PROMPT_TOKENS, "prompt_tokens"),
    (number::COMPLETION_TOKENS, "completion_tokens"),
    (number::CACHED_TOKENS, "cached_tokens"),
    (number::REASONING_TOKENS, "reasoning_tokens"),
    (number::CACHE_WRITE_TOKENS, "cache_write_tokens"),
    (number::CACHE_WRITE_1H_TOKENS, "cache_write_1h_tokens"),
    (number::AUDIO_TOKENS, "audio_tokens"),
    (number::AUDIO_OUTPUT_TOKENS, "audio_output_tokens"),
    (number::IMAGES, "images"),
    (number::WEB_SEARCHES, "web_searches"),
    (number::INPUT_NANOS, "input_nanos"),
    (number::CACHE_NANOS, "cache_nanos"),
    (number::OUTPUT_NANOS, "output_nanos"),
    (number::LOST_NANOS, "lost_nanos"),
    (number::FIRST_TOKEN_MS, "first_token_ms"),
    (number::DURATION_MS, "duration_ms"),
];

/// Bits of a key below the time: enough for the first characters of an id.
pub const ID_BITS: u32 = 21;
const ID_MASK: i64 = (1 << ID_BITS) - 1;
/// The last time that a key can tell: in the year 2109. Later entries have the keys of that time.
const LAST_MS: i64 = (1 << (63 - ID_BITS)) - 1;

/// The least key of a time.
pub fn first_key(ms: i64) -> i64 {
    ms.clamp(0, LAST_MS) << ID_BITS
}

/// The greatest key of a time.
pub fn last_key(ms: i64) -> i64 {
    first_key(ms) | ID_MASK
}

/// The time in a key.
pub const fn ms_of(key: i64) -> i64 {
    key >> ID_BITS
}

/// Where an entry is stored, unless another one is there: ordered by its time, then by the beginning of its id.
pub fn key_of(created_ms: i64, id: &Id) -> i64 {
    let beginning = id.0.iter().skip(8).take(3).fold(0, |bits, byte| bits << 7 | i64::from(byte & 0x7f));
    first_key(created_ms) | beginning
}

/// The next place of the same millisecond.
pub const fn key_after(key: i64) -> i64 {
    (key & !ID_MASK) | ((key + 1) & ID_MASK)
}

/// What tells ids of one second apart: text, if it is text.
pub fn tail_of(id: &Id) -> rusqlite::types::ValueRef<'_> {
    use rusqlite::types::ValueRef;
    let tail = id.0.get(8..).unwrap_or_default();
    let end = tail.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let tail = tail.get(..end).unwrap_or_default();
    if std::str::from_utf8(tail).is_ok() { ValueRef::Text(tail) } else { ValueRef::Blob(tail) }
}

/// The columns of one entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// Numbers of names, in the order of [`LABELS`]; 0 where there is none.
    pub names: [i64; LABELS.len()],
    /// A bit for each of [`Event::ALL`].
    pub events: i64,
    /// In the order of [`NUMBERS`].
    pub numbers: [Option<i64>; NUMBERS.len()],
    /// Known cost, whole billionths of a dollar.
    pub cost_nanos: i64,
    /// The rest of it, 10⁻¹⁵ dollars.
    pub cost_rest: i64,
    /// The cost of an attempt is not known.
    pub cost_unknown: bool,
    /// It ended with an error.
    pub failed: bool,
}

impl Row {
    /// The columns of these facts. Names that are new get a number.
    ///
    /// # Errors
    /// The database refuses.
    pub fn of(facts: &FactsView<'_>, names: &mut impl FnMut(&str) -> Result<i64, Fault>) -> Result<Row, Fault> {
        Ok(Row::of_labels(facts, names)?.with_numbers(facts))
    }

    /// The columns of the labels alone.
    ///
    /// # Errors
    /// The database refuses.
    pub fn of_labels(facts: &FactsView<'_>, names: &mut impl FnMut(&str) -> Result<i64, Fault>) -> Result<Row, Fault> {
        let mut row = Row { cost_unknown: true, ..Row::default() };
        for (field, text) in facts.labels() {
            if field == label::EVENT {
                let bit = Event::ALL.iter().position(|event| event.as_str() == text);
                row.events |= bit.map_or(0, |bit| 1 << bit);
            } else if !text.is_empty()
                && let Some(at) = LABELS.iter().position(|(other, _)| *other == field)
                && let Some(place) = row.names.get_mut(at)
            {
                *place = names(text)?;
                row.failed |= field == label::STATUS && text == FAILED;
            }
        }
        Ok(row)
    }

    /// Adds the columns of the numbers.
    #[must_use]
    pub fn with_numbers(mut self, facts: &FactsView<'_>) -> Row {
        let mut femto = 0;
        for (field, number) in facts.numbers() {
            match field {
                number::COST_MILLIS => femto += i128::from(number) * FEMTO_PER_MILLI,
                number::COST_REST => femto += i128::from(number),
                number::COST_NANOS => self.cost_unknown = false,
                _ => {
                    let at = NUMBERS.iter().position(|(other, _)| *other == field);
                    if let Some(place) = at.and_then(|at| self.numbers.get_mut(at)) {
                        *place = Some(number);
                    }
                }
            }
        }
        (self.cost_nanos, self.cost_rest) = divided(Usd::from_femto(femto));
        self
    }

    /// The names that sums are kept by.
    pub fn dimensions(&self) -> [i64; DIMENSIONS] {
        *self.names.first_chunk().unwrap_or(&[0; DIMENSIONS])
    }

    /// What it adds to sums.
    pub fn counters(&self) -> ActivityCounters {
        let counted = [1, u64::from(self.failed), u64::from(self.cost_unknown)].into_iter();
        let numbers = self.numbers.iter().map(|number| u64::try_from(number.unwrap_or_default()).unwrap_or_default());
        let mut counts = [0; ActivityCounters::COUNT];
        counts.iter_mut().zip(counted.chain(numbers)).for_each(|(count, number)| *count = number);
        ActivityCounters::with(counts, whole(self.cost_nanos, self.cost_rest))
    }

    /// All columns, in order.
    pub fn values(&self) -> [Option<i64>; Row::COUNT] {
        let costs = [self.cost_nanos, self.cost_rest, i64::from(self.cost_unknown)];
        let labels = self.names.into_iter().chain([self.events]).map(Some);
        let mut values = [None; Row::COUNT];
        let mut places = values.iter_mut();
        let all = labels.chain(self.numbers).chain(costs.map(Some));
        all.for_each(|value| {
            if let Some(place) = places.next() {
                *place = value;
            }
        });
        values
    }

    /// The columns of a stored row. `failed` is the number of the name of that status.
    ///
    /// # Errors
    /// The row has other columns.
    pub fn read(row: &rusqlite::Row<'_>, failed: i64) -> rusqlite::Result<Row> {
        let mut read = Row::default();
        let mut at = 0..;
        let mut next = || at.next().unwrap_or_default();
        read.names.iter_mut().try_for_each(|name| row.get(next()).map(|value| *name = value))?;
        read.events = row.get(next())?;
        read.numbers.iter_mut().try_for_each(|number| row.get(next()).map(|value| *number = value))?;
        (read.cost_nanos, read.cost_rest, read.cost_unknown) = (row.get(next())?, row.get(next())?, row.get(next())?);
        read.failed = LABELS.iter().zip(read.names).any(|((field, _), name)| *field == label::STATUS && name == failed);
        Ok(read)
    }

    /// The names of the columns, with commas between.
    pub fn columns() -> String {
        let labels = LABELS.iter().map(|(_, column)| *column).chain(["events"]);
        let numbers = NUMBERS.iter().map(|(_, column)| *column).chain(["cost_nanos", "cost_rest", "cost_unknown"]);
        labels.chain(numbers).collect::<Vec<_>>().join(", ")
    }

    /// The number of columns.
    pub const COUNT: usize = LABELS.len() + NUMBERS.len() + 4;
}

/// The status of generations that ended with an error.
pub const FAILED: &str = pointsman_domain::GenerationStatus::Failed.as_str();

/// An amount in whole billionths of a dollar, and the rest. Both can be added up.
pub fn divided(cost: Usd) -> (i64, i64) {
    let cost = cost.femto();
    let whole = i64::try_from(cost / FEMTO_PER_NANO).unwrap_or(i64::MAX);
    (whole, i64::try_from(cost % FEMTO_PER_NANO).unwrap_or_default())
}

/// Undoes [`divided`].
pub fn whole(nanos: i64, rest: i64) -> Usd {
    Usd::from_femto(i128::from(nanos) * FEMTO_PER_NANO + i128::from(rest))
}

/// Names that are remembered; all are in the table.
const REMEMBERED: usize = 4_096;

/// The numbers of names.
#[derive(Debug, Default)]
pub struct Names(HashMap<Box<str>, i64>);

impl Names {
    /// The number of a name; a new one if it has none.
    ///
    /// # Errors
    /// The database refuses.
    pub fn number(&mut self, connection: &Connection, name: &str) -> Result<i64, Fault> {
        if let Some(number) = self.0.get(name) {
            return Ok(*number);
        }
        let known = find_name(connection, name)?;
        let number = match known {
            Some(number) => number,
            None => {
                let mut insert = connection.prepare_cached("insert into names (text) values (?1) returning id")?;
                insert.query_row([name], |row| row.get(0))?
            }
        };
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(name.into(), number);
        Ok(number)
    }

    /// Forgets all: those that a transaction added are gone with it.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// The number of a name, if it has one.
///
/// # Errors
/// The database refuses.
pub fn find_name(connection: &Connection, name: &str) -> Result<Option<i64>, Fault> {
    let mut find = connection.prepare_cached("select id from names where text = ?1")?;
    Ok(find.query_row([name], |row| row.get(0)).optional()?)
}
