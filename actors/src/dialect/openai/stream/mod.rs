//! Rewrites an upstream's stream of chunks for the client: incremental, event by event, without I/O.
//!
//! [`ChatStream`] is used by the relay. Events are split in [`crate::dialect::frame::sse`]; a chunk is rewritten
//! in [`chunk`] and [`choice`], calls are put in order in [`tool_calls`], and how a stream ends is written in
//! [`stream_end`]. Time-outs, fallbacks and the response head are the task of the callers.

mod choice;
mod chunk;
mod chunk_prefix;
mod stream_end;
mod tool_calls;
mod translator;

use bytes::{Bytes, BytesMut};

use self::{chunk::ChatRewriter, translator::StreamTranslator};
use crate::{
    dialect::{
        answer::{AnswerContext, AnswerFault, Outcome},
        frame::sse::{EventTooLong, SseEvent, SseSplitter},
        outgoing::Translation,
    },
    domain::{FailureKind, Usage},
};
pub use stream_end::StreamError;

/// How usage is sent at the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageChunk {
    /// In a chunk without choices: the client set `include_usage`.
    WithoutChoices,
    /// In a chunk with an empty delta, which is safe for code that reads the first choice: the client did not set
    /// `include_usage`.
    WithEmptyDelta,
    /// Not sent: the client set `include_usage` to false.
    Omitted,
}

/// Options of a stream, from the request and the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// How usage is sent.
    pub usage_chunk: UsageChunk,
    /// Whether error chunks have the additional member that makes all known clients notice them.
    pub error_compat: bool,
    /// Longest event accepted from the upstream.
    pub max_event_bytes: usize,
    /// Whether the request used `functions`, so that the client expects `function_call`. Otherwise it is rewritten as a
    /// tool call.
    pub legacy_functions: bool,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        StreamOptions {
            usage_chunk: UsageChunk::WithEmptyDelta,
            error_compat: true,
            max_event_bytes: 8 * 1024 * 1024,
            legacy_functions: false,
        }
    }
}

/// What one read contained, for the relay's time-outs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// At least one event that was not a comment.
    pub event: bool,
    /// At least one event with content, which the client may not want to see.
    pub content: bool,
}

/// One upstream stream being rewritten. Memory is bounded by the longest event accepted.
#[derive(Debug)]
pub struct ChatStream {
    splitter: SseSplitter,
    /// Of an upstream with another dialect.
    translator: Option<Box<StreamTranslator>>,
    chat: ChatRewriter,
}

impl From<EventTooLong> for AnswerFault {
    fn from(_: EventTooLong) -> AnswerFault {
        AnswerFault::malformed("an event longer than allowed")
    }
}

impl ChatStream {
    /// A rewriter at the beginning of a stream.
    #[must_use]
    pub fn new(context: AnswerContext, options: StreamOptions) -> ChatStream {
        ChatStream::of_upstream(None, context, options)
    }

    /// The same; the upstream has another dialect if there is a `translation`.
    #[must_use]
    pub fn of_upstream(
        translation: Option<&Translation>,
        context: AnswerContext,
        options: StreamOptions,
    ) -> ChatStream {
        ChatStream {
            splitter: SseSplitter::new(options.max_event_bytes),
            translator: translation.map(|translation| Box::new(StreamTranslator::new(translation.decoder()))),
            chat: ChatRewriter::new(context, options),
        }
    }

    /// Feeds what one read gave and appends what it becomes to `out`. Before the first content that may be
    /// held back: nothing is lost by dropping it together with this stream.
    ///
    /// # Errors
    /// When the upstream reports an error or what it sends is no stream of chunks. What came before the fault
    /// is in `out`, nothing of the faulty event is, and only [`ChatStream::fail`] makes sense after it.
    pub fn push(&mut self, bytes: &Bytes, out: &mut BytesMut) -> Result<Progress, AnswerFault> {
        let mut progress = Progress::default();
        if self.is_done() {
            return Ok(progress);
        }
        let chat = &mut self.chat;
        let read = match self.translator.as_deref_mut() {
            None => self.splitter.push(bytes, |event| chat.event(&event, &mut progress, out)),
            Some(translator) => self.splitter.push(bytes, |event| translator.event(&event, chat, &mut progress, out)),
        };
        match read {
            // The answer is complete; anything after it is ignored.
            Err(_) if self.is_done() => Ok(progress),
            read => read.map(|()| progress),
        }
    }

    /// Whether a content event was seen that the client gets to see, or a finish. Until then another upstream
    /// may answer in the place of this one. Reasoning that the client excluded is progress, but does not count here.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.chat.has_content()
    }

    /// Whether every choice has finished, so that even a broken connection or a silent one loses nothing of the
    /// answer: then [`ChatStream::end`] is right where otherwise [`ChatStream::fail`] would be.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.chat.is_whole()
    }

    /// Takes the clean end of the upstream's body: appends finishes, usage and `[DONE]`, unless `[DONE]` is out.
    ///
    /// # Errors
    /// When the stream is not whole: neither a finish for each choice nor `[DONE]` came.
    pub fn end(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
        if self.is_done() {
            return Ok(());
        }
        if let Some(event) = self.splitter.unfinished()
            && let Err(fault) = event_of(&event, self.translator.as_deref_mut(), &mut self.chat, out)
        {
            // Some upstreams leave out the last blank line. If it was rather a cut, the rest does not parse,
            // which is a loss only before the finish.
            let fault = cut_event(fault);
            if fault.kind != FailureKind::Truncated || !self.is_whole() {
                return Err(fault);
            }
        }
        if let Some(translator) = self.translator.as_deref_mut() {
            translator.end(&mut self.chat, out)?;
        }
        self.chat.end(out)
    }

    /// Ends the stream with an error: appends the error chunk and `[DONE]`, unless `[DONE]` is out.
    pub fn fail(&mut self, error: &StreamError, out: &mut BytesMut) {
        self.chat.fail(error, out);
    }

    /// Whether `[DONE]` was written: nothing more will be.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.chat.is_done()
    }

    /// Usage of an attempt that failed or was cancelled, if the upstream reported usage or produced output.
    #[must_use]
    pub fn spent(&self) -> Option<Usage> {
        self.chat.spent()
    }

    /// Usage and cost so far: as reported by the upstream, or estimated from its output.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.chat.outcome()
    }
}

fn event_of(
    event: &SseEvent<'_>,
    translator: Option<&mut StreamTranslator>,
    chat: &mut ChatRewriter,
    out: &mut BytesMut,
) -> Result<(), AnswerFault> {
    let progress = &mut Progress::default();
    match translator {
        Some(translator) => translator.event(event, chat, progress, out),
        None => chat.event(event, progress, out),
    }
}

/// An unfinished event at the end of the body counts as truncated instead of malformed.
fn cut_event(fault: AnswerFault) -> AnswerFault {
    match fault.kind {
        FailureKind::Malformed => AnswerFault { kind: FailureKind::Truncated, ..fault },
        _ => fault,
    }
}
