//! The profiles of the objectives: everything that a decision or its explanation does differently for one of them.

use std::time::Duration;

use pointsman_domain::{
    DecisionCode, Objective, Quality, QualityBaseline, RoutingPolicy, ScoreTerms, ScoreUnit, Weights,
};

/// How one objective decides.
pub(crate) struct ObjectiveProfile {
    /// Unit of the score and its terms.
    pub unit: ScoreUnit,
    /// Names of the terms that add up to the score, in order; that of quality, if there is one, is the last.
    pub term_names: &'static [&'static str],
    /// The values of these terms; unused values are 0.
    pub terms: fn(&TermParts) -> [f64; ScoreTerms::MAX_TERMS],
    /// What a second of predicted time adds to the score.
    pub per_second: fn(&RoutingPolicy, Weights, &Baselines) -> f64,
    /// What a dollar adds to the score.
    pub per_dollar: fn(Weights, &Baselines) -> f64,
    /// Whether the last term is that of quality.
    pub has_quality_term: bool,
    /// The baselines that the terms use.
    pub baselines: &'static [Baseline],
    /// Share of the uncertainty of times that exploration uses.
    pub exploration: f64,
    /// Whether an estimate of the time per output token grows more uncertain with its age.
    pub explores_old_pace: bool,
    /// Whether the probability of a slow answer counts, and exploration covers the failure probability.
    pub counts_slow_answers: bool,
    /// How long a breaker must have been half-open before a request probes it.
    pub probe_delay: Duration,
    /// Decision code of a choice by score alone.
    pub code: DecisionCode,
    /// The predicted figures in the order in which an explanation names them.
    pub figures: [PredictedFigure; 3],
}

/// Baselines of times and costs, without noise, so that they do not depend on the seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Baselines {
    /// Median time of the scored candidates, seconds.
    pub time: f64,
    /// Second least of these times, seconds: the time of the fallback of the best one.
    pub next: f64,
    /// Median cost of everything that passed the hard filters, dollars.
    pub cost: f64,
    /// Cost of a failed attempt, dollars: mostly the second least cost among the scored candidates, because such a
    /// candidate is the fallback, and in part the highest cost, because the fallback may fail, too.
    pub failed: f64,
    /// What quality is compared with; `None` where it does not count.
    pub quality: Option<QualityBaseline>,
}

/// A figure of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QualityFigure {
    Mean,
    Tenth,
}

/// The figure of quality that counts in scores, if one does: what is paid for must be sure.
pub(crate) fn quality_figure(policy: &RoutingPolicy, objective: Objective, weights: Weights) -> Option<QualityFigure> {
    match objective {
        Objective::Balanced => (weights.quality > 0.0).then_some(QualityFigure::Mean),
        Objective::Cheapest => policy.per_accepted.then_some(QualityFigure::Tenth),
        Objective::Fastest | Objective::Reliable => None,
    }
}

impl QualityFigure {
    pub(crate) const fn of(self, quality: &Quality) -> f64 {
        match self {
            QualityFigure::Mean => quality.mean,
            QualityFigure::Tenth => quality.tenth,
        }
    }
}

/// A baseline of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Baseline {
    /// Median time of the candidates.
    MedianTime,
    /// Second least time of the candidates.
    SecondTime,
    /// Median cost and the cost of a failed attempt.
    Costs,
}

/// A predicted figure in an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PredictedFigure {
    Time,
    Cost,
    Failure,
}

/// Inputs of the terms. Times in seconds, costs in dollars.
pub(crate) struct TermParts {
    pub first_token: f64,
    pub generation: f64,
    /// Failure probability.
    pub failure: f64,
    /// Probability that the answer is too slow.
    pub slow: f64,
    /// Expected cost of the time a failure takes: its probability times the time until another attempt has answered.
    pub retry: f64,
    /// Cost times the probability of an answer.
    pub answered: f64,
    /// Cost of a failure times its probability.
    pub failed: f64,
    /// Probability that an answer is not acceptable; 0 where quality does not count.
    pub loss: f64,
    /// What a second adds to the score.
    pub per_second: f64,
    /// What a dollar adds to the score.
    pub per_dollar: f64,
    /// What a certain loss adds to the score.
    pub per_loss: f64,
}

impl TermParts {
    /// What is spent on answers that are asked for again because they are not acceptable, for each dollar of an answer.
    fn asked_again(&self) -> f64 {
        self.loss / (1.0 - self.loss).max(LEAST_QUALITY)
    }

    fn time(&self) -> f64 {
        self.per_second * (self.first_token + self.generation)
    }
}

/// Lower limit of the quality that costs are divided by, and of the loss that losses are compared with.
pub(crate) const LEAST_QUALITY: f64 = 0.02;

/// Share of the uncertainty explored by objectives that gain little from a faster endpoint.
pub(crate) const CAUTIOUS_EXPLORATION: f64 = 0.3;

static FASTEST: ObjectiveProfile = ObjectiveProfile {
    unit: ScoreUnit::Seconds,
    term_names: &["first_token", "generation", "failure"],
    terms: |parts| [parts.first_token, parts.generation, parts.retry, 0.0, 0.0],
    per_second: |_, _, _| 1.0,
    per_dollar: |_, _| 1.0,
    has_quality_term: false,
    baselines: &[Baseline::SecondTime],
    exploration: 1.0,
    explores_old_pace: true,
    counts_slow_answers: false,
    probe_delay: Duration::ZERO,
    code: DecisionCode::FastestAvailable,
    figures: [PredictedFigure::Time, PredictedFigure::Failure, PredictedFigure::Cost],
};

static CHEAPEST: ObjectiveProfile = ObjectiveProfile {
    unit: ScoreUnit::Usd,
    term_names: &["expected_cost", "failure", "time", "asked_again"],
    terms: |parts| {
        let (answered, failed, time) = (parts.answered, parts.failed, parts.time());
        [answered, failed, time, (answered + failed + time) * parts.asked_again(), 0.0]
    },
    per_second: |policy, _, baselines| policy.cheapest_time_value * baselines.cost,
    per_dollar: |_, _| 1.0,
    has_quality_term: true,
    baselines: &[Baseline::Costs],
    exploration: CAUTIOUS_EXPLORATION,
    explores_old_pace: true,
    counts_slow_answers: false,
    probe_delay: Duration::ZERO,
    code: DecisionCode::CheapestAvailable,
    figures: [PredictedFigure::Cost, PredictedFigure::Failure, PredictedFigure::Time],
};

static RELIABLE: ObjectiveProfile = ObjectiveProfile {
    unit: ScoreUnit::Probability,
    term_names: &["failure", "slow", "time"],
    terms: |parts| [parts.failure, parts.slow, parts.time(), 0.0, 0.0],
    per_second: |policy, _, baselines| policy.reliable_time_share / baselines.time,
    per_dollar: |_, _| 1.0,
    has_quality_term: false,
    baselines: &[Baseline::MedianTime],
    exploration: CAUTIOUS_EXPLORATION,
    explores_old_pace: false,
    counts_slow_answers: true,
    probe_delay: Duration::from_secs(5),
    code: DecisionCode::MostReliable,
    figures: [PredictedFigure::Failure, PredictedFigure::Time, PredictedFigure::Cost],
};

static BALANCED: ObjectiveProfile = ObjectiveProfile {
    unit: ScoreUnit::None,
    term_names: &["time", "failure_time", "expected_cost", "failure_cost", "quality"],
    terms: |parts| {
        [
            parts.time(),
            parts.per_second * parts.retry,
            parts.per_dollar * parts.answered,
            parts.per_dollar * parts.failed,
            parts.per_loss * parts.loss,
        ]
    },
    per_second: |_, weights, baselines| weights.latency / weights.sum() / baselines.time,
    per_dollar: |weights, baselines| {
        let own = weights.cost / weights.sum() / baselines.cost;
        // What a spend pace asks for a dollar, in the unit of the term of quality.
        let paced =
            |quality: QualityBaseline| weights.quality / weights.sum() / quality.median_loss * quality.per_dollar;
        baselines.quality.map_or(own, |quality| own + paced(quality))
    },
    has_quality_term: true,
    baselines: &[Baseline::MedianTime, Baseline::SecondTime, Baseline::Costs],
    exploration: 1.0,
    explores_old_pace: true,
    counts_slow_answers: false,
    probe_delay: Duration::ZERO,
    code: DecisionCode::BalancedBestMatch,
    figures: [PredictedFigure::Time, PredictedFigure::Cost, PredictedFigure::Failure],
};

impl ObjectiveProfile {
    pub(crate) const fn of(objective: Objective) -> &'static ObjectiveProfile {
        match objective {
            Objective::Fastest => &FASTEST,
            Objective::Cheapest => &CHEAPEST,
            Objective::Reliable => &RELIABLE,
            Objective::Balanced => &BALANCED,
        }
    }

    /// Names of the terms of a score in which quality counts, or does not.
    pub(crate) fn names(&self, counts_quality: bool) -> &'static [&'static str] {
        match self.term_names.split_last() {
            Some((_, others)) if self.has_quality_term && !counts_quality => others,
            _ => self.term_names,
        }
    }
}
