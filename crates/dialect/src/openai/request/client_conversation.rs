//! Requests of other APIs than chat: judged and measured as a chat body is, with the client's names of fields.

use std::{borrow::Cow, collections::BTreeSet};

use bytes::Bytes;
use pointsman_domain::{Invalid, ReasoningFormat};

use super::{
    ChatParts, ChatPurpose, ChatRequest, RequestLimits,
    byte_span::BodyText,
    conversation_opening::OpeningHasher,
    conversation_summary::ConversationSummary,
    fault,
    field_location::FieldLocation,
    fields::{Field, Forwarding},
    json::Object,
    messages::NO_MESSAGES,
    open_turn::TurnReasoning,
    parsed_body::ParsedBody,
    parsed_fields::{OutputFormat, ParsedFields, StrictSchema},
    parts::note_medium,
    request_kind::RequestKind,
    suggestions::{field_meant_at_top_level, parameter_meant},
    tools::{self, DeclaredTools},
};
use crate::{
    gateway_fields::GatewayField,
    json::Raw,
    neutral::{AnswerFormat, ClientChat, Content, Effort, Path, Role, Turn, UnsupportedFields, given},
};

/// The client's name for a field of chat.
pub(crate) type FieldNames = for<'n> fn(&'n str) -> Cow<'n, str>;

impl ChatRequest {
    /// The chat of a client of another API, whose body is `body`. Members that nobody knows are named in `unsupported`.
    ///
    /// # Errors
    /// The 400 for what chat takes nowhere.
    pub(crate) fn of_client(
        chat: &ClientChat<'_>,
        body: Bytes,
        purpose: ChatPurpose,
        limits: &RequestLimits,
        names: FieldNames,
        unsupported: &mut UnsupportedFields,
    ) -> Result<Box<ChatRequest>, Invalid> {
        let conversation = &chat.conversation;
        let reasoning = &conversation.reasoning;
        let mut found = ParsedFields {
            stream: conversation.stream,
            max_tokens: conversation.max_tokens.and_then(|limit| i64::try_from(limit).ok()),
            effort: reasoning.effort.map(|effort| Cow::Borrowed(Effort::as_str(effort))),
            reasoning_enabled: reasoning.enabled.or(reasoning.max_tokens.map(|_| true)),
            ..ParsedFields::default()
        };
        match &conversation.format {
            AnswerFormat::Text => {}
            AnswerFormat::JsonObject => found.format = OutputFormat::JsonObject,
            AnswerFormat::Schema { name, schema, strict, .. } => {
                found.format = OutputFormat::JsonSchema;
                let is_strict = *strict == Some(true);
                found.strict_schema = is_strict.then(|| StrictSchema { name: name.unescaped(), schema: *schema });
            }
        }
        gateway_members(chat, &mut found, limits.max_n, unsupported)?;
        for parameter in &conversation.parameters {
            let (field, name) = (Field::named(RequestKind::Chat, &parameter.name), names(&parameter.name));
            found.read(field, parameter.value(), &Path::Field(&name), FieldLocation::TopLevel, limits.max_n)?;
        }
        if purpose == ChatPurpose::Chat && found.model.is_none() && found.models.is_empty() {
            return Err(fault::required(&Path::Field("model")));
        }
        found.tools = DeclaredTools::from_tools(&conversation.tools, limits.max_tools)?;
        let choice = tools::choice_among(&conversation.tool_choice, &names("tool_choice"), &found.tools)?;
        let mut summary = ConversationSummary::new(BodyText(""), limits.max_messages);
        measure(&conversation.turns, &mut summary, &Path::Field(&names("messages")))?;
        let parts = ChatParts {
            found,
            conversation: summary,
            tools: &conversation.tools,
            choice,
            is_single: conversation.parallel_tool_calls == Some(false),
            service: chat.service,
            envelope: ParsedBody::without_members(body),
        };
        parts.assemble(purpose, limits)
    }
}

/// Reads the members for the gateway, and those in `extra_body`.
fn gateway_members<'a>(
    ClientChat { members, has_parameters, .. }: &ClientChat<'a>,
    found: &mut ParsedFields<'a>,
    max_n: u32,
    unsupported: &mut UnsupportedFields,
) -> Result<(), Invalid> {
    let extra_body = given(members, "extra_body");
    let names: BTreeSet<_> = extra_body.iter().flat_map(|_| members.iter().map(|(key, _)| key.name())).collect();
    let is_given = |name: &str| names.contains(name.as_bytes());
    let mut read = |name: &str, value: Raw<'a>, place: FieldLocation| {
        let (field, path) = (Field::named(RequestKind::Chat, name), place.path(name));
        let is_extra = place == FieldLocation::ExtraBody;
        let is_for_gateway = field == Field::Model || field.forwarding() == Forwarding::Consumed;
        match field {
            Field::Gateway(GatewayField::ExtraBody) => Ok(()),
            Field::Model | Field::Messages | Field::Stream if is_extra => Ok(()),
            _ if is_extra && is_given(name) && !matches!(field, Field::Routing(_)) => Ok(()),
            _ if is_for_gateway || *has_parameters && field != Field::Unknown => {
                found.read(field, value, &path, place, max_n)
            }
            _ => {
                let is_suspect = field == Field::Unknown && (is_extra || *has_parameters);
                if is_suspect && field_meant_at_top_level(name).or_else(|| parameter_meant(name)).is_some() {
                    found.routing.note_suspected_field(&path);
                }
                if !has_parameters {
                    unsupported.drop(&path.to_string());
                }
                Ok(())
            }
        }
    };
    for (key, value) in members {
        read(&key.text().unwrap_or_default(), *value, FieldLocation::TopLevel)?;
    }
    if let Some(extra_body) = extra_body {
        for member in Object::read(extra_body, &FieldLocation::EXTRA_BODY)?.iter().filter(|it| !it.value.is_null()) {
            read(&member.name, member.value, FieldLocation::ExtraBody)?;
        }
    }
    Ok(())
}

/// Measures the messages.
///
/// # Errors
/// The 400 for too many of them, or none.
fn measure<'a>(
    turns: &'a [Turn<'a>],
    conversation: &mut ConversationSummary<'a>,
    path: &Path<'_>,
) -> Result<(), Invalid> {
    let most = conversation.max_messages;
    if turns.is_empty() {
        return Err(fault::refused(path, NO_MESSAGES));
    }
    if turns.len() > most {
        return Err(fault::refused(path, format!("'{path}' may hold at most {most} elements.")));
    }
    conversation.opening = OpeningHasher::default();
    turns.iter().enumerate().for_each(|(place, turn)| message(turn, place, conversation));
    conversation.tally.messages = turns.len();
    Ok(())
}

fn message<'a>(turn: &'a Turn<'a>, place: usize, conversation: &mut ConversationSummary<'a>) {
    conversation.texts.clear();
    let (mut has_calls, mut format) = (false, ReasoningFormat::Unknown);
    let parts = match turn.parts.first().map(|part| &part.content) {
        Some(Content::ToolResult { parts, .. }) => parts,
        _ => &turn.parts,
    };
    for (position, part) in parts.iter().enumerate() {
        match &part.content {
            Content::Text(text) => {
                conversation.tally.bytes += text.text_bytes();
                conversation.opening.text(|| text.unescaped());
                conversation.texts.push(text.bytes());
            }
            Content::Refusal(text) => conversation.tally.bytes += text.text_bytes(),
            Content::ToolCall { name, arguments, .. } => {
                conversation.tally.bytes += name.text_bytes() + arguments.text_bytes();
                has_calls = true;
            }
            Content::Reasoning(state) if !format.is_bound() => format = state.format,
            medium => note_medium(conversation, medium, (place, position)),
        }
    }
    let ConversationSummary { open_turn, texts, last_user, opening, tally, .. } = &mut *conversation;
    match turn.role {
        Role::Assistant => open_turn.answer(has_calls, Some(TurnReasoning::Of(format))),
        Role::Tool => open_turn.result(),
        Role::User => {
            open_turn.user();
            std::mem::swap(texts, last_user);
        }
        Role::System | Role::Developer => {}
    }
    opening.message(matches!(turn.role, Role::System | Role::Developer), tally);
    conversation.ends_with_answer = turn.role == Role::Assistant && !has_calls;
    conversation.has_calls |= has_calls || turn.role == Role::Tool;
}
