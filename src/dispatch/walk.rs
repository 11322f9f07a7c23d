//! The walk through a plan: which candidate is tried next, and what the client is told when none is left.

use std::time::{Duration, Instant};

use pointsman_actors::{
    domain::{Candidate, ExclusionReason, Failure, FailureKind, Next},
    router::Routed,
};

use crate::{
    dispatch::attempt::{Attempt, Measure},
    error::{ApiError, Availability, Exhausted, Overload, PreviousError, UpstreamDetail},
    gateway::Worker,
    permits::Place,
    refusal,
    upstream::UpstreamError,
};

/// What a client waits for when no upstream said how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// A position in a plan, and what went wrong before it.
pub struct Walk {
    worker: Worker,
    /// The plan.
    pub routed: Routed,
    /// When the request as a whole must have ended.
    pub deadline: Instant,
    measure: Measure,
    position: usize,
    attempts: u32,
    failures: Vec<Failed>,
    /// Candidates that were not called, and why.
    passed_over: Vec<(u32, ExclusionReason)>,
    /// The refusal of the last endpoint that had no room, in case no larger one can be asked.
    too_long: Option<ApiError>,
    /// Only endpoints with a larger context window may still be tried.
    larger_than: u32,
}

struct Failed {
    endpoint: u32,
    kind: FailureKind,
    wait: Option<Duration>,
    panic: bool,
    previous: PreviousError,
}

impl Failed {
    /// What the routing would have called it, had it known: only asked of failures that pass with time.
    fn obstacle(&self) -> ExclusionReason {
        match self.kind {
            FailureKind::RateLimited => ExclusionReason::RateLimited,
            _ if self.panic => ExclusionReason::CircuitOpen,
            _ => ExclusionReason::Saturated,
        }
    }
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
    pub fn new(worker: &Worker, routed: Routed, accepted: Instant, measure: Measure) -> Walk {
        let deadline = accepted + routed.policy.clocks.total;
        Walk {
            worker: worker.clone(),
            routed,
            deadline,
            measure,
            position: 0,
            attempts: 0,
            failures: Vec::new(),
            passed_over: Vec::new(),
            too_long: None,
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
                let index = candidate.index;
                self.passed_over.push((index, ExclusionReason::Saturated));
                continue;
            };
            let candidate = self.routed.decision.candidates.get(position)?;
            // Refused only when the gate shut between the decision and now: the next one, then.
            let now = crate::clock::now();
            match self.worker.setup.published.live.claim(candidate.index, now, candidate) {
                Ok(claim) => {
                    self.attempts += 1;
                    let place = (self.attempts, position);
                    return Some(Attempt::new(&self.worker, &self.routed, place, self.measure, claim, permit));
                }
                Err(reason) => {
                    let index = candidate.index;
                    self.passed_over.push((index, reason));
                }
            }
        }
        None
    }

    /// When an attempt at a plain answer must have ended. Its head comes last, so no clock tells a hanging upstream
    /// from a thinking one: as long as another could take over, it gets half of what is left.
    #[must_use]
    pub fn plain_deadline(&self) -> Instant {
        if !self.may_go_on() {
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
                let refused = self.refused(error);
                if !self.may_go_on() {
                    return Verdict::Stop(refused);
                }
                self.too_long = Some(refused);
                Verdict::GoOn
            }
            Next::Stop => Verdict::Stop(self.refused(error)),
        }
    }

    /// What the client is told when nothing is left to try.
    #[must_use]
    pub fn give_up(&self) -> ApiError {
        let wait = self.failures.iter().filter_map(|failed| failed.wait).min().unwrap_or(DEFAULT_WAIT);
        let Some(last) = self.failures.last() else { return self.never_called(wait) };
        if let Some(refused) = self.too_long.as_ref().filter(|_| last.kind == FailureKind::ContextLength) {
            return refused.clone();
        }
        let previous = self.failures.iter().map(|failed| failed.previous.clone()).collect();
        if self.failures.iter().all(|failed| failed.panic && failed.kind == FailureKind::Connect) {
            return self.out_of_capacity(ApiError::overloaded(Overload::CircuitsOpen, wait).after(previous), wait);
        }
        let how = self.exhausted();
        let error = ApiError::exhausted(how, wait, previous);
        match how {
            Exhausted::RateLimited | Exhausted::Overloaded => self.out_of_capacity(error, wait),
            Exhausted::TimedOut | Exhausted::Deadline | Exhausted::Unavailable => error,
        }
    }

    /// What the failures have in common. Candidates that were never called have no say.
    fn exhausted(&self) -> Exhausted {
        let all = |test: fn(FailureKind) -> bool| self.failures.iter().all(|failed| test(failed.kind));
        if all(|kind| kind == FailureKind::RateLimited) {
            Exhausted::RateLimited
        } else if all(|kind| kind == FailureKind::Deadline) {
            Exhausted::Deadline
        } else if all(|kind| matches!(kind, FailureKind::Timeout | FailureKind::Deadline)) {
            Exhausted::TimedOut
        } else if all(|kind| kind == FailureKind::Overloaded) {
            Exhausted::Overloaded
        } else {
            Exhausted::Unavailable
        }
    }

    fn never_called(&self, wait: Duration) -> ApiError {
        if Instant::now() >= self.deadline {
            return ApiError::exhausted(Exhausted::Deadline, wait, Vec::new());
        }
        self.out_of_capacity(ApiError::overloaded(Overload::EndpointsBusy, wait), wait)
    }

    /// The same error, saying who could have served and may again after `wait`.
    fn out_of_capacity(&self, error: ApiError, wait: Duration) -> ApiError {
        let decision = &self.routed.decision;
        let catalog = &self.routed.catalog;
        let model = |candidate: &Candidate| Some(catalog.model_of(catalog.endpoint(candidate.index)?)?.id.to_string());
        let mut requested = match &decision.router {
            Some(alias) => vec![alias.clone()],
            None => decision.candidates.iter().filter_map(model).collect(),
        };
        requested.dedup();
        let called = self.failures.iter().map(|failed| (failed.endpoint, failed.obstacle()));
        let (mut endpoints, mut reasons) = (Vec::new(), Vec::new());
        for (endpoint, reason) in called.chain(self.passed_over.iter().copied()) {
            endpoints.push(endpoint);
            if !reasons.contains(&reason.as_str()) {
                reasons.push(reason.as_str());
            }
        }
        let affected = refusal::providers(catalog, endpoints.into_iter());
        error.with_availability(Availability::capacity(requested, affected, reasons).retryable_after(wait))
    }

    fn refused(&self, error: &UpstreamError) -> ApiError {
        let mut previous: Vec<PreviousError> = self.failures.iter().map(|failed| failed.previous.clone()).collect();
        let provider_name = previous.pop().map(|last| last.provider).unwrap_or_default();
        let Failure { kind, status, .. } = error.failure;
        let code = error.code.as_deref().map(str::to_owned);
        let detail = UpstreamDetail { provider_name, status, code, raw: error.raw.clone() };
        // Not the status itself: a refusal may also come inside a 200.
        let status = match kind {
            FailureKind::TooLarge => 413,
            FailureKind::Unprocessable => 422,
            _ => 400,
        };
        ApiError::refused(status, kind == FailureKind::ContextLength, detail, previous)
    }

    /// A free place at the candidate's provider, waited for no longer than configured.
    async fn permit(&self, candidate: &Candidate) -> Result<Option<Place>, ()> {
        let provider = self.routed.catalog.endpoint(candidate.index).map(|endpoint| endpoint.provider as usize);
        let Some(permits) = provider.and_then(|provider| self.worker.setup.permits.get(provider)) else {
            return Ok(None);
        };
        permits.places.take(permits.wait).await.map(Some).ok_or(())
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
        self.failures.push(Failed { endpoint: candidate.index, kind, wait, panic: candidate.panic, previous });
    }

    /// Whether another attempt is left, and a candidate with enough room for it.
    fn may_go_on(&self) -> bool {
        let mut candidates = self.routed.decision.candidates.iter().skip(self.position);
        self.attempts < self.routed.decision.max_attempts && candidates.any(|candidate| self.has_room(candidate))
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
