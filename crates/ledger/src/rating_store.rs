//! Ratings in the ledger.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{GenerationId, Task};
use pointsman_routing::quality::{Rated, TrafficTable};

use crate::{
    activity::{
        SLOT,
        grouping::{Dimension, Grouping, Period},
        slot, slot_start,
    },
    database::ratings::RatingWriter,
    fault::Fault,
    generations::GenerationStore,
    ratings::{DAY_MS, Rating},
};

/// Slots of a day.
const DAY: i64 = DAY_MS / SLOT.as_millis() as i64;
/// What answers are counted by beside the day.
const BY: [Dimension; 3] = [Dimension::Account, Dimension::Model, Dimension::Task];

impl GenerationStore {
    /// Changes ratings: all, or none. Durable when it returns. Writes to the disk.
    ///
    /// # Errors
    /// The database is closed, or the disk refuses.
    pub fn change_ratings<T>(
        &self,
        change: impl FnOnce(&mut RatingWriter<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.store.database()?.change_ratings(change)
    }

    /// The ratings of an answer, in the order in which they came. Reads the disk.
    ///
    /// # Errors
    /// As for [`GenerationStore::change_ratings`].
    pub fn ratings_of(&self, id: GenerationId) -> Result<Vec<Rating>, Fault> {
        self.store.database()?.ratings_of(id)
    }

    /// What all ratings add to the sums, in the order in which they came, and the number of those that cannot be read. Reads the disk.
    ///
    /// # Errors
    /// As for [`GenerationStore::change_ratings`].
    pub fn counted_ratings(&self) -> Result<(Vec<Rated>, u64), Fault> {
        let mut counted = Vec::new();
        let ledger = self.store.database()?;
        let unreadable = ledger.each_rated_answer(|answer, ratings| counted.extend(answer.counted(ratings)))?;
        counted.sort_by_key(|rated: &Rated| rated.order);
        Ok((counted, unreadable))
    }

    /// The answers that were admitted between these times, Unix milliseconds, but none from before the first one that was rated:
    /// nobody rated then. Reads the disk.
    ///
    /// # Errors
    /// As for [`GenerationStore::change_ratings`].
    pub fn answers_beside_ratings(&self, since_ms: i64, until_ms: i64) -> Result<TrafficTable, Fault> {
        let Some(first_ms) = self.store.database()?.first_rated_ms()? else { return Ok(TrafficTable::new()) };
        let since_ms = since_ms.max(first_ms);
        let (first, period) = (slot(since_ms), Some(Period { slots: DAY, offset: 0 }));
        let slots = first..=slot(until_ms);
        let sums = self.store.sums(&Grouping { slots, by: BY.to_vec(), period, only: Vec::new() })?;
        // The sums count the whole first slot.
        let earlier = self.store.answers(&BY, slot_start(first), since_ms)?;
        let mut table = TrafficTable::new();
        let mut models = BTreeMap::<String, Arc<str>>::new();
        for ((start, key), counters) in sums {
            let is_first_day = start.div_euclid(DAY) == first.div_euclid(DAY);
            let earlier = earlier.get(&key).filter(|_| is_first_day).copied().unwrap_or_default();
            let answers = counters.requests.saturating_sub(counters.failed).saturating_sub(earlier);
            let Some(task) = Task::named(key.get(Dimension::Task)).filter(|_| answers > 0) else { continue };
            let model = key.get(Dimension::Model);
            let model = models.entry(model.to_owned()).or_insert_with(|| Arc::from(model));
            // Sixteen hexadecimal digits.
            let account = u64::from_str_radix(key.get(Dimension::Account), 16).unwrap_or_default();
            let day = i32::try_from(start.div_euclid(DAY)).unwrap_or_default();
            let seen = table.entry((task, Arc::clone(model))).or_default().entry((account, day)).or_default();
            *seen = seen.saturating_add(answers);
        }
        Ok(table)
    }
}
