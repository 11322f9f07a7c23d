//! Choices that are drawn at random to learn from.

use pointsman_domain::{Candidate, Decision, DecisionCode, Exploration, Objective, Query, RoutingPolicy, Tick};
use pointsman_routing::{
    decide::{ExplorationBudget, decide_to_serve, splitmix64},
    explain::{
        ExplorationPrice,
        diff::{Calibration, SelfTest},
        fill_selection_probabilities, reason_sentence, replay,
    },
    stats::Gate,
};
use proptest::prelude::*;

use crate::{
    routing_diff::{between, recorded},
    routing_properties::{asked, endpoints},
    routing_world::{NOW, World},
};

/// The second is dearer and slower, and safe; the third fails too often.
const THREE: &str = "a/1 300ms $1/2 w90 ok90 | b/2 700ms $3/6 w90 ok90 | c/3 200ms $1/2 w90 ok60 bad30";

fn exploring(share: f64) -> Exploration {
    Exploration { share, max_extra_cost: 0.02, max_extra_first_token: 1.0 }
}

fn decided(world: &World, query: &Query, seed: u64) -> Decision {
    decide_to_serve(&world.snapshot, &world.live, query, NOW, Some(seed)).expect("a plan")
}

fn query(world: &World, share: f64) -> Query {
    Query { exploration: exploring(share), ..world.query(Objective::Balanced, "") }
}

#[test]
fn about_the_share_is_explored_and_never_an_endpoint_that_is_not_safe() {
    let world = World::of(THREE);
    let query = query(&world, 0.1);
    let all: Vec<Decision> = (1..=4_000).map(|seed| decided(&world, &query, seed)).collect();
    let to = |name: &str| all.iter().filter(|one| world.name(one.candidates[0].index).starts_with(name)).count() as f64;
    assert_eq!(to("c/3"), 0.0);
    // Half of the draws choose what would be chosen anyway.
    assert!((to("b/2") - 200.0).abs() < 3.0 * 200.0_f64.sqrt(), "{}", to("b/2"));
    let explored = all.iter().find(|one| one.explored).unwrap();
    assert_eq!((explored.code, explored.exploration_share), (DecisionCode::Exploration, 0.1));
    assert_eq!(explored.safe_set.len(), 2);
    let reason = reason_sentence(explored, world.catalog(), &[]);
    assert!(
        reason.contains("drawn at random from 2 endpoints that are safe to try, as 10 % of requests are"),
        "{reason}"
    );
}

#[test]
fn at_one_percent_the_share_is_met_every_draw_is_replayed_and_the_extra_cost_stays_below_its_limit() {
    const DECISIONS: u64 = 60_000;
    let world = quiet(THREE);
    let one_percent = Exploration { max_extra_cost: 0.005, ..exploring(0.01) };
    let (mut budget, mut allowed, mut explored) = (ExplorationBudget::default(), 0_u32, 0_u32);
    let (mut spent, mut extra, mut dearest) = (0.0, 0.0_f64, 0.0_f64);
    for seed in (1..=DECISIONS).map(splitmix64) {
        let is_allowed = budget.allows(one_percent);
        let exploration = Exploration { share: if is_allowed { 0.01 } else { 0.0 }, ..one_percent };
        let query = Query { exploration, ..world.query(Objective::Balanced, "") };
        let decision = decided(&world, &query, seed);
        budget.count(&decision, one_percent, NOW);
        let best = decision.candidates.iter().min_by(|one, other| one.score.total_cmp(&other.score)).unwrap();
        let more = (decision.candidates[0].inputs.cost - best.inputs.cost).max(0.0);
        (spent, extra, dearest) = (spent + best.inputs.cost, extra + more, dearest.max(more));
        assert!(extra <= 0.005 * spent + dearest * 1.000_001, "{seed}: {extra} of {spent}");
        (allowed, explored) = (allowed + u32::from(is_allowed), explored + u32::from(decision.explored));
        if decision.explored {
            assert!(replay(&decision, &world.snapshot.policy).is_identical(), "{seed}");
        }
    }
    // Half of the draws choose what would be chosen anyway.
    let expected = 0.005 * f64::from(allowed);
    assert!((f64::from(explored) - expected).abs() < 3.0 * expected.sqrt(), "{explored}, not {expected}");
    assert!(u64::from(allowed) < DECISIONS, "the limit is reached");
}

#[test]
fn the_price_of_a_share_is_the_mean_extra_cost_of_draws_and_says_how_many_requests_it_takes() {
    let world = quiet(THREE);
    let exploration = Exploration { max_extra_cost: 1.0, ..exploring(0.01) };
    let mut price = ExplorationPrice::default();
    assert_eq!(price.priced(exploration), None, "without a decision");
    for seed in 1..=400 {
        let decision = decided(&world, &query(&world, 0.0), seed);
        let cost = decision.candidates[0].predicted.cost;
        let mut generation = recorded(&world, Ok(decision), "ok");
        // As much as was predicted, half as much, or half as much again.
        let factor = [1.0, 0.5, 1.5, 1.0][seed as usize % 4];
        generation.attempts[0].cost = format!("{:.15}", cost * factor).parse().ok();
        let own = if seed % 4 == 0 { Exploration { share: 0.0, ..exploration } } else { exploration };
        price.add(&generation, own);
    }
    let priced = price.priced(exploration).unwrap();
    // Of two endpoints the other one costs three times as much, and three of four requests may be drawn.
    let decision = decided(&world, &query(&world, 0.0), 1);
    let [first, second] = [0, 1].map(|at| &decision.candidates[at]);
    let more = (second.inputs.cost - first.inputs.cost) / 2.0 * 0.01 * 0.75;
    assert_eq!((priced.decisions, priced.drawable, priced.endpoints), (400, 300, 2.0));
    assert!((priced.extra / more - 1.0).abs() < 1e-3 && (priced.drawn - 0.007_5).abs() < 1e-9, "{priced:?} {more}");
    assert!((priced.relative - more / first.inputs.cost).abs() < 1e-4 && priced.allowed == 1.0, "{priced:?}");
    let later = (second.predicted.first_token_p50 - first.predicted.first_token_p50) / 2.0;
    assert!((priced.later - later).abs() < 1e-6, "{priced:?}");
    // A standard deviation of √(1/8) of the mean, and each endpoint gets half of 0.75 %.
    let needed = (1.96_f64 / 0.04).powi(2) / 8.0 / 0.003_75;
    assert!((priced.needed.unwrap() / needed - 1.0).abs() < 0.01, "{priced:?}, not {needed}");
    let paused = price.priced(Exploration { max_extra_cost: more / first.inputs.cost / 4.0, ..exploration }).unwrap();
    assert!((paused.allowed - 0.25).abs() < 1e-3, "{paused:?}");
    assert!((paused.extra / priced.extra - 0.25).abs() < 1e-3 && paused.needed > priced.needed, "{paused:?}");
    let strict = Exploration { max_extra_first_token: 0.1, ..exploration };
    let mut of_quick = ExplorationPrice::default();
    of_quick.add(&recorded(&world, Ok(decision), "ok"), strict);
    assert_eq!(of_quick.priced(strict).map(|priced| (priced.drawable, priced.extra)), Some((0, 0.0)));
}

#[test]
fn parts_of_the_records_price_a_share_as_all_of_them_do() {
    let world = quiet(THREE);
    let price = |seeds: std::ops::RangeInclusive<u64>| {
        let mut price = ExplorationPrice::default();
        seeds.for_each(|seed| {
            price.add(&recorded(&world, Ok(decided(&world, &query(&world, 0.3), seed)), "ok"), exploring(0.3));
        });
        price
    };
    let mut parts = price(1..=70);
    parts.merge(&price(71..=100));
    assert_eq!(parts.priced(exploring(0.3)), price(1..=100).priced(exploring(0.3)));
}

#[test]
fn without_a_share_decisions_have_the_same_bits() {
    let world = World::of(THREE);
    for seed in 1..200 {
        let without = decided(&world, &world.query(Objective::Balanced, ""), seed);
        let with = decided(&world, &query(&world, 0.0), seed);
        assert_eq!(format!("{without:?}"), format!("{with:?}"));
    }
}

#[test]
fn a_draw_is_replayed_and_decided_again_from_its_record_and_counts_in_probabilities() {
    let world = World::of(THREE);
    let (query, comparison) = (query(&world, 0.2), between(&world, &world));
    let mut drawn = 0;
    for seed in 1..=300 {
        let decision = decided(&world, &query, seed);
        drawn += u32::from(decision.explored);
        let replayed = replay(&decision, &world.snapshot.policy);
        assert!(replayed.is_identical(), "{seed}: {:?}", replayed.differences);
        let record = recorded(&world, Ok(decision), "ok");
        assert_eq!(comparison.self_test(&record.decision), SelfTest::Identical, "{seed}");
        let made = comparison.decide(&record, &Calibration::default()).unwrap();
        assert_eq!((made.from, made.before), (made.to, made.after), "{seed}");
    }
    assert!(drawn > 15, "{drawn}");
    let mut decision = decided(&world, &query, 1);
    fill_selection_probabilities(&mut decision, &world.snapshot.policy);
    let probability = |name: &str| {
        let found = decision.candidates.iter().find(|one| world.name(one.index).starts_with(name)).unwrap();
        found.selection_probability.unwrap()
    };
    assert!((probability("b/2") - 0.1).abs() < 0.01, "{}", probability("b/2"));
    let sum: f64 = decision.candidates.iter().filter_map(|one| one.selection_probability).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
}

#[test]
fn draws_work_without_noise_too_and_no_draw_is_made_while_an_endpoint_is_probed() {
    let quiet = World::under(THREE, RoutingPolicy { exploration: 0.0, ..RoutingPolicy::default() });
    let query_of = |world: &World| query(world, 0.5);
    let explored = (1..100).filter(|seed| decided(&quiet, &query_of(&quiet), *seed).explored).count();
    assert!((10..40).contains(&explored), "{explored}");
    let probed = World::of(&format!("{THREE} | d/4 300ms half7"));
    let decision = decided(&probed, &query_of(&probed), 3);
    assert!(decision.candidates[0].probe && decision.exploration_share == 0.0, "{decision:?}");
}

#[test]
fn what_is_expected_much_later_than_the_quickest_is_not_drawn() {
    let world = World::of(THREE);
    let strict = Exploration { max_extra_first_token: 0.1, ..exploring(1.0) };
    let query = Query { exploration: strict, ..world.query(Objective::Balanced, "") };
    assert_eq!(decided(&world, &query, 5).exploration_share, 0.0, "one endpoint is left");
}

#[test]
fn exploring_never_costs_more_than_its_share_by_more_than_one_request() {
    let world = World::of(THREE);
    let mut budget = ExplorationBudget::default();
    let (mut spent, mut extra, mut dearest) = (0.0, 0.0_f64, 0.0_f64);
    for seed in 1..=3_000 {
        let share = if budget.allows(exploring(0.5)) { 0.5 } else { 0.0 };
        let decision = decided(&world, &query(&world, share), seed);
        budget.count(&decision, exploring(0.5), Tick(NOW.0 + seed));
        let cost = decision.candidates[0].inputs.cost;
        let best = decision.candidates.iter().min_by(|one, other| one.score.total_cmp(&other.score)).unwrap();
        let more = (cost - best.inputs.cost).max(0.0);
        (spent, extra, dearest) = (spent + best.inputs.cost, extra + more, dearest.max(more));
        assert!(extra <= 0.02 * spent + dearest * 1.000_001, "{seed}: {extra} of {spent}");
    }
    assert!(extra > 0.01 * spent, "it uses what it may: {extra} of {spent}");
}

/// Without noise, so that only draws choose another one.
fn quiet(endpoints: &str) -> World {
    World::under(endpoints, RoutingPolicy { exploration: 0.0, ..RoutingPolicy::default() })
}

#[test]
fn where_nothing_may_be_spent_only_what_costs_no_more_than_the_choice_is_drawn() {
    let draws_of_b = |endpoints: &str| {
        let world = quiet(endpoints);
        let free = Exploration { max_extra_cost: 0.0, ..exploring(1.0) };
        let query = Query { exploration: free, ..world.query(Objective::Fastest, "") };
        let choices = (1..=100).map(|seed| world.name(decided(&world, &query, seed).candidates[0].index));
        choices.filter(|name| name.starts_with("b/2")).count()
    };
    assert_eq!(draws_of_b("a/1 300ms $1/2 w90 ok90 | b/2 700ms $3/6 w90 ok90"), 0);
    let cheaper = draws_of_b("a/1 300ms $3/6 w90 ok90 | b/2 700ms $1/2 w90 ok90");
    assert!((30..70).contains(&cheaper), "{cheaper}");
}

#[test]
fn a_debt_pauses_what_may_cost_something_until_requests_that_are_not_explored_have_paid_it() {
    let world = quiet(THREE);
    let all: Vec<Decision> = (1..=50).map(|seed| decided(&world, &query(&world, 1.0), seed)).collect();
    let of = |name: &str| all.iter().find(|one| world.name(one.candidates[0].index).starts_with(name)).unwrap();
    let mut budget = ExplorationBudget::default();
    budget.count(of("b/2"), exploring(0.5), NOW);
    assert!(!budget.allows(exploring(0.5)));
    assert!(budget.allows(Exploration { max_extra_cost: 0.0, ..exploring(0.5) }));
    for (exploration, is_paid) in [(Exploration::NONE, false), (exploring(0.0), true)] {
        (0..1_000).for_each(|_| budget.count(of("a/1"), exploration, NOW));
        assert_eq!(budget.allows(exploring(0.5)), is_paid, "{exploration:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn a_draw_stays_within_the_safe_set_and_its_record_gives_it_again(
        lines in endpoints(), asked in asked(), seed in 1_u64..u64::MAX,
    ) {
        let world = World::of(&lines.join(" | "));
        let Some(query) = asked.query(&world) else { return Ok(()) };
        let query = Query { exploration: exploring(1.0), ..query };
        let Ok(decision) = decide_to_serve(&world.snapshot, &world.live, &query, NOW, Some(seed)) else { return Ok(()) };
        let choice = &decision.candidates[0];
        if decision.exploration_share > 0.0 {
            prop_assert!(decision.safe_set.contains(&choice.index));
            prop_assert!(!choice.probe && !choice.panic);
        }
        let replayed = replay(&decision, &world.snapshot.policy);
        prop_assert!(replayed.is_identical(), "{:?}", replayed.differences);
        let record = recorded(&world, Ok(decision), "");
        prop_assert_eq!(between(&world, &world).self_test(&record.decision), SelfTest::Identical);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn no_draw_is_slower_or_likelier_to_fail_than_allowed_or_passes_over_a_preference_or_a_gate(
        lines in endpoints(), asked in asked(), seed in 1_u64..u64::MAX,
    ) {
        let world = World::of(&lines.join(" | "));
        let Some(query) = asked.query(&world) else { return Ok(()) };
        let query = Query { exploration: exploring(1.0), ..query };
        let Ok(decision) = decide_to_serve(&world.snapshot, &world.live, &query, NOW, Some(seed)) else { return Ok(()) };
        if decision.exploration_share <= 0.0 {
            return Ok(());
        }
        let choice = &decision.candidates[0];
        let live = &world.live.endpoints[choice.index as usize];
        prop_assert!(live.gate == Gate::Passing && live.due.is_none() && !choice.panic && !choice.probe, "{:?}", live);
        prop_assert!(decision.excluded.iter().all(|one| one.endpoint != choice.endpoint), "{:?}", choice);
        for other in &decision.candidates {
            let ranks = |one: &Candidate| (one.group, one.inputs.tier);
            prop_assert!(ranks(choice) <= ranks(other), "{:?} {:?}", choice, other);
            if decision.safe_set.contains(&other.index) {
                let first_token = other.predicted.first_token_p50;
                prop_assert!(choice.predicted.failure <= other.predicted.failure + 0.02 + 1e-9);
                prop_assert!(choice.predicted.first_token_p50 <= first_token + 1.0 + 1e-9);
            }
        }
    }
}
