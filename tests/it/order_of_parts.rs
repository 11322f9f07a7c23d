//! Answers whose parts alternate: they keep their order on every way, whole as in a stream.

use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::{Script, Upstream},
    world::{Model, World, always},
};

/// A message of Claude that thinks, speaks and calls by turns.
fn message() -> Value {
    let thought = |text: &str| json!({"type": "thinking", "thinking": text, "signature": format!("signed {text}")});
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {"at": id}});
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "tool_use",
        "stop_sequence": null, "usage": {"input_tokens": 20, "output_tokens": 9},
        "content": [thought("one"), text("First."), call("a"), thought("two"), text("Second."), call("b")]})
}

/// The events that stream a message.
fn events(message: &Value) -> Vec<Value> {
    let mut begun = message.clone();
    (begun["content"], begun["stop_reason"]) = (json!([]), Value::Null);
    let mut events = vec![json!({"type": "message_start", "message": begun})];
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let (start, deltas) = match block["type"].as_str().unwrap() {
            "thinking" => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                vec![
                    json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                    json!({"type": "signature_delta", "signature": block["signature"]}),
                ],
            ),
            "text" => (json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": block["text"]})]),
            _ => (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                vec![json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})],
            ),
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"stop_reason": message["stop_reason"], "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": end, "usage": message["usage"]}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// The same answer as a response of OpenAI.
fn response() -> Value {
    let thought = |text: &str| {
        json!({"type": "reasoning", "id": format!("rs_{text}"), "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": format!("sealed {text}")})
    };
    let text = |id: &str, text: &str| {
        json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let call = |id: &str| {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "look", "status": "completed",
            "arguments": json!({"at": id}).to_string()})
    };
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-x",
        "usage": {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29},
        "output": [thought("one"), text("msg_1", "First."), call("a"), thought("two"), text("msg_2", "Second."), call("b")]})
}

/// The events that stream a response, of those that a client needs.
fn response_events(response: &Value) -> Vec<Value> {
    let mut begun = response.clone();
    (begun["output"], begun["status"]) = (json!([]), json!("in_progress"));
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (place, item) in response["output"].as_array().unwrap().iter().enumerate() {
        events.push(json!({"type": "response.output_item.added", "output_index": place, "item": item}));
        events.push(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": response}));
    events
}

async fn gateway(dialect: &str, answer: &Value) -> TestGateway {
    let maker = always(200, answer);
    World::new()
        .provider_with("maker", maker.keep(), &format!("dialect = \"{dialect}\""))
        .model(&Model::new("acme/one").at("maker", "0", "0"))
        .start()
        .await
}

async fn streaming_gateway(dialect: &str, events: &[Value]) -> TestGateway {
    let events: Vec<String> =
        events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect();
    let body = events.concat();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len());
    let maker = Upstream::start([Script::answering(head + &body)]);
    World::new()
        .provider_with("maker", maker.keep(), &format!("dialect = \"{dialect}\""))
        .model(&Model::new("acme/one").at("maker", "0", "0"))
        .start()
        .await
}

/// The data of the events of a stream.
fn data(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// What an item of a response says.
fn said(item: &Value) -> String {
    match item["type"].as_str().unwrap() {
        "reasoning" => format!("thinks {}", item["summary"][0]["text"].as_str().unwrap()),
        "message" => format!("says {}", item["content"][0]["text"].as_str().unwrap()),
        kind => format!("{kind} {}", item["arguments"].as_str().unwrap()),
    }
}

#[actix_web::test]
async fn thoughts_texts_and_calls_of_claude_keep_their_order_in_a_response_whole_or_streamed() {
    let expected = [
        "thinks one",
        "says First.",
        "function_call {\"at\":\"a\"}",
        "thinks two",
        "says Second.",
        "function_call {\"at\":\"b\"}",
    ];
    let order = |response: &Value| response["output"].as_array().unwrap().iter().map(said).collect::<Vec<_>>();
    let mut asked = json!({"model": "acme/one", "input": "Look."});

    let whole = gateway("anthropic", &message()).await.post("/v1/responses", &asked).await.expect(200);
    assert_eq!(order(&whole), expected);

    asked["stream"] = json!(true);
    let gateway = streaming_gateway("anthropic", &events(&message())).await;
    let reply = gateway.post("/v1/responses", &asked).await;
    let last = data(&reply).pop().unwrap();
    assert_eq!(order(&last["response"]), expected);
}

#[actix_web::test]
async fn items_of_a_response_keep_their_order_in_a_message_whole_or_streamed() {
    let expected = ["thinking", "text", "tool_use", "thinking", "text", "tool_use"];
    let mut asked = json!({"model": "acme/one", "max_tokens": 64, "messages": [{"role": "user", "content": "Look."}]});

    let whole = gateway("openai-responses", &response()).await.post("/v1/messages", &asked).await.expect(200);
    let blocks = whole["content"].as_array().unwrap();
    assert_eq!(blocks.iter().map(|block| block["type"].as_str().unwrap()).collect::<Vec<_>>(), expected, "{whole}");
    assert_eq!((&blocks[1]["text"], &blocks[4]["text"]), (&json!("First."), &json!("Second.")));
    assert_eq!((&blocks[2]["input"], &blocks[5]["input"]), (&json!({"at": "a"}), &json!({"at": "b"})));
    assert_eq!(whole["stop_reason"], "tool_use");

    asked["stream"] = json!(true);
    let gateway = streaming_gateway("openai-responses", &response_events(&response())).await;
    let reply = gateway.post("/v1/messages", &asked).await;
    let events = data(&reply);
    let starts = events.iter().filter(|event| event["type"] == "content_block_start");
    let kinds: Vec<&str> = starts.map(|event| event["content_block"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, expected, "{}", reply.text());
}

#[actix_web::test]
async fn a_long_argument_of_a_call_arrives_whole_where_every_character_of_it_is_escaped_once_more() {
    let written = "\"\n".repeat(50_000);
    let call = json!({"functionCall": {"name": "write", "args": {"text": written}}});
    let answer = json!({"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}});
    let asked = json!({"model": "acme/one", "max_tokens": 64, "messages": [{"role": "user", "content": "Write."}]});
    let whole = gateway("gemini", &answer).await.post("/v1/messages", &asked).await.expect(200);
    assert_eq!(whole["content"][0]["input"]["text"], json!(written));
}
