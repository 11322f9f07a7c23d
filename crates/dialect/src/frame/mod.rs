//! Framing of streamed events.

use std::borrow::Cow;

use pointsman_domain::FailureKind;

use super::{
    answer::{AnswerFault, AnswerResult},
    json::{Cursor, Picked, Raw},
};

pub mod event_stream;
pub mod sse;

/// Sent during silence: a comment among server-sent events, which every client ignores.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One event of a stream, however it was framed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent<'a> {
    /// Its data; of server-sent events the data lines, joined by LF. Not yet known to be UTF-8.
    pub data: Cow<'a, [u8]>,
    /// Whether the upstream named the event `error`.
    pub is_error: bool,
}

impl StreamEvent<'_> {
    /// Its data as JSON; `None` for the `[DONE]` with which some streams end.
    ///
    /// # Errors
    /// If it is not JSON.
    pub(super) fn value(&self) -> AnswerResult<Option<Raw<'_>>> {
        Ok(self.pick([])?.map(|(value, [])| value))
    }

    /// The same together with the values of several members, in one pass.
    ///
    /// # Errors
    /// If it is not JSON.
    pub(super) fn pick<const N: usize>(&self, names: [&[u8]; N]) -> Result<Option<Picked<'_, N>>, AnswerFault> {
        let text = std::str::from_utf8(&self.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?;
        if text.trim() == "[DONE]" {
            return Ok(None);
        }
        match Cursor::new(text).pick(names) {
            Ok(picked) => Ok(Some(picked)),
            Err(_) if self.is_error => Err(AnswerFault::new(FailureKind::Server, "an error event without JSON")),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// An event is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLong;
