//! An answer that came whole though a stream was asked for, as the one chunk of a stream.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::chunk::ChatRewriter;
use crate::{
    answer::AnswerFault,
    frame::StreamEvent,
    json::{Cursor, Raw, push_u64},
    openai::{
        answer::{rewrite_answer, utf8},
        stream_options::Progress,
    },
};

impl ChatRewriter {
    /// Takes an answer that came whole in the place of a stream.
    ///
    /// # Errors
    /// When it is not valid, or an error.
    pub(crate) fn whole(&mut self, body: &Bytes, out: &mut BytesMut) -> Result<(), AnswerFault> {
        // Reads an error in the place of an answer, and finds what is missing.
        rewrite_answer(body, &self.meter.context)?;
        let chunk = chunk_of(body)?;
        let event = StreamEvent { data: Cow::Borrowed(&chunk), is_error: false };
        self.event(&event, &mut Progress::default(), out)?;
        self.end(out)
    }
}

/// A chat completion as a chunk: what was the message of a choice is its delta.
///
/// # Errors
/// When it is not valid JSON.
fn chunk_of(completion: &[u8]) -> Result<Bytes, AnswerFault> {
    let text = utf8(completion)?;
    let whole = Cursor::new(text.strip_prefix('\u{feff}').unwrap_or(text)).value()?;
    let mut chunk = BytesMut::with_capacity(completion.len() + 64);
    object(&mut chunk, whole, |out, name, value| match name {
        b"choices" => list(out, value, |out, _, choice| {
            object(out, choice, |out, name, value| match name {
                b"message" => object(out, value, |out, name, value| match name {
                    b"tool_calls" => list(out, value, call),
                    _ => out.put_slice(value.bytes()),
                }),
                _ => out.put_slice(value.bytes()),
            });
        }),
        _ => out.put_slice(value.bytes()),
    });
    Ok(chunk.freeze())
}

/// A call, with the index that pieces of calls have.
fn call(out: &mut BytesMut, place: usize, call: Raw<'_>) {
    if call.member(b"index").is_some() || !call.is_filled() {
        return out.put_slice(call.bytes());
    }
    out.put_slice(b"{\"index\":");
    push_u64(out, place as u64);
    out.put_u8(b',');
    out.put_slice(call.bytes().get(1..).unwrap_or_default());
}

/// Copies an object; `write` writes the value of each member. Anything else is copied as it is.
fn object(out: &mut BytesMut, value: Raw<'_>, write: impl Fn(&mut BytesMut, &[u8], Raw<'_>)) {
    if !value.is_object() {
        return out.put_slice(value.bytes());
    }
    out.put_u8(b'{');
    for (place, (key, value)) in value.members().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        let name = key.name();
        out.put_slice(if *name == *b"message" { b"\"delta\"" } else { key.bytes() });
        out.put_u8(b':');
        write(out, &name, value);
    }
    out.put_u8(b'}');
}

/// The same for a list.
fn list(out: &mut BytesMut, value: Raw<'_>, write: impl Fn(&mut BytesMut, usize, Raw<'_>)) {
    if !value.is_array() {
        return out.put_slice(value.bytes());
    }
    out.put_u8(b'[');
    for (place, element) in value.elements().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        write(out, place, element);
    }
    out.put_u8(b']');
}
