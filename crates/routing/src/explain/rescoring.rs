//! The scores of a recorded decision, computed again.
//!
//! Reads the record only: the inputs of the candidates, the baselines, and the policy of the decision. Used by
//! `selection_probability`, `replay` and `why_not`. Not for the hot path.

use pointsman_domain::{
    Candidate, Decision, EndpointId, Objective, Quality, RoutingPolicy, ScoreInputs, ScoreTerms, Weights,
};

use crate::decide::{
    exploration,
    forecast::{Forecast, ForecastRules},
    noise::Noise,
    objective_profile::{Baselines, QualityFigure, quality_figure},
    plan::{self, RankKey, Ranked},
    pooled_endpoint::Role,
    precedence::Precedence,
    score::Scoring,
};
use crate::stats::Curve;

/// The forecast rules, baselines and noise of one decision.
#[derive(Clone, Copy)]
pub(crate) struct Rescoring {
    pub rules: ForecastRules,
    pub scoring: Scoring,
    pub noise: Noise,
}

impl Rescoring {
    /// With the weights and the noise of the decision.
    pub(crate) fn new(decision: &Decision, policy: &RoutingPolicy) -> Rescoring {
        Rescoring::with_weights(decision, policy, decision.weights)
    }

    /// With other weights of `balanced`.
    pub(crate) fn with_weights(decision: &Decision, policy: &RoutingPolicy, weights: Weights) -> Rescoring {
        let objective: Objective = decision.objective.value;
        let mut baselines = Baselines::of_record(decision);
        if baselines.quality.is_none() {
            let figure = quality_figure(policy, objective, weights);
            baselines = baselines.with_quality(figure, recorded_qualities(decision), 0.0);
        }
        Rescoring {
            rules: ForecastRules::new(policy, objective, decision.streamed),
            scoring: Scoring::new(policy, objective, weights, baselines),
            noise: Noise::new(decision.seed),
        }
    }

    /// The forecast for a candidate with these inputs.
    pub(crate) fn forecast(&self, candidate: &Candidate, inputs: &ScoreInputs) -> Forecast {
        let curve = Curve::new(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
        let noise = self.noise.at(candidate.endpoint);
        let mut forecast = Forecast::new(inputs, &curve, &self.rules, noise);
        self.scoring.add_quality(&mut forecast, inputs, &self.rules, noise);
        forecast
    }

    /// The terms of the score from the recorded inputs.
    pub(crate) fn terms(&self, candidate: &Candidate) -> ScoreTerms {
        self.scoring.terms(&self.forecast(candidate, &candidate.inputs), candidate.inputs.cost)
    }

    pub(crate) fn score(&self, candidate: &Candidate) -> f64 {
        self.terms(candidate).sum()
    }
}

/// The known qualities of the recorded candidates. A probe beside others is admitted after the baselines are known.
fn recorded_qualities(decision: &Decision) -> impl Iterator<Item = Quality> {
    let only_probes = recorded(decision).all(|candidate| candidate.probe);
    let competed = recorded(decision).filter(move |candidate| only_probes || !candidate.probe);
    competed.filter_map(|candidate| candidate.inputs.quality)
}

/// The quality that counts for a candidate; `None` where quality does not count.
pub(crate) fn counted_quality(candidate: &Candidate, decision: &Decision) -> Option<f64> {
    let baseline = decision.quality?;
    let figure = match decision.objective.value {
        Objective::Cheapest => QualityFigure::Tenth,
        Objective::Balanced | Objective::Fastest | Objective::Reliable => QualityFigure::Mean,
    };
    Some(candidate.inputs.quality.map_or(baseline.lowest, |quality| figure.of(&quality)))
}

/// The endpoint that was drawn to learn from, whatever the scores.
pub(crate) fn drawn(decision: &Decision) -> Option<EndpointId> {
    let index = exploration::drawn(decision.exploration_share, decision.seed, &decision.safe_set)?;
    recorded(decision).find(|candidate| candidate.index == index).map(|candidate| candidate.endpoint)
}

/// All candidates in the record of a decision, in plan order.
pub(crate) fn recorded(decision: &Decision) -> impl Iterator<Item = &Candidate> + Clone {
    decision.candidates.iter().chain(&decision.rivals)
}

/// The candidates that compete with the choice by score: same group and tier, next to it in the plan. Empty for a probe
/// and for a panic plan.
pub(crate) fn rivals(decision: &Decision) -> impl Iterator<Item = &Candidate> + Clone {
    let first = decision.candidates.first().filter(|first| !first.probe && !first.panic);
    recorded(decision)
        .take_while(move |candidate| first.is_some_and(|first| precedence(candidate) == precedence(first)))
}

/// The candidate that another one had to beat: the choice, or without the probe the candidate that would be the choice.
/// Places after the first do not follow the score alone: retries prefer endpoints with a low risk.
pub(crate) fn leader(decision: &Decision, probes: bool) -> Option<&Candidate> {
    let choice = decision.candidates.first()?;
    if choice.probe == probes {
        return Some(choice);
    }
    best_scored(recorded(decision).filter(|other| other.probe == probes && !other.panic))
}

/// The candidate with the best rank and score. Ties are broken as in the plan.
pub(crate) fn best_scored<'a>(candidates: impl Iterator<Item = &'a Candidate> + Clone) -> Option<&'a Candidate> {
    plan::best(candidates.map(|candidate| (candidate, candidate.score)))
}

impl Ranked for Candidate {
    fn key(&self) -> RankKey {
        let role = match (self.probe, self.panic) {
            (true, _) => Role::Probe,
            (_, true) => Role::Panic,
            _ => Role::Candidate,
        };
        RankKey {
            precedence: precedence(self),
            rank: if self.panic { self.inputs.reopens.rank() } else { self.score },
            failure: self.predicted.failure,
            cost: self.inputs.cost,
            in_flight: self.inputs.in_flight,
            endpoint: self.endpoint,
            provider: self.provider,
            role,
        }
    }
}

/// The rank before any score.
pub(crate) fn precedence(candidate: &Candidate) -> Precedence {
    Precedence::of_record(candidate.group, candidate.inputs.tier)
}
