//! Requests in the Anthropic dialect: `POST /v1/messages` and its `count_tokens`, checked and read as the chat that means the
//! same: its messages, and a chat body with everything else.
//!
//! Mistakes name the field in the client's own dialect. The chat is what the gateway routes by and what endpoints of
//! other dialects get; an endpoint of this dialect gets the client's bytes.

mod content;
mod field_names;
mod media;
mod tools;

use std::fmt::Display;

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::{Invalid, InvalidReason, RequestedService};
use sha2::{Digest as _, Sha256};

pub(crate) use self::field_names::{field_name, given_fields};
use crate::{
    json::{MAX_DEPTH, Raw, push_member, push_string},
    neutral::{
        MemberType, Prompt, StateKey, UnsupportedFields, body_members, none_of, optional_member, with_lone_references,
    },
    openai::request::gateway_members::is_for_gateway,
};

/// Most messages of the original API.
const MAX_MESSAGES: usize = 100_000;
/// Most texts that may end an answer of chat.
const MAX_STOPS: usize = 16;
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
pub struct InboundMessages<'a> {
    /// The chat body that means the same, without its messages and tools.
    pub chat: Bytes,
    pub(crate) prompt: Prompt<'a>,
    /// Whether data of a medium are not in base64 as providers want it.
    pub(crate) has_odd_base64: bool,
    /// What has no equivalent in chat, by the client's names, or an equivalent of another kind.
    pub unsupported: UnsupportedFields,
    /// A feature that only endpoints of this dialect have, such as `tools[0].type`.
    pub native_feature: Option<String>,
    /// Whether the answer has signatures of thoughts without their text.
    pub omits_thinking: bool,
    /// Texts that end the answer, a JSON array as the client wrote it; may be empty.
    pub stop_sequences: Bytes,
    /// Whether answers in its history have texts that say nothing, which the original API does not take back.
    pub has_blank_answers: bool,
    /// The first sampling parameter.
    pub sampling: Option<&'static str>,
    /// What it asks for in the fields that change its price.
    pub service: RequestedService,
}

impl InboundMessages<'_> {
    /// Checks the request against the client's `anthropic-version`, as the original does.
    ///
    /// # Errors
    /// The 400 for a sampling parameter in a version that has none.
    pub fn check_version(&self, version: Option<&str>) -> Result<(), Invalid> {
        // Versions are dates.
        match self.sampling.filter(|_| version.is_some_and(|version| version >= WITHOUT_SAMPLING)) {
            Some(name) => Err(refused(name, format!("{name}: Extra inputs are not permitted"))),
            None => Ok(()),
        }
    }
}

/// Reads a body of `POST /v1/messages`. `state_key` opens reasoning of other providers that the client got sealed.
///
/// # Errors
/// The 400 for a body that is no JSON object, else for its first offending field.
pub fn read_messages<'a>(body: &'a [u8], state_key: &StateKey) -> Result<InboundMessages<'a>, Invalid> {
    read(body, Purpose::Answer, state_key, MAX_DEPTH)
}

/// Reads a body of `POST /v1/messages/count_tokens`: the same, and it needs no limit on the output.
///
/// # Errors
/// Fails as [`read_messages`] does.
pub fn read_count_tokens<'a>(body: &'a [u8], state_key: &StateKey) -> Result<InboundMessages<'a>, Invalid> {
    read(body, Purpose::Count, state_key, MAX_DEPTH)
}

/// The answer of `count_tokens`.
pub fn count_tokens_body(input_tokens: u64) -> Bytes {
    Bytes::from(format!("{{\"input_tokens\":{input_tokens}}}"))
}

/// What a body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be answered.
    Answer,
    /// To count the tokens of its prompt.
    Count,
}

/// The messages and tools of a body that was read before.
pub(crate) fn prompt_of<'a>(body: &'a [u8], state_key: &StateKey) -> Option<Prompt<'a>> {
    let members = Members::read(body, MAX_DEPTH).ok()?;
    let mut reader = ChatReader::new(0, state_key);
    reader.messages(members.system, members.messages?).ok()?;
    members.tools.map_or(Ok(()), |tools| reader.tools(tools)).ok()?;
    Some(reader.prompt)
}

/// Reads a body, which may be nested at most `max_depth` deep.
///
/// # Errors
/// Fails as [`read_messages`] does.
pub(crate) fn read<'a>(
    body: &'a [u8],
    purpose: Purpose,
    state_key: &StateKey,
    max_depth: usize,
) -> Result<InboundMessages<'a>, Invalid> {
    let members = Members::read(body, max_depth)?;
    let mut reader = ChatReader::new(1_024, state_key);
    reader.read(&members, purpose)?;
    let sampling = ["temperature", "top_p", "top_k"].into_iter().find(|name| members.has(name));
    let ChatReader {
        out, prompt, has_odd_base64, unsupported, native_feature, omits_thinking, has_blank_answers, ..
    } = reader;
    let stop_sequences = members.stop_sequences.map_or(Bytes::new(), |list| Bytes::copy_from_slice(list.bytes()));
    let service = RequestedService::of(|name| {
        let value = match name {
            "service_tier" => members.service_tier,
            "speed" => members.speed,
            _ => members.inference_geo,
        };
        value?.text()
    });
    let chat = out.freeze();
    Ok(InboundMessages {
        chat,
        prompt,
        has_odd_base64,
        unsupported,
        native_feature,
        omits_thinking,
        stop_sequences,
        has_blank_answers,
        sampling,
        service,
    })
}

/// The members of the body.
#[derive(Default)]
struct Members<'a> {
    model: Option<Raw<'a>>,
    messages: Option<Raw<'a>>,
    max_tokens: Option<Raw<'a>>,
    system: Option<Raw<'a>>,
    tools: Option<Raw<'a>>,
    tool_choice: Option<Raw<'a>>,
    thinking: Option<Raw<'a>>,
    output_config: Option<Raw<'a>>,
    stop_sequences: Option<Raw<'a>>,
    metadata: Option<Raw<'a>>,
    service_tier: Option<Raw<'a>>,
    speed: Option<Raw<'a>>,
    inference_geo: Option<Raw<'a>>,
    /// Members with the same name and meaning in chat: sampling, `stream`, `cache_control` and those of the gateway.
    same: Vec<(Raw<'a>, Raw<'a>)>,
    /// All other members.
    others: Vec<Raw<'a>>,
}

impl<'a> Members<'a> {
    fn read(body: &'a [u8], max_depth: usize) -> Result<Members<'a>, Invalid> {
        let mut members = Members::default();
        for (key, value) in body_members(body, max_depth)? {
            let name = key.name();
            let slot = match &*name {
                b"model" => &mut members.model,
                b"messages" => &mut members.messages,
                b"max_tokens" => &mut members.max_tokens,
                b"system" => &mut members.system,
                b"tools" => &mut members.tools,
                b"tool_choice" => &mut members.tool_choice,
                b"thinking" => &mut members.thinking,
                b"output_config" => &mut members.output_config,
                b"stop_sequences" => &mut members.stop_sequences,
                b"metadata" => &mut members.metadata,
                b"service_tier" => &mut members.service_tier,
                b"speed" => &mut members.speed,
                b"inference_geo" => &mut members.inference_geo,
                b"temperature" | b"top_p" | b"top_k" | b"stream" | b"cache_control" => {
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

impl Members<'_> {
    /// Whether there is such a member among those that chat has too.
    fn has(&self, name: &str) -> bool {
        self.same.iter().any(|(key, _)| *key.name() == *name.as_bytes())
    }
}

/// Reads a request, and writes the chat body.
struct ChatReader<'a> {
    out: BytesMut,
    prompt: Prompt<'a>,
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
    fn new(capacity: usize, state_key: &StateKey) -> ChatReader<'a> {
        ChatReader {
            out: BytesMut::with_capacity(capacity),
            prompt: Prompt::default(),
            has_odd_base64: false,
            unsupported: UnsupportedFields::default(),
            native_feature: None,
            omits_thinking: false,
            has_blank_answers: false,
            has_server_tools: false,
            state_key: state_key.clone(),
        }
    }

    fn read(&mut self, members: &Members<'a>, purpose: Purpose) -> Result<(), Invalid> {
        let model = members.model.ok_or_else(|| required("model"))?;
        if model.filled_string().is_none() {
            return Err(mistyped("model", "a non-empty string"));
        }
        let messages = members.messages.ok_or_else(|| required("messages"))?;
        self.out.put_slice(b"{\"model\":");
        self.out.put_slice(model.bytes());
        if purpose == Purpose::Answer {
            self.max_tokens(members.max_tokens.ok_or_else(|| required("max_tokens"))?)?;
        }
        push_member(&mut self.out, b"messages", b"[]");
        self.messages(members.system, messages)?;
        if let Some(tools) = members.tools {
            self.tools(tools)?;
        }
        if let Some(choice) = members.tool_choice {
            self.tool_choice(choice)?;
        }
        self.reasoning(members.thinking, members.output_config)?;
        if let Some(stop) = members.stop_sequences {
            self.stop(stop)?;
        }
        if let Some(metadata) = members.metadata {
            self.metadata(metadata)?;
        }
        self.tier(members.service_tier, members.speed)?;
        if members.inference_geo.is_some() {
            self.needs_native("inference_geo");
        }
        for (key, value) in &members.same {
            if *key.name() == *b"temperature" {
                check_temperature(*value)?;
            }
            push_member(&mut self.out, key.inner(), value.bytes());
        }
        for key in &members.others {
            let name = String::from_utf8_lossy(&key.name()).into_owned();
            if name == "thread" {
                let message = "thread: this gateway keeps no conversations; send all messages without 'thread'";
                return Err(Invalid::field(InvalidReason::ThreadUnsupported, "thread", message));
            }
            if matches!(&*name, "container" | "mcp_servers") {
                self.native_feature.get_or_insert(name);
            } else {
                self.unsupported.drop(&name);
            }
        }
        self.out.put_u8(b'}');
        Ok(())
    }

    /// A limit of 0 only fills the cache, which other dialects cannot do.
    fn max_tokens(&mut self, max_tokens: Raw<'_>) -> Result<(), Invalid> {
        match max_tokens.count() {
            None => Err(refused("max_tokens", "'max_tokens' must be an integer of at least 0.")),
            Some(0) => {
                self.needs_native("max_tokens");
                push_member(&mut self.out, b"max_tokens", b"1");
                Ok(())
            }
            Some(_) => {
                push_member(&mut self.out, b"max_tokens", max_tokens.bytes());
                Ok(())
            }
        }
    }

    /// Appends `reasoning`, and the format of the answer.
    fn reasoning(&mut self, thinking: Option<Raw<'_>>, config: Option<Raw<'_>>) -> Result<(), Invalid> {
        if config.is_some_and(|config| !config.is_object()) {
            return Err(mistyped("output_config", "an object"));
        }
        let effort = config.and_then(|config| config.member(b"effort")).filter(|effort| !effort.is_null());
        if let Some(effort) = effort
            && !effort.text().is_some_and(|effort| EFFORTS.contains(&&*effort))
        {
            return Err(none_of("output_config.effort", Some(effort), &EFFORTS));
        }
        let mut members: Vec<(&str, String)> = Vec::new();
        if let Some(effort) = effort {
            members.push(("effort", String::from_utf8_lossy(effort.bytes()).into_owned()));
        }
        if let Some(thinking) = thinking {
            let kind = thinking.member(b"type").and_then(Raw::text);
            match kind.as_deref() {
                Some("enabled") => {
                    let budget = thinking.member(b"budget_tokens").and_then(Raw::count);
                    let budget = budget.ok_or_else(|| required("thinking.budget_tokens"))?;
                    if effort.is_none() {
                        members.push(("max_tokens", budget.to_string()));
                    }
                }
                Some("adaptive" | "between_tools") => members.push(("enabled", "true".into())),
                Some("disabled") => {
                    members.retain(|(name, _)| *name != "effort");
                    members.push(("enabled", "false".into()));
                }
                _ => {
                    let allowed = ["enabled", "adaptive", "between_tools", "disabled"];
                    return Err(none_of("thinking.type", thinking.member(b"type"), &allowed));
                }
            }
            // The reasoning is wanted all the same: what continues it stands in the signatures.
            self.omits_thinking = thinking.member(b"display").and_then(Raw::text).as_deref() == Some("omitted");
        }
        for (index, (name, value)) in members.iter().enumerate() {
            self.out.put_slice(if index == 0 { b",\"reasoning\":{\"" } else { b",\"" });
            self.out.put_slice(name.as_bytes());
            self.out.put_slice(b"\":");
            self.out.put_slice(value.as_bytes());
        }
        if !members.is_empty() {
            self.out.put_u8(b'}');
        }
        for (key, _) in config.into_iter().flat_map(Raw::members).filter(|(_, value)| !value.is_null()) {
            if !matches!(&*key.name(), b"effort" | b"format") {
                self.unsupported.drop(&format!("output_config.{}", String::from_utf8_lossy(&key.name())));
            }
        }
        let format = config.and_then(|config| config.member(b"format")).filter(|format| !format.is_null());
        format.map_or(Ok(()), |format| self.format(format))
    }

    fn format(&mut self, format: Raw<'_>) -> Result<(), Invalid> {
        let kind = format.member(b"type").and_then(Raw::text);
        let schema = format.member(b"schema").filter(|schema| schema.is_object());
        let (Some("json_schema"), Some(schema)) = (kind.as_deref(), schema) else {
            let message = "'output_config.format' must have the type json_schema and an object as schema.";
            return Err(refused("output_config.format", message));
        };
        let head = b",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"output\",\"strict\":true,\"schema\":";
        self.out.put_slice(head);
        // The schema is strict, and OpenAI's strict schemas have nothing beside a reference.
        self.out.put_slice(&with_lone_references(schema, "output_config.format.schema", &mut self.unsupported));
        self.out.put_slice(b"}}");
        Ok(())
    }

    fn stop(&mut self, stop: Raw<'_>) -> Result<(), Invalid> {
        if !stop.is_array() || !stop.elements().all(Raw::is_string) {
            return Err(mistyped("stop_sequences", "an array of strings"));
        }
        let mut filled: Vec<Raw<'_>> = stop.elements().filter(|text| text.is_filled()).collect();
        if filled.len() > MAX_STOPS {
            filled.truncate(MAX_STOPS);
            self.unsupported.drop("stop_sequences[]");
        }
        if let Some((first, others)) = filled.split_first() {
            push_member(&mut self.out, b"stop", b"[");
            self.out.put_slice(first.bytes());
            for text in others {
                self.out.put_u8(b',');
                self.out.put_slice(text.bytes());
            }
            self.out.put_u8(b']');
        }
        Ok(())
    }

    /// `user_id` becomes `user`, or its hash where providers would refuse it, such as the JSON of Claude Code; the other members are the gateway's tags and routing parameters.
    fn metadata(&mut self, metadata: Raw<'_>) -> Result<(), Invalid> {
        if !metadata.is_object() {
            return Err(mistyped("metadata", "an object"));
        }
        if let Some(user) = optional_member(metadata, "metadata", "user_id", MemberType::String)?.and_then(Raw::text) {
            push_member(&mut self.out, b"user", b"");
            if user.len() <= MAX_USER_CHARS && user.bytes().all(is_of_user) {
                push_string(&mut self.out, &user);
            } else {
                let digest = Sha256::digest(user.as_bytes());
                push_string(&mut self.out, &hex::encode(digest.get(..USER_HASH_BYTES).unwrap_or_default()));
                self.unsupported.emulate("metadata.user_id");
            }
        }
        let mut first = true;
        for (key, value) in metadata.members().filter(|(key, _)| *key.name() != *b"user_id") {
            if std::mem::replace(&mut first, false) {
                self.out.put_slice(b",\"metadata\":{\"");
                self.out.put_slice(key.inner());
                self.out.put_slice(b"\":");
                self.out.put_slice(value.bytes());
            } else {
                push_member(&mut self.out, key.inner(), value.bytes());
            }
        }
        if !first {
            self.out.put_u8(b'}');
        }
        Ok(())
    }

    /// A word that is not known is dropped: endpoints of this dialect may know it.
    fn tier(&mut self, tier: Option<Raw<'_>>, speed: Option<Raw<'_>>) -> Result<(), Invalid> {
        for (value, name) in [(tier, "service_tier"), (speed, "speed")] {
            if value.is_some_and(|value| !value.is_string()) {
                return Err(mistyped(name, "a string"));
            }
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
        push_member(&mut self.out, b"service_tier", word.as_bytes());
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

fn mistyped(param: impl Display, expected: &str) -> Invalid {
    Invalid::field(InvalidReason::InvalidType, param.to_string(), format!("'{param}' must be {expected}."))
}

fn refused(param: impl Display, message: impl Into<String>) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, param.to_string(), message)
}

#[cfg(test)]
mod tests;
