//! Waiting beats refusing: a call waits for an endpoint that takes requests again soon, in its turn, and leaves with its client.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use actix_web::{http::Method, rt};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    contract_route::explain,
    harness::{NO_WAIT, Reply, TestGateway},
    patience::{PATIENCE, eventually},
    refusals::{OTHER, SHA256},
    scrape::Scrape,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, completion, error_of, http, http_with, stream_of},
};

/// A gateway whose calls may wait so long, in front of one model at one provider. Nothing but gates holds requests back.
async fn waiting_for(upstream: &Upstream, wait: &str, further: &str) -> TestGateway {
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000001");
    let world = World::default().with(&format!("[routing]\nexploration = 0\npacing = false\n{further}"));
    world.provider("acme", upstream.address()).model(&model).variable(NO_WAIT.0, wait).start().await
}

/// A refusal that asks for so many milliseconds.
fn resting(status: u16, milliseconds: u64) -> String {
    let error = json!({"error": {"message": "Not now.", "type": "some_error", "code": null}});
    http_with(status, &format!("retry-after-ms: {milliseconds}\r\n"), &error)
}

fn answer() -> String {
    http(200, &completion("There."))
}

/// Refuses the first request so, and answers all others.
fn refusing_once(refusal: String) -> Upstream {
    let first = Script::new().request().send(refusal).then(&Script::answering(answer()));
    Upstream::start([first, Script::answering(answer())])
}

fn once() -> Value {
    and(ask("acme/small"), json!({"provider": {"allow_fallbacks": false}}))
}

/// The call that sets the endpoint to rest: it has no second attempt, so it does not wait.
async fn rest(gateway: &TestGateway) {
    let reply = gateway.chat(&once()).await;
    assert!(reply.status == 429 || reply.status == 503, "{}", reply.text());
}

async fn explained(gateway: &TestGateway, reply: &Reply) -> Value {
    let id = reply.header("x-generation-id").expect("an id");
    let replayed = gateway.get(&format!("/api/v1/route/replay?generation_id={id}")).await.expect(200);
    // A call that none could take has no choice to repeat.
    assert!(reply.status != 200 || replayed["data"]["identical"] == true, "{replayed}");
    explain(gateway, id).await
}

async fn waits(gateway: &TestGateway, outcome: &str) -> f64 {
    Scrape::of(gateway).await.sum("waits_total", &[("outcome", outcome)])
}

/// Waits until so many calls wait.
async fn queue_of(gateway: &TestGateway, calls: usize) {
    let waiting = async || Scrape::of(gateway).await.sum("waiting_calls", &[]);
    eventually(format!("{calls} calls wait"), waiting, |waiting| *waiting == calls as f64).await;
}

#[actix_web::test]
async fn a_call_waits_for_an_endpoint_that_reopens_soon_whatever_the_door_and_explain_tells() {
    let streamed = |path: &str, body: &Value| (path.to_owned(), and(body.clone(), json!({"stream": true})));
    let message = json!([{"role": "user", "content": "Which way?"}]);
    let chat = ask("acme/small");
    let messages = json!({"model": "acme/small", "max_tokens": 9, "messages": message});
    let responses = json!({"model": "acme/small", "input": "Which way?"});
    let doors = [
        ("/api/v1/chat/completions".to_owned(), chat.clone()),
        streamed("/api/v1/chat/completions", &chat),
        ("/api/v1/messages".to_owned(), messages.clone()),
        streamed("/api/v1/messages", &messages),
        ("/api/v1/responses".to_owned(), responses.clone()),
        streamed("/api/v1/responses", &responses),
    ];
    for (path, body) in doors {
        let is_streamed = body.get("stream").is_some();
        let good = if is_streamed { stream_of(&["There."]) } else { answer() };
        let first = Script::new().request().send(resting(429, 300)).request().send(good.clone());
        let upstream = Upstream::start([first, Script::answering(good)]);
        let gateway = waiting_for(&upstream, "20s", "").await;
        rest(&gateway).await;
        let begun = Instant::now();
        let reply = gateway.post(&path, &body).await;
        assert_eq!((reply.status, upstream.requests().len()), (200, 2), "{path}: {}", reply.text());
        assert!(begun.elapsed() >= Duration::from_millis(200), "{path}: {:?}", begun.elapsed());
        let explained = explained(&gateway, &reply).await;
        let waited = explained["waited_ms"].as_u64().unwrap_or_else(|| panic!("{path}: {explained}"));
        assert!((200..10_000).contains(&waited), "{path}: {waited}");
        assert_eq!(explained["waited_for"], "rate_limited", "{path}: {explained}");
        let attempts = explained["attempts"].as_array().unwrap();
        assert_eq!(attempts.len(), 1, "{path}: it waited before any attempt: {attempts:?}");
        assert!(attempts[0]["started_ms"].as_u64().unwrap() >= waited, "{path}: {attempts:?}");
        let sentence = explained["decision_reason"].as_str().unwrap();
        assert!(sentence.contains(" It had waited 0."), "{path}: {sentence}");
        assert!(sentence.ends_with(" for an endpoint to take requests again (rate limited)."), "{path}: {sentence}");
        assert_eq!((waits(&gateway, "reopened").await, upstream.requests().len()), (1.0, 2), "{path}");
        queue_of(&gateway, 0).await;
        let overhead: f64 = reply.header("x-route-overhead-ms").unwrap().parse().unwrap();
        assert!(overhead < waited as f64, "{path}: the wait is not the gateway's own time: {overhead}");
    }
}

#[actix_web::test]
async fn a_call_whose_attempts_failed_waits_too_while_attempts_are_left() {
    for status in [429, 503] {
        let upstream = refusing_once(resting(status, 300));
        let gateway = waiting_for(&upstream, "20s", "").await;
        let reply = gateway.chat(&ask("acme/small")).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let explained = explained(&gateway, &reply).await;
        let attempts = explained["attempts"].as_array().unwrap();
        assert_eq!((attempts.len(), &attempts[0]["status"]), (2, &json!(status)), "{attempts:?}");
        let ended = attempts[0]["started_ms"].as_u64().unwrap() + attempts[0]["duration_ms"].as_u64().unwrap();
        let again = attempts[1]["started_ms"].as_u64().unwrap();
        assert!(again >= ended + 250, "it came back when it was told to: {attempts:?}");
        assert!(explained["waited_ms"].as_u64().unwrap() >= 200, "{explained}");
    }
}

#[actix_web::test]
async fn a_lone_server_error_that_asks_for_a_moment_holds_back_the_failed_call_alone() {
    let script = Script::new().request().send(answer()).request().send(resting(503, 2000));
    let upstream = Upstream::start([script.then(&Script::answering(answer())), Script::answering(answer())]);
    let gateway = waiting_for(&upstream, "20s", "").await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let gateway = Rc::new(gateway);
    let failed = rt::spawn({
        let gateway = Rc::clone(&gateway);
        async move { gateway.chat(&ask("acme/small")).await }
    });
    queue_of(&gateway, 1).await;
    let other = gateway.chat(&ask("acme/small")).await;
    assert_eq!(other.status, 200, "{}", other.text());
    let failed = failed.await.unwrap();
    assert_eq!((failed.status, upstream.requests().len()), (200, 4), "{}", failed.text());
    assert_eq!(explained(&gateway, &other).await["waited_ms"], Value::Null);
}

#[actix_web::test]
async fn a_call_is_refused_at_once_where_nothing_reopens_in_its_time() {
    for (what, wait, further, asked) in [
        ("it rests longer than a call may wait", "2s", "", 7000),
        ("nobody may wait", "0s", "", 900),
        ("the deadline is nearer", "20s", "[timeouts]\ntotal = \"500ms\"\n", 900),
    ] {
        let upstream = Upstream::start([Script::answering(resting(429, asked))]);
        let gateway = waiting_for(&upstream, wait, further).await;
        rest(&gateway).await;
        let reply = gateway.chat(&ask("acme/small")).await;
        let error = error_of(&reply, 429);
        assert_eq!((&error["metadata"]["reason"], upstream.requests().len()), (&json!("provider"), 1), "{what}");
        let told: u64 = reply.header("retry-after-ms").unwrap().parse().unwrap();
        assert!((1..=asked).contains(&told) && (asked < 5000 || told > 5000), "{what}: {told}");
        assert_eq!(reply.header("x-should-retry"), None, "{what}");
        assert_eq!(explained(&gateway, &reply).await["waited_ms"], Value::Null, "{what}");
        assert_eq!((waits(&gateway, "expired").await, waits(&gateway, "refused").await), (0.0, 0.0), "{what}");
    }
}

#[actix_web::test]
async fn a_call_that_has_waited_in_vain_is_refused_and_its_record_tells() {
    let upstream = Upstream::start([Script::answering(resting(429, 300))]);
    let gateway = waiting_for(&upstream, "400ms", "").await;
    let reply = gateway.chat(&ask("acme/small")).await;
    error_of(&reply, 429);
    let explained = explained(&gateway, &reply).await;
    let (waited, attempts) =
        (explained["waited_ms"].as_u64().unwrap(), explained["attempts"].as_array().unwrap().len());
    assert!((250..=5_000).contains(&waited) && attempts == 2, "{explained}");
    queue_of(&gateway, 0).await;
}

#[actix_web::test]
async fn calls_that_wait_for_one_endpoint_are_all_served_behind_one_probe() {
    let gate = Gate::new();
    let first = Script::new().request().send(resting(429, 200)).request().wait(&gate).send(answer());
    let upstream = Upstream::start([first.then(&Script::answering(answer())), Script::answering(answer())]);
    let gateway = Rc::new(waiting_for(&upstream, "25s", "").await);
    rest(&gateway).await;
    let call = |number: usize| {
        let gateway = Rc::clone(&gateway);
        rt::spawn(
            async move { gateway.chat(&and(ask("acme/small"), json!({"user": format!("caller {number}")}))).await },
        )
    };
    let mut calls = vec![call(0)];
    assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 2).await, "the first one probes");
    for number in 1..5 {
        calls.push(call(number));
        queue_of(&gateway, number).await;
    }
    assert_eq!(upstream.requests().len(), 2, "all others wait for the outcome of the probe");
    gate.open();
    let replies = join_all(calls).await;
    for (number, reply) in replies.iter().enumerate() {
        let reply = reply.as_ref().unwrap();
        assert_eq!(reply.status, 200, "{number}: {}", reply.text());
        let waited_for = &explained(&gateway, reply).await["waited_for"];
        assert_eq!(waited_for, if number == 0 { "rate_limited" } else { "probe_in_flight" }, "{number}");
    }
    let arrived = upstream.bodies();
    let mut callers: Vec<&str> = arrived.iter().skip(1).map(|body| body["user"].as_str().unwrap()).collect();
    assert_eq!(callers[0], "caller 0", "the probe");
    // They leave the queue in order (unit tests of `waiting_calls`), and may overtake each other on their connections.
    callers.sort_unstable();
    assert_eq!(callers, ["caller 0", "caller 1", "caller 2", "caller 3", "caller 4"]);
    queue_of(&gateway, 0).await;
}

/// Answers may take longer than a call waits. No tokens are saved up, so none could pass an open circuit.
#[actix_web::test]
async fn calls_behind_a_probe_that_answers_for_long_are_all_served() {
    const SOME: usize = 40;
    for is_streamed in [true, false] {
        let gate = Gate::new();
        let good = if is_streamed { stream_of(&["There."]) } else { answer() };
        let (head, tail) = good.split_at(if is_streamed { good.len() - 4 } else { 0 });
        let others = Script::answering(good.clone());
        let first = Script::new().request().send(resting(429, 100)).request().send(head).wait(&gate).send(tail);
        let upstream = Upstream::start([first.then(&others), others]);
        let wait = if is_streamed { "50s" } else { "1s" };
        let gateway = Rc::new(waiting_for(&upstream, wait, "[routing.retry]\nbudget_ratio = 0\n").await);
        rest(&gateway).await;
        let call = || {
            let gateway = Rc::clone(&gateway);
            let body = and(ask("acme/small"), json!({"stream": is_streamed}));
            rt::spawn(async move { gateway.chat(&body).await })
        };
        let probe = call();
        assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 2).await, "the probe is out");
        for reply in join_all((0..SOME).map(|_| call())).await {
            let reply = reply.unwrap();
            assert_eq!(reply.status, 200, "streamed {is_streamed}: {}", reply.text());
        }
        gate.open();
        assert_eq!(probe.await.unwrap().status, 200);
        queue_of(&gateway, 0).await;
    }
}

#[actix_web::test]
async fn a_client_that_leaves_leaves_the_queue() {
    let upstream = Upstream::start([Script::answering(resting(429, 20_000))]);
    let gateway = waiting_for(&upstream, "50s", "").await;
    rest(&gateway).await;
    for (count, streamed) in [(1.0, false), (2.0, true)] {
        let body = and(ask("acme/small"), json!({"stream": streamed}));
        let mut call = Box::pin(gateway.chat(&body));
        tokio::select! {
            reply = &mut call => panic!("{}", reply.text()),
            () = queue_of(&gateway, 1) => {}
        }
        drop(call);
        queue_of(&gateway, 0).await;
        assert_eq!(waits(&gateway, "left").await, count);
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[actix_web::test]
async fn no_more_calls_wait_than_the_bound_and_all_that_wait_are_served() {
    let upstream = refusing_once(resting(429, 4000));
    let gateway = Rc::new(waiting_for(&upstream, "50s", "").await);
    rest(&gateway).await;
    let waiting = (0..256).map(|_| {
        let gateway = Rc::clone(&gateway);
        rt::spawn(async move { gateway.chat(&ask("acme/small")).await.status })
    });
    let waiting: Vec<_> = waiting.collect();
    queue_of(&gateway, 256).await;
    error_of(&gateway.chat(&ask("acme/small")).await, 429);
    assert_eq!(waits(&gateway, "refused").await, 1.0);
    assert!(join_all(waiting).await.into_iter().all(|status| status.unwrap() == 200));
    queue_of(&gateway, 0).await;
}

#[actix_web::test]
async fn an_account_without_a_waiting_call_gets_a_place_of_the_one_that_has_all() {
    let upstream = refusing_once(resting(429, 6000));
    let keys = format!("[[keys]]\nname = \"other\"\nsha256 = \"{SHA256}\"\n");
    let gateway = Rc::new(waiting_for(&upstream, "50s", &keys).await);
    rest(&gateway).await;
    let waiting = (0..256).map(|_| {
        let gateway = Rc::clone(&gateway);
        rt::spawn(async move { gateway.chat(&ask("acme/small")).await.status })
    });
    let waiting: Vec<_> = waiting.collect();
    queue_of(&gateway, 256).await;
    let bearer = format!("Bearer {OTHER}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = ask("acme/small").to_string().into_bytes();
    let other = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
    assert_eq!(other.status, 200, "{}", other.text());
    let statuses: Vec<u16> = join_all(waiting).await.into_iter().map(Result::unwrap).collect();
    let count = |status: u16| statuses.iter().filter(|other| **other == status).count();
    assert_eq!((count(200), count(429)), (255, 1));
    assert_eq!(waits(&gateway, "refused").await, 1.0);
    queue_of(&gateway, 0).await;
}

#[actix_web::test]
async fn where_waiting_is_useless_every_endpoint_behind_a_breaker_is_called() {
    let down = || Upstream::start([Script::answering(http(500, &json!({"error": {"message": "down"}})))]);
    let (one, two) = (down(), down());
    let model = Model::new("acme/small").at("one", "0.000001", "0.000001").at("two", "0.000001", "0.000001");
    let world = World::default().with("[routing]\nexploration = 0\n[routing.breaker]\nbase = \"1m\"\n");
    let world = world.provider("one", one.address()).provider("two", two.address()).model(&model);
    let gateway = world.variable(NO_WAIT.0, "100ms").start().await;
    let attempts = async || {
        let reply = gateway.chat(&ask("acme/small")).await;
        let attempts = explained(&gateway, &reply).await["attempts"].take();
        let attempts = attempts.as_array().unwrap().iter();
        attempts.map(|attempt| attempt["reason"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("both breakers are open", attempts, |reasons| *reasons == ["panic", "panic"]).await;
}

#[actix_web::test]
async fn a_refusal_while_probes_are_out_names_them_and_asks_for_a_second() {
    let gate = Gate::new();
    let first = Script::new().request().send(resting(429, 100)).request().wait(&gate).send(answer());
    let upstream = Upstream::start([first, Script::answering(http(500, &json!({"error": {"message": "down"}})))]);
    let gateway = Rc::new(waiting_for(&upstream, "0s", "[routing.retry]\nbudget_ratio = 0\n").await);
    rest(&gateway).await;
    let probe = rt::spawn({
        let gateway = Rc::clone(&gateway);
        // Refused until the endpoint is half-open.
        async move {
            eventually("a probe", async || gateway.chat(&ask("acme/small")).await.status, |status| *status == 200).await
        }
    });
    assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 2).await, "the probe is out");
    // The tokens that are saved up for attempts past breakers run out first.
    let refused =
        eventually("a refusal", async || gateway.chat(&ask("acme/small")).await.status, |status| *status == 503);
    refused.await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let error = error_of(&reply, 503);
    assert_eq!(error["metadata"]["reason"], "probe_in_flight", "{error}");
    assert_eq!(error["availability"]["excluded_by"], json!(["probe_in_flight"]), "{error}");
    assert_eq!((reply.header("retry-after"), reply.header("x-should-retry")), (Some("1"), None));
    assert_eq!(error["availability"]["retry_after"], 1, "C1: {error}");
    let turn = json!([{"role": "user", "content": "Hi"}]);
    for (door, body, status) in [
        ("/v1/chat/completions", json!({"messages": turn, "stream": true}), 503),
        ("/v1/responses", json!({"input": "Hi"}), 503),
        ("/v1/messages", json!({"messages": turn, "max_tokens": 9}), 529),
    ] {
        let reply = gateway.post(door, &and(body, json!({"model": "acme/small"}))).await;
        assert_eq!(reply.status, status, "{door}: {}", reply.text());
        assert_eq!((reply.header("retry-after"), reply.header("x-should-retry")), (Some("1"), None), "{door}");
        // The Messages API has no member for it.
        let told = if door == "/v1/messages" { Value::Null } else { json!(1) };
        assert_eq!(reply.json()["error"]["availability"]["retry_after"], told, "{door}: {}", reply.text());
    }
    let sentence = explained(&gateway, &reply).await["decision_reason"].as_str().unwrap().to_owned();
    assert!(sentence.contains("this one is being probed"), "{sentence}");
    gate.open();
    assert_eq!(probe.await.unwrap(), 200);
}
