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
        UnsupportedFields, body_members, check_type, given, mistyped, none_of, optional_member, refused, taken,
    },
    responses::provider_state::{PREVIOUS_RESPONSE_ID, ProviderState},
};

/// Parameters with the same name and meaning in chat.
const SAME: [&str; 8] = names![
    temperature top_p service_tier user safety_identifier prompt_cache_key prompt_cache_retention
    prompt_cache_options
];

/// A checked request of this dialect.
#[derive(Debug, Clone)]
pub(crate) struct InboundResponses<'a> {
    pub(crate) chat: ClientChat<'a>,
    /// What has no equivalent in chat, by the client's names, or an equivalent of another kind.
    pub(crate) unsupported: UnsupportedFields,
    /// A feature that only endpoints of this dialect have, such as `input[2].type`.
    pub(crate) native_feature: Option<String>,
    /// The first tool that runs at the provider, such as `tools[0].type`. It is not in the conversation, and named as dropped.
    pub(crate) hosted_tool: Option<String>,
    /// What the answer repeats of the request.
    pub(crate) echo: ResponseEcho,
}

/// Reads a body of `POST /responses`, which may be nested at most `max_depth` deep. `state_key` opens reasoning of other providers
/// that the client got sealed. Where a provider may keep responses, the body may name one that it continues: `state` is asked only
/// if it does.
///
/// # Errors
/// The 400 for a body that is no JSON object, else for its first offending field.
pub(crate) fn read_responses<'a>(
    body: &'a [u8],
    state_key: &StateKey,
    state: impl Fn() -> ProviderState,
    max_depth: usize,
) -> Result<InboundResponses<'a>, Invalid> {
    let mut members = body_members(body, max_depth)?;
    let all = members.clone();
    let mut reader = ChatReader::new(state_key);
    reader.read(&mut members, state)?;
    let ChatReader { mut conversation, has_odd_base64, tools, unsupported, native_feature, .. } = reader;
    let DeclaredTools { list, namespaces, hosted: hosted_tool, .. } = tools;
    conversation.tools = list;
    let service =
        RequestedService::of(|name| conversation.parameter(name)?.text().map(|word| word.into_owned().into()));
    let echo = ResponseEcho::new(&all, namespaces);
    let chat = ClientChat { conversation, members, service, has_odd_base64, has_parameters: false };
    Ok(InboundResponses { chat, unsupported, native_feature, hosted_tool, echo })
}

/// What a body that was read before asks for.
pub(crate) fn conversation_of<'a>(body: &'a [u8], state_key: &StateKey) -> Option<Conversation<'a>> {
    let mut reader = ChatReader::new(state_key);
    reader.read(&mut body_members(body, MAX_DEPTH).ok()?, || ProviderState::Allowed).ok()?;
    Some(Conversation { tools: reader.tools.list, ..reader.conversation })
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

    /// Reads the members of a body. Those that the API does not have stay, and `model` and `metadata`.
    fn read(
        &mut self,
        members: &mut Vec<(Raw<'a>, Raw<'a>)>,
        state: impl Fn() -> ProviderState,
    ) -> Result<(), Invalid> {
        self.check_state(members, state)?;
        let model = given(members, "model").ok_or_else(|| required("model"))?;
        check_type(model.filled_string().is_some(), "model", "a non-empty string")?;
        let input = taken(members, "input").ok_or_else(|| required("input"))?;
        // Tools first: calls in the history have the names that the tools got.
        if let Some(tools) = taken(members, "tools") {
            self.tools(tools, "tools")?;
        }
        self.messages(taken(members, "instructions"), input)?;
        if let Some(choice) = taken(members, "tool_choice") {
            self.tool_choice(choice)?;
        }
        if let Some(limit) = taken(members, "max_output_tokens") {
            let limit = limit.count().filter(|limit| *limit > 0);
            let message = "'max_output_tokens' must be an integer of at least 1.";
            self.conversation.max_tokens = Some(limit.ok_or_else(|| refused("max_output_tokens", message))?);
        }
        if let Some(reasoning) = taken(members, "reasoning") {
            self.reasoning(reasoning)?;
        }
        if let Some(text) = taken(members, "text") {
            self.text(text)?;
        }
        self.logprobs(taken(members, "top_logprobs"), taken(members, "include"))?;
        for (key, value) in std::mem::take(members) {
            let name = key.text().unwrap_or_default();
            match &*name {
                "stream" => self.conversation.stream = flag(value, &name)?,
                // Chat servers refuse it without tools.
                "parallel_tool_calls" => {
                    let is_parallel = flag(value, &name)?;
                    self.conversation.parallel_tool_calls = (!self.tools.is_empty()).then_some(is_parallel);
                }
                // What it says is about padding of the stream, which there is none of.
                "stream_options" if value.is_object() => {}
                "stream_options" => return Err(mistyped("stream_options", "an object")),
                "max_tool_calls" if value.count().is_none() => return Err(mistyped("max_tool_calls", "an integer")),
                name if SAME.contains(&name) => {
                    self.conversation.parameters.push(Parameter::new(name.to_owned().into(), value));
                }
                _ => members.push((key, value)),
            }
        }
        Ok(())
    }

    fn parameter(&mut self, name: &'static str, value: Raw<'a>) {
        self.conversation.parameters.push(Parameter::new(name.into(), value));
    }

    /// Nothing is kept, whatever the client would like: it gets its answer now and can send the whole history again.
    fn check_state(
        &mut self,
        members: &mut Vec<(Raw<'a>, Raw<'a>)>,
        state: impl Fn() -> ProviderState,
    ) -> Result<(), Invalid> {
        if let Some(id) = taken(members, PREVIOUS_RESPONSE_ID) {
            if state() != ProviderState::Allowed {
                return Err(continued(PREVIOUS_RESPONSE_ID));
            }
            check_type(id.filled_string().is_some(), PREVIOUS_RESPONSE_ID, "a non-empty string")?;
            self.needs_native(PREVIOUS_RESPONSE_ID);
        }
        if taken(members, "conversation").is_some() {
            return Err(continued("conversation"));
        }
        if taken(members, "prompt").is_some() {
            let message = "Prompt templates are not kept here: send 'instructions' and 'input'.";
            return Err(unsupported_member("prompt", message));
        }
        taken(members, "store").map_or(Ok(false), |value| flag(value, "store"))?;
        if taken(members, "background").map_or(Ok(false), |value| flag(value, "background"))? {
            let message = "Responses in the background are not kept here: leave 'background' out and read the answer or its stream.";
            return Err(unsupported_member("background", message));
        }
        let truncation = taken(members, "truncation");
        match truncation.map(|word| word.text().unwrap_or_default()).as_deref() {
            None | Some("disabled") => Ok(()),
            Some("auto") => {
                self.unsupported.drop("truncation");
                Ok(())
            }
            Some(_) => Err(none_of("truncation", truncation, &["auto", "disabled"])),
        }
    }

    /// How the reasoning is summarised is up to the provider.
    fn reasoning(&mut self, reasoning: Raw<'_>) -> Result<(), Invalid> {
        check_type(reasoning.is_object(), "reasoning", "an object")?;
        for (key, value) in reasoning.members().filter(|(_, value)| !value.is_null()) {
            match &*key.name() {
                b"effort" => {
                    let word = value.text().ok_or_else(|| mistyped("reasoning.effort", "a string"))?;
                    let effort = Effort::from_name(&word);
                    let unknown = || none_of("reasoning.effort", Some(value), &Effort::NAMES);
                    self.conversation.reasoning.effort = Some(effort.ok_or_else(unknown)?);
                }
                b"summary" | b"generate_summary" => {}
                other => self.unsupported.drop(&format!("reasoning.{}", String::from_utf8_lossy(other))),
            }
        }
        Ok(())
    }

    fn text(&mut self, text: Raw<'a>) -> Result<(), Invalid> {
        check_type(text.is_object(), "text", "an object")?;
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
        self.conversation.format = match format.kind().as_deref() {
            Some("text") => AnswerFormat::Text,
            Some("json_object") => AnswerFormat::JsonObject,
            Some("json_schema") => {
                let name = format.member(b"name").and_then(EscapedText::filled);
                let schema = format.member(b"schema").filter(|schema| schema.is_object());
                let strict = optional_member(format, "text.format", "strict", MemberType::Boolean)?;
                AnswerFormat::Schema {
                    name: name.ok_or_else(|| required("text.format.name"))?,
                    description: format.member(b"description").and_then(EscapedText::read),
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
    fn logprobs(&mut self, count: Option<Raw<'a>>, include: Option<Raw<'a>>) -> Result<(), Invalid> {
        let mut is_wanted = count.is_some_and(|count| count.bytes() != b"0");
        if let Some(include) = include {
            check_type(include.is_array() && include.elements().all(Raw::is_string), "include", "an array of strings")?;
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
        if let Some(count) = count {
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

fn flag(value: Raw<'_>, name: &str) -> Result<bool, Invalid> {
    match value.bytes() {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(mistyped(name, "a boolean")),
    }
}

fn unsupported_member(param: &str, message: &str) -> Invalid {
    Invalid::field(InvalidReason::UnsupportedParameter, param, message)
}

fn continued(name: &str) -> Invalid {
    let message =
        format!("Responses are not kept here, so '{name}' cannot be used: send the whole conversation in 'input'.");
    Invalid::field(InvalidReason::PreviousResponse, name, message)
}

#[cfg(test)]
mod tests;
