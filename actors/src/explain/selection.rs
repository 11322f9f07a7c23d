//! What a recorded decision would have been under another seed.
//!
//! Works from the record alone, as a replay does. Not for the hot path.

use super::rescoring::{Rescoring, rivals};
use crate::{
    domain::{Candidate, Decision, RoutingPolicy},
    stats::splitmix64,
};

/// Seeds that selection probabilities are measured with: enough to tell 1 % from nothing.
const SEEDS: u64 = 256;

/// Fills in how often each candidate would be chosen over a fixed set of seeds, everything else equal. Those that a
/// record left out take no part.
pub fn fill_selection_probabilities(decision: &mut Decision, policy: &RoutingPolicy) {
    let mut chosen = vec![0_u64; decision.candidates.len() + decision.rivals.len()];
    let competing = rivals(decision).count();
    if competing < 2 || policy.exploration <= 0.0 {
        // A probe, a panic plan, a single candidate, or no noise: chance has no say.
        chosen.iter_mut().take(1).for_each(|first| *first = SEEDS);
    } else {
        let contest = Rescoring::of(decision, policy);
        for draw in 0..SEEDS {
            let winner = winner(contest.drawn(splitmix64(draw)), rivals(decision));
            chosen.iter_mut().skip(winner).take(1).for_each(|count| *count += 1);
        }
    }
    let candidates = decision.candidates.iter_mut().chain(&mut decision.rivals);
    for (candidate, count) in candidates.zip(chosen) {
        candidate.selection_probability = Some(count as f64 / SEEDS as f64);
    }
}

/// Position of the candidate that the noise of this contest would choose.
fn winner<'a>(contest: Rescoring, candidates: impl Iterator<Item = &'a Candidate>) -> usize {
    let scores = candidates.map(|candidate| contest.score(candidate)).enumerate();
    scores.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(position, _)| position)
}
