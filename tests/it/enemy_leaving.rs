//! Clients that leave, at every moment: the upstream is let go at once, the record says so, and
//! nothing of it counts against the provider.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    enemy::head,
    harness::TestGateway,
    hostile::{CHUNKED, body, chunk, delta, finish, gateway, record_line, text},
    patience::{PATIENCE, eventually, takes_less_than, until},
    raw_client::RawClient,
    scripted::{Gate, Log, Script, Upstream},
};

/// How long the gateway may take to let the upstream go: less than any clock would. The figure to reach is 0.2 s;
/// the rest is for a busy machine, and [`the_upstream_is_let_go_within_a_fifth_of_a_second`] measures it.
const SOON: Duration = Duration::from_secs(20);

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
        check_behind_content(how, "[stream]\nkeepalive = \"50ms\"\n", ": keep-alive\n\n").await;
    }
}

/// Before the first token, but behind the head: the attempts run on inside the stream.
#[actix_web::test]
async fn leaving_behind_the_head_and_before_the_content() {
    let role = delta(&json!({"role": "assistant"}));
    for silence in [Script::new().request(), Script::new().request().send(format!("{CHUNKED}{}", chunk(&role)))] {
        for how in EVERY_WAY {
            let upstream = Upstream::start([silence.clone()]);
            let gateway = gateway(&[upstream.url("")], "[stream]\nkeepalive = \"50ms\"\n").await;
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
            assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
            leave(client, how).await;
            assert!(upstream.eventually(SOON, closed).await, "{how:?}, streamed {streamed}: the upstream was kept");
            unharmed(&gateway).await;
        }
    }
}

/// What the gateway carries: connections, bytes, calls.
async fn load(gateway: &TestGateway) -> Value {
    gateway.get("/health/ready").await.expect(200)["checks"].take()
}

/// Nothing is carried any more, neither a call nor a byte of a body, and no connection but the one that asks; and so
/// many records were written.
async fn carries_nothing(gateway: &TestGateway, what: &str, records: u64) {
    let nothing = |checks: &Value| {
        let load = &checks["load"];
        let idle = load["in_flight"] == 0 && load["buffered_bytes"] == 0;
        idle && load["connections"].as_u64().unwrap() <= 2 && checks["ledger"]["records"] == records
    };
    eventually(what, async || load(gateway).await, nothing).await;
}

/// Before the request is whole nobody was asked, and nothing is recorded.
#[actix_web::test]
async fn leaving_before_the_request_is_whole() {
    let upstream = Upstream::start([Script::new().request()]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let body = body(true).to_string();
    let head = head(&format!("content-length: {}\r\n", body.len()));
    let part = body.get(..body.len() / 2).unwrap();
    for (moment, said) in [
        ("after connecting", String::new()),
        ("inside the request line", "POST /api".to_owned()),
        ("inside the head", head.get(..head.len() / 2).unwrap().to_owned()),
        ("behind the head", head.clone()),
        ("inside the body", format!("{head}{part}")),
        ("a byte before the end of the body", format!("{head}{}", body.get(..body.len() - 1).unwrap())),
    ] {
        for how in EVERY_WAY {
            let mut client = RawClient::connect(gateway.address).await;
            client.say(&said).await;
            leave(client, how).await;
            carries_nothing(&gateway, moment, 0).await;
        }
    }
    assert_eq!(upstream.connections(), 0);
}

/// An address that answers nothing at all, not even to a connection: its queue is full.
struct Deaf {
    listener: socket2::Socket,
    waiting: Vec<socket2::Socket>,
}

impl Deaf {
    fn new() -> Deaf {
        use socket2::{Domain, Socket, Type};
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let waiting = (0..8).map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address);
            socket
        });
        let waiting = waiting.collect();
        Deaf { listener, waiting }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap().as_socket().unwrap()
    }

    /// Connections to it that are open or being opened, but those that fill its queue.
    fn opening(&self) -> usize {
        const OPEN_OR_OPENING: [&str; 2] = ["01", "02"];
        let port =
            |socket: &socket2::Socket| format!(":{:04X}", socket.local_addr().unwrap().as_socket().unwrap().port());
        let (own, filling) = (port(&self.listener), self.waiting.iter().map(port).collect::<Vec<_>>());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let is_counted = |line: &&str| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let [_, from, to, state, ..] = columns[..] else { return false };
            to.ends_with(&own) && OPEN_OR_OPENING.contains(&state) && !filling.iter().any(|port| from.ends_with(port))
        };
        table.lines().filter(is_counted).count()
    }
}

/// Between the body and an upstream that has not accepted: the connection is given up with the request.
#[actix_web::test]
async fn leaving_while_the_upstream_is_connected_to() {
    for streamed in [true, false] {
        for how in EVERY_WAY {
            let deaf = Deaf::new();
            let gateway = gateway(&[format!("http://{}", deaf.address())], "[timeouts]\nconnect = \"20s\"\n").await;
            let client = RawClient::chat(&gateway, &body(streamed)).await;
            until("it connects", || deaf.opening() == 1).await;
            leave(client, how).await;
            until("it gives the connection up", || deaf.opening() == 0).await;
            carries_nothing(&gateway, "while connecting", 1).await;
            unharmed(&gateway).await;
        }
    }
}

/// Leaving while a plain answer's fallback runs.
#[actix_web::test]
async fn leaving_a_plain_call_while_the_spare_is_asked() {
    let failing = Upstream::start([Script::new().request().fin()]);
    let spare = Upstream::start([Script::new().request()]);
    let gateway = gateway(&[failing.url(""), spare.url("")], "").await;
    let client = RawClient::chat(&gateway, &body(false)).await;
    assert!(spare.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    client.hang_up();
    assert!(spare.eventually(SOON, closed).await);
    carries_nothing(&gateway, "while the fallback runs", 1).await;
}

/// Leaving while a plain answer's body is on its way.
#[actix_web::test]
async fn leaving_inside_a_plain_answer_of_the_upstream() {
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"id\":";
    for how in EVERY_WAY {
        let upstream = Upstream::start([Script::new().request().send(half)]);
        let gateway = gateway(&[upstream.url("")], "").await;
        let client = RawClient::chat(&gateway, &body(false)).await;
        assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
        leave(client, how).await;
        assert!(upstream.eventually(SOON, closed).await, "{how:?}: the upstream was kept");
        carries_nothing(&gateway, "inside the answer", 1).await;
        unharmed(&gateway).await;
    }
}

/// The figure, as the upstream sees it.
#[actix_web::test]
async fn the_upstream_is_let_go_within_a_fifth_of_a_second() {
    const FIGURE: Duration = Duration::from_millis(200);
    let begun = format!("{CHUNKED}{}", chunk(&text("Hello")));
    for (moment, script, streamed) in [
        ("before the head, streamed", Script::new().request(), true),
        ("before the head, plain", Script::new().request(), false),
        ("in mid-stream", Script::new().request().send(begun), true),
    ] {
        takes_less_than(FIGURE, moment, async || {
            let upstream = Upstream::start([script.clone()]);
            let gateway = gateway(&[upstream.url("")], "").await;
            let mut client = RawClient::chat(&gateway, &body(streamed)).await;
            match moment {
                "in mid-stream" => drop(client.until("Hello").await),
                _ => assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await),
            }
            let left = Instant::now();
            client.hang_up();
            assert!(upstream.eventually(SOON, closed).await, "{moment}");
            upstream.log().closed[0].saturating_duration_since(left)
        })
        .await;
    }
}

/// However much a client sent behind a call that runs: its end is noticed at once.
#[actix_web::test]
async fn leaving_with_a_megabyte_behind_the_call() {
    let begun = format!("{CHUNKED}{}", chunk(&text("Hello")));
    let large = "a".repeat(900_000);
    for behind in [
        format!("{}{large}", head(&format!("content-length: {}\r\n", large.len()))),
        "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(20_000),
        large,
    ] {
        for streamed in [true, false] {
            let script = Script::new().request();
            let upstream = Upstream::start([if streamed { script.send(begun.clone()) } else { script }]);
            let gateway = gateway(&[upstream.url("")], "").await;
            let mut client = RawClient::chat(&gateway, &body(streamed)).await;
            assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
            // As much as is taken.
            let _ = timeout(Duration::from_millis(300), client.say(&behind)).await;
            assert_eq!(upstream.log().closed.len(), 0, "the call goes on");
            client.reset();
            assert!(upstream.eventually(SOON, closed).await, "streamed {streamed}: the upstream was kept");
            carries_nothing(&gateway, "with a megabyte behind the call", 1).await;
        }
    }
}

/// Leaving between two attempts, or while the second runs, ends both.
#[actix_web::test]
async fn leaving_while_the_spare_is_asked() {
    let failing = Upstream::start([Script::new().request().fin()]);
    let spare = Upstream::start([Script::new().request()]);
    let gateway = gateway(&[failing.url(""), spare.url("")], "[stream]\nkeepalive = \"50ms\"\n").await;
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
