//! Which endpoints are candidates at present, and which gates are relaxed if none is.
//!
//! Saturated endpoints are excluded while unsaturated ones of the same rank are left. If nothing is left, gates are
//! relaxed in the order: paced, half-open, open (by opening time; last those with a probe in flight). Endpoints in a
//! cooldown or with a configuration fault are never called. `standby` chooses the endpoints to call when all candidates
//! failed.

use super::{
    context::DecisionContext,
    objective_profile::ObjectiveProfile,
    pooled_endpoint::{PooledEndpoint, Role},
    precedence::Precedence,
    score::Scoring,
};
use crate::stats::Gate;

/// Failure probability assumed of a half-open endpoint that has recovered.
const RECOVERED: f64 = 0.02;
/// A half-open endpoint is probed if its score would then be at most this many times the best.
const WANTED: f64 = 1.3;

/// Assigns roles to saturated endpoints and past gates where needed. Returns whether any endpoint has a role.
pub(crate) fn admit(context: &DecisionContext<'_>, candidates: &mut [PooledEndpoint<'_>]) -> bool {
    admit_saturated(candidates);
    if candidates.iter().all(|candidate| candidate.role == Role::Excluded) {
        relax(context, candidates);
    }
    !candidates.is_empty()
}

/// Saturated endpoints serve if no unsaturated one has the same rank in `provider.order`.
fn admit_saturated(candidates: &mut [PooledEndpoint<'_>]) {
    let is_saturated =
        |candidate: &PooledEndpoint<'_>| candidate.role == Role::Excluded && candidate.accepts_requests();
    if !candidates.iter().any(is_saturated) {
        return;
    }
    let unsaturated = candidates.iter().filter(|candidate| candidate.role == Role::Candidate);
    let mut served: Vec<Precedence> = unsaturated.map(PooledEndpoint::order_rank).collect();
    served.dedup();
    for candidate in candidates.iter_mut().filter(|candidate| is_saturated(candidate)) {
        if !served.contains(&candidate.order_rank()) {
            candidate.role = Role::Candidate;
        }
    }
}

/// No candidate is left: the mildest refusing gates are relaxed.
fn relax(context: &DecisionContext<'_>, candidates: &mut [PooledEndpoint<'_>]) {
    let enter = |candidates: &mut [PooledEndpoint<'_>], role, may: fn(&PooledEndpoint<'_>) -> bool| {
        let mut any = false;
        for candidate in candidates.iter_mut().filter(|candidate| may(candidate)) {
            (candidate.role, any) = (role, true);
        }
        any
    };
    let relaxed = enter(candidates, Role::Panic, |candidate| candidate.live.gate.is_passing())
        || enter(candidates, Role::Probe, |candidate| matches!(candidate.live.gate, Gate::HalfOpen { .. }));
    if !relaxed {
        let mut soonest: Vec<_> = candidates.iter_mut().collect();
        soonest.sort_unstable_by_key(|candidate| (candidate.reopens(), candidate.endpoint()));
        let most = context.policy.retry.max_attempts.max(1) as usize;
        soonest.into_iter().take(most).for_each(|candidate| candidate.role = Role::Panic);
    }
}

/// Makes this request probe one half-open endpoint: the best of those that would score within [`WANTED`] of the best
/// candidate if recovered.
pub(crate) fn admit_probe(context: &DecisionContext<'_>, candidates: &mut [PooledEndpoint<'_>], scoring: &Scoring) {
    // A request with a single attempt does not probe.
    let may_probe = context.query.routing.provider.allow_fallbacks;
    let is_half_open = |candidate: &PooledEndpoint<'_>| matches!(candidate.live.gate, Gate::HalfOpen { .. });
    if !may_probe || !candidates.iter().any(is_half_open) {
        return;
    }
    let served = |candidate: &&PooledEndpoint<'_>| candidate.role == Role::Candidate;
    let Some(first) = candidates.iter().filter(served).map(|candidate| candidate.precedence).min() else { return };
    let of_best = candidates.iter().filter(served).filter(|candidate| candidate.precedence == first);
    let best =
        of_best.map(|candidate| scoring.score(&candidate.forecast, candidate.live.cost)).fold(f64::INFINITY, f64::min);
    let score = |candidate: &PooledEndpoint<'_>| scoring.score_if(RECOVERED, &candidate.forecast, candidate.live.cost);
    let probe_delay = ObjectiveProfile::of(context.query.objective.value).probe_delay;
    let wanted = |candidate: &&mut PooledEndpoint<'_>| {
        let Gate::HalfOpen { since } = candidate.live.gate else { return false };
        let early = context.now - since < probe_delay;
        let worth =
            candidate.precedence < first || (candidate.precedence == first && score(candidate) <= WANTED * best);
        candidate.role == Role::Excluded && !early && worth && candidate.live.due.is_none()
    };
    // Scores are never negative, so their bits sort as they do.
    let rank =
        |candidate: &&mut PooledEndpoint<'_>| (candidate.precedence, score(candidate).to_bits(), candidate.endpoint());
    if let Some(candidate) = candidates.iter_mut().filter(wanted).min_by_key(rank) {
        candidate.role = Role::Probe;
    }
}
