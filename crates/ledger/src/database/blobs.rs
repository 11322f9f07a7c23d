//! Blobs, such as versions of the catalogue: how they are written, when they were last referred to, and which are dropped.

use std::{collections::HashMap, sync::Arc};

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::{BLOBS, CHUNK, Ledger, View, header, redb_fault};
use crate::{blocks, entry::RollUp, fault::Fault, packed::Packed};

/// Hash of a blob to the greatest `created_ms` of an entry that refers to it.
pub(super) const USES: TableDefinition<'_, &[u8; 32], i64> = TableDefinition::new("blob_uses");
/// The blobs used last stay although no entry refers to them: a process that had no traffic for long goes on with them
/// without storing them again.
const ALWAYS_KEPT: usize = 16;
/// A blob stays for this time after the last entry that refers to it, in milliseconds: entries may be committed late.
const KEPT_LONGER_MS: i64 = 24 * 60 * 60 * 1_000;

/// Stores a blob, in place of a damaged one. An entry will refer to it, so it is as new as one that was never used.
pub(super) fn put_blob(transaction: &WriteTransaction, hash: &[u8; 32], bytes: &[u8]) -> Result<(), Fault> {
    transaction.open_table(USES).map_err(redb_fault)?.remove(hash).map_err(redb_fault)?;
    let mut table = transaction.open_table(BLOBS).map_err(redb_fault)?;
    // What is stored stays, unless it is damaged: a shorter form of it would leave chunks of the longer one behind.
    let mut stored = Vec::new();
    for row in table.range((hash, 0)..=(hash, u32::MAX)).map_err(redb_fault)? {
        stored.extend_from_slice(row.map_err(redb_fault)?.1.value());
    }
    if blocks::expand(&stored).is_ok() {
        return Ok(());
    }
    table.retain_in((hash, 0)..=(hash, u32::MAX), |_, _| false).map_err(redb_fault)?;
    let packed = blocks::compress(bytes)?;
    for (chunk, bytes) in (0_u32..).zip(packed.chunks(CHUNK)) {
        table.insert((hash, chunk), bytes).map_err(redb_fault)?;
    }
    Ok(())
}

/// Notes which blobs these entries refer to.
pub(super) fn note_used(transaction: &WriteTransaction, entries: &[&Packed], of: &dyn RollUp) -> Result<(), Fault> {
    let mut last: HashMap<[u8; 32], i64> = HashMap::new();
    for entry in entries {
        for hash in of.blobs(entry.record()).into_iter().flatten() {
            let used_ms = last.entry(hash).or_insert(i64::MIN);
            *used_ms = entry.key().created_ms.max(*used_ms);
        }
    }
    let mut table = transaction.open_table(USES).map_err(redb_fault)?;
    for (hash, used_ms) in last {
        let before = table.get(&hash).map_err(redb_fault)?.map_or(i64::MIN, |used_ms| used_ms.value());
        if used_ms > before {
            table.insert(&hash, used_ms).map_err(redb_fault)?;
        }
    }
    Ok(())
}

impl Ledger {
    /// Stores blobs.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn put_blobs(&self, blobs: &[([u8; 32], Arc<[u8]>)]) -> Result<(), Fault> {
        let transaction = self.begin()?;
        blobs.iter().try_for_each(|(hash, bytes)| put_blob(&transaction, hash, bytes))?;
        transaction.commit().map_err(redb_fault)
    }

    /// Drops the blobs that no entry refers to any more, but for those used last. Gives their number.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn retain_blobs(&self, now_ms: i64) -> Result<usize, Fault> {
        let view = self.view()?;
        let uses = view.blob_uses()?;
        let hashes = view.blob_hashes()?;
        let (mut used, unused): (Vec<_>, Vec<_>) =
            hashes.iter().map(|hash| (uses.get(hash).copied(), *hash)).partition(|(used_ms, _)| used_ms.is_some());
        used.sort_unstable_by(|one, other| other.cmp(one));
        let oldest_ms = view.oldest_ms()?.unwrap_or(now_ms).min(now_ms);
        let is_doomed = |(used_ms, _): &&(Option<i64>, _)| {
            used_ms.is_some_and(|used_ms| used_ms.saturating_add(KEPT_LONGER_MS) < oldest_ms)
        };
        let doomed: Vec<_> = used.iter().skip(ALWAYS_KEPT).filter(is_doomed).map(|(_, hash)| *hash).collect();
        if doomed.is_empty() && unused.is_empty() {
            return Ok(0);
        }
        let transaction = self.begin()?;
        {
            let mut blobs = transaction.open_table(BLOBS).map_err(redb_fault)?;
            let mut uses = transaction.open_table(USES).map_err(redb_fault)?;
            // Stored so lately that no entry refers to it yet.
            for (_, hash) in &unused {
                uses.insert(hash, now_ms).map_err(redb_fault)?;
            }
            for hash in &doomed {
                uses.remove(hash).map_err(redb_fault)?;
                blobs.retain_in((hash, 0)..=(hash, u32::MAX), |_, _| false).map_err(redb_fault)?;
            }
        }
        transaction.commit().map_err(redb_fault)?;
        Ok(doomed.len())
    }
}

impl View {
    /// The hashes of all blobs, in order.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn blob_hashes(&self) -> Result<Vec<[u8; 32]>, Fault> {
        let table = self.transaction.open_table(BLOBS).map_err(redb_fault)?;
        let mut hashes = Vec::new();
        let mut after = ([0; 32], 0);
        // One step per blob, past its other chunks.
        while let Some(row) = table.range((&after.0, after.1)..).map_err(redb_fault)?.next() {
            let hash = *row.map_err(redb_fault)?.0.value().0;
            hashes.push(hash);
            after = (hash, u32::MAX);
        }
        Ok(hashes)
    }

    fn blob_uses(&self) -> Result<HashMap<[u8; 32], i64>, Fault> {
        let table = self.transaction.open_table(USES).map_err(redb_fault)?;
        let rows = table.iter().map_err(redb_fault)?;
        rows.map(|row| row.map(|(hash, used_ms)| (*hash.value(), used_ms.value())).map_err(redb_fault)).collect()
    }

    /// Least `created_ms` of the oldest block that can be read. Blocks overlap by at most `span_ms`.
    fn oldest_ms(&self) -> Result<Option<i64>, Fault> {
        let span_ms = self.state()?.span_ms;
        let headers = self.headers()?;
        let Some(row) = headers.iter().map_err(redb_fault)?.next() else { return Ok(None) };
        let ((last_ms, _), first_ms) = {
            let (key, bytes) = row.map_err(redb_fault)?;
            (key.value(), header(bytes.value()).ok().map(|header| header.first.created_ms))
        };
        Ok(Some(first_ms.unwrap_or(last_ms).min(last_ms.saturating_sub(span_ms))))
    }
}
