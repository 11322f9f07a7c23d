//! One answer of an upstream that streams, for the client that waits for it: incremental, event by event, without I/O.
//!
//! [`ChatStream`] is used by the relay. Chunks of a server of chat are spliced for clients of chat
//! ([`crate::openai`]); every other answer is decoded, metered and encoded ([`decoded`]), or passes as it came if the client speaks
//! the upstream's dialect ([`passing`]). Time-outs, fallbacks and the response head are the task of the callers.

mod decoded;
mod passing;
mod passing_halves;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pointsman_domain::{FailureKind, Usage};

use self::decoded::DecodedStream;
use super::{
    answer::{AnswerContext, AnswerFault, AnswerResult, Outcome},
    client_request::ClientRequest,
    frame::{KEEP_ALIVE, StreamEvent},
    openai::{AnswerMeter, ChatRewriter, Progress, StreamOptions},
    outgoing::OutgoingBody,
    stream_error::StreamError,
    stream_reader::{Framing, StreamReader},
};

/// How long hidden reasoning, a search or an image may take at a provider, at least: agents wait as long.
pub const SILENT_WORK: Duration = Duration::from_mins(5);

/// One upstream stream being rewritten. Memory is bounded by the longest event accepted.
#[derive(Debug)]
pub struct ChatStream {
    reader: StreamReader,
    route: Route,
}

/// The way of an event to the client.
#[derive(Debug)]
enum Route {
    /// Chunks of chat for a client of chat.
    Spliced(Box<ChatRewriter>),
    /// Everything else.
    Decoded(Box<DecodedStream>),
}

impl ChatStream {
    /// A rewriter at the beginning of a stream.
    pub fn new(context: AnswerContext, options: StreamOptions) -> ChatStream {
        ChatStream::between(None, None, context, options)
    }

    /// A rewriter of the response to `outgoing`, or of the error if there is none, for the client of another dialect if there
    /// is a `client`.
    pub fn between(
        outgoing: Option<&OutgoingBody>,
        client: Option<&ClientRequest>,
        context: AnswerContext,
        options: StreamOptions,
    ) -> ChatStream {
        let translation = outgoing.and_then(|outgoing| outgoing.translation.as_ref());
        let framing = translation.map_or(Framing::ServerSent, |translation| translation.framing);
        let route = match (translation, client) {
            (None, None) => Route::Spliced(Box::new(ChatRewriter::new(context, options))),
            _ => Route::Decoded(Box::new(DecodedStream::new(outgoing, client, context, options))),
        };
        ChatStream { reader: StreamReader::new(framing, options.max_event_bytes), route }
    }

    /// Feeds what one read gave and appends what it becomes to `out`. Before the first content that may be
    /// held back: nothing is lost by dropping it together with this stream.
    ///
    /// # Errors
    /// When the upstream reports an error or what it sends is no stream of chunks. What came before the fault
    /// is in `out`, and only [`ChatStream::fail`] makes sense after it.
    pub fn push(&mut self, bytes: &Bytes, out: &mut BytesMut) -> Result<Progress, AnswerFault> {
        self.push_until(bytes, out, None)
    }

    /// The same, and after each event of a stream that has begun to cost something asks whether the answer shall end here. Then
    /// the rest of the read is passed over, and [`ChatStream::cut_off`] comes next.
    ///
    /// # Errors
    /// As [`ChatStream::push`].
    pub fn push_until(
        &mut self,
        bytes: &Bytes,
        out: &mut BytesMut,
        mut ends_here: Option<&mut dyn FnMut(&Outcome) -> bool>,
    ) -> Result<Progress, AnswerFault> {
        let mut progress = Progress::default();
        if self.is_done() {
            return Ok(progress);
        }
        let mut is_over = false;
        let ChatStream { reader, route } = self;
        let read = reader.push(bytes, |event| {
            if !is_over {
                route.event(&event, &mut progress, out)?;
                let asked = ends_here.as_mut().filter(|_| !route.is_done() && route.answer().spent().is_some());
                is_over = asked.is_some_and(|ends_here| ends_here(&route.outcome()));
            }
            Ok(())
        });
        match read {
            // The answer is complete; anything after it is ignored.
            Err(_) if self.is_done() => Ok(progress),
            read => read.map(|()| progress),
        }
    }

    /// Whether a content event was seen that the client gets to see, or a finish. Until then another upstream
    /// may answer in the place of this one. Reasoning that the client excluded is progress, but does not count here.
    pub fn has_content(&self) -> bool {
        self.route.answer().has_content()
    }

    /// How long the upstream may send nothing that shows that it works: `usual`, or longer while it is at work of which it
    /// sends nothing until it is done.
    pub fn longest_silence(&self, usual: Duration) -> Duration {
        let works_silently = matches!(&self.route, Route::Decoded(stream) if stream.works_silently());
        if works_silently { usual.max(SILENT_WORK) } else { usual }
    }

    /// Whether every choice has finished, so that even a broken connection or a silent one loses nothing of the
    /// answer: then [`ChatStream::end`] is right where otherwise [`ChatStream::fail`] would be.
    pub fn is_whole(&self) -> bool {
        self.route.is_whole()
    }

    /// Takes the clean end of the upstream's body: appends finishes, usage and `[DONE]`, unless `[DONE]` is out.
    ///
    /// # Errors
    /// When the stream is not whole: neither a finish for each choice nor `[DONE]` came.
    pub fn end(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let ChatStream { reader, route } = self;
        if route.is_done() {
            return Ok(());
        }
        if let Some(body) = reader.take_whole() {
            return match route {
                Route::Spliced(chat) => chat.whole(&body.freeze(), out),
                Route::Decoded(stream) => stream.whole(&body, out),
            };
        }
        let rest = match reader.unfinished() {
            Ok(Some(event)) => route.event(&event, &mut Progress::default(), out),
            Ok(None) => Ok(()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = rest {
            // Some upstreams leave out the last blank line. If it was rather a cut, the rest does not parse,
            // which is a loss only before the finish.
            let fault = cut_event(fault);
            if fault.kind != FailureKind::Truncated || !route.is_whole() {
                return Err(fault);
            }
        }
        match route {
            Route::Spliced(chat) => chat.end(out),
            Route::Decoded(stream) => stream.end(out),
        }
    }

    /// Ends the stream as one whose answers are at their limit of tokens.
    ///
    /// # Errors
    /// When the answer cannot end here.
    pub fn cut_off(&mut self, answers: u32, out: &mut BytesMut) -> Result<(), AnswerFault> {
        match &mut self.route {
            Route::Spliced(chat) => chat.cut_off(answers, out),
            Route::Decoded(stream) => stream.cut_off(answers, out),
        }
    }

    /// Appends what tells the client that the answer is still being made.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match &mut self.route {
            Route::Spliced(_) => out.extend_from_slice(KEEP_ALIVE),
            Route::Decoded(stream) => stream.keep_alive(out),
        }
    }

    /// Ends the stream with an error: appends the error chunk and `[DONE]`, unless `[DONE]` is out.
    pub fn fail(&mut self, error: &StreamError, out: &mut BytesMut) {
        match &mut self.route {
            Route::Spliced(chat) => chat.fail(error, out),
            Route::Decoded(stream) => stream.fail(error, out),
        }
    }

    /// Whether `[DONE]` was written: nothing more will be.
    pub fn is_done(&self) -> bool {
        self.route.is_done()
    }

    /// Usage of an attempt that failed or was cancelled, if the upstream reported usage or produced output.
    pub fn spent(&self) -> Option<Usage> {
        self.route.answer().spent()
    }

    /// Tokens of the output so far, estimated from its length. Cheap.
    pub fn produced_tokens(&self) -> u64 {
        self.route.answer().produced_tokens()
    }

    /// Usage and cost so far: as reported by the upstream, or estimated from its output.
    pub fn outcome(&self) -> Outcome {
        self.route.outcome()
    }
}

impl Route {
    fn event(&mut self, event: &StreamEvent<'_>, progress: &mut Progress, out: &mut BytesMut) -> AnswerResult {
        match self {
            Route::Spliced(chat) => chat.event(event, progress, out),
            Route::Decoded(stream) => stream.event(event, progress, out),
        }
    }

    fn answer(&self) -> &AnswerMeter {
        match self {
            Route::Spliced(chat) => chat.answer(),
            Route::Decoded(stream) => stream.meter().answer(),
        }
    }

    fn is_done(&self) -> bool {
        self.answer().is_done()
    }

    fn is_whole(&self) -> bool {
        match self {
            Route::Spliced(chat) => chat.is_whole(),
            Route::Decoded(stream) => stream.meter().is_whole(),
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Route::Spliced(chat) => chat.outcome(),
            Route::Decoded(stream) => stream.meter().outcome(),
        }
    }
}

/// An unfinished event at the end of the body counts as truncated instead of malformed.
fn cut_event(fault: AnswerFault) -> AnswerFault {
    match fault.kind {
        FailureKind::Malformed => AnswerFault { kind: FailureKind::Truncated, ..fault },
        _ => fault,
    }
}
