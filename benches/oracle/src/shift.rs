//! Whether estimated times hold where traffic moves to an endpoint that slows down or refuses requests: a world is run under one
//! configuration, its records are read under another one, in which the endpoint is cheaper, and it is really run under that, too.
//!
//! One run tells little: after the first choice that differs the noise of many others falls otherwise. So the truth is the mean over
//! several runs under both, and has an error of its own.

use std::sync::Arc;

use pointsman_domain::{EndpointId, Generation, Objective, RoutingPolicy};
use pointsman_routing::explain::{
    diff::{Calibration, Comparison, LoadSample, Side},
    estimate::{Estimated, Finding, Measure},
};

use crate::{
    engine::Run,
    ledger::{generations, observed},
    regret::means,
    request::Aim,
    rules::{Logged, catalog, drawn, policy},
    scenario::Scenario,
    sheet::Sheet,
    world::{Effect, Event, World},
};

/// Where times depend on load.
const SCENARIOS: [Scenario; 2] = [Scenario::Queueing, Scenario::Limited];
/// How many times its traffic the endpoint is to get.
const SHIFTS: [f64; 2] = [1.2, 5.0];
/// Share of the requests that the endpoint has before, at least and at most: enough to be known, and little enough to grow fivefold.
const SHARES: [f64; 2] = [0.04, 0.16];
/// Share of the choices that is drawn at random, so that the records say something of the other configuration.
const DRAWN: f64 = 0.2;
/// A limited endpoint takes so many times the requests that it gets before.
const LIMIT: f64 = 2.5;
/// One of so many requests counts in an estimate, in the load and in the search for a price: probabilities take most of the time.
const EVERY: usize = 8;
const EVERY_OF_LOAD: usize = 20;
const EVERY_OF_SEARCH: usize = 60;
/// The least factor on a price, and halvings of the range that are tried.
const LEAST_PRICE: f64 = 0.01;
const STEPS: u32 = 6;
/// By how much the growth may differ from what is asked for, as a factor.
const NEAR: f64 = 1.15;
/// Runs under each configuration.
const RUNS: u64 = 3;
/// Standard errors of a 95 % interval.
const Z95: f64 = 1.96;

/// What the records of a world say of the mean time of answers, and what it came to.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The estimate.
    pub estimated: Estimated,
    /// The change, as a share, when the world was run, and its standard error.
    pub truth: [f64; 2],
}

impl Judged {
    /// Whether the estimate is refused because of the traffic that moves.
    #[must_use]
    pub fn is_refused_for_shift(&self) -> bool {
        self.estimated.refusals.iter().any(|finding| matches!(finding, Finding::Shifted { .. }))
    }

    /// By how much the estimate is off.
    fn off(&self) -> f64 {
        (self.estimated.change - self.truth[0]).abs()
    }

    /// Whether the interval, with the error of the truth, holds the truth; `None` without one.
    #[must_use]
    pub fn covers(&self) -> Option<bool> {
        let [least, most] = self.estimated.interval?;
        Some(self.off() <= libm::hypot(0.5 * (most - least), Z95 * self.truth[1]))
    }
}

/// Runs a world under both configurations, for each of these growths. `None` if no endpoint can grow so much.
#[must_use]
pub fn judge(scenario: Scenario, seed: u64) -> [Option<Judged>; SHIFTS.len()] {
    let policy = policy();
    let mut world = World::draw(scenario, Aim::All(Objective::Balanced), seed);
    let mut log = drawn(&world, &policy, DRAWN, 0, 1);
    let Some((endpoint, share)) = growing(&world, &log.run) else { return [None, None] };
    if scenario == Scenario::Limited {
        let rate = LIMIT * share * world.requests.len() as f64 / world.span.seconds;
        world.events.insert(0, Event { endpoint, from: 0.0, to: f64::INFINITY, effect: Effect::Limits(rate) });
        log = drawn(&world, &policy, DRAWN, 0, 1);
    }
    let (records, before) = (generations(&log), times(&world, &policy));
    let id = log.catalog.endpoints[endpoint].id;
    SHIFTS.map(|shift| {
        let growth = |factor: f64| growth(&records, &comparison(&log, &priced(&world, endpoint, factor)), id);
        let factor = price_factor(shift, growth)?;
        let other = priced(&world, endpoint, factor);
        let estimated = estimated(&records, &comparison(&log, &other))?;
        let changes: Vec<f64> =
            times(&other, &policy).iter().zip(&before).map(|(one, before)| one / before - 1.0).collect();
        Some(Judged { estimated, truth: mean_with_error(&changes) })
    })
}

/// Mean times of answers in several runs.
fn times(world: &World, policy: &RoutingPolicy) -> Vec<f64> {
    (1..=RUNS).map(|luck| means(&drawn(world, policy, DRAWN, luck, usize::MAX).run)[2]).collect()
}

fn mean_with_error(values: &[f64]) -> [f64; 2] {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0).max(1.0);
    [mean, (variance / count).sqrt()]
}

/// The endpoint with the share of first attempts that is nearest to the middle of [`SHARES`], and that share.
fn growing(world: &World, run: &Run) -> Option<(usize, f64)> {
    let all = run.served.len().max(1) as f64;
    let share =
        |endpoint: usize| run.served.iter().filter(|served| served.first == Some(endpoint)).count() as f64 / all;
    let off = |share: f64| (share - 0.5 * (SHARES[0] + SHARES[1])).abs();
    let shares = (0..world.endpoints.len()).map(|endpoint| (endpoint, share(endpoint)));
    let fit = shares.filter(|(_, share)| (SHARES[0]..=SHARES[1]).contains(share));
    fit.min_by(|(_, one), (_, other)| off(*one).total_cmp(&off(*other)))
}

fn priced(world: &World, endpoint: usize, factor: f64) -> World {
    let mut world = world.clone();
    world.endpoints[endpoint].price_in *= factor;
    world.endpoints[endpoint].price_out *= factor;
    world
}

fn comparison(log: &Logged, other: &World) -> Arc<Comparison> {
    let after = Side { catalog: Arc::new(catalog(other)), policy: Arc::clone(&log.policy), objective: None };
    Arc::new(Comparison::new(&log.catalog, &log.policy, None, &after))
}

/// How many times its traffic the endpoint would get.
fn growth(records: &[(usize, Generation)], comparison: &Comparison, endpoint: EndpointId) -> f64 {
    let sample = observed(records.iter().step_by(EVERY_OF_SEARCH), comparison);
    let shifts = sample.shifts.growing(sample.len());
    shifts.iter().find(|shift| shift.endpoint == endpoint).map_or(1.0, |shift| shift.factor)
}

/// The factor on the price at which the traffic grows so much.
fn price_factor(shift: f64, growth: impl Fn(f64) -> f64) -> Option<f64> {
    let (mut low, mut high) = (libm::log(LEAST_PRICE), 0.0);
    let mut best = None;
    for _ in 0..STEPS {
        let middle = 0.5 * (low + high);
        let found = growth(libm::exp(middle));
        if (shift / NEAR..shift * NEAR).contains(&found) {
            best = Some(libm::exp(middle));
        }
        *(if found > shift { &mut low } else { &mut high }) = middle;
    }
    best
}

/// The estimate of the mean time, as `pointsman estimate` makes it.
fn estimated(records: &[(usize, Generation)], comparison: &Arc<Comparison>) -> Option<Estimated> {
    let mut sample = observed(records.iter().step_by(EVERY), comparison);
    let mut load = LoadSample::default();
    for (id, generation) in records.iter().step_by(EVERY_OF_LOAD) {
        load.add(generation, comparison, *id as u64, *id as u64);
    }
    let load = load.adjusted(&Calibration::default(), records.len() as u64, || true);
    load.iter().filter(|load| load.is_settled()).for_each(|load| sample.shifts.adjust(&load.loads));
    sample.estimates(|_| String::new()).into_iter().find(|one| one.measure == Measure::Total)
}

/// The table over these seeds.
#[must_use]
pub fn sheet(seeds: &[u64]) -> Sheet {
    let title = "Estimated mean times against worlds that were run after traffic had moved";
    let header = [
        "scenario, traffic of an endpoint",
        "worlds",
        "refused",
        "for the traffic",
        "intervals that hold the truth",
        "change",
        "off",
        "off where refused",
    ];
    let mut sheet = Sheet::new(title, header);
    for scenario in SCENARIOS {
        let judged: Vec<_> = seeds.iter().map(|seed| judge(scenario, *seed)).collect();
        for (place, shift) in SHIFTS.iter().enumerate() {
            let of_shift: Vec<&Judged> = judged.iter().filter_map(|both| both[place].as_ref()).collect();
            sheet.row(row(&of_shift, format!("{}, {shift} times", scenario.name())));
        }
    }
    sheet
}

fn row(judged: &[&Judged], name: String) -> Vec<String> {
    let percent = |part: usize, whole: usize| match whole {
        0 => "–".to_owned(),
        _ => format!("{:.0} %", 100.0 * part as f64 / whole as f64),
    };
    let points = |of: Vec<f64>| match of.len() {
        0 => "–".to_owned(),
        count => format!("{:.1} points", 100.0 * of.iter().sum::<f64>() / count as f64),
    };
    let (refused, told): (Vec<&Judged>, Vec<&Judged>) =
        judged.iter().copied().partition(|one| !one.estimated.refusals.is_empty());
    let covered: Vec<bool> = told.iter().filter_map(|one| one.covers()).collect();
    vec![
        name,
        judged.len().to_string(),
        percent(refused.len(), judged.len()),
        percent(judged.iter().filter(|one| one.is_refused_for_shift()).count(), judged.len()),
        percent(covered.iter().filter(|covered| **covered).count(), covered.len()),
        points(judged.iter().map(|one| one.truth[0].abs()).collect()),
        points(told.iter().map(|one| one.off()).collect()),
        points(refused.iter().map(|one| one.off()).collect()),
    ]
}
