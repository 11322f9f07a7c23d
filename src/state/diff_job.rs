//! The one comparison of configurations or review of decisions that may run in a gateway: its progress and its result.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::Mutex;

/// The comparison or review that runs, or else the one that ran last.
#[derive(Default)]
pub struct DiffJobs(Mutex<Option<Arc<DiffJob>>>);

/// A comparison or review.
pub struct DiffJob {
    /// Its id.
    pub id: String,
    /// When it began, Unix milliseconds.
    pub started_ms: i64,
    /// Names and values of the fields of the form that began it, so that its page shows what was entered; empty for a call of
    /// the API.
    pub entered: Vec<(String, String)>,
    /// Set when it is to end early.
    pub stop: AtomicBool,
    state: Mutex<DiffState>,
}

/// How far a comparison or review is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffState {
    /// It runs.
    Running,
    /// It is done: the report as JSON.
    Done(Arc<str>),
    /// There is no answer: why not, and whether a failed self test is the reason.
    NoAnswer(String),
    /// It was cancelled.
    Cancelled,
    /// Its thread ended without a result: a fault of this program.
    Failed,
}

/// A comparison or review at work. Dropped without a result it has failed, so that the next one may begin.
pub struct RunningJob(Arc<DiffJob>);

impl DiffJobs {
    /// Begins a comparison or review. `None` while another one runs.
    pub fn begin(
        &self,
        id: String,
        started_ms: i64,
        entered: Vec<(String, String)>,
    ) -> Option<(Arc<DiffJob>, RunningJob)> {
        let mut current = self.0.lock();
        if current.as_ref().is_some_and(|job| job.is_running()) {
            return None;
        }
        let (stop, state) = (AtomicBool::new(false), Mutex::new(DiffState::Running));
        let job = Arc::new(DiffJob { id, started_ms, entered, stop, state });
        *current = Some(Arc::clone(&job));
        Some((Arc::clone(&job), RunningJob(job)))
    }

    /// The comparison or review with this id, if it is the last one.
    pub fn find(&self, id: &str) -> Option<Arc<DiffJob>> {
        self.0.lock().as_ref().filter(|job| job.id == id).cloned()
    }
}

impl DiffJob {
    /// How far it is. One that was cancelled counts as such until its thread has ended.
    pub fn state(&self) -> DiffState {
        let state = self.state.lock().clone();
        if state == DiffState::Running && self.stop.load(Relaxed) { DiffState::Cancelled } else { state }
    }

    /// Notes its result.
    pub fn end(&self, state: DiffState) {
        *self.state.lock() = state;
    }

    /// Whether its thread still runs.
    fn is_running(&self) -> bool {
        *self.state.lock() == DiffState::Running
    }
}

impl RunningJob {
    /// Does the work, and notes its result.
    pub fn run(self, work: impl FnOnce(&AtomicBool) -> DiffState) {
        let state = work(&self.0.stop);
        self.0.end(state);
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        if self.0.is_running() {
            self.0.end(DiffState::Failed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_comparison_begins_only_when_the_first_has_ended() {
        let jobs = DiffJobs::default();
        let (first, _running) = jobs.begin("1".to_owned(), 0, Vec::new()).unwrap();
        assert!(jobs.begin("2".to_owned(), 0, Vec::new()).is_none());
        first.stop.store(true, Relaxed);
        assert_eq!(first.state(), DiffState::Cancelled);
        assert!(jobs.begin("2".to_owned(), 0, Vec::new()).is_none(), "its thread still runs");
        first.end(DiffState::Cancelled);
        assert!(jobs.begin("2".to_owned(), 0, Vec::new()).is_some() && jobs.find("1").is_none());
    }

    #[test]
    fn a_comparison_whose_thread_panics_has_failed_and_the_next_one_may_begin() {
        let jobs = DiffJobs::default();
        let (job, running) = jobs.begin("1".to_owned(), 0, Vec::new()).unwrap();
        let thread = std::thread::spawn(move || running.run(|_| panic!("on purpose")));
        assert!(thread.join().is_err());
        assert_eq!(job.state(), DiffState::Failed);
        assert!(jobs.begin("2".to_owned(), 0, Vec::new()).is_some());
    }
}
