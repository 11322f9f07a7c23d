//! Sums that are too old to be kept by time: they are added up, so that what was ever spent stays counted exactly.

use super::{Ledger, SUMS, View, deletions, merge_sum, redb_fault};
use crate::{
    entry::RollUp,
    fault::Fault,
    sums::{SLOT, SlotSums, slot},
};

/// The slot of the sums of long ago. No time lies in it.
const LONG_AGO: i64 = i64::MIN;
/// Days with sums that keep them however old they are: more than the longest month, so that a clock that was wrong for some
/// days does not take the sums of the current month.
const DAYS_KEPT: u32 = 45;
/// Slots of a day.
const DAY: i64 = 86_400 / SLOT.as_secs() as i64;

impl Ledger {
    /// Adds the sums of slots that ended before `oldest_ms` to those of long ago, but for those of the last 45 days that have
    /// sums.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn retain_sums(&self, oldest_ms: i64, sums: &dyn RollUp) -> Result<(), Fault> {
        let view = self.view()?;
        let bound = slot(oldest_ms).min(view.first_slot_of_last_days(DAYS_KEPT)?);
        let old = view.sums_in(LONG_AGO + 1..bound)?;
        if old.is_empty() {
            return Ok(());
        }
        let transaction = self.begin()?;
        {
            let mut table = transaction.open_table(SUMS).map_err(redb_fault)?;
            for ((old, key), sum) in old {
                table.remove((old, key.as_slice())).map_err(redb_fault)?;
                merge_sum(&mut table, (LONG_AGO, &key), sum, sums)?;
            }
        }
        deletions::forget_deleted(&transaction, bound)?;
        transaction.commit().map_err(redb_fault)
    }
}

impl View {
    /// Sums of the slots of long ago.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sums_of_long_ago(&self) -> Result<SlotSums, Fault> {
        self.sums_in(LONG_AGO..LONG_AGO + 1)
    }

    /// Tells the slot of every sum before `slot`, but for those of long ago.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn each_sum_before(&self, slot: i64, mut tell: impl FnMut(i64)) -> Result<(), Fault> {
        let none: &[u8] = &[];
        for row in self.sums_table()?.range((LONG_AGO + 1, none)..(slot, none)).map_err(redb_fault)? {
            tell(row.map_err(redb_fault)?.0.value().0);
        }
        Ok(())
    }

    /// The first slot of the last `days` days that have sums.
    fn first_slot_of_last_days(&self, days: u32) -> Result<i64, Fault> {
        let (table, none): (_, &[u8]) = (self.sums_table()?, &[]);
        let mut first = i64::MAX;
        for _ in 0..days {
            let mut earlier = table.range((LONG_AGO + 1, none)..(first, none)).map_err(redb_fault)?;
            let Some(row) = earlier.next_back() else { break };
            let slot = row.map_err(redb_fault)?.0.value().0;
            first = slot - slot.rem_euclid(DAY);
        }
        Ok(first)
    }
}
