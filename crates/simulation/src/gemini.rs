//! Google's Gemini API of a simulated provider: checks, answers, streams and errors as the real one has them.

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Bytes, Data, Path},
};
use pointsman_domain::{Dialect, FinishReason, Modality};
use rand::RngExt;
use serde_json::{Value, json};

use super::{
    ProviderSettings, SimulatedModel,
    answer::{Answer, Choice},
    embeddings,
    json_response::send_json,
    json_value::{invalid, member, put},
    provider::{ActiveRequest, Provider},
    rejection::Rejection,
    request::ChatBody,
    seal::signature,
    stream::{self, Event, EventContent},
    tools::random_name,
    words,
};

/// The method that makes embeddings.
const EMBED: &str = "batchEmbedContents";
/// A text in the prompt that the filter for safety blocks.
const BLOCKED_TRIGGER: &str = "SIMULATED_SAFETY_BLOCK";
/// Where a declared function has the schema of its arguments. The API takes names of members in both spellings, and its
/// Python client mixes them.
const SCHEMA_OF_PARAMETERS: [&str; 3] = ["parametersJsonSchema", "parameters_json_schema", "parameters"];
/// Whether thoughts are shown, in both spellings.
const INCLUDE_THOUGHTS: [&str; 2] = ["includeThoughts", "include_thoughts"];
/// What clients send for calls of another model, which has signed nothing.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Answers `POST /models/{model}:generateContent`, `:streamGenerateContent` and `:batchEmbedContents`.
pub(super) async fn create(
    provider: Data<Provider>,
    request: HttpRequest,
    target: Path<String>,
    body: Bytes,
) -> HttpResponse {
    provider.record_request();
    generate(&provider, &request, &target, &body).await.unwrap_or_else(|rejection| error(&rejection))
}

async fn generate(
    provider: &Provider,
    request: &HttpRequest,
    target: &str,
    body: &[u8],
) -> Result<HttpResponse, Rejection> {
    let settings = provider.settings();
    let unknown = || Rejection::UnknownPath { method: request.method().to_string(), path: request.path().to_owned() };
    let (id, method) = target.rsplit_once(':').ok_or_else(unknown)?;
    let streamed = match method {
        _ if settings.dialect != Dialect::Gemini => return Err(unknown()),
        "generateContent" | EMBED => false,
        "streamGenerateContent" => true,
        _ => return Err(unknown()),
    };
    let header = |name: &str| request.headers().get(name).is_some_and(|value| !value.is_empty());
    if !header("x-goog-api-key") && !header("authorization") {
        return Err(Rejection::Unauthenticated);
    }
    if method == EMBED {
        return embeddings::create_batch(provider, id, body).await;
    }
    if streamed && !request.query_string().split('&').any(|parameter| parameter == "alt=sse") {
        return Err(invalid("Streams are served as server-sent events only: alt=sse."));
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| invalid("Invalid JSON payload received."))?;
    let model = settings.model(id).ok_or_else(|| Rejection::UnknownModel(id.to_owned()))?;
    check(&body, model, &settings)?;
    let chat = serde_json::from_value(chat_body(id, &body)).map_err(|fault| invalid(&fault.to_string()))?;
    let chat: ChatBody = chat;
    let mut active = provider.admit(&settings, &model.id)?;
    let answer = Answer::generate(&chat, model, &settings, &mut active.rng).with_cache(&chat, provider.prompts());
    let content = Content::of(&body, &answer, &settings, &mut active);
    if streamed {
        let events = content.events(&mut active);
        return stream::respond_with(active, events).await;
    }
    send_json(active, content.output_tokens(), content.whole().to_string()).await
}

fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    member(content, "parts").as_array().into_iter().flatten()
}

fn contents(body: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    member(body, "contents").as_array().into_iter().flatten()
}

fn check(body: &Value, model: &SimulatedModel, settings: &ProviderSettings) -> Result<(), Rejection> {
    if contents(body).next().is_none() {
        return Err(invalid("* GenerateContentRequest.contents: contents is not specified"));
    }
    let mut open = 0_usize;
    for (position, content) in contents(body).enumerate() {
        let role = content["role"].as_str().unwrap_or("user");
        if !matches!(role, "user" | "model" | "function") {
            return Err(invalid("Please use a valid role: user, model."));
        }
        if parts(content).next().is_none() {
            let place =
                format!("* GenerateContentRequest.contents[{position}].parts: contents.parts must not be empty.");
            return Err(invalid(&place));
        }
        let answered = parts(content).filter(|part| part.get("functionResponse").is_some()).count();
        if answered != open && (open > 0 || answered > 0) {
            return Err(invalid(
                "Please ensure that the number of function response parts is equal to the number of function call parts \
                 of the function call turn.",
            ));
        }
        open = parts(content).filter(|part| part.get("functionCall").is_some()).count();
        for part in parts(content) {
            let signed = part["thoughtSignature"].as_str().filter(|signed| *signed != NO_SIGNATURE);
            // Bytes are taken in both alphabets of base64: what was sent in one comes back in the other.
            let signed = signed.map(|signed| signed.replace('-', "+").replace('_', "/"));
            if signed.is_some_and(|signed| signed != signature(settings, &signable(part))) {
                return Err(invalid("Thought signature is not valid."));
            }
            let is_image = part.get("inlineData").is_some() || part.get("fileData").is_some();
            if is_image && !model.inputs.contains(Modality::Image) {
                return Err(invalid(&format!("Image input modality is not enabled for models/{}", model.id)));
            }
        }
    }
    if !model.tools && body.get("tools").is_some() {
        return Err(invalid("Function calling is not enabled for this model"));
    }
    Ok(())
}

/// What a signature of a part is about.
fn signable(part: &Value) -> String {
    part.get("functionCall").map_or_else(
        || part["text"].as_str().unwrap_or_default().to_owned(),
        |call| format!("{}{}", call["name"], call["args"]),
    )
}

fn text_of(content: &Value) -> String {
    parts(content).filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// The text of the last content of the user.
fn said(body: &Value) -> String {
    contents(body).rev().find(|content| content["role"] != "model").map(text_of).unwrap_or_default()
}

/// The request as the generator of answers reads it.
fn chat_body(model: &str, body: &Value) -> Value {
    let mut messages = Vec::new();
    if let Some(system) = body.get("systemInstruction") {
        messages.push(json!({ "role": "system", "content": text_of(system) }));
    }
    let mut asked = Vec::new();
    for content in contents(body) {
        add_content(content, &mut messages, &mut asked);
    }
    let config = member(body, "generationConfig");
    let tools = member(body, "tools").as_array().into_iter().flatten();
    let tools = tools.flat_map(|tool| member(tool, "functionDeclarations").as_array().into_iter().flatten());
    let tools: Vec<Value> = tools
        .map(|tool| {
            let parameters = SCHEMA_OF_PARAMETERS.iter().find_map(|name| tool.get(*name));
            json!({ "function": { "name": tool["name"], "description": tool["description"], "parameters": parameters } })
        })
        .collect();
    let calling = member(member(body, "toolConfig"), "functionCallingConfig");
    let only = member(calling, "allowedFunctionNames").as_array().and_then(|names| names.first());
    let choice = match (calling["mode"].as_str(), only) {
        (Some("ANY"), Some(name)) => json!({ "function": { "name": name } }),
        (Some("ANY"), None) => json!("required"),
        (Some("NONE"), _) => json!("none"),
        _ => json!("auto"),
    };
    let schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema"));
    let format = match schema {
        Some(schema) => json!({ "type": "json_schema", "json_schema": { "schema": schema } }),
        None if config["responseMimeType"] == "application/json" => json!({ "type": "json_object" }),
        None => Value::Null,
    };
    json!({
        "model": model, "messages": messages, "max_tokens": member(config, "maxOutputTokens"), "stop": member(config, "stopSequences"),
        "seed": member(config, "seed"), "tools": tools, "tool_choice": choice, "response_format": format,
    })
}

/// Calls have no ids here: results answer the calls of the content before in their order.
fn add_content(content: &Value, messages: &mut Vec<Value>, asked: &mut Vec<String>) {
    let (mut texts, mut calls, mut results) = (Vec::new(), Vec::new(), 0);
    for part in parts(content).filter(|part| part["thought"] != true) {
        if let Some(call) = part.get("functionCall") {
            let id = format!("call_{}_{}", messages.len(), calls.len());
            calls
                .push(json!({ "id": id, "function": { "name": call["name"], "arguments": call["args"].to_string() } }));
        } else if let Some(response) = part.get("functionResponse") {
            let id = asked.get(results).cloned().unwrap_or_default();
            results += 1;
            let output = member(member(response, "response"), "output");
            let result = output.as_str().map_or_else(|| response["response"].to_string(), str::to_owned);
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": result }));
        } else if part.get("text").is_some() {
            texts.push(json!({ "type": "text", "text": part["text"] }));
        } else {
            texts.push(json!({ "type": "image_url" }));
        }
    }
    *asked = calls.iter().filter_map(|call| call["id"].as_str().map(str::to_owned)).collect();
    if !calls.is_empty() || !texts.is_empty() {
        let role = if content["role"] == "model" { "assistant" } else { "user" };
        messages.push(json!({ "role": role, "content": texts, "tool_calls": calls }));
    }
}

/// An answer in the words of this API.
struct Content {
    id: String,
    model: String,
    parts: Vec<Value>,
    finish: &'static str,
    prompt_tokens: u32,
    cached_tokens: u32,
    reasoning_tokens: u32,
    reports_usage: bool,
    tokens_per_chunk: u32,
}

impl Content {
    fn of(body: &Value, answer: &Answer, settings: &ProviderSettings, active: &mut ActiveRequest) -> Content {
        let said = said(body);
        let is_blocked = said.contains(BLOCKED_TRIGGER);
        let thinking = member(member(body, "generationConfig"), "thinkingConfig");
        let is_shown = INCLUDE_THOUGHTS.iter().any(|name| thinking.get(*name) == Some(&Value::Bool(true)));
        let thought = (is_shown && !is_blocked).then(|| format!("The question is: “{}”.", words::hint(&said)));
        let mut parts: Vec<Value> = thought.iter().map(|thought| json!({ "text": thought, "thought": true })).collect();
        let choice = answer.choices.first().filter(|_| !is_blocked);
        parts.extend(choice.map(|choice| written(choice, settings, thought.is_some())).unwrap_or_default());
        let finish = match choice.map(|choice| choice.finish) {
            None => "SAFETY",
            Some(FinishReason::Length) => "MAX_TOKENS",
            Some(_) => "STOP",
        };
        Content {
            id: random_name(&mut active.rng, 22),
            model: answer.model.clone(),
            parts,
            finish,
            prompt_tokens: answer.prompt_tokens,
            cached_tokens: answer.cached_tokens,
            reasoning_tokens: thought.as_deref().map_or(0, words::tokens),
            reports_usage: settings.reports_usage,
            tokens_per_chunk: settings.tokens_per_chunk,
        }
    }

    fn output_tokens(&self) -> u32 {
        self.parts.iter().map(|part| words::tokens(&signable(part))).sum::<u32>().max(1)
    }

    fn chunk(&self, parts: &[Value], finish: Option<&str>) -> Value {
        let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
        if let Some(finish) = finish {
            put(&mut candidate, "finishReason", json!(finish));
        }
        let mut chunk = json!({ "candidates": [candidate], "modelVersion": self.model, "responseId": self.id });
        if self.reports_usage {
            let visible = self.output_tokens() - self.reasoning_tokens.min(self.output_tokens());
            let mut usage = json!({
                "promptTokenCount": self.prompt_tokens, "candidatesTokenCount": visible,
                "thoughtsTokenCount": self.reasoning_tokens,
                "totalTokenCount": self.prompt_tokens + visible + self.reasoning_tokens,
            });
            if self.cached_tokens > 0 {
                put(&mut usage, "cachedContentTokenCount", json!(self.cached_tokens));
            }
            put(&mut chunk, "usageMetadata", usage);
        }
        chunk
    }

    fn whole(&self) -> Value {
        self.chunk(&self.parts, Some(self.finish))
    }

    /// Every text in pieces, every call whole; the last event has the reason for the end.
    fn events(&self, active: &mut ActiveRequest) -> Vec<Event> {
        let mut pieces: Vec<(u32, Value)> = Vec::new();
        for part in &self.parts {
            let Some(text) = part["text"].as_str().filter(|_| part.get("thoughtSignature").is_none()) else {
                pieces.push((words::tokens(&signable(part)), part.clone()));
                continue;
            };
            for piece in words::pieces(text, self.tokens_per_chunk) {
                let mut part = part.clone();
                put(&mut part, "text", json!(piece));
                pieces.push((words::tokens(piece), part));
            }
        }
        let odd_framing = active.settings.odd_framing_rate;
        let mut line = |chunk: &Value| {
            // The real API ends its lines with CR LF; oddly framed ones have a comment before.
            let comment = if active.rng.random::<f64>() < odd_framing { ": simulated\r\n" } else { "" };
            format!("{comment}data: {chunk}\r\n\r\n")
        };
        let mut events: Vec<Event> = pieces
            .iter()
            .map(|(tokens, part)| Event {
                tokens: *tokens,
                content: EventContent::Written(line(&self.chunk(std::slice::from_ref(part), None)).into()),
            })
            .collect();
        let last = line(&self.chunk(&[json!({ "text": "" })], Some(self.finish)));
        events.push(Event { tokens: 0, content: EventContent::WrittenEnd(last.into()) });
        events
    }
}

/// The parts of a choice. After a thought the first call, or else the text, is signed.
fn written(choice: &Choice, settings: &ProviderSettings, is_thinking: bool) -> Vec<Value> {
    let text = choice.content.iter().filter(|text| !text.is_empty()).map(|text| json!({ "text": text }));
    let calls = choice.calls.iter().map(|call| {
        let args = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        json!({ "functionCall": { "name": call.name, "args": args } })
    });
    let mut parts: Vec<Value> = text.chain(calls).collect();
    let first_call = parts.iter_mut().find(|part| part.get("functionCall").is_some());
    if let Some(part) = first_call.filter(|_| is_thinking) {
        let signed = json!(signature(settings, &signable(part)));
        put(part, "thoughtSignature", signed);
    }
    parts
}

/// An error as this API writes it.
fn error(rejection: &Rejection) -> HttpResponse {
    let (code, status) = match rejection {
        Rejection::Unauthenticated => (403, "PERMISSION_DENIED"),
        Rejection::UnknownModel(_) | Rejection::UnknownPath { .. } => (404, "NOT_FOUND"),
        Rejection::RateLimited { .. } => (429, "RESOURCE_EXHAUSTED"),
        Rejection::Failed { .. } => (503, "UNAVAILABLE"),
        _ => (400, "INVALID_ARGUMENT"),
    };
    let message = match rejection {
        Rejection::UnknownModel(model) => format!("models/{model} is not found for API version v1beta."),
        Rejection::Failed { .. } => "The model is overloaded. Please try again later.".to_owned(),
        other => other.to_string(),
    };
    let mut error = json!({ "code": code, "message": message, "status": status });
    if let Rejection::RateLimited { wait, .. } = rejection {
        let delay = format!("{}s", super::rejection::whole_seconds(*wait));
        let details = json!([{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay }]);
        put(&mut error, "details", details);
    }
    HttpResponse::build(StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST)).json(json!({ "error": error }))
}
