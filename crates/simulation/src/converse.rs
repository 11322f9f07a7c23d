//! Amazon Bedrock's Converse API of a simulated provider: checks, answers, streams and errors as the real one has them.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header::HeaderValue},
    web::{Bytes, Data, Path},
};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue as FrameValue, Message};
use pointsman_domain::{Dialect, FinishReason, Modality};
use serde_json::{Value, json};

use super::{
    ProviderSettings, SimulatedModel,
    answer::{Answer, Choice},
    embeddings,
    json_response::send_json,
    json_value::{invalid, member},
    prompt_cache::{CacheUse, Prefix, PromptReader},
    provider::{ActiveRequest, Provider},
    rejection::Rejection,
    request::ChatBody,
    seal::{REDACTED_TRIGGER, is_own_redacted, signature},
    stream::{self, Event, EventContent},
    words,
};

const FRAMES: &str = "application/vnd.amazon.eventstream";

/// A text in the prompt at which the guardrail intervenes.
const BLOCKED_TRIGGER: &str = "SIMULATED_SAFETY_BLOCK";

/// Answers `POST /model/{model}/converse`, `/converse-stream` and, for embeddings, `/invoke`.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    target: Path<String>,
    body: Bytes,
) -> HttpResponse {
    provider.record_request();
    converse(&provider, &request, &target, &body).await.unwrap_or_else(|rejection| error(&rejection))
}

async fn converse(
    provider: &Provider,
    request: &HttpRequest,
    target: &str,
    body: &[u8],
) -> Result<HttpResponse, Rejection> {
    let settings = provider.settings();
    let unknown = || Rejection::UnknownPath { method: request.method().to_string(), path: request.path().to_owned() };
    let (id, method) = target.rsplit_once('/').ok_or_else(unknown)?;
    let streamed = match method {
        _ if settings.dialect != Dialect::Converse => return Err(unknown()),
        "converse" => false,
        "converse-stream" => true,
        "invoke" if request.headers().contains_key("authorization") => {
            return embeddings::invoke(provider, id, body).await;
        }
        "invoke" => return Err(Rejection::Unauthenticated),
        _ => return Err(unknown()),
    };
    if !request.headers().contains_key("authorization") {
        return Err(Rejection::Unauthenticated);
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| invalid("The request body is not valid JSON."))?;
    let model = settings.model(id).ok_or_else(|| Rejection::UnknownModel(id.to_owned()))?;
    check(&body, model, &settings)?;
    let chat = serde_json::from_value(chat_body(id, &body)).map_err(|fault| invalid(&fault.to_string()))?;
    let chat: ChatBody = chat;
    let mut active = provider.admit(&settings, &model.id)?;
    let answer = Answer::generate(&chat, model, &settings, &mut active.rng);
    let cache = provider.prompts().pass(&prefixes(id, &body), answer.prompt_tokens);
    let content = Content { cache, ..Content::of(&body, &answer, &settings) };
    if streamed {
        let events = content.events(&settings);
        return stream::respond_framed(active, events, FRAMES).await;
    }
    whole(active, &content).await
}

async fn whole(active: ActiveRequest, content: &Content) -> Result<HttpResponse, Rejection> {
    let body = json!({
        "output": { "message": { "role": "assistant", "content": content.blocks } }, "stopReason": content.stop,
        "usage": content.usage(), "metrics": { "latencyMs": 1 },
    });
    send_json(active, content.output_tokens(), body.to_string()).await
}

fn messages(body: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    member(body, "messages").as_array().into_iter().flatten()
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    member(message, "content").as_array().into_iter().flatten()
}

/// The ids of the blocks of a kind.
fn ids(message: &Value, kind: &str) -> Vec<String> {
    blocks(message).filter_map(|block| block.get(kind)?.get("toolUseId")?.as_str().map(str::to_owned)).collect()
}

fn check(body: &Value, model: &SimulatedModel, settings: &ProviderSettings) -> Result<(), Rejection> {
    let mut open = Vec::new();
    let mut speaker = "assistant";
    for (place, message) in messages(body).enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if !matches!(role, "user" | "assistant") || (place == 0 && role != "user") {
            return Err(invalid("A conversation must start with a user message. Try again."));
        }
        if role == speaker {
            return Err(invalid("A conversation must alternate between user and assistant roles."));
        }
        speaker = role;
        if blocks(message).next().is_none() {
            return Err(invalid(&format!("The content field in the Message object at messages.{place} is empty.")));
        }
        let mut results = ids(message, "toolResult");
        results.sort_unstable();
        if results != open {
            let why = "The number of toolResult blocks exceeds, or does not reach, the number of toolUse blocks of the turn before.";
            return Err(invalid(why));
        }
        open = ids(message, "toolUse");
        open.sort_unstable();
        for block in blocks(message) {
            check_block(block, model, settings)?;
        }
    }
    let has_calls = messages(body).any(|message| !ids(message, "toolUse").is_empty());
    let has_tools = !member(member(body, "toolConfig"), "tools").is_null();
    if has_calls && !has_tools {
        return Err(invalid("The toolConfig field must be defined when using toolUse and toolResult content blocks."));
    }
    if has_tools && !model.tools {
        return Err(invalid("This model doesn't support tool use."));
    }
    Ok(())
}

fn check_block(block: &Value, model: &SimulatedModel, settings: &ProviderSettings) -> Result<(), Rejection> {
    if block["text"].as_str().is_some_and(|text| text.trim().is_empty()) {
        return Err(invalid("The text field in the ContentBlock object is blank."));
    }
    if block.get("image").is_some() && !model.inputs.contains(Modality::Image) {
        return Err(invalid("This model doesn't support the image field that you provided."));
    }
    let thought = member(block, "reasoningContent");
    let text = member(thought, "reasoningText");
    let is_forged =
        text.is_object() && text["signature"] != signature(settings, text["text"].as_str().unwrap_or_default());
    let is_strange = thought["redactedContent"].as_str().is_some_and(|data| !is_own_redacted(settings, data));
    if is_forged || is_strange {
        return Err(invalid("The signature of a reasoning block is not valid."));
    }
    Ok(())
}

fn text_of(message: &Value) -> String {
    blocks(message).filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// The request as the generator of answers reads it.
fn chat_body(model: &str, body: &Value) -> Value {
    let system = member(body, "system").as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    let mut chat: Vec<Value> = system.map(|text| json!({ "role": "system", "content": text })).collect();
    for message in messages(body) {
        add_message(message, &mut chat);
    }
    let config = member(body, "toolConfig");
    let tools = member(config, "tools").as_array().into_iter().flatten().filter_map(|tool| tool.get("toolSpec"));
    let tools: Vec<Value> = tools
        .map(|tool| {
            let parameters = member(member(tool, "inputSchema"), "json");
            json!({ "function": { "name": tool["name"], "description": tool["description"], "parameters": parameters } })
        })
        .collect();
    let wanted = member(config, "toolChoice");
    let choice = match (wanted.get("any"), wanted.get("tool")) {
        (_, Some(tool)) => json!({ "function": { "name": tool["name"] } }),
        (Some(_), None) => json!("required"),
        (None, None) => json!("auto"),
    };
    let structure = member(member(member(body, "outputConfig"), "textFormat"), "structure");
    let schema = member(structure, "jsonSchema")["schema"].as_str();
    let schema: Option<Value> = schema.and_then(|text| serde_json::from_str(text).ok());
    let format = schema.map(|schema| json!({ "type": "json_schema", "json_schema": { "schema": schema } }));
    let inference = member(body, "inferenceConfig");
    json!({
        "model": model, "messages": chat, "max_tokens": member(inference, "maxTokens"),
        "stop": member(inference, "stopSequences"), "tools": tools, "tool_choice": choice, "response_format": format,
    })
}

fn add_message(message: &Value, chat: &mut Vec<Value>) {
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    for block in blocks(message) {
        if let Some(call) = block.get("toolUse") {
            let function = json!({ "name": call["name"], "arguments": call["input"].to_string() });
            calls.push(json!({ "id": call["toolUseId"], "function": function }));
        } else if let Some(result) = block.get("toolResult") {
            chat.push(json!({ "role": "tool", "tool_call_id": result["toolUseId"], "content": text_of(result) }));
        } else if block.get("text").is_some() {
            parts.push(json!({ "type": "text", "text": block["text"] }));
        } else if block.get("image").is_some() {
            parts.push(json!({ "type": "image_url" }));
        }
    }
    if !calls.is_empty() || !parts.is_empty() {
        chat.push(json!({ "role": message["role"], "content": parts, "tool_calls": calls }));
    }
}

/// An answer in the words of this API.
struct Content {
    blocks: Vec<Value>,
    stop: &'static str,
    prompt_tokens: u32,
    /// What of them was read from the cache or written to it.
    cache: CacheUse,
}

impl Content {
    fn of(body: &Value, answer: &Answer, settings: &ProviderSettings) -> Content {
        let said = messages(body).rev().find(|message| message["role"] == "user").map(text_of).unwrap_or_default();
        let is_blocked = said.contains(BLOCKED_TRIGGER);
        let thinking = member(member(body, "additionalModelRequestFields"), "thinking");
        let is_thinking = matches!(thinking["type"].as_str(), Some("adaptive" | "enabled")) && !is_blocked;
        let mut blocks: Vec<Value> = is_thinking.then(|| thought(&said, settings)).into_iter().collect();
        let choice = answer.choices.first().filter(|_| !is_blocked);
        blocks.extend(choice.map(written).unwrap_or_else(|| vec![json!({ "text": "I cannot answer that." })]));
        let stop = match choice.map(|choice| choice.finish) {
            None => "guardrail_intervened",
            Some(FinishReason::Length) => "max_tokens",
            Some(FinishReason::ToolCalls) => "tool_use",
            Some(_) => "end_turn",
        };
        Content { blocks, stop, prompt_tokens: answer.prompt_tokens, cache: CacheUse::default() }
    }

    fn output_tokens(&self) -> u32 {
        self.blocks.iter().map(|block| words::tokens(&said_by(block))).sum::<u32>().max(1)
    }

    fn usage(&self) -> Value {
        let CacheUse { read, written, for_an_hour } = self.cache;
        let (prompt, output) = (self.prompt_tokens - read - written, self.output_tokens());
        let ttl = if for_an_hour { "1h" } else { "5m" };
        let details: Vec<Value> =
            (written > 0).then(|| json!({ "ttl": ttl, "inputTokens": written })).into_iter().collect();
        json!({
            "inputTokens": prompt, "outputTokens": output, "totalTokens": self.prompt_tokens + output,
            "cacheReadInputTokens": read, "cacheWriteInputTokens": written, "cacheDetails": details,
        })
    }

    /// Text, thoughts and arguments in pieces; the usage stands behind the reason for the end.
    fn events(&self, settings: &ProviderSettings) -> Vec<Event> {
        let mut events = Vec::new();
        let mut add = |tokens: u32, kind: &str, payload: Value| {
            let content = match kind {
                "messageStop" => EventContent::WrittenFinish(frame(kind, &payload)),
                "metadata" => EventContent::WrittenEnd(frame(kind, &payload)),
                _ => EventContent::Written(frame(kind, &payload)),
            };
            events.push(Event { tokens, content });
        };
        add(0, "messageStart", json!({ "role": "assistant" }));
        for (index, block) in self.blocks.iter().enumerate() {
            if let Some(call) = block.get("toolUse") {
                let start = json!({ "toolUse": { "toolUseId": call["toolUseId"], "name": call["name"] } });
                add(0, "contentBlockStart", json!({ "contentBlockIndex": index, "start": start }));
            }
            for piece in words::pieces(&said_by(block), settings.tokens_per_chunk) {
                let delta = match block {
                    block if block.get("toolUse").is_some() => json!({ "toolUse": { "input": piece } }),
                    block if block.get("text").is_some() => json!({ "text": piece }),
                    _ => json!({ "reasoningContent": { "text": piece } }),
                };
                add(words::tokens(piece), "contentBlockDelta", json!({ "contentBlockIndex": index, "delta": delta }));
            }
            if let Some(sealed) = sealed(block) {
                let delta = json!({ "reasoningContent": sealed });
                add(0, "contentBlockDelta", json!({ "contentBlockIndex": index, "delta": delta }));
            }
            add(0, "contentBlockStop", json!({ "contentBlockIndex": index }));
        }
        add(0, "messageStop", json!({ "stopReason": self.stop }));
        add(0, "metadata", json!({ "usage": self.usage(), "metrics": { "latencyMs": 1 } }));
        events
    }
}

/// The beginnings of the prompt that end at a cache point.
fn prefixes(model: &str, body: &Value) -> Vec<Prefix> {
    let mut reader = PromptReader::new(model);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tools = list(member(member(body, "toolConfig"), "tools"));
    let said = messages(body).flat_map(blocks).cloned();
    for block in tools.into_iter().chain(list(member(body, "system"))).chain(said) {
        match block.get("cachePoint") {
            Some(point) => reader.mark(point["ttl"] == "1h"),
            None => {
                let text = block.get("text").and_then(Value::as_str).map_or_else(|| block.to_string(), str::to_owned);
                let tokens = if block.get("image").is_some() { 0 } else { words::tokens(&text) };
                reader.part(&text, tokens);
            }
        }
    }
    reader.finish()
}

/// What a block says: its text, its thought, or the arguments of its call.
fn said_by(block: &Value) -> String {
    let thought = member(member(block, "reasoningContent"), "reasoningText");
    match (block["text"].as_str().or_else(|| thought["text"].as_str()), block.get("toolUse")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(call)) => call["input"].to_string(),
        (None, None) => String::new(),
    }
}

/// The signature of a thought, or a thought that cannot be read.
fn sealed(block: &Value) -> Option<Value> {
    let thought = block.get("reasoningContent")?;
    Some(match thought.get("reasoningText") {
        Some(text) => json!({ "signature": text["signature"] }),
        None => thought.clone(),
    })
}

fn thought(said: &str, settings: &ProviderSettings) -> Value {
    if said.contains(REDACTED_TRIGGER) {
        return json!({ "reasoningContent": { "redactedContent": signature(settings, REDACTED_TRIGGER) } });
    }
    let text = format!("The question is: “{}”.", words::hint(said));
    let signature = signature(settings, &text);
    json!({ "reasoningContent": { "reasoningText": { "text": text, "signature": signature } } })
}

fn written(choice: &Choice) -> Vec<Value> {
    let text = choice.content.iter().filter(|text| !text.is_empty()).map(|text| json!({ "text": text }));
    let calls = choice.calls.iter().map(|call| {
        let input = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        json!({ "toolUse": { "toolUseId": format!("tooluse_{}", call.id), "name": call.name, "input": input } })
    });
    text.chain(calls).collect()
}

/// A frame with an event.
fn frame(kind: &str, payload: &Value) -> Bytes {
    let header = |name: &'static str, value: String| Header::new(name, FrameValue::String(value.into()));
    let message = Message::new(payload.to_string())
        .add_header(header(":event-type", kind.to_owned()))
        .add_header(header(":content-type", "application/json".to_owned()))
        .add_header(header(":message-type", "event".to_owned()));
    let mut bytes = Vec::new();
    // Only a header that is too long cannot be written.
    let _ = write_message_to(&message, &mut bytes);
    bytes.into()
}

/// An error as this API writes it.
fn error(rejection: &Rejection) -> HttpResponse {
    let (status, kind) = match rejection {
        Rejection::Unauthenticated => (403, "AccessDeniedException"),
        Rejection::UnknownModel(_) | Rejection::UnknownPath { .. } => (404, "ResourceNotFoundException"),
        Rejection::RateLimited { .. } => (429, "ThrottlingException"),
        Rejection::Failed { .. } => (503, "ServiceUnavailableException"),
        _ => (400, "ValidationException"),
    };
    let message = match rejection {
        Rejection::RateLimited { .. } => "Too many requests, please wait before trying again.".to_owned(),
        Rejection::Failed { .. } => "Bedrock is unable to process your request.".to_owned(),
        other => other.to_string(),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    HttpResponse::build(status)
        .insert_header(("x-amzn-errortype", HeaderValue::from_static(kind)))
        .json(json!({ "message": message }))
}
