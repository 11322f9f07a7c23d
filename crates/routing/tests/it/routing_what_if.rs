//! Decisions in worlds that are not.

use pointsman_domain::{
    Circuit, Decision, EndpointOverride, Invalid,
    Objective::{self, *},
    Preference, PriceCeiling, PriceOverride, Query, RouteError, RoutingPolicy, Source, Sourced, Usd, Weights, WhatIf,
};
use pointsman_routing::{
    explain::{Figure, ResolvedWhatIf, Verdict, WhatIfWorld, why_not, why_not_now},
    stats::{Gate, LiveProvider},
};

use crate::routing_world::{NOW, World, code};

fn usd(text: &str) -> Usd {
    text.parse().expect("an amount")
}

/// An entry about a model or, written `@acme`, a provider.
fn about(name: &str) -> EndpointOverride {
    match name.split_once('@') {
        Some((model, provider)) => EndpointOverride {
            model: Some(model.to_owned()).filter(|model| !model.is_empty()),
            provider: Some(provider.to_owned()),
            ..EndpointOverride::default()
        },
        None => EndpointOverride { model: Some(name.to_owned()), ..EndpointOverride::default() },
    }
}

fn only(entry: EndpointOverride) -> WhatIf {
    WhatIf { endpoints: vec![entry], ..WhatIf::default() }
}

fn imagined(world: &World, query: &Query, what_if: WhatIf) -> Result<Decision, RouteError> {
    let imagination = ResolvedWhatIf::new(what_if, world.catalog()).expect("known names");
    imagination.world(&world.snapshot, &world.live, query, NOW).decide(NOW, None)
}

fn plan(world: &World, decided: &Result<Decision, RouteError>) -> String {
    match decided {
        Ok(decision) => world.plan(decision),
        Err(error) => {
            format!("nothing: {}", error.excluded.iter().map(|e| e.reason.as_str()).collect::<Vec<_>>().join(" "))
        }
    }
}

/// The plan as it is, and as it would be.
fn check(world: &str, objective: Objective, what_if: WhatIf, is: &str, would_be: &str) {
    let world = World::of(world);
    let query = world.query(objective, "");
    let before = world.decide(&query);
    assert_eq!(plan(&world, &before), is);
    assert_eq!(plan(&world, &imagined(&world, &query, what_if.clone())), would_be, "{what_if:?}");
    assert_eq!(world.decide(&query), before, "nothing of it is left");
}

const TWO: &str = "acme/a 100ms 100tps $2/4 | bolt/b 300ms 100tps $1/2";

#[test]
fn another_objective_and_other_weights() {
    check(TWO, Fastest, WhatIf { objective: Some(Cheapest), ..WhatIf::default() }, "acme/a bolt/b", "bolt/b acme/a");
    let weights = Some(Weights { latency: 1.0, cost: 0.01, quality: 0.0 });
    check(TWO, Balanced, WhatIf { weights, ..WhatIf::default() }, "bolt/b acme/a", "acme/a bolt/b");
}

#[test]
fn another_price_of_an_endpoint_a_model_or_a_provider() {
    let half = PriceOverride { factor: Some(0.4), ..PriceOverride::default() };
    for name in ["acme/a", "@acme", "acme/a@acme"] {
        let what_if = only(EndpointOverride { price: half, ..about(name) });
        check(TWO, Cheapest, what_if, "bolt/b acme/a", "acme/a bolt/b");
    }
    let dear = PriceOverride { completion: Some(usd("0.01")), ..PriceOverride::default() };
    check(TWO, Cheapest, only(EndpointOverride { price: dear, ..about("bolt/b") }), "bolt/b acme/a", "acme/a bolt/b");
}

#[test]
fn filters_see_the_imagined_price() {
    let world = World::of(TWO);
    let mut query = world.query(Cheapest, "");
    query.routing_mut().provider.max_price = PriceCeiling { prompt: Some(usd("0.0000015")), ..PriceCeiling::default() };
    let cheaper = PriceOverride { prompt: Some(usd("0.000001")), ..PriceOverride::default() };
    let dearer = PriceOverride { prompt: Some(usd("0.000009")), ..PriceOverride::default() };
    let entry = |name, price| EndpointOverride { price, ..about(name) };
    assert_eq!(plan(&world, &world.decide(&query)), "bolt/b");
    assert_eq!(plan(&world, &imagined(&world, &query, only(entry("acme/a", cheaper)))), "bolt/b acme/a");
    assert_eq!(plan(&world, &imagined(&world, &query, only(entry("bolt/b", dearer)))), "nothing: max_price max_price");
}

#[test]
fn another_state_of_the_circuit() {
    let circuit = |name, circuit| only(EndpointOverride { circuit: Some(circuit), ..about(name) });
    check(TWO, Fastest, circuit("acme/a", Circuit::Open), "acme/a bolt/b", "bolt/b");
    check(TWO, Fastest, circuit("acme/a", Circuit::Cooldown), "acme/a bolt/b", "bolt/b");
    check(TWO, Fastest, circuit("acme/a", Circuit::HalfOpen), "acme/a bolt/b", "acme/a? bolt/b");
    check("acme/a open9 | bolt/b 300ms", Fastest, circuit("acme/a", Circuit::Closed), "bolt/b", "acme/a bolt/b");
    check("acme/a cool9 | bolt/b 300ms", Fastest, circuit("@acme", Circuit::Closed), "bolt/b", "acme/a bolt/b");
    check("acme/a paced9 | bolt/b 300ms", Fastest, circuit("acme/a", Circuit::Closed), "bolt/b", "acme/a bolt/b");
}

#[test]
fn a_providers_gate_stays_shut_for_its_other_endpoints() {
    let mut world = World::of("acme/a 100ms | acme/b 100ms | bolt/b 300ms");
    let gate = Gate::Open { until: NOW.plus(std::time::Duration::from_secs(9)) };
    world.live.providers = vec![LiveProvider { gate, failures: 2, ..LiveProvider::default() }];
    let query = world.query(Fastest, "");
    assert_eq!(plan(&world, &world.decide(&query)), "bolt/b");
    let what_if = only(EndpointOverride { circuit: Some(Circuit::Closed), ..about("acme/a") });
    assert_eq!(plan(&world, &imagined(&world, &query, what_if)), "acme/a bolt/b");
}

#[test]
fn switched_off_and_on() {
    let off = |name, off| only(EndpointOverride { off: Some(off), ..about(name) });
    check(TWO, Fastest, off("@acme", true), "acme/a bolt/b", "bolt/b");
    check("acme/a off | bolt/b 300ms", Fastest, off("acme/a", false), "bolt/b", "acme/a bolt/b");
    check("acme/a disabled | bolt/b 300ms", Fastest, off("acme/a", false), "bolt/b", "acme/a bolt/b");
}

#[test]
fn load_beyond_the_knee_saturates() {
    let busy = only(EndpointOverride { in_flight: Some(80), ..about("acme/a") });
    check("acme/a 100ms knee4 | bolt/b 300ms", Fastest, busy, "acme/a bolt/b", "bolt/b");
    let idle = only(EndpointOverride { in_flight: Some(0), ..about("acme/a") });
    check("acme/a 100ms knee4 k80 | bolt/b 300ms", Fastest, idle, "bolt/b", "acme/a bolt/b");
}

#[test]
fn an_imagined_figure_is_the_predicted_one() {
    let world = World::of("acme/a 100ms 100tps k9 knee3 bad2 | bolt/b 300ms unseen");
    let entry = |name| EndpointOverride {
        first_token: Some(0.75),
        tokens_per_second: Some(42.0),
        failure_probability: Some(0.125),
        ..about(name)
    };
    let what_if = WhatIf { endpoints: vec![entry("acme/a"), entry("bolt/b")], ..WhatIf::default() };
    for objective in Objective::ALL {
        let decision = imagined(&world, &world.query(objective, ""), what_if.clone()).unwrap();
        for predicted in decision.candidates.iter().map(|candidate| candidate.predicted) {
            let figures = [predicted.first_token_p50, predicted.tokens_per_second, predicted.failure];
            for (figure, wanted) in figures.into_iter().zip([0.75, 42.0, 0.125]) {
                assert!((figure / wanted - 1.0).abs() < 1e-6, "{figure} {wanted}");
            }
        }
    }
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let world = World::of("acme/small@acme | acme/small@bolt | core/large");
    let refused = |name| -> Invalid {
        let entries = vec![
            EndpointOverride { off: Some(true), ..about("core/large") },
            EndpointOverride { off: Some(true), ..about(name) },
        ];
        ResolvedWhatIf::new(WhatIf { endpoints: entries, ..WhatIf::default() }, world.catalog()).unwrap_err()
    };
    for (name, param, message, allowed) in [
        ("acme/smal", "model", "No model is called 'acme/smal'.", &["acme/small"][..]),
        ("zzz", "model", "No model is called 'zzz'.", &["acme/small", "core/large"]),
        ("@zzz", "provider", "No provider is called 'zzz'.", &["acme", "bolt", "core"]),
        ("acme/small@core", "provider", "'acme/small' has no endpoint at a provider called 'core'.", &["acme", "bolt"]),
    ] {
        let invalid = refused(name);
        assert_eq!(invalid.param, Some(format!("what_if.endpoints[1].{param}")), "{name}");
        assert_eq!(
            (invalid.message.as_str(), invalid.allowed_values.as_slice()),
            (message, &*allowed.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        );
    }
}

/// Weights of the requests below.
const WEIGHTS: Weights = Weights { latency: 1.0, cost: 2.0, quality: 1.0 };

fn of_weights(weights: Weights) -> WhatIf {
    WhatIf { weights: Some(weights), ..WhatIf::default() }
}

/// The change that "why not X?" names, imagined.
fn imagine(figure: Figure, from: f64, to: f64, name: &str) -> WhatIf {
    let entry = about(name);
    match figure {
        Figure::Price => only(EndpointOverride {
            price: PriceOverride { factor: Some(to / from), ..PriceOverride::default() },
            ..entry
        }),
        Figure::FirstToken => only(EndpointOverride { first_token: Some(to), ..entry }),
        Figure::TokensPerSecond => only(EndpointOverride { tokens_per_second: Some(to), ..entry }),
        Figure::FailureProbability => only(EndpointOverride { failure_probability: Some(to), ..entry }),
        Figure::Quality => only(EndpointOverride { quality: Some(to), ..entry }),
        Figure::LatencyWeight => of_weights(Weights { latency: to, cost: 1.0 - to, quality: WEIGHTS.quality / 3.0 }),
        Figure::QualityWeight => {
            of_weights(Weights { latency: (1.0 - to) / 3.0, cost: (1.0 - to) * 2.0 / 3.0, quality: to })
        }
    }
}

#[test]
fn a_weight_alone_is_a_share_and_the_others_keep_their_ratio() {
    let world = World::of(TWO);
    let query = Query { weights: WEIGHTS, ..world.query(Balanced, "") };
    let weights = |latency, cost, quality| {
        let weights = Weights { latency, cost, quality };
        imagined(&world, &query, of_weights(weights)).unwrap().weights
    };
    let kept = WEIGHTS.quality / (WEIGHTS.latency + WEIGHTS.cost);
    assert_eq!(weights(0.2, 0.0, 0.0), Weights { latency: 0.2, cost: 0.8, quality: kept });
    assert_eq!(weights(0.0, 0.25, 0.0), Weights { latency: 0.75, cost: 0.25, quality: kept });
    let half = weights(0.0, 0.0, 0.5);
    assert_eq!((half.quality, half.latency / half.cost), (0.5, WEIGHTS.latency / WEIGHTS.cost));
    assert!((half.sum() - 1.0).abs() < 1e-12);
    assert_eq!(
        weights(0.2, 0.0, 0.3),
        Weights { latency: 0.2, cost: 0.0, quality: 0.3 },
        "several stand for themselves"
    );
    assert_eq!(weights(5.0, 0.0, 0.0), Weights { latency: 5.0, cost: 0.0, quality: 0.0 }, "no share");
}

#[test]
fn what_would_win_wins_when_it_is_imagined_and_a_little_less_does_not() {
    let worlds = [
        "acme/a 90ms 50tps $4/8 | bolt/b 400ms 90tps $1/2 bad1 | core/c 300ms 60tps $2/4 bad2",
        "acme/a 200ms 100tps $1/3 bad3 | bolt/b 100ms 50tps $2/2 | core/c 150ms 80tps $1.5/2.5 k9 knee4",
        "acme/a 700ms 30tps $0.5/1 | bolt/b 100ms 150tps $5/9 bad1",
        "acme/a 90ms 50tps $4/8 q0.9 | bolt/b 400ms 90tps $1/2 q0.6 rated0.3,20 | core/c 300ms 60tps $2/4 q0.8",
    ];
    let mut tried = Vec::new();
    for (text, objective) in worlds.into_iter().flat_map(|text| Objective::ALL.map(|objective| (text, objective))) {
        let world = World::under(text, RoutingPolicy { per_accepted: true, ..RoutingPolicy::default() });
        let query = Query { weights: WEIGHTS, task_class: Some(code()), ..world.query(objective, "") };
        let real = WhatIfWorld::real(&world.snapshot, &world.live, &query);
        let decided = real.decide(NOW, None);
        for name in ["acme/a", "bolt/b", "core/c"].into_iter().filter(|name| text.contains(name)) {
            let answer = why_not_now(name, &real, &decided, NOW, None);
            assert_ne!(answer.verdict, Verdict::Unknown);
            for change in answer.would_win_if {
                let is_chosen = |to| {
                    let what_if = imagine(change.figure, change.from, to, name);
                    plan(&world, &imagined(&world, &query, what_if)).starts_with(name)
                };
                let less = change.to + 0.01 * (change.from - change.to);
                assert_eq!(
                    (is_chosen(change.to), is_chosen(less)),
                    (true, false),
                    "{objective} {name} {change:?} in {text}"
                );
                tried.push(change.figure);
            }
        }
    }
    assert!(tried.len() >= 15, "{tried:?}");
    assert!([Figure::Quality, Figure::QualityWeight].iter().all(|figure| tried.contains(figure)), "{tried:?}");
}

#[test]
fn an_endpoint_that_misses_a_preference_gets_the_figure_that_would_meet_it() {
    let world = World::of("acme/a 900ms 900tps | bolt/b 90ms 10tps");
    let value = Preference { p50: Some(0.2), ..Preference::default() };
    let mut query = world.query(Fastest, "");
    query.routing_mut().preferred_max_latency = Some(Sourced { value, source: Source::TopLevel });
    let real = WhatIfWorld::real(&world.snapshot, &world.live, &query);
    let answer = why_not_now("acme", &real, &real.decide(NOW, None), NOW, None);
    assert_eq!(answer.reason, "preference_missed");
    let changes: Vec<_> = answer.would_win_if.iter().map(|change| (change.figure, change.to)).collect();
    assert_eq!(changes, [(Figure::FirstToken, 0.2)]);
    assert_eq!(
        answer.sentence,
        "acme/a on acme was not chosen: its expected p50 time to first token is 0.9 s, preferred_max_latency allows 0.2 s; \
         the choice is expected to keep that. It would win with a first token after 0.2 s instead of 0.9 s (−78 %), everything else equal."
    );
    // The record says the same, though it has nothing but the figures it holds.
    let recorded = why_not("acme", &real.decide(NOW, None).unwrap(), &world.snapshot.policy, world.catalog());
    assert_eq!((recorded.would_win_if, recorded.sentence), (answer.would_win_if, answer.sentence));
}

#[test]
fn beside_a_probe_every_change_is_one_that_wins_without_the_probe() {
    let text = "acme/a half9 | bolt/b 200ms idle600 $1/2 | core/c 250ms $1.1/2.2";
    let world = World::of(text);
    let mut tried = 0;
    for objective in Objective::ALL {
        let query = world.query(objective, "");
        let real = WhatIfWorld::real(&world.snapshot, &world.live, &query);
        let decided = real.decide(NOW, None);
        assert_eq!(why_not_now("bolt/b", &real, &decided, NOW, None).reason, "probe");
        let answer = why_not_now("core/c", &real, &decided, NOW, None);
        assert!(answer.margin.is_some_and(|margin| margin.difference > 0.0 && margin.to.0 == 1), "{answer:?}");
        for change in answer.would_win_if {
            let is_better = if change.figure == Figure::TokensPerSecond { f64::gt } else { f64::lt };
            assert!(change.figure == Figure::LatencyWeight || is_better(&change.to, &change.from), "{change:?}");
            let sound = World::of(&text.replace("half9", "cool9"));
            let what_if = imagine(change.figure, change.from, change.to, "core/c");
            let imagined = imagined(&sound, &query, what_if);
            assert!(plan(&sound, &imagined).starts_with("core/c"), "{objective} {change:?}");
            tried += 1;
        }
    }
    assert!(tried > 5, "{tried}");
}
