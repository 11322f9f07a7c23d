//! Scores of candidates under an objective: lower is better, in the objective's unit. A score is the sum of its terms,
//! added in their order.

use pointsman_domain::{
    Decision, Objective, Quality, QualityBaseline, RoutingPolicy, ScoreInputs, ScoreTerms, ScoreUnit, Weights,
};

use super::{
    context::DecisionContext,
    forecast::{Forecast, ForecastRules, PointForecast},
    live_state::{LiveState, inputs},
    noise::NoiseDraw,
    objective_profile::{
        Baseline, Baselines, LEAST_QUALITY, ObjectiveProfile, QualityFigure, TermParts, quality_figure,
    },
    pooled_endpoint::{PooledEndpoint, Role},
};

/// Lower limit of a cost baseline, dollars.
const LEAST_COST: f64 = 1e-9;
/// Share of the highest cost in the cost of a failed attempt.
const DEAREST_SHARE: f64 = 0.2;
/// Lower limit of a time baseline, seconds.
const LEAST_TIME: f64 = 1e-6;

/// Unit of an objective's scores.
pub const fn score_unit(objective: Objective) -> ScoreUnit {
    ObjectiveProfile::of(objective).unit
}

/// Whether quality counts in the scores of a request with a class of task.
pub fn counts_quality(policy: &RoutingPolicy, objective: Objective, weights: Weights) -> bool {
    quality_figure(policy, objective, weights).is_some()
}

/// Names of an objective's terms, in order. That of quality is the last one, and missing in scores in which it does not count.
pub const fn term_names(objective: Objective) -> &'static [&'static str] {
    ObjectiveProfile::of(objective).term_names
}

impl Baselines {
    /// From the times and costs of the scored candidates, and the costs of all endpoints that passed the hard filters. Baselines
    /// that the objective does not use are 0.
    pub(crate) fn new(
        objective: Objective,
        times: impl Iterator<Item = f64>,
        costs: impl Iterator<Item = f64>,
        passed: impl Iterator<Item = f64>,
    ) -> Baselines {
        let used = ObjectiveProfile::of(objective).baselines;
        let mut baselines = Baselines { time: 0.0, next: 0.0, cost: 0.0, failed: 0.0, quality: None };
        let mut times: Vec<f64> = times.collect();
        if used.contains(&Baseline::SecondTime) {
            baselines.next = second_least(times.iter().copied()).unwrap_or(0.0).max(LEAST_TIME);
        }
        if used.contains(&Baseline::MedianTime) {
            baselines.time = median(&mut times).unwrap_or(0.0).max(LEAST_TIME);
        }
        if used.contains(&Baseline::Costs) {
            (baselines.cost, baselines.failed) = of_costs(costs, &mut passed.collect::<Vec<f64>>());
        }
        baselines
    }

    /// As recorded in a decision.
    pub(crate) const fn recorded(&self) -> [f64; 4] {
        [self.time, self.cost, self.failed, self.next]
    }

    /// From a record.
    pub(crate) const fn of_record(decision: &Decision) -> Baselines {
        let [time, cost, failed, next] = decision.baselines;
        Baselines { time, next, cost, failed, quality: decision.quality }
    }

    /// With what quality is compared with, from the scored candidates of known quality, and what a dollar has to buy of it.
    pub(crate) fn with_quality(
        self,
        figure: Option<QualityFigure>,
        known: impl Iterator<Item = Quality>,
        per_dollar: f64,
    ) -> Baselines {
        let Some(figure) = figure else { return self };
        let mut losses: Vec<f64> = known.map(|quality| loss_of(figure.of(&quality))).collect();
        let greatest = losses.iter().copied().fold(0.0, f64::max);
        let quality = median(&mut losses).map(|loss| QualityBaseline {
            median_loss: loss.max(LEAST_QUALITY),
            lowest: 1.0 - greatest,
            per_dollar,
        });
        Baselines { quality, ..self }
    }
}

/// Probability that an answer of this quality is not acceptable. What is no number is the worst.
fn loss_of(quality: f64) -> f64 {
    (1.0 - quality.max(0.0)).max(0.0)
}

/// Median cost, and the cost of a failed attempt.
fn of_costs(scored: impl Iterator<Item = f64>, passed: &mut [f64]) -> (f64, f64) {
    let cost = median(passed).unwrap_or(0.0).max(LEAST_COST);
    let dearest = passed.iter().copied().fold(cost, f64::max);
    let second = second_least(scored).unwrap_or(dearest);
    (cost, DEAREST_SHARE * dearest + (1.0 - DEAREST_SHARE) * second)
}

/// The lower median, so that of two candidates the better one is the baseline. Values are never negative, so their bits
/// sort as they do.
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by_key(middle, |value| value.to_bits()).1)
}

/// The second least value; the only one of a single value.
fn second_least(mut values: impl Iterator<Item = f64>) -> Option<f64> {
    let first = values.next()?;
    let ranked = |(least, second): (f64, f64), value: f64| match value {
        _ if value >= second => (least, second),
        _ if value >= least => (least, value),
        _ => (value, least),
    };
    let (least, second) = values.fold((first, f64::INFINITY), ranked);
    Some(if second.is_finite() { second } else { least })
}

/// The scoring of one decision.
#[derive(Clone, Copy)]
pub(crate) struct Scoring {
    profile: &'static ObjectiveProfile,
    names: &'static [&'static str],
    /// The figure of quality that counts, and for candidates of unknown quality.
    quality: Option<(QualityFigure, f64)>,
    pub baselines: Baselines,
    failure_time: f64,
    per_second: f64,
    per_dollar: f64,
    per_loss: f64,
}

impl Scoring {
    pub(crate) fn new(policy: &RoutingPolicy, objective: Objective, weights: Weights, baselines: Baselines) -> Scoring {
        let profile = ObjectiveProfile::of(objective);
        let counted = baselines.quality.zip(quality_figure(policy, objective, weights));
        Scoring {
            profile,
            names: profile.names(counted.is_some()),
            quality: counted.map(|(baseline, figure)| (figure, baseline.lowest)),
            per_loss: counted.map_or(0.0, |(baseline, _)| weights.quality / weights.sum() / baseline.median_loss),
            baselines,
            failure_time: policy.failure_time.as_secs_f64(),
            per_second: (profile.per_second)(policy, weights, &baselines),
            per_dollar: (profile.per_dollar)(weights, &baselines),
        }
    }

    /// What a second and a dollar of predictions add to the score.
    pub(crate) const fn rates(&self) -> [f64; 2] {
        [self.per_second, self.per_dollar]
    }

    /// Whether quality counts.
    pub(crate) const fn counts_quality(&self) -> bool {
        self.quality.is_some()
    }

    /// Adds the quality of the candidates to their forecasts, where it counts.
    pub(crate) fn add_qualities(&self, context: &DecisionContext<'_>, candidates: &mut [PooledEndpoint<'_>]) {
        if !self.counts_quality() {
            return;
        }
        for candidate in candidates {
            let (inputs, noise) = (inputs(candidate.stats, &candidate.live), context.noise.at(candidate.endpoint()));
            self.add_quality(&mut candidate.forecast, &inputs, &context.rules, noise);
        }
    }

    /// Adds quality to a forecast, where it counts.
    #[inline]
    pub(crate) fn add_quality(
        &self,
        forecast: &mut Forecast,
        inputs: &ScoreInputs,
        rules: &ForecastRules,
        noise: Option<NoiseDraw>,
    ) {
        let Some((figure, lowest)) = self.quality else { return };
        let counted = inputs.quality.map_or(lowest, |quality| figure.of(&quality));
        forecast.set_loss(loss_of(counted), rules.uncertainty_of(inputs), noise);
    }

    pub(crate) const fn unit(&self) -> ScoreUnit {
        self.profile.unit
    }

    /// The score with noise.
    pub(crate) fn score(&self, forecast: &Forecast, cost: f64) -> f64 {
        self.score_at(&forecast.noisy, forecast, cost)
    }

    /// Scores the candidates, with noise and without. Candidates past refusing gates are ranked by the time at which
    /// these open, without preferences.
    pub(crate) fn rank(&self, candidates: &mut [PooledEndpoint<'_>]) {
        for candidate in candidates.iter_mut().filter(|candidate| candidate.role != Role::Excluded) {
            if candidate.role == Role::Panic {
                candidate.precedence = candidate.order_rank();
                candidate.rank = candidate.reopens().rank();
            } else {
                candidate.rank = self.score(&candidate.forecast, candidate.live.cost);
                candidate.noiseless = self.noiseless_score(&candidate.forecast, candidate.live.cost);
            }
        }
    }

    /// The score without noise.
    pub(crate) fn noiseless_score(&self, forecast: &Forecast, cost: f64) -> f64 {
        self.score_at(&forecast.noiseless, forecast, cost)
    }

    /// The score with this failure probability.
    pub(crate) fn score_if(&self, failure: f64, forecast: &Forecast, cost: f64) -> f64 {
        self.score_at(&PointForecast { failure, ..forecast.noisy }, forecast, cost)
    }

    /// The score at this point of the forecast's uncertainty.
    pub(crate) fn score_at(&self, point: &PointForecast, forecast: &Forecast, cost: f64) -> f64 {
        self.values(point, forecast, cost).iter().sum()
    }

    /// The score of a candidate without its cached prompt.
    pub(crate) fn uncached_score(&self, context: &DecisionContext<'_>, candidate: &PooledEndpoint<'_>) -> f64 {
        let live = candidate.live;
        let live = LiveState { cached_tokens: 0, saving: 0.0, cost: live.uncached_cost(), ..live };
        let inputs = inputs(candidate.stats, &live);
        let noise = context.noise.at(candidate.endpoint());
        let mut forecast = Forecast::new(&inputs, &candidate.stats.curve, &context.rules, noise);
        self.add_quality(&mut forecast, &inputs, &context.rules, noise);
        self.score(&forecast, live.cost)
    }

    /// The terms of the score with noise.
    pub(crate) fn terms(&self, forecast: &Forecast, cost: f64) -> ScoreTerms {
        ScoreTerms::new(self.names, self.values(&forecast.noisy, forecast, cost))
    }

    fn values(&self, guess: &PointForecast, forecast: &Forecast, cost: f64) -> [f64; ScoreTerms::MAX_TERMS] {
        let PointForecast { first_token, generation, failure, loss } = *guess;
        let Baselines { next, failed, .. } = self.baselines;
        (self.profile.terms)(&TermParts {
            first_token,
            generation,
            failure,
            slow: forecast.slow,
            // A failed attempt generates nothing.
            retry: failure * (self.failure_time + (next - generation).max(0.0)),
            answered: (1.0 - failure) * cost,
            // A failure is never a saving, also if the next attempt is cheaper.
            failed: failure * failed.max(cost),
            loss,
            per_second: self.per_second,
            per_dollar: self.per_dollar,
            per_loss: self.per_loss,
        })
    }
}
