//! A provider that answers a call for a stream with one JSON object: an error is what it is, and an answer becomes a stream.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::{Script, Upstream},
    world::{Model, World, and, answer, ask, error_of, http, http_with},
};

const CALL: &str = "{\"city\":\"Oslo\"}";

/// A whole answer of each dialect: a text and a call.
fn answers() -> [(&'static str, Value); 5] {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": CALL}});
    let usage = json!({"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17});
    let mut chat = answer(json!({"role": "assistant", "content": "There.", "tool_calls": [call]}), usage);
    chat["choices"][0]["finish_reason"] = json!("tool_calls");
    let input = json!({"city": "Oslo"});
    [
        ("openai", chat),
        (
            "anthropic",
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
                "stop_sequence": null, "content": [{"type": "text", "text": "There."},
                    {"type": "tool_use", "id": "call_1", "name": "weather", "input": input}],
                "usage": {"input_tokens": 12, "output_tokens": 5}}),
        ),
        (
            "gemini",
            json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model",
                "parts": [{"text": "There."}, {"functionCall": {"name": "weather", "args": input}}]}}],
                "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17}}),
        ),
        (
            "openai-responses",
            json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "error": null,
                "output": [{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": "There.", "annotations": []}]},
                    {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "call_1", "name": "weather",
                        "arguments": CALL}],
                "usage": {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}}),
        ),
        (
            "converse",
            json!({"output": {"message": {"role": "assistant", "content": [{"text": "There."},
                {"toolUse": {"toolUseId": "call_1", "name": "weather", "input": input}}]}}, "stopReason": "tool_use",
                "usage": {"inputTokens": 12, "outputTokens": 5, "totalTokens": 17}, "metrics": {"latencyMs": 1}}),
        ),
    ]
}

async fn gateway(dialect: &str, upstream: &Upstream) -> TestGateway {
    let world = World::new().provider_with("acme", upstream.address(), &format!("dialect = \"{dialect}\""));
    world.model(&Model::new("acme/x").at("acme", "0.001", "0.001")).start().await
}

/// A streamed call at each door.
fn calls() -> [(&'static str, Value); 3] {
    let turn = json!([{"role": "user", "content": "Which weather?"}]);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let function = json!({"name": "weather", "description": "w", "parameters": schema});
    [
        (
            "chat/completions",
            json!({"messages": turn, "tools": [{"type": "function", "function": function}]}),
        ),
        (
            "messages",
            json!({"messages": turn, "max_tokens": 99, "tools": [{"name": "weather", "input_schema": schema}]}),
        ),
        (
            "responses",
            json!({"input": "Which weather?", "tools": [{"type": "function", "name": "weather", "parameters": schema}]}),
        ),
    ]
    .map(|(door, body)| (door, and(body, json!({"model": "acme/x", "stream": true}))))
}

/// The data of the events of a stream.
fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Text and arguments that the events of a door add up to.
fn said(events: &[Value]) -> (String, String) {
    let (mut text, mut arguments) = (String::new(), String::new());
    for event in events {
        let delta = &event["choices"][0]["delta"];
        let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        text += &string(&delta["content"]);
        arguments += &string(&delta["tool_calls"][0]["function"]["arguments"]);
        match event["type"].as_str() {
            Some("content_block_delta") => {
                text += &string(&event["delta"]["text"]);
                arguments += &string(&event["delta"]["partial_json"]);
            }
            Some("response.output_text.delta") => text += &string(&event["delta"]),
            Some("response.function_call_arguments.delta") => arguments += &string(&event["delta"]),
            _ => {}
        }
    }
    (text, arguments)
}

#[actix_web::test]
async fn a_whole_answer_in_the_place_of_a_stream_becomes_a_stream_at_every_door_for_every_dialect() {
    for (dialect, body) in answers() {
        let upstream = Upstream::start([Script::answering(http(200, &body))]);
        let gateway = gateway(dialect, &upstream).await;
        for (door, asked) in calls() {
            let reply = gateway.post(&format!("/api/v1/{door}"), &asked).await;
            assert_eq!(reply.status, 200, "{dialect} {door}: {}", reply.text());
            let text = reply.text();
            let (said, arguments) = said(&events(&text));
            assert_eq!(said, "There.", "{dialect} {door}: {text}");
            let arguments: Value =
                serde_json::from_str(&arguments).unwrap_or_else(|_| panic!("{dialect} {door}: {text}"));
            assert_eq!(arguments, json!({"city": "Oslo"}), "{dialect} {door}: {text}");
            let end = match door {
                "messages" => "message_stop",
                "responses" => "response.completed",
                _ => "data: [DONE]",
            };
            assert!(
                text.contains(end) && text.contains("tool") | text.contains("function_call"),
                "{dialect} {door}: {text}"
            );
            let id = reply.header("x-generation-id").unwrap();
            let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
            assert_eq!(
                (&record["tokens_prompt"], &record["tokens_completion"]),
                (&json!(12), &json!(5)),
                "{dialect} {door}: {record}"
            );
        }
    }
}

/// White space keeps connections open while a provider works; the answer may come in pieces.
#[actix_web::test]
async fn a_whole_answer_may_come_late_and_in_pieces() {
    let (_, body) = answers()[0].clone();
    let body = format!("\n  \n{body}\n");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let (first, rest) = body.split_at(60);
    let (blank, first) = first.split_at(2);
    let script = Script::new().request().send(head).send(blank).send(first).send(rest);
    let upstream = Upstream::start([script]);
    let gateway = gateway("openai", &upstream).await;
    let reply = gateway.chat(&and(ask("acme/x"), json!({"stream": true}))).await;
    assert_eq!(said(&events(&reply.text())).0, "There.", "{}", reply.text());
}

#[actix_web::test]
async fn an_error_in_the_place_of_a_stream_is_the_error_that_it_is_and_closes_no_more() {
    let anthropic =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens is wrong."}});
    let gemini = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The temperature is wrong."}});
    let responses = json!({"error": {"code": "invalid_prompt", "type": "invalid_request_error", "message": "Wrong."}});
    let minimax =
        json!({"id": "x", "choices": null, "base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}});
    let key = json!({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}});
    for (dialect, body, status, closes) in [
        ("openai", minimax, 400, None),
        ("openai", key, 502, Some("config_fault")),
        ("anthropic", anthropic, 400, None),
        ("gemini", gemini, 400, None),
        ("openai-responses", responses, 400, None),
    ] {
        let upstream = Upstream::start([Script::answering(http_with(200, "", &body))]);
        let gateway = gateway(dialect, &upstream).await;
        for n in 0..4 {
            let reply = gateway.chat(&and(ask("acme/x"), json!({"stream": true}))).await;
            let expected = if n > 0 && closes.is_some() { 503 } else { status };
            error_of(&reply, expected);
        }
        let shown = gateway.post("/api/v1/route/preview", &ask("acme/x")).await.json();
        assert_eq!(shown["excluded"][0]["reason"].as_str(), closes, "{body}: {shown}");
    }
}
