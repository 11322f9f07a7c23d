//! Requests in the OpenAI dialect: parsed once, validated completely, forwarded with the fewest changes.
//!
//! [`ChatRequest::parse`] reads the body in one pass. It rejects mistakes with the path of the field, keeps the values
//! that the gateway uses, and stores positions instead of copies of everything else.
//! [`ChatRequest::upstream_body`] writes the body for one endpoint as slices of the original. Models are not looked up
//! here: their names stay text, and the server resolves them.
//!
//! In reading order: `neutral::syntax` (bytes), `parsed_body` (members and positions), `fields` (allowed values), `messages`,
//! `parts`, `tools`, `conversation_opening`, `routing` (contents), `requirements` (what a model must support),
//! `outgoing` (the upstream body), `client_conversation` (the same for requests of other APIs), `conversation` (the neutral form for an
//! endpoint of another dialect), `spelling` (the client's names of fields), `image` (the same for images).

mod byte_span;
mod client_conversation;
mod conversation;
mod conversation_opening;
mod conversation_summary;
mod embedding;
mod embedding_fields;
mod fault;
mod field_location;
mod fields;
mod image;
mod image_as_chat;
mod image_fields;
#[expect(clippy::disallowed_methods, reason = "reads the limit of a client")]
mod json;
mod json_type;
mod messages;
mod metadata;
mod open_turn;
mod outgoing;
mod parsed_body;
mod parsed_fields;
mod parts;
mod preview;
mod prompt_size;
mod provider_policy;
mod request_kind;
mod requirements;
mod restrictions;
mod routing;
mod routing_values;
mod spelling;
mod splice;
mod stopped;
mod suggestions;
mod task_features;
mod tool_calls;
mod tools;

use pointsman_domain::{
    Invalid, ReasoningFormat, RequestedService, RoutingParameters, SessionOpening, TaskFeatures, WhatIf,
};

pub(crate) use client_conversation::FieldNames;
pub(crate) use conversation_summary::ChatExtras;
pub(crate) use fields::MAX_STOPS;

pub use crate::neutral::path::shown;
pub use embedding::EmbeddingRequest;
pub use embedding_fields::VectorFormat;
pub use image::ImageRequest;
pub use image_fields::ImageFormat;
pub(crate) use outgoing::{default_parameters, takes_effort_only};
pub use provider_policy::PROVIDER_MEMBERS;
pub use restrictions::{Restriction, RestrictionKind};
pub use suggestions::{field_meant_at_top_level, field_meant_in_metadata, parameter_meant};

use std::sync::Arc;

use bytes::Bytes;

use self::{
    conversation_summary::ConversationSummary,
    field_location::FieldLocation,
    parsed_body::{BodyReader, ParsedBody},
    parsed_fields::{OutputFormat, ParsedFields},
    request_kind::RequestKind,
    requirements::{RequestedFeatures, SchemaLimits},
    task_features::RequestShape,
    tools::ToolChoice,
};
use crate::{
    client_request::{ClientRequest, MessageSource},
    gateway_fields::is_for_gateway,
    json::{Raw, object},
    neutral::{Tool, UnsupportedFields, base64::with_plain_base64, syntax, with_whole_characters},
};

/// Configurable bounds of a request. All other bounds are fixed by the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLimits {
    /// Most answers to one prompt (`n`).
    pub max_n: u32,
    /// Most functions that may be declared.
    pub max_tools: usize,
    /// Most messages in a conversation.
    pub max_messages: usize,
    /// Deepest nesting of the body.
    pub max_depth: usize,
    /// Estimated tokens of an image in the prompt.
    pub tokens_per_image: u32,
}

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits { max_n: 8, max_tools: 512, max_messages: 10_000, max_depth: 64, tokens_per_image: 1_000 }
    }
}

/// Purpose of a chat body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatPurpose {
    /// To be answered.
    Chat,
    /// To preview the routing: model and messages may be missing.
    Preview,
}

/// A chat request that passed all checks that need no catalog.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// The requested model or alias, as text.
    pub model: Option<String>,
    /// Further models to fall back to, as text, in order.
    pub models: Vec<String>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// `stream_options.include_usage`, if it was given and the request is a stream.
    pub include_usage: Option<bool>,
    /// `usage.include`.
    pub usage_include: bool,
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// Images in the prompt.
    pub images: u32,
    /// The limit on output tokens.
    pub max_tokens: Option<u32>,
    /// Number of requested answers.
    pub n: u32,
    /// What tells the class of the task.
    pub task_features: TaskFeatures,
    /// All routing parameters.
    pub routing: RoutingParameters,
    /// Paths of unknown members that have no effect, such as misspelt members of `provider`; only the first few.
    pub unknown_members: Vec<String>,
    /// The client's name for its own user.
    pub user: Option<String>,
    /// The session of the request. A header may name it too; the body has precedence.
    pub session_id: Option<String>,
    /// Hashes of the beginning of the conversation, if its prompt is long enough for prompt caches.
    pub opening: Option<SessionOpening>,
    /// Format of the reasoning before calls whose results the model has not answered yet; `Unknown` if there is none.
    pub open_state: ReasoningFormat,
    /// The client's own tags from `metadata`: strings as they read, anything else as compact JSON.
    pub tags: Vec<(String, String)>,
    /// `trace`, as JSON.
    pub trace: Option<String>,
    /// Whether reasoning is to be left out of the answer.
    pub exclude_reasoning: bool,
    /// Name for which a preview explains why it was not chosen; previews only.
    pub why_not: Option<String>,
    /// Hypothetical changes; previews only.
    pub what_if: Option<Box<WhatIf>>,
    /// The request of a client of another dialect, which this chat was made from.
    pub client: Option<Arc<ClientRequest>>,
    /// What it asks for in the fields that change its price.
    pub service: RequestedService,
    /// What was lost when the body was put in the form of chat, for a client of chat.
    pub unsupported: UnsupportedFields,
    /// Where its messages stand, if not in its body: in a request of another API, or in `input` of a client of chat.
    pub(crate) message_source: Option<MessageSource>,
    /// What stands in it that not every endpoint of chat takes.
    pub(crate) extras: ChatExtras,
    envelope: ParsedBody,
    demands: RequestedFeatures,
}

impl ChatRequest {
    /// Reads a body. Allocates a handful of small things and nothing per message; copies no prompt.
    ///
    /// # Errors
    /// The 400 for a body that is no JSON object, else for its first offending field; required fields and
    /// rules between fields come last.
    pub fn parse(mut body: Bytes, form: ChatPurpose, limits: &RequestLimits) -> Result<Box<ChatRequest>, Invalid> {
        let chat = with_whole_characters(&mut body, |body| ChatRequest::read(body, form, limits))?;
        if chat.extras.odd_base64
            && let Some(plain) = with_plain_base64(syntax::text(&body)?)
        {
            return ChatRequest::read(&plain, form, limits);
        }
        Ok(chat)
    }

    fn read(body: &Bytes, form: ChatPurpose, limits: &RequestLimits) -> Result<Box<ChatRequest>, Invalid> {
        let call = match form {
            ChatPurpose::Chat => RequestKind::Chat,
            ChatPurpose::Preview => RequestKind::Preview,
        };
        let text = syntax::text(body)?;
        let mut reader = BodyReader::new(text, call, limits);
        reader.read()?;
        if form == ChatPurpose::Chat {
            require(&reader.found)?;
        }
        let choice = check_between(&mut reader.found)?;
        let metadata = stored_metadata(&reader.found);
        let envelope = reader.envelope(body.clone(), metadata);
        let BodyReader { found, conversation, .. } = reader;
        let (service, is_single) = (envelope.service(), envelope.value("parallel_tool_calls") == Some(b"false"));
        ChatParts { found, conversation, tools: &[], choice, is_single, service, envelope }.assemble(form, limits)
    }

    /// The restrictions of the request with their paths. Parses the body again.
    pub fn restrictions(&self) -> Vec<Restriction> {
        restrictions::read(&self.envelope.body)
    }

    /// Names of the members at the top level of the client's body that are not for the gateway alone, sorted.
    pub fn given_names(&self) -> Vec<String> {
        match self.client.as_deref() {
            Some(client) => top_level_names(&client.body).into_iter().filter(|name| !is_for_gateway(name)).collect(),
            None => self.envelope.given_names(),
        }
    }

    /// The client's body.
    pub fn body(&self) -> &Bytes {
        &self.envelope.body
    }
}

/// What a chat request is made from.
struct ChatParts<'a> {
    found: ParsedFields<'a>,
    conversation: ConversationSummary<'a>,
    /// Tools that do not stand in the body of a chat.
    tools: &'a [Tool<'a>],
    choice: ToolChoice,
    /// Whether several calls in one turn are forbidden.
    is_single: bool,
    service: RequestedService,
    envelope: ParsedBody,
}

impl ChatParts<'_> {
    fn assemble(self, form: ChatPurpose, limits: &RequestLimits) -> Result<Box<ChatRequest>, Invalid> {
        let ChatParts { mut found, conversation, tools, choice, is_single, service, envelope } = self;
        let (why_not, what_if) = match form {
            ChatPurpose::Chat => (None, None),
            ChatPurpose::Preview => (why_not(&found)?, what_if(&found)?),
        };
        let mut tally = conversation.tally;
        tally.bytes += found.tools.bytes;
        let open_state = conversation.open_turn.state();
        let pieces = envelope.value("tools").into_iter().chain(tools.iter().flat_map(tools::pieces));
        let opening = conversation.opening.finish(pieces, found.tools.bytes, &tally);
        let not_understood = conversation.not_understood.or(found.tools.not_understood.take());
        let not_understood = not_understood.or(found.unknown_format.take());
        let demands = RequestedFeatures {
            reasoning: found.asks_reasoning(),
            prefill: conversation.ends_with_answer,
            inputs: conversation.inputs,
            output: found.output,
            tools: found.tools.count() > 0,
            functions: found.tools.has_functions,
            forced_tool: choice == ToolChoice::Forced,
            remote_media: conversation.has_remote_media,
            other_images: conversation.has_other_images,
            media: conversation.media,
            no_call_after_calls: choice == ToolChoice::Forbidden && conversation.has_calls,
            custom_tools: found.tools.has_custom,
            format: found.format,
            strict_schema: found.strict_schema.is_some(),
            single_calls: is_single,
            not_understood: not_understood.map(Box::new),
            schema_limits: found.strict_schema.as_ref().and_then(SchemaLimits::find),
        };
        let prompt_tokens = tally.tokens(limits.tokens_per_image);
        let shape = RequestShape {
            has_images: tally.images > 0,
            has_schema: found.format == OutputFormat::JsonSchema,
            has_tools: demands.tools,
            prompt_tokens,
        };
        Ok(Box::new(ChatRequest {
            model: found.model,
            models: found.models,
            stream: found.stream,
            include_usage: found.include_usage.filter(|_| found.stream),
            usage_include: found.usage_include,
            prompt_tokens,
            task_features: task_features::features(&shape, &conversation.last_user),
            images: u32::try_from(tally.images).unwrap_or(u32::MAX),
            max_tokens: found.max_completion_tokens.or(found.max_tokens).map(saturated),
            n: found.n.map_or(1, saturated),
            unknown_members: found.routing.take_unknown_members(),
            routing: found.routing.finish(),
            user: found.user,
            session_id: found.session_id,
            opening,
            open_state,
            tags: found.tags,
            trace: found.trace.map(|raw| raw.written().to_owned()),
            exclude_reasoning: found.exclude_reasoning,
            why_not,
            what_if,
            client: None,
            service,
            unsupported: UnsupportedFields::default(),
            message_source: None,
            extras: conversation.extras,
            envelope,
            demands,
        }))
    }
}

/// Names of the members of a JSON object, sorted; none if it is something else.
pub fn top_level_names(body: &[u8]) -> Vec<String> {
    let whole = str::from_utf8(body).ok().and_then(|text| object(text).ok());
    let members = whole.into_iter().flat_map(Raw::members).filter(|(_, value)| !value.is_null());
    let mut names: Vec<String> = members.map(|(key, _)| String::from_utf8_lossy(&key.name()).into_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn require(found: &ParsedFields<'_>) -> Result<(), Invalid> {
    if found.model.is_none() && found.models.is_empty() {
        return Err(fault::required(&FieldLocation::TopLevel.path("model")));
    }
    if found.has_messages { Ok(()) } else { Err(fault::required(&conversation_summary::MESSAGES)) }
}

/// Checks rules between fields, which may be in any order.
fn check_between(found: &mut ParsedFields<'_>) -> Result<ToolChoice, Invalid> {
    if let (Some(effort), Some((other, place))) = (&found.effort, &found.reasoning_effort)
        && effort != other
    {
        let path = place.path("reasoning_effort");
        return Err(fault::refused(&path, format!("'{path}' contradicts 'reasoning.effort'.")));
    }
    match found.tool_choice {
        Some((raw, place)) => tools::tool_choice(raw, &place.path("tool_choice"), &mut found.tools),
        None => Ok(ToolChoice::Free),
    }
}

fn why_not(found: &ParsedFields<'_>) -> Result<Option<String>, Invalid> {
    found.why_not.map(|(raw, place)| preview::why_not(raw, &place.path("why_not"))).transpose()
}

fn what_if(found: &ParsedFields<'_>) -> Result<Option<Box<WhatIf>>, Invalid> {
    found.what_if.map(|(raw, place)| preview::what_if(raw, &place.path("what_if")).map(Box::new)).transpose()
}

/// The tags that an upstream of this dialect stores with its answer, if storing was requested.
fn stored_metadata(found: &ParsedFields<'_>) -> Option<String> {
    found.metadata.filter(|_| found.store).and_then(metadata::stored)
}

fn saturated(integer: i64) -> u32 {
    u32::try_from(integer).unwrap_or(u32::MAX)
}
