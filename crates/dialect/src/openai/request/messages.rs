//! Reads `messages`: roles and contents are checked and measured in one pass without keeping the text.
//!
//! What stays of a prompt is a [`ConversationSummary`]: counts, where each modality first stood, and the few places
//! that an upstream may want written differently. Arguments of tool calls are text here, never parsed.

use std::mem;

use pointsman_domain::{Invalid, listed_names};

use super::{
    byte_span::{ByteSpan, Edit, Replacement},
    conversation_summary::{ConversationSummary, MESSAGES},
    fault,
    json::{self, required_string},
    open_turn::TurnReasoning,
    parts::{PartKind, read_part},
    stopped::{Stopped, once},
    tool_calls::read_calls,
};
use crate::{
    json::{Cursor, Raw},
    neutral::{Path, shown},
};

/// What is wrong with messages of another form.
pub(super) const NO_MESSAGES: &str = "Field 'messages' must be a non-empty array.";
/// What is wrong with a content of another form.
const NO_PARTS: &str = "'content' must be a string or a non-empty array of parts.";

/// Reads the value of `messages` that comes next; whether it is there at all.
pub(super) fn read_messages<'a>(
    cursor: &mut Cursor<'a>,
    conversation: &mut ConversationSummary<'a>,
) -> Result<bool, Stopped> {
    let most = conversation.max_messages;
    let read = cursor.each_element(|cursor, index| {
        if index == most {
            let message = format!("'messages' may hold at most {most} elements.");
            return Err(fault::refused(&MESSAGES, message).into());
        }
        read_message(cursor, conversation, index).map_err(Stopped::in_prompt)
    })?;
    match read {
        Ok(0) => Err(fault::refused(&MESSAGES, NO_MESSAGES).into()),
        Ok(count) => {
            conversation.tally.messages = count;
            Ok(true)
        }
        Err(other) if other.is_null() => Ok(false),
        Err(_) => Err(fault::mistyped(&MESSAGES, NO_MESSAGES).into()),
    }
}

/// Reads the message that comes next, at a position, into the conversation.
fn read_message<'a>(
    cursor: &mut Cursor<'a>,
    conversation: &mut ConversationSummary<'a>,
    index: usize,
) -> Result<(), Stopped> {
    let path = MESSAGES.item(index);
    let mut message = Message::default();
    conversation.texts.clear();
    if cursor.each_member(|cursor, key| message.member(key, cursor, conversation, index))?.is_some() {
        return Err(fault::mistyped(&path, "Each message must be an object.").into());
    }
    let role = message.judge(&path, index)?;
    conversation.edits.extend(message.empty_text());
    conversation.tally.bytes += message.other_text_bytes();
    let ConversationSummary { extras, opening, tally, open_turn, texts, last_user, .. } = &mut *conversation;
    let Members { reasoning, reasoning_content, reasoning_details, .. } = message.others;
    extras.reasoning_details |= reasoning_details.is_some();
    extras.reasoning |= reasoning.or(reasoning_content).or(reasoning_details).is_some();
    let calls = message.calls.flatten().unwrap_or(0);
    match role {
        Role::Assistant => {
            let reasoning = reasoning_details.map(TurnReasoning::Written);
            open_turn.answer(calls > 0 || message.calls_function(), reasoning);
        }
        Role::Tool | Role::Function => open_turn.result(),
        Role::User => {
            open_turn.user();
            mem::swap(texts, last_user);
        }
        Role::System | Role::Developer => {}
    }
    opening.message(matches!(role, Role::System | Role::Developer), tally);
    conversation.ends_with_answer = role == Role::Assistant && calls == 0;
    conversation.has_calls |= calls > 0 || role == Role::Tool;
    Ok(())
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    /// What `tool` was called before there were tools.
    Function,
}

impl Role {
    const ALLOWED: [&'static str; 5] = ["system", "developer", "user", "assistant", "tool"];

    fn read(raw: Raw<'_>, path: &Path<'_>) -> Result<Role, Invalid> {
        let name = json::text(raw, path)?;
        Ok(match &*name {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            "tool" => Role::Tool,
            "developer" => Role::Developer,
            "function" => Role::Function,
            other => {
                let listed = listed_names(other, Self::ALLOWED);
                let message = format!("Unknown role '{}'. Allowed: {listed}.", shown(other));
                return Err(fault::refused(path, message).allowing(Self::ALLOWED));
            }
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Function => "function",
        }
    }
}

/// What a message has for `content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Nothing, or null.
    Absent,
    /// A string.
    Text,
    /// Parts, of which this one is the first that only an assistant may send.
    Parts { refusal: Option<usize> },
    /// A list without parts.
    NoParts,
}

/// Reads the content that comes next, which stands at `path` in the message at a position.
fn read_content<'a>(
    cursor: &mut Cursor<'a>,
    conversation: &mut ConversationSummary<'a>,
    path: &Path<'_>,
    message: usize,
) -> Result<Content, Stopped> {
    if cursor.peek()? == b'"' {
        let text = cursor.string()?;
        conversation.tally.bytes += text.text_bytes();
        conversation.opening.text(|| text.text().unwrap_or_default());
        conversation.texts.push(text.inner());
        return Ok(Content::Text);
    }
    let mut refusal = None;
    let read = cursor.each_element(|cursor, part| -> Result<(), Stopped> {
        if read_part(cursor, conversation, &path.item(part), (message, part))? == PartKind::Refusal {
            refusal = refusal.or(Some(part));
        }
        Ok(())
    })?;
    match read {
        Ok(0) => Ok(Content::NoParts),
        Ok(_) => Ok(Content::Parts { refusal }),
        Err(other) if other.is_null() => Ok(Content::Absent),
        Err(_) => Err(fault::mistyped(path, NO_PARTS).into()),
    }
}

/// Whether the value of an optional member is more than a form of nothing.
fn says_something(raw: Raw<'_>) -> bool {
    !matches!(raw.written(), "null" | "\"\"" | "[]" | "{}")
}

member_values! {
    /// Members of a message of which little is looked at.
    struct Members {
        call_id = b"tool_call_id", function_call = b"function_call", refusal = b"refusal", audio = b"audio",
        reasoning = b"reasoning", reasoning_content = b"reasoning_content", reasoning_details = b"reasoning_details",
        images = b"images"
    }
}

/// What one message says of itself, whatever order its members come in.
#[derive(Default)]
struct Message<'a> {
    /// The role of the message, and its place in the body.
    role: Option<(Option<Role>, ByteSpan)>,
    /// The content, and where it stands.
    content: Option<(Content, ByteSpan)>,
    /// How many tool calls, unless they are null.
    calls: Option<Option<usize>>,
    /// What names the function whose result this is, in the deprecated form.
    name: Option<Raw<'a>>,
    others: Members<'a>,
}

impl<'a> Message<'a> {
    /// Reads the value of a member, which comes next, in the message at a position.
    fn member(
        &mut self,
        key: Raw<'a>,
        cursor: &mut Cursor<'a>,
        conversation: &mut ConversationSummary<'a>,
        index: usize,
    ) -> Result<(), Stopped> {
        let path = MESSAGES.item(index);
        match &*key.name() {
            b"role" => {
                let value = cursor.value()?;
                let role = json::given(value).map(|raw| Role::read(raw, &path.member("role"))).transpose()?;
                let span = conversation.source.span(value);
                if role == Some(Role::Developer) {
                    conversation.edits.push(Edit { span: span.clone(), want: Replacement::SystemRole });
                }
                once(&mut self.role, (role, span), &path, key)
            }
            b"content" => {
                cursor.peek()?;
                let start = cursor.at();
                let content = read_content(cursor, conversation, &path.member("content"), index)?;
                once(&mut self.content, (content, start..cursor.at()), &path, key)
            }
            b"tool_calls" => {
                let calls = read_calls(cursor, conversation, &path.member("tool_calls"))?;
                once(&mut self.calls, calls, &path, key)
            }
            b"name" => {
                let name = cursor.value()?;
                if !name.is_null() {
                    required_string(Some(name), &path.member("name"))?;
                }
                once(&mut self.name, name, &path, key)
            }
            name => {
                let value = cursor.value()?;
                self.others.slot(name).map_or(Ok(()), |slot| once(slot, value, &path, key))
            }
        }
    }

    /// Bytes of text beside the content and the calls. Bytes of media and signatures are no text.
    fn other_text_bytes(&self) -> usize {
        let said =
            [self.others.function_call, self.others.reasoning, self.others.reasoning_content, self.others.refusal]
                .into_iter()
                .flatten();
        let said = said.filter(|raw| says_something(*raw)).map(|raw| raw.written().len());
        said.sum::<usize>() + self.name.map_or(0, Raw::text_bytes)
    }

    /// Whether a function is called in the deprecated form.
    fn calls_function(&self) -> bool {
        let name = self.others.function_call.and_then(|call| call.member(b"name"));
        name.is_some_and(|name| name.filled_string().is_some())
    }

    /// What stands for the content of an assistant that says nothing, as answers of models may: strict upstreams refuse null
    /// there.
    fn empty_text(&self) -> Option<Edit> {
        let (role, role_span) = self.role.clone()?;
        let has_call = [self.others.function_call, self.others.audio].into_iter().flatten().any(says_something);
        let is_silent = role == Some(Role::Assistant) && self.calls.flatten().unwrap_or(0) == 0 && !has_call;
        match self.content.clone().filter(|_| is_silent) {
            None if is_silent => Some(Edit { span: role_span, want: Replacement::WithEmptyContent }),
            Some((Content::Absent | Content::NoParts, span)) => Some(Edit { span, want: Replacement::EmptyText }),
            _ => None,
        }
    }

    /// The rules that need the whole message, at a path that ends in this position. Gives who speaks.
    fn judge(&self, path: &Path<'_>, index: usize) -> Result<Role, Invalid> {
        let Some(role) = self.role.as_ref().and_then(|(role, _)| *role) else {
            let message = format!("Each message needs a 'role'. Allowed: {}.", Role::ALLOWED.join(", "));
            let mut invalid = fault::required(&path.member("role")).allowing(Role::ALLOWED);
            invalid.message = message;
            return Err(invalid);
        };
        self.judge_content(role, path, index)?;
        if role == Role::Tool {
            self.judge_call_id(&path.member("tool_call_id"))?;
        }
        if self.calls.flatten().is_some() && role != Role::Assistant {
            let message = "'tool_calls' is only allowed on assistant messages.";
            return Err(fault::refused(&path.member("tool_calls"), message));
        }
        Ok(role)
    }

    fn judge_content(&self, role: Role, path: &Path<'_>, index: usize) -> Result<(), Invalid> {
        let at = path.member("content");
        match self.content.as_ref().map_or(Content::Absent, |(content, _)| *content) {
            Content::Text | Content::Parts { refusal: None } => Ok(()),
            Content::Parts { refusal: Some(_) } if role == Role::Assistant => Ok(()),
            Content::Parts { refusal: Some(part) } => {
                let message = "A part of type 'refusal' is only allowed in assistant messages.";
                Err(fault::refused(&at.item(part).member("type"), message))
            }
            Content::Absent if matches!(role, Role::Function | Role::Assistant) => Ok(()),
            Content::NoParts if role == Role::Assistant => Ok(()),
            Content::Absent => {
                let message = format!("Message {index} ({}) needs 'content'.", role.as_str());
                Err(Invalid { message, ..fault::required(&at) })
            }
            Content::NoParts => Err(fault::refused(&at, NO_PARTS)),
        }
    }

    fn judge_call_id(&self, path: &Path<'_>) -> Result<(), Invalid> {
        let message = "A tool message needs 'tool_call_id'.";
        let Some(raw) = self.others.call_id.and_then(json::given) else {
            return Err(Invalid { message: message.to_owned(), ..fault::required(path) });
        };
        if json::text(raw, path)?.is_empty() { Err(fault::refused(path, message)) } else { Ok(()) }
    }
}
