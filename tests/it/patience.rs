//! Waiting for what is bound to happen: neither by luck nor for ever.
//!
//! A test that needs an event asks for it again and again until it is there, however busy the machine is. Only a gateway
//! that is wrong uses up the patience.

use std::{
    fmt::{Debug, Display},
    panic::Location,
    thread,
    time::{Duration, Instant},
};

/// How long a test waits for something that is bound to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks: nobody who is waited for is kept from working.
const PAUSE: Duration = Duration::from_millis(5);

/// How often a figure may be missed because the machine was busy.
const TRIES: u32 = 30;

/// Looks again and again until `wanted` likes what is seen, and gives it. Fails the test with what was seen last.
#[track_caller]
pub(crate) fn eventually<T: Debug>(
    what: impl Display,
    mut look: impl AsyncFnMut() -> T,
    wanted: impl Fn(&T) -> bool,
) -> impl Future<Output = T> {
    let (place, begun) = (Location::caller(), Instant::now());
    async move {
        loop {
            let seen = look().await;
            if wanted(&seen) {
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "{place}: not in {PATIENCE:?}: {what}; it stays {seen:?}");
            actix_web::rt::time::sleep(PAUSE).await;
        }
    }
}

/// Looks again and again until it is so.
#[track_caller]
pub(crate) fn until(what: impl Display, is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let waiting = eventually(what, async move || is_so(), |so| *so);
    async move {
        waiting.await;
    }
}

/// Looks again and again until something is there, and gives it: for threads without a runtime.
#[track_caller]
pub(crate) fn on_this_thread<T>(what: impl Display, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        thread::sleep(PAUSE);
    }
}

/// Fails the test unless `attempt` once takes less than `figure`: what a busy machine adds, it does not add every time.
/// The pauses grow, so that the tries are spread over half a minute.
pub(crate) async fn takes_less_than(figure: Duration, what: impl Display, mut attempt: impl AsyncFnMut() -> Duration) {
    let mut quickest = Duration::MAX;
    for tries in 0..TRIES {
        actix_web::rt::time::sleep(PAUSE * 10 * tries).await;
        quickest = quickest.min(attempt().await);
        if quickest < figure {
            return;
        }
    }
    panic!("{what}: {quickest:?} at best, {figure:?} at most");
}
