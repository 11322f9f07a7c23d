//! What a run cost, by objective.
//!
//! | objective | loss of a request | a request nobody answered |
//! |---|---|---|
//! | fastest | seconds to the last byte | 10 |
//! | cheapest | dollars of all its attempts | 5 × the dearest endpoint's price more |
//! | balanced | ½ time ÷ median + ½ cost ÷ median | 3 more |
//! | reliable | true probability that the first choice fails or takes over 2 s | the same |
//!
//! Medians are those over the eight endpoints for this very request, on a good day and alone.

use pointsman_actors::domain::Objective;

use crate::{
    request::Request,
    world::{ENDPOINTS, World},
};

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
    /// Whether an endpoint stood there that would have answered.
    pub avoidable: bool,
    /// Attempts, hedges included.
    pub attempts: u32,
    /// Where it was tried first.
    pub first: Option<usize>,
    /// True probability that the first choice failed or took too long.
    pub bad: f64,
}

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
    /// Those of a request with an answer of so many tokens.
    #[must_use]
    pub fn of(world: &World, request: &Request, answer: f64) -> Yardsticks {
        let quiet = |endpoint: usize| world.good_day(endpoint).mean_time(request.prompt, answer);
        let times = std::array::from_fn(quiet);
        let costs: [f64; ENDPOINTS] = std::array::from_fn(|endpoint| world.cost(endpoint, request, answer));
        let dearest = costs.iter().copied().fold(0.0, f64::max);
        Yardsticks { time: median(times), cost: median(costs), dearest }
    }
}

fn median(mut values: [f64; ENDPOINTS]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    0.5 * (values[ENDPOINTS / 2 - 1] + values[ENDPOINTS / 2])
}

/// The loss of a request.
#[must_use]
pub fn loss(objective: Objective, served: &Served, yardsticks: &Yardsticks) -> f64 {
    let failed = if served.answered { 0.0 } else { 1.0 };
    match objective {
        Objective::Fastest if served.answered => served.seconds,
        Objective::Fastest => FAILED_SECONDS,
        Objective::Cheapest => served.cost + failed * FAILED_PRICES * yardsticks.dearest,
        Objective::Balanced => {
            0.5 * served.seconds / yardsticks.time + 0.5 * served.cost / yardsticks.cost + failed * FAILED_BALANCED
        }
        Objective::Reliable => served.bad,
    }
}
