//! The endpoints among which a choice at random would do no harm. Recorded, so that later estimates know what could have
//! been chosen; nothing is chosen from it.

use super::{
    candidate::{GRADE_BITS, PoolCandidate, Role},
    pool::CandidatePool,
};

/// How much likelier than that of the best one the failure of a safe endpoint may be.
const MORE_FAILURE: f64 = 0.02;

/// Positions in the catalog of the endpoints that passed the hard filters, stand behind no other by target or preference, are
/// expected to keep the request's latency and throughput, have a closed gate, are neither saturated nor paced, and are hardly
/// likelier to fail than the best of these.
pub(crate) fn safe_set(pool: &CandidatePool<'_>) -> Vec<u32> {
    let is_open = |candidate: &&PoolCandidate<'_>| {
        candidate.role == Role::Candidate && candidate.is_open() && candidate.live.gate.state().is_none()
    };
    let open = || pool.candidates.iter().filter(is_open);
    let Some(first) = open().map(|candidate| candidate.class).min() else { return Vec::new() };
    if first & ((1 << GRADE_BITS) - 1) != 0 {
        return Vec::new();
    }
    let of_first = || open().filter(|candidate| candidate.class == first);
    let failure = |candidate: &PoolCandidate<'_>| candidate.forecast.noiseless.failure;
    let bound = of_first().map(failure).fold(f64::INFINITY, f64::min) + MORE_FAILURE;
    let mut safe = Vec::with_capacity(of_first().count());
    safe.extend(of_first().filter(|candidate| failure(candidate) <= bound).map(|candidate| candidate.index));
    safe
}
