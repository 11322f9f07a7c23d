//! Records on their way to PostgreSQL.
//!
//! The ledger on disk is the outbox. Entries that still wait for its database are sent first, because they are the newest and
//! other replicas are asked for them. Every entry is later in a group of that database; groups are sent in their order, without
//! the entries that were sent before. The number of the last group is stored after its entries, so that after a crash of either
//! side nothing is missing. What is sent twice is inserted once.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    sync::LazyLock,
};

use pointsman_ledger::{
    activity::slot,
    database::{
        Identity,
        columns::{LABELS, NUMBERS, Row},
    },
    entry::{Entry, Id},
    facts::label,
    fault::Fault,
    generations::GenerationStore,
    packed::Packed,
    record::{ContentHash, versions_of},
};
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use super::{
    session::{Parameter, PostgresFault},
    sources::{Pieces, Sources},
    sums::Sums,
};

/// Most entries of one insert.
const BATCH: usize = 1_000;
/// Most groups of one exchange.
const GROUPS: usize = 64;
/// Most ids that are remembered as sent before their group.
const REMEMBERED: usize = 65_536;
/// Labels that every record has; of the others an empty one is none.
const ALWAYS: [u8; 3] = [label::OWNER, label::MODEL, label::STATUS];

/// Inserts a batch: its columns are the parameters.
static INSERT: LazyLock<String> = LazyLock::new(|| {
    let labels = LABELS.map(|(_, name)| name).join(", ");
    let numbers = NUMBERS.map(|(_, name)| name).join(", ");
    let columns = format!("id, created_ms, catalog, policy, entry, cost, cost_unknown, events, {labels}, {numbers}");
    let parameters: Vec<String> = (2..10 + LABELS.len() + NUMBERS.len()).map(|at| format!("${at}")).collect();
    format!(
        "insert into pointsman_records (node, {columns}) select $1, {} from unnest({}) as new({columns}) on conflict do nothing",
        columns.replace(" cost,", " cost::numeric,"),
        parameters.join(", ")
    )
});

/// What was sent already. Lives as long as the process; after a failure it may know less than PostgreSQL.
#[derive(Default)]
pub struct Sender {
    /// Identity of the database on disk, and its last group that PostgreSQL has.
    position: Option<(Identity, Option<u64>)>,
    /// Ordinal of the last waiting entry that was sent.
    ordinal: u64,
    /// Ids sent before their group.
    sent: HashSet<Id>,
    sent_order: VecDeque<Id>,
    /// Catalogs and policies that PostgreSQL has.
    versions: HashSet<ContentHash>,
}

/// What one exchange did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Records that were new to PostgreSQL.
    pub records: usize,
    /// Whether there is more to send.
    pub more: bool,
}

impl Sender {
    /// Forgets what PostgreSQL is believed to have: it may be another one.
    pub fn reconnected(&mut self) {
        *self = Sender { ordinal: 0, ..Sender::default() };
    }

    /// About how many entries wait: those that the database on disk does not hold yet.
    pub fn waiting(&self, ledger: &GenerationStore) -> usize {
        ledger.entries().waiting_after(self.ordinal, usize::MAX).len()
    }

    /// Sends what is new.
    ///
    /// # Errors
    /// PostgreSQL or the ledger on disk fails; the same is sent again by the next call.
    pub async fn send(
        &mut self,
        client: &mut Client,
        sums: &mut Sums,
        sources: &Sources,
    ) -> Result<Sent, PostgresFault> {
        let ledger = sources.ledger.entries();
        let waiting = ledger.waiting_after(self.ordinal, BATCH);
        let mut sent = Sent { records: 0, more: waiting.len() == BATCH };
        let new: Vec<Packed> =
            waiting.iter().map(|(_, entry)| entry).filter(|entry| !self.sent.contains(entry.id())).cloned().collect();
        sent.records += self.insert(client, sources, &new).await?;
        new.iter().for_each(|entry| self.remember(*entry.id()));
        if let Some((ordinal, _)) = waiting.last() {
            self.ordinal = *ordinal;
        }
        let (identity, after) = self.position(client, sources).await?;
        let groups = ledger.groups_after(after, GROUPS)?;
        sent.more |= groups.len() == GROUPS;
        let of_groups = groups.iter().flat_map(|group| &group.entries).map(|entry| entry.created_ms);
        let slots =
            new.iter().map(|entry| entry.key().created_ms).chain(of_groups).map(slot).collect::<BTreeSet<i64>>();
        sums.send_late(client, sources, &slots).await?;
        let is_new = |entry: &&Entry| !self.sent.contains(&entry.id);
        let new: Vec<Packed> = groups.iter().flat_map(|group| &group.entries).filter(is_new).map(Packed::new).collect();
        for piece in new.chunks(BATCH) {
            sent.records += self.insert(client, sources, piece).await?;
        }
        if let Some(last) = groups.last() {
            put_position(client, &sources.node, identity, last.number).await?;
            self.position = Some((identity, Some(last.number)));
        }
        Ok(sent)
    }

    fn remember(&mut self, id: Id) {
        if self.sent.insert(id) {
            self.sent_order.push_back(id);
        }
        if self.sent.len() > REMEMBERED
            && let Some(oldest) = self.sent_order.pop_front()
        {
            self.sent.remove(&oldest);
        }
    }

    /// The database on disk, and its last group that PostgreSQL has.
    async fn position(&mut self, client: &Client, sources: &Sources) -> Result<(Identity, Option<u64>), PostgresFault> {
        let identity = sources.ledger.entries().identity()?;
        if let Some((known, block)) = self.position
            && known == identity
        {
            return Ok((identity, block));
        }
        let position = "select block from pointsman_positions where node = $1 and ledger = $2";
        let parameters: [Parameter<'_>; 2] = [(&sources.node, Type::TEXT), (&identity.as_slice(), Type::BYTEA)];
        let row = client.query_typed_opt(position, &parameters).await?;
        let block = row.and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok());
        self.position = Some((identity, block));
        Ok((identity, block))
    }

    /// Inserts entries, but for those that PostgreSQL refuses. Gives the number of new records.
    async fn insert(
        &mut self,
        client: &mut Client,
        sources: &Sources,
        entries: &[Packed],
    ) -> Result<usize, PostgresFault> {
        let (mut inserted, mut pieces) = (0, Pieces::of(entries));
        while let Some(piece) = pieces.take() {
            match self.insert_piece(client, sources, piece).await {
                Err(fault) if fault.is_about_values() => {
                    if let Some(entry) = pieces.halve(piece) {
                        let id = hex::encode(entry.id().0);
                        sources.status.refused_row(format_args!("the record {id}"), &fault);
                    }
                }
                done => inserted += done?,
            }
        }
        Ok(inserted)
    }

    /// Inserts entries, with the versions that they name, in one transaction. Gives the number of new records.
    async fn insert_piece(
        &mut self,
        client: &mut Client,
        sources: &Sources,
        entries: &[Packed],
    ) -> Result<usize, PostgresFault> {
        let batch = Batch::of(entries)?;
        let transaction = client.transaction().await?;
        let mut versions = Vec::new();
        for hash in batch.versions.difference(&self.versions) {
            // Without its catalog a record cannot be shown, and is kept all the same.
            if let Some(bytes) = sources.ledger.entries().blob(&hash.0)? {
                let insert = "insert into pointsman_versions (hash, bytes) values ($1, $2) on conflict do nothing";
                let parameters: [Parameter<'_>; 2] = [(&hash.0.as_slice(), Type::BYTEA), (&bytes, Type::BYTEA)];
                transaction.execute_typed(insert, &parameters).await?;
                versions.push(*hash);
            }
        }
        let inserted = transaction.execute_typed(&INSERT, &batch.parameters(&sources.node)).await?;
        transaction.commit().await?;
        self.versions.extend(versions);
        Ok(usize::try_from(inserted).unwrap_or(usize::MAX))
    }
}

/// Notes that PostgreSQL has the groups of this database on disk up to this number.
async fn put_position(client: &Client, node: &str, ledger: Identity, group: u64) -> Result<(), PostgresFault> {
    let group = i64::try_from(group).unwrap_or(i64::MAX);
    let position = "insert into pointsman_positions (node, ledger, block) values ($1, $2, $3)
                    on conflict (node, ledger) do update set block = excluded.block";
    let parameters: [Parameter<'_>; 3] = [(&node, Type::TEXT), (&ledger.as_slice(), Type::BYTEA), (&group, Type::INT8)];
    client.execute_typed(position, &parameters).await?;
    Ok(())
}

/// Entries as columns.
#[derive(Default)]
struct Batch<'a> {
    ids: Vec<&'a [u8]>,
    created: Vec<i64>,
    catalogs: Vec<Vec<u8>>,
    policies: Vec<Vec<u8>>,
    entries: Vec<&'a [u8]>,
    costs: Vec<String>,
    unknown: Vec<i64>,
    events: Vec<i64>,
    labels: [Vec<Option<String>>; LABELS.len()],
    numbers: [Vec<Option<i64>>; NUMBERS.len()],
    versions: HashSet<ContentHash>,
}

impl<'a> Batch<'a> {
    fn of(entries: &'a [Packed]) -> Result<Batch<'a>, Fault> {
        let mut batch = Batch::default();
        for entry in entries {
            let Some([catalog, policy]) = versions_of(entry.record()) else { continue };
            let facts = entry.facts();
            let row = Row::of(&facts, &mut |_| Ok(0))?;
            batch.ids.push(&entry.id().0);
            batch.created.push(entry.key().created_ms);
            batch.catalogs.push(catalog.0.to_vec());
            batch.policies.push(policy.0.to_vec());
            batch.entries.push(entry.bytes());
            batch.costs.push(row.counters().cost.to_string());
            batch.unknown.push(i64::from(row.cost_unknown));
            batch.events.push(row.events);
            for ((field, _), texts) in LABELS.iter().zip(&mut batch.labels) {
                // PostgreSQL has no zero byte in texts.
                let text = facts.label(*field).replace('\0', "");
                texts.push(Some(text).filter(|text| !text.is_empty() || ALWAYS.contains(field)));
            }
            batch.numbers.iter_mut().zip(row.numbers).for_each(|(numbers, number)| numbers.push(number));
            batch.versions.extend([catalog, policy]);
        }
        Ok(batch)
    }

    /// The columns with the name of the replica, as [`INSERT`] takes them.
    fn parameters<'b>(&'b self, node: &'b String) -> Vec<Parameter<'b>> {
        let mut parameters: Vec<Parameter<'b>> = vec![
            (node, Type::TEXT),
            (&self.ids, Type::BYTEA_ARRAY),
            (&self.created, Type::INT8_ARRAY),
            (&self.catalogs, Type::BYTEA_ARRAY),
            (&self.policies, Type::BYTEA_ARRAY),
            (&self.entries, Type::BYTEA_ARRAY),
            (&self.costs, Type::TEXT_ARRAY),
            (&self.unknown, Type::INT8_ARRAY),
            (&self.events, Type::INT8_ARRAY),
        ];
        parameters.extend(self.labels.iter().map(|texts| (texts as &(dyn ToSql + Sync), Type::TEXT_ARRAY)));
        parameters.extend(self.numbers.iter().map(|numbers| (numbers as &(dyn ToSql + Sync), Type::INT8_ARRAY)));
        parameters
    }
}
