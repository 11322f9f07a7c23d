//! Writes blobs.

use redb::{ReadableTable as _, WriteTransaction};

use super::{BLOBS, CHUNK, redb_fault};
use crate::store::{blocks, fault::Fault};

/// Stores a blob, in place of a damaged one.
pub(super) fn put_blob(transaction: &WriteTransaction, hash: &[u8; 32], bytes: &[u8]) -> Result<(), Fault> {
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
