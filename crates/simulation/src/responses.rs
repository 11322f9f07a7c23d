//! OpenAI's Responses API of a simulated provider: checks, answers and streams as the real one has them. Nothing is stored.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Bytes, Data},
};
use pointsman_domain::{Dialect, FinishReason, Modality};
use rand::RngExt;
use serde_json::{Value, json};

use super::{
    ProviderSettings, SimulatedModel,
    answer::Answer,
    json_response::{send_json, unix_seconds},
    json_value::{invalid, member, put},
    provider::{ActiveRequest, Provider},
    rejection::Rejection,
    request::ChatBody,
    seal::signature,
    stream::{self, Event, EventContent},
    tools::random_name,
    words,
};

/// Answers `POST /v1/responses`, streamed or not.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    body: Bytes,
) -> Result<HttpResponse, Rejection> {
    provider.record_request();
    let settings = provider.settings();
    if settings.dialect != Dialect::Responses {
        return Err(Rejection::UnknownPath { method: request.method().to_string(), path: request.path().to_owned() });
    }
    let body: Value = serde_json::from_slice(&body).map_err(|_| Rejection::BrokenJson)?;
    let model = check(&body, &settings)?;
    let chat = serde_json::from_value(chat_body(&body)).map_err(|fault| invalid(&fault.to_string()))?;
    let chat: ChatBody = chat;
    let mut active = provider.admit(&settings, &model.id)?;
    let answer = Answer::generate(&chat, model, &settings, &mut active.rng).with_cache(&chat, provider.prompts());
    let response = Response::of(&body, &answer, &settings, &mut active);
    if *member(&body, "stream") == true {
        let events = response.events(&mut active);
        return stream::respond_with(active, events).await;
    }
    send_json(active, response.output_tokens(), response.whole(response.status).to_string()).await
}

/// The items of the input, which may be a plain string.
fn items(body: &Value) -> Vec<Value> {
    match member(body, "input") {
        Value::String(text) => vec![json!({ "role": "user", "content": text })],
        Value::Array(items) => items.clone(),
        _ => Vec::new(),
    }
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

fn check<'s>(body: &Value, settings: &'s ProviderSettings) -> Result<&'s SimulatedModel, Rejection> {
    let id = member(body, "model").as_str().ok_or(Rejection::Missing("model"))?;
    let model = settings.model(id).ok_or_else(|| Rejection::UnknownModel(id.to_owned()))?;
    let items = items(body);
    if items.is_empty() {
        return Err(Rejection::Missing("input"));
    }
    let mut called = Vec::new();
    for (position, item) in items.iter().enumerate() {
        match kind(item) {
            "message" => {
                let parts = item["content"].as_array().into_iter().flatten();
                let has_image = parts.into_iter().any(|part| part["type"] == "input_image");
                if has_image && !model.inputs.contains(Modality::Image) {
                    let message = format!("Image input is not supported by {id}.");
                    return Err(Rejection::Unsupported { param: "input", message });
                }
            }
            "function_call" => called.push(item["call_id"].clone()),
            "function_call_output" if called.contains(&item["call_id"]) => {}
            "function_call_output" => {
                let call = item["call_id"].as_str().unwrap_or_default();
                return Err(invalid(&format!("No tool call found for function call output with call_id {call}.")));
            }
            "reasoning" => {
                let sealed = item["encrypted_content"].as_str();
                if sealed.is_some_and(|sealed| sealed != signature(settings, &summary(item))) {
                    return Err(invalid("The encrypted content could not be verified."));
                }
            }
            other => return Err(invalid(&format!("Invalid value: '{other}', at input[{position}].type."))),
        }
    }
    let answered = |call: &Value| items.iter().any(|it| kind(it) == "function_call_output" && it["call_id"] == *call);
    if let Some(open) = called.iter().find(|call| !answered(call)) {
        let call = open.as_str().unwrap_or_default();
        return Err(invalid(&format!("No tool output found for function call {call}.")));
    }
    if !model.tools && body["tools"].as_array().is_some_and(|tools| !tools.is_empty()) {
        let message = format!("'tools' is not supported by {id}.");
        return Err(Rejection::Unsupported { param: "tools", message });
    }
    Ok(model)
}

fn summary(item: &Value) -> String {
    let parts = item["summary"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// The request as the generator of answers reads it.
fn chat_body(body: &Value) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if let Some(text) = member(body, "instructions").as_str() {
        messages.push(json!({ "role": "system", "content": text }));
    }
    for item in items(body) {
        match kind(&item) {
            "function_call" => {
                let call = json!({ "id": member(&item, "call_id"), "function": { "name": member(&item, "name"), "arguments": member(&item, "arguments") } });
                let open = messages.last_mut().filter(|last| last["role"] == "assistant");
                match open.and_then(|last| last.get_mut("tool_calls")).and_then(Value::as_array_mut) {
                    Some(calls) => calls.push(call),
                    None => messages.push(json!({ "role": "assistant", "tool_calls": [call] })),
                }
            }
            "function_call_output" => messages.push(json!({
                "role": "tool", "tool_call_id": member(&item, "call_id"), "content": text_of(member(&item, "output")),
            })),
            "message" => {
                let images = member(&item, "content").as_array().into_iter().flatten();
                let images =
                    images.filter(|part| part["type"] == "input_image").map(|_| json!({ "type": "image_url" }));
                let text = json!({ "type": "text", "text": text_of(member(&item, "content")) });
                let parts: Vec<Value> = std::iter::once(text).chain(images).collect();
                messages.push(json!({ "role": member(&item, "role"), "content": parts, "tool_calls": [] }));
            }
            _ => {}
        }
    }
    let tools = member(body, "tools").as_array().into_iter().flatten().filter(|tool| tool["type"] == "function");
    let tools: Vec<Value> = tools
        .map(|tool| json!({ "function": { "name": tool["name"], "description": tool["description"], "parameters": tool["parameters"] } }))
        .collect();
    let choice = match member(body, "tool_choice") {
        Value::String(mode) => json!(mode),
        Value::Object(named) => json!({ "function": { "name": named.get("name") } }),
        _ => json!("auto"),
    };
    let format = member(member(body, "text"), "format");
    let format = match format["type"].as_str() {
        Some("json_schema") => json!({ "type": "json_schema", "json_schema": { "schema": format["schema"] } }),
        Some("json_object") => json!({ "type": "json_object" }),
        _ => Value::Null,
    };
    json!({
        "model": member(body, "model"), "messages": messages, "max_tokens": member(body, "max_output_tokens"),
        "tools": tools, "tool_choice": choice, "response_format": format,
        "parallel_tool_calls": member(body, "parallel_tool_calls") != false,
    })
}

/// An answer in the words of this API.
struct Response {
    id: String,
    created: u64,
    model: String,
    output: Vec<Value>,
    status: &'static str,
    input_tokens: u32,
    cached_tokens: u32,
    reasoning_tokens: u32,
    reports_usage: bool,
    tokens_per_chunk: u32,
    /// What it repeats of the request.
    echo: Vec<(&'static str, Value)>,
}

/// Members that a response repeats of its request, and their values, JSON, where the request has none.
const ECHOED: [(&str, &str); 21] = [
    ("background", "false"),
    ("frequency_penalty", "0.0"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("presence_penalty", "0.0"),
    ("previous_response_id", "null"),
    ("prompt_cache_key", "null"),
    ("reasoning", "{\"effort\":null,\"summary\":null}"),
    ("safety_identifier", "null"),
    ("service_tier", "\"default\""),
    ("temperature", "1.0"),
    ("text", "{\"format\":{\"type\":\"text\"}}"),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", "\"disabled\""),
    ("user", "null"),
];

/// The members that a response repeats. A function has all its members.
fn echo_of(body: &Value) -> Vec<(&'static str, Value)> {
    let echoed = ECHOED.into_iter().map(|(name, default)| {
        let mut value = member(body, name).clone();
        if value.is_null() {
            value = serde_json::from_str(default).unwrap_or_default();
        }
        let functions = value.as_array_mut().into_iter().flatten().filter(|tool| kind(tool) == "function");
        for function in functions {
            for name in ["description", "parameters", "strict"] {
                let given = member(function, name).clone();
                put(function, name, given);
            }
        }
        (name, value)
    });
    echoed.collect()
}

impl Response {
    fn of(body: &Value, answer: &Answer, settings: &ProviderSettings, active: &mut ActiveRequest) -> Response {
        let mut name = |prefix: &str| format!("{prefix}_{}", random_name(&mut active.rng, 24));
        let mut output = Vec::new();
        let reasoning = member(body, "reasoning");
        let items = items(body);
        let said = items.iter().rev().find(|item| item["role"] == "user").map(|item| text_of(&item["content"]));
        let thought = format!("The question is: “{}”.", words::hint(&said.unwrap_or_default()));
        let thinks = reasoning.is_object() && reasoning["effort"] != "none";
        if thinks {
            let is_shown = member(reasoning, "summary").is_string();
            let shown = if is_shown { vec![json!({ "type": "summary_text", "text": thought })] } else { Vec::new() };
            let mut item = json!({ "id": name("rs"), "type": "reasoning", "summary": shown });
            let includes = member(body, "include").as_array();
            if includes.is_some_and(|names| names.iter().any(|name| name == "reasoning.encrypted_content")) {
                let sealed = json!(signature(settings, &summary(&item)));
                put(&mut item, "encrypted_content", sealed);
            }
            output.push(item);
        }
        let choice = answer.choices.first();
        if let Some(choice) = choice {
            if let Some(text) = choice.content.as_ref().filter(|text| !text.is_empty()) {
                let part = json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
                output.push(json!({
                    "id": name("msg"), "type": "message", "status": "completed", "role": "assistant", "content": [part],
                }));
            }
            output.extend(choice.calls.iter().map(|call| {
                json!({
                    "id": name("fc"), "type": "function_call", "status": "completed", "call_id": call.id,
                    "name": call.name, "arguments": call.arguments,
                })
            }));
        }
        let is_cut = choice.is_some_and(|choice| choice.finish == FinishReason::Length);
        Response {
            id: name("resp"),
            created: unix_seconds(),
            model: answer.model.clone(),
            output,
            status: if is_cut { "incomplete" } else { "completed" },
            input_tokens: answer.prompt_tokens,
            cached_tokens: answer.cached_tokens,
            reasoning_tokens: if thinks { words::tokens(&thought) } else { 0 },
            reports_usage: settings.reports_usage,
            tokens_per_chunk: settings.tokens_per_chunk,
            echo: echo_of(body),
        }
    }

    fn output_tokens(&self) -> u32 {
        let visible: u32 = self.output.iter().filter(|item| kind(item) != "reasoning").map(item_tokens).sum();
        (visible + self.reasoning_tokens).max(1)
    }

    fn whole(&self, status: &str) -> Value {
        let is_over = status != "in_progress";
        let output: &[Value] = if is_over { &self.output } else { &[] };
        let reason = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        let usage = (is_over && self.reports_usage).then(|| {
            let output_tokens = self.output_tokens();
            json!({
                "input_tokens": self.input_tokens,
                "input_tokens_details": { "cached_tokens": self.cached_tokens, "cache_write_tokens": 0 },
                "output_tokens": output_tokens, "output_tokens_details": { "reasoning_tokens": self.reasoning_tokens },
                "total_tokens": self.input_tokens + output_tokens,
            })
        });
        let completed = (status == "completed").then(unix_seconds);
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.created, "completed_at": completed, "status": status,
            "error": null, "incomplete_details": reason, "model": self.model, "output": output, "store": false,
            "usage": usage,
        });
        self.echo.iter().for_each(|(name, value)| put(&mut response, name, value.clone()));
        response
    }

    fn events(&self, active: &mut ActiveRequest) -> Vec<Event> {
        let mut data = vec![
            (0, json!({ "type": "response.created", "response": self.whole("in_progress") })),
            (0, json!({ "type": "response.in_progress", "response": self.whole("in_progress") })),
        ];
        for (index, item) in self.output.iter().enumerate() {
            item_events(index, item, self.tokens_per_chunk, &mut data);
        }
        data.push((0, json!({ "type": format!("response.{}", self.status), "response": self.whole(self.status) })));
        let last = data.len() - 1;
        let odd_framing = active.settings.odd_framing_rate;
        let numbered = data.into_iter().enumerate().map(|(number, (tokens, mut data))| {
            put(&mut data, "sequence_number", json!(number));
            let mut text = format!("event: {}\ndata: {data}\n\n", member(&data, "type").as_str().unwrap_or_default());
            if active.rng.random::<f64>() < odd_framing {
                text = format!(": simulated\n{text}").replace('\n', "\r\n");
            }
            let content =
                if number == last { EventContent::WrittenEnd(text.into()) } else { EventContent::Written(text.into()) };
            Event { tokens, content }
        });
        numbered.collect()
    }
}

fn item_tokens(item: &Value) -> u32 {
    let text = text_of(&item["content"]);
    let texts =
        [text.as_str(), item["name"].as_str().unwrap_or_default(), item["arguments"].as_str().unwrap_or_default()];
    texts.into_iter().map(words::tokens).sum()
}

/// All events of one item of the output, each with its tokens.
fn item_events(index: usize, item: &Value, tokens_per_chunk: u32, data: &mut Vec<(u32, Value)>) {
    let of_item = |kind: &str, more: Value| {
        let mut event = json!({ "type": format!("response.{kind}"), "output_index": index, "item_id": item["id"] });
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        event
    };
    let mut opened = item.clone();
    let (kinds, place, text) = match kind(item) {
        "message" => {
            put(&mut opened, "content", json!([]));
            (("content_part", "output_text"), json!({ "content_index": 0 }), text_of(&item["content"]))
        }
        "reasoning" => {
            put(&mut opened, "summary", json!([]));
            (("reasoning_summary_part", "reasoning_summary_text"), json!({ "summary_index": 0 }), summary(item))
        }
        _ => {
            put(&mut opened, "arguments", json!(""));
            let arguments = item["arguments"].as_str().unwrap_or_default().to_owned();
            (("", "function_call_arguments"), json!({}), arguments)
        }
    };
    let with = |name: &str, value: Value| {
        let mut place = place.clone();
        put(&mut place, name, value);
        place
    };
    let part = |text: &str| match kind(item) {
        "message" => json!({ "type": "output_text", "text": text, "annotations": [] }),
        _ => json!({ "type": "summary_text", "text": text }),
    };
    if kind(item) != "reasoning" {
        put(&mut opened, "status", json!("in_progress"));
    }
    data.push((0, of_item("output_item.added", json!({ "item": opened }))));
    if !text.is_empty() {
        if !kinds.0.is_empty() {
            data.push((0, of_item(&format!("{}.added", kinds.0), with("part", part("")))));
        }
        for piece in words::pieces(&text, tokens_per_chunk) {
            let event = of_item(&format!("{}.delta", kinds.1), with("delta", json!(piece)));
            data.push((words::tokens(piece), event));
        }
        let whole = if kinds.0.is_empty() { "arguments" } else { "text" };
        data.push((0, of_item(&format!("{}.done", kinds.1), with(whole, json!(text)))));
        if !kinds.0.is_empty() {
            data.push((0, of_item(&format!("{}.done", kinds.0), with("part", part(&text)))));
        }
    }
    data.push((0, of_item("output_item.done", json!({ "item": item }))));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members that the schema of a Response requires (Open Responses, `ResponseResource`).
    const REQUIRED: [&str; 30] = [
        "background",
        "completed_at",
        "created_at",
        "error",
        "frequency_penalty",
        "id",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "object",
        "output",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "status",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
    ];

    fn response(body: &Value, status: &'static str) -> Response {
        Response {
            id: "resp_1".to_owned(),
            created: 1,
            model: "m".to_owned(),
            output: vec![json!({ "type": "message", "content": [{ "type": "output_text", "text": "Hi" }] })],
            status,
            input_tokens: 3,
            cached_tokens: 0,
            reasoning_tokens: 0,
            reports_usage: true,
            tokens_per_chunk: 1,
            echo: echo_of(body),
        }
    }

    #[test]
    fn a_response_has_every_required_member_at_each_status() {
        let tool = json!({ "type": "function", "name": "f" });
        for body in [json!({}), json!({ "tools": [tool], "temperature": 0.5, "instructions": "Be brief." })] {
            for status in ["completed", "incomplete"] {
                let response = response(&body, status);
                for shown in [response.whole("in_progress"), response.whole(status)] {
                    let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| shown.get(name).is_none()).collect();
                    assert_eq!(missing, Vec::<&str>::new(), "{shown}");
                    assert!(shown.get("usage").is_some(), "{shown}");
                }
                let over = response.whole(status);
                assert_eq!(
                    over["usage"]["input_tokens_details"],
                    json!({ "cached_tokens": 0, "cache_write_tokens": 0 })
                );
                assert_eq!(over["usage"]["output_tokens_details"], json!({ "reasoning_tokens": 0 }));
                assert_eq!(over["completed_at"].is_u64(), status == "completed");
                assert_eq!(over["incomplete_details"].is_object(), status == "incomplete");
            }
        }
    }

    #[test]
    fn a_response_repeats_what_its_request_gave_and_completes_its_functions() {
        let tool = json!({ "type": "function", "name": "f" });
        let body =
            json!({ "tools": [tool], "temperature": 0.5, "instructions": "Be brief.", "tool_choice": "required" });
        let shown = response(&body, "completed").whole("completed");
        assert_eq!((&shown["temperature"], &shown["instructions"]), (&json!(0.5), &json!("Be brief.")));
        assert_eq!(shown["tool_choice"], "required");
        let completed =
            json!([{ "type": "function", "name": "f", "description": null, "parameters": null, "strict": null }]);
        assert_eq!(shown["tools"], completed);
    }
}
