//! Every wait ends: for the head, for the next bytes, for the whole.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use pointsman_transport::{Connection, TransportLimits, UpstreamClient, UpstreamRequest};

use crate::{
    scripted::{Gate, Script, Upstream},
    upstream_calls::{AMPLE, client_within, limits, ok, outcome, plain, streamed},
};

const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const SHORT: Duration = Duration::from_millis(100);

/// Long before the ample clocks of a call, with room for a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A client whose streams may be silent for `idle`.
fn client(upstream: &Upstream, idle: Duration) -> UpstreamClient {
    client_within(Connection::new(&upstream.url("/v1")).unwrap(), TransportLimits { idle, ..limits() })
}

/// What the call comes to, and that it does so soon.
async fn check(script: Script, call: UpstreamRequest, expected: &str) {
    let upstream = Upstream::start([script]);
    let (client, begun) = (client(&upstream, SHORT), Instant::now());
    assert_eq!(outcome(&client, call).await, expected);
    assert!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
    assert!(upstream.eventually(SOON, |log| log.closed.len() == 1).await, "the connection is closed");
}

#[actix_web::test]
async fn an_upstream_that_hangs_runs_into_the_head_clock() {
    check(Script::new().request(), UpstreamRequest { head_timeout: SHORT, ..plain("{}") }, "timeout").await;
    check(Script::new().request(), UpstreamRequest { head_timeout: SHORT, ..streamed("{}") }, "timeout").await;
    check(Script::new(), UpstreamRequest { head_timeout: SHORT, ..plain("{}") }, "timeout").await;
}

#[actix_web::test]
async fn a_head_that_trickles_in_runs_into_the_head_clock() {
    let trickle = Script::new().request().trickle(ok("hello"), 1, Duration::from_millis(20));
    check(trickle, UpstreamRequest { head_timeout: SHORT, ..plain("{}") }, "timeout").await;
    let interim = "HTTP/1.1 102 Processing\r\n\r\n";
    let alive = Script::new().request().trickle(interim.repeat(8), interim.len(), Duration::from_millis(50));
    check(alive, UpstreamRequest { head_timeout: SHORT, ..plain("{}") }, "timeout").await;
}

#[actix_web::test]
async fn the_deadline_counts_for_the_head_too() {
    let call = UpstreamRequest { deadline: Instant::now() + SHORT, ..plain("{}") };
    check(Script::new().request(), call, "timeout").await;
}

#[actix_web::test]
async fn a_body_that_stalls_runs_into_the_idle_clock() {
    let stall = || Script::new().request().send(format!("{HEAD}5\r\nhello\r\n"));
    check(stall(), streamed("{}"), "timeout after 'hello'").await;
    check(Script::new().request().send(HEAD), streamed("{}"), "timeout").await;
    check(stall(), UpstreamRequest { deadline: Instant::now() + SHORT, ..plain("{}") }, "timeout").await;
}

#[actix_web::test]
async fn a_plain_answer_whose_head_comes_long_before_its_body_has_until_the_deadline() {
    let script = Script::new().request().send(HEAD).pause(SHORT * 3).send("5\r\nhello\r\n0\r\n\r\n");
    let upstream = Upstream::start([script]);
    assert_eq!(outcome(&client(&upstream, SHORT), plain("{}")).await, "hello");
}

#[actix_web::test]
async fn a_body_that_never_pauses_runs_into_the_deadline() {
    let chunk = "5\r\nhello\r\n";
    let endless = |gap| Script::new().request().send(HEAD).repeat(Script::new().send(chunk).pause(gap));
    for gap in [Duration::ZERO, Duration::from_millis(5)] {
        let upstream = Upstream::start([endless(gap)]);
        let call = UpstreamRequest { deadline: Instant::now() + 10 * SHORT, ..streamed("{}") };
        let came = outcome(&client(&upstream, AMPLE), call).await;
        assert!(came.starts_with("deadline after 'hello"), "{came:.100}");
    }
}

#[actix_web::test]
async fn pauses_shorter_than_the_idle_clock_are_no_stall_however_many() {
    let slow = Script::new().request().send(HEAD).trickle("1\r\nx\r\n".repeat(10), 6, Duration::from_millis(150));
    let upstream = Upstream::start([slow.send("0\r\n\r\n")]);
    // Less than all pauses together, much more than any of them.
    let client = client(&upstream, Duration::from_secs(1));
    assert_eq!(outcome(&client, streamed("{}")).await, "x".repeat(10));
}

#[actix_web::test]
async fn a_reader_that_takes_its_time_is_not_the_upstreams_fault() {
    let (go_on, rest_is_out) = (Gate::new(), Gate::new());
    let script = Script::new().request().send(format!("{HEAD}5\r\nhello\r\n")).wait(&go_on);
    let upstream = Upstream::start([script.send("4\r\n you\r\n0\r\n\r\n").open(&rest_is_out)]);
    let mut answer = client(&upstream, SHORT * 2).send(streamed("{}")).await.unwrap();
    assert_eq!(answer.body.next().await.unwrap().unwrap(), "hello");
    // Waits once, a little, and leaves the timer behind; then is busy elsewhere for longer than the clock allows.
    assert!(actix_web::rt::time::timeout(Duration::from_millis(10), answer.body.next()).await.is_err());
    go_on.open();
    rest_is_out.pass();
    actix_web::rt::time::sleep(SHORT * 5).await;
    assert_eq!(answer.body.next().await.unwrap().unwrap(), " you");
    assert!(answer.body.next().await.is_none());
}
