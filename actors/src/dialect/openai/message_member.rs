//! The members of a message or delta that mean something to the gateway.

use super::usage::ProducedOutput;
use crate::dialect::{answer::AnswerFault, json::Raw};

/// What a member of a message or delta is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageMember {
    /// `role`, always `assistant` in an answer.
    Role,
    /// `content`.
    Content,
    /// `refusal`.
    Refusal,
    /// Thoughts, under any of the names in use.
    Reasoning,
    /// `tool_calls`.
    ToolCalls,
    /// `function_call`, from before there were tools.
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
    pub(super) fn of(name: &[u8]) -> MessageMember {
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

    /// Fails for a value of a type that no client expects there: it is broken, not merely odd.
    ///
    /// Content may also be a list of typed parts, as some providers send it. An empty value of any type says nothing
    /// and is left to whoever copies the member.
    pub(super) fn check(self, value: Raw<'_>) -> Result<(), AnswerFault> {
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

    /// Whether a value of it is content: the first such value of a stream commits it.
    pub(super) fn is_content(self, value: Raw<'_>) -> bool {
        match self {
            MessageMember::Role | MessageMember::Annotations | MessageMember::Other => false,
            _ => value.is_filled(),
        }
    }
}

/// Texts of one message or delta. Providers that name the same thoughts twice have them counted once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OutputLengths {
    text: usize,
    reasoning: usize,
    images: usize,
}

impl OutputLengths {
    /// Takes one member into account. Calls are measured where they are read.
    pub(super) fn add(&mut self, member: MessageMember, value: Raw<'_>) {
        match member {
            MessageMember::Content | MessageMember::Refusal => self.text += value.text_bytes(),
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
    }
}
