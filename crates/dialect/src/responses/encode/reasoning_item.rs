//! An item of reasoning: its summary, and what the provider needs to take it back.

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{
    events::{EventWriter, Spot},
    output::ItemHead,
};
use crate::{
    json::{Comma, push_member, push_string_member},
    neutral::{EscapedText, ReasoningKind, ReasoningState, StateKey},
    responses::reasoning_state::ForeignReasoning,
};

/// Beginning of the ids of reasoning items.
const PREFIX: &[u8] = b"rs_";

/// The id of the item at an upstream of this API.
fn native_id<'p>(piece: &'p ReasoningState<'_>) -> Option<&'p [u8]> {
    let id = piece.id.as_ref().filter(|_| piece.format == ReasoningFormat::Responses)?;
    id.bytes().starts_with(PREFIX).then_some(id.bytes())
}

/// An item of reasoning that has not ended.
#[derive(Debug)]
pub(super) struct ReasoningItem {
    head: ItemHead,
    format: ReasoningFormat,
    kind: ReasoningKind,
    /// The block that the last piece was of.
    index: u32,
    /// Summaries that have ended, as the array that they will be.
    done: BytesMut,
    /// How many they are.
    parts: u64,
    /// The summary that is written.
    open: Option<BytesMut>,
    /// All text so far, escaped.
    shown: Vec<u8>,
    /// Signature or encrypted content, escaped.
    sealed: Vec<u8>,
    /// What a foreign state belongs to.
    owner: String,
}

impl ReasoningItem {
    /// Announces an item for this piece. An upstream of this API knows its items by their ids.
    pub(super) fn begin(
        head: ItemHead,
        index: u32,
        first: &ReasoningState<'_>,
        events: &mut EventWriter,
    ) -> ReasoningItem {
        let head = match native_id(first) {
            Some(id) => head.with_id(id),
            None => head,
        };
        let item = ReasoningItem {
            head,
            format: first.format,
            kind: first.kind,
            index,
            done: BytesMut::from(&b"["[..]),
            parts: 0,
            open: None,
            shown: Vec::new(),
            sealed: Vec::new(),
            owner: String::new(),
        };
        events.item("output_item.added", item.head.place, |out| item.push(None, out));
        item
    }

    /// Its index in the output.
    pub(super) fn place(&self) -> u64 {
        self.head.place
    }

    /// Whether the piece is of this item. Items of this API have several blocks, and end with their encrypted content; for
    /// other providers, every block is an item.
    pub(super) fn continues(&self, index: u32, piece: &ReasoningState<'_>) -> bool {
        if piece.format != self.format {
            return false;
        }
        match self.format {
            ReasoningFormat::Responses => native_id(piece).is_none_or(|id| self.head.admits(id)),
            _ => index == self.index && piece.kind != ReasoningKind::Encrypted,
        }
    }

    /// Adds a piece. Returns whether the item is at its end.
    pub(super) fn add(&mut self, index: u32, piece: ReasoningState<'_>, events: &mut EventWriter) -> bool {
        let ReasoningState { text, sealed, id, .. } = piece;
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.text(index, text, events);
        }
        let Some(sealed) = sealed.filter(|sealed| !sealed.is_empty()) else { return false };
        self.sealed = sealed.bytes().to_vec();
        self.owner = id.map(|id| id.unescaped().into_owned()).unwrap_or_default();
        true
    }

    fn text(&mut self, index: u32, text: EscapedText<'_>, events: &mut EventWriter) {
        if self.open.is_none() || index != self.index {
            self.end_summary(events);
            self.index = index;
            events.within("reasoning_summary_part.added", self.spot(), |out| {
                out.put_slice(b",\"part\":{\"type\":\"summary_text\",\"text\":\"\"}");
            });
        }
        self.open.get_or_insert_default().put_slice(text.bytes());
        self.shown.extend_from_slice(text.bytes());
        events.delta("reasoning_summary_text.delta", self.spot(), &text, b"");
    }

    fn end_summary(&mut self, events: &mut EventWriter) {
        let Some(summary) = self.open.take() else { return };
        events.text_done("reasoning_summary_text.done", self.spot(), b"text", &summary, b"");
        let mut part = BytesMut::from(&b"{\"type\":\"summary_text\",\"text\":"[..]);
        push!(part; br#"""#, summary, br#""}"#);
        events.within("reasoning_summary_part.done", self.spot(), |out| push_member(out, b"part", &part));
        push!(self.done; Comma, part);
        self.parts += 1;
    }

    /// Ends the item. Returns the whole of it.
    pub(super) fn end(mut self, key: &StateKey, events: &mut EventWriter) -> Bytes {
        self.end_summary(events);
        let mut item = BytesMut::with_capacity(self.done.len() + self.sealed.len() + 200);
        self.push(Some(key), &mut item);
        events.item("output_item.done", self.head.place, |out| out.put_slice(&item));
        item.freeze()
    }

    fn spot(&self) -> Spot<'_> {
        Spot { head: &self.head, part: Some((b"summary_index", self.parts)) }
    }

    /// Appends the item, with its encrypted content if the key for it is given.
    fn push(&self, key: Option<&StateKey>, out: &mut BytesMut) {
        self.head.push(b"reasoning", out);
        push!(out; br#","summary":"#, self.done, b"]");
        let sealed = EscapedText::plain(std::str::from_utf8(&self.sealed).unwrap_or_default());
        match key {
            None => push_member(out, b"encrypted_content", b"null"),
            Some(_) if self.format == ReasoningFormat::Responses && sealed.is_empty() => {
                push_member(out, b"encrypted_content", b"null");
            }
            Some(_) if self.format == ReasoningFormat::Responses => sealed.push_member(out, b"encrypted_content"),
            Some(key) => {
                let shown = EscapedText::plain(std::str::from_utf8(&self.shown).unwrap_or_default());
                let foreign = ForeignReasoning {
                    format: self.format,
                    kind: self.kind,
                    id: self.owner.clone(),
                    data: sealed.unescaped().into_owned(),
                };
                push_string_member(out, b"encrypted_content", &foreign.seal(key, &shown.unescaped()));
            }
        }
        out.put_u8(b'}');
    }
}
