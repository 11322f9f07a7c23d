//! Whether estimated times hold where traffic moves to an endpoint that slows down or refuses requests: a world is run under one
//! configuration, its records are read under another one, in which the endpoint is cheaper, and it is really run under that, too.

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
    rules::{Logged, catalog, logged, policy},
    scenario::Scenario,
    sheet::Sheet,
    world::{Effect, Event, World},
};

/// Where times depend on load.
const SCENARIOS: [Scenario; 2] = [Scenario::Queueing, Scenario::Limited];
/// How many times its traffic the endpoint is to get.
const SHIFTS: [f64; 2] = [1.2, 5.0];
/// Share of the requests that the endpoint has before, at least and at most: enough to be known, and little enough to grow fivefold.
const SHARES: [f64; 2] = [0.03, 0.17];
/// More than the usual noise, so that the records say something of the other configuration.
const EXPLORATION: f64 = 1.0;
/// A limited endpoint takes so many times the requests that it gets before.
const LIMIT: f64 = 2.5;
/// One of so many requests counts in an estimate, and in the search for a price: their probabilities take most of the time.
const EVERY: usize = 4;
const EVERY_OF_SEARCH: usize = 40;
/// The least factor on a price, and halvings of the range that are tried.
const LEAST_PRICE: f64 = 0.01;
const STEPS: u32 = 7;
/// By how much the growth may differ from what is asked for, as a factor.
const NEAR: f64 = 1.15;

/// What the records of a world say of the mean time of answers, and what it came to.
#[derive(Debug, Clone)]
pub struct Judged {
    /// How many times its traffic the endpoint would get.
    pub growth: f64,
    /// The estimate.
    pub estimated: Estimated,
    /// The change, as a share, when the world was run.
    pub truth: f64,
}

impl Judged {
    /// Whether the estimate is refused because of the traffic that moves.
    #[must_use]
    pub fn is_refused_for_shift(&self) -> bool {
        self.estimated.refusals.iter().any(|finding| matches!(finding, Finding::Shifted { .. }))
    }

    /// Whether the interval holds the truth; `None` without one.
    #[must_use]
    pub fn covers(&self) -> Option<bool> {
        self.estimated.interval.map(|[least, most]| (least..=most).contains(&self.truth))
    }
}

/// Runs a world under both configurations. `None` if no endpoint can grow by this factor.
#[must_use]
pub fn judge(scenario: Scenario, shift: f64, seed: u64) -> Option<Judged> {
    let policy = RoutingPolicy { exploration: EXPLORATION, ..policy() };
    let mut world = World::draw(scenario, Aim::All(Objective::Balanced), seed);
    let mut log = logged(&world, policy.clone());
    let (endpoint, share) = growing(&world, &log.run)?;
    if scenario == Scenario::Limited {
        let rate = LIMIT * share * world.requests.len() as f64 / world.span.seconds;
        world.events.insert(0, Event { endpoint, from: 0.0, to: f64::INFINITY, effect: Effect::Limits(rate) });
        log = logged(&world, policy.clone());
    }
    let records = generations(&log);
    let id = log.catalog.endpoints[endpoint].id;
    let factor =
        price_factor(shift, |factor| growth(&records, &comparison(&log, &priced(&world, endpoint, factor)), id))?;
    let other = priced(&world, endpoint, factor);
    let comparison = comparison(&log, &other);
    let growth = growth(&records, &comparison, id);
    let estimated = estimated(&records, &comparison)?;
    let [before, after] = [log.run, logged(&other, policy).run].map(|run| means(&run)[2]);
    Some(Judged { growth, estimated, truth: after / before - 1.0 })
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
    for (id, generation) in records.iter().step_by(EVERY) {
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
        "runs",
        "refused for that",
        "refused otherwise",
        "intervals that hold the truth",
        "off where refused for that",
        "off otherwise",
    ];
    let mut sheet = Sheet::new(title, header);
    for scenario in SCENARIOS {
        for shift in SHIFTS {
            let judged: Vec<Judged> = seeds.iter().filter_map(|seed| judge(scenario, shift, *seed)).collect();
            sheet.row(row(&judged, format!("{}, {shift} times", scenario.name())));
        }
    }
    sheet
}

fn row(judged: &[Judged], name: String) -> Vec<String> {
    let percent = |part: usize, whole: usize| match whole {
        0 => "–".to_owned(),
        _ => format!("{:.0} %", 100.0 * part as f64 / whole as f64),
    };
    let (moved, rest): (Vec<&Judged>, Vec<&Judged>) = judged.iter().partition(|one| one.is_refused_for_shift());
    let covered: Vec<bool> = rest.iter().filter_map(|one| one.covers()).collect();
    let off = |of: &[&Judged]| {
        let sum: f64 = of.iter().map(|one| (one.estimated.change - one.truth).abs()).sum();
        if of.is_empty() { "–".to_owned() } else { format!("{:.1} points", 100.0 * sum / of.len() as f64) }
    };
    vec![
        name,
        judged.len().to_string(),
        percent(moved.len(), judged.len()),
        percent(rest.len() - covered.len(), judged.len()),
        percent(covered.iter().filter(|covered| **covered).count(), covered.len()),
        off(&moved),
        off(&rest),
    ]
}
