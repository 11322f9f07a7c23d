//! One block of reasoning in an answer, from its start over its pieces to its end.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{
    MAX_SIGNATURE,
    conversation::{ReasoningKind, ReasoningState},
    event::{AnswerEvent, AnswerSink},
    text::EscapedText,
};
use crate::{
    answer::{AnswerFault, AnswerResult},
    json::Raw,
};

/// A block that has begun.
#[derive(Debug)]
pub(crate) struct ReasoningReader {
    index: u32,
    format: ReasoningFormat,
    signature: BytesMut,
}

impl ReasoningReader {
    /// Begins a block; `blocks` counts those of the answer.
    pub(crate) fn start(format: ReasoningFormat, blocks: &mut u32) -> ReasoningReader {
        let index = *blocks;
        *blocks = blocks.saturating_add(1);
        ReasoningReader { index, format, signature: BytesMut::new() }
    }

    /// Takes a piece of the text.
    pub(crate) fn text(&self, text: EscapedText<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.send(ReasoningState::shown(self.format, ReasoningKind::Text, text), sink)
    }

    /// Takes encrypted data.
    pub(crate) fn encrypted(&self, data: EscapedText<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.send(ReasoningState::sealed(self.format, ReasoningKind::Encrypted, data), sink)
    }

    /// Takes a piece of the signature.
    pub(crate) fn sign(&mut self, piece: Raw<'_>) -> AnswerResult {
        let Some(piece) = piece.filled_string() else { return Ok(()) };
        if self.signature.len() + piece.inner().len() > MAX_SIGNATURE {
            return Err(AnswerFault::malformed("the signature of a thought is too long"));
        }
        self.signature.put_slice(piece.inner());
        Ok(())
    }

    /// Ends the block.
    pub(crate) fn stop(self, sink: &mut impl AnswerSink) -> AnswerResult {
        if self.signature.is_empty() {
            return Ok(());
        }
        let signature = EscapedText::plain(std::str::from_utf8(&self.signature).unwrap_or_default());
        self.send(ReasoningState::sealed(self.format, ReasoningKind::Text, signature), sink)
    }

    fn send(&self, state: ReasoningState<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        sink.event(AnswerEvent::Reasoning { choice: 0, index: self.index, state })
    }
}
