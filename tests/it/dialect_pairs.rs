//! Every dialect of clients in front of every dialect of providers: what a client sees does not tell who served it, whole
//! answers and broken ones alike.
//!
//! `fixtures/pairs` holds, per pair, what the provider is sent and what the client gets.

use std::{fmt::Write as _, path::Path};

use expect_test::expect_file;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    amazon::{exception, frame},
    harness::{Reply, TestGateway},
    hostile::{CHUNKED, SHORT},
    scripted::{Script, Upstream},
    world::{World, and, completion, http, stream_of},
};

pub(crate) const PROVIDERS: [&str; 5] = ["openai", "anthropic", "gemini", "openai-responses", "converse"];
pub(crate) const DOORS: [Door; 3] = [Door::Chat, Door::Messages, Door::Responses];

/// Members whose values differ from run to run, or are opaque.
const MASKED: [&str; 9] = [
    "id",
    "item_id",
    "call_id",
    "tool_use_id",
    "created",
    "created_at",
    "completed_at",
    "signature",
    "encrypted_content",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Door {
    Chat,
    Messages,
    Responses,
}

/// What a client makes of an answer.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    text: String,
    /// Name and arguments.
    calls: Vec<(String, Value)>,
    finish: String,
    /// Tokens: of the prompt with what was cached, of those cached, of the answer.
    usage: [u64; 3],
    /// Whether the stream said in its dialect that the answer is whole.
    is_whole: bool,
    has_error: bool,
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]})
}

impl Door {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Door::Chat => "/api/v1/chat/completions",
            Door::Messages => "/v1/messages",
            Door::Responses => "/v1/responses",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Door::Chat => "chat",
            Door::Messages => "messages",
            Door::Responses => "responses",
        }
    }

    /// The same request at every door.
    pub(crate) fn request(self) -> Value {
        match self {
            Door::Chat => json!({
                "model": "acme/model", "max_tokens": 64,
                "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which way?"}],
                "tools": [{"type": "function", "function": {"name": "map", "description": "A map.", "parameters": schema()}}],
            }),
            Door::Messages => json!({
                "model": "acme/model", "max_tokens": 64, "system": "Be brief.",
                "messages": [{"role": "user", "content": "Which way?"}],
                "tools": [{"name": "map", "description": "A map.", "input_schema": schema()}],
            }),
            Door::Responses => json!({
                "model": "acme/model", "max_output_tokens": 64, "instructions": "Be brief.", "input": "Which way?",
                "tools": [{"type": "function", "name": "map", "description": "A map.", "parameters": schema()}],
            }),
        }
    }

    async fn ask(self, gateway: &TestGateway, stream: bool) -> Reply {
        let request = if stream { and(self.request(), json!({"stream": true})) } else { self.request() };
        gateway.post(self.path(), &request).await
    }

    fn seen(self, answer: &Value) -> Seen {
        let arguments = |text: &Value| serde_json::from_str(text.as_str().unwrap()).unwrap();
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let usage = &answer["usage"];
        let mut seen = Seen { is_whole: true, ..Seen::default() };
        match self {
            Door::Chat => {
                let message = &answer["choices"][0]["message"];
                seen.text = message["content"].as_str().unwrap_or_default().to_owned();
                seen.finish = answer["choices"][0]["finish_reason"].as_str().unwrap().to_owned();
                let calls = list(&message["tool_calls"]);
                let calls = calls.iter().map(|call| &call["function"]);
                seen.calls = calls.map(|call| (named(call), arguments(&call["arguments"]))).collect();
                let cached = &usage["prompt_tokens_details"]["cached_tokens"];
                seen.usage = [&usage["prompt_tokens"], cached, &usage["completion_tokens"]].map(number);
            }
            Door::Messages => {
                for block in list(&answer["content"]) {
                    match block["type"].as_str() {
                        Some("text") => seen.text.push_str(block["text"].as_str().unwrap()),
                        Some("tool_use") => seen.calls.push((named(&block), block["input"].clone())),
                        other => panic!("{other:?}"),
                    }
                }
                seen.finish = answer["stop_reason"].as_str().unwrap().replace("tool_use", "tool_calls");
                let cached = number(&usage["cache_read_input_tokens"]);
                seen.usage = [number(&usage["input_tokens"]) + cached, cached, number(&usage["output_tokens"])];
            }
            Door::Responses => {
                for item in list(&answer["output"]) {
                    match item["type"].as_str() {
                        Some("message") => seen.text.push_str(item["content"][0]["text"].as_str().unwrap()),
                        Some("function_call") => seen.calls.push((named(&item), arguments(&item["arguments"]))),
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(answer["status"], "completed");
                seen.finish = if seen.calls.is_empty() { "stop" } else { "tool_calls" }.to_owned();
                let cached = &usage["input_tokens_details"]["cached_tokens"];
                seen.usage = [&usage["input_tokens"], cached, &usage["output_tokens"]].map(number);
            }
        }
        seen
    }

    /// The stream put together as a client does.
    fn seen_in(self, events: &[Value]) -> Seen {
        let mut seen = Seen::default();
        let mut open: Vec<(String, String)> = Vec::new();
        let mut spent = json!({});
        for event in events {
            seen.has_error |= event["error"].is_object();
            match self {
                Door::Chat => {
                    let choice = &event["choices"][0];
                    seen.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
                    for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                        let at = call["index"].as_u64().unwrap() as usize;
                        if at == open.len() {
                            open.push((named(&call["function"]), String::new()));
                        }
                        open[at].1.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
                    }
                    if let Some(finish) = choice["finish_reason"].as_str() {
                        seen.finish = finish.to_owned();
                        seen.is_whole = finish != "error";
                    }
                    if event["usage"].is_object() {
                        let of = &event["usage"];
                        let cached = &of["prompt_tokens_details"]["cached_tokens"];
                        seen.usage = [&of["prompt_tokens"], cached, &of["completion_tokens"]]
                            .map(|value| value.as_u64().unwrap_or(0));
                    }
                }
                Door::Messages => match event["type"].as_str().unwrap() {
                    "message_start" => spent = event["message"]["usage"].clone(),
                    "content_block_start" if event["content_block"]["type"] == "tool_use" => {
                        open.push((named(&event["content_block"]), String::new()));
                    }
                    "content_block_delta" if event["delta"]["type"] == "text_delta" => {
                        seen.text.push_str(event["delta"]["text"].as_str().unwrap());
                    }
                    "content_block_delta" => {
                        let part = event["delta"]["partial_json"].as_str().unwrap();
                        open.last_mut().unwrap().1.push_str(part);
                    }
                    "message_delta" => {
                        let reason = event["delta"]["stop_reason"].as_str().unwrap();
                        seen.finish = reason.replace("tool_use", "tool_calls").replace("end_turn", "stop");
                        // What it repeats of the first event counts.
                        spent = and(spent, event["usage"].clone());
                        let of = |name: &str| spent[name].as_u64().unwrap_or(0);
                        let cached = of("cache_read_input_tokens");
                        seen.usage = [of("input_tokens") + cached, cached, of("output_tokens")];
                    }
                    "message_stop" => seen.is_whole = true,
                    _ => {}
                },
                Door::Responses => match event["type"].as_str().unwrap() {
                    "response.output_text.delta" => seen.text.push_str(event["delta"].as_str().unwrap()),
                    "response.failed" => seen.has_error |= event["response"]["error"].is_object(),
                    "response.completed" => {
                        let whole = self.seen(&event["response"]);
                        assert_eq!(whole.text, seen.text, "the last event repeats the answer");
                        return whole;
                    }
                    _ => {}
                },
            }
        }
        if seen.is_whole {
            let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| panic!("arguments: {text}"));
            seen.calls = open.into_iter().map(|(name, arguments)| (name, parsed(&arguments))).collect();
        }
        seen
    }
}

fn named(value: &Value) -> String {
    value["name"].as_str().unwrap().to_owned()
}

/// The same answer in a provider's dialect: a text and a call, 20 tokens of prompt, 8 of them cached, and 5 of answer.
pub(crate) fn whole(dialect: &str) -> Value {
    match dialect {
        "openai" => json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "m",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "Left, I think.",
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "map", "arguments": "{\"at\":1}"}}]}}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25, "prompt_tokens_details": {"cached_tokens": 8}},
        }),
        "anthropic" => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": null,
            "content": [{"type": "text", "text": "Left, I think."}, {"type": "tool_use", "id": "toolu_1", "name": "map", "input": {"at": 1}}],
            "usage": {"input_tokens": 12, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 5},
        }),
        "gemini" => json!({
            "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
                {"text": "Left, I think."}, {"functionCall": {"name": "map", "args": {"at": 1}}}]}}],
            "usageMetadata": {"promptTokenCount": 20, "cachedContentTokenCount": 8, "candidatesTokenCount": 5, "totalTokenCount": 25},
            "modelVersion": "m", "responseId": "r1",
        }),
        "converse" => json!({
            "output": {"message": {"role": "assistant", "content": [
                {"text": "Left, I think."}, {"toolUse": {"toolUseId": "tooluse_1", "name": "map", "input": {"at": 1}}}]}},
            "stopReason": "tool_use", "metrics": {"latencyMs": 9},
            "usage": {"inputTokens": 12, "cacheReadInputTokens": 8, "cacheWriteInputTokens": 0, "outputTokens": 5, "totalTokens": 25},
        }),
        _ => json!({
            "id": "resp_1", "object": "response", "created_at": 7, "status": "completed", "model": "m",
            "output": [spoken("completed", "Left, I think."), called("completed", "{\"at\":1}")],
            "usage": {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 5,
                      "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 25},
        }),
    }
}

fn spoken(status: &str, text: &str) -> Value {
    let content =
        if text.is_empty() { json!([]) } else { json!([{"type": "output_text", "text": text, "annotations": []}]) };
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content})
}

fn called(status: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "map", "arguments": arguments, "status": status})
}

/// The answer of [`whole`] as the provider streams it, an event each, and the position behind the first text and behind the
/// first half of the call (the call itself where a dialect sends calls whole).
pub(crate) fn streamed(dialect: &str) -> (Vec<Vec<u8>>, [usize; 2]) {
    let events = match dialect {
        "converse" => frames(),
        _ => server_sent(dialect).into_iter().map(String::into_bytes).collect(),
    };
    (events, [2, 5])
}

fn frames() -> Vec<Vec<u8>> {
    let delta = |index: u8, delta: Value| {
        frame("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta, "p": "abcdef"}))
    };
    let stop = |index: u8| frame("contentBlockStop", &json!({"contentBlockIndex": index}));
    let start = json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "map"}}});
    let usage = &whole("converse")["usage"];
    vec![
        frame("messageStart", &json!({"role": "assistant"})),
        delta(0, json!({"text": "Left, "})),
        [delta(0, json!({"text": "I think."})), stop(0)].concat(),
        frame("contentBlockStart", &start),
        delta(1, json!({"toolUse": {"input": "{\"at\""}})),
        [delta(1, json!({"toolUse": {"input": ":1}"}})), stop(1)].concat(),
        frame("messageStop", &json!({"stopReason": "tool_use"})),
        frame("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 9}})),
    ]
}

fn server_sent(dialect: &str) -> Vec<String> {
    let data = |value: &Value| format!("data: {value}\n\n");
    let named = |value: &Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    match dialect {
        "openai" => {
            let chunk = |delta: Value, finish: Value| {
                data(&json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m",
                             "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
            };
            let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
            let usage = &whole("openai")["usage"];
            vec![
                chunk(json!({"role": "assistant", "content": ""}), Value::Null),
                chunk(json!({"content": "Left, "}), Value::Null),
                chunk(json!({"content": "I think."}), Value::Null),
                call(
                    json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "map", "arguments": ""}}),
                ),
                call(json!({"index": 0, "function": {"arguments": "{\"at\""}})),
                call(json!({"index": 0, "function": {"arguments": ":1}"}})),
                chunk(json!({}), json!("tool_calls")),
                data(
                    &json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [], "usage": usage}),
                ),
                "data: [DONE]\n\n".to_owned(),
            ]
        }
        "anthropic" => {
            let delta = |index: u8, delta: Value| {
                named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
            };
            let stop = |index: u8| named(&json!({"type": "content_block_stop", "index": index}));
            vec![
                named(
                    &json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                    "content": [], "stop_reason": null, "stop_sequence": null,
                    "usage": {"input_tokens": 12, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 1}}}),
                ),
                named(
                    &json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                ) + &delta(0, json!({"type": "text_delta", "text": "Left, "})),
                delta(0, json!({"type": "text_delta", "text": "I think."})) + &stop(0),
                named(&json!({"type": "content_block_start", "index": 1,
                              "content_block": {"type": "tool_use", "id": "toolu_1", "name": "map", "input": {}}})),
                delta(1, json!({"type": "input_json_delta", "partial_json": "{\"at\""})),
                delta(1, json!({"type": "input_json_delta", "partial_json": ":1}"})) + &stop(1),
                named(
                    &json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 5}}),
                ),
                named(&json!({"type": "message_stop"})),
            ]
        }
        "gemini" => {
            let part = |part: Value| {
                data(
                    &json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "responseId": "r1"}),
                )
            };
            let mut last = whole("gemini");
            last["candidates"][0]["content"]["parts"] = json!([{"text": ""}]);
            vec![
                part(json!({"text": ""})),
                part(json!({"text": "Left, "})),
                part(json!({"text": "I think."})),
                String::new(),
                part(json!({"functionCall": {"name": "map", "args": {"at": 1}}})),
                data(&last),
            ]
        }
        _ => {
            let mut sequence = 0;
            let mut event = |kind: &str, more: Value| {
                let value = and(json!({"type": kind, "sequence_number": sequence}), more);
                sequence += 1;
                named(&value)
            };
            let begun = and(whole(dialect), json!({"status": "in_progress", "output": [], "usage": null}));
            vec![
                event("response.created", json!({"response": begun})),
                event("response.output_item.added", json!({"output_index": 0, "item": spoken("in_progress", "")}))
                    + &event(
                        "response.content_part.added",
                        json!({"item_id": "msg_1", "output_index": 0, "content_index": 0,
                        "part": {"type": "output_text", "text": "", "annotations": []}}),
                    )
                    + &event(
                        "response.output_text.delta",
                        json!({"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Left, "}),
                    ),
                event(
                    "response.output_text.delta",
                    json!({"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "I think."}),
                ) + &event(
                    "response.output_text.done",
                    json!({"item_id": "msg_1", "output_index": 0, "content_index": 0, "text": "Left, I think."}),
                ) + &event(
                    "response.output_item.done",
                    json!({"output_index": 0, "item": spoken("completed", "Left, I think.")}),
                ),
                event("response.output_item.added", json!({"output_index": 1, "item": called("in_progress", "")})),
                event(
                    "response.function_call_arguments.delta",
                    json!({"item_id": "fc_1", "output_index": 1, "delta": "{\"at\""}),
                ),
                event(
                    "response.function_call_arguments.delta",
                    json!({"item_id": "fc_1", "output_index": 1, "delta": ":1}"}),
                ) + &event(
                    "response.function_call_arguments.done",
                    json!({"item_id": "fc_1", "output_index": 1, "arguments": "{\"at\":1}"}),
                ) + &event(
                    "response.output_item.done",
                    json!({"output_index": 1, "item": called("completed", "{\"at\":1}")}),
                ),
                event("response.completed", json!({"response": whole(dialect)})),
            ]
        }
    }
}

/// One chunk of a body.
fn chunk(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// The beginning of a stream, up to these bytes.
pub(crate) fn begun_with(bytes: &[u8]) -> Vec<u8> {
    [CHUNKED.as_bytes(), &chunk(bytes)].concat()
}

/// A gateway whose model stands at `maker`, and at `spare`, which speaks chat, for more money.
pub(crate) async fn gateway(dialect: &str, maker: &Upstream, spare: Option<&Upstream>) -> TestGateway {
    let endpoint = |provider: &str, price: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"m\", pricing = {{ prompt = \"{price}\", completion = \"{price}\" }} }}"
        )
    };
    let mut endpoints = vec![endpoint("maker", "0.000001")];
    let mut world =
        World::new().provider_with("maker", maker.address(), &format!("dialect = \"{dialect}\"")).with(SHORT);
    if let Some(spare) = spare {
        endpoints.push(endpoint("spare", "0.001"));
        world = world.provider("spare", spare.address());
    }
    let parameters = "supported_parameters = [\"max_tokens\", \"tools\", \"tool_choice\"]";
    let endpoints = endpoints.join(", ");
    world
        .with(&format!(
            "[[models]]\nid = \"acme/model\"\ncontext_length = 100000\n{parameters}\nendpoints = [{endpoints}]\n"
        ))
        .start()
        .await
}

pub(crate) fn events(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| panic!("{data}"))).collect()
}

fn masked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            for (name, value) in members {
                let is_masked = MASKED.contains(&&**name) && !value.is_null();
                *value = if is_masked { json!("…") } else { masked(value.take()) };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = masked(item.take())),
        _ => {}
    }
    value
}

#[actix_web::test]
async fn the_same_answer_looks_the_same_to_a_client_whichever_dialect_served_it() {
    let expected = || Seen {
        text: "Left, I think.".to_owned(),
        calls: vec![("map".to_owned(), json!({"at": 1}))],
        finish: "tool_calls".to_owned(),
        usage: [20, 8, 5],
        is_whole: true,
        has_error: false,
    };
    let mut of_chat: Vec<Value> = Vec::new();
    for dialect in PROVIDERS {
        for door in DOORS {
            let stream = [begun_with(&streamed(dialect).0.concat()), b"0\r\n\r\n".to_vec()].concat();
            let asked = Script::new().request().send(http(200, &whole(dialect))).request().send(stream).fin();
            let maker = Upstream::start([asked]);
            let gateway = gateway(dialect, &maker, None).await;
            let plain = door.ask(&gateway, false).await.expect(200);
            let sent = maker.last_body();
            assert_eq!(door.seen(&plain), expected(), "{} at {dialect}", door.name());
            let reply = door.ask(&gateway, true).await;
            assert_eq!(door.seen_in(&events(&reply)), expected(), "{} at {dialect}: {}", door.name(), reply.text());
            if door == Door::Chat {
                let mut shown = masked(plain.clone());
                shown["choices"][0]["native_finish_reason"] = Value::Null;
                of_chat.push(shown);
            }

            let mut shown = format!(
                "== what the provider is sent\n{:#}\n\n== the answer\n{:#}\n\n== the stream\n",
                masked(sent),
                masked(plain)
            );
            events(&reply).into_iter().for_each(|event| writeln!(shown, "{}", masked(event)).unwrap());
            let name = format!("tests/it/fixtures/pairs/{}-{dialect}.txt", door.name());
            expect_file![Path::new(env!("CARGO_MANIFEST_DIR")).join(name)].assert_eq(&shown);
        }
    }
    // What is masked are ids and times: nothing else tells a client which dialect served.
    assert!(of_chat.iter().all(|answer| *answer == of_chat[0]), "{of_chat:#?}");
}

/// What a provider does behind its first text, or before it, and what it is called.
fn breaks(dialect: &str, after_text: bool) -> Vec<(&'static str, Script)> {
    let (events, [text, call]) = streamed(dialect);
    let text = if after_text { text } else { 1 };
    let begun = |until: usize| Script::new().request().send(begun_with(&events[..until].concat()));
    let error: &[u8] = match dialect {
        "anthropic" => {
            b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Busy.\"}}\n\n"
        }
        "converse" => &exception("throttlingException", "Busy."),
        "gemini" => b"data: {\"error\":{\"code\":503,\"message\":\"Busy.\",\"status\":\"UNAVAILABLE\"}}\n\n",
        "openai" => b"data: {\"error\":{\"code\":503,\"message\":\"Busy.\"}}\n\n",
        _ => {
            b"event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"Busy.\",\"param\":null,\"sequence_number\":9}\n\n"
        }
    };
    let filler = "x".repeat(20 << 20);
    let (long, malformed) = match dialect {
        "converse" => (frame("metadata", &json!({"filler": filler})), b"no frame at all".to_vec()),
        _ => (format!("data: {{\"filler\":\"{filler}\"}}\n\n").into_bytes(), b"data: {\"broken\n\n".to_vec()),
    };
    let mut breaks = vec![
        ("cut", begun(text).fin()),
        ("ended without its end", begun(text).send("0\r\n\r\n").fin()),
        ("reset", begun(text).reset()),
        ("silent", begun(text)),
        ("malformed", begun(text).send(chunk(malformed)).fin()),
        ("an error inside of a 200", begun(text).send(chunk(error)).send("0\r\n\r\n").fin()),
        ("an event of 20 MiB", begun(text).send(chunk(&long)).fin()),
    ];
    if after_text && dialect != "gemini" {
        breaks.push(("a call that never ends", begun(call).send("0\r\n\r\n").fin()));
    }
    let sealed = "s".repeat(5 << 20);
    let signature = match dialect {
        "anthropic" => [
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "signature_delta", "signature": sealed}}),
        ]
        .map(|event| format!("data: {event}\n\n"))
        .concat()
        .into_bytes(),
        "gemini" => {
            let part = json!({"text": "", "thoughtSignature": sealed});
            format!("data: {}\n\n", json!({"candidates": [{"content": {"parts": [part]}}]})).into_bytes()
        }
        "converse" => frame(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 3, "delta": {"reasoningContent": {"signature": sealed}}}),
        ),
        _ => Vec::new(),
    };
    if !signature.is_empty() && after_text {
        breaks.push(("a signature that is too long", begun(text).send(chunk(signature)).send("0\r\n\r\n").fin()));
    }
    let stray = match dialect {
        "anthropic" => {
            Some(json!({"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}))
        }
        "openai-responses" => Some(
            json!({"type": "response.function_call_arguments.delta", "sequence_number": 9, "item_id": "fc_9", "output_index": 9, "delta": "x"}),
        ),
        _ => None,
    };
    if dialect == "converse" {
        let stray = json!({"contentBlockIndex": 7, "delta": {"toolUse": {"input": "x"}}});
        let frame = frame("contentBlockDelta", &stray);
        breaks.push(("an event out of order", begun(text).send(chunk(frame)).send("0\r\n\r\n").fin()));
        let mut flipped = events[2].clone();
        flipped[100] ^= 1;
        breaks.push(("a flipped bit", begun(text).send(chunk(flipped)).send("0\r\n\r\n").fin()));
    }
    breaks.extend(stray.map(|stray| {
        let event = format!("event: {}\ndata: {stray}\n\n", stray["type"].as_str().unwrap());
        ("an event out of order", begun(text).send(chunk(&event)).send("0\r\n\r\n").fin())
    }));
    breaks
}

#[actix_web::test]
async fn a_stream_that_breaks_after_its_first_text_ends_with_an_error_in_the_clients_dialect() {
    for dialect in PROVIDERS {
        let cases = breaks(dialect, true).into_iter().flat_map(|broken| DOORS.map(|door| (door, broken.clone())));
        join_all(cases.map(async |(door, (what, script))| {
            let maker = Upstream::start([script]);
            let spare = Upstream::start([Script::answering(stream_of(&["Never."]))]);
            let gateway = gateway(dialect, &maker, Some(&spare)).await;
            let reply = door.ask(&gateway, true).await;
            let context = format!("{what}, {} at {dialect}: {}", door.name(), reply.text());
            assert_eq!(reply.status, 200, "{context}");
            let seen = door.seen_in(&events(&reply));
            assert!(seen.text.starts_with("Left, ") && !seen.text.contains("Never."), "{context}");
            assert!(seen.has_error && !seen.is_whole, "{context}");
            assert!(!reply.text().contains("Busy."), "the provider's words are not the client's: {context}");
        }))
        .await;
    }
}

#[actix_web::test]
async fn a_stream_that_breaks_before_its_first_text_is_answered_by_another_dialect() {
    for dialect in PROVIDERS {
        let cases = breaks(dialect, false).into_iter().flat_map(|broken| DOORS.map(|door| (door, broken.clone())));
        join_all(cases.map(async |(door, (what, script))| {
            let maker = Upstream::start([script]);
            let spare = Upstream::start([Script::answering(stream_of(&["Le", "ft."]))]);
            let gateway = gateway(dialect, &maker, Some(&spare)).await;
            let reply = door.ask(&gateway, true).await;
            let seen = door.seen_in(&events(&reply));
            let context = format!("{what}, {} at {dialect}: {}", door.name(), reply.text());
            assert!(seen.is_whole && !seen.has_error, "{context}");
            assert_eq!(seen.text, "Left.", "{context}");
        }))
        .await;
    }
}

#[actix_web::test]
async fn a_plain_answer_that_breaks_is_answered_by_another_dialect() {
    for dialect in PROVIDERS {
        let body = whole(dialect).to_string();
        let head = |length: usize| {
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
        };
        let half = body.split_at(body.len() / 2).0;
        let broken = [
            Script::new().request().send(head(body.len()) + half).fin(),
            Script::answering(head(half.len()) + half),
            Script::answering(head(2) + "{}"),
            Script::answering(http(200, &json!({"error": {"code": 500, "message": "Busy.", "type": "server_error"}}))),
        ];
        for (door, script) in broken.into_iter().flat_map(|script| DOORS.map(|door| (door, script.clone()))) {
            let maker = Upstream::start([script]);
            let spare = Upstream::start([Script::answering(http(200, &completion("Left.")))]);
            let gateway = gateway(dialect, &maker, Some(&spare)).await;
            let answer = door.ask(&gateway, false).await.expect(200);
            assert_eq!(door.seen(&answer).text, "Left.", "{} at {dialect}", door.name());
        }
    }
}
