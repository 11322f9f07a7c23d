//! Sums of entries that the database does not hold yet.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use crate::store::{entry::RollUp, packed::Packed};

/// Width of a slot of the sums.
pub const SLOT: Duration = Duration::from_secs(15 * 60);
/// Counters by slot and key.
pub type SlotSums = BTreeMap<(i64, Vec<u8>), Vec<u8>>;

/// Number of the slot that a time lies in.
#[must_use]
pub fn slot(ms: i64) -> i64 {
    ms.div_euclid(SLOT.as_millis() as i64)
}

/// Sums of entries that the database does not count yet.
#[derive(Debug, Default)]
pub struct NewSums {
    slots: BTreeMap<i64, HashMap<Vec<u8>, Vec<u8>>>,
    /// Where keys are put together.
    key: Vec<u8>,
}

impl NewSums {
    /// Counts an entry.
    pub fn count(&mut self, entry: &Packed, sums: &dyn RollUp) {
        let facts = entry.facts();
        self.key.clear();
        if !sums.key(&facts, &mut self.key) {
            return;
        }
        let slot = self.slots.entry(slot(entry.key().created_ms)).or_default();
        match slot.get_mut(&self.key) {
            Some(sum) => sums.count(&facts, sum),
            None => {
                let mut sum = Vec::new();
                sums.count(&facts, &mut sum);
                slot.insert(self.key.clone(), sum);
            }
        }
    }

    /// Takes out the sums of the slots before `until`, in order.
    pub fn take_before(&mut self, until: i64) -> SlotSums {
        let later = self.slots.split_off(&until);
        let slots = std::mem::replace(&mut self.slots, later);
        NewSums { slots, key: Vec::new() }.into_sums()
    }

    /// The sums, in order.
    pub fn into_sums(self) -> SlotSums {
        let slots = self.slots.into_iter();
        slots.flat_map(|(slot, sums)| sums.into_iter().map(move |(key, sum)| ((slot, key), sum))).collect()
    }
}
