//! Tries a changed figure on the record of a decision.

use std::cmp::Ordering;

use pointsman_domain::{Candidate, Decision, Prediction, RoutingPolicy, ScoreInputs};

use crate::decide::{plan::is_tie, precedence::position_and_grade, preferences::grade_with};

use crate::explain::{
    counterfactual::{Figure, Trial, certain_quality, weights_at},
    rescoring::{Rescoring, precedence, recorded},
};

/// Computes the recorded scores again with one changed figure and fixed baselines.
pub(super) struct RecordedTrial<'a> {
    candidate: &'a Candidate,
    rivals: Vec<&'a Candidate>,
    decision: &'a Decision,
    policy: &'a RoutingPolicy,
    rescoring: Rescoring,
    best_rival_score: f64,
    /// Preference grade of the leader.
    grade: u32,
}

impl<'a> RecordedTrial<'a> {
    /// A trial against the candidates that rank with `leader`.
    pub(super) fn new(
        candidate: &'a Candidate,
        leader: &Candidate,
        decision: &'a Decision,
        policy: &'a RoutingPolicy,
    ) -> RecordedTrial<'a> {
        let is_rival = |other: &&Candidate| {
            precedence(other) == precedence(leader)
                && other.probe == candidate.probe
                && other.endpoint != candidate.endpoint
        };
        let rivals: Vec<&Candidate> = recorded(decision).filter(is_rival).collect();
        let rescoring = Rescoring::new(decision, policy);
        let best_rival_score = rivals.iter().map(|rival| rival.score).fold(f64::INFINITY, f64::min);
        let (_, grade) = position_and_grade(leader.inputs.tier);
        RecordedTrial { candidate, rivals, decision, policy, rescoring, best_rival_score, grade }
    }

    /// The preference grade with another figure, at most the recorded grade.
    fn grade_with(&self, figure: Figure, value: f64) -> u32 {
        let Candidate { inputs, predicted, .. } = self.candidate;
        let predicted = match figure {
            Figure::FirstToken => {
                let p95 = predicted.first_token_p95 * value / predicted.first_token_p50;
                Prediction { first_token_p50: value, first_token_p95: p95, ..*predicted }
            }
            Figure::TokensPerSecond => Prediction { tokens_per_second: value, ..*predicted },
            Figure::Price
            | Figure::FailureProbability
            | Figure::LatencyWeight
            | Figure::Quality
            | Figure::QualityWeight => *predicted,
        };
        grade_with(self.decision, inputs, &predicted).min(position_and_grade(inputs.tier).1)
    }

    fn score(&self, inputs: &ScoreInputs) -> f64 {
        let forecast = self.rescoring.forecast(self.candidate, inputs);
        self.rescoring.scoring.score(&forecast, inputs.cost)
    }
}

impl Trial for RecordedTrial<'_> {
    fn wins(&mut self, figure: Figure, value: f64) -> bool {
        let (candidate, inputs) = (self.candidate, self.candidate.inputs);
        let predicted = &candidate.predicted;
        let (score, best_rival_score) = match figure {
            Figure::Price => (self.score(&ScoreInputs { cost: value, ..inputs }), self.best_rival_score),
            Figure::FirstToken => {
                let factor = value / predicted.first_token_p50;
                let (intercept, prompt_slope) = (inputs.intercept + libm::log(factor), inputs.prompt_slope * factor);
                (self.score(&ScoreInputs { intercept, prompt_slope, ..inputs }), self.best_rival_score)
            }
            Figure::TokensPerSecond => {
                let shift = libm::log(predicted.tokens_per_second / value);
                (self.score(&ScoreInputs { per_token: inputs.per_token + shift, ..inputs }), self.best_rival_score)
            }
            Figure::FailureProbability => {
                let forecast = self.rescoring.forecast(candidate, &inputs);
                (self.rescoring.scoring.score_if(value, &forecast, inputs.cost), self.best_rival_score)
            }
            Figure::Quality => {
                let quality = Some(certain_quality(value));
                (self.score(&ScoreInputs { quality, ..inputs }), self.best_rival_score)
            }
            Figure::LatencyWeight | Figure::QualityWeight => {
                let weights = weights_at(figure, value, self.decision.weights);
                let rescoring = Rescoring::with_weights(self.decision, self.policy, weights);
                let rival_scores = self.rivals.iter().map(|rival| rescoring.score(rival));
                (rescoring.score(candidate), rival_scores.fold(f64::INFINITY, f64::min))
            }
        };
        match self.grade_with(figure, value).cmp(&self.grade) {
            Ordering::Less => true,
            Ordering::Equal => score < best_rival_score && !is_tie(score, best_rival_score),
            Ordering::Greater => false,
        }
    }
}
