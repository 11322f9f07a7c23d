//! A message with its texts and refusals.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{
    events::{EventWriter, Spot},
    output::{ItemHead, ItemStatus},
};
use crate::{
    json::{Comma, Raw, push_comma, push_count},
    neutral::EscapedText,
};

/// Kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    Text,
    Refusal,
}

/// A message that has not ended.
#[derive(Debug)]
pub(super) struct MessageItem {
    head: ItemHead,
    /// Parts that have ended, as the array that they will be.
    done: BytesMut,
    /// How many they are.
    parts: u64,
    open: Option<Part>,
}

/// The part that is written.
#[derive(Debug)]
struct Part {
    kind: TextKind,
    text: BytesMut,
    /// Annotations so far, as the array that they will be.
    annotations: BytesMut,
    annotation_count: u64,
    /// Log probabilities so far, as the array that they will be.
    logprobs: BytesMut,
}

impl Part {
    fn new(kind: TextKind) -> Part {
        Part {
            kind,
            text: BytesMut::new(),
            annotations: BytesMut::from(&b"["[..]),
            annotation_count: 0,
            logprobs: BytesMut::from(&b"["[..]),
        }
    }

    /// Appends the part.
    fn push(&self, out: &mut BytesMut) {
        match self.kind {
            TextKind::Text => {
                push!(out; br#"{"type":"output_text","text":""#, self.text, br#"","annotations":"#, self.annotations,
                    br#"],"logprobs":"#, self.logprobs, b"]}");
            }
            TextKind::Refusal => push!(out; br#"{"type":"refusal","refusal":""#, self.text, br#""}"#),
        }
    }
}

impl MessageItem {
    /// Announces a message.
    pub(super) fn begin(head: ItemHead, events: &mut EventWriter) -> MessageItem {
        let message = MessageItem { head, done: BytesMut::from(&b"["[..]), parts: 0, open: None };
        let place = message.head.place;
        events.item("output_item.added", place, |out| message.push(ItemStatus::InProgress, out));
        message
    }

    /// Its index in the output.
    pub(super) fn place(&self) -> u64 {
        self.head.place
    }

    /// Adds a piece of a text, in a new part if the open one is of another kind.
    pub(super) fn text(&mut self, kind: TextKind, text: EscapedText<'_>, events: &mut EventWriter) {
        if self.open.as_ref().is_none_or(|part| part.kind != kind) {
            self.end_part(events);
            let part = Part::new(kind);
            events.within("content_part.added", self.spot(), |out| {
                out.put_slice(b",\"part\":");
                part.push(out);
            });
            self.open = Some(part);
        }
        let Some(part) = &mut self.open else { return };
        part.text.put_slice(text.bytes());
        let (kind, more): (&str, &[u8]) = match part.kind {
            TextKind::Text => ("output_text.delta", b",\"logprobs\":[]"),
            TextKind::Refusal => ("refusal.delta", b""),
        };
        events.delta(kind, self.spot(), &text, more);
    }

    /// Adds an annotation of chat, or a citation of a document, to the open text. One of another kind has no form here.
    pub(super) fn annotate(&mut self, json: &[u8], events: &mut EventWriter) {
        let parts = self.parts;
        let Some(part) = self.open.as_mut().filter(|part| part.kind == TextKind::Text) else { return };
        let Some(annotation) = citation(json) else { return };
        push!(part.annotations; Comma, annotation);
        let index = part.annotation_count;
        part.annotation_count += 1;
        let spot = Spot { head: &self.head, part: Some((b"content_index", parts)) };
        events.within("output_text.annotation.added", spot, |out| {
            push!(out; br#","annotation_index":"#, index, br#","annotation":"#, annotation);
        });
    }

    /// Adds log probabilities to the open text: the elements of an array.
    pub(super) fn logprobs(&mut self, list: &[u8]) {
        if let Some(part) = self.open.as_mut().filter(|part| part.kind == TextKind::Text && !list.is_empty()) {
            push!(part.logprobs; Comma, list);
        }
    }

    /// Ends the message. Returns the whole of it.
    pub(super) fn end(mut self, status: ItemStatus, events: &mut EventWriter) -> Bytes {
        self.end_part(events);
        let mut item = BytesMut::with_capacity(self.done.len() + 200);
        self.push(status, &mut item);
        events.item("output_item.done", self.head.place, |out| out.put_slice(&item));
        item.freeze()
    }

    fn end_part(&mut self, events: &mut EventWriter) {
        let Some(part) = self.open.take() else { return };
        match part.kind {
            TextKind::Text => {
                let more = [b",\"logprobs\":", &part.logprobs[..], b"]"].concat();
                events.text_done("output_text.done", self.spot(), b"text", &part.text, &more);
            }
            TextKind::Refusal => events.text_done("refusal.done", self.spot(), b"refusal", &part.text, b""),
        }
        events.within("content_part.done", self.spot(), |out| {
            out.put_slice(b",\"part\":");
            part.push(out);
        });
        push_comma(&mut self.done);
        part.push(&mut self.done);
        self.parts += 1;
    }

    /// Where the next piece of text belongs.
    fn spot(&self) -> Spot<'_> {
        Spot { head: &self.head, part: Some((b"content_index", self.parts)) }
    }

    fn push(&self, status: ItemStatus, out: &mut BytesMut) {
        self.head.push(b"message", out);
        push!(out; br#","status":""#, status.as_str().as_bytes(), br#"","role":"assistant","content":"#, self.done,
            b"]}");
    }
}

/// An annotation of this API: of a page, whose members stand in an object of their own in chat, or of a document.
fn citation(json: &[u8]) -> Option<BytesMut> {
    let annotation = Raw::whole_of(json)?;
    let Some(page) = annotation.member(b"url_citation") else { return document_citation(annotation) };
    let url = page.member(b"url").filter(|url| url.is_string())?;
    let number = |name: &[u8]| page.member(name).and_then(Raw::count).unwrap_or(0);
    let mut out = BytesMut::from(&b"{\"type\":\"url_citation\""[..]);
    for name in [&b"start_index"[..], b"end_index"] {
        push_count(&mut out, name, number(name));
    }
    push!(out; br#","url":"#, url.bytes(), br#","title":"#,
        page.member(b"title").filter(|title| title.is_string()).unwrap_or(url).bytes(), b"}");
    Some(out)
}

/// A citation of a document in the form of Anthropic, as a citation of a file.
fn document_citation(citation: Raw<'_>) -> Option<BytesMut> {
    let [index, title, file] = citation.pick([b"document_index", b"document_title", b"file_id"]);
    let index = index.and_then(Raw::count)?;
    let written =
        |text: Option<Raw<'_>>| text.filter(|text| text.is_string()).map_or(&b"\"\""[..], Raw::bytes).to_vec();
    let mut out = BytesMut::from(&b"{\"type\":\"file_citation\""[..]);
    push!(out; br#","file_id":"#, &written(file), br#","filename":"#, &written(title), br#","index":"#, index, b"}");
    Some(out)
}
