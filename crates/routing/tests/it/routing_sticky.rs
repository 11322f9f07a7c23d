//! What a prompt cache is worth to the endpoint that holds it, and what it never overrules.

use pointsman_domain::{
    Decision, DecisionCode,
    Objective::{self, *},
    Query, StickyEndpoint,
};
use pointsman_routing::{
    decide::decide,
    explain::{reason_sentence, replay},
};

use crate::routing_world::{NOW, World};

/// A request of 10,000 prompt tokens, of which this many lie in the cache of the endpoint of this name.
fn asked(world: &World, objective: Objective, name: &str, cached_tokens: u32) -> Query {
    let position = (0..world.catalog().endpoints.len()).find(|index| world.name(*index as u32) == name);
    let endpoint = world.catalog().endpoints[position.expect("an endpoint")].id;
    Query {
        prompt_tokens: 10_000,
        sticky: Some(StickyEndpoint { endpoint, cached_tokens }),
        ..world.query(objective, "")
    }
}

fn decided(text: &str, objective: Objective, name: &str, cached_tokens: u32) -> (World, Decision) {
    let world = World::of(text);
    let decision = world.decide(&asked(&world, objective, name, cached_tokens)).unwrap();
    (world, decision)
}

#[test]
fn a_cache_in_dollars_keeps_a_conversation_where_it_is_for_cheapest() {
    let text = "acme/a $1/2 | bolt/b $1.2/2.4 cached$0.12";
    let (world, decision) = decided(text, Cheapest, "bolt/b", 8_000);
    assert_eq!(world.plan(&decision), "bolt/b acme/a");
    assert_eq!(decision.code, DecisionCode::SessionSticky);
    let saving = decision.candidates[0].saving.unwrap();
    assert!((saving.usd - 8_000.0 * 1.08e-6).abs() < 1e-12, "{saving:?}");
    assert!((decision.candidates[0].predicted.cost - (0.01224 - saving.usd)).abs() < 1e-9);
    assert_eq!(decision.candidates[1].saving, None);
    let (world, decision) = decided(text, Cheapest, "bolt/b", 500);
    assert_eq!((world.plan(&decision).as_str(), decision.code), ("acme/a bolt/b", DecisionCode::CheapestAvailable));
}

#[test]
fn a_cache_in_seconds_keeps_it_for_fastest() {
    let text = "acme/a 200ms slope0.0005 | bolt/b 250ms slope0.0005";
    let (world, decision) = decided(text, Fastest, "bolt/b", 9_000);
    assert_eq!((world.plan(&decision).as_str(), decision.code), ("bolt/b acme/a", DecisionCode::SessionSticky));
    let saving = decision.candidates[0].saving.unwrap();
    assert!((saving.usd, saving.cached_tokens) == (0.0, 9_000), "no price for cached input: {saving:?}");
    let median = saving.seconds / (0.09_f64 / 2.0).exp();
    assert!((median - 9_000.0 * 0.0005 * 0.25).abs() < 1e-9, "{saving:?}");
    assert!((decision.candidates[0].predicted.first_token_p50 - 0.25 * 1.5).abs() < 1e-9);
}

#[test]
fn a_cache_at_the_best_endpoint_changes_nothing_but_its_figures() {
    let (world, decision) = decided("acme/a $1/2 cached$0.1 | bolt/b $2/4", Cheapest, "acme/a", 5_000);
    assert_eq!((world.plan(&decision).as_str(), decision.code), ("acme/a bolt/b", DecisionCode::CheapestAvailable));
    let sentence = reason_sentence(&decision, world.catalog(), &[]);
    assert!(sentence.contains("; its prompt cache saves 0 s and $0.0045 (5000 tokens);"), "{sentence}");
}

#[test]
fn the_sentence_says_what_it_was_kept_for() {
    let (world, decision) = decided("acme/a $1/2 | bolt/b $1.2/2.4 cached$0.12 slope0.0001", Cheapest, "bolt/b", 8_000);
    let sentence = reason_sentence(&decision, world.catalog(), &[]);
    assert!(
        sentence.contains(
            "its cache holds the prompt of this conversation, which saves 0.17 s and $0.00864 (8000 tokens);"
        ),
        "{sentence}"
    );
}

#[test]
fn more_tokens_than_the_prompt_has_are_not_saved() {
    let (_, decision) = decided("acme/a $1/2 cached$0", Cheapest, "acme/a", 4_000_000);
    assert_eq!(decision.candidates[0].inputs.cached_tokens, 10_000);
    assert!(decision.candidates[0].predicted.cost > 0.0);
}

#[test]
fn a_cache_is_no_pin() {
    let cached = "slope0.01 cached$0";
    let cases = [
        (format!("acme/a 300ms | bolt/b 200ms {cached} open5"), "acme/a"),
        (format!("acme/a 300ms | bolt/b 200ms {cached} cool5"), "acme/a"),
        (format!("acme/a 300ms | bolt/b 200ms {cached} paced5"), "acme/a"),
        (format!("acme/a 300ms | bolt/b 200ms {cached} k9 knee2"), "acme/a"),
        (format!("acme/a 300ms | bolt/b 200ms {cached} silent"), "acme/a bolt/b"),
        (format!("acme/a 300ms | bolt/b 200ms {cached} disabled"), "acme/a"),
        (format!("acme/a 300ms | bolt/b 200ms {cached} ctx900"), "acme/a"),
        (format!("acme/a 300ms | bolt/b 9000ms {cached}"), "acme/a bolt/b"),
        (format!("acme/a 30ms | bolt/b 200ms {cached} bad60"), "acme/a bolt/b"),
    ];
    for (text, plan) in cases {
        let (world, decision) = decided(&text, Fastest, "bolt/b", 9_000);
        assert_eq!((world.plan(&decision).as_str(), decision.code), (plan, code(&decision)), "{text}");
    }
}

/// Anything but sticky.
fn code(decision: &Decision) -> DecisionCode {
    if decision.candidates.len() == 1 { DecisionCode::OnlyCandidate } else { DecisionCode::FastestAvailable }
}

#[test]
fn the_cache_of_one_never_changes_the_score_of_another() {
    let text = "acme/a $1/2 | bolt/b $1.2/2.4 cached$0.12 slope0.001 | core/c $3/9 90ms";
    for objective in Objective::ALL {
        let (_, with) = decided(text, objective, "bolt/b", 8_000);
        let (_, without) = decided(text, objective, "bolt/b", 0);
        for candidate in without.candidates.iter().filter(|candidate| candidate.inputs.cached_tokens == 0) {
            let same = with.candidates.iter().find(|other| other.endpoint == candidate.endpoint).unwrap();
            let sticky = same.inputs.cached_tokens > 0;
            assert!(sticky || same.score.to_bits() == candidate.score.to_bits(), "{objective}");
            assert!(!sticky || same.score < candidate.score, "{objective}: the cache is worth something");
        }
    }
}

#[test]
fn a_decision_with_a_cache_replays_bit_for_bit() {
    let world = World::of("acme/a $1/2 slope0.002 | bolt/b $1.2/2.4 cached$0.12 slope0.0007 | core/c idle90 w3");
    for objective in Objective::ALL {
        for seed in 1..50 {
            let query = asked(&world, objective, "bolt/b", 7_777);
            let decision = decide(&world.snapshot, &world.live, &query, NOW, Some(seed)).unwrap();
            let again = replay(&decision, &world.snapshot.policy);
            assert!(again.is_identical(), "{objective} {seed}: {again:?}");
        }
    }
}
