//! Clients that speak the Anthropic Messages API, in front of endpoints of both dialects.

use std::time::{Duration, Instant};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, Reply, TestGateway, UNOPTIMISED},
    hostile::{CHUNKED, chunk},
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, always, answer, ask, completion, http, stream_of},
};

/// How often a time is measured: the fastest counts, because others show what else the machine does.
const TRIES: usize = 50;

/// `acme/claude` at one provider, which speaks `dialect`.
async fn gateway(upstream: &Upstream, dialect: &str) -> TestGateway {
    World::new()
        .provider_with("maker", upstream.address(), &format!("dialect = \"{dialect}\""))
        .with(
            "[[models]]\nid = \"acme/claude\"\ncontext_length = 100000\ninput_modalities = [\"text\", \"image\"]\n\
             supported_parameters = [\"max_tokens\", \"stop\", \"tools\", \"tool_choice\", \"reasoning\"]\nendpoints = [{ provider = \
             \"maker\", upstream_model = \"claude-sonnet-5-5\", pricing = { prompt = \"0.000001\", completion = \"0.000002\" } }]",
        )
        .start()
        .await
}

fn request() -> Value {
    json!({
        "model": "acme/claude", "max_tokens": 64, "system": "Be brief.", "stop_sequences": ["END"],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Which way?"}]}],
    })
}

/// The names and data of a stream's events.
fn events(reply: &Reply) -> Vec<(String, Value)> {
    let text = reply.text();
    let events = text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    events
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap_or_else(|| panic!("no two lines: {event}"));
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            (name.strip_prefix("event: ").unwrap().to_owned(), data)
        })
        .collect()
}

#[actix_web::test]
async fn a_message_is_answered_by_a_chat_endpoint_in_the_clients_own_shape() {
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}});
    let maker = always(200, &answer(json!({"role": "assistant", "content": "Left."}), usage));
    let gateway = gateway(&maker, "openai").await;
    for path in ["/api/v1/messages", "/api/v1/messages?beta=true", "/v1/messages", "/api/messages"] {
        let reply = gateway.post(path, &request()).await;
        let message = reply.expect(200);
        assert_eq!(message["type"], "message");
        assert_eq!(message["role"], "assistant");
        assert_eq!(message["model"], "acme/claude");
        assert_eq!(message["content"], json!([{"type": "text", "text": "Left."}]));
        assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&json!("end_turn"), &Value::Null));
        assert_eq!(message["usage"]["input_tokens"], 12);
        assert_eq!(message["usage"]["cache_read_input_tokens"], 8);
        assert_eq!(message["usage"]["output_tokens"], 3);
        assert_eq!(message["id"].as_str(), reply.header("x-generation-id"));
        assert_eq!(reply.header("request-id"), reply.header("x-request-id"));
        assert_eq!(reply.header("x-route-cost"), Some("0.000026"), "the answer itself has no place for it");
    }
    let body = maker.last_body();
    assert_eq!(body["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!((&body["max_tokens"], &body["stop"]), (&json!(64), &json!(["END"])));
}

#[actix_web::test]
async fn a_stream_of_chunks_becomes_events_of_a_message_with_usage_at_both_ends() {
    let maker = Upstream::start([Script::answering(stream_of(&["Le", "ft."]))]);
    let gateway = gateway(&maker, "openai").await;
    let mut request = request();
    request["stream"] = json!(true);
    let reply = gateway.post("/v1/messages", &request).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = events(&reply);
    assert!(events.iter().all(|(name, data)| data["type"] == **name), "{events:?}");
    let names: Vec<&str> = events.iter().map(|(name, _)| &**name).filter(|name| *name != "ping").collect();
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    let of = |name: &str| &events.iter().find(|(other, _)| other == name).unwrap().1;
    assert!(of("message_start")["message"]["usage"]["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(of("message_start")["message"]["id"].as_str(), reply.header("x-generation-id"));
    assert_eq!(of("message_delta")["delta"]["stop_reason"], "end_turn");
    assert!(of("message_delta")["usage"]["output_tokens"].as_u64().unwrap() > 0);
    assert!(!reply.text().contains("[DONE]"));
}

#[actix_web::test]
async fn an_endpoint_of_the_same_api_gets_the_clients_bytes_and_its_answer_passes_as_it_comes() {
    let message = "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-5-5\",\
                   \"content\":[ {\"type\":\"thinking\",\"thinking\":\"\\u00e9\",\"signature\":\"c2ln\"},{\"type\":\"text\",\"text\":\"Left.\"}],\
                   \"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"new_member\":1.50,\"usage\":{\"input_tokens\":20,\"output_tokens\":5}}";
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", message.len());
    let maker = Upstream::start([Script::answering(head + message)]);
    let gateway = gateway(&maker, "anthropic").await;
    let body = "{\"model\": \"acme/claude\",  \"max_tokens\": 64,\"context_management\":{\"edits\":[ ]},\"objective\":\"cheapest\",\
                \"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\u00e9\",\"cache_control\":{\"type\":\"ephemeral\"}}]}]}";
    let headers = [
        ("content-type", "application/json"),
        ("anthropic-beta", "context-management-2025-06-27"),
        ("anthropic-version", "2026-10-21"),
    ];
    let reply = gateway.call(Method::POST, "/v1/messages", &headers, Some(body.into())).await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let expected = message.replace("msg_1", &id).replace("claude-sonnet-5-5", "acme/claude");
    assert_eq!(reply.text(), expected);
    let sent = maker.requests().remove(0);
    assert!(sent.contains("anthropic-beta: context-management-2025-06-27\r\n"), "{sent}");
    assert!(sent.contains("anthropic-version: 2026-10-21\r\n"), "{sent}");
    assert_eq!(sent.matches("anthropic-version").count(), 1, "{sent}");
    let sent = sent.split_once("\r\n\r\n").unwrap().1;
    let expected = body.replace("acme/claude", "claude-sonnet-5-5").replace("\"objective\":\"cheapest\",", "");
    assert_eq!(sent, expected);
    assert_eq!(reply.header("x-route-dropped-parameters"), None);
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(record["data"]["tokens_prompt"], 20, "{record}");
    assert_eq!(record["data"]["total_cost"], json!(0.00003), "{record}");
}

#[actix_web::test]
async fn a_ceiling_of_cost_changes_only_the_limit_of_the_clients_own_body() {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Left."}], "usage": {"input_tokens": 20, "output_tokens": 5}});
    let maker = always(200, &message);
    let gateway = gateway(&maker, "anthropic").await;
    let body = json!({
        "model": "acme/claude", "max_tokens": 3000, "output_config": {"effort": "low"}, "metadata": {"user_id": "u"},
        "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "new_block", "q": 1}]}],
    });
    for (ceiling, limit) in [(1.0, Some(3000)), (0.004, None)] {
        let mut asked = body.clone();
        asked["max_cost"] = json!(ceiling);
        let reply = gateway.post("/v1/messages", &asked).await;
        reply.expect(200);
        assert_eq!(reply.header("x-route-dropped-parameters"), None);
        let mut sent = maker.last_body();
        let given = sent["max_tokens"].as_u64().unwrap();
        assert!(limit.map_or(given < 2000 && given > 1000, |limit| given == limit), "{given}");
        (sent["max_tokens"], sent["model"]) = (json!(3000), json!("acme/claude"));
        assert_eq!(sent, body);
    }
}

#[actix_web::test]
async fn an_answer_of_the_same_api_without_counts_and_reason_gets_both() {
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[]}}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Turn left at the fork.\"}}\n\n\
        event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let maker = Upstream::start([Script::new().request().send(stream).fin()]);
    let gateway = gateway(&maker, "anthropic").await;
    let mut asked = request();
    asked["stream"] = json!(true);
    let reply = gateway.post("/v1/messages", &asked).await;
    let events = events(&reply);
    let of = |name: &str| -> Vec<&Value> {
        events.iter().filter(|(other, _)| other == name).map(|(_, data)| data).collect()
    };
    assert!(of("message_start")[0]["message"]["usage"]["input_tokens"].as_u64().unwrap() > 0);
    let [delta] = of("message_delta")[..] else { panic!("{events:?}") };
    assert_eq!(delta["delta"]["stop_reason"], "end_turn");
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(delta["usage"]["output_tokens"], record["data"]["tokens_completion"], "{record}");
    assert!(record["data"]["tokens_completion"].as_u64().unwrap() > 3, "the placeholder is not billed: {record}");
    assert_eq!(events.last().unwrap().0, "message_stop");
}

#[actix_web::test]
async fn what_only_the_own_api_has_is_named_as_dropped_or_keeps_other_endpoints_out() {
    let maker = always(200, &completion("Left."));
    let gateway = gateway(&maker, "openai").await;
    let mut asked = request();
    asked["context_management"] = json!({"edits": []});
    let reply = gateway.post("/v1/messages", &asked).await;
    reply.expect(200);
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("context_management"));
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(record["data"]["route"]["dropped_parameters"], json!(["context_management"]), "{record}");
    asked["tools"] = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    let reply = gateway.post("/v1/messages", &asked).await;
    assert_eq!(reply.status, 400, "{}", reply.text());
    let error = &reply.json()["error"];
    assert_eq!(error["type"], "invalid_request_error", "{error}");
    assert!(error["message"].as_str().unwrap().contains("tools[0].type"), "{error}");
}

#[actix_web::test]
async fn errors_have_the_clients_shape_and_name_its_own_fields() {
    let maker = always(503, &json!({"error": {"message": "busy"}}));
    let gateway = gateway(&maker, "openai").await;
    let wrong = json!({"model": "acme/claude", "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]});
    let reply = gateway.post("/v1/messages", &wrong).await;
    assert_eq!(reply.status, 400);
    let error = reply.json();
    assert_eq!(
        (&error["type"], &error["error"]["type"]),
        (&json!("error"), &json!("invalid_request_error")),
        "{error}"
    );
    assert_eq!(error["request_id"].as_str(), reply.header("request-id"));
    for (name, value, said) in [
        ("system", json!([1]), "system[0].type: Field required"),
        ("allowed_models", json!(["a*b"]), "allowed_models[0]: 'a*b' is not a model id or a pattern ending in '*'."),
    ] {
        let mut wrong = request();
        wrong[name] = value;
        let error = gateway.post("/v1/messages", &wrong).await.expect(400);
        assert_eq!(error["error"]["message"], said);
    }
    let mut kept = request();
    kept["thread"] = json!({"type": "create"});
    let reply = gateway.post("/v1/messages", &kept).await;
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    assert_eq!(reply.json()["error"]["details"]["error_code"], "thread_unsupported_request", "{}", reply.text());
    let reply = gateway.post("/v1/messages", &request()).await;
    assert_eq!(reply.status, 529, "{}", reply.text());
    assert_eq!(reply.json()["error"]["type"], "overloaded_error");
    assert!(reply.header("retry-after").is_some());
    let headers = [("content-type", "application/json"), ("x-api-key", "wrong"), ("authorization", "")];
    let reply = gateway.call(Method::POST, "/v1/messages", &headers, Some(request().to_string().into())).await;
    assert_eq!(reply.status, 401, "{}", reply.text());
    assert_eq!(reply.json()["error"]["type"], "authentication_error");
    let mut unknown = request();
    unknown["model"] = json!("claude-unknown");
    let reply = gateway.post("/v1/messages", &unknown).await;
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (404, &json!("not_found_error")));
}

#[actix_web::test]
async fn a_stream_that_breaks_ends_with_an_error_event_and_an_untouched_one_moves_on() {
    let chunk = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Le\"}}]}\n\n";
    let broken = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{chunk}");
    let maker = Upstream::start([Script::new().request().send(broken).fin()]);
    let gateway = gateway(&maker, "openai").await;
    let mut asked = request();
    asked["stream"] = json!(true);
    let reply = gateway.post("/v1/messages", &asked).await;
    let (name, error) = events(&reply).pop().unwrap();
    assert_eq!((&*name, &error["error"]["type"]), ("error", &json!("overloaded_error")), "{}", reply.text());
}

/// Clients of this API repeat what is called an overload, so a refusal of the request must not be.
#[actix_web::test]
async fn a_stream_that_a_provider_refuses_in_its_middle_is_not_called_an_overload() {
    for (kind, shown) in [("rate_limit_error", "overloaded_error"), ("invalid_request_error", "api_error")] {
        let text = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Le"}});
        let events_of_maker = [
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
                "model": "m", "content": [], "usage": {"input_tokens": 20, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            text,
        ];
        let sent = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
        let begun: String = events_of_maker.iter().map(sent).collect();
        let error = chunk(&sent(&json!({"type": "error", "error": {"type": kind, "message": "No."}})));
        let gate = Gate::new();
        let script = Script::new().request().send(format!("{CHUNKED}{}", chunk(&begun))).wait(&gate);
        let maker = Upstream::start([script.send(error).fin()]);
        let gateway = gateway(&maker, "anthropic").await;
        let mut asked = request();
        asked["stream"] = json!(true);
        let mut client = RawClient::send(&gateway, "/v1/messages", "", &asked).await;
        client.until("\"Le\"").await;
        gate.open();
        let rest = client.until("\"request_id\"").await;
        assert!(rest.contains(&format!("\"error\":{{\"type\":\"{shown}\"")), "{kind}: {rest}");
    }
}

#[actix_web::test]
async fn an_agents_first_block_is_first_and_unchanged_at_an_endpoint_of_the_same_api_and_absent_elsewhere() {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Left."}], "usage": {"input_tokens": 20, "output_tokens": 5}});
    let mut asked = request();
    let first = json!({"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.330; cch=00000;"});
    asked["system"] = json!([first, {"type": "text", "text": "Be brief."}]);
    for (dialect, answer) in [("anthropic", message), ("openai", completion("Left."))] {
        let maker = always(200, &answer);
        gateway(&maker, dialect).await.post("/v1/messages", &asked).await.expect(200);
        let sent = maker.last_body();
        match dialect {
            "anthropic" => assert_eq!(sent["system"], asked["system"]),
            _ => {
                assert!(!sent.to_string().contains("billing"), "{sent}");
                assert_eq!(sent["messages"][0], json!({"role": "system", "content": "Be brief."}), "{sent}");
            }
        }
    }
}

#[actix_web::test]
async fn silence_is_filled_with_comments_before_the_message_and_with_empty_deltas_within_a_block() {
    let (first, gate) = (Gate::new(), Gate::new());
    let piece = |text: &str| {
        let delta = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
        chunk(&format!("data: {delta}\n\n"))
    };
    let script = Script::new().request().wait(&first).send([CHUNKED, &piece("Le")].concat()).wait(&gate);
    let maker = Upstream::start([script.send(piece("ft.")).fin()]);
    let gateway = World::new()
        .provider("maker", maker.address())
        .model(&Model::new("acme/claude").at("maker", "0", "0"))
        .with("[stream]\nkeepalive = \"50ms\"\n")
        .start()
        .await;
    let mut asked = request();
    asked["stream"] = json!(true);
    let mut client = RawClient::send(&gateway, "/v1/messages", "", &asked).await;
    for _ in 0..2 {
        client.until(": keep-alive\n\n").await;
    }
    assert!(!client.text().contains("event: "), "another provider may still answer: {}", client.text());
    first.open();
    client.until("\"text\":\"Le\"").await;
    for _ in 0..2 {
        client.until("\"delta\":{\"type\":\"text_delta\",\"text\":\"\"}").await;
    }
    gate.open();
    client.until("\"text\":\"ft.\"").await;
}

#[actix_web::test]
async fn silence_of_a_provider_of_the_same_api_is_filled_with_deltas_of_the_kind_of_its_block() {
    let event = |data: Value| {
        let kind = data["type"].as_str().unwrap().to_owned();
        chunk(&format!("event: {kind}\ndata: {data}\n\n"))
    };
    let start = |index: u32, block: Value| {
        event(json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let delta =
        |index: u32, delta: Value| event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let stop = |index: u32| event(json!({"type": "content_block_stop", "index": index}));
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1}});
    let gates: [Gate; 4] = std::array::from_fn(|_| Gate::new());
    let [thinking, between, text, call] = &gates;
    let script = Script::new()
        .request()
        .send([CHUNKED, &event(json!({"type": "message_start", "message": message}))].concat())
        .send(start(0, json!({"type": "thinking", "thinking": "", "signature": ""})))
        .send(delta(0, json!({"type": "thinking_delta", "thinking": "hm"})))
        .wait(thinking)
        .send(stop(0))
        .wait(between)
        .send(start(1, json!({"type": "text", "text": ""})))
        .send(delta(1, json!({"type": "text_delta", "text": "Le"})))
        .wait(text)
        .send(stop(1))
        .send(start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}})))
        .send(delta(2, json!({"type": "input_json_delta", "partial_json": "{"})))
        .wait(call)
        .send(delta(2, json!({"type": "input_json_delta", "partial_json": "}"})))
        .send(stop(2))
        .send(event(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"output_tokens": 5}})))
        .send(event(json!({"type": "message_stop"})))
        .fin();
    let maker = Upstream::start([script]);
    let gateway = World::new()
        .provider_with("maker", maker.address(), "dialect = \"anthropic\"")
        .model(&Model::new("acme/claude").at("maker", "0", "0"))
        .with("[stream]\nkeepalive = \"50ms\"\n")
        .start()
        .await;
    let mut asked = request();
    asked["stream"] = json!(true);
    let mut client = RawClient::send(&gateway, "/v1/messages", "", &asked).await;
    client
        .until(
            "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"\"}}",
        )
        .await;
    thinking.open();
    client.until("event: ping\n").await;
    between.open();
    client
        .until("{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"\"}}")
        .await;
    text.open();
    client.until("\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}").await;
    call.open();
    client.until("event: message_stop\n").await;
}

#[actix_web::test]
async fn headers_of_anthropic_reach_endpoints_of_its_api_alone_and_no_others_do() {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Left."}], "usage": {"input_tokens": 20, "output_tokens": 5}});
    let body = request().to_string();
    let headers = [
        ("content-type", "application/json"),
        ("anthropic-workspace-id", "wrk_1"),
        ("anthropic-something-new", "of tomorrow"),
        ("anthropic-dangerous-direct-browser-access", "true"),
        ("x-claude-code-session-id", "s1"),
        ("x-stainless-lang", "js"),
        ("cookie", "a=b"),
        ("x-route-objective", "cheapest"),
    ];
    for (dialect, answer) in [("anthropic", message), ("openai", completion("Left."))] {
        let maker = always(200, &answer);
        let gateway = gateway(&maker, dialect).await;
        gateway.call(Method::POST, "/v1/messages", &headers, Some(body.clone().into())).await.expect(200);
        let sent = maker.requests().remove(0);
        let head = sent.split_once("\r\n\r\n").unwrap().0.to_lowercase();
        let passed = |name: &str| head.contains(&format!("\r\n{name}: "));
        let is_own = dialect == "anthropic";
        assert_eq!(head.contains("\r\nanthropic-workspace-id: wrk_1\r\n"), is_own, "{head}");
        assert_eq!(head.contains("\r\nanthropic-something-new: of tomorrow\r\n"), is_own, "{head}");
        for name in
            ["anthropic-dangerous-direct-browser-access", "x-claude-code-session-id", "x-stainless-lang", "cookie"]
        {
            assert!(!passed(name), "{head}");
        }
        assert!(!head.contains("x-route-"), "{head}");
    }
}

#[actix_web::test]
async fn tokens_are_counted_without_asking_anybody() {
    let maker = always(200, &completion("unused"));
    let gateway = gateway(&maker, "openai").await;
    let mut asked = request();
    asked.as_object_mut().unwrap().remove("max_tokens");
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let begun = Instant::now();
        let count = gateway.post("/v1/messages/count_tokens", &asked).await.expect(200);
        fastest = fastest.min(begun.elapsed());
        assert!(count["input_tokens"].as_u64().unwrap() > 3, "{count}");
        assert_eq!(count.as_object().unwrap().len(), 1);
    }
    assert!(fastest < Duration::from_millis(50) * UNOPTIMISED, "{fastest:?}");
    assert_eq!(maker.connections(), 0);
}

#[actix_web::test]
async fn a_stream_of_the_same_api_passes_with_our_id_and_model() {
    let events_sent = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\
                       \"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
                       event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
                       event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"L\\u00e9\"}}\n\n\
                       event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
                       event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":4}}\n\n\
                       event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", events_sent.len());
    let maker = Upstream::start([Script::answering(head + events_sent)]);
    let gateway = gateway(&maker, "anthropic").await;
    let mut asked = request();
    asked["stream"] = json!(true);
    let reply = gateway.post("/v1/messages", &asked).await;
    let id = reply.header("x-generation-id").unwrap();
    assert_eq!(reply.text(), events_sent.replace("msg_1", id).replace("claude-x", "acme/claude"));
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(record["data"]["tokens_completion"], 4, "{record}");
}

#[actix_web::test]
async fn reasoning_of_a_chat_endpoint_travels_sealed_through_the_client_and_comes_back() {
    let message = json!({
        "role": "assistant", "content": "Left.", "reasoning": "Map.",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "b3BhcXVl", "id": "rs_1", "format": "openai-responses-v1", "index": 0}],
    });
    let maker = Upstream::start([Script::answering(http(
        200,
        &answer(message, json!({"prompt_tokens": 9, "completion_tokens": 3})),
    ))]);
    let takes_objects = "wants_reasoning_effort = false";
    let gateway = gateway_listing(&maker, &["max_tokens", "stop", "reasoning"], takes_objects).await;
    let first = gateway.post("/v1/messages", &request()).await.expect(200);
    let mut again = request();
    let turns = again["messages"].as_array_mut().unwrap();
    turns.push(json!({"role": "assistant", "content": first["content"]}));
    turns.push(json!({"role": "user", "content": "Sure?"}));
    gateway.post("/v1/messages", &again).await.expect(200);
    let sent = maker.last_body()["messages"][2].to_string();
    assert!(sent.contains("b3BhcXVl"), "{sent} of {first}");
}

#[actix_web::test]
async fn models_are_listed_in_the_clients_shape_and_found_by_the_names_that_it_uses() {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 2, "output_tokens": 1},
    });
    let maker = always(200, &message);
    let gateway = World::new()
        .provider_with("maker", maker.address(), "dialect = \"anthropic\"")
        .with(
            "[messages]\nmodels = { \"claude-haiku-*\" = \"acme/claude\" }\n[[models]]\nid = \"acme/claude\"\ncontext_length = \
             100000\nexpiration_date = 2999-12-31\nendpoints = [{ provider = \"maker\", upstream_model = \"claude-sonnet-5-5\", pricing = { prompt = \"0\", \
             completion = \"0\" } }]\n[[models]]\nid = \"acme/stays\"\ncontext_length = 1000\nendpoints = [{ provider = \"maker\", \
             upstream_model = \"claude-opus-5-5\", pricing = { prompt = \"0\", completion = \"0\" } }]",
        )
        .start()
        .await;
    for name in ["claude-sonnet-5-5", "claude-sonnet-5-5-20261120", "claude-haiku-4-5-20251001", "acme/claude"] {
        let mut asked = request();
        asked["model"] = json!(name);
        assert_eq!(gateway.post("/v1/messages", &asked).await.expect(200)["model"], "acme/claude", "{name}");
        assert_eq!(maker.last_body()["model"], "claude-sonnet-5-5");
    }
    let headers = [("anthropic-version", "2023-06-01")];
    let list = gateway.call(Method::GET, "/v1/models?limit=1", &headers, None).await.expect(200);
    assert_eq!((&list["data"][0]["type"], &list["data"][0]["id"]), (&json!("model"), &json!("acme/claude")), "{list}");
    assert_eq!(list["first_id"], "acme/claude");
    assert_eq!(
        (&list["data"][0]["lifecycle"], &list["data"][0]["retires_at"]),
        (&json!("deprecated"), &json!("2999-12-31T00:00:00Z"))
    );
    let lifecycles = list["data"].as_array().unwrap().iter().map(|model| model["lifecycle"].clone());
    assert_eq!(lifecycles.collect::<Vec<_>>(), ["deprecated"]);
    let whole = gateway.call(Method::GET, "/v1/models", &headers, None).await.expect(200);
    let stays = whole["data"].as_array().unwrap().iter().find(|model| model["id"] == "acme/stays").unwrap();
    assert_eq!((&stays["lifecycle"], &stays["retires_at"]), (&json!("active"), &Value::Null), "C9: {stays}");
    for absent in ["limit=", "after_id=", "before_id=&limit=+"] {
        let list = gateway.call(Method::GET, &format!("/v1/models?{absent}"), &headers, None).await.expect(200);
        assert_eq!(list["data"][0]["id"], "acme/claude", "{absent}");
    }
    let one = gateway.call(Method::GET, "/v1/models/acme/claude", &headers, None).await.expect(200);
    assert_eq!(one["max_input_tokens"], 100_000);
    for name in ["claude-sonnet-5-5", "claude-sonnet-5-5-20261120", "claude-haiku-4-5-20251001"] {
        let one = gateway.call(Method::GET, &format!("/v1/models/{name}"), &headers, None).await.expect(200);
        assert_eq!(one["id"], "acme/claude", "{name}: as in a message");
    }
    let missing = gateway.call(Method::GET, "/v1/models/acme/none", &headers, None).await;
    assert_eq!((missing.status, &missing.json()["error"]["type"]), (404, &json!("not_found_error")));
}

#[actix_web::test]
async fn headers_route_clients_that_can_set_nothing_else_and_the_record_tells_both_dialects() {
    let (near, far) = (always(200, &completion("near")), always(200, &completion("far")));
    let endpoint = |provider: &str, id: &str, price: &str| {
        format!(
            "[[models]]\nid = \"{id}\"\ncontext_length = 1000\nendpoints = [{{ provider = \"{provider}\", upstream_model = \"x\", \
             pricing = {{ prompt = \"{price}\", completion = \"{price}\" }} }}]\n"
        )
    };
    let gateway = World::new()
        .provider("near", near.address())
        .provider("far", far.address())
        .with(&(endpoint("near", "acme/small", "0.000001") + &endpoint("far", "acme/large", "0.001")))
        .start()
        .await;
    let asked =
        json!({"model": "service/auto", "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}]});
    let body = || Some(asked.to_string().into());
    let json_type = ("content-type", "application/json");
    let headers = [json_type, ("x-route-objective", "cheapest"), ("x-route-blocked-models", "acme/small")];
    let reply = gateway.call(Method::POST, "/v1/messages", &headers, body()).await;
    assert_eq!(reply.expect(200)["content"][0]["text"], "far");
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(record["data"]["api_type"], "messages");
    let route = &record["data"]["route"];
    assert_eq!(
        (&route["inbound_dialect"], &route["upstream_dialect"]),
        (&json!("anthropic"), &json!("openai")),
        "{route}"
    );
    for (name, value) in [
        ("x-route-objective", "dearest"),
        ("x-route-max-cost-per-1k-tokens", "much"),
        ("x-route-allowed-models", "a*b"),
    ] {
        let reply = gateway.call(Method::POST, "/v1/messages", &[json_type, (name, value)], body()).await;
        assert_eq!(reply.status, 400, "{name}");
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains(name), "{}", reply.text());
    }
    let mut long = asked.clone();
    long["model"] = json!("acme/small");
    long["messages"][0]["content"] = json!("many words ".repeat(2_000));
    let reply = gateway.post("/v1/messages", &long).await;
    let error = reply.json();
    assert!(error["error"]["message"].as_str().unwrap().starts_with("prompt is too long: "), "{error}");
    let mut wide = asked.clone();
    wide["model"] = json!("acme/small");
    wide["max_tokens"] = json!(5_000);
    let error = gateway.post("/v1/messages", &wide).await.json();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("input length and `max_tokens` exceed context limit: "), "{error}");
    assert!(message.contains(" + 5000 > 1000"), "{error}");
}

#[actix_web::test]
async fn an_overloaded_provider_that_asks_for_time_stays_an_overload_while_it_rests() {
    let answer = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 30\r\ncontent-length: 2\r\n\r\n{}";
    let maker = Upstream::start([Script::answering(answer)]);
    let gateway = gateway(&maker, "openai").await;
    for _ in 0..2 {
        let reply = gateway.post("/v1/messages", &request()).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["type"]),
            (529, &json!("overloaded_error")),
            "{}",
            reply.text()
        );
        assert_eq!(reply.header("retry-after"), Some("30"));
    }
    assert_eq!(maker.requests().len(), 1, "the second request is answered without a call");
}

#[actix_web::test]
async fn an_endpoint_gets_cache_marks_and_earlier_thoughts_only_if_it_lists_them() {
    let maker = always(200, &completion("Left."));
    let models = [("acme/plain", "\"max_tokens\", \"tools\""), ("acme/caching", "\"max_tokens\", \"tools\", \"cache_control\", \"reasoning\"")].map(|(id, lists)| {
        format!(
            "[[models]]\nid = \"{id}\"\ncontext_length = 100000\nsupported_parameters = [{lists}]\nendpoints = [{{ provider = \"maker\", \
             upstream_model = \"m\", pricing = {{ prompt = \"0\", completion = \"0\" }} }}]\n"
        )
    });
    let maker_of_objects = "wants_reasoning_effort = false";
    let world = World::new().provider_with("maker", maker.address(), maker_of_objects);
    let gateway = world.with(&models.concat()).start().await;
    let mark = json!({"type": "ephemeral"});
    let mut asked = json!({
        "max_tokens": 64, "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "tools": [{"name": "cache_control", "input_schema": {"type": "object", "properties": {"cache_control": {}}}, "cache_control": mark}],
        "messages": [
            {"role": "user", "content": "cache_control?"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "EqQB"}, {"type": "tool_use", "id": "t", "name": "cache_control", "input": {"cache_control": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "18", "cache_control": mark}, {"type": "text", "text": "Go.", "cache_control": mark}]},
        ],
    });
    let count = |body: &Value, text: &str| body.to_string().matches(text).count();
    asked["model"] = json!("acme/caching");
    let reply = gateway.post("/v1/messages", &asked).await;
    reply.expect(200);
    assert_eq!(reply.header("x-route-dropped-parameters"), None);
    let kept = maker.last_body();
    assert_eq!((count(&kept, "ephemeral"), count(&kept, "reasoning_details")), (4, 1), "{kept}");
    asked["model"] = json!("acme/plain");
    let reply = gateway.post("/v1/messages", &asked).await;
    reply.expect(200);
    let marks = "messages[].content[].cache_control,system[].cache_control,tools[].cache_control";
    assert_eq!(reply.header("x-route-dropped-parameters"), Some(marks));
    let plain = maker.last_body();
    assert_eq!((count(&plain, "ephemeral"), count(&plain, "reasoning_details")), (0, 0), "{plain}");
    let meant = |body: &Value| {
        (body["messages"][1].clone(), body["messages"][2]["tool_calls"].clone(), body["tools"][0]["function"].clone())
    };
    assert_eq!(meant(&plain), meant(&kept), "names and arguments stay");
}

/// `acme/claude` at a chat endpoint that lists these parameters only, with these keys.
async fn gateway_listing(upstream: &Upstream, parameters: &[&str], toml: &str) -> TestGateway {
    let model = Model::new("acme/claude").taking(parameters).at("maker", "0.000001", "0.000002");
    World::new().provider_with("maker", upstream.address(), toml).model(&model).start().await
}

#[actix_web::test]
async fn thinking_reaches_a_chat_endpoint_in_the_form_it_lists_or_is_named_as_dropped() {
    let maker = always(200, &completion("Left."));
    let mut messages = request();
    messages["thinking"] = json!({"type": "enabled", "budget_tokens": 20_000});
    messages["max_tokens"] = json!(30_000);
    let responses = json!({"model": "acme/claude", "input": "Which way?", "reasoning": {"effort": "high"}});
    let mut chat = ask("acme/claude");
    chat["reasoning"] = json!({"effort": "high"});
    let doors = [
        ("/v1/messages", &messages, "thinking", Some("thinking")),
        ("/v1/responses", &responses, "reasoning.effort", None),
        ("/v1/chat/completions", &chat, "reasoning", None),
    ];
    for (path, asked, name, emulated) in doors {
        let gateway = gateway_listing(&maker, &["max_tokens", "stop", "reasoning_effort"], "").await;
        let reply = gateway.post(path, asked).await;
        reply.expect(200);
        let body = maker.last_body();
        assert_eq!(body["reasoning_effort"], "high", "{path}: {body}");
        assert_eq!(body.get("reasoning"), None, "{path}: {body}");
        assert_eq!(reply.header("x-route-dropped-parameters"), None, "{path}");
        assert_eq!(reply.header("x-route-emulated-parameters"), emulated, "{path}");

        let gateway = gateway_listing(&maker, &["max_tokens", "stop"], "").await;
        let reply = gateway.post(path, asked).await;
        reply.expect(200);
        let body = maker.last_body();
        assert!(body.get("reasoning").is_none() && body.get("reasoning_effort").is_none(), "{path}: {body}");
        let dropped = reply.header("x-route-dropped-parameters").unwrap_or_default().to_owned();
        assert!(dropped.split(',').any(|one| one.starts_with(name)), "{path}: {dropped}");

        let takes_objects = "wants_reasoning_effort = false";
        let gateway = gateway_listing(&maker, &["max_tokens", "stop", "reasoning"], takes_objects).await;
        gateway.post(path, asked).await.expect(200);
        let body = maker.last_body();
        assert!(body["reasoning"].is_object() && body.get("reasoning_effort").is_none(), "{path}: {body}");
    }
}

#[actix_web::test]
async fn a_chat_endpoint_never_gets_the_signatures_of_another_provider() {
    let (maker, native) = (always(200, &completion("Left.")), always(500, &json!({})));
    let lists = ["max_tokens", "reasoning"];
    let chat = |id: &str| Model::new(id).taking(&lists).at("maker", "0.000001", "0.000002");
    let gateway = World::new()
        .provider_with("maker", maker.address(), "wants_reasoning_effort = false")
        .provider_with("native", native.address(), "dialect = \"anthropic\"")
        .model(&chat("acme/claude"))
        .model(&chat("anthropic/claude"))
        .model(&Model::new("acme/other").taking(&lists).at("native", "0.000001", "0.000002"))
        .start()
        .await;
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "EqQB"});
    let messages = json!({"model": "acme/claude", "max_tokens": 9, "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"}]});
    let detail = json!({"type": "reasoning.text", "text": "hm", "signature": "EqQB", "format": "anthropic-claude-v1"});
    let chat = json!({"model": "acme/claude", "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_details": [detail]},
        {"role": "user", "content": "c"}]});
    for (path, mut asked, name) in [
        ("/v1/messages", messages, "messages[].content[].thinking"),
        ("/v1/chat/completions", chat, "reasoning_details"),
    ] {
        let reply = gateway.post(path, &asked).await;
        reply.expect(200);
        let body = maker.last_body();
        assert_eq!(body["messages"][1]["content"], "b", "{path}: {body}");
        assert_eq!(body["messages"][1].get("reasoning_details"), None, "{path}: {body}");
        assert_eq!(reply.header("x-route-emulated-parameters"), Some(name), "{path}");

        // The same maker's model understands them, whoever serves it.
        asked["model"] = json!("anthropic/claude");
        gateway.post(path, &asked).await.expect(200);
        let body = maker.last_body();
        assert_eq!(body["messages"][1]["reasoning_details"][0]["signature"], "EqQB", "{path}: {body}");
    }
}

#[actix_web::test]
async fn an_endpoint_that_knows_only_an_effort_gets_one_and_no_thoughts_of_other_providers() {
    let maker = always(200, &completion("Left."));
    let model = "[[models]]\nid = \"acme/strict\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\", \"reasoning\"]\n\
                 endpoints = [{ provider = \"maker\", upstream_model = \"m\", pricing = { prompt = \"0\", completion = \"0\" } }]\n";
    let strict = "wants_reasoning_effort = true";
    let gateway = World::new().provider_with("maker", maker.address(), strict).with(model).start().await;
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "EqQB"});
    let asked = json!({
        "model": "acme/strict", "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 3000},
        "messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": [thought, {"type": "text", "text": "Ho."}]},
            {"role": "user", "content": "Which way?"},
        ],
    });
    let reply = gateway.post("/v1/messages", &asked).await;
    reply.expect(200);
    let sent = maker.last_body();
    assert_eq!((&sent["reasoning_effort"], &sent["reasoning"]), (&json!("low"), &Value::Null), "{sent}");
    assert!(!sent.to_string().contains("reasoning_details"), "{sent}");
    assert_eq!(reply.header("x-route-emulated-parameters"), Some("messages[].content[].thinking,thinking"));
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    let emulated = &record["data"]["route"]["emulated_parameters"];
    assert_eq!(*emulated, json!(["messages[].content[].thinking", "thinking"]), "{record}");

    let details =
        json!([{"type": "reasoning.text", "text": "hm", "signature": "EqQB", "format": "anthropic-claude-v1"}]);
    let turns = json!([{"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho.", "reasoning_content": "hm", "reasoning_details": details}, {"role": "user", "content": "Which way?"}]);
    let chat = json!({"model": "acme/strict", "messages": turns, "reasoning": {"effort": "high"}});
    let reply = gateway.chat(&chat).await;
    reply.expect(200);
    let sent = maker.last_body();
    assert_eq!((&sent["reasoning_effort"], &sent["reasoning"]), (&json!("high"), &Value::Null), "{sent}");
    assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": "Ho.", "reasoning_content": "hm"}));
    assert_eq!(reply.header("x-route-emulated-parameters"), Some("reasoning_details"));
}

#[actix_web::test]
async fn a_refusal_of_the_same_api_passes_as_it_came_but_for_the_id_of_the_request() {
    let refusal = "{\"type\":\"error\", \"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\",\"new\":1.50},\"request_id\":\"req_theirs\"}";
    for status in [400, 413, 422] {
        let head = format!(
            "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            refusal.len()
        );
        let maker = Upstream::start([Script::answering(head + refusal)]);
        let own = gateway(&maker, "anthropic").await;
        for streamed in [false, true] {
            let mut asked = request();
            asked["stream"] = json!(streamed);
            let reply = own.post("/v1/messages", &asked).await;
            assert_eq!(reply.status, status, "{}", reply.text());
            assert_eq!(reply.text(), refusal.replace("req_theirs", reply.header("request-id").unwrap()));
        }
        let reply = own.chat(&ask("acme/claude")).await;
        let error = &reply.json()["error"];
        assert!(error["metadata"]["raw"].as_str().unwrap().contains("Invalid `signature`"), "{error}");
    }
}

#[actix_web::test]
async fn a_prompt_that_an_endpoint_of_another_api_finds_too_long_is_told_in_the_words_that_agents_act_on() {
    let refusal = json!({"error": {"message": "This model's maximum context length is 9 tokens.", "code": "context_length_exceeded"}});
    let maker = always(400, &refusal);
    let gateway = gateway(&maker, "openai").await;
    let reply = gateway.post("/v1/messages", &request()).await;
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("prompt is too long") && message.contains("capability_rejected: prompt_too_long"),
        "{message}"
    );
}

#[actix_web::test]
async fn a_key_may_come_in_either_header_or_equal_in_both_and_the_prefix_of_the_api_alone_is_served() {
    let maker = always(200, &completion("Left."));
    let gateway = gateway(&maker, "openai").await;
    let bearer = format!("Bearer {KEY}");
    let (json_type, x_api_key, authorization) =
        (("content-type", "application/json"), ("x-api-key", KEY), ("authorization", bearer.as_str()));
    let other = ("authorization", "Bearer sk-another-0123456789abcdef");
    for (path, headers, status) in [
        ("/v1/messages?beta=true", vec![json_type, authorization], 200),
        ("/anthropic/v1/messages", vec![json_type, ("authorization", ""), x_api_key], 200),
        ("/anthropic/v1/messages/count_tokens", vec![json_type, authorization, x_api_key], 200),
        ("/v1/messages", vec![json_type, x_api_key, other], 401),
    ] {
        let reply = gateway.call(Method::POST, path, &headers, Some(request().to_string().into())).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        if status == 401 {
            assert_eq!(reply.json()["error"]["type"], "authentication_error", "{}", reply.text());
        }
    }
    let version = [("anthropic-version", "2023-06-01")];
    let list = gateway.call(Method::GET, "/anthropic/v1/models", &version, None).await.expect(200);
    assert_eq!(list["data"][0]["type"], "model", "{list}");
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let probed = Instant::now();
        assert_eq!(
            gateway.call(Method::HEAD, "/", &[], None).await.text(),
            "",
            "an agent asks whether anybody is there"
        );
        fastest = fastest.min(probed.elapsed());
    }
    assert!(fastest < Duration::from_millis(100) * UNOPTIMISED, "{fastest:?}");
}
