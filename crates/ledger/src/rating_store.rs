//! Ratings in the ledger.

use pointsman_domain::GenerationId;
use pointsman_routing::quality::Rated;

use crate::{database::ratings::RatingWriter, fault::Fault, generations::GenerationStore, ratings::Rating};

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
}
