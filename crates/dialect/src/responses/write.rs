//! Small writers of JSON that both directions of the dialect use.

use bytes::{BufMut as _, BytesMut};

use crate::{json::push_member, neutral::EscapedText};

/// Appends the comma before an element, unless it is the first of its array.
pub(super) fn begin_element(out: &mut BytesMut) {
    if out.last() != Some(&b'[') {
        out.put_u8(b',');
    }
}

/// Appends `,"name":"text"`.
pub(super) fn push_text_member(out: &mut BytesMut, name: &[u8], text: &EscapedText<'_>) {
    push_member(out, name, b"");
    text.push_quoted(out);
}

/// Appends an escaped text as a JSON string.
pub(super) fn push_quoted(escaped: &[u8], out: &mut BytesMut) {
    out.reserve(escaped.len() + 2);
    out.put_u8(b'"');
    out.put_slice(escaped);
    out.put_u8(b'"');
}
