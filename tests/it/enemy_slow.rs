//! Clients that take their time, or more room than there is: slow heads, slow bodies, large bodies, idle connections.
//!
//! Readers that stop reading are in `contract_stream_pace`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    enemy::head,
    harness::{KEY, TestGateway},
    keyless::{provider, simple_model},
    patience::{PATIENCE, eventually, until},
    process::{ConfigFile, Process},
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, ask, completion, http, saying},
};

const SECOND: Duration = Duration::from_secs(1);

async fn gateway(upstream: &Upstream, more: &str) -> TestGateway {
    let world = World::new().with(more).provider("acme", upstream.address());
    let world = world.variable("POINTSMAN__SERVER__KEEP_ALIVE", "500ms");
    world.model(&Model::new("acme/small").with("context_length = 1000000").at("acme", "0", "0")).start().await
}

/// How long the gateway needs to answer or hang up, and what it said.
async fn end_of(client: &mut RawClient) -> (Duration, String) {
    let begun = Instant::now();
    let said = client.rest().await;
    (begun.elapsed(), said)
}

fn is_408(said: &str) {
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
}

/// The whole time of a body in seconds, and what earns it.
fn slow_body(whole: u32) -> String {
    format!("[timeouts]\nclient_body = \"{whole}s\"\nclient_body_min_rate = 1000\nclient_body_grace = \"300ms\"\n")
}

#[actix_web::test]
async fn a_body_that_stops_coming_is_a_408() {
    let upstream = saying("x");
    let gateway = gateway(&upstream, &slow_body(12)).await;
    let mut client = RawClient::connect(gateway.address).await;
    client.say(format!("{}{{\"model\"", head("content-length: 100\r\n"))).await;
    let (took, said) = end_of(&mut client).await;
    is_408(&said);
    assert!(said.contains("client_timeout") && took < 11 * SECOND, "{took:?}: {said}");
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn a_body_a_byte_at_a_time_is_a_408_long_before_its_whole_time_is_over() {
    let upstream = saying("x");
    let gateway = gateway(&upstream, &slow_body(12)).await;
    let mut client = RawClient::connect(gateway.address).await;
    client.say(head("content-length: 100000\r\n")).await;
    let begun = Instant::now();
    assert!(!client.trickle([b' '; 1000], 1, Duration::from_millis(20)).await);
    assert!(begun.elapsed() < 11 * SECOND, "{:?}", begun.elapsed());
    is_408(&client.rest().await);
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn a_body_fast_enough_on_average_may_pause_but_never_outlasts_its_whole_time() {
    let upstream = saying("x");
    let patient = gateway(&upstream, &slow_body(12)).await;
    let body = ask("acme/small").to_string();
    let padding = " ".repeat(9_000);
    let mut client = RawClient::connect(patient.address).await;
    client.say(format!("{}{}", head(&format!("content-length: {}\r\n", 9_000 + body.len())), padding)).await;
    // Nine thousand bytes at once have earned nine seconds.
    assert!(!client.hears_within(Duration::from_millis(900)).await);
    client.say(&body).await;
    client.until("HTTP/1.1 200").await;

    let strict = gateway(&upstream, &slow_body(3)).await;
    let mut client = RawClient::connect(strict.address).await;
    let begun = Instant::now();
    client.say(format!("{}{}", head("content-length: 20000\r\n"), " ".repeat(15_000))).await;
    is_408(&client.rest().await);
    assert!((2_900..14_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
}

#[actix_web::test]
async fn a_head_that_does_not_end_is_a_408_and_trickling_does_not_help() {
    let upstream = saying("x");
    let gateway = gateway(&upstream, "[timeouts]\nclient_header = \"500ms\"\n").await;
    let mut silent = RawClient::connect(gateway.address).await;
    silent.say("POST / HTTP/1.1\r\nhost: localhost\r\n").await;
    let (took, said) = end_of(&mut silent).await;
    is_408(&said);
    assert!(took < 20 * SECOND, "{took:?}");
    let mut trickling = RawClient::connect(gateway.address).await;
    let begun = Instant::now();
    assert!(!trickling.trickle("GET / HTTP/1.1\r\n".repeat(100), 1, Duration::from_millis(20)).await);
    assert!(begun.elapsed() < 20 * SECOND, "{:?}", begun.elapsed());
}

/// The whole of a large answer is ours before the client has read any of it: it is held for as long as its reader reads.
#[actix_web::test]
async fn a_reader_that_stops_inside_a_plain_answer_is_dropped() {
    let upstream = Upstream::start([Script::answering(http(200, &completion(&"x".repeat(16 << 20))))]);
    let gateway = gateway(&upstream, "[timeouts]\nclient_write_stall = \"500ms\"\n").await;
    let mut client = RawClient::chat(&gateway, &ask("acme/small")).await.with_small_window();
    client.until("HTTP/1.1 200").await;
    assert!(client.has_a_peer());
    until("it is no longer waited for", || !client.has_a_peer()).await;
    eventually("it counts no more", async || connections(&gateway).await, |count| *count <= 10).await;
    assert!(client.rest().await.len() < 16 << 20);
    gateway.chat(&ask("acme/small")).await.expect(200);
}

async fn load_of(gateway: &TestGateway) -> Value {
    gateway.get("/health/ready").await.expect(200)["checks"]["load"].take()
}

async fn connections(gateway: &TestGateway) -> u64 {
    load_of(gateway).await["connections"].as_u64().unwrap()
}

async fn until_buffered(gateway: &TestGateway, wanted: impl Fn(u64) -> bool) {
    let held = async || load_of(gateway).await["buffered_bytes"].as_u64().unwrap();
    eventually("other bytes are held", held, |held| wanted(*held)).await;
}

/// Room for one body of a megabyte and a third.
const ROOM: &str = "[limits]\nmax_body = 1048576\nbuffered = 4194304\n";

/// A chat request of at least this many bytes.
fn large(bytes: usize) -> Value {
    json!({"model": "acme/small", "messages": [{"role": "user", "content": "x".repeat(bytes)}]})
}

#[actix_web::test]
async fn bodies_that_never_end_take_no_more_than_the_room_there_is_and_small_ones_still_fit() {
    let upstream = saying("x");
    let gateway = gateway(&upstream, ROOM).await;
    let mut hog = RawClient::connect(gateway.address).await;
    hog.say(format!("{}{}", head("content-length: 1048576\r\n"), " ".repeat(1_000_000))).await;
    until_buffered(&gateway, |held| held == 3_000_000).await;

    let refused = gateway.chat(&large(800_000)).await;
    let error = crate::world::error_of(&refused, 503);
    assert_eq!(error["metadata"]["error_type"], "provider_overloaded");
    assert_eq!(error["metadata"]["reason"], "overloaded");
    gateway.chat(&ask("acme/small")).await.expect(200);

    // The same in chunks, whose length nobody announces: refused as soon as the room is used up.
    let mut chunks = RawClient::connect(gateway.address).await;
    let piece = format!("{:x}\r\n{}\r\n", 500_000, " ".repeat(500_000));
    chunks.say(format!("{}{piece}", head("transfer-encoding: chunked\r\n"))).await;
    chunks.until("HTTP/1.1 503").await;
    until_buffered(&gateway, |held| held == 3_000_000).await;

    let load = load_of(&gateway).await;
    assert_eq!(load["shedding"], true);
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_shed_requests_total{reason=\"buffered_bytes\"} 2"), "{metrics}");
    assert!(metrics.contains("pointsman_buffered_body_bytes 3000000"), "{metrics}");

    hog.reset();
    until_buffered(&gateway, |held| held == 0).await;
    gateway.chat(&large(800_000)).await.expect(200);
    until_buffered(&gateway, |held| held == 0).await;
}

#[actix_web::test]
async fn a_body_counts_as_long_as_its_request_may_need_it_again() {
    let gate = Gate::new();
    let held = Script::new().request().wait(&gate).send(http(200, &completion("x")));
    let upstream = Upstream::start([held]);
    let gateway = gateway(&upstream, ROOM).await;
    let mut client = RawClient::chat(&gateway, &large(900_000)).await;
    assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    assert!(load_of(&gateway).await["buffered_bytes"].as_u64().unwrap() > 2_700_000);
    assert_eq!(gateway.chat(&large(600_000)).await.status, 503);
    gate.open();
    client.until("HTTP/1.1 200").await;
    until_buffered(&gateway, |held| held == 0).await;
}

#[actix_web::test]
async fn two_thousand_idle_connections_keep_nobody_out() {
    let upstream = saying("x");
    let gateway = gateway(&upstream, "").await;
    let idle = futures_util::future::join_all((0..2_000).map(|_| RawClient::connect(gateway.address))).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let count = async || connections(&gateway).await;
    eventually("all are let in", count, |count| (2_000..2_010).contains(count)).await;
    drop(idle);
    eventually("what was closed no longer counts", count, |count| *count <= 10).await;
}

/// Out of descriptors nobody new is let in; nobody who is in suffers, and when there are some again all is well.
#[actix_web::test]
async fn a_process_out_of_descriptors_serves_again_when_there_are_some() {
    let upstream = saying("x");
    let config = ConfigFile::new(
        &[
            "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n".to_owned(),
            "[[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n".to_owned(),
            provider("acme", &upstream.url("")),
            simple_model("acme/small", "acme"),
        ]
        .concat(),
    );
    let mut process = Process::start_with_descriptors(120, &["--config", config.path()], &[("TEST_KEY", KEY)]);
    process.says("only 120 descriptors", 1).await;
    let gateway = process.gateway();
    gateway.chat(&ask("acme/small")).await.expect(200);
    let mut inside = RawClient::connect(gateway.address).await;
    inside.say("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    inside.until("{\"status\":\"ok\"}").await;
    let crowd = futures_util::future::join_all((0..300).map(|_| RawClient::connect(gateway.address))).await;
    process.has_opened(120).await;
    inside.say("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    inside.until("{\"status\":\"ok\"}").await;
    drop(crowd);
    gateway.chat(&ask("acme/small")).await.expect(200);
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
    assert!(!process.stderr().contains("panicked"), "{}", process.stderr());
}

/// The clock of a head counts on a kept connection too, and an idle one is closed in the end.
#[actix_web::test]
async fn a_kept_connection_is_closed_when_its_next_head_does_not_come_or_does_not_end() {
    let upstream = saying("x");
    let gateway = gateway(&upstream, "[timeouts]\nclient_header = \"2s\"\n").await;
    for next_head in ["", "GET /health HTTP/1.1\r\nhost: localhost\r\n", "P"] {
        let mut client = RawClient::connect(gateway.address).await;
        client.say("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        client.until("{\"status\":\"ok\"}").await;
        client.say(next_head).await;
        let (took, said) = end_of(&mut client).await;
        assert!(took < 6 * SECOND, "{next_head:?} kept it for {took:?}");
        assert_eq!(client.statuses()[0], 200, "{said}");
    }
}
