//! Leaving with a full house: what the real binary does with 200 running streams when it is told to stop.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    hostile::{CHUNKED, body, chunk, delta, events, gateway, record_line, text},
    keyless::{provider, simple_model},
    patience::until,
    process::{ConfigFile, Process},
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{and, ask, completion, http},
};

const STREAMS: usize = 200;

/// Streams that never end, streams that end when the test says so, and short calls, each at a provider of its own.
struct House {
    process: Process,
    going_on: Gate,
    upstreams: Vec<(&'static str, Upstream)>,
    config: ConfigFile,
    folder: Folder,
}

impl House {
    fn start(timeouts: &str) -> House {
        let going_on = Gate::new();
        let begin = || Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hel"))));
        let rest = format!("{}0\r\n\r\n", chunk(&events("lo")));
        let scripts = [
            ("endless", begin()),
            ("patient", begin().wait(&going_on).send(rest)),
            ("silent", Script::new().request()),
            ("short", Script::new().request().pause(Duration::from_millis(400)).send(http(200, &completion("Done.")))),
        ];
        let mut config = format!(
            "[server]\nbind = \"127.0.0.1:0\"\nworkers = 2\n[timeouts]\n{timeouts}\n[stream]\nkeepalive = \"200ms\"\n\
             [simulation]\nmode = \"off\"\n[[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n"
        );
        let mut upstreams = Vec::new();
        for (slug, script) in scripts {
            let upstream = Upstream::start([script]);
            config.push_str(&provider(slug, &upstream.url("")));
            config.push_str(&simple_model(&format!("acme/{slug}"), slug));
            upstreams.push((slug, upstream));
        }
        let config = ConfigFile::new(&config);
        let folder = Folder::new();
        let process = serve(&config, &folder);
        House { process, going_on, upstreams, config, folder }
    }

    async fn chat(&self, model: &str, streamed: bool) -> RawClient {
        let body = and(ask(&format!("acme/{model}")), json!({ "stream": streamed }));
        RawClient::chat(&self.process.gateway(), &body).await
    }

    /// Streams that have said their first words.
    async fn streams(&self, model: &str, count: usize) -> Vec<RawClient> {
        join_all((0..count).map(async |_| {
            let mut client = self.chat(model, true).await;
            client.until("Hel").await;
            client
        }))
        .await
    }

    /// Waits until so many calls have reached an upstream.
    async fn has_called(&self, slug: &str, calls: usize) {
        let (_, upstream) = self.upstreams.iter().find(|(known, _)| *known == slug).unwrap();
        until(format!("{slug} is called"), || upstream.log().requests.len() >= calls).await;
    }

    /// Tells it to stop, and gives the time until nobody is let in any more.
    async fn told_to_stop(&self) -> Duration {
        self.process.signal("TERM");
        let told = Instant::now();
        until("the listener closes", || TcpStream::connect(self.process.address).is_err()).await;
        told.elapsed()
    }
}

/// The process, with its ledger in the folder.
fn serve(config: &ConfigFile, folder: &Folder) -> Process {
    let data = folder.at("data").display().to_string();
    let ledger = [("POINTSMAN__LEDGER__DURABILITY", "group"), ("POINTSMAN__LEDGER__DATA_DIR", data.as_str())];
    let environment = [[("TEST_KEY", KEY)].as_slice(), &ledger].concat();
    Process::start(&["serve", "--config", config.path()], &environment)
}

/// The error of the last event before `[DONE]`.
fn last_error(said: &str) -> Value {
    assert!(said.contains("data: [DONE]\n\n") && said.matches("[DONE]").count() == 1, "{said}");
    assert!(said.ends_with("0\r\n\r\n"), "the body has no end: {said}");
    let event = said.split("data: ").filter(|event| event.contains("\"error\":{")).last();
    let event = event.unwrap_or_else(|| panic!("no error chunk: {said}")).split("\n\n").next().unwrap();
    let event: Value = serde_json::from_str(event).unwrap();
    assert_eq!(event["choices"][0]["finish_reason"], "error");
    event["error"].clone()
}

fn says_that_it_leaves(error: &Value) {
    assert_eq!((&error["code"], &error["type"]), (&json!(503), &json!("provider_error")), "{error}");
    assert_eq!(error["metadata"]["error_type"], "provider_overloaded", "{error}");
    assert_eq!(error["metadata"]["reason"], "draining", "{error}");
}

#[actix_web::test]
async fn two_hundred_streams_finish_or_are_told_and_short_calls_finish() {
    let mut house = House::start("drain_grace = \"15s\"\nfirst_byte = \"120s\"");
    let mut endless = house.streams("endless", STREAMS / 2).await;
    let mut patient = house.streams("patient", STREAMS / 2).await;
    let mut unanswered = house.chat("silent", true).await;
    unanswered.until(": keep-alive\n\n").await;
    let (mut hanging, mut short) = (house.chat("silent", false).await, house.chat("short", false).await);
    house.has_called("silent", 2).await;
    house.has_called("short", 1).await;

    let begun = Instant::now();
    let closed = house.told_to_stop().await;
    assert!(closed < Duration::from_secs(10), "the listener stayed open for {closed:?}");
    let answer = short.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("Done."), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");

    house.going_on.open();
    for client in &mut patient {
        let said = client.rest().await;
        assert!(said.contains("\"lo\"") && said.contains("data: [DONE]\n\n") && !said.contains("\"error\""), "{said}");
    }
    assert!(begun.elapsed() < Duration::from_millis(14_800), "they waited for the end of the grace");
    for client in &mut endless {
        says_that_it_leaves(&last_error(&client.rest().await));
    }
    says_that_it_leaves(&last_error(&unanswered.rest().await));
    let refused = hanging.rest().await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("\"reason\":\"draining\""), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    let took = begun.elapsed();
    assert!((15_000..25_000).contains(&took.as_millis()), "the last was told after {took:?}");
    assert_eq!(house.process.end().await.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(30), "it left after {:?}", begun.elapsed());
}

#[actix_web::test]
async fn two_hundred_streams_during_a_stop_leave_two_hundred_records_for_the_next_process() {
    let mut house = House::start("drain_grace = \"2s\"");
    let mut endless = house.streams("endless", STREAMS / 2).await;
    let mut patient = house.streams("patient", STREAMS / 2).await;
    house.process.signal("TERM");
    house.going_on.open();
    for client in patient.iter_mut().chain(&mut endless) {
        client.rest().await;
    }
    assert_eq!(house.process.end().await.code(), Some(0));

    let next = serve(&house.config, &house.folder);
    let page = next.gateway().get("/api/v1/generations?limit=200").await.expect(200);
    let rows = page["data"].as_array().unwrap();
    assert_eq!((rows.len(), &page["next"]), (STREAMS, &Value::Null));
    for (clients, status) in [(&patient, "completed"), (&endless, "failed")] {
        for id in clients.iter().map(RawClient::generation) {
            let row = rows.iter().find(|row| row["id"] == json!(id)).unwrap_or_else(|| panic!("{id} is lost"));
            assert_eq!(row["status"], status, "{row}");
        }
    }
}

#[actix_web::test]
async fn a_second_signal_ends_two_hundred_streams_at_once_and_in_order() {
    let mut house = House::start("drain_grace = \"30s\"");
    let mut streams = house.streams("endless", STREAMS).await;
    house.told_to_stop().await;
    let urged = Instant::now();
    house.process.signal("TERM");
    for client in &mut streams {
        says_that_it_leaves(&last_error(&client.rest().await));
    }
    assert_eq!(house.process.end().await.code(), Some(0));
    assert!(urged.elapsed() < Duration::from_secs(20), "it took {:?}", urged.elapsed());
}

#[actix_web::test]
async fn without_any_grace_streams_are_told_at_once() {
    let mut house = House::start("drain_grace = \"0s\"");
    let mut streams = house.streams("endless", 10).await;
    house.process.signal("TERM");
    for client in &mut streams {
        says_that_it_leaves(&last_error(&client.rest().await));
    }
    assert_eq!(house.process.end().await.code(), Some(0));
}

/// The record of what was ended, and the provider's name: nobody cancelled, and nobody failed us.
async fn ended(gateway: &TestGateway, id: &str, expected: &str) {
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
    assert_eq!(record_line(&record), expected);
    assert_eq!(record["cancelled"], false);
    let health = gateway.get("/api/v1/health/providers/p0").await.expect(200)["data"][0].take();
    assert_eq!((&health["in_flight"], &health["consecutive_failures"]), (&json!(0), &json!(0)), "{health}");
}

#[actix_web::test]
async fn what_is_ended_is_recorded_as_failed_and_blamed_on_nobody() {
    let role = delta(&json!({"role": "assistant"}));
    // The finish is kept back until the usage is known; it came in one piece with the word before.
    let finished = format!("{}{}", text("Hello"), crate::hostile::finish("stop"));
    for (said, wait_for, expected) in [
        (text("Hel"), "Hel", "failed | cancelled"),
        (role, ": keep-alive\n\n", "failed | cancelled"),
        (finished, "Hello", "completed | ok:200"),
    ] {
        let upstream = Upstream::start([Script::new().request().send(format!("{CHUNKED}{}", chunk(&said)))]);
        let gateway = gateway(&[upstream.url("")], "[stream]\nkeepalive = \"50ms\"\n").await;
        let mut client = RawClient::chat(&gateway, &body(true)).await;
        client.until(wait_for).await;
        gateway.end_requests();
        client.until("data: [DONE]\n\n").await;
        ended(&gateway, &client.generation(), expected).await;
        assert!(upstream.eventually(Duration::from_secs(5), |log| log.closed.len() == 1).await);
    }
}
