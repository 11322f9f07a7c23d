//! How well predictions hold in stationary worlds: seeded log-normal endpoints in virtual time, chosen and
//! observed by the same core that serves.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use pointsman_domain::{EventKind, Evidence, Failure, FailureKind, Objective, Query, RoutingPolicy, Tick};
use pointsman_routing::{
    decide::decide,
    stats::{Accuracy, Calibrations, Claim, LiveBoard, LiveView, Statistics, splitmix64},
};

use crate::routing_world::World;

/// How an endpoint answers: nothing about it changes with time or load.
#[derive(Clone, Copy)]
struct Nature {
    /// Median seconds to the first token, and the spread of its logarithm.
    first: f64,
    sigma: f64,
    /// Median tokens a second, and the spread of its logarithm.
    pace: f64,
    pace_sigma: f64,
    /// Share of attempts that fail.
    fails: f64,
}

/// Dice that give the same numbers again.
struct Dice(u64);

impl Dice {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(1);
        (splitmix64(self.0) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

/// What traffic is like.
#[derive(Clone, Copy)]
struct Traffic {
    streamed: bool,
    /// Requests a second.
    rate: f64,
    requests: u32,
    objective: Objective,
    seed: u64,
}

const STREAMS: Traffic = Traffic { streamed: true, rate: 2.0, requests: 6000, objective: Objective::Fastest, seed: 1 };

/// What will happen.
enum Due {
    Arrival,
    FirstToken(usize),
    End(usize, EventKind),
}

/// What will happen, soonest first.
#[derive(Default)]
struct Calendar {
    order: BinaryHeap<Reverse<(Tick, usize)>>,
    entries: Vec<Option<Due>>,
}

impl Calendar {
    fn plan(&mut self, seconds: f64, due: Due) {
        self.order.push(Reverse((Tick((seconds * 1e6) as u64), self.entries.len())));
        self.entries.push(Some(due));
    }

    fn next(&mut self) -> Option<(Tick, Due)> {
        let Reverse((when, entry)) = self.order.pop()?;
        Some((when, self.entries[entry].take()?))
    }
}

/// Serves the traffic at endpoints of these natures, and gives how predictions held over the last hour.
fn serve(natures: &[Nature], traffic: Traffic) -> Calibrations {
    let names: Vec<String> = (0..natures.len()).map(|i| format!("a/m{i}@p{i} unseen")).collect();
    let world = World::of(&names.join(" | "));
    let query = Query {
        streamed: traffic.streamed,
        prompt_tokens: 100,
        max_tokens: None,
        ..world.query(traffic.objective, "")
    };
    let mut statistics = Statistics::new(world.snapshot.catalog.clone(), world.snapshot.policy.clone());
    let board = LiveBoard::new(world.catalog(), traffic.seed);
    let mut dice = Dice(traffic.seed << 32);
    let mut calendar = Calendar::default();
    let mut arrival = 0.0;
    for _ in 0..traffic.requests {
        arrival += -dice.uniform().max(1e-12).ln() / traffic.rate;
        calendar.plan(arrival, Due::Arrival);
    }
    let (mut view, mut version, mut now) = (LiveView::default(), 1, Tick(0));
    let mut claims: Vec<Option<Claim>> = Vec::new();
    while let Some((when, due)) = calendar.next() {
        now = when;
        let seconds = now.0 as f64 / 1e6;
        match due {
            Due::Arrival => {
                version += 1;
                board.refresh(now, &mut view);
                let snapshot = statistics.snapshot(version);
                let Ok(decision) = decide(&snapshot, &view, &query, now, Some(splitmix64(version))) else { continue };
                let chosen = &decision.candidates[0];
                let claim = board.claim(chosen.index, now, chosen).expect("the first choice is free");
                let (first, end, kind) = fate(natures[chosen.index as usize], traffic.streamed, &mut dice);
                if traffic.streamed && first < end {
                    calendar.plan(seconds + first, Due::FirstToken(claims.len()));
                }
                calendar.plan(seconds + end, Due::End(claims.len(), kind));
                claims.push(Some(claim));
            }
            Due::FirstToken(claim) => {
                let Some(claim) = &claims[claim] else { continue };
                board.first_token(claim, now);
                statistics.apply(&claim.event(now, EventKind::FirstToken { prompt_tokens: 100 }));
            }
            Due::End(claim, kind) => {
                let claim = claims[claim].take().expect("each ends once");
                statistics.apply(&board.finish(claim, now, kind, &RoutingPolicy::default()).event);
            }
        }
    }
    statistics.calibrations(now)
}

/// Seconds to the first token and to the end, and which end.
fn fate(nature: Nature, streamed: bool, dice: &mut Dice) -> (f64, f64, EventKind) {
    if dice.uniform() < nature.fails {
        let failure =
            Failure { kind: FailureKind::Server, status: Some(500), retry_after: None, evidence: Evidence::None };
        return (0.05, 0.05, EventKind::Failed { failure, had_content: false });
    }
    let first = nature.first * (nature.sigma * dice.normal()).exp();
    let tokens = 20.0 + 380.0 * dice.uniform().powi(2);
    let total = first + tokens.floor() / (nature.pace * (nature.pace_sigma * dice.normal()).exp());
    let whole = Duration::from_secs_f64(total);
    let kind = EventKind::Completed {
        streamed,
        first_token: if streamed { Duration::from_secs_f64(first) } else { whole },
        total: whole,
        prompt_tokens: 100,
        completion_tokens: tokens as u32,
        max_tokens: None,
        prompt_ratio: None,
        hidden_tokens: 0,
        cost: Some((100.0 * 1.0 + tokens.floor() * 2.0) / 1e6),
    };
    (first, total, kind)
}

const STEADY: Nature = Nature { first: 0.3, sigma: 0.3, pace: 80.0, pace_sigma: 0.15, fails: 0.0 };

fn pool(sigma: f64) -> [Nature; 4] {
    let of = |first, pace| Nature { first, pace, sigma, pace_sigma: sigma / 2.0, ..STEADY };
    [of(0.3, 80.0), of(0.35, 90.0), of(0.6, 200.0), of(0.5, 60.0)]
}

/// Sixteen hundred requests and more.
fn pools() -> impl Iterator<Item = (f64, Traffic)> {
    let rates = [(0.5, 1650), (4.0, 8000)];
    let worlds = [0.15, 0.3, 0.5].into_iter().flat_map(move |sigma| rates.map(|rate| (sigma, rate)));
    (1..).zip(worlds).map(|(seed, (sigma, (rate, requests)))| (sigma, Traffic { rate, requests, seed, ..STREAMS }))
}

#[test]
fn medians_of_first_tokens_are_nearly_as_good_as_a_perfect_predictors() {
    for (sigma, traffic) in pools() {
        let held = serve(&pool(sigma), traffic).overall.first_token;
        let (error, bias) = (held.median_error.expect("streams"), held.bias.expect("streams"));
        assert!(error <= 1.05 * 0.6745 * sigma + 0.005 && error <= 0.35, "σ {sigma}: {held:?}");
        assert!(bias.abs() < 0.05, "σ {sigma}: {held:?}");
    }
}

#[test]
fn totals_hold_for_the_tokens_that_came_streamed_or_not() {
    for (sigma, traffic) in pools().flat_map(|(s, t)| [(s, t), (s, Traffic { streamed: false, ..t })]) {
        let held = serve(&pool(sigma), traffic).overall.total;
        assert!(held.median_error.expect("answers") <= 0.6745 * sigma, "σ {sigma} {}: {held:?}", traffic.streamed);
        assert!(held.bias.expect("answers").abs() < 0.05, "σ {sigma} {}: {held:?}", traffic.streamed);
    }
}

#[test]
fn published_95th_percentiles_hold_93_to_97_percent_of_the_time() {
    let holds = |held: Accuracy| (0.93..=0.97).contains(&held.within_p95.expect("answers"));
    for (sigma, traffic) in pools() {
        let streams = serve(&pool(sigma), traffic).overall;
        assert!(holds(streams.first_token) && holds(streams.total), "σ {sigma}: {streams:?}");
        let plain = serve(&pool(sigma), Traffic { streamed: false, ..traffic }).overall;
        assert!(holds(plain.total), "σ {sigma}, plain: {plain:?}");
        assert_eq!(plain.first_token.samples, 0, "plain answers show only their total");
    }
}

#[test]
fn as_many_attempts_fail_as_were_expected_to() {
    let of = |fails| Nature { fails, ..STEADY };
    let all = serve(&[of(0.05), of(0.1), of(0.2)], Traffic { objective: Objective::Reliable, ..STREAMS });
    let failures = all.overall.failures;
    assert!(failures.attempts > 5000 && failures.seen > 200, "{failures:?}");
    let ratio = failures.expected / failures.seen as f64;
    assert!((0.8..=1.25).contains(&ratio), "{ratio}: {failures:?}");
    // No better can be had by somebody who knew every endpoint's true rate.
    let known: f64 = [0.05, 0.1, 0.2]
        .iter()
        .zip(&all.endpoints)
        .map(|(rate, it)| it.calibration.failures.attempts as f64 * rate * (1.0 - rate))
        .sum();
    let brier = failures.brier.expect("attempts");
    assert!(brier < 1.15 * known / failures.attempts as f64, "{brier}, {known}");
}

#[test]
fn dollars_come_to_what_was_predicted_and_providers_sum_up_their_endpoints() {
    let all = serve(&pool(0.3), Traffic { objective: Objective::Balanced, ..STREAMS });
    let cost = all.overall.cost;
    assert!((cost.predicted / cost.actual - 1.0).abs() < 0.05, "{cost:?}");
    assert!(all.overall.output_tokens.samples > 5000 && all.overall.unmeasured < 20, "{:?}", all.overall);
    for (endpoint, provider) in all.endpoints.iter().zip(&all.providers) {
        assert_eq!(endpoint.calibration, *provider, "one endpoint each");
    }
    let samples: u64 = all.endpoints.iter().map(|it| it.calibration.total.samples).sum();
    assert_eq!(samples, all.overall.total.samples);
}
