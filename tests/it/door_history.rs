//! Conversations of agents that come back: reasoning goes to the provider that wrote it, and results stand behind their calls.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, Reply, TestGateway},
    issued_keys,
    refusals::{OTHER, SHA256},
    scripted::{Script, Upstream},
    world::{Model, World, always, and, answer, ask, completion, http},
};

const THOUGHT: &str = "I need the \"tool\"";

/// An answer with a thought and a call.
fn calling() -> Value {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{\"a\":1}"}});
    let mut whole = answer(
        json!({"role": "assistant", "content": "", "reasoning_content": THOUGHT, "tool_calls": [call]}),
        json!({"prompt_tokens": 5, "completion_tokens": 5}),
    );
    whole["choices"][0]["finish_reason"] = json!("tool_calls");
    whole
}

/// The same as a stream, with the thought in two pieces.
fn calling_streamed() -> String {
    let chunk = |delta: Value, finish: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        format!(
            "data: {}\n\n",
            json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "p", "choices": choices})
        )
    };
    let (first, second) = THOUGHT.split_at(4);
    let message = calling()["choices"][0]["message"].clone();
    let mut call = message["tool_calls"][0].clone();
    call["index"] = json!(0);
    let body = [
        chunk(json!({"role": "assistant", "reasoning_content": first}), Value::Null),
        chunk(json!({"reasoning_content": second}), Value::Null),
        chunk(json!({"tool_calls": [call]}), Value::Null),
        chunk(json!({}), json!("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// `acme/thinker` at one chat provider with these keys.
fn world(upstream: &Upstream, toml: &str) -> World {
    let model = Model::new("acme/thinker")
        .taking(&["max_tokens", "tools", "tool_choice", "reasoning"])
        .with("input_modalities = [\"text\", \"image\", \"file\"]");
    World::new()
        .provider_with("maker", upstream.address(), toml)
        .model(&model.at("maker", "0.000001", "0.000002"))
        .with("[routing.retry]\nmax_attempts = 1")
}

async fn gateway(upstream: &Upstream, toml: &str) -> TestGateway {
    world(upstream, toml).start().await
}

/// The data of all events of a stream.
fn data(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    lines.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// The first request of a tool loop at a door.
fn first(path: &str, streamed: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let mut body = match path {
        "/v1/messages" => json!({"max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"name": "get", "input_schema": schema}]}),
        "/v1/responses" => json!({"input": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "name": "get", "parameters": schema}]}),
        _ => json!({"messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "get", "parameters": schema}}]}),
    };
    (body["model"], body["stream"]) = (json!("acme/thinker"), json!(streamed));
    body
}

/// The second request: the answer to the first as it came, and the result of its call.
fn second(path: &str, mut body: Value, reply: &Reply) -> Value {
    let streamed = body["stream"] == true;
    match path {
        "/v1/messages" => {
            let content = if streamed { content_of(&data(reply)) } else { reply.json()["content"].clone() };
            let result = json!([{"type": "tool_result", "tool_use_id": content[1]["id"], "content": "18"}]);
            let turns = body["messages"].as_array_mut().unwrap();
            turns.push(json!({"role": "assistant", "content": content}));
            turns.push(json!({"role": "user", "content": result}));
        }
        "/v1/responses" => {
            let response = match streamed {
                true => data(reply).pop().unwrap()["response"].clone(),
                false => reply.json(),
            };
            let input = body["input"].as_array_mut().unwrap();
            input.extend(response["output"].as_array().unwrap().clone());
            let call = input.last().unwrap()["call_id"].clone();
            input.push(json!({"type": "function_call_output", "call_id": call, "output": "18"}));
        }
        _ => {
            let turns = body["messages"].as_array_mut().unwrap();
            let message =
                if streamed { message_of(&data(reply)) } else { reply.json()["choices"][0]["message"].clone() };
            let call = message["tool_calls"][0]["id"].clone();
            turns.push(message);
            turns.push(json!({"role": "tool", "tool_call_id": call, "content": "18"}));
        }
    }
    body["stream"] = json!(false);
    body
}

/// The message of chat that was streamed, as clients put it together: texts are joined, elements with an index one by one.
fn message_of(chunks: &[Value]) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    for delta in chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]) {
        for name in ["content", "reasoning", "reasoning_content"] {
            if let Some(piece) = delta[name].as_str() {
                message[name] = json!(message[name].as_str().unwrap_or_default().to_owned() + piece);
            }
        }
        for name in ["reasoning_details", "tool_calls"] {
            for element in delta[name].as_array().into_iter().flatten() {
                add_element(&mut message, name, element);
            }
        }
    }
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        call.as_object_mut().unwrap().remove("index");
    }
    message
}

/// Adds a piece of an element of a list to the element with its index.
fn add_element(message: &mut Value, name: &str, piece: &Value) {
    if message[name].is_null() {
        message[name] = json!([]);
    }
    let list = message[name].as_array_mut().unwrap();
    let Some(element) = list.iter_mut().find(|element| element["index"] == piece["index"]) else {
        return list.push(piece.clone());
    };
    let join = |known: &mut Value, more: &Value| {
        *known = json!(known.as_str().unwrap_or_default().to_owned() + more.as_str().unwrap_or_default());
    };
    join(&mut element["text"], &piece["text"]);
    if piece["function"].is_object() {
        join(&mut element["function"]["arguments"], &piece["function"]["arguments"]);
    }
}

/// The content of a message that was streamed.
fn content_of(events: &[Value]) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" => {
                let (delta, block) = (&event["delta"], blocks.last_mut().unwrap());
                for name in ["thinking", "signature", "text"] {
                    if let Some(piece) = delta[name].as_str() {
                        block[name] = json!(block[name].as_str().unwrap_or_default().to_owned() + piece);
                    }
                }
                input.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }
    blocks.last_mut().unwrap()["input"] = serde_json::from_str(&input).unwrap();
    json!(blocks)
}

#[actix_web::test]
async fn reasoning_goes_back_to_a_chat_provider_in_the_member_that_it_reads() {
    let members = [
        ("reasoning_content", vec!["reasoning_content"]),
        ("reasoning", vec!["reasoning"]),
        ("both", vec!["reasoning_content", "reasoning"]),
        ("reasoning_details", vec!["reasoning_details"]),
    ];
    for (history, names) in members {
        for (path, streamed) in [
            ("/v1/messages", false),
            ("/v1/messages", true),
            ("/v1/responses", false),
            ("/v1/responses", true),
            ("/v1/chat/completions", false),
            ("/v1/chat/completions", true),
        ] {
            let turn = if streamed { calling_streamed() } else { http(200, &calling()) };
            let script = Script::new().request().send(turn).request().send(http(200, &completion("18.")));
            let maker = Upstream::start([script]);
            let gateway = gateway(&maker, &format!("reasoning_history = \"{history}\"")).await;
            let asked = first(path, streamed);
            let reply = gateway.post(path, &asked).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
            let again = second(path, asked, &reply);
            let reply = gateway.post(path, &again).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
            assert_eq!(reply.header("x-route-emulated-parameters"), None, "{path}");
            let sent = maker.last_body()["messages"][1].clone();
            for name in ["reasoning_content", "reasoning", "reasoning_details"] {
                let expected = if names.contains(&name) { json!(THOUGHT) } else { Value::Null };
                // A provider that knows the details takes the other members of a chat client too.
                if name != "reasoning_details" && history == "reasoning_details" {
                    assert!(path == "/v1/chat/completions" || sent[name].is_null(), "{path}: {sent}");
                    continue;
                }
                let found = if name == "reasoning_details" { &sent[name][0]["text"] } else { &sent[name] };
                assert_eq!(*found, expected, "{history} {path} {streamed}: {sent}");
            }
            assert_eq!(sent["tool_calls"][0]["function"]["name"], "get", "{sent}");
        }
    }
}

#[actix_web::test]
async fn a_provider_that_gives_reasoning_content_gets_it_back_without_a_key() {
    for (path, streamed) in
        [("/v1/messages", false), ("/v1/messages", true), ("/v1/responses", true), ("/v1/chat/completions", false)]
    {
        let turn = if streamed { calling_streamed() } else { http(200, &calling()) };
        let script = Script::new().request().send(turn).request().send(http(200, &completion("18.")));
        let maker = Upstream::start([script]);
        let gateway = gateway(&maker, "").await;
        let asked = first(path, streamed);
        let reply = gateway.post(path, &asked).await;
        let again = second(path, asked, &reply);
        gateway.post(path, &again).await.expect(200);
        let sent = maker.last_body()["messages"][1].clone();
        assert_eq!(sent["reasoning_content"], THOUGHT, "{path} {streamed}: {sent}");
    }
}

#[actix_web::test]
async fn a_thought_that_the_client_wants_omitted_goes_back_with_its_text() {
    for history in ["", "reasoning_history = \"reasoning_content\""] {
        for streamed in [false, true] {
            let turn = if streamed { calling_streamed() } else { http(200, &calling()) };
            let script = Script::new().request().send(turn).request().send(http(200, &completion("18.")));
            let maker = Upstream::start([script]);
            let gateway = gateway(&maker, history).await;
            let mut asked = first("/v1/messages", streamed);
            asked["thinking"] = json!({"type": "adaptive", "display": "omitted"});
            let reply = gateway.post("/v1/messages", &asked).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert!(!reply.text().contains("I need"), "{}", reply.text());
            let again = second("/v1/messages", asked, &reply);
            assert_eq!(again["messages"][1]["content"][0]["thinking"], "", "{again}");
            gateway.post("/v1/messages", &again).await.expect(200);
            let sent = maker.last_body()["messages"][1].clone();
            assert_eq!(sent["reasoning_content"], THOUGHT, "{history} {streamed}: {sent}");
        }
    }
}

#[actix_web::test]
async fn a_body_of_responses_at_the_door_of_chat_has_its_results_behind_its_calls() {
    let maker = always(200, &completion("18."));
    let gateway = gateway(&maker, "").await;
    let input = json!([
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": "{}"},
        {"role": "user", "content": "wait"},
        {"type": "function_call_output", "call_id": "c1", "output": "18"},
    ]);
    for path in ["/v1/chat/completions", "/v1/responses"] {
        gateway.post(path, &json!({"model": "acme/thinker", "input": input})).await.expect(200);
        let sent = maker.last_body();
        let roles: Vec<&str> =
            sent["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "user"], "{path}: {sent}");
    }
    let call = json!({"role": "assistant", "content": null, "function_call": {"name": "get", "arguments": "{}"}});
    let result = json!({"role": "function", "name": "get", "content": "18"});
    let claude = always(200, &json!({"error": "none"}));
    let gateway = self::gateway(&claude, "dialect = \"anthropic\"").await;
    let messages = json!([{"role": "user", "content": "Hi"}, call, {"role": "user", "content": "wait"}, result]);
    gateway.chat(&json!({"model": "acme/thinker", "messages": messages})).await;
    let sent = claude.last_body();
    assert_eq!(sent["messages"][2]["content"][0]["content"], "18", "{sent}");
    assert!(!sent.to_string().contains("[no result]"), "{sent}");
}

#[actix_web::test]
async fn a_file_of_an_instruction_reaches_a_provider_that_takes_none_there() {
    let pdf = "data:application/pdf;base64,JVBERi0=";
    let file = json!({"type": "input_file", "file_data": pdf, "filename": "a.pdf"});
    let rule = json!({"role": "developer", "content": [{"type": "input_text", "text": "rule"}, file]});
    let (hi, go) = (json!({"role": "user", "content": "Hi"}), json!({"role": "user", "content": "Go"}));
    let of_chat = json!({"type": "file", "file": {"file_data": pdf, "filename": "a.pdf"}});
    let system = json!({"role": "system", "content": [{"type": "text", "text": "rule"}, of_chat]});
    for dialect in ["anthropic", "gemini", "converse"] {
        let maker = always(200, &json!({"error": "none"}));
        let gateway = gateway(&maker, &format!("dialect = \"{dialect}\"")).await;
        for (path, body) in [
            ("/v1/responses", json!({"input": [hi, rule, go]})),
            ("/v1/responses", json!({"input": [rule, hi]})),
            ("/v1/chat/completions", json!({"messages": [hi, system, go]})),
            ("/v1/chat/completions", json!({"messages": [system, hi]})),
        ] {
            let asked = and(body, json!({"model": "acme/thinker"}));
            gateway.post(path, &asked).await;
            let sent = maker.last_body();
            let list = if dialect == "gemini" { &sent["contents"] } else { &sent["messages"] };
            assert_eq!(list.to_string().matches("JVBERi0=").count(), 1, "{dialect} {path}: {sent}");
        }
    }
}

#[actix_web::test]
async fn a_file_that_no_endpoint_has_a_form_for_is_refused_at_every_door() {
    let zip = "data:application/zip;base64,UEsDBA==";
    let of_chat = json!({"type": "file", "file": {"file_data": zip, "filename": "a.zip"}});
    let item = json!({"type": "input_file", "file_data": zip, "filename": "a.zip"});
    let user = |part: &Value| json!([{"role": "user", "content": [part]}]);
    let source = json!({"type": "base64", "media_type": "application/zip", "data": "UEsDBA=="});
    let document = json!({"type": "document", "source": source});
    let call = json!({"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}});
    let result = json!([
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [of_chat]},
    ]);
    let output = json!([
        {"role": "user", "content": "Hi"}, {"type": "function_call", "call_id": "c1", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [item]},
    ]);
    for dialect in ["gemini", "converse"] {
        let maker = always(200, &json!({"error": "none"}));
        let gateway = gateway(&maker, &format!("dialect = \"{dialect}\"")).await;
        for (path, body) in [
            ("/v1/chat/completions", json!({"messages": user(&of_chat)})),
            ("/v1/responses", json!({"input": user(&item)})),
            ("/v1/chat/completions", json!({"messages": result})),
            ("/v1/responses", json!({"input": output})),
            ("/v1/messages", json!({"messages": user(&document), "max_tokens": 9})),
        ] {
            let reply = gateway.post(path, &and(body, json!({"model": "acme/thinker"}))).await;
            let error = reply.json()["error"].clone();
            let told = error["message"].as_str().unwrap();
            assert_eq!(reply.status, 400, "{dialect} {path}: {error}");
            assert!(told.contains("acme/thinker") && told.contains("files of this type"), "{dialect} {path}: {error}");
        }
        assert_eq!(maker.connections(), 0, "{dialect}");
    }
}

#[actix_web::test]
async fn a_provider_that_misses_reasoning_content_gets_it_and_is_remembered() {
    let words = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    let refused = http(400, &json!({"error": {"message": words, "type": "invalid_request_error"}}));
    for path in ["/v1/messages", "/v1/responses", "/v1/chat/completions"] {
        let mut calling = calling();
        let message = &mut calling["choices"][0]["message"];
        message["reasoning"] = message.as_object_mut().unwrap().remove("reasoning_content").unwrap();
        let served = http(200, &completion("18."));
        let script = Script::new().request().send(http(200, &calling));
        let maker = Upstream::start([script.request().send(refused.clone()).then(&Script::answering(served))]);
        let gateway = gateway(&maker, "").await;
        let asked = first(path, false);
        let reply = gateway.post(path, &asked).await;
        let again = second(path, asked, &reply);
        for calls in [3, 4] {
            let reply = gateway.post(path, &again).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
            assert_eq!(maker.bodies().len(), calls, "{path}: the second time it is known");
            let sent = maker.last_body()["messages"][1].clone();
            assert_eq!(sent["reasoning_content"], THOUGHT, "{path}: {sent}");
            assert!(sent.get("reasoning_details").is_none() && sent.get("reasoning").is_none(), "{path}: {sent}");
        }
    }
}

/// The calls are another model's, or the client has dropped the thought.
#[actix_web::test]
async fn a_provider_that_misses_reasoning_in_a_call_without_any_gets_a_blank_and_is_remembered() {
    let chat = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "18"},
    ]);
    let messages = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "get", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "18"}]},
    ]);
    let input = json!([
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "18"},
    ]);
    for words in [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        "Missing `reasoning_content` field in the assistant message at message index 1.",
    ] {
        let refused = http(400, &json!({"error": {"message": words, "type": "invalid_request_error"}}));
        for (path, history) in [
            ("/v1/messages", json!({"messages": messages, "max_tokens": 99})),
            ("/v1/responses", json!({"input": input})),
            ("/v1/chat/completions", json!({"messages": chat})),
        ] {
            for known in ["", "reasoning_history = \"reasoning_content\""] {
                let served = Script::answering(http(200, &completion("18.")));
                let maker = Upstream::start([Script::new().request().send(refused.clone()).then(&served), served]);
                let gateway = gateway(&maker, known).await;
                let body = and(history.clone(), json!({"model": "acme/thinker"}));
                for calls in [2, 3] {
                    let reply = gateway.post(path, &body).await;
                    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
                    assert_eq!(maker.bodies().len(), calls, "{path}: the second time it is known");
                    let sent = maker.last_body()["messages"].clone();
                    let thoughts: Vec<_> = (0..3).map(|at| sent[at]["reasoning_content"].clone()).collect();
                    assert_eq!(thoughts, [Value::Null, json!(" "), Value::Null], "{path} {known}: {sent}");
                }
            }
        }
    }
}

#[actix_web::test]
async fn a_provider_that_refuses_the_reasoning_of_another_is_asked_again_without_it() {
    let refused =
        http(400, &json!({"error": {"message": "'messages.1' : property 'reasoning_content' is unsupported"}}));
    let served = http(200, &completion("18."));
    let script = Script::new().request().send(refused.clone()).request().send(refused);
    let maker = Upstream::start([script.then(&Script::answering(served))]);
    let gateway = gateway(&maker, "").await;
    let mut chat = ask("acme/thinker");
    let thought = json!({"role": "assistant", "content": "Ho.", "reasoning_content": "hm"});
    chat["messages"] = json!([{"role": "user", "content": "Hi"}, &thought, {"role": "user", "content": "Go"}]);
    gateway.chat(&chat).await.expect(200);
    assert_eq!(maker.bodies().len(), 3);
    assert_eq!(maker.last_body()["messages"][1], json!({"role": "assistant", "content": "Ho."}));
    // It may have been what only this client sends, so that nothing is made of it for others.
    gateway.chat(&chat).await.expect(200);
    assert_eq!(maker.last_body()["messages"][1], thought);
}

#[actix_web::test]
async fn a_provider_that_takes_no_reasoning_gets_none() {
    let maker = always(200, &completion("18."));
    let gateway = gateway(&maker, "reasoning_history = \"none\"").await;
    let mut chat = ask("acme/thinker");
    chat["messages"] = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho.", "reasoning": "hm", "reasoning_content": "hm",
         "reasoning_details": [{"type": "reasoning.text", "text": "hm", "format": "unknown"}]},
        {"role": "user", "content": "Go"},
    ]);
    let reply = gateway.chat(&chat).await;
    reply.expect(200);
    assert_eq!(maker.last_body()["messages"][1], json!({"role": "assistant", "content": "Ho."}));
    let named = "messages[].reasoning,reasoning_content,reasoning_details";
    assert_eq!(reply.header("x-route-emulated-parameters"), Some(named));
}

#[actix_web::test]
async fn a_member_that_the_gateway_added_and_the_provider_refuses_is_left_out_from_then_on() {
    let words = json!({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]});
    for status in [400, 422] {
        let served = calling_streamed();
        let script = Script::new().request().send(http(status, &words)).then(&Script::answering(served));
        let maker = Upstream::start([script]);
        let gateway = gateway(&maker, "").await;
        for calls in [2, 3] {
            let reply = gateway.post("/v1/chat/completions", &first("/v1/chat/completions", true)).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let bodies = maker.bodies();
            assert_eq!(bodies.len(), calls, "the second time it is known");
            assert_eq!(bodies.last().unwrap().get("stream_options"), None);
        }
        assert!(maker.bodies()[0]["stream_options"].is_object());
    }
    // A refusal that only seems to be about it is the client's, and teaches nothing.
    let maker = always(400, &json!({"error": {"message": "Tool 'stream_options' is odd."}}));
    let gateway = gateway(&maker, "").await;
    for calls in [2, 4] {
        let reply = gateway.post("/v1/chat/completions", &first("/v1/chat/completions", true)).await;
        assert_eq!((reply.status, maker.bodies().len()), (400, calls), "{}", reply.text());
    }
    let bodies = maker.bodies();
    assert!(bodies[2]["stream_options"].is_object() && bodies[3].get("stream_options").is_none());
}

/// The second answer of a hostile image server makes it look as if the member had been the reason.
#[actix_web::test]
async fn words_of_one_caller_turn_no_member_off_for_others() {
    let refused =
        json!({"error": {"message": "Failed to download image from https://evil.example/stream_options.png."}});
    let served = Script::answering(calling_streamed());
    let maker = Upstream::start([Script::new().request().send(http(400, &refused)).then(&served)]);
    let gateway = gateway(&maker, "").await;
    for calls in [2, 3] {
        let reply = gateway.post("/v1/chat/completions", &first("/v1/chat/completions", true)).await;
        assert_eq!((reply.status, maker.bodies().len()), (200, calls), "{}", reply.text());
    }
    let bodies = maker.bodies();
    assert!(bodies[1].get("stream_options").is_none() && bodies[2]["stream_options"].is_object());
}

#[actix_web::test]
async fn words_that_may_be_about_a_member_teach_only_if_two_accounts_get_them() {
    const CHAT: &str = "/v1/chat/completions";
    let odd = http(400, &json!({"error": {"message": "Tool 'stream_options' is odd."}}));
    let served = calling_streamed();
    let refused_first = |script: Script| script.request().send(odd.clone()).request().send(served.clone());
    let script = (0..3).fold(Script::new(), |script, _| refused_first(script));
    let maker = Upstream::start([script.then(&Script::answering(served.clone()))]);
    let gateway = world(&maker, "").with(&format!("[[keys]]\nname = \"other\"\nsha256 = \"{SHA256}\"\n")).start().await;
    for (key, calls) in [(KEY, 2), (KEY, 4), (OTHER, 6), (KEY, 7), (OTHER, 8)] {
        let reply = issued_keys::call(&gateway, Method::POST, CHAT, key, Some(first(CHAT, true))).await;
        assert_eq!((reply.status, maker.bodies().len()), (200, calls), "{}", reply.text());
        assert_eq!(maker.last_body().get("stream_options"), None);
    }
}

#[actix_web::test]
async fn members_that_a_provider_is_known_to_refuse_are_never_sent() {
    let maker = Upstream::start([Script::answering(calling_streamed())]);
    let gateway = gateway(&maker, "omits = [\"stream_options\"]").await;
    assert_eq!(gateway.post("/v1/chat/completions", &first("/v1/chat/completions", true)).await.status, 200);
    assert_eq!(maker.last_body().get("stream_options"), None);
}

#[actix_web::test]
async fn a_provider_gets_an_effort_unless_it_is_known_to_take_the_object() {
    for (toml, object) in [("", false), ("wants_reasoning_effort = false", true)] {
        let maker = always(200, &completion("18."));
        let gateway = gateway(&maker, toml).await;
        let mut messages = first("/v1/messages", false);
        messages["output_config"] = json!({"effort": "low"});
        let mut responses = first("/v1/responses", false);
        responses["reasoning"] = json!({"effort": "low"});
        let mut chat = first("/v1/chat/completions", false);
        chat["reasoning"] = json!({"effort": "low"});
        for (path, asked) in [("/v1/messages", messages), ("/v1/responses", responses), ("/v1/chat/completions", chat)]
        {
            gateway.post(path, &asked).await.expect(200);
            let sent = maker.last_body();
            let effort = if object { json!({"effort": "low"}) } else { json!("low") };
            assert_eq!(sent[if object { "reasoning" } else { "reasoning_effort" }], effort, "{path}: {sent}");
            assert_eq!(sent.get(if object { "reasoning_effort" } else { "reasoning" }), None, "{path}: {sent}");
        }
    }
}

#[actix_web::test]
async fn a_budget_of_thinking_becomes_the_nearest_effort_and_is_named() {
    let maker = always(200, &completion("18."));
    let gateway = gateway(&maker, "").await;
    let mut chat = first("/v1/chat/completions", false);
    chat["reasoning"] = json!({"max_tokens": 2048});
    let mut messages = first("/v1/messages", false);
    (messages["thinking"], messages["max_tokens"]) = (json!({"type": "enabled", "budget_tokens": 2048}), json!(4096));
    for (path, asked, named) in [("/v1/chat/completions", chat, "reasoning"), ("/v1/messages", messages, "thinking")] {
        let reply = gateway.post(path, &asked).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(maker.last_body()["reasoning_effort"], "low", "{path}: {}", maker.last_body());
        assert_eq!(reply.header("x-route-emulated-parameters"), Some(named), "{path}");
    }
}

#[actix_web::test]
async fn a_hosted_tool_that_no_endpoint_has_is_refused_by_its_name() {
    for dialect in ["openai", "gemini", "openai-responses", "converse"] {
        let maker = always(200, &completion("18."));
        let gateway = gateway(&maker, &format!("dialect = \"{dialect}\"")).await;
        let mut messages = first("/v1/messages", false);
        messages["tools"].as_array_mut().unwrap().push(json!({"type": "web_search_20250305", "name": "web_search"}));
        let reply = gateway.post("/v1/messages", &messages).await;
        let error = reply.json()["error"].clone();
        assert_eq!(reply.status, 400, "{dialect}: {error}");
        assert!(error["message"].as_str().unwrap().contains("the tool 'web_search_20250305'"), "{dialect}: {error}");
        assert_eq!(maker.connections(), 0, "{dialect}");
    }
}
