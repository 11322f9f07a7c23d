//! Requests in the Responses dialect: `POST /responses`, checked and read into the neutral form.
//!
//! Nothing is kept between requests, so whatever continues an earlier response is refused. Mistakes name the field in the
//! client's own dialect. The conversation is what the gateway routes by and what endpoints of other dialects get; an endpoint of
//! this dialect gets the client's bytes.

mod content;
pub(crate) mod echo;
mod field_names;
mod input;
mod items;
mod tools;

use std::fmt::Display;

use bytes::Bytes;
use pointsman_domain::{Invalid, InvalidReason, RequestedService};

pub use self::echo::ResponseEcho;
pub(crate) use self::{
    field_names::{field_name, given_fields},
    tools::is_flat,
};
use self::{input::Answer, tools::DeclaredTools};
use crate::{
    json::{MAX_DEPTH, Raw},
    neutral::{
        AnswerFormat, ClientChat, Conversation, Effort, EscapedText, MemberType, Parameter, StateKey,
        UnsupportedFields, body_members, none_of, optional_member,
    },
    responses::provider_state::{PREVIOUS_RESPONSE_ID, ProviderState},
};

/// How much a model may think.
const EFFORTS: [&str; 7] = ["max", "xhigh", "high", "medium", "low", "minimal", "none"];

/// A checked request of this dialect.
#[derive(Debug, Clone)]
pub struct InboundResponses<'a> {
    pub(crate) chat: ClientChat<'a>,
    /// What has no equivalent in chat, by the client's names, or an equivalent of another kind.
    pub unsupported: UnsupportedFields,
    /// A feature that only endpoints of this dialect have, such as `input[2].type`.
    pub native_feature: Option<String>,
    /// The first tool that runs at the provider, such as `tools[0].type`. It is not in the conversation, and named as dropped.
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
    let mut reader = ChatReader::new(state_key);
    reader.read(&members)?;
    let ChatReader { mut conversation, has_odd_base64, tools, unsupported, native_feature, .. } = reader;
    let DeclaredTools { list, namespaces, hosted: hosted_tool, .. } = tools;
    conversation.tools = list;
    let service =
        RequestedService::of(|name| conversation.parameter(name)?.text().map(|word| word.into_owned().into()));
    let echo = ResponseEcho::new(&members.all, namespaces);
    let chat = ClientChat { conversation, members: members.others, service, has_odd_base64 };
    Ok(InboundResponses { chat, unsupported, native_feature, hosted_tool, echo })
}

/// What a body that was read before asks for.
pub(crate) fn conversation_of<'a>(body: &'a [u8], state_key: &StateKey) -> Option<Conversation<'a>> {
    let read = read_responses_with(body, state_key, || ProviderState::Allowed, MAX_DEPTH);
    read.ok().map(|read| read.chat.conversation)
}

/// Tools in the form of this API and a choice among them, as agents put them into a chat.
///
/// # Errors
/// The 400 for the first offending member.
pub(crate) fn read_flat_tools<'a>(
    tools: Raw<'a>,
    choice: Option<Raw<'a>>,
    state_key: &StateKey,
) -> Result<(Conversation<'a>, UnsupportedFields), Invalid> {
    let mut reader = ChatReader::new(state_key);
    reader.tools(tools, "tools")?;
    choice.map_or(Ok(()), |choice| reader.tool_choice(choice))?;
    let ChatReader { conversation, tools, unsupported, .. } = reader;
    Ok((Conversation { tools: tools.list, ..conversation }, unsupported))
}

/// The mistake of sending an item that only this API has to another one.
pub(crate) fn only_for_responses(path: &str) -> Invalid {
    unsupported_member(path, "An item of this type is only for '/responses'.")
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
    /// Members with the same name and meaning in chat.
    same: Vec<(Raw<'a>, Raw<'a>)>,
    /// `model` and all members that the API does not have.
    others: Vec<(Raw<'a>, Raw<'a>)>,
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
                | b"prompt_cache_options" => {
                    members.same.push((key, value));
                    continue;
                }
                _ => {
                    members.others.push((key, value));
                    continue;
                }
            };
            *slot = Some(value);
            if *name == *b"model" {
                members.others.push((key, value));
            }
        }
        Ok(members)
    }
}

/// Reads a request.
struct ChatReader<'a> {
    /// What it asks for, but the tools.
    conversation: Conversation<'a>,
    has_odd_base64: bool,
    /// The message of the model that is not complete yet.
    answer_so_far: Answer<'a>,
    tools: DeclaredTools<'a>,
    unsupported: UnsupportedFields,
    native_feature: Option<String>,
    state_key: StateKey,
}

impl<'a> ChatReader<'a> {
    fn new(state_key: &StateKey) -> ChatReader<'a> {
        ChatReader {
            conversation: Conversation::default(),
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
        // Tools first: calls in the history have the names that the tools got.
        if let Some(tools) = members.tools {
            self.tools(tools, "tools")?;
        }
        self.messages(members.instructions, input)?;
        if let Some(choice) = members.tool_choice {
            self.tool_choice(choice)?;
        }
        if let Some(limit) = members.max_output_tokens {
            let limit = limit.count().filter(|limit| *limit > 0);
            let message = "'max_output_tokens' must be an integer of at least 1.";
            self.conversation.max_tokens = Some(limit.ok_or_else(|| refused("max_output_tokens", message))?);
        }
        if let Some(reasoning) = members.reasoning {
            self.reasoning(reasoning)?;
        }
        if let Some(text) = members.text {
            self.text(text)?;
        }
        self.logprobs(members)?;
        for (key, value) in &members.same {
            self.same(*key, *value)?;
        }
        Ok(())
    }

    fn same(&mut self, key: Raw<'a>, value: Raw<'a>) -> Result<(), Invalid> {
        let name = key.text().unwrap_or_default();
        let flag = || match value.bytes() {
            b"true" => Ok(true),
            b"false" => Ok(false),
            _ => Err(mistyped(&name, "a boolean")),
        };
        match &*name {
            "stream" => self.conversation.stream = flag()?,
            // Chat servers refuse it without tools.
            "parallel_tool_calls" => {
                self.conversation.parallel_tool_calls = Some(flag()?).filter(|_| !self.tools.is_empty());
            }
            _ => self.conversation.parameters.push(Parameter::new(name, value)),
        }
        Ok(())
    }

    fn parameter(&mut self, name: &'static str, value: Raw<'a>) {
        self.conversation.parameters.push(Parameter::new(name.into(), value));
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
                b"effort" => {
                    let word = value.text().ok_or_else(|| mistyped("reasoning.effort", "a string"))?;
                    let effort = Effort::named(&word);
                    let unknown = || none_of("reasoning.effort", Some(value), &EFFORTS);
                    self.conversation.reasoning.effort = Some(effort.ok_or_else(unknown)?);
                }
                b"summary" | b"generate_summary" => {}
                other => self.unsupported.drop(&format!("reasoning.{}", String::from_utf8_lossy(other))),
            }
        }
        Ok(())
    }

    fn text(&mut self, text: Raw<'a>) -> Result<(), Invalid> {
        if !text.is_object() {
            return Err(mistyped("text", "an object"));
        }
        for (key, value) in text.members().filter(|(_, value)| !value.is_null()) {
            match &*key.name() {
                b"format" => self.format(value)?,
                b"verbosity" => self.parameter("verbosity", value),
                other => self.unsupported.drop(&format!("text.{}", String::from_utf8_lossy(other))),
            }
        }
        Ok(())
    }

    fn format(&mut self, format: Raw<'a>) -> Result<(), Invalid> {
        self.conversation.format = match format.member(b"type").and_then(Raw::text).as_deref() {
            Some("text") => AnswerFormat::Text,
            Some("json_object") => AnswerFormat::JsonObject,
            Some("json_schema") => {
                let name = format.member(b"name").and_then(Raw::filled_string).and_then(EscapedText::of);
                let schema = format.member(b"schema").filter(|schema| schema.is_object());
                let strict = optional_member(format, "text.format", "strict", MemberType::Boolean)?;
                AnswerFormat::Schema {
                    name: name.ok_or_else(|| required("text.format.name"))?,
                    description: format.member(b"description").and_then(EscapedText::of),
                    schema: schema.ok_or_else(|| required("text.format.schema"))?,
                    strict: strict.map(|strict| strict.bytes() == b"true"),
                }
            }
            _ => {
                let allowed = ["text", "json_object", "json_schema"];
                return Err(none_of("text.format.type", format.member(b"type"), &allowed));
            }
        };
        Ok(())
    }

    /// `top_logprobs`, and what `include` says.
    fn logprobs(&mut self, members: &Members<'a>) -> Result<(), Invalid> {
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
            self.parameter("logprobs", Raw::own("true"));
        }
        if let Some(count) = members.top_logprobs {
            self.parameter("top_logprobs", count);
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
