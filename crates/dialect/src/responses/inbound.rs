//! Requests in the Responses dialect: `POST /responses`, checked and read as the chat that means the same: its messages, and a
//! chat body with everything else.
//!
//! Nothing is kept between requests, so whatever continues an earlier response is refused. Mistakes name the field in the
//! client's own dialect. The chat is what the gateway routes by and what endpoints of other dialects get; an endpoint of
//! this dialect gets the client's bytes.

mod agent_chat;
mod content;
pub(crate) mod echo;
mod field_names;
mod input;
mod items;
mod tools;

use std::fmt::Display;

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::{Invalid, InvalidReason};

pub(crate) use self::agent_chat::{AgentChat, read_agent_chat};
pub use self::echo::ResponseEcho;
pub(crate) use self::field_names::{field_name, given_fields};
use self::{input::Answer, tools::DeclaredTools};
use crate::{
    json::{MAX_DEPTH, Raw, push_member},
    neutral::{Prompt, StateKey, Turn, UnsupportedFields, body_members, none_of},
    openai::request::gateway_members::is_for_gateway,
    responses::provider_state::{PREVIOUS_RESPONSE_ID, ProviderState},
};

/// A checked request of this dialect.
#[derive(Debug, Clone)]
pub struct InboundResponses<'a> {
    /// The chat body that means the same, without its messages and tools.
    pub chat: Bytes,
    pub(crate) prompt: Prompt<'a>,
    /// Whether data of a medium are not in base64 as providers want it.
    pub(crate) has_odd_base64: bool,
    /// What has no equivalent in chat, by the client's names, or an equivalent of another kind.
    pub unsupported: UnsupportedFields,
    /// A feature that only endpoints of this dialect have, such as `input[2].type`.
    pub native_feature: Option<String>,
    /// The first tool that runs at the provider, such as `tools[0].type`. It is not in the chat body, and named as dropped.
    pub hosted_tool: Option<String>,
    /// What the answer repeats of the request.
    pub echo: ResponseEcho,
}

/// Reads a body of `POST /responses`. `state_key` opens reasoning of other providers that the client got sealed.
///
/// # Errors
/// The 400 for a body that is no JSON object, else for its first offending field.
pub fn read_responses<'a>(body: &'a [u8], state_key: &StateKey) -> Result<InboundResponses<'a>, Invalid> {
    read_responses_with(body, state_key, || ProviderState::Refused, MAX_DEPTH)
}

/// As [`read_responses`], of a body that is nested at most `max_depth` deep; where a provider may keep responses, the body may name one that it continues. `state` is asked only
/// if it does.
///
/// # Errors
/// The same.
pub(crate) fn read_responses_with<'a>(
    body: &'a [u8],
    state_key: &StateKey,
    state: impl Fn() -> ProviderState,
    max_depth: usize,
) -> Result<InboundResponses<'a>, Invalid> {
    let members = Members::read(body, state, max_depth)?;
    let mut reader = ChatReader::new(1_024, state_key);
    reader.read(&members)?;
    let ChatReader { out, turns, has_odd_base64, tools, unsupported, native_feature, .. } = reader;
    let DeclaredTools { list, namespaces, hosted: hosted_tool, .. } = tools;
    let (chat, echo) = (out.freeze(), ResponseEcho::new(&members.all, namespaces));
    let prompt = Prompt { turns, tools: list };
    Ok(InboundResponses { chat, prompt, has_odd_base64, unsupported, native_feature, hosted_tool, echo })
}

/// The messages and tools of a body that was read before.
pub(crate) fn prompt_of<'a>(body: &'a [u8], state_key: &StateKey) -> Option<Prompt<'a>> {
    let members = Members::read(body, || ProviderState::Allowed, MAX_DEPTH).ok()?;
    let mut reader = ChatReader::new(0, state_key);
    if let Some(tools) = members.tools {
        reader.tools(tools, "tools").ok()?;
    }
    reader.messages(members.instructions, members.input?).ok()?;
    Some(Prompt { turns: reader.turns, tools: reader.tools.list })
}

/// The answer of `POST /responses/input_tokens`.
pub fn input_tokens_body(input_tokens: u64) -> Bytes {
    Bytes::from(format!("{{\"object\":\"response.input_tokens\",\"input_tokens\":{input_tokens}}}"))
}

/// The members of the body.
#[derive(Default)]
struct Members<'a> {
    model: Option<Raw<'a>>,
    input: Option<Raw<'a>>,
    instructions: Option<Raw<'a>>,
    tools: Option<Raw<'a>>,
    tool_choice: Option<Raw<'a>>,
    reasoning: Option<Raw<'a>>,
    text: Option<Raw<'a>>,
    max_output_tokens: Option<Raw<'a>>,
    top_logprobs: Option<Raw<'a>>,
    include: Option<Raw<'a>>,
    truncation: Option<Raw<'a>>,
    store: Option<Raw<'a>>,
    background: Option<Raw<'a>>,
    previous_response_id: Option<Raw<'a>>,
    /// Members with the same name and meaning in chat, and those of the gateway.
    same: Vec<(Raw<'a>, Raw<'a>)>,
    /// All other members.
    others: Vec<Raw<'a>>,
    /// All members.
    all: Vec<(Raw<'a>, Raw<'a>)>,
}

impl<'a> Members<'a> {
    fn read(body: &'a [u8], state: impl Fn() -> ProviderState, max_depth: usize) -> Result<Members<'a>, Invalid> {
        let mut members = Members { all: body_members(body, max_depth)?, ..Members::default() };
        for (key, value) in members.all.clone() {
            let name = key.name();
            let slot = match &*name {
                b"model" => &mut members.model,
                b"input" => &mut members.input,
                b"instructions" => &mut members.instructions,
                b"tools" => &mut members.tools,
                b"tool_choice" => &mut members.tool_choice,
                b"reasoning" => &mut members.reasoning,
                b"text" => &mut members.text,
                b"max_output_tokens" => &mut members.max_output_tokens,
                b"top_logprobs" => &mut members.top_logprobs,
                b"include" => &mut members.include,
                b"truncation" => &mut members.truncation,
                b"store" => &mut members.store,
                b"background" => &mut members.background,
                b"previous_response_id" if state() == ProviderState::Allowed => &mut members.previous_response_id,
                b"previous_response_id" | b"conversation" => return Err(continued(&name)),
                b"prompt" => {
                    let message = "Prompt templates are not kept here: send 'instructions' and 'input'.";
                    return Err(unsupported_member("prompt", message));
                }
                // What it says is about padding of the stream, which there is none of.
                b"stream_options" if value.is_object() => continue,
                b"stream_options" => return Err(mistyped("stream_options", "an object")),
                b"max_tool_calls" if value.count().is_none() => return Err(mistyped("max_tool_calls", "an integer")),
                b"temperature"
                | b"top_p"
                | b"stream"
                | b"parallel_tool_calls"
                | b"service_tier"
                | b"user"
                | b"safety_identifier"
                | b"prompt_cache_key"
                | b"prompt_cache_retention"
                | b"prompt_cache_options"
                | b"metadata" => {
                    members.same.push((key, value));
                    continue;
                }
                name if is_for_gateway(&String::from_utf8_lossy(name)) => {
                    members.same.push((key, value));
                    continue;
                }
                _ => {
                    members.others.push(key);
                    continue;
                }
            };
            *slot = Some(value);
        }
        Ok(members)
    }
}

/// Reads a request, and writes the chat body.
struct ChatReader<'a> {
    out: BytesMut,
    turns: Vec<Turn<'a>>,
    has_odd_base64: bool,
    /// The message of the model that is not complete yet.
    answer_so_far: Answer<'a>,
    tools: DeclaredTools<'a>,
    unsupported: UnsupportedFields,
    native_feature: Option<String>,
    state_key: StateKey,
}

impl<'a> ChatReader<'a> {
    fn new(capacity: usize, state_key: &StateKey) -> ChatReader<'a> {
        ChatReader {
            out: BytesMut::with_capacity(capacity),
            turns: Vec::new(),
            has_odd_base64: false,
            answer_so_far: Answer::default(),
            tools: DeclaredTools::default(),
            unsupported: UnsupportedFields::default(),
            native_feature: None,
            state_key: state_key.clone(),
        }
    }

    fn read(&mut self, members: &Members<'a>) -> Result<(), Invalid> {
        let model = members.model.ok_or_else(|| required("model"))?;
        if model.filled_string().is_none() {
            return Err(mistyped("model", "a non-empty string"));
        }
        let input = members.input.ok_or_else(|| required("input"))?;
        self.check_state(members)?;
        self.out.put_slice(b"{\"model\":");
        self.out.put_slice(model.bytes());
        // Tools first: calls in the history have the names that the tools got.
        if let Some(tools) = members.tools {
            self.tools(tools, "tools")?;
        }
        push_member(&mut self.out, b"messages", b"[]");
        self.messages(members.instructions, input)?;
        self.push_tools();
        if let Some(choice) = members.tool_choice {
            self.tool_choice(choice)?;
        }
        if let Some(limit) = members.max_output_tokens {
            if limit.count().is_none_or(|count| count == 0) {
                return Err(refused("max_output_tokens", "'max_output_tokens' must be an integer of at least 1."));
            }
            push_member(&mut self.out, b"max_completion_tokens", limit.bytes());
        }
        if let Some(reasoning) = members.reasoning {
            self.reasoning(reasoning)?;
        }
        if let Some(text) = members.text {
            self.text(text)?;
        }
        self.logprobs(members)?;
        let has_tools = !self.tools.is_empty();
        for (key, value) in &members.same {
            // Chat servers refuse it without tools.
            if !has_tools && *key.name() == *b"parallel_tool_calls" && matches!(value.bytes(), b"true" | b"false") {
                continue;
            }
            push_member(&mut self.out, key.inner(), value.bytes());
        }
        for key in &members.others {
            self.unsupported.drop(&String::from_utf8_lossy(&key.name()));
        }
        self.out.put_u8(b'}');
        Ok(())
    }

    /// Nothing is kept, whatever the client would like: it gets its answer now and can send the whole history again.
    fn check_state(&mut self, members: &Members<'_>) -> Result<(), Invalid> {
        for (value, name) in [(members.store, "store"), (members.background, "background")] {
            if value.is_some_and(|flag| !matches!(flag.bytes(), b"true" | b"false")) {
                return Err(mistyped(name, "a boolean"));
            }
        }
        if members.background.is_some_and(|flag| flag.bytes() == b"true") {
            let message = "Responses in the background are not kept here: leave 'background' out and read the answer or its stream.";
            return Err(unsupported_member("background", message));
        }
        if let Some(id) = members.previous_response_id {
            if id.filled_string().is_none() {
                return Err(mistyped(PREVIOUS_RESPONSE_ID, "a non-empty string"));
            }
            self.needs_native(PREVIOUS_RESPONSE_ID);
        }
        match members.truncation.map(Raw::text) {
            None => {}
            Some(Some(word)) if &*word == "disabled" => {}
            Some(Some(word)) if &*word == "auto" => self.unsupported.drop("truncation"),
            Some(_) => return Err(none_of("truncation", members.truncation, &["auto", "disabled"])),
        }
        Ok(())
    }

    /// How the reasoning is summarised is up to the provider.
    fn reasoning(&mut self, reasoning: Raw<'_>) -> Result<(), Invalid> {
        if !reasoning.is_object() {
            return Err(mistyped("reasoning", "an object"));
        }
        for (key, value) in reasoning.members().filter(|(_, value)| !value.is_null()) {
            match &*key.name() {
                b"effort" if value.is_string() => {
                    push_member(&mut self.out, b"reasoning", b"{\"effort\":");
                    self.out.put_slice(value.bytes());
                    self.out.put_u8(b'}');
                }
                b"effort" => return Err(mistyped("reasoning.effort", "a string")),
                b"summary" | b"generate_summary" => {}
                other => self.unsupported.drop(&format!("reasoning.{}", String::from_utf8_lossy(other))),
            }
        }
        Ok(())
    }

    fn text(&mut self, text: Raw<'_>) -> Result<(), Invalid> {
        if !text.is_object() {
            return Err(mistyped("text", "an object"));
        }
        for (key, value) in text.members().filter(|(_, value)| !value.is_null()) {
            match &*key.name() {
                b"format" => self.format(value)?,
                b"verbosity" => push_member(&mut self.out, b"verbosity", value.bytes()),
                other => self.unsupported.drop(&format!("text.{}", String::from_utf8_lossy(other))),
            }
        }
        Ok(())
    }

    fn format(&mut self, format: Raw<'_>) -> Result<(), Invalid> {
        match format.member(b"type").and_then(Raw::text).as_deref() {
            Some("text") => {}
            Some("json_object") => push_member(&mut self.out, b"response_format", b"{\"type\":\"json_object\"}"),
            Some("json_schema") => {
                for (name, is_right) in [
                    ("name", format.member(b"name").and_then(Raw::filled_string).is_some()),
                    ("schema", format.member(b"schema").is_some_and(Raw::is_object)),
                ] {
                    if !is_right {
                        return Err(required(format!("text.format.{name}")));
                    }
                }
                push_member(&mut self.out, b"response_format", b"{\"type\":\"json_schema\",\"json_schema\":{");
                let described = format.members().filter(|(key, value)| *key.name() != *b"type" && !value.is_null());
                for (index, (key, value)) in described.enumerate() {
                    if index > 0 {
                        self.out.put_u8(b',');
                    }
                    self.out.put_slice(key.bytes());
                    self.out.put_u8(b':');
                    self.out.put_slice(value.bytes());
                }
                self.out.put_slice(b"}}");
            }
            _ => {
                let allowed = ["text", "json_object", "json_schema"];
                return Err(none_of("text.format.type", format.member(b"type"), &allowed));
            }
        }
        Ok(())
    }

    /// `top_logprobs`, and what `include` says.
    fn logprobs(&mut self, members: &Members<'_>) -> Result<(), Invalid> {
        let mut is_wanted = members.top_logprobs.is_some_and(|count| count.bytes() != b"0");
        if let Some(include) = members.include {
            if !include.is_array() || !include.elements().all(Raw::is_string) {
                return Err(mistyped("include", "an array of strings"));
            }
            for wanted in include.elements().filter_map(Raw::text) {
                match &*wanted {
                    // It is in every answer that has any.
                    "reasoning.encrypted_content" => {}
                    "message.output_text.logprobs" => is_wanted = true,
                    _ => self.unsupported.drop("include"),
                }
            }
        }
        if is_wanted {
            push_member(&mut self.out, b"logprobs", b"true");
        }
        if let Some(count) = members.top_logprobs {
            push_member(&mut self.out, b"top_logprobs", count.bytes());
        }
        Ok(())
    }

    /// Notes a feature that only endpoints of this dialect have; the first one is named.
    fn needs_native(&mut self, path: impl Display) {
        self.native_feature.get_or_insert_with(|| path.to_string());
    }
}

fn required(param: impl Display) -> Invalid {
    Invalid::field(InvalidReason::MissingField, param.to_string(), format!("Missing required parameter: '{param}'."))
}

fn mistyped(param: impl Display, expected: &str) -> Invalid {
    Invalid::field(InvalidReason::InvalidType, param.to_string(), format!("'{param}' must be {expected}."))
}

fn refused(param: impl Display, message: impl Into<String>) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, param.to_string(), message)
}

fn unsupported_member(param: &str, message: &str) -> Invalid {
    Invalid::field(InvalidReason::UnsupportedParameter, param, message)
}

fn continued(name: &[u8]) -> Invalid {
    let name = String::from_utf8_lossy(name);
    let message =
        format!("Responses are not kept here, so '{name}' cannot be used: send the whole conversation in 'input'.");
    Invalid::field(InvalidReason::PreviousResponse, name, message)
}

#[cfg(test)]
mod tests;
