//! What is refused before anybody is asked.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::Upstream,
    world::{Model, World, and, ask, completion, error_of, one_model, raw, saying},
};

/// Every `request` must be refused with 400, naming `param`, for `reason`; nothing may reach the upstream.
async fn refused(cases: &[(Value, Option<&str>, &str)]) {
    let (gateway, upstream) = one_model(&completion("Hello")).await;
    for (request, param, reason) in cases {
        for path in ["/api/v1/chat/completions", "/api/chat/completions", "/v1/chat/completions"] {
            let error = error_of(&gateway.post(path, request).await, 400);
            assert_eq!(error["param"], json!(param), "{request}: {error}");
            assert_eq!(error["metadata"]["reason"], *reason, "{request}: {error}");
            assert_eq!(error["type"], "invalid_request_error", "{request}");
        }
    }
    assert_eq!(upstream.connections(), 0);
}

fn with_messages(messages: Value) -> Value {
    json!({"model": "acme/small", "messages": messages})
}

/// What a client forgot is told, not what a parser found in its place.
#[actix_web::test]
async fn an_empty_body_is_called_empty() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    for path in ["/api/v1/chat/completions", "/api/v1/route/preview", "/api/v1/images/generations"] {
        for body in ["", " \r\n"] {
            let headers = [("content-type", "application/json")];
            let error = error_of(&gateway.call(Method::POST, path, &headers, Some(body.into())).await, 400);
            assert_eq!((&error["param"], &error["metadata"]["reason"]), (&Value::Null, &json!("invalid_json")));
            assert!(error["message"].as_str().unwrap().contains("the body is empty at line 1"), "{error}");
        }
    }
}

#[actix_web::test]
async fn missing_or_empty_messages_are_a_400() {
    refused(&[
        (json!({"model": "acme/small"}), Some("messages"), "missing_field"),
        (with_messages(Value::Null), Some("messages"), "missing_field"),
        (with_messages(json!([])), Some("messages"), "invalid_value"),
        (with_messages(json!("hello")), Some("messages"), "invalid_type"),
        (with_messages(json!({"role": "user"})), Some("messages"), "invalid_type"),
        (with_messages(json!(["hello"])), Some("messages[0]"), "invalid_type"),
    ])
    .await;
}

#[actix_web::test]
async fn a_missing_model_without_models_is_a_400() {
    let messages = json!([{"role": "user", "content": "x"}]);
    refused(&[
        (json!({"messages": messages}), Some("model"), "missing_field"),
        (json!({"messages": messages, "model": null, "models": []}), Some("model"), "missing_field"),
        (json!({"messages": messages, "model": ""}), Some("model"), "invalid_value"),
        (json!({"messages": messages, "model": "x".repeat(257)}), Some("model"), "invalid_value"),
        (json!({"messages": messages, "model": 7}), Some("model"), "invalid_type"),
    ])
    .await;
}

#[actix_web::test]
async fn models_alone_name_a_model() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    let request = json!({"models": ["acme/small"], "messages": [{"role": "user", "content": "x"}]});
    assert_eq!(gateway.chat(&request).await.expect(200)["model"], "acme/small");
}

#[actix_web::test]
async fn an_unknown_role_is_a_400_that_says_where() {
    let good = json!({"role": "user", "content": "x"});
    refused(&[
        (with_messages(json!([{"role": "robot", "content": "x"}])), Some("messages[0].role"), "invalid_value"),
        (
            with_messages(json!([good, good, {"role": "User", "content": "x"}])),
            Some("messages[2].role"),
            "invalid_value",
        ),
        (with_messages(json!([good, {"content": "x"}])), Some("messages[1].role"), "missing_field"),
    ])
    .await;
}

/// Answers that say nothing come back so; messages of others must have content.
#[actix_web::test]
async fn a_message_without_content_is_a_400_unless_it_is_of_an_assistant() {
    refused(&[
        (with_messages(json!([{"role": "user", "content": null}])), Some("messages[0].content"), "missing_field"),
        (with_messages(json!([{"role": "user", "content": []}])), Some("messages[0].content"), "invalid_value"),
        (with_messages(json!([{"role": "user", "content": 7}])), Some("messages[0].content"), "invalid_type"),
    ])
    .await;
}

#[actix_web::test]
async fn an_assistant_message_with_tool_calls_is_forwarded_with_its_null_content() {
    let (gateway, upstream) = one_model(&completion("Hello")).await;
    let calls = json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let turn = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "7"});
    gateway.chat(&with_messages(json!([{"role": "user", "content": "x"}, turn, result]))).await.expect(200);
    let sent = upstream.last_body();
    assert_eq!(sent["messages"][1], turn);
    assert!(sent["messages"][1].as_object().unwrap().contains_key("content"));
}

#[actix_web::test]
async fn a_tool_message_without_a_tool_call_id_is_a_400() {
    let after = |message: Value| with_messages(json!([{"role": "user", "content": "x"}, message]));
    let place = Some("messages[1].tool_call_id");
    refused(&[
        (after(json!({"role": "tool", "content": "7"})), place, "missing_field"),
        (after(json!({"role": "tool", "content": "7", "tool_call_id": null})), place, "missing_field"),
    ])
    .await;
}

/// Arguments that are no string are refused.
#[actix_web::test]
async fn tool_calls_of_the_wrong_shape_are_a_400_that_says_where() {
    let turn = |call: Value| with_messages(json!([{"role": "assistant", "content": null, "tool_calls": [call]}]));
    let call = |function: Value| turn(json!({"id": "c", "type": "function", "function": function}));
    let whole = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}});
    let place = Some("messages[0].tool_calls[0].function.arguments");
    refused(&[
        (call(json!({"name": "f", "arguments": {"a": 1}})), place, "invalid_type"),
        (call(json!({"name": "f"})), place, "missing_field"),
        (call(json!({"arguments": ""})), Some("messages[0].tool_calls[0].function.name"), "missing_field"),
        (
            with_messages(json!([{"role": "user", "content": "x", "tool_calls": [whole]}])),
            Some("messages[0].tool_calls"),
            "invalid_value",
        ),
    ])
    .await;
}

#[actix_web::test]
async fn a_broken_part_is_a_400_that_says_where() {
    let parts =
        |parts: Value| with_messages(json!([{"role": "user", "content": "x"}, {"role": "user", "content": parts}]));
    let text = json!({"type": "text", "text": "x"});
    refused(&[
        (parts(json!([text, {"text": "x"}])), Some("messages[1].content[1].type"), "missing_field"),
        (
            parts(json!([{"type": "image_url", "image_url": {}}])),
            Some("messages[1].content[0].image_url.url"),
            "missing_field",
        ),
        (
            parts(json!([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}])),
            Some("messages[1].content[0].image_url.url"),
            "invalid_value",
        ),
    ])
    .await;
}

#[actix_web::test]
async fn what_is_not_understood_goes_to_endpoints_that_speak_chat_and_to_no_other() {
    let (claude, chat) = (saying("claude"), saying("chat"));
    let world = World::new().provider_with("acme", claude.address(), "dialect = \"anthropic\"");
    let world = world.provider("bolt", chat.address());
    let model = |id: &str| Model::new(id).taking(&["tools", "tool_choice", "response_format"]);
    let world = world.model(&model("acme/claude").at("acme", "0.001", "0.001"));
    let gateway = world.model(&model("bolt/chat").at("bolt", "0.1", "0.1")).start().await;
    let smell = json!([{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "smell", "smell": 1}]}]);
    let tools = json!([{"type": "function", "function": {"name": "f"}}, {"type": "web", "web": {"name": "f"}}]);
    for (more, param, reason, message) in [
        (
            json!({"messages": smell}),
            "messages[0].content[1].type",
            "invalid_prompt",
            "Unknown content part type 'smell'.",
        ),
        (
            json!({"tools": tools}),
            "tools[1].type",
            "invalid_request",
            "Unknown value 'web' in 'tools[1].type'. Allowed: function, custom.",
        ),
        (
            json!({"tool_choice": {"type": "any"}, "tools": [tools[0]]}),
            "tool_choice.type",
            "invalid_request",
            "Unknown value 'any' in 'tool_choice.type'. Allowed: function, custom, allowed_tools.",
        ),
        (
            json!({"response_format": {"type": "regex", "pattern": "a+"}}),
            "response_format.type",
            "invalid_request",
            "Unknown value 'regex' in 'response_format.type'. Allowed: text, json_object, json_schema.",
        ),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "type": "web", "web": {"q": 1.0}}]},
                                {"role": "tool", "tool_call_id": "a", "content": "x"}]}),
            "messages[0].tool_calls[0].type",
            "invalid_prompt",
            "Only tool calls of the types 'function' and 'custom' are supported.",
        ),
    ] {
        let more = and(more, json!({"objective": "cheapest"}));
        let served = gateway.chat(&and(ask("service/auto"), more.clone())).await.expect(200);
        assert_eq!(served["model"], "bolt/chat");
        for name in ["messages", "tools", "tool_choice", "response_format"] {
            assert!(more.get(name).is_none() || chat.last_body()[name] == more[name], "{name}");
        }
        let preview = gateway.post("/api/v1/route/preview", &and(ask("service/auto"), more.clone())).await.text();
        assert!(preview.contains(&format!("does not support '{param}'")), "{preview}");
        let none_left = json!({"provider": {"only": ["acme"]}});
        for request in [and(ask("acme/claude"), more.clone()), and(and(ask("service/auto"), more.clone()), none_left)] {
            let error = error_of(&gateway.chat(&request).await, 400);
            let said =
                (&error["param"], &error["metadata"]["reason"], &error["metadata"]["error_type"], &error["message"]);
            assert_eq!(said, (&json!(param), &json!("invalid_value"), &json!(reason), &json!(message)));
        }
    }
    assert_eq!(claude.connections(), 0);
}

#[actix_web::test]
async fn tools_for_a_model_without_them_are_a_400_and_an_alias_passes_it_over() {
    let (plain, able) = (saying("plain"), saying("able"));
    let world = World::new().provider("acme", plain.address()).provider("bolt", able.address());
    let world = world.model(&Model::new("acme/plain").taking(&["max_tokens"]).at("acme", "0.001", "0.001"));
    let gateway = world.model(&Model::new("bolt/able").at("bolt", "0.1", "0.1")).start().await;
    let tools = json!({"objective": "cheapest", "tools": [{"type": "function", "function": {"name": "f"}}]});
    let error = error_of(&gateway.chat(&and(ask("acme/plain"), tools.clone())).await, 400);
    assert_eq!((&error["param"], &error["metadata"]["reason"]), (&json!("tools"), &json!("unsupported_parameter")));
    assert_eq!(error["message"], "Model 'acme/plain' does not support tools.");
    for _ in 0..5 {
        let body = gateway.chat(&and(ask("service/auto"), tools.clone())).await.expect(200);
        assert_eq!(body["model"], "bolt/able");
    }
    assert_eq!(plain.connections(), 0);
    let without = gateway.chat(&and(ask("service/auto"), json!({"objective": "cheapest", "tools": []}))).await;
    assert_eq!(without.expect(200)["model"], "acme/plain", "without tools the cheaper one serves");
}

#[actix_web::test]
async fn a_fixed_model_that_lacks_what_is_needed_is_a_400_that_says_what() {
    let upstream = saying("x");
    let world = World::new().provider("acme", upstream.address());
    let draws = Model::new("acme/draws").with("output_modalities = [\"image\"]").at("acme", "0", "0");
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).model(&draws).start().await;
    let picture = json!([{"role": "user", "content": [{"type": "text", "text": "x"},
        {"type": "image_url", "image_url": {"url": "https://h/x.png"}}]}]);
    let schema = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}});
    for (model, more, param, reason) in [
        ("acme/small", json!({"messages": picture}), "messages[0].content[1]", "unsupported_parameter"),
        ("acme/small", json!({"response_format": schema}), "response_format", "unsupported_parameter"),
        ("acme/small", json!({"response_format": {"type": "json_object"}}), "response_format", "unsupported_parameter"),
        ("acme/small", json!({"modalities": ["image", "text"]}), "modalities", "unsupported_parameter"),
        ("acme/draws", json!({}), "model", "wrong_endpoint"),
    ] {
        let error = error_of(&gateway.chat(&and(ask(model), more.clone())).await, 400);
        assert_eq!((&error["param"], &error["metadata"]["reason"]), (&json!(param), &json!(reason)), "{more}: {error}");
        assert!(error["message"].as_str().unwrap().contains(model), "{error}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn a_tool_choice_outside_the_tools_is_a_400() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let chosen = |name: &str| json!({"type": "function", "function": {"name": name}});
    let with = |more: Value| and(ask("acme/small"), more);
    refused(&[
        (with(json!({"tools": tools, "tool_choice": chosen("g")})), Some("tool_choice"), "invalid_value"),
        (with(json!({"tool_choice": chosen("f")})), Some("tool_choice"), "invalid_value"),
        (with(json!({"tool_choice": "required"})), Some("tool_choice"), "invalid_value"),
        (with(json!({"tools": tools, "tool_choice": "sometimes"})), Some("tool_choice"), "invalid_value"),
    ])
    .await;
    let (gateway, upstream) = one_model(&completion("Hello")).await;
    gateway.chat(&with(json!({"tools": tools, "tool_choice": chosen("f")}))).await.expect(200);
    assert_eq!(upstream.last_body()["tool_choice"], chosen("f"));
}

#[actix_web::test]
async fn an_unknown_objective_is_a_400_that_lists_the_four() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    for (place, request) in [
        ("metadata.objective", json!({"metadata": {"objective": "nicest"}})),
        ("extra_body.objective", json!({"extra_body": {"objective": "nicest"}})),
        ("objective", json!({"objective": "nicest"})),
    ] {
        for path in ["/api/v1/chat/completions", "/api/v1/route/preview"] {
            let error = error_of(&gateway.post(path, &and(ask("service/auto"), request.clone())).await, 400);
            assert_eq!(error["param"], place);
            assert_eq!(error["message"], "Unknown objective 'nicest'. Allowed: cheapest, fastest, reliable, balanced.");
            let allowed = json!(["cheapest", "fastest", "reliable", "balanced"]);
            assert_eq!(error["metadata"]["allowed_values"], allowed);
        }
    }
}

#[actix_web::test]
async fn metadata_that_is_too_large_or_no_object_is_a_400() {
    let with = |metadata: Value| and(ask("acme/small"), json!({"metadata": metadata}));
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("k{n}"), json!("v"))).collect();
    refused(&[
        (with(json!({"big": "x".repeat(17 * 1024)})), Some("metadata"), "invalid_value"),
        (with(Value::Object(many)), Some("metadata"), "invalid_value"),
        (with(json!("x")), Some("metadata"), "invalid_type"),
        (and(ask("acme/small"), json!({"extra_body": []})), Some("extra_body"), "invalid_type"),
    ])
    .await;
}

async fn post_as(gateway: &TestGateway, content_type: &str, body: &[u8]) -> Reply {
    let headers = [("content-type", content_type)];
    gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.to_vec())).await
}

/// A gateway that takes bodies of one kibibyte.
async fn narrow() -> (TestGateway, Upstream) {
    let upstream = saying("Hello");
    let world = World::new().with("[limits]\nmax_body = 1024").provider("acme", upstream.address());
    (world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await, upstream)
}

#[actix_web::test]
async fn a_body_that_is_not_declared_json_is_a_415() {
    let (gateway, upstream) = narrow().await;
    let body = ask("acme/small").to_string();
    for other in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", "text/json"]
    {
        let error = error_of(&post_as(&gateway, other, body.as_bytes()).await, 415);
        assert_eq!(error["metadata"]["reason"], "unsupported_media_type", "{other}");
    }
    let error = error_of(&post_as(&gateway, "application/json; charset=latin1", body.as_bytes()).await, 400);
    assert_eq!(error["metadata"]["reason"], "invalid_value");
    assert_eq!(upstream.connections(), 0);
    for json in ["application/json", "Application/JSON; charset=\"UTF-8\"", "application/problem+json", ""] {
        post_as(&gateway, json, body.as_bytes()).await.expect(200);
    }
}

#[actix_web::test]
async fn a_body_over_the_limit_is_a_413() {
    let (gateway, upstream) = narrow().await;
    let mut large = ask("acme/small");
    large["messages"][0]["content"] = json!("x".repeat(2000));
    let error = error_of(&post_as(&gateway, "application/json", large.to_string().as_bytes()).await, 413);
    assert_eq!(
        (&error["type"], &error["metadata"]["error_type"]),
        (&json!("invalid_request_error"), &json!("payload_too_large"))
    );
    // The announced length is enough; and where none is announced, the bytes are counted.
    let head = format!(
        "POST /api/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n",
        crate::harness::KEY
    );
    let announced = raw(gateway.address, format!("{head}content-length: 99999999\r\n\r\n")).await;
    assert!(announced.starts_with("HTTP/1.1 413 "), "{announced}");
    let chunk = "x".repeat(600);
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n258\r\n{chunk}\r\n258\r\n{chunk}\r\n0\r\n\r\n");
    let counted = raw(gateway.address, chunked).await;
    assert!(counted.starts_with("HTTP/1.1 413 "), "{counted}");
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn broken_json_is_a_400_that_says_where() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    for broken in ["", "{", "nonsense", "{\"model\": }", "{\"model\": \"x\",}", "{\"model\": \"acme/small\"} trailing"]
    {
        let error = error_of(&post_as(&gateway, "application/json", broken.as_bytes()).await, 400);
        assert_eq!((&error["param"], &error["metadata"]["reason"]), (&Value::Null, &json!("invalid_json")), "{broken}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with("Request body is not valid JSON: ") && message.contains(" line 1 column "),
            "{message}"
        );
    }
    for other in ["[]", "\"x\"", "7", "null"] {
        let error = error_of(&post_as(&gateway, "application/json", other.as_bytes()).await, 400);
        assert_eq!(error["metadata"]["reason"], "invalid_type", "{other}");
        assert_eq!(error["message"], "Request body must be a JSON object.");
    }
}

/// What is wrong first is told first.
#[actix_web::test]
async fn of_several_faults_the_first_in_order_is_told() {
    let (gateway, upstream) = narrow().await;
    let call = async |key: &str, content_type: &str, body: String| {
        let headers = [("authorization", key), ("content-type", content_type)];
        let path = "/api/v1/chat/completions";
        gateway.call(Method::POST, path, &headers, Some(body.into_bytes())).await.status
    };
    let good = format!("Bearer {}", crate::harness::KEY);
    let (long, broken) = ("{".repeat(2000), "{".to_owned());
    assert_eq!(call("Bearer sk-wrong-0123456789", "text/plain", long.clone()).await, 401);
    assert_eq!(call(&good, "text/plain", long.clone()).await, 415);
    assert_eq!(call(&good, "application/json", long).await, 413);
    assert_eq!(call(&good, "application/json", broken).await, 400);
    let field = and(ask("acme/nope"), json!({"temperature": 7, "allowed_models": ["bolt/*"]}));
    assert_eq!(call(&good, "application/json", field.to_string()).await, 400);
    let unknown = and(ask("acme/nope"), json!({"allowed_models": ["bolt/*"]}));
    let error = error_of(&gateway.chat(&unknown).await, 404);
    assert_eq!(error["metadata"]["reason"], "model_not_found");
    assert_eq!(upstream.connections(), 0);
}

/// A prompt that cannot fit is told both numbers before anybody is asked.
#[actix_web::test]
async fn a_prompt_that_cannot_fit_is_a_400_with_both_numbers() {
    let upstream = saying("x");
    let model = Model::new("acme/small").with("context_length = 100").at("acme", "0", "0");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    for model in ["acme/small", "service/auto"] {
        let error = error_of(&gateway.chat(&and(ask(model), json!({"max_tokens": 5000}))).await, 400);
        assert_eq!(error["param"], "messages");
        assert_eq!(error["metadata"]["error_type"], "context_length_exceeded");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("maximum context length is 100 tokens"), "{message}");
        assert!(message.contains("5000 for the completion"), "{message}");
        assert!(message.ends_with("it would fit: 'max_tokens' may be at most 94."), "{message}");
    }
    assert_eq!(upstream.connections(), 0);
}

/// What a body is said to be is said once, and it is not compressed.
#[actix_web::test]
async fn a_compressed_body_or_two_content_types_are_a_415() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    let body = ask("acme/small").to_string().into_bytes();
    for headers in [
        [("content-type", "application/json"), ("content-encoding", "gzip")],
        [("content-type", "application/json"), ("content-type", "text/plain")],
    ] {
        error_of(&gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.clone())).await, 415);
    }
    assert_eq!(upstream.connections(), 0);
}
