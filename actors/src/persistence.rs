//! Persistence of the statistics, so that a restarted process keeps what was learned.
//!
//! The actor copies the statistics; a blocking thread writes the copy, one at a time. [`StatsStore`] knows where to
//! write, [`SavedState`] defines what is written.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pointsman_routing::stats::{SavedState, Statistics};
use tokio::{sync::Mutex, task::spawn_blocking};

/// Storage that keeps statistics across restarts.
pub trait StatsStore: Send + Sync + 'static {
    /// Replaces the saved state. Blocks; called on a blocking thread, never twice at the same time. Returns whether the
    /// state was saved; after a failure the next scheduled save writes again.
    fn save(&self, state: SavedState) -> bool;
}

/// When to save next, and whether a save is running.
pub(crate) struct SaveSchedule {
    store: Option<Arc<dyn StatsStore>>,
    /// Time between two saves.
    pub(crate) interval: Duration,
    /// When the statistics changed last.
    changed_at: SystemTime,
    /// Whether the statistics changed after the last save.
    changed: bool,
    /// Whether the last save failed.
    failed: Arc<AtomicBool>,
    /// Locked while a save is running.
    write_lock: Arc<Mutex<()>>,
}

impl SaveSchedule {
    /// Saves nothing.
    pub(crate) fn disabled() -> SaveSchedule {
        SaveSchedule {
            store: None,
            interval: Duration::ZERO,
            changed_at: UNIX_EPOCH,
            changed: false,
            failed: Arc::default(),
            write_lock: Arc::default(),
        }
    }

    /// Saves to `store` at this interval.
    pub(crate) fn to(store: Arc<dyn StatsStore>, interval: Duration) -> SaveSchedule {
        SaveSchedule { store: Some(store), interval, ..SaveSchedule::disabled() }
    }

    /// Whether a store is configured.
    pub(crate) fn is_on(&self) -> bool {
        self.store.is_some()
    }

    /// Notes that the statistics changed.
    pub(crate) fn note_change(&mut self) {
        if self.is_on() {
            (self.changed_at, self.changed) = (SystemTime::now(), true);
        }
    }

    /// Starts a save if the statistics changed. Does nothing while a save is running: a hanging disk must not occupy
    /// more than one thread.
    pub(crate) fn write(&mut self, statistics: &Statistics) {
        let Some(store) = &self.store else { return };
        let Ok(write_lock) = Arc::clone(&self.write_lock).try_lock_owned() else { return };
        if !(std::mem::take(&mut self.changed) || self.failed.load(Ordering::Acquire)) {
            return;
        }
        let (store, failed, state) =
            (Arc::clone(store), Arc::clone(&self.failed), statistics.export(self.changed_at_ms()));
        spawn_blocking(move || {
            failed.store(!store.save(state), Ordering::Release);
            drop(write_lock);
        });
    }

    /// Saves once more if the statistics changed, and completes when it is written.
    pub(crate) fn write_last(&mut self, statistics: &Statistics) -> impl Future<Output = ()> + use<> {
        let changed = std::mem::take(&mut self.changed);
        let last = self.store.clone().map(|store| (store, statistics.export(self.changed_at_ms())));
        let (failed, write_lock) = (Arc::clone(&self.failed), Arc::clone(&self.write_lock));
        async move {
            let Some((store, state)) = last else { return };
            let write_lock = write_lock.lock_owned().await;
            if changed || failed.load(Ordering::Acquire) {
                let write = spawn_blocking(move || {
                    failed.store(!store.save(state), Ordering::Release);
                    drop(write_lock);
                });
                // This fails only if the store panicked, and then nothing was saved.
                let _ = write.await;
            }
        }
    }

    fn changed_at_ms(&self) -> i64 {
        let since = self.changed_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex as Lock;

    use super::*;
    use pointsman_domain::{Catalog, RoutingPolicy};

    /// Remembers the times of the saved states. The first `failures` saves fail.
    #[derive(Default)]
    struct RecordingStore {
        kept: Lock<Vec<i64>>,
        failures: Lock<u32>,
    }

    impl StatsStore for RecordingStore {
        fn save(&self, state: SavedState) -> bool {
            let mut failures = self.failures.lock();
            let fails = *failures > 0;
            *failures = failures.saturating_sub(1);
            self.kept.lock().push(state.learned_at_ms);
            !fails
        }
    }

    fn schedule(store: &Arc<RecordingStore>) -> (SaveSchedule, Statistics) {
        let statistics = Statistics::new(Arc::new(Catalog::default()), Arc::new(RoutingPolicy::default()));
        (SaveSchedule::to(Arc::clone(store) as Arc<dyn StatsStore>, Duration::from_secs(10)), statistics)
    }

    async fn written(schedule: &SaveSchedule) {
        drop(schedule.write_lock.lock().await);
    }

    #[actix::test]
    async fn a_copy_is_written_when_there_is_news_and_not_otherwise() {
        let store = Arc::new(RecordingStore::default());
        let (mut schedule, statistics) = schedule(&store);
        for news in [false, true, false] {
            if news {
                schedule.note_change();
            }
            schedule.write(&statistics);
            written(&schedule).await;
        }
        schedule.write_last(&statistics).await;
        let kept = store.kept.lock().clone();
        assert_eq!(kept.len(), 1);
        assert!(kept.iter().all(|changed_at| *changed_at > 1_600_000_000_000), "of our days: {kept:?}");
    }

    #[actix::test]
    async fn a_lost_copy_is_tried_again_without_further_news() {
        let store = Arc::new(RecordingStore { failures: Lock::new(2), ..RecordingStore::default() });
        let (mut schedule, statistics) = schedule(&store);
        schedule.note_change();
        for _ in 0..5 {
            schedule.write(&statistics);
            written(&schedule).await;
        }
        assert_eq!(store.kept.lock().len(), 3);
    }

    #[actix::test]
    async fn the_last_copy_waits_for_the_one_under_way_and_holds_the_newest() {
        let store = Arc::new(RecordingStore::default());
        let (mut schedule, statistics) = schedule(&store);
        let under_way = Arc::clone(&schedule.write_lock).lock_owned().await;
        schedule.note_change();
        schedule.write(&statistics);
        let last = schedule.write_last(&statistics);
        drop(under_way);
        last.await;
        assert_eq!(store.kept.lock().len(), 1, "the interval's copy stood back");
    }
}
