//! The members of a message or delta that the gateway interprets.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::usage::ProducedOutput;
use crate::{
    answer::{AnswerFault, AnswerResult},
    json::Raw,
};

/// Kind of a member of a message or delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageMember {
    /// `role`, always `assistant` in an answer.
    Role,
    /// `content`.
    Content,
    /// `refusal`.
    Refusal,
    /// Reasoning, under any of the names in use.
    Reasoning,
    /// `tool_calls`.
    ToolCalls,
    /// `function_call`, the deprecated form of `tool_calls`.
    FunctionCall,
    /// `images`.
    Images,
    /// `audio`.
    Audio,
    /// `annotations`.
    Annotations,
    /// Anything else.
    Other,
}

impl MessageMember {
    /// The member of that name.
    pub(super) fn named(name: &[u8]) -> MessageMember {
        match name {
            b"role" => MessageMember::Role,
            b"content" => MessageMember::Content,
            b"refusal" => MessageMember::Refusal,
            b"reasoning" | b"reasoning_content" | b"reasoning_details" | b"thinking" | b"thinking_blocks" => {
                MessageMember::Reasoning
            }
            b"tool_calls" => MessageMember::ToolCalls,
            b"function_call" => MessageMember::FunctionCall,
            b"images" => MessageMember::Images,
            b"audio" => MessageMember::Audio,
            b"annotations" => MessageMember::Annotations,
            _ => MessageMember::Other,
        }
    }

    /// Whether strict clients refuse the member when it is null, so that it must rather be absent.
    pub(super) fn is_never_null(self) -> bool {
        matches!(self, MessageMember::ToolCalls | MessageMember::FunctionCall | MessageMember::Annotations)
    }

    /// Fails for a value of a type that clients do not expect.
    ///
    /// Content may also be a list of typed parts, as some providers send it ([`ContentParts`]). An empty value of any type is
    /// accepted.
    pub(super) fn check(self, value: Raw<'_>) -> AnswerResult {
        let fits = match self {
            MessageMember::Content => {
                value.is_string() || value.is_null() || (value.is_array() && value.elements().all(Raw::is_object))
            }
            MessageMember::Refusal => value.is_string() || value.is_null(),
            MessageMember::Reasoning => value.is_string() || value.is_null() || value.is_array() || value.is_object(),
            MessageMember::ToolCalls | MessageMember::Images => value.is_array() || !value.is_filled(),
            MessageMember::FunctionCall | MessageMember::Audio => value.is_object() || !value.is_filled(),
            MessageMember::Role | MessageMember::Annotations | MessageMember::Other => true,
        };
        if fits { Ok(()) } else { Err(AnswerFault::malformed("a member of a message that is of the wrong type")) }
    }

    /// Whether a value of it is nothing but reasoning: a client that wants none is not shown it.
    pub(super) fn is_reasoning(self, value: Raw<'_>) -> bool {
        match self {
            MessageMember::Reasoning => true,
            MessageMember::Content if value.is_array() => {
                reasoning(value).next().is_some() && !texts(value).any(Raw::is_filled)
            }
            _ => false,
        }
    }

    /// Whether a value of it is content: the first such value of a stream commits it.
    pub(super) fn is_content(self, value: Raw<'_>) -> bool {
        match self {
            MessageMember::Role | MessageMember::Annotations | MessageMember::Other => false,
            _ => value.is_filled(),
        }
    }
}

/// Content that came as a list of typed parts, for clients that expect a text: both are JSON strings.
#[derive(Debug)]
pub(super) struct ContentParts {
    /// The parts that are text, joined.
    pub(super) text: BytesMut,
    /// The parts that are thinking, joined, if there are any.
    pub(super) reasoning: Option<BytesMut>,
}

impl ContentParts {
    /// Reads `content`. `None` if it is no list.
    pub(super) fn read(content: Raw<'_>) -> Option<ContentParts> {
        content.is_array().then(|| {
            let reasoning = joined(reasoning(content));
            ContentParts { text: joined(texts(content)), reasoning: (reasoning.len() > 2).then_some(reasoning) }
        })
    }
}

/// Appends the only element of the `reasoning_details` of reasoning that is a mere text, a JSON string.
pub(super) fn push_reasoning_details(text: &[u8], out: &mut BytesMut) {
    push!(out; br#"{"type":"reasoning.text","text":"#, text, br#","format":""#,
        ReasoningFormat::Unknown.as_str().as_bytes(), br#"","index":0}"#);
}

/// The texts among the parts of a content.
fn texts(content: Raw<'_>) -> impl Iterator<Item = Raw<'_>> {
    content.elements().filter_map(|part| part.member(b"text"))
}

/// The reasoning among the parts of a content: each a string, or a list of parts that are text.
fn reasoning(content: Raw<'_>) -> impl Iterator<Item = Raw<'_>> {
    let reasoning = content.elements().filter_map(|part| part.member(b"thinking"));
    reasoning.flat_map(|given| given.filled_string().into_iter().chain(texts(given)))
}

/// The JSON string of several, as written; what is no string is left out.
fn joined<'a>(texts: impl Iterator<Item = Raw<'a>>) -> BytesMut {
    let mut out = BytesMut::from(&b"\""[..]);
    texts.filter(|text| text.is_string()).for_each(|text| out.put_slice(text.inner()));
    out.put_u8(b'"');
    out
}

/// Lengths of the texts in one message or delta. Reasoning that a provider sends under two names counts once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OutputLengths {
    text: usize,
    reasoning: usize,
    images: usize,
    has_reasoning_content: bool,
}

impl OutputLengths {
    /// Takes one member into account. Calls are measured where they are read.
    pub(super) fn add(&mut self, member: MessageMember, name: &[u8], value: Raw<'_>) {
        self.has_reasoning_content |= name == b"reasoning_content" && value.filled_string().is_some();
        match member {
            MessageMember::Content | MessageMember::Refusal => {
                self.text += value.text_bytes();
                if value.is_array() {
                    self.text += texts(value).map(Raw::text_bytes).sum::<usize>();
                    self.reasoning = self.reasoning.max(reasoning(value).map(Raw::text_bytes).sum());
                }
            }
            MessageMember::Reasoning => self.reasoning = self.reasoning.max(value.text_bytes()),
            MessageMember::Images => self.images += value.elements().count(),
            _ => {}
        }
    }
}

impl ProducedOutput {
    /// Adds the texts of one message or delta.
    pub(super) fn add(&mut self, measured: OutputLengths) {
        self.text_bytes += measured.text as u64;
        self.reasoning_bytes += measured.reasoning as u64;
        self.images += measured.images as u64;
        self.has_reasoning_content |= measured.has_reasoning_content;
    }
}
