//! Clients that leave, at every moment (statement 43): the upstream is let go at once, the record says so, and
//! nothing of it counts against the provider.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    hostile::{CHUNKED, body, chunk, delta, finish, gateway, record_line, text},
    raw_client::RawClient,
    scripted::{Gate, Log, Script, Upstream},
};

/// How long the gateway may take to let the upstream go. The figure to reach is 0.2 s; the rest is for a busy machine.
const SOON: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    Fin,
    Reset,
    HalfClose,
}

const EVERY_WAY: [Leaving; 3] = [Leaving::Fin, Leaving::Reset, Leaving::HalfClose];

async fn leave(mut client: RawClient, how: Leaving) {
    match how {
        Leaving::Fin => client.hang_up(),
        Leaving::Reset => client.reset(),
        Leaving::HalfClose => {
            client.shut_down_writing().await;
            client.rest().await;
        }
    }
}

fn closed(log: &Log) -> bool {
    log.closed.len() == 1
}

async fn check_behind_content(how: Leaving, config: &str, wait_for: &str) {
    let upstream = Upstream::start([Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hello over"))))]);
    let gateway = gateway(&[upstream.url("")], config).await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    client.until(wait_for).await;
    let id = client.generation();
    leave(client, how).await;
    assert!(upstream.eventually(SOON, closed).await, "{how:?}: the upstream was kept");
    let record = record(&gateway, &id).await;
    assert_eq!(record_line(&record), "cancelled | cancelled", "{how:?}");
    assert_eq!((&record["cancelled"], &record["finish_reason"]), (&json!(true), &Value::Null));
    assert_eq!(record["provider_name"], "P0");
    assert!(record["tokens_completion"].as_u64().unwrap() > 0 && record["total_cost"].as_f64().unwrap() > 0.0);
    unharmed(&gateway).await;
}

async fn record(gateway: &TestGateway, id: &str) -> Value {
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take()
}

/// No penalty for the provider, and no place kept.
async fn unharmed(gateway: &TestGateway) {
    let health = gateway.get("/api/v1/health/providers/p0").await.expect(200);
    let health = if health["data"].is_array() { &health["data"][0] } else { &health["data"] };
    assert_eq!((&health["in_flight"], &health["circuit"]), (&json!(0), &json!("closed")), "{health}");
    assert_eq!(health["consecutive_failures"], 0, "{health}");
    let metrics = gateway.get("/metrics").await.text();
    let cancelled = metrics.lines().any(|line| line.contains("attempts_total{") && line.contains("\"cancelled\""));
    assert!(cancelled && metrics.contains("panics_total 0"), "{metrics}");
}

#[actix_web::test]
async fn leaving_behind_the_first_content_while_the_upstream_is_silent() {
    for how in EVERY_WAY {
        check_behind_content(how, "", "Hello over").await;
    }
}

#[actix_web::test]
async fn leaving_behind_a_comment() {
    for how in EVERY_WAY {
        check_behind_content(how, "[stream]\nkeepalive_secs = 0.05\n", ": keep-alive\n\n").await;
    }
}

/// Before the first token, but behind the head: the attempts run on inside the stream.
#[actix_web::test]
async fn leaving_behind_the_head_and_before_the_content() {
    let role = delta(&json!({"role": "assistant"}));
    for silence in [Script::new().request(), Script::new().request().send(format!("{CHUNKED}{}", chunk(&role)))] {
        for how in EVERY_WAY {
            let upstream = Upstream::start([silence.clone()]);
            let gateway = gateway(&[upstream.url("")], "[stream]\nkeepalive_secs = 0.05\n").await;
            let mut client = RawClient::chat(&gateway, &body(true)).await;
            client.until(": keep-alive\n\n").await;
            let id = client.generation();
            leave(client, how).await;
            assert!(upstream.eventually(SOON, closed).await, "{how:?}: the upstream was kept");
            let record = record(&gateway, &id).await;
            assert_eq!(record_line(&record), "cancelled | cancelled", "{how:?}");
            unharmed(&gateway).await;
        }
    }
}

/// Before the head nobody but the upstream can tell; streamed and plain.
#[actix_web::test]
async fn leaving_before_the_head() {
    for streamed in [true, false] {
        for how in EVERY_WAY {
            let upstream = Upstream::start([Script::new().request()]);
            let gateway = gateway(&[upstream.url("")], "").await;
            let client = RawClient::chat(&gateway, &body(streamed)).await;
            assert!(upstream.eventually(Duration::from_secs(5), |log| log.requests.len() == 1).await);
            leave(client, how).await;
            assert!(upstream.eventually(SOON, closed).await, "{how:?}, streamed {streamed}: the upstream was kept");
            unharmed(&gateway).await;
        }
    }
}

/// Leaving between two attempts, or while the second runs, ends both.
#[actix_web::test]
async fn leaving_while_the_spare_is_asked() {
    let failing = Upstream::start([Script::new().request().fin()]);
    let spare = Upstream::start([Script::new().request()]);
    let gateway = gateway(&[failing.url(""), spare.url("")], "[stream]\nkeepalive_secs = 0.05\n").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    client.until(": keep-alive\n\n").await;
    let id = client.generation();
    client.hang_up();
    assert!(spare.eventually(SOON, closed).await);
    assert_eq!(record_line(&record(&gateway, &id).await), "cancelled | reset, cancelled");
}

/// Leaving while the upstream talks.
#[actix_web::test]
async fn leaving_a_busy_stream() {
    for how in EVERY_WAY {
        let talk = Script::new().send(chunk(&text("more "))).pause(Duration::from_millis(1));
        let upstream = Upstream::start([Script::new().request().send(CHUNKED).repeat(talk)]);
        let gateway = gateway(&[upstream.url("")], "").await;
        let mut client = RawClient::chat(&gateway, &body(true)).await;
        for _ in 0..5 {
            client.until("more ").await;
        }
        let id = client.generation();
        leave(client, how).await;
        assert!(upstream.eventually(SOON, closed).await, "{how:?}: the upstream was kept");
        assert_eq!(record_line(&record(&gateway, &id).await), "cancelled | cancelled", "{how:?}");
        unharmed(&gateway).await;
    }
}

/// A hundred clients that leave keep nothing: the next one finds its place.
#[actix_web::test]
async fn places_come_back_from_clients_that_left() {
    let upstream = Upstream::start([Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hello"))))]);
    let gateway = gateway(&[upstream.url("")], "[limits]\nconcurrency = 4\n").await;
    for round in 0..25 {
        let mut clients = Vec::new();
        for _ in 0..4 {
            let mut client = RawClient::chat(&gateway, &body(true)).await;
            client.until("Hello").await;
            clients.push(client);
        }
        drop(clients);
        let left = (round + 1) * 4;
        assert!(upstream.eventually(SOON, |log| log.closed.len() == left).await, "round {round}");
    }
    unharmed(&gateway).await;
}

/// The other way round: a gateway that is told to stop lets its streams finish.
#[actix_web::test]
async fn a_gateway_that_stops_finishes_its_streams() {
    let gate = Gate::new();
    let script = Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hel")))).wait(&gate);
    let rest = format!("{}0\r\n\r\n", chunk(&format!("{}{}data: [DONE]\n\n", text("lo"), finish("stop"))));
    let upstream = Upstream::start([script.send(rest)]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    client.until("Hel").await;
    let stopping = gateway.stop();
    let finishing = async {
        gate.open();
        client.until("data: [DONE]\n\n").await
    };
    let (_, rest) = futures_util::future::join(stopping, finishing).await;
    assert!(rest.contains("\"lo\""), "{rest}");
}
