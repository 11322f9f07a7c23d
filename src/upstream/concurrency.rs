//! Concurrency limit of each provider.
//!
//! A [`ProviderConcurrency`] outlives the configuration that made it. Calls in flight during a reload keep their permits
//! and count against the new limit, so a reload never admits more calls than either configuration allows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrency limit and permit wait of a provider in one configuration.
pub struct ConcurrencyLimits {
    /// Permits, shared by all configurations that have the provider.
    pub places: Arc<ProviderConcurrency>,
    /// Longest wait for a permit.
    pub wait: Duration,
}

/// The permits of one provider.
pub struct ProviderConcurrency {
    free: Arc<Semaphore>,
    most: Mutex<usize>,
    /// Permits in use above the limit, because the limit shrank. They are discarded when released.
    excess: AtomicUsize,
}

/// Permit of one call. Released when dropped.
pub struct Permit {
    permit: Option<OwnedSemaphorePermit>,
    places: Arc<ProviderConcurrency>,
}

impl ProviderConcurrency {
    /// `most` free permits.
    #[must_use]
    pub fn new(most: usize) -> Arc<ProviderConcurrency> {
        Arc::new(ProviderConcurrency {
            free: Arc::new(Semaphore::new(most)),
            most: Mutex::new(most),
            excess: AtomicUsize::new(0),
        })
    }

    /// Changes the limit. Calls in flight count against the new limit.
    pub fn resize(&self, wanted: usize) {
        let mut most = self.most.lock();
        let before = std::mem::replace(&mut *most, wanted);
        if wanted < before {
            let less = before - wanted;
            let taken = less - self.free.forget_permits(less);
            self.excess.fetch_add(taken, Ordering::Relaxed);
            return;
        }
        let more = wanted - before;
        let owed =
            self.excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| Some(owed.saturating_sub(more)));
        self.free.add_permits(more.saturating_sub(owed.unwrap_or(0)));
    }

    /// Permits in use, and the limit. More permits than the limit are in use after the limit shrank.
    #[must_use]
    pub fn standing(&self) -> (usize, usize) {
        let most = *self.most.lock();
        (most.saturating_sub(self.free.available_permits()) + self.excess.load(Ordering::Relaxed), most)
    }

    /// A permit, if one is free.
    #[must_use]
    pub fn take_now(self: &Arc<Self>) -> Option<Permit> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(|permit| self.place(permit))
    }

    /// Waits at most `wait` for a permit. `None` when none became free in that time.
    pub async fn take(self: &Arc<Self>, wait: Duration) -> Option<Permit> {
        if let Some(place) = self.take_now() {
            return Some(place);
        }
        let permit = actix_rt::time::timeout(wait, Arc::clone(&self.free).acquire_owned()).await.ok()?.ok()?;
        Some(self.place(permit))
    }

    fn place(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Permit {
        Permit { permit: Some(permit), places: Arc::clone(self) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let owes = |owed: usize| owed.checked_sub(1);
        if self.places.excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, owes).is_ok()
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn take(places: &Arc<ProviderConcurrency>, count: usize) -> Vec<Permit> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let Some(place) = places.take(Duration::ZERO).await else { break };
            taken.push(place);
        }
        taken
    }

    #[actix_web::test]
    async fn a_smaller_number_counts_the_calls_that_run() {
        let places = ProviderConcurrency::new(4);
        let mut running = take(&places, 3).await;

        places.resize(2);

        assert_eq!(take(&places, 9).await.len(), 0, "three run where two may");
        running.pop();
        assert_eq!(take(&places, 9).await.len(), 0, "two run where two may");
        running.pop();
        assert_eq!(take(&places, 9).await.len(), 1);
        running.clear();
        assert_eq!(take(&places, 9).await.len(), 2);
    }

    #[actix_web::test]
    async fn a_larger_number_is_there_at_once_even_after_a_smaller_one() {
        let places = ProviderConcurrency::new(4);
        let running = take(&places, 4).await;

        places.resize(1);
        places.resize(5);

        let more = take(&places, 9).await;
        assert_eq!(more.len(), 1, "four run, one more may");
        drop((running, more));
        assert_eq!(take(&places, 9).await.len(), 5);
    }

    #[actix_web::test]
    async fn a_call_waits_for_a_place_that_is_given_back() {
        let places = ProviderConcurrency::new(1);
        let running = take(&places, 1).await;
        let waiting = places.take(Duration::from_secs(10));
        let (place, ()) = tokio::join!(waiting, async { drop(running) });
        assert!(place.is_some());
    }
}
