//! Which connections are used again, which never, and that nobody is ever given another call's answer.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use pointsman_transport::{Connection, Phases, PostClient, TransportLimits, UpstreamClient, client_config};

use crate::{
    patience::{PATIENCE, takes_less_than},
    scripted::{Gate, Script, Upstream},
    upstream_calls::{AMPLE, client, client_within, failure, limits, ok, outcome, plain, streamed, timed},
};

/// The figure of a cancelled call: the upstream sees the close within this time.
const AT_ONCE: Duration = Duration::from_millis(200);

/// What was written to a socket of this machine has arrived after this long.
const LOOPBACK: Duration = Duration::from_millis(50);

/// Fails the test unless the connection to an upstream that says this is closed at once after `leave`.
async fn closes_at_once(says: impl Into<String>, leave: impl AsyncFn(&Upstream, &UpstreamClient)) {
    let script = Script::new().request().send(says.into());
    takes_less_than(AT_ONCE, "the close", async || {
        let upstream = Upstream::start([script.clone()]);
        leave(&upstream, &client(&upstream.url("/v1"))).await;
        let left = Instant::now();
        assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await);
        upstream.log().closed[0].saturating_duration_since(left)
    })
    .await;
}

/// Two calls; the first connection plays `script`, the second answers "two". Says how both went and how many
/// connections it took.
async fn twice(script: Script) -> (String, String, usize) {
    let upstream = Upstream::start([script, Script::answering(ok("two"))]);
    let client = client(&upstream.url("/v1"));
    let first = outcome(&client, plain("one")).await;
    let second = outcome(&client, plain("two")).await;
    (first, second, upstream.connections())
}

#[actix_web::test]
async fn a_connection_is_used_again_after_a_regular_answer() {
    let upstream = Upstream::start([Script::answering(ok("hello"))]);
    let client = client(&upstream.url("/v1"));
    for round in 0..5 {
        let (answer, phases) = timed(&client, plain("{}")).await;
        assert_eq!(phases.connect.is_some(), round == 0, "only the first one connects");
        assert!(phases.sent && phases.first_byte.is_some());
        answer.body.collect().await.unwrap();
    }
    assert_eq!((upstream.connections(), upstream.requests().len()), (1, 5));
}

#[actix_web::test]
async fn a_connection_is_used_again_after_an_interim_head_and_after_a_refusal() {
    let hinted = format!("HTTP/1.1 103 Early Hints\r\n\r\n{}", ok("hinted"));
    let refused = "HTTP/1.1 429 No\r\ncontent-length: 2\r\n\r\n{}";
    let upstream =
        Upstream::start([Script::new().request().send(hinted).request().send(refused).request().send(ok("last"))]);
    let client = client(&upstream.url("/v1"));
    for expected in ["hinted", "rate_limited 429", "last"] {
        assert_eq!(outcome(&client, plain("{}")).await, expected);
    }
    assert_eq!(upstream.connections(), 1);
}

#[actix_web::test]
async fn a_connection_is_not_used_again_after_an_irregular_answer() {
    let answers = [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\none",
        "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\none",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 3\r\n\r\none",
    ];
    for answer in answers {
        let both = twice(Script::new().request().send(answer)).await;
        assert_eq!(both, ("one".to_owned(), "two".to_owned(), 2), "{answer}");
    }
    for status in [204, 302, 304, 999] {
        let answer = format!("HTTP/1.1 {status} Odd\r\ncontent-length: 0\r\n\r\n");
        let both = twice(Script::new().request().send(answer)).await;
        assert_eq!(both, (format!("unexpected_status {status}"), "two".to_owned(), 2));
    }
}

#[actix_web::test]
async fn bytes_after_an_answer_never_become_the_next_answer() {
    let surplus = [
        ok("LEAK"),
        format!("HTTP/1.1 100 Continue\r\n\r\n{}", ok("LEAK")),
        "HTTP/1.1 100 Continue\r\n\r\n".to_owned(),
        "\r\n".to_owned(),
        "x".to_owned(),
        ok(&"LEAK".repeat(50_000)),
    ];
    for surplus in surplus {
        let expected = ("one".to_owned(), "two".to_owned(), 2);
        let at_once = Script::new().request().send(format!("{}{surplus}", ok("one")));
        assert_eq!(twice(at_once).await, expected, "in one write: {surplus:.60}");
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n";
        let after_chunks = Script::new().request().send(format!("{chunked}{surplus}"));
        assert_eq!(twice(after_chunks).await, expected, "after chunks: {surplus:.60}");
    }
}

#[actix_web::test]
async fn bytes_that_arrive_unnoticed_between_two_calls_never_become_the_next_answer() {
    for stray in [ok("LEAK"), "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n".to_owned()] {
        let (late, sent) = (Gate::new(), Gate::new());
        let strays = Script::new().request().send(ok("one")).wait(&late).send(stray).open(&sent);
        let upstream = Upstream::start([strays, Script::answering(ok("two"))]);
        let client = client(&upstream.url("/v1"));
        assert_eq!(outcome(&client, plain("one")).await, "one");

        // The thread waits, and the runtime with it: when the next call begins, only the kernel has the bytes.
        late.open();
        sent.pass();
        std::thread::sleep(LOOPBACK);

        assert_eq!(outcome(&client, plain("two")).await, "two");
        assert_eq!(upstream.connections(), 2);
        assert_eq!(upstream.requests().len(), 2, "nothing was written to the dirty connection");
    }
}

#[actix_web::test]
async fn a_cancelled_calls_answer_never_reaches_the_next_call() {
    for interim in ["", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-le"] {
        let late = Gate::new();
        let cancelled = Script::new().request().send(interim).wait(&late).send(ok("LEAK"));
        let upstream = Upstream::start([cancelled, Script::answering(ok("two"))]);
        let client = client(&upstream.url("/v1"));

        let mut first = Box::pin(client.send(plain("one")));
        tokio::select! {
            _ = &mut first => panic!("an interim head is no answer"),
            arrived = upstream.eventually(PATIENCE, |log| log.requests.len() == 1) => assert!(arrived),
        }
        let answered = actix_web::rt::time::timeout(Duration::from_millis(50), first).await;
        assert!(answered.is_err(), "an interim head is no answer");
        late.open();

        assert_eq!(outcome(&client, plain("two")).await, "two");
        assert_eq!(upstream.connections(), 2);
    }
}

#[actix_web::test]
async fn calls_that_run_at_the_same_time_are_timed_apart() {
    let upstream = Upstream::start([Script::answering(ok("one")), Script::answering(ok("two"))]);
    let client = client(&upstream.url("/v1"));
    outcome(&client, plain("{}")).await;

    let both = futures_util::future::join(timed(&client, plain("{}")), timed(&client, plain("{}"))).await;
    let ((kept, of_kept), (fresh, of_fresh)) = both;

    assert_eq!((of_kept.connect.is_some(), of_fresh.connect.is_some()), (false, true));
    assert_eq!(kept.body.collect().await.unwrap(), "one");
    assert_eq!(fresh.body.collect().await.unwrap(), "two");
}

#[actix_web::test]
async fn a_connection_that_closed_while_idle_is_replaced() {
    for closing in [Script::fin, Script::reset] {
        let late = Gate::new();
        let script = closing(Script::new().request().send(ok("one")).wait(&late));
        let upstream = Upstream::start([script, Script::answering(ok("two"))]);
        let client = client(&upstream.url("/v1"));
        assert_eq!(outcome(&client, plain("one")).await, "one");
        late.open();
        assert!(upstream.eventually(PATIENCE, |log| log.ended > 0).await);
        actix_web::rt::time::sleep(LOOPBACK).await;
        assert_eq!(outcome(&client, plain("two")).await, "two");
        assert_eq!((upstream.connections(), upstream.requests().len()), (2, 2), "every request was sent once");
    }
}

#[actix_web::test]
async fn a_close_that_only_the_kernel_knows_of_is_found_before_a_byte_is_written() {
    for closing in [Script::fin, Script::reset] {
        let late = Gate::new();
        let script = closing(Script::new().request().send(ok("one")).wait(&late));
        let upstream = Upstream::start([script, Script::answering(ok("two"))]);
        let client = client(&upstream.url("/v1"));
        assert_eq!(outcome(&client, plain("one")).await, "one");

        // The thread waits, and the runtime with it.
        late.open();
        while upstream.log().ended == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(LOOPBACK);
        let (answer, phases) = timed(&client, plain("two")).await;

        assert!(phases.connect.is_some(), "what is told is the connection that gave the answer");
        assert_eq!(answer.body.collect().await.unwrap(), "two");
        assert_eq!((upstream.connections(), upstream.requests().len()), (2, 2), "every request was sent once");
    }
}

#[actix_web::test]
async fn a_request_of_which_a_byte_has_left_is_never_sent_again() {
    let answered = || Script::new().request().send(ok("one"));
    let dying = [
        answered().request().reset(),
        answered().request().fin(),
        answered().head().close(),
        // The provider was at work on it when its connection broke.
        answered().request().pause(Duration::from_millis(100)).reset(),
    ];
    for (number, script) in dying.into_iter().enumerate() {
        let upstream = Upstream::start([script, Script::answering(ok("two"))]);
        let client = client(&upstream.url("/v1"));
        outcome(&client, plain("one")).await;

        let phases = Cell::new(Phases::default());
        let error = client.send_observed(plain("two"), |noted| phases.set(noted)).await.unwrap_err();

        assert_eq!((failure(&error).as_str(), error.cause), ("reset", None), "{number}: nobody refused it");
        assert!(phases.get().sent && phases.get().connect.is_none(), "{number}");
        assert_eq!((upstream.connections(), upstream.requests().len()), (1, 2), "{number}");
        assert_eq!(
            outcome(&client, plain("three")).await,
            "two",
            "{number}: the next call has a connection of its own"
        );
    }
}

/// Two calls at once leave two connections, both of which the provider closes.
#[actix_web::test]
async fn of_several_connections_that_closed_while_idle_none_is_used() {
    let late = Gate::new();
    let script = Script::new().request().send(ok("one")).wait(&late).reset();
    let upstream = Upstream::start([script.clone(), script, Script::answering(ok("two"))]);
    let client = client(&upstream.url("/v1"));
    let both = futures_util::future::join(outcome(&client, plain("one")), outcome(&client, plain("one"))).await;
    assert_eq!(both, ("one".to_owned(), "one".to_owned()));

    late.open();
    while upstream.log().ended < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(LOOPBACK);

    assert_eq!(outcome(&client, plain("two")).await, "two");
    assert_eq!((upstream.connections(), upstream.requests().len()), (3, 3), "every request was sent once");
}

#[actix_web::test]
async fn connections_that_a_burst_left_over_are_closed_though_calls_go_on() {
    let upstream = Upstream::start([Script::answering(ok("one"))]);
    let limits = TransportLimits { keep_alive: 20 * LOOPBACK, ..limits() };
    let client = client_within(Connection::new(&upstream.url("/v1")).unwrap(), limits);
    futures_util::future::join_all((0..5).map(|_| outcome(&client, plain("{}")))).await;
    assert_eq!(upstream.connections(), 5);

    let deadline = Instant::now() + PATIENCE;
    while upstream.log().closed.len() < 4 {
        assert!(Instant::now() < deadline, "{} are closed", upstream.log().closed.len());
        assert_eq!(outcome(&client, plain("{}")).await, "one");
        actix_web::rt::time::sleep(LOOPBACK / 10).await;
    }

    assert_eq!(outcome(&client, plain("{}")).await, "one");
    assert_eq!((upstream.connections(), upstream.log().closed.len()), (5, 4), "one serves all calls");
}

/// Spans and alerts are posted over kept connections too.
#[actix_web::test]
async fn a_post_finds_a_closed_connection_before_it_writes_to_it() {
    let late = Gate::new();
    let script = Script::new().request().send(ok("one")).wait(&late).fin();
    let upstream = Upstream::start([script, Script::answering(ok("two"))]);
    let client = PostClient::new(&upstream.url("/v1"), &client_config(None).unwrap(), AMPLE).unwrap();
    let post = async || client.post(&[], "{}".into(), Instant::now() + AMPLE).await.unwrap().body;
    assert_eq!(post().await, "one");

    late.open();
    while upstream.log().ended == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(LOOPBACK);

    assert_eq!(post().await, "two");
    assert_eq!((upstream.connections(), upstream.requests().len()), (2, 2), "every request was sent once");
}

#[actix_web::test]
async fn a_call_that_is_dropped_while_its_request_is_written_closes_its_connection() {
    let reads_on = Gate::new();
    let upstream = Upstream::start([Script::new().head().wait(&reads_on), Script::answering(ok("two"))]);
    let client = client(&upstream.url("/v1"));
    tokio::select! {
        _ = client.send(plain(vec![b' '; 20 << 20])) => panic!("nobody answered"),
        arrived = upstream.eventually(PATIENCE, |log| log.requests.len() == 1) => assert!(arrived),
    }
    assert_eq!(outcome(&client, plain("two")).await, "two");
    assert_eq!(upstream.connections(), 2);
    reads_on.open();
    assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await);
}

#[actix_web::test]
async fn one_fresh_connection_is_tried_and_not_more() {
    let (late, sent) = (Gate::new(), Gate::new());
    let dirty = Script::new().request().send(ok("one")).wait(&late).send("stray").open(&sent);
    let upstream = Upstream::start([dirty, Script::new().request().reset()]);
    let client = client(&upstream.url("/v1"));
    outcome(&client, plain("one")).await;
    late.open();
    sent.pass();
    std::thread::sleep(LOOPBACK);
    assert_eq!(outcome(&client, plain("two")).await, "reset");
    assert_eq!(upstream.connections(), 2);
}

#[actix_web::test]
async fn the_fresh_connection_serves_later_calls_too() {
    let (late, sent) = (Gate::new(), Gate::new());
    let dirty = Script::new().request().send(ok("one")).wait(&late).send("stray").open(&sent);
    let upstream = Upstream::start([dirty, Script::answering(ok("two"))]);
    let client = client(&upstream.url("/v1"));
    outcome(&client, plain("one")).await;
    late.open();
    sent.pass();
    std::thread::sleep(LOOPBACK);
    for _ in 0..3 {
        assert_eq!(outcome(&client, plain("two")).await, "two");
    }
    assert_eq!(upstream.connections(), 2);
}

#[actix_web::test]
async fn an_idle_connection_is_closed_when_its_time_is_over_without_waiting_for_a_call() {
    let ages = [
        TransportLimits { keep_alive: 4 * LOOPBACK, ..limits() },
        TransportLimits { lifetime: 4 * LOOPBACK, ..limits() },
    ];
    for limits in ages {
        let upstream = Upstream::start([Script::answering(ok("one"))]);
        let client = client_within(Connection::new(&upstream.url("/v1")).unwrap(), limits);
        let begun = Instant::now();
        for _ in 0..2 {
            assert_eq!(outcome(&client, plain("{}")).await, "one");
        }
        assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await, "{limits:?}");
        assert!(upstream.log().closed[0] - begun >= 4 * LOOPBACK, "not before its time is over");
        assert_eq!(outcome(&client, plain("{}")).await, "one");
        assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 2).await, "the one after it is watched too");
        assert_eq!(upstream.connections(), 2);
    }
}

#[actix_web::test]
async fn a_connection_is_not_closed_for_its_age_while_an_answer_runs_on_it() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let slow = Script::new().request().send(head).pause(6 * LOOPBACK).send("0\r\n\r\n");
    let upstream = Upstream::start([slow]);
    let limits = TransportLimits { keep_alive: LOOPBACK, lifetime: 2 * LOOPBACK, ..limits() };
    let client = client_within(Connection::new(&upstream.url("/v1")).unwrap(), limits);
    assert_eq!(outcome(&client, streamed("{}")).await, "hello");
    assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await, "it is too old to be kept");
}

#[actix_web::test]
async fn a_connection_for_one_call_is_closed_though_the_provider_would_keep_it() {
    let insisting = "HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 3\r\n\r\none";
    let upstream = Upstream::start([Script::answering(insisting)]);
    let limits = TransportLimits { keep_alive: Duration::ZERO, ..limits() };
    let client = client_within(Connection::new(&upstream.url("/v1")).unwrap(), limits);
    assert_eq!(outcome(&client, plain("{}")).await, "one");
    assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await);
}

#[actix_web::test]
async fn a_kept_connection_that_dies_after_the_first_byte_of_an_answer_is_not_replaced() {
    for begun in ["HTTP/1.1 2", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let upstream = Upstream::start([Script::new().request().send(ok("one")).request().send(begun).fin()]);
        let client = client(&upstream.url("/v1"));
        outcome(&client, plain("one")).await;
        assert_eq!(outcome(&client, plain("two")).await, "reset");
        assert_eq!((upstream.connections(), upstream.requests().len()), (1, 2));
    }
}

#[actix_web::test]
async fn a_body_that_is_dropped_closes_its_connection_at_once() {
    let chunk = "5\r\nhello\r\n";
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    closes_at_once(format!("{head}{chunk}"), async |upstream, client| {
        let mut answer = client.send(streamed("{}")).await.unwrap();
        assert_eq!(answer.body.next().await.unwrap().unwrap(), "hello");
        assert!(upstream.log().closed.is_empty());
        drop(answer);
    })
    .await;
}

#[actix_web::test]
async fn a_call_that_is_dropped_before_its_answer_closes_its_connection_at_once() {
    closes_at_once("", async |upstream, client| {
        tokio::select! {
            _ = client.send(streamed("{}")) => panic!("nobody answered"),
            arrived = upstream.eventually(PATIENCE, |log| log.requests.len() == 1) => assert!(arrived),
        }
    })
    .await;
}

#[actix_web::test]
async fn a_refused_encoding_closes_its_connection_at_once() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1000000\r\n\r\n";
    closes_at_once(answer, async |_, client| assert_eq!(outcome(client, plain("{}")).await, "malformed 200")).await;
}

#[actix_web::test]
async fn a_hundred_streams_at_once_do_not_wait_for_each_other() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let upstream = Upstream::start([Script::new().request().send(head)]);
    let client = client(&upstream.url("/v1"));
    let mut open = Vec::new();
    for _ in 0..120 {
        open.push(client.send(streamed("{}")).await.unwrap());
    }
    assert_eq!(upstream.connections(), 120, "one connection for each");
}
