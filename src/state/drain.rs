//! Shutdown in two steps: first no new calls are accepted, later the calls still in progress are ended.
//!
//! This module only holds the two flags. `serve` sets them; `frame` and the relays act on them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
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
    over: watch::Sender<bool>,
}

impl Default for Drain {
    fn default() -> Drain {
        Drain {
            begun: AtomicBool::new(false),
            begun_signal: watch::Sender::new(false),
            over: watch::Sender::new(false),
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
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Ends the grace period: calls without an answer are refused, streams end with an error chunk.
    pub fn finish(&self) {
        self.begin();
        self.over.send_replace(true);
    }

    /// Whether the grace period is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Completes when the shutdown begins.
    pub fn begun(&self) -> impl Future<Output = ()> + use<> {
        let mut begun = self.begun_signal.subscribe();
        async move {
            // An error means that the gateway was dropped.
            let _ = begun.wait_for(|begun| *begun).await;
        }
    }

    /// Completes when the grace period is over.
    pub fn over(&self) -> impl Future<Output = ()> + use<> {
        let mut over = self.over.subscribe();
        async move {
            // An error means that the gateway was dropped.
            let _ = over.wait_for(|over| *over).await;
        }
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
}
