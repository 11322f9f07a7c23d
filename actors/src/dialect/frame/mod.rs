//! Framing of streamed events.

use std::borrow::Cow;

pub mod event_stream;
pub mod sse;

/// One event of a stream, however it was framed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent<'a> {
    /// Its data; of server-sent events the data lines, joined by LF. Not yet known to be UTF-8.
    pub data: Cow<'a, [u8]>,
    /// Whether the upstream named the event `error`.
    pub is_error: bool,
}

/// An event is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLong;
