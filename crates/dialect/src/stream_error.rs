//! The error with which a stream ends.

use std::{borrow::Cow, sync::Arc};

use bytes::{BufMut as _, BytesMut};

use super::json::{push_member, push_string_member};

/// An error for the client in the middle of a stream, in the words of the gateway's error bodies. Which words
/// belong to which failure is decided where status codes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamError {
    /// The status it would have had.
    pub code: u16,
    /// One sentence for a human.
    pub message: Cow<'static, str>,
    /// `error.type`.
    pub kind: &'static str,
    /// `error.metadata.error_type`.
    pub error_type: &'static str,
    /// `error.metadata.reason`.
    pub reason: Option<&'static str>,
    /// `error.metadata.provider_name`.
    pub provider_name: Option<Arc<str>>,
    /// `error.metadata.request_id`.
    pub request_id: Option<Arc<str>>,
    /// `error.metadata.previous_errors`, written already: the JSON of a list.
    pub previous_errors: Option<Box<str>>,
    /// Whether the same request fails again, whenever it is sent: only the gateway's administrator can help.
    pub is_final: bool,
}

impl StreamError {
    /// The error of an answer that the upstream itself calls failed.
    pub(crate) fn broken_answer() -> StreamError {
        StreamError {
            code: 502,
            message: "The provider ended its answer with an error.".into(),
            kind: "provider_error",
            error_type: "provider_unavailable",
            reason: None,
            provider_name: None,
            request_id: None,
            previous_errors: None,
            is_final: false,
        }
    }

    /// Appends `,"error":{…}`.
    pub(crate) fn push(&self, out: &mut BytesMut) {
        push!(out; br#","error":{"code":"#, u64::from(self.code));
        let texts = [(&b"message"[..], &*self.message), (b"type", self.kind)];
        for (name, text) in texts {
            push_string_member(out, name, text);
        }
        push!(out; br#","param":null,"metadata":{"error_type":"#, self.error_type);
        let optional: [(&[u8], Option<&str>); 3] = [
            (b"reason", self.reason),
            (b"provider_name", self.provider_name.as_deref()),
            (b"request_id", self.request_id.as_deref()),
        ];
        for (name, text) in optional {
            if let Some(text) = text {
                push_string_member(out, name, text);
            }
        }
        if let Some(list) = &self.previous_errors {
            push_member(out, b"previous_errors", list.as_bytes());
        }
        out.put_slice(b"}}");
    }
}
