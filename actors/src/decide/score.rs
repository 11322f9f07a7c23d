//! How good a candidate is under an objective: lower is better, in the objective's unit.
//!
//! A score is the sum of the terms an explanation shows, added in their order.

use super::{
    candidate::PoolCandidate,
    context::DecisionContext,
    forecast::{Forecast, PointForecast},
    live_state::{LiveState, inputs},
    plan,
};
use crate::domain::{Objective, RoutingPolicy, ScoreTerms, ScoreUnit, Weights};

/// Nothing costs less than this when costs are compared.
const LEAST_COST: f64 = 1e-9;
/// Share that the dearest candidate has in what a failed attempt costs.
const DEAREST_SHARE: f64 = 0.2;
/// No time is shorter than this when times are compared.
const LEAST_TIME: f64 = 1e-6;

const FASTEST: &[&str] = &["first_token", "generation", "queueing", "failure"];
const CHEAPEST: &[&str] = &["expected_cost", "failure", "time"];
const RELIABLE: &[&str] = &["failure", "slow", "time"];
const BALANCED: &[&str] = &["time", "failure_time", "expected_cost", "failure_cost"];

/// The unit of an objective's scores.
#[must_use]
pub const fn score_unit(objective: Objective) -> ScoreUnit {
    match objective {
        Objective::Fastest => ScoreUnit::Seconds,
        Objective::Cheapest => ScoreUnit::Usd,
        Objective::Reliable => ScoreUnit::Probability,
        Objective::Balanced => ScoreUnit::None,
    }
}

/// The names of the terms that an objective's scores are summed from, in order.
#[must_use]
pub const fn term_names(objective: Objective) -> &'static [&'static str] {
    match objective {
        Objective::Fastest => FASTEST,
        Objective::Cheapest => CHEAPEST,
        Objective::Reliable => RELIABLE,
        Objective::Balanced => BALANCED,
    }
}

/// What times and costs are compared with. Made without noise, so that every seed compares alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Baselines {
    /// Median time of the scored candidates, seconds.
    pub time: f64,
    /// The second least of these times, seconds: what takes over from the best one when it fails.
    pub next: f64,
    /// Median cost of everything that passed the hard filters, dollars.
    pub cost: f64,
    /// What a failed attempt costs, dollars: for the most part the second least cost among the scored candidates, which
    /// takes over; for the rest the highest of all, because whoever takes over may fail, too.
    pub failed: f64,
}

impl Baselines {
    /// Of the times and costs of the scored candidates, and the costs of all that passed the hard filters. Only what the objective's scores use is worked out: a median takes as long as
    /// scoring everybody does. The rest is 0.
    pub(crate) fn of(
        objective: Objective,
        times: impl Iterator<Item = f64>,
        costs: impl Iterator<Item = f64>,
        passed: impl Iterator<Item = f64>,
    ) -> Baselines {
        let time = |time: Option<f64>| time.unwrap_or(0.0).max(LEAST_TIME);
        let none = Baselines { time: 0.0, next: 0.0, cost: 0.0, failed: 0.0 };
        match objective {
            Objective::Fastest => Baselines { next: time(second_least(times)), ..none },
            Objective::Reliable => Baselines { time: time(median(&mut gathered(times))), ..none },
            Objective::Cheapest => {
                let (cost, failed) = of_costs(costs, &mut gathered(passed));
                Baselines { cost, failed, ..none }
            }
            Objective::Balanced => {
                let mut times = gathered(times);
                let next = time(second_least(times.iter().copied()));
                let (cost, failed) = of_costs(costs, &mut gathered(passed));
                Baselines { time: time(median(&mut times)), next, cost, failed }
            }
        }
    }

    /// As recorded in a decision.
    pub(crate) const fn recorded(&self) -> [f64; 4] {
        [self.time, self.cost, self.failed, self.next]
    }

    /// From what was recorded.
    pub(crate) const fn of_record([time, cost, failed, next]: [f64; 4]) -> Baselines {
        Baselines { time, next, cost, failed }
    }
}

/// All of them, with room for the most there can be: they need not be moved while they are gathered.
fn gathered(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all = Vec::with_capacity(values.size_hint().1.unwrap_or(0));
    all.extend(values);
    all
}

/// Median cost, and what a failed attempt costs.
fn of_costs(scored: impl Iterator<Item = f64>, passed: &mut [f64]) -> (f64, f64) {
    let cost = median(passed).unwrap_or(0.0).max(LEAST_COST);
    let dearest = passed.iter().fold(cost, |dearest, cost| if *cost > dearest { *cost } else { dearest });
    let second = second_least(scored).unwrap_or(dearest);
    (cost, DEAREST_SHARE * dearest + (1.0 - DEAREST_SHARE) * second)
}

/// The lower median, so that of two candidates the better one is the yardstick. Of values that are never
/// negative, whose bits sort as they do.
fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by_key(middle, |value| value.to_bits()).1)
}

/// The second least value; of a single one that.
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scoring {
    objective: Objective,
    pub yardsticks: Baselines,
    failure_time: f64,
    /// What a second adds to a score ...
    per_second: f64,
    /// ... and what a dollar adds to a balanced one.
    per_dollar: f64,
}

impl Scoring {
    pub(crate) fn new(
        policy: &RoutingPolicy,
        objective: Objective,
        weights: Weights,
        yardsticks: Baselines,
    ) -> Scoring {
        // Only the ratio of the weights matters.
        let sum = weights.latency + weights.cost;
        let Baselines { time, cost, .. } = yardsticks;
        Scoring {
            objective,
            yardsticks,
            failure_time: policy.failure_time.as_secs_f64(),
            per_second: match objective {
                Objective::Fastest => 1.0,
                Objective::Cheapest => policy.cheapest_time_value * cost,
                Objective::Reliable => policy.reliable_time_share / time,
                Objective::Balanced => weights.latency / sum / time,
            },
            per_dollar: if objective == Objective::Balanced { weights.cost / sum / cost } else { 1.0 },
        }
    }

    pub(crate) const fn unit(&self) -> ScoreUnit {
        score_unit(self.objective)
    }

    /// The score with noise.
    pub(crate) fn score(&self, forecast: &Forecast, cost: f64) -> f64 {
        self.values(&forecast.noisy, forecast, cost).iter().sum()
    }

    /// Gives the rows that take part their scores, with noise and without.
    pub(crate) fn rank(&self, rows: &mut [PoolCandidate<'_>]) {
        // A loop for each objective, so that none asks row by row which it is.
        match self.objective {
            Objective::Fastest => plan::rank(rows, |row| self.scores_under(Objective::Fastest, row)),
            Objective::Cheapest => plan::rank(rows, |row| self.scores_under(Objective::Cheapest, row)),
            Objective::Reliable => plan::rank(rows, |row| self.scores_under(Objective::Reliable, row)),
            Objective::Balanced => plan::rank(rows, |row| self.scores_under(Objective::Balanced, row)),
        }
    }

    #[inline(always)]
    fn scores_under(&self, objective: Objective, row: &PoolCandidate<'_>) -> (f64, f64) {
        let (forecast, cost) = (&row.forecast, row.moment.cost);
        let noisy = self.values_under(objective, &forecast.noisy, forecast, cost);
        let calm = self.values_under(objective, &forecast.calm, forecast, cost);
        (noisy.iter().sum(), calm.iter().sum())
    }

    /// The score it would have without noise.
    pub(crate) fn calm_score(&self, forecast: &Forecast, cost: f64) -> f64 {
        self.values(&forecast.calm, forecast, cost).iter().sum()
    }

    /// The score it would have if it failed this often.
    pub(crate) fn score_if(&self, failure: f64, forecast: &Forecast, cost: f64) -> f64 {
        self.values(&PointForecast { failure, ..forecast.noisy }, forecast, cost).iter().sum()
    }

    /// The score of a candidate without the prompt that its endpoint may hold in its cache.
    pub(crate) fn uncached_score(&self, context: &DecisionContext<'_>, candidate: &PoolCandidate<'_>) -> f64 {
        let live = candidate.moment;
        let live = LiveState { cached_tokens: 0, saving: 0.0, cost: live.uncached_cost(), ..live };
        let inputs = inputs(candidate.stats, &live);
        let noise = context.noise.at(candidate.endpoint());
        let forecast = Forecast::of(&inputs, &candidate.stats.curve, &context.rules, noise);
        self.score(&forecast, live.cost)
    }

    /// The addends of the score with noise.
    pub(crate) fn terms(&self, forecast: &Forecast, cost: f64) -> ScoreTerms {
        ScoreTerms::new(term_names(self.objective), self.values(&forecast.noisy, forecast, cost))
    }

    fn values(&self, guess: &PointForecast, forecast: &Forecast, cost: f64) -> [f64; ScoreTerms::MAX_TERMS] {
        self.values_under(self.objective, guess, forecast, cost)
    }

    /// Unused values are 0, which leaves the sum as it is.
    #[inline(always)]
    fn values_under(
        &self,
        objective: Objective,
        guess: &PointForecast,
        forecast: &Forecast,
        cost: f64,
    ) -> [f64; ScoreTerms::MAX_TERMS] {
        let PointForecast { first_token, generation, failure } = *guess;
        let Baselines { next, failed, .. } = self.yardsticks;
        let own = first_token + generation;
        let queueing = forecast.queueing * own;
        let time = self.per_second * (own + queueing);
        // To fail is never a saving, not even where whoever takes over is cheaper.
        let failed = failure * if failed > cost { failed } else { cost };
        let answered = (1.0 - failure) * cost;
        // An attempt that fails generates nothing.
        let retry = failure * (self.failure_time + (next - generation).max(0.0));
        match objective {
            Objective::Fastest => [first_token, generation, queueing, retry],
            Objective::Cheapest => [answered, failed, time, 0.0],
            Objective::Reliable => [failure, forecast.slow, time, 0.0],
            Objective::Balanced => {
                [time, self.per_second * retry, self.per_dollar * answered, self.per_dollar * failed]
            }
        }
    }
}
