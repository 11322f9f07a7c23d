//! Configurations and upstream answers in one line each, for tests that care about neither.

use serde_json::{Value, json};

/// A provider without a key, named like its slug.
pub(crate) fn provider(slug: &str, base_url: &str) -> String {
    format!("[providers.{slug}]\nbase_url = \"{base_url}\"\n")
}

/// A text model with further lines, at these providers: slug, price per prompt and per completion token.
pub(crate) fn model(id: &str, lines: &str, endpoints: &[(&str, &str, &str)]) -> String {
    let endpoints: String = endpoints
        .iter()
        .map(|(slug, prompt, completion)| {
            format!(
                "[[models.endpoints]]\nprovider = \"{slug}\"\nupstream_model = \"private-name\"\n\
                 pricing = {{ prompt = \"{prompt}\", completion = \"{completion}\" }}\n"
            )
        })
        .collect();
    let window = if lines.contains("context_length") { "" } else { "context_length = 8000\n" };
    format!("[[models]]\nid = \"{id}\"\n{window}{lines}\n{endpoints}")
}

/// A model at one provider, one dollar per million tokens.
pub(crate) fn simple_model(id: &str, slug: &str) -> String {
    model(id, "", &[(slug, "0.000001", "0.000001")])
}

/// A chat request of one user message.
pub(crate) fn ask(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Which way?" }] })
}

/// `base` with the members of `more` put over it.
pub(crate) fn with(mut base: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        base[name] = value.clone();
    }
    base
}

/// A whole upstream answer: 200, and a completion with this text.
pub(crate) fn completion(text: &str) -> String {
    answer(
        200,
        &json!({
            "id": "up-1", "object": "chat.completion", "created": 1, "model": "private-name",
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12 },
        }),
    )
}

/// A whole upstream refusal in OpenAI's form.
pub(crate) fn refusal(status: u16) -> String {
    answer(status, &json!({ "error": { "message": "Refused.", "type": "some_error", "code": null } }))
}

/// A whole upstream answer.
pub(crate) fn answer(status: u16, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The head of an upstream stream, and one event with this text; the body ends with the connection.
pub(crate) fn stream_begin(text: &str) -> String {
    let event = json!({
        "id": "up-1", "object": "chat.completion.chunk", "created": 1, "model": "private-name",
        "choices": [{ "index": 0, "delta": { "role": "assistant", "content": text }, "finish_reason": null }],
    });
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {event}\n\n")
}

/// The regular end of such a stream.
pub(crate) fn stream_end() -> String {
    let event = json!({
        "id": "up-1", "object": "chat.completion.chunk", "created": 1, "model": "private-name",
        "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }],
    });
    format!("data: {event}\n\ndata: [DONE]\n\n")
}

/// The members of an array of objects, under this name.
pub(crate) fn column<'a>(list: &'a Value, name: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item[name].as_str().unwrap_or_else(|| panic!("no {name}: {item}"))).collect()
}
