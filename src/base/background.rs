//! Threads for long work beside requests: they run while a processor has nothing else to do.

use std::{io, thread};

use tokio::sync::oneshot;

/// Runs `work` on a thread of its own. The threads that it starts have the same priority.
///
/// # Errors
/// The system gives no further thread; `work` is dropped.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work = move || {
        yield_to_requests();
        work();
    };
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// What `work` gives on such a thread. `None` if it panics, or the system gives no thread.
pub(crate) async fn run<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = oneshot::channel();
    spawn(name, move || drop(sender.send(work()))).ok()?;
    result.await.ok()
}

/// Gives this thread the policy `SCHED_IDLE`: any other thread that can run goes before it at once. Where the system refuses, the
/// priority stays as it is.
#[cfg(target_os = "linux")]
fn yield_to_requests() {
    use thread_priority::{
        NormalThreadSchedulePolicy::Idle, ThreadPriority, ThreadSchedulePolicy::Normal, set_thread_priority_and_policy,
        thread_native_id,
    };

    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, Normal(Idle));
}

/// Other systems have no such policy.
#[cfg(not(target_os = "linux"))]
fn yield_to_requests() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The policy of this thread, the 41st field of its `stat`, the 39th behind its name; `SCHED_IDLE` is 5.
    fn policy() -> Option<String> {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(38).map(str::to_owned)
    }

    #[actix_web::test]
    async fn work_beside_requests_and_the_threads_that_it_starts_run_while_nothing_else_can() {
        let both = run("test", || [policy(), thread::scope(|scope| scope.spawn(policy).join().ok().flatten())]).await;
        let text = |policy: &str| Some(policy.to_owned());
        assert_eq!((both, policy()), (Some([text("5"), text("5")]), text("0")));
    }

    #[actix_web::test]
    async fn work_that_panics_gives_nothing() {
        assert_eq!(run("test", || -> u32 { panic!("on purpose") }).await, None);
    }
}
