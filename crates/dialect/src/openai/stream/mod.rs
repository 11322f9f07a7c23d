//! Rewrites an upstream's stream of chunks for the client: incremental, event by event, without I/O.
//!
//! [`ChatStream`] is used by the relay. Events are split in [`crate::stream_reader`]; a chunk is rewritten
//! in [`chunk`] and [`choice`], calls are put in order in [`tool_calls`], and how a stream ends is written in
//! [`stream_end`]. Time-outs, fallbacks and the response head are the task of the callers.

mod choice;
mod chunk;
mod chunk_prefix;
mod client_stream;
mod direct;
mod passing_halves;
mod split_halves;
#[deny(clippy::float_arithmetic)]
mod stream_end;
mod text_template;
mod tool_calls;
mod translator;
mod whole;

use std::{borrow::Cow, time::Duration};

use bytes::{Bytes, BytesMut};
use pointsman_domain::{FailureKind, Usage};

use self::{chunk::ChatRewriter, client_stream::ClientStream, tool_calls::ToolCallOrder, translator::StreamTranslator};
use crate::{
    answer::{Answer, AnswerContext, AnswerFault, Outcome},
    client_request::ClientRequest,
    frame::{KEEP_ALIVE, StreamEvent},
    neutral::AnswerForm,
    openai::answer::rewrite_answer,
    outgoing::{OutgoingBody, Translation},
    stream_error::StreamError,
    stream_reader::{Framing, StreamReader},
};

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
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        StreamOptions { usage_chunk: UsageChunk::WithEmptyDelta, error_compat: true, max_event_bytes: 8 * 1024 * 1024 }
    }
}

/// What one read contained, for the relay's time-outs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// At least one event that was not a comment.
    pub event: bool,
    /// At least one event that shows that the provider works: with content, which the client may not want to see, or within
    /// an open block of the answer.
    pub content: bool,
}

/// How long hidden reasoning, a search or an image may take at a provider, at least: agents wait as long.
pub const SILENT_WORK: Duration = Duration::from_mins(5);

/// One upstream stream being rewritten. Memory is bounded by the longest event accepted.
#[derive(Debug)]
pub struct ChatStream {
    reader: StreamReader,
    /// Of an upstream with another dialect.
    translator: Option<Box<StreamTranslator>>,
    chat: ChatRewriter,
    /// Of a client with another dialect than chat.
    client: Option<Box<ClientStream>>,
}

impl ChatStream {
    /// A rewriter at the beginning of a stream.
    pub fn new(context: AnswerContext, options: StreamOptions) -> ChatStream {
        ChatStream {
            reader: StreamReader::new(Framing::ServerSent, options.max_event_bytes),
            translator: None,
            chat: ChatRewriter::new(context, options, ToolCallOrder::Any),
            client: None,
        }
    }

    /// A rewriter of the answer to `outgoing`, or of the error if there is none, for the client of another dialect if there
    /// is a `client`.
    pub fn between(
        outgoing: Option<&OutgoingBody>,
        client: Option<&ClientRequest>,
        context: AnswerContext,
        options: StreamOptions,
    ) -> ChatStream {
        let translation = outgoing.and_then(|outgoing| outgoing.translation.as_ref());
        let framing = translation.map_or(Framing::ServerSent, |translation| translation.framing);
        let order = match translation {
            Some(translation) => ToolCallOrder::of(translation),
            None if client.is_some() => ToolCallOrder::WholeNames,
            None => ToolCallOrder::Any,
        };
        ChatStream {
            reader: StreamReader::new(framing, options.max_event_bytes),
            translator: translation.map(|translation| Box::new(StreamTranslator::new(translation.decoder()))),
            client: client.map(|client| {
                let (form, most) = (AnswerForm::Streamed, options.max_event_bytes);
                Box::new(ClientStream::new(client, outgoing, &context, form, most))
            }),
            chat: ChatRewriter::new(context, options, order),
        }
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
        let mut ends_after = |chat: &ChatRewriter| {
            let ends_here = ends_here.as_mut().filter(|_| !chat.is_done() && chat.spent().is_some());
            ends_here.is_some_and(|ends_here| ends_here(&chat.outcome()))
        };
        let ChatStream { reader, translator, chat, client } = self;
        let read = match (translator.as_deref_mut(), client.as_deref_mut()) {
            (None, None) => reader.push(bytes, |event| {
                if !is_over {
                    chat.event(&event, &mut progress, out)?;
                    is_over = ends_after(chat);
                }
                Ok(())
            }),
            (translator, client) => {
                let mut route = EventRoute { translator, chat, client };
                reader.push(bytes, |event| {
                    if !is_over {
                        route.event(&event, &mut progress, out)?;
                        is_over = ends_after(route.chat);
                    }
                    Ok(())
                })
            }
        };
        match read {
            // The answer is complete; anything after it is ignored.
            Err(_) if self.is_done() => Ok(progress),
            read => read.map(|()| progress),
        }
    }

    /// Whether a content event was seen that the client gets to see, or a finish. Until then another upstream
    /// may answer in the place of this one. Reasoning that the client excluded is progress, but does not count here.
    pub fn has_content(&self) -> bool {
        self.chat.has_content()
    }

    /// How long the upstream may send nothing that shows that it works: `usual`, or longer while it is at work of which it
    /// sends nothing until it is done.
    pub fn longest_silence(&self, usual: Duration) -> Duration {
        let works_silently = self.translator.as_ref().is_some_and(|translator| translator.works_silently());
        if works_silently { usual.max(SILENT_WORK) } else { usual }
    }

    /// Whether every choice has finished, so that even a broken connection or a silent one loses nothing of the
    /// answer: then [`ChatStream::end`] is right where otherwise [`ChatStream::fail`] would be.
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
        if let Some(body) = self.reader.take_whole() {
            return self.end_whole(body.freeze(), out);
        }
        let ChatStream { reader, translator, chat, client } = self;
        let mut route = EventRoute { translator: translator.as_deref_mut(), chat, client: client.as_deref_mut() };
        let rest = match reader.unfinished() {
            Ok(Some(event)) => route.event(&event, &mut Progress::default(), out),
            Ok(None) => Ok(()),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = rest {
            // Some upstreams leave out the last blank line. If it was rather a cut, the rest does not parse,
            // which is a loss only before the finish.
            let fault = cut_event(fault);
            if fault.kind != FailureKind::Truncated || !route.chat.is_whole() {
                return Err(fault);
            }
        }
        route.end(out)
    }

    /// Takes an answer that came whole in the place of a stream.
    fn end_whole(&mut self, body: Bytes, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let completion = match self.translator.take() {
            Some(translator) => translator.completion(&body)?,
            None => body,
        };
        // Reads an error in the place of an answer, and finds what is missing.
        rewrite_answer(&completion, &self.chat.context)?;
        let chunk = whole::chunk_of(&completion)?;
        let ChatStream { chat, client, .. } = self;
        let mut client = client.as_deref_mut();
        let event = StreamEvent { data: Cow::Borrowed(&chunk), is_error: false };
        let chunks = client.as_deref_mut().map_or(&mut *out, ClientStream::chunks_to_encode);
        chat.event(&event, &mut Progress::default(), chunks)?;
        EventRoute { translator: None, chat, client }.end(out)
    }

    /// Ends the stream as one whose answers are at their limit of tokens.
    ///
    /// # Errors
    /// When the answer cannot end here.
    pub fn cut_off(&mut self, answers: u32, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let ChatStream { chat, client, .. } = self;
        let mut client = client.as_deref_mut();
        for index in 0..answers {
            let finish = format!("{{\"choices\":[{{\"index\":{index},\"delta\":{{}},\"finish_reason\":\"length\"}}]}}");
            let event = StreamEvent { data: finish.into_bytes().into(), is_error: false };
            let out = client.as_deref_mut().map_or(&mut *out, |client| &mut client.chunks);
            chat.event(&event, &mut Progress::default(), out)?;
        }
        if let Some(client) = &mut client {
            client.is_cut_off = true;
        }
        EventRoute { translator: None, chat, client }.end(out)
    }

    /// Appends what tells the client that the answer is still being made.
    pub fn keep_alive(&mut self, out: &mut BytesMut) {
        match &mut self.client {
            Some(client) => client.keep_alive(out),
            None => out.extend_from_slice(KEEP_ALIVE),
        }
    }

    /// Ends the stream with an error: appends the error chunk and `[DONE]`, unless `[DONE]` is out.
    pub fn fail(&mut self, error: &StreamError, out: &mut BytesMut) {
        let ChatStream { translator, chat, client, .. } = self;
        if chat.is_done() {
            return;
        }
        let Some(client) = client.as_deref_mut() else {
            translator.iter_mut().for_each(|translator| translator.break_off(chat, None, out));
            return chat.fail(error, out);
        };
        match translator {
            Some(translator) if client.is_spliced() => translator.break_off(chat, None, &mut client.chunks),
            Some(translator) => translator.break_off(chat, Some(client), out),
            None => {}
        }
        chat.end_halves(&mut client.chunks);
        client.end_halves(chat, out);
        chat.fail(error, &mut client.chunks);
        client.fail(error, out);
    }

    /// Whether `[DONE]` was written: nothing more will be.
    pub fn is_done(&self) -> bool {
        self.chat.is_done()
    }

    /// Usage of an attempt that failed or was cancelled, if the upstream reported usage or produced output.
    pub fn spent(&self) -> Option<Usage> {
        self.chat.spent()
    }

    /// Tokens of the output so far, estimated from its length. Cheap.
    pub fn produced_tokens(&self) -> u64 {
        self.chat.produced_tokens()
    }

    /// Usage and cost so far: as reported by the upstream, or estimated from its output.
    pub fn outcome(&self) -> Outcome {
        self.chat.outcome()
    }
}

/// The answer of an upstream of another dialect that was not streamed, for a client of another dialect. It goes the way of a
/// stream, so its parts keep their order, which a whole chat answer cannot say. `max_held_bytes` bounds what waits for other
/// content.
pub(crate) fn whole_answer(
    body: &str,
    translation: &Translation,
    client: &ClientRequest,
    context: &AnswerContext,
    max_held_bytes: usize,
) -> Result<Answer, AnswerFault> {
    let mut chat = ChatRewriter::new(context.clone(), StreamOptions::default(), ToolCallOrder::of(translation));
    let mut client = ClientStream::new(client, None, context, AnswerForm::Whole, max_held_bytes);
    let mut out = BytesMut::new();
    StreamTranslator::new(translation.decoder()).whole(body, &mut chat, &mut client, &mut out)?;
    Ok(Answer { body: out.freeze(), outcome: chat.outcome() })
}

/// The way of an event: the dialect of the upstream, chat, and the dialect of the client.
struct EventRoute<'s> {
    translator: Option<&'s mut StreamTranslator>,
    chat: &'s mut ChatRewriter,
    client: Option<&'s mut ClientStream>,
}

impl EventRoute<'_> {
    fn event(
        &mut self,
        event: &StreamEvent<'_>,
        progress: &mut Progress,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        let Some(client) = self.client.as_deref_mut() else {
            return rewrite(event, self.translator.as_deref_mut(), self.chat, progress, out);
        };
        if let Some(translator) = self.translator.as_deref_mut().filter(|_| !client.is_spliced()) {
            return translator.event(event, self.chat, Some(client), progress, out);
        }
        rewrite(event, self.translator.as_deref_mut(), self.chat, progress, &mut client.chunks)?;
        client.event(event, self.chat, out)
    }

    fn end(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let Some(client) = self.client.as_deref_mut() else {
            return end(self.translator.as_deref_mut(), self.chat, out);
        };
        end(self.translator.as_deref_mut(), self.chat, &mut client.chunks)?;
        client.end(self.chat, out)
    }
}

fn rewrite(
    event: &StreamEvent<'_>,
    translator: Option<&mut StreamTranslator>,
    chat: &mut ChatRewriter,
    progress: &mut Progress,
    out: &mut BytesMut,
) -> Result<(), AnswerFault> {
    match translator {
        Some(translator) => translator.event(event, chat, None, progress, out),
        None => chat.event(event, progress, out),
    }
}

fn end(
    translator: Option<&mut StreamTranslator>,
    chat: &mut ChatRewriter,
    out: &mut BytesMut,
) -> Result<(), AnswerFault> {
    if let Some(translator) = translator {
        translator.end(chat, out)?;
    }
    chat.end(out)
}

/// An unfinished event at the end of the body counts as truncated instead of malformed.
fn cut_event(fault: AnswerFault) -> AnswerFault {
    match fault.kind {
        FailureKind::Malformed => AnswerFault { kind: FailureKind::Truncated, ..fault },
        _ => fault,
    }
}
