//! The stream that a client of another dialect gets.
//!
//! The chunks of [`ChatRewriter`](super::chunk::ChatRewriter) are read again and encoded. If the upstream has the dialect of
//! the client, its events pass as they came, and the chunks only count.

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};

use super::{KEEP_ALIVE, StreamError, chunk::ChatRewriter};
use crate::dialect::{
    answer::{AnswerContext, AnswerFault},
    anthropic,
    client_encoder::ClientEncoder,
    client_request::{ClientRequest, ClientShape},
    frame::StreamEvent,
    json::{Cursor, Raw},
    neutral::{AnswerForm, ToolNames},
    openai::text_completion,
    outgoing::OutgoingBody,
    responses::{self, provider_state::ProviderState},
};

/// The last event of a stream of chunks.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Writes one stream.
#[derive(Debug)]
pub(super) struct ClientStream {
    encoder: ClientEncoder,
    /// Names of tools in the chat body that the upstream was sent.
    names: ToolNames,
    /// How events pass, if they do as they came.
    spliced: Option<SplicedEvents>,
    /// Number of the next event, if those that passed have numbers.
    next_number: Option<u64>,
    /// The block of a message that has begun and not ended, of events that passed.
    open_block: Option<OpenBlock>,
    /// Whether an event with the reason of the message's end has passed.
    has_reason: bool,
    /// Whether an event that ends the message has passed.
    is_stopped: bool,
    /// Whether the answer ends here without the upstream's own last events.
    pub(super) is_cut_off: bool,
    has_begun: bool,
    /// Chunks that are not read yet.
    pub(super) chunks: BytesMut,
}

/// The id and model that the client sees in events that pass as they came.
#[derive(Debug)]
struct SplicedEvents {
    id: String,
    model: Arc<str>,
    api: SplicedApi,
}

/// A block of a message of the upstream.
#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    index: u64,
    /// A delta that says nothing, as clients take it for a block of this kind.
    empty_delta: Option<&'static str>,
}

impl OpenBlock {
    fn of(start: Raw<'_>) -> Option<OpenBlock> {
        let kind = start.member(b"content_block").and_then(|block| block.member(b"type")).and_then(Raw::text);
        let empty_delta = match kind.as_deref() {
            Some("text") => Some("{\"type\":\"text_delta\",\"text\":\"\"}"),
            Some("thinking") => Some("{\"type\":\"thinking_delta\",\"thinking\":\"\"}"),
            Some("tool_use") => Some("{\"type\":\"input_json_delta\",\"partial_json\":\"\"}"),
            _ => None,
        };
        let index = start.member(b"index").and_then(Raw::count)?;
        Some(OpenBlock { index, empty_delta })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SplicedApi {
    Messages,
    Responses(ProviderState),
    Completion { shows_usage: bool },
}

impl SplicedApi {
    const fn of(shape: &ClientShape, state: ProviderState) -> SplicedApi {
        match shape {
            ClientShape::Messages { .. } => SplicedApi::Messages,
            ClientShape::Responses(_) => SplicedApi::Responses(state),
            ClientShape::Completion { shows_usage } => SplicedApi::Completion { shows_usage: *shows_usage },
        }
    }
}

impl ClientStream {
    /// The writer of the answer to `outgoing`, or of an error if there is none.
    pub(super) fn new(
        client: &ClientRequest,
        outgoing: Option<&OutgoingBody>,
        context: &AnswerContext,
        form: AnswerForm,
        max_held_bytes: usize,
    ) -> ClientStream {
        let spliced = outgoing.filter(|outgoing| outgoing.is_clients_own).map(|outgoing| outgoing.state);
        let spliced = spliced.map(|state| SplicedEvents {
            id: context.generation.as_str().to_owned(),
            model: Arc::clone(&context.model),
            api: SplicedApi::of(&client.shape, state),
        });
        ClientStream {
            encoder: ClientEncoder::new(client, context, form, max_held_bytes),
            names: outgoing.map(|outgoing| outgoing.names.clone()).unwrap_or_default(),
            spliced,
            next_number: None,
            open_block: None,
            has_reason: false,
            is_stopped: false,
            is_cut_off: false,
            has_begun: false,
            chunks: BytesMut::new(),
        }
    }

    /// Appends what the chunks that `event` became mean to the client.
    pub(super) fn event(
        &mut self,
        event: &StreamEvent<'_>,
        chat: &ChatRewriter,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        if self.spliced.is_some() {
            self.chunks.clear();
            return self.pass(event, chat, out);
        }
        self.encode(out)
    }

    /// Appends what the remaining chunks mean to the client, the last ones of the stream.
    pub(super) fn end(&mut self, chat: &ChatRewriter, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let Some(spliced) = &self.spliced else { return self.encode(out) };
        let api = spliced.api;
        if std::mem::replace(&mut self.is_stopped, true) {
            self.chunks.clear();
            return Ok(());
        }
        match api {
            SplicedApi::Messages => {
                if let Some(OpenBlock { index, .. }) = self.open_block.take() {
                    let stop = format!("{{\"type\":\"content_block_stop\",\"index\":{index}}}");
                    out.put_slice(b"event: content_block_stop\n");
                    put_data(stop.as_bytes(), out);
                }
                self.put_reason(chat, out);
                out.put_slice(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
            }
            SplicedApi::Responses(_) | SplicedApi::Completion { .. } if self.is_cut_off => {
                if let Some(next) = self.next_number {
                    self.encoder.continue_at(next);
                }
                return self.encode(out);
            }
            SplicedApi::Responses(_) => {}
            SplicedApi::Completion { .. } => out.put_slice(DONE),
        }
        self.chunks.clear();
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
        match self.spliced.as_ref().map(|spliced| spliced.api) {
            None | Some(SplicedApi::Completion { .. }) => {
                self.encoder.keep_alive();
                return self.encoder.take(out);
            }
            Some(SplicedApi::Messages) if self.has_begun => {}
            Some(SplicedApi::Messages | SplicedApi::Responses(_)) => return out.put_slice(KEEP_ALIVE),
        }
        // Some clients count pings as silence while a block is open.
        match self.open_block {
            Some(OpenBlock { index, empty_delta: Some(delta) }) => {
                out.put_slice(b"event: content_block_delta\n");
                let event = format!("{{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{delta}}}");
                put_data(event.as_bytes(), out);
            }
            _ => out.put_slice(b"event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        }
    }

    /// Appends the reason of the end of a message and its counts, unless they have passed.
    fn put_reason(&mut self, chat: &ChatRewriter, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.has_reason, true) {
            out.put_slice(b"event: message_delta\n");
            put_data(&anthropic::splice::final_delta(&chat.outcome()), out);
        }
    }

    pub(super) fn encode(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
        while let Some(end) = memchr::memmem::find(&self.chunks, b"\n\n") {
            let event = self.chunks.split_to(end + 2);
            let Some(data) = event.strip_prefix(b"data: ") else { continue };
            match data.trim_ascii() {
                b"[DONE]" => {
                    self.is_stopped = true;
                    self.encoder.finish();
                }
                chunk => self.encoder.chunk(chunk, &self.names)?,
            }
        }
        self.encoder.take(out);
        Ok(())
    }

    fn pass(&mut self, event: &StreamEvent<'_>, chat: &ChatRewriter, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let (Some(spliced), false) = (&self.spliced, self.is_stopped) else { return Ok(()) };
        let data = std::str::from_utf8(&event.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?.trim();
        if let SplicedApi::Completion { shows_usage } = spliced.api {
            if data == "[DONE]" {
                self.is_stopped = true;
                out.put_slice(DONE);
            } else if !data.is_empty() && (shows_usage || !text_completion::splice::is_usage_only(data)) {
                let changed = text_completion::splice::splice_answer(data, &spliced.id, &spliced.model)?;
                put_data(&changed, out);
            }
            return Ok(());
        }
        let Ok(value) = Cursor::new(data).value() else { return Ok(()) };
        let Some(kind) = value.member(b"type").and_then(Raw::text) else { return Ok(()) };
        let SplicedEvents { id, model, api } = spliced;
        let usage = || chat.outcome().usage;
        let changed = match api {
            SplicedApi::Responses(state) => {
                self.next_number = responses::splice::next_number(value).or(self.next_number);
                responses::splice::splice_event(data, id, model, *state, usage)?
            }
            _ => anthropic::splice::splice_event(&kind, data, id, model, usage)?,
        };
        match &*kind {
            "content_block_start" => self.open_block = OpenBlock::of(value),
            "content_block_stop" => self.open_block = None,
            "message_delta" => self.has_reason |= anthropic::splice::tells_reason(value),
            "message_stop" => self.put_reason(chat, out),
            _ => {}
        }
        out.put_slice(b"event: ");
        out.put_slice(kind.as_bytes());
        out.put_u8(b'\n');
        put_data(changed.as_deref().unwrap_or(data.as_bytes()), out);
        self.has_begun = true;
        self.is_stopped =
            matches!(&*kind, "message_stop" | "response.completed" | "response.incomplete" | "response.failed");
        Ok(())
    }
}

/// Appends the data of an event, of which each line is a field of its own, and the event's end.
fn put_data(data: &[u8], out: &mut BytesMut) {
    for line in data.split(|byte| *byte == b'\n') {
        out.put_slice(b"data: ");
        out.put_slice(line);
        out.put_u8(b'\n');
    }
    out.put_u8(b'\n');
}
