//! What recorded choices say about another configuration.

use pointsman_domain::{Decision, EndpointId, Generation, GenerationStatus, Objective, Usd};
use pointsman_routing::{
    decide::decide_to_serve,
    explain::{
        diff::Calibration,
        estimate::{Bound, Estimated, Finding, Measure, Position, Sample},
        fill_selection_probabilities,
    },
};

use crate::{
    routing_diff::{between, recorded},
    routing_world::{NOW, World},
};

/// Two endpoints that hardly differ in their scores, so that noise chooses.
const CLOSE: &str = "a/1 300ms 50tps $1/2 w3 ok3 | b/2 320ms 50tps $2/4 w3 ok3";

fn cost_of(decision: &Decision) -> f64 {
    // Not what was predicted.
    if decision.candidates[0].endpoint == EndpointId::new("a/1", "a", "") { 0.003 } else { 0.007 }
}

fn served(world: &World, seed: u64) -> Generation {
    let query = world.query(Objective::Fastest, "");
    let decided = decide_to_serve(&world.snapshot, &world.live, &query, NOW, Some(seed));
    let mut generation = recorded(world, decided, "ok");
    #[expect(clippy::disallowed_methods, reason = "a short decimal")]
    let cost = Usd::from_f64(cost_of(&generation.decision));
    generation.attempts[0].cost = cost;
    generation
}

fn sample(world: &World, other: &World, requests: u64) -> Sample {
    let comparison = between(world, other);
    let mut sample = Sample::default();
    for seed in 1..=requests {
        let position = Position { draw: seed, cluster: seed };
        sample.observe(&comparison, &served(world, seed), &Calibration::default(), position);
    }
    sample.sort();
    sample
}

fn spend(sample: &Sample) -> Estimated {
    sample.estimates(|endpoint| format!("{endpoint:?}")).remove(0)
}

#[test]
fn under_the_same_configuration_every_weight_is_one_and_figures_are_the_plain_means() {
    let world = World::of(CLOSE);
    let sample = sample(&world, &world, 400);
    let diagnostics = sample.diagnostics();
    assert_eq!((diagnostics.mean_weight.value, diagnostics.effective, diagnostics.unsupported), (1.0, 400.0, 0.0));
    let spend = spend(&sample);
    let others = spend.others.unwrap();
    assert_eq!((others.ips.value, others.snips.value), (spend.before, spend.before));
    assert!((others.doubly_robust.value - spend.before).abs() < others.doubly_robust.error, "{spend:?}");
    let [least, most] = spend.interval.unwrap();
    assert!(spend.change.abs() < 1e-9 && least.abs() < 1e-9 && most.abs() < 1e-9, "{spend:?}");
    assert!(spend.refusals.is_empty(), "{:?}", spend.refusals);
}

#[test]
fn what_chance_cost_is_what_the_choices_come_to_beyond_those_without_it() {
    let world = World::of(CLOSE);
    let sample = sample(&world, &world, 200);
    let calm = world.decide(&world.query(Objective::Fastest, "")).unwrap();
    let mut more = 0.0;
    for seed in 1..=200 {
        let choice = served(&world, seed).decision.candidates[0].endpoint;
        let of = |endpoint| calm.candidates.iter().find(|one| one.endpoint == endpoint).unwrap().predicted.total_p50;
        more += of(choice) - of(calm.candidates[0].endpoint);
    }
    let cost = sample.cost_of_chance();
    assert!(more > 0.0 && (cost.total - more / 200.0).abs() < 1e-6, "{} {}", cost.total, more / 200.0);
    assert!(cost.spend > 0.0, "the other one is dearer, too");
}

#[test]
fn weights_come_from_the_probabilities_that_explanations_show() {
    let (world, other) = (World::of(CLOSE), World::of(&CLOSE.replace("320ms", "310ms")));
    let mut own = (*served(&world, 7).decision).clone();
    fill_selection_probabilities(&mut own, &world.snapshot.policy);
    let chosen = own.candidates[0].selection_probability.unwrap();
    assert!(chosen > 0.05 && chosen < 0.95, "{chosen}");
    // Statistics are those of the record, so another catalog alone changes no probability.
    assert_eq!(sample(&world, &other, 50).diagnostics().mean_weight.value, 1.0);
}

#[test]
fn what_another_configuration_would_have_cost_is_found_without_running_it() {
    let policy = |exploration: f64| {
        let world = World::of(CLOSE);
        let policy = pointsman_domain::RoutingPolicy { exploration, ..(*world.snapshot.policy).clone() };
        World::under(CLOSE, policy)
    };
    let (world, other) = (policy(0.5), policy(0.2));
    let sample = sample(&world, &other, 2_000);
    let spend = spend(&sample);
    assert!(spend.refusals.is_empty(), "{:?}", spend.refusals);
    let truth: f64 = (10_001..14_001).map(|seed| cost_of(&served(&other, seed).decision)).sum::<f64>() / 4_000.0;
    let [least, most] = spend.interval.unwrap();
    let change = truth / spend.before - 1.0;
    assert!(least - 0.03 < change && change < most + 0.03, "{change} outside {least} to {most}");
    assert!((spend.after / truth - 1.0).abs() < 0.05, "{} instead of {truth}", spend.after);
}

#[test]
fn what_was_hardly_ever_chosen_is_refused_with_bounds_and_without_chance_nothing_is_said() {
    let far = "a/1 300ms 50tps $1/2 | b/2 3000ms 50tps $0.1/0.2";
    let (world, other) = (World::of(far), World::of(&far.replace("a/1 ", "a/1 off ")));
    let spend_there = spend(&sample(&world, &other, 200));
    assert!(matches!(spend_there.refusals[0], Finding::NoChance), "{:?}", spend_there.refusals);
    assert!(matches!(spend_there.bound, Some(Bound::Unsupported(_))), "{:?}", spend_there.bound);
    let still = |text: &str| {
        let world = World::of(text);
        let policy = pointsman_domain::RoutingPolicy { exploration: 0.0, ..(*world.snapshot.policy).clone() };
        World::under(text, policy)
    };
    let refused = spend(&sample(&still(CLOSE), &still(&CLOSE.replace("a/1 ", "a/1 off ")), 200)).refusals;
    assert_eq!(refused[0], Finding::NoChance);
    assert!(refused[0].to_string().contains("Set routing.exploration above 0"), "{}", refused[0]);
}

#[test]
fn requests_without_a_known_cost_are_missing_and_refuse_the_figure() {
    let world = World::of(CLOSE);
    let comparison = between(&world, &world);
    let mut sample = Sample::default();
    for seed in 1..=300 {
        let mut generation = served(&world, seed);
        if seed % 20 == 0 {
            (generation.attempts[0].cost, generation.attempts[0].first_byte_ms) = (None, Some(1));
        }
        sample.observe(&comparison, &generation, &Calibration::default(), Position { draw: seed, cluster: seed });
    }
    sample.sort();
    let spend = spend(&sample);
    assert!(
        spend.refusals.iter().any(|finding| matches!(finding, Finding::Missing(share) if (share - 0.05).abs() < 1e-9))
    );
    assert!(sample.slices().is_empty(), "all requests are alike");
}

#[test]
fn a_cancelled_request_counts_with_what_it_cost_until_then_and_has_no_time() {
    let world = World::of(CLOSE);
    let comparison = between(&world, &world);
    let mut sample = Sample::default();
    for seed in 1..=600 {
        let mut generation = served(&world, seed);
        if seed % 3 == 0 {
            generation.status = GenerationStatus::Cancelled;
            generation.attempts[0].cost = Some(Usd::ZERO);
            generation.attempts[0].duration_ms = 1_000_000;
        }
        sample.observe(&comparison, &generation, &Calibration::default(), Position { draw: seed, cluster: seed });
    }
    sample.sort();
    let whole = (1..=600).filter(|seed| seed % 3 != 0).map(|seed| cost_of(&served(&world, seed).decision));
    let spend = spend(&sample);
    assert!((spend.before - whole.sum::<f64>() / 600.0).abs() < 1e-12 && spend.refusals.is_empty(), "{spend:?}");
    let estimates = sample.estimates(|endpoint| format!("{endpoint:?}"));
    let total = estimates.iter().find(|one| one.measure == Measure::Total).unwrap();
    assert!(total.before < 10.0 && total.refusals.is_empty(), "a client that left did not hear the end: {total:?}");
}
