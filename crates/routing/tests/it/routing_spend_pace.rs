//! Spend pace: what a dollar has to buy of quality, in decisions and in what is said of them.

use pointsman_domain::{Decision, Objective, Query, Usd, Weights};
use pointsman_routing::{
    decide::decide,
    explain::{reason_sentence, replay},
    spend_pace::{CallEnd, SpendPace},
};

use crate::routing_world::{NOW, World, code};

/// Quality and prices rise together.
const THREE: &str = "a/small 200ms $1/2 q0.6 | b/middle 200ms $4/8 q0.8 | c/large 200ms $16/32 q0.9";

fn asked(world: &World, quality_per_dollar: f64) -> Query {
    let weights = Weights { latency: 0.0, cost: 0.0, quality: 1.0 };
    Query { weights, quality_per_dollar, task_class: Some(code()), ..world.query(Objective::Balanced, "") }
}

/// A thousand calls of so many dollars.
fn thousand(dollars: f64) -> Usd {
    format!("{:.12}", dollars * 1e3).parse().unwrap()
}

fn decided(world: &World, query: &Query, seed: Option<u64>) -> Decision {
    decide(&world.snapshot, &world.live, query, NOW, seed).unwrap()
}

fn choice(world: &World, decision: &Decision) -> String {
    world.name(decision.candidates[0].index)
}

#[test]
fn the_dearer_quality_has_to_be_the_cheaper_the_model() {
    let world = World::of(THREE);
    let costs = decided(&world, &asked(&world, 0.0), None);
    let cost = |name: &str| {
        let candidate = costs.candidates.iter().find(|candidate| world.name(candidate.index) == name);
        candidate.unwrap().inputs.cost
    };
    // What a dollar buys of quality by the step from one model to the next.
    let first = (0.8 - 0.6) / (cost("b/middle") - cost("a/small"));
    let second = (0.9 - 0.8) / (cost("c/large") - cost("b/middle"));
    let chosen = |price: f64| choice(&world, &decided(&world, &asked(&world, price), None));
    assert_eq!(chosen(0.0), "c/large");
    assert_eq!(chosen(0.9 * second), "c/large");
    assert_eq!(chosen(1.1 * second), "b/middle");
    assert_eq!(chosen(0.9 * first), "b/middle");
    assert_eq!(chosen(1.1 * first), "a/small");
    assert_eq!(chosen(1e12), "a/small");
}

#[test]
fn without_a_pace_and_where_quality_does_not_count_no_bit_changes() {
    let world = World::of(THREE);
    for objective in Objective::ALL {
        let bits = |price: f64| {
            let query = Query {
                quality_per_dollar: price,
                objective: world.query(objective, "").objective,
                ..asked(&world, 0.0)
            };
            let query = Query { weights: Weights::default(), ..query };
            let decision = decided(&world, &query, Some(3));
            decision.candidates.iter().map(|one| (one.index, one.score.to_bits())).collect::<Vec<_>>()
        };
        assert_eq!(bits(0.0), bits(50.0), "{objective}");
    }
}

#[test]
fn a_replay_of_a_paced_decision_gives_the_same_bits() {
    let world = World::of("a/small 200ms $1/2 q0.6 rated0.5,9 | b/middle 210ms $4/8 q0.8 | c/large 190ms $16/32 q0.9");
    for seed in 1..=200 {
        let decision = decided(&world, &asked(&world, 30.0), Some(seed));
        let again = replay(&decision, &world.snapshot.policy);
        assert!(again.is_identical(), "seed {seed}: {:?}", again.differences);
        assert_eq!(decision.quality.map(|quality| quality.per_dollar), Some(30.0));
        assert_eq!(decision.query().quality_per_dollar, 30.0);
    }
}

#[test]
fn the_reason_says_what_the_pace_asks_for_money() {
    let world = World::of(THREE);
    let told = |price: f64| reason_sentence(&decided(&world, &asked(&world, price), None), world.catalog(), &[]);
    let paced = told(25.0);
    assert!(paced.contains("the spend pace asks 0.025 of quality for each $1 more per 1,000 calls"), "{paced}");
    assert!(!told(0.0).contains("spend pace"));
}

#[test]
fn decisions_under_a_pace_cost_its_ceiling_on_average() {
    let world = World::of(THREE);
    let costs: Vec<f64> =
        decided(&world, &asked(&world, 0.0), None).candidates.iter().map(|candidate| candidate.inputs.cost).collect();
    let [least, most] = [f64::min, f64::max].map(|best| costs.iter().copied().reduce(best).unwrap());
    for share in [0.1, 0.3, 0.7] {
        let ceiling = least + share * (most - least);
        let mut pace = SpendPace::new(thousand(ceiling)).unwrap();
        let mut spent = 0.0;
        for seed in 1..=2_000 {
            let decision = decided(&world, &asked(&world, pace.quality_per_dollar()), Some(seed));
            let cost = decision.candidates[0].inputs.cost;
            pace.charge(cost);
            pace.settle(cost, CallEnd::Unknown);
            spent += cost / 2_000.0;
        }
        assert!((spent / ceiling - 1.0).abs() < 0.01, "{share}: {spent} instead of {ceiling}");
    }
}
