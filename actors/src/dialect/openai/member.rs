//! The members of a message or delta that mean something to the gateway.

use super::usage::Produced;
use crate::dialect::{answer::AnswerFault, json::Raw};

/// What a member of a message or delta is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
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

impl Member {
    /// The member of that name.
    pub(super) fn of(name: &[u8]) -> Member {
        match name {
            b"role" => Member::Role,
            b"content" => Member::Content,
            b"refusal" => Member::Refusal,
            b"reasoning" | b"reasoning_content" | b"reasoning_details" | b"thinking" | b"thinking_blocks" => {
                Member::Reasoning
            }
            b"tool_calls" => Member::ToolCalls,
            b"function_call" => Member::FunctionCall,
            b"images" => Member::Images,
            b"audio" => Member::Audio,
            b"annotations" => Member::Annotations,
            _ => Member::Other,
        }
    }

    /// Whether strict clients refuse the member when it is null, so that it must rather be absent.
    pub(super) fn is_never_null(self) -> bool {
        matches!(self, Member::ToolCalls | Member::FunctionCall | Member::Annotations)
    }

    /// Fails for a value of a type that no client expects there: it is broken, not merely odd.
    ///
    /// Content may also be a list of typed parts, as some providers send it. An empty value of any type says nothing
    /// and is left to whoever copies the member.
    pub(super) fn check(self, value: Raw<'_>) -> Result<(), AnswerFault> {
        let fits = match self {
            Member::Content => {
                value.is_string() || value.is_null() || (value.is_array() && value.elements().all(Raw::is_object))
            }
            Member::Refusal => value.is_string() || value.is_null(),
            Member::Reasoning => value.is_string() || value.is_null() || value.is_array() || value.is_object(),
            Member::ToolCalls | Member::Images => value.is_array() || !value.is_filled(),
            Member::FunctionCall | Member::Audio => value.is_object() || !value.is_filled(),
            Member::Role | Member::Annotations | Member::Other => true,
        };
        if fits { Ok(()) } else { Err(AnswerFault::malformed("a member of a message that is of the wrong type")) }
    }

    /// Whether a value of it is content: the first such value of a stream commits it.
    pub(super) fn is_content(self, value: Raw<'_>) -> bool {
        match self {
            Member::Role | Member::Annotations | Member::Other => false,
            _ => value.is_filled(),
        }
    }
}

/// Texts of one message or delta. Providers that name the same thoughts twice have them counted once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    text: usize,
    reasoning: usize,
    images: usize,
}

impl Measured {
    /// Takes one member into account. Calls are measured where they are read.
    pub(super) fn add(&mut self, member: Member, value: Raw<'_>) {
        match member {
            Member::Content | Member::Refusal => self.text += value.text_bytes(),
            Member::Reasoning => self.reasoning = self.reasoning.max(value.text_bytes()),
            Member::Images => self.images += value.elements().count(),
            _ => {}
        }
    }
}

impl Produced {
    /// Adds the texts of one message or delta.
    pub(super) fn add(&mut self, measured: Measured) {
        self.text_bytes += measured.text as u64;
        self.reasoning_bytes += measured.reasoning as u64;
        self.images += measured.images as u64;
    }
}
