//! The statements about this dialect, from chat bodies and to chat answers.

use std::time::Duration;

use bytes::Bytes;
use pointsman_domain::{Dialect, Endpoint, EndpointId, FailureKind};
use serde_json::{Value, json};

use super::{Decoder, Signatures, path, refuses_signature, retry_delay, write_request, write_request_with};
use crate::{
    answer::AnswerResult,
    frame::StreamEvent,
    neutral::{AnswerEvent, AnswerSink, ToolNames, UnsupportedFields},
    openai::{completion_writer::CompletionWriter, conversation_reader::read_settled},
};

mod answers;
mod errors;
mod history;
mod properties;
mod requests;

const NEWEST: &str = "gemini-3.8-flash";
const BUDGET: &str = "gemini-2.5-flash";

fn endpoint(model: &str) -> Endpoint {
    Endpoint { dialect: Dialect::Gemini, ..Endpoint::with_defaults(EndpointId::new(model, "google", ""), 0, 0, model) }
}

/// What a chat body with these members becomes: the body, the names, dropped and emulated fields.
fn send(model: &str, body: &Value) -> (Value, ToolNames, Vec<String>, Vec<String>) {
    let mut unsupported = UnsupportedFields::default();
    let body = body.to_string();
    let conversation = read_settled(&body);
    conversation.unsupported.emulated().iter().for_each(|name| unsupported.emulate(name));
    let written = write_request(&conversation, &endpoint(model), &mut unsupported);
    let names = |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect();
    let (dropped, emulated) = (names(unsupported.dropped()), names(unsupported.emulated()));
    (serde_json::from_slice(&written.body).unwrap(), written.names, dropped, emulated)
}

fn with(members: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

/// The chat answer that these stream chunks add up to.
fn streamed(chunks: &[Value], names: ToolNames) -> AnswerResult<Value> {
    let (mut decoder, mut sink) = (Decoder::new(names, None), CompletionWriter::default());
    for chunk in chunks {
        let data = chunk.to_string().into_bytes().into();
        decoder.event(&StreamEvent { data, is_error: false }, &mut sink)?;
    }
    decoder.end()?;
    Ok(parsed(&sink.finish()?))
}

fn whole(body: &Value) -> AnswerResult<Value> {
    let mut sink = CompletionWriter::default();
    Decoder::new(ToolNames::default(), None).whole(&body.to_string(), &mut sink)?;
    Ok(parsed(&sink.finish()?))
}

fn parsed(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn chunk(parts: Value, finish: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}]})
}

/// The bytes of the `contents` that these messages become, with dropped and emulated fields.
fn contents(model: &str, signatures: Signatures, messages: &str) -> (String, Vec<String>, Vec<String>) {
    let mut unsupported = UnsupportedFields::default();
    let body = format!("{{\"messages\":[{messages}]}}");
    let conversation = read_settled(&body);
    conversation.unsupported.emulated().iter().for_each(|name| unsupported.emulate(name));
    let written = write_request_with(&conversation, &endpoint(model), signatures.into(), &mut unsupported);
    let text = String::from_utf8(written.body.to_vec()).unwrap();
    let contents = text.split_once("\"contents\":").unwrap().1.strip_suffix('}').unwrap().to_owned();
    let names = |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect();
    (contents, names(unsupported.dropped()), names(unsupported.emulated()))
}
