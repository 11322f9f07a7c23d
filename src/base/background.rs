//! Threads for long work beside requests: they run while a processor has little else to do.

use std::{fs, io, thread, time::Duration};

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

/// For how long this thread has had a processor. `None` where the system does not tell it.
pub(crate) fn processor_time() -> Option<Duration> {
    let times = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = times.split(' ').next()?.parse().ok()?;
    // 0 is also said where nothing is counted.
    Some(Duration::from_nanos(nanoseconds)).filter(|time| !time.is_zero())
}

/// Gives this thread the policy `SCHED_IDLE`: it hardly ever runs while another thread of the gateway waits for a processor. A quota
/// of the container counts its time all the same. Where the system refuses, the priority stays as it is.
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
    use std::{sync::mpsc, time::Instant};

    use super::*;

    /// The policy of this thread, the 41st field of its `stat`, the 39th behind its name; `SCHED_IDLE` is 5.
    fn policy() -> Option<String> {
        let stat = fs::read_to_string("/proc/thread-self/stat").ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(38).map(str::to_owned)
    }

    #[test]
    fn work_beside_requests_and_the_threads_that_it_starts_have_the_lowest_priority_and_others_keep_theirs() {
        let (before, (sender, both)) = (policy(), mpsc::channel());
        let work = || [policy(), thread::scope(|scope| scope.spawn(policy).join().ok().flatten())];
        spawn("test", move || sender.send(work()).unwrap()).unwrap();
        assert_eq!(both.recv().unwrap(), [(); 2].map(|()| Some("5".to_owned())));
        assert_eq!(policy(), before);
    }

    #[test]
    fn a_thread_that_works_is_told_for_how_long() {
        let begun = Instant::now();
        while processor_time().is_none() && begun.elapsed() < Duration::from_secs(60) {}
        assert!(processor_time().is_some());
    }
}
