//! Requests of Anthropic's Messages API: what is refused, and the same request for the generator of answers.

use std::collections::BTreeSet;

use pointsman_domain::Modality;
use serde_json::{Value, json};

use super::{
    ProviderSettings, SimulatedModel,
    json_value::{invalid, member},
    prompt_cache::{Prefix, PromptReader},
    rejection::Rejection,
    seal::{is_own_redacted, signature},
    words,
};

/// The members of a request.
const MEMBERS: [&str; 17] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "tools",
    "tool_choice",
    "thinking",
    "metadata",
    "output_config",
    "service_tier",
    "cache_control",
    "context_management",
];

/// The smallest budget for thinking.
const LEAST_BUDGET: u64 = 1024;

/// Checks the request and returns its model. `generates`: it is for an answer, not for a count.
pub(super) fn check<'s>(
    body: &Value,
    settings: &'s ProviderSettings,
    generates: bool,
) -> Result<&'s SimulatedModel, Rejection> {
    let members = body.as_object().ok_or_else(|| invalid("Input should be a valid dictionary"))?;
    if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(invalid(&format!("{name}: Extra inputs are not permitted")));
    }
    let id = member(body, "model").as_str().ok_or_else(|| invalid("model: Field required"))?;
    let model = settings.model(id).ok_or_else(|| Rejection::UnknownModel(id.to_owned()))?;
    if generates {
        check_limits(body, model)?;
    }
    let messages = member(body, "messages").as_array().ok_or_else(|| invalid("messages: Field required"))?;
    if messages.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    let mut open = BTreeSet::new();
    for (position, message) in messages.iter().enumerate() {
        check_message(position, message, &mut open, (model, settings))?;
    }
    if !open.is_empty() {
        return Err(unanswered(messages.len() - 1, &open));
    }
    if !model.tools && body.get("tools").is_some() {
        return Err(invalid("tools: not supported by this model"));
    }
    Ok(model)
}

fn check_limits(body: &Value, model: &SimulatedModel) -> Result<(), Rejection> {
    let limit = body.get("max_tokens").ok_or_else(|| invalid("max_tokens: Field required"))?;
    let limit = limit.as_u64().filter(|limit| *limit > 0);
    let limit = limit.ok_or_else(|| invalid("max_tokens: Input should be greater than or equal to 1"))?;
    if let Some(most) = model.max_output_tokens.filter(|most| limit > u64::from(*most)) {
        let id = &model.id;
        return Err(invalid(&format!(
            "max_tokens: {limit} > {most}, which is the maximum allowed number of output tokens for {id}"
        )));
    }
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    match thinking["type"].as_str() {
        Some("disabled" | "adaptive") => {}
        Some("enabled") => {
            let budget = thinking["budget_tokens"].as_u64();
            let budget = budget.ok_or_else(|| invalid("thinking.enabled.budget_tokens: Field required"))?;
            if budget < LEAST_BUDGET {
                return Err(invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"));
            }
            if budget >= limit {
                return Err(invalid("`max_tokens` must be greater than `thinking.budget_tokens`"));
            }
            if matches!(member(member(body, "tool_choice"), "type").as_str(), Some("any" | "tool")) {
                return Err(invalid("Thinking may not be enabled when tool_choice forces tool use."));
            }
        }
        _ => return Err(invalid("thinking: Input tag does not match any of the expected tags")),
    }
    let is_on = thinking["type"] != "disabled";
    if is_on && member(body, "temperature").as_f64().is_some_and(|temperature| temperature != 1.0) {
        return Err(invalid("`temperature` may only be set to 1 when thinking is enabled."));
    }
    Ok(())
}

/// Checks one message. `open`: the calls of the message before that need a result here.
fn check_message(
    position: usize,
    message: &Value,
    open: &mut BTreeSet<String>,
    (model, settings): (&SimulatedModel, &ProviderSettings),
) -> Result<(), Rejection> {
    let role = message["role"].as_str().unwrap_or_default();
    if !matches!(role, "user" | "assistant") {
        return Err(invalid(&format!("messages.{position}.role: Input should be 'user' or 'assistant'")));
    }
    let mut called = BTreeSet::new();
    for (index, block) in blocks(&message["content"]).iter().enumerate() {
        let place = format!("messages.{position}.content.{index}");
        let id = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        match (member(block, "type").as_str().unwrap_or_default(), role) {
            ("text", _) if member(block, "text").as_str().is_some_and(str::is_empty) => {
                return Err(invalid("messages: text content blocks must be non-empty"));
            }
            ("text" | "document", _) => {}
            ("image", "user") if model.inputs.contains(Modality::Image) => {}
            ("tool_use", "assistant") => {
                if !called.insert(id("id")) {
                    return Err(invalid(&format!("{place}: `tool_use` ids must be unique")));
                }
            }
            ("tool_result", "user") => {
                if !open.remove(&id("tool_use_id")) {
                    return Err(invalid(&format!(
                        "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {}. Each `tool_result` block \
                         must have a corresponding `tool_use` block in the previous message.",
                        id("tool_use_id")
                    )));
                }
            }
            ("thinking", "assistant") if signature(settings, &id("thinking")) == id("signature") => {}
            ("thinking", "assistant") => {
                return Err(invalid(&format!("{place}: Invalid `signature` in `thinking` block")));
            }
            ("redacted_thinking", "assistant") if is_own_redacted(settings, &id("data")) => {}
            ("redacted_thinking", "assistant") => {
                return Err(invalid(&format!("{place}: Invalid `data` in `redacted_thinking` block")));
            }
            (other, _) => return Err(invalid(&format!("{place}: Input tag '{other}' is not expected here"))),
        }
    }
    if !open.is_empty() {
        return Err(unanswered(position.saturating_sub(1), open));
    }
    *open = called;
    Ok(())
}

fn unanswered(position: usize, open: &BTreeSet<String>) -> Rejection {
    let ids: Vec<&str> = open.iter().map(String::as_str).collect();
    invalid(&format!(
        "messages.{position}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    ))
}

/// The blocks of a content, which may be a plain string.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

fn text_of(content: &Value) -> String {
    blocks(content).iter().filter_map(|block| member(block, "text").as_str()).collect::<Vec<_>>().join("\n")
}

/// The text of the last message of the user that has some.
pub(super) fn marked_text(body: &Value) -> String {
    let messages = member(body, "messages").as_array().into_iter().flatten().rev();
    let of_user = messages.filter(|message| message["role"] == "user").map(|message| text_of(&message["content"]));
    of_user.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

/// The beginnings of the prompt that the client marks.
pub(super) fn prefixes(body: &Value) -> Vec<Prefix> {
    let mut reader = PromptReader::new(member(body, "model").as_str().unwrap_or_default());
    let tools = member(body, "tools").as_array().into_iter().flatten().cloned();
    let messages = member(body, "messages").as_array().into_iter().flatten();
    let said = messages.flat_map(|message| blocks(&message["content"]));
    let last = member(body, "cache_control");
    for mut block in tools.chain(blocks(member(body, "system"))).chain(said) {
        let mark = block.as_object_mut().and_then(|block| block.remove("cache_control")).filter(|mark| !mark.is_null());
        let tokens = match (member(&block, "type").as_str(), member(&block, "text").as_str()) {
            (_, Some(text)) => words::tokens(text),
            (Some("image" | "document"), None) => 0,
            (_, None) => words::tokens(&block.to_string()),
        };
        reader.part(&block.to_string(), tokens);
        if let Some(mark) = mark {
            reader.mark(member(&mark, "ttl") == "1h");
        }
    }
    if last.is_object() {
        reader.mark(last["ttl"] == "1h");
    }
    reader.finish()
}

/// The request as the generator of answers reads it.
pub(super) fn chat_body(body: &Value) -> Value {
    let mut messages = Vec::new();
    if let Some(system) = body.get("system") {
        messages.push(json!({ "role": "system", "content": text_of(system) }));
    }
    for message in member(body, "messages").as_array().into_iter().flatten() {
        add_message(message, &mut messages);
    }
    let tools: Vec<Value> = member(body, "tools").as_array().into_iter().flatten().map(tool).collect();
    let choice = match member(member(body, "tool_choice"), "type").as_str() {
        Some("any") => json!("required"),
        Some("none") => json!("none"),
        Some("tool") => json!({ "function": { "name": member(member(body, "tool_choice"), "name") } }),
        _ => json!("auto"),
    };
    let format = member(body, "output_config")
        .get("format")
        .map(|format| json!({ "type": "json_schema", "json_schema": { "schema": format["schema"] } }));
    json!({
        "model": member(body, "model"), "messages": messages, "max_tokens": member(body, "max_tokens"), "stop": member(body, "stop_sequences"),
        "tools": tools, "tool_choice": choice, "response_format": format,
        "parallel_tool_calls": member(member(body, "tool_choice"), "disable_parallel_tool_use") != true,
    })
}

fn tool(tool: &Value) -> Value {
    json!({ "function": {
        "name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"],
    } })
}

fn add_message(message: &Value, messages: &mut Vec<Value>) {
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    for block in blocks(&message["content"]) {
        match member(&block, "type").as_str() {
            Some("text") => parts.push(json!({ "type": "text", "text": member(&block, "text") })),
            Some("image") => parts.push(json!({ "type": "image_url" })),
            Some("tool_use") => calls.push(json!({
                "id": member(&block, "id"), "function": { "name": member(&block, "name"), "arguments": member(&block, "input").to_string() },
            })),
            Some("tool_result") => messages.push(json!({
                "role": "tool", "tool_call_id": member(&block, "tool_use_id"), "content": text_of(member(&block, "content")),
            })),
            _ => {}
        }
    }
    if !calls.is_empty() || !parts.is_empty() {
        messages.push(json!({ "role": message["role"], "content": parts, "tool_calls": calls }));
    }
}
