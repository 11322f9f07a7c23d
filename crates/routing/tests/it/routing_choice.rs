//! Which endpoint is chosen, in which order the others follow, and what never matters.

use std::time::Duration;

use pointsman_domain::{
    Alias, Candidate, Decision, DecisionCode,
    Objective::{self, *},
    Preference, Query, RequestedService, RetryPolicy, RoutingPolicy, ServicePreference, Source, Sourced, Weights,
};
use pointsman_routing::{
    decide::{decide, decide_to_serve, reference_scores},
    explain::{fill_selection_probabilities, reason_sentence, replay},
};

use crate::routing_world::{NOW, World, alias};

/// The plan of a request for `models` (the alias for everything when empty), without noise.
fn check(objective: Objective, world: &str, models: &str, plan: &str) {
    check_with(objective, world, models, |_| (), plan);
}

fn check_with(objective: Objective, world: &str, models: &str, ask: impl Fn(&mut Query), plan: &str) {
    let text = world;
    let world = World::of(world);
    let mut query = world.query(objective, models);
    ask(&mut query);
    let decision = world.decide(&query).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!(world.plan(&decision), plan, "{objective}: {text}");
}

#[test]
fn cheapest_takes_the_lowest_expected_cost() {
    check(Cheapest, "acme/a $1/2 | bolt/b $0.5/1 | core/c $3/15", "", "bolt/b acme/a core/c");
    // Dear output loses although its input is cheaper: 1,000 in, 100 out.
    check(Cheapest, "acme/a $1/2 | bolt/b $0.9/40", "", "acme/a bolt/b");
    check(Cheapest, "acme/a $1/2 | bolt/b $0.5/1 +0.01", "", "acme/a bolt/b");
    // A list price is no bargain when most answers fail.
    check(Cheapest, "acme/a $1/2 | bolt/b $0.5/1 ok5 bad40 | core/c $2/4", "", "acme/a core/c bolt/b");
}

#[test]
fn cheapest_ranks_by_the_prices_of_the_service_that_each_endpoint_will_be_asked_for() {
    let asking = |word: &str| RequestedService { tier: ServicePreference::of(word), ..RequestedService::default() };
    let there = RequestedService { geography: ServicePreference::of("us"), ..RequestedService::default() };
    let pool = "acme/a $1/2 | bolt/b $1.5/3 flex$0.7/1.4 | core/c $2/4 flex$1.2/2.4";
    for word in ["", "auto", "default", "priority"] {
        let service = if word.is_empty() { RequestedService::default() } else { asking(word) };
        check_with(Cheapest, pool, "", |q| q.needs.service = service, "acme/a bolt/b core/c");
    }
    check_with(Cheapest, pool, "", |q| q.needs.service = asking("flex"), "bolt/b acme/a core/c");
    let near = "acme/a $1/2 us1.5 | bolt/b $1.2/2.4 us1.1";
    check(Cheapest, near, "", "acme/a bolt/b");
    check_with(Cheapest, near, "", |q| q.needs.service = there, "bolt/b acme/a");
}

#[test]
fn cheapest_leaves_a_silent_endpoint_whatever_it_costs() {
    check(Cheapest, "acme/a $0.1/0.2 k2 silent | bolt/b $1/2 | core/c $1/2 900ms", "", "bolt/b core/c acme/a");
    // Nobody waits very long yet, but together for too long.
    check(Cheapest, "acme/a $0.1/0.2 k5 silent | bolt/b $1/2 | core/c $9/18", "", "bolt/b core/c acme/a");
}

#[test]
fn the_cost_of_a_failure_follows_from_the_endpoints_that_can_take_over() {
    // However cheap the second is: behind its gate it takes nothing over.
    check(
        Cheapest,
        "acme/a $1/2 silent | bolt/b $1.1/2.2 open9 | core/c $4/8 | dart/d $5/9",
        "",
        "core/c dart/d acme/a",
    );
}

#[test]
fn cheapest_among_equals_takes_the_faster_one() {
    check(Cheapest, "acme/a 300ms | bolt/b 100ms", "", "bolt/b acme/a");
    check(Cheapest, "acme/a $0/0 300ms | bolt/b $0/0 100ms", "service/free", "bolt/b acme/a");
}

#[test]
fn fastest_takes_the_lowest_predicted_time_of_this_request() {
    check(Fastest, "acme/a 90ms | bolt/b 300ms", "", "acme/a bolt/b");
    // First token and throughput count apart: 100 tokens take 1 s at 100 tok/s and 0.25 s at 400.
    check(Fastest, "acme/a 90ms 100tps | bolt/b 500ms 400tps", "", "bolt/b acme/a");
    check_with(Fastest, "acme/a 90ms 100tps | bolt/b 500ms 400tps", "", |q| q.max_tokens = Some(10), "acme/a bolt/b");
}

#[test]
fn fastest_counts_its_own_load_and_leaves_a_silent_endpoint() {
    check(Fastest, "acme/a 90ms k8 knee6 100tps | bolt/b 150ms 100tps", "", "bolt/b acme/a");
    check(Fastest, "acme/a 90ms k1 | bolt/b 300ms", "", "acme/a bolt/b");
    check(Fastest, "acme/a 90ms k1 silent | bolt/b 300ms", "", "bolt/b acme/a");
}

#[test]
fn reliable_takes_the_highest_success_rate() {
    check(Reliable, "acme/a ok20 bad3 | bolt/b 400ms ok20 bad1", "", "bolt/b acme/a");
    check(Reliable, "acme/a 90ms ok30 bad2 $0/0 | bolt/b 300ms ok30 $9/9", "", "bolt/b acme/a");
}

#[test]
fn reliable_weighs_a_likely_slow_answer_against_a_failure() {
    check(Reliable, "acme/a 200ms ok30 bad1 | bolt/b 1500ms ok30", "", "acme/a bolt/b");
    let world = World::of("acme/a 200ms | bolt/b 1500ms");
    let decision = world.decide(&world.query(Reliable, "")).unwrap();
    let slow = |rank: usize| decision.candidates[rank].terms.iter().find(|term| term.name == "slow").unwrap().value;
    assert!(slow(0) < 0.1 && slow(1) > 0.5, "{} {}", slow(0), slow(1));
}

#[test]
fn the_second_attempt_goes_to_a_safer_endpoint_that_scores_little_worse() {
    let world = |safer: &str| format!("acme/a 100ms | bolt/b 200ms ok50 bad2 | core/c {safer} | dawn/d 900ms ok999");
    check(Fastest, &world("250ms ok200"), "", "acme/a core/c dawn/d bolt/b");
    check(Fastest, &world("850ms ok200"), "", "acme/a bolt/b core/c dawn/d");
}

#[test]
fn a_later_attempt_stays_at_the_provider_that_failed_where_another_one_scores_over_twice_as_badly() {
    let world = |elsewhere: &str| format!("a/1@x $1/1 | a/2@x $2/2 | b/1@y {elsewhere} | c/1@z {elsewhere}");
    check(Cheapest, &world("$1000/1000"), "", "a/1@x a/2@x b/1@y c/1@z");
    check(Cheapest, &world("$5/5"), "", "a/1@x a/2@x b/1@y c/1@z");
    check(Cheapest, &world("$3/3"), "", "a/1@x b/1@y c/1@z a/2@x");
}

#[test]
fn the_second_of_two_attempts_weighs_its_risk_as_well() {
    let policy = RoutingPolicy {
        retry: RetryPolicy { max_attempts: 2, ..RoutingPolicy::default().retry },
        ..RoutingPolicy::default()
    };
    let world = World::under("acme/a 100ms | bolt/b 200ms ok20 bad3 | core/c 250ms ok200", policy);
    assert_eq!(world.plan(&world.decide(&world.query(Fastest, "")).unwrap()), "acme/a core/c bolt/b");
}

#[test]
fn a_safer_second_attempt_leaves_the_third_at_a_provider_not_tried_yet() {
    let world = "a/1@x 100ms | a/2@y 200ms ok20 bad3 | a/3@z 220ms ok20 bad3 | a/4@y 230ms ok200";
    check(Fastest, world, "", "a/1@x a/4@y a/3@z a/2@y");
}

#[test]
fn the_last_of_three_attempts_goes_where_failure_is_least_likely() {
    let plan = "acme/a bolt/b dawn/d core/c";
    check(Fastest, "acme/a 100ms | bolt/b 200ms | core/c 300ms ok20 bad2 | dawn/d 600ms ok60", "", plan);
}

#[test]
fn the_last_of_three_attempts_goes_to_one_of_the_eight_best() {
    let world = |safe_ms: u32| {
        let others = (1..=8).map(|n| format!("m{n}/x {n}00ms ok200 bad2"));
        others.chain([format!("safe/s {safe_ms}ms ok200")]).collect::<Vec<_>>().join(" | ")
    };
    check(Fastest, &world(750), "", "m1/x m2/x safe/s m3/x m4/x m5/x m6/x m7/x m8/x");
    check(Fastest, &world(1000), "", "m1/x m2/x m3/x m4/x m5/x m6/x m7/x m8/x safe/s");
}

#[test]
fn estimates_are_those_of_the_last_publication_whenever_they_are_read() {
    let world = World::of("acme/a 100ms w3 idle90 | bolt/b 120ms w30");
    let inputs = |now| {
        let query = world.query(Fastest, "");
        let decision = decide(&world.snapshot, &world.live, &query, now, Some(7)).unwrap();
        decision.candidates.iter().map(|candidate| (candidate.endpoint, candidate.inputs)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(NOW), inputs(NOW.plus(Duration::from_secs(60))), "publishing again is what ages them");
}

#[test]
fn after_a_doubtful_choice_a_sound_one_comes_second() {
    let world = "acme/a 50ms 900tps ok20 bad8 | bolt/b 60ms 900tps ok20 bad8 | core/c 300ms 900tps ok60";
    check(Fastest, world, "", "acme/a core/c bolt/b");
}

#[test]
fn balanced_weighs_time_against_cost() {
    let world = "acme/a 90ms 400tps $4/8 | bolt/b 400ms 100tps $1/2 | core/c 300ms 150tps $2/4";
    let weigh = |latency, cost| move |q: &mut Query| q.weights = Weights::new(latency, cost).unwrap();
    check_with(Balanced, world, "", weigh(1.0, 0.0), "acme/a core/c bolt/b");
    check_with(Balanced, world, "", weigh(0.0, 1.0), "bolt/b core/c acme/a");
    check_with(Balanced, world, "", weigh(9.0, 9.0), "bolt/b core/c acme/a");
}

#[test]
fn only_the_ratio_of_the_weights_matters() {
    let world = World::of("acme/a 90ms $4/8 | bolt/b 400ms $1/2");
    let mut query = world.query(Balanced, "");
    query.weights = Weights::new(1.0, 3.0).unwrap();
    let once = world.decide(&query).unwrap();
    query.weights = Weights::new(2.0, 6.0).unwrap();
    assert_eq!(world.decide(&query).unwrap().candidates, once.candidates);
}

#[test]
fn ties_fall_to_failure_cost_load_and_name() {
    let free = |models: &str, plan: &str| check(Fastest, models, "", plan);
    free("acme/a $2/4 | bolt/b $1/2", "bolt/b acme/a");
    free("acme/a k2 | bolt/b k1", "bolt/b acme/a");
    let world = World::of("acme/a | bolt/b");
    let turned = World::of("bolt/b | acme/a");
    let plan = |world: &World| world.plan(&world.decide(&world.query(Fastest, "")).unwrap());
    assert_eq!(plan(&world), plan(&turned), "full ties fall to the id, whatever the order");
}

#[test]
fn the_free_pool_holds_only_what_costs_nothing_at_all() {
    check(Balanced, "acme/a $0/0 | bolt/b $0/1 | core/c $0/0 +0.001", "service/free", "acme/a");
}

#[test]
fn fallback_models_come_after_every_endpoint_of_the_model_before() {
    let world = "acme/a@x 900ms | bolt/b@x 90ms | acme/a@y 1000ms";
    check(Fastest, world, "acme/a, bolt/b", "acme/a@x acme/a@y bolt/b@x");
    check(Fastest, world, "bolt/b, acme/a", "bolt/b@x acme/a@y acme/a@x"); // x was tried, so y goes first
    check(Fastest, world, "acme/a, acme/a, service/auto", "acme/a@x acme/a@y bolt/b@x");
}

#[test]
fn a_knee_without_evidence_excludes_no_endpoint() {
    check(Cheapest, "acme/a k20 knee4 $1/1 | bolt/b $9/9", "", "bolt/b");
    check(Cheapest, "acme/a k20 knee4 doubtful $1/1 | bolt/b $9/9", "", "acme/a bolt/b");
}

#[test]
fn a_saturated_model_is_not_left_for_another_one() {
    check(Fastest, "acme/a k20 knee4 | bolt/b 90ms", "acme/a, bolt/b", "acme/a bolt/b");
    check(Fastest, "acme/a@x k20 knee4 | acme/a@y | bolt/b 90ms", "acme/a, bolt/b", "acme/a@y bolt/b");
}

#[test]
fn the_reserve_is_ordered_by_its_reason_of_exclusion_the_mildest_first() {
    let check = |text: &str, plan: &str, standby: &str| {
        let world = World::of(text);
        let decision = world.decide(&world.query(Fastest, "")).unwrap();
        assert_eq!((world.plan(&decision), world.standby(&decision)), (plan.to_owned(), standby.to_owned()), "{text}");
    };
    check("acme/a 90ms | bolt/b", "acme/a bolt/b", "");
    check(
        "acme/a open3 | bolt/b half1 9000ms | core/c paced1 | dawn/d k9 knee4 | echo/e",
        "echo/e",
        "dawn/d core/c! bolt/b?",
    );
    check("acme/a probing | bolt/b half1 9000ms | core/c", "core/c", "bolt/b? acme/a!");
    check("acme/a cool1 | bolt/b fault40 | core/c", "core/c", "");
    // Among equals the one that opens soonest, or that scores best.
    check("acme/a open3 | bolt/b open2 | core/c paced2 | dawn/d", "dawn/d", "core/c! bolt/b! acme/a!");
    check("acme/a probing | bolt/b open2 | core/c", "core/c", "bolt/b! acme/a!");
    check("acme/a k9 knee4 900ms | bolt/b k9 knee4 | core/c", "core/c", "bolt/b acme/a");
    // Where nobody is free, the next milder gates stand behind those that are passed.
    check("acme/a open3 | bolt/b half1 | core/c paced1", "core/c!", "bolt/b? acme/a!");
    check("acme/a open3 | bolt/b half1", "bolt/b?", "acme/a!");
}

#[test]
fn without_fallbacks_there_is_no_reserve() {
    let world = World::of("acme/a k9 knee4 | bolt/b");
    let mut query = world.query(Fastest, "");
    query.routing_mut().provider.allow_fallbacks = false;
    assert_eq!(world.standby(&world.decide(&query).unwrap()), "");
}

#[test]
fn later_attempts_prefer_other_providers() {
    check(
        Fastest,
        "a/1@x 100ms | a/2@x 110ms | a/3@x 120ms | a/4@y 200ms | a/5@z 300ms",
        "",
        "a/1@x a/4@y a/5@z a/2@x a/3@x",
    );
    // Only as many places as the request has attempts.
    let policy = RoutingPolicy {
        retry: RetryPolicy { max_attempts: 2, ..RoutingPolicy::default().retry },
        ..RoutingPolicy::default()
    };
    let world = World::under("a/1@x 100ms | a/2@x 110ms | a/4@y 200ms | a/5@z 300ms", policy);
    assert_eq!(world.plan(&world.decide(&world.query(Fastest, "")).unwrap()), "a/1@x a/4@y a/2@x a/5@z");
}

#[test]
fn provider_order_goes_before_any_score() {
    let order = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        move |q: &mut Query| q.routing_mut().provider.order.clone_from(&names)
    };
    let world = "a/a@x 100ms | a/a@y 200ms | a/a@z 300ms";
    check_with(Fastest, world, "a/a", order(&["Z", "y"]), "a/a@z a/a@y a/a@x");
    check_with(Fastest, world, "a/a", order(&["nobody", "y"]), "a/a@y a/a@x a/a@z");
}

#[test]
fn missed_preferences_move_an_endpoint_behind_the_others_without_excluding_it() {
    let prefer = |latency: Option<Preference>, rate: Option<Preference>| {
        let sourced = |value| Sourced { value, source: Source::Provider };
        move |q: &mut Query| {
            q.routing_mut().preferred_max_latency = latency.map(sourced);
            q.routing_mut().preferred_min_throughput = rate.map(sourced);
        }
    };
    let world = "acme/a 900ms $1/2 50tps | bolt/b 200ms $3/6 100tps | core/c 200ms $2/4 20tps";
    check_with(Cheapest, world, "", prefer(None, None), "acme/a core/c bolt/b");
    let p50 = |bound| Some(Preference { p50: Some(bound), ..Preference::default() });
    check_with(Cheapest, world, "", prefer(p50(0.5), None), "core/c bolt/b acme/a");
    check_with(Cheapest, world, "", prefer(None, p50(40.0)), "acme/a bolt/b core/c");
    // 200 ms is the median; the 95th percentile of σ = 0.3 is 328 ms.
    let p95 = |bound| Some(Preference { p95: Some(bound), ..Preference::default() });
    // Nobody keeps it: the nearest go first, the cheaper of those that are alike.
    check_with(Cheapest, world, "", prefer(p95(0.3), None), "core/c bolt/b acme/a");
    check_with(Cheapest, world, "", prefer(p95(0.35), None), "core/c bolt/b acme/a");
}

#[test]
fn without_fallbacks_there_is_one_candidate_and_one_attempt() {
    let world = World::of("acme/a 90ms | bolt/b 300ms | core/c open5");
    let mut query = world.query(Fastest, "");
    query.routing_mut().provider.allow_fallbacks = false;
    let decision = world.decide(&query).unwrap();
    assert_eq!((world.plan(&decision).as_str(), decision.max_attempts), ("acme/a", 1));
    let told: Vec<_> = decision.excluded.iter().map(|e| (world.name(e.index), e.reason.as_str())).collect();
    assert_eq!(told, [("bolt/b".into(), "provider_not_allowed"), ("core/c".into(), "circuit_open")]);
}

#[test]
fn a_half_open_endpoint_is_probed_first_if_some_objective_would_choose_it() {
    check(Fastest, "acme/a 200ms half1 | bolt/b 200ms", "", "acme/a? bolt/b");
    check(Fastest, "acme/a 9000ms half1 | bolt/b 200ms", "", "bolt/b");
    check(Fastest, "acme/a 200ms half1 | bolt/b 190ms half1 | core/c 200ms", "", "bolt/b? core/c");
    check(Reliable, "acme/a half1 | bolt/b bad1", "", "bolt/b");
    check(Reliable, "acme/a half6 | bolt/b bad1", "", "acme/a? bolt/b");
    check(Fastest, "acme/a half1 | bolt/b 90ms", "acme/a, bolt/b", "acme/a? bolt/b");
    check(Fastest, "acme/a 90ms | bolt/b half1", "acme/a, bolt/b", "acme/a");
}

#[test]
fn a_request_with_one_attempt_is_not_spent_on_a_probe() {
    let once = |q: &mut Query| q.routing_mut().provider.allow_fallbacks = false;
    check_with(Fastest, "acme/a 200ms half1 | bolt/b 200ms", "", once, "bolt/b");
    check_with(Fastest, "acme/a 200ms half1 | bolt/b open5", "", once, "acme/a?");
}

#[test]
fn when_nothing_is_left_gates_give_way_in_their_order() {
    check(Fastest, "a/1@v k40 knee4 | a/2@w paced1 | a/3@x half1 90s | a/4@y open5", "a/1", "a/1@v");
    check(Fastest, "a/2@w paced1 | a/3@x half0.5 | a/4@y open5", "a/2, a/3, a/4", "a/2@w!");
    check(Reliable, "a/3@x half0.5 900ms | a/5@z half1 | a/4@y open5", "", "a/5@z? a/3@x?");
    check(Fastest, "a/4@y open5 90ms | a/5@z open2 | a/6@q open9", "", "a/5@z! a/4@y! a/6@q!");
    check(Fastest, "a/1@p open5 | a/2@q open2 | a/3@r open9 | a/4@s open1", "", "a/4@s! a/2@q! a/1@p!");
    check(Fastest, "a/4@y probing | a/5@z open2 | a/6@q cool1 | a/7@r fault9", "", "a/5@z! a/4@y!");
}

#[test]
fn codes_say_why_the_choice_is_the_choice() {
    let code = |objective, world: &str, models: &str| {
        let world = World::of(world);
        world.decide(&world.query(objective, models)).unwrap().code.as_str()
    };
    let pair = "acme/a $0/0 | bolt/b $0/0";
    assert_eq!(code(Cheapest, pair, ""), "cheapest_available");
    assert_eq!(code(Fastest, pair, ""), "fastest_available");
    assert_eq!(code(Reliable, pair, ""), "most_reliable");
    assert_eq!(code(Balanced, pair, ""), "balanced_best_match");
    assert_eq!(code(Balanced, "acme/a | bolt/b open9", ""), "only_candidate");
    assert_eq!(code(Balanced, pair, "acme/a"), "fixed_model");
    assert_eq!(code(Balanced, pair, "service/free"), "free_pool");
    assert_eq!(code(Balanced, "acme/a cool9 | bolt/b", "acme/a, bolt/b"), "model_fallback");
}

#[test]
fn score_terms_have_the_names_of_their_objective() {
    let names = |objective| {
        let world = World::of("acme/a k9 knee4 | bolt/b");
        let decision = world.decide(&world.query(objective, "")).unwrap();
        let unit = decision.candidates[0].unit.as_str();
        (unit, decision.candidates[0].terms.iter().map(|term| term.name).collect::<Vec<_>>())
    };
    assert_eq!(names(Fastest), ("s", vec!["first_token", "generation", "failure"]));
    assert_eq!(names(Cheapest), ("usd", vec!["expected_cost", "failure", "time"]));
    assert_eq!(names(Reliable), ("probability", vec!["failure", "slow", "time"]));
    assert_eq!(names(Balanced), ("none", vec!["time", "failure_time", "expected_cost", "failure_cost"]));
}

/// The share of a thousand seeds under which each endpoint is chosen.
fn shares(world: &World, query: &Query, seeds: u32) -> Vec<(String, u32)> {
    let mut counts: Vec<(String, u32)> = Vec::new();
    for seed in 1..=seeds {
        let decision = decide(&world.snapshot, &world.live, query, NOW, Some(u64::from(seed))).unwrap();
        let name = world.name(decision.candidates.first().expect("a candidate").index);
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort();
    counts
}

#[test]
fn without_exploration_serving_is_the_preview() {
    let policy = RoutingPolicy { exploration: 0.0, ..RoutingPolicy::default() };
    let world = World::under("acme/a unseen | bolt/b unseen | core/c w1", policy);
    let query = world.query(Fastest, "");
    let preview = world.decide(&query).unwrap();
    for seed in 1..100 {
        let served = decide(&world.snapshot, &world.live, &query, NOW, Some(seed)).unwrap();
        assert_eq!(served, preview);
    }
}

#[test]
fn unseen_endpoints_share_the_traffic_and_well_known_ones_keep_theirs() {
    let unseen = World::of("acme/a unseen | bolt/b unseen");
    let split = shares(&unseen, &unseen.query(Fastest, ""), 1000);
    assert!(split.iter().all(|(_, count)| (350..=650).contains(count)), "{split:?}");
    let known = World::of("acme/a 100ms w40 | bolt/b 900ms w40");
    let query = known.query(Fastest, "");
    assert_eq!(shares(&known, &query, 1000), [("acme/a".to_owned(), 1000)]);
}

#[test]
fn a_decision_says_whether_it_explored() {
    let world = World::of("acme/a unseen 400ms | bolt/b 400ms w40");
    let query = world.query(Fastest, "");
    let preview = world.decide(&query).unwrap();
    let served = (1..200).map(|seed| decide(&world.snapshot, &world.live, &query, NOW, Some(seed)).unwrap());
    for decision in served {
        let differs = decision.candidates[0].index != preview.candidates[0].index;
        assert_eq!(decision.explored, differs);
        assert_eq!(decision.code.as_str() == "exploration", differs);
    }
}

/// Of one estimate's noise, of two and three, of ties, of somebody who can hardly win.
#[test]
fn selection_probabilities_are_the_shares_over_seeds() {
    const SEEDS: u32 = 20_000;
    let worlds = [
        "acme/a unseen 300ms | bolt/b 350ms w20 | core/c 3000ms w40",
        "acme/a 300ms w9 | bolt/b 310ms w9 | core/c 330ms w12 | dart/d 400ms w3",
        "acme/a unseen | bolt/b unseen | core/c unseen",
        "acme/a 300ms w20 $1/2 bad1 | bolt/b 320ms w20 $1.01/2 | core/c 900ms w9 $1.02/2.1 ok30 bad1",
    ];
    for (world, objective) in worlds.into_iter().flat_map(|world| Objective::ALL.map(|objective| (world, objective))) {
        let world = World::of(world);
        let query = world.query(objective, "");
        let mut decision = world.decide(&query).unwrap();
        fill_selection_probabilities(&mut decision, &world.snapshot.policy);
        let probability = |candidate: &Candidate| candidate.selection_probability.unwrap();
        let sum: f64 = decision.candidates.iter().map(probability).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{objective}: {sum}");
        let counted = shares(&world, &query, SEEDS);
        for candidate in &decision.candidates {
            let (name, expected) = (world.name(candidate.index), probability(candidate));
            let count = counted.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
            let share = f64::from(count) / f64::from(SEEDS);
            let standard_error = (expected * (1.0 - expected) / f64::from(SEEDS)).sqrt();
            // What is less than 0.001 is told, but not precisely.
            let allowed = if expected < 0.001 { 0.001 } else { 4.0 * standard_error };
            assert!((share - expected).abs() <= allowed, "{objective} {name}: counted {share}, computed {expected}");
        }
    }
}

#[test]
fn a_choice_that_noise_cannot_change_has_probability_one() {
    let certain = |world: &str, models: &str| {
        let world = World::of(world);
        let mut decision = world.decide(&world.query(Fastest, models)).unwrap();
        fill_selection_probabilities(&mut decision, &world.snapshot.policy);
        decision.candidates.iter().map(|c| c.selection_probability.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(certain("acme/a unseen", ""), [1.0]);
    assert_eq!(certain("acme/a half9 | bolt/b", ""), [1.0, 0.0]);
    assert_eq!(certain("acme/a open5 unseen", ""), [1.0], "past an open breaker");
    assert_eq!(certain("acme/a unseen | bolt/b 1ms", "acme/a, bolt/b"), [1.0, 0.0]);
    let still = RoutingPolicy { exploration: 0.0, ..RoutingPolicy::default() };
    let world = World::under("acme/a unseen 300ms | bolt/b unseen 301ms", still);
    for objective in Objective::ALL {
        let mut decision = world.decide(&world.query(objective, "")).unwrap();
        fill_selection_probabilities(&mut decision, &world.snapshot.policy);
        let all: Vec<f64> = decision.candidates.iter().map(|one| one.selection_probability.unwrap()).collect();
        assert_eq!(all, [1.0, 0.0], "{objective}");
    }
}

/// A run of ties begins with somebody who is omitted, so a replay sees only the rest of it.
#[test]
fn ties_among_those_behind_the_omitted_are_replayed_as_they_were() {
    let best = (0..8).map(|i| format!("m{i}/x@p0 {}ms 100000tps", 50 + i));
    // Each ties with the next, none with the one after that; of two that tie the cheaper goes first.
    let ms = |i: u32| 200.0 * (1.0 + 7e-10 * f64::from(i));
    let chain = (0..9).map(|i| format!("c{i}/x@p{i} {}ms 100000tps ${}/9", ms(i), if i % 2 == 0 { 5 } else { 4 }));
    let world = World::of(&best.chain(chain).collect::<Vec<_>>().join(" | "));
    let served = decide_to_serve(&world.snapshot, &world.live, &world.query(Fastest, ""), NOW, None).unwrap();
    let places: Vec<u32> = served.candidates.iter().map(|candidate| candidate.place).collect();
    assert!(places.windows(2).any(|pair| pair[1] > pair[0] + 1), "somebody between them is omitted: {places:?}");
    assert_eq!(replay(&served, &world.snapshot.policy).differences, []);
}

#[test]
fn the_reference_scores_rank_every_endpoint_that_is_on() {
    let world = World::of("acme/a 90ms $4/8 | bolt/b 300ms $1/2 | core/c off");
    let scores = reference_scores(&world.snapshot, &world.live, NOW);
    let [cheapest, fastest, reliable, balanced] = scores[0].unwrap();
    let bolt = scores[1].unwrap();
    assert!(cheapest > bolt[0] && fastest < bolt[1] && reliable < bolt[2] && balanced > bolt[3]);
    assert_eq!(scores[2], None);
}

#[test]
fn a_preview_takes_nothing_and_shows_what_serving_takes() {
    let world = World::of("acme/a 200ms w3 | bolt/b 220ms w3 | core/c half1");
    let query = world.query(Balanced, "");
    let seed = 4711;
    let serve = |seed| -> Decision { decide(&world.snapshot, &world.live, &query, NOW, seed).unwrap() };
    assert_eq!(serve(Some(seed)), serve(Some(seed)));
    assert_eq!(serve(None).seed, 0);
}

/// Providers, failures and silence move who comes second and third; the record holds all that this takes.
#[test]
fn a_replay_orders_later_attempts_by_risk_as_the_decision_did() {
    let mut moved = 0;
    for seed in 1..400_usize {
        let entry = |i: usize| {
            let at = |of: usize| (i * 37 + seed * of) % 101;
            let (provider, ms, bad) = (at(13) % (1 + seed % 7), 80 + at(29), (at(41) % 9).saturating_sub(3));
            format!("m{i}/x@p{provider} {ms}ms ok{} bad{bad} idle{} $1/{}", at(7), at(61) * at(3), 1 + at(17))
        };
        let world = World::of(&(0..20).map(entry).collect::<Vec<_>>().join(" | "));
        let objective = Objective::ALL[seed % 4];
        let served = decide_to_serve(&world.snapshot, &world.live, &world.query(objective, ""), NOW, Some(seed as u64));
        let served = served.unwrap();
        let scores = |place: usize| served.candidates[place].score;
        moved += u32::from(scores(1) > scores(3) && served.candidates[1].provider != served.candidates[3].provider);
        assert!(replay(&served, &world.snapshot.policy).is_identical(), "seed {seed}");
    }
    assert!(moved > 100, "safety had a say: {moved}");
}

#[test]
fn competing_models_keep_their_own_target() {
    let free = Alias { free_only: true, blocked: vec!["acme/big".parse().unwrap()], ..alias("service/free") };
    let world = "acme/small $0/0 900ms | acme/big $1/2 90ms | bolt/big $1/2 95ms";
    let world = World::aliased(world, RoutingPolicy::default(), vec![free]);
    let mut query = world.query(Fastest, "service/free, acme/big");
    query.routing_mut().provider.across_models = true;
    let decision = world.decide(&query).unwrap();
    assert_eq!(world.plan(&decision), "acme/big acme/small");
    assert_eq!(decision.code, DecisionCode::FastestAvailable, "it is not of the free pool");
    let targets: Vec<(u32, u32)> = decision.candidates.iter().map(|c| (c.target, c.group)).collect();
    assert_eq!(targets, [(1, 0), (0, 0)]);
    let sentence = reason_sentence(&decision, world.catalog(), &[]);
    assert!(sentence.contains("next best acme/small on acme"), "{sentence}");
}
