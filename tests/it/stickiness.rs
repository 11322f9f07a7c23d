//! Conversations stay where their prompt is cached, as far as that pays: by `session_id`, by how they begin, never pinned.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, TestGateway},
    patience::{eventually, until},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{Model, World, answer, ask, error_of, http},
};

/// A second key, for a caller of its own.
const OTHER: &str = "sk-other-0123456789abcdef";

/// An upstream that counted so many prompt tokens and read so many from its cache.
fn caching(prompt: u64, cached: u64) -> Upstream {
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5,
        "prompt_tokens_details": {"cached_tokens": cached}});
    let message = json!({"role": "assistant", "content": "onwards"});
    Upstream::start([Script::answering(http(200, &answer(message, usage)))])
}

/// One model at two providers; `dear` costs a tenth more, and both charge a tenth for cached input.
async fn cheap_and_dear(cached: u64, more: &str) -> (TestGateway, [Upstream; 2]) {
    let upstreams = [caching(2000, cached), caching(2000, cached)];
    let shared = Model::new("acme/shared")
        .priced("cheap", "prompt = \"0.000010\", completion = \"0.00001\", input_cache_read = \"0.000001\"")
        .priced("dear", "prompt = \"0.000011\", completion = \"0.00001\", input_cache_read = \"0.0000011\"");
    let world = World::new().provider("cheap", upstreams[0].address()).provider("dear", upstreams[1].address());
    let keys = "[[keys]]\nname = \"other\"\nenv = \"OTHER_KEY\"\n";
    let world = world.model(&shared).with(keys).with(more).variable("OTHER_KEY", OTHER);
    (world.start().await, upstreams)
}

/// A turn of a conversation that begins with these instructions (some thousand tokens) and words.
fn turn(instructions: &str, first: &str, more: Value) -> Value {
    let system = instructions.repeat(8000 / instructions.len());
    let mut request = ask("acme/shared");
    request["messages"] = json!([{"role": "system", "content": system}, {"role": "user", "content": first}]);
    request["objective"] = json!("cheapest");
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

/// The same conversation a turn later.
fn later(mut request: Value) -> Value {
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "onwards"}));
    messages.push(json!({"role": "user", "content": "And then?"}));
    request
}

/// Who serves it, and the decision's code.
async fn served(gateway: &TestGateway, request: &Value, headers: &[(&str, &str)]) -> (String, String) {
    let all = [&[("content-type", "application/json")], headers].concat();
    let path = "/api/v1/chat/completions";
    let reply = gateway.call(actix_web::http::Method::POST, path, &all, Some(request.to_string().into_bytes())).await;
    let header = |name| reply.header(name).unwrap_or_else(|| panic!("{}", reply.text())).to_lowercase();
    (header("x-route-provider"), header("x-route-reason"))
}

async fn goes(gateway: &TestGateway, request: &Value) -> (String, String) {
    served(gateway, request, &[]).await
}

fn at(provider: &str, code: &str) -> (String, String) {
    (provider.to_owned(), code.to_owned())
}

/// Sends a turn to the dear one, as an order of providers would.
async fn to_dear(gateway: &TestGateway, mut request: Value) {
    request["provider"] = json!({"only": ["dear"]});
    assert_eq!(goes(gateway, &request).await.0, "dear");
}

#[actix_web::test]
async fn the_next_turn_goes_where_the_prompt_is_cached() {
    let (gateway, _upstreams) = cheap_and_dear(1900, "").await;
    let first = turn("Be brief. ", "Which way?", json!({}));
    assert_eq!(goes(&gateway, &first).await, at("cheap", "fixed_model"));
    to_dear(&gateway, turn("Be kind. ", "Which way?", json!({}))).await;
    let next = later(turn("Be kind. ", "Which way?", json!({})));
    let preview = gateway.post("/api/v1/route/preview", &next).await.expect(200);
    assert_eq!(preview["decision_code"], "session_sticky", "{preview}");
    assert_eq!(goes(&gateway, &next).await, at("dear", "session_sticky"));
    assert_eq!(goes(&gateway, &later(next)).await, at("dear", "session_sticky"), "turn after turn");
}

#[actix_web::test]
async fn a_session_is_known_by_its_id_in_body_or_header() {
    let (gateway, _upstreams) = cheap_and_dear(1900, "").await;
    to_dear(&gateway, turn("Be kind. ", "Which way?", json!({"session_id": "s-1"}))).await;
    let other_words = |id: Value| turn("Be brief. ", "What time?", json!({"session_id": id}));
    assert_eq!(goes(&gateway, &other_words(json!("s-1"))).await, at("dear", "session_sticky"));
    let silent = turn("Be quick. ", "How far?", json!({}));
    assert_eq!(served(&gateway, &silent, &[("x-session-id", "s-1")]).await, at("dear", "session_sticky"));
    assert_eq!(goes(&gateway, &turn("Be bold. ", "Who?", json!({"session_id": "s-2"}))).await.0, "cheap");
    let long = "s".repeat(257);
    let bearer = format!("Bearer {KEY}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json"), ("x-session-id", &*long)];
    let silent = Some(silent.to_string().into_bytes());
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, silent).await;
    assert_eq!(error_of(&reply, 400)["param"], "x-session-id");
}

#[actix_web::test]
async fn requests_with_the_same_long_instructions_meet() {
    let (gateway, _upstreams) = cheap_and_dear(1900, "").await;
    to_dear(&gateway, turn("Be kind. ", "Which way?", json!({}))).await;
    assert_eq!(goes(&gateway, &turn("Be kind. ", "What time?", json!({}))).await, at("dear", "session_sticky"));
}

#[actix_web::test]
async fn callers_never_share_and_a_preview_leaves_nothing() {
    let (gateway, _upstreams) = cheap_and_dear(1900, "").await;
    let mine = turn("Be kind. ", "Which way?", json!({"session_id": "s-1"}));
    let mut previewed = mine.clone();
    previewed["provider"] = json!({"only": ["dear"]});
    gateway.post("/api/v1/route/preview", &previewed).await.expect(200);
    assert_eq!(goes(&gateway, &turn("Be kind. ", "Which way?", json!({"session_id": "s-2"}))).await.0, "cheap");
    to_dear(&gateway, mine.clone()).await;
    let other = format!("Bearer {OTHER}");
    assert_eq!(served(&gateway, &mine, &[("authorization", &other)]).await.0, "cheap");
    assert_eq!(served(&gateway, &mine, &[("authorization", &format!("Bearer {KEY}"))]).await.0, "dear");
}

#[actix_web::test]
async fn short_prompts_and_a_gateway_that_was_told_not_to_remember_do_not_stick() {
    let (gateway, _upstreams) = cheap_and_dear(1900, "").await;
    let mut short = ask("acme/shared");
    short["objective"] = json!("cheapest");
    to_dear(&gateway, short.clone()).await;
    assert_eq!(goes(&gateway, &short).await.0, "cheap");
    let (gateway, _upstreams) = cheap_and_dear(1900, "[routing.sticky]\nenabled = false\n").await;
    to_dear(&gateway, turn("Be kind. ", "Which way?", json!({}))).await;
    assert_eq!(goes(&gateway, &turn("Be kind. ", "Which way?", json!({}))).await.0, "cheap");
}

/// Worth a bonus, not a pin: an endpoint that reads nothing from its cache loses it, and one that fails is left.
#[actix_web::test]
async fn a_cache_that_holds_nothing_is_soon_expected_to() {
    let (gateway, _upstreams) = cheap_and_dear(0, "").await;
    let turns = turn("Be kind. ", "Which way?", json!({}));
    to_dear(&gateway, turns.clone()).await;
    for _ in 0..40 {
        let before = gateway.snapshot_version();
        if goes(&gateway, &turns).await.0 != "dear" {
            return;
        }
        until("the routing hears of it", || gateway.snapshot_version() > before).await;
    }
    panic!("it stayed for forty turns");
}

#[actix_web::test]
async fn a_conversation_leaves_an_endpoint_that_fails() {
    let usage = json!({"prompt_tokens": 2000, "completion_tokens": 5, "total_tokens": 2005});
    let good = http(200, &answer(json!({"role": "assistant", "content": "x"}), usage));
    let broken = http(500, &json!({"error": {"message": "no"}}));
    let dying = Script::new().request().send(good).repeat(Script::new().request().send(broken));
    let (cheap, dear) = (caching(2000, 0), Upstream::start([dying]));
    let shared = Model::new("acme/shared").at("cheap", "0.00001", "0.00001").at("dear", "0.000011", "0.00001");
    let world = World::new().provider("cheap", cheap.address()).provider("dear", dear.address());
    let gateway = world.model(&shared).start().await;
    let turns = turn("Be kind. ", "Which way?", json!({}));
    to_dear(&gateway, turns.clone()).await;
    for _ in 0..6 {
        assert_eq!(goes(&gateway, &turns).await.0, "cheap");
    }
}

/// A stream that was left behind its first content has filled the cache all the same.
#[actix_web::test]
async fn a_conversation_that_was_broken_off_goes_on_where_it_was() {
    let content = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "onwards"}, "finish_reason": null}]});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let endless = || Upstream::start([Script::new().request().send(format!("{head}data: {content}\n\n"))]);
    let upstreams = [endless(), endless()];
    let price = |input: &str| {
        format!("prompt = \"0.0000{input}\", completion = \"0.00001\", input_cache_read = \"0.00000{input}\"")
    };
    let shared = Model::new("acme/shared").priced("cheap", &price("10")).priced("dear", &price("11"));
    let world = World::new().provider("cheap", upstreams[0].address()).provider("dear", upstreams[1].address());
    let gateway = world.model(&shared).start().await;
    let first = turn("Be kind. ", "Which way?", json!({"stream": true}));
    let mut sent = first.clone();
    sent["provider"] = json!({"only": ["dear"]});
    let mut client = RawClient::chat(&gateway, &sent).await;
    client.until("onwards").await;
    client.hang_up();
    let next = later(first);
    let code = async || gateway.post("/api/v1/route/preview", &next).await.expect(200)["decision_code"].take();
    eventually("it is remembered where it was", code, |code| code == "session_sticky").await;
}

/// Long prompts take long here although they were cached: if they counted, a slope would be learned.
#[actix_web::test]
async fn what_was_read_from_a_cache_teaches_nothing_about_long_prompts() {
    let told = |prompt: u64, cached: u64| {
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1,
            "prompt_tokens_details": {"cached_tokens": cached}});
        http(200, &answer(json!({"role": "assistant", "content": "x"}), usage))
    };
    let both = Script::new().request().send(told(10, 0)).request().pause(Duration::from_millis(40));
    let upstream = Upstream::start([Script::new().repeat(both.send(told(4010, 4000)))]);
    let world = World::new().provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/shared").at("acme", "0.00001", "0.00001")).start().await;
    for _ in 0..20 {
        gateway.chat(&ask("acme/shared")).await.expect(200);
        gateway.chat(&turn("Be kind. ", "Which way?", json!({}))).await.expect(200);
    }
    let first_token = async |request: &Value| {
        let preview = gateway.post("/api/v1/route/preview", request).await.expect(200);
        preview["candidates"][0]["predicted"]["ttft_ms"]["p50"].as_f64().unwrap()
    };
    let (short, long) = (ask("acme/shared"), turn("Be quick. ", "How far?", json!({})));
    let (short, long) = (first_token(&short).await, first_token(&long).await);
    assert!(long < 1.1 * short, "{short} ms, {long} ms with a long prompt");
}
