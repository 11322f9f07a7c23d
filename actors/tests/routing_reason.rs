//! Decisions told as sentences, word for word.
#![expect(clippy::expect_used, clippy::panic, reason = "tests stop at the first surprise")]

mod routing_world;

use expect_test::{Expect, expect};
use pointsman_actors::{
    decide::{decide, reason_sentence},
    domain::{Objective, Objective::*, Preference, Query, Source, Sourced},
};
use routing_world::{NOW, World};

/// The sentence, a line per clause, about a request for `models` in a world, decided with a seed (0 for none).
fn check(world: &str, objective: Objective, models: &str, (seed, attempts): (u64, usize), sentence: Expect) {
    check_with(world, (objective, models), |_| (), (seed, attempts), sentence);
}

fn check_with(
    world: &str,
    (objective, models): (Objective, &str),
    ask: impl FnOnce(&mut Query),
    (seed, attempts): (u64, usize),
    sentence: Expect,
) {
    let world = World::of(world);
    let mut query = world.query(objective, models);
    ask(&mut query);
    let decision = decide(&world.snapshot, &world.live, &query, NOW, Some(seed));
    let told = reason_sentence(&decision.expect("a decision"), world.catalog(), attempts);
    sentence.assert_eq(&format!("{}\n", told.replace("; ", ";\n")));
}

#[test]
fn the_fastest_endpoint_of_a_model_names_its_rivals_by_provider() {
    let world = "acme/chat@boreal 120ms 380tps $0.8/3.2 | acme/chat@delta 160ms 270tps | acme/chat@helix open3.2 \
                 | acme/chat@atlas cool0.7 | acme/chat@fjord k9 knee4 | acme/chat@gamma paced1.5";
    check(
        world,
        Fastest,
        "acme/chat",
        (0, 1),
        expect![[r#"
            fastest: acme/chat on boreal, predicted 0.38 s (first token 0.12 s + 100 tokens at 380 tok/s), failure 0.14 %, $0.00112;
            score 0.39 s, next best delta 0.54 s (+38 %);
            2 candidates, skipped: atlas (429, retry in 0.7 s), helix (breaker open 3.2 s more: 3 consecutive 503), fjord (saturated: 9 in flight, knee 4), gamma (paced, next in 1.5 s);
            explored: no;
            attempts: 1.
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
        (0, 1),
        expect![[r#"
            cheapest: acme/small on acme, $0.00021, failure 0.14 %, predicted 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s);
            score $0.000212, next best beta/medium on beta $0.000584 (+175 %);
            3 candidates;
            excluded: context_length×1;
            explored: no;
            attempts: 1.
        "#]],
    );
}

#[test]
fn the_most_reliable_leads_with_its_failures() {
    check(
        "acme/a bad1 | bolt/b 90ms bad6",
        Reliable,
        "",
        (0, 1),
        expect![[r#"
            reliable: acme/a on acme, failure 2.9 %, predicted 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), $0.0012;
            score 12.4 %, next best bolt/b on bolt 22.3 % (+81 %);
            2 candidates;
            explored: no;
            attempts: 1.
        "#]],
    );
}

#[test]
fn balanced_names_the_medians_it_was_weighed_against() {
    check(
        "acme/a 90ms $4/8 | bolt/b 400ms $1/2 | core/c 300ms $2/4",
        Balanced,
        "",
        (0, 1),
        expect![[r#"
            balanced: bolt/b on bolt, predicted 1.4 s (first token 0.4 s + 100 tokens at 100 tok/s), $0.0012, failure 0.14 %;
            score 0.791 (medians 1.3 s and $0.0024), next best core/c on core 1 (+27 %);
            3 candidates;
            explored: no;
            attempts: 1.
        "#]],
    );
}

#[test]
fn attempts_beyond_the_first_get_a_sentence_of_their_own() {
    check(
        "acme/a 90ms | bolt/b 100ms",
        Fastest,
        "",
        (0, 3),
        expect![[r#"
            fastest: acme/a on acme, predicted 1.1 s (first token 0.09 s + 100 tokens at 100 tok/s), failure 0.14 %, $0.0012;
            score 1.1 s, next best bolt/b on bolt 1.1 s (+1 %);
            2 candidates;
            explored: no;
            attempts: 3. The choice failed before its first content.
        "#]],
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
        (seed, 1),
        expect![[r#"
            fastest: bolt/b on bolt, predicted 2.1 s (first token 1.1 s + 100 tokens at 100 tok/s), failure 1 %, $0.0012;
            score 1.9 s, next best acme/a on acme 2.1 s (+6 %);
            2 candidates;
            explored: yes;
            attempts: 1.
        "#]],
    );
}

#[test]
fn probes_and_panic_say_so() {
    check(
        "acme/a 200ms half1 | bolt/b 200ms",
        Fastest,
        "",
        (0, 1),
        expect![[r#"
        fastest: acme/a on acme, predicted 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), failure 50 %, $0.0012;
        probes whether it recovered, else bolt/b on bolt;
        2 candidates;
        explored: no;
        attempts: 1.
    "#]],
    );
    check(
        "acme/a open5 | bolt/b open2",
        Fastest,
        "",
        (0, 1),
        expect![[r#"
        fastest: bolt/b on bolt, predicted 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), failure 50 %, $0.0012;
        no gate is open, the one that opens soonest is tried first;
        2 candidates;
        explored: no;
        attempts: 1.
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
fn a_preference_is_told_with_its_margin_and_whom_it_passed_over() {
    let world = "acme/a 900ms $1/1 | bolt/b 90ms $3/3 | core/c 95ms $4/4";
    check_with(
        world,
        (Cheapest, ""),
        preferring(0.5, 1.25),
        (0, 1),
        expect![[r#"
            cheapest: bolt/b on bolt, $0.0033, failure 0.14 %, predicted 1.1 s (first token 0.09 s + 100 tokens at 100 tok/s);
            score $0.0033, next best core/c on core $0.0044 (+33 %);
            keeps preferred_max_latency (p95 0.5 s, margin 1.25), before acme/a on acme $0.00111;
            3 candidates;
            explored: no;
            attempts: 1.
        "#]],
    );
    check_with(
        world,
        (Cheapest, ""),
        preferring(0.01, 1.0),
        (0, 1),
        expect![[r#"
            cheapest: bolt/b on bolt, $0.0033, failure 0.14 %, predicted 1.1 s (first token 0.09 s + 100 tokens at 100 tok/s);
            score $0.0033;
            comes nearest to preferred_max_latency (p95 0.01 s), before acme/a on acme $0.00111;
            3 candidates;
            explored: no;
            attempts: 1.
        "#]],
    );
    check_with(
        "acme/a 900ms unseen $0.1/0.1 | bolt/b 90ms",
        (Cheapest, ""),
        preferring(0.5, 1.0),
        (0, 1),
        expect![[r#"
            cheapest: acme/a on acme, $0.00011, failure 1 %, predicted 1.9 s (first token 0.9 s + 100 tokens at 100 tok/s);
            score $0.000121, next best bolt/b on bolt $0.0012 (+891 %);
            hardly known, may keep preferred_max_latency (p95 0.5 s);
            2 candidates;
            explored: no;
            attempts: 1.
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
        (0, 1),
        expect![[r#"
        cheapest: core/c on core, $0.0044, failure 0.14 %, predicted 1.1 s (first token 0.095 s + 100 tokens at 100 tok/s);
        score $0.0044;
        keeps preferred_min_throughput (p50 50 tok/s);
        provider.order puts it before acme/a on acme $0.00111;
        3 candidates;
        explored: no;
        attempts: 1.
    "#]],
    );
}

#[test]
fn a_single_candidate_has_no_rival() {
    check(
        "acme/a",
        Balanced,
        "acme/a",
        (0, 1),
        expect![[r#"
            balanced: acme/a on acme, predicted 1.2 s (first token 0.2 s + 100 tokens at 100 tok/s), $0.0012, failure 0.14 %;
            score 1 (medians 1.2 s and $0.0012);
            1 candidate;
            explored: no;
            attempts: 1.
        "#]],
    );
}
