//! The fallback reserve: endpoints that are called when all candidates failed and attempts are left. They are excluded
//! for a temporary reason, the mildest first (saturated, paced, half-open, open). Endpoints in a cooldown or with a
//! configuration fault are never called.

use std::cmp::Ordering;

use super::{
    candidate::{PoolCandidate, Role},
    candidate_record,
    context::DecisionContext,
    plan::Plan,
    score::Scoring,
};
use crate::{domain::Candidate, stats::Gate};

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
    candidates: &[PoolCandidate<'_>],
    scoring: &Scoring,
    plan: &Plan<'_, '_>,
) -> Vec<Candidate> {
    let aside = candidates
        .iter()
        .filter(|candidate| candidate.role == Role::Out)
        .map(|candidate| (candidate, Obstacle::of(candidate)));
    let mut aside: Vec<_> =
        aside.map(|(candidate, obstacle)| (candidate, obstacle, rank(candidate, obstacle, scoring))).collect();
    aside.sort_unstable_by(|a, b| order(*a, *b));
    let places = plan.order.len()..;
    let standby = aside.into_iter().take(plan.attempts as usize).zip(places);
    standby
        .map(|((candidate, obstacle, _), place)| {
            called(obstacle, candidate_record::candidate(context, candidate, place, scoring))
        })
        .collect()
}

impl Obstacle {
    fn of(candidate: &PoolCandidate<'_>) -> Obstacle {
        match candidate.live.gate {
            Gate::Passing if candidate.live.due.is_none() => Obstacle::Saturated,
            Gate::Passing => Obstacle::Paced,
            Gate::HalfOpen { .. } => Obstacle::HalfOpen,
            _ => Obstacle::Open,
        }
    }
}

/// Order among endpoints with the same reason: the time at which it ends, else the score.
fn rank(candidate: &PoolCandidate<'_>, obstacle: Obstacle, scoring: &Scoring) -> f64 {
    match obstacle {
        Obstacle::Saturated | Obstacle::HalfOpen => scoring.score(&candidate.forecast, candidate.live.cost),
        Obstacle::Paced | Obstacle::Open => candidate.until().0 as f64,
    }
}

fn order(
    (a, why_a, rank_a): (&PoolCandidate<'_>, Obstacle, f64),
    (b, why_b, rank_b): (&PoolCandidate<'_>, Obstacle, f64),
) -> Ordering {
    let wished = (why_a, a.class).cmp(&(why_b, b.class));
    wished.then(rank_a.total_cmp(&rank_b)).then(a.endpoint().cmp(&b.endpoint()))
}

/// Marks the candidate as a probe of a half-open breaker or as a call past an open one.
fn called(obstacle: Obstacle, candidate: Candidate) -> Candidate {
    Candidate {
        probe: obstacle == Obstacle::HalfOpen,
        panic: matches!(obstacle, Obstacle::Paced | Obstacle::Open),
        ..candidate
    }
}
