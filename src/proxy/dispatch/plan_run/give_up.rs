//! The client's error when no attempt succeeded, or when a provider rejected the request itself.

use std::time::{Duration, Instant};

use pointsman_base::clock;
use pointsman_domain::{Blame, Candidate, ExclusionReason, Failure, FailureKind, Reopens, Tick};
use pointsman_transport::UpstreamError;

use super::{DEFAULT_WAIT, FailedAttempt, PlanRun};
use crate::{
    base::error::{ApiError, Availability, Exhausted, Overload, PreviousError, UpstreamDetail},
    proxy::no_candidate,
};

impl PlanRun {
    /// The client's error when no candidate is left.
    pub fn give_up(&self) -> ApiError {
        // The wait that a provider names beside a refusal that no time cures would keep the client from the other endpoints.
        let passing = self.failures.iter().filter(|failed| !failed.is_final());
        let wait = passing.filter_map(|failed| failed.wait).min();
        let wait = wait.or_else(|| self.until_first_opens()).unwrap_or(DEFAULT_WAIT);
        let Some(last) = self.failures.last() else { return self.never_called(wait) };
        // Nothing that may pass with time has failed, so the request is refused wherever it can be sent.
        let is_refused = last.kind == FailureKind::ContextLength || self.failures.iter().all(FailedAttempt::is_final);
        if let Some((at, error)) = self.refusal.as_ref().filter(|_| is_refused) {
            return self.refused(*at, error);
        }
        let previous = self.failures.iter().map(|failed| failed.previous.clone()).collect();
        if self.failures.iter().all(|failed| failed.panic && failed.kind == FailureKind::Connect) {
            let wait = self.until_first_gate().unwrap_or(wait);
            return self.out_of_capacity(ApiError::overloaded(Overload::CircuitsOpen, wait).after(previous), wait);
        }
        let reason = self.exhausted();
        let error = ApiError::exhausted(reason, wait, previous);
        match reason {
            Exhausted::RateLimited | Exhausted::Overloaded => self.out_of_capacity(error, wait),
            Exhausted::TimedOut
            | Exhausted::Deadline
            | Exhausted::Shortage
            | Exhausted::Refused
            | Exhausted::Unavailable => error,
        }
    }

    /// What all failures have in common. Candidates that were never called do not count.
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
        } else if self.failures.iter().all(FailedAttempt::is_ours) && !self.may_open() {
            Exhausted::Refused
        } else {
            Exhausted::Unavailable
        }
    }

    /// Whether an endpoint that was not called may serve the request later.
    fn may_open(&self) -> bool {
        let excluded = self.routed.decision.excluded.iter().map(|excluded| excluded.reason);
        let mut reasons = excluded.chain(self.passed_over.iter().map(|(_, reason)| *reason));
        reasons.any(|reason| reason.is_passing() && reason != ExclusionReason::ConfigFault)
    }

    fn never_called(&self, wait: Duration) -> ApiError {
        if Instant::now() >= self.deadline {
            return ApiError::exhausted(Exhausted::Deadline, wait, Vec::new());
        }
        let all = |may: fn(ExclusionReason) -> bool| {
            !self.passed_over.is_empty() && self.passed_over.iter().all(|(_, reason)| may(*reason))
        };
        if all(|reason| reason == ExclusionReason::ConfigFault) {
            return self.out_of_capacity(ApiError::overloaded(Overload::RefusedByProviders, wait), wait);
        }
        // No token was left for endpoints behind breakers that are not closed. The first of them to close determines the wait.
        if all(|reason| matches!(reason, ExclusionReason::CircuitOpen | ExclusionReason::ProbeInFlight)) {
            let wait = self.until_first_gate().unwrap_or(wait);
            let is_open = all(|reason| reason == ExclusionReason::CircuitOpen);
            let why = if is_open { Overload::CircuitsOpen } else { Overload::ProbesInFlight };
            return self.out_of_capacity(ApiError::overloaded(why, wait), wait);
        }
        if all(|reason| matches!(reason, ExclusionReason::RateLimited | ExclusionReason::Paced)) {
            return self.out_of_capacity(ApiError::exhausted(Exhausted::RateLimited, wait, Vec::new()), wait);
        }
        self.out_of_capacity(ApiError::overloaded(Overload::EndpointsBusy, wait), wait)
    }

    /// Time until the first endpoint of the plan may be called, without those that refused for good. `None` if one may be
    /// called now; these failures may have opened breakers.
    fn until_first_opens(&self) -> Option<Duration> {
        let (catalog, now) = (&self.routed.catalog, clock::now());
        let live = self.worker.setup.published.live.view(now);
        let opens = |candidate: &Candidate| {
            let state = live.status(catalog, candidate.index);
            state.open_until.max(state.cooldown_until)
        };
        let has_refused = |candidate: &Candidate| {
            self.failures.iter().any(|failed| failed.endpoint == candidate.index && failed.is_final())
        };
        let plan = self.routed.decision.plan().filter(|candidate| !has_refused(candidate));
        let opens: Option<Vec<Tick>> = plan.map(opens).collect();
        opens?.into_iter().min().map(|until| (until - now).max(DEFAULT_WAIT))
    }

    /// Time until the first breaker or cooldown of the plan ends, as known at the decision. A probe may end any moment.
    fn until_first_gate(&self) -> Option<Duration> {
        let now = clock::now();
        let waits = self.routed.decision.plan().filter_map(|candidate| match candidate.inputs.reopens {
            Reopens::Now => None,
            Reopens::At(time) => Some(time - now),
            Reopens::AfterProbe => Some(DEFAULT_WAIT),
        });
        waits.min()
    }

    /// Adds to an error which models and providers lack capacity, and that a retry after `wait` may help.
    fn out_of_capacity(&self, error: ApiError, wait: Duration) -> ApiError {
        let decision = &self.routed.decision;
        let catalog = &self.routed.catalog;
        let model = |candidate: &Candidate| Some(catalog.model_of(catalog.endpoint(candidate.index)?)?.id.to_string());
        let mut requested = match &decision.router {
            Some(alias) => vec![alias.clone()],
            None => decision.candidates.iter().filter_map(model).collect(),
        };
        requested.dedup();
        let called = self.failures.iter().map(|failed| (failed.endpoint, failed.exclusion_reason()));
        let (mut endpoints, mut reasons) = (Vec::new(), Vec::new());
        for (endpoint, reason) in called.chain(self.passed_over.iter().copied()) {
            endpoints.push(endpoint);
            if !reasons.contains(&reason.as_str()) {
                reasons.push(reason.as_str());
            }
        }
        let affected = no_candidate::providers(catalog, endpoints.into_iter());
        error.with_availability(Availability::capacity(requested, affected, reasons).retryable_after(wait))
    }

    /// The client's error for the refusal at place `at` among the failures.
    pub(super) fn refused(&self, at: usize, error: &UpstreamError) -> ApiError {
        let mut previous: Vec<PreviousError> = self.failures.iter().map(|failed| failed.previous.clone()).collect();
        if error.failure.kind == FailureKind::GatewayLimit {
            return ApiError::gateway_limit(&error.detail, previous);
        }
        let refused = (at < previous.len()).then(|| previous.remove(at));
        let provider_name = refused.map(|refused| refused.provider).unwrap_or_default();
        let Failure { kind, status, .. } = *error.failure;
        let code = error.code.as_deref().map(str::to_owned);
        let (raw, is_about_content) = (error.raw.clone(), error.is_about_content);
        let wants_fewer_tokens = error.wants_fewer_tokens;
        let detail = UpstreamDetail { provider_name, status, code, raw, is_about_content, wants_fewer_tokens };
        ApiError::refused(kind, detail, previous)
    }
}

impl FailedAttempt {
    /// Whether the gateway's account or the name of the model is the reason, which no client and no time can change.
    const fn is_ours(&self) -> bool {
        matches!(self.kind, FailureKind::Auth | FailureKind::Forbidden | FailureKind::NotFound)
    }

    /// Whether the same request fails again at this endpoint, whenever it is sent.
    fn is_final(&self) -> bool {
        self.kind.blame() == Blame::Client || self.kind == FailureKind::GatewayLimit || self.is_ours()
    }

    /// The exclusion reason that matches the failure. Only for failures that pass with time.
    fn exclusion_reason(&self) -> ExclusionReason {
        match self.kind {
            FailureKind::RateLimited => ExclusionReason::RateLimited,
            _ if self.panic => ExclusionReason::CircuitOpen,
            _ => ExclusionReason::Saturated,
        }
    }
}
