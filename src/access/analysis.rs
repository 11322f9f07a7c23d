//! Computations about decisions that callers ask for: previews, explanations, replays and lists of generations.
//!
//! One of them may make hundreds of decisions, so it never runs on a worker's thread, where every stream would wait for
//! it. It is bounded three ways: each caller has one computation running and a limited number waiting, and all callers
//! together have as many running as half of the processors. What one computation may cost is bounded in
//! [`pointsman_routing::decide`].

use std::{
    collections::{HashMap, hash_map::Entry},
    num::NonZeroUsize,
    sync::Arc,
    thread::available_parallelism,
    time::Duration,
};

use actix_web::web;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::base::error::{ApiError, Limit, Overload};

/// Longest wait for a computation to begin. After it the call is refused with `retry-after`.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);
/// `retry-after` of a refused call.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The computations in progress. One per process.
pub struct Analyses {
    /// One permit per computation that may run at the same time.
    running: Arc<Semaphore>,
    /// Callers with computations in progress, by [`Caller::owner`](crate::access::keys::Caller::owner).
    callers: Arc<Mutex<HashMap<u64, InProgress>>>,
    /// Longest wait for a computation to begin.
    queue_timeout: Duration,
}

/// The computations of one caller.
struct InProgress {
    /// Number of computations that run or wait.
    count: u32,
    /// Its one permit: a caller with many computations does not fill the queue of all others.
    turn: Arc<Semaphore>,
}

/// Guard of a computation that runs or waits. Subtracts it from the count when dropped.
struct InProgressGuard {
    owner: u64,
    callers: Arc<Mutex<HashMap<u64, InProgress>>>,
}

impl Default for Analyses {
    fn default() -> Analyses {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        let running = Arc::new(Semaphore::new((processors / 2).max(1)));
        Analyses { running, callers: Arc::default(), queue_timeout: QUEUE_TIMEOUT }
    }
}

impl Analyses {
    /// Runs `compute` for a caller on a blocking thread. The computation runs to its end and keeps its permits until
    /// then, even if the caller has disconnected.
    ///
    /// # Errors
    /// 429 when the caller has `most` of them in progress, 503 when the queue does not move, 500 when `compute` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        owner: u64,
        most: u32,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let (counted, turn) = self.enter(owner, most)?;
        let permits = timeout(self.queue_timeout, self.permits(turn)).await;
        let permits = permits.ok().flatten().ok_or_else(|| ApiError::overloaded(Overload::Analyses, RETRY_AFTER))?;
        let result = web::block(move || {
            let result = compute();
            drop((permits, counted));
            result
        });
        result.await.map_err(|_| ApiError::internal())
    }

    fn enter(&self, owner: u64, most: u32) -> Result<(InProgressGuard, Arc<Semaphore>), ApiError> {
        let mut callers = self.callers.lock();
        let fresh = || InProgress { count: 0, turn: Arc::new(Semaphore::new(1)) };
        let caller = callers.entry(owner).or_insert_with(fresh);
        if caller.count >= most {
            return Err(ApiError::limited(Limit::Analyses, most, RETRY_AFTER));
        }
        caller.count += 1;
        Ok((InProgressGuard { owner, callers: Arc::clone(&self.callers) }, Arc::clone(&caller.turn)))
    }

    /// Waits for the permit of the caller, then for a permit shared by all callers.
    async fn permits(&self, turn: Arc<Semaphore>) -> Option<[OwnedSemaphorePermit; 2]> {
        let turn = turn.acquire_owned().await.ok()?;
        let running = Arc::clone(&self.running).acquire_owned().await.ok()?;
        Some([turn, running])
    }
}

impl Drop for InProgressGuard {
    fn drop(&mut self) {
        if let Entry::Occupied(mut caller) = self.callers.lock().entry(self.owner) {
            caller.get_mut().count -= 1;
            if caller.get().count == 0 {
                caller.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use actix_web::ResponseError as _;
    use futures_util::future::{join, join_all};

    use super::*;

    const OWNER: u64 = 7;
    const OTHER: u64 = 8;

    #[actix_web::test]
    async fn a_computation_runs_on_another_thread_and_leaves_nothing_behind() {
        let analyses = Analyses::default();
        let ran_on = analyses.run(OWNER, 1, || thread::current().id()).await.unwrap();
        assert_ne!(ran_on, thread::current().id());
        assert!(analyses.callers.lock().is_empty());
    }

    #[actix_web::test]
    async fn computations_over_the_limit_of_a_caller_are_refused_with_a_retry_after() {
        let analyses = Arc::new(Analyses::default());
        let (release, held) = mpsc::channel::<()>();
        let (begin, mut begun) = tokio::sync::mpsc::channel(1);
        let busy = Arc::clone(&analyses);
        let first = actix_rt::spawn(async move {
            let wait = move || {
                begin.blocking_send(()).unwrap();
                held.recv().unwrap();
            };
            busy.run(OWNER, 1, wait).await
        });
        begun.recv().await.unwrap();
        let refused = analyses.run(OWNER, 1, || ()).await.unwrap_err();
        assert_eq!(refused.status_code(), 429);
        assert_eq!(refused.error_response().headers().get("retry-after").unwrap(), "1");
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        analyses.run(OWNER, 1, || ()).await.unwrap();
    }

    #[actix_web::test]
    async fn a_caller_with_many_computations_has_one_in_the_shared_queue() {
        let running = Arc::new(Semaphore::new(1));
        let held = Arc::clone(&running).acquire_owned().await.unwrap();
        let analyses = Analyses { running, ..Analyses::default() };
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |owner| {
            let order = Arc::clone(&order);
            move || order.lock().push(owner)
        };
        // Entered in this order: three of one caller, then one of another.
        let owners = [OWNER, OWNER, OWNER, OTHER];
        let all = join_all(owners.map(|owner| analyses.run(owner, 3, note(owner))));
        // Nobody computes before all have entered.
        join(all, async { drop(held) }).await;
        assert!(order.lock()[..2].contains(&OTHER), "{:?}", order.lock());
    }

    #[actix_web::test]
    async fn a_caller_that_disconnects_while_waiting_leaves_nothing_behind() {
        let analyses = Analyses { running: Arc::new(Semaphore::new(0)), ..Analyses::default() };
        let waiting = analyses.run(OWNER, 1, || ());
        assert!(timeout(Duration::from_millis(5), waiting).await.is_err());
        assert!(analyses.callers.lock().is_empty());
    }

    #[actix_web::test]
    async fn a_computation_that_panics_releases_its_permits() {
        let analyses = Analyses::default();
        let failed = analyses.run(OWNER, 1, || panic!("on purpose")).await;
        assert_eq!(failed.map(|(): ()| ()).unwrap_err().status_code(), 500);
        analyses.run(OWNER, 1, || ()).await.unwrap();
    }

    #[actix_web::test]
    async fn a_computation_that_waits_too_long_is_refused() {
        let analyses = Analyses {
            running: Arc::new(Semaphore::new(0)),
            queue_timeout: Duration::from_millis(5),
            ..Analyses::default()
        };
        let refused = analyses.run(OWNER, 1, || ()).await.unwrap_err();
        assert_eq!(refused.status_code(), 503);
        assert!(analyses.callers.lock().is_empty());
    }
}
