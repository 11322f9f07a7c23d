//! What is counted over all items of an answer.

use bytes::BytesMut;

use crate::{
    answer::{AnswerFault, AnswerResult},
    json::{Cursor, Raw},
    neutral::{AnswerEvent, AnswerSink},
};

/// Most tool calls of an answer.
const MAX_CALLS: u32 = 128;
/// Most parts of an answer.
const MAX_PARTS: u32 = 4_096;

/// The counts so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    calls: u32,
    reasoning_blocks: u32,
    parts: u32,
    /// Characters of text.
    characters: u64,
    searches: u64,
}

impl Counters {
    /// Whether the answer calls tools.
    pub(in super::super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Web searches so far.
    pub(in super::super) fn searches(&self) -> u64 {
        self.searches
    }

    /// Counts a web search.
    pub(super) fn search(&mut self) {
        self.searches = self.searches.saturating_add(1);
    }

    /// The index of the next call.
    pub(super) fn next_call(&mut self) -> AnswerResult<u32> {
        if self.calls >= MAX_CALLS {
            return Err(AnswerFault::malformed("too many calls"));
        }
        self.calls += 1;
        Ok(self.calls - 1)
    }

    /// The index of the next block of reasoning.
    pub(super) fn next_reasoning(&mut self) -> u32 {
        let index = self.reasoning_blocks;
        self.reasoning_blocks = self.reasoning_blocks.saturating_add(1);
        index
    }

    /// Counts a part.
    pub(super) fn part(&mut self) -> AnswerResult {
        if self.parts >= MAX_PARTS {
            return Err(AnswerFault::malformed("too many parts"));
        }
        self.parts += 1;
        Ok(())
    }

    /// Characters of text so far.
    pub(super) fn characters(&self) -> u64 {
        self.characters
    }

    /// Counts characters of text.
    pub(super) fn text(&mut self, characters: u64) {
        self.characters = self.characters.saturating_add(characters);
    }

    /// Hands log probabilities on in the form of chat.
    pub(super) fn logprobs(&self, list: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let mut json = BytesMut::with_capacity(list.bytes().len() + 30);
        push!(json; br#"{"content":"#, list.bytes(), br#","refusal":null}"#);
        let text = std::str::from_utf8(&json).unwrap_or_default();
        sink.event(AnswerEvent::Logprobs { choice: 0, value: Cursor::new(text).value()? })
    }
}
