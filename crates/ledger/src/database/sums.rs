//! Sums per 15 minutes, account, key, team, model, provider, alias, objective and task. They count every entry once and outlive it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use rusqlite::{Connection, params};

use super::{
    Ledger, View,
    columns::{self, DIMENSIONS, FAILED, LABELS, Row, divided, whole},
    placeholders,
};
use crate::{
    activity::{
        ActivityCounters, ActivityKey, SLOT, Spending, Sums,
        grouping::{Dimension, Grouping, Period},
        slot, slot_start,
    },
    fault::Fault,
};

/// The slot of the sums of long ago. No time lies in it.
pub const LONG_AGO: i64 = i64::MIN;
/// Days with sums that keep them however old they are: more than the longest month, so that a clock that was wrong for some
/// days does not take the sums of the current month.
const DAYS_KEPT: usize = 45;
/// Slots of a day.
const DAY: i64 = 86_400 / SLOT.as_secs() as i64;

/// Numbers of names, of the first [`DIMENSIONS`] of [`LABELS`].
pub type Names = [i64; DIMENSIONS];

/// Sums of the entries of one transaction.
#[derive(Debug, Default)]
pub struct NewSums(BTreeMap<(i64, Names), ActivityCounters>);

static ADD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "insert into stored_sums (slot, {}, {}) values ({}) on conflict do update set {}",
        dimensions(),
        COUNTERS.join(", "),
        placeholders(1 + DIMENSIONS + COUNTERS.len()),
        added()
    )
});

/// The columns of what is counted.
static COUNTERS: LazyLock<Vec<&str>> =
    LazyLock::new(|| ActivityCounters::NAMES.into_iter().chain(["cost_nanos", "cost_rest"]).collect());

/// What becomes of a sum that is there already.
fn added() -> String {
    COUNTERS.iter().map(|name| format!("{name} = {name} + excluded.{name}")).collect::<Vec<_>>().join(", ")
}

/// A condition in SQL: the dimension has one of these names. It holds integers only, no text.
fn is_one_of(connection: &Connection, dimension: Dimension, names: &[String]) -> Result<String, Fault> {
    let number = |name: &String| if name.is_empty() { Ok(Some(0)) } else { columns::find_name(connection, name) };
    let numbers: Vec<Option<i64>> = names.iter().map(number).collect::<Result<_, _>>()?;
    let numbers: Vec<String> = numbers.into_iter().flatten().map(|number| number.to_string()).collect();
    Ok(format!(" and {} in ({})", dimension.as_str(), numbers.join(", ")))
}

fn dimensions() -> String {
    LABELS.iter().take(DIMENSIONS).map(|(_, column)| *column).collect::<Vec<_>>().join(", ")
}

impl NewSums {
    /// Counts an entry.
    pub fn count(&mut self, created_ms: i64, row: &Row) {
        self.0.entry((slot(created_ms), row.dimensions())).or_default().add(&row.counters());
    }

    /// Adds them to what is stored.
    ///
    /// # Errors
    /// The database refuses.
    pub fn write(self, connection: &Connection) -> Result<(), Fault> {
        let mut add = connection.prepare_cached(&ADD)?;
        for ((slot, names), counters) in self.0 {
            let (nanos, rest) = divided(counters.cost);
            let counts = counters.counts().map(u64::cast_signed);
            let values = [slot].into_iter().chain(names).chain(counts).chain([nanos, rest]);
            for (at, value) in (1..).zip(values) {
                add.raw_bind_parameter(at, value)?;
            }
            add.raw_execute()?;
        }
        Ok(())
    }
}

impl View<'_> {
    /// Sums as they are asked for, added up by SQLite. Those of long ago are in none.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sums(&self, grouping: &Grouping) -> Result<Sums, Fault> {
        let (first, last) = ((*grouping.slots.start()).max(LONG_AGO + 1), *grouping.slots.end());
        let connection = self.connection()?;
        let start = match grouping.period {
            None => "?1".to_owned(),
            // Slots of times since 1970 are positive, so that the rest is.
            Some(Period { slots, offset }) => format!("slot - (slot + {offset}) % {slots}"),
        };
        let by: Vec<&str> = grouping.by.iter().map(|dimension| dimension.as_str()).collect();
        let only = |(dimension, names): &(Dimension, Vec<String>)| is_one_of(connection, *dimension, names);
        let only: String = grouping.only.iter().map(only).collect::<Result<_, _>>()?;
        let counters: Vec<String> = COUNTERS.iter().map(|name| format!("sum({name})")).collect();
        let mut columns = vec![format!("{start} as start")];
        columns.extend(by.iter().map(|name| (*name).to_owned()).chain(counters));
        let groups: Vec<String> = (1..=1 + by.len()).map(|at| at.to_string()).collect();
        let select = format!(
            "select {} from stored_sums where slot between ?1 and ?2{only} group by {}",
            columns.join(", "),
            groups.join(", ")
        );
        let mut read = connection.prepare_cached(&select)?;
        let mut rows = read.query([first, last])?;
        let (mut names, mut sums) = (HashMap::from([(0, String::new())]), BTreeMap::new());
        while let Some(row) = rows.next()? {
            let key = self.key(row, 1, &grouping.by, &mut names)?;
            sums.insert((row.get(0)?, key), read_counters(row, 1 + by.len())?);
        }
        Ok(sums)
    }

    /// Answers to stored entries that were admitted from a time on and before another, Unix milliseconds, by some of their names.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn answers(&self, by: &[Dimension], from_ms: i64, until_ms: i64) -> Result<BTreeMap<ActivityKey, u64>, Fault> {
        let columns: Vec<&str> = by.iter().map(|dimension| dimension.as_str()).collect();
        let columns = columns.join(", ");
        let mut read = self.connection()?.prepare_cached(&format!(
            "select {columns}, count(*) from stored_generations where place >= ?1 and place < ?2 and status <> ?3 group by {columns}"
        ))?;
        let failed = columns::find_name(self.connection()?, FAILED)?.unwrap_or(-1);
        let mut rows = read.query([columns::first_key(from_ms), columns::first_key(until_ms), failed])?;
        let (mut names, mut answers) = (HashMap::from([(0, String::new())]), BTreeMap::new());
        while let Some(row) = rows.next()? {
            let key = self.key(row, 0, by, &mut names)?;
            answers.insert(key, row.get::<_, i64>(by.len())?.cast_unsigned());
        }
        Ok(answers)
    }

    /// The names in a row, of which the first is in this column.
    fn key(
        &self,
        row: &rusqlite::Row<'_>,
        first: usize,
        by: &[Dimension],
        names: &mut HashMap<i64, String>,
    ) -> Result<ActivityKey, Fault> {
        let mut key = ActivityKey::default();
        for (at, dimension) in (first..).zip(by) {
            key = key.with(*dimension, self.remembered(names, row.get(at)?)?);
        }
        Ok(key)
    }

    /// The name of a number, which is looked up once.
    fn remembered(&self, names: &mut HashMap<i64, String>, number: i64) -> Result<String, Fault> {
        if let Some(name) = names.get(&number) {
            return Ok(name.clone());
        }
        let name = self.name(number)?.map(String::from).unwrap_or_default();
        names.insert(number, name.clone());
        Ok(name)
    }

    /// What was spent, by day, account, key and team.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn spending(&self) -> Result<Vec<Spending>, Fault> {
        let mut read = self.connection()?.prepare(
            "select day, coalesce(account.text, ''), coalesce(key.text, ''), coalesce(team.text, ''), nanos, rest
             from (
                 select case when slot > ?1 then slot / ?2 end as day, account, key, team, sum(cost_nanos) as nanos,
                     sum(cost_rest) as rest
                 from stored_sums group by 1, 2, 3, 4
             ) s
             left join names account on account.id = s.account
             left join names key on key.id = s.key
             left join names team on team.id = s.team",
        )?;
        let spent = read.query_map([LONG_AGO, DAY], |row| {
            Ok(Spending {
                day_ms: row.get::<_, Option<i64>>(0)?.map(|day| day.saturating_mul(86_400_000)),
                owner: row.get(1)?,
                key: row.get(2)?,
                team: row.get(3)?,
                cost: whole(row.get(4)?, row.get(5)?),
            })
        })?;
        Ok(spent.collect::<Result<_, _>>()?)
    }

    /// The sums of one slot, by the numbers of their names.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sums_of(&self, slot: i64) -> Result<BTreeMap<Names, ActivityCounters>, Fault> {
        let (dimensions, counters) = (dimensions(), COUNTERS.join(", "));
        self.by_names(&format!("select {dimensions}, {counters} from stored_sums where slot = ?1"), params![slot])
    }

    /// What the columns of the entries of one slot give as its sums.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn counted_in(&self, slot: i64) -> Result<BTreeMap<Names, ActivityCounters>, Fault> {
        let (first, last) = (columns::first_key(slot_start(slot)), columns::last_key(slot_start(slot + 1) - 1));
        let failed = columns::find_name(self.connection()?, FAILED)?.unwrap_or(-1);
        let counted: Vec<String> =
            COUNTERS.iter().skip(3).map(|name| format!("ifnull(sum(max({name}, 0)), 0)")).collect();
        let select = format!(
            "select {dimensions}, count(*), sum(status = ?3), sum(cost_unknown), {} from stored_generations
             where place between ?1 and ?2 group by {dimensions}",
            counted.join(", "),
            dimensions = dimensions(),
        );
        self.by_names(&select, params![first, last, failed])
    }

    fn by_names(
        &self,
        select: &str,
        parameters: &[&dyn rusqlite::ToSql],
    ) -> Result<BTreeMap<Names, ActivityCounters>, Fault> {
        let mut read = self.connection()?.prepare_cached(select)?;
        let mut rows = read.query(parameters)?;
        let mut sums = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let mut names = Names::default();
            names.iter_mut().enumerate().try_for_each(|(at, name)| row.get(at).map(|value| *name = value))?;
            sums.insert(names, read_counters(row, DIMENSIONS)?);
        }
        Ok(sums)
    }

    /// The slots that have sums or entries, in order, but for that of long ago; and whether it has all entries that its sums
    /// count: it is none before `from`, and none of its entries were deleted on request.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn slots(&self, from: i64) -> Result<Vec<(i64, bool)>, Fault> {
        let mut read = self.connection()?.prepare_cached(
            "select slot, slot >= ?2 and slot not in (select slot from deletions) from (
                 select slot from stored_sums where slot > ?1
                 union select (place >> ?3) / ?4 from stored_generations
             ) order by slot",
        )?;
        let slots = read.query_map(params![LONG_AGO, from, columns::ID_BITS, SLOT.as_millis() as i64], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        Ok(slots.collect::<Result<_, _>>()?)
    }

    /// The first slot of the last days that have sums.
    fn first_slot_of_last_days(&self) -> Result<i64, Fault> {
        let mut last =
            self.connection()?.prepare_cached("select max(slot) from stored_sums where slot between ?1 and ?2")?;
        let mut first = i64::MAX;
        for _ in 0..DAYS_KEPT {
            let Some(slot) = last.query_row([LONG_AGO + 1, first - 1], |row| row.get::<_, Option<i64>>(0))? else {
                break;
            };
            first = slot - slot.rem_euclid(DAY);
        }
        Ok(first)
    }
}

fn read_counters(row: &rusqlite::Row<'_>, from: usize) -> rusqlite::Result<ActivityCounters> {
    let mut counts = [0; ActivityCounters::COUNT];
    for (at, count) in counts.iter_mut().enumerate() {
        *count = row.get::<_, i64>(from + at)?.cast_unsigned();
    }
    let cost = from + ActivityCounters::COUNT;
    Ok(ActivityCounters::with(counts, whole(row.get(cost)?, row.get(cost + 1)?)))
}

impl Ledger {
    /// Adds the sums of a day that ended before `oldest_ms` to those of long ago, but for those of the last 45 days that have
    /// sums. Gives whether there may be more such days.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn retain_sums(&self, oldest_ms: i64) -> Result<bool, Fault> {
        let (bound, first) = {
            let view = self.view()?;
            let bound = slot(oldest_ms).min(view.first_slot_of_last_days()?);
            let first = "select min(slot) from stored_sums where slot > ?1";
            (bound, view.connection()?.query_row(first, [LONG_AGO], |row| row.get::<_, Option<i64>>(0))?)
        };
        let Some(first) = first.filter(|first| *first < bound) else { return Ok(false) };
        let until = bound.min(first + DAY);
        let summed: Vec<String> = COUNTERS.iter().map(|name| format!("sum({name})")).collect();
        let dimensions = dimensions();
        let merge = format!(
            "insert into stored_sums (slot, {dimensions}, {})
             select ?1, {dimensions}, {} from stored_sums where slot > ?1 and slot < ?2 group by {dimensions}
             on conflict do update set {}",
            COUNTERS.join(", "),
            summed.join(", "),
            added()
        );
        self.change(|transaction, _| {
            transaction.execute(&merge, [LONG_AGO, until])?;
            transaction.execute("delete from stored_sums where slot > ?1 and slot < ?2", [LONG_AGO, until])?;
            transaction.execute("delete from deletions where slot < ?1", params![until])?;
            Ok(())
        })?;
        Ok(until < bound)
    }
}
