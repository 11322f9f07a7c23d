//! How often each candidate of a recorded decision would be chosen over many seeds.
//!
//! Uses the record of the decision only, as a replay does. Not for the hot path.

use pointsman_domain::{Candidate, Decision, RoutingPolicy};

use super::rescoring::{Rescoring, rivals};
use crate::stats::splitmix64;

/// Number of seeds. 256 resolve a probability of 0.4 %.
const SEEDS: u64 = 256;

/// Sets `selection_probability` of every recorded candidate: its share of choices over a fixed set of seeds, everything
/// else equal. Candidates that the record omits do not compete.
pub fn fill_selection_probabilities(decision: &mut Decision, policy: &RoutingPolicy) {
    let mut choices = vec![0_u64; decision.candidates.len() + decision.rivals.len()];
    let competing = rivals(decision).count();
    if competing < 2 || policy.exploration <= 0.0 {
        // The seed cannot change a probe, a panic plan, a single candidate or a decision without exploration noise.
        choices.iter_mut().take(1).for_each(|first| *first = SEEDS);
    } else {
        let rescoring = Rescoring::of(decision, policy);
        for draw in 0..SEEDS {
            let best = best_index(rescoring.with_seed(splitmix64(draw)), rivals(decision));
            choices.iter_mut().skip(best).take(1).for_each(|count| *count += 1);
        }
    }
    let candidates = decision.candidates.iter_mut().chain(&mut decision.rivals);
    for (candidate, count) in candidates.zip(choices) {
        candidate.selection_probability = Some(count as f64 / SEEDS as f64);
    }
}

/// Index of the candidate with the best score.
fn best_index<'a>(rescoring: Rescoring, candidates: impl Iterator<Item = &'a Candidate>) -> usize {
    let scores = candidates.map(|candidate| rescoring.score(candidate)).enumerate();
    scores.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(index, _)| index)
}
