//! Requests of other APIs than chat: judged and measured as a chat body is, with the client's names of fields.

use std::borrow::Cow;

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
    json::{self, Object},
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
    json::Raw,
    neutral::{AnswerFormat, ClientChat, Content, Effort, Path, Role, Turn, UnsupportedFields},
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
        let ClientChat { conversation, members, .. } = chat;
        let mut found = ParsedFields { has_messages: true, ..ParsedFields::default() };
        gateway_members(members, &mut found, limits.max_n, unsupported)?;
        for parameter in &conversation.parameters {
            let (field, name) = (Field::named(RequestKind::Chat, &parameter.name), names(&parameter.name));
            found.read(field, parameter.value(), &Path::Field(&name), FieldLocation::TopLevel, limits.max_n)?;
        }
        found.stream = conversation.stream;
        found.max_tokens = conversation.max_tokens.and_then(|limit| i64::try_from(limit).ok());
        let reasoning = &conversation.reasoning;
        found.effort = reasoning.effort.map(|effort| Cow::Borrowed(Effort::as_str(effort)));
        found.reasoning_enabled = reasoning.enabled.or(reasoning.max_tokens.map(|_| true));
        found.format = match &conversation.format {
            AnswerFormat::Text => OutputFormat::Text,
            AnswerFormat::JsonObject => OutputFormat::JsonObject,
            AnswerFormat::Schema { name, schema, strict, .. } => {
                found.strict_schema =
                    (*strict == Some(true)).then(|| StrictSchema { name: name.unescaped(), schema: *schema });
                OutputFormat::JsonSchema
            }
        };
        found.tools = DeclaredTools::of(&conversation.tools, limits.max_tools)?;
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
    members: &[(Raw<'a>, Raw<'a>)],
    found: &mut ParsedFields<'a>,
    max_n: u32,
    unsupported: &mut UnsupportedFields,
) -> Result<(), Invalid> {
    let mut extra_body = None;
    for (key, value) in members {
        let name = key.text().unwrap_or_default();
        match Field::named(RequestKind::Chat, &name) {
            Field::ExtraBody => extra_body = Some(*value),
            field if is_read(field) => {
                found.read(field, *value, &Path::Field(&name), FieldLocation::TopLevel, max_n)?
            }
            _ => unsupported.drop(&name),
        }
    }
    let Some(extra_body) = extra_body else { return Ok(()) };
    let is_given = |name: &str| members.iter().any(|(key, _)| key.text().is_some_and(|key| key == name));
    for member in Object::read(extra_body, &FieldLocation::EXTRA_BODY)?.iter() {
        let path = FieldLocation::ExtraBody.path(&member.name);
        let Some(value) = json::given(member.value) else { continue };
        match Field::named(RequestKind::Chat, &member.name) {
            Field::Model | Field::Messages | Field::Stream | Field::ExtraBody => {}
            field @ Field::Routing(_) => found.read(field, value, &path, FieldLocation::ExtraBody, max_n)?,
            field if is_read(field) && is_given(&member.name) => {}
            field if is_read(field) => found.read(field, value, &path, FieldLocation::ExtraBody, max_n)?,
            _ => {
                if field_meant_at_top_level(&member.name).or_else(|| parameter_meant(&member.name)).is_some() {
                    found.routing.note_suspected_field(&path);
                }
                unsupported.drop(&path.to_string());
            }
        }
    }
    Ok(())
}

/// Whether a field of a client of another API is one for the gateway.
fn is_read(field: Field) -> bool {
    field == Field::Model || field.forwarding() == Forwarding::Consumed
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
