//! Requests in the Anthropic dialect: `POST /v1/messages` and its `count_tokens`, checked and read into the neutral form.
//!
//! Mistakes name the field in the client's own dialect. The conversation is what the gateway routes by and what endpoints of
//! other dialects get; an endpoint of this dialect gets the client's bytes.

mod content;
mod field_names;
mod media;
mod tools;

use std::fmt::Display;

use bytes::Bytes;
use pointsman_domain::{Invalid, InvalidReason, RequestedService};
use sha2::{Digest as _, Sha256};

pub(crate) use self::field_names::{field_name, given_fields};
use crate::{
    json::{MAX_DEPTH, Raw},
    neutral::{
        AnswerFormat, ClientChat, Conversation, Effort, EscapedText, MemberType, Parameter, StateKey,
        UnsupportedFields, body_members, check_type, given, mistyped, none_of, optional_member, refused, taken,
    },
};

/// Most messages of the original API.
const MAX_MESSAGES: usize = 100_000;
/// How much a model may think.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
/// The version of the API since which it has no sampling parameters.
const WITHOUT_SAMPLING: &str = "2026-10-21";
/// Longest `user` of a chat body that popular providers take, characters.
const MAX_USER_CHARS: usize = 128;
/// Bytes of the hash that stands for another one.
const USER_HASH_BYTES: usize = 16;

/// A checked request of this dialect.
#[derive(Debug, Clone)]
pub(crate) struct InboundMessages<'a> {
    pub(crate) chat: ClientChat<'a>,
    /// What has no equivalent in chat, by the client's names, or an equivalent of another kind.
    pub(crate) unsupported: UnsupportedFields,
    /// A feature that only endpoints of this dialect have, such as `tools[0].type`.
    pub(crate) native_feature: Option<String>,
    /// Whether the answer has signatures of reasoning without its text.
    pub(crate) omits_thinking: bool,
    /// Texts that end the answer, a JSON array as the client wrote it; may be empty.
    pub(crate) stop_sequences: Bytes,
    /// Whether answers in its history have texts that say nothing, which the original API does not take back.
    pub(crate) has_blank_answers: bool,
    /// The first sampling parameter.
    pub(crate) sampling: Option<&'static str>,
}

impl InboundMessages<'_> {
    /// Checks the request against the client's `anthropic-version`, as the original does.
    ///
    /// # Errors
    /// The 400 for a sampling parameter in a version that has none.
    pub(crate) fn check_version(&self, version: Option<&str>) -> Result<(), Invalid> {
        // Versions are dates.
        match self.sampling.filter(|_| version.is_some_and(|version| version >= WITHOUT_SAMPLING)) {
            Some(name) => Err(refused(name, format!("{name}: Extra inputs are not permitted"))),
            None => Ok(()),
        }
    }
}

/// What a body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be answered.
    Answer,
    /// To count the tokens of its prompt.
    Count,
}

/// What a body that was read before asks for.
pub(crate) fn conversation_of<'a>(body: &'a [u8], purpose: Purpose, state_key: &StateKey) -> Option<Conversation<'a>> {
    read(body, purpose, state_key, MAX_DEPTH).ok().map(|read| read.chat.conversation)
}

/// Reads a body, which may be nested at most `max_depth` deep. `state_key` opens reasoning of other providers that the client got
/// sealed.
///
/// # Errors
/// The 400 for a body that is no JSON object, else for its first offending field.
pub(crate) fn read<'a>(
    body: &'a [u8],
    purpose: Purpose,
    state_key: &StateKey,
    max_depth: usize,
) -> Result<InboundMessages<'a>, Invalid> {
    let mut members = body_members(body, max_depth)?;
    let mut reader = ChatReader::new(state_key);
    reader.read(&mut members, purpose)?;
    let ChatReader { conversation, service, has_odd_base64, unsupported, native_feature, .. } = reader;
    let sampling = ["temperature", "top_p", "top_k"].into_iter().find(|name| conversation.parameter(name).is_some());
    Ok(InboundMessages {
        chat: ClientChat { conversation, members, service, has_odd_base64, has_parameters: false },
        unsupported,
        native_feature,
        omits_thinking: reader.omits_thinking,
        stop_sequences: reader.stop_sequences,
        has_blank_answers: reader.has_blank_answers,
        sampling,
    })
}

/// Reads a request.
struct ChatReader<'a> {
    conversation: Conversation<'a>,
    service: RequestedService,
    stop_sequences: Bytes,
    has_odd_base64: bool,
    unsupported: UnsupportedFields,
    native_feature: Option<String>,
    omits_thinking: bool,
    has_blank_answers: bool,
    /// Tools are declared that only endpoints of this dialect have.
    has_server_tools: bool,
    state_key: StateKey,
}

impl<'a> ChatReader<'a> {
    fn new(state_key: &StateKey) -> ChatReader<'a> {
        ChatReader {
            conversation: Conversation::default(),
            service: RequestedService::default(),
            stop_sequences: Bytes::new(),
            has_odd_base64: false,
            unsupported: UnsupportedFields::default(),
            native_feature: None,
            omits_thinking: false,
            has_blank_answers: false,
            has_server_tools: false,
            state_key: state_key.clone(),
        }
    }

    /// Reads the members of a body. Those that the API does not have stay, and `model` and `metadata`.
    fn read(&mut self, members: &mut Vec<(Raw<'a>, Raw<'a>)>, purpose: Purpose) -> Result<(), Invalid> {
        if taken(members, "thread").is_some() {
            let message = "thread: this gateway keeps no conversations; send all messages without 'thread'";
            return Err(Invalid::field(InvalidReason::ThreadUnsupported, "thread", message));
        }
        let model = given(members, "model").ok_or_else(|| required("model"))?;
        check_type(model.filled_string().is_some(), "model", "a non-empty string")?;
        let messages = taken(members, "messages").ok_or_else(|| required("messages"))?;
        let max_tokens = taken(members, "max_tokens");
        if purpose == Purpose::Answer {
            self.max_tokens(max_tokens.ok_or_else(|| required("max_tokens"))?)?;
        }
        self.messages(taken(members, "system"), messages)?;
        if let Some(tools) = taken(members, "tools") {
            self.tools(tools)?;
        }
        if let Some(choice) = taken(members, "tool_choice") {
            self.tool_choice(choice)?;
        }
        self.reasoning(taken(members, "thinking"), taken(members, "output_config"))?;
        if let Some(stop) = taken(members, "stop_sequences") {
            self.stop(stop)?;
        }
        if let Some(metadata) = given(members, "metadata") {
            self.metadata(metadata)?;
        }
        let (tier, speed) = (taken(members, "service_tier"), taken(members, "speed"));
        let geography = taken(members, "inference_geo");
        self.service = RequestedService::of(|name| match name {
            "service_tier" => tier?.text(),
            "speed" => speed?.text(),
            _ => geography?.text(),
        });
        self.tier(tier, speed)?;
        if geography.is_some() {
            self.needs_native("inference_geo");
        }
        for (key, value) in std::mem::take(members) {
            match &*key.name() {
                b"stream" => match value.bytes() {
                    flag @ (b"true" | b"false") => self.conversation.stream = flag == b"true",
                    _ => return Err(mistyped("stream", "a boolean")),
                },
                b"temperature" => {
                    check_temperature(value)?;
                    self.parameter("temperature", value);
                }
                b"top_p" => self.parameter("top_p", value),
                b"top_k" => self.parameter("top_k", value),
                b"cache_control" => self.parameter("cache_control", value),
                name @ (b"container" | b"mcp_servers") => self.needs_native(String::from_utf8_lossy(name)),
                _ => members.push((key, value)),
            }
        }
        Ok(())
    }

    fn parameter(&mut self, name: &'static str, value: Raw<'a>) {
        self.conversation.parameters.push(Parameter::new(name.into(), value));
    }

    /// A limit of 0 only fills the cache, which other dialects cannot do.
    fn max_tokens(&mut self, max_tokens: Raw<'_>) -> Result<(), Invalid> {
        let limit = max_tokens.count();
        let limit = limit.ok_or_else(|| refused("max_tokens", "'max_tokens' must be an integer of at least 0."))?;
        if limit == 0 {
            self.needs_native("max_tokens");
        }
        self.conversation.max_tokens = Some(limit.max(1));
        Ok(())
    }

    /// How much the model thinks, and the format of the answer.
    fn reasoning(&mut self, thinking: Option<Raw<'a>>, config: Option<Raw<'a>>) -> Result<(), Invalid> {
        check_type(config.is_none_or(Raw::is_object), "output_config", "an object")?;
        let effort = config.and_then(|config| config.member(b"effort")).filter(|effort| !effort.is_null());
        let reasoning = &mut self.conversation.reasoning;
        if let Some(effort) = effort {
            let known = effort.text().filter(|effort| EFFORTS.contains(&&**effort));
            let known = known.ok_or_else(|| none_of("output_config.effort", Some(effort), &EFFORTS))?;
            reasoning.effort = Effort::from_name(&known);
        }
        if let Some(thinking) = thinking {
            let kind = thinking.kind();
            match kind.as_deref() {
                Some("enabled") => {
                    let budget = thinking.member(b"budget_tokens").and_then(Raw::count);
                    let budget = budget.ok_or_else(|| required("thinking.budget_tokens"))?;
                    reasoning.max_tokens = effort.is_none().then_some(budget);
                }
                Some("adaptive" | "between_tools") => reasoning.enabled = Some(true),
                Some("disabled") => {
                    reasoning.effort = None;
                    reasoning.enabled = Some(false);
                }
                _ => {
                    let allowed = ["enabled", "adaptive", "between_tools", "disabled"];
                    return Err(none_of("thinking.type", thinking.member(b"type"), &allowed));
                }
            }
            // The reasoning is wanted all the same: what continues it stands in the signatures.
            self.omits_thinking = thinking.member(b"display").and_then(Raw::text).as_deref() == Some("omitted");
        }
        for (key, _) in config.into_iter().flat_map(Raw::members).filter(|(_, value)| !value.is_null()) {
            if !matches!(&*key.name(), b"effort" | b"format") {
                self.unsupported.drop(&format!("output_config.{}", String::from_utf8_lossy(&key.name())));
            }
        }
        let format = config.and_then(|config| config.member(b"format")).filter(|format| !format.is_null());
        format.map_or(Ok(()), |format| self.format(format))
    }

    fn format(&mut self, format: Raw<'a>) -> Result<(), Invalid> {
        let kind = format.kind();
        let schema = format.member(b"schema").filter(|schema| schema.is_object());
        let (Some("json_schema"), Some(schema)) = (kind.as_deref(), schema) else {
            let message = "'output_config.format' must have the type json_schema and an object as schema.";
            return Err(refused("output_config.format", message));
        };
        self.conversation.format =
            AnswerFormat::Schema { name: EscapedText::plain("output"), description: None, schema, strict: Some(true) };
        Ok(())
    }

    fn stop(&mut self, stop: Raw<'a>) -> Result<(), Invalid> {
        check_type(stop.is_array() && stop.elements().all(Raw::is_string), "stop_sequences", "an array of strings")?;
        self.stop_sequences = Bytes::copy_from_slice(stop.bytes());
        let texts = stop.elements().filter_map(EscapedText::read);
        self.conversation.stop = texts.filter(|text| !text.is_empty()).collect();
        Ok(())
    }

    /// `user_id` becomes `user`, or its hash where providers would refuse it, such as the JSON of Claude Code. The other members of
    /// `metadata` are the gateway's tags and routing parameters.
    fn metadata(&mut self, metadata: Raw<'a>) -> Result<(), Invalid> {
        check_type(metadata.is_object(), "metadata", "an object")?;
        let Some(written) = optional_member(metadata, "metadata", "user_id", MemberType::String)? else {
            return Ok(());
        };
        let user = written.text().unwrap_or_default();
        let user = if user.len() <= MAX_USER_CHARS && user.bytes().all(is_of_user) {
            user.into_owned()
        } else {
            self.unsupported.emulate("metadata.user_id");
            hex::encode(Sha256::digest(user.as_bytes()).get(..USER_HASH_BYTES).unwrap_or_default())
        };
        self.conversation.parameters.push(Parameter::made("user", format!("\"{user}\"")));
        Ok(())
    }

    /// A word that is not known is dropped: endpoints of this dialect may know it.
    fn tier(&mut self, tier: Option<Raw<'_>>, speed: Option<Raw<'_>>) -> Result<(), Invalid> {
        for (value, name) in [(tier, "service_tier"), (speed, "speed")] {
            check_type(value.is_none_or(Raw::is_string), name, "a string")?;
        }
        let (tier, speed) = (tier.and_then(Raw::text), speed.and_then(Raw::text));
        if speed.as_deref().is_some_and(|speed| !matches!(speed, "fast" | "standard")) {
            self.unsupported.drop("speed");
        }
        let word = match tier.as_deref() {
            _ if speed.as_deref() == Some("fast") => "\"fast\"",
            Some("standard_only") => "\"default\"",
            Some("auto") => "\"auto\"",
            Some(_) => {
                self.unsupported.drop("service_tier");
                return Ok(());
            }
            None => return Ok(()),
        };
        self.parameter("service_tier", Raw::own(word));
        Ok(())
    }

    /// Notes a feature that only endpoints of this dialect have; the first one is named.
    fn needs_native(&mut self, path: impl Display) {
        self.native_feature.get_or_insert_with(|| path.to_string());
    }
}

/// Whether popular providers take the byte in a `user`.
fn is_of_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'@')
}

fn check_temperature(value: Raw<'_>) -> Result<(), Invalid> {
    let number = std::str::from_utf8(value.bytes()).ok().and_then(|text| text.parse::<f64>().ok());
    match number {
        None => Err(mistyped("temperature", "a number")),
        Some(number) if (0.0..=1.0).contains(&number) => Ok(()),
        Some(_) => Err(refused("temperature", "'temperature' must be between 0 and 1.")),
    }
}

fn required(param: impl Display) -> Invalid {
    Invalid::field(InvalidReason::MissingField, param.to_string(), format!("{param}: Field required"))
}

#[cfg(test)]
mod tests;
