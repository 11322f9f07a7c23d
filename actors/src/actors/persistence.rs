//! Writing down what the statistics know, so that a later process can go on from there.
//!
//! The actor only makes the copy; a thread that may wait for a disk does the rest, one copy at a time. Where it is
//! kept is for a [`StatsStore`] to know; what it says, for [`SavedState`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Mutex, task::spawn_blocking};

use crate::stats::{SavedState, Statistics};

/// A place where statistics outlive the process.
pub trait StatsStore: Send + Sync + 'static {
    /// Replaces what was kept before. Blocks; called on a thread of its own, never by two at once. Gives whether it
    /// is kept; otherwise it is tried again when the next copy is due.
    fn keep(&self, state: &SavedState) -> bool;
}

/// When the next copy is due, and whether one is under way.
pub(crate) struct SaveSchedule {
    place: Option<Arc<dyn StatsStore>>,
    /// How often to write.
    pub(crate) interval: Duration,
    /// When the last news was taken in.
    learned: SystemTime,
    /// Whether that was after the last copy.
    fresh: bool,
    /// Whether the last copy was lost.
    lost: Arc<AtomicBool>,
    /// Held while a copy is written.
    turn: Arc<Mutex<()>>,
}

impl SaveSchedule {
    /// Keeps nothing.
    pub(crate) fn nowhere() -> SaveSchedule {
        SaveSchedule {
            place: None,
            interval: Duration::ZERO,
            learned: UNIX_EPOCH,
            fresh: false,
            lost: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// Keeps a copy at that place, this often.
    pub(crate) fn at(place: Arc<dyn StatsStore>, interval: Duration) -> SaveSchedule {
        SaveSchedule { place: Some(place), interval, ..SaveSchedule::nowhere() }
    }

    /// Whether anything is kept.
    pub(crate) fn is_on(&self) -> bool {
        self.place.is_some()
    }

    /// Something was learned.
    pub(crate) fn learned(&mut self) {
        if self.is_on() {
            (self.learned, self.fresh) = (SystemTime::now(), true);
        }
    }

    /// Writes a copy, if there is news. While the last one is still being written nothing happens: a disk that hangs
    /// must not collect threads.
    pub(crate) fn write(&mut self, statistics: &Statistics) {
        let Some(place) = &self.place else { return };
        let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() else { return };
        if !(std::mem::take(&mut self.fresh) || self.lost.load(Ordering::Acquire)) {
            return;
        }
        let (place, lost, state) = (Arc::clone(place), Arc::clone(&self.lost), statistics.export(self.learned_ms()));
        spawn_blocking(move || {
            lost.store(!place.keep(&state), Ordering::Release);
            drop(turn);
        });
    }

    /// Writes a copy, if there is news, and ends when it is written.
    pub(crate) fn write_last(&mut self, statistics: &Statistics) -> impl Future<Output = ()> + use<> {
        let fresh = std::mem::take(&mut self.fresh);
        let last = self.place.clone().map(|place| (place, statistics.export(self.learned_ms())));
        let (lost, turn) = (Arc::clone(&self.lost), Arc::clone(&self.turn));
        async move {
            let Some((place, state)) = last else { return };
            let turn = turn.lock_owned().await;
            if fresh || lost.load(Ordering::Acquire) {
                let write = spawn_blocking(move || {
                    lost.store(!place.keep(&state), Ordering::Release);
                    drop(turn);
                });
                // It ends early only if the place panicked, and then nothing is kept.
                let _ = write.await;
            }
        }
    }

    fn learned_ms(&self) -> i64 {
        let since = self.learned.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex as Lock;

    use super::*;
    use crate::domain::{Catalog, RoutingPolicy};

    /// Remembers what it was given; fails as often as it is told to.
    #[derive(Default)]
    struct Shelf {
        kept: Lock<Vec<i64>>,
        failures: Lock<u32>,
    }

    impl StatsStore for Shelf {
        fn keep(&self, state: &SavedState) -> bool {
            let mut failures = self.failures.lock();
            let fails = *failures > 0;
            *failures = failures.saturating_sub(1);
            self.kept.lock().push(state.learned_at_ms);
            !fails
        }
    }

    fn keeping(shelf: &Arc<Shelf>) -> (SaveSchedule, Statistics) {
        let statistics = Statistics::new(Arc::new(Catalog::default()), Arc::new(RoutingPolicy::default()));
        (SaveSchedule::at(Arc::clone(shelf) as Arc<dyn StatsStore>, Duration::from_secs(10)), statistics)
    }

    async fn written(keeping: &SaveSchedule) {
        drop(keeping.turn.lock().await);
    }

    #[actix::test]
    async fn a_copy_is_written_when_there_is_news_and_not_otherwise() {
        let shelf = Arc::new(Shelf::default());
        let (mut keeping, statistics) = keeping(&shelf);
        for news in [false, true, false] {
            if news {
                keeping.learned();
            }
            keeping.write(&statistics);
            written(&keeping).await;
        }
        keeping.write_last(&statistics).await;
        let kept = shelf.kept.lock().clone();
        assert_eq!(kept.len(), 1);
        assert!(kept.iter().all(|learned| *learned > 1_600_000_000_000), "of our days: {kept:?}");
    }

    #[actix::test]
    async fn a_lost_copy_is_tried_again_without_further_news() {
        let shelf = Arc::new(Shelf { failures: Lock::new(2), ..Shelf::default() });
        let (mut keeping, statistics) = keeping(&shelf);
        keeping.learned();
        for _ in 0..5 {
            keeping.write(&statistics);
            written(&keeping).await;
        }
        assert_eq!(shelf.kept.lock().len(), 3);
    }

    #[actix::test]
    async fn the_last_copy_waits_for_the_one_under_way_and_holds_the_newest() {
        let shelf = Arc::new(Shelf::default());
        let (mut keeping, statistics) = keeping(&shelf);
        let under_way = Arc::clone(&keeping.turn).lock_owned().await;
        keeping.learned();
        keeping.write(&statistics);
        let last = keeping.write_last(&statistics);
        drop(under_way);
        last.await;
        assert_eq!(shelf.kept.lock().len(), 1, "the interval's copy stood back");
    }
}
