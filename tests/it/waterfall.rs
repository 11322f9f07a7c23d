//! Where a request's time went: in each attempt of the record, and in the `Server-Timing` header of the answer.

use std::{collections::BTreeMap, time::Duration};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    hostile::{CHUNKED, body, chunk, delta, events, gateway, ok, status, stream_of},
    patience::PATIENCE,
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream, refused_address},
    world::{Model, World, and, ask, completion, http},
};

/// The metrics of a `Server-Timing` header: name, description, milliseconds. Panics where the grammar is not kept.
fn metrics(value: &str) -> Vec<(String, Option<String>, f64)> {
    let metric = |metric: &str| {
        let mut parts = metric.split(';');
        let name = parts.next().unwrap().to_owned();
        let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        assert!(!name.is_empty() && name.bytes().all(token), "{value}");
        let parameters: BTreeMap<&str, &str> = parts.map(|part| part.split_once('=').unwrap()).collect();
        let description = parameters.get("desc").map(|quoted| {
            let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
            assert!(!inner.contains(['"', '\\']), "{value}");
            inner.to_owned()
        });
        (name, description, parameters["dur"].parse().unwrap())
    };
    value.split(", ").map(metric).collect()
}

fn timing(reply: &Reply) -> Vec<(String, Option<String>, f64)> {
    metrics(reply.header("server-timing").unwrap_or_else(|| panic!("no Server-Timing: {:?}", reply.headers)))
}

fn names(metrics: &[(String, Option<String>, f64)]) -> Vec<&str> {
    metrics.iter().map(|(name, ..)| name.as_str()).collect()
}

fn descriptions(metrics: &[(String, Option<String>, f64)]) -> Vec<&str> {
    metrics.iter().filter_map(|(_, description, _)| description.as_deref()).collect()
}

async fn attempts(gateway: &TestGateway, reply: &Reply) -> Vec<Value> {
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    record["data"]["route"]["attempts"].as_array().unwrap().clone()
}

#[actix_web::test]
async fn a_plain_answer_tells_its_phases_and_its_attempts() {
    let failing = Upstream::start([Script::answering(status("500 Oops", "", ""))]);
    let pause = Duration::from_millis(60);
    let healthy = Upstream::start([Script::new().request().pause(pause).send(ok(&crate::hostile::completion("Hi")))]);
    let gateway = gateway(&[failing.url(""), healthy.url("")], "").await;
    let reply = gateway.chat(&body(false)).await;
    let timing = timing(&reply);
    assert_eq!(names(&timing), ["route", "queue", "connect", "ttft", "total", "attempt-1", "attempt-2"]);
    assert_eq!(descriptions(&timing), ["p0 500", "p1 200"]);
    let of = |name: &str| timing.iter().find(|(found, ..)| found == name).unwrap().2;
    assert!(of("ttft") >= 60.0 && of("total") >= of("ttft") && of("attempt-2") >= 60.0, "{timing:?}");

    let attempts = attempts(&gateway, &reply).await;
    let [first, second] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((&first["reason"], &first["outcome"], &first["cost"]), (&json!("first"), &json!("server"), &json!(0)));
    assert_eq!((&second["reason"], &second["outcome"]), (&json!("fallback"), &json!("completed")));
    assert!(second["cost"].as_f64().unwrap() > 0.0);
    for attempt in [first, second] {
        assert_eq!(attempt["queue_ms"], 0);
        assert!(attempt["connect_ms"].is_u64() && attempt["tls_ms"].is_null(), "{attempt}");
        assert!(attempt["first_byte_ms"].is_u64(), "{attempt}");
    }
    assert!(first["first_token_ms"].is_null() && first["stream_ms"].is_null(), "{first}");
    let figure = |name: &str| second[name].as_u64().unwrap();
    assert!(figure("first_byte_ms") >= 60 && figure("first_token_ms") >= figure("first_byte_ms"), "{second}");
    assert!(figure("duration_ms") + 1 >= figure("first_token_ms") + figure("stream_ms"), "{second}");
    assert!(figure("started_ms") >= first["started_ms"].as_u64().unwrap() + first["duration_ms"].as_u64().unwrap());
}

#[actix_web::test]
async fn an_answer_that_was_broken_off_is_not_told_by_its_good_status() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"id\":";
    let cutting = Upstream::start([Script::new().request().send(cut).fin()]);
    let sound = Upstream::start([Script::answering(ok(&crate::hostile::completion("Hi")))]);
    let gateway = gateway(&[cutting.url(""), sound.url("")], "").await;
    let reply = gateway.chat(&body(false)).await;
    assert_eq!(descriptions(&timing(&reply)), ["p0 truncated", "p1 200"]);
}

#[actix_web::test]
async fn a_reused_connection_has_no_connect_time() {
    let upstream = Upstream::start([Script::answering(ok(&crate::hostile::completion("Hi")))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    gateway.chat(&body(false)).await.expect(200);
    let reply = gateway.chat(&body(false)).await;
    assert_eq!(names(&timing(&reply)), ["route", "queue", "ttft", "total", "attempt-1"]);
    assert!(attempts(&gateway, &reply).await[0]["connect_ms"].is_null());
}

#[actix_web::test]
async fn a_streams_head_tells_what_is_known_by_then() {
    let upstream = Upstream::start([Script::answering(stream_of(&events("Hi")))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let reply = gateway.chat(&body(true)).await;
    let timing = timing(&reply);
    assert_eq!(names(&timing), ["route", "queue", "connect", "ttft", "attempt-1"]);
    assert_eq!(descriptions(&timing), ["p0 running"]);
    let attempt = &attempts(&gateway, &reply).await[0];
    assert!(attempt["stream_ms"].is_u64() && attempt["first_token_ms"].is_u64(), "{attempt}");
}

#[actix_web::test]
async fn an_error_tells_its_attempts_and_one_without_attempts_has_nothing_to_tell() {
    let refused = format!("http://{}", refused_address());
    let failing = Upstream::start([Script::answering(status("503 Busy", "", ""))]);
    let gateway = gateway(&[refused, failing.url("")], "").await;
    let reply = gateway.chat(&body(false)).await;
    assert_eq!(reply.status, 502);
    assert_eq!(descriptions(&timing(&reply)), ["p0 connect", "p1 503"]);
    let unknown = gateway.chat(&ask("acme/unknown")).await;
    assert_eq!((unknown.status, unknown.header("server-timing")), (404, None));
}

#[actix_web::test]
async fn images_tell_their_phases_too() {
    let image = json!({"created": 1, "data": [{"b64_json": "iVBORw0KGgo="}]});
    let upstream = Upstream::start([Script::answering(http(200, &image))]);
    let painter = Model::new("acme/paint").with("output_modalities = [\"image\"]").at("acme", "0", "0");
    let gateway = World::new().provider("acme", upstream.address()).model(&painter).start().await;
    let body = json!({"model": "acme/paint", "prompt": "a lighthouse"});
    let reply = gateway.post("/api/v1/images/generations", &body).await;
    reply.expect(200);
    assert_eq!(descriptions(&timing(&reply)), ["acme 200"]);
}

/// What waits for a place is told apart from what waits for the provider.
#[actix_web::test]
async fn the_wait_for_a_place_is_the_queue() {
    let gate = Gate::new();
    let first = Script::new().request().wait(&gate).send(http(200, &completion("one")));
    let upstream = Upstream::start([first.request().send(http(200, &completion("two"))), Script::answering("")]);
    let gateway = World::new()
        .provider_with("acme", upstream.address(), "max_in_flight = 1\npermit_wait = \"10s\"")
        .model(&Model::new("acme/small").at("acme", "0", "0"))
        .start()
        .await;
    let mut one = RawClient::chat(&gateway, &ask("acme/small")).await;
    assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    let second = ask("acme/small");
    let opening = async {
        while !gateway.get("/metrics").await.text().contains("pointsman_in_flight_requests 2") {}
        gate.open();
        one.until("\"one\"").await;
    };
    let (reply, ()) = futures_util::future::join(gateway.chat(&second), opening).await;
    let queue = timing(&reply).into_iter().find(|(name, ..)| name == "queue").unwrap().2;
    let attempt = &attempts(&gateway, &reply).await[0];
    assert!(queue > 0.0 && attempt["queue_ms"].as_f64().unwrap() <= queue, "{queue} {attempt}");
    assert!(attempt["started_ms"].as_u64().unwrap() >= attempt["queue_ms"].as_u64().unwrap(), "{attempt}");
}

#[actix_web::test]
async fn scripts_of_other_origins_may_read_it() {
    let upstream = Upstream::start([Script::answering(ok(&crate::hostile::completion("Hi")))]);
    let gateway = gateway(&[upstream.url("")], "[cors]\nallowed_origins = [\"https://app.example\"]\n").await;
    let headers = [("content-type", "application/json"), ("origin", "https://app.example")];
    let call = body(false).to_string().into_bytes();
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(call)).await;
    assert!(reply.header("access-control-expose-headers").unwrap().contains("server-timing"));
}

/// What a plain error says of the attempts, the error chunk says behind a committed head.
#[actix_web::test]
async fn a_late_error_chunk_names_the_attempts_that_failed() {
    let gate = Gate::new();
    let first = Upstream::start([Script::answering(status("500 Oops", "", ""))]);
    let second = Upstream::start([Script::new().request().wait(&gate).send(status("503 Busy", "", "")).fin()]);
    let gateway = gateway(&[first.url(""), second.url("")], "[stream]\nkeepalive = \"50ms\"\n").await;
    let mut client = RawClient::chat(&gateway, &body(true)).await;
    client.until(": keep-alive\n\n").await;
    gate.open();
    let rest = client.until("data: [DONE]\n\n").await;
    let chunk = rest.split("data: ").find(|part| part.starts_with('{')).unwrap();
    let error: Value = serde_json::from_str::<Value>(chunk.trim()).unwrap()["error"].take();
    let metadata = &error["metadata"];
    assert_eq!(
        metadata["previous_errors"],
        json!([{"provider": "P0", "model": "acme/small", "status": 500, "code": "server"},
               {"provider": "P1", "model": "acme/small", "status": 503, "code": "overloaded"}])
    );
    assert_eq!((&metadata["provider_name"], &metadata["error_type"]), (&json!("P1"), &json!("provider_unavailable")));
    assert!(metadata["request_id"].as_str().unwrap().starts_with("req-"), "{error}");
}

/// An attempt that came to nothing may have cost something: what it reports, or what was seen of it.
#[actix_web::test]
async fn what_failed_attempts_took_is_entered_beside_the_answer() {
    let vain = json!({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 7}});
    let thought = delta(&json!({"reasoning": "twelve bytes"}));
    let cut = format!("{CHUNKED}{}0\r\n\r\n", chunk(&thought));
    for (streamed, failing, prompt, completion) in [(false, http(200, &vain), Some(40), 7), (true, cut, None, 3)] {
        let failing = Upstream::start([Script::answering(failing)]);
        let answer = if streamed { stream_of(&events("Hi")) } else { ok(&crate::hostile::completion("Hi")) };
        let healthy = Upstream::start([Script::answering(answer)]);
        let gateway = gateway(&[failing.url(""), healthy.url("")], "").await;
        let reply = gateway.chat(&and(body(streamed), json!({"reasoning": {"exclude": true}}))).await;
        let id = reply.header("x-generation-id").unwrap();
        let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
        let route = &record["data"]["route"];
        // Micro-dollars: a prompt token costs one, a completion token two.
        let micros = |value: &Value| (value.as_f64().unwrap() * 1e6).round() as u64;
        let lost = prompt.unwrap_or_else(|| route["estimate"]["prompt_tokens"].as_u64().unwrap()) + 2 * completion;
        assert_eq!(micros(&route["failed_cost"]), lost, "{route}");
        assert_eq!(micros(&route["attempts"][0]["cost"]), lost);
        assert_eq!(micros(&route["ledger_cost"]), micros(&route["total_cost"]) + lost);
        assert_eq!(route["total_cost"], route["usage"]["cost"]);
        assert_eq!(route["hedge_cost"], 0);
    }
}
