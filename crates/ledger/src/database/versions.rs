//! Versions of the catalogue and of the policy, kept as blobs under their hashes: how they are written, when they were last
//! referred to, and which are dropped.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Ledger, View, columns, groups};
use crate::{fault::Fault, packed::Packed, record};

/// The blobs used last stay although no entry refers to them: a process that had no traffic for long goes on with them
/// without storing them again.
const ALWAYS_KEPT: i64 = 16;
/// A blob stays for this time after the last entry that refers to it, in milliseconds: entries may be committed late.
const KEPT_LONGER_MS: i64 = 24 * 60 * 60 * 1_000;

/// Stores a blob, in place of a damaged one. An entry will refer to it, so it is as new as one that was never used.
///
/// # Errors
/// The database refuses.
pub fn put(connection: &Connection, hash: &[u8; 32], bytes: &[u8]) -> Result<(), Fault> {
    let packed = groups::compress(bytes)?;
    let mut put = connection.prepare_cached("insert or replace into versions (hash, bytes) values (?1, ?2)")?;
    put.execute(params![hash, packed])?;
    Ok(())
}

/// Notes which blobs these entries refer to.
///
/// # Errors
/// The database refuses.
pub fn note_used(connection: &Connection, entries: &[&Packed]) -> Result<(), Fault> {
    let mut last: BTreeMap<[u8; 32], i64> = BTreeMap::new();
    for entry in entries {
        for hash in record::versions_of(entry.record()).into_iter().flatten() {
            let used_ms = last.entry(hash.0).or_insert(i64::MIN);
            *used_ms = entry.key().created_ms.max(*used_ms);
        }
    }
    let mut note =
        connection.prepare_cached("update versions set used_ms = max(?2, coalesce(used_ms, ?2)) where hash = ?1")?;
    for (hash, used_ms) in last {
        note.execute(params![hash, used_ms])?;
    }
    Ok(())
}

impl Ledger {
    /// Stores blobs.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn put_blobs(&self, blobs: &[([u8; 32], Arc<[u8]>)]) -> Result<(), Fault> {
        self.change(|transaction, _| blobs.iter().try_for_each(|(hash, bytes)| put(transaction, hash, bytes)))
    }

    /// Drops the blobs that no entry refers to any more, but for those used last. Gives their number.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn retain_blobs(&self, now_ms: i64) -> Result<usize, Fault> {
        let (unused, doomed) = {
            let view = self.view()?;
            let connection = view.connection()?;
            let oldest = "select min(place) from stored_generations";
            let oldest = connection.query_row(oldest, [], |row| row.get::<_, Option<i64>>(0))?;
            let oldest_ms = oldest.map_or(now_ms, columns::ms_of).min(now_ms);
            let unused = "select count(*) from versions where used_ms is null";
            let unused: i64 = connection.query_row(unused, [], |row| row.get(0))?;
            let mut find = connection.prepare_cached(
                "select hash from (select hash, used_ms from versions where used_ms is not null order by used_ms desc, hash
                 limit -1 offset ?1) where used_ms < ?2",
            )?;
            let doomed = find.query_map([ALWAYS_KEPT, oldest_ms.saturating_sub(KEPT_LONGER_MS)], |row| row.get(0))?;
            (unused, doomed.collect::<Result<Vec<[u8; 32]>, _>>()?)
        };
        if unused == 0 && doomed.is_empty() {
            return Ok(0);
        }
        self.change(|transaction, _| {
            // Stored so lately that no entry refers to it yet.
            transaction.execute("update versions set used_ms = ?1 where used_ms is null", [now_ms])?;
            for hash in &doomed {
                transaction.execute("delete from versions where hash = ?1", [hash])?;
            }
            Ok(doomed.len())
        })
    }
}

impl View<'_> {
    /// The blob with this hash.
    ///
    /// # Errors
    /// The disk refuses, or the blob is damaged.
    pub fn blob(&self, hash: &[u8; 32]) -> Result<Option<Vec<u8>>, Fault> {
        let mut find = self.connection()?.prepare_cached("select bytes from versions where hash = ?1")?;
        let packed: Option<Vec<u8>> = find.query_row([hash], |row| row.get(0)).optional()?;
        packed.map(|packed| groups::expand(&packed)).transpose()
    }

    /// The hashes of all blobs, in order.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn blob_hashes(&self) -> Result<Vec<[u8; 32]>, Fault> {
        let mut find = self.connection()?.prepare_cached("select hash from versions order by hash")?;
        let hashes = find.query_map([], |row| row.get(0))?;
        Ok(hashes.collect::<Result<_, _>>()?)
    }
}
