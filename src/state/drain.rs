//! How the process leaves: from one moment on nobody new is invited, from another on whatever still runs must end.
//!
//! Only the two moments; `serve` decides when they come, `frame` and the relays do what follows from them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::sync::watch;

/// How long, behind the second moment, connections may still take to carry what was said last.
pub const LAST_WORDS: Duration = Duration::from_secs(3);

/// The two moments, for everybody who waits for them.
#[derive(Debug)]
pub struct Drain {
    begun: AtomicBool,
    over: watch::Sender<bool>,
}

impl Default for Drain {
    fn default() -> Drain {
        Drain { begun: AtomicBool::new(false), over: watch::Sender::new(false) }
    }
}

impl Drain {
    /// The process was asked to stop: answers say so, running ones go on.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Whether the process was asked to stop.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// The time is over: calls without an answer are refused, streams end with an error chunk.
    pub fn finish(&self) {
        self.begin();
        self.over.send_replace(true);
    }

    /// Whether the time is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Ends when the time is over.
    pub fn over(&self) -> impl Future<Output = ()> + use<> {
        let mut over = self.over.subscribe();
        async move {
            // An error means that the gateway is gone altogether.
            let _ = over.wait_for(|over| *over).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn who_waits_is_told_and_who_comes_late_too() {
        let drain = Drain::default();
        drain.begin();
        let mut early = drain.over().boxed();
        assert_eq!((drain.has_begun(), drain.is_over(), early.as_mut().now_or_never()), (true, false, None));
        drain.finish();
        assert_eq!((drain.is_over(), early.now_or_never(), drain.over().now_or_never()), (true, Some(()), Some(())));
    }
}
