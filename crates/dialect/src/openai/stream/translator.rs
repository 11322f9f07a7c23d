//! Streams of another dialect: decoded, and written as chat chunks for [`ChatRewriter`].

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use super::{Progress, chunk::ChatRewriter, client_stream::ClientStream};
use crate::{
    answer::AnswerFault,
    frame::StreamEvent,
    neutral::{AnswerEvent, AnswerSink, EscapedText},
    openai::{answer::utf8, chunk_writer::ChunkWriter, completion_writer::CompletionWriter},
    upstream_decoder::UpstreamDecoder,
};

/// Decodes one stream.
#[derive(Debug)]
pub(super) struct StreamTranslator {
    decoder: UpstreamDecoder,
    writer: ChunkWriter,
    /// The chunk being written.
    chunk: BytesMut,
}

impl StreamTranslator {
    pub(super) fn new(decoder: UpstreamDecoder) -> StreamTranslator {
        StreamTranslator { decoder, writer: ChunkWriter::default(), chunk: BytesMut::new() }
    }

    /// Takes one event of the upstream and appends what it becomes to `out`.
    pub(super) fn event(
        &mut self,
        event: &StreamEvent<'_>,
        chat: &mut ChatRewriter,
        progress: &mut Progress,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        if chat.is_done() || (event.data.trim_ascii().is_empty() && !event.is_error) {
            return Ok(());
        }
        let StreamTranslator { decoder, writer, chunk } = self;
        decoder.event(event, &mut ChunkSink { writer, chunk, chat, progress, out })?;
        progress.content |= decoder.has_open_block();
        if self.decoder.is_done() {
            chat.event(&StreamEvent { data: Cow::Borrowed(b"[DONE]"), is_error: false }, progress, out)?;
        }
        Ok(())
    }

    /// The same for a client of another dialect.
    pub(super) fn event_for(
        &mut self,
        client: &mut ClientStream,
        event: &StreamEvent<'_>,
        chat: &mut ChatRewriter,
        progress: &mut Progress,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        if chat.is_done() || (event.data.trim_ascii().is_empty() && !event.is_error) {
            return Ok(());
        }
        let StreamTranslator { decoder, writer, chunk } = self;
        decoder.event(event, &mut ClientSink { writer, chunk, chat, client, progress, out })?;
        progress.content |= decoder.has_open_block();
        if self.decoder.is_done() {
            chat.event(&StreamEvent { data: Cow::Borrowed(b"[DONE]"), is_error: false }, progress, &mut client.chunks)?;
            client.encode(out)?;
        }
        Ok(())
    }

    /// Takes an answer that was not streamed, for a client of another dialect. No more than one chunk of it is kept.
    pub(super) fn whole(
        self,
        body: &str,
        chat: &mut ChatRewriter,
        client: &mut ClientStream,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        let StreamTranslator { decoder, mut writer, mut chunk } = self;
        let (writer, chunk, progress) = (&mut writer, &mut chunk, &mut Progress::default());
        decoder.whole(body, &mut ClientSink { writer, chunk, chat, client, progress, out })?;
        chat.end(&mut client.chunks)?;
        client.end(chat, out)
    }

    /// An answer that was not streamed, as a chat completion.
    pub(super) fn completion(self, body: &[u8]) -> Result<Bytes, AnswerFault> {
        let mut completion = CompletionWriter::default();
        self.decoder.whole(utf8(body)?, &mut completion)?;
        completion.finish()
    }

    /// Whether the provider is at work of which it sends nothing until it is done.
    pub(super) fn works_silently(&self) -> bool {
        self.decoder.works_silently()
    }

    /// Takes the end of the stream.
    pub(super) fn end(&mut self, chat: &mut ChatRewriter, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let StreamTranslator { decoder, writer, chunk } = self;
        let progress = &mut Progress::default();
        decoder.end(&mut ChunkSink { writer, chunk, chat, progress, out })
    }
}

/// Encodes each event at once: as it is, or as the chunk that it becomes.
struct ClientSink<'s> {
    writer: &'s mut ChunkWriter,
    chunk: &'s mut BytesMut,
    chat: &'s mut ChatRewriter,
    client: &'s mut ClientStream,
    progress: &'s mut Progress,
    out: &'s mut BytesMut,
}

impl AnswerSink for ClientSink<'_> {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        let ClientSink { writer, chunk, chat, client, progress, out } = self;
        if let AnswerEvent::ToolCallArguments { choice, call, text } = &event {
            chunk.clear();
            if let Some(call) = chat.passing_arguments((*choice, *call), text, progress, chunk)? {
                let text = EscapedText::plain(utf8(chunk)?);
                let settled = AnswerEvent::ToolCallArguments { choice: *choice, call, text };
                return if chunk.is_empty() { Ok(()) } else { client.direct(settled, out) };
            }
        } else if chat.passes(&event, progress) {
            return client.direct(event, out);
        }
        ChunkSink { writer, chunk, chat, progress, out: &mut client.chunks }.event(event)?;
        client.encode(out)
    }
}

struct ChunkSink<'s> {
    writer: &'s mut ChunkWriter,
    chunk: &'s mut BytesMut,
    chat: &'s mut ChatRewriter,
    progress: &'s mut Progress,
    out: &'s mut BytesMut,
}

impl AnswerSink for ChunkSink<'_> {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        self.chunk.clear();
        self.writer.push(&event, self.chunk);
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = StreamEvent { data: Cow::Borrowed(self.chunk), is_error: false };
        self.chat.event(&chunk, self.progress, self.out)
    }
}
