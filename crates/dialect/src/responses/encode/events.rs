//! Events of a stream, numbered without gaps.

use bytes::{BufMut as _, BytesMut};

use super::output::ItemHead;
use crate::{
    json::{push_count, push_member},
    neutral::{AnswerForm, EscapedText},
};

/// Writes events, or nothing for an answer that is not streamed.
#[derive(Debug)]
pub(super) struct EventWriter {
    pub(super) out: BytesMut,
    /// Number of the next event.
    sequence: u64,
    is_streamed: bool,
}

/// Where a piece of text belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'h> {
    pub(super) head: &'h ItemHead,
    /// Name and value of the index within the item.
    pub(super) part: Option<(&'static [u8], u64)>,
}

impl EventWriter {
    pub(super) fn new(form: AnswerForm) -> EventWriter {
        EventWriter { out: BytesMut::new(), sequence: 0, is_streamed: form == AnswerForm::Streamed }
    }

    /// Sets the number of the next event.
    pub(super) fn continue_at(&mut self, next: u64) {
        self.sequence = next;
    }

    /// Writes an event. `kind` is its type without `response.`; `members` appends its members, each after a comma.
    pub(super) fn event(&mut self, kind: &str, members: impl FnOnce(&mut BytesMut)) {
        if !self.is_streamed {
            return;
        }
        let out = &mut self.out;
        push!(out; b"event: response.", kind.as_bytes(), b"\ndata: {\"type\":\"response.", kind.as_bytes(),
            br#"","sequence_number":"#, self.sequence);
        self.sequence += 1;
        members(out);
        out.put_slice(b"}\n\n");
    }

    /// Writes an event about a whole item.
    pub(super) fn item(&mut self, kind: &str, place: u64, item: impl FnOnce(&mut BytesMut)) {
        self.event(kind, |out| {
            push!(out; br#","output_index":"#, place, br#","item":"#);
            item(out);
        });
    }

    /// Writes an event about a part of an item.
    pub(super) fn within(&mut self, kind: &str, spot: Spot<'_>, members: impl FnOnce(&mut BytesMut)) {
        self.event(kind, |out| {
            push_member(out, b"item_id", b"");
            spot.head.push_id(out);
            push_count(out, b"output_index", spot.head.place);
            if let Some((name, index)) = spot.part {
                push_count(out, name, index);
            }
            members(out);
        });
    }

    /// Writes a piece of text.
    pub(super) fn delta(&mut self, kind: &str, spot: Spot<'_>, text: &EscapedText<'_>, more: &[u8]) {
        self.within(kind, spot, |out| {
            push!(out; br#","delta":"#, text, more);
        });
    }

    /// Writes the end of a text; `name` is that of the member with the whole of it.
    pub(super) fn text_done(&mut self, kind: &str, spot: Spot<'_>, name: &[u8], text: &[u8], more: &[u8]) {
        self.within(kind, spot, |out| {
            push!(out; br#",""#, name, br#"":""#, text, br#"""#, more);
        });
    }
}
