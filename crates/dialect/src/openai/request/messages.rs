//! Reads `messages`: roles and contents are checked and measured in one pass without keeping the text.
//!
//! What stays of a prompt is a [`Conversation`]: counts, where each modality first stood, and the few places
//! that an upstream may want written differently. Arguments of tool calls are text here, never parsed.

use std::mem;

use pointsman_domain::Invalid;

use super::{
    byte_span::{ByteSpan, Edit, Replacement},
    conversation::{Conversation, MESSAGES},
    fault, json,
    json_type::JsonType,
    parts::{PartList, PartListReader},
    tool_calls::CallListVisitor,
    value_visitor::{ArrayReader, ObjectReader, SeenKeys, Stopped, ValueVisitor, stop},
};
use crate::{
    json::Raw,
    neutral::{Path, shown},
};

/// What is wrong with a content of another form.
const NO_PARTS: &str = "'content' must be a string or a non-empty array of parts.";

/// The value of `messages`: whether it is there at all.
pub(super) struct MessageListVisitor<'c, 'a>(pub(super) &'c mut Conversation<'a>);

impl<'a> ValueVisitor<'a> for MessageListVisitor<'_, 'a> {
    type Out = bool;

    fn null(self) -> Result<bool, Stopped> {
        Ok(false)
    }

    fn other(self, _: JsonType) -> Result<bool, Stopped> {
        let invalid = fault::mistyped(&MESSAGES, "Field 'messages' must be a non-empty array.");
        Err(stop(&mut self.0.fault, invalid))
    }

    fn array(self, mut items: ArrayReader<'_, 'a>) -> Result<bool, Stopped> {
        let conversation = self.0;
        let mut index = 0;
        while let Some(()) = items.next(MessageVisitor { conversation: &mut *conversation, index })? {
            index += 1;
            if index > conversation.max_messages {
                let most = conversation.max_messages;
                let message = format!("'messages' may hold at most {most} elements.");
                return Err(stop(&mut conversation.fault, fault::refused(&MESSAGES, message)));
            }
        }
        if index == 0 {
            let invalid = fault::refused(&MESSAGES, "Field 'messages' must be a non-empty array.");
            return Err(stop(&mut conversation.fault, invalid));
        }
        conversation.tally.messages = index;
        Ok(true)
    }
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
                let message = format!("Unknown role '{}'. Allowed: {}.", shown(other), Self::ALLOWED.join(", "));
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Content {
    /// Nothing, or null.
    #[default]
    Absent,
    /// A string.
    Text,
    /// Parts, of which this one is the first that only an assistant may send.
    Parts { refusal: Option<usize> },
    /// A list without parts.
    NoParts,
}

/// The members of a message that are read.
#[derive(Clone, Copy)]
enum MessageKey {
    Role,
    Content,
    Name,
    ToolCalls,
    ToolCallId,
    FunctionCall,
    Refusal,
    Audio,
    Reasoning,
    ReasoningContent,
    ReasoningDetails,
    Images,
    Other,
}

impl MessageKey {
    fn of(key: Raw<'_>) -> MessageKey {
        match &*key.name() {
            b"role" => MessageKey::Role,
            b"content" => MessageKey::Content,
            b"name" => MessageKey::Name,
            b"tool_calls" => MessageKey::ToolCalls,
            b"tool_call_id" => MessageKey::ToolCallId,
            b"function_call" => MessageKey::FunctionCall,
            b"refusal" => MessageKey::Refusal,
            b"audio" => MessageKey::Audio,
            b"reasoning" => MessageKey::Reasoning,
            b"reasoning_content" => MessageKey::ReasoningContent,
            b"reasoning_details" => MessageKey::ReasoningDetails,
            b"images" => MessageKey::Images,
            _ => MessageKey::Other,
        }
    }
}

impl MessageKey {
    fn is_reasoning(self) -> bool {
        matches!(self, MessageKey::Reasoning | MessageKey::ReasoningContent | MessageKey::ReasoningDetails)
    }

    fn as_str(self) -> &'static str {
        match self {
            MessageKey::Role => "role",
            MessageKey::Content => "content",
            MessageKey::Name => "name",
            MessageKey::ToolCalls => "tool_calls",
            MessageKey::ToolCallId => "tool_call_id",
            MessageKey::FunctionCall => "function_call",
            MessageKey::Refusal => "refusal",
            MessageKey::Audio => "audio",
            MessageKey::Reasoning => "reasoning",
            MessageKey::ReasoningContent => "reasoning_content",
            MessageKey::ReasoningDetails => "reasoning_details",
            MessageKey::Images => "images",
            MessageKey::Other => "",
        }
    }
}

/// What one message says of itself, whatever order its members come in.
#[derive(Default)]
struct Message<'a> {
    role: Option<Role>,
    /// Where the role stands.
    role_span: ByteSpan,
    content: Content,
    /// Where a content stands that says nothing: null, or a list without parts.
    empty_content: Option<ByteSpan>,
    /// How many tool calls, if the member is there at all.
    calls: Option<usize>,
    call_id: Option<Raw<'a>>,
    /// What names the function whose result this is, in the deprecated form.
    name: Option<Raw<'a>>,
    /// The name of the function that is called, in the deprecated form.
    called: Option<&'a str>,
    /// Whether a function call or a voice stands in the place of the content.
    has_call: bool,
    /// The reasoning that goes back to its provider.
    reasoning_details: Option<Raw<'a>>,
}

/// One message, read into the conversation.
struct MessageVisitor<'c, 'a> {
    conversation: &'c mut Conversation<'a>,
    index: usize,
}

impl<'a> ValueVisitor<'a> for MessageVisitor<'_, 'a> {
    type Out = ();

    fn other(self, _: JsonType) -> Result<(), Stopped> {
        let invalid = fault::mistyped(&MESSAGES.item(self.index), "Each message must be an object.");
        Err(self.conversation.stop(invalid))
    }

    fn object(mut self, mut members: ObjectReader<'_, 'a>) -> Result<(), Stopped> {
        let mut met = SeenKeys::default();
        let mut message = Message::default();
        self.conversation.texts.clear();
        self.conversation.call_ids.clear();
        while let Some(key) = members.key()?.map(MessageKey::of) {
            if !matches!(key, MessageKey::Other) && !met.first_time(key as u8) {
                let invalid = fault::given_twice(&MESSAGES.item(self.index).member(key.as_str()));
                return Err(self.conversation.stop(invalid));
            }
            self.conversation.returns_reasoning |= key.is_reasoning();
            self.member(key, &mut message, &mut members)?;
        }
        let index = self.index;
        let judged = message.judge(&MESSAGES.item(index));
        self.conversation.edits.extend(message.empty_text());
        let Conversation { opening, tally, ends_with_answer, has_calls, open_turn, call_ids, texts, last_user, .. } =
            &mut *self.conversation;
        match message.role {
            Some(Role::Assistant) => {
                call_ids.extend(message.called);
                open_turn.answer(call_ids, message.reasoning_details);
            }
            Some(Role::Tool | Role::Function) => open_turn.result(message.answered_call()),
            Some(Role::User) => {
                open_turn.user();
                mem::swap(texts, last_user);
            }
            Some(Role::System | Role::Developer) => open_turn.speaker(),
            None => {}
        }
        *ends_with_answer = message.role == Some(Role::Assistant) && message.calls.unwrap_or(0) == 0;
        *has_calls |= message.calls.unwrap_or(0) > 0 || message.role == Some(Role::Tool);
        opening.message(matches!(message.role, Some(Role::System | Role::Developer)), tally);
        judged.map_err(|invalid| self.conversation.stop(invalid))
    }
}

impl<'a> MessageVisitor<'_, 'a> {
    fn member(
        &mut self,
        key: MessageKey,
        message: &mut Message<'a>,
        members: &mut ObjectReader<'_, 'a>,
    ) -> Result<(), Stopped> {
        match key {
            MessageKey::Role => return self.role(message, members.raw()?),
            MessageKey::Name => {
                let name = members.raw()?;
                message.name = Some(name);
                return self.name(name);
            }
            MessageKey::Content => {
                let start = members.start()?;
                message.content = members.value(ContentVisitor { message: self })?;
                let is_empty = matches!(message.content, Content::Absent | Content::NoParts);
                message.empty_content = is_empty.then(|| start..members.at());
            }
            MessageKey::ToolCalls => {
                let list = CallListVisitor { conversation: &mut *self.conversation, message: self.index };
                message.calls = members.value(list)?;
            }
            MessageKey::ToolCallId => message.call_id = json::given(members.raw()?),
            MessageKey::FunctionCall => {
                let call = members.raw()?;
                message.called = call.member(b"name").and_then(Raw::filled_string).map(Raw::inner_text);
                self.payload(key, message, call);
            }
            MessageKey::ReasoningDetails => {
                let details = members.raw()?;
                message.reasoning_details = Some(details);
                self.payload(key, message, details);
            }
            MessageKey::Other => drop(members.raw()?),
            _ => self.payload(key, message, members.raw()?),
        }
        Ok(())
    }

    fn role(&mut self, message: &mut Message<'a>, raw: Raw<'a>) -> Result<(), Stopped> {
        let item = MESSAGES.item(self.index);
        let read = json::given(raw).map(|raw| Role::read(raw, &item.member("role"))).transpose();
        message.role = read.map_err(|invalid| self.conversation.stop(invalid))?;
        message.role_span = self.conversation.source.span(raw);
        if message.role == Some(Role::Developer) {
            let span = message.role_span.clone();
            self.conversation.edits.push(Edit { span, want: Replacement::SystemRole });
        }
        Ok(())
    }

    fn name(&mut self, name: Raw<'_>) -> Result<(), Stopped> {
        match JsonType::of(name) {
            JsonType::Text => self.conversation.tally.bytes += name.text_bytes(),
            JsonType::Null => {}
            kind => {
                let invalid = fault::wrong_type(&MESSAGES.item(self.index).member("name"), "a string", kind);
                return Err(self.conversation.stop(invalid));
            }
        }
        Ok(())
    }

    /// Anything that an assistant may send instead of content.
    fn payload(&mut self, key: MessageKey, message: &mut Message<'a>, raw: Raw<'_>) {
        let text = raw.written();
        if matches!(text, "null" | "\"\"" | "[]" | "{}") {
            return;
        }
        message.has_call |= matches!(key, MessageKey::FunctionCall | MessageKey::Audio);
        // The others are bytes of media or signatures, which are no text.
        use MessageKey::{FunctionCall, Reasoning, ReasoningContent, Refusal};
        if matches!(key, FunctionCall | Reasoning | ReasoningContent | Refusal) {
            self.conversation.tally.bytes += text.len();
        }
    }
}

/// The content of a message.
struct ContentVisitor<'m, 'c, 'a> {
    message: &'m mut MessageVisitor<'c, 'a>,
}

impl<'a> ValueVisitor<'a> for ContentVisitor<'_, '_, 'a> {
    type Out = Content;

    fn null(self) -> Result<Content, Stopped> {
        Ok(Content::Absent)
    }

    fn text(self, text: Raw<'a>) -> Result<Content, Stopped> {
        self.message.conversation.tally.bytes += text.text_bytes();
        self.message.conversation.opening.text(text);
        self.message.conversation.texts.push(text);
        Ok(Content::Text)
    }

    fn array(self, items: ArrayReader<'_, 'a>) -> Result<Content, Stopped> {
        let list = PartListReader { conversation: &mut *self.message.conversation, message: self.message.index };
        Ok(match list.read(items)? {
            PartList { count: 0, .. } => Content::NoParts,
            PartList { refusal, .. } => Content::Parts { refusal },
        })
    }

    fn other(self, _: JsonType) -> Result<Content, Stopped> {
        let item = MESSAGES.item(self.message.index);
        Err(self.message.conversation.stop(fault::mistyped(&item.member("content"), NO_PARTS)))
    }
}

impl<'a> Message<'a> {
    /// The id of the call whose result this is, as it is written: in the deprecated form the name of the function.
    fn answered_call(&self) -> &'a str {
        let mut texts = [self.call_id, self.name].into_iter().flatten().filter(|text| text.is_string());
        texts.next().map(Raw::inner_text).unwrap_or_default()
    }

    /// What stands for the content of an assistant that says nothing, as answers of models may: strict upstreams refuse null
    /// there.
    fn empty_text(&self) -> Option<Edit> {
        let is_silent = self.role == Some(Role::Assistant) && self.calls.unwrap_or(0) == 0 && !self.has_call;
        match (self.content, self.empty_content.clone()) {
            (Content::Absent | Content::NoParts, Some(span)) if is_silent => {
                Some(Edit { span, want: Replacement::EmptyText })
            }
            (Content::Absent, None) if is_silent => {
                Some(Edit { span: self.role_span.clone(), want: Replacement::WithEmptyContent })
            }
            _ => None,
        }
    }

    /// The rules that need the whole message.
    fn judge(&self, path: &Path<'_>) -> Result<(), Invalid> {
        let Some(role) = self.role else {
            let message = format!("Each message needs a 'role'. Allowed: {}.", Role::ALLOWED.join(", "));
            let mut invalid = fault::required(&path.member("role")).allowing(Role::ALLOWED);
            invalid.message = message;
            return Err(invalid);
        };
        self.judge_content(role, path)?;
        if role == Role::Tool {
            self.judge_call_id(&path.member("tool_call_id"))?;
        }
        if self.calls.is_some() && role != Role::Assistant {
            let message = "'tool_calls' is only allowed on assistant messages.";
            return Err(fault::refused(&path.member("tool_calls"), message));
        }
        Ok(())
    }

    fn judge_content(&self, role: Role, path: &Path<'_>) -> Result<(), Invalid> {
        match self.content {
            Content::Text | Content::Parts { refusal: None } => Ok(()),
            Content::Parts { refusal: Some(_) } if role == Role::Assistant => Ok(()),
            Content::Parts { refusal: Some(part) } => {
                let content = path.member("content");
                let message = "A part of type 'refusal' is only allowed in assistant messages.";
                Err(fault::refused(&content.item(part).member("type"), message))
            }
            Content::Absent if matches!(role, Role::Function | Role::Assistant) => Ok(()),
            Content::NoParts if role == Role::Assistant => Ok(()),
            Content::Absent => Err(self.no_content(role, path)),
            Content::NoParts => Err(fault::refused(&path.member("content"), NO_PARTS)),
        }
    }

    fn no_content(&self, role: Role, path: &Path<'_>) -> Invalid {
        let index = match path {
            Path::Item(_, index) => *index,
            _ => 0,
        };
        let mut invalid = fault::required(&path.member("content"));
        invalid.message = format!("Message {index} ({}) needs 'content'.", role.as_str());
        invalid
    }

    fn judge_call_id(&self, path: &Path<'_>) -> Result<(), Invalid> {
        let message = "A tool message needs 'tool_call_id'.";
        let Some(raw) = self.call_id else {
            let mut invalid = fault::required(path);
            invalid.message = message.to_owned();
            return Err(invalid);
        };
        if json::text(raw, path)?.is_empty() { Err(fault::refused(path, message)) } else { Ok(()) }
    }
}
