//! The stream that a client of another dialect gets.
//!
//! The chunks of [`ChatRewriter`](super::chunk::ChatRewriter) are read again and encoded; texts and thoughts of an upstream that
//! does not speak chat come [without](super::direct). If the upstream has the dialect of the client, its events pass as they
//! came, and the chunks only count.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{
    chunk::ChatRewriter,
    passing_halves::{EventApi, PassingHalves},
};
use crate::{
    answer::{AnswerContext, AnswerFault},
    anthropic,
    client_encoder::ClientEncoder,
    client_request::{ClientRequest, ClientShape},
    frame::{KEEP_ALIVE, StreamEvent},
    json::{Cursor, Raw, Splice, object, with_first_member},
    neutral::{AnswerEvent, AnswerForm, AnswerSink as _, ToolArguments, ToolNames},
    openai::text_completion,
    outgoing::OutgoingBody,
    responses::{
        self,
        passing_tool_calls::{self, PassingEvent, PassingToolCalls},
        splice::ResponseIdentity,
    },
    stream_error::StreamError,
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
    spliced: Option<SplicedApi>,
    /// Number of the next event, if those that passed have numbers.
    next_number: Option<u64>,
    /// The block of a message that has begun and not ended, of events that passed.
    open_block: Option<OpenBlock>,
    /// Arguments of the call in the open block of a message.
    arguments: Option<ToolArguments>,
    /// Calls of functions in a response whose events pass.
    calls: PassingToolCalls,
    /// Halves of characters at the end of texts that passed.
    halves: PassingHalves,
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

/// A block of a message of the upstream.
#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    index: u64,
    /// A delta that says nothing, as clients take it for a block of this kind.
    empty_delta: Option<&'static str>,
    is_call: bool,
}

/// What became of an event.
enum Passed {
    AsItCame,
    Changed(Bytes),
    Not,
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
        Some(OpenBlock { index, empty_delta, is_call: kind.as_deref() == Some("tool_use") })
    }
}

/// The API of events that pass as they came, and what the client sees in them in the place of the provider's.
#[derive(Debug)]
enum SplicedApi {
    Messages(MessageIdentity),
    Responses(ResponseIdentity),
    Completion { identity: MessageIdentity, shows_usage: bool },
}

impl SplicedApi {
    const fn events(&self) -> EventApi {
        match self {
            SplicedApi::Messages(_) => EventApi::Messages,
            SplicedApi::Responses(_) => EventApi::Responses,
            SplicedApi::Completion { .. } => EventApi::Completion,
        }
    }
}

/// The id and model that the client sees.
#[derive(Debug)]
struct MessageIdentity {
    id: String,
    model: Arc<str>,
}

impl MessageIdentity {
    fn new(context: &AnswerContext) -> MessageIdentity {
        MessageIdentity { id: context.generation.as_str().to_owned(), model: Arc::clone(&context.model) }
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
        let spliced = outgoing.filter(|outgoing| outgoing.is_clients_own).map(|outgoing| match &client.shape {
            ClientShape::Messages { .. } => SplicedApi::Messages(MessageIdentity::new(context)),
            ClientShape::Responses(echo) => SplicedApi::Responses(ResponseIdentity::new(context, outgoing.state, echo)),
            ClientShape::Completion { shows_usage } => {
                SplicedApi::Completion { identity: MessageIdentity::new(context), shows_usage: *shows_usage }
            }
        });
        ClientStream {
            encoder: ClientEncoder::new(client, context, form, max_held_bytes),
            names: outgoing.map(|outgoing| outgoing.names.clone()).unwrap_or_default(),
            spliced,
            next_number: None,
            open_block: None,
            arguments: None,
            calls: PassingToolCalls::default(),
            halves: PassingHalves::default(),
            has_reason: false,
            is_stopped: false,
            is_cut_off: false,
            has_begun: false,
            chunks: BytesMut::new(),
        }
    }

    /// Where chunks go that are encoded, also where events pass as they came.
    pub(super) fn chunks_to_encode(&mut self) -> &mut BytesMut {
        self.spliced = None;
        &mut self.chunks
    }

    /// Whether events pass as they came.
    pub(super) fn is_spliced(&self) -> bool {
        self.spliced.is_some()
    }

    /// Appends what an event means to the client that passes as it is, behind all chunks.
    pub(super) fn direct(&mut self, event: AnswerEvent<'_>, out: &mut BytesMut) -> Result<(), AnswerFault> {
        self.encoder.event(event)?;
        self.encoder.take(out);
        Ok(())
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
        if self.spliced.is_none() {
            return self.encode(out);
        }
        self.end_halves(chat, out);
        if std::mem::replace(&mut self.is_stopped, true) {
            self.chunks.clear();
            return Ok(());
        }
        match &self.spliced {
            Some(SplicedApi::Messages(_)) => {
                if let Some(OpenBlock { index, .. }) = self.open_block.take() {
                    let stop = format!("{{\"type\":\"content_block_stop\",\"index\":{index}}}");
                    out.put_slice(b"event: content_block_stop\n");
                    put_data(stop.as_bytes(), out);
                }
                self.put_reason(chat, out);
                out.put_slice(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
            }
            Some(SplicedApi::Responses(_) | SplicedApi::Completion { .. }) if self.is_cut_off => {
                if let Some(next) = self.next_number {
                    self.encoder.continue_at(next);
                }
                return self.encode(out);
            }
            Some(SplicedApi::Completion { .. }) => out.put_slice(DONE),
            _ => {}
        }
        self.chunks.clear();
        Ok(())
    }

    /// Appends what the chunks that are not read yet mean to the client, or U+FFFD for halves of characters in texts that passed.
    pub(super) fn end_halves(&mut self, chat: &ChatRewriter, out: &mut BytesMut) {
        if self.spliced.is_none() {
            // What fails here is the gateway's own chunk, and the stream ends anyway.
            let _ = self.encode(out);
        } else if !self.is_stopped {
            for lost in self.halves.ended() {
                let next = self.next_number.map(|next| next.saturating_sub(self.calls.added()));
                let _ = self.pass_lost(&lost, next, chat, out);
            }
        }
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
        match &self.spliced {
            None | Some(SplicedApi::Completion { .. }) => {
                self.encoder.keep_alive();
                return self.encoder.take(out);
            }
            Some(SplicedApi::Messages(_)) if self.has_begun => {}
            Some(SplicedApi::Messages(_) | SplicedApi::Responses(_)) => return out.put_slice(KEEP_ALIVE),
        }
        // Some clients count pings as silence while a block is open.
        match self.open_block {
            Some(OpenBlock { index, empty_delta: Some(delta), .. }) => {
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

    /// Takes an event of the block of a call, whose arguments must be one object. Before the end of the block goes what is
    /// still held of them.
    fn call_event(&mut self, kind: &str, data: &str, event: Raw<'_>, out: &mut BytesMut) -> Passed {
        let mut passed = BytesMut::new();
        if kind == "content_block_stop" {
            self.arguments.take().into_iter().for_each(|mut arguments| arguments.end(false, &mut passed));
            if let Some(OpenBlock { index, .. }) = self.open_block.filter(|_| !passed.is_empty()) {
                let text = String::from_utf8_lossy(&passed);
                let delta = format!("{{\"type\":\"input_json_delta\",\"partial_json\":\"{text}\"}}");
                let event = format!("{{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{delta}}}");
                out.put_slice(b"event: content_block_delta\n");
                put_data(event.as_bytes(), out);
            }
            return Passed::AsItCame;
        }
        let piece = event.member(b"delta").and_then(|delta| delta.member(b"partial_json"));
        let Some(piece) = piece.and_then(Raw::filled_string) else { return Passed::AsItCame };
        self.arguments.get_or_insert_with(ToolArguments::object).piece(piece.inner(), &mut passed);
        if *passed == *piece.inner() {
            return Passed::AsItCame;
        }
        if passed.is_empty() {
            return Passed::Not;
        }
        let mut splice = Splice::new(data);
        splice.replace(piece, &[b"\"", &passed[..], b"\""].concat());
        Passed::Changed(splice.finish())
    }

    fn pass(&mut self, event: &StreamEvent<'_>, chat: &ChatRewriter, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let (Some(api), false) = (self.spliced.as_ref().map(SplicedApi::events), self.is_stopped) else {
            return Ok(());
        };
        let data = std::str::from_utf8(&event.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?.trim();
        if data == "[DONE]" && api == EventApi::Completion {
            self.end_halves(chat, out);
            self.is_stopped = true;
            out.put_slice(DONE);
            return Ok(());
        }
        let mut cursor = Cursor::new(data);
        let Ok(value) = cursor.value() else { return Ok(()) };
        if self.halves.is_empty() && !cursor.has_lone_surrogate() {
            return self.pass_whole(data, value, chat, out);
        }
        let kind = value.member(b"type").and_then(Raw::text).unwrap_or_default();
        for lost in self.halves.ended_by(api, &kind, value) {
            let number = value.member(b"sequence_number").and_then(Raw::count);
            self.pass_lost(&lost, number, chat, out)?;
        }
        let mended = self.halves.mended(api, &kind, data, value);
        self.pass_whole(&mended, object(&mended)?, chat, out)
    }

    /// Passes an event on that the provider did not send, with this number, so that all later ones have higher numbers.
    fn pass_lost(
        &mut self,
        lost: &str,
        number: Option<u64>,
        chat: &ChatRewriter,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        let Some(number) = number else { return self.pass_whole(lost, object(lost)?, chat, out) };
        let numbered = with_first_member(lost.as_bytes(), b"sequence_number", number.to_string().as_bytes());
        let lost = String::from_utf8_lossy(&numbered);
        self.pass_whole(&lost, object(&lost)?, chat, out)?;
        self.calls.note_added();
        Ok(())
    }

    /// Passes an event on in which every character is whole.
    fn pass_whole(
        &mut self,
        data: &str,
        value: Raw<'_>,
        chat: &ChatRewriter,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        let Some(spliced) = &self.spliced else { return Ok(()) };
        if let SplicedApi::Completion { identity, shows_usage } = spliced {
            if *shows_usage || !text_completion::splice::is_usage_only(value) {
                put_data(&text_completion::splice::splice_chunk(data, value, &identity.id, &identity.model), out);
            }
            return Ok(());
        }
        let Some(kind) = value.member(b"type").and_then(Raw::text) else { return Ok(()) };
        let usage = || chat.outcome().usage;
        let changed = match spliced {
            SplicedApi::Responses(identity) => {
                let PassingEvent { delta, data: settled } = self.calls.event(&kind, data, value);
                if let Some(delta) = delta {
                    put_kind(passing_tool_calls::DELTA, out);
                    put_data(&delta, out);
                }
                let next = responses::splice::next_number(value).map(|next| next + self.calls.added());
                self.next_number = next.or(self.next_number);
                match settled {
                    Some(settled) => Some(settled),
                    None => responses::splice::splice_event(data, identity, usage)?,
                }
            }
            SplicedApi::Messages(_)
                if self.open_block.is_some_and(|block| block.is_call) && kind.starts_with("content_block_") =>
            {
                match self.call_event(&kind, data, value, out) {
                    Passed::AsItCame => None,
                    Passed::Changed(data) => Some(data),
                    Passed::Not => return Ok(()),
                }
            }
            SplicedApi::Messages(MessageIdentity { id, model })
            | SplicedApi::Completion { identity: MessageIdentity { id, model }, .. } => {
                anthropic::splice::splice_event(&kind, data, id, model, usage)?
            }
        };
        match &*kind {
            "content_block_start" => {
                self.open_block = OpenBlock::of(value);
                self.arguments = None;
            }
            "content_block_stop" => self.open_block = None,
            "message_delta" => self.has_reason |= anthropic::splice::reports_reason(value),
            "message_stop" => self.put_reason(chat, out),
            _ => {}
        }
        put_kind(&kind, out);
        let changed = changed.as_deref().unwrap_or(data.as_bytes());
        put_data(&self.calls.renumbered(changed.into()), out);
        self.has_begun = true;
        self.is_stopped =
            matches!(&*kind, "message_stop" | "response.completed" | "response.incomplete" | "response.failed");
        Ok(())
    }
}

/// Appends the name of an event.
fn put_kind(kind: &str, out: &mut BytesMut) {
    out.put_slice(b"event: ");
    out.put_slice(kind.as_bytes());
    out.put_u8(b'\n');
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
