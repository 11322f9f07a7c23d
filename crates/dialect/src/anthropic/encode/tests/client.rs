//! A client as strict as the strictest: it rebuilds the message from a stream, and refuses what no client may be sent.

use serde_json::{Value, json};

/// What a stream came to.
#[derive(Debug)]
pub(super) struct Received {
    /// The message, as the client knows it at the end.
    pub(super) message: Value,
    /// The event `error` that ended the stream.
    pub(super) error: Option<Value>,
    /// `message_stop` came.
    pub(super) is_complete: bool,
    /// The names of the events.
    pub(super) names: Vec<String>,
    /// `message` of `message_start`.
    pub(super) start: Value,
}

struct OpenBlock {
    index: usize,
    /// Text of `input_json_delta`s.
    input: String,
    has_input: bool,
    is_signed: bool,
}

/// Reads a stream, which may be unfinished.
pub(super) fn receive(stream: &[u8]) -> Received {
    let text = std::str::from_utf8(stream).expect("UTF-8");
    let mut received =
        Received { message: Value::Null, error: None, is_complete: false, names: Vec::new(), start: Value::Null };
    let mut open: Option<OpenBlock> = None;
    let mut has_delta = false;
    assert!(text.is_empty() || text.ends_with("\n\n"), "an unfinished event: {text}");
    for event in text.split_terminator("\n\n") {
        assert!(!received.is_complete && received.error.is_none(), "an event after the end: {event}");
        let (name, data) = event.split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("a line with the name first");
        let data = data.strip_prefix("data: ").expect("a line with the data");
        let data: Value = serde_json::from_str(data).unwrap_or_else(|fault| panic!("{fault}: {data}"));
        assert_eq!(data["type"], name);
        received.names.push(name.to_owned());
        let message = &mut received.message;
        match name {
            "ping" => {}
            "error" => received.error = Some(data),
            "message_start" => {
                assert!(message.is_null(), "a second start");
                received.start = data["message"].clone();
                *message = received.start.clone();
                assert!(message["content"] == json!([]) && message["stop_reason"].is_null());
                assert!(message["usage"]["input_tokens"].as_u64().unwrap() > 0, "{message}");
                assert_eq!(message["usage"]["output_tokens"], 1);
                all_counts(&message["usage"]);
            }
            _ if message.is_null() => panic!("{name} before the start"),
            "content_block_start" => {
                assert!(open.is_none() && !has_delta, "a block within a block, or after the last");
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!(data["index"], content.len());
                let block = data["content_block"].clone();
                let empty = match block["type"].as_str().unwrap() {
                    "text" => json!({"type": "text", "text": ""}),
                    "thinking" => json!({"type": "thinking", "thinking": "", "signature": ""}),
                    "redacted_thinking" => {
                        json!({"type": "redacted_thinking", "data": block["data"].as_str().unwrap()})
                    }
                    "tool_use" => {
                        let (id, name) = (block["id"].as_str().unwrap(), block["name"].as_str().unwrap());
                        json!({"type": "tool_use", "id": id, "name": name, "input": {}})
                    }
                    kind => panic!("a block of the type {kind}"),
                };
                assert_eq!(block, empty);
                open =
                    Some(OpenBlock { index: content.len(), input: String::new(), has_input: false, is_signed: false });
                content.push(block);
            }
            "content_block_delta" => {
                let open = open.as_mut().expect("a delta without a block");
                assert_eq!(data["index"], open.index);
                take_delta(&mut message["content"][open.index], &data["delta"], open);
            }
            "content_block_stop" => {
                let open = open.take().expect("a stop without a block");
                assert_eq!(data["index"], open.index);
                let block = &mut message["content"][open.index];
                match block["type"].as_str().unwrap() {
                    "tool_use" => {
                        assert!(open.has_input, "a call without a fragment");
                        block["input"] = serde_json::from_str(&open.input).unwrap_or(Value::String(open.input));
                    }
                    "thinking" => assert!(open.is_signed),
                    _ => {}
                }
            }
            "message_delta" => {
                assert!(open.is_none() && !has_delta, "an end within a block, or a second one");
                has_delta = true;
                for (name, value) in data["delta"].as_object().unwrap() {
                    message[name] = value.clone();
                }
                all_counts(&data["usage"]);
                message["usage"] = data["usage"].clone();
            }
            "message_stop" => {
                assert!(has_delta);
                received.is_complete = true;
            }
            _ => panic!("an unknown event {name}"),
        }
    }
    received
}

fn take_delta(block: &mut Value, delta: &Value, open: &mut OpenBlock) {
    assert!(!open.is_signed, "a delta after the signature");
    let (kind, member, of) = match delta["type"].as_str().unwrap() {
        "text_delta" => ("text", "text", "text"),
        "thinking_delta" => ("thinking", "thinking", "thinking"),
        "signature_delta" => {
            open.is_signed = true;
            ("signature", "signature", "thinking")
        }
        "input_json_delta" => ("input", "partial_json", "tool_use"),
        "citations_delta" => {
            assert_eq!(block["type"], "text");
            let citations = block.as_object_mut().unwrap().entry("citations").or_insert_with(|| json!([]));
            citations.as_array_mut().unwrap().push(delta["citation"].clone());
            return;
        }
        kind => panic!("a delta of the type {kind}"),
    };
    assert_eq!(block["type"], of, "a delta of another kind than its block");
    let piece = delta[member].as_str().unwrap();
    if kind == "input" {
        open.has_input |= !piece.is_empty();
        open.input.push_str(piece);
    } else {
        block[kind] = Value::String(format!("{}{piece}", block[kind].as_str().unwrap()));
    }
}

/// Checks that every count is there.
pub(super) fn all_counts(usage: &Value) {
    let times = &usage["cache_creation"];
    let counts = [
        &usage["input_tokens"],
        &usage["output_tokens"],
        &usage["cache_creation_input_tokens"],
        &usage["cache_read_input_tokens"],
        &times["ephemeral_5m_input_tokens"],
        &times["ephemeral_1h_input_tokens"],
    ];
    assert!(counts.iter().all(|count| count.is_u64()), "{usage}");
    let written = times.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(usage["cache_creation_input_tokens"], written);
}
