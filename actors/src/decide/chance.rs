//! What a recorded decision would have been under another seed.
//!
//! Works from the record alone, as a replay does: the inputs of its candidates, its yardsticks and the policy it
//! was made under. Not for the hot path.

use super::{
    noise::Noise,
    predict::{Forecast, Rules},
    score::{Scoring, Yardsticks},
};
use crate::{
    domain::{Candidate, Decision, RoutingPolicy},
    stats::{Curve, splitmix64},
};

/// Seeds that selection probabilities are measured with: enough to tell 1 % from nothing.
const SEEDS: u64 = 256;

/// The scores of a decision's candidates, in their order, as its own seed gives them: bit for bit those that
/// were recorded, under the same policy.
#[must_use]
pub fn rescore(decision: &Decision, policy: &RoutingPolicy) -> Vec<f64> {
    let contest = Contest::of(decision, policy);
    let noise = Noise::of(decision.seed);
    decision.candidates.iter().map(|candidate| contest.score(candidate, noise)).collect()
}

/// Fills in how often each candidate would be chosen over a fixed set of seeds, everything else equal.
pub fn fill_selection_probabilities(decision: &mut Decision, policy: &RoutingPolicy) {
    let mut chosen = vec![0_u64; decision.candidates.len()];
    let rivals = rivals(decision);
    if rivals < 2 || policy.exploration <= 0.0 {
        // A probe, a panic plan, a single candidate, or no noise: chance has no say.
        chosen.iter_mut().take(1).for_each(|first| *first = SEEDS);
    } else {
        let contest = Contest::of(decision, policy);
        for draw in 0..SEEDS {
            let winner = contest.winner(decision.candidates.iter().take(rivals), Noise::of(splitmix64(draw)));
            chosen.iter_mut().skip(winner).take(1).for_each(|count| *count += 1);
        }
    }
    for (candidate, count) in decision.candidates.iter_mut().zip(chosen) {
        candidate.selection_probability = Some(count as f64 / SEEDS as f64);
    }
}

/// How many candidates compete with the first: those that rank with it. They stand next to it in the plan.
fn rivals(decision: &Decision) -> usize {
    let Some(first) = decision.candidates.first().filter(|first| !first.probe && !first.panic) else { return 0 };
    let rank = |candidate: &Candidate| (candidate.target, candidate.inputs.tier);
    decision.candidates.iter().take_while(|candidate| rank(candidate) == rank(first)).count()
}

/// A recorded decision, ready to be scored again.
struct Contest {
    rules: Rules,
    scoring: Scoring,
}

impl Contest {
    fn of(decision: &Decision, policy: &RoutingPolicy) -> Contest {
        let objective = decision.objective.value;
        let [time, cost, dearest] = decision.yardsticks;
        let yardsticks = Yardsticks { time, cost, dearest };
        Contest {
            rules: Rules::of(policy, objective, decision.streamed),
            scoring: Scoring::new(policy, objective, decision.weights, yardsticks),
        }
    }

    fn score(&self, candidate: &Candidate, noise: Noise) -> f64 {
        let inputs = &candidate.inputs;
        let curve = Curve::of(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
        let forecast = Forecast::of(inputs, &curve, &self.rules, noise.at(candidate.endpoint));
        self.scoring.score(&forecast, inputs.cost)
    }

    /// Position of the candidate that this noise would choose.
    fn winner<'a>(&self, candidates: impl Iterator<Item = &'a Candidate>, noise: Noise) -> usize {
        let scores = candidates.map(|candidate| self.score(candidate, noise)).enumerate();
        scores.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(position, _)| position)
    }
}
