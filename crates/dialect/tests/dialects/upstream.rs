//! The same answer as a provider of each dialect gives it, whole and streamed, and what a client reads of it.

use std::collections::BTreeMap;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::{Bytes, BytesMut};
use pointsman_dialect::{AnswerContext, ChatRequest, ChatStream, StreamOptions, rewrite_whole};
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::world::{catalog, sent_of};

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Cut,
    Blocked,
}

/// What a model says.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) thought: &'static str,
    pub(crate) text: &'static str,
    /// Calls of `f`, each with the pieces of its arguments.
    pub(crate) calls: Vec<&'static [&'static str]>,
    pub(crate) end: End,
}

impl Said {
    pub(crate) const NOTHING: Said = Said { thought: "", text: "", calls: Vec::new(), end: End::Done };

    fn word(&self, words: [&'static str; 4]) -> &'static str {
        let [done, calls, cut, blocked] = words;
        match self.end {
            End::Done if self.calls.is_empty() => done,
            End::Done => calls,
            End::Cut => cut,
            End::Blocked => blocked,
        }
    }

    /// The arguments of each call as the object that most dialects want of a whole answer.
    fn inputs(&self) -> Option<Vec<Value>> {
        self.calls.iter().map(|pieces| serde_json::from_str(&pieces.concat()).ok()).collect()
    }

    /// The body of a whole answer; `None` if the dialect has no form for these arguments.
    pub(crate) fn whole(&self, dialect: Dialect) -> Option<String> {
        let said = |text: &'static str| (!text.is_empty()).then_some(text);
        let usage = json!({"input_tokens": 9, "output_tokens": 5, "total_tokens": 14});
        let body = match dialect {
            Dialect::OpenAi => {
                let calls: Vec<Value> = self.calls.iter().enumerate().map(|(n, pieces)| json!({"id": format!("c{n}"), "type": "function", "function": {"name": "f", "arguments": pieces.concat()}})).collect();
                let mut message = json!({"role": "assistant", "content": said(self.text)});
                if !self.thought.is_empty() {
                    message["reasoning_content"] = json!(self.thought);
                }
                if !calls.is_empty() {
                    message["tool_calls"] = json!(calls);
                }
                let finish = self.word(["stop", "tool_calls", "length", "content_filter"]);
                json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": finish}]})
            }
            Dialect::Anthropic => {
                let mut content = Vec::new();
                content.extend(
                    said(self.thought).map(|text| json!({"type": "thinking", "thinking": text, "signature": "EqQB"})),
                );
                content.extend(said(self.text).map(|text| json!({"type": "text", "text": text})));
                content.extend(self.inputs()?.into_iter().enumerate().map(
                    |(n, input)| json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "f", "input": input}),
                ));
                let reason = self.word(["end_turn", "tool_use", "max_tokens", "refusal"]);
                json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
                    "stop_reason": reason, "stop_sequence": null, "usage": usage})
            }
            Dialect::Gemini => {
                let mut parts = Vec::new();
                parts.extend(said(self.thought).map(|text| json!({"text": text, "thought": true})));
                parts.extend(said(self.text).map(|text| json!({"text": text})));
                parts.extend(
                    self.inputs()?.into_iter().map(|args| json!({"functionCall": {"name": "f", "args": args}})),
                );
                // An answer that ends regularly has a part here, but not one that is shown.
                if parts.is_empty() && self.end == End::Done {
                    parts.push(json!({"executableCode": {"code": "1"}}));
                }
                let reason = self.word(["STOP", "STOP", "MAX_TOKENS", "SAFETY"]);
                json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": reason}], "responseId": "r"})
            }
            Dialect::Responses => {
                let mut output = Vec::new();
                output.extend(said(self.thought).map(|text| json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "AbC="})));
                output.extend(said(self.text).map(|text| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]})));
                output.extend(self.calls.iter().enumerate().map(|(n, pieces)| json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("c{n}"), "name": "f", "arguments": pieces.concat(), "status": "completed"})));
                let reason = self.word(["", "", "max_output_tokens", "content_filter"]);
                let (status, details) = match self.end {
                    End::Done => ("completed", Value::Null),
                    _ => ("incomplete", json!({"reason": reason})),
                };
                json!({"id": "resp_1", "model": "m", "status": status, "incomplete_details": details, "output": output, "usage": usage})
            }
            Dialect::Converse => {
                let mut content = Vec::new();
                content.extend(
                    said(self.thought).map(
                        |text| json!({"reasoningContent": {"reasoningText": {"text": text, "signature": "EqQB"}}}),
                    ),
                );
                content.extend(said(self.text).map(|text| json!({"text": text})));
                content.extend(
                    self.inputs()?.into_iter().enumerate().map(
                        |(n, input)| json!({"toolUse": {"toolUseId": format!("t{n}"), "name": "f", "input": input}}),
                    ),
                );
                let reason = self.word(["end_turn", "tool_use", "max_tokens", "content_filtered"]);
                json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, "usage": {"inputTokens": 9, "outputTokens": 5}})
            }
        };
        Some(body.to_string())
    }

    /// The bytes of a stream.
    pub(crate) fn stream(&self, dialect: Dialect) -> Vec<u8> {
        let mut out = Vec::new();
        let mut number = 0;
        let mut event = |kind: &str, mut value: Value| {
            value["type"] = json!(kind);
            if dialect == Dialect::Responses {
                value["sequence_number"] = json!(number);
                number += 1;
            }
            out.extend(format!("event: {kind}\ndata: {value}\n\n").into_bytes());
        };
        match dialect {
            Dialect::OpenAi => {
                let mut text = String::new();
                let mut chunk = |delta: Value, finish: Value| {
                    text += &format!(
                        "data: {}\n\n",
                        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
                    );
                };
                for (name, said) in [("reasoning_content", self.thought), ("content", self.text)] {
                    if !said.is_empty() {
                        chunk(json!({ name: said }), Value::Null);
                    }
                }
                for (n, pieces) in self.calls.iter().enumerate() {
                    chunk(
                        json!({"tool_calls": [{"index": n, "id": format!("c{n}"), "type": "function", "function": {"name": "f"}}]}),
                        Value::Null,
                    );
                    for piece in *pieces {
                        chunk(json!({"tool_calls": [{"index": n, "function": {"arguments": piece}}]}), Value::Null);
                    }
                }
                chunk(json!({}), json!(self.word(["stop", "tool_calls", "length", "content_filter"])));
                text += "data: [DONE]\n\n";
                return text.into_bytes();
            }
            Dialect::Anthropic => {
                let usage = json!({"input_tokens": 9, "output_tokens": 1});
                event(
                    "message_start",
                    json!({"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, "usage": usage}}),
                );
                let mut index = 0;
                let mut block = |start: Value, deltas: Vec<Value>| {
                    event("content_block_start", json!({"index": index, "content_block": start}));
                    for delta in deltas {
                        event("content_block_delta", json!({"index": index, "delta": delta}));
                    }
                    event("content_block_stop", json!({"index": index}));
                    index += 1;
                };
                if !self.thought.is_empty() {
                    let deltas = vec![
                        json!({"type": "thinking_delta", "thinking": self.thought}),
                        json!({"type": "signature_delta", "signature": "EqQB"}),
                    ];
                    block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
                }
                if !self.text.is_empty() {
                    block(json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": self.text})]);
                }
                for (n, pieces) in self.calls.iter().enumerate() {
                    let deltas =
                        pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect();
                    block(json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "f", "input": {}}), deltas);
                }
                let reason = self.word(["end_turn", "tool_use", "max_tokens", "refusal"]);
                event(
                    "message_delta",
                    json!({"delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 5}}),
                );
                event("message_stop", json!({}));
            }
            Dialect::Gemini => return format!("data: {}\n\n", self.whole(dialect).unwrap()).into_bytes(),
            Dialect::Responses => {
                let response: Value = serde_json::from_str(&self.whole(dialect).unwrap()).unwrap();
                event(
                    "response.created",
                    json!({"response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}}),
                );
                for (place, item) in response["output"].as_array().unwrap().iter().enumerate() {
                    if item["type"] == "function_call" {
                        let mut opened = item.clone();
                        opened["arguments"] = json!("");
                        event("response.output_item.added", json!({"output_index": place, "item": opened}));
                        let call = self.calls.len() - (response["output"].as_array().unwrap().len() - place);
                        for piece in self.calls[call] {
                            event(
                                "response.function_call_arguments.delta",
                                json!({"output_index": place, "item_id": item["id"], "delta": piece}),
                            );
                        }
                        event(
                            "response.function_call_arguments.done",
                            json!({"output_index": place, "item_id": item["id"], "arguments": item["arguments"]}),
                        );
                    }
                    event("response.output_item.done", json!({"output_index": place, "item": item}));
                }
                event(&format!("response.{}", response["status"].as_str().unwrap()), json!({ "response": response }));
            }
            Dialect::Converse => {
                let mut events = vec![("messageStart", json!({"role": "assistant"}))];
                let delta = |index: usize, delta: Value| {
                    ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}))
                };
                let stop = |index: usize| ("contentBlockStop", json!({"contentBlockIndex": index}));
                if !self.thought.is_empty() {
                    events.extend([
                        delta(0, json!({"reasoningContent": {"text": self.thought}})),
                        delta(0, json!({"reasoningContent": {"signature": "EqQB"}})),
                        stop(0),
                    ]);
                }
                if !self.text.is_empty() {
                    events.extend([delta(1, json!({"text": self.text})), stop(1)]);
                }
                for (n, pieces) in self.calls.iter().enumerate() {
                    events.push(("contentBlockStart", json!({"contentBlockIndex": n + 2, "start": {"toolUse": {"toolUseId": format!("t{n}"), "name": "f"}}})));
                    events.extend(pieces.iter().map(|piece| delta(n + 2, json!({"toolUse": {"input": piece}}))));
                    events.push(stop(n + 2));
                }
                events.push((
                    "messageStop",
                    json!({"stopReason": self.word(["end_turn", "tool_use", "max_tokens", "content_filtered"])}),
                ));
                events.push(("metadata", json!({"usage": {"inputTokens": 9, "outputTokens": 5}})));
                return framed(&events);
            }
        }
        out
    }
}

/// Events in the framing of Amazon.
pub(crate) fn framed(events: &[(&str, Value)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in events {
        let header = |name: &'static str, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
        let message = Message::new(payload.to_string())
            .add_header(header(":event-type", kind))
            .add_header(header(":content-type", "application/json"))
            .add_header(header(":message-type", "event"));
        write_message_to(&message, &mut out).unwrap();
    }
    out
}

/// What the client of a request gets for a whole answer of a provider of this dialect.
pub(crate) fn answered(request: &ChatRequest, dialect: Dialect, body: &str, context: &AnswerContext) -> Value {
    let outgoing = sent_of(&catalog(), dialect, request);
    let answer = rewrite_whole(&Bytes::from(body.to_owned()), &outgoing, request.client.as_deref(), context);
    serde_json::from_slice(&answer.unwrap_or_else(|fault| panic!("{fault} {body}")).body).unwrap()
}

/// The events that the client of a request gets for a stream of a provider of this dialect.
pub(crate) fn relayed(request: &ChatRequest, dialect: Dialect, stream: &[u8], context: &AnswerContext) -> Vec<Value> {
    let outgoing = sent_of(&catalog(), dialect, request);
    let mut chat =
        ChatStream::between(Some(&outgoing), request.client.as_deref(), context.clone(), StreamOptions::default());
    let mut out = BytesMut::new();
    chat.push(&Bytes::copy_from_slice(stream), &mut out).unwrap();
    chat.end(&mut out).unwrap();
    let text = String::from_utf8(out.to_vec()).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
        .collect()
}

/// The message, the content or the output that a client puts together from the events of a stream.
pub(crate) fn put_together(events: &[Value]) -> Value {
    if events.iter().any(|event| event["type"] == "message_start") {
        return json!(blocks(events));
    }
    if let Some(end) = events.iter().rev().find(|event| event["response"].is_object()) {
        let output = end["response"]["output"].clone();
        check_pieces(events, &output);
        return output;
    }
    let mut message = json!({});
    for event in events {
        accumulate(&mut message, &event["choices"][0]["delta"]);
    }
    message
}

fn blocks(events: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                input.clear();
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let (block, delta) = (blocks.last_mut().unwrap(), &event["delta"]);
                for name in ["text", "thinking", "signature"] {
                    if let Some(more) = delta[name].as_str() {
                        block[name] = json!(format!("{}{more}", block[name].as_str().unwrap()));
                    }
                }
                input += delta["partial_json"].as_str().unwrap_or_default();
            }
            "content_block_stop" if !input.is_empty() => {
                blocks.last_mut().unwrap()["input"] =
                    serde_json::from_str(&input).unwrap_or_else(|_| json!(input.clone()));
            }
            _ => {}
        }
    }
    blocks
}

/// What a client joins from the pieces of a stream of the Responses API is what the events that end them say, the items, and
/// the last response. Every event has a number of its own, in their order, if any has.
fn check_pieces(events: &[Value], output: &Value) {
    let mut joined: BTreeMap<(u64, &str, u64), String> = BTreeMap::new();
    let mut arguments: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for event in events {
        let (kind, place) = (event["type"].as_str().unwrap(), event["output_index"].as_u64());
        let part = event["content_index"].as_u64().or(event["summary_index"].as_u64()).unwrap_or(0);
        if let (Some(what), Some(place)) = (kind.strip_suffix(".delta"), place) {
            *joined.entry((place, what, part)).or_default() += event["delta"].as_str().unwrap();
        } else if let ("response.function_call_arguments.done", Some(place)) = (kind, place) {
            arguments.entry(place).or_default().push(&event["arguments"]);
        } else if let ("response.output_item.done", Some(place)) = (kind, place)
            && event["item"]["type"] == "function_call"
        {
            arguments.entry(place).or_default().push(&event["item"]["arguments"]);
        }
    }
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert!(numbers.is_empty() || numbers.len() == events.len(), "{events:?}");
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}: {events:?}");
    for (place, item) in output.as_array().unwrap().iter().enumerate() {
        let place = place as u64;
        let mut ends = arguments.remove(&place).unwrap_or_default();
        if item["type"] == "function_call" {
            let pieces = joined.get(&(place, "response.function_call_arguments", 0));
            ends.push(&item["arguments"]);
            let pieces = pieces.map_or("", String::as_str);
            assert!(ends.iter().all(|end| *end == pieces), "pieces {pieces:?}, ends {ends:?}: {events:?}");
        }
    }
    for ((place, what, part), pieces) in joined {
        let item = &output[place as usize];
        let whole = match what {
            "response.output_text" => &item["content"][part as usize]["text"],
            "response.refusal" => &item["content"][part as usize]["refusal"],
            "response.reasoning_text" => &item["content"][part as usize]["text"],
            "response.reasoning_summary_text" => &item["summary"][part as usize]["text"],
            _ => continue,
        };
        assert_eq!(*whole, pieces, "{what} {place} {part}: {events:?}");
    }
}

/// As the accumulators of the official clients: texts are joined, lists by the index of their elements.
fn accumulate(whole: &mut Value, delta: &Value) {
    for (name, value) in delta.as_object().into_iter().flatten() {
        let known = &mut whole[name];
        match (known.as_str().map(str::to_owned), value) {
            (_, Value::Null) => {}
            (Some(before), Value::String(more)) if !matches!(&**name, "role" | "id" | "type" | "format") => {
                *known = json!(before + more);
            }
            (_, Value::Array(elements)) => {
                if known.is_null() {
                    *known = json!([]);
                }
                let list = known.as_array_mut().unwrap();
                for element in elements {
                    let place = element["index"].as_u64().map_or(list.len(), |index| index as usize);
                    list.resize(list.len().max(place + 1), json!({}));
                    accumulate(&mut list[place], element);
                }
            }
            (_, Value::Object(_)) => {
                if known.is_null() {
                    *known = json!({});
                }
                accumulate(known, value);
            }
            _ => *known = value.clone(),
        }
    }
}

/// Names and arguments of the calls in a message, a content or an output.
pub(crate) fn calls_of(message: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let call = |call: &Value| match call {
        Value::Object(members) if members.contains_key("function") => {
            Some((text(&call["function"]["name"]), text(&call["function"]["arguments"])))
        }
        _ if call["type"] == "tool_use" => Some((text(&call["name"]), text(&call["input"]))),
        _ if call["type"] == "function_call" => Some((text(&call["name"]), text(&call["arguments"]))),
        _ => None,
    };
    if let Some(legacy) = message.get("function_call") {
        return vec![(text(&legacy["name"]), text(&legacy["arguments"]))];
    }
    message.as_array().or(message["tool_calls"].as_array()).into_iter().flatten().filter_map(call).collect()
}
