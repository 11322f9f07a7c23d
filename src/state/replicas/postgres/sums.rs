//! Sums of the activity of each replica: own ones are sent while they change, those of others are read.
//!
//! A sum is sent as a whole, so that what is sent twice counts once. A generation counts in the slot in which it began, so that one
//! that ended, or reached the ledger, long afterwards changes a slot that was sent before: its record tells.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::Duration,
};

use pointsman_base::clock;
use pointsman_ledger::{
    activity::{SLOT, grouping::Grouping, slot},
    database::Identity,
    fault::Fault,
};
use tokio::time::Instant;
use tokio_postgres::{Client, types::Type};

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

/// Slot and key to what was counted, all as replicas exchange them.
type SlotSums = BTreeMap<(i64, Vec<u8>), (Vec<u8>, Vec<u8>)>;

/// The own sums of these slots.
fn own_sums(sources: &Sources, first: i64, last: i64) -> Result<SlotSums, Fault> {
    let sums = sources.ledger.entries().sums(&Grouping::all(first..=last))?;
    Ok(sums.into_iter().map(|((slot, key), sum)| ((slot, key.to_bytes()), sum.to_bytes())).collect())
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
#[must_use]
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
type Row<'a> = (&'a (i64, Vec<u8>), &'a (Vec<u8>, Vec<u8>));

async fn insert(client: &Client, sources: &Sources, ledger: Identity, rows: &[Row<'_>]) -> Result<(), PostgresFault> {
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

async fn insert_piece(client: &Client, node: &str, ledger: Identity, rows: &[Row<'_>]) -> Result<(), PostgresFault> {
    let slots: Vec<i64> = rows.iter().map(|((slot, _), _)| *slot).collect();
    let keys: Vec<&[u8]> = rows.iter().map(|((_, key), _)| key.as_slice()).collect();
    let sums: Vec<&[u8]> = rows.iter().map(|(_, (sum, _))| sum.as_slice()).collect();
    let more: Vec<&[u8]> = rows.iter().map(|(_, (_, more))| more.as_slice()).collect();
    // Keys of five names were sent by an earlier version: what they count, those of eight count again.
    let insert = "
        with replaced as (
            delete from pointsman_sums where node = $1 and ledger = $2 and slot = any($3)
                and cardinality(string_to_array(encode(key, 'escape'), chr(10))) = 5
        )
        insert into pointsman_sums (node, ledger, slot, key, sum, more)
        select $1, $2, slot, key, sum, more from unnest($3, $4, $5, $6) as new(slot, key, sum, more)
        on conflict (slot, node, ledger, key) do update set sum = excluded.sum, more = excluded.more
            where (pointsman_sums.sum, pointsman_sums.more) is distinct from (excluded.sum, excluded.more)";
    let parameters: [Parameter<'_>; 6] = [
        (&node, Type::TEXT),
        (&ledger.as_slice(), Type::BYTEA),
        (&slots, Type::INT8_ARRAY),
        (&keys, Type::BYTEA_ARRAY),
        (&sums, Type::BYTEA_ARRAY),
        (&more, Type::BYTEA_ARRAY),
    ];
    client.execute_typed(insert, &parameters).await?;
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

/// A sum of another ledger: its slot, its key and what was counted, in two parts. Several ledgers may have sums of one slot and
/// key.
pub type ForeignSum = (i64, Vec<u8>, Vec<u8>, Vec<u8>);

/// The sums in these slots of all ledgers but the own one. `None` if there are too many.
///
/// # Errors
/// PostgreSQL fails.
pub async fn read(
    client: &Client,
    slots: RangeInclusive<i64>,
    (node, own): (&str, Identity),
) -> Result<Option<Vec<ForeignSum>>, PostgresFault> {
    let select = "
        select slot, key, sum, coalesce(more, '') from pointsman_sums
        where slot between $1 and $2 and not (node = $3 and ledger = $4)
        limit $5";
    let (first, last, most) = (*slots.start(), *slots.end(), MOST_READ + 1);
    let parameters: [Parameter<'_>; 5] = [
        (&first, Type::INT8),
        (&last, Type::INT8),
        (&node, Type::TEXT),
        (&own.as_slice(), Type::BYTEA),
        (&most, Type::INT8),
    ];
    let rows = client.query_typed(select, &parameters).await?;
    let is_whole = rows.len() as i64 <= MOST_READ;
    Ok(is_whole.then(|| rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()))
}
