//! Sums of the activity of each replica: own ones are sent while they change, those of others are read.
//!
//! A sum is sent as a whole, so that what is sent twice counts once.

use std::{ops::RangeInclusive, time::Duration};

use tokio::time::Instant;
use tokio_postgres::Client;

use super::session::PostgresFault;
use crate::{
    base::clock,
    store::{
        activity::EARLY_BYTES,
        database::Identity,
        generations::GenerationStore,
        sums::{SLOT, SlotSums, slot},
    },
};

/// Time between two looks at the own sums.
const EVERY: Duration = Duration::from_secs(5);
/// Slots before the current one that may still change: a generation counts in the slot in which it began.
const OPEN_SLOTS: i64 = 2;
/// Slots that are looked at in one exchange: a day.
const SLOTS_AT_ONCE: i64 = 96;
/// Age of the oldest sums that are kept.
const MAX_AGE: Duration = Duration::from_secs(90 * 86_400);
/// Most sums of one answer. Of a longer range of time nothing is read.
const MOST_READ: i64 = 200_000;

/// What was sent already. Lives as long as the connection.
#[derive(Default)]
pub struct Sums {
    /// The slot to go on with; `None` before PostgreSQL was asked.
    from: Option<i64>,
    /// What PostgreSQL has of the slots that may still change.
    sent: SlotSums,
    next_at: Option<Instant>,
}

impl Sums {
    /// Forgets what PostgreSQL is believed to have: it may be another one.
    pub fn reconnected(&mut self) {
        *self = Sums::default();
    }

    /// Sends what is new. Gives whether there is more.
    ///
    /// # Errors
    /// PostgreSQL or the ledger on disk fails; the same is sent again by the next call.
    pub async fn send(&mut self, client: &Client, node: &str, ledger: &GenerationStore) -> Result<bool, PostgresFault> {
        if self.next_at.is_some_and(|at| at > Instant::now()) {
            return Ok(false);
        }
        let (identity, current) = (ledger.entries().identity()?, slot(clock::unix_millis()));
        let from = match self.from {
            Some(from) => from,
            None => first_open(client, node, identity, current).await?,
        };
        let until = current.min(from.saturating_add(SLOTS_AT_ONCE));
        let mut sums = ledger.entries().sums(start_ms(from), start_ms(until))?;
        let new = sums.iter().filter(|(place, sum)| self.sent.get(*place) != Some(*sum));
        insert(client, node, identity, new).await?;
        self.from = Some(until.min(current.saturating_sub(OPEN_SLOTS)));
        sums.retain(|(slot, _), _| *slot >= self.from.unwrap_or(from));
        self.sent = sums;
        self.next_at = (until == current).then(|| Instant::now() + EVERY);
        Ok(self.next_at.is_none())
    }
}

/// Beginning of a slot.
fn start_ms(slot: i64) -> i64 {
    slot.saturating_mul(SLOT.as_millis() as i64)
}

/// The oldest slot of the sums that are kept.
#[must_use]
pub fn oldest(current: i64) -> i64 {
    current.saturating_sub((MAX_AGE.as_secs() / SLOT.as_secs()) as i64)
}

/// The first slot of which PostgreSQL may not have the last word of this ledger.
async fn first_open(client: &Client, node: &str, ledger: Identity, current: i64) -> Result<i64, PostgresFault> {
    let last = "select max(slot) from pointsman_sums where node = $1 and ledger = $2";
    let last: Option<i64> = client.query_one(last, &[&node, &ledger.as_slice()]).await?.get(0);
    let open = last.map_or(i64::MIN, |last| last.saturating_sub(OPEN_SLOTS));
    Ok(open.clamp(oldest(current), current))
}

async fn insert<'a>(
    client: &Client,
    node: &str,
    ledger: Identity,
    sums: impl Iterator<Item = (&'a (i64, Vec<u8>), &'a Vec<u8>)>,
) -> Result<(), PostgresFault> {
    let (mut slots, mut keys): (Vec<i64>, Vec<&[u8]>) = Default::default();
    let (mut values, mut classes): (Vec<&[u8]>, Vec<&[u8]>) = Default::default();
    for ((slot, key), sum) in sums {
        slots.push(*slot);
        keys.push(key);
        let (value, rest) = sum.split_at_checked(EARLY_BYTES).unwrap_or((sum, &[]));
        values.push(value);
        classes.push(rest);
    }
    if slots.is_empty() {
        return Ok(());
    }
    let insert = "
        insert into pointsman_sums (node, ledger, slot, key, sum, classes)
        select $1::text, $2::bytea, slot, key, sum, classes
        from unnest($3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[]) as new(slot, key, sum, classes)
        on conflict (slot, node, ledger, key) do update set sum = excluded.sum, classes = excluded.classes";
    client.execute(insert, &[&node, &ledger.as_slice(), &slots, &keys, &values, &classes]).await?;
    Ok(())
}

/// Deletes sums that are too old.
///
/// # Errors
/// PostgreSQL fails.
pub async fn retain(client: &Client, now_ms: i64) -> Result<(), PostgresFault> {
    let oldest = oldest(slot(now_ms));
    client.execute("delete from pointsman_sums where slot < $1", &[&oldest]).await?;
    Ok(())
}

/// A sum of another ledger: its slot, its key and what was counted. Several ledgers may have sums of one slot and key.
pub type ForeignSum = (i64, Vec<u8>, Vec<u8>);

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
        select slot, key, sum || classes from pointsman_sums
        where slot between $1 and $2 and not (node = $3 and ledger = $4)
        limit $5";
    let (first, last, most) = (*slots.start(), *slots.end(), MOST_READ + 1);
    let rows = client.query(select, &[&first, &last, &node, &own.as_slice(), &most]).await?;
    let is_whole = rows.len() as i64 <= MOST_READ;
    Ok(is_whole.then(|| rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()))
}
