//! Endpoints on standby: those that are called when all candidates failed and attempts are left. They are excluded
//! for a temporary reason, the mildest first (saturated, paced, half-open, open). Endpoints in a cooldown or with a
//! configuration fault are never called.

use pointsman_domain::Candidate;

use super::{
    candidate_record,
    context::DecisionContext,
    plan::Plan,
    pooled_endpoint::{PooledEndpoint, Role},
    score::Scoring,
};
use crate::stats::Gate;

/// Temporary reasons of exclusion, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    Saturated,
    Paced,
    HalfOpen,
    Open,
}

/// The excluded endpoints to call, in order, at most as many as there are attempts.
pub(crate) fn standby(
    context: &DecisionContext<'_>,
    candidates: &[PooledEndpoint<'_>],
    scoring: &Scoring,
    plan: &Plan<'_, '_>,
) -> Vec<Candidate> {
    let excluded = candidates.iter().filter(|candidate| candidate.role == Role::Excluded);
    let mut excluded: Vec<_> = excluded.map(|candidate| (Obstacle::of(candidate), candidate)).collect();
    // Ranks are never negative, so their bits sort as they do.
    excluded.sort_by_cached_key(|(obstacle, candidate)| {
        (*obstacle, candidate.precedence, rank(candidate, *obstacle, scoring).to_bits(), candidate.endpoint())
    });
    let called = excluded.into_iter().take(plan.attempts as usize).zip(plan.order.len()..);
    called
        .map(|((obstacle, candidate), place)| Candidate {
            probe: obstacle == Obstacle::HalfOpen,
            panic: matches!(obstacle, Obstacle::Paced | Obstacle::Open),
            ..candidate_record::candidate(context, candidate, place, scoring)
        })
        .collect()
}

impl Obstacle {
    fn of(candidate: &PooledEndpoint<'_>) -> Obstacle {
        match candidate.live.gate {
            Gate::Passing if candidate.live.due.is_none() => Obstacle::Saturated,
            Gate::Passing => Obstacle::Paced,
            Gate::HalfOpen { .. } => Obstacle::HalfOpen,
            _ => Obstacle::Open,
        }
    }
}

/// Order among endpoints with the same reason: the time at which it ends, else the score.
fn rank(candidate: &PooledEndpoint<'_>, obstacle: Obstacle, scoring: &Scoring) -> f64 {
    match obstacle {
        Obstacle::Saturated | Obstacle::HalfOpen => scoring.score(&candidate.forecast, candidate.live.cost),
        Obstacle::Paced | Obstacle::Open => candidate.reopens().rank(),
    }
}
