//! Shutdown in two steps: first no new calls are accepted, later the calls still in progress are ended.
//!
//! This module only holds the two flags. `serve` sets them; `frame` and the relays act on them.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use tokio::sync::watch;

/// Time that connections get after the grace period to send their last bytes.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The state of the shutdown.
#[derive(Debug)]
pub struct Drain {
    begun: AtomicBool,
    /// The same, for those that wait for it.
    begun_signal: watch::Sender<bool>,
    over: Arc<AtomicBool>,
    /// The same, for those that wait for it.
    over_signal: watch::Sender<bool>,
}

impl Default for Drain {
    fn default() -> Drain {
        Drain {
            begun: AtomicBool::new(false),
            begun_signal: watch::Sender::new(false),
            over: Arc::default(),
            over_signal: watch::Sender::new(false),
        }
    }
}

impl Drain {
    /// Begins the shutdown: new calls are refused, calls in progress continue.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
        self.begun_signal.send_replace(true);
    }

    /// Whether the process was asked to stop.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Ends the grace period: calls without an answer are refused, streams end with an error chunk.
    pub fn finish(&self) {
        self.begin();
        self.over.store(true, Ordering::Release);
        self.over_signal.send_replace(true);
    }

    /// Whether the grace period is over.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Completes when the shutdown begins.
    pub fn begun(&self) -> impl Future<Output = ()> + use<> {
        let mut begun = self.begun_signal.subscribe();
        async move {
            // An error means that the gateway was dropped.
            let _ = begun.wait_for(|begun| *begun).await;
        }
    }

    /// Completes when the grace period is over. It is polled at every step of a call, and takes the lock of all who wait only
    /// at the first.
    pub fn over(&self) -> impl Future<Output = ()> + use<> {
        let (over, mut signal) = (Arc::clone(&self.over), self.over_signal.subscribe());
        async move {
            let mut waiting = pin!(signal.wait_for(|over| *over));
            let mut registered: Option<Waker> = None;
            poll_fn(|cx| {
                let is_registered = registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
                if is_registered && !over.load(Ordering::Acquire) {
                    return Poll::Pending;
                }
                registered = Some(cx.waker().clone());
                waiting.as_mut().poll(cx).map(drop)
            })
            .await;
        }
    }
}

impl Drop for Drain {
    /// Whoever still waits goes on.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn early_and_late_waiters_are_woken_when_the_grace_period_is_over() {
        let drain = Drain::default();
        drain.begin();
        let mut early = drain.over().boxed();
        assert_eq!((drain.has_begun(), drain.is_over(), early.as_mut().now_or_never()), (true, false, None));
        drain.finish();
        assert_eq!((drain.is_over(), early.now_or_never(), drain.over().now_or_never()), (true, Some(()), Some(())));
    }

    #[test]
    fn nobody_waits_for_a_gateway_that_was_dropped() {
        let drain = Drain::default();
        let mut waiter = drain.over().boxed();
        assert_eq!([waiter.as_mut().now_or_never(), waiter.as_mut().now_or_never()], [None, None]);
        drop(drain);
        assert_eq!(waiter.now_or_never(), Some(()));
    }
}
