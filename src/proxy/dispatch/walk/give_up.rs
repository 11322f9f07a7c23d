//! What the client is told when a plan came to nothing, or an upstream refused the request itself.

use std::time::{Duration, Instant};

use pointsman_actors::domain::{Candidate, ExclusionReason, Failure, FailureKind, Tick};

use super::{FailedAttempt, PlanRun};
use crate::{
    base::{
        clock,
        error::{ApiError, Availability, Exhausted, Overload, PreviousError, UpstreamDetail},
    },
    proxy::refusal,
    upstream::UpstreamError,
};

/// What a client waits for when no upstream said how long and somebody may be called at once: the least a
/// `Retry-After` can say, because the next call is judged anew.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

impl PlanRun {
    /// What the client is told when nothing is left to try.
    #[must_use]
    pub fn give_up(&self) -> ApiError {
        let wait = self.failures.iter().filter_map(|failed| failed.wait).min();
        let wait = wait.or_else(|| self.all_shut()).unwrap_or(DEFAULT_WAIT);
        let Some(last) = self.failures.last() else { return self.never_called(wait) };
        if let Some(refused) = self.too_long.as_ref().filter(|_| last.kind == FailureKind::ContextLength) {
            return refused.clone();
        }
        let previous = self.failures.iter().map(|failed| failed.previous.clone()).collect();
        if self.failures.iter().all(|failed| failed.panic && failed.kind == FailureKind::Connect) {
            let wait = self.soonest_gate().unwrap_or(wait);
            return self.out_of_capacity(ApiError::overloaded(Overload::CircuitsOpen, wait).after(previous), wait);
        }
        let how = self.exhausted();
        let error = ApiError::exhausted(how, wait, previous);
        match how {
            Exhausted::RateLimited | Exhausted::Overloaded => self.out_of_capacity(error, wait),
            Exhausted::TimedOut | Exhausted::Deadline | Exhausted::Shortage | Exhausted::Unavailable => error,
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
        } else if all(|kind| kind == FailureKind::Shortage) {
            Exhausted::Shortage
        } else {
            Exhausted::Unavailable
        }
    }

    fn never_called(&self, wait: Duration) -> ApiError {
        if Instant::now() >= self.deadline {
            return ApiError::exhausted(Exhausted::Deadline, wait, Vec::new());
        }
        // Passed over for want of a token: the soonest gate says when it is worth another try.
        let shut = |(_, reason): &(u32, ExclusionReason)| *reason == ExclusionReason::CircuitOpen;
        if !self.passed_over.is_empty() && self.passed_over.iter().all(shut) {
            let wait = self.soonest_gate().unwrap_or(wait);
            return self.out_of_capacity(ApiError::overloaded(Overload::CircuitsOpen, wait), wait);
        }
        self.out_of_capacity(ApiError::overloaded(Overload::EndpointsBusy, wait), wait)
    }

    /// Where by now, perhaps by these very failures, every gate of the plan is shut: how long until the first opens.
    fn all_shut(&self) -> Option<Duration> {
        let (catalog, now) = (&self.routed.catalog, clock::now());
        let live = self.worker.setup.published.live.view(now);
        let opens = |candidate: &Candidate| {
            let standing = live.standing(catalog, candidate.index);
            standing.open_until.max(standing.cooldown_until)
        };
        let opens: Option<Vec<Tick>> = self.routed.decision.plan().map(opens).collect();
        opens?.into_iter().min().map(|until| (until - now).max(DEFAULT_WAIT))
    }

    /// How long it takes until the first of the shut gates opens.
    fn soonest_gate(&self) -> Option<Duration> {
        let gates = self.routed.decision.plan().map(|candidate| candidate.inputs.until);
        gates.filter(|until| *until > Tick(0)).min().map(|until| until - clock::now())
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

    pub(super) fn refused(&self, error: &UpstreamError) -> ApiError {
        let mut previous: Vec<PreviousError> = self.failures.iter().map(|failed| failed.previous.clone()).collect();
        let provider_name = previous.pop().map(|last| last.provider).unwrap_or_default();
        let Failure { kind, status, .. } = error.failure;
        let code = error.code.as_deref().map(str::to_owned);
        let detail = UpstreamDetail { provider_name, status, code, raw: error.raw.clone() };
        ApiError::refused(kind, detail, previous)
    }
}

impl FailedAttempt {
    /// What the routing would have called it, had it known: only asked of failures that pass with time.
    fn obstacle(&self) -> ExclusionReason {
        match self.kind {
            FailureKind::RateLimited => ExclusionReason::RateLimited,
            _ if self.panic => ExclusionReason::CircuitOpen,
            _ => ExclusionReason::Saturated,
        }
    }
}
