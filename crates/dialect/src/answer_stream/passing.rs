//! Events that pass to the client as they came, because it speaks the upstream's dialect: only what must be different in them is.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::passing_halves::{EventApi, PassingHalves};
use crate::{
    answer::{AnswerContext, AnswerFault, AnswerResult},
    anthropic,
    client_request::{ClientRequest, ClientShape},
    frame::{KEEP_ALIVE, StreamEvent},
    json::{Cursor, Raw, Splice, object, with_first_member},
    neutral::ToolArguments,
    openai::{EventMeter, text_completion},
    outgoing::OutgoingBody,
    responses::{
        self,
        passing_tool_calls::{self, PassingEvent, PassingToolCalls},
        splice::ResponseIdentity,
    },
};

/// The last event of a stream of chunks.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Passes the events of one stream on.
#[derive(Debug)]
pub(super) struct PassingEvents {
    api: PassingApi,
    /// Number of the next event, if they have numbers.
    next_number: Option<u64>,
    /// The block of a message that has begun and not ended.
    open_block: Option<OpenBlock>,
    /// Arguments of the call in the open block of a message.
    arguments: Option<ToolArguments>,
    /// Calls of functions in a response.
    calls: PassingToolCalls,
    /// Halves of characters at the end of texts.
    halves: PassingHalves,
    /// Whether an event with the reason of the message's end has passed.
    has_reason: bool,
    /// Whether an event that ends the message has passed.
    is_stopped: bool,
    has_begun: bool,
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
    fn read(start: Raw<'_>) -> Option<OpenBlock> {
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
enum PassingApi {
    Messages(MessageIdentity),
    Responses(ResponseIdentity),
    Completion { identity: MessageIdentity, shows_usage: bool },
}

impl PassingApi {
    const fn events(&self) -> EventApi {
        match self {
            PassingApi::Messages(_) => EventApi::Messages,
            PassingApi::Responses(_) => EventApi::Responses,
            PassingApi::Completion { .. } => EventApi::Completion,
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

impl PassingEvents {
    /// Of the answer to `outgoing`, which is the client's own body.
    pub(super) fn new(client: &ClientRequest, outgoing: &OutgoingBody, context: &AnswerContext) -> PassingEvents {
        let api = match &client.shape {
            ClientShape::Messages { .. } => PassingApi::Messages(MessageIdentity::new(context)),
            ClientShape::Responses(echo) => PassingApi::Responses(ResponseIdentity::new(context, outgoing.state, echo)),
            ClientShape::Completion { shows_usage } => {
                PassingApi::Completion { identity: MessageIdentity::new(context), shows_usage: *shows_usage }
            }
        };
        PassingEvents {
            api,
            next_number: None,
            open_block: None,
            arguments: None,
            calls: PassingToolCalls::default(),
            halves: PassingHalves::default(),
            has_reason: false,
            is_stopped: false,
            has_begun: false,
        }
    }

    /// Number of the next event, if they have numbers.
    pub(super) const fn next_number(&self) -> Option<u64> {
        self.next_number
    }

    /// Whether an answer can end here without the encoder.
    pub(super) const fn ends_itself(&self) -> bool {
        matches!(self.api, PassingApi::Messages(_))
    }

    /// Appends what is still missing at the end of the stream.
    pub(super) fn end(&mut self, meter: &EventMeter, out: &mut BytesMut) {
        self.end_halves(meter, out);
        if std::mem::replace(&mut self.is_stopped, true) {
            return;
        }
        match &self.api {
            PassingApi::Messages(_) => {
                if let Some(OpenBlock { index, .. }) = self.open_block.take() {
                    let stop = format!("{{\"type\":\"content_block_stop\",\"index\":{index}}}");
                    put_event("content_block_stop", stop.as_bytes(), out);
                }
                self.put_reason(meter, out);
                out.put_slice(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
            }
            PassingApi::Completion { .. } => out.put_slice(DONE),
            PassingApi::Responses(_) => {}
        }
    }

    /// Appends U+FFFD for halves of characters that stay alone.
    pub(super) fn end_halves(&mut self, meter: &EventMeter, out: &mut BytesMut) {
        if self.is_stopped {
            return;
        }
        for lost in self.halves.ended() {
            let next = self.next_number.map(|next| next.saturating_sub(self.calls.added()));
            // It is the gateway's own event.
            let _ = self.pass_lost(&lost, next, meter, out);
        }
    }

    pub(super) fn keep_alive(&self, out: &mut BytesMut) {
        if self.is_stopped {
            return;
        }
        if !self.has_begun || !self.ends_itself() {
            return out.put_slice(KEEP_ALIVE);
        }
        // Some clients count pings as silence while a block is open.
        match self.open_block {
            Some(OpenBlock { index, empty_delta: Some(delta), .. }) => put_block_delta(index, delta, out),
            _ => out.put_slice(b"event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        }
    }

    /// Appends the reason of the end of a message and its counts, unless they have passed.
    fn put_reason(&mut self, meter: &EventMeter, out: &mut BytesMut) {
        if !std::mem::replace(&mut self.has_reason, true) {
            put_event("message_delta", &anthropic::splice::final_delta(&meter.outcome()), out);
        }
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
                put_block_delta(index, &delta, out);
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

    /// Passes an event on.
    pub(super) fn event(&mut self, event: &StreamEvent<'_>, meter: &EventMeter, out: &mut BytesMut) -> AnswerResult {
        if self.is_stopped {
            return Ok(());
        }
        let api = self.api.events();
        let data = std::str::from_utf8(&event.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?.trim();
        if data == "[DONE]" && api == EventApi::Completion {
            self.end_halves(meter, out);
            self.is_stopped = true;
            out.put_slice(DONE);
            return Ok(());
        }
        let mut cursor = Cursor::new(data);
        let Ok(value) = cursor.value() else { return Ok(()) };
        if self.halves.is_empty() && !cursor.has_lone_surrogate() {
            return self.pass_whole(data, value, meter, out);
        }
        let kind = value.kind().unwrap_or_default();
        for lost in self.halves.ended_by(api, &kind, value) {
            let number = value.member(b"sequence_number").and_then(Raw::count);
            self.pass_lost(&lost, number, meter, out)?;
        }
        let mended = self.halves.mended(api, &kind, data, value);
        self.pass_whole(&mended, object(&mended)?, meter, out)
    }

    /// Passes an event on that the provider did not send, with this number, so that all later ones have higher numbers.
    fn pass_lost(&mut self, lost: &str, number: Option<u64>, meter: &EventMeter, out: &mut BytesMut) -> AnswerResult {
        let Some(number) = number else { return self.pass_whole(lost, object(lost)?, meter, out) };
        let numbered = with_first_member(lost.as_bytes(), b"sequence_number", number.to_string().as_bytes());
        let lost = String::from_utf8_lossy(&numbered);
        self.pass_whole(&lost, object(&lost)?, meter, out)?;
        self.calls.note_added();
        Ok(())
    }

    /// Passes an event on in which every character is whole.
    fn pass_whole(&mut self, data: &str, value: Raw<'_>, meter: &EventMeter, out: &mut BytesMut) -> AnswerResult {
        if let PassingApi::Completion { identity, shows_usage } = &self.api {
            if *shows_usage || !text_completion::splice::is_usage_only(value) {
                put_data(&text_completion::splice::splice_chunk(data, value, &identity.id, &identity.model), out);
            }
            return Ok(());
        }
        let Some(kind) = value.kind() else { return Ok(()) };
        let usage = || meter.answer().usage();
        let changed = match &self.api {
            PassingApi::Responses(identity) => {
                let PassingEvent { delta, data: settled } = self.calls.event(&kind, data, value);
                if let Some(delta) = delta {
                    put_event(passing_tool_calls::DELTA, &delta, out);
                }
                let next = responses::splice::next_number(value).map(|next| next + self.calls.added());
                self.next_number = next.or(self.next_number);
                match settled {
                    Some(settled) => Some(settled),
                    None => responses::splice::splice_event(data, identity, usage)?,
                }
            }
            PassingApi::Messages(_)
                if self.open_block.is_some_and(|block| block.is_call) && kind.starts_with("content_block_") =>
            {
                match self.call_event(&kind, data, value, out) {
                    Passed::AsItCame => None,
                    Passed::Changed(data) => Some(data),
                    Passed::Not => return Ok(()),
                }
            }
            PassingApi::Messages(MessageIdentity { id, model })
            | PassingApi::Completion { identity: MessageIdentity { id, model }, .. } => {
                anthropic::splice::splice_event(&kind, data, id, model, usage)?
            }
        };
        match &*kind {
            "content_block_start" => {
                self.open_block = OpenBlock::read(value);
                self.arguments = None;
            }
            "content_block_stop" => self.open_block = None,
            "message_delta" => self.has_reason |= anthropic::splice::reports_reason(value),
            "message_stop" => self.put_reason(meter, out),
            _ => {}
        }
        let changed = changed.as_deref().unwrap_or(data.as_bytes());
        put_event(&kind, &self.calls.renumbered(changed.into()), out);
        self.has_begun = true;
        self.is_stopped =
            matches!(&*kind, "message_stop" | "response.completed" | "response.incomplete" | "response.failed");
        Ok(())
    }
}

/// Appends an event of this kind.
fn put_event(kind: &str, data: &[u8], out: &mut BytesMut) {
    push!(out; b"event: ", kind.as_bytes(), b"\n");
    put_data(data, out);
}

/// Appends a delta of a block of a message.
fn put_block_delta(index: u64, delta: &str, out: &mut BytesMut) {
    let event = format!("{{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{delta}}}");
    put_event("content_block_delta", event.as_bytes(), out);
}

/// Appends the data of an event, of which each line is a field of its own, and the event's end.
fn put_data(data: &[u8], out: &mut BytesMut) {
    for line in data.split(|byte| *byte == b'\n') {
        push!(out; b"data: ", line, b"\n");
    }
    out.put_u8(b'\n');
}
