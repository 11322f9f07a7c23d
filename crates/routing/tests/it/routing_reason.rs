//! Decisions told as sentences, word for word.

use expect_test::{Expect, expect};
use pointsman_domain::{
    Objective::{self, *},
    Preference, Query, Source, Sourced,
};
use pointsman_routing::{decide::decide, explain::reason_sentence};

use crate::routing_world::{NOW, World, attempts};

/// The sentence, a line per clause, about a request for `models` in a world, decided with a seed (0 for none),
/// after these attempts.
fn check(world: &str, objective: Objective, models: &str, (seed, attempts): (u64, &str), sentence: Expect) {
    check_with(world, (objective, models), |_| (), (seed, attempts), sentence);
}

fn check_with(
    world: &str,
    (objective, models): (Objective, &str),
    ask: impl FnOnce(&mut Query),
    (seed, attempts): (u64, &str),
    sentence: Expect,
) {
    let world = World::of(world);
    let mut query = world.query(objective, models);
    ask(&mut query);
    let decision = decide(&world.snapshot, &world.live, &query, NOW, Some(seed)).expect("a decision");
    let told = reason_sentence(&decision, world.catalog(), &attempts::attempts(&world, &decision, attempts));
    sentence.assert_eq(&format!("{}\n", told.replace("; ", ";\n").replace(". ", ".\n")));
}

#[test]
fn the_fastest_endpoint_of_a_model_names_its_rivals_by_provider() {
    let world = "acme/chat@boreal 120ms 380tps $0.8/3.2 | acme/chat@delta 160ms 270tps | acme/chat@helix open3.2 \
                 | acme/chat@atlas cool0.7 | acme/chat@fjord k9 knee4 | acme/chat@gamma paced1.5";
    check(
        world,
        Fastest,
        "acme/chat",
        (0, "ok"),
        expect![[r#"
            fastest: acme/chat on boreal.
            Chosen because it is expected to finish first: 0.39 s, next best delta 0.54 s (+38 %).
            Predicted time 0.38 s (first token 0.12 s + 100 tokens at 380 tok/s), failure probability 0.14 %, cost $0.00112;
            2 candidates;
            skipped for now: atlas (429, retry in 0.7 s), helix (breaker open 3.2 s more: 3 consecutive 503), fjord (saturated: 9 in flight, knee 4), gamma (paced, next in 1.5 s).
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}

#[test]
fn the_cheapest_of_several_models_leads_with_its_price() {
    let world =
        "acme/small $0.15/0.6 | beta/medium $0.4/1.6 bad1 | core/large $3/15 | dawn/free $0/0 ctx100 | echo/off off";
    check(
        world,
        Cheapest,
        "",
        (0, "ok"),
        expect![[r#"
            cheapest: acme/small on acme.
            Chosen because it is expected to cost the least, with failures and waiting priced in: $0.000212, next best beta/medium on beta $0.000584 (+175 %).
            Predicted cost $0.00021, failure probability 0.14 %, time 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s);
            3 candidates;
            excluded: 1 by context_length.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}

#[test]
fn the_most_reliable_leads_with_its_failures() {
    check(
        "acme/a bad1 | bolt/b 90ms bad6",
        Reliable,
        "",
        (0, "ok"),
        expect![[r#"
            reliable: acme/a on acme.
            Chosen because it is the least likely to fail or to be slow: 12.3 %, next best bolt/b on bolt 22.3 % (10 percentage points more).
            Predicted failure probability 2.9 %, time 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), cost $0.0012;
            2 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}

#[test]
fn balanced_names_the_medians_it_was_weighed_against() {
    check(
        "acme/a 90ms $4/8 | bolt/b 400ms $1/2 | core/c 300ms $2/4",
        Balanced,
        "",
        (0, "ok"),
        expect![[r#"
            balanced: bolt/b on bolt.
            Chosen because it has the best balance of time and cost: 0.791 times the median time and cost, next best core/c on core 1 times (+27 %).
            Predicted time 1.4 s (first token 0.4 s + 100 tokens at 100 tok/s), cost $0.0012, failure probability 0.14 %;
            score: 50 % time ÷ median 1.3 s + 50 % cost ÷ median $0.0024, failures included;
            3 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}

/// What is said of attempts after the decision, about requests for one model at four providers or for several models.
fn check_attempts(world: &str, expected: Expect, attempts: &[&str]) {
    let world = World::of(world);
    let decision = world.decide(&world.query(Fastest, "")).expect("a decision");
    let of = |line: &&str| {
        let told = reason_sentence(&decision, world.catalog(), &attempts::attempts(&world, &decision, line));
        let (_, end) = told.split_once("; 5 candidates.").expect("an end");
        format!("{line:40} |{}\n", end.trim_start())
    };
    expected.assert_eq(&attempts.iter().map(of).collect::<String>());
}

const FIVE: &str = "acme/a 90ms | bolt/b 100ms | core/c 110ms | dawn/d 120ms | echo/e 130ms";

#[test]
fn attempts_have_a_sentence_of_their_own_once_the_request_was_sent() {
    check_attempts(
        FIVE,
        expect![[r#"
                                                     |
            ok                                       |1 attempt: the chosen endpoint answered.
        "#]],
        &["", "ok"],
    );
}

#[test]
fn an_answer_by_another_endpoint_names_it_and_how_it_came_to_answer() {
    check_attempts(
        FIVE,
        expect![[r#"
            500, ok                                  |2 attempts: the chosen endpoint failed (500), bolt/b on bolt answered as fallback.
            connect refused, 503, ok                 |3 attempts: the chosen endpoint failed (refused), bolt/b on bolt failed (503), core/c on core answered as fallback.
            500, timeout, 503, last_resort ok        |4 attempts: the chosen endpoint failed (500), bolt/b on bolt failed (timeout), core/c on core failed (503), dawn/d on dawn answered as a last resort.
            truncated, probe ok                      |2 attempts: the chosen endpoint failed (truncated), bolt/b on bolt answered as a probe.
            500, panic ok                            |2 attempts: the chosen endpoint failed (500), bolt/b on bolt answered although it was blocked.
            skip ok                                  |1 attempt: the chosen endpoint was skipped (no longer available), bolt/b on bolt answered.
            skip 500, ok                             |2 attempts: the chosen endpoint was skipped (no longer available), bolt/b on bolt failed (500), core/c on core answered as fallback.
        "#]],
        &[
            "500, ok",
            "connect refused, 503, ok",
            "500, timeout, 503, last_resort ok",
            "truncated, probe ok",
            "500, panic ok",
            "skip ok",
            "skip 500, ok",
        ],
    );
}

#[test]
fn the_reason_names_the_winner_of_a_race() {
    check_attempts(
        FIVE,
        expect![[r#"
            ok, hedge lost_race                      |2 attempts: the chosen endpoint answered, the hedge at bolt/b on bolt was slower.
            ok, hedge 500                            |2 attempts: the chosen endpoint answered, the hedge at bolt/b on bolt failed (500).
            lost_race, hedge ok                      |2 attempts: the chosen endpoint was late and slower than the hedge at bolt/b on bolt.
            lost_race, hedge truncated partly        |2 attempts: the chosen endpoint was late and slower than the hedge at bolt/b on bolt, the hedge at bolt/b on bolt failed after its first content (truncated).
            500, lost_race, hedge ok                 |3 attempts: the chosen endpoint failed (500), bolt/b on bolt was late and slower than the hedge at core/c on core.
            500, hedge ok                            |2 attempts: the chosen endpoint failed (500), the hedge at bolt/b on bolt answered.
            500, hedge 500, ok                       |3 attempts: the chosen endpoint failed (500), the hedge at bolt/b on bolt failed (500), core/c on core answered as fallback.
            400, hedge lost_race                     |2 attempts: the chosen endpoint failed (400), the hedge at bolt/b on bolt was cancelled when the request ended.
        "#]],
        &[
            "ok, hedge lost_race",
            "ok, hedge 500",
            "lost_race, hedge ok",
            "lost_race, hedge truncated partly",
            "500, lost_race, hedge ok",
            "500, hedge ok",
            "500, hedge 500, ok",
            "400, hedge lost_race",
        ],
    );
}

#[test]
fn a_request_that_failed_is_said_to_have_failed() {
    check_attempts(
        FIVE,
        expect![[r#"
            400                                      |1 attempt: the chosen endpoint failed (400).
            500, 503                                 |2 attempts, all failed: the chosen endpoint (500), bolt/b on bolt (503).
            500, connect refused, timeout            |3 attempts, all failed: the chosen endpoint (500), bolt/b on bolt (refused), core/c on core (timeout).
            truncated partly                         |1 attempt: the chosen endpoint failed after its first content (truncated).
            500, truncated partly                    |2 attempts: the chosen endpoint failed (500), bolt/b on bolt failed after its first content (truncated).
            skip 500                                 |1 attempt: the chosen endpoint was skipped (no longer available), bolt/b on bolt failed (500).
        "#]],
        &["400", "500, 503", "500, connect refused, timeout", "truncated partly", "500, truncated partly", "skip 500"],
    );
}

#[test]
fn a_client_that_left_is_no_failure() {
    check_attempts(
        FIVE,
        expect![[r#"
            cancelled                                |1 attempt: the chosen endpoint was cancelled.
            cancelled partly                         |1 attempt: the chosen endpoint was cancelled while it answered.
            cancelled, hedge cancelled               |2 attempts: the chosen endpoint was cancelled, the hedge at bolt/b on bolt was cancelled.
            500, cancelled                           |2 attempts: the chosen endpoint failed (500), bolt/b on bolt was cancelled.
        "#]],
        &["cancelled", "cancelled partly", "cancelled, hedge cancelled", "500, cancelled"],
    );
}

#[test]
fn within_one_model_a_provider_is_name_enough() {
    let world = World::of("acme/a@x 90ms | acme/a@y 100ms");
    let decision = world.decide(&world.query(Fastest, "acme/a")).expect("a decision");
    let told = reason_sentence(&decision, world.catalog(), &attempts::attempts(&world, &decision, "500, ok"));
    assert!(
        told.ends_with("; 2 candidates. 2 attempts: the chosen endpoint failed (500), y answered as fallback."),
        "{told}"
    );
}

#[test]
fn a_choice_made_by_noise_says_so() {
    let world = "acme/a 1000ms w40 | bolt/b 1100ms unseen";
    let explores = |seed: &u64| {
        let world = World::of(world);
        decide(&world.snapshot, &world.live, &world.query(Fastest, ""), NOW, Some(*seed)).is_ok_and(|d| d.explored)
    };
    let seed = (1..100).find(explores).expect("noise decides now and then");
    check(
        world,
        Fastest,
        "",
        (seed, "ok"),
        expect![[r#"
            fastest: bolt/b on bolt.
            Chosen to explore: a random variation of uncertain estimates ranks it first: 1.7 s, next best acme/a on acme 2.1 s (+19 %);
            without the variation another endpoint would be chosen;
            exploring finds out whether a rarely used endpoint has become better.
            Predicted time 2.1 s (first token 1.1 s + 100 tokens at 100 tok/s), failure probability 1 %, cost $0.0012;
            2 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}

#[test]
fn probes_and_panic_say_so() {
    check(
        "acme/a 200ms half1 | bolt/b 200ms",
        Fastest,
        "",
        (0, "ok"),
        expect![[r#"
            fastest: acme/a on acme.
            Chosen to probe whether it has recovered: its circuit breaker is half-open, and one request tests it;
            without the probe the choice would be bolt/b on bolt.
            Predicted time 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), failure probability 50 %, cost $0.0012;
            2 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
    check(
        "acme/a open5 | bolt/b open2",
        Fastest,
        "",
        (0, "ok"),
        expect![[r#"
            fastest: bolt/b on bolt.
            Chosen because every endpoint is blocked at the moment (circuit breaker or rate limit) and the block of this one ends first (in 2 s).
            Predicted time 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), failure probability 50 %, cost $0.0012;
            2 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}

fn preferring(first_token: f64, margin: f64) -> impl FnOnce(&mut Query) {
    move |query| {
        let value = Preference { p95: Some(first_token), ..Preference::default() };
        query.routing_mut().preferred_max_latency = Some(Sourced { value, source: Source::Alias });
        query.latency_margin = margin;
    }
}

#[test]
fn a_preference_is_named_with_its_margin_and_the_endpoint_it_ranked_behind() {
    let world = "acme/a 900ms $1/1 | bolt/b 90ms $3/3 | core/c 95ms $4/4";
    check_with(
        world,
        (Cheapest, ""),
        preferring(0.5, 1.25),
        (0, "ok"),
        expect![[r#"
            cheapest: bolt/b on bolt.
            Chosen because among the endpoints expected to keep preferred_max_latency (p95 0.5 s, margin 1.25), it is expected to cost the least, with failures and waiting priced in: $0.0033, next best core/c on core $0.0044 (+33 %);
            acme/a on acme has a better score ($0.00111) but is expected to miss that.
            Predicted cost $0.0033, failure probability 0.14 %, time 1.1 s (first token 0.09 s + 100 tokens at 100 tok/s);
            3 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
    check_with(
        world,
        (Cheapest, ""),
        preferring(0.01, 1.0),
        (0, "ok"),
        expect![[r#"
            cheapest: bolt/b on bolt.
            Chosen because no endpoint is expected to keep preferred_max_latency (p95 0.01 s) and it comes nearest;
            acme/a on acme has a better score ($0.00111) but is expected to miss that by more.
            Predicted cost $0.0033, failure probability 0.14 %, time 1.1 s (first token 0.09 s + 100 tokens at 100 tok/s);
            3 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
    check_with(
        "acme/a 900ms unseen $0.1/0.1 | bolt/b 90ms",
        (Cheapest, ""),
        preferring(0.5, 1.0),
        (0, "ok"),
        expect![[r#"
            cheapest: acme/a on acme.
            Chosen because it is expected to cost the least, with failures and waiting priced in: $0.000121, next best bolt/b on bolt $0.0012 (+891 %).
            Predicted cost $0.00011, failure probability 1 %, time 1.9 s (first token 0.9 s + 100 tokens at 100 tok/s);
            has few observations and may keep preferred_max_latency (p95 0.5 s);
            2 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
    let both = |query: &mut Query| {
        query.routing_mut().provider.order = vec!["core".to_owned()];
        let value = Preference::median(50.0);
        query.routing_mut().preferred_min_throughput = Some(Sourced { value, source: Source::TopLevel });
    };
    check_with(
        world,
        (Cheapest, ""),
        both,
        (0, "ok"),
        expect![[r#"
            cheapest: core/c on core.
            Chosen because provider.order lists its provider first;
            acme/a on acme has a better score ($0.00111) but comes later in that order.
            Predicted cost $0.0044, failure probability 0.14 %, time 1.1 s (first token 0.095 s + 100 tokens at 100 tok/s);
            expected to keep preferred_min_throughput (p50 50 tok/s);
            3 candidates.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}

#[test]
fn a_target_that_is_missed_beyond_all_measure_is_not_taken_for_the_model_of_a_conversation() {
    let clause = why_chosen("acme/a unseen | bolt/b 90ms", "", preferring(1e-15, 1.0));
    assert!(clause.contains("preferred_max_latency") && !clause.contains("conversation"), "{clause}");
}

/// The clause on why an endpoint was chosen.
fn why_chosen(world: &str, models: &str, ask: impl FnOnce(&mut Query)) -> String {
    let world = World::of(world);
    let mut query = world.query(Fastest, models);
    ask(&mut query);
    let decision = decide(&world.snapshot, &world.live, &query, NOW, Some(0)).expect("a decision");
    let text = reason_sentence(&decision, world.catalog(), &[]);
    text.split(". ").nth(1).expect("a clause").to_owned()
}

#[test]
fn the_order_of_the_requested_models_is_named_where_it_decided() {
    expect![[r#"
        Chosen because its model is listed first in the request, and among the endpoints of that model it is expected to finish first: 1.9 s
        Chosen because no model listed before it in the request has an available endpoint, and it is the only candidate
        Chosen because it is expected to finish first: 1.1 s
    "#]]
    .assert_eq(&format!(
        "{}\n{}\n{}\n",
        why_chosen("acme/a 900ms | bolt/b 90ms", "acme/a, bolt/b", |_| ()),
        why_chosen("acme/a cool5 | bolt/b 90ms", "acme/a, bolt/b", |_| ()),
        why_chosen("acme/a 90ms | bolt/b 900ms", "acme/a, bolt/b", |_| ()),
    ));
}

#[test]
fn among_the_endpoints_of_the_provider_listed_first_the_score_decides() {
    let ask = |query: &mut Query| query.routing_mut().provider.order = vec!["x".to_owned()];
    expect!["Chosen because provider.order lists its provider first, and among the endpoints there it is expected to finish first: 1.5 s, next best bolt/b on x 1.6 s (+7 %); core/c on y has a better score (1.1 s) but comes later in that order"].assert_eq(&why_chosen("acme/a@x 500ms | bolt/b@x 600ms | core/c@y 90ms", "", ask));
}

#[test]
fn a_fixed_model_with_three_endpoints_says_why_this_one_was_chosen() {
    expect!["Chosen because it is expected to finish first: 1.1 s, next best x 1.5 s (+39 %)"].assert_eq(&why_chosen(
        "acme/a@x 500ms | acme/a@y 90ms | acme/a@z 700ms",
        "acme/a",
        |_| (),
    ));
}

#[test]
fn a_single_candidate_has_no_rival() {
    check(
        "acme/a",
        Balanced,
        "acme/a",
        (0, "ok"),
        expect![[r#"
            balanced: acme/a on acme.
            Chosen because it is the only candidate.
            Predicted time 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), cost $0.0012, failure probability 0.14 %;
            score: 50 % time ÷ median 1.2 s + 50 % cost ÷ median $0.0012, failures included;
            1 candidate.
            1 attempt: the chosen endpoint answered.
        "#]],
    );
}
