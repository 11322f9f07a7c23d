//! How soon an endpoint that became five times faster is used.
//!
//! The endpoint is one that was tried a few times and then left alone because others are better. It counts as used from the
//! half-life on in which it gets a tenth of the first attempts.

use pointsman_domain::{Objective, RoutingPolicy};

use crate::{
    engine::{self, Run},
    request::{Aim, arrivals},
    rules::Kind,
    scenario::{self, Scenario},
    sheet::Sheet,
    world::{Effect, Event, HALF_LIFE, World},
};

/// Times by which the endpoint becomes faster.
const FACTOR: f64 = 5.0;
/// Share of the first attempts in a half-life from which the endpoint counts as used.
const USED: f64 = 0.1;
/// Half-lives after the improvement at which is counted.
const AFTER: [usize; 5] = [1, 2, 3, 5, 10];
/// Half-lives before the improvement: long enough to be learned and left alone.
const BEFORE: usize = 10;
/// Requests per second, rarely to ordinarily.
const RATES: [f64; 3] = [0.25, 1.0, 4.0];
/// How many endpoints are better before the improvement.
const BETTER: [usize; 3] = [2, 4, 7];

/// In how many of the worlds of these seeds the endpoint is still unused, by requests per second.
#[must_use]
pub fn run(objective: Objective, seeds: &[u64], policy: &RoutingPolicy) -> Sheet {
    let title = format!("{}: share of {} runs in which it is still unused", objective.as_str(), seeds.len());
    let header = AFTER.map(|after| format!("{after} half-lives"));
    let mut sheet =
        Sheet::new(title, ["requests/s", "better before"].into_iter().chain(header.iter().map(String::as_str)));
    for (rate, better) in RATES.into_iter().flat_map(|rate| BETTER.map(|better| (rate, better))) {
        let used = seeds.iter().map(|seed| half_lives(objective, rate, better, *seed, policy));
        let used: Vec<Option<usize>> = used.collect();
        let shares = AFTER.map(|after| format!("{:.0} %", 100.0 * unused(&used, after)));
        sheet.row([rate.to_string(), better.to_string()].into_iter().chain(shares));
    }
    sheet
}

/// Share of runs in which the endpoint was not used within so many half-lives.
#[must_use]
pub fn unused(used: &[Option<usize>], after: usize) -> f64 {
    used.iter().filter(|used| used.is_none_or(|used| used >= after)).count() as f64 / used.len().max(1) as f64
}

/// Whole half-lives from the improvement until the endpoint is used; `None` if it never is.
#[must_use]
pub fn half_lives(objective: Objective, rate: f64, better: usize, seed: u64, policy: &RoutingPolicy) -> Option<usize> {
    let (world, endpoint) = improving(objective, rate, better, seed);
    let run = engine::run(&world, &mut *Kind::Pointsman.rule(&world, policy));
    (0..AFTER[AFTER.len() - 1]).find(|half_life| share(&run, endpoint, BEFORE + half_life) >= USED)
}

/// The share of the first attempts in this half-life that went there.
fn share(run: &Run, endpoint: usize, half_life: usize) -> f64 {
    let firsts = run.attempts.iter().filter(|tried| tried.first && (tried.at / HALF_LIFE) as usize == half_life);
    let (all, there) =
        firsts.fold((0_u32, 0_u32), |(all, there), tried| (all + 1, there + u32::from(tried.endpoint == endpoint)));
    f64::from(there) / f64::from(all.max(1))
}

/// A world in which nothing else happens, and the endpoint that becomes faster.
fn improving(objective: Objective, rate: f64, better: usize, seed: u64) -> (World, usize) {
    let aim = Aim::All(objective);
    let mut world = World::draw(Scenario::Stationary, aim, seed);
    let endpoint = scenario::wanted(&world, objective)[better];
    let from = BEFORE as f64 * HALF_LIFE;
    let to = from + AFTER[AFTER.len() - 1] as f64 * HALF_LIFE;
    world.span.seconds = to;
    world.requests = arrivals(seed, aim, rate, to);
    world.events = vec![Event { endpoint, from, to, effect: Effect::Slow(1.0 / FACTOR) }];
    (world, endpoint)
}
