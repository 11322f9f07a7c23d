//! Who is called when a plan is used up while attempts are left.
//!
//! Endpoints that stepped aside or whose gate is shut, the mildest obstacle first: saturated, paced, half-open, open.
//! They take no part in the choice and stand among the excluded; but before a caller is shown a failure, they are asked.
//! Cooling and misconfigured endpoints are not among them.

use std::cmp::Ordering;

use super::{
    candidate::{PoolCandidate, Role},
    candidate_record,
    context::DecisionContext,
    ranking::Plan,
    score::Scoring,
};
use crate::{domain::Candidate, stats::Gate};

/// What keeps an endpoint from taking part, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    Saturated,
    Paced,
    HalfOpen,
    Open,
}

/// As many of the rows that take no part as there are attempts, in the order they are to be called.
pub(crate) fn standby(
    case: &DecisionContext<'_>,
    rows: &[PoolCandidate<'_>],
    scoring: &Scoring,
    plan: &Plan<'_, '_>,
) -> Vec<Candidate> {
    let aside = rows.iter().filter(|row| row.role == Role::Out).map(|row| (row, Obstacle::of(row)));
    let mut aside: Vec<_> = aside.map(|(row, obstacle)| (row, obstacle, rank(row, obstacle, scoring))).collect();
    aside.sort_unstable_by(|a, b| order(*a, *b));
    let places = plan.order.len()..;
    let standby = aside.into_iter().take(plan.attempts as usize).zip(places);
    standby
        .map(|((row, obstacle, _), place)| called(obstacle, candidate_record::candidate(case, row, place, scoring)))
        .collect()
}

impl Obstacle {
    fn of(row: &PoolCandidate<'_>) -> Obstacle {
        match row.moment.gate {
            Gate::Passing if row.moment.due.is_none() => Obstacle::Saturated,
            Gate::Passing => Obstacle::Paced,
            Gate::HalfOpen { .. } => Obstacle::HalfOpen,
            _ => Obstacle::Open,
        }
    }
}

/// What it is ordered by among those with the same obstacle: the moment that ends it, else its score.
fn rank(row: &PoolCandidate<'_>, obstacle: Obstacle, scoring: &Scoring) -> f64 {
    match obstacle {
        Obstacle::Saturated | Obstacle::HalfOpen => scoring.score(&row.forecast, row.moment.cost),
        Obstacle::Paced | Obstacle::Open => row.until().0 as f64,
    }
}

fn order(
    (a, why_a, rank_a): (&PoolCandidate<'_>, Obstacle, f64),
    (b, why_b, rank_b): (&PoolCandidate<'_>, Obstacle, f64),
) -> Ordering {
    let wished = (why_a, a.class).cmp(&(why_b, b.class));
    wished.then(rank_a.total_cmp(&rank_b)).then(a.endpoint().cmp(&b.endpoint()))
}

/// It is called as what it is: the probe of a half-open breaker, past a shut gate, or simply as one more.
fn called(obstacle: Obstacle, candidate: Candidate) -> Candidate {
    Candidate {
        probe: obstacle == Obstacle::HalfOpen,
        panic: matches!(obstacle, Obstacle::Paced | Obstacle::Open),
        ..candidate
    }
}
