//! The Messages API on both sides: only what must change is rewritten, every other byte passes as it came.
#![cfg_attr(not(test), expect(dead_code, reason = "wired with the Messages door"))]

use std::ops::Range;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::dialect::{
    json::{Cursor, JsonFault, Raw, push_string},
    openai::request::{is_for_gateway, is_routing_parameter},
};

/// The body of a client for an upstream: `model` is the upstream's name for the model, and the members for the gateway, at
/// the top and in `metadata`, are cut.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_request(body: &str, model: &str) -> Result<Bytes, JsonFault> {
    let whole = object(body)?;
    let name = quoted(model);
    let mut has_model = false;
    let mut splice = Splice::new(body);
    splice.members(whole, |key, value, splice| {
        match &*key.name() {
            b"model" => {
                has_model = true;
                splice.replace(value, &name);
            }
            // Other members of it are for the upstream.
            b"metadata" => splice.members(value, |key, _, _| {
                let name = key.name();
                let is_ours = std::str::from_utf8(&name).is_ok_and(is_routing_parameter);
                if is_ours { Fate::Cut } else { Fate::Kept }
            }),
            b"stream_options" => {}
            name if std::str::from_utf8(name).is_ok_and(is_for_gateway) => return Fate::Cut,
            _ => {}
        }
        Fate::Kept
    });
    let spliced = splice.finish();
    Ok(if has_model { spliced } else { with_model(&spliced, &name) })
}

/// A whole message with our `id` and `model`.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_answer(body: &str, id: &str, model: &str) -> Result<Bytes, JsonFault> {
    let message = object(body)?;
    let mut splice = Splice::new(body);
    identify(message, id, model, &mut splice);
    Ok(splice.finish())
}

/// The data of a stream's event with our `id` and `model`; `None` if it passes as it came, as all do but `message_start`.
///
/// # Errors
/// When the data is not a JSON object.
pub(crate) fn splice_event(data: &str, id: &str, model: &str) -> Result<Option<Bytes>, JsonFault> {
    // Most events are deltas of text, in which the word stands at most by chance. It may be written with an escape.
    if memchr::memmem::find(data.as_bytes(), b"message_start").is_none() && !data.contains("\\u") {
        return Ok(None);
    }
    let event = object(data)?;
    if event.member(b"type").and_then(Raw::text).as_deref() != Some("message_start") {
        return Ok(None);
    }
    let Some(message) = event.member(b"message").filter(|message| message.is_object()) else { return Ok(None) };
    let mut splice = Splice::new(data);
    identify(message, id, model, &mut splice);
    Ok(Some(splice.finish()))
}

fn identify<'a>(message: Raw<'a>, id: &str, model: &str, splice: &mut Splice<'a>) {
    for (key, value) in message.members() {
        match &*key.name() {
            b"id" => splice.replace(value, &quoted(id)),
            b"model" => splice.replace(value, &quoted(model)),
            _ => {}
        }
    }
}

fn object(text: &str) -> Result<Raw<'_>, JsonFault> {
    let mut cursor = Cursor::new(text);
    let value = cursor.value()?;
    cursor.end()?;
    if value.is_object() { Ok(value) } else { Err(JsonFault::Invalid) }
}

fn quoted(text: &str) -> BytesMut {
    let mut out = BytesMut::new();
    push_string(&mut out, text);
    out
}

/// The object with `model` as its first member.
fn with_model(object: &[u8], name: &[u8]) -> Bytes {
    let start = memchr::memchr(b'{', object).map_or(0, |brace| brace + 1);
    let (before, after) = object.split_at_checked(start).unwrap_or((object, b""));
    let is_empty = after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let parts: [&[u8]; 5] = [before, b"\"model\":", name, if is_empty { b"" } else { b"," }, after];
    Bytes::from(parts.concat())
}

/// What becomes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Cut,
}

/// A text of which some stretches are replaced.
struct Splice<'a> {
    text: &'a [u8],
    out: BytesMut,
    /// Up to where the text is written or cut.
    at: usize,
}

impl<'a> Splice<'a> {
    fn new(text: &'a str) -> Splice<'a> {
        Splice { text: text.as_bytes(), out: BytesMut::with_capacity(text.len() + 64), at: 0 }
    }

    /// Visits the members of an object in order, and cuts those that `visit` says, each with one comma.
    fn members(&mut self, object: Raw<'a>, mut visit: impl FnMut(Raw<'a>, Raw<'a>, &mut Splice<'a>) -> Fate) {
        let mut members = object.members().peekable();
        let mut has_kept = false;
        // Where a cut begins: behind the last member that is kept, or before the first that is cut.
        let mut kept_end = None;
        while let Some((key, value)) = members.next() {
            let Range { start, .. } = self.span(key);
            let Range { end, .. } = self.span(value);
            if visit(key, value, self) == Fate::Kept {
                has_kept = true;
                kept_end = Some(end);
                continue;
            }
            match (has_kept, members.peek()) {
                (true, _) => self.cut(kept_end.unwrap_or(start)..end),
                (false, Some((next, _))) => self.cut(start..self.span(*next).start),
                (false, None) => self.cut(start..end),
            }
            kept_end = Some(end);
        }
    }

    fn replace(&mut self, value: Raw<'a>, with: &[u8]) {
        let span = self.span(value);
        self.cut(span);
        self.out.put_slice(with);
    }

    /// Writes everything before the stretch and leaves the stretch out.
    fn cut(&mut self, span: Range<usize>) {
        self.out.put_slice(self.text.get(self.at..span.start).unwrap_or_default());
        self.at = self.at.max(span.end);
    }

    /// Where a value stands in the text.
    fn span(&self, value: Raw<'a>) -> Range<usize> {
        let start = (value.bytes().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + value.bytes().len()
    }

    fn finish(mut self) -> Bytes {
        self.out.put_slice(self.text.get(self.at..).unwrap_or_default());
        self.out.freeze()
    }
}
