//! Reads of a stream as events, however the upstream frames them.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::BytesMut;

use super::{
    AnswerFault,
    answer::AnswerResult,
    converse,
    frame::{
        EventTooLong, StreamEvent,
        event_stream::{BadFrame, EventStreamSplitter, Frame, FrameKind},
        sse::SseSplitter,
    },
    json::Cursor,
};

/// How a stream is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    ServerSent,
    /// Frames of Amazon, one per event; its type is in the headers.
    Events,
    /// Frames of Amazon, each with an event of the model's own API in base64.
    Chunks,
}

/// Splits one stream into events.
#[derive(Debug)]
pub(super) enum StreamReader {
    ServerSent(SseSplitter),
    Events(EventStreamSplitter),
    Chunks(EventStreamSplitter),
    /// Nothing but white space has come.
    Unknown(Framing, usize),
    /// No stream, but one JSON object, of at most so many bytes.
    Whole(BytesMut, usize),
}

impl From<EventTooLong> for AnswerFault {
    fn from(_: EventTooLong) -> AnswerFault {
        AnswerFault::gateway_limit(
            "The provider sent an event that is too large. The administrator of the gateway can raise stream.max_event.",
        )
    }
}

impl From<BadFrame> for AnswerFault {
    fn from(_: BadFrame) -> AnswerFault {
        AnswerFault::malformed("a frame that is not valid")
    }
}

impl StreamReader {
    pub(super) fn new(framing: Framing, max_event_bytes: usize) -> StreamReader {
        StreamReader::Unknown(framing, max_event_bytes)
    }

    /// Finds out what begins with these bytes: no event does with a brace.
    fn begin(&mut self, bytes: &[u8]) {
        let StreamReader::Unknown(framing, most) = *self else { return };
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        *self = match (text.trim_ascii_start().first(), framing) {
            (None, _) => return,
            (Some(b'{'), _) => StreamReader::Whole(BytesMut::new(), most),
            (_, Framing::ServerSent) => StreamReader::ServerSent(SseSplitter::new(most)),
            (_, Framing::Events) => StreamReader::Events(EventStreamSplitter::new(most)),
            (_, Framing::Chunks) => StreamReader::Chunks(EventStreamSplitter::new(most)),
        };
    }

    /// The answer that came whole in the place of a stream.
    pub(super) fn take_whole(&mut self) -> Option<BytesMut> {
        if let StreamReader::Whole(body, _) = self { Some(std::mem::take(body)) } else { None }
    }

    /// Processes one read and calls `on_event` for each complete event, in order.
    ///
    /// # Errors
    /// When an event is too long, a frame is not valid or holds an error, or with the first error of `on_event`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(StreamEvent<'_>) -> AnswerResult,
    ) -> AnswerResult {
        if let StreamReader::Unknown(..) = self {
            self.begin(bytes);
        }
        match self {
            StreamReader::ServerSent(splitter) => splitter.push(bytes, on_event),
            StreamReader::Unknown(..) => Ok(()),
            StreamReader::Whole(body, most) if body.len() + bytes.len() > *most => Err(EventTooLong.into()),
            StreamReader::Whole(body, _) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
            StreamReader::Events(splitter) => splitter.push(bytes, |frame| {
                let frame = event_of(frame)?;
                let data = named(&frame);
                on_event(StreamEvent { data: Cow::Borrowed(&data), is_error: false })
            }),
            StreamReader::Chunks(splitter) => splitter.push(bytes, |frame| {
                let frame = event_of(frame)?;
                let data = unwrapped(&frame)?;
                on_event(StreamEvent { data: Cow::Borrowed(&data), is_error: false })
            }),
        }
    }

    /// The unfinished event at the end of the stream, if it has data.
    ///
    /// # Errors
    /// When the stream ended within a frame.
    pub(super) fn unfinished(&self) -> AnswerResult<Option<StreamEvent<'_>>> {
        match self {
            StreamReader::ServerSent(splitter) => Ok(splitter.unfinished()),
            StreamReader::Events(splitter) | StreamReader::Chunks(splitter) if splitter.is_cut() => {
                Err(AnswerFault::truncated("the stream ended within a frame"))
            }
            StreamReader::Events(_) | StreamReader::Chunks(_) | StreamReader::Unknown(..) | StreamReader::Whole(..) => {
                Ok(None)
            }
        }
    }
}

/// The frame, unless it reports an error.
fn event_of(frame: Frame) -> AnswerResult<Frame> {
    match frame.kind {
        FrameKind::Event => Ok(frame),
        FrameKind::Exception => Err(converse::fault_of_exception(&frame.name, &frame.payload)),
    }
}

/// The payload as the only member of an object, named after the type of the event.
fn named(frame: &Frame) -> BytesMut {
    let mut data = BytesMut::with_capacity(frame.name.len() + frame.payload.len() + 8);
    push!(data; b"{", frame.name, b":", frame.payload, b"}");
    data
}

/// The event in a frame `chunk`; empty for any other frame.
fn unwrapped(frame: &Frame) -> AnswerResult<Vec<u8>> {
    let text = std::str::from_utf8(&frame.payload).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?;
    let value = Cursor::new(text).value()?;
    let Some(encoded) = value.member(b"bytes").filter(|_| frame.name == "chunk") else { return Ok(Vec::new()) };
    STANDARD.decode(encoded.inner()).map_err(|_| AnswerFault::malformed("a chunk that is not base64"))
}
