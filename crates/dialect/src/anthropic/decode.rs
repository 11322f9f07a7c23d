//! Reads answers of the Messages API, streamed or whole, as neutral events.
//!
//! A whole answer goes through the same steps as a stream: each of its blocks is one that starts complete. Unknown events,
//! blocks and deltas are passed over, as the API demands of its clients.

use pointsman_domain::FinishReason;

use super::{finish::finish, usage::Usage};
use crate::{
    answer::{AnswerFault, AnswerResult},
    frame::StreamEvent,
    json::Raw,
    neutral::{AnswerEvent, AnswerProgress, AnswerSink, EscapedText, ToolNames},
    refusal,
};

mod block;

use block::{Block, Counters};

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    names: ToolNames,
    progress: AnswerProgress,
    /// Id of the message, to recognise a repeated start.
    id: Option<EscapedText<'static>>,
    /// The unfinished block and its index.
    open: Option<(u64, Block)>,
    counters: Counters,
    usage: Usage,
    stop: Option<Stop>,
}

/// Why the answer stopped.
#[derive(Debug)]
struct Stop {
    reason: EscapedText<'static>,
    /// What the model says about a refusal.
    explanation: Option<EscapedText<'static>>,
}

impl Decoder {
    /// Whether a block has begun and not ended.
    pub(crate) const fn has_open_block(&self) -> bool {
        self.open.is_some()
    }

    /// A decoder for the answer to a request with these names.
    pub(crate) fn new(names: ToolNames) -> Decoder {
        Decoder {
            names,
            progress: AnswerProgress::Idle,
            id: None,
            open: None,
            counters: Counters::default(),
            usage: Usage::default(),
            stop: None,
        }
    }

    /// Reads one event of a stream.
    ///
    /// # Errors
    /// When the upstream reports an error or the event is invalid, and those of the sink.
    pub(crate) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        if self.progress == AnswerProgress::Done {
            return Ok(());
        }
        let Some((value, [kind, index, delta])) = event.pick([b"type", b"index", b"delta"])? else { return Ok(()) };
        let kind = kind.and_then(Raw::text);
        if event.is_error || kind.as_deref() == Some("error") {
            return Err(refusal::fault(value));
        }
        match kind.as_deref() {
            Some("message_start") => self.message_start(value.member(b"message"), sink),
            Some(kind) if kind.starts_with("content_block_") || kind.starts_with("message_") => {
                if self.progress == AnswerProgress::Idle {
                    return Err(AnswerFault::malformed("the stream does not begin with message_start"));
                }
                let index = index.and_then(Raw::count).unwrap_or(0);
                self.event_of_message((kind, index, delta), value, sink)
            }
            Some(_) => Ok(()),
            None if value.member(b"error").is_some_and(|error| !error.is_null()) => Err(refusal::fault(value)),
            None => Err(AnswerFault::malformed("an event without a type")),
        }
    }

    /// Whether the message was stopped, so that nothing follows.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.progress, AnswerProgress::Done)
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// When the answer is incomplete, and those of the sink.
    pub(crate) fn end(&mut self, sink: &mut impl AnswerSink) -> AnswerResult {
        match self.progress {
            AnswerProgress::Done => Ok(()),
            AnswerProgress::Started if self.stop.is_some() => self.finish(sink),
            _ => Err(AnswerFault::truncated("the stream ended before message_stop")),
        }
    }

    /// Reads a whole answer.
    ///
    /// # Errors
    /// When the body is an error or invalid, and those of the sink.
    pub(crate) fn whole(mut self, body: &str, sink: &mut impl AnswerSink) -> AnswerResult {
        let message = Raw::whole(body)?;
        let [kind, error, content, id, usage, reason, details] =
            message.pick([b"type", b"error", b"content", b"id", b"usage", b"stop_reason", b"stop_details"]);
        if kind.is_some_and(|kind| kind.inner() == b"error") || error.is_some_and(|error| !error.is_null()) {
            return Err(refusal::fault(message));
        }
        let Some(content) = content.filter(|content| content.is_array()) else {
            return Err(AnswerFault::malformed("the message has no content"));
        };
        self.start(id, usage, sink)?;
        for (index, block) in content.elements().enumerate() {
            self.block_start(index as u64, block, sink)?;
            self.block_stop(sink)?;
        }
        self.note_stop(reason, details);
        self.finish(sink)
    }

    /// Takes an event with its type, index and delta.
    fn event_of_message(
        &mut self,
        (kind, index, delta): (&str, u64, Option<Raw<'_>>),
        event: Raw<'_>,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        match kind {
            "content_block_start" => match event.member(b"content_block").filter(|block| block.is_object()) {
                Some(block) => self.block_start(index, block, sink),
                None => Err(AnswerFault::malformed("content_block_start without a block")),
            },
            "content_block_delta" => self.block_delta(index, delta, sink),
            "content_block_stop" => self.block_stop(sink),
            "message_delta" => {
                if let Some(usage) = event.member(b"usage") {
                    self.usage.merge(usage);
                }
                if let Some(delta) = delta {
                    let [reason, details] = delta.pick([b"stop_reason", b"stop_details"]);
                    self.note_stop(reason, details);
                }
                Ok(())
            }
            "message_stop" => self.finish(sink),
            _ => Ok(()),
        }
    }

    fn message_start(&mut self, message: Option<Raw<'_>>, sink: &mut impl AnswerSink) -> AnswerResult {
        let Some(message) = message.filter(|message| message.is_object()) else {
            return Err(AnswerFault::malformed("message_start without a message"));
        };
        let [id, usage, content] = message.pick([b"id", b"usage", b"content"]);
        if self.progress != AnswerProgress::Idle {
            let is_same = id.and_then(EscapedText::read) == self.id;
            return if is_same { Ok(()) } else { Err(AnswerFault::malformed("a second message in one stream")) };
        }
        self.start(id, usage, sink)?;
        // A placeholder: only `message_delta` knows.
        self.usage.forget_output();
        // Calls that a program of the model made are whole from the start.
        let is_call = |block: &Raw<'_>| block.kind().as_deref() == Some("tool_use");
        for block in content.into_iter().flat_map(Raw::elements).filter(is_call) {
            self.block_start(0, block, sink)?;
            self.block_stop(sink)?;
        }
        Ok(())
    }

    fn start(&mut self, id: Option<Raw<'_>>, usage: Option<Raw<'_>>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.progress = AnswerProgress::Started;
        self.id = id.and_then(EscapedText::read).map(EscapedText::into_owned);
        usage.into_iter().for_each(|usage| self.usage.merge(usage));
        match &self.id {
            Some(id) => sink.event(AnswerEvent::Started { id: id.borrowed() }),
            None => Ok(()),
        }
    }

    fn block_start(&mut self, index: u64, block: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.block_stop(sink)?;
        self.open = Some((index, Block::start(block, &self.names, &mut self.counters, sink)?));
        Ok(())
    }

    fn block_delta(&mut self, index: u64, delta: Option<Raw<'_>>, sink: &mut impl AnswerSink) -> AnswerResult {
        let Some(delta) = delta else { return Ok(()) };
        match &mut self.open {
            Some((open, block)) if *open == index => block.delta(delta, &mut self.counters, sink),
            _ => Err(AnswerFault::malformed("a delta of a block that is not open")),
        }
    }

    fn block_stop(&mut self, sink: &mut impl AnswerSink) -> AnswerResult {
        match self.open.take() {
            Some((_, block)) => block.stop(&mut self.counters, sink),
            None => Ok(()),
        }
    }

    /// Notes `stop_reason` and what a refusal says.
    fn note_stop(&mut self, reason: Option<Raw<'_>>, details: Option<Raw<'_>>) {
        let Some(reason) = reason.and_then(EscapedText::read) else { return };
        let explanation = details.and_then(|details| details.member(b"explanation")).and_then(Raw::filled_string);
        let explanation = explanation.and_then(EscapedText::read).map(EscapedText::into_owned);
        self.stop = Some(Stop { reason: reason.into_owned(), explanation });
    }

    fn finish(&mut self, sink: &mut impl AnswerSink) -> AnswerResult {
        self.block_stop(sink)?;
        self.progress = AnswerProgress::Done;
        let stop = self.stop.take();
        let native = stop.as_ref().map_or(EscapedText::plain(""), |stop| stop.reason.borrowed());
        let finish = finish(&native.unescaped(), self.counters.has_calls());
        if let Some(text) = stop.as_ref().and_then(|stop| stop.explanation.as_ref())
            && finish == FinishReason::ContentFilter
        {
            sink.event(AnswerEvent::Refusal { choice: 0, text: text.borrowed() })?;
        }
        sink.event(AnswerEvent::Finished { choice: 0, finish, native })?;
        match self.usage.tokens() {
            Some(tokens) => sink.event(AnswerEvent::Usage(tokens)),
            None => Ok(()),
        }
    }
}
