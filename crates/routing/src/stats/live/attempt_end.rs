//! What the end of an attempt does to the state of its endpoint and its provider: which failure moves a breaker, a cooldown or
//! the pacing, and what a refusal proves. How long a breaker stays open is in [`super::breaker`].

use std::time::Duration;

use pointsman_domain::{
    EndpointId, EventKind, Evidence, Failure, FailureCause, FailureKind, Finding, RoutingPolicy, Tick,
};

use super::{
    breaker::PassedAs,
    cell::{ENOUGH_CALLERS, EndpointCellState, ProviderCellState, Witnesses},
    claim::Claim,
};
use crate::stats::model::failure_effect::FailureEffect;

/// Longest `Retry-After` with which a server error does not rest an endpoint for all requests, if the call before it
/// succeeded. A request waits as long for it by default.
const LONE_WAIT: Duration = Duration::from_secs(2);

impl EndpointCellState {
    /// Returns whether a success closed the breaker.
    pub(super) fn finish(
        &mut self,
        claim: &Claim,
        now: Tick,
        end: &EventKind,
        policy: &RoutingPolicy,
        jitter: impl Fn(u32) -> f64,
    ) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        let overdue = is_given_up(end) && self.give_up(claim.serial, now, &policy.breaker);
        self.answered(claim.serial);
        match end {
            EventKind::Completed { .. } => {
                self.sign_of_life(claim.dispatched, now);
                (self.refusals, self.mistakes) = (Witnesses::default(), Witnesses::default());
                (self.faults, self.doubted) = Default::default();
                if let Some(caller) = claim.caller {
                    self.served.hear(caller, 0);
                }
                self.outcomes.succeed(now, policy.stats.half_life);
                // A request dispatched before the failure does not end a run of failures, unless it was sent past the
                // breaker.
                let is_news = self.failed.is_none_or(|failed| failed <= claim.dispatched);
                if is_news || claim.passed_as != PassedAs::Ordinary {
                    self.outcomes.settle(now, policy.stats.half_life);
                    if self.breaker.succeed(claim.passed_as) {
                        self.outcomes.recover();
                        return true;
                    }
                }
            }
            EventKind::Failed { failure, .. } => self.fail(claim, now, failure, policy, jitter),
            // A probe cancelled while it was late counts as a time-out: a free slot would cost the next request as
            // much.
            EventKind::Cancelled { .. } if overdue && claim.passed_as == PassedAs::Probe => {
                self.breaker.count(FailureCause { kind: FailureKind::Timeout, status: None });
                self.breaker.trip(now, claim.passed_as, true, &policy.breaker, jitter);
            }
            _ => self.breaker.release(claim.passed_as),
        }
        false
    }

    fn fail(
        &mut self,
        claim: &Claim,
        now: Tick,
        failure: &Failure,
        policy: &RoutingPolicy,
        jitter: impl Fn(u32) -> f64,
    ) {
        let cause = FailureCause { kind: failure.kind, status: failure.status };
        let effect = FailureEffect::of(failure);
        if effect.is_failure() {
            self.outcomes.fail(now, policy.stats.half_life);
            if let Some(caller) = claim.caller {
                self.faults.hear(caller, 0);
                self.doubted.hear(caller, 0);
            }
        }
        match effect {
            FailureEffect::UnclearFault if self.doubted.count() < ENOUGH_CALLERS => {
                self.breaker.release(claim.passed_as);
            }
            FailureEffect::Late if self.is_overloaded(claim) && claim.passed_as == PassedAs::Ordinary => {}
            FailureEffect::Refused | FailureEffect::Fault | FailureEffect::UnclearFault | FailureEffect::Late => {
                if effect == FailureEffect::UnclearFault {
                    // The next one needs another witness, so that one stray fault does not vouch for all of a caller's.
                    self.doubted = Witnesses::default();
                    claim.caller.into_iter().for_each(|caller| _ = self.doubted.hear(caller, 0));
                }
                self.breaker.count(cause);
                self.failed = self.failed.max(Some(claim.dispatched));
                let is_of_one = effect != FailureEffect::Refused && self.fails_one_of_several(claim.caller);
                let trips = effect == FailureEffect::Refused
                    || (effect == FailureEffect::Late && self.is_mute_since(claim.dispatched))
                    || self.advised.is_some_and(|until| now < until)
                    || self.breaker.failures() >= self.enough(effect, policy.breaker.consecutive);
                self.breaker.trip(now, claim.passed_as, trips && !is_of_one, &policy.breaker, jitter);
                // One that asks for a moment after answers was overloaded by chance: only the failed request heeds it.
                let is_lone = self.breaker.has_failed_once() && failure.retry_after <= Some(LONE_WAIT);
                if failure.retry_after.is_some() && !is_lone && !is_of_one {
                    self.breaker.cool(now, failure.retry_after, cause);
                }
            }
            FailureEffect::Busy => {
                self.breaker.cool(now, failure.retry_after, cause);
                if policy.pacing {
                    self.pacing.refuse(now, claim.dispatched, failure.retry_after);
                }
            }
            FailureEffect::UnknownModel | FailureEffect::UnclearModel => {
                match finding(failure, claim, self.pardoned, &mut self.refusals) {
                    Some(finding) => self.breaker.fault(now, claim.passed_as, cause, finding),
                    None => self.breaker.release(claim.passed_as),
                }
            }
            FailureEffect::Account | FailureEffect::UnclearAccount => self.breaker.release(claim.passed_as),
            FailureEffect::Silent => {
                if let (Some(caller), Evidence::Unknown { said }) = (claim.caller, failure.evidence) {
                    self.mistakes.hear(caller, said);
                }
                self.breaker.release(claim.passed_as);
            }
        }
    }

    /// Consecutive failures that open the breaker: one fewer right after many successes, but at least two. Time-outs
    /// need the full number, because slow endpoints produce runs of them.
    fn enough(&self, effect: FailureEffect, consecutive: u32) -> u32 {
        let usual = self.outcomes.coincidence(consecutive);
        let sudden = effect == FailureEffect::Fault && self.breaker.failed_suddenly() && consecutive > 2;
        if sudden { usual.min(consecutive - 1) } else { usual }
    }

    /// Whether only this caller's requests have failed since the last success, though others are served here: then its requests
    /// may be the reason.
    fn fails_one_of_several(&self, caller: Option<u64>) -> bool {
        caller.is_some_and(|caller| self.faults.count() < ENOUGH_CALLERS && self.served.has_other(caller))
    }

    /// Whether only requests of another caller have failed since the last success: then they may be the reason, and this one's may pass.
    pub(super) fn fails_another(&self, caller: Option<u64>) -> bool {
        caller.is_some_and(|caller| self.faults.count() < ENOUGH_CALLERS && self.faults.has_other(caller))
    }

    /// Whether no request dispatched at that time or later has given a sign of life.
    fn is_mute_since(&self, dispatched: Tick) -> bool {
        self.heard < Some(dispatched)
    }

    /// A time-out above the knee of an endpoint that gave a sign of life meanwhile is caused by our own load.
    fn is_overloaded(&self, claim: &Claim) -> bool {
        f64::from(claim.in_flight) > claim.knee && self.alive > Some(claim.dispatched)
    }
}

/// Meaning of the same refusal in unknown words of several callers' requests.
const SAID_TO_SEVERAL: Finding = Finding {
    words: "",
    meaning: "calls of several callers are refused with the same words, which are not known here",
};

/// What a refusal proves about the account or the model: what the provider says, or the same unknown words to several
/// callers. `None` while nothing is proven, and for requests that were sent before what was refused has changed.
fn finding(failure: &Failure, claim: &Claim, pardoned: Option<Tick>, witnesses: &mut Witnesses) -> Option<Finding> {
    if pardoned.is_some_and(|pardoned| claim.dispatched < pardoned) {
        return None;
    }
    match failure.evidence {
        Evidence::Known(finding) => Some(finding),
        Evidence::Unknown { said } => {
            (witnesses.hear(claim.caller?, said) >= ENOUGH_CALLERS).then_some(SAID_TO_SEVERAL)
        }
        Evidence::None | Evidence::Request => None,
    }
}

impl ProviderCellState {
    /// `opened`: the endpoint that opened with this failure, and the number of endpoints of the provider.
    pub(super) fn finish(
        &mut self,
        claim: &Claim,
        opened: Option<(EndpointId, usize)>,
        now: Tick,
        end: &EventKind,
        policy: &RoutingPolicy,
        jitter: impl Fn(u32) -> f64,
    ) {
        let passed_as = claim.passed_provider_as;
        let EventKind::Failed { failure, .. } = end else {
            if matches!(end, EventKind::Completed { .. }) {
                self.answered();
                _ = self.breaker.succeed(passed_as);
            }
            return self.breaker.release(passed_as);
        };
        let cause = FailureCause { kind: failure.kind, status: failure.status };
        match FailureEffect::of(failure) {
            FailureEffect::Refused => {
                let trips = opened.is_some_and(|(id, endpoints)| self.refused(id, now, endpoints, cause));
                self.breaker.trip(now, passed_as, trips, &policy.breaker, jitter);
            }
            FailureEffect::Late => self.breaker.trip(now, passed_as, false, &policy.breaker, jitter),
            FailureEffect::Account | FailureEffect::UnclearAccount => {
                match finding(failure, claim, self.pardoned, &mut self.refusals) {
                    Some(finding) => self.breaker.fault(now, passed_as, cause, finding),
                    None => self.breaker.release(passed_as),
                }
            }
            // The provider answered, so it is reachable. Whether it accepts the account is for the next probe to find
            // out.
            FailureEffect::Fault
            | FailureEffect::UnclearFault
            | FailureEffect::Busy
            | FailureEffect::UnknownModel
            | FailureEffect::UnclearModel
            | FailureEffect::Silent => {
                self.breaker.release(passed_as);
            }
        }
    }
}

/// Whether the request ended without the awaited answer.
fn is_given_up(end: &EventKind) -> bool {
    match end {
        EventKind::Cancelled { had_content, .. } => !had_content,
        EventKind::Failed { failure, had_content } => !had_content && FailureEffect::of(failure) == FailureEffect::Late,
        _ => false,
    }
}

pub(super) fn cause(end: &EventKind) -> Option<FailureCause> {
    let EventKind::Failed { failure, .. } = end else { return None };
    Some(FailureCause { kind: failure.kind, status: failure.status })
}
