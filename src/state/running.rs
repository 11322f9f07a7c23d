//! The calls in progress, each from its admission to its end.
//!
//! Each worker has a list of its own, so that a call takes a lock that no other worker takes: once when it begins and once
//! when it ends. What happens in between is stored in atomics that only the call's own worker writes. A [`RunningRequest`] is a
//! guard: however a call ends, it leaves the list. What has ended is in the ledger.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use pointsman_domain::{Catalog, Generation, GenerationId, Tick};

use crate::access::lease::Moment;

/// Most attempts of one request that run at once: one, and one that races it.
pub const MOST_ATTEMPTS: usize = 2;
/// Most calls in the list of one worker. Further ones are only counted.
const MOST_LISTED: usize = 4096;

/// The requests in progress on all workers.
#[derive(Default)]
pub struct RunningRequests {
    workers: Mutex<Vec<Weak<WorkerRequests>>>,
}

/// The requests in progress on one worker.
#[derive(Default)]
pub struct WorkerRequests(Mutex<List>);

#[derive(Default)]
struct List {
    /// By the order in which they began.
    calls: BTreeMap<u64, Arc<RunningRequestState>>,
    /// Number of the next call.
    next: u64,
    /// Calls for which the list had no room.
    unlisted: usize,
}

/// The oldest requests in progress.
pub struct OldestRequests {
    /// Oldest first.
    pub oldest: Vec<Arc<RunningRequestState>>,
    /// Their number, those included that are not in the list.
    pub total: usize,
}

/// What is known of a request in progress.
pub struct RunningRequestState {
    /// Id of its generation.
    pub id: GenerationId,
    /// Account of the key.
    pub owner: u64,
    /// Number of the key.
    pub key: u64,
    /// When it was admitted, Unix milliseconds.
    pub created_ms: i64,
    /// When it was admitted.
    pub accepted: Tick,
    routed: OnceLock<RoutedRequest>,
    /// Attempts in progress: the number in the upper half, the endpoint's position in the lower. 0: none.
    attempts: [AtomicU64; MOST_ATTEMPTS],
    failed_attempts: AtomicU32,
    /// When the first output came, as a [`Tick`]; 0: none came.
    first_token: AtomicU64,
    output_tokens: AtomicU64,
}

/// What is known once a request is routed.
pub struct RoutedRequest {
    /// The first requested name.
    pub requested_model: Arc<str>,
    /// Whether the answer is streamed.
    pub streamed: bool,
    /// Estimated tokens of the prompt.
    pub prompt_tokens: u32,
    /// The catalog of its decision.
    pub catalog: Arc<Catalog>,
}

/// An attempt in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptInProgress {
    /// Counted from 1.
    pub n: u32,
    /// Position of the endpoint in the catalog.
    pub endpoint: u32,
}

/// A request in progress. It leaves the list when this is dropped.
pub struct RunningRequest {
    call: Arc<RunningRequestState>,
    worker: Arc<WorkerRequests>,
    /// Its number in the list; `None` if it is not listed.
    place: Option<u64>,
}

impl RunningRequests {
    /// An empty list for one more worker.
    pub fn join(&self) -> Arc<WorkerRequests> {
        let list = Arc::new(WorkerRequests::default());
        let mut workers = self.workers.lock();
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&list));
        list
    }

    /// The oldest calls in progress, at most `most`.
    pub fn oldest(&self, most: usize) -> OldestRequests {
        let mut found = OldestRequests { oldest: Vec::new(), total: 0 };
        for worker in self.workers.lock().iter().filter_map(Weak::upgrade) {
            let list = worker.0.lock();
            found.total += list.calls.len() + list.unlisted;
            found.oldest.extend(list.calls.values().take(most).cloned());
        }
        found.oldest.sort_by_key(|call| call.accepted);
        found.oldest.truncate(most);
        found
    }
}

impl WorkerRequests {
    /// Whether no call is in progress.
    pub fn is_empty(&self) -> bool {
        let list = self.0.lock();
        list.calls.is_empty() && list.unlisted == 0
    }

    /// Enters a call that was admitted at this time. Its generation gets its id here.
    #[must_use]
    pub fn begin(self: &Arc<Self>, owner: u64, key: u64, accepted: Moment) -> RunningRequest {
        let Moment { now_ms: created_ms, now: accepted } = accepted;
        let seconds = u64::try_from(created_ms / 1000).unwrap_or_default();
        let call = Arc::new(RunningRequestState {
            id: GenerationId::new(seconds, rand::random()),
            owner,
            key,
            created_ms,
            accepted,
            routed: OnceLock::new(),
            attempts: Default::default(),
            failed_attempts: AtomicU32::new(0),
            first_token: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
        });
        let place = self.0.lock().enter(&call);
        RunningRequest { call, worker: Arc::clone(self), place }
    }
}

impl List {
    fn enter(&mut self, call: &Arc<RunningRequestState>) -> Option<u64> {
        if self.calls.len() >= MOST_LISTED {
            self.unlisted += 1;
            return None;
        }
        let place = self.next;
        self.next += 1;
        self.calls.insert(place, Arc::clone(call));
        Some(place)
    }
}

impl RunningRequest {
    /// Id of its generation.
    pub fn id(&self) -> GenerationId {
        self.call.id
    }

    /// When it began, Unix milliseconds: the time in its id, to the millisecond.
    pub fn created_ms(&self) -> i64 {
        self.call.created_ms
    }

    /// When it was admitted.
    pub fn accepted(&self) -> Tick {
        self.call.accepted
    }

    /// The call is routed, and this is its record.
    pub fn routed(&self, record: &Generation) {
        let _ = self.call.routed.set(RoutedRequest {
            requested_model: Arc::clone(&record.requested_model),
            streamed: record.streamed,
            prompt_tokens: record.decision.prompt_tokens,
            catalog: Arc::clone(&record.catalog),
        });
    }

    /// An attempt has started.
    pub fn attempt_started(&self, attempt: AttemptInProgress) {
        let free = self.call.attempts.iter().find(|slot| slot.load(Ordering::Relaxed) == 0);
        if let Some(free) = free {
            free.store(attempt.packed(), Ordering::Relaxed);
        }
    }

    /// Attempt `n` has ended.
    pub fn attempt_ended(&self, n: u32) {
        for slot in &self.call.attempts {
            if AttemptInProgress::unpacked(slot.load(Ordering::Relaxed)).is_some_and(|attempt| attempt.n == n) {
                slot.store(0, Ordering::Relaxed);
            }
        }
    }

    /// An attempt has failed. `had_output` means that the first output was its own, and is void.
    pub fn attempt_failed(&self, had_output: bool) {
        self.call.failed_attempts.fetch_add(1, Ordering::Relaxed);
        if had_output {
            self.call.first_token.store(0, Ordering::Relaxed);
        }
    }

    /// An attempt has given its first output. Only the first of all counts.
    pub fn first_token(&self, now: Tick) {
        if self.call.first_token.load(Ordering::Relaxed) == 0 {
            self.call.first_token.store(now.0.max(1), Ordering::Relaxed);
        }
    }

    /// The tokens of the answer so far.
    pub fn set_output_tokens(&self, tokens: u64) {
        self.call.output_tokens.store(tokens, Ordering::Relaxed);
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut list = self.worker.0.lock();
        match self.place {
            Some(place) => drop(list.calls.remove(&place)),
            None => list.unlisted = list.unlisted.saturating_sub(1),
        }
    }
}

impl RunningRequestState {
    /// What is known since the call was routed; `None` while its body is read.
    pub fn routed(&self) -> Option<&RoutedRequest> {
        self.routed.get()
    }

    /// The attempts in progress, by their numbers.
    pub fn attempts(&self) -> Vec<AttemptInProgress> {
        let slots = self.attempts.iter().map(|slot| slot.load(Ordering::Relaxed));
        let mut attempts: Vec<_> = slots.filter_map(AttemptInProgress::unpacked).collect();
        attempts.sort_by_key(|attempt| attempt.n);
        attempts
    }

    /// Attempts that have failed so far.
    pub fn failed_attempts(&self) -> u32 {
        self.failed_attempts.load(Ordering::Relaxed)
    }

    /// When the first output came.
    pub fn first_token(&self) -> Option<Tick> {
        Some(self.first_token.load(Ordering::Relaxed)).filter(|tick| *tick > 0).map(Tick)
    }

    /// Estimated tokens of a stream's answer so far.
    pub fn output_tokens(&self) -> u64 {
        self.output_tokens.load(Ordering::Relaxed)
    }
}

impl AttemptInProgress {
    fn packed(self) -> u64 {
        u64::from(self.n) << 32 | u64::from(self.endpoint)
    }

    #[expect(clippy::cast_possible_truncation, reason = "each half has 32 bits")]
    fn unpacked(packed: u64) -> Option<AttemptInProgress> {
        (packed > 0).then_some(AttemptInProgress { n: (packed >> 32) as u32, endpoint: packed as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(worker: &Arc<WorkerRequests>, micros: u64) -> RunningRequest {
        worker.begin(1, 2, Moment { now_ms: 0, now: Tick(micros) })
    }

    #[test]
    fn calls_of_all_workers_are_read_oldest_first_and_a_dropped_one_is_gone() {
        let running = RunningRequests::default();
        let (one, other) = (running.join(), running.join());
        let mut calls = vec![begin(&one, 30), begin(&other, 10), begin(&one, 40), begin(&other, 20)];
        let read = |most| running.oldest(most).oldest.iter().map(|call| call.accepted.0).collect::<Vec<_>>();
        assert_eq!(read(9), [10, 20, 30, 40]);
        assert_eq!((read(2), running.oldest(2).total), (vec![10, 20], 4));
        drop(calls.remove(1));
        assert_eq!(read(9), [20, 30, 40]);
    }

    #[test]
    fn a_worker_with_too_many_calls_counts_the_rest_and_lists_new_ones_when_there_is_room() {
        let running = RunningRequests::default();
        let worker = running.join();
        let mut calls: Vec<_> = (0..MOST_LISTED as u64 + 3).map(|at| begin(&worker, at)).collect();
        let read = running.oldest(usize::MAX);
        assert_eq!((read.oldest.len(), read.total), (MOST_LISTED, MOST_LISTED + 3));
        drop(calls.split_off(1));
        let _late = begin(&worker, 9_999);
        let read = running.oldest(usize::MAX);
        assert_eq!((read.oldest.len(), read.total), (2, 2));
    }

    #[test]
    fn two_attempts_race_and_only_output_of_the_failed_one_is_void() {
        let running = RunningRequests::default();
        let racing = begin(&running.join(), 6);
        racing.attempt_started(AttemptInProgress { n: 1, endpoint: 0 });
        racing.attempt_started(AttemptInProgress { n: 2, endpoint: 7 });
        let seen = running.oldest(1).oldest.pop().unwrap();
        assert_eq!(seen.attempts().iter().map(|one| (one.n, one.endpoint)).collect::<Vec<_>>(), [(1, 0), (2, 7)]);
        racing.first_token(Tick(50));
        racing.first_token(Tick(60));
        assert_eq!(seen.first_token(), Some(Tick(50)));
        racing.attempt_ended(1);
        racing.attempt_failed(true);
        assert_eq!((seen.first_token(), seen.failed_attempts(), seen.attempts().len()), (None, 1, 1));
    }

    #[test]
    fn a_call_whose_handler_panics_is_gone() {
        let running = RunningRequests::default();
        let worker = running.join();
        let handler = std::panic::AssertUnwindSafe(|| {
            let _call = begin(&worker, 1);
            assert_eq!(running.oldest(1).total, 0, "the panic");
        });
        assert!(std::panic::catch_unwind(handler).is_err());
        assert_eq!(running.oldest(1).total, 0);
    }
}
