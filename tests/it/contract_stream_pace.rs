//! When a stream's bytes leave: at once, or a comment instead of silence; and how fast for whom.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    harness::TestGateway,
    hostile::{
        CHUNKED, SHORT, body, chunk, delta, events, finish, gateway, record_line, saying, status, stream_of, text,
    },
    patience::{PATIENCE, until},
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
};

/// Comments after a twentieth of a second of silence.
const QUICK: &str = "[stream]\nkeepalive = \"50ms\"\n";

const COMMENT: &str = ": keep-alive\n\n";

async fn record(gateway: &TestGateway, id: &str) -> Value {
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take()
}

/// Each content chunk is with the client before the upstream says the next one.
#[actix_web::test]
async fn every_chunk_is_flushed_before_the_next_one_comes() {
    let gates: Vec<Gate> = (0..5).map(|_| Gate::new()).collect();
    let mut script = Script::new().request().send(CHUNKED);
    for (number, gate) in gates.iter().enumerate() {
        script = script.send(chunk(&text(&format!("part {number}")))).wait(gate);
    }
    let upstream = Upstream::start([script.send(chunk(&finish("stop"))).send("0\r\n\r\n")]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    for (number, gate) in gates.iter().enumerate() {
        client.until(&format!("part {number}")).await;
        gate.open();
    }
    client.until("data: [DONE]\n\n").await;
}

/// A delta with nothing but the role waits for the first content, and comes with it.
#[actix_web::test]
async fn the_head_waits_for_content() {
    let gate = Gate::new();
    let role = delta(&serde_json::json!({"role": "assistant", "content": ""}));
    let script = Script::new().request().send(format!("{CHUNKED}{}", chunk(&role))).wait(&gate);
    let upstream = Upstream::start([script.send(chunk(&text("Hello"))).wait(&Gate::new())]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    assert!(!client.hears_within(Duration::from_millis(100)).await);
    gate.open();
    assert!(client.until("Hello").await.starts_with("HTTP/1.1 200 OK\r\n"));
}

/// Silence before the head, before the content and behind it.
#[actix_web::test]
async fn a_silent_upstream_makes_comments() {
    let silences = [
        Script::new().request(),
        Script::new().request().send(CHUNKED),
        Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hello")))),
    ];
    for script in silences {
        let upstream = Upstream::start([script]);
        let gateway = gateway(&[upstream.url("")], QUICK).await;
        let mut client = RawClient::chat(&gateway, &body(true)).await;
        client.until("\r\n\r\n").await;
        client.until(COMMENT).await;
        let first = Instant::now();
        for _ in 0..4 {
            client.until(COMMENT).await;
        }
        let took = first.elapsed();
        assert!(took >= Duration::from_millis(180) && took < Duration::from_secs(20), "{took:?} for four comments");
    }
}

/// What the upstream sends and the client never sees is silence to the client.
#[actix_web::test]
async fn heart_beats_of_the_upstream_are_no_reason_to_be_silent() {
    let beat = Script::new().send(chunk(": beat\n\n")).pause(Duration::from_millis(10));
    let upstream =
        Upstream::start([Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hello")))).repeat(beat)]);
    let gateway = gateway(&[upstream.url("")], QUICK).await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    client.until("Hello").await;
    for _ in 0..3 {
        client.until(COMMENT).await;
    }
    assert!(!client.text().contains("beat"));
}

/// Who gets content needs no comments.
#[actix_web::test]
async fn a_busy_stream_has_no_comments() {
    let mut script = Script::new().request().send(CHUNKED);
    for _ in 0..40 {
        script = script.send(chunk(&text("x"))).pause(Duration::from_millis(50));
    }
    let upstream = Upstream::start([script.send(chunk("data: [DONE]\n\n")).send("0\r\n\r\n")]);
    // Less than the stream takes, much more than it ever pauses.
    let gateway = gateway(&[upstream.url("")], "[stream]\nkeepalive = \"1500ms\"\n").await;
    let reply = gateway.chat(&body(true)).await;
    assert!(!reply.text().contains(": keep-alive") && reply.content().len() == 40, "{}", reply.text());
}

/// Until the first content another endpoint may take over, comments or not.
#[actix_web::test]
async fn a_failure_behind_comments_is_hidden_too() {
    let gate = Gate::new();
    let failing = Upstream::start([Script::new().request().wait(&gate).send(status("500 Oops", "", "")).fin()]);
    let healthy = Upstream::start([saying(&stream_of(&events("Hello")))]);
    let gateway = gateway(&[failing.url(""), healthy.url("")], QUICK).await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    client.until(COMMENT).await;
    let id = client.generation();
    assert_eq!(record(&gateway, &id).await["route"]["status"], "running");
    gate.open();
    let rest = client.until("data: [DONE]\n\n").await;
    assert!(rest.contains("\"Hello\"") && rest.contains(&id) && rest.contains("\"provider\":\"P1\""), "{rest}");
    let record = record(&gateway, &id).await;
    assert_eq!(record_line(&record), "completed | server:500, ok:200");
    assert_eq!(record["provider_name"], "P1");
}

/// The head is out, so what would have been a status is the error chunk.
#[actix_web::test]
async fn a_failure_behind_comments_with_nobody_left_is_the_error_chunk() {
    for (answer, code, error_type, line) in [
        (status("500 Oops", "", ""), "502", "provider_unavailable", "failed | server:500"),
        (status("400 Bad", "", ""), "400", "invalid_request", "failed | bad_request:400"),
        (status("429 Slow down", "", ""), "429", "rate_limit_exceeded", "failed | rate_limited:429"),
    ] {
        let gate = Gate::new();
        let upstream = Upstream::start([Script::new().request().wait(&gate).send(answer).fin()]);
        let gateway = gateway(&[upstream.url("")], QUICK).await;
        let mut client = RawClient::chat(&gateway, &body(true)).await;
        client.until(COMMENT).await;
        gate.open();
        let rest = client.until("data: [DONE]\n\n").await;
        assert!(rest.contains(&format!("\"error\":{{\"code\":{code},")), "{rest}");
        assert!(rest.contains(&format!("\"error_type\":\"{error_type}\"")), "{rest}");
        assert!(rest.contains("\"finish_reason\":\"error\"") && rest.matches("data: {").count() == 1, "{rest}");
        assert_eq!(record_line(&record(&gateway, &client.generation()).await), line);
    }
}

/// Comments do not keep a dead call alive.
#[actix_web::test]
async fn comments_end_with_the_clock_of_the_first_content() {
    let upstream = Upstream::start([Script::new().request().send(CHUNKED)]);
    let config = SHORT.replace("[stream]\n", QUICK);
    let gateway = gateway(&[upstream.url("")], &config).await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    let text = client.until("data: [DONE]\n\n").await;
    assert!(text.contains("\"code\":504") && text.contains(COMMENT), "{text}");
    assert_eq!(record_line(&record(&gateway, &client.generation()).await), "failed | timeout:200");
}

/// A stream that was read to its end gives its connection back.
#[actix_web::test]
async fn twenty_streams_one_after_another_use_one_upstream_connection() {
    let ended = Gate::new();
    let apart = Script::new().request().send(format!("{CHUNKED}{}", chunk(&events("Hello"))));
    let upstream = Upstream::start([Script::new().repeat(apart.send("0\r\n\r\n").open(&ended))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    for _ in 0..20 {
        let seen = gateway.chat(&body(true)).await;
        assert_eq!(seen.content(), "Hello");
        // The upstream's last bytes come behind [DONE]: the client may be quicker than they are. When they are out, the
        // only worker reads them before it has answered another request.
        until("the last bytes are out", || ended.is_open()).await;
        ended.close();
        gateway.get("/health/live").await.expect(200);
    }
    assert_eq!(upstream.connections(), 1);
}

/// An upstream that keeps its body open behind `[DONE]` keeps no client waiting, and no connection for long.
#[actix_web::test]
async fn an_upstream_that_does_not_end_behind_done_is_left() {
    let upstream = Upstream::start([Script::new().request().send(format!("{CHUNKED}{}", chunk(&events("Hello"))))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let begun = Instant::now();
    assert_eq!(gateway.chat(&body(true)).await.content(), "Hello");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await);
}

/// Added to what a flood counts when its reader hung up.
const LET_GO: usize = 1 << 40;

/// An upstream that writes as fast as it may, and counts.
fn flood() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    thread::spawn(move || {
        let Ok((mut socket, _)) = listener.accept() else { return };
        let _ = socket.read(&mut [0; 64 * 1024]);
        let _ = socket.write_all(CHUNKED.as_bytes());
        let piece = chunk(&text(&"x".repeat(4096)));
        while socket.write_all(piece.as_bytes()).is_ok() {
            count.fetch_add(piece.len(), Ordering::Relaxed);
        }
        count.fetch_add(LET_GO, Ordering::Relaxed);
    });
    (url, written)
}

/// Waits until the count has stood still for a while, and gives it.
async fn settled(count: &AtomicUsize) -> usize {
    let (mut last, mut quiet) = (0, 0);
    while quiet < 10 {
        actix_web::rt::time::sleep(Duration::from_millis(20)).await;
        let now = count.load(Ordering::Relaxed);
        quiet = if now == last && now > 0 { quiet + 1 } else { 0 };
        last = now;
        assert!(now < 64 << 20, "nothing held the upstream back");
    }
    last
}

/// A client that does not read holds the upstream back; when it reads again, everything is there.
#[actix_web::test]
async fn a_slow_reader_slows_the_upstream() {
    let (url, written) = flood();
    let gateway = gateway(&[url], "").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    let stopped_at = settled(&written).await;
    assert!(stopped_at < 24 << 20, "{stopped_at} bytes were taken for a client that reads nothing");
    while written.load(Ordering::Relaxed) < stopped_at + (1 << 20) {
        client.until("\"delta\":").await;
    }
    client.hang_up();
}

/// A client that takes nothing for too long is dropped. What it finds when it reads again is visibly no whole stream.
#[actix_web::test]
async fn a_reader_that_stops_reading_is_dropped() {
    let (url, written) = flood();
    let gateway = gateway(&[url], "[timeouts]\nclient_write_stall = \"300ms\"\n").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    until("the upstream is let go", || written.load(Ordering::Relaxed) >= LET_GO).await;
    let text = client.rest().await;
    assert!(!text.contains("[DONE]") && !text.ends_with("0\r\n\r\n"), "a torso must not look whole");
    assert_eq!(record_line(&record(&gateway, &client.generation()).await), "cancelled | cancelled");
}

/// Its connection goes too, even if it never reads again.
#[cfg(target_os = "linux")]
#[actix_web::test]
async fn a_reader_that_never_reads_again_keeps_no_connection() {
    let (url, written) = flood();
    let gateway = gateway(&[url], "[timeouts]\nclient_write_stall = \"300ms\"\n").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await.with_small_window();
    client.until("\r\n\r\n").await;
    assert!(client.has_a_peer());
    until("the upstream is let go", || written.load(Ordering::Relaxed) >= LET_GO).await;
    until("the connection is gone", || !client.has_a_peer()).await;
    assert_eq!(record_line(&record(&gateway, &client.generation()).await), "cancelled | cancelled");
}

/// The limit on the whole request is ours: an upstream that delivers until then did nothing wrong.
#[actix_web::test]
async fn a_stream_that_outlives_the_request_ends_with_our_deadline() {
    let word = Script::new().send(chunk(&text("x"))).pause(Duration::from_millis(10));
    let upstream = Upstream::start([Script::new().request().send(CHUNKED).repeat(word)]);
    let gateway = gateway(&[upstream.url("")], "[timeouts]\ntotal = \"1500ms\"\n").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    let all = client.until("data: [DONE]\n\n").await;
    assert!(all.contains("The request took longer than this gateway allows."), "{all}");
    assert!(all.contains("\"reason\":\"deadline\"") && all.contains("504"), "{all}");
    assert_eq!(record_line(&record(&gateway, &client.generation()).await), "failed | deadline:200");
}
