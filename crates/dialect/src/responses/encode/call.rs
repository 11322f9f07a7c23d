//! A call of a tool.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{
    events::{EventWriter, Spot},
    output::{ItemHead, ItemStatus},
};
use crate::{
    json::{Raw, push_string_member},
    neutral::{EscapedText, ToolKind},
};

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct ToolCallItem {
    head: ItemHead,
    /// Its number among the calls of the answer.
    call: u32,
    kind: ToolKind,
    /// `,"call_id":…,"name":…`, and the namespace if there is one.
    names: BytesMut,
    text: BytesMut,
}

impl ToolCallItem {
    /// Announces a call. `original`: namespace and name of a function whose name is a flat one.
    pub(super) fn begin(
        head: ItemHead,
        call: u32,
        id: &EscapedText<'_>,
        name: &EscapedText<'_>,
        original: Option<(&str, &str)>,
        kind: ToolKind,
        events: &mut EventWriter,
    ) -> ToolCallItem {
        let mut names = BytesMut::new();
        id.push_member(&mut names, b"call_id");
        match original {
            None => name.push_member(&mut names, b"name"),
            Some((namespace, name)) => {
                for (member, text) in [(&b"namespace"[..], namespace), (b"name", name)] {
                    push_string_member(&mut names, member, text);
                }
            }
        }
        let item = ToolCallItem { head, call, kind, names, text: BytesMut::new() };
        events.item("output_item.added", item.head.place, |out| item.push(ItemStatus::InProgress, out));
        item
    }

    /// Its number among the calls of the answer.
    pub(super) fn call(&self) -> u32 {
        self.call
    }

    /// Its index in the output.
    pub(super) fn place(&self) -> u64 {
        self.head.place
    }

    /// Whether its arguments are a whole object. Free text is never known to be whole.
    pub(super) fn is_complete(&self) -> bool {
        let text = EscapedText::plain(std::str::from_utf8(&self.text).unwrap_or_default());
        self.kind == ToolKind::Function && Raw::whole(&text.unescaped()).is_ok_and(Raw::is_object)
    }

    /// Adds a piece of the arguments.
    pub(super) fn piece(&mut self, text: &EscapedText<'_>, events: &mut EventWriter) {
        if text.is_empty() {
            return;
        }
        self.text.put_slice(text.bytes());
        let kind = match self.kind {
            ToolKind::Function => "function_call_arguments.delta",
            ToolKind::Custom => "custom_tool_call_input.delta",
        };
        events.delta(kind, Spot { head: &self.head, part: None }, text, b"");
    }

    /// Ends the call. Returns the whole of it. A function without arguments gets an empty object, which clients parse.
    pub(super) fn end(mut self, status: ItemStatus, events: &mut EventWriter) -> Bytes {
        let is_empty = self.text.is_empty() && self.kind == ToolKind::Function;
        if is_empty && status == ItemStatus::Completed {
            self.piece(&EscapedText::plain("{}"), events);
        }
        let (kind, name): (&str, &[u8]) = match self.kind {
            ToolKind::Function => ("function_call_arguments.done", b"arguments"),
            ToolKind::Custom => ("custom_tool_call_input.done", b"input"),
        };
        events.text_done(kind, Spot { head: &self.head, part: None }, name, &self.text, b"");
        let mut item = BytesMut::with_capacity(self.text.len() + 200);
        self.push(status, &mut item);
        events.item("output_item.done", self.head.place, |out| out.put_slice(&item));
        item.freeze()
    }

    fn push(&self, status: ItemStatus, out: &mut BytesMut) {
        let (kind, text): (&[u8], &[u8]) = match self.kind {
            ToolKind::Function => (b"function_call", b"arguments"),
            ToolKind::Custom => (b"custom_tool_call", b"input"),
        };
        self.head.push(kind, out);
        push!(out; br#","status":""#, status.as_str().as_bytes(), br#"""#, self.names, br#",""#, text, br#"":""#,
            self.text, br#""}"#);
    }
}
