//! Limits of requests.

use std::time::{Duration, Instant};

use actix_web::http::Method;
use serde_json::json;

use crate::{
    harness::{Reply, TestGateway},
    keyless::{provider, simple_model},
    patience::PATIENCE,
    scripted::{Gate, Script, Upstream},
    world::{ask, completion, http, saying},
};

const OTHER_KEY: &str = "sk-other-9876543210fedcba";

/// A gateway before this upstream, with a second key and further lines.
async fn gateway(upstream: &Upstream, more: &str) -> TestGateway {
    let model = simple_model("acme/small", "acme");
    let config = [provider("acme", &upstream.url("")), model, more.to_owned()].concat();
    TestGateway::start_with(&config, &[("OTHER", OTHER_KEY)]).await
}

fn prompt_upstream() -> Upstream {
    saying("This way.")
}

async fn chat_as(gateway: &TestGateway, key: &str) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = ask("acme/small").to_string().into_bytes();
    gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await
}

async fn records(gateway: &TestGateway) -> u64 {
    // A look-up asks the ledger after everything that happened: so does the count behind it.
    gateway.get("/api/v1/generation?id=gen-1763629500-AbCdEfGhIjKlMnOpQrStUv").await.expect(404);
    gateway.get("/health/ready").await.expect(200)["checks"]["ledger"]["records"].as_u64().unwrap()
}

fn number(reply: &Reply, name: &str) -> u64 {
    let text = reply.header(name).unwrap_or_else(|| panic!("{name} is missing: {:?}", reply.headers));
    text.parse().unwrap_or_else(|_| panic!("{name} is {text}"))
}

#[actix_web::test]
async fn requests_over_the_limit_get_429_and_succeed_after_the_time_they_are_told() {
    const LIMIT: u64 = 40;
    let upstream = prompt_upstream();
    let key = format!("[[keys]]\nname = \"other\"\nenv = \"OTHER\"\nrequests_per_minute = {LIMIT}\n");
    let gateway = gateway(&upstream, &key).await;
    let begun = Instant::now();
    let mut served = 0;
    let refused = loop {
        let reply = chat_as(&gateway, OTHER_KEY).await;
        if reply.status == 429 {
            break reply;
        }
        reply.expect(200);
        served += 1;
        assert_eq!(number(&reply, "x-ratelimit-limit-requests"), LIMIT);
        let reset = reply.header("x-ratelimit-reset-requests").unwrap();
        assert!(reset.ends_with('s') && reset.starts_with(|first: char| first.is_ascii_digit()), "{reset}");
        assert!(begun.elapsed() < Duration::from_secs(30), "nothing was ever refused");
    };
    // What came back while the burst was used up passes too.
    let refilled = begun.elapsed().as_secs() * LIMIT / 60 + 1;
    assert!((LIMIT..=LIMIT + refilled).contains(&served), "{served} were served");

    let body = refused.json();
    assert_eq!((&body["error"]["type"], &body["error"]["code"]), (&"rate_limit_error".into(), &429.into()));
    assert_eq!(body["error"]["metadata"]["reason"], "gateway_requests");
    let (seconds, millis) = (number(&refused, "retry-after"), number(&refused, "retry-after-ms"));
    assert!(seconds >= 1 && millis <= seconds * 1000, "{seconds} s, {millis} ms");
    assert_eq!(number(&refused, "x-ratelimit-limit"), LIMIT);
    assert_eq!(number(&refused, "x-ratelimit-remaining"), 0);
    assert_eq!(number(&refused, "x-ratelimit-remaining-requests"), 0);
    assert!(number(&refused, "x-ratelimit-reset") > 1_700_000_000_000, "Unix milliseconds");

    actix_web::rt::time::sleep(Duration::from_secs(seconds)).await;
    chat_as(&gateway, OTHER_KEY).await.expect(200);
    assert_eq!(records(&gateway).await, served + 1, "a refused request must leave no record");
}

#[actix_web::test]
async fn a_limited_key_does_not_hold_up_another_and_previews_count() {
    let upstream = prompt_upstream();
    let gateway = gateway(&upstream, "[[keys]]\nname = \"other\"\nenv = \"OTHER\"\nrequests_per_minute = 1\n").await;
    let bearer = format!("Bearer {OTHER_KEY}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let preview = gateway.call(Method::POST, "/api/v1/route/preview", &headers, Some(b"{}".to_vec())).await;
    preview.expect(200);
    let refused = chat_as(&gateway, OTHER_KEY).await;
    assert_eq!((refused.status, number(&refused, "retry-after")), (429, 60));
    assert_eq!(refused.header("x-ratelimit-reset-requests"), Some("1m0s"));
    gateway.chat(&ask("acme/small")).await.expect(200);
    // Reading is not limited.
    let read = gateway.call(Method::GET, "/api/v1/key", &headers[..1], None).await.expect(200);
    assert_eq!(read["data"]["rate_limit"]["requests"], 1);
}

#[actix_web::test]
async fn the_order_is_key_then_limit_then_content_type() {
    let upstream = prompt_upstream();
    let gateway = gateway(&upstream, "[[keys]]\nname = \"other\"\nenv = \"OTHER\"\nrequests_per_minute = 1\n").await;
    chat_as(&gateway, OTHER_KEY).await.expect(200);
    for (key, status) in [("sk-nobody-0000111122223333", 401), (OTHER_KEY, 429), (crate::harness::KEY, 415)] {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "text/plain")];
        gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(b"{".to_vec())).await.expect(status);
    }
}

/// Holds calls of a key open, so that a further one finds no place.
async fn check_places(more: &str, status: u16, reason: &str) {
    let gate = Gate::new();
    let now = Script::new().request().send(http(200, &completion("Now.")));
    let late = Script::new().request().wait(&gate).send(http(200, &completion("Late."))).repeat(now);
    let upstream = Upstream::start([late]);
    let gateway = gateway(&upstream, more).await;
    let body = ask("acme/small");
    let mut first = Box::pin(gateway.chat(&body));
    let arrived = upstream.eventually(PATIENCE, |log| log.requests.len() == 1);
    tokio::select! {
        reply = &mut first => panic!("answered before its upstream was: {}", reply.status),
        arrived = arrived => assert!(arrived),
    }
    let refused = tokio::select! {
        reply = &mut first => panic!("answered before its upstream was: {}", reply.status),
        refused = gateway.chat(&body) => refused,
    };
    assert!(number(&refused, "retry-after") >= 1);
    assert_eq!(refused.expect(status)["error"]["metadata"]["reason"], reason);
    gate.open();
    first.await.expect(200);
    gateway.chat(&body).await.expect(200);
    assert_eq!(records(&gateway).await, 2);
}

#[actix_web::test]
async fn a_key_over_its_calls_at_a_time_gets_429_until_one_ends() {
    check_places("[limits]\nkey_concurrency = 1\n", 429, "gateway_concurrency").await;
}

#[actix_web::test]
async fn the_time_told_to_a_call_refused_for_concurrency_follows_the_calls_before_that_were_sent_to_a_provider() {
    let pause = Duration::from_millis(1_300);
    let upstream = Upstream::start([
        Script::new().repeat(Script::new().request().pause(pause).send(http(200, &completion("This way."))))
    ]);
    let limits = "[limits]\nconcurrency = 1\n[[keys]]\nname = \"other\"\nenv = \"OTHER\"\nrequests_per_minute = 1\n";
    let gateway = gateway(&upstream, limits).await;
    let body = ask("acme/small");
    chat_as(&gateway, OTHER_KEY).await.expect(200);
    for _ in 0..10 {
        chat_as(&gateway, OTHER_KEY).await.expect(429);
        gateway.chat(&json!({ "model": "acme/small" })).await.expect(400);
        gateway.post("/api/v1/route/preview", &body).await.expect(200);
        gateway.post("/api/v1/messages/count_tokens", &body).await.expect(200);
    }
    let mut second = Box::pin(gateway.chat(&body));
    let arrived = upstream.eventually(PATIENCE, |log| log.requests.len() == 2);
    tokio::select! {
        reply = &mut second => panic!("answered before its upstream was: {}", reply.status),
        arrived = arrived => assert!(arrived),
    }
    let refused = tokio::select! {
        reply = &mut second => panic!("answered before its upstream was: {}", reply.status),
        refused = gateway.chat(&body) => refused,
    };
    refused.expect(503);
    let wait = number(&refused, "retry-after");
    assert!((2..=60).contains(&wait), "the call before took {pause:?}: {wait} s");
    second.await.expect(200);
    gateway.chat(&body).await.expect(200);
}

#[actix_web::test]
async fn a_full_gateway_sheds_load_with_503() {
    check_places("[limits]\nconcurrency = 1\n", 503, "overloaded").await;
}

#[actix_web::test]
async fn the_limit_of_all_keys_together_is_told_as_that_of_a_key() {
    let upstream = prompt_upstream();
    let gateway = gateway(&upstream, "[limits]\nrequests_per_minute = 2\n").await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    gateway.post("/api/v1/route/preview", &json!({})).await.expect(200);
    let refused = gateway.chat(&ask("acme/small")).await;
    assert!(number(&refused, "retry-after") >= 1);
    assert_eq!(number(&refused, "x-ratelimit-limit-requests"), 2);
    assert_eq!(refused.expect(429)["error"]["metadata"]["reason"], "gateway_requests");
}

#[actix_web::test]
async fn a_call_refused_for_concurrency_costs_no_request_of_the_rate_and_says_where_it_stands() {
    let gate = Gate::new();
    let late = Script::new()
        .request()
        .wait(&gate)
        .send(http(200, &completion("Late.")))
        .repeat(Script::new().request().send(http(200, &completion("Now."))));
    let upstream = Upstream::start([late]);
    let key = "[[keys]]\nname = \"other\"\nenv = \"OTHER\"\nrequests_per_minute = 2\nconcurrency = 1\n";
    let gateway = gateway(&upstream, key).await;
    let mut first = Box::pin(chat_as(&gateway, OTHER_KEY));
    let arrived = upstream.eventually(PATIENCE, |log| log.requests.len() == 1);
    tokio::select! {
        reply = &mut first => panic!("answered before its upstream was: {}", reply.status),
        arrived = arrived => assert!(arrived),
    }
    for _ in 0..3 {
        let refused = tokio::select! {
            reply = &mut first => panic!("answered before its upstream was: {}", reply.status),
            refused = chat_as(&gateway, OTHER_KEY) => refused,
        };
        assert_eq!(number(&refused, "x-ratelimit-limit-requests"), 2);
        assert_eq!(number(&refused, "x-ratelimit-remaining-requests"), 1);
        assert_eq!(number(&refused, "x-ratelimit-remaining"), 1);
        assert_eq!(refused.expect(429)["error"]["metadata"]["reason"], "gateway_concurrency");
    }
    gate.open();
    first.await.expect(200);
    chat_as(&gateway, OTHER_KEY).await.expect(200);
}
