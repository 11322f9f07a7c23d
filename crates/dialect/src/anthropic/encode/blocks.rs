//! The bytes of content blocks: events of a stream, or elements of the array `content`.

use bytes::{BufMut as _, BytesMut};

use super::{AnswerForm, call::OpenToolCall};
use crate::{
    json::{push_array, push_member},
    neutral::EscapedText,
};

/// Kinds of blocks that stay open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Thinking,
    Call,
}

/// Writes blocks one after the other. The caller ends each before the next.
#[derive(Debug)]
pub(super) struct BlockWriter {
    form: AnswerForm,
    pub(super) out: BytesMut,
    /// Blocks so far.
    count: u64,
    /// Citations of the open text of a whole answer, which stand behind the text.
    citations: BytesMut,
}

impl BlockWriter {
    pub(super) fn new(form: AnswerForm) -> BlockWriter {
        BlockWriter { form, out: BytesMut::new(), count: 0, citations: BytesMut::new() }
    }

    pub(super) fn begin_text(&mut self) {
        self.begin(b"{\"type\":\"text\",\"text\":\"");
        self.end_start(b"\"}");
    }

    pub(super) fn text(&mut self, text: &EscapedText<'_>) {
        self.piece(b"text_delta\",\"text\":\"", text);
    }

    pub(super) fn cite(&mut self, citation: &[u8]) {
        if self.form == AnswerForm::Streamed {
            self.delta(b"citations_delta\",\"citation\":");
            push!(self.out; citation, b"}}\n\n");
            return;
        }
        push!(self.citations; b",", citation);
    }

    pub(super) fn end_text(&mut self) {
        if self.form == AnswerForm::Streamed {
            return self.stop();
        }
        self.out.put_u8(b'"');
        push_array(&mut self.out, b"citations", &self.citations.split());
        self.out.put_u8(b'}');
    }

    pub(super) fn begin_thinking(&mut self) {
        self.begin(b"{\"type\":\"thinking\",\"thinking\":\"");
        self.end_start(b"\",\"signature\":\"\"}");
    }

    pub(super) fn reasoning(&mut self, text: &EscapedText<'_>) {
        self.piece(b"thinking_delta\",\"thinking\":\"", text);
    }

    pub(super) fn end_thinking(&mut self, signature: &EscapedText<'_>) {
        if self.form == AnswerForm::Streamed {
            self.piece(b"signature_delta\",\"signature\":\"", signature);
            return self.stop();
        }
        push!(self.out; br#"","signature":"#, signature, b"}");
    }

    /// Reasoning that nobody can read. It has no deltas.
    pub(super) fn redacted(&mut self, data: &EscapedText<'_>) {
        self.begin(b"{\"type\":\"redacted_thinking\",\"data\":");
        push!(self.out; data, b"}");
        if self.form == AnswerForm::Streamed {
            self.end_start(b"");
            self.stop();
        }
    }

    pub(super) fn begin_call(&mut self, id: &EscapedText<'_>, name: &EscapedText<'_>) {
        self.begin(b"{\"type\":\"tool_use\",\"id\":");
        push!(self.out; id, br#","name":"#, name, br#","input":"#);
        self.end_start(b"{}}");
    }

    /// A piece of a call's arguments.
    pub(super) fn fragment(&mut self, text: &EscapedText<'_>) {
        self.piece(b"input_json_delta\",\"partial_json\":\"", text);
    }

    pub(super) fn end_call(&mut self, call: OpenToolCall) {
        let rest = call.finish();
        if self.form == AnswerForm::Streamed {
            if let Some(object) = rest {
                self.fragment(&EscapedText::escaping(&String::from_utf8_lossy(&object)));
            }
            return self.stop();
        }
        // Only the arguments of a stream are sent in pieces.
        push!(self.out; rest.as_deref().unwrap_or(b"{}"), b"}");
    }

    /// An empty delta of the open block.
    pub(super) fn nothing(&mut self, kind: BlockKind) {
        let empty = EscapedText::plain("");
        match kind {
            BlockKind::Text => self.text(&empty),
            BlockKind::Thinking => self.reasoning(&empty),
            BlockKind::Call => self.fragment(&empty),
        }
    }

    pub(super) fn ping(&mut self) {
        self.out.put_slice(b"event: ping\ndata: {\"type\":\"ping\"}\n\n");
    }

    /// Writes up to the beginning of the block's text.
    fn begin(&mut self, block: &[u8]) {
        let index = self.count;
        self.count += 1;
        match self.form {
            AnswerForm::Streamed => {
                self.event(b"content_block_start", index);
                push_member(&mut self.out, b"content_block", b"");
            }
            AnswerForm::Whole if index > 0 => self.out.put_u8(b','),
            AnswerForm::Whole => {}
        }
        self.out.put_slice(block);
    }

    /// Ends the event that starts a block; `rest` is the rest of the block in it.
    fn end_start(&mut self, rest: &[u8]) {
        if self.form == AnswerForm::Streamed {
            push!(self.out; rest, b"}\n\n");
        }
    }

    fn piece(&mut self, delta: &[u8], text: &EscapedText<'_>) {
        if self.form == AnswerForm::Whole {
            return self.out.put_slice(text.bytes());
        }
        self.delta(delta);
        push!(self.out; text.bytes(), b"\"}}\n\n");
    }

    fn delta(&mut self, delta: &[u8]) {
        self.event(b"content_block_delta", self.count.saturating_sub(1));
        push!(self.out; br#","delta":{"type":""#, delta);
    }

    fn stop(&mut self) {
        self.event(b"content_block_stop", self.count.saturating_sub(1));
        self.out.put_slice(b"}\n\n");
    }

    fn event(&mut self, name: &[u8], index: u64) {
        self.out.reserve(160);
        push!(self.out; b"event: ", name, b"\ndata: {\"type\":\"", name, br#"","index":"#, index);
    }
}
