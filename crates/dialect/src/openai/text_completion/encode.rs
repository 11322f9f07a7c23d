//! Writes what the gateway itself says in a completion of a text: that it ends, that it failed, that it is still being made.

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};

use super::OBJECT;
use crate::{
    answer::AnswerFault,
    frame::KEEP_ALIVE,
    json::{Raw, object, push_member, push_string, push_u64},
    openai::answer::utf8,
    stream_error::StreamError,
};

/// Writes one stream. Every chunk names the generation.
#[derive(Debug)]
pub(crate) struct TextEncoder {
    id: Arc<str>,
    model: Arc<str>,
    created: i64,
    out: BytesMut,
    is_over: bool,
}

impl TextEncoder {
    pub(crate) fn new(id: Arc<str>, model: Arc<str>, created: i64) -> TextEncoder {
        TextEncoder { id, model, created, out: BytesMut::new(), is_over: false }
    }

    /// Takes the chunk of chat that ends an answer at its limit, JSON without framing.
    ///
    /// # Errors
    /// Only when it is not one of the gateway's chunks.
    pub(crate) fn chunk(&mut self, chunk: &[u8]) -> Result<(), AnswerFault> {
        let out = &mut self.out;
        let mut separator: &[u8] = b"data: {";
        for (key, value) in object(utf8(chunk)?)?.members() {
            out.put_slice(std::mem::replace(&mut separator, b","));
            out.put_slice(key.bytes());
            out.put_u8(b':');
            match &*key.name() {
                b"object" => out.put_slice(OBJECT),
                b"choices" => push_choices(value, out),
                _ => out.put_slice(value.bytes()),
            }
        }
        out.put_slice(b"}\n\n");
        Ok(())
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.out.put_slice(b"data: [DONE]\n\n");
        }
    }

    /// Ends the stream with an error.
    pub(crate) fn fail(&mut self, error: &StreamError) {
        let out = &mut self.out;
        out.put_slice(b"data: {\"id\":");
        push_string(out, &self.id);
        push_member(out, b"object", OBJECT);
        push_member(out, b"created", self.created.to_string().as_bytes());
        push_member(out, b"model", b"");
        push_string(out, &self.model);
        error.push(out);
        out.put_slice(b",\"choices\":[{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"error\"}]}\n\n");
        self.finish();
    }

    /// Says that the answer is still being made.
    pub(crate) fn keep_alive(&mut self) {
        self.out.put_slice(KEEP_ALIVE);
    }

    /// What there is to send.
    pub(crate) fn take(&mut self) -> BytesMut {
        self.out.split()
    }
}

/// The choices of a chunk, without a text.
fn push_choices(choices: Raw<'_>, out: &mut BytesMut) {
    out.put_u8(b'[');
    for (place, choice) in choices.elements().enumerate() {
        out.put_slice(if place > 0 { b",{\"text\":\"\"" } else { b"{\"text\":\"\"" });
        push_member(out, b"index", b"");
        push_u64(out, choice.member(b"index").and_then(Raw::count).unwrap_or(0));
        out.put_slice(b",\"logprobs\":null");
        push_member(out, b"finish_reason", choice.member(b"finish_reason").map_or(b"null", Raw::bytes));
        out.put_u8(b'}');
    }
    out.put_u8(b']');
}
