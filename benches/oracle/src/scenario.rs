//! What happens to the endpoints: the twelve kinds of trouble, and how each is drawn from a seed.
//!
//! Events last 3 to 10 half-lives of the statistics (60 s) and hit those the run's objective would choose: trouble
//! at an endpoint nobody wants would measure nothing.

use pointsman_domain::Objective;

use crate::{
    dice::Dice,
    request::{Aim, arrivals},
    traffic::{self, Traffic},
    world::{ENDPOINTS, Effect, Endpoint, Event, Span, WIDE, World},
};

/// Requests per second, ordinarily and where load is the matter.
const RATE: f64 = 4.0;
const HIGH_RATE: f64 = 8.0;
/// Probability that an event hits a second endpoint too.
const SECOND_VICTIM: f64 = 0.4;

/// A kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Nothing happens; first tokens have σ 0.3 to 0.9.
    Stationary,
    /// Suddenly 3 to 8 times as slow.
    Slowdown,
    /// Growing to 3 to 8 times as slow, and back.
    Gradual,
    /// A third of the answers is a 500.
    Brownout,
    /// Token buckets: a 429 with `Retry-After` for everything beyond.
    Limited,
    /// Connections are refused.
    Refused,
    /// Connections are taken and nothing comes.
    Hang,
    /// A 500 at once.
    Errors,
    /// Flat latency up to a few requests in flight, then a power of them.
    Queueing,
    /// Half of the endpoints: quick first token, slow tokens; the others the other way round.
    Tokens,
    /// Latency goes up and down, at each endpoint at another time.
    Waves,
    /// Dead and alive about once per half-life.
    Flapping,
}

impl Scenario {
    /// All of them, as in tables.
    pub const ALL: [Scenario; 12] = [
        Scenario::Stationary,
        Scenario::Slowdown,
        Scenario::Gradual,
        Scenario::Brownout,
        Scenario::Limited,
        Scenario::Refused,
        Scenario::Hang,
        Scenario::Errors,
        Scenario::Queueing,
        Scenario::Tokens,
        Scenario::Waves,
        Scenario::Flapping,
    ];

    /// Its name on the command line and in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scenario::Stationary => "stationary",
            Scenario::Slowdown => "slowdown",
            Scenario::Gradual => "gradual",
            Scenario::Brownout => "brownout",
            Scenario::Limited => "limited",
            Scenario::Refused => "refused",
            Scenario::Hang => "hang",
            Scenario::Errors => "errors",
            Scenario::Queueing => "queueing",
            Scenario::Tokens => "tokens",
            Scenario::Waves => "waves",
            Scenario::Flapping => "flapping",
        }
    }

    /// Whether its events make an endpoint dead, so that detection and recovery can be timed.
    #[must_use]
    pub const fn is_outage(self) -> bool {
        matches!(self, Scenario::Refused | Scenario::Hang | Scenario::Errors)
    }

    fn effect(self, dice: &mut Dice, rate: f64, half_life: f64) -> Option<Effect> {
        Some(match self {
            Scenario::Slowdown => Effect::Slow(dice.ratio(3.0, 8.0)),
            Scenario::Gradual => Effect::Ramp(dice.ratio(3.0, 8.0)),
            Scenario::Brownout => Effect::Fails(1.0 / 3.0),
            Scenario::Limited => Effect::Limits(rate * dice.ratio(0.1, 0.5)),
            Scenario::Refused => Effect::Refuses,
            Scenario::Hang => Effect::Hangs,
            Scenario::Errors => Effect::Fails(1.0),
            Scenario::Flapping => Effect::Flaps(half_life * dice.ratio(0.7, 1.4)),
            Scenario::Stationary | Scenario::Queueing | Scenario::Tokens | Scenario::Waves => return None,
        })
    }
}

impl World {
    /// The world of this seed, with drawn requests.
    #[must_use]
    pub fn draw(scenario: Scenario, aim: Aim, seed: u64) -> World {
        World::with(Traffic::Poisson, scenario, aim, seed)
    }

    /// The world of this seed, with requests from here.
    #[must_use]
    pub fn with(traffic: Traffic, scenario: Scenario, aim: Aim, seed: u64) -> World {
        draw(traffic, scenario, aim, seed, Span::default())
    }
}

/// The world of this seed.
#[must_use]
pub fn draw(traffic: Traffic, scenario: Scenario, aim: Aim, seed: u64, span: Span) -> World {
    let mut dice = Dice::new(seed, 0x0e1d);
    let rate = if scenario == Scenario::Queueing { HIGH_RATE } else { RATE };
    let endpoints = (0..ENDPOINTS).map(|position| endpoint(scenario, position, span.half_life, &mut dice)).collect();
    let requests = match traffic {
        Traffic::Poisson => arrivals(seed, aim, rate, span.seconds),
        Traffic::Trace(hour, pace) => traffic::arrivals(hour, pace, seed, aim, rate, span.seconds),
    };
    let rate = if traffic == Traffic::Poisson { rate } else { requests.len() as f64 / span.seconds };
    let mut world = World { seed, endpoints, events: Vec::new(), requests, span, calls: Vec::new() };
    world.events = events(&world, scenario, aim, rate, &mut Dice::new(seed, 0xe7e7));
    world
}

fn endpoint(scenario: Scenario, position: usize, half_life: f64, dice: &mut Dice) -> Endpoint {
    let price_in = dice.ratio(0.1, 3.0) / 1e6;
    let ordinary = Endpoint {
        median: dice.ratio(0.12, 0.60),
        sigma: dice.between(0.3, 0.9),
        slope: dice.ratio(5e-6, 1e-4),
        per_token: 1.0 / dice.ratio(100.0, 500.0),
        price_in,
        price_out: price_in * dice.between(2.0, 5.0),
        price_cached: None,
        failure: dice.ratio(0.001, 0.02),
        knee: WIDE,
        exponent: 1.0,
        wave: None,
    };
    let (knee, exponent) = (dice.between(2.0, 6.0), dice.between(0.8, 1.6));
    let (high, phase) = (dice.between(0.3, 0.9), dice.uniform());
    let period = half_life * dice.between(8.0, 14.0);
    match scenario {
        Scenario::Queueing => Endpoint { knee: knee.round(), exponent, ..ordinary },
        Scenario::Waves => Endpoint { wave: Some((high, period, phase)), ..ordinary },
        Scenario::Tokens if position.is_multiple_of(2) => {
            Endpoint { median: dice.ratio(0.06, 0.15), per_token: 1.0 / dice.ratio(30.0, 80.0), ..ordinary }
        }
        Scenario::Tokens => {
            Endpoint { median: dice.ratio(0.4, 0.9), per_token: 1.0 / dice.ratio(200.0, 500.0), ..ordinary }
        }
        _ => ordinary,
    }
}

/// Events one after the other, with pauses, as long as the run lasts.
fn events(world: &World, scenario: Scenario, aim: Aim, rate: f64, dice: &mut Dice) -> Vec<Event> {
    let Span { half_life, seconds } = world.span;
    let mut events = Vec::new();
    let mut from = half_life * dice.between(2.0, 4.0);
    let mut number = 0;
    while from < seconds - 3.0 * half_life {
        let ranked = wanted(world, aim.objective(number));
        let to = from + half_life * dice.between(3.0, 10.0);
        let first = if dice.uniform() < 0.75 { 0 } else { 1 };
        let second = (dice.uniform() < SECOND_VICTIM).then(|| 1 - first + 2 * dice.below(2));
        for place in std::iter::once(first).chain(second) {
            let Some(effect) = scenario.effect(dice, rate, half_life) else { return events };
            events.push(Event { endpoint: ranked[place], from, to, effect });
        }
        from = to + half_life * dice.between(2.0, 4.0);
        number += 1;
    }
    events
}

/// The endpoints in the order in which an objective would choose them on a good day, for a typical request.
pub(crate) fn wanted(world: &World, objective: Objective) -> Vec<usize> {
    let score = |endpoint: usize| {
        let Endpoint { price_in, price_out, failure, .. } = world.endpoints[endpoint];
        let (time, cost) = (world.truth(endpoint, 0.0, 1).mean_time(600, 75.0), 600.0 * price_in + 75.0 * price_out);
        match objective {
            Objective::Fastest => time,
            Objective::Cheapest => cost,
            Objective::Reliable => failure + 0.02 * time,
            Objective::Balanced => time / 0.7 + cost / 0.0005,
        }
    };
    let mut ranked: Vec<usize> = (0..world.endpoints.len()).collect();
    ranked.sort_by(|a, b| score(*a).total_cmp(&score(*b)));
    ranked
}
