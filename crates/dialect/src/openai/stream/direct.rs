//! Texts, thoughts and arguments that go from the decoder of an upstream to the encoder of a client, where neither speaks chat.
//!
//! They are most of a stream. Everything else goes as a chunk of chat, which [`ChatRewriter`] puts in order, repairs or holds
//! back.

use bytes::BytesMut;

use super::{Progress, choice::ChoiceState, chunk::ChatRewriter, tool_calls::ToolCallOrder};
use crate::{
    answer::AnswerFault,
    neutral::{AnswerEvent, EscapedText},
};

impl ChatRewriter {
    /// Counts an event that the client gets as it is. False for one that must become a chunk.
    pub(super) fn passes(&mut self, event: &AnswerEvent<'_>, progress: &mut Progress) -> bool {
        let (index, text, is_reasoning) = match event {
            AnswerEvent::Text { choice, text } => (*choice, text, false),
            AnswerEvent::Reasoning { choice, text: Some(text), sealed: None, .. } => (*choice, text, true),
            _ => return false,
        };
        let ends_calls = self.call_order == ToolCallOrder::OneByOne;
        let is_hidden = is_reasoning && self.context.exclude_reasoning;
        let Some(bytes) = plain_bytes(text).filter(|_| !is_hidden) else { return false };
        let Some(choice) = self.begun_choice(index).filter(|choice| !(choice.has_called && ends_calls)) else {
            return false;
        };
        choice.has_text |= !is_reasoning;
        if is_reasoning {
            self.produced.reasoning_bytes += bytes;
        } else {
            self.produced.text_bytes += bytes;
        }
        self.note_content(progress);
        true
    }

    /// Counts a piece of the arguments of a call and appends what the client gets of it now, as the inside of a JSON string;
    /// returns the call's place for the client. `None` for a piece that must become a chunk.
    ///
    /// # Errors
    /// When too much is held of the calls.
    pub(super) fn passing_arguments(
        &mut self,
        (choice, call): (u32, u32),
        text: &EscapedText<'_>,
        progress: &mut Progress,
        out: &mut BytesMut,
    ) -> Result<Option<u32>, AnswerFault> {
        let (Some(bytes), Some(choice)) = (plain_bytes(text), self.begun_choice(choice)) else { return Ok(None) };
        let Some(place) = choice.calls.push_arguments(call.into(), text.bytes(), out)? else { return Ok(None) };
        self.produced.text_bytes += bytes;
        self.note_content(progress);
        Ok(u32::try_from(place).ok())
    }

    /// A choice of which the client has got something, and of whose texts no half of a character waits.
    fn begun_choice(&mut self, index: u32) -> Option<&mut ChoiceState> {
        let choice = self.choices.iter_mut().find(|choice| choice.index == u64::from(index))?;
        (choice.has_role && choice.halves.is_empty()).then_some(choice)
    }

    fn note_content(&mut self, progress: &mut Progress) {
        *progress = Progress { event: true, content: true };
        self.has_content = true;
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
