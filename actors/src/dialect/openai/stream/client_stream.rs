//! The stream that a client of another dialect gets.
//!
//! The chunks of [`ChatRewriter`](super::chunk::ChatRewriter) are read again and encoded. If the upstream has the dialect of
//! the client, its events pass as they came, and the chunks only count.

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};

use super::{StreamError, StreamOptions};
use crate::{
    dialect::{
        answer::{AnswerContext, AnswerFault},
        anthropic,
        client_encoder::ClientEncoder,
        client_request::ClientRequest,
        frame::StreamEvent,
        json::{Cursor, Raw},
        neutral::AnswerForm,
        openai::answer_reader::read_chunk,
        responses::{self, splice::ProviderState},
    },
    domain::Dialect,
};

/// Writes one stream.
#[derive(Debug)]
pub(super) struct ClientStream {
    encoder: ClientEncoder,
    /// How events pass, if they do as they came.
    spliced: Option<SplicedEvents>,
    /// Number of the next event, if those that passed have numbers.
    next_number: Option<u64>,
    /// Whether an event that ends the message has passed.
    is_stopped: bool,
    has_begun: bool,
    /// Chunks that are not read yet.
    pub(super) chunks: BytesMut,
}

/// The id and model that the client sees in events that pass as they came.
#[derive(Debug)]
struct SplicedEvents {
    id: String,
    model: Arc<str>,
    dialect: Dialect,
}

impl ClientStream {
    pub(super) fn new(
        client: &ClientRequest,
        is_spliced: bool,
        context: &AnswerContext,
        options: StreamOptions,
    ) -> ClientStream {
        let spliced = is_spliced.then(|| SplicedEvents {
            id: context.generation.as_str().to_owned(),
            model: Arc::clone(&context.model),
            dialect: client.dialect(),
        });
        ClientStream {
            encoder: ClientEncoder::new(client, context, AnswerForm::Streamed, options.max_event_bytes),
            spliced,
            next_number: None,
            is_stopped: false,
            has_begun: false,
            chunks: BytesMut::new(),
        }
    }

    /// Appends what the chunks that `event` became mean to the client.
    pub(super) fn event(&mut self, event: &StreamEvent<'_>, out: &mut BytesMut) -> Result<(), AnswerFault> {
        if self.spliced.is_some() {
            self.chunks.clear();
            return self.pass(event, out);
        }
        self.encode(out)
    }

    /// Appends what the remaining chunks mean to the client, the last ones of the stream.
    pub(super) fn end(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let Some(spliced) = &self.spliced else { return self.encode(out) };
        self.chunks.clear();
        if !std::mem::replace(&mut self.is_stopped, true) && spliced.dialect == Dialect::Anthropic {
            out.put_slice(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, error: &StreamError, out: &mut BytesMut) {
        self.chunks.clear();
        self.is_stopped = true;
        if let Some(next) = self.next_number {
            self.encoder.continue_at(next);
        }
        self.encoder.fail(error);
        self.encoder.take(out);
    }

    pub(super) fn keep_alive(&mut self, out: &mut BytesMut) {
        if self.is_stopped {
            return;
        }
        if self.spliced.is_none() {
            self.encoder.keep_alive();
            return self.encoder.take(out);
        }
        let silence: &[u8] =
            if self.has_begun { b"event: ping\ndata: {\"type\":\"ping\"}\n\n" } else { b": keep-alive\n\n" };
        out.put_slice(silence);
    }

    fn encode(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
        while let Some(end) = memchr::memmem::find(&self.chunks, b"\n\n") {
            let event = self.chunks.split_to(end + 2);
            let Some(data) = event.strip_prefix(b"data: ") else { continue };
            match data.trim_ascii() {
                b"[DONE]" => {
                    self.is_stopped = true;
                    self.encoder.finish();
                }
                chunk => read_chunk(chunk, &mut self.encoder)?,
            }
        }
        self.encoder.take(out);
        Ok(())
    }

    fn pass(&mut self, event: &StreamEvent<'_>, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let (Some(spliced), false) = (&self.spliced, self.is_stopped) else { return Ok(()) };
        let data = std::str::from_utf8(&event.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?.trim();
        let kind = Cursor::new(data).value().ok().and_then(|value| value.member(b"type")).and_then(Raw::text);
        let Some(kind) = kind else { return Ok(()) };
        let SplicedEvents { id, model, dialect } = spliced;
        let changed = match dialect {
            Dialect::Responses => {
                self.next_number = responses::splice::next_number(data).or(self.next_number);
                responses::splice::splice_event(data, id, model, ProviderState::Refused)?
            }
            _ => anthropic::splice::splice_event(data, id, model)?,
        };
        out.put_slice(b"event: ");
        out.put_slice(kind.as_bytes());
        // Data of several lines has one field per line.
        for line in changed.as_deref().unwrap_or(data.as_bytes()).split(|byte| *byte == b'\n') {
            out.put_slice(b"\ndata: ");
            out.put_slice(line);
        }
        out.put_slice(b"\n\n");
        self.has_begun = true;
        self.is_stopped =
            matches!(&*kind, "message_stop" | "response.completed" | "response.incomplete" | "response.failed");
        Ok(())
    }
}
