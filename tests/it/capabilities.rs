//! Requests that some endpoints refuse whatever parameters they list: they go elsewhere, and every answer says why.

use serde_json::{Value, json};

use crate::{
    scripted::Upstream,
    world::{World, always, and, ask, completion, error_of},
};

/// `acme/small` at `first`, which is cheaper, with these keys of its endpoint, and at `other`, a plain chat endpoint.
fn world(first: &Upstream, keys: &str, other: &Upstream) -> World {
    let price = |each: &str| format!("pricing = {{ prompt = \"{each}\", completion = \"{each}\" }}");
    let model = format!(
        "[[models]]\nid = \"acme/small\"\ncontext_length = 100000\n\
         supported_parameters = [\"max_tokens\", \"tools\", \"tool_choice\", \"reasoning\"]\n\
         endpoints = [{{ provider = \"first\", {keys}, {} }}, {{ provider = \"other\", upstream_model = \"plain\", {} }}]",
        price("0.000001"),
        price("0.000002")
    );
    World::new().provider("first", first.address()).provider("other", other.address()).with(&model)
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}])
}

#[actix_web::test]
async fn what_an_endpoint_refuses_goes_elsewhere_and_the_reason_is_told() {
    let (first, other) = (always(500, &json!({})), always(200, &completion("Left.")));
    let claude = "dialect = \"anthropic\", upstream_model = \"claude-sonnet-5-5\"";
    let reasoning = "upstream_model = \"gpt-5.6\"";
    let begun =
        json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "The way is"}]});
    for (keys, more, lacks) in [
        (claude, json!({"tools": tools(), "tool_choice": "required"}), "tool_choice.required"),
        (claude, begun.clone(), "prefill"),
        (reasoning, json!({"tools": tools(), "reasoning": {"effort": "low"}}), "tools_with_reasoning"),
        (reasoning, json!({"tools": tools()}), "tools_with_reasoning"),
        ("upstream_model = \"m\", lacks = [\"prefill\"]", begun, "prefill"),
    ] {
        let gateway = world(&first, keys, &other).start().await;
        let asked = and(and(ask("acme/small"), json!({"objective": "cheapest"})), &more);
        let preview = gateway.post("/api/v1/route/preview", &and(asked.clone(), json!({"why_not": "first"}))).await;
        let preview = preview.expect(200);
        assert_eq!(preview["excluded"][0]["reason"], "unsupported_parameter", "{preview}");
        assert_eq!(preview["excluded"][0]["detail"], format!("does not support '{lacks}'"), "{preview}");
        assert!(preview["why_not"].to_string().contains(lacks), "{preview}");
        let reply = gateway.chat(&asked).await;
        reply.expect(200);
        assert_eq!(reply.header("x-route-provider"), Some("Other"), "{keys} {more}");
    }
    assert_eq!(first.connections(), 0);
}

#[actix_web::test]
async fn what_only_sounds_alike_is_served_by_the_endpoint() {
    let (first, other) = (always(200, &completion("Left.")), always(200, &completion("Right.")));
    for (keys, more) in [
        ("upstream_model = \"gpt-5.6\"", json!({"tools": tools(), "reasoning_effort": "none"})),
        ("upstream_model = \"gpt-5.4\"", json!({"tools": tools()})),
        ("upstream_model = \"gpt-5.6\"", json!({"reasoning_effort": "high"})),
        ("upstream_model = \"openai/gpt-5.6\"", json!({"tools": tools()})),
        ("upstream_model = \"gpt-5.6\", lacks = []", json!({"tools": tools()})),
    ] {
        let gateway = world(&first, keys, &other).start().await;
        let reply = gateway.chat(&and(and(ask("acme/small"), json!({"objective": "cheapest"})), &more)).await;
        reply.expect(200);
        assert_eq!(reply.header("x-route-provider"), Some("First"), "{keys} {more}");
    }
}

#[actix_web::test]
async fn a_request_that_every_endpoint_of_its_model_refuses_is_the_clients_mistake() {
    let first = always(500, &json!({}));
    let keys = "upstream_model = \"m\", lacks = [\"tool_choice.required\", \"prefill\"]";
    let price = "pricing = { prompt = \"0\", completion = \"0\" }";
    let model = format!(
        "[[models]]\nid = \"acme/only\"\ncontext_length = 100000\nsupported_parameters = [\"tools\", \"tool_choice\"]\n\
         endpoints = [{{ provider = \"first\", {keys}, {price} }}]"
    );
    let gateway = World::new().provider("first", first.address()).with(&model).start().await;
    let forced = and(ask("acme/only"), json!({"tools": tools(), "tool_choice": "required"}));
    let error = error_of(&gateway.chat(&forced).await, 400);
    assert_eq!(error["param"], "tool_choice", "{error}");
    let begun = json!({"model": "acme/only", "messages": [{"role": "assistant", "content": "The way is"}]});
    let error = error_of(&gateway.chat(&begun).await, 400);
    assert_eq!(error["param"], "messages", "{error}");
}
