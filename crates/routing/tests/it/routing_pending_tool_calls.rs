//! What is preferred while calls of tools wait for their results: endpoints that take back the reasoning before them.

use pointsman_domain::{
    Decision, EndpointId,
    Objective::{Cheapest, Fastest},
    Preference, Query, ReasoningFormat, Source, Sourced, StickyEndpoint,
};
use pointsman_routing::explain::{reason_sentence, replay, why_not};

use crate::routing_world::World;

/// The decision about a request for `models` that brings results of calls which a Claude made.
fn decided(world: &World, models: &str, with: impl Fn(&mut Query)) -> Decision {
    let mut query = Query { pending_reasoning: ReasoningFormat::Anthropic, ..world.query(Cheapest, models) };
    with(&mut query);
    world.decide(&query).unwrap()
}

fn check(text: &str, models: &str, with: impl Fn(&mut Query), plan: &str) {
    let world = World::of(text);
    assert_eq!(world.plan(&decided(&world, models, with)), plan, "{text}");
}

/// Prefers a first token within half a second.
fn soon(query: &mut Query) {
    let value = Preference { p50: Some(0.5), ..Preference::default() };
    query.routing_mut().preferred_max_latency = Some(Sourced { value, source: Source::TopLevel });
}

#[test]
fn those_that_take_the_reasoning_back_come_first_whatever_they_cost() {
    let world = "a/a@x $1/2 | a/a@y $3/6 state:anthropic-claude-v1 | a/a@z $2/4 state:google-gemini-v1";
    check(world, "a/a", |_| (), "a/a@y a/a@x a/a@z");
    check(world, "a/a", |query| query.pending_reasoning = ReasoningFormat::Gemini, "a/a@z a/a@x a/a@y");
    check(world, "a/a", |query| query.pending_reasoning = ReasoningFormat::Responses, "a/a@x a/a@z a/a@y");
    check(world, "a/a", |query| query.pending_reasoning = ReasoningFormat::Unknown, "a/a@x a/a@z a/a@y");
}

#[test]
fn an_endpoint_of_a_later_target_or_place_changes_nothing_for_those_before_it() {
    let world = "a/a@x $1/2 900ms | a/a@y $3/6 100ms | b/b $1/2 state:anthropic-claude-v1";
    check(world, "a/a, b/b", soon, "a/a@y a/a@x b/b");
    let of_first = World::of(world);
    let safe = decided(&of_first, "a/a, b/b", soon).safe_set;
    assert_eq!(safe.iter().map(|index| of_first.name(*index)).collect::<Vec<_>>(), ["a/a@y"]);
    let across = |query: &mut Query| query.routing_mut().provider.across_models = true;
    check(world, "a/a, b/b", across, "b/b a/a@x a/a@y");

    let world = "a/a@x $1/2 900ms | a/a@x $3/6 100ms variant:v | a/a@y state:anthropic-claude-v1";
    let ordered = |query: &mut Query| {
        soon(query);
        query.routing_mut().provider.order = vec!["x".to_owned()];
    };
    check(world, "a/a", ordered, "a/a@x/v a/a@x a/a@y");
}

#[test]
fn of_those_with_its_format_the_provider_that_served_last_comes_first() {
    let world = "a/a@x $1/2 state:anthropic-claude-v1 | a/a@y $2/4 state:anthropic-claude-v1";
    check(world, "a/a", |_| (), "a/a@x a/a@y");
    let served_by_y = |query: &mut Query| {
        query.sticky = Some(StickyEndpoint { endpoint: EndpointId::new("a/a", "y", ""), cached_tokens: 0 });
    };
    check(world, "a/a", served_by_y, "a/a@y a/a@x");
}

#[test]
fn one_that_cannot_be_called_now_puts_no_other_behind() {
    let rest = "a/a@x $1/2 900ms | a/a@y $3/6 100ms";
    for gate in ["open5", "cool5", "paced5", "disabled"] {
        let world = World::of(&format!("{rest} | a/a@z state:anthropic-claude-v1 {gate}"));
        let plan = world.plan(&decided(&world, "a/a", soon));
        assert!(plan.starts_with("a/a@y a/a@x"), "{gate}: {plan}");
    }
}

#[test]
fn the_explanation_says_so_and_offers_no_figure_that_would_change_it() {
    let world = World::of("a/a@x $1/2 100ms | a/a@y $3/6 900ms state:anthropic-claude-v1");
    let decision = decided(&world, "a/a", |query| query.objective.value = Fastest);
    let policy = &world.snapshot.policy;
    assert!(replay(&decision, policy).differences.is_empty());
    let sentence = reason_sentence(&decision, world.catalog(), &[]);
    assert!(sentence.contains("can take back the reasoning before the tool calls"), "{sentence}");
    let answer = why_not("x", &decision, policy, world.catalog());
    assert_eq!((answer.reason, answer.would_win_if.len()), ("reasoning_state", 0), "{}", answer.sentence);
}
