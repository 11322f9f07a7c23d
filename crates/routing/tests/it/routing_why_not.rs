//! "Why not X?", answer by answer.

use expect_test::{Expect, expect};
use pointsman_domain::{
    ApiType, Decision, EndpointId,
    Objective::{self, *},
    Preference, Quality, Query, RoutingPolicy, Source, Sourced, Weights,
};
use pointsman_routing::{
    decide::decide_to_serve,
    explain::{Counterfactual, Figure, Verdict, WhyNot, replay, why_not, why_not_after, why_not_in},
};

use crate::routing_world::{NOW, World, attempts, code};

fn ask(world: &World, query: &Query, seed: u64, asked: &str) -> WhyNot {
    match decide_to_serve(&world.snapshot, &world.live, query, NOW, Some(seed)) {
        Ok(decision) => why_not(asked, &decision, &world.snapshot.policy, world.catalog()),
        Err(error) => why_not_in(asked, &error, world.catalog()),
    }
}

/// What is said about `asked` in a world, for a request for `models`.
fn check(world: &str, (objective, models): (Objective, &str), asked: &str, told: Expect) {
    check_with(world, (objective, models), |_| (), asked, told);
}

fn check_with(
    world: &str,
    (objective, models): (Objective, &str),
    with: impl Fn(&mut Query),
    asked: &str,
    told: Expect,
) {
    let world = World::of(world);
    let mut query = world.query(objective, models);
    with(&mut query);
    let answer = ask(&world, &query, 0, asked);
    let rank = answer.rank.map_or(String::new(), |rank| format!(", rank {rank}"));
    let head = format!("{}: {} of {}{rank}", answer.verdict.as_str(), answer.reason, answer.matched);
    let changes = answer.would_win_if.iter().map(|change| {
        let relative = 100.0 * change.relative();
        format!("  {} {} -> {} ({relative:+.1} %)\n", change.figure.as_str(), change.from, change.to)
    });
    told.assert_eq(&format!("{head}\n{}\n{}", answer.sentence, changes.collect::<String>()));
}

const THREE: &str = "acme/a 90ms $4/8 | bolt/b 400ms $1/2 bad1 | core/c 300ms $2/4 60tps";

#[test]
fn a_lost_candidate_gets_the_margin_and_the_changes_that_would_win() {
    check(
        THREE,
        (Fastest, ""),
        "bolt",
        expect![[r#"
            lost: score of 1, rank 2
            bolt/b on bolt lost to acme/a on acme by 0.34 s (+31 %), mostly in time to first token. It would win with 153 instead of 100 tokens per second (+53 %), or with a first token after 0.0776 s instead of 0.4 s (−81 %), everything else equal.
              tokens_per_second 99.99999999999996 -> 153.3 (+53.3 %)
              ttft 0.4 -> 0.07757 (-80.6 %)
        "#]],
    );
    check(
        THREE,
        (Cheapest, ""),
        "core/c",
        expect![[r#"
            lost: score of 1, rank 2
            core/c on core lost to bolt/b on bolt by $0.00115 (+92 %), mostly in cost. It would win with prices that lower its cost from $0.0024 to $0.00125 (−48 %), everything else equal.
              price 0.0024000000000000002 -> 0.001245 (-48.1 %)
        "#]],
    );
    check(
        THREE,
        (Reliable, ""),
        "bolt/b",
        expect![[r#"
            lost: score of 1, rank 2
            bolt/b on bolt lost to acme/a on acme by 9.86 percentage points of risk (+129 %), mostly in slow answers. It would win with 136 instead of 100 tokens per second (+36 %), everything else equal.
              tokens_per_second 99.99999999999996 -> 136.4 (+36.4 %)
        "#]],
    );
    check(
        THREE,
        (Balanced, ""),
        "acme/a@acme",
        expect![[r#"
            lost: score of 1, rank 3
            acme/a on acme lost to bolt/b on bolt by 0.621 times the median time and cost (+81 %), mostly in cost. It would win with prices that lower its cost from $0.0048 to $0.00182 (−62 %), or with a latency weight of 0.862 instead of 0.5 (+72 %), everything else equal.
              price 0.0048000000000000004 -> 0.001818 (-62.1 %)
              weights.latency 0.5 -> 0.8616 (+72.3 %)
        "#]],
    );
}

#[test]
fn a_single_figure_may_not_be_enough() {
    check(
        "acme/a 90ms $0/0 | bolt/b 90ms 99tps $0/0 bad20",
        (Reliable, ""),
        "bolt/b",
        expect![[r#"
            lost: score of 1, rank 2
            bolt/b on bolt lost to acme/a on acme by 36.6 percentage points of risk (+476 %), mostly in failures. No change of a single figure would make it win.
        "#]],
    );
    check(
        "acme/a 20ms 900tps | bolt/b 4000ms 20tps",
        (Fastest, ""),
        "bolt/b",
        expect![[r#"
            lost: score of 1, rank 2
            bolt/b on bolt lost to acme/a on acme by 9 s (+6235 %), mostly in generation time. No change of a single figure would make it win.
        "#]],
    );
}

#[test]
fn the_choice_is_reported_as_chosen() {
    check(
        THREE,
        (Fastest, ""),
        "acme",
        expect![[r#"
        chosen: choice of 1, rank 1
        acme/a on acme is the choice.
    "#]],
    );
}

#[test]
fn a_choice_that_did_not_answer_gets_the_outcome_of_its_attempt() {
    let world = World::of(THREE);
    let decision = world.decide(&world.query(Fastest, "")).unwrap();
    let told = |asked, line: &str| {
        let attempts = attempts::attempts(&world, &decision, line);
        let answer = why_not_after(asked, &decision, &attempts, &world.snapshot.policy, world.catalog());
        format!("{line:22} {} {}: {}\n", answer.verdict.as_str(), answer.reason, answer.sentence)
    };
    let lines = ["", "ok", "ok, hedge lost_race", "500, ok", "500, timeout, 503", "lost_race, hedge ok", "skip ok"];
    expect![[r#"
                               chosen choice: acme/a on acme is the choice.
        ok                     chosen choice: acme/a on acme is the choice.
        ok, hedge lost_race    chosen choice: acme/a on acme is the choice.
        500, ok                chosen choice: acme/a on acme was the choice, but it failed (500); bolt/b on bolt answered as fallback.
        500, timeout, 503      chosen choice: acme/a on acme was the choice, but it failed (500); bolt/b on bolt failed (timeout), core/c on core failed (503).
        lost_race, hedge ok    chosen choice: acme/a on acme was the choice, but it was late and slower than the hedge at bolt/b on bolt.
        skip ok                chosen choice: acme/a on acme was the choice, but it was skipped (no longer available); bolt/b on bolt answered.
    "#]].assert_eq(&lines.map(|line| told("acme", line)).concat());
    let plain = ask(&world, &world.query(Fastest, ""), 0, "bolt").sentence;
    assert!(told("bolt", "500, ok").contains(&plain), "of the others nothing else is said");
}

#[test]
fn an_excluded_endpoint_gets_the_first_reason_and_how_long_it_lasts() {
    let world = "acme/a | bolt/b open3.25 | core/c cool1.5 | dawn/d ctx100 | echo/e half2 90000ms | fern/f paced0.5 \
                 | gale/g k40 knee4 | hill/h off";
    check(
        world,
        (Fastest, ""),
        "bolt",
        expect![[r#"
            refused: circuit_open of 1
            bolt/b on bolt was refused: circuit_open (breaker open 3.2 s more: 3 consecutive 503). It can serve again in 3.2 s at the earliest.
        "#]],
    );
    check(
        world,
        (Fastest, ""),
        "core",
        expect![[r#"
            refused: rate_limited of 1
            core/c on core was refused: rate_limited (429, retry in 1.5 s). It can serve again in 1.5 s at the earliest.
        "#]],
    );
    check(
        world,
        (Fastest, ""),
        "dawn/d",
        expect![[r#"
        refused: context_length of 1
        dawn/d on dawn was refused: context_length (needs about 1100 tokens, has 100).
    "#]],
    );
    check(
        world,
        (Fastest, ""),
        "echo/e",
        expect![[r#"
        refused: circuit_open of 1
        echo/e on echo was refused: circuit_open (half-open, not worth a probe now).
    "#]],
    );
    check(
        world,
        (Fastest, ""),
        "fern",
        expect![[r#"
            refused: paced of 1
            fern/f on fern was refused: paced (paced, next in 0.5 s). It can serve again in 0.5 s at the earliest.
        "#]],
    );
    check(
        world,
        (Fastest, ""),
        "gale",
        expect![[r#"
        refused: saturated of 1
        gale/g on gale was refused: saturated (saturated: 40 in flight, knee 4).
    "#]],
    );
    check(
        world,
        (Fastest, ""),
        "hill",
        expect![[r#"
            not_in_pool: not_in_pool of 1
            hill/h on hill was not considered: its provider is off: its key is not set.
        "#]],
    );
}

#[test]
fn an_excluded_endpoint_gets_its_reason_also_if_no_candidate_is_left() {
    check(
        "acme/a ctx10 | bolt/b cool5",
        (Fastest, ""),
        "acme",
        expect![[r#"
        refused: context_length of 1
        acme/a on acme was refused: context_length (needs about 1100 tokens, has 10).
    "#]],
    );
    check(
        "acme/a cool5 | bolt/b",
        (Fastest, "acme/a"),
        "bolt/b",
        expect![[r#"
            not_in_pool: not_in_pool of 1
            bolt/b on bolt was not considered: the request asks for other models.
        "#]],
    );
}

#[test]
fn of_several_endpoints_the_one_that_came_nearest_is_meant() {
    let world = "acme/a@x ctx10 | acme/a@y open5 | acme/a@z off | bolt/b@x 90ms | bolt/b@y 300ms";
    check(
        world,
        (Fastest, ""),
        "acme/a",
        expect![[r#"
            refused: circuit_open of 3
            acme/a on y was refused: circuit_open (breaker open 5.0 s more: 3 consecutive 503). It can serve again in 5.0 s at the earliest.
        "#]],
    );
    check(
        world,
        (Fastest, ""),
        "y",
        expect![[r#"
            lost: score of 2, rank 2
            bolt/b on y lost to bolt/b on x by 0.22 s (+20 %), mostly in time to first token. It would win with 128 instead of 100 tokens per second (+28 %), or with a first token after 0.09 s instead of 0.3 s (−70 %), everything else equal.
              tokens_per_second 99.99999999999996 -> 128.3 (+28.3 %)
              ttft 0.29999999999999993 -> 0.08999 (-70.0 %)
        "#]],
    );
    check(
        world,
        (Fastest, ""),
        "acme/a@x",
        expect![[r#"
        refused: context_length of 1
        acme/a on x was refused: context_length (needs about 1100 tokens, has 10).
    "#]],
    );
}

#[test]
fn what_ranks_before_any_score_is_named() {
    let world = "acme/a 900ms | bolt/b 90ms";
    check(
        world,
        (Fastest, "acme/a, bolt/b"),
        "bolt",
        expect![[r#"
            lost: models_order of 1, rank 2
            bolt/b on bolt was not chosen: a model listed before it in the request has an available endpoint.
        "#]],
    );
    let order = |query: &mut Query| query.routing_mut().provider.order = vec!["acme".to_owned()];
    check_with(
        world,
        (Fastest, ""),
        order,
        "bolt",
        expect![[r#"
            lost: provider_order of 1, rank 2
            bolt/b on bolt was not chosen: provider.order lists another provider before it.
        "#]],
    );
    let wish = |query: &mut Query| {
        let value = Preference { p50: Some(0.2), ..Preference::default() };
        query.routing_mut().preferred_max_latency = Some(Sourced { value, source: Source::TopLevel });
    };
    check_with(
        "acme/a 900ms 900tps | bolt/b 90ms 10tps",
        (Fastest, ""),
        wish,
        "acme",
        expect![[r#"
            lost: preference_missed of 1, rank 2
            acme/a on acme was not chosen: its expected p50 time to first token is 0.9 s, preferred_max_latency allows 0.2 s; the choice is expected to keep that. It would win with a first token after 0.2 s instead of 0.9 s (−78 %), everything else equal.
              ttft 0.9 -> 0.2 (-77.8 %)
        "#]],
    );
}

#[test]
fn a_missed_p95_target_is_explained_with_the_published_95th_percentile() {
    let wish = |query: &mut Query| {
        let value = Preference { p95: Some(1.0), ..Preference::default() };
        query.routing_mut().preferred_max_latency = Some(Sourced { value, source: Source::TopLevel });
    };
    check_with(
        "acme/a 400ms 900tps tail1.2 | bolt/b 400ms 10tps",
        (Fastest, ""),
        wish,
        "acme",
        expect![[r#"
            lost: preference_missed of 1, rank 2
            acme/a on acme was not chosen: its expected p95 time to first token is 1.3 s, preferred_max_latency allows 1 s; the choice is expected to keep that. It would win with a first token after 0.301 s instead of 0.4 s (−25 %), everything else equal.
              ttft 0.4 -> 0.3011 (-24.7 %)
        "#]],
    );
}

#[test]
fn probes_panic_and_ties_have_their_own_reasons() {
    check(
        "acme/a 200ms half1 | bolt/b 200ms",
        (Fastest, ""),
        "bolt",
        expect![[r#"
            lost: probe of 1, rank 2
            bolt/b on bolt was not chosen: an endpoint with a half-open circuit breaker is probed first; without the probe this one would be the choice.
        "#]],
    );
    check(
        "acme/a 200ms half1 | bolt/b 200ms | core/c 250ms",
        (Fastest, ""),
        "core",
        expect![[r#"
            lost: score of 1, rank 3
            core/c on core lost to bolt/b on bolt by 0.052 s (+4.3 %), mostly in time to first token. It would win with 106 instead of 100 tokens per second (+5.6 %), or with a first token after 0.2 s instead of 0.25 s (−20 %), everything else equal.
              tokens_per_second 99.99999999999996 -> 105.6 (+5.6 %)
              ttft 0.25 -> 0.1999 (-20.0 %)
        "#]],
    );
    check(
        "acme/a open5 | bolt/b open2",
        (Fastest, ""),
        "acme",
        expect![[r#"
            lost: panic of 1, rank 2
            acme/a on acme was not chosen: every endpoint is blocked at the moment, and the block of another one ends first.
        "#]],
    );
    check(
        "acme/a | bolt/b",
        (Fastest, ""),
        "bolt",
        expect![[r#"
        chosen: choice of 1, rank 1
        bolt/b on bolt is the choice.
    "#]],
    );
    check(
        "acme/a | bolt/b",
        (Fastest, ""),
        "acme",
        expect![[r#"
            lost: tie of 1, rank 2
            acme/a on acme has the same score as bolt/b on bolt: equal scores are ordered by failure probability, then cost, then requests in flight, then endpoint id, lower first. Any better figure would make it win.
              failure_probability 0.0014285714285714286 -> 0.001428 (-0.0 %)
              ttft 0.2 -> 0.1999 (-0.1 %)
              tokens_per_second 99.99999999999996 -> 100.1 (+0.1 %)
        "#]],
    );
}

#[test]
fn the_margin_refers_to_the_best_score_and_not_to_the_second_attempt() {
    let check_plan = |world: &str, plan: &str| {
        let world = World::of(world);
        assert_eq!(world.plan(&world.decide(&world.query(Fastest, "")).unwrap()), plan);
    };
    let probed = "acme/a half1 | bolt/b 200ms ok20 bad2 | core/c 250ms";
    check_plan(probed, "acme/a? core/c bolt/b");
    check(
        probed,
        (Fastest, ""),
        "bolt",
        expect![[r#"
            lost: probe of 1, rank 3
            bolt/b on bolt was not chosen: an endpoint with a half-open circuit breaker is probed first; without the probe this one would be the choice.
        "#]],
    );
    check(
        probed,
        (Fastest, ""),
        "core",
        expect![[r#"
            lost: score of 1, rank 2
            core/c on core lost to bolt/b on bolt by 0.029 s (+2.4 %), mostly in time to first token. It would win with 103 instead of 100 tokens per second (+3.1 %), or with a first token after 0.222 s instead of 0.25 s (−11 %), everything else equal.
              tokens_per_second 99.99999999999996 -> 103.1 (+3.1 %)
              ttft 0.25 -> 0.2221 (-11.2 %)
        "#]],
    );
    let plain = "acme/a 100ms | bolt/b@y 200ms ok20 bad2 | core/c@y 250ms";
    check_plan(plain, "acme/a core/c@y bolt/b@y");
    check(
        plain,
        (Fastest, ""),
        "y",
        expect![[r#"
            lost: score of 2, rank 3
            bolt/b on y lost to acme/a on acme by 0.12 s (+11 %), mostly in time to first token. It would win with 116 instead of 100 tokens per second (+16 %), or with a first token after 0.0815 s instead of 0.2 s (−59 %), everything else equal.
              tokens_per_second 99.99999999999996 -> 115.5 (+15.5 %)
              ttft 0.2 -> 0.08153 (-59.2 %)
        "#]],
    );
    let all = "acme/a half1 250ms | bolt/b half1 200ms";
    check_plan(all, "bolt/b? acme/a?");
    check(
        all,
        (Fastest, ""),
        "acme",
        expect![[r#"
            lost: score of 1, rank 2
            acme/a on acme lost to bolt/b on bolt by 0.052 s (+3.8 %), mostly in time to first token. It would win with 112 instead of 100 tokens per second (+12 %), or with a first token after 0.2 s instead of 0.25 s (−20 %), everything else equal.
              tokens_per_second 99.99999999999996 -> 111.7 (+11.7 %)
              ttft 0.25 -> 0.1999 (-20.0 %)
              failure_probability 0.5 -> 0.3321 (-33.6 %)
        "#]],
    );
}

#[test]
fn without_fallbacks_the_others_still_get_their_margin() {
    let single = |query: &mut Query| query.routing_mut().provider.allow_fallbacks = false;
    check_with(
        THREE,
        (Fastest, ""),
        single,
        "core",
        expect![[r#"
            lost: score of 1, rank 3
            core/c on core lost to acme/a on acme by 0.89 s (+81 %), mostly in generation time. It would win with 128 instead of 60 tokens per second (+114 %), everything else equal.
              tokens_per_second 59.99999999999999 -> 128.3 (+113.8 %)
        "#]],
    );
}

#[test]
fn an_unknown_name_is_answered_with_similar_ones() {
    check(
        THREE,
        (Fastest, ""),
        "acmee/a",
        expect![[r#"
            unknown: unknown_name of 0
            Neither a model nor a provider is called 'acmee/a'. Similar: acme, acme/a.
        "#]],
    );
    check(
        THREE,
        (Fastest, ""),
        "bollt",
        expect![[r#"
            unknown: unknown_name of 0
            Neither a model nor a provider is called 'bollt'. Similar: bolt.
        "#]],
    );
    check(
        THREE,
        (Fastest, ""),
        "zzz",
        expect![[r#"
        unknown: unknown_name of 0
        Neither a model nor a provider is called 'zzz'.
    "#]],
    );
    check(
        THREE,
        (Fastest, ""),
        "service/auto",
        expect![[r#"
            unknown: alias of 0
            'service/auto' is not an endpoint: an alias selects from many endpoints; name a model, a provider or model@provider.
        "#]],
    );
    check(
        THREE,
        (Fastest, ""),
        "acme/a@bolt",
        expect![[r#"
            unknown: unknown_name of 0
            Neither a model nor a provider is called 'acme/a@bolt'. Similar: acme, bolt, acme/a.
        "#]],
    );
    check(
        THREE,
        (Fastest, "acme/a"),
        "bolt/b",
        expect![[r#"
            not_in_pool: not_in_pool of 1
            bolt/b on bolt was not considered: the request asks for other models.
        "#]],
    );
}

#[test]
fn under_an_alias_the_output_that_a_model_does_not_give_is_named() {
    let world = "acme/chat | bolt/paint out:image | core/both out:text out:image | dawn/vectors out:embeddings";
    check(
        world,
        (Fastest, ""),
        "bolt/paint",
        expect![[r#"
            not_in_pool: output_modality of 1
            bolt/paint on bolt was not considered: its model outputs image, the request needs text.
        "#]],
    );
    check(
        world,
        (Fastest, ""),
        "dawn",
        expect![[r#"
            not_in_pool: output_modality of 1
            dawn/vectors on dawn was not considered: its model outputs embeddings, the request needs text.
        "#]],
    );
    check(
        world,
        (Fastest, "acme/chat"),
        "bolt/paint",
        expect![[r#"
            not_in_pool: not_in_pool of 1
            bolt/paint on bolt was not considered: the request asks for other models.
        "#]],
    );
    let images = |query: &mut Query| query.api = ApiType::Image;
    check_with(
        world,
        (Fastest, ""),
        images,
        "acme/chat",
        expect![[r#"
            not_in_pool: output_modality of 1
            acme/chat on acme was not considered: its model outputs text, the request needs image.
        "#]],
    );
    check(
        "acme/chat cool5 | bolt/paint out:image",
        (Fastest, ""),
        "bolt",
        expect![[r#"
            not_in_pool: output_modality of 1
            bolt/paint on bolt was not considered: its model outputs image, the request needs text.
        "#]],
    );
}

#[test]
fn for_a_candidate_without_recorded_figures_the_rank_is_known() {
    let world: Vec<String> = (0..12).map(|n| format!("m/{n} {}ms", 100 + 10 * n)).collect();
    check(
        &world.join(" | "),
        (Fastest, ""),
        "m/11",
        expect![[r#"
            lost: score of 1, rank 12
            m/11 on m was not chosen: it has place 12 in the plan; the record keeps the figures of the first candidates only.
        "#]],
    );
}

/// The record with one figure of a candidate, or of the request, set to this value.
fn with(decision: &Decision, id: EndpointId, figure: Figure, from: f64, to: f64) -> Decision {
    let mut decision = decision.clone();
    let Weights { latency, cost, quality } = decision.weights;
    let others = latency + cost;
    decision.weights = match figure {
        Figure::LatencyWeight => Weights { latency: to, cost: 1.0 - to, quality: quality / others },
        Figure::QualityWeight => {
            Weights { latency: (1.0 - to) * latency / others, cost: (1.0 - to) * cost / others, quality: to }
        }
        _ => decision.weights,
    };
    let inputs = &mut decision.candidates.iter_mut().find(|candidate| candidate.endpoint == id).unwrap().inputs;
    match figure {
        Figure::Price => inputs.cost = to,
        Figure::FirstToken => inputs.intercept += (to / from).ln(),
        Figure::TokensPerSecond => inputs.per_token += (from / to).ln(),
        Figure::FailureProbability => (inputs.failures, inputs.successes) = (to * 1e9, (1.0 - to) * 1e9),
        Figure::Quality => inputs.quality = Some(Quality { mean: to, tenth: to, ratings: 0.0 }),
        Figure::LatencyWeight | Figure::QualityWeight => {}
    }
    decision
}

#[test]
fn every_change_makes_the_loser_win_and_a_little_less_does_not() {
    let worlds = [
        "acme/a 90ms 50tps $4/8 | bolt/b 400ms 90tps $1/2 bad1 | core/c 300ms 60tps $2/4 bad2",
        "acme/a 200ms 100tps $1/3 bad3 | bolt/b 100ms 50tps $2/2 | core/c 150ms 80tps $1.5/2.5 k9 knee4",
        "acme/a 90ms 50tps $4/8 q0.9 | bolt/b 400ms 90tps $1/2 q0.6 rated0.3,20 | core/c 300ms 60tps $2/4 q0.8",
    ];
    let mut tried = Vec::new();
    for (text, objective) in worlds.into_iter().flat_map(|text| Objective::ALL.map(|objective| (text, objective))) {
        let world = World::under(text, RoutingPolicy { per_accepted: true, ..RoutingPolicy::default() });
        let weights = Weights { latency: 1.0, cost: 2.0, quality: 1.0 };
        let query = Query { weights, task_class: Some(code()), ..world.query(objective, "") };
        let decision = world.decide(&query).unwrap();
        for answer in ["acme", "bolt", "core"].map(|name| ask(&world, &query, 0, name)) {
            let Some((_, id)) = answer.about.filter(|_| answer.verdict == Verdict::Lost) else { continue };
            assert!(answer.would_win_if.iter().map(|change| change.relative().abs()).is_sorted());
            for Counterfactual { figure, from, to } in answer.would_win_if {
                let chosen = |to| replay(&with(&decision, id, figure, from, to), &world.snapshot.policy).choice();
                let less = to + 0.01 * (from - to);
                assert_eq!(
                    (chosen(to), chosen(less) == Some(id)),
                    (Some(id), false),
                    "{figure:?} {from} {to} in {text}"
                );
                tried.push(figure);
            }
        }
    }
    assert!(tried.len() > 10, "{tried:?}");
    assert!([Figure::Quality, Figure::QualityWeight].iter().all(|figure| tried.contains(figure)), "{tried:?}");
}
