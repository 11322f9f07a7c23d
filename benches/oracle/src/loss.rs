//! What a run cost, by objective.
//!
//! | objective | loss of a request | a request nobody answered |
//! |---|---|---|
//! | fastest | seconds to the last byte | 10, or twice the median time if that is more |
//! | cheapest | dollars of all its attempts | 5 × the dearest endpoint's price more |
//! | balanced | ½ time ÷ median + ½ cost ÷ median | 3 more |
//! | reliable | true probability that the first choice fails or takes over 2 s | the same |
//!
//! Medians are those over the endpoints for this very request, on a good day and alone.

use pointsman_domain::Objective;

use crate::{request::Request, world::World};

/// Seconds that a failure counts for `fastest`.
pub const FAILED_SECONDS: f64 = 10.0;
/// Dearest prices that a failure counts for `cheapest`.
pub const FAILED_PRICES: f64 = 5.0;
/// What a failure counts more for `balanced`.
pub const FAILED_BALANCED: f64 = 3.0;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// When it arrived, seconds.
    pub at: f64,
    /// Seconds until it ended.
    pub seconds: f64,
    /// Dollars of all attempts.
    pub cost: f64,
    /// Whether it was answered.
    pub answered: bool,
    /// Endpoints with which nothing was wrong when it arrived.
    pub healthy: usize,
    /// Attempts, hedges included.
    pub attempts: u32,
    /// Where it was tried first.
    pub first: Option<usize>,
    /// True probability that the first choice failed or took too long.
    pub bad: f64,
    /// Seconds until the first token of a stream, if it came.
    pub first_token: Option<f64>,
}

/// Losses by objective: their sum and number.
pub type Losses = [(f64, usize); 4];

/// The yardsticks of a request: median seconds, median dollars, most dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yardsticks {
    /// Median seconds.
    pub time: f64,
    /// Median dollars.
    pub cost: f64,
    /// Most dollars.
    pub dearest: f64,
}

impl Yardsticks {
    /// The yardsticks of a request with an answer of so many tokens.
    #[must_use]
    pub fn of(world: &World, request: &Request, answer: f64) -> Yardsticks {
        let quiet = |endpoint: usize| world.good_day(endpoint).mean_time(request.prompt, answer);
        let endpoints = 0..world.endpoints.len();
        let times = endpoints.clone().map(quiet).collect();
        let costs: Vec<f64> = endpoints.map(|endpoint| world.cost(endpoint, request, answer)).collect();
        let dearest = costs.iter().copied().fold(0.0, f64::max);
        Yardsticks { time: median(times), cost: median(costs), dearest }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    0.5 * (values[(values.len() - 1) / 2] + values[values.len() / 2])
}

/// The loss of a request.
#[must_use]
pub fn loss(objective: Objective, served: &Served, yardsticks: &Yardsticks) -> f64 {
    let failed = if served.answered { 0.0 } else { 1.0 };
    match objective {
        Objective::Fastest if served.answered => served.seconds,
        // A failure is never better than an answer, however long: the longest of real ones take longer than that.
        Objective::Fastest => FAILED_SECONDS.max(2.0 * yardsticks.time),
        Objective::Cheapest => served.cost + failed * FAILED_PRICES * yardsticks.dearest,
        Objective::Balanced => {
            0.5 * served.seconds / yardsticks.time + 0.5 * served.cost / yardsticks.cost + failed * FAILED_BALANCED
        }
        Objective::Reliable => served.bad,
    }
}

/// The losses of a run with these answers, by objective.
#[must_use]
pub fn losses(world: &World, served: &[Served]) -> Losses {
    let mut losses = Losses::default();
    for (request, served) in world.requests.iter().zip(served) {
        let yardsticks = Yardsticks::of(world, request, f64::from(request.answer));
        let (sum, count) = &mut losses[request.objective as usize];
        *sum += loss(request.objective, served, &yardsticks);
        *count += 1;
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    const YARDSTICKS: Yardsticks = Yardsticks { time: 2.0, cost: 0.004, dearest: 0.01 };

    fn check(objective: Objective, seconds: f64, cost: f64, answered: bool, expected: f64) {
        let served = Served {
            at: 0.0,
            seconds,
            cost,
            answered,
            healthy: 8,
            attempts: 1,
            first: Some(0),
            bad: 0.25,
            first_token: None,
        };
        let lost = loss(objective, &served, &YARDSTICKS);
        assert!((lost - expected).abs() < 1e-12, "{objective:?}, {answered}: {lost} instead of {expected}");
    }

    #[test]
    fn fastest_loses_seconds_and_ten_for_a_failure_however_quick() {
        check(Objective::Fastest, 1.5, 0.02, true, 1.5);
        check(Objective::Fastest, 0.1, 0.0, false, 10.0);
    }

    #[test]
    fn cheapest_loses_the_dollars_of_all_attempts_and_five_dearest_prices_for_a_failure() {
        check(Objective::Cheapest, 30.0, 0.003, true, 0.003);
        check(Objective::Cheapest, 30.0, 0.003, false, 0.053);
    }

    #[test]
    fn balanced_loses_half_of_each_relative_to_the_median_and_three_for_a_failure() {
        check(Objective::Balanced, 1.0, 0.008, true, 0.25 + 1.0);
        check(Objective::Balanced, 1.0, 0.008, false, 0.25 + 1.0 + 3.0);
    }

    #[test]
    fn reliable_loses_the_true_probability_that_its_first_choice_was_bad_whatever_came_of_it() {
        check(Objective::Reliable, 9.0, 0.1, true, 0.25);
        check(Objective::Reliable, 9.0, 0.1, false, 0.25);
    }
}
