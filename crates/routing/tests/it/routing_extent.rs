//! What serves a request and what a preview shows are one decision, told at different length.

use std::collections::BTreeSet;

use pointsman_domain::{
    Candidate, Decision, EndpointId, GateState, Objective, Preference, Query, Source, Sourced, StickyEndpoint,
    TaskClass, TaskFeatures,
};
use pointsman_routing::{
    decide::{decide, decide_to_serve},
    explain::replay,
};

use crate::routing_world::{NOW, World};

/// Decides under many seeds, and without one, and compares what serves with the whole. Tells how often serving kept somebody
/// from a place beyond this one, and how often noise made the choice.
fn check(endpoint: impl Fn(usize) -> String, count: usize, beyond: u32) -> (u32, u32) {
    let world = World::of(&(0..count).map(endpoint).collect::<Vec<_>>().join(" | "));
    let (mut far, mut explored) = (0, 0);
    for seed in 0..40_u64 {
        let objective = Objective::ALL[seed as usize % 4];
        let (query, seed) = (world.query(objective, ""), (seed >= 4).then_some(seed));
        let whole = decide(&world.snapshot, &world.live, &query, NOW, seed).unwrap();
        let served = decide_to_serve(&world.snapshot, &world.live, &query, NOW, seed).unwrap();
        check_pair(&whole, &served);
        assert!(replay(&served, &world.snapshot.policy).is_identical(), "{objective} {seed:?}");
        far += u32::from(served.candidates.iter().any(|kept| kept.place > beyond));
        explored += u32::from(served.explored);
    }
    (far, explored)
}

fn check_pair(whole: &Decision, served: &Decision) {
    assert_eq!((served.code, served.explored, &served.excluded), (whole.code, whole.explored, &whole.excluded));
    assert_eq!(served.baselines.map(f64::to_bits), whole.baselines.map(f64::to_bits));
    assert_eq!((&served.standby, served.completion_tokens), (&whole.standby, whole.completion_tokens));
    assert!(served.candidates.iter().all(|kept| whole.candidates[kept.place as usize] == *kept));
    assert!(served.candidates.iter().zip(0..8).all(|(kept, place)| kept.place == place));
    assert!(served.candidates.is_sorted_by_key(|kept| kept.place));
    check_elsewhere(whole, served);
    assert_eq!(served.candidates.len() + served.omitted.len(), whole.candidates.len());
    let everybody = |decision: &Decision| -> BTreeSet<EndpointId> {
        decision.candidates.iter().map(|candidate| candidate.endpoint).chain(decision.omitted.iter().copied()).collect()
    };
    assert_eq!(everybody(served), everybody(whole));
    // Of those that score the same, nobody has the figures that settle who goes first.
    let score = |id: EndpointId| whole.candidates.iter().find(|candidate| candidate.endpoint == id).unwrap().score;
    let stands = |(place, id): (usize, EndpointId)| {
        let there = &whole.candidates[place];
        there.endpoint == id || (there.score - score(id)).abs() <= 1e-9 * there.score
    };
    assert!(served.omitted_ranks().all(stands), "{:?}", served.omitted);
}

/// Beside the first eight: the best at each of eight other providers, and whoever would have been chosen without noise.
fn check_elsewhere(whole: &Decision, served: &Decision) {
    let mut known: BTreeSet<u32> = whole.candidates.iter().take(8).map(|candidate| candidate.provider).collect();
    let others = whole.candidates.iter().skip(8);
    let elsewhere: Vec<&Candidate> = others.filter(|candidate| known.insert(candidate.provider)).take(8).collect();
    let kept: Vec<&Candidate> = served.candidates.iter().skip(8).collect();
    assert!(elsewhere.iter().all(|wanted| kept.contains(wanted)));
    assert!(kept.len() <= elsewhere.len() + usize::from(served.explored));
}

#[test]
fn a_serving_decision_holds_the_best_candidates_of_the_whole_one_and_names_the_others() {
    let figures =
        |i: usize| format!("{}ms {}tps ${}/9 w{}", 80 + i * 37 % 900, 20 + i * 13 % 300, 1 + i * 7 % 30, i % 4);
    let mut explored = 0;
    for count in [9, 30, 60, 100, 300] {
        explored += check(|i| format!("m{i}/x@p{} {}", i * i % 23, figures(i)), count, 8).1;
        check(|i| format!("m{i}/x@p0 {}", figures(i)), count, 8);
        check(|i| format!("m{i}/x@p{i} {}", figures(i)), count, 8);
        check(|i| format!("m{i}/x@p{} {}", i % 9, figures(i)), count, 8);
    }
    assert!(explored > 20, "the choice without noise was kept, too: {explored}");
}

/// Most are at the first providers, all of these good; every tenth is at a provider after that.
fn provider(i: usize, good: usize) -> usize {
    if is_late(i) { good + i / 10 % 3 } else { i % good }
}

fn is_late(i: usize) -> bool {
    i % 10 == 9
}

#[test]
fn the_best_at_a_provider_where_all_are_slow_dear_and_unsound_is_kept_with_its_place() {
    let figures = |i: usize| match is_late(i) {
        true => format!("{}ms ok20 bad{} ${}/90", 4000 + i * 37 % 900, 5 + i % 7, 50 + i * 7 % 30),
        false => format!("{}ms ${}/9 w{}", 80 + i * 37 % 900, 1 + i * 7 % 30, i % 4),
    };
    for (count, good) in [(100, 1), (100, 4), (300, 1), (300, 4)] {
        let (far, _) = check(|i| format!("m{i}/x@p{} {}", provider(i, good), figures(i)), count, count as u32 / 2);
        assert!(far > 30, "{far} of {count} at {good}");
    }
}

#[test]
fn ties_fall_alike_wherever_they_stand() {
    for count in [100, 300] {
        // All alike; alike by threes; alike where the first eight end; alike at late providers alone.
        check(|i| format!("m{i}/x@p{} 200ms $1/2", i % 12), count, 8);
        check(|i| format!("m{i}/x@p{} {}ms w40", i % 12, 80 + i / 3 * 37 % 900), count, 8);
        check(|i| format!("m{i}/x@p{} {}ms w40", i % 12, 80 + if i < 6 { i } else { 6 + i / 12 }), count, 8);
        for good in [1, 4] {
            let ms = |i: usize| if is_late(i) { 4000 } else { 80 + i * 37 % 900 };
            let (far, _) = check(|i| format!("m{i}/x@p{} {}ms w40", provider(i, good), ms(i)), count, count as u32 / 2);
            assert!(far > 3, "{far} of {count} at {good}");
        }
    }
}

#[test]
fn a_decision_records_every_refusing_gate_of_its_pool_whatever_excluded_the_endpoint() {
    let mut world = World::of(
        "acme/a open5 | bolt/b cool2 | crow/c | dusk/d half7 ctx10 | echo/e probing disabled | fern/f fault40 | gale/g",
    );
    let query = world.query(Objective::Fastest, "");
    let shut = |world: &World, served: bool| {
        let decide = if served { decide_to_serve } else { decide };
        let gates = decide(&world.snapshot, &world.live, &query, NOW, None).unwrap().gates;
        let mut shown: Vec<_> = gates.iter().map(|gate| (world.name(gate.index), gate.state)).collect();
        shown.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert!(gates.iter().all(|gate| gate.until != crate::routing_world::NOW || gate.state == GateState::Probing));
        shown
    };
    let all = [
        ("acme/a", GateState::Open),
        ("bolt/b", GateState::Cooling),
        ("dusk/d", GateState::HalfOpen),
        ("echo/e", GateState::Probing),
        ("fern/f", GateState::ConfigFault),
    ];
    let all = all.map(|(name, state)| (name.to_owned(), state));
    assert_eq!((shut(&world, true), shut(&world, false)), (all.to_vec(), all.to_vec()));
    world.live.endpoints.iter_mut().for_each(|cell| *cell = Default::default());
    assert_eq!(shut(&world, true), [], "nothing is told where nothing is shut");
}

/// Names of the endpoints in the safe set, in order.
fn safe(world: &World, query: &Query) -> Vec<String> {
    let decision = decide_to_serve(&world.snapshot, &world.live, query, NOW, Some(7)).unwrap();
    assert_eq!(decision.exploration_share, 0.0, "nothing is drawn from it");
    let mut names: Vec<_> = decision.safe_set.iter().map(|index| world.name(*index)).collect();
    names.sort();
    names
}

#[test]
fn the_safe_set_holds_what_passed_every_filter_and_gate_and_is_hardly_likelier_to_fail_than_the_best() {
    let world = World::of(
        "acme/a ok1000 | bolt/b ok1000 $9/9 900ms | crow/c ok1000 open5 | dusk/d ok1000 half7 | echo/e ok1000 ctx10 | \
         fern/f ok1000 paced1 | gale/g ok70 bad30 | hawk/h ok1000 knee2 k9",
    );
    let query = world.query(Objective::Cheapest, "");
    assert_eq!(safe(&world, &query), ["acme/a", "bolt/b"], "price and speed do not count");
}

#[test]
fn the_safe_set_keeps_to_the_first_target_and_to_the_latency_that_was_asked_for() {
    let world = World::of("acme/a 90ms w40 | bolt/b 100ms w40 | crow/c 3000ms w40");
    let mut query = world.query(Objective::Cheapest, "");
    query.routing_mut().preferred_max_latency =
        Some(Sourced { value: Preference { p50: Some(0.5), ..Preference::default() }, source: Source::Metadata });
    assert_eq!(safe(&world, &query), ["acme/a", "bolt/b"]);
    query.routing_mut().preferred_max_latency =
        Some(Sourced { value: Preference { p50: Some(0.001), ..Preference::default() }, source: Source::Metadata });
    assert_eq!(safe(&world, &query), [""; 0], "none keeps it");
    assert_eq!(safe(&world, &world.query(Objective::Cheapest, "crow/c, acme/a")), ["crow/c"]);
}

#[test]
fn a_decision_records_its_query() {
    let world = World::of("acme/a | bolt/b $9/9 | crow/c ctx50 | dusk/d tools");
    let sticky = StickyEndpoint { endpoint: EndpointId::new("acme/a", "acme", ""), cached_tokens: 70 };
    let query = Query {
        key_allowed: vec!["*".parse().unwrap()],
        key_blocked: vec!["bolt/*".parse().unwrap()],
        prompt_tokens: 77,
        images: 2,
        max_tokens: None,
        answers: 3,
        sticky: Some(sticky),
        task_class: Some(TaskClass::of_features(TaskFeatures::TOOLS)),
        latency_margin: 1.5,
        quality_per_dollar: 0.0,
        ..world.query(Objective::Cheapest, "acme/a, service/auto")
    };
    for decide in [decide, decide_to_serve] {
        let decision = decide(&world.snapshot, &world.live, &query, NOW, Some(3)).unwrap();
        assert_eq!(decision.query(), query);
        assert_eq!(decide(&world.snapshot, &world.live, &decision.query(), NOW, Some(3)), Ok(decision));
    }
}
