//! What survives a restart: means, with honest uncertainty. And what a document that cannot be true does: nothing.

use std::time::Duration;

use pointsman_domain::{
    EndpointEvent, EndpointId, EventKind, Evidence, Failure, FailureKind, GateEvent, Objective, Prediction, Query, Tick,
};
use pointsman_routing::{
    decide::decide,
    stats::{EndpointStats, LiveView, Restored, SavedState, SavedStateError, Snapshot, Statistics},
};
use proptest::prelude::*;

use crate::routing_world::World;

const NAMES: &str = "acme/a@x | acme/a@y | bolt/b@x | bolt/b@y variant:fp8";
/// A process whose clock has run for ten days.
const LATER: Tick = Tick(864_000 * 1_000_000);

fn at(seconds: f64) -> Tick {
    Tick((seconds * 1e6) as u64)
}

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

fn fresh(names: &str) -> Statistics {
    let Snapshot { catalog, policy, .. } = World::of(names).snapshot;
    Statistics::new(catalog, policy)
}

fn endpoint(model: &str, provider: &str, variant: &str) -> EndpointId {
    EndpointId::new(model, provider, variant)
}

fn tell(statistics: &mut Statistics, endpoint: EndpointId, start: f64, after: f64, kind: EventKind) {
    let (at, dispatched, predicted) = (at(start + after), at(start), Prediction::NONE);
    let gate = GateEvent::Unmoved;
    statistics.apply(&EndpointEvent { endpoint, at, dispatched, in_flight: 1, predicted, expected: 0.0, gate, kind });
}

/// A stream of thirty tokens at fifty a second.
fn stream(statistics: &mut Statistics, endpoint: EndpointId, start: f64, first: f64) {
    tell(statistics, endpoint, start, first, EventKind::FirstToken { prompt_tokens: 10 });
    let total = first + 30.0 / 50.0;
    let completed = EventKind::Completed {
        streamed: true,
        first_token: Duration::from_secs_f64(first),
        total: Duration::from_secs_f64(total),
        prompt_tokens: 10,
        completion_tokens: 30,
        max_tokens: Some(100),
        prompt_ratio: None,
        hidden_tokens: 0,
        cost: Some(0.0),
    };
    tell(statistics, endpoint, start, total, completed);
}

/// A minute of traffic: the first endpoint is fast, the second slow, the third fails half of the time.
fn learned() -> Statistics {
    let mut statistics = fresh(NAMES);
    for second in 0..60 {
        let (start, spread) = (f64::from(second), if second % 2 == 0 { 1.1 } else { 0.9 });
        stream(&mut statistics, endpoint("acme/a", "x", ""), start, 0.1 * spread);
        stream(&mut statistics, endpoint("acme/a", "y", ""), start, 0.9 * spread);
        stream(&mut statistics, endpoint("bolt/b", "y", "fp8"), start, 0.4 * spread);
        if second % 2 == 0 {
            let failure =
                Failure { kind: FailureKind::Server, status: Some(500), retry_after: None, evidence: Evidence::None };
            let failed = EventKind::Failed { failure, had_content: false };
            tell(&mut statistics, endpoint("bolt/b", "x", ""), start, 0.1, failed);
        } else {
            stream(&mut statistics, endpoint("bolt/b", "x", ""), start, 0.3);
        }
    }
    statistics
}

/// A new process with these endpoints that reads this document.
fn restarted(names: &str, document: &[u8], age: Duration) -> (Statistics, Restored) {
    let mut statistics = fresh(names);
    let state = SavedState::parse(document).expect("a document");
    let restored = statistics.import(&state, LATER, age);
    (statistics, restored)
}

fn document() -> Vec<u8> {
    learned().export(1_763_629_500_000).to_json()
}

/// The document with other text in it.
fn forged(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(document()).expect("JSON");
    assert!(text.contains(from), "{from} is not in {text}");
    text.replace(from, to).into_bytes()
}

fn stats(statistics: &mut Statistics) -> Vec<EndpointStats> {
    statistics.snapshot(1).endpoints
}

/// Who is chosen for a stream at that model, without noise.
fn choice(statistics: &mut Statistics, names: &str, now: Tick) -> String {
    let world = World::of(names);
    let query = Query { max_tokens: Some(100), streamed: true, ..world.query(Objective::Fastest, "acme/a") };
    let decision = decide(&statistics.snapshot(1), &LiveView::default(), &query, now, None).expect("somebody serves");
    let catalog = world.catalog();
    let chosen = catalog.endpoint(decision.candidates[0].index).expect("known");
    catalog.provider_of(chosen).expect("known").slug.to_string()
}

#[test]
fn the_first_decision_after_a_restart_is_the_learned_one() {
    assert_eq!(choice(&mut fresh(NAMES), NAMES, LATER), "y", "knowing nothing, it takes the other");
    for age in [Duration::ZERO, minutes(1), minutes(60), minutes(60 * 24)] {
        let (mut warm, restored) = restarted(NAMES, &document(), age);
        assert_eq!((restored.endpoints, restored.unknown, restored.rejected.len()), (4, 0, 0));
        assert_eq!(choice(&mut warm, NAMES, LATER), "x", "{age:?} later");
    }
}

#[test]
fn means_are_kept_and_certainty_is_not() {
    let (before, (mut warm, _)) = (stats(&mut learned()), restarted(NAMES, &document(), Duration::ZERO));
    for (before, after) in before.iter().zip(stats(&mut warm)) {
        let (before, after) = (before.estimates, after.estimates);
        assert!((before.fit.intercept - after.fit.intercept).abs() < 0.03, "{before:?} {after:?}");
        assert!((before.fit.variance - after.fit.variance).abs() < 0.01, "{before:?} {after:?}");
        assert!((before.per_token - after.per_token).abs() < 1e-12);
        assert!((before.first_tail - after.first_tail).abs() < 1e-12 && (before.tail - after.tail).abs() < 1e-12);
        let rate = |failures: f64, successes: f64| failures / (failures + successes);
        let (known, restored) = (rate(before.failures, before.successes), rate(after.failures, after.successes));
        // Fewer observations lean more on what is usual among siblings.
        assert!((known - restored).abs() < 0.03, "{known} {restored}");
        assert!(before.weight > 10.0 && after.weight <= 2.0 && after.failures + after.successes <= 2.0);
    }
}

#[test]
fn what_prompts_add_and_the_long_run_are_kept() {
    let mut statistics = fresh(NAMES);
    let id = endpoint("acme/a", "x", "");
    for second in 0..120 {
        let prompt_tokens = if second % 2 == 0 { 200 } else { 4_000 };
        let first = 0.2 * (1.0 + f64::from(prompt_tokens) / 2000.0);
        tell(&mut statistics, id, f64::from(second), first, EventKind::FirstToken { prompt_tokens });
    }
    // Trouble at the end, of which a later process should not make a habit.
    (0..2).for_each(|n| tell(&mut statistics, id, f64::from(121 + n), 5.0, EventKind::FirstToken { prompt_tokens: 1 }));
    let before = stats(&mut statistics)[0].clone();
    let (mut after, _) = restarted(NAMES, &statistics.export(0).to_json(), minutes(10));
    let after = &stats(&mut after)[0];
    assert!((after.estimates.fit.prompt_slope / before.estimates.fit.prompt_slope - 1.0).abs() < 1e-9);
    assert!(before.curve.first_token > 0.8 && after.curve.first_token < 0.3, "{before:?} {after:?}");
}

#[test]
fn lengths_of_answers_are_kept_as_they_were() {
    let (before, (mut warm, _)) = (learned().snapshot(1).lengths, restarted(NAMES, &document(), minutes(60)));
    assert_eq!(warm.snapshot(1).lengths, before);
}

#[test]
fn the_time_away_ages_what_is_known_like_idle_time() {
    let read = |age| stats(&mut restarted(NAMES, &document(), age).0)[1].estimates;
    let (now, soon, late) = (read(Duration::ZERO), read(minutes(1)), read(minutes(10)));
    assert!((soon.weight / now.weight - 0.5).abs() < 0.01, "one half-life: {} {}", soon.weight, now.weight);
    assert!(late.weight < 0.01 * now.weight);
    let moved = (late.fit.intercept - now.fit.intercept).abs();
    assert!(moved < 0.02, "the mean stays, being that of the long run: {moved}");
    assert!((late.age - soon.age - 9.0 * 60.0).abs() < 1e-6, "{} {}", late.age, soon.age);
}

#[test]
fn a_few_answers_overturn_what_was_remembered() {
    let (mut warm, _) = restarted(NAMES, &document(), minutes(1));
    for second in 1..=3 {
        let start = LATER.0 as f64 / 1e6 + f64::from(second);
        stream(&mut warm, endpoint("acme/a", "x", ""), start, 3.0);
    }
    assert_eq!(choice(&mut warm, NAMES, Tick(LATER.0 + 10_000_000)), "y");
}

#[test]
fn entries_are_found_by_name_and_unknown_ones_are_ignored() {
    let moved = "bolt/b@z | acme/a@y | acme/a@x | bolt/b@y variant:fp8 | bolt/b@y variant:int4";
    let (mut warm, restored) = restarted(moved, &document(), Duration::ZERO);
    assert_eq!((restored.endpoints, restored.unknown, restored.rejected.len()), (3, 1, 0));
    let known = stats(&mut warm).iter().map(|it| it.estimates.weight > 0.0).collect::<Vec<_>>();
    let catalog = World::of(moved).snapshot.catalog;
    let names = |it: &pointsman_domain::Endpoint| {
        format!(
            "{}@{}{}",
            catalog.model_of(it).expect("known").id,
            catalog.provider_of(it).expect("known").slug,
            it.variant
        )
    };
    let known: Vec<_> = catalog.endpoints.iter().zip(known).map(|(it, known)| (names(it), known)).collect();
    for (name, known) in known {
        assert_eq!(known, !["bolt/b@z", "bolt/b@yint4"].contains(&name.as_str()), "{name}");
    }
    assert_eq!(choice(&mut warm, moved, LATER), "x");
}

#[test]
fn a_process_that_learned_nothing_writes_down_nothing() {
    let state = fresh(NAMES).export(0);
    assert_eq!(state.endpoints(), 0);
    let (_, restored) = restarted(NAMES, &state.to_json(), minutes(1));
    assert_eq!(restored, Restored::default());
}

#[test]
fn restarts_in_a_row_move_no_mean() {
    let (mut once, _) = restarted(NAMES, &document(), Duration::ZERO);
    let mut often = once.clone();
    for _ in 0..5 {
        often = restarted(NAMES, &often.export(0).to_json(), Duration::ZERO).0;
    }
    for (once, often) in stats(&mut once).iter().zip(stats(&mut often)) {
        let (once, often) = (once.estimates, often.estimates);
        let pairs = [
            (once.fit.intercept, often.fit.intercept),
            (once.weight, often.weight),
            (once.per_token, often.per_token),
            (once.tail, often.tail),
            (once.successes, often.successes),
        ];
        assert!(pairs.iter().all(|(once, often)| (once - often).abs() < 1e-5), "{once:?} {often:?}");
    }
}

#[test]
fn fields_that_are_missing_were_not_learned() {
    let text = br#"{"format":"pointsman routing memory","version":1,"endpoints":{"acme/a@x":{},
        "acme/a@y":{"first_token":{"weight":4,"y":-9.2,"yy":21.16},"from_the_future":[1,{"a":2}]}},"more":7}"#;
    let (mut warm, restored) = restarted(NAMES, text, Duration::ZERO);
    assert_eq!((restored.endpoints, restored.rejected.len()), (2, 0));
    let known = stats(&mut warm);
    assert!((known[1].estimates.fit.intercept + 2.3).abs() < 0.2, "{:?}", known[1].estimates);
    assert!(known[1].estimates.successes.abs() < 1e-12 && known[0].estimates.weight.abs() < 1e-12);
}

#[test]
fn an_implausible_entry_is_rejected_by_name_and_the_others_are_restored() {
    let entry = |field: &str| {
        format!(
            r#"{{"format":"pointsman routing memory","version":1,"endpoints":{{"acme/a@x":{field},
            "acme/a@y":{{"throughput":{{"mean":-4,"weight":9}}}},"no/body@x":{{"throughput":7}}}}}}"#
        )
    };
    let absurd = [
        r#"{"first_token":{"weight":-1,"y":1,"yy":1}}"#,
        r#"{"first_token":{"weight":1e999,"y":1,"yy":1}}"#,
        r#"{"first_token":{"weight":1e300,"y":1,"yy":1}}"#,
        r#"{"first_token":{"weight":1,"y":700,"yy":490000}}"#,
        r#"{"first_token":{"weight":1,"y":1,"yy":-1}}"#,
        r#"{"first_token":{"weight":1,"y":1,"yy":1,"idle_s":-5}}"#,
        r#"{"first_token":{"weight":1,"y":1,"yy":1,"highest_load":-5}}"#,
        r#"{"first_token":{"weight":1,"y":1,"yy":1,"by_knee":"none"}}"#,
        r#"{"first_token":{"weight":1,"y":1,"yy":1,"by_knee":[[1e9,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0],
            [0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0]]}}"#,
        r#"{"throughput":{"mean":1e9,"weight":1}}"#,
        r#"{"throughput":{"mean":null,"weight":1}}"#,
        r#"{"throughput":{"mean":-4,"weight":1,"deviation":-1}}"#,
        r#"{"outcomes":{"failures":-0.5,"successes":2}}"#,
        r#"{"outcomes":{"failures":0.5,"successes":1e18}}"#,
        r#"{"tail":{"ln":1e9,"answers":5}}"#,
        r#"{"tail":{"ln":1,"answers":-5}}"#,
        r#""nothing""#,
        "[]x",
    ];
    for absurd in absurd {
        let text = entry(absurd);
        let Ok(state) = SavedState::parse(text.as_bytes()) else {
            assert_eq!(absurd, "[]x", "only what is not JSON spoils the whole document");
            continue;
        };
        let mut statistics = fresh(NAMES);
        let restored = statistics.import(&state, LATER, Duration::ZERO);
        let whose: Vec<_> = restored.rejected.iter().map(|rejected| rejected.whose.as_str()).collect();
        assert_eq!((restored.endpoints, whose), (1, vec!["acme/a@x"]), "{absurd}");
        assert!(!restored.rejected[0].why.to_string().is_empty());
        let known = stats(&mut statistics);
        assert!(known[0].estimates.weight.abs() < 1e-12, "{absurd}");
        assert!((known[1].estimates.per_token + 4.0).abs() < 1e-12, "{absurd}");
    }
}

#[test]
fn other_knees_cost_only_what_was_known_of_load() {
    let text = br#"{"format":"pointsman routing memory","version":1,"endpoints":{"acme/a@x":
        {"first_token":{"weight":10,"y":-10,"yy":10.4,"by_knee":[[1,1,1]],"highest_load":30}}}}"#;
    let (mut warm, restored) = restarted(NAMES, text, Duration::ZERO);
    assert_eq!(restored.endpoints, 1);
    let fit = stats(&mut warm)[0].estimates.fit;
    assert!((fit.intercept + 1.0).abs() < 0.1 && fit.knee > 30.0, "{fit:?}");
}

#[test]
fn documents_of_other_formats_and_versions_are_rejected() {
    let fault = |text: &[u8]| SavedState::parse(text).expect_err("not a document of ours");
    assert_eq!(fault(&forged("\"version\":1", "\"version\":2")), SavedStateError::Version(2));
    assert_eq!(fault(b"{}"), SavedStateError::Foreign);
    assert_eq!(fault(br#"{"format":"something","version":1}"#), SavedStateError::Foreign);
    for torn in [&b""[..], b"null", b"[1,2]", b"\xff\xfe", b"{\"format\":", br#"{"format":7}"#] {
        assert!(matches!(fault(torn), SavedStateError::Torn(_)), "{torn:?}");
    }
    let faults = [SavedStateError::Torn("eof".to_owned()), SavedStateError::Foreign, SavedStateError::Version(2)];
    assert!(faults.iter().all(|fault| !fault.to_string().is_empty()));
}

#[test]
fn a_document_torn_anywhere_is_no_document() {
    let whole = document();
    for end in (0..whole.len()).step_by(7) {
        assert!(SavedState::parse(&whole[..end]).is_err(), "torn at {end}");
    }
}

#[test]
fn each_entry_is_known_again_or_rejected_or_unknown() {
    let counts = |endpoints: &str, models: &str| {
        let text = format!(
            r#"{{"format":"pointsman routing memory","version":1,"endpoints":{{{endpoints}}},"models":{{{models}}}}}"#
        );
        let (_, restored) = restarted(NAMES, text.as_bytes(), Duration::ZERO);
        (restored.endpoints, restored.unknown, restored.rejected.len())
    };
    assert_eq!(counts("", r#""acme/a":"torn""#), (0, 0, 1), "a model of the catalog");
    assert_eq!(counts("", r#""stranger/a":"torn""#), (0, 1, 0));
    assert_eq!(counts("", r#""stranger/a":[]"#), (0, 1, 0), "a model that the catalog does not have");
    assert_eq!(counts(r#""acme/a@x":"torn","stranger/a@x":"torn""#, ""), (0, 1, 1));
}

#[test]
fn deep_nesting_and_huge_documents_end_in_an_answer() {
    let deep =
        [br#"{"format":"pointsman routing memory","version":1,"endpoints":{"acme/a@x":"#.to_vec(), vec![b'['; 200_000]]
            .concat();
    assert!(SavedState::parse(&deep).is_err());
    let many: Vec<String> = (0..50_000).map(|n| format!(r#""stranger/{n}@x":{{"tail":7}}"#)).collect();
    let huge = format!(r#"{{"format":"pointsman routing memory","version":1,"endpoints":{{{}}}}}"#, many.join(","));
    let (_, restored) = restarted(NAMES, huge.as_bytes(), Duration::ZERO);
    assert_eq!((restored.endpoints, restored.unknown, restored.rejected.len()), (0, 50_000, 0));
}

fn is_sane(stats: &EndpointStats) -> bool {
    let estimates = &stats.estimates;
    let fit = estimates.fit;
    let finite =
        [fit.intercept, fit.load_exponent, fit.knee, estimates.per_token, stats.total_p95, stats.first_token_p95];
    let counts =
        [fit.variance, estimates.weight, estimates.failures, estimates.successes, estimates.per_token_variance];
    finite.iter().all(|it| it.is_finite())
        && counts.iter().all(|it| it.is_finite() && *it >= 0.0)
        && estimates.weight <= 2.0
}

/// Any number that JSON can hold, ordinary ones more often.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![3 => -50.0..50.0_f64, 1 => any::<f64>().prop_filter("JSON", |it| it.is_finite()), 1 => Just(0.0)]
}

proptest! {
    #[test]
    fn whatever_numbers_a_document_holds_what_is_believed_is_sane(
        (w, y, yy, load, idle) in (number(), number(), number(), number(), number()),
        knees in prop::collection::vec(prop::array::uniform3(number()), 12),
        (mean, weight, deviation) in (number(), number(), number()),
        (failures, successes, ln) in (number(), number(), number()),
        age in 0_u64..10_000_000,
    ) {
        let text = serde_json::json!({"format": "pointsman routing memory", "version": 1, "endpoints": {
            "acme/a@x": {"first_token":
                {"weight": w, "y": y, "yy": yy, "highest_load": load, "idle_s": idle, "by_knee": knees}},
            "acme/a@y": {"throughput": {"mean": mean, "weight": weight, "deviation": deviation}},
            "bolt/b@x": {"outcomes": {"failures": failures, "successes": successes, "idle_s": idle}},
            "bolt/b@y/fp8": {"tail": {"ln": ln, "answers": 9}, "first_tail": {"ln": mean, "answers": 900}},
        }});
        let (mut warm, _) = restarted(NAMES, text.to_string().as_bytes(), Duration::from_secs(age));
        stream(&mut warm, endpoint("acme/a", "x", ""), LATER.0 as f64 / 1e6 + 1.0, 0.5);
        for known in stats(&mut warm).iter().skip(1) {
            prop_assert!(is_sane(known), "{known:?}");
        }
        choice(&mut warm, NAMES, LATER);
    }

    #[test]
    fn a_document_with_any_byte_changed_is_read_or_refused(place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = document();
        let place = place.index(text.len());
        text[place] = byte;
        if let Ok(state) = SavedState::parse(&text) {
            let mut statistics = fresh(NAMES);
            statistics.import(&state, LATER, minutes(1));
            for known in stats(&mut statistics) {
                prop_assert!(is_sane(&known), "{known:?}");
            }
        }
    }
}
