//! Writes answers for clients of the Responses API, streamed or whole, from neutral events.
//!
//! Some clients read nothing but whole items and the end, so every event `…done` holds the whole text of what it ends, and the
//! last event the whole response. Every stream ends with exactly one of `response.completed`, `response.incomplete` and
//! `response.failed`. Items do not overlap, except calls whose arguments come in turns. Reasoning of other providers gets an
//! envelope as its encrypted content ([`StateKey`]), so that it comes back unchanged.

mod call;
mod events;
mod failure;
mod message;
pub(super) mod output;
mod reasoning_item;
mod response;

use pointsman_domain::FinishReason;

pub(super) use response::push_usage;

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};

use self::{
    call::ToolCallItem,
    events::EventWriter,
    failure::{push_error_body, push_failure},
    message::{MessageItem, TextKind},
    output::{ItemHead, ItemStatus, Output},
    reasoning_item::ReasoningItem,
    response::{ResponseState, push_response},
};
use super::inbound::ResponseEcho;
use crate::{
    answer::{AnswerFault, AnswerResult},
    frame::KEEP_ALIVE,
    json::Raw,
    neutral::{
        AnswerEvent, AnswerForm, AnswerProgress, AnswerSink, EscapedText, ReasoningState, ReportedTokens, StateKey,
        ToolKind,
    },
    stream_error::StreamError,
};

/// Most tool calls of an answer.
const MAX_CALLS: u32 = 1_024;

/// What an answer begins with, and the limits it has.
#[derive(Debug, Clone)]
pub(crate) struct ResponseOpening {
    /// The id that the client sees.
    pub(crate) id: Arc<str>,
    /// The name of the model that the client sees.
    pub(crate) model: Arc<str>,
    /// When the request was admitted, Unix seconds.
    pub(crate) created: i64,
    /// Reads the wall clock, Unix seconds.
    pub(crate) clock: fn() -> i64,
    /// Streamed or whole.
    pub(crate) form: AnswerForm,
    /// What the answer repeats of the request.
    pub(crate) echo: ResponseEcho,
    /// Most bytes of content: all of it is kept until the end.
    pub(crate) max_answer_bytes: usize,
    /// Seals the reasoning of other providers.
    pub(crate) state_key: StateKey,
}

/// Writes one answer. Only the first choice is shown, because this API has no others.
#[derive(Debug)]
pub(crate) struct ResponsesEncoder {
    opening: ResponseOpening,
    progress: AnswerProgress,
    events: EventWriter,
    output: Output,
    open: Option<Open>,
    /// Calls that have not ended.
    open_calls: Vec<ToolCallItem>,
    /// Calls so far.
    calls: u32,
    usage: Option<ReportedTokens>,
    finish: Option<FinishReason>,
}

/// The item that is open, other than calls.
#[derive(Debug)]
enum Open {
    Message(MessageItem),
    Reasoning(ReasoningItem),
}

impl AnswerSink for ResponsesEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        if self.progress == AnswerProgress::Done {
            return Ok(());
        }
        match event {
            AnswerEvent::Usage(tokens) => self.usage = Some(tokens),
            AnswerEvent::Text { choice: 0, text } => return self.text(TextKind::Text, text),
            AnswerEvent::Refusal { choice: 0, text } => return self.text(TextKind::Refusal, text),
            AnswerEvent::Reasoning { choice: 0, index, state } => return self.reasoning(index, state),
            AnswerEvent::ToolCallStarted { choice: 0, call, id, name, kind } => {
                return self.call(call, &id, &name, kind);
            }
            AnswerEvent::ToolCallArguments { choice: 0, call, text } => return self.arguments(call, text),
            AnswerEvent::Image { choice: 0, media_type, data } => return self.image(&media_type, &data),
            AnswerEvent::Annotation { choice: 0, json } | AnswerEvent::DocumentCitation { choice: 0, json } => {
                self.output.charge(json.len())?;
                if let Some(Open::Message(message)) = &mut self.open {
                    message.annotate(&json, &mut self.events);
                }
            }
            AnswerEvent::Logprobs { choice: 0, value } => return self.logprobs(value),
            AnswerEvent::Finished { choice: 0, finish, .. } => {
                self.finish = Some(finish);
                self.settle();
            }
            // The id is the gateway's.
            _ => {}
        }
        Ok(())
    }
}

impl ResponsesEncoder {
    /// A writer at the beginning of an answer.
    pub(crate) fn new(opening: ResponseOpening) -> ResponsesEncoder {
        ResponsesEncoder {
            progress: AnswerProgress::Idle,
            events: EventWriter::new(opening.form),
            output: Output::new(opening.max_answer_bytes),
            open: None,
            open_calls: Vec::new(),
            calls: 0,
            usage: None,
            finish: None,
            opening,
        }
    }

    /// Goes on behind events of an upstream of this API that passed as they came. `next`: the number of the next event.
    pub(crate) fn continue_at(&mut self, next: u64) {
        self.progress = AnswerProgress::Started;
        self.events.continue_at(next);
    }

    /// What there is to send, which the caller takes. Of a whole answer, that is nothing before it has ended.
    pub(crate) fn written(&mut self) -> &mut BytesMut {
        &mut self.events.out
    }

    #[cfg(test)]
    fn take(&mut self) -> Bytes {
        self.written().split().freeze()
    }

    /// Ends the answer. If the upstream finished it with an error, the answer ends with one.
    pub(crate) fn finish(&mut self) {
        if self.progress == AnswerProgress::Done {
            return;
        }
        if self.finish == Some(FinishReason::Error) {
            return self.fail(&StreamError::broken_answer());
        }
        self.begin();
        self.settle();
        self.progress = AnswerProgress::Done;
        let state = match self.incomplete_reason() {
            None => ResponseState::Completed,
            Some(reason) => ResponseState::Incomplete(reason),
        };
        self.push_end(&state);
    }

    /// Ends the answer with an error: an event in a stream, else the whole body.
    pub(crate) fn fail(&mut self, error: &StreamError) {
        if self.progress == AnswerProgress::Done {
            return;
        }
        if self.opening.form == AnswerForm::Whole {
            self.progress = AnswerProgress::Done;
            return push_error_body(error, &mut self.events.out);
        }
        self.begin();
        self.progress = AnswerProgress::Done;
        self.keep_unfinished();
        let mut failure = BytesMut::new();
        push_failure(error, &mut failure);
        self.push_end(&ResponseState::Failed(failure.freeze()));
    }

    /// Writes something that keeps the connection open and says nothing.
    pub(crate) fn keep_alive(&mut self) {
        if self.opening.form == AnswerForm::Whole || self.progress == AnswerProgress::Done {
            return;
        }
        match self.progress {
            AnswerProgress::Idle => self.begin(),
            _ => self.events.out.put_slice(KEEP_ALIVE),
        }
    }

    /// The answer, ended. Of a stream, what was not yet taken.
    pub(crate) fn whole(mut self) -> Bytes {
        self.finish();
        self.events.out.freeze()
    }

    fn text(&mut self, kind: TextKind, text: EscapedText<'_>) -> AnswerResult {
        if text.is_empty() {
            return Ok(());
        }
        self.output.charge(text.bytes().len())?;
        if !matches!(self.open, Some(Open::Message(_))) {
            let head = self.next_item("msg")?;
            self.open = Some(Open::Message(MessageItem::begin(head, &mut self.events)));
        }
        if let Some(Open::Message(message)) = &mut self.open {
            message.text(kind, text, &mut self.events);
        }
        Ok(())
    }

    fn logprobs(&mut self, value: Raw<'_>) -> AnswerResult {
        let list = value.member(b"content").filter(|list| list.is_array()).map(Raw::inner).unwrap_or_default();
        self.output.charge(list.len())?;
        if let Some(Open::Message(message)) = &mut self.open {
            message.logprobs(list);
        }
        Ok(())
    }

    fn reasoning(&mut self, index: u32, piece: ReasoningState<'_>) -> AnswerResult {
        let bytes = [&piece.text, &piece.sealed].into_iter().flatten().map(|text| text.bytes().len()).sum();
        if bytes == 0 {
            return Ok(());
        }
        self.output.charge(bytes)?;
        let is_open = matches!(&self.open, Some(Open::Reasoning(item)) if item.continues(index, &piece));
        if !is_open {
            let head = self.next_item("rs")?;
            self.open = Some(Open::Reasoning(ReasoningItem::begin(head, index, &piece, &mut self.events)));
        }
        let Some(Open::Reasoning(item)) = &mut self.open else { return Ok(()) };
        if item.add(index, piece, &mut self.events) {
            self.close();
        }
        Ok(())
    }

    fn call(&mut self, call: u32, id: &EscapedText<'_>, name: &EscapedText<'_>, kind: ToolKind) -> AnswerResult {
        // A call is announced once; a repetition says nothing new.
        if call < self.calls {
            return Ok(());
        }
        if call > self.calls || call >= MAX_CALLS {
            return Err(AnswerFault::malformed("calls out of order, or too many"));
        }
        self.calls += 1;
        let head = self.next_item(if kind == ToolKind::Function { "fc" } else { "ctc" })?;
        let original = self.opening.echo.namespaces().original(&name.unescaped());
        let original = original.filter(|_| kind == ToolKind::Function);
        let item = ToolCallItem::begin(head, call, id, name, original, kind, &mut self.events);
        self.open_calls.push(item);
        Ok(())
    }

    fn arguments(&mut self, call: u32, text: EscapedText<'_>) -> AnswerResult {
        self.output.charge(text.bytes().len())?;
        match self.open_calls.iter_mut().find(|open| open.call() == call) {
            Some(open) => open.piece(&text, &mut self.events),
            None if call < self.calls && text.is_blank() => {}
            None => return Err(AnswerFault::malformed("arguments of a call that is not open")),
        }
        Ok(())
    }

    /// An image is an item that is done at once.
    fn image(&mut self, media_type: &EscapedText<'_>, data: &EscapedText<'_>) -> AnswerResult {
        self.output.charge(data.bytes().len())?;
        let head = self.next_item("ig")?;
        let media_type = media_type.unescaped();
        let item = |status: &str, result: &[u8], out: &mut BytesMut| {
            head.push(b"image_generation_call", out);
            push!(out; format!(",\"status\":\"{status}\",\"result\":").as_bytes(), result);
            if let Some(format @ ("png" | "jpeg" | "webp")) = media_type.strip_prefix("image/") {
                out.put_slice(format!(",\"output_format\":\"{format}\"").as_bytes());
            }
            out.put_u8(b'}');
        };
        self.events.item("output_item.added", head.place, |out| item("in_progress", b"null", out));
        let mut done = BytesMut::with_capacity(data.bytes().len() + 200);
        item("completed", &[b"\"", data.bytes(), b"\""].concat(), &mut done);
        self.events.item("output_item.done", head.place, |out| out.put_slice(&done));
        self.output.put(head.place, done.freeze());
        Ok(())
    }

    /// The head of a new item: what is open before it ends, except calls whose arguments are incomplete.
    fn next_item(&mut self, prefix: &str) -> AnswerResult<ItemHead> {
        self.begin();
        self.close();
        self.end_calls(ItemStatus::Completed, ToolCallItem::is_complete);
        let place = self.output.reserve()?;
        Ok(ItemHead::new(prefix, &self.opening.id, place))
    }

    /// Ends the message or the reasoning that is open.
    fn close(&mut self) {
        self.close_as(ItemStatus::Completed);
    }

    fn close_as(&mut self, status: ItemStatus) {
        let (place, done) = match self.open.take() {
            None => return,
            Some(Open::Message(message)) => (message.place(), message.end(status, &mut self.events)),
            Some(Open::Reasoning(item)) => (item.place(), item.end(&self.opening.state_key, &mut self.events)),
        };
        self.output.put(place, done);
    }

    /// Ends the calls for which `is_over`.
    fn end_calls(&mut self, status: ItemStatus, is_over: impl Fn(&ToolCallItem) -> bool) {
        for call in std::mem::take(&mut self.open_calls) {
            if is_over(&call) {
                let place = call.place();
                self.output.put(place, call.end(status, &mut self.events));
            } else {
                self.open_calls.push(call);
            }
        }
    }

    /// Ends whatever is open.
    fn settle(&mut self) {
        let status = match self.incomplete_reason() {
            None => ItemStatus::Completed,
            Some(_) => ItemStatus::Incomplete,
        };
        self.close_as(status);
        self.end_calls(status, |_| true);
    }

    /// Puts what is open into the output of a response that fails, as incomplete. No event says that it is done: clients that
    /// read only those would take it for whole.
    fn keep_unfinished(&mut self) {
        let events = std::mem::replace(&mut self.events, EventWriter::new(AnswerForm::Whole));
        self.close_as(ItemStatus::Incomplete);
        self.end_calls(ItemStatus::Incomplete, |_| true);
        self.events = events;
    }

    fn incomplete_reason(&self) -> Option<&'static str> {
        match self.finish {
            Some(FinishReason::Length) => Some("max_output_tokens"),
            Some(FinishReason::ContentFilter) => Some("content_filter"),
            _ => None,
        }
    }

    /// Writes the start of the response, once.
    fn begin(&mut self) {
        if self.progress != AnswerProgress::Idle {
            return;
        }
        self.progress = AnswerProgress::Started;
        let ResponsesEncoder { opening, output, events, .. } = self;
        for kind in ["created", "in_progress"] {
            events.event(kind, |out| {
                out.put_slice(b",\"response\":");
                push_response(opening, &ResponseState::InProgress, output, None, out);
            });
        }
    }

    fn push_end(&mut self, state: &ResponseState) {
        let ResponsesEncoder { opening, output, events, usage, .. } = self;
        match opening.form {
            AnswerForm::Whole => push_response(opening, state, output, usage.as_ref(), &mut events.out),
            AnswerForm::Streamed => events.event(state.as_str(), |out| {
                out.put_slice(b",\"response\":");
                push_response(opening, state, output, usage.as_ref(), out);
            }),
        }
    }
}

#[cfg(test)]
mod tests;
