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
         supported_parameters = [\"max_tokens\", \"tools\", \"tool_choice\", \"reasoning\", \"structured_outputs\"]\n\
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
    let old_claude = "dialect = \"anthropic\", upstream_model = \"claude-sonnet-4-20250514\"";
    let gemini = "dialect = \"gemini\", upstream_model = \"gemini-2.5-flash\"";
    let closed = json!({"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]});
    let reasoning = "upstream_model = \"gpt-5.6\"";
    let begun =
        json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "The way is"}]});
    for (keys, more, lacks) in [
        (claude, json!({"tools": tools(), "tool_choice": "required"}), "tool_choice.required"),
        (claude, begun.clone(), "prefill"),
        (reasoning, json!({"tools": tools(), "reasoning": {"effort": "low"}}), "tools_with_reasoning"),
        (reasoning, json!({"tools": tools()}), "tools_with_reasoning"),
        ("upstream_model = \"m\", lacks = [\"prefill\"]", begun, "prefill"),
        ("upstream_model = \"m\", lacks = [\"custom_tools\"]", json!({"tools": custom()}), "custom_tools"),
        (old_claude, strict(&closed), "json_schema.strict"),
        (claude, strict(&json!({"type": "object", "properties": {"next": {"$ref": "#"}}})), "json_schema.open"),
        (claude, strict(&json!({"type": "object", "additionalProperties": {"type": "string"}})), "json_schema.open"),
        (claude, strict(&with_optional(25)), "json_schema.more_than_24_optional"),
        (gemini, and(strict(&closed), json!({"tools": tools()})), "json_schema.strict"),
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

fn custom() -> Value {
    json!([{"type": "custom", "custom": {"name": "patch"}}])
}

/// A schema with so many properties that are not required.
fn with_optional(count: usize) -> Value {
    let properties: Value = (0..count).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties})
}

#[actix_web::test]
async fn a_schema_with_too_many_optional_properties_is_named_with_the_limit() {
    let first = always(200, &completion("Left."));
    let model = "[[models]]\nid = \"acme/claude\"\ncontext_length = 100000\nsupported_parameters = [\"structured_outputs\"]\n\
                 endpoints = [{ provider = \"first\", dialect = \"anthropic\", upstream_model = \"claude-opus-5\", pricing = { prompt = \"0\", completion = \"0\" } }]";
    let gateway = World::new().provider("first", first.address()).with(model).start().await;
    let mut asked = and(ask("acme/claude"), strict(&with_optional(30)));
    asked["response_format"]["json_schema"]["name"] = json!("report");
    let error = error_of(&gateway.chat(&asked).await, 400);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("'report'") && message.contains("30") && message.contains("at most 24"), "{error}");
    assert_eq!(error["param"], "response_format", "{error}");
    assert_eq!(first.connections(), 0);
}

fn strict(schema: &Value) -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": schema}}})
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
    let keys = "upstream_model = \"m\", lacks = [\"tool_choice.required\", \"prefill\", \"custom_tools\", \"json_schema.strict\"]";
    let price = "pricing = { prompt = \"0\", completion = \"0\" }";
    let model = format!(
        "[[models]]\nid = \"acme/only\"\ncontext_length = 100000\nsupported_parameters = [\"tools\", \"tool_choice\", \"structured_outputs\"]\n\
         endpoints = [{{ provider = \"first\", {keys}, {price} }}]"
    );
    let gateway = World::new().provider("first", first.address()).with(&model).start().await;
    let forced = and(ask("acme/only"), json!({"tools": tools(), "tool_choice": "required"}));
    let error = error_of(&gateway.chat(&forced).await, 400);
    assert_eq!(error["param"], "tool_choice", "{error}");
    let begun = json!({"model": "acme/only", "messages": [{"role": "assistant", "content": "The way is"}]});
    let error = error_of(&gateway.chat(&begun).await, 400);
    assert_eq!(error["param"], "messages", "{error}");
    let error = error_of(&gateway.chat(&and(ask("acme/only"), json!({"tools": custom()}))).await, 400);
    assert_eq!(error["param"], "tools", "{error}");
    let schema = json!({"type": "object", "properties": {}});
    let error = error_of(&gateway.chat(&and(ask("acme/only"), strict(&schema))).await, 400);
    assert_eq!(error["param"], "response_format", "{error}");
    // The field has the name that it has at the client's door.
    let format = json!({"format": {"type": "json_schema", "name": "a", "strict": true, "schema": schema}});
    let response = json!({"model": "acme/only", "input": "Hi", "text": format});
    let error = error_of(&gateway.post("/v1/responses", &response).await, 400);
    assert_eq!(error["param"], "text.format", "{error}");
    let loose = json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}});
    assert_eq!(gateway.chat(&and(ask("acme/only"), loose)).await.status, 502, "it is asked, and fails");
}

#[actix_web::test]
async fn a_document_never_reaches_a_model_that_takes_none_also_not_as_a_fallback() {
    let (reader, blind) = (always(503, &json!({})), always(200, &completion("I see nothing.")));
    let model = |id: &str, provider: &str, takes: &str| {
        format!(
            "[[models]]\nid = \"{id}\"\ncontext_length = 100000\ninput_modalities = [{takes}]\nendpoints = [{{ provider = \
             \"{provider}\", upstream_model = \"m\", pricing = {{ prompt = \"0\", completion = \"0\" }} }}]\n"
        )
    };
    let models = model("acme/reader", "reader", "\"text\", \"file\"") + &model("acme/blind", "blind", "\"text\"");
    let world = World::new().provider("reader", reader.address()).provider("blind", blind.address());
    let gateway = world.with(&models).start().await;
    let file =
        json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}});
    let asked =
        json!({"model": "acme/reader", "models": ["acme/blind"], "messages": [{"role": "user", "content": [file]}]});
    assert_eq!(gateway.chat(&asked).await.status, 503);
    assert_eq!((reader.connections() > 0, blind.connections()), (true, 0));
}
