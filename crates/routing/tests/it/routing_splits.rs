//! Decisions of divided aliases: recorded, counted, made again, and under other shares.

use std::sync::Arc;

use pointsman_domain::{
    Alias, AliasSplit, Canary, Generation, Guardrail, Objective, Query, RoutingPolicy, SplitPart, SplitShare, StickyBy,
    TakenSplit,
};
use pointsman_routing::{
    decide::{decide_to_serve, splitmix64},
    explain::{
        Difference,
        diff::{Calibration, Grade, SelfTest},
        fill_selection_probabilities, replay,
    },
    split::{Drawn, divide},
};

use crate::{
    routing_diff::{between, recorded},
    routing_world::{NOW, World, alias},
};

const ENDPOINTS: &str = "a/1@w 300ms $1/2 ok30 | a/1@x 310ms $1.1/2 ok30 | b/2@y 200ms $0.1/0.2 ok30";

/// An alias that stands for `a/1`, and in a share for `b/2`.
fn world(weight: f64) -> World {
    divided(None, weight)
}

/// The same with a canary.
fn divided(canary: Option<Canary>, weight: f64) -> World {
    let split = AliasSplit {
        sticky: StickyBy::Session,
        ladder: vec!["a/1".to_owned()],
        rules: Vec::new(),
        canary,
        shares: vec![SplitShare { weight, names: vec!["b/2".to_owned()] }],
    };
    let chat = Alias { split: Some(Arc::new(split)), ..alias("service/chat") };
    World::aliased(ENDPOINTS, RoutingPolicy::default(), vec![alias("service/auto"), chat])
}

fn record(world: &World, place: u16) -> Generation {
    let query = world.query(Objective::Balanced, "service/chat");
    let drawn = Drawn { sticky: StickyBy::Session, place, rule: None, canary_stopped: false };
    let divided = divide(world.catalog(), &query.targets, query.today, |_, _| drawn).expect("it divides");
    let query = Query { targets: divided.targets, split: Some(divided.taken), ..query };
    recorded(world, decide_to_serve(&world.snapshot, &world.live, &query, NOW, Some(7)), "ok")
}

fn places() -> impl Iterator<Item = u16> {
    (0..u16::MAX).step_by(997)
}

#[test]
fn a_decision_of_a_part_comes_out_of_its_record_and_is_chosen_with_the_probability_of_both() {
    let world = world(0.4);
    for place in places() {
        let mut record = record(&world, place);
        let is_shared = f64::from(place) < 0.4 * 65_536.0;
        let decision = Arc::make_mut(&mut record.decision);
        let taken = decision.split.clone().unwrap();
        let expected = if is_shared { SplitPart::Share(0) } else { SplitPart::Own };
        assert_eq!(taken.part, expected, "{place}");
        assert!(replay(decision, &record.policy).is_identical());
        fill_selection_probabilities(decision, &record.policy);
        let sum: f64 = decision.candidates.iter().filter_map(|one| one.selection_probability).sum();
        assert!((sum - taken.probability).abs() < 1e-6, "{sum}");
        assert_eq!(between(&world, &world).self_test(decision), SelfTest::Identical);
        let again = between(&world, &world).decide(&record, &Calibration::default()).unwrap();
        assert!(again.from == again.to && again.grade == Grade::Exact && again.before == again.after);
    }
}

#[test]
fn the_probability_of_a_canary_is_in_the_record_and_in_the_chance_of_each_endpoint_and_its_share_is_met() {
    let canary = Canary { share: 0.05, names: vec!["b/2".to_owned()], guardrail: Guardrail::default() };
    let world = divided(Some(canary), 0.4);
    let of_session = |n: u64| (splitmix64(n) >> 48) as u16;
    let mut trials = 0;
    for n in 0..10_000 {
        let mut record = record(&world, of_session(n));
        let decision = Arc::make_mut(&mut record.decision);
        let taken = decision.split.clone().unwrap();
        if taken.part != SplitPart::Canary {
            continue;
        }
        trials += 1;
        assert!((taken.probability - 0.05).abs() < 1e-4, "{}", taken.probability);
        fill_selection_probabilities(decision, &record.policy);
        let sum: f64 = decision.candidates.iter().filter_map(|one| one.selection_probability).sum();
        assert!((sum - taken.probability).abs() < 1e-6, "{sum}");
    }
    assert!((f64::from(trials) - 500.0).abs() < 3.0 * (500.0_f64 * 0.95).sqrt(), "{trials} of 10,000");
}

#[test]
fn a_recorded_probability_that_is_not_that_of_its_part_is_found() {
    let world = world(0.4);
    let record = record(&world, 9);
    let mut decision = (*record.decision).clone();
    let taken = decision.split.take().unwrap();
    decision.split = Some(Arc::new(TakenSplit { probability: 0.5, ..(*taken).clone() }));
    let differences = replay(&decision, &record.policy).differences;
    assert!(matches!(differences.as_slice(), [Difference::Part { .. }]), "{differences:?}");
    assert_eq!(between(&world, &world).self_test(&decision), SelfTest::Different);
}

#[test]
fn under_other_shares_who_stays_is_exact_and_who_moves_was_never_measured_there() {
    let (before, after) = (world(0.4), world(0.2));
    for place in places() {
        let record = record(&before, place);
        let made = between(&before, &after).decide(&record, &Calibration::default()).unwrap();
        let moves = (0.2..0.4).contains(&(f64::from(place) / 65_536.0));
        let expected = if moves { Grade::None } else { Grade::Exact };
        assert_eq!((made.grade, made.from == made.to), (expected, !moves), "{place}");
    }
}

#[test]
fn retired_models_of_a_part_lead_to_the_ladder_and_never_to_other_models() {
    let split = |ladder: &str, shared: &str| AliasSplit {
        sticky: StickyBy::Session,
        ladder: vec![ladder.to_owned()],
        rules: Vec::new(),
        canary: None,
        shares: vec![SplitShare { weight: 0.5, names: vec![shared.to_owned()] }],
    };
    let chosen = |split: AliasSplit, place: u16| -> Vec<String> {
        let chat = Alias { split: Some(Arc::new(split)), ..alias("service/chat") };
        let world = World::aliased("a/old@w expired | b/new@x | c/other@y", RoutingPolicy::default(), vec![chat]);
        let query = world.query(Objective::Balanced, "service/chat");
        let drawn = Drawn { sticky: StickyBy::Session, place, rule: None, canary_stopped: false };
        let divided = divide(world.catalog(), &query.targets, query.today, |_, _| drawn).expect("it divides");
        let query = Query { targets: divided.targets, ..query };
        let Ok(decision) = decide_to_serve(&world.snapshot, &world.live, &query, NOW, Some(7)) else {
            return Vec::new();
        };
        let model = |index: u32| world.catalog().model_of(world.catalog().endpoint(index)?).map(|it| it.id.to_string());
        decision.candidates.iter().filter_map(|candidate| model(candidate.index)).collect()
    };
    assert_eq!(chosen(split("b/new", "a/old"), 0), ["b/new"], "a share");
    assert_eq!(chosen(split("a/old", "b/new"), 65_000), Vec::<String>::new(), "a ladder");
}
