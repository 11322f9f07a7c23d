//! Changes of keys and accounts: own ones get their place in the common order, and those of others are fetched.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use tokio_postgres::{Client, types::Type};

use super::{
    schema::CHANGES_LOCK,
    session::{Parameter, PostgresFault},
    sources::{Deletion, Pieces, Sources},
};
use crate::{
    access::{
        issued::{AuditEntry, Change},
        registry::{ChangeId, Registry, SharedChange},
    },
    state::replicas::shared_log::{PlacedChange, SharedLog},
};

/// Most changes of one exchange.
const BATCH: i64 = 1_000;

/// The changes of this replica and of the others.
pub struct Changes {
    log: SharedLog,
    /// The last place is known to be that of PostgreSQL.
    is_checked: bool,
    unreadable: usize,
    /// Deletions of records that are to be done here too.
    deletions: VecDeque<AuditEntry>,
    /// Own changes that PostgreSQL refused. They hold here.
    refused: HashSet<ChangeId>,
}

impl Changes {
    /// Goes on where the file ends.
    pub fn new(log: SharedLog) -> Changes {
        Changes { log, is_checked: false, unreadable: 0, deletions: VecDeque::new(), refused: HashSet::new() }
    }

    /// PostgreSQL may be another one.
    pub fn reconnected(&mut self) {
        self.is_checked = false;
        self.refused.clear();
    }

    /// How many own changes wait for PostgreSQL.
    pub fn waiting(&self, registry: &Registry) -> usize {
        registry.unsent().len().saturating_sub(self.refused.len())
    }

    /// Sends own changes, then lets everything new take effect here. Gives whether there is more.
    ///
    /// # Errors
    /// PostgreSQL fails; the next call goes on.
    pub async fn exchange(&mut self, client: &mut Client, sources: &Sources) -> Result<bool, PostgresFault> {
        let registry = &sources.registry;
        self.check(client, registry).await?;
        let mut unsent = registry.unsent();
        unsent.retain(|change| !self.refused.contains(&change.id));
        let mut pieces = Pieces::of(&unsent);
        while let Some(piece) = pieces.take() {
            match place(client, &sources.node, piece).await {
                Err(fault) if fault.is_about_values() => {
                    if let Some(change) = pieces.halve(piece) {
                        self.refused.insert(change.id);
                        sources.status.refused_row("a change of a key or an account", &fault);
                    }
                }
                placed => placed?,
            }
        }
        let after = self.log.last().map_or(0, |(seq, _)| seq);
        let fetch = "select seq, id, change from pointsman_changes where seq > $1 order by seq limit $2";
        let rows = client.query_typed(fetch, &[(&after, Type::INT8), (&BATCH, Type::INT8)]).await?;
        if rows.is_empty() {
            self.delete(client, sources).await?;
            return Ok(false);
        }
        let more = rows.len() as i64 == BATCH;
        let placed = rows.iter().filter_map(|row| {
            let id = row.get::<_, &[u8]>(1).try_into().ok()?;
            let line = row.try_get::<_, &str>(2).ok()?.as_bytes().to_vec();
            Some(PlacedChange { seq: row.get(0), change: SharedChange { id, line } })
        });
        let placed: Vec<PlacedChange> = placed.collect();
        let changes: Vec<SharedChange> = placed.iter().map(|placed| placed.change.clone()).collect();
        // A refusal of a key must not wait for the disk.
        let imported = registry.import(&changes);
        if let Err(error) = self.log.add(placed) {
            log::error!("changes of keys by other replicas take effect, but are not stored here: {error}");
        }
        if imported.unreadable > 0 {
            self.unreadable += imported.unreadable;
            log::error!(
                "{} changes of keys or accounts by a later version cannot be read and have no effect here",
                self.unreadable
            );
        }
        self.deletions.extend(imported.deletions);
        self.delete(client, sources).await?;
        Ok(more)
    }

    /// Does the deletions that are due. One that fails is done by the next exchange.
    async fn delete(&mut self, client: &Client, sources: &Sources) -> Result<(), PostgresFault> {
        while let Some(deletion) = self.deletions.front() {
            delete_own(client, sources, deletion).await?;
            self.deletions.pop_front();
        }
        Ok(())
    }

    /// Sends all changes again if the last known place is not there: PostgreSQL was restored from a backup, or is new.
    async fn check(&mut self, client: &Client, registry: &Registry) -> Result<(), PostgresFault> {
        if self.is_checked {
            return Ok(());
        }
        if let Some((seq, id)) = self.log.last() {
            let find = "select id from pointsman_changes where seq = $1";
            let there = client.query_typed_opt(find, &[(&seq, Type::INT8)]).await?;
            if there.is_none_or(|row| row.get::<_, &[u8]>(0) != id) {
                log::warn!("PostgreSQL has not the changes of keys that this replica knows; they are sent again");
                registry.send_again(self.log.clear());
            }
        }
        self.is_checked = true;
        Ok(())
    }
}

/// Gives changes their places, in their order.
async fn place(client: &mut Client, node: &str, unsent: &[SharedChange]) -> Result<(), PostgresFault> {
    let transaction = client.transaction().await?;
    transaction.query_typed("select pg_advisory_xact_lock($1)", &[(&CHANGES_LOCK, Type::INT8)]).await?;
    let insert = "insert into pointsman_changes (id, node, change) values ($1, $2, $3) on conflict (id) do nothing";
    for SharedChange { id, line } in unsent {
        let Ok(text) = std::str::from_utf8(line) else { continue };
        let parameters: [Parameter<'_>; 3] = [(&id.as_slice(), Type::BYTEA), (&node, Type::TEXT), (&text, Type::TEXT)];
        transaction.execute_typed(insert, &parameters).await?;
        if let Ok(AuditEntry { at_ms, change: Change::DeleteRecords { before_ms, owner }, .. }) =
            serde_json::from_slice(line)
        {
            // Those of replicas that are gone too.
            let before_ms = before_ms.unwrap_or(i64::MAX).min(at_ms.saturating_add(1));
            let delete = "delete from pointsman_records where created_ms < $1 and ($2 is null or account = $2)";
            transaction.execute_typed(delete, &[(&before_ms, Type::INT8), (&owner, Type::TEXT)]).await?;
        }
    }
    transaction.commit().await?;
    Ok(())
}

/// Deletes what an administrator of any replica deleted: here, and what came from here to PostgreSQL meanwhile.
async fn delete_own(client: &Client, sources: &Sources, deletion: &AuditEntry) -> Result<(), PostgresFault> {
    let AuditEntry { at_ms, change: Change::DeleteRecords { before_ms, owner }, .. } = deletion else { return Ok(()) };
    let before_ms = before_ms.unwrap_or(i64::MAX).min(at_ms.saturating_add(1));
    let number = owner.as_ref().and_then(|owner| u64::from_str_radix(owner, 16).ok());
    if owner.is_none() || number.is_some() {
        let ledger = Arc::clone(&sources.ledger);
        let here = tokio::task::spawn_blocking(move || ledger.delete(Some(before_ms), number)).await;
        // Afterwards: ratings are read again from what is left.
        (sources.deleted)(Deletion { before_ms, owner: number });
        if let Ok(Err(fault)) = here {
            log::error!("records that an administrator of another replica deleted are still here: {fault}");
        }
    }
    let delete = "delete from pointsman_records where node = $1 and created_ms < $2 and ($3 is null or account = $3)";
    let parameters: [Parameter<'_>; 3] = [(&sources.node, Type::TEXT), (&before_ms, Type::INT8), (owner, Type::TEXT)];
    client.execute_typed(delete, &parameters).await?;
    Ok(())
}
