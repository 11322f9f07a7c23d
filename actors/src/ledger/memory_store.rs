//! Generation records in memory. They are lost when the process ends.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, btree_map, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use pointsman_domain::{Generation, GenerationId, GenerationStatus};

use super::{LedgerSize, LedgerStore};

/// Most records evicted by one call. A thousand take well under a millisecond, so a look-up after a long idle time
/// does not delay other messages.
pub(super) const MAX_EVICTED_PER_CALL: usize = 1000;

/// Records in memory: the newest `capacity`, none older than `max_age`.
pub struct MemoryStore {
    capacity: usize,
    max_age: Duration,
    records: HashMap<GenerationId, Arc<Generation>>,
    /// Ids in order of arrival, each with the time of its admission; the front is evicted next.
    order: VecDeque<(GenerationId, i64)>,
    /// Number of records by owner.
    by_owner: BTreeMap<u64, usize>,
}

impl MemoryStore {
    /// An empty store with these bounds.
    pub fn new(capacity: usize, max_age: Duration) -> MemoryStore {
        MemoryStore {
            capacity: capacity.max(1),
            max_age,
            records: HashMap::new(),
            order: VecDeque::new(),
            by_owner: BTreeMap::new(),
        }
    }

    fn count_out(&mut self, owner: u64) {
        if let btree_map::Entry::Occupied(mut count) = self.by_owner.entry(owner) {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn is_too_old(&self, created_ms: i64, now_ms: i64) -> bool {
        let max_age_ms = i64::try_from(self.max_age.as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(created_ms) > max_age_ms
    }
}

impl LedgerStore for MemoryStore {
    fn put(&mut self, record: Arc<Generation>) -> Option<GenerationStatus> {
        let (id, created_ms, owner) = (record.id, record.created_ms, record.owner);
        match self.records.entry(id) {
            Entry::Occupied(mut known) => {
                let before = known.get().status;
                // Batches of two threads may arrive in either order: a running record never replaces an ended one.
                if record.status != GenerationStatus::Running || before == GenerationStatus::Running {
                    known.insert(record);
                }
                return Some(before);
            }
            Entry::Vacant(new) => new.insert(record),
        };
        *self.by_owner.entry(owner).or_default() += 1;
        self.order.push_back((id, created_ms));
        self.evict(created_ms);
        None
    }

    fn evict(&mut self, now_ms: i64) {
        for _ in 0..MAX_EVICTED_PER_CALL {
            let Some((oldest, created_ms)) = self.order.front() else { return };
            if self.order.len() <= self.capacity && !self.is_too_old(*created_ms, now_ms) {
                return;
            }
            let owner = self.records.remove(oldest).map(|record| record.owner);
            self.order.pop_front();
            owner.into_iter().for_each(|owner| self.count_out(owner));
        }
    }

    fn size(&self) -> LedgerSize {
        LedgerSize {
            records: self.records.len(),
            capacity: self.capacity,
            max_age: self.max_age,
            oldest_ms: self.order.front().map(|(_, created_ms)| *created_ms),
            newest_ms: self.order.back().map(|(_, created_ms)| *created_ms),
            by_owner: self.by_owner.iter().map(|(owner, count)| (*owner, *count)).collect(),
        }
    }

    fn delete(&mut self, unwanted: &dyn Fn(&Generation) -> bool) -> usize {
        let before = self.records.len();
        let gone = |record: &Arc<Generation>| unwanted(record);
        for owner in self.records.values().filter(|record| gone(record)).map(|record| record.owner).collect::<Vec<_>>()
        {
            self.count_out(owner);
        }
        self.records.retain(|_, record| !gone(record));
        self.order.retain(|(id, _)| self.records.contains_key(id));
        before - self.records.len()
    }

    fn set_bounds(&mut self, capacity: usize, max_age: Duration) {
        self.capacity = capacity.max(1);
        self.max_age = max_age;
    }

    fn get(&self, id: GenerationId, now_ms: i64) -> Option<Arc<Generation>> {
        self.records.get(&id).filter(|record| !self.is_too_old(record.created_ms, now_ms)).cloned()
    }

    fn len(&self) -> usize {
        self.records.len()
    }
}
