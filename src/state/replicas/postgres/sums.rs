//! Sums of the activity of each replica: own ones are sent while they change, those of others are read.
//!
//! A sum is sent as a whole, so that what is sent twice counts once. A generation counts in the slot in which it began, so that one
//! that ended, or reached the ledger, long afterwards changes a slot that was sent before: its record tells.

use std::{collections::BTreeSet, sync::LazyLock, time::Duration};

use pointsman_base::clock;
use pointsman_domain::Usd;
use pointsman_ledger::{
    activity::{
        ActivityCounters, ActivityKey, SLOT, Sums as SlotSums,
        grouping::{Dimension, Grouping, Period},
        slot,
    },
    database::Identity,
    fault::Fault,
};
use tokio::time::Instant;
use tokio_postgres::{Client, Row, types::Type};

use super::{
    session::{Parameter, PostgresFault},
    sources::{Pieces, Sources},
};

/// Time between two looks at the own sums.
const EVERY: Duration = Duration::from_secs(5);
/// Slots before the current one that change often.
const OPEN_SLOTS: i64 = 2;
/// Slots that are looked at in one exchange: a day.
const SLOTS_AT_ONCE: i64 = 96;
/// Age of the oldest sums that are kept.
const MAX_AGE: Duration = Duration::from_secs(90 * 86_400);
/// Most sums of one answer. Of a longer range of time nothing is read.
const MOST_READ: i64 = 200_000;

/// The columns of what sums are kept by.
static DIMENSIONS: LazyLock<String> = LazyLock::new(|| Dimension::ALL.map(Dimension::as_str).join(", "));

/// Inserts sums, or puts those in place of earlier ones that count more.
static INSERT: LazyLock<String> = LazyLock::new(|| {
    let (dimensions, counters) = (&*DIMENSIONS, ActivityCounters::NAMES.join(", "));
    let columns = format!("slot, {dimensions}, {counters}, cost");
    let last = 3 + Dimension::ALL.len() + ActivityCounters::COUNT + 1;
    let parameters: Vec<String> = (3..=last).map(|at| format!("${at}")).collect();
    let counted = ActivityCounters::NAMES.into_iter().chain(["cost"]);
    let replaced: Vec<String> = counted.map(|name| format!("{name} = excluded.{name}")).collect();
    format!(
        "insert into pointsman_sums as sums (node, ledger, {columns})
         select $1, $2, slot, {dimensions}, {counters}, cost::numeric from unnest({}) as new({columns})
         on conflict (slot, node, ledger, {dimensions}) do update set {}
         where sums.requests <> excluded.requests",
        parameters.join(", "),
        replaced.join(", ")
    )
});

/// The own sums of these slots.
fn own_sums(sources: &Sources, first: i64, last: i64) -> Result<SlotSums, Fault> {
    let mut sums = SlotSums::new();
    for ((slot, key), counters) in sources.ledger.entries().sums(&Grouping::all(first..=last))? {
        // PostgreSQL has no zero byte in texts.
        let storable =
            |storable: ActivityKey, dimension| storable.with(dimension, key.get(dimension).replace('\0', ""));
        let key = Dimension::ALL.into_iter().fold(ActivityKey::default(), storable);
        sums.entry((slot, key)).or_default().add(&counters);
    }
    Ok(sums)
}

/// What was sent already. Lives as long as the connection.
#[derive(Default)]
pub struct Sums {
    /// The slot to go on with; `None` before PostgreSQL was asked.
    from: Option<i64>,
    /// What PostgreSQL has of the slots that change often.
    sent: SlotSums,
    next_at: Option<Instant>,
}

impl Sums {
    /// Forgets what PostgreSQL is believed to have: it may be another one.
    pub fn reconnected(&mut self) {
        *self = Sums::default();
    }

    /// Sends what is new with the next call: this replica ends.
    pub const fn hurry(&mut self) {
        self.next_at = None;
    }

    /// Sends what is new. Gives whether there is more.
    ///
    /// # Errors
    /// PostgreSQL or the ledger on disk fails; the same is sent again by the next call.
    pub async fn send(&mut self, client: &Client, sources: &Sources) -> Result<bool, PostgresFault> {
        if self.next_at.is_some_and(|at| at > Instant::now()) {
            return Ok(false);
        }
        let (identity, current) = (sources.ledger.entries().identity()?, slot(clock::unix_millis()));
        let mut from = self.from(client, sources, identity, current).await?;
        let (until, mut sums) = loop {
            let until = current.min(from.saturating_add(SLOTS_AT_ONCE));
            let sums = own_sums(sources, from, until)?;
            if !sums.is_empty() || until >= current {
                break (until, sums);
            }
            from = until;
        };
        let new = sums.iter().filter(|(place, sum)| self.sent.get(*place) != Some(*sum)).collect::<Vec<_>>();
        insert(client, sources, identity, &new).await?;
        self.from = Some(until.min(current.saturating_sub(OPEN_SLOTS)));
        sums.retain(|(slot, _), _| *slot >= self.from.unwrap_or(from));
        self.sent = sums;
        self.next_at = (until == current).then(|| Instant::now() + EVERY);
        Ok(self.next_at.is_none())
    }

    /// Sends the sums of those of these slots to which [`Sums::send`] does not come back: records that reached the ledger late
    /// changed them. Called before PostgreSQL is told that it has these records.
    ///
    /// # Errors
    /// As for [`Sums::send`].
    pub async fn send_late(
        &mut self,
        client: &Client,
        sources: &Sources,
        slots: &BTreeSet<i64>,
    ) -> Result<(), PostgresFault> {
        let (identity, current) = (sources.ledger.entries().identity()?, slot(clock::unix_millis()));
        let from = self.from(client, sources, identity, current).await?;
        for late in slots.range(oldest(current)..from.max(oldest(current))) {
            let sums = own_sums(sources, *late, *late)?;
            insert(client, sources, identity, &sums.iter().collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    /// The slot to go on with.
    async fn from(
        &mut self,
        client: &Client,
        sources: &Sources,
        identity: Identity,
        current: i64,
    ) -> Result<i64, PostgresFault> {
        let from = match self.from {
            Some(from) => from,
            None => first_open(client, &sources.node, identity, current).await?,
        };
        self.from = Some(from);
        Ok(from)
    }
}

/// The oldest slot of the sums that are kept.
pub fn oldest(current: i64) -> i64 {
    current.saturating_sub((MAX_AGE.as_secs() / SLOT.as_secs()) as i64)
}

/// The first slot of which PostgreSQL may not have the last word of this ledger.
async fn first_open(client: &Client, node: &str, ledger: Identity, current: i64) -> Result<i64, PostgresFault> {
    let last = "select max(slot) from pointsman_sums where node = $1 and ledger = $2";
    let parameters: [Parameter<'_>; 2] = [(&node, Type::TEXT), (&ledger.as_slice(), Type::BYTEA)];
    let last: Option<i64> = client.query_typed_one(last, &parameters).await?.get(0);
    let open = last.map_or(i64::MIN, |last| last.saturating_sub(OPEN_SLOTS));
    Ok(open.clamp(oldest(current), current))
}

/// Slot and key, and what was counted.
type Sum<'a> = (&'a (i64, ActivityKey), &'a ActivityCounters);

async fn insert(client: &Client, sources: &Sources, ledger: Identity, rows: &[Sum<'_>]) -> Result<(), PostgresFault> {
    let mut pieces = Pieces::of(rows);
    while let Some(piece) = pieces.take() {
        match insert_piece(client, &sources.node, ledger, piece).await {
            Err(fault) if fault.is_about_values() => {
                if let Some(((slot, _), _)) = pieces.halve(piece) {
                    sources.status.refused_row(format_args!("a sum of slot {slot}"), &fault);
                }
            }
            inserted => inserted?,
        }
    }
    Ok(())
}

async fn insert_piece(client: &Client, node: &str, ledger: Identity, rows: &[Sum<'_>]) -> Result<(), PostgresFault> {
    let slots: Vec<i64> = rows.iter().map(|((slot, _), _)| *slot).collect();
    let names = Dimension::ALL.map(|dimension| rows.iter().map(|((_, key), _)| key.get(dimension)).collect::<Vec<_>>());
    let mut counts = [const { Vec::new() }; ActivityCounters::COUNT];
    for (_, counters) in rows {
        counts.iter_mut().zip(counters.counts()).for_each(|(counts, count)| counts.push(count.cast_signed()));
    }
    let costs: Vec<String> = rows.iter().map(|(_, counters)| counters.cost.to_string()).collect();
    let ledger = ledger.as_slice();
    let mut parameters: Vec<Parameter<'_>> =
        vec![(&node, Type::TEXT), (&ledger, Type::BYTEA), (&slots, Type::INT8_ARRAY)];
    parameters.extend(names.iter().map(|names| (names as _, Type::TEXT_ARRAY)));
    parameters.extend(counts.iter().map(|counts| (counts as _, Type::INT8_ARRAY)));
    parameters.push((&costs, Type::TEXT_ARRAY));
    client.execute_typed(&INSERT, &parameters).await?;
    Ok(())
}

/// Deletes sums that are too old.
///
/// # Errors
/// PostgreSQL fails.
pub async fn retain(client: &Client, now_ms: i64) -> Result<(), PostgresFault> {
    let oldest = oldest(slot(now_ms));
    client.execute_typed("delete from pointsman_sums where slot < $1", &[(&oldest, Type::INT8)]).await?;
    Ok(())
}

/// Sums of all ledgers but the own one, as they are asked for. `None` if there are too many.
///
/// # Errors
/// PostgreSQL fails.
pub async fn read(
    client: &Client,
    grouping: &Grouping,
    (node, own): (&str, Identity),
) -> Result<Option<SlotSums>, PostgresFault> {
    let start = match grouping.period {
        None => "$1::bigint".to_owned(),
        // Slots of times since 1970 are positive, so that the rest is.
        Some(Period { slots, offset }) => format!("slot - (slot + {offset}) % {slots}"),
    };
    let by = grouping.by.iter().map(|dimension| dimension.as_str().to_owned());
    let counters = ActivityCounters::NAMES.map(|name| format!("sum({name})::bigint"));
    let columns: Vec<String> = [start].into_iter().chain(by).chain(counters).collect();
    let groups: Vec<String> = (1..=1 + grouping.by.len()).map(|at| at.to_string()).collect();
    let (mut only, mut names) = (String::new(), Vec::new());
    for (at, (dimension, wanted)) in (6..).zip(&grouping.only) {
        only.push_str(&format!(" and {} = any(${at})", dimension.as_str()));
        names.push(wanted.iter().map(|name| name.replace('\0', "")).collect::<Vec<_>>());
    }
    let select = format!(
        "select {}, sum(cost)::text from pointsman_sums
         where slot between $1 and $2 and not (node = $3 and ledger = $4){only}
         group by {} limit $5",
        columns.join(", "),
        groups.join(", ")
    );
    let (first, last, most, own) = (*grouping.slots.start(), *grouping.slots.end(), MOST_READ + 1, own.as_slice());
    let mut parameters: Vec<Parameter<'_>> =
        vec![(&first, Type::INT8), (&last, Type::INT8), (&node, Type::TEXT), (&own, Type::BYTEA), (&most, Type::INT8)];
    parameters.extend(names.iter().map(|names| (names as _, Type::TEXT_ARRAY)));
    let rows = client.query_typed(&select, &parameters).await?;
    let is_whole = rows.len() as i64 <= MOST_READ;
    Ok(is_whole.then(|| rows.iter().map(|row| sum(row, &grouping.by)).collect()))
}

fn sum(row: &Row, by: &[Dimension]) -> ((i64, ActivityKey), ActivityCounters) {
    let name = |key: ActivityKey, (at, dimension): (usize, &Dimension)| key.with(*dimension, row.get::<_, &str>(at));
    let key = (1..).zip(by).fold(ActivityKey::default(), name);
    let counters = 1 + by.len();
    let counts = std::array::from_fn(|at| row.get::<_, i64>(counters + at).cast_unsigned());
    let cost: &str = row.get(counters + ActivityCounters::COUNT);
    ((row.get(0), key), ActivityCounters::with(counts, cost.parse().unwrap_or(Usd::ZERO)))
}
