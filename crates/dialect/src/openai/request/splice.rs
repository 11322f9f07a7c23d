//! Writes a body from slices of the original body, as few as possible.
//!
//! Adjacent members that are kept are copied as one slice, with the comma and the space between them. A long slice at the end
//! is not copied.

use bytes::Bytes;

use super::{
    byte_span::{ByteSpan, Edit, Replacement, value_start},
    parsed_body::{BodyMember, ParsedBody},
};
use crate::outgoing::SentBody;

/// Room for what is written between the slices.
const ROOM: usize = 192;
/// From this length on the last slice is shared with the original. Less is copied sooner than sent in two parts.
const LEAST_SHARED: usize = 16 * 1024;

/// A body under construction.
pub(super) struct Splice<'e> {
    envelope: &'e ParsedBody,
    out: Vec<u8>,
    /// The range of the original that is copied next. It grows while adjacent members are kept.
    pending: Option<ByteSpan>,
    /// Whether the role `developer` may go as it is.
    knows_developer_role: bool,
}

impl<'e> Splice<'e> {
    /// Begins the body.
    pub(super) fn new(envelope: &'e ParsedBody, knows_developer_role: bool) -> Splice<'e> {
        let added = envelope.metadata.as_ref().map_or(0, String::len);
        let mut out = Vec::with_capacity(envelope.body.len().min(LEAST_SHARED) + added + ROOM);
        out.push(b'{');
        Splice { envelope, out, pending: None, knows_developer_role }
    }

    /// Copies a member.
    pub(super) fn keep(&mut self, member: &BodyMember) {
        self.begin(member);
        self.edit(member);
    }

    /// Copies a member under another name.
    pub(super) fn rename(&mut self, member: &BodyMember, name: &str) {
        self.begin(member);
        self.replace(member.key.clone(), |out, _| string(out, name));
        self.edit(member);
    }

    /// Copies a member with a string in the place of its value.
    pub(super) fn revalue(&mut self, member: &BodyMember, text: &str) {
        self.begin(member);
        let start = value_start(&self.envelope.body, member.key.end);
        self.replace(start..member.end, |out, _| string(out, text));
    }

    /// Leaves a member out: whatever is kept next does not follow on what was kept before.
    pub(super) fn skip(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.out.extend_from_slice(self.envelope.body.get(pending).unwrap_or_default());
        }
    }

    /// Adds a member of our own: `name` is plain, `value` is JSON.
    pub(super) fn add(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        self.skip();
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        value(&mut self.out);
    }

    /// Adds a whole member that was written before.
    pub(super) fn add_written(&mut self, member: &str) {
        self.skip();
        self.comma();
        self.out.extend_from_slice(member.as_bytes());
    }

    /// Ends the body.
    pub(super) fn finish(mut self) -> SentBody {
        let body = &self.envelope.body;
        let ends = |pending: &ByteSpan| body.get(pending.end..).is_some_and(|left| left.trim_ascii() == b"}");
        if let Some(pending) = self.pending.take_if(|pending| pending.len() >= LEAST_SHARED && ends(pending)) {
            return SentBody::new(self.out.into(), body.slice(pending.start..));
        }
        self.skip();
        self.out.push(b'}');
        Bytes::from(self.out).into()
    }

    fn comma(&mut self) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
    }

    fn begin(&mut self, member: &BodyMember) {
        if let Some(pending) = &mut self.pending {
            pending.end = member.end;
            return;
        }
        self.comma();
        self.pending = Some(member.key.start..member.end);
    }

    /// Writes the places inside a member differently where that is wanted.
    fn edit(&mut self, member: &BodyMember) {
        let envelope = self.envelope;
        let first = envelope.edits.partition_point(|edit| edit.span.start < member.key.start);
        let edits = envelope.edits.iter().skip(first).take_while(|edit| edit.span.start < member.end);
        for Edit { span, want } in edits {
            match want {
                Replacement::SystemRole if self.knows_developer_role => {}
                Replacement::SystemRole => self.replace(span.clone(), |out, _| out.extend_from_slice(b"\"system\"")),
                Replacement::EmptyText => self.replace(span.clone(), |out, _| out.extend_from_slice(b"\"\"")),
                Replacement::WithEmptyContent => self.replace(span.clone(), |out, role| {
                    out.extend_from_slice(role);
                    out.extend_from_slice(b",\"content\":\"\"");
                }),
                Replacement::Integer(value) => {
                    self.replace(span.clone(), |out, _| out.extend_from_slice(value.to_string().as_bytes()));
                }
                Replacement::ImageObject => self.replace(span.clone(), |out, address| {
                    out.extend_from_slice(b"{\"url\":");
                    out.extend_from_slice(address);
                    out.push(b'}');
                }),
            }
        }
    }

    /// Writes something in the place of a stretch of the pending slice; it sees what stood there.
    fn replace(&mut self, span: ByteSpan, write: impl FnOnce(&mut Vec<u8>, &[u8])) {
        let Some(pending) = &mut self.pending else { return };
        let body = &self.envelope.body;
        self.out.extend_from_slice(body.get(pending.start..span.start).unwrap_or_default());
        pending.start = span.end;
        write(&mut self.out, body.get(span).unwrap_or_default());
    }
}

/// Writes a JSON string.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}
