//! What every worker sees at once: claims, breakers, cooldowns, pacing, and what a decision makes of them.

use std::{sync::Arc, time::Duration};

use pointsman_domain::{
    Candidate, Decision, EndpointId, EventKind, Evidence, ExclusionReason, Failure, FailureKind, Finding, GateEvent,
    Objective, RoutingPolicy, Tick,
};
use pointsman_routing::{
    decide::decide,
    stats::{BreakerChange, Claim, Gate, LiveBoard, QuotaReport, Remaining, Statistics},
};

use crate::routing_world::World;

/// A board and the world it belongs to. Nothing in the statistics moves; only the cells do.
struct Rig {
    world: World,
    board: LiveBoard,
    policy: RoutingPolicy,
}

fn at(seconds: f64) -> Tick {
    // After the world's own statistics, so that nothing there lies ahead.
    Tick(crate::routing_world::NOW.0 + (seconds * 1e6) as u64)
}

const OK: EventKind = EventKind::Completed {
    streamed: true,
    first_token: Duration::from_millis(200),
    total: Duration::from_secs(1),
    prompt_tokens: 10,
    completion_tokens: 10,
    max_tokens: None,
    prompt_ratio: None,
    hidden_tokens: 0,
    cost: Some(0.0),
};

const LEFT: EventKind = EventKind::Cancelled { had_content: false };

fn failed(kind: FailureKind, status: u16, retry_after: Option<f64>) -> EventKind {
    let retry_after = retry_after.map(Duration::from_secs_f64);
    EventKind::Failed {
        failure: Failure { kind, status: Some(status), retry_after, evidence: Evidence::None },
        had_content: false,
    }
}

fn server_error() -> EventKind {
    failed(FailureKind::Server, 500, None)
}

fn refused() -> EventKind {
    failed(FailureKind::Connect, 0, None)
}

fn busy(retry_after: Option<f64>) -> EventKind {
    failed(FailureKind::RateLimited, 429, retry_after)
}

impl Rig {
    fn of(text: &str) -> Rig {
        let world = World::of(text);
        let board = LiveBoard::new(world.catalog(), 1);
        Rig { board, policy: RoutingPolicy::default(), world }
    }

    fn decide(&self, now: Tick) -> Decision {
        let query = self.world.query(Objective::Fastest, "");
        decide(&self.world.snapshot, &self.board.view(now), &query, now, None).unwrap()
    }

    /// The plan at a moment: `a b?`, or the error.
    fn plan(&self, seconds: f64) -> String {
        let query = self.world.query(Objective::Fastest, "");
        match decide(&self.world.snapshot, &self.board.view(at(seconds)), &query, at(seconds), None) {
            Ok(decision) => self.world.plan(&decision),
            Err(error) => format!("nothing until {:.1}", error.opens.unwrap().seconds_since(at(0.0))),
        }
    }

    /// The candidate of this name in the plan of a moment.
    fn candidate(&self, name: &str, seconds: f64) -> Candidate {
        let found = self.decide(at(seconds)).candidates.into_iter().find(|c| self.world.name(c.index) == name);
        found.unwrap_or_else(|| panic!("{name} is no candidate at {seconds} s"))
    }

    fn claim(&self, name: &str, seconds: f64) -> Result<Claim, ExclusionReason> {
        let candidate = self.candidate(name, seconds);
        self.board.claim(candidate.index, at(seconds), &candidate)
    }

    fn finish(&self, claim: Claim, seconds: f64, end: EventKind) -> Option<BreakerChange> {
        self.board.finish(claim, at(seconds), end, &self.policy).change
    }

    /// One attempt from start to end, a tenth of a second later.
    fn attempt(&self, name: &str, seconds: f64, end: EventKind) {
        let claim = self.claim(name, seconds).unwrap();
        self.finish(claim, seconds + 0.1, end);
    }

    fn index(&self, name: &str) -> u32 {
        (0..).find(|index| self.world.name(*index) == name).unwrap()
    }

    /// Whether an attempt past the gate of the first endpoint costs a token.
    fn costs_a_token(&self, seconds: f64, caller: Option<u64>, has_waited: bool) -> bool {
        self.board.costs_a_token(0, at(seconds), caller, has_waited).is_some()
    }

    fn circuit(&self, name: &str, seconds: f64) -> &'static str {
        self.board.view(at(seconds)).status(self.world.catalog(), self.index(name)).circuit.as_str()
    }
}

#[test]
fn a_claim_counts_at_once_and_is_given_back_however_it_ends() {
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    for (n, end) in [OK, LEFT, server_error(), busy(None)].into_iter().enumerate() {
        let start = 10.0 * n as f64;
        let claim = rig.claim("acme/a", start).unwrap();
        assert_eq!((claim.in_flight, rig.board.view(at(start)).endpoint(0).in_flight), (1, 1));
        rig.finish(claim, start + 1.0, end);
        assert_eq!(rig.board.view(at(start + 9.0)).endpoint(0).in_flight, 0);
    }
}

#[test]
fn the_end_of_an_attempt_tells_whether_it_moved_a_gate_and_which_success_closed_a_breaker() {
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    let news = |seconds: f64, end| {
        let claim = rig.claim("acme/a", seconds).unwrap();
        rig.board.finish(claim, at(seconds + 0.1), end, &rig.policy).event.gate
    };
    let steps = [
        (0.0, OK, GateEvent::Unmoved),
        (1.0, server_error(), GateEvent::Unmoved),
        (2.0, refused(), GateEvent::Moved),
        (10.0, OK, GateEvent::Recovered),
        (11.0, OK, GateEvent::Unmoved),
    ];
    for (seconds, end, expected) in steps {
        assert_eq!(news(seconds, end), expected, "{seconds} s");
    }
}

#[test]
fn time_outs_beyond_the_knee_are_forgiven_by_no_success() {
    let rig = Rig::of("acme/a 90ms knee2 | bolt/b 300ms");
    let mut statistics = Statistics::new(Arc::clone(&rig.world.snapshot.catalog), Arc::new(rig.policy.clone()));
    let candidate = rig.candidate("acme/a", 0.0);
    let claim = |seconds| rig.board.claim(candidate.index, at(seconds), &candidate).unwrap();
    let mut end = |claim: Claim, seconds, end| {
        statistics.apply(&rig.board.finish(claim, at(seconds), end, &rig.policy).event);
        statistics.snapshot(1).endpoints.first().unwrap().estimates.failures
    };
    let late: Vec<_> = (0..6).map(|_| claim(0.0)).collect();
    end(claim(1.0), 1.5, OK);
    for claim in late.into_iter().rev().take(3) {
        end(claim, 15.0, failed(FailureKind::Timeout, 0, None));
    }
    assert_eq!(rig.circuit("acme/a", 15.0), "closed", "our own load");
    assert!(end(claim(16.0), 16.5, OK) > 2.5, "and still they were failures");
}

#[test]
fn what_was_predicted_travels_with_what_happens_to_the_attempt() {
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    let choice = rig.decide(at(0.0)).candidates.remove(0);
    let claim = rig.board.claim(choice.index, at(0.0), &choice).unwrap();
    let event = claim.event(at(1.0), OK);
    assert!(choice.predicted.measured);
    assert_eq!((event.predicted, event.endpoint, event.kind), (choice.predicted, choice.endpoint, OK));
    assert_eq!((event.at, event.dispatched, event.in_flight), (at(1.0), at(0.0), 1));
}

#[test]
fn the_next_decision_sees_the_load_of_the_last() {
    let rig = Rig::of("acme/a 90ms knee2 | bolt/b 100ms knee2");
    let claims: Vec<_> = (0..4)
        .map(|_| rig.decide(at(0.0)).candidates.remove(0))
        .map(|choice| {
            _ = rig.board.claim(choice.index, at(0.0), &choice).unwrap();
            rig.world.name(choice.index)
        })
        .collect();
    assert_eq!(claims, ["acme/a", "acme/a", "bolt/b", "bolt/b"]);
}

#[test]
fn an_unanswered_request_becomes_evidence_and_its_first_token_ends_that() {
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    let claim = rig.claim("acme/a", 0.0).unwrap();
    assert_eq!(rig.plan(0.1), "acme/a bolt/b");
    assert_eq!(rig.plan(1.0), "bolt/b acme/a", "ten times the usual");
    rig.board.first_token(&claim, at(1.0));
    assert_eq!(rig.plan(1.0), "acme/a bolt/b");
}

#[test]
fn many_requests_that_are_a_little_late_show_together_that_the_endpoint_is_silent() {
    let silent = |requests: usize, now: f64| {
        let rig = Rig::of("acme/a 100ms | bolt/b 300ms");
        let candidate = rig.candidate("acme/a", 0.0);
        let starts = (0..requests).map(|request| 0.0001 * request as f64);
        let claims: Vec<_> = starts.map(|start| rig.board.claim(0, at(start), &candidate).unwrap()).collect();
        let silent = rig.board.view(at(now)).endpoint(0).silent;
        rig.board.first_token(claims.last().unwrap(), at(now));
        assert!(!rig.board.view(at(now)).endpoint(0).silent, "a first token ends it");
        silent
    };
    let later = |share: f64| 0.1 * share;
    assert!(!silent(20, later(0.99)), "none of them is late yet");
    assert!(!silent(1, later(1.4)) && !silent(2, later(1.4)), "two may be late by chance");
    assert!(silent(5, later(1.4)), "five are not");
    assert!(silent(1, later(6.0)), "nor is one that is very late");
}

#[test]
fn a_request_overtaken_by_later_ones_is_no_evidence_of_silence() {
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    let lost = rig.claim("acme/a", 0.0).unwrap();
    let later = rig.claim("acme/a", 0.05).unwrap();
    assert_eq!(rig.plan(1.0), "bolt/b acme/a", "neither was answered");
    rig.board.first_token(&later, at(1.0));
    assert_eq!(rig.plan(1.0), "acme/a bolt/b", "the endpoint answers again");
    rig.finish(lost, 15.0, LEFT);
    assert_eq!(rig.plan(15.0), "acme/a bolt/b");
}

#[test]
fn requests_cancelled_at_a_hanging_endpoint_stay_evidence_for_a_while() {
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    let raced = |start: f64| {
        let claim = rig.board.claim(0, at(start), &rig.candidate("acme/a", start)).unwrap();
        rig.finish(claim, start + 0.15, LEFT);
    };
    raced(0.0);
    assert_eq!(rig.plan(0.2), "acme/a bolt/b", "one may be an accident");
    raced(0.2);
    assert_eq!(rig.plan(0.4), "bolt/b acme/a", "two are not");
    assert_eq!(rig.plan(12.0), "acme/a bolt/b", "it is tried again after a while");
    raced(12.0);
    assert_eq!(rig.plan(20.0), "bolt/b acme/a", "and left for longer");
    rig.attempt("acme/a", 30.0, OK);
    assert_eq!(rig.plan(31.0), "acme/a bolt/b");
    raced(31.0);
    assert_eq!(rig.plan(31.2), "acme/a bolt/b", "an answer ended it");
}

/// Another request was sent past the open circuit while the probe was under way, and failed first.
#[test]
fn a_probe_that_succeeds_closes_the_circuit_whatever_failed_meanwhile() {
    let rig = Rig::of("acme/a 200ms");
    rig.attempt("acme/a", 0.0, refused());
    let probe = rig.claim("acme/a", 8.0).unwrap();
    assert!(probe.probe);
    let candidate = Candidate { panic: true, probe: false, ..rig.candidate("acme/a", 8.0) };
    let panic = rig.board.claim(0, at(8.5), &candidate).unwrap();
    rig.finish(panic, 8.6, server_error());
    rig.finish(probe, 9.0, OK);
    assert_eq!((rig.circuit("acme/a", 9.1), rig.plan(9.1).as_str()), ("closed", "acme/a"));
}

#[test]
fn an_endpoint_with_a_used_up_quota_is_excluded_until_its_reset() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    let told = |seconds: f64, left: u64, reset: u64| {
        let claim = rig.claim("acme/a", seconds).unwrap();
        let requests = Some(Remaining { left, resets_in: Some(Duration::from_secs(reset)), refill: None });
        rig.board.quota(&claim, at(seconds + 0.1), QuotaReport { requests, tokens: None });
        rig.finish(claim, seconds + 0.1, OK);
    };
    told(0.0, 500, 10);
    assert_eq!(rig.plan(0.2), "acme/a bolt/b");
    told(1.0, 0, 10);
    let before = rig.candidate("bolt/b", 2.0);
    assert_eq!(rig.plan(2.0), "bolt/b");
    assert_eq!(rig.board.claim(0, at(2.0), &before), Err(ExclusionReason::Paced));
    let detail = &rig.decide(at(2.0)).excluded[0].detail;
    assert_eq!(detail.to_string(), "paced, next in 9.1 s");
    assert_eq!(rig.plan(11.2), "acme/a bolt/b");
    told(12.0, 0, 600);
    rig.attempt("bolt/b", 13.0, refused());
    assert_eq!(rig.plan(13.2), "acme/a!", "a header is no reason to refuse what nobody else may serve");
}

#[test]
fn a_request_that_exceeds_the_tokens_left_goes_elsewhere() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    let told = |seconds: f64, left: u64| {
        let claim = rig.claim("acme/a", seconds).unwrap();
        let tokens = Some(Remaining { left, resets_in: Some(Duration::from_secs(10)), refill: None });
        rig.board.quota(&claim, at(seconds), QuotaReport { requests: None, tokens });
        rig.finish(claim, seconds, OK);
    };
    told(0.0, 2_500);
    rig.attempt("acme/a", 1.0, OK);
    rig.attempt("acme/a", 2.0, OK);
    assert_eq!(rig.plan(3.0), "bolt/b", "two requests of 1,100 tokens were admitted meanwhile");
    assert_eq!(rig.plan(10.1), "acme/a bolt/b");
}

#[test]
fn three_failures_open_the_breaker_one_probe_closes_it() {
    let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
    (0..3).for_each(|n| rig.attempt("acme/a", f64::from(n), server_error()));
    assert_eq!((rig.circuit("acme/a", 3.0), rig.plan(3.0).as_str()), ("open", "bolt/b"));
    let later = 10.0;
    assert_eq!((rig.circuit("acme/a", later), rig.plan(later).as_str()), ("half_open", "acme/a? bolt/b"));
    let probe = rig.claim("acme/a", later).unwrap();
    assert!(probe.probe);
    let refused = rig.board.claim(0, at(later), &Candidate { probe: true, ..rig.candidate("bolt/b", later) });
    assert_eq!(refused, Err(ExclusionReason::ProbeInFlight), "exactly one");
    assert_eq!(rig.plan(later), "bolt/b");
    let change = rig.finish(probe, later + 1.0, OK).unwrap().endpoint_gate.unwrap();
    assert_eq!(change.to, Gate::Passing);
    assert_eq!(rig.circuit("acme/a", later + 1.0), "closed");
}

#[test]
fn answers_to_requests_from_before_an_outage_do_not_make_its_failures_usual() {
    let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
    (0..40).for_each(|second| rig.attempt("acme/a", f64::from(second), OK));
    let before: Vec<Claim> = (0..2).map(|_| rig.claim("acme/a", 40.0).unwrap()).collect();
    rig.attempt("acme/a", 40.5, server_error());
    before.into_iter().for_each(|claim| _ = rig.finish(claim, 40.7, OK));
    rig.attempt("acme/a", 40.8, server_error());
    assert_eq!(rig.circuit("acme/a", 41.0), "open", "the second failure in a row opens it, as ever");
}

#[test]
fn one_failure_less_in_a_row_opens_the_breaker_after_thirty_answers_in_a_row() {
    let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
    let answers = |from: u64, number: u64| {
        (from..from + number).for_each(|second| rig.attempt("acme/a", second as f64, OK));
    };
    answers(0, 30);
    rig.attempt("acme/a", 30.0, server_error());
    assert_eq!(rig.circuit("acme/a", 30.5), "closed");
    rig.attempt("acme/a", 31.0, server_error());
    assert_eq!(rig.circuit("acme/a", 31.5), "open");
    answers(40, 29);
    rig.attempt("acme/a", 70.0, server_error());
    rig.attempt("acme/a", 71.0, server_error());
    assert_eq!(rig.circuit("acme/a", 71.5), "closed");
    rig.attempt("acme/a", 72.0, server_error());
    assert_eq!(rig.circuit("acme/a", 72.5), "open");
}

#[test]
fn two_consecutive_time_outs_do_not_open_an_endpoint_that_answers_meanwhile() {
    let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
    (0..40).for_each(|second| rig.attempt("acme/a", f64::from(second), OK));
    let late: Vec<Claim> = (0..3).map(|_| rig.claim("acme/a", 40.0).unwrap()).collect();
    let later = rig.claim("acme/a", 40.5).unwrap();
    rig.board.first_token(&later, at(41.0));
    for (claim, circuit) in late.into_iter().zip(["closed", "closed", "open"]) {
        rig.finish(claim, 55.0, failed(FailureKind::Timeout, 0, None));
        assert_eq!(rig.circuit("acme/a", 55.5), circuit);
    }
}

#[test]
fn advice_of_another_replica_excludes_nothing_and_lets_the_first_failure_here_open_the_breaker() {
    let failed_once = |advised_at: Option<f64>| {
        let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
        let endpoint = rig.claim("acme/a", 0.0).unwrap();
        let id = endpoint.endpoint;
        rig.finish(endpoint, 0.1, LEFT);
        if let Some(seconds) = advised_at {
            assert!(rig.board.advise(id, at(seconds), Duration::from_secs(2)));
        }
        assert_eq!((rig.plan(10.0), rig.circuit("acme/a", 10.0)), ("acme/a bolt/b".to_owned(), "closed"));
        rig.attempt("acme/a", 10.0, server_error());
        rig.circuit("acme/a", 10.2)
    };
    assert_eq!(failed_once(None), "closed");
    assert_eq!(failed_once(Some(5.0)), "open");
    assert_eq!(failed_once(Some(1.0)), "closed", "it was heard too long ago");
}

#[test]
fn advice_is_not_believed_against_what_was_measured_here_since() {
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    let claim = rig.claim("acme/a", 0.0).unwrap();
    let id = claim.endpoint;
    rig.finish(claim, 1.0, OK);
    let advise = |seconds: f64, age| rig.board.advise(id, at(seconds), Duration::from_secs(age));
    assert!(!advise(2.0, 3), "it answered here since then");
    assert!(!advise(20.0, 11), "it is too old");
    assert!(advise(3.0, 1));
    rig.attempt("acme/a", 3.5, OK);
    rig.attempt("acme/a", 4.0, server_error());
    assert_eq!(rig.circuit("acme/a", 4.2), "closed", "an answer here ends the advice");
    let unknown = rig.board.advise(EndpointId(7), at(4.0), Duration::ZERO);
    assert!(!unknown);
    rig.attempt("acme/a", 4.5, refused());
    assert_eq!(rig.board.open_endpoints(at(4.7)), [id]);
}

#[test]
fn a_cancelled_probe_frees_its_slot_and_a_failed_one_opens_for_longer() {
    let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
    rig.attempt("acme/a", 0.0, refused());
    let gone = rig.claim("acme/a", 10.0).unwrap();
    rig.finish(gone, 10.1, LEFT);
    assert_eq!(rig.plan(11.0), "acme/a? bolt/b");
    let failing = rig.claim("acme/a", 11.0).unwrap();
    rig.finish(failing, 12.0, server_error());
    assert_eq!(rig.plan(17.0), "bolt/b", "11 s, a little less or more");
    assert_eq!(rig.plan(24.0), "acme/a? bolt/b");
}

#[test]
fn a_probe_that_is_cancelled_when_it_is_late_has_failed() {
    let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
    rig.attempt("acme/a", 0.0, refused());
    let raced = rig.claim("acme/a", 10.0).unwrap();
    let change = rig.finish(raced, 12.0, LEFT).unwrap();
    assert_eq!(change.cause.map(|cause| cause.kind), Some(FailureKind::Timeout));
    assert_eq!(rig.circuit("acme/a", 12.1), "open");
    assert_eq!(rig.plan(35.0), "bolt/b", "25 s, a little less or more");
    assert_eq!(rig.plan(42.0), "acme/a? bolt/b");
}

#[test]
fn a_429_starts_a_cooldown_until_its_date_and_is_no_failure() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    rig.attempt("acme/a", 0.0, busy(Some(3.0)));
    let status = rig.board.view(at(1.0)).status(rig.world.catalog(), 0);
    assert_eq!((status.circuit.as_str(), status.cooldown_until), ("closed", Some(at(3.1))));
    assert_eq!(rig.plan(3.0), "bolt/b");
    assert_eq!(rig.plan(3.2), "acme/a? bolt/b");
    rig.attempt("acme/a", 3.2, OK);
    assert_eq!(rig.plan(9.0), "acme/a bolt/b");
}

/// The answer takes half a minute, and the only other way would be to wait for its end.
#[test]
fn the_first_token_of_a_probe_lets_all_others_pass() {
    for (shut, from, wants_token) in [(busy(Some(1.0)), 1.2, false), (refused(), 6.0, true)] {
        let rig = Rig::of("acme/a 200ms");
        rig.attempt("acme/a", 0.0, shut);
        let probe = rig.claim("acme/a", from).unwrap();
        assert!(probe.probe);
        assert_eq!(rig.plan(from + 0.1), "acme/a!", "all others pass only past the circuit");
        assert_eq!(rig.costs_a_token(from + 0.1, None, true), wants_token);
        assert!(rig.costs_a_token(from + 0.1, None, false), "before it has waited");
        let change = rig.board.first_token(&probe, at(from + 0.2)).unwrap();
        assert_eq!(change.endpoint_gate.map(|gate| gate.to), Some(Gate::Passing));
        assert_eq!(rig.board.first_token(&probe, at(from + 0.2)), None, "it is told once");
        let later = |call: u32| from + 10.0 + f64::from(call);
        (0..40).for_each(|call| {
            assert_eq!(rig.plan(later(call)), "acme/a", "{call}");
            rig.attempt("acme/a", later(call), OK);
        });
        let gate = rig.board.finish(probe, at(from + 60.0), OK, &rig.policy).event.gate;
        assert_eq!(gate, GateEvent::Recovered, "the statistics hear of the whole answer");
    }
}

#[test]
fn where_answers_break_off_the_first_token_of_a_probe_lets_pass_only_those_who_have_no_other_endpoint() {
    let cut = || failed(FailureKind::Truncated, 200, None);
    let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
    (0..3).for_each(|n| rig.attempt("acme/a", f64::from(n), cut()));
    let probe = rig.claim("acme/a", 10.0).unwrap();
    assert!(rig.costs_a_token(10.1, None, true));
    assert_eq!(rig.board.first_token(&probe, at(10.2)), None);
    assert_eq!((rig.plan(10.3).as_str(), rig.costs_a_token(10.3, None, true)), ("bolt/b", false));
    rig.finish(probe, 11.0, cut());
    assert_eq!((rig.circuit("acme/a", 11.1), rig.costs_a_token(11.1, None, true)), ("open", true));
}

#[test]
fn a_probe_that_fails_after_its_first_token_opens_the_breaker_for_longer_unless_another_was_served() {
    for (is_served, expected) in [(false, "open"), (true, "closed")] {
        let rig = Rig::of("acme/a 200ms | bolt/b 200ms");
        rig.attempt("acme/a", 0.0, refused());
        let probe = rig.claim("acme/a", 10.0).unwrap();
        rig.board.first_token(&probe, at(10.2));
        if is_served {
            rig.attempt("acme/a", 11.0, OK);
        }
        rig.finish(probe, 20.0, server_error());
        assert_eq!(rig.circuit("acme/a", 27.0), expected);
    }
}

#[test]
fn when_all_endpoints_cool_down_the_earliest_end_is_reported() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    rig.attempt("acme/a", 0.0, busy(Some(5.0)));
    rig.attempt("bolt/b", 0.0, busy(Some(2.0)));
    assert_eq!(rig.plan(1.0), "nothing until 2.1");
}

#[test]
fn after_a_429_admission_is_paced() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    (0..20).for_each(|n| rig.attempt("acme/a", f64::from(n) / 10.0, OK));
    rig.attempt("acme/a", 2.0, busy(Some(0.5)));
    rig.attempt("acme/a", 2.7, OK);
    let passed = (0..20).filter(|n| {
        let now = 2.8 + f64::from(*n) / 20.0;
        rig.plan(now).starts_with("acme/a") && rig.claim("acme/a", now).map(|claim| rig.finish(claim, now, OK)).is_ok()
    });
    let passed = passed.count();
    assert!((7..=12).contains(&passed), "ten a second drew the 429; {passed} passed in the next");
}

#[test]
fn a_paced_endpoint_refuses_a_claim_that_came_too_late() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    rig.attempt("acme/a", 0.0, busy(Some(0.1)));
    rig.attempt("acme/a", 0.6, OK);
    let candidate = Candidate { probe: false, ..rig.candidate("bolt/b", 0.7) };
    assert_eq!(rig.board.claim(0, at(0.7), &candidate), Err(ExclusionReason::Paced));
}

/// The law of docs/ROUTING.md at an endpoint where nobody else was served: its faults may be due to one caller's requests.
#[test]
fn past_a_breaker_that_one_caller_opened_others_pass_without_a_token_until_they_fail_too() {
    let rig = Rig::of("acme/a 200ms");
    let fails = |caller: u64, seconds: f64| {
        let candidate = rig.candidate("acme/a", seconds);
        let mut claim = rig.board.claim(0, at(seconds), &candidate).unwrap();
        claim.caller = Some(caller);
        rig.finish(claim, seconds + 0.1, server_error());
    };
    (0..3).for_each(|n| fails(1, f64::from(n)));
    assert_eq!(rig.circuit("acme/a", 3.0), "open");
    let costs =
        |seconds: f64| [Some(1), None, Some(2), Some(3)].map(|caller| rig.costs_a_token(seconds, caller, false));
    assert_eq!(costs(3.0), [true, true, false, false]);
    // Another failed probe changes nothing.
    fails(1, 10.0);
    assert_eq!((rig.circuit("acme/a", 11.0), costs(11.0)), ("open", [true, true, false, false]));
    fails(2, 11.0);
    assert_eq!(costs(12.0), [true; 4], "an outage");
    let claim = rig.board.claim(0, at(12.0), &rig.candidate("acme/a", 12.0)).unwrap();
    rig.finish(claim, 12.5, OK);
    assert_eq!((rig.circuit("acme/a", 13.0), costs(13.0)), ("closed", [false; 4]));
}

/// What the provider says about our account or model.
const SAID: Finding = Finding { words: "invalid_api_key", meaning: "the key is not valid" };

fn refused_as(kind: FailureKind, status: u16, evidence: Evidence) -> EventKind {
    let failure = Failure { kind, status: Some(status), retry_after: None, evidence };
    EventKind::Failed { failure, had_content: false }
}

#[test]
fn our_wrong_key_closes_the_whole_provider_and_a_wrong_name_the_endpoint() {
    let rig = Rig::of("a/1@x 200ms | a/2@x 210ms | b/3@y 300ms");
    rig.attempt("a/1@x", 0.0, refused_as(FailureKind::Auth, 401, Evidence::Known(SAID)));
    assert_eq!(rig.plan(1.0), "b/3@y");
    assert_eq!(rig.plan(61.0), "a/1@x? b/3@y");
    let view = rig.board.view(at(1.0));
    let status = view.provider_status(rig.world.catalog(), 0);
    assert!(status.config_fault && status.open_until == Some(at(60.1)));
    assert_eq!(view.provider(0).refused.map(|refused| (refused.since, refused.finding)), Some((at(0.1), SAID)));
    let rig = Rig::of("a/1@x 200ms | a/2@x 210ms | b/3@y 300ms");
    rig.attempt("a/1@x", 0.0, refused_as(FailureKind::NotFound, 404, Evidence::Known(SAID)));
    assert_eq!(rig.plan(1.0), "a/2@x b/3@y");
}

#[test]
fn unknown_words_close_something_only_if_different_callers_hear_them_without_a_success_between() {
    const ONE: Option<u64> = Some(1);
    const OTHER: Option<u64> = Some(2);
    let check = |kind: FailureKind, callers: &[Option<u64>], expected: &str| {
        let rig = Rig::of("a/1@x 200ms | a/2@x 210ms | b/3@y 300ms");
        for (n, caller) in callers.iter().enumerate() {
            let (mut claim, start) = (rig.claim("a/1@x", n as f64).unwrap(), n as f64);
            claim.caller = *caller;
            rig.finish(claim, start + 0.1, refused_as(kind, 403, Evidence::Unknown { said: 7 }));
        }
        assert_eq!(rig.plan(30.0), expected, "{kind:?} {callers:?}");
    };
    let all = "a/1@x b/3@y a/2@x";
    for kind in [FailureKind::Auth, FailureKind::Forbidden, FailureKind::NotFound, FailureKind::RefusedHere] {
        check(kind, &[ONE; 20], all);
        check(kind, &[None; 20], all);
    }
    check(FailureKind::Auth, &[ONE, OTHER], "b/3@y");
    check(FailureKind::RefusedHere, &[ONE, OTHER], all);
    for kind in [FailureKind::Forbidden, FailureKind::NotFound] {
        check(kind, &[ONE, ONE, OTHER], "a/2@x b/3@y");
    }
    check(FailureKind::BadRequest, &[ONE, OTHER, Some(3), Some(4)], all);
    // A success between, or other words, begin anew.
    let rig = Rig::of("a/1@x 200ms | b/3@y 300ms");
    for (n, (caller, said, end)) in
        [(ONE, 7, false), (ONE, 7, true), (OTHER, 7, false), (ONE, 8, false), (OTHER, 7, false)].into_iter().enumerate()
    {
        let mut claim = rig.claim("a/1@x", n as f64).unwrap();
        claim.caller = caller;
        let end = if end { OK } else { refused_as(FailureKind::NotFound, 404, Evidence::Unknown { said }) };
        rig.finish(claim, n as f64 + 0.1, end);
    }
    assert_eq!(rig.plan(30.0), "a/1@x b/3@y");
}

const FAULTS: [(FailureKind, u16); 7] = [
    (FailureKind::Server, 500),
    (FailureKind::Overloaded, 503),
    (FailureKind::Timeout, 504),
    (FailureKind::Reset, 0),
    (FailureKind::Truncated, 200),
    (FailureKind::Malformed, 200),
    (FailureKind::UnexpectedStatus, 302),
];

/// The circuit of an endpoint after calls of these callers, one a second: `1` for a success, `-1` for a fault that came so.
fn circuit_after(calls: &[i64], fault: EventKind) -> &'static str {
    let rig = Rig::of("acme/a 200ms");
    let candidate = rig.candidate("acme/a", 0.0);
    for (n, caller) in calls.iter().enumerate() {
        let now = n as f64;
        let Ok(mut claim) = rig.board.claim(0, at(now), &candidate) else { return "open" };
        claim.caller = Some(caller.unsigned_abs());
        rig.finish(claim, now + 0.1, if *caller > 0 { OK } else { fault });
    }
    rig.circuit("acme/a", calls.len() as f64)
}

#[test]
fn faults_of_one_caller_close_nothing_where_others_are_served() {
    for (kind, status) in FAULTS {
        let check = |calls: &[i64], expected: &str| {
            assert_eq!(circuit_after(calls, failed(kind, status, None)), expected, "{kind:?} {calls:?}");
        };
        check(&[1, 2, -1, -1, -1, -1, -1], "closed");
        check(&[2, -1, -1, -1, -1, -1], "closed");
        check(&[1, 2, -1, -1, -1, -2], "open");
        check(&[1, -1, -1, -1], "open");
        check(&[-1, -1, -1], "open");
    }
    let rests = failed(FailureKind::Overloaded, 503, Some(30.0));
    for (calls, expected) in [(&[1, 2, -1, -1][..], "acme/a"), (&[1, -1], "nothing"), (&[1, 2, -1, -2], "nothing")] {
        let rig = Rig::of("acme/a 200ms");
        let candidate = rig.candidate("acme/a", 0.0);
        for (n, caller) in calls.iter().enumerate() {
            let mut claim = rig.board.claim(0, at(n as f64), &candidate).unwrap();
            claim.caller = Some(i64::unsigned_abs(*caller));
            rig.finish(claim, n as f64 + 0.1, if *caller > 0 { OK } else { rests });
        }
        assert_eq!(rig.plan(calls.len() as f64).split(' ').next(), Some(expected), "{calls:?}");
    }
}

#[test]
fn faults_that_a_request_may_have_caused_count_from_the_second_caller_on() {
    for (kind, status) in FAULTS {
        let EventKind::Failed { failure, had_content } = failed(kind, status, None) else { unreachable!() };
        let check = |calls: &[i64], evidence: Evidence, expected: &str| {
            let fault = EventKind::Failed { failure: Failure { evidence, ..failure }, had_content };
            assert_eq!(circuit_after(calls, fault), expected, "{kind:?} {calls:?} {evidence:?}");
        };
        check(&[-1; 9], Evidence::OF_ONE_CALLER, "closed");
        check(&[-1, -1, 2, -1, -1, -1], Evidence::OF_ONE_CALLER, "closed");
        check(&[-1, -2, -1, -2], Evidence::OF_ONE_CALLER, "open");
        check(&[-1, -2, -1, -1, -1, -1, -1, -1], Evidence::OF_ONE_CALLER, "closed");
        check(&[-1, -2, -1, -2, -1, -2], Evidence::Request, "closed");
    }
}

#[test]
fn the_same_400_for_several_callers_is_shown_and_closes_nothing() {
    let rig = Rig::of("a/1@x 200ms | b/3@y 300ms");
    let call = |n: u64, end: EventKind| {
        let mut claim = rig.claim("a/1@x", n as f64).unwrap();
        claim.caller = Some(n);
        rig.finish(claim, n as f64 + 0.1, end);
        rig.board.view(at(n as f64 + 0.2)).endpoint(0).all_mistaken
    };
    let wrong = refused_as(FailureKind::BadRequest, 400, Evidence::Unknown { said: 7 });
    assert_eq!([1, 2, 3].map(|n| call(n, wrong)), [false, false, true]);
    assert_eq!(rig.plan(9.0), "a/1@x b/3@y");
    assert!(!call(10, OK));
}

#[test]
fn what_has_changed_is_tried_again_at_once() {
    let rig = Rig::of("a/1@x 200ms | a/2@x 210ms | b/3@y 300ms");
    let late = rig.claim("a/2@x", 0.0).unwrap();
    rig.attempt("a/1@x", 0.0, refused_as(FailureKind::Auth, 401, Evidence::Known(SAID)));
    assert_eq!(rig.board.pardon(at(1.0), &[1], &[]), (vec![], vec![]));
    assert_eq!(rig.board.pardon(at(1.0), &[0], &[]), (vec![0], vec![]));
    rig.finish(late, 2.0, refused_as(FailureKind::Auth, 401, Evidence::Known(SAID)));
    assert_eq!(rig.plan(3.0), "a/1@x b/3@y a/2@x", "the late answer is about the key before");
    rig.attempt("a/2@x", 4.0, refused_as(FailureKind::NotFound, 404, Evidence::Known(SAID)));
    assert_eq!(rig.plan(5.0), "a/1@x b/3@y");
    assert_eq!(rig.board.pardon(at(6.0), &[], &[1]), (vec![], vec![1]));
    assert_eq!(rig.plan(7.0), "a/1@x b/3@y a/2@x");
}

#[test]
fn mistakes_of_callers_move_no_gate() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    use FailureKind::{BadRequest, ContextLength, Deadline, OverLimit, RefusedHere, Shortage, TooLarge, Unprocessable};
    for (n, kind) in [BadRequest, ContextLength, TooLarge, Unprocessable, Deadline, Shortage, OverLimit, RefusedHere]
        .into_iter()
        .cycle()
        .take(20)
        .enumerate()
    {
        rig.attempt("acme/a", n as f64, failed(kind, 400, None));
    }
    assert_eq!(rig.plan(21.0), "acme/a bolt/b");
}

#[test]
fn a_timeout_of_an_overloaded_but_living_endpoint_is_no_fault() {
    let late = failed(FailureKind::Timeout, 0, None);
    let overloaded = |alive: bool| {
        let rig = Rig::of("acme/a 200ms knee2 | bolt/b 900ms knee99");
        let candidate = rig.candidate("acme/a", 0.0);
        let claims: Vec<_> = (0..9).map(|_| rig.board.claim(0, at(0.0), &candidate).unwrap()).collect();
        if alive {
            rig.board.first_token(&claims[0], at(1.0));
        }
        claims.into_iter().rev().take(7).for_each(|claim| _ = rig.finish(claim, 15.0, late));
        rig.circuit("acme/a", 15.0)
    };
    assert_eq!(overloaded(true), "closed");
    assert_eq!(overloaded(false), "open");
}

#[test]
fn a_time_out_opens_the_breaker_at_once_if_nothing_was_heard_of_what_was_asked_since() {
    let asked = |others: &[(f64, f64)]| {
        let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
        let candidate = rig.candidate("acme/a", 0.0);
        let claim = |seconds| rig.board.claim(candidate.index, at(seconds), &candidate).unwrap();
        let (late, others): (_, Vec<_>) =
            (claim(10.0), others.iter().map(|(asked, answered)| (claim(*asked), *answered)).collect());
        others.into_iter().for_each(|(claim, answered)| _ = rig.finish(claim, answered, OK));
        _ = rig.finish(late, 25.0, failed(FailureKind::Timeout, 0, None));
        rig.circuit("acme/a", 25.0)
    };
    assert_eq!(asked(&[]), "open");
    assert_eq!(asked(&[(9.0, 12.0)]), "open", "it answered what was asked before");
    assert_eq!(asked(&[(11.0, 12.0)]), "closed", "a slow answer among others");
}

#[test]
fn a_provider_opens_when_two_of_its_endpoints_lose_their_connection() {
    let rig = Rig::of("a/1@x 200ms | a/2@x 210ms | a/3@x 220ms | a/4@x 230ms | b/5@y 300ms");
    rig.attempt("a/1@x", 0.0, refused());
    assert_eq!(rig.plan(0.5), "a/2@x b/5@y a/3@x a/4@x", "one of four says nothing about the rest");
    rig.attempt("a/2@x", 1.0, refused());
    assert_eq!(rig.plan(1.5), "b/5@y");
    assert_eq!(rig.board.view(at(1.5)).provider_status(rig.world.catalog(), 0).circuit.as_str(), "open");
    let slow = Rig::of("a/1@x 200ms | a/2@x 210ms | a/3@x 220ms | a/4@x 230ms | b/5@y 300ms");
    slow.attempt("a/1@x", 0.0, refused());
    slow.attempt("a/2@x", 5.5, refused());
    assert!(slow.plan(5.7).contains("a/3@x"), "more than five seconds apart");
}

#[test]
fn a_provider_stays_open_as_long_wherever_it_stands_in_the_configuration() {
    let opened = |text: &str| {
        let rig = Rig::of(text);
        rig.attempt("a/1@x", 0.0, refused());
        rig.attempt("a/2@x", 1.0, refused());
        let view = rig.board.view(at(1.5));
        view.providers.iter().find_map(|provider| provider.gate.until()).unwrap()
    };
    assert_eq!(opened("a/1@x | a/2@x | b/5@y"), opened("b/5@y | a/1@x | a/2@x"));
}

#[test]
fn a_half_open_provider_takes_one_probe_through_any_of_its_endpoints() {
    let rig = Rig::of("a/1@x 200ms | a/2@x 210ms | a/3@x 190ms | b/5@y 300ms");
    rig.attempt("a/1@x", 0.0, refused());
    rig.attempt("a/2@x", 1.0, refused());
    assert_eq!(rig.plan(9.0), "a/3@x? b/5@y");
    let probe = rig.claim("a/3@x", 9.0).unwrap();
    assert_eq!(rig.plan(9.0), "b/5@y");
    rig.finish(probe, 9.5, OK);
    assert!(rig.plan(9.6).starts_with("a/1@x?"), "the provider is back; its endpoints follow one by one");
}

#[test]
fn a_panic_attempt_that_succeeds_closes_the_breaker() {
    let rig = Rig::of("acme/a 200ms");
    rig.attempt("acme/a", 0.0, refused());
    assert_eq!(rig.plan(1.0), "acme/a!");
    rig.attempt("acme/a", 1.0, OK);
    assert_eq!(rig.plan(1.2), "acme/a");
}

#[test]
fn a_total_outage_is_counted_once_not_by_every_request_in_flight() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    let candidate = rig.candidate("acme/a", 0.0);
    let claims: Vec<_> = (0..40).map(|_| rig.board.claim(0, at(0.0), &candidate).unwrap()).collect();
    claims.into_iter().for_each(|claim| _ = rig.finish(claim, 1.0, server_error()));
    assert_eq!(rig.circuit("acme/a", 4.0), "open");
    assert_eq!(rig.circuit("acme/a", 7.1), "half_open", "5 s, not 5·2^37");
}

#[test]
fn the_cells_of_a_catalog_survive_the_next_one() {
    let rig = Rig::of("acme/a 200ms | bolt/b 300ms");
    rig.attempt("acme/a", 0.0, refused());
    let claim = rig.claim("bolt/b", 1.0).unwrap();
    let next = World::of("core/c | bolt/b 300ms | acme/a 200ms");
    let board = rig.board.carried(next.catalog());
    let view = board.view(at(1.0));
    assert!(matches!(view.endpoint(2).gate, Gate::Open { .. }));
    assert_eq!(view.endpoint(1).in_flight, 1);
    board.finish(claim, at(2.0), OK, &rig.policy);
    assert_eq!(rig.board.view(at(2.0)).endpoint(1).in_flight, 0, "one cell under two positions");
}

#[test]
fn replicas_scatter_their_probes() {
    let until = |seed| {
        let rig =
            Rig { board: LiveBoard::new(World::of("acme/a | bolt/b").catalog(), seed), ..Rig::of("acme/a | bolt/b") };
        rig.attempt("acme/a", 0.0, refused());
        rig.board.view(at(0.2)).endpoint(0).gate.until().unwrap().seconds_since(at(0.1))
    };
    let times: Vec<f64> = (0..50).map(until).collect();
    assert!(times.iter().all(|time| (4.75..=5.75).contains(time)));
    assert!(times.iter().any(|time| *time < 5.0) && times.iter().any(|time| *time > 5.5));
}

#[test]
fn a_lone_server_error_that_asks_for_a_moment_rests_the_endpoint_for_nobody_and_a_second_one_does() {
    let moment = |seconds| failed(FailureKind::Overloaded, 503, Some(seconds));
    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    rig.attempt("acme/a", 0.0, OK);
    rig.attempt("acme/a", 1.0, moment(1.0));
    assert_eq!(rig.plan(1.2), "acme/a bolt/b", "it counts as a failure and no more");
    rig.attempt("acme/a", 1.3, moment(1.0));
    assert_eq!(rig.plan(1.5), "bolt/b", "a second in a row");

    let first = [(OK, moment(2.1), "it asks for longer"), (moment(1.0), OK, "nothing was answered before")];
    for (before, then, why) in first {
        let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
        rig.attempt("acme/a", 0.0, before);
        if rig.plan(0.2) == "acme/a bolt/b" {
            rig.attempt("acme/a", 1.0, then);
            assert_eq!(rig.plan(1.2), "bolt/b", "{why}");
        } else {
            assert_eq!(rig.plan(0.2), "bolt/b", "{why}");
        }
    }

    let rig = Rig::of("acme/a 90ms | bolt/b 300ms");
    rig.attempt("acme/a", 0.0, OK);
    rig.attempt("acme/a", 1.0, busy(Some(1.0)));
    assert_eq!(rig.plan(1.2), "bolt/b", "a 429 is a promise with a date");
}
