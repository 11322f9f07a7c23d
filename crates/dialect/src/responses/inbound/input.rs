//! `instructions` and `input`: items are put together to the messages of chat.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Invalid;

use super::{ChatBodyWriter, mistyped, refused};
use crate::{
    json::{Raw, push_member},
    neutral::{EMPTY_MESSAGE, EscapedText, Path},
    openai::message_parts::MessageParts,
};

/// Most items of an input.
const MAX_ITEMS: usize = 100_000;

/// An answer of the model that is not complete yet: chat has text, calls and reasoning in one message.
#[derive(Debug, Default)]
pub(super) struct Answer<'a> {
    pub(super) parts: MessageParts<'a>,
    /// Calls, each after a comma.
    pub(super) calls: BytesMut,
    /// Elements of `reasoning_details`, each after a comma.
    pub(super) details: BytesMut,
}

impl Answer<'_> {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.calls.is_empty() && self.details.is_empty()
    }

    /// Whether reasoning that comes now begins another answer. Calls stay together, because their results follow them.
    pub(super) fn ends_at_reasoning(&self) -> bool {
        !self.parts.is_empty() && self.calls.is_empty()
    }
}

impl<'a> ChatBodyWriter<'a> {
    pub(super) fn messages(&mut self, instructions: Option<Raw<'a>>, input: Raw<'a>) -> Result<(), Invalid> {
        push_member(&mut self.out, b"messages", b"[");
        let first = self.out.len();
        if let Some(instructions) = instructions {
            let text = EscapedText::of(instructions).ok_or_else(|| mistyped("instructions", "a string"))?;
            if !text.is_empty() {
                let mut parts = MessageParts::default();
                parts.text(text, None);
                self.push_message(b"developer", &parts);
            }
        }
        let leading = self.out.len();
        if input.is_string() {
            let mut parts = MessageParts::default();
            self.content(input, &Path::Field("input"), &mut parts)?;
            self.push_message(b"user", &parts);
        } else if input.is_array() {
            self.items(input)?;
        } else {
            return Err(mistyped("input", "a string or an array of items"));
        }
        if self.out.len() == leading {
            if self.native_feature.is_none() {
                return Err(refused("input", "'input' must have at least one item with content."));
            }
            self.out.put_slice(EMPTY_MESSAGE);
        }
        // Every message ends with a comma.
        if self.out.len() > first {
            self.out.truncate(self.out.len() - 1);
        }
        self.out.put_u8(b']');
        Ok(())
    }

    fn items(&mut self, input: Raw<'a>) -> Result<(), Invalid> {
        for (index, item) in input.elements().enumerate() {
            if index == MAX_ITEMS {
                return Err(refused("input", format!("'input' may have at most {MAX_ITEMS} items.")));
            }
            self.item(item, &Path::Field("input").item(index))?;
        }
        self.end_answer();
        Ok(())
    }

    pub(super) fn push_message(&mut self, role: &[u8], parts: &MessageParts<'_>) {
        if parts.is_empty() {
            return;
        }
        self.out.put_slice(b"{\"role\":\"");
        self.out.put_slice(role);
        self.out.put_slice(b"\",\"content\":");
        parts.push(&mut self.out);
        self.out.put_slice(b"},");
    }

    /// Writes the answer that waits.
    pub(super) fn end_answer(&mut self) {
        let answer = std::mem::take(&mut self.answer_so_far);
        if answer.is_empty() {
            return;
        }
        self.out.put_slice(b"{\"role\":\"assistant\",\"content\":");
        if answer.parts.is_empty() {
            self.out.put_slice(if answer.calls.is_empty() { b"\"\"" } else { b"null" });
        } else {
            answer.parts.push(&mut self.out);
        }
        for (name, list) in [(&b"tool_calls"[..], &answer.calls), (b"reasoning_details", &answer.details)] {
            if let Some((_, elements)) = list.split_first() {
                push_member(&mut self.out, name, b"[");
                self.out.put_slice(elements);
                self.out.put_u8(b']');
            }
        }
        self.out.put_slice(b"},");
    }
}
