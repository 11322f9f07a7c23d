//! Choices that are drawn at random to learn from.

use pointsman_domain::{Decision, DecisionCode, Exploration, Objective, Query, RoutingPolicy, Tick};
use pointsman_routing::{
    decide::{ExplorationBudget, decide_to_serve},
    explain::{
        diff::{Calibration, SelfTest},
        fill_selection_probabilities, reason_sentence, replay,
    },
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
