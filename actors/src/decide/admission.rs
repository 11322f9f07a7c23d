//! Which endpoints may serve right now, and what to do when none may.
//!
//! Saturated endpoints step aside for unsaturated ones that rank with them. When nothing is left, gates are
//! relaxed in the order: paced, half-open, open (those that open soonest; last those whose probe is out). Cooling
//! and misconfigured endpoints are never called. Who is called when a plan comes to nothing is said in `standby`.

use super::{
    candidate::{PoolCandidate, Role},
    context::DecisionContext,
    pool::CandidatePool,
    score::Scoring,
};
use crate::{domain::Objective, stats::Gate};

/// The failure probability a half-open endpoint is credited with when it is asked whether anybody wants it back.
const RECOVERED: f64 = 0.02;
/// How much worse than the best it may then be.
const WANTED: f64 = 1.3;
/// How long past its date a `reliable` request leaves a half-open endpoint alone.
const RELIABLE_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Gives every row that may serve its role, beyond those that are simply free. Tells whether any does.
pub(crate) fn admit(case: &DecisionContext<'_>, field: &mut CandidatePool<'_>) -> bool {
    if field.counts.saturated > 0 {
        admit_saturated(&mut field.rows);
    } else if field.counts.held == field.rows.len() {
        relax(case, &mut field.rows);
    }
    !field.rows.is_empty()
}

/// Saturated endpoints serve where nothing unsaturated meets the caller's wishes as well.
fn admit_saturated(rows: &mut [PoolCandidate<'_>]) {
    let mut met: Vec<u64> = Vec::new();
    for row in rows.iter().filter(|row| row.role == Role::Candidate) {
        if !met.contains(&row.wish()) {
            met.push(row.wish());
        }
    }
    let is_saturated = |row: &&mut PoolCandidate<'_>| row.role == Role::Out && row.is_open();
    for row in rows.iter_mut().filter(is_saturated) {
        if !met.contains(&row.wish()) {
            row.role = Role::Candidate;
        }
    }
}

/// Nothing is left: the mildest shut gates are passed.
fn relax(case: &DecisionContext<'_>, rows: &mut [PoolCandidate<'_>]) {
    let enter = |rows: &mut [PoolCandidate<'_>], role, may: fn(&PoolCandidate<'_>) -> bool| {
        let mut any = false;
        for row in rows.iter_mut().filter(|row| may(row)) {
            (row.role, any) = (role, true);
        }
        any
    };
    let relaxed = enter(rows, Role::Panic, |row| row.moment.gate.is_passing())
        || enter(rows, Role::Probe, |row| matches!(row.moment.gate, Gate::HalfOpen { .. }));
    if !relaxed {
        let mut soonest: Vec<_> = rows.iter_mut().collect();
        soonest.sort_unstable_by_key(|row| (row.until(), row.endpoint()));
        let most = case.policy.retry.max_attempts.max(1) as usize;
        soonest.into_iter().take(most).for_each(|row| row.role = Role::Panic);
    }
}

/// Lets one half-open endpoint be probed by this request, if somebody would want it back: it would score within
/// [`WANTED`] of the best, were it sound. Among several the best one is probed.
pub(crate) fn admit_probe(case: &DecisionContext<'_>, rows: &mut [PoolCandidate<'_>], scoring: &Scoring) {
    let served = |row: &&PoolCandidate<'_>| row.role == Role::Candidate;
    // A request that gets one attempt only is not spent on a doubtful endpoint.
    let Some(best_class) = rows.iter().filter(served).map(|row| row.class).min() else { return };
    if !case.query.routing.provider.allow_fallbacks {
        return;
    }
    let of_best = rows.iter().filter(served).filter(|row| row.class == best_class);
    let best = of_best.map(|row| scoring.score(&row.forecast, row.moment.cost)).fold(f64::INFINITY, f64::min);
    let score = |row: &PoolCandidate<'_>| scoring.score_if(RECOVERED, &row.forecast, row.moment.cost);
    let wanted = |row: &&mut PoolCandidate<'_>| {
        let Gate::HalfOpen { since } = row.moment.gate else { return false };
        let early = case.query.objective.value == Objective::Reliable && case.now - since < RELIABLE_WAIT;
        let worth = row.class < best_class || (row.class == best_class && score(row) <= WANTED * best);
        row.role == Role::Out && !early && worth && row.moment.due.is_none()
    };
    let rank = |row: &PoolCandidate<'_>| (row.class, score(row), row.endpoint());
    let better = |a: &&mut PoolCandidate<'_>, b: &&mut PoolCandidate<'_>| {
        let ((class_a, score_a, id_a), (class_b, score_b, id_b)) = (rank(a), rank(b));
        class_a.cmp(&class_b).then(score_a.total_cmp(&score_b)).then(id_a.cmp(&id_b))
    };
    if let Some(row) = rows.iter_mut().filter(wanted).min_by(better) {
        row.role = Role::Probe;
    }
}
