//! Which slots lost entries on request: their sums count more than is stored.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::{View, redb_fault, slot};
use crate::fault::Fault;

/// Slot to the number of entries that were deleted from it.
pub(super) const DELETED: TableDefinition<'_, i64, u64> = TableDefinition::new("deleted");

/// The slots of which entries were deleted.
pub(crate) fn deleted(view: &View) -> Result<BTreeSet<i64>, Fault> {
    let table = view.transaction.open_table(DELETED).map_err(redb_fault)?;
    let slots = table.iter().map_err(redb_fault)?;
    slots.map(|row| row.map(|(slot, _)| slot.value()).map_err(redb_fault)).collect()
}

/// Notes that entries of these times were deleted on request.
pub(super) fn note_deleted(transaction: &WriteTransaction, times: impl Iterator<Item = i64>) -> Result<(), Fault> {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    times.for_each(|ms| *counts.entry(slot(ms)).or_default() += 1);
    let mut table = transaction.open_table(DELETED).map_err(redb_fault)?;
    for (slot, count) in counts {
        let before = table.get(slot).map_err(redb_fault)?.map_or(0, |count| count.value());
        table.insert(slot, before + count).map_err(redb_fault)?;
    }
    Ok(())
}

/// Forgets deletions in slots before `slot`.
pub(super) fn forget_deleted(transaction: &WriteTransaction, slot: i64) -> Result<(), Fault> {
    let mut table = transaction.open_table(DELETED).map_err(redb_fault)?;
    table.retain_in(..slot, |_, _| false).map_err(redb_fault)
}
