//! The walk through a plan: which candidate is tried next, and what the client is told when none is left.

use std::time::{Duration, Instant};

use actix_web_lab::extract::LocalData;
use pointsman_actors::{
    domain::{Candidate, Failure, FailureKind, Next},
    router::Routed,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    dispatch::attempt::{Attempt, Measure},
    error::{ApiError, Exhausted, PreviousError, UpstreamDetail},
    gateway::Worker,
    upstream::UpstreamError,
};

/// What a client waits for when no upstream said how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// A position in a plan, and what went wrong before it.
pub struct Walk {
    worker: LocalData<Worker>,
    /// The plan.
    pub routed: Routed,
    /// When the request as a whole must have ended.
    pub deadline: Instant,
    measure: Measure,
    position: usize,
    attempts: u32,
    failures: Vec<Failed>,
    /// Only endpoints with a larger context window may still be tried.
    larger_than: u32,
}

struct Failed {
    kind: FailureKind,
    wait: Option<Duration>,
    panic: bool,
    previous: PreviousError,
}

/// Whether a failed attempt ends the request.
pub enum Verdict {
    /// Another candidate may be tried.
    GoOn,
    /// The client is told this.
    Stop(ApiError),
}

impl Walk {
    /// A walk from the top of the plan.
    pub fn new(worker: &LocalData<Worker>, routed: Routed, accepted: Instant, measure: Measure) -> Walk {
        let deadline = accepted + routed.policy.clocks.total;
        Walk {
            worker: worker.clone(),
            routed,
            deadline,
            measure,
            position: 0,
            attempts: 0,
            failures: Vec::new(),
            larger_than: 0,
        }
    }

    /// The next candidate, with its place claimed; `None` when the plan, the attempts or the time are used up.
    pub async fn next(&mut self) -> Option<Attempt> {
        while self.attempts < self.routed.decision.max_attempts && Instant::now() < self.deadline {
            let position = self.position;
            let candidate = self.routed.decision.candidates.get(position)?;
            self.position += 1;
            if !self.has_room(candidate) {
                continue;
            }
            let Ok(permit) = self.permit(candidate).await else {
                self.note(position, FailureKind::Saturated, None, None);
                continue;
            };
            let candidate = self.routed.decision.candidates.get(position)?;
            // Refused only when the gate shut between the decision and now: the next one, then.
            let now = crate::clock::now();
            if let Ok(claim) = self.worker.shared.live.claim(candidate.index, now, candidate) {
                self.attempts += 1;
                let place = (self.attempts, position);
                return Some(Attempt::new(&self.worker, &self.routed, place, self.measure, claim, permit));
            }
        }
        None
    }

    /// When an attempt at a plain answer must have ended. Its head comes last, so no clock tells a hanging upstream
    /// from a thinking one: as long as another could take over, it gets half of what is left.
    #[must_use]
    pub fn plain_deadline(&self) -> Instant {
        let candidates = self.routed.decision.candidates.iter().skip(self.position);
        let is_last =
            self.attempts >= self.routed.decision.max_attempts || !candidates.clone().any(|c| self.has_room(c));
        if is_last {
            return self.deadline;
        }
        let now = Instant::now();
        now + self.deadline.saturating_duration_since(now) / 2
    }

    /// Takes note of a failed attempt.
    pub fn failed(&mut self, position: usize, error: &UpstreamError) -> Verdict {
        let kind = error.failure.kind;
        self.note(position, kind, error.failure.status, error.failure.retry_after);
        match kind.next() {
            Next::AnotherEndpoint => Verdict::GoOn,
            Next::LargerContext => {
                let room = self.context_length(position);
                self.larger_than = self.larger_than.max(room);
                let larger = self.routed.decision.candidates.iter().skip(self.position).any(|c| self.has_room(c));
                if larger { Verdict::GoOn } else { Verdict::Stop(self.refused(error)) }
            }
            Next::Stop => Verdict::Stop(self.refused(error)),
        }
    }

    /// What the client is told when nothing is left to try.
    #[must_use]
    pub fn give_up(&self) -> ApiError {
        let all = |test: fn(FailureKind) -> bool| self.failures.iter().all(|failed| test(failed.kind));
        let wait = self.failures.iter().filter_map(|failed| failed.wait).min().unwrap_or(DEFAULT_WAIT);
        let previous = || self.failures.iter().map(|failed| failed.previous.clone()).collect();
        if self.failures.is_empty() {
            return ApiError::overloaded("overloaded", wait);
        }
        if self.failures.iter().all(|failed| failed.panic && failed.kind == FailureKind::Connect) {
            return ApiError::overloaded("all_circuits_open", wait);
        }
        let how = if all(|kind| kind == FailureKind::RateLimited) {
            Exhausted::RateLimited
        } else if all(|kind| kind == FailureKind::Timeout) {
            Exhausted::TimedOut
        } else if all(|kind| matches!(kind, FailureKind::Overloaded | FailureKind::Saturated)) {
            Exhausted::Overloaded
        } else {
            Exhausted::Unavailable
        };
        ApiError::exhausted(how, wait, previous())
    }

    fn refused(&self, error: &UpstreamError) -> ApiError {
        let mut previous: Vec<PreviousError> = self.failures.iter().map(|failed| failed.previous.clone()).collect();
        let provider_name = previous.pop().map(|last| last.provider).unwrap_or_default();
        let Failure { kind, status, .. } = error.failure;
        let detail = UpstreamDetail { provider_name, status, raw: error.raw.clone() };
        // Not the status itself: a refusal may also come inside a 200.
        let status = match kind {
            FailureKind::TooLarge => 413,
            FailureKind::Unprocessable => 422,
            _ => 400,
        };
        ApiError::refused(status, kind == FailureKind::ContextLength, detail, previous)
    }

    /// A free place at the candidate's provider, waited for no longer than configured.
    async fn permit(&self, candidate: &Candidate) -> Result<Option<OwnedSemaphorePermit>, ()> {
        let provider = self.routed.catalog.endpoint(candidate.index).map(|endpoint| endpoint.provider as usize);
        let Some(permits) = provider.and_then(|provider| self.worker.shared.permits.get(provider)) else {
            return Ok(None);
        };
        if let Ok(permit) = permits.places.clone().try_acquire_owned() {
            return Ok(Some(permit));
        }
        let turn = permits.places.clone().acquire_owned();
        match actix_rt::time::timeout(permits.wait, turn).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(()),
        }
    }

    fn note(&mut self, position: usize, kind: FailureKind, status: Option<u16>, wait: Option<Duration>) {
        let Some(candidate) = self.routed.decision.candidates.get(position) else { return };
        let catalog = &self.routed.catalog;
        let endpoint = catalog.endpoint(candidate.index);
        let provider = endpoint.and_then(|endpoint| catalog.provider_of(endpoint));
        let model = endpoint.and_then(|endpoint| catalog.model_of(endpoint));
        let previous = PreviousError {
            provider: provider.map(|provider| provider.name.to_string()).unwrap_or_default(),
            model: model.map(|model| model.id.to_string()).unwrap_or_default(),
            status,
            code: kind.as_str(),
        };
        self.failures.push(Failed { kind, wait, panic: candidate.panic, previous });
    }

    fn has_room(&self, candidate: &Candidate) -> bool {
        let length = self.routed.catalog.endpoint(candidate.index).map(|endpoint| endpoint.limits.context_length);
        length.is_some_and(|length| length > self.larger_than)
    }

    fn context_length(&self, position: usize) -> u32 {
        let candidate = self.routed.decision.candidates.get(position);
        let endpoint = candidate.and_then(|candidate| self.routed.catalog.endpoint(candidate.index));
        endpoint.map_or(0, |endpoint| endpoint.limits.context_length)
    }
}
