//! Chats for an endpoint that speaks the Anthropic Messages API.

use serde_json::{Value, json};

use crate::{
    scripted::{Script, Upstream},
    world::{Model, World, always, and, ask, completion, error_of, http, http_with, stream_of},
};

/// A message as the API answers it.
fn message(content: Value, stop_reason: &str) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": content,
        "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0, "output_tokens": 5},
    })
}

/// A stream as the API sends it, with these deltas of text.
fn message_stream(words: &[&str]) -> String {
    let event = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    let start = json!({
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 20, "output_tokens": 1},
        },
    });
    let mut body = event(start);
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    body.push_str(&event(block));
    body.push_str(&event(json!({"type": "ping"})));
    for word in words {
        let delta = json!({"type": "text_delta", "text": word});
        body.push_str(&event(json!({"type": "content_block_delta", "index": 0, "delta": delta})));
    }
    body.push_str(&event(json!({"type": "content_block_stop", "index": 0})));
    let delta = json!({"stop_reason": "end_turn", "stop_sequence": null});
    body.push_str(&event(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})));
    body.push_str(&event(json!({"type": "message_stop"})));
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// The model `acme/claude` at the provider `maker`, which speaks this dialect, and for more money at `other`, which speaks
/// chat.
fn world(maker: &Upstream, other: &Upstream) -> World {
    world_with(maker, other, "")
}

/// The same, with further keys of the model.
fn world_with(maker: &Upstream, other: &Upstream, keys: &str) -> World {
    let endpoint = |provider: &str, price: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"claude-sonnet-5-5\", pricing = {{ prompt = \"{price}\", \
             completion = \"{price}\" }} }}"
        )
    };
    let endpoints = [endpoint("maker", "0.000001"), endpoint("other", "0.001")].join(", ");
    World::new()
        .provider_with("maker", maker.address(), "dialect = \"anthropic\"")
        .provider("other", other.address())
        .with(&format!(
            "[[models]]\nid = \"acme/claude\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\", \"stop\", \
             \"tools\", \"tool_choice\", \"reasoning\"]\n{keys}endpoints = [{endpoints}]\n"
        ))
}

#[actix_web::test]
async fn a_chat_is_sent_as_messages_with_the_key_in_its_own_header_and_the_answer_is_a_completion() {
    let maker = always(200, &message(json!([{"type": "text", "text": "Left."}]), "end_turn"));
    let other = always(200, &completion("unused"));
    let gateway = world(&maker, &other).start().await;
    let request = json!({
        "model": "acme/claude", "max_tokens": 50, "seed": 1, "stop": "END",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which way?"}],
    });
    let reply = gateway.chat(&request).await;
    let answer = reply.expect(200);
    assert_eq!(answer["choices"][0]["message"]["content"], "Left.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["choices"][0]["native_finish_reason"], "end_turn");
    assert_eq!(answer["usage"]["prompt_tokens"], 120);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 100);
    assert_eq!(answer["usage"]["completion_tokens"], 5);
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("seed"));
    let sent = maker.requests().remove(0);
    assert!(sent.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{sent}");
    let head = sent.to_lowercase();
    assert!(head.contains("\r\nanthropic-version: 2023-06-01\r\n"), "{sent}");
    assert!(head.contains(&format!("\r\nx-api-key: {}\r\n", crate::world::provider_key("maker"))), "{sent}");
    assert!(!head.contains("authorization"), "{sent}");
    let body = maker.last_body();
    assert_eq!(body["model"], "claude-sonnet-5-5");
    assert_eq!(body["max_tokens"], 50);
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(body["system"], json!([{"type": "text", "text": "Be brief."}]));
    let content = json!([{"type": "text", "text": "Which way?"}]);
    assert_eq!(body["messages"], json!([{"role": "user", "content": content}]));
}

#[actix_web::test]
async fn a_stream_of_messages_becomes_a_stream_of_chunks_with_usage_and_cost() {
    let maker = Upstream::start([Script::answering(message_stream(&["Le", "ft."]))]);
    let other = always(200, &completion("unused"));
    let gateway = world(&maker, &other).start().await;
    let reply = gateway.chat(&and(ask("acme/claude"), json!({"stream": true}))).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.content(), "Left.");
    assert!(reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
    let events = reply.events();
    let finish = events.iter().find(|event| event["choices"][0]["finish_reason"].is_string()).unwrap();
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    let usage = &events.iter().find(|event| event["usage"].is_object()).unwrap()["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(20), &json!(7)));
    assert_eq!(usage["cost"], json!(0.000027));
    assert_eq!(maker.last_body()["stream"], true);
}

#[actix_web::test]
async fn tool_calls_and_thinking_come_back_as_chat_and_go_there_again_on_the_next_turn() {
    let content = json!([
        {"type": "thinking", "thinking": "Ask the map.", "signature": "c2lnbmVk"},
        {"type": "tool_use", "id": "toolu_1", "name": "map", "input": {"at": "fork"}},
    ]);
    let maker = always(200, &message(content, "tool_use"));
    let other = always(200, &completion("unused"));
    let gateway = world(&maker, &other).start().await;
    let tools = json!([{"type": "function", "function": {"name": "map", "parameters": {"type": "object"}}}]);
    let request = and(ask("acme/claude"), json!({"tools": tools, "reasoning": {"effort": "low"}}));
    let answer = gateway.chat(&request).await.expect(200);
    let reply = &answer["choices"][0]["message"];
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(reply["reasoning"], "Ask the map.");
    assert_eq!(reply["tool_calls"][0]["function"]["name"], "map");
    assert_eq!(reply["tool_calls"][0]["function"]["arguments"], r#"{"at":"fork"}"#);
    let id = &reply["tool_calls"][0]["id"];
    let turn = json!([
        {"role": "user", "content": "Which way?"},
        reply,
        {"role": "tool", "tool_call_id": id, "content": "left"},
    ]);
    gateway.chat(&and(request, json!({"messages": turn}))).await.expect(200);
    let messages = &maker.last_body()["messages"];
    assert_eq!(messages[1]["content"][0]["type"], "thinking");
    assert_eq!(messages[1]["content"][0]["signature"], "c2lnbmVk");
    assert_eq!(messages[1]["content"][1]["type"], "tool_use");
    assert_eq!(messages[2]["content"][0]["type"], "tool_result");
    assert_eq!(messages[2]["content"][0]["tool_use_id"], messages[1]["content"][1]["id"]);
}

#[actix_web::test]
async fn an_overloaded_endpoint_hands_over_to_one_of_another_dialect_before_and_inside_a_stream() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let inside = format!("event: error\ndata: {overloaded}\n\n");
    let start = message_stream(&[]);
    let (_, start) = start.split_once("\r\n\r\n").unwrap();
    let (start, _) = start.split_once("event: content_block_start").unwrap();
    let failing = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{start}{inside}",
        start.len() + inside.len()
    );
    for first in [http(529, &overloaded), failing] {
        let maker = Upstream::start([Script::answering(first)]);
        let other = Upstream::start([Script::answering(stream_of(&["Right."]))]);
        let gateway = world(&maker, &other).start().await;
        let reply = gateway.chat(&and(ask("acme/claude"), json!({"stream": true}))).await;
        assert_eq!(reply.content(), "Right.", "{}", reply.text());
        assert_eq!(reply.header("x-route-attempts"), Some("2"));
    }
}

#[actix_web::test]
async fn a_prompt_that_is_too_long_for_it_is_the_clients_error_and_an_empty_account_is_not() {
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let too_long = error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum");
    let maker = always(400, &too_long);
    let other =
        Upstream::start([Script::answering(http(400, &json!({"error": {"message": "maximum context length"}})))]);
    let gateway = world(&maker, &other).start().await;
    let reply = gateway.chat(&ask("acme/claude")).await;
    assert_eq!(error_of(&reply, 400)["metadata"]["error_type"], "context_length_exceeded");

    let broke = error("invalid_request_error", "Your credit balance is too low to access the Anthropic API.");
    let maker = Upstream::start([Script::answering(http_with(400, "", &broke))]);
    let other = always(200, &completion("Right."));
    let gateway = world(&maker, &other).start().await;
    let answer = gateway.chat(&ask("acme/claude")).await.expect(200);
    assert_eq!(answer["choices"][0]["message"]["content"], "Right.");
}

#[actix_web::test]
async fn a_model_of_a_chat_endpoint_can_be_told_to_speak_another_dialect() {
    let maker = always(200, &message(json!([{"type": "text", "text": "Left."}]), "end_turn"));
    let toml = "[[models]]\nid = \"acme/claude\"\ncontext_length = 1000\nendpoints = [{ provider = \"maker\", upstream_model = \
                \"claude-x\", dialect = \"anthropic\", pricing = { prompt = \"0\", completion = \"0\" } }]";
    let gateway = World::new().provider("maker", maker.address()).with(toml).start().await;
    gateway.chat(&ask("acme/claude")).await.expect(200);
    assert!(maker.requests()[0].starts_with("POST /v1/messages"), "{:?}", maker.requests());
}

#[actix_web::test]
async fn with_required_parameters_an_endpoint_of_this_api_that_would_drop_one_is_left_out() {
    let maker = always(200, &message(json!([{"type": "text", "text": "Left."}]), "end_turn"));
    let other = always(200, &completion("Right."));
    let endpoint = |provider: &str, price: &str, listed: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"claude-sonnet-5-5\", supported_parameters = [{listed}], pricing = {{ \
             prompt = \"{price}\", completion = \"{price}\" }} }}"
        )
    };
    let endpoints = [
        endpoint("maker", "0.000001", "\"max_tokens\""),
        endpoint("other", "0.001", "\"max_tokens\", \"seed\", \"verbosity\""),
    ];
    let gateway = World::new()
        .provider_with("maker", maker.address(), "dialect = \"anthropic\"")
        .provider("other", other.address())
        .with(&format!(
            "[[models]]\nid = \"acme/claude\"\ncontext_length = 100000\nendpoints = [{}]",
            endpoints.join(", ")
        ))
        .start()
        .await;
    for more in [json!({"seed": 1}), json!({"verbosity": "low"})] {
        let name = more.as_object().unwrap().keys().next().unwrap().clone();
        let asked = and(and(ask("acme/claude"), more), json!({"objective": "cheapest"}));
        let free = gateway.chat(&asked).await;
        assert_eq!(free.expect(200)["choices"][0]["message"]["content"], "Left.", "{name}");
        assert_eq!(free.header("x-route-dropped-parameters"), Some(&*name));
        let strict = gateway.chat(&and(asked, json!({"provider": {"require_parameters": true}}))).await;
        assert_eq!(strict.expect(200)["choices"][0]["message"]["content"], "Right.", "{name}");
        assert_eq!(strict.header("x-route-dropped-parameters"), None);
    }
}

#[actix_web::test]
async fn tokens_beside_the_input_are_added_to_the_prompt_and_each_class_has_its_exact_price() {
    let mut answer = message(json!([{"type": "text", "text": "Left."}]), "end_turn");
    answer["usage"] = json!({"input_tokens": 25, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 5});
    let maker = always(200, &answer);
    let prices = "prompt = \"0.000003\", completion = \"0.000015\", input_cache_read = \"0.0000003\", input_cache_write = \"0.00000375\"";
    let gateway = World::new()
        .provider_with("maker", maker.address(), "dialect = \"anthropic\"")
        .model(&Model::new("acme/claude").priced("maker", prices))
        .start()
        .await;
    let usage = gateway.chat(&ask("acme/claude")).await.expect(200)["usage"].clone();
    assert_eq!(usage["prompt_tokens"], 132);
    let details = &usage["prompt_tokens_details"];
    assert_eq!((&details["cached_tokens"], &details["cache_write_tokens"]), (&json!(100), &json!(7)), "{usage}");
    // 25 · 3 + 100 · 0.3 + 7 · 3.75 + 5 · 15 millionths of a dollar.
    assert_eq!(usage["cost"], json!(0.00020625));
    let own = json!({"model": "acme/claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}]});
    let reply = gateway.post("/v1/messages", &own).await;
    assert_eq!(reply.expect(200)["usage"], answer["usage"]);
    assert_eq!(reply.header("x-route-cost"), Some("0.00020625"));
}

#[actix_web::test]
async fn a_spending_limit_is_a_fault_of_our_account_and_a_rate_limit_cools_for_its_time() {
    let limited = |code: &str| json!({"type": "error", "error": {"type": "rate_limit_error", "message": "no", "details": {"error_code": code}}});
    for (head, code, reason) in
        [("", "enforced_spend_limit_reached", "config_fault"), ("retry-after: 7\r\n", "requests", "rate_limited")]
    {
        let maker = Upstream::start([Script::answering(http_with(429, head, &limited(code)))]);
        let other = always(200, &completion("Right."));
        let gateway = world(&maker, &other).start().await;
        let asked = and(ask("acme/claude"), json!({"objective": "cheapest"}));
        for _ in 0..2 {
            let answer = gateway.chat(&asked).await.expect(200);
            assert_eq!(answer["choices"][0]["message"]["content"], "Right.");
        }
        assert_eq!(maker.requests().len(), 1, "{code}: it is not asked again");
        let preview = gateway.post("/api/v1/route/preview", &asked).await.expect(200);
        assert_eq!(preview["excluded"][0]["reason"], reason, "{preview}");
        let health = gateway.get("/api/v1/health/providers/maker").await.expect(200);
        assert_eq!(health["data"][0]["cooldown_until"].is_string(), reason == "rate_limited", "{health}");
    }
}

/// 1.0: a media type outside the endpoint's set is a hard exclusion.
#[actix_web::test]
async fn media_that_the_api_cannot_carry_keep_its_endpoints_out() {
    let maker = always(200, &message(json!([{"type": "text", "text": "never"}]), "end_turn"));
    let other = always(200, &completion("seen"));
    let keys = "input_modalities = [\"text\", \"image\", \"file\"]\n";
    let gateway = world_with(&maker, &other, keys).start().await;
    let image =
        |media_type: &str| json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,Qk0=")}});
    let file =
        json!({"type": "file", "file": {"filename": "a.docx", "file_data": "data:application/msword;base64,AAAA"}});
    for (part, served_by) in [(image("image/bmp"), "other"), (file, "other"), (image("image/png"), "maker")] {
        let request = json!({"model": "acme/claude", "messages": [{"role": "user", "content": [part]}]});
        let answer = gateway.chat(&request).await.expect(200);
        assert_eq!(answer["provider"].as_str().unwrap().to_lowercase(), served_by, "{part}");
    }
}
