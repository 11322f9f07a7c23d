//! A prompt that is too long is told as such (contract 3.2), whoever else may not serve: agents shorten their history
//! on that code, and on no other.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{Model, World, and, ask, error_of, saying},
};

const NARROW: &str = "sk-narrow-0123456789";

/// A free model and a paid one with little room, one with much that is dear and takes no tools, and one that was retired,
/// one that is disabled, one whose provider is off.
async fn small_rooms() -> (TestGateway, Upstream) {
    let upstream = saying("x");
    let few = "context_length = 100";
    let world = World::new()
        .with("[providers.gone]\nbase_url = \"http://127.0.0.1:9/v1\"\nenabled = false")
        .with("[[keys]]\nname = \"narrow\"\nenv = \"NARROW\"\nallowed_models = [\"acme/free\", \"acme/paid\"]")
        .variable("NARROW", NARROW)
        .provider("acme", upstream.address())
        .provider("bolt", upstream.address())
        .model(&Model::new("acme/free").with(few).at("acme", "0", "0"))
        .model(&Model::new("acme/paid").with(few).at("acme", "0.000001", "0.000001"))
        .model(&Model::new("bolt/roomy").taking(&["max_tokens"]).at("bolt", "0.001", "0.001"))
        .model(&Model::new("old/retired").with("expiration_date = 2020-01-01").at("acme", "0", "0"))
        .model(&Model::new("old/off").at("gone", "0", "0"));
    (world.start().await, upstream)
}

fn long(model: &str, more: &Value) -> Value {
    and(and(ask(model), json!({"max_tokens": 5000})), more)
}

fn too_long(error: &Value) {
    assert_eq!(error["metadata"]["error_type"], "context_length_exceeded", "{error}");
    assert_eq!(error["param"], "messages");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("maximum context length is 100 tokens, but about 50"), "{message}");
}

#[actix_web::test]
async fn whoever_is_no_candidate_at_any_length_does_not_hide_that_the_prompt_is_too_long() {
    let (gateway, upstream) = small_rooms().await;
    let tool = json!([{"type": "function", "function": {"name": "look"}}]);
    for (model, more) in [
        ("service/free", json!({})),
        ("service/auto", json!({"allowed_models": ["acme/*"]})),
        ("service/auto", json!({"blocked_models": ["bolt/roomy"]})),
        ("service/auto", json!({"provider": {"only": ["acme"]}})),
        ("service/auto", json!({"provider": {"ignore": ["bolt"]}})),
        ("service/auto", json!({"tools": tool})),
        ("acme/paid", json!({"models": ["acme/free"]})),
    ] {
        too_long(&error_of(&gateway.chat(&long(model, &more)).await, 400));
    }
    let headers = [("authorization", "Bearer sk-narrow-0123456789"), ("content-type", "application/json")];
    let body = long("service/auto", &json!({})).to_string().into_bytes();
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
    too_long(&error_of(&reply, 400));
    assert_eq!(upstream.connections(), 0);
}

/// Where there is room, the caller chooses: a shorter prompt or a higher ceiling.
#[actix_web::test]
async fn a_ceiling_that_refuses_who_has_room_is_told_beside_the_context() {
    let (gateway, _upstream) = small_rooms().await;
    for (more, by) in [
        (json!({"provider": {"max_price": {"prompt": 2}}}), "max_price"),
        (json!({"max_cost_per_1k_tokens": 0.01}), "max_cost_per_1k_tokens"),
    ] {
        let error = error_of(&gateway.chat(&long("service/auto", &more)).await, 404);
        let excluded_by = error["availability"]["excluded_by"].as_array().unwrap();
        assert!([json!("context_length"), json!(by)].iter().all(|reason| excluded_by.contains(reason)), "{error}");
    }
}

#[actix_web::test]
async fn the_limit_that_is_named_is_the_one_that_refused() {
    let upstream = saying("x");
    let model = Model::new("acme/small").with("context_length = 8192\nmax_prompt_tokens = 5000").at("acme", "0", "0");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    let prompt = json!({"messages": [{"role": "user", "content": "x".repeat(30_000)}], "max_tokens": 10});
    let error = error_of(&gateway.chat(&and(ask("acme/small"), prompt)).await, 400);
    assert_eq!(
        error["message"],
        "This model's maximum context length is 5000 tokens for the prompt alone, but about 7514 tokens were requested \
         (7504 in the messages, 10 for the completion)."
    );
    let answer = json!({"max_tokens": 9000});
    let error = error_of(&gateway.chat(&and(ask("acme/small"), answer)).await, 400);
    assert!(error["message"].as_str().unwrap().contains("context length is 8192 tokens, but"), "{error}");
}
