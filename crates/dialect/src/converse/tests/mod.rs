//! The statements about this dialect, from chat bodies and to chat answers.

use bytes::Bytes;
use pointsman_domain::{Dialect, Endpoint, EndpointId, FailureKind};
use serde_json::{Value, json};

use super::{Decoder, fault_of_exception, path, write_request};
use crate::{
    answer::AnswerResult,
    frame::StreamEvent,
    neutral::{ToolNames, UnsupportedFields},
    openai::{completion_writer::CompletionWriter, conversation_reader::read_settled},
};

mod answers;
mod errors;
mod properties;
mod requests;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-6-v1:0";
const NOVA: &str = "amazon.nova-2-lite-v1:0";
const OTHER: &str = "qwen.qwen3-235b-a22b-v1:0";

fn endpoint(model: &str) -> Endpoint {
    let id = EndpointId::new(model, "bedrock", "");
    Endpoint { dialect: Dialect::Converse, ..Endpoint::with_defaults(id, 0, 0, model) }
}

/// What a chat body becomes.
struct Sent {
    text: String,
    body: Value,
    names: ToolNames,
}

fn send(model: &str, body: &str) -> Sent {
    let conversation = read_settled(body);
    let written = write_request(&conversation, &endpoint(model), &mut UnsupportedFields::default());
    let text = String::from_utf8(written.body.to_vec()).unwrap();
    Sent { body: serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}")), text, names: written.names }
}

/// As [`send`], for a chat with these members beside one message.
fn with(model: &str, members: Value) -> Sent {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    send(model, &body.to_string())
}

/// A tool of that name.
fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}})
}

/// The chat answer that these events add up to.
fn streamed(model: &str, events: &[Value], names: ToolNames) -> AnswerResult<Value> {
    let (mut decoder, mut sink) = (Decoder::new(names, model), CompletionWriter::default());
    for event in events {
        let data = event.to_string().into_bytes().into();
        decoder.event(&StreamEvent { data, is_error: false }, &mut sink)?;
    }
    decoder.end(&mut sink)?;
    Ok(parsed(&sink.finish()?))
}

fn parsed(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap()
}

/// An answer with these blocks.
fn answer(content: Value, stop: &str) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop,
        "usage": {"inputTokens": 10, "outputTokens": 3, "totalTokens": 13}, "metrics": {"latencyMs": 5},
    })
}
