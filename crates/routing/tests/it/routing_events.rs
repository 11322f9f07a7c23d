//! What each event does to the statistics of an endpoint, row by row, and what people see of it.

use std::{sync::Arc, time::Duration};

use pointsman_domain::{
    EndpointEvent, EndpointId, EventKind, Evidence, Failure, FailureKind, Finding, GateEvent, Prediction,
    RoutingPolicy, Task, Tick,
};
use pointsman_routing::{
    quality::{Posterior, QualityTable},
    stats::{Estimates, FailureEffect, Snapshot, Statistics},
};

use crate::routing_world::World;

fn at(seconds: f64) -> Tick {
    Tick((seconds * 1e6) as u64)
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Statistics of one model at two providers.
struct Rig {
    statistics: Statistics,
    endpoint: EndpointId,
}

impl Rig {
    fn new() -> Rig {
        let world = World::of("acme/a@x | acme/a@y");
        let endpoint = world.catalog().endpoints.first().unwrap().id;
        let Snapshot { catalog, policy, .. } = world.snapshot;
        Rig { statistics: Statistics::new(catalog, policy), endpoint }
    }

    /// The same, with statistics that hardly fade, so that whole counts stay whole.
    fn unfading(mut self) -> Rig {
        let mut policy = RoutingPolicy::default();
        policy.stats.half_life = secs(1e6);
        self.statistics.replace_policy(Arc::new(policy));
        self
    }

    /// Thirty good streams of a quarter of a second to the first token and ten tokens a second.
    fn warm() -> Rig {
        let mut rig = Rig::new().unfading();
        (0..30).for_each(|second| rig.stream(f64::from(second), 0.25, 1));
        rig
    }

    /// Of an attempt whose first token was expected after a quarter of a second.
    fn tell(&mut self, dispatched: f64, now: f64, in_flight: u32, kind: EventKind) {
        self.tell_expecting(0.25, dispatched, now, in_flight, kind);
    }

    /// Of an attempt that was expected to show itself after so many seconds, a quarter of one for the first token.
    fn tell_expecting(&mut self, expected: f64, dispatched: f64, now: f64, in_flight: u32, kind: EventKind) {
        let event = self.event(dispatched, now, kind);
        self.statistics.apply(&EndpointEvent { in_flight, expected, ..event });
    }

    fn event(&self, dispatched: f64, now: f64, kind: EventKind) -> EndpointEvent {
        EndpointEvent {
            endpoint: self.endpoint,
            at: at(now),
            dispatched: at(dispatched),
            in_flight: 1,
            predicted: Prediction { first_token_p50: 0.25, ..Prediction::NONE },
            expected: 0.25,
            gate: GateEvent::Unmoved,
            kind,
        }
    }

    fn stream(&mut self, start: f64, first: f64, in_flight: u32) {
        self.tell(start, start + first, in_flight, EventKind::FirstToken { prompt_tokens: 10 });
        let completed = EventKind::Completed {
            streamed: true,
            first_token: secs(first),
            total: secs(first + 2.0),
            prompt_tokens: 10,
            completion_tokens: 20,
            max_tokens: Some(100),
            prompt_ratio: None,
            hidden_tokens: 0,
            cost: Some(0.0),
        };
        self.tell(start, start + first + 2.0, in_flight, completed);
    }

    fn plain(&mut self, start: f64, total: f64, tokens: u32) {
        self.tell(start, start + total, 1, plain(total, tokens));
    }

    fn fail(&mut self, dispatched: f64, now: f64, kind: FailureKind, status: Option<u16>) {
        let failure = Failure { kind, status, retry_after: None, evidence: Evidence::None };
        self.tell(dispatched, now, 1, EventKind::Failed { failure, had_content: false });
    }

    fn estimates(&mut self) -> Estimates {
        self.statistics.snapshot(1).endpoints.first().unwrap().estimates
    }
}

fn plain(total: f64, tokens: u32) -> EventKind {
    EventKind::Completed {
        streamed: false,
        first_token: secs(total),
        total: secs(total),
        prompt_tokens: 10,
        completion_tokens: tokens,
        max_tokens: None,
        prompt_ratio: None,
        hidden_tokens: 0,
        cost: Some(0.0),
    }
}

/// How an event moved what is known: `=` unchanged, `+` more or slower, `-` less or faster, for the first token,
/// the time per token, failures and successes.
fn effect(event: impl Fn(&mut Rig)) -> String {
    let mut rig = Rig::warm();
    let before = rig.estimates();
    event(&mut rig);
    let after = rig.estimates();
    let sign = |before: f64, after: f64| match () {
        () if (after - before).abs() < 1e-6 => '=',
        () if after > before => '+',
        () => '-',
    };
    let fits = sign(before.fit.intercept, after.fit.intercept);
    let pace = sign(before.per_token, after.per_token);
    let counted = |before: f64, after: f64| if after > before + 0.5 { '+' } else { '=' };
    let (failures, successes) = (counted(before.failures, after.failures), counted(before.successes, after.successes));
    format!("{fits}{pace} {failures}{successes}")
}

#[test]
fn good_answers_teach_latency_pace_and_success() {
    assert_eq!(effect(|rig| rig.stream(40.0, 0.5, 1)), "+= =+", "a slower first token");
    assert_eq!(effect(|rig| rig.stream(40.0, 0.2, 1)), "-= =+", "a faster one");
    assert_eq!(effect(|rig| rig.plain(40.0, 9.0, 20)), "=+ =+", "a slow plain answer, mostly decoding");
    assert_eq!(effect(|rig| rig.plain(40.0, 1.0, 1)), "++ =+", "one of a single token, mostly waiting");
    let first = |rig: &mut Rig| rig.tell(40.0, 40.5, 1, EventKind::FirstToken { prompt_tokens: 10 });
    assert_eq!(effect(first), "+= ==", "a first token alone");
    assert_eq!(effect(|rig| rig.tell(40.0, 40.0, 1, EventKind::Dispatched)), "== ==", "a dispatch");
}

#[test]
fn failures_count_and_never_teach_a_latency() {
    use FailureKind::*;
    let kinds = [
        (Server, Some(500)),
        (Server, Some(408)),
        (Overloaded, Some(503)),
        (Reset, None),
        (Malformed, Some(200)),
        (Truncated, Some(200)),
        (UnexpectedStatus, Some(204)),
        (Connect, None),
        (Tls, None),
    ];
    for (kind, status) in kinds {
        assert_eq!(effect(|rig| rig.fail(40.0, 40.001, kind, status)), "== +=", "{kind:?}");
    }
}

#[test]
fn rate_limits_account_faults_and_mistakes_of_clients_are_no_failures() {
    use FailureKind::*;
    let kinds = [
        (RateLimited, Some(429)),
        (Overloaded, Some(529)),
        (Auth, Some(401)),
        (Auth, Some(402)),
        (Forbidden, Some(403)),
        (NotFound, Some(404)),
        (BadRequest, Some(400)),
        (ContextLength, Some(400)),
        (TooLarge, Some(413)),
        (Unprocessable, Some(422)),
        (Deadline, None),
    ];
    for (kind, status) in kinds {
        assert_eq!(effect(|rig| rig.fail(40.0, 40.001, kind, status)), "== ==", "{kind:?}");
    }
}

#[test]
fn a_timeout_counts_and_teaches_only_if_the_endpoint_was_alive_meanwhile() {
    let timeout = |rig: &mut Rig| rig.fail(40.0, 55.0, FailureKind::Timeout, None);
    assert_eq!(effect(timeout), "== +=", "a hang is a failure, not a latency");
    let alive = |rig: &mut Rig| {
        rig.stream(41.0, 0.25, 1);
        rig.fail(40.0, 55.0, FailureKind::Timeout, None);
    };
    assert_eq!(effect(alive), "+= ++", "overloaded: slower than thought");
}

#[test]
fn a_request_that_was_given_up_moves_the_first_token_by_its_share_of_the_residual() {
    let timeout = Failure { kind: FailureKind::Timeout, status: None, retry_after: None, evidence: Evidence::None };
    let ends =
        [EventKind::Failed { failure: timeout, had_content: false }, EventKind::Cancelled { had_content: false }];
    for end in ends {
        // What one such request makes of a first token of 250 ms, against one of which nothing is heard.
        let taught = |expected: f64, age: f64| {
            let intercept = |end| {
                let mut rig = Rig::warm();
                rig.tell(40.1, 40.2, 1, EventKind::FirstToken { prompt_tokens: 1 });
                rig.tell_expecting(expected, 40.0, 40.0 + age, 1, end);
                rig.estimates().fit.intercept
            };
            intercept(end) - intercept(EventKind::Dispatched)
        };
        assert!(taught(10.0, 600.0).abs() < 1e-9, "the clock of a whole answer that was expected after 10 s: {end:?}");
        assert!(taught(0.5, 0.35).abs() < 1e-9, "not even what was expected: {end:?}");
        let (stream, plain) = (taught(0.25, 1.0), taught(0.5, 2.0));
        assert!(
            stream > 0.0 && (stream - plain).abs() < 1e-3,
            "four times what was expected: {stream} {plain}, {end:?}"
        );
    }
}

#[test]
fn a_client_that_left_teaches_only_what_is_slower_than_expected_of_a_living_endpoint() {
    let left = |age: f64, alive: bool, had_content: bool| {
        move |rig: &mut Rig| {
            if alive {
                rig.tell(40.0, 40.01, 1, EventKind::FirstToken { prompt_tokens: 1 });
            }
            let kind = EventKind::Cancelled { had_content };
            rig.tell(39.0, 39.0 + age, 1, kind);
        }
    };
    assert_eq!(effect(left(3.0, false, false)), "== ==", "nobody knows whether it hangs");
    assert_eq!(effect(left(0.1, false, false)), "== ==", "an impatient client makes nothing fast");
    assert_eq!(effect(left(3.0, true, true)), effect(left(3.0, true, true)));
    let (mut slow, mut same) = (Rig::warm(), Rig::warm());
    left(3.0, true, false)(&mut slow);
    left(3.0, true, true)(&mut same);
    assert!(slow.estimates().fit.intercept > same.estimates().fit.intercept, "it was alive and did not answer");
}

#[test]
fn every_failure_has_an_effect_and_only_those_of_the_provider_count() {
    let known = Evidence::Known(Finding { words: "model_not_found", meaning: "the model is unknown there" });
    let verdict = |kind, status| FailureEffect::of(&Failure { kind, status, retry_after: None, evidence: known });
    assert_eq!(verdict(FailureKind::Connect, None), FailureEffect::Refused);
    assert_eq!(verdict(FailureKind::Overloaded, Some(503)), FailureEffect::Fault);
    assert_eq!(verdict(FailureKind::Overloaded, Some(529)), FailureEffect::Busy);
    assert_eq!(verdict(FailureKind::Auth, Some(402)), FailureEffect::Account);
    assert_eq!(verdict(FailureKind::NotFound, Some(404)), FailureEffect::UnknownModel);
    assert_eq!(verdict(FailureKind::RefusedHere, Some(404)), FailureEffect::Silent);
    let unclear = |kind| FailureEffect::of(&Failure { evidence: Evidence::Unknown { said: 1 }, ..Failure::of(kind) });
    assert_eq!(unclear(FailureKind::Auth), FailureEffect::UnclearAccount);
    assert_eq!(unclear(FailureKind::NotFound), FailureEffect::UnclearModel);
    assert_eq!(FailureEffect::of(&Failure::of(FailureKind::Auth)), FailureEffect::Silent);
    assert!(!verdict(FailureKind::RateLimited, Some(429)).is_failure());
}

#[test]
fn a_probe_that_finds_the_endpoint_well_clears_most_of_its_record() {
    let mut rig = Rig::new();
    (0..5).for_each(|i| rig.fail(f64::from(i), f64::from(i) + 0.1, FailureKind::Server, Some(500)));
    assert!(rig.estimates().failures > 4.0);
    let success = rig.event(12.0, 12.5, plain(0.5, 2));
    rig.statistics.apply(&success);
    assert!(rig.estimates().failures > 3.5, "no breaker was closed by it: nothing is forgiven");
    rig.statistics.apply(&EndpointEvent { gate: GateEvent::Moved, ..success });
    assert!(rig.estimates().failures > 3.5, "another gate moved");
    rig.statistics.apply(&EndpointEvent { gate: GateEvent::Recovered, ..success });
    assert!(rig.estimates().failures <= 0.3);
}

#[test]
fn an_unmeasured_endpoint_is_believed_to_be_like_its_siblings() {
    let mut rig = Rig::new();
    let first = |rig: &mut Rig, index: usize| rig.statistics.snapshot(1).endpoints[index].curve.first_token;
    assert!((first(&mut rig, 1) - 0.5).abs() < 1e-9, "nobody was measured: the configured expectation");
    (0..60).for_each(|second| rig.stream(f64::from(second), 2.0, 1));
    let (measured, unmeasured) = (first(&mut rig, 0), first(&mut rig, 1));
    assert!((measured - unmeasured).abs() < 1e-9 && measured > 1.9, "{measured} {unmeasured}");
}

#[test]
fn estimates_age_without_events_as_they_do_with_them() {
    let troubled = || {
        let mut rig = Rig::new();
        (0..120).for_each(|second| rig.stream(f64::from(second), 0.2, 1));
        (120..125).for_each(|second| rig.stream(f64::from(second), 4.0, 1));
        rig
    };
    let (mut idle, mut asked) = (troubled(), troubled());
    let first =
        |rig: &mut Rig, hour: f64| rig.statistics.snapshot_at(1, at(3600.0 * hour)).endpoints[0].curve.first_token;
    assert!(first(&mut idle, 0.0) > 1.5, "never before the newest event");
    assert!((0.15..0.35).contains(&first(&mut idle, 8.0)), "{}", first(&mut idle, 8.0));
    asked.tell(28_800.0, 28_800.0, 1, EventKind::Dispatched);
    assert!((first(&mut idle, 8.0) - first(&mut asked, 0.0)).abs() < 1e-12, "a dispatch changes nothing");
}

#[test]
fn statistics_survive_a_catalog_with_other_positions() {
    let mut rig = Rig::warm();
    let before = rig.estimates();
    let moved = World::of("bolt/b | acme/a@y | acme/a@x");
    rig.statistics.replace_catalog(Arc::clone(&moved.snapshot.catalog));
    let snapshot = rig.statistics.snapshot(2);
    let position = snapshot.catalog.endpoints.iter().position(|endpoint| endpoint.id == rig.endpoint).unwrap();
    assert_eq!(snapshot.endpoints[position].estimates, before);
    assert_eq!(snapshot.endpoints.len(), 3);
}

#[test]
fn a_table_of_quality_is_taken_as_it_is_for_the_catalog_in_use_and_made_anew_for_another() {
    let mut rig = Rig::new();
    let known = Posterior::of_class(8.0, 2.0).quality(10.0);
    let table = Arc::new(QualityTable::default().with(1, Task::Code, known));
    let in_use = rig.statistics.snapshot(1).catalog;
    rig.statistics.adopt_evidence(Arc::default(), &in_use, Arc::clone(&table));
    assert!(Arc::ptr_eq(&rig.statistics.snapshot(2).quality, &table));
    let other = World::of("bolt/b | acme/a@y | acme/a@x").snapshot.catalog;
    rig.statistics.adopt_evidence(Arc::default(), &other, table);
    assert!(rig.statistics.snapshot(3).quality.is_empty(), "nothing is known of any endpoint");
}

#[test]
fn figures_count_by_class_and_leave_callers_mistakes_out() {
    let mut rig = Rig::new();
    (0..6).for_each(|second| rig.stream(f64::from(second), 0.25, 1));
    rig.fail(10.0, 10.1, FailureKind::Server, Some(500));
    rig.fail(10.0, 10.2, FailureKind::Timeout, None);
    rig.fail(10.0, 10.3, FailureKind::RateLimited, Some(429));
    rig.fail(10.0, 10.4, FailureKind::BadRequest, Some(400));
    rig.tell(10.0, 10.5, 1, EventKind::Cancelled { had_content: true });
    let figures = rig.statistics.figures(at(20.0));
    let summary = &figures.endpoints.first().unwrap().summary;
    assert_eq!((summary.requests, summary.successes, summary.window_seconds), (9, 6, 300));
    assert_eq!((summary.errors.server, summary.errors.timeout, summary.errors.rate_limited), (1, 1, 1));
    assert_eq!(summary.success_rate, Some(0.75), "two failures in eight answers");
    assert_eq!(summary.last_error.unwrap().status, Some(429));
    assert_eq!(summary.consecutive_failures, 2);
    let near = |value: Option<f64>, expected: f64| (value.unwrap() / expected - 1.0).abs() < 0.06;
    assert!(
        near(summary.first_token.p50, 0.25) && near(summary.latency.p99, 2.25) && near(summary.throughput.p50, 10.0)
    );
    assert_eq!(figures.providers.first().unwrap(), summary, "its only endpoint");
    assert_eq!(figures.providers.get(1).unwrap().success_rate, None, "never called");
}

#[test]
fn mistakes_of_callers_and_shortages_of_our_own_change_no_success_rate() {
    let mut rig = Rig::warm();
    let before = rig.statistics.figures(at(40.0)).providers;
    use FailureKind::{BadRequest, ContextLength, Shortage, TooLarge, Unprocessable};
    for kind in [BadRequest, TooLarge, Unprocessable, ContextLength, Shortage] {
        (0..50).for_each(|_| rig.fail(39.0, 39.5, kind, Some(400)));
    }
    assert_eq!(rig.statistics.figures(at(40.0)).providers, before);
}

#[test]
fn the_learned_tail_holds_nineteen_answers_in_twenty() {
    let mut rig = Rig::new();
    // First tokens around 250 ms with σ = 0.4; the total follows them.
    let noise = |i: u64| (pointsman_routing::stats::splitmix64(i) % 1000) as f64 / 1000.0;
    let gauss = |i: u64| (0..12).map(|j| noise(12 * i + j)).sum::<f64>() - 6.0;
    let (mut held, mut told) = (0, 0);
    for i in 0..2000 {
        let first = 2.0 * (0.4 * gauss(i)).exp();
        if i > 500 {
            let stats = rig.statistics.snapshot(1).endpoints.swap_remove(0);
            let total = stats.curve.first_token + 20.0 * stats.curve.per_token;
            held += u32::from(first + 2.0 <= total * stats.total_p95);
            told += 1;
        }
        rig.stream(10.0 * i as f64, first, 1);
    }
    let share = f64::from(held) / f64::from(told);
    assert!((0.93..=0.97).contains(&share), "{share}");
}
