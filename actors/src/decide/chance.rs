//! What a recorded decision would have been under another seed.
//!
//! Works from the record alone, as a replay does: the inputs of its candidates, its yardsticks and the policy it
//! was made under. Not for the hot path.

use super::{
    noise::NormalTable,
    predict::{Forecast, Rules},
    score::{Scoring, Yardsticks, median_time},
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
    let rules = Rules::of(policy, decision.objective.value, decision.streamed);
    let [time, cost, dearest] = decision.yardsticks;
    let yardsticks = Yardsticks { time, cost, dearest };
    let scoring = Scoring::new(policy, decision.objective.value, decision.weights, yardsticks);
    let score = |candidate: &Candidate| {
        let z = noise(decision.seed, candidate);
        scoring.terms(&forecast(candidate, &rules, z), candidate.inputs.cost).sum()
    };
    decision.candidates.iter().map(score).collect()
}

/// Fills in how often each candidate would be chosen over a fixed set of seeds, everything else equal.
pub fn fill_selection_probabilities(decision: &mut Decision, policy: &RoutingPolicy) {
    let mut chosen = vec![0_u64; decision.candidates.len()];
    let contest = contest(decision);
    if contest < 2 || policy.exploration <= 0.0 {
        // A probe, a panic plan, a single candidate, or no noise: chance has no say.
        chosen.iter_mut().take(1).for_each(|first| *first = SEEDS);
    } else {
        let tables = Contest::new(decision, policy, contest);
        for draw in 0..SEEDS {
            let winner = tables.winner(splitmix64(draw));
            chosen.iter_mut().skip(winner).take(1).for_each(|count| *count += 1);
        }
    }
    for (candidate, count) in decision.candidates.iter_mut().zip(chosen) {
        candidate.selection_probability = Some(count as f64 / SEEDS as f64);
    }
}

/// How many of the first candidates compete: those that rank with the first. The plan's later attempts are
/// spread over providers, so all of its class are counted, wherever they stand.
fn contest(decision: &Decision) -> usize {
    let Some(first) = decision.candidates.first().filter(|first| !first.probe && !first.panic) else { return 0 };
    decision.candidates.iter().filter(|candidate| ranks_with(first, candidate)).count()
}

fn ranks_with(first: &Candidate, candidate: &Candidate) -> bool {
    (candidate.target, candidate.inputs.tier) == (first.target, first.inputs.tier)
}

/// The candidates that rank with the first, ready to be scored many times.
struct Contest<'a> {
    decision: &'a Decision,
    policy: &'a RoutingPolicy,
    rules: Rules,
    competing: usize,
}

impl<'a> Contest<'a> {
    fn new(decision: &'a Decision, policy: &'a RoutingPolicy, competing: usize) -> Contest<'a> {
        let rules = Rules::of(policy, decision.objective.value, decision.streamed);
        Contest { decision, policy, rules, competing }
    }

    /// Position of the candidate that this seed would choose.
    fn winner(&self, seed: u64) -> usize {
        let candidates = &self.decision.candidates;
        let forecasts: Vec<Forecast> = candidates.iter().map(|c| forecast(c, &self.rules, noise(seed, c))).collect();
        let mut times: Vec<f64> = forecasts.iter().map(Forecast::time).collect();
        let [_, cost, dearest] = self.decision.yardsticks;
        let yardsticks = Yardsticks { time: median_time(&mut times), cost, dearest };
        let scoring = Scoring::new(self.policy, self.decision.objective.value, self.decision.weights, yardsticks);
        // Candidates of the first class come first; beyond them nobody competes.
        let scores = candidates.iter().zip(&forecasts).take(self.competing).enumerate();
        let score = |(position, (candidate, forecast)): (usize, (&Candidate, &Forecast))| {
            (position, scoring.score(forecast, candidate.inputs.cost))
        };
        scores.map(score).min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(position, _)| position)
    }
}

fn forecast(candidate: &Candidate, rules: &Rules, z: f64) -> Forecast {
    let inputs = &candidate.inputs;
    Forecast::of(inputs, &Curve::of(inputs.intercept, inputs.variance, inputs.per_token), rules, z)
}

fn noise(seed: u64, candidate: &Candidate) -> f64 {
    if seed == 0 { 0.0 } else { NormalTable::get().noise(seed, candidate.endpoint) }
}
