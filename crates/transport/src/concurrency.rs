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
    pub permits: Arc<ProviderConcurrency>,
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
    owner: Arc<ProviderConcurrency>,
}

impl ProviderConcurrency {
    /// `most` free permits.
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
            let in_use = less - self.free.forget_permits(less);
            self.excess.fetch_add(in_use, Ordering::Relaxed);
            return;
        }
        let more = wanted - before;
        let excess =
            self.excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |excess| Some(excess.saturating_sub(more)));
        self.free.add_permits(more.saturating_sub(excess.unwrap_or(0)));
    }

    /// Permits in use, and the limit. More permits than the limit are in use after the limit shrank.
    pub fn usage(&self) -> (usize, usize) {
        let most = *self.most.lock();
        (most.saturating_sub(self.free.available_permits()) + self.excess.load(Ordering::Relaxed), most)
    }

    /// A permit, if one is free.
    #[must_use]
    pub fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(|permit| self.permit(permit))
    }

    /// Waits at most `wait` for a permit. `None` when none became free in that time.
    pub async fn acquire(self: &Arc<Self>, wait: Duration) -> Option<Permit> {
        if let Some(permit) = self.try_acquire() {
            return Some(permit);
        }
        let permit = actix_rt::time::timeout(wait, Arc::clone(&self.free).acquire_owned()).await.ok()?.ok()?;
        Some(self.permit(permit))
    }

    fn permit(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Permit {
        Permit { permit: Some(permit), owner: Arc::clone(self) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let decrement = |excess: usize| excess.checked_sub(1);
        if self.owner.excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_ok()
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn acquire(permits: &Arc<ProviderConcurrency>, count: usize) -> Vec<Permit> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let Some(permit) = permits.acquire(Duration::ZERO).await else { break };
            taken.push(permit);
        }
        taken
    }

    #[actix_web::test]
    async fn a_smaller_limit_counts_the_calls_in_flight() {
        let permits = ProviderConcurrency::new(4);
        let mut running = acquire(&permits, 3).await;

        permits.resize(2);

        assert_eq!(acquire(&permits, 9).await.len(), 0, "three run, two are allowed");
        running.pop();
        assert_eq!(acquire(&permits, 9).await.len(), 0, "two run, two are allowed");
        running.pop();
        assert_eq!(acquire(&permits, 9).await.len(), 1);
        running.clear();
        assert_eq!(acquire(&permits, 9).await.len(), 2);
    }

    #[actix_web::test]
    async fn a_larger_limit_applies_at_once_even_after_a_smaller_one() {
        let permits = ProviderConcurrency::new(4);
        let running = acquire(&permits, 4).await;

        permits.resize(1);
        permits.resize(5);

        let more = acquire(&permits, 9).await;
        assert_eq!(more.len(), 1, "four run, five are allowed");
        drop((running, more));
        assert_eq!(acquire(&permits, 9).await.len(), 5);
    }

    #[actix_web::test]
    async fn a_waiting_call_gets_a_released_permit() {
        let permits = ProviderConcurrency::new(1);
        let running = acquire(&permits, 1).await;
        let waiting = permits.acquire(Duration::from_secs(10));
        let (permit, ()) = tokio::join!(waiting, async { drop(running) });
        assert!(permit.is_some());
    }
}
