//! The endpoints among which a choice at random would do no harm. Recorded, so that later estimates know what could have
//! been chosen; [`super::exploration`] chooses from it where that is on.

use std::cmp::Ordering;

use super::{
    pool::CandidatePool,
    pooled_endpoint::{PooledEndpoint, Role},
    precedence::Precedence,
};

/// How much likelier than that of the best one the failure of a safe endpoint may be.
const MORE_FAILURE: f64 = 0.02;

/// Positions in the catalog of the endpoints that passed the hard filters, stand behind no other by target or preference, are
/// expected to keep the request's latency and throughput, have a closed gate, are neither saturated nor paced, and are hardly
/// likelier to fail than the best of these.
pub(crate) fn safe_set(pool: &CandidatePool<'_>) -> Vec<u32> {
    let is_accepting = |candidate: &&PooledEndpoint<'_>| {
        candidate.role == Role::Candidate && candidate.accepts_requests() && candidate.live.gate.state().is_none()
    };
    let failure = |candidate: &PooledEndpoint<'_>| candidate.forecast.noiseless.failure;
    let accepting = pool.candidates.iter().filter(is_accepting);
    let best = accepting.fold((Precedence::NOBODY, f64::INFINITY), |(first, least), candidate| {
        match candidate.precedence.cmp(&first) {
            Ordering::Less => (candidate.precedence, failure(candidate)),
            Ordering::Equal => (first, least.min(failure(candidate))),
            Ordering::Greater => (first, least),
        }
    });
    let (first, least) = best;
    // Where none accepts requests, the first is nobody, whose grade is not 0 either.
    if first.grade() != 0 {
        return Vec::new();
    }
    let is_safe = |candidate: &&PooledEndpoint<'_>| {
        candidate.precedence == first && failure(candidate) <= least + MORE_FAILURE && is_accepting(candidate)
    };
    let mut safe = Vec::with_capacity(pool.candidates.len());
    safe.extend(pool.candidates.iter().filter(is_safe).map(|candidate| candidate.index));
    safe
}
