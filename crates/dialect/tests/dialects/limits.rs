//! The bounds of a request hold for clients of each API.

use bytes::Bytes;
use pointsman_dialect::{ChatPurpose, ChatRequest, ClientReader, ProviderState, RequestLimits, StateKey};
use pointsman_domain::{Dialect, Invalid};
use serde_json::{Value, json};

use crate::world::{catalog, of_messages, sent_of};

static KEY: StateKey = StateKey::new([7; 32]);

fn limits() -> RequestLimits {
    RequestLimits { max_depth: 20, ..RequestLimits::default() }
}

/// A value that is nested so deep.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |value, _| json!({ "a": value }))
}

/// What clients of chat, Messages, Responses, and of chat in the form of Responses are told for a tool with this schema.
fn read_by_all(schema: &Value) -> [Result<Box<ChatRequest>, Invalid>; 4] {
    let limits = limits();
    let reader = ClientReader { state_key: &KEY, purpose: ChatPurpose::Chat, limits: &limits };
    let hi = json!([{"role": "user", "content": "Hi"}]);
    let flat = json!([{"type": "function", "name": "f", "parameters": schema}]);
    let bytes = |body: Value| Bytes::from(body.to_string());
    let chat = json!({"model": "m", "messages": hi, "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]});
    let messages =
        json!({"model": "m", "max_tokens": 9, "messages": hi, "tools": [{"name": "f", "input_schema": schema}]});
    let responses = json!({"model": "m", "input": hi, "tools": flat});
    [
        ChatRequest::parse(bytes(chat), ChatPurpose::Chat, &limits),
        reader.messages(bytes(messages), None, &Vec::new()),
        reader.responses(bytes(responses.clone()), || ProviderState::Refused, true),
        reader.chat_or_items(bytes(responses)),
    ]
}

#[test]
fn a_tool_that_is_nested_too_deep_is_refused_in_the_same_words_to_clients_of_each_api() {
    for (client, read) in read_by_all(&nested(10)).into_iter().enumerate() {
        assert!(read.is_ok(), "{client}: {read:?}");
    }
    for (client, read) in read_by_all(&nested(30)).into_iter().enumerate() {
        let message = read.unwrap_err().message;
        let expected = "Request body is not valid JSON: nesting deeper than 20 levels at line 1 column ";
        assert!(message.starts_with(expected), "{client}: {message}");
    }
}

#[test]
fn a_body_of_text_completions_is_bounded_too() {
    let limits = limits();
    let reader = ClientReader { state_key: &KEY, purpose: ChatPurpose::Chat, limits: &limits };
    let body = json!({"model": "m", "prompt": "a", "other": nested(30)});
    let message = reader.completion(Bytes::from(body.to_string())).unwrap_err().message;
    assert!(message.contains("nesting deeper than 20 levels"), "{message}");
}

#[test]
fn each_api_gets_as_many_texts_that_end_an_answer_as_it_takes() {
    let stops: Vec<String> = (0..20).map(|number| number.to_string()).chain([String::new()]).collect();
    let hi = json!([{"role": "user", "content": "Hi"}]);
    let chat = of_messages(&json!({"model": "acme/m", "max_tokens": 9, "messages": hi, "stop_sequences": stops}));
    for (dialect, at, count) in [
        (Dialect::OpenAi, "/stop", 16),
        (Dialect::Gemini, "/generationConfig/stopSequences", 5),
        (Dialect::Converse, "/inferenceConfig/stopSequences", 20),
    ] {
        let outgoing = sent_of(&catalog(), dialect, &chat);
        let body: Value = serde_json::from_slice(&outgoing.bytes).unwrap();
        assert_eq!(body.pointer(at).unwrap().as_array().unwrap().len(), count, "{body}");
        let named = outgoing.dropped.iter().any(|name| &**name == "stop_sequences[]");
        assert_eq!(named, count < 20, "{:?}", outgoing.dropped);
    }
}
