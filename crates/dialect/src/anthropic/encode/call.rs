//! The call whose block is open: its arguments, which must become one JSON object.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::AnswerForm;
use crate::{
    answer::{AnswerFault, AnswerResult},
    neutral::{EscapedText, ObjectScan, ToolKind, push_arguments_object},
};

/// Passes the arguments on as they come once they begin like an object, and holds them back otherwise.
#[derive(Debug)]
pub(super) struct OpenToolCall {
    call: u32,
    kind: ToolKind,
    /// Whether arguments may be sent in pieces.
    is_streamed: bool,
    /// Arguments that were not passed on.
    held: BytesMut,
    has_passed: bool,
    scan: ObjectScan,
}

impl OpenToolCall {
    pub(super) fn new(call: u32, kind: ToolKind, form: AnswerForm) -> OpenToolCall {
        let scan = if kind == ToolKind::Function { ObjectScan::Before } else { ObjectScan::Other };
        let is_streamed = form == AnswerForm::Streamed;
        OpenToolCall { call, kind, is_streamed, held: BytesMut::new(), has_passed: false, scan }
    }

    /// Its place among the calls.
    pub(super) fn call(&self) -> u32 {
        self.call
    }

    /// Whether the arguments are a complete object.
    pub(super) fn is_complete(&self) -> bool {
        self.scan.is_complete()
    }

    /// Checks that so many more bytes may be held.
    ///
    /// # Errors
    /// When they are too many.
    pub(super) fn check(&self, more: usize, limit: usize) -> AnswerResult {
        if !self.has_passed && self.held.len() + more > limit {
            return Err(AnswerFault::malformed("arguments longer than allowed"));
        }
        Ok(())
    }

    /// Takes a piece and returns what may be passed on.
    pub(super) fn piece<'a>(&mut self, text: EscapedText<'a>) -> Option<EscapedText<'a>> {
        self.scan.pass(text.bytes());
        if self.has_passed {
            return (!text.is_empty()).then_some(text);
        }
        if !self.is_streamed || !self.scan.is_object() {
            self.held.put_slice(text.bytes());
            return None;
        }
        self.has_passed = true;
        Some(if self.held.is_empty() { text } else { escaped(&self.held.split()).joined(&text) })
    }

    /// The arguments, JSON, unless they were passed on.
    pub(super) fn finish(self) -> Option<Bytes> {
        if self.has_passed {
            return None;
        }
        let mut object = BytesMut::with_capacity(self.held.len() + 16);
        let held = escaped(&self.held);
        match self.kind {
            ToolKind::Function => {
                push_arguments_object(&held, &mut object);
            }
            ToolKind::Custom => push!(object; br#"{"input":"#, held, b"}"),
        }
        Some(object.freeze())
    }
}

fn escaped(bytes: &[u8]) -> EscapedText<'static> {
    EscapedText::plain(std::str::from_utf8(bytes).unwrap_or_default()).borrowed().into_owned()
}
