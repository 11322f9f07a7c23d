//! What recorded choices came to beyond better ones.

use std::sync::Arc;

use pointsman_domain::{
    EndpointId, Generation, Objective, QualityFloor, Query, RoutingPolicy, Source, Sourced, Usd, Weights,
};
use pointsman_routing::{
    decide::decide_to_serve,
    explain::{
        diff::Calibration,
        estimate::{Finding, Position, Sample},
        regret::{Hindsight, Observed, Regret, RegretFigure, Regrets, Restriction, Timeline, Yardstick},
    },
};

use crate::{
    routing_diff::{between, recorded},
    routing_world::{NOW, World, code},
};

/// Two endpoints that hardly differ in their scores, so that noise chooses.
const CLOSE: &str = "a/1 300ms 50tps $1/2 w3 ok3 | b/2 320ms 50tps $2/4 w3 ok3";
/// The first one is much faster.
const FAR: &str = "a/1 200ms 100tps $1/2 | b/2 900ms 50tps $2/4";
const SECOND_MS: i64 = 1_000;

/// The request was served as was predicted.
#[expect(clippy::disallowed_methods, reason = "a prediction")]
fn served(world: &World, query: &Query, seed: u64, at_ms: i64) -> Generation {
    let decided = decide_to_serve(&world.snapshot, &world.live, query, NOW, Some(seed));
    let mut generation = Generation { created_ms: at_ms, ..recorded(world, decided, "ok") };
    let predicted = generation.decision.candidates[0].predicted;
    generation.attempts[0].cost = Usd::from_f64(predicted.cost);
    generation.attempts[0].duration_ms = (predicted.total_p50 * 1e3).round() as u64;
    generation
}

fn fastest(world: &World, seed: u64, at_ms: i64) -> Generation {
    served(world, &world.query(Objective::Fastest, ""), seed, at_ms)
}

fn only(world: &World, provider: &str) -> Query {
    let mut query = world.query(Objective::Fastest, "");
    query.routing_mut().provider.only = vec![vec![provider.to_owned()]];
    query
}

/// What the first group of these came to, with what `known` and they themselves knew.
fn review(world: &World, generations: &[Generation], known: &[Generation]) -> Regret {
    let hindsight = Hindsight::new(&world.snapshot.catalog, &world.snapshot.policy);
    let mut timeline = Timeline::default();
    (0..).zip(generations.iter().chain(known)).for_each(|(draw, generation)| timeline.add(generation, draw));
    let mut regrets = Regrets::default();
    for (draw, generation) in (0..).zip(generations) {
        let outcome = regrets.observe(&hindsight, generation, &timeline, Position { draw, cluster: draw });
        assert_eq!(outcome, Observed::Counted);
    }
    regrets.groups(false).remove(0)
}

fn value(figures: [Option<RegretFigure>; 3]) -> [f64; 3] {
    figures.map(|figure| figure.unwrap().value)
}

fn requests(world: &World, count: u64) -> Vec<Generation> {
    (1..=count).map(|seed| fastest(world, seed, seed as i64 * SECOND_MS)).collect()
}

#[test]
fn the_parts_sum_to_the_total_in_every_figure() {
    let world = World::of(CLOSE);
    let later = World::of("a/1 900ms 50tps $1/2 w3 ok3 | b/2 320ms 50tps $2/4 w3 ok3");
    let known = [fastest(&later, 1, 50 * SECOND_MS)];
    let mut all: Vec<Generation> = (1..=300).map(|seed| fastest(&world, seed, seed as i64 * 100)).collect();
    // The first endpoint is as slow as is known later, and some outcomes are as nobody predicted.
    for (n, generation) in all.iter_mut().enumerate() {
        let attempt = &mut generation.attempts[0];
        attempt.duration_ms += if attempt.endpoint == 0 { 600 } else { 0 } + if n % 7 == 0 { 700 } else { 0 };
    }
    let regret = review(&world, &all, &known);
    let total = value(regret.part(Yardstick::Total));
    let parts = [Yardstick::Exploration, Yardstick::Restrictions, Yardstick::Ignorance, Yardstick::Rest];
    for (measure, total) in total.into_iter().enumerate() {
        let sum: f64 = parts.iter().map(|part| value(regret.part(*part))[measure]).sum();
        assert!((sum - total).abs() < 1e-9, "{measure}: {sum} {total}");
    }
    assert!(value(regret.part(Yardstick::Ignorance))[2] > 0.05, "{regret:?}");
    assert!(value(regret.part(Yardstick::Rest))[2].abs() > 1e-4, "what was not predicted is in the rest");
}

#[test]
fn exploration_is_the_cost_of_chance_that_estimates_tell() {
    let world = World::of(CLOSE);
    let all = requests(&world, 200);
    let (comparison, mut sample) = (between(&world, &world), Sample::default());
    for (draw, generation) in (0..).zip(&all) {
        sample.observe(&comparison, generation, &Calibration::default(), Position { draw, cluster: draw });
    }
    let chance = sample.cost_of_chance();
    let regret = review(&world, &all, &[]);
    let [spend, _, seconds] = value(regret.part(Yardstick::Exploration));
    assert!(seconds > 0.0 && (seconds / chance.total - 1.0).abs() < 0.1, "{seconds} {}", chance.total);
    // Estimates count attempts that fail as paid for.
    assert!((spend / chance.spend - 1.0).abs() < 0.05, "{spend} {}", chance.spend);
    let calm = RoutingPolicy { exploration: 0.0, ..RoutingPolicy::default() };
    let still = World::under(CLOSE, calm);
    assert_eq!(value(review(&still, &requests(&still, 50), &[]).part(Yardstick::Exploration)), [0.0; 3]);
}

#[test]
fn a_restriction_costs_what_the_endpoint_that_it_leaves_out_would_have_saved_and_has_its_name() {
    let world = World::of(FAR);
    let all: Vec<Generation> =
        (1..=40).map(|seed| served(&world, &only(&world, "b"), seed, seed as i64 * SECOND_MS)).collect();
    let known = [fastest(&world, 1, 500)];
    let regret = review(&world, &all, &known);
    let [fast, slow] = [0, 1].map(|place| {
        let decision = &known[0].decision;
        decision.candidates[place].predicted.total_p50
    });
    let [_, _, seconds] = value(regret.part(Yardstick::Restrictions));
    assert!((seconds - (slow - fast)).abs() < 0.03, "{seconds} instead of {}", slow - fast);
    let named: Vec<(Restriction, usize)> =
        regret.restricted.iter().map(|one| (one.restriction, one.requests)).collect();
    assert_eq!(named, [(Restriction::Providers, 40)]);
    assert_eq!(regret.restricted[0].figures, regret.part(Yardstick::Restrictions));
    assert_eq!(regret.partial, 0.0);
}

#[test]
fn a_least_quality_is_a_restriction_with_a_name_and_a_cost() {
    let world = World::of("a/1 200ms 100tps $1/2 q0.5 | b/2 900ms 50tps $2/4 q0.9");
    let mut query = Query { task_class: Some(code()), ..world.query(Objective::Fastest, "") };
    query.routing_mut().min_quality = Some(Sourced { value: QualityFloor::Mean(0.7), source: Source::Alias });
    let all: Vec<Generation> = (1..=40).map(|seed| served(&world, &query, seed, seed as i64 * SECOND_MS)).collect();
    let regret = review(&world, &all, &[fastest(&world, 1, 500)]);
    let named: Vec<(&str, usize)> =
        regret.restricted.iter().map(|one| (one.restriction.as_str(), one.requests)).collect();
    assert_eq!(named, [("min_quality", 40)]);
    assert!(regret.restricted[0].figures[2].unwrap().value > 0.5, "{regret:?}");
    assert_eq!(regret.restricted[0].figures, regret.part(Yardstick::Restrictions));
}

#[test]
fn an_endpoint_that_no_record_knows_makes_restrictions_partial_and_costs_nothing() {
    let world = World::of(FAR);
    let all: Vec<Generation> =
        (1..=40).map(|seed| served(&world, &only(&world, "b"), seed, seed as i64 * SECOND_MS)).collect();
    // Knowledge that is older than a minute is none.
    let regret = review(&world, &all, &[fastest(&world, 1, -100_000)]);
    assert_eq!((regret.partial, value(regret.part(Yardstick::Restrictions))), (1.0, [0.0; 3]));
}

#[test]
fn preferences_and_lists_of_models_are_restrictions_too() {
    let world = World::of(FAR);
    let mut query = world.query(Objective::Fastest, "");
    let routing = query.routing_mut();
    routing.provider.order = vec!["b".to_owned()];
    routing.blocked = vec!["a/*".parse().unwrap()];
    let all: Vec<Generation> = (1..=40).map(|seed| served(&world, &query, seed, seed as i64 * SECOND_MS)).collect();
    let regret = review(&world, &all, &[fastest(&world, 1, 500)]);
    let alone = |restriction: Restriction| {
        let found = regret.restricted.iter().find(|one| one.restriction == restriction).unwrap();
        found.figures[2].unwrap().value
    };
    assert!(value(regret.part(Yardstick::Restrictions))[2] > 0.5, "{regret:?}");
    let both = [Restriction::Order, Restriction::Models].map(alone);
    // A model that is allowed again serves second, after the provider that goes first: that helps where the first attempt fails.
    assert!(both.iter().all(|seconds| (0.0..0.01).contains(seconds)), "each stands behind the other: {both:?}");
}

#[test]
fn ignorance_is_what_the_next_minute_would_have_saved_and_says_where_it_brings_no_news() {
    let world = World::of(FAR);
    let slow = World::of("a/1 4000ms 100tps $1/2 | b/2 900ms 50tps $2/4");
    let at = |second: i64| fastest(&world, 1, second * SECOND_MS);
    let known: Vec<Generation> = [30, 45].map(|second| fastest(&slow, 1, second * SECOND_MS)).into();
    let told = review(&world, &[at(1), at(2), at(3)], &known);
    assert!(value(told.part(Yardstick::Ignorance))[2] > 1.5, "{told:?}");
    assert_eq!(told.unforeseen, 0.0);
    let alone = review(&world, &[at(1), at(100)], &[]);
    assert_eq!(alone.unforeseen, 1.0);
    assert_eq!(value(alone.part(Yardstick::Ignorance)), [0.0; 3]);
}

#[test]
fn an_endpoint_that_answers_again_within_the_minute_could_have_been_called() {
    let (world, open) = (World::of(FAR), World::of(&FAR.replace("a/1 200ms", "a/1 200ms open5")));
    let regret = review(&open, &[1, 2].map(|n| fastest(&open, n, SECOND_MS)), &[fastest(&world, 1, 20 * SECOND_MS)]);
    assert!(value(regret.part(Yardstick::Ignorance))[2] > 0.5, "{regret:?}");
}

#[test]
fn what_an_endpoint_cannot_carry_is_no_ignorance() {
    let (world, paced) = (World::of(FAR), World::of(&FAR.replace("a/1 200ms", "a/1 200ms paced5")));
    let all = [1, 2].map(|n| fastest(&paced, n, SECOND_MS));
    let regret = review(&paced, &all, &[fastest(&world, 1, 20 * SECOND_MS)]);
    assert_eq!(value(regret.part(Yardstick::Ignorance))[2], 0.0);
}

#[test]
fn without_chance_no_endpoint_can_be_compared_alone_and_with_it_the_best_is_found() {
    let world = World::of(FAR);
    let refused = review(&world, &requests(&world, 50), &[]).fixed;
    assert!(refused.best.is_none_or(|best| best.endpoint == EndpointId::new("a/1", "a", "")));
    assert!(matches!(refused.refused[&EndpointId::new("b/2", "b", "")], Finding::NoChance), "{:?}", refused.refused);
    let wide = World::under(CLOSE, RoutingPolicy { exploration: 3.0, ..RoutingPolicy::default() });
    let fixed = review(&wide, &requests(&wide, 2_000), &[]).fixed;
    assert_eq!(fixed.compared, 2, "{:?}", fixed.refused);
    let best = fixed.best.unwrap();
    assert_eq!(best.endpoint, EndpointId::new("a/1", "a", ""));
    let RegretFigure { value, interval: [least, most] } = best.figures[2].unwrap();
    let truth = {
        let decision = &fastest(&wide, 1, 0).decision;
        let seconds = |(model, provider): (&str, &str)| {
            let id = EndpointId::new(model, provider, "");
            decision.candidates.iter().find(|one| one.endpoint == id).unwrap().predicted.total_p50
        };
        let chosen =
            |generation: &Generation| if generation.attempts[0].endpoint == 0 { ("a/1", "a") } else { ("b/2", "b") };
        let all = requests(&wide, 2_000);
        all.iter().map(|generation| seconds(chosen(generation))).sum::<f64>() / 2_000.0 - seconds(("a/1", "a"))
    };
    assert!(value > 0.0 && least <= truth && truth <= most, "{truth} outside {least} to {most}");
}

#[test]
fn what_is_best_alone_follows_from_the_ratio_of_the_weights_of_time_and_cost() {
    // The second one is cheaper and a little slower.
    let best = |latency: f64, cost: f64, quality: f64| {
        let weights = Weights { latency, cost, quality };
        let policy = RoutingPolicy { exploration: 3.0, balanced: weights, ..RoutingPolicy::default() };
        let world = World::under("a/1 300ms 50tps $1.2/2.4 w3 ok3 | b/2 330ms 50tps $1/2 w3 ok3", policy);
        let query = Query { weights, ..world.query(Objective::Balanced, "") };
        let all: Vec<Generation> = (1..=2_000).map(|seed| served(&world, &query, seed, seed as i64 * 100)).collect();
        let fixed = review(&world, &all, &[]).fixed;
        assert_eq!(fixed.compared, 2, "{:?}", fixed.refused);
        fixed.best.unwrap().endpoint
    };
    let [quick, cheap] = [("a/1", "a"), ("b/2", "b")].map(|(model, provider)| EndpointId::new(model, provider, ""));
    for (latency, cost, quality) in [(0.5, 0.5, 0.0), (1.0, 1.0, 0.0), (3.0, 3.0, 0.0)] {
        assert_eq!(best(latency, cost, quality), cheap, "{latency} to {cost}");
    }
    assert_eq!(best(0.1, 0.001, 0.9), quick, "quality has no figure, and time counts far more than cost");
}

#[test]
fn an_endpoint_that_cannot_carry_all_requests_is_not_compared_and_the_others_are() {
    let policy = RoutingPolicy { exploration: 3.0, ..RoutingPolicy::default() };
    let world = World::under("a/1 500ms 50tps $1/2 w3 ok3 k3 knee4 | b/2 320ms 50tps $2/4 w3 ok3", policy);
    let fixed = review(&world, &requests(&world, 2_000), &[]).fixed;
    let [full, other] = [("a/1", "a"), ("b/2", "b")].map(|(model, provider)| EndpointId::new(model, provider, ""));
    assert_eq!(fixed.best.as_ref().map(|best| best.endpoint), Some(other));
    assert_eq!(fixed.refused.keys().collect::<Vec<_>>(), [&full]);
    let Finding::Shifted { factor, in_flight: [before, after, knee], .. } = fixed.refused[&full] else {
        panic!("{:?}", fixed.refused)
    };
    assert!(before == 3.0 && knee == 4.0 && after > knee && (after / before - factor).abs() < 1e-9, "{fixed:?}");
}

#[test]
fn a_timeline_keeps_and_counts_one_piece_of_knowledge_for_an_endpoint_and_ten_seconds() {
    let world = World::of(FAR);
    let of = |seconds: &[i64]| {
        let mut timeline = Timeline::default();
        for (draw, second) in (0..).zip(seconds) {
            timeline.add(&fastest(&world, draw + 1, second * SECOND_MS), draw);
        }
        timeline
    };
    assert_eq!((of(&[]).kept(), of(&[1]).kept(), of(&[1, 2, 9]).kept(), of(&[1, 11, 12]).kept()), (0, 2, 2, 4));
    let mut timeline = of(&[1, 11]);
    timeline.merge(of(&[5, 25]));
    assert_eq!(timeline.kept(), 6, "one time is in both");
}

#[test]
fn groups_are_aliases_and_objectives_and_few_requests_are_not_enough() {
    let world = World::of(FAR);
    let hindsight = Hindsight::new(&world.snapshot.catalog, &world.snapshot.policy);
    let timeline = Timeline::default();
    let fill = |from: u64, to: u64| {
        let mut regrets = Regrets::default();
        for n in from..to {
            let objective = if n.is_multiple_of(3) { Objective::Cheapest } else { Objective::Fastest };
            let generation = served(&world, &world.query(objective, ""), n + 1, n as i64 * 1_000_000);
            regrets.observe(&hindsight, &generation, &timeline, Position { draw: n, cluster: n });
        }
        regrets
    };
    let whole = fill(0, 330).groups(true);
    assert_eq!(fill(0, 330).groups_while(true, || false), None, "a review that is cancelled has no figures");
    let summary = |regret: &Regret| (regret.group.objective, regret.group.day_ms.is_some(), regret.is_enough());
    assert_eq!(summary(&whole[0]), (Objective::Fastest, false, true));
    let days: usize = whole[1..].iter().take_while(|one| one.group.day_ms.is_some()).map(|day| day.requests).sum();
    assert_eq!((days, whole[0].requests), (220, 220));
    let cheapest = whole.iter().find(|one| one.group.objective == Objective::Cheapest).unwrap();
    assert_eq!((cheapest.requests, cheapest.is_enough()), (110, false));
    let mut parts = fill(150, 330);
    parts.merge(fill(0, 150));
    assert_eq!(parts.groups(true), whole, "the same bits in any order");
}

#[test]
fn a_request_that_no_endpoint_could_serve_counts_nowhere() {
    let world = World::of("a/1 off");
    let hindsight = Hindsight::new(&world.snapshot.catalog, &world.snapshot.policy);
    let generation = recorded(&world, world.decide(&world.query(Objective::Fastest, "")), "");
    let mut regrets = Regrets::default();
    let position = Position { draw: 1, cluster: 1 };
    let outcome = regrets.observe(&hindsight, &generation, &Timeline::default(), position);
    assert_eq!((outcome, regrets.groups(false).len()), (Observed::Unserved, 0));
    let other = World::of(FAR);
    let mut changed = fastest(&other, 1, 1);
    Arc::make_mut(&mut changed.decision).candidates[0].inputs.intercept += 0.5;
    let hindsight = Hindsight::new(&other.snapshot.catalog, &other.snapshot.policy);
    let outcome = Regrets::default().observe(&hindsight, &changed, &Timeline::default(), position);
    assert_eq!(outcome, Observed::Different);
}

#[test]
fn an_endpoint_that_stays_closed_widens_the_interval_to_what_it_would_have_saved() {
    let open = World::of(&FAR.replace("a/1 200ms", "a/1 200ms open5"));
    let all: Vec<Generation> = (1..=40).map(|n| fastest(&open, n, n as i64 * SECOND_MS)).collect();
    let figure = |known: &[Generation]| review(&open, &all, known).part(Yardstick::Ignorance)[2].unwrap();
    let unknown = figure(&[]);
    assert!(unknown.value.abs() < 1e-9 && unknown.interval[0] > -0.1 && unknown.interval[1] > 0.5, "{unknown:?}");
    let known = figure(&[10, 30, 50].map(|second| fastest(&World::of(FAR), 1, second * SECOND_MS)));
    assert!(known.value > 0.5 && known.interval[1] < known.value + 0.2, "it is told that it answers: {known:?}");
}

/// The first one is much cheaper.
const CHEAP: &str = "a/1 200ms 100tps $1/2 | b/2 200ms 100tps $9/18";

/// Dollars of ignorance of requests while the breaker of the cheap endpoint is open, with attempts at it at these seconds.
fn while_closed(seconds: std::ops::RangeInclusive<i64>, tried: &[(i64, &str)]) -> RegretFigure {
    let (world, closed) = (World::of(CHEAP), World::of(&CHEAP.replace("a/1 200ms", "a/1 200ms open30")));
    let query = closed.query(Objective::Cheapest, "");
    let all: Vec<Generation> =
        seconds.map(|second| served(&closed, &query, second.unsigned_abs(), second * SECOND_MS)).collect();
    let attempt = |&(second, course): &(i64, &str)| {
        let decided = decide_to_serve(&world.snapshot, &world.live, &query, NOW, Some(1));
        Generation { created_ms: second * SECOND_MS, ..recorded(&world, decided, course) }
    };
    let tried: Vec<Generation> = tried.iter().map(attempt).collect();
    review(&closed, &all, &tried).part(Yardstick::Ignorance)[0].unwrap()
}

#[test]
fn a_breaker_that_keeps_away_from_an_endpoint_that_fails_in_part_costs_what_attempts_at_it_say() {
    let course = |second: i64, fails: bool| (second, if fails { "500, ok" } else { "ok" });
    let in_part: Vec<(i64, &str)> = (0..12).map(|n| course(5 * n, n % 3 == 1)).collect();
    let cost = while_closed(1..=60, &in_part);
    assert!(
        (0.005..0.008).contains(&cost.value) && cost.interval[0] > 0.0,
        "two of three attempts are answered: {cost:?}"
    );
    let dead: Vec<(i64, &str)> = (0..12).map(|n| course(5 * n, true)).collect();
    let nothing = while_closed(1..=60, &dead);
    assert!(nothing.value.abs() < 0.000_5 && nothing.interval[1] < 0.003, "the breaker was right: {nothing:?}");
}

#[test]
fn between_a_failure_and_a_later_answer_the_interval_holds_both_ends() {
    let ends: Vec<(i64, &str)> = [(-20, "500, ok"), (80, "ok")].into_iter().flat_map(|attempt| [attempt; 3]).collect();
    let unknown = while_closed(20..=40, &ends);
    assert!(unknown.interval[0] < 0.001 && unknown.interval[1] > 0.009, "{unknown:?}");
}

#[test]
fn where_the_better_choice_could_not_carry_what_moves_to_it_there_is_no_total() {
    let world = World::of("a/1 900ms 100tps $1/2 | b/2 600ms 100tps $2/4 k4 knee9");
    let all: Vec<Generation> = (1..=40).map(|n| fastest(&world, n, n as i64 * SECOND_MS)).collect();
    let crowded = World::of("a/1 100ms 100tps $1/2 knee2 | b/2 600ms 100tps $2/4");
    let regret = review(&world, &all, &[fastest(&crowded, 1, 60 * SECOND_MS)]);
    assert!(!regret.refusals.is_empty(), "{regret:?}");
    assert_eq!(regret.part(Yardstick::Total), [None; 3]);
    assert!(regret.part(Yardstick::Exploration).iter().all(Option::is_some), "what follows from the record stays");
}

#[test]
fn where_nothing_failed_the_interval_of_failures_reaches_what_may_have_been_missed() {
    let world = World::of(FAR);
    let [_, failures, _] = review(&world, &requests(&world, 300), &[]).part(Yardstick::Total);
    let [_, most] = failures.unwrap().interval;
    assert!((0.005..0.02).contains(&most), "{most}");
}
