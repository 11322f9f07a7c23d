//! Records on their way to PostgreSQL.
//!
//! The ledger on disk is the outbox. Entries that still wait for its database are sent first, because they are the newest and
//! other replicas are asked for them. Every entry is later in a block of that database; blocks are sent in their order, without
//! the entries that were sent before. The number of the last block is stored after its entries, so that after a crash of either
//! side nothing is missing. What is sent twice is inserted once.

use std::collections::{BTreeSet, HashSet, VecDeque};

use pointsman_ledger::{
    database::Identity,
    entry::{Entry, Id},
    facts::{FEMTO_PER_MILLI, label, number},
    generations::GenerationStore,
    packed::Packed,
    record::{ContentHash, versions_of},
    sums::slot,
};
use tokio_postgres::{Client, types::Type};

use super::{
    session::{Parameter, PostgresFault},
    sources::{Pieces, Sources},
    sums::Sums,
};

/// Most entries of one insert.
const BATCH: usize = 1_000;
/// Most blocks of one exchange.
const BLOCKS: usize = 8;
/// Most ids that are remembered as sent before their block.
const REMEMBERED: usize = 65_536;
/// 10⁻¹⁵ dollars in a dollar.
const FEMTO: i128 = 1_000_000_000_000_000;

const INSERT: &str = "
    insert into pointsman_records (id, created_ms, node, account, key, model, provider, status, cost, prompt_tokens,
        completion_tokens, catalog, policy, entry)
    select id, created_ms, $1, account, nullif(key, ''), model, nullif(provider, ''), status, cost::numeric, prompt_tokens,
        completion_tokens, catalog, policy, entry
    from unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        as new(id, created_ms, account, key, model, provider, status, cost, prompt_tokens, completion_tokens, catalog,
        policy, entry)
    on conflict do nothing";

/// What was sent already. Lives as long as the process; after a failure it may know less than PostgreSQL.
#[derive(Default)]
pub struct Sender {
    /// Identity of the database on disk, and its last block that PostgreSQL has.
    position: Option<(Identity, Option<u64>)>,
    /// Ordinal of the last waiting entry that was sent.
    ordinal: u64,
    /// Ids sent before their block.
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
        let blocks = ledger.blocks_after(after, BLOCKS)?;
        sent.more |= blocks.len() == BLOCKS;
        let of_blocks = blocks.iter().flat_map(|block| &block.entries).map(|entry| entry.created_ms);
        let slots =
            new.iter().map(|entry| entry.key().created_ms).chain(of_blocks).map(slot).collect::<BTreeSet<i64>>();
        sums.send_late(client, sources, &slots).await?;
        for block in blocks {
            let is_new = |entry: &&Entry| !self.sent.contains(&entry.id);
            let new: Vec<Packed> = block.entries.iter().filter(is_new).map(Packed::of).collect();
            sent.records += self.insert(client, sources, &new).await?;
            put_position(client, &sources.node, identity, block.number).await?;
            self.position = Some((identity, Some(block.number)));
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

    /// The database on disk, and its last block that PostgreSQL has.
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
        let batch = Batch::of(entries);
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
        let inserted = transaction.execute_typed(INSERT, &batch.parameters(&sources.node)).await?;
        transaction.commit().await?;
        self.versions.extend(versions);
        Ok(usize::try_from(inserted).unwrap_or(usize::MAX))
    }
}

/// Notes that PostgreSQL has the blocks of this database on disk up to this number.
async fn put_position(client: &Client, node: &str, ledger: Identity, block: u64) -> Result<(), PostgresFault> {
    let block = i64::try_from(block).unwrap_or(i64::MAX);
    let position = "insert into pointsman_positions (node, ledger, block) values ($1, $2, $3)
                    on conflict (node, ledger) do update set block = excluded.block";
    let parameters: [Parameter<'_>; 3] = [(&node, Type::TEXT), (&ledger.as_slice(), Type::BYTEA), (&block, Type::INT8)];
    client.execute_typed(position, &parameters).await?;
    Ok(())
}

/// Entries as columns.
#[derive(Default)]
struct Batch<'a> {
    ids: Vec<&'a [u8]>,
    created: Vec<i64>,
    accounts: Vec<String>,
    keys: Vec<String>,
    models: Vec<String>,
    providers: Vec<String>,
    status: Vec<String>,
    costs: Vec<String>,
    prompt: Vec<i64>,
    completion: Vec<i64>,
    catalogs: Vec<Vec<u8>>,
    policies: Vec<Vec<u8>>,
    entries: Vec<&'a [u8]>,
    versions: HashSet<ContentHash>,
}

impl<'a> Batch<'a> {
    fn of(entries: &'a [Packed]) -> Batch<'a> {
        let mut batch = Batch::default();
        for entry in entries {
            let Some([catalog, policy]) = versions_of(entry.record()) else { continue };
            let facts = entry.facts();
            // PostgreSQL has no zero byte in texts.
            let text = |field| facts.label(field).replace('\0', "");
            batch.ids.push(&entry.id().0);
            batch.created.push(entry.key().created_ms);
            batch.accounts.push(text(label::OWNER));
            batch.keys.push(text(label::KEY));
            batch.models.push(text(label::MODEL));
            batch.providers.push(text(label::PROVIDER));
            batch.status.push(text(label::STATUS));
            batch.costs.push(dollars(facts.number(number::COST_MILLIS), facts.number(number::COST_REST)));
            batch.prompt.push(facts.number(number::PROMPT_TOKENS));
            batch.completion.push(facts.number(number::COMPLETION_TOKENS));
            batch.catalogs.push(catalog.0.to_vec());
            batch.policies.push(policy.0.to_vec());
            batch.entries.push(entry.bytes());
            batch.versions.extend([catalog, policy]);
        }
        batch
    }

    /// The columns with the name of the replica, as [`INSERT`] takes them.
    fn parameters<'b>(&'b self, node: &'b String) -> [Parameter<'b>; 14] {
        [
            (node, Type::TEXT),
            (&self.ids, Type::BYTEA_ARRAY),
            (&self.created, Type::INT8_ARRAY),
            (&self.accounts, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.models, Type::TEXT_ARRAY),
            (&self.providers, Type::TEXT_ARRAY),
            (&self.status, Type::TEXT_ARRAY),
            (&self.costs, Type::TEXT_ARRAY),
            (&self.prompt, Type::INT8_ARRAY),
            (&self.completion, Type::INT8_ARRAY),
            (&self.catalogs, Type::BYTEA_ARRAY),
            (&self.policies, Type::BYTEA_ARRAY),
            (&self.entries, Type::BYTEA_ARRAY),
        ]
    }
}

/// An amount as a decimal number.
fn dollars(millis: i64, rest: i64) -> String {
    let femto = i128::from(millis) * FEMTO_PER_MILLI + i128::from(rest);
    let sign = if femto < 0 { "-" } else { "" };
    format!("{sign}{}.{:015}", femto.abs() / FEMTO, femto.abs() % FEMTO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_exact_to_its_last_digit() {
        assert_eq!(dollars(1_234, 567), "1.234000000000567");
        assert_eq!(dollars(0, 1), "0.000000000000001");
        assert_eq!(dollars(-1, 0), "-0.001000000000000");
    }
}
