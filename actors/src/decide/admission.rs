//! Which endpoints are candidates at present, and which gates are relaxed if none is.
//!
//! Saturated endpoints are excluded while unsaturated ones of the same rank are left. If nothing is left, gates are
//! relaxed in the order: paced, half-open, open (by opening time; last those with a probe in flight). Endpoints in a
//! cooldown or with a configuration fault are never called. `reserve` chooses the endpoints to call when all candidates
//! failed.

use super::{
    candidate::{PoolCandidate, Role},
    context::DecisionContext,
    objective_profile::ObjectiveProfile,
    pool::CandidatePool,
    score::Scoring,
};
use crate::stats::Gate;

/// Failure probability assumed of a half-open endpoint that has recovered.
const RECOVERED: f64 = 0.02;
/// A half-open endpoint is probed if its score would then be at most this many times the best.
const WANTED: f64 = 1.3;

/// Assigns roles to rows that are not free candidates. Returns whether any row has a role.
pub(crate) fn admit(context: &DecisionContext<'_>, pool: &mut CandidatePool<'_>) -> bool {
    if pool.counts.saturated > 0 {
        admit_saturated(&mut pool.rows);
    } else if pool.counts.held == pool.rows.len() {
        relax(context, &mut pool.rows);
    }
    !pool.rows.is_empty()
}

/// Saturated endpoints serve if no unsaturated one has the same rank in `provider.order`.
fn admit_saturated(rows: &mut [PoolCandidate<'_>]) {
    let mut met: Vec<u64> = Vec::new();
    for row in rows.iter().filter(|row| row.role == Role::Candidate) {
        if !met.contains(&row.order_rank()) {
            met.push(row.order_rank());
        }
    }
    let is_saturated = |row: &&mut PoolCandidate<'_>| row.role == Role::Out && row.is_open();
    for row in rows.iter_mut().filter(is_saturated) {
        if !met.contains(&row.order_rank()) {
            row.role = Role::Candidate;
        }
    }
}

/// No candidate is left: the mildest refusing gates are relaxed.
fn relax(context: &DecisionContext<'_>, rows: &mut [PoolCandidate<'_>]) {
    let enter = |rows: &mut [PoolCandidate<'_>], role, may: fn(&PoolCandidate<'_>) -> bool| {
        let mut any = false;
        for row in rows.iter_mut().filter(|row| may(row)) {
            (row.role, any) = (role, true);
        }
        any
    };
    let relaxed = enter(rows, Role::Panic, |row| row.live.gate.is_passing())
        || enter(rows, Role::Probe, |row| matches!(row.live.gate, Gate::HalfOpen { .. }));
    if !relaxed {
        let mut soonest: Vec<_> = rows.iter_mut().collect();
        soonest.sort_unstable_by_key(|row| (row.until(), row.endpoint()));
        let most = context.policy.retry.max_attempts.max(1) as usize;
        soonest.into_iter().take(most).for_each(|row| row.role = Role::Panic);
    }
}

/// Makes this request probe one half-open endpoint: the best of those that would score within [`WANTED`] of the best
/// candidate if recovered.
pub(crate) fn admit_probe(context: &DecisionContext<'_>, rows: &mut [PoolCandidate<'_>], scoring: &Scoring) {
    let served = |row: &&PoolCandidate<'_>| row.role == Role::Candidate;
    // A request with a single attempt does not probe.
    let Some(best_class) = rows.iter().filter(served).map(|row| row.class).min() else { return };
    if !context.query.routing.provider.allow_fallbacks {
        return;
    }
    let of_best = rows.iter().filter(served).filter(|row| row.class == best_class);
    let best = of_best.map(|row| scoring.score(&row.forecast, row.live.cost)).fold(f64::INFINITY, f64::min);
    let score = |row: &PoolCandidate<'_>| scoring.score_if(RECOVERED, &row.forecast, row.live.cost);
    let probe_delay = ObjectiveProfile::of(context.query.objective.value).probe_delay;
    let wanted = |row: &&mut PoolCandidate<'_>| {
        let Gate::HalfOpen { since } = row.live.gate else { return false };
        let early = context.now - since < probe_delay;
        let worth = row.class < best_class || (row.class == best_class && score(row) <= WANTED * best);
        row.role == Role::Out && !early && worth && row.live.due.is_none()
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
