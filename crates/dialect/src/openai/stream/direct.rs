//! Texts and thoughts that go from the decoder of an upstream to the encoder of a client, where neither speaks chat.
//!
//! They are most of a stream. Everything else goes as a chunk of chat, which [`ChatRewriter`] puts in order, repairs or holds
//! back.

use super::{Progress, chunk::ChatRewriter, tool_calls::CallOrder};
use crate::neutral::{AnswerEvent, EscapedText};

impl ChatRewriter {
    /// Counts an event that the client gets as it is. False for one that must become a chunk.
    pub(super) fn passes(&mut self, event: &AnswerEvent<'_>, progress: &mut Progress) -> bool {
        let (index, text, is_thought) = match event {
            AnswerEvent::Text { choice, text } => (*choice, text, false),
            AnswerEvent::Reasoning { choice, text: Some(text), sealed: None, .. } => (*choice, text, true),
            _ => return false,
        };
        let choice = self.choices.iter_mut().find(|choice| choice.index == u64::from(index));
        let (Some(choice), Some(bytes)) = (choice, plain_bytes(text)) else { return false };
        let ends_calls = choice.has_called && self.call_order == CallOrder::OneByOne;
        let is_hidden = is_thought && self.context.exclude_reasoning;
        if is_hidden || ends_calls || !choice.has_role || !choice.halves.is_empty() {
            return false;
        }
        if is_thought {
            self.produced.reasoning_bytes += bytes;
        } else {
            choice.has_text = true;
            self.produced.text_bytes += bytes;
        }
        *progress = Progress { event: true, content: true };
        self.has_content = true;
        true
    }
}

/// The bytes that a text stands for; `None` if it is empty, or has escapes that may be halves of characters.
fn plain_bytes(text: &EscapedText<'_>) -> Option<u64> {
    let (mut rest, mut bytes) = (text.bytes(), text.bytes().len() as u64);
    while let Some(at) = memchr::memchr(b'\\', rest) {
        rest = rest.get(at + 1..).filter(|rest| rest.first() != Some(&b'u'))?.get(1..)?;
        bytes -= 1;
    }
    (bytes > 0).then_some(bytes)
}
