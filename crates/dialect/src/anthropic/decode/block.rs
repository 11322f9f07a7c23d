//! One content block of an answer, from its start to its stop.

use pointsman_domain::ReasoningFormat;

use crate::{
    answer::{AnswerFault, AnswerResult},
    anthropic::citations::Citations,
    json::Raw,
    neutral::{AnswerEvent, AnswerSink, EscapedText, ReasoningReader, ToolCallReader, ToolNames},
};

/// What was counted over all blocks.
#[derive(Debug, Default)]
pub(super) struct Counters {
    calls: u32,
    reasoning_blocks: u32,
    /// Characters of text.
    characters: u64,
}

impl Counters {
    /// Whether the answer calls tools.
    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    fn reasoning(&mut self) -> ReasoningReader {
        ReasoningReader::start(ReasoningFormat::Anthropic, &mut self.reasoning_blocks)
    }
}

/// An unfinished block.
#[derive(Debug)]
pub(super) enum Block {
    /// `start`: where it begins in the text of the answer, in characters.
    Text {
        start: u64,
        citations: Citations,
    },
    Reasoning(ReasoningReader),
    Call(ToolCallReader),
    /// Not shown.
    Hidden,
}

impl Block {
    /// Begins a block; what it starts with is handed on.
    pub(super) fn start(
        block: Raw<'_>,
        names: &ToolNames,
        counters: &mut Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult<Block> {
        let kind = block.kind();
        match kind.as_deref() {
            Some("text") => Block::text(block, counters, sink),
            Some("thinking") => Block::reasoning(block, counters, sink),
            Some("redacted_thinking") => {
                let reasoning = counters.reasoning();
                let data = block.member(b"data").and_then(EscapedText::filled);
                data.map_or(Ok(()), |data| reasoning.encrypted(data, sink)).map(|()| Block::Hidden)
            }
            Some("tool_use") => Block::call(block, names, counters, sink),
            _ => Ok(Block::Hidden),
        }
    }

    fn text(block: Raw<'_>, counters: &mut Counters, sink: &mut impl AnswerSink) -> AnswerResult<Block> {
        let mut citations = Citations::default();
        for citation in block.elements_of(b"citations") {
            citations.note(citation);
        }
        let mut text = Block::Text { start: counters.characters, citations };
        text.piece(block.member(b"text"), counters, sink)?;
        Ok(text)
    }

    fn reasoning(block: Raw<'_>, counters: &mut Counters, sink: &mut impl AnswerSink) -> AnswerResult<Block> {
        let mut reasoning = counters.reasoning();
        let [text, signature] = block.pick([b"thinking", b"signature"]);
        if let Some(text) = text.and_then(EscapedText::filled) {
            reasoning.text(text, sink)?;
        }
        signature.map_or(Ok(()), |signature| reasoning.sign(signature))?;
        Ok(Block::Reasoning(reasoning))
    }

    fn call(
        block: Raw<'_>,
        names: &ToolNames,
        counters: &mut Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult<Block> {
        let members = block.pick([b"id", b"name", b"input"]);
        Ok(Block::Call(ToolCallReader::start(members, names, &mut counters.calls, sink)?))
    }

    /// Takes a delta. One of an unknown type is passed over, and so are those of hidden blocks.
    pub(super) fn delta(
        &mut self,
        delta: Raw<'_>,
        counters: &mut Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        let piece: &[u8] = match self {
            Block::Text { .. } => b"text",
            Block::Reasoning(_) => b"thinking",
            Block::Call(_) => b"partial_json",
            Block::Hidden => return Ok(()),
        };
        let [kind, piece] = delta.pick([b"type", piece]);
        match (kind.and_then(Raw::text).as_deref(), &mut *self) {
            (Some("text_delta"), Block::Text { .. })
            | (Some("thinking_delta"), Block::Reasoning(_))
            | (Some("input_json_delta"), Block::Call(_)) => self.piece(piece, counters, sink),
            (Some("signature_delta"), Block::Reasoning(reasoning)) => {
                delta.member(b"signature").map_or(Ok(()), |signature| reasoning.sign(signature))
            }
            (Some("citations_delta"), Block::Text { citations, .. }) => {
                if let Some(citation) = delta.member(b"citation") {
                    citations.note(citation);
                }
                Ok(())
            }
            (Some("text_delta" | "thinking_delta" | "input_json_delta" | "signature_delta" | "citations_delta"), _) => {
                Err(AnswerFault::malformed("a delta of another kind than its block"))
            }
            _ => Ok(()),
        }
    }

    /// Ends the block.
    pub(super) fn stop(self, counters: &mut Counters, sink: &mut impl AnswerSink) -> AnswerResult {
        match self {
            Block::Text { start, citations } => citations.finish(start, counters.characters, sink),
            Block::Reasoning(reasoning) => reasoning.stop(sink),
            Block::Call(call) => call.stop(sink),
            Block::Hidden => Ok(()),
        }
    }

    /// Takes a piece of the text of the block.
    fn piece(&mut self, piece: Option<Raw<'_>>, counters: &mut Counters, sink: &mut impl AnswerSink) -> AnswerResult {
        let Some(text) = piece.and_then(EscapedText::filled) else { return Ok(()) };
        match self {
            Block::Text { .. } => {
                counters.characters = counters.characters.saturating_add(text.characters());
                sink.event(AnswerEvent::Text { choice: 0, text })
            }
            Block::Reasoning(reasoning) => reasoning.text(text, sink),
            Block::Call(call) => call.piece(text, sink),
            Block::Hidden => Ok(()),
        }
    }
}
