//! Anthropic's Messages API of a simulated provider: checks, answers, streams and errors as the real one has them.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header::HeaderName, header::HeaderValue},
    web::{Bytes, Data},
};
use pointsman_domain::{Dialect, FinishReason};
use rand::RngExt;
use serde_json::{Value, json};

use super::{
    ProviderSettings, SimulatedModel,
    answer::{Answer, Choice},
    anthropic_request::{chat_body, check, marked_text, prefixes},
    json_response::send_json,
    json_value::invalid,
    prompt_cache::CacheUse,
    provider::{ActiveRequest, Provider},
    rejection::Rejection,
    request::ChatBody,
    seal::{REDACTED_TRIGGER, signature},
    stream::{self, Event, EventContent},
    tools::random_name,
    words,
};

/// A text in the prompt that makes the model refuse, as the real API has one for tests.
const REFUSAL_TRIGGER: &str = "ANTHROPIC_MAGIC_STRING_TRIGGER_REFUSAL";

/// Answers `POST /v1/messages`, streamed or not.
pub(super) async fn create(provider: Data<Provider>, request: HttpRequest, body: Bytes) -> HttpResponse {
    provider.record_request();
    identified(messages(&provider, &request, &body).await.unwrap_or_else(|rejection| error(&rejection)))
}

/// Answers `POST /v1/messages/count_tokens`.
pub(super) async fn count_tokens(provider: Data<Provider>, request: HttpRequest, body: Bytes) -> HttpResponse {
    provider.record_request();
    let count = || {
        let settings = provider.settings();
        let (_, _, chat) = read(&settings, &request, &body, false)?;
        Ok(HttpResponse::Ok().json(json!({ "input_tokens": chat.prompt_tokens() })))
    };
    identified(count().unwrap_or_else(|rejection| error(&rejection)))
}

async fn messages(provider: &Provider, request: &HttpRequest, body: &[u8]) -> Result<HttpResponse, Rejection> {
    let settings = provider.settings();
    let (body, model, chat) = read(&settings, request, body, true)?;
    let mut active = provider.admit(&settings, &model.id)?;
    let answer = Answer::generate(&chat, model, &settings, &mut active.rng);
    let cache = provider.prompts().pass(&prefixes(&body), answer.prompt_tokens);
    let message = Message { cache, ..Message::of(&body, &answer, &settings, &mut active) };
    if body.get("stream").is_some_and(|stream| *stream == true) {
        let events = message.events(&mut active);
        return stream::respond_with(active, events).await;
    }
    let whole = message.whole().to_string();
    send_json(active, message.output_tokens, whole).await
}

type Read<'s> = (Value, &'s SimulatedModel, ChatBody);

fn read<'s>(
    settings: &'s ProviderSettings,
    request: &HttpRequest,
    body: &[u8],
    generates: bool,
) -> Result<Read<'s>, Rejection> {
    if settings.dialect != Dialect::Anthropic {
        return Err(Rejection::UnknownPath { method: request.method().to_string(), path: request.path().to_owned() });
    }
    let header = |name: &str| request.headers().get(name).is_some_and(|value| !value.is_empty());
    if !header("x-api-key") && !header("authorization") {
        return Err(Rejection::Unauthenticated);
    }
    if !header("anthropic-version") {
        return Err(invalid("anthropic-version: header is required"));
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| invalid("The request body is not valid JSON"))?;
    let model = check(&body, settings, generates)?;
    let chat = serde_json::from_value(chat_body(&body)).map_err(|fault| invalid(&fault.to_string()))?;
    let chat: ChatBody = chat;
    let prompt = chat.prompt_tokens();
    if let Some(limit) = model.context_length.filter(|limit| prompt > *limit) {
        return Err(invalid(&format!("prompt is too long: {prompt} tokens > {limit} maximum")));
    }
    Ok((body, model, chat))
}

/// An answer in the words of this API.
struct Message {
    id: String,
    model: String,
    content: Vec<Value>,
    stop_reason: &'static str,
    input_tokens: u32,
    /// What of them was read from the cache or written to it.
    cache: CacheUse,
    output_tokens: u32,
    tokens_per_chunk: u32,
    odd_framing_rate: f64,
}

impl Message {
    fn of(body: &Value, answer: &Answer, settings: &ProviderSettings, active: &mut ActiveRequest) -> Message {
        let said = marked_text(body);
        let refuses = said.contains(REFUSAL_TRIGGER);
        let mut content = Vec::new();
        if !refuses {
            content.extend(thinking(body, &said, settings));
            content.extend(answer.choices.first().map(blocks).unwrap_or_default());
        }
        let finish = answer.choices.first().map_or(FinishReason::Stop, |choice| choice.finish);
        let stop_reason = match finish {
            _ if refuses => "refusal",
            FinishReason::ToolCalls => "tool_use",
            FinishReason::Length => "max_tokens",
            _ => "end_turn",
        };
        Message {
            id: format!("msg_01{}", random_name(&mut active.rng, 22)),
            model: answer.model.clone(),
            output_tokens: content.iter().flat_map(texts).map(|text| words::tokens(&text)).sum::<u32>().max(1),
            content,
            stop_reason,
            input_tokens: answer.prompt_tokens,
            cache: CacheUse::default(),
            tokens_per_chunk: settings.tokens_per_chunk,
            odd_framing_rate: settings.odd_framing_rate,
        }
    }

    fn usage(&self, output_tokens: u32) -> Value {
        let CacheUse { read, written, for_an_hour } = self.cache;
        let (short, long) = if for_an_hour { (0, written) } else { (written, 0) };
        json!({
            "input_tokens": self.input_tokens - read - written, "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read, "output_tokens": output_tokens, "service_tier": "standard",
            "cache_creation": { "ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long },
        })
    }

    fn envelope(&self, content: &[Value], stop_reason: Option<&str>, output_tokens: u32) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason, "stop_sequence": null, "usage": self.usage(output_tokens),
        })
    }

    fn whole(&self) -> Value {
        self.envelope(&self.content, Some(self.stop_reason), self.output_tokens)
    }

    fn events(&self, active: &mut ActiveRequest) -> Vec<Event> {
        let mut data = vec![(0, json!({ "type": "message_start", "message": self.envelope(&[], None, 1) }))];
        for (index, block) in self.content.iter().enumerate() {
            let (opening, deltas) = parts(block, self.tokens_per_chunk);
            data.push((0, json!({ "type": "content_block_start", "index": index, "content_block": opening })));
            if index == 0 {
                data.push((0, json!({ "type": "ping" })));
            }
            let delta =
                |(tokens, delta)| (tokens, json!({ "type": "content_block_delta", "index": index, "delta": delta }));
            data.extend(deltas.into_iter().map(delta));
            data.push((0, json!({ "type": "content_block_stop", "index": index })));
        }
        let delta = json!({ "stop_reason": self.stop_reason, "stop_sequence": null });
        let usage = json!({ "output_tokens": self.output_tokens });
        data.push((0, json!({ "type": "message_delta", "delta": delta, "usage": usage })));
        data.push((0, json!({ "type": "message_stop" })));
        data.into_iter().map(|(tokens, data)| self.event(tokens, &data, active)).collect()
    }

    /// One event. Oddly framed ones have a comment, and CR LF at the ends of their lines.
    fn event(&self, tokens: u32, data: &Value, active: &mut ActiveRequest) -> Event {
        let name = data["type"].as_str().unwrap_or_default();
        let mut text = format!("event: {name}\ndata: {data}\n\n");
        if active.rng.random::<f64>() < self.odd_framing_rate {
            text = format!(": simulated\n{text}").replace('\n', "\r\n");
        }
        let content = match name {
            "message_delta" => EventContent::WrittenFinish(text.into()),
            "message_stop" => EventContent::WrittenEnd(text.into()),
            _ => EventContent::Written(text.into()),
        };
        Event { tokens, content }
    }
}

/// The thinking before the answer, when it is asked for.
fn thinking(body: &Value, said: &str, settings: &ProviderSettings) -> Option<Value> {
    let thinking = &body["thinking"];
    if !matches!(thinking["type"].as_str(), Some("enabled" | "adaptive")) {
        return None;
    }
    if said.contains(REDACTED_TRIGGER) {
        return Some(json!({ "type": "redacted_thinking", "data": signature(settings, REDACTED_TRIGGER) }));
    }
    let shown = thinking["display"] != "omitted";
    let thought = if shown { format!("The question is: “{}”.", words::hint(said)) } else { String::new() };
    Some(json!({ "type": "thinking", "signature": signature(settings, &thought), "thinking": thought }))
}

fn blocks(choice: &Choice) -> Vec<Value> {
    let text = choice.content.iter().filter(|text| !text.is_empty());
    let mut blocks: Vec<Value> = text.map(|text| json!({ "type": "text", "text": text })).collect();
    blocks.extend(choice.calls.iter().map(|call| {
        let id = call.id.replacen("call_", "toolu_01", 1);
        // Arguments that the limit cut off are no JSON; the real API leaves them out then.
        let input = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        json!({ "type": "tool_use", "id": id, "name": call.name, "input": input })
    }));
    blocks
}

fn texts(block: &Value) -> Vec<String> {
    let plain = ["text", "thinking", "name", "data"].iter().filter_map(|name| block[*name].as_str().map(str::to_owned));
    plain.chain(block.get("input").map(Value::to_string)).collect()
}

/// A block as a stream opens it, and its deltas with their tokens.
fn parts(block: &Value, tokens_per_chunk: u32) -> (Value, Vec<(u32, Value)>) {
    let pieces = |text: &str, delta: &dyn Fn(&str) -> Value| -> Vec<(u32, Value)> {
        words::pieces(text, tokens_per_chunk).into_iter().map(|piece| (words::tokens(piece), delta(piece))).collect()
    };
    match block["type"].as_str() {
        Some("text") => {
            let text = block["text"].as_str().unwrap_or_default();
            let deltas = pieces(text, &|piece| json!({ "type": "text_delta", "text": piece }));
            (json!({ "type": "text", "text": "" }), deltas)
        }
        Some("thinking") => {
            let text = block["thinking"].as_str().unwrap_or_default();
            let mut deltas = pieces(text, &|piece| json!({ "type": "thinking_delta", "thinking": piece }));
            deltas.push((0, json!({ "type": "signature_delta", "signature": block["signature"] })));
            (json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas)
        }
        Some("tool_use") => {
            let input = block["input"].to_string();
            let mut deltas = vec![(0, json!({ "type": "input_json_delta", "partial_json": "" }))];
            deltas.extend(pieces(&input, &|piece| json!({ "type": "input_json_delta", "partial_json": piece })));
            (json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": {} }), deltas)
        }
        _ => (block.clone(), Vec::new()),
    }
}

/// An error as this API writes it.
pub(super) fn error(rejection: &Rejection) -> HttpResponse {
    let (status, kind) = match rejection {
        Rejection::Unauthenticated => (401, "authentication_error"),
        Rejection::UnknownModel(_) | Rejection::UnknownPath { .. } => (404, "not_found_error"),
        Rejection::WrongMethod { .. } => (405, "invalid_request_error"),
        Rejection::RateLimited { .. } => (429, "rate_limit_error"),
        Rejection::Failed { .. } => (529, "overloaded_error"),
        _ => (400, "invalid_request_error"),
    };
    let message = match rejection {
        Rejection::UnknownModel(model) => format!("model: {model}"),
        Rejection::Failed { .. } => "Overloaded".to_owned(),
        Rejection::UnknownPath { .. } => "Not found".to_owned(),
        other => other.to_string(),
    };
    let mut response = HttpResponse::build(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST));
    if let Rejection::RateLimited { wait, .. } = rejection {
        response.insert_header(("retry-after", super::rejection::whole_seconds(*wait).to_string()));
    }
    response.json(json!({ "type": "error", "error": { "type": kind, "message": message } }))
}

/// The response with the id of its request.
fn identified(mut response: HttpResponse) -> HttpResponse {
    let id = format!("req_{:032x}", rand::random::<u128>());
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HeaderName::from_static("request-id"), id);
    }
    response
}
