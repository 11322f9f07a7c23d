//! The database as an outbox: its blocks in the order in which they were written.
//!
//! Every entry is in a block with a greater number than the blocks written before it. An entry may come again in a later block,
//! when a short block was written again together with newer entries, or a block without entries that were deleted.

use redb::{ReadableDatabase as _, TableError};

use super::{INDEXES, Ledger, META, PAYLOADS, View, redb_fault};
use crate::{
    blocks,
    entry::Entry,
    fault::{Fault, unless_damaged},
};

/// Key of the identity in the table `META`.
const IDENTITY_KEY: &str = "identity";

/// Tells a database from every other, also from one that lay in the same place before.
pub type Identity = [u8; 16];

/// A block of the outbox.
#[derive(Debug)]
pub struct OutboxBlock {
    /// Its number.
    pub number: u64,
    /// Its entries; none if it is damaged.
    pub entries: Vec<Entry>,
}

impl Ledger {
    /// The identity of the database. `new` becomes that of a database that has none.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn identity(&self, new: Identity) -> Result<Identity, Fault> {
        let read = || match self.database.begin_read().map_err(redb_fault)?.open_table(META) {
            Ok(table) => {
                let stored = table.get(IDENTITY_KEY).map_err(redb_fault)?;
                Ok(stored.and_then(|bytes| Identity::try_from(bytes.value()).ok()))
            }
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(redb_fault(error)),
        };
        if let Some(known) = read()? {
            return Ok(known);
        }
        let transaction = self.begin()?;
        transaction.open_table(META).map_err(redb_fault)?.insert(IDENTITY_KEY, new.as_slice()).map_err(redb_fault)?;
        transaction.commit().map_err(redb_fault)?;
        Ok(new)
    }
}

impl View {
    /// At most `most` blocks with a greater number than `after`, or all for `None`, in their order.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn blocks_after(&self, after: Option<u64>, most: usize) -> Result<Vec<OutboxBlock>, Fault> {
        let table = self.transaction.open_table(INDEXES).map_err(redb_fault)?;
        let mut numbers: Vec<u64> = Vec::new();
        let from = after.map_or(0, |after| after.saturating_add(1));
        for row in table.range((from, 0)..).map_err(redb_fault)? {
            let number = row.map_err(redb_fault)?.0.value().0;
            if numbers.last() == Some(&number) {
                continue;
            }
            if numbers.len() == most {
                break;
            }
            numbers.push(number);
        }
        let block = |number| {
            let entries = unless_damaged(number, self.block_entries(number))?.unwrap_or_default();
            Ok(OutboxBlock { number, entries })
        };
        numbers.into_iter().map(block).collect()
    }

    fn block_entries(&self, number: u64) -> Result<Vec<Entry>, Fault> {
        let rows = blocks::rows(&self.part(INDEXES, number)?)?;
        let bytes = blocks::expand(&self.part(PAYLOADS, number)?)?;
        Ok((0..rows.len()).filter_map(|row| blocks::entry(&rows, row, &bytes)).collect())
    }
}
