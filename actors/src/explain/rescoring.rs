//! A recorded decision, ready to be scored again.
//!
//! Works from the record alone: the inputs of its candidates, its yardsticks and the policy it was made under.
//! What the scores are used for is decided in `chance`, `replay` and `why_not`. Not for the hot path.

use crate::decide::{
    forecast::{Forecast, ForecastRules},
    noise::Noise,
    plan::is_tie,
    score::{Baselines, Scoring},
};
use crate::{
    domain::{Candidate, Decision, Objective, RoutingPolicy, ScoreInputs, ScoreTerms, Weights},
    stats::Curve,
};

/// The rules and yardsticks of one decision.
#[derive(Clone, Copy)]
pub(crate) struct Rescoring {
    pub rules: ForecastRules,
    pub scoring: Scoring,
    pub noise: Noise,
}

impl Rescoring {
    /// The contest as it was, with its own noise.
    pub(crate) fn of(decision: &Decision, policy: &RoutingPolicy) -> Rescoring {
        Rescoring::weighing(decision, policy, decision.weights)
    }

    /// The contest as it would have been with other weights.
    pub(crate) fn weighing(decision: &Decision, policy: &RoutingPolicy, weights: Weights) -> Rescoring {
        let objective: Objective = decision.objective.value;
        let yardsticks = Baselines::of_record(decision.baselines);
        Rescoring {
            rules: ForecastRules::of(policy, objective, decision.streamed),
            scoring: Scoring::new(policy, objective, weights, yardsticks),
            noise: Noise::of(decision.seed),
        }
    }

    /// The same contest under another seed.
    pub(crate) fn drawn(self, seed: u64) -> Rescoring {
        Rescoring { noise: Noise::of(seed), ..self }
    }

    /// What these inputs of a candidate predict.
    pub(crate) fn forecast(&self, candidate: &Candidate, inputs: &ScoreInputs) -> Forecast {
        let curve = Curve::of(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
        Forecast::of(inputs, &curve, &self.rules, self.noise.at(candidate.endpoint))
    }

    /// The terms of its score, as recorded inputs give them.
    pub(crate) fn terms(&self, candidate: &Candidate) -> ScoreTerms {
        self.scoring.terms(&self.forecast(candidate, &candidate.inputs), candidate.inputs.cost)
    }

    pub(crate) fn score(&self, candidate: &Candidate) -> f64 {
        self.terms(candidate).sum()
    }
}

/// Everybody whom the record of a decision holds, in the order of the plan.
pub(crate) fn recorded(decision: &Decision) -> impl Iterator<Item = &Candidate> + Clone {
    decision.candidates.iter().chain(&decision.rivals)
}

/// Those that compete with the choice by score: they rank with it, and stand next to it in the plan. Nobody where a
/// probe goes first, or where no gate is open.
pub(crate) fn rivals(decision: &Decision) -> impl Iterator<Item = &Candidate> + Clone {
    let first = decision.candidates.first().filter(|first| !first.probe && !first.panic);
    recorded(decision).take_while(move |candidate| first.is_some_and(|first| rank(candidate) == rank(first)))
}

/// Whom a candidate had to beat: the choice, or, where that one only probes, whoever would be it if nobody were probed.
/// Beyond the choice a plan is no order of scores: who is called second is chosen for soundness too.
pub(crate) fn leader(decision: &Decision, probes: bool) -> Option<&Candidate> {
    let choice = decision.candidates.first()?;
    if choice.probe == probes {
        return Some(choice);
    }
    best_scored(recorded(decision).filter(|other| other.probe == probes && !other.panic))
}

/// The one that ranks and scores best; ties settled as in the plan.
pub(crate) fn best_scored<'a>(candidates: impl Iterator<Item = &'a Candidate> + Clone) -> Option<&'a Candidate> {
    let by_score = |a: &&Candidate, b: &&Candidate| rank(a).cmp(&rank(b)).then(a.score.total_cmp(&b.score));
    let best = candidates.clone().min_by(by_score)?;
    let tied = candidates.filter(|other| rank(other) == rank(best) && is_tie(best.score, other.score));
    tied.min_by(|a, b| {
        let failure = a.predicted.failure.total_cmp(&b.predicted.failure);
        let cost = || a.inputs.cost.total_cmp(&b.inputs.cost);
        failure.then_with(cost).then(a.inputs.in_flight.cmp(&b.inputs.in_flight)).then(a.endpoint.cmp(&b.endpoint))
    })
}

/// What ranks before any score: group, then tier.
pub(crate) fn rank(candidate: &Candidate) -> u64 {
    u64::from(candidate.group) << 32 | u64::from(candidate.inputs.tier)
}
