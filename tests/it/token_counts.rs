//! `POST /messages/count_tokens` and `/responses/input_tokens` where a provider counts the tokens of its models.

use std::time::{Duration, Instant};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::{Script, Upstream},
    world::{World, always, http, provider_key},
};

/// `acme/claude` at providers with these keys of their tables, the first of which is the cheapest.
async fn gateway(providers: &[(&Upstream, &str, &str)]) -> TestGateway {
    let mut world = World::new();
    let mut endpoints = Vec::new();
    for (place, (upstream, toml, model)) in providers.iter().enumerate() {
        let slug = format!("maker{place}");
        world = world.provider_with(&slug, upstream.address(), toml);
        endpoints.push(format!(
            "{{ provider = \"{slug}\", upstream_model = \"{model}\", pricing = {{ prompt = \"0.00000{place}1\", completion = \
             \"0.000002\" }} }}"
        ));
    }
    world
        .with(&format!(
            "[[models]]\nid = \"acme/claude\"\ncontext_length = 100000\n\
             supported_parameters = [\"max_tokens\", \"temperature\"]\nendpoints = [{}]",
            endpoints.join(", ")
        ))
        .start()
        .await
}

fn request() -> Value {
    json!({
        "model": "acme/claude", "system": "Be brief.", "max_tokens": 64, "temperature": 0.5, "metadata": {"user_id": "u"},
        "objective": "cheapest",
        "messages": [{"role": "user", "content": "Which way?"}],
    })
}

const ANTHROPIC: &str = "dialect = \"anthropic\"";

#[actix_web::test]
async fn anthropic_counts_the_clients_own_prompt_without_what_only_an_answer_needs() {
    let maker = always(200, &json!({"input_tokens": 4321}));
    let gateway = gateway(&[(&maker, ANTHROPIC, "claude-x")]).await;
    let headers = [
        ("content-type", "application/json"),
        ("anthropic-beta", "token-counting-2024-11-01"),
        ("anthropic-version", "2026-10-21"),
    ];
    let body = Some(request().to_string().into_bytes());
    let reply = gateway.call(Method::POST, "/v1/messages/count_tokens", &headers, body).await;
    assert_eq!(reply.expect(200), json!({"input_tokens": 4321}));
    assert_eq!(reply.header("x-route-usage"), None);
    let sent = maker.requests().remove(0);
    assert!(sent.starts_with("POST /v1/messages/count_tokens HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains(&format!("x-api-key: {}\r\n", provider_key("maker0"))), "{sent}");
    assert!(sent.contains("anthropic-beta: token-counting-2024-11-01\r\n"), "{sent}");
    assert!(sent.contains("anthropic-version: 2026-10-21\r\n"), "{sent}");
    let expected = json!({"model": "claude-x", "system": "Be brief.", "messages": request()["messages"]});
    assert_eq!(maker.last_body(), expected);
    let responses = json!({"model": "acme/claude", "input": "Which way?"});
    let answer = gateway.post("/v1/responses/input_tokens", &responses).await.expect(200);
    assert_eq!(answer, json!({"object": "response.input_tokens", "input_tokens": 4321}));
    assert_eq!(reply.header("x-generation-id"), None, "a count is no generation");
}

#[actix_web::test]
async fn every_api_counts_in_its_own_form() {
    let cases = [
        (
            "dialect = \"converse\"",
            "us.anthropic.claude-x",
            json!({"inputTokens": 7}),
            "/v1/model/us.anthropic.claude-x/count-tokens",
        ),
        (
            "dialect = \"anthropic\"\nroutes = \"bedrock\"\nauth = \"bearer\"",
            "anthropic.claude-x",
            json!({"inputTokens": 7}),
            "/v1/model/anthropic.claude-x/count-tokens",
        ),
        (
            "dialect = \"anthropic\"\nroutes = \"vertex\"\nauth = \"bearer\"",
            "claude-x",
            json!({"input_tokens": 7}),
            "/v1/models/count-tokens:rawPredict",
        ),
        ("dialect = \"gemini\"", "gemini-x", json!({"totalTokens": 7}), "/v1/models/gemini-x:countTokens"),
        (
            "dialect = \"openai-responses\"",
            "gpt-5.6",
            json!({"object": "response.input_tokens", "input_tokens": 7}),
            "/v1/responses/input_tokens",
        ),
    ];
    for (toml, model, answer, path) in cases {
        let maker = always(200, &answer);
        let gateway = gateway(&[(&maker, toml, model)]).await;
        let reply = gateway.post("/v1/messages/count_tokens", &request()).await;
        assert_eq!(reply.expect(200), json!({"input_tokens": 7}), "{toml}");
        let sent = maker.requests().remove(0);
        assert!(sent.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{sent}");
    }
}

#[actix_web::test]
async fn whatever_the_provider_does_the_client_gets_at_least_the_estimate() {
    let estimate = {
        let maker = always(500, &json!({}));
        let gateway = gateway(&[(&maker, "dialect = \"anthropic\"\ncount_tokens = \"estimate\"", "claude-x")]).await;
        let reply = gateway.post("/v1/messages/count_tokens", &request()).await;
        assert_eq!((reply.header("x-route-usage"), maker.connections()), (Some("estimated"), 0));
        reply.expect(200)
    };
    let error = json!({"type": "error", "error": {"type": "not_found_error", "message": "Not found"}});
    let stubborn = [
        Script::answering(http(404, &error)),
        Script::answering(http(429, &error)),
        Script::answering(http(500, &error)),
        Script::answering(http(200, &json!({"input_tokens": "many"}))),
        Script::answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nno JSON!!"),
        Script::new().request().reset(),
    ];
    for script in stubborn {
        let maker = Upstream::start([script]);
        let gateway = gateway(&[(&maker, ANTHROPIC, "claude-x")]).await;
        let reply = gateway.post("/v1/messages/count_tokens", &request()).await;
        assert_eq!(reply.expect(200), estimate);
        assert_eq!(reply.header("x-route-usage"), Some("estimated"));
        assert_eq!(maker.requests().len(), 1);
    }
}

#[actix_web::test]
async fn a_provider_that_does_not_answer_is_waited_for_two_seconds() {
    let silent = Upstream::start([Script::new().request()]);
    let gateway = gateway(&[(&silent, ANTHROPIC, "claude-x")]).await;
    let asked = Instant::now();
    let reply = gateway.post("/v1/messages/count_tokens", &request()).await;
    assert_eq!((reply.status, reply.header("x-route-usage")), (200, Some("estimated")));
    assert!((Duration::from_secs(2)..Duration::from_secs(20)).contains(&asked.elapsed()), "{:?}", asked.elapsed());
}

#[actix_web::test]
async fn the_prompt_for_an_unknown_model_is_not_counted() {
    let maker = always(200, &json!({"input_tokens": 4321}));
    let gateway = gateway(&[(&maker, ANTHROPIC, "claude-x")]).await;
    let messages = json!({"model": "acme/unknown", "messages": [{"role": "user", "content": "Hi"}]});
    let error = gateway.post("/v1/messages/count_tokens", &messages).await.expect(404);
    assert_eq!(error["error"]["details"]["error_code"], "model_not_found");
    let responses = json!({"model": "acme/unknown", "input": "Hi"});
    let error = gateway.post("/v1/responses/input_tokens", &responses).await.expect(404);
    assert_eq!(error["error"]["metadata"]["reason"], "model_not_found");
    assert_eq!(maker.connections(), 0);
}

#[actix_web::test]
async fn only_a_fixed_model_is_counted_and_only_by_those_who_count() {
    let chat = always(500, &json!({}));
    let maker = always(200, &json!({"input_tokens": 4321}));
    let gateway = gateway(&[(&chat, "", "claude-x"), (&maker, ANTHROPIC, "claude-x")]).await;
    let count = async |request: &Value| gateway.post("/v1/messages/count_tokens", request).await.expect(200);
    assert_eq!(count(&request()).await, json!({"input_tokens": 4321}), "the cheaper endpoint counts nothing");
    assert_eq!(chat.connections(), 0);
    let with = |name: &str, value: Value| {
        let mut request = request();
        request[name] = value;
        request
    };
    for elsewhere in [
        with("model", json!("service/auto")),
        with("models", json!(["service/auto"])),
        with("provider", json!({"only": ["maker0"]})),
    ] {
        let estimate = count(&elsewhere).await["input_tokens"].as_u64().unwrap();
        assert!((1..100).contains(&estimate), "{elsewhere}: {estimate}");
    }
    assert_eq!(maker.requests().len(), 1);
}
