//! Sums of entries that the database does not hold yet.

use std::{collections::BTreeMap, time::Duration};

use crate::{entry::RollUp, facts_view::FactsView, packed::Packed};

/// Width of a slot of the sums.
pub const SLOT: Duration = Duration::from_secs(15 * 60);
/// Counters by slot and key.
pub type SlotSums = BTreeMap<(i64, Vec<u8>), Vec<u8>>;

/// Number of the slot that a time lies in.
#[must_use]
pub fn slot(ms: i64) -> i64 {
    ms.div_euclid(SLOT.as_millis() as i64)
}

/// Labels of which the keys are remembered.
const REMEMBERED: usize = 32;

/// Sums of entries that the database does not count yet.
#[derive(Debug, Default)]
pub struct NewSums {
    slots: Slots,
    /// Keys of labels: most entries have the labels of one before.
    keys: Vec<(Labels, Option<Key>)>,
}

/// Labels as they are stored.
type Labels = Box<[u8]>;
/// What follows from labels; of some follows none.
type Key = Vec<u8>;
/// Counters by key, by slot.
type Slots = BTreeMap<i64, BTreeMap<Key, Vec<u8>>>;

impl NewSums {
    /// Counts an entry.
    pub fn count(&mut self, entry: &Packed, sums: &dyn RollUp) {
        let facts = entry.facts();
        let labels = facts.label_bytes();
        let known = self.keys.iter().position(|(known, _)| **known == *labels);
        let at = known.unwrap_or_else(|| self.remember(&facts, sums));
        let Some((_, Some(key))) = self.keys.get(at) else { return };
        let slot = self.slots.entry(slot(entry.key().created_ms)).or_default();
        match slot.get_mut(key) {
            Some(sum) => sums.count(&facts, sum),
            None => {
                let mut sum = Vec::new();
                sums.count(&facts, &mut sum);
                slot.insert(key.clone(), sum);
            }
        }
    }

    /// Remembers the key of these facts. Gives its place.
    fn remember(&mut self, facts: &FactsView<'_>, sums: &dyn RollUp) -> usize {
        if self.keys.len() == REMEMBERED {
            self.keys.clear();
        }
        let mut key = Vec::new();
        let counts = sums.key(facts, &mut key);
        self.keys.push((facts.label_bytes().into(), counts.then_some(key)));
        self.keys.len() - 1
    }

    /// Takes out the sums of the slots before `until`, in order.
    pub fn take_before(&mut self, until: i64) -> SlotSums {
        let later = self.slots.split_off(&until);
        in_order(std::mem::replace(&mut self.slots, later))
    }

    /// The sums, in order.
    pub fn into_sums(self) -> SlotSums {
        in_order(self.slots)
    }
}

fn in_order(slots: Slots) -> SlotSums {
    let slots = slots.into_iter();
    slots.flat_map(|(slot, sums)| sums.into_iter().map(move |(key, sum)| ((slot, key), sum))).collect()
}
