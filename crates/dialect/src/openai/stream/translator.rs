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

    /// Takes one event of the upstream and appends what it becomes to `out`: for the client of another dialect, if there is one,
    /// else a chunk of chat.
    pub(super) fn event(
        &mut self,
        event: &StreamEvent<'_>,
        chat: &mut ChatRewriter,
        mut client: Option<&mut ClientStream>,
        progress: &mut Progress,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        if chat.is_done() || (event.data.trim_ascii().is_empty() && !event.is_error) {
            return Ok(());
        }
        let StreamTranslator { decoder, writer, chunk } = self;
        let client = &mut client;
        decoder.event(event, &mut EventSink { writer, chunk, chat, client, progress, out })?;
        progress.content |= decoder.has_open_block();
        if decoder.is_done() { rewrite(b"[DONE]", chat, client, progress, out) } else { Ok(()) }
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
        decoder.whole(body, &mut EventSink { writer, chunk, chat, client: &mut Some(&mut *client), progress, out })?;
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

    /// Hands on what is held of texts, because the stream breaks off.
    pub(super) fn break_off(
        &mut self,
        chat: &mut ChatRewriter,
        mut client: Option<&mut ClientStream>,
        out: &mut BytesMut,
    ) {
        let StreamTranslator { decoder, writer, chunk } = self;
        let (client, progress) = (&mut client, &mut Progress::default());
        // The answer has failed already.
        let _ = decoder.break_off(&mut EventSink { writer, chunk, chat, client, progress, out });
    }

    /// Takes the end of the stream.
    pub(super) fn end(&mut self, chat: &mut ChatRewriter, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let StreamTranslator { decoder, writer, chunk } = self;
        let progress = &mut Progress::default();
        decoder.end(&mut EventSink { writer, chunk, chat, client: &mut None, progress, out })
    }
}

/// Sends each event on at once: as it is, or as the chunk that it becomes.
struct EventSink<'s, 'c> {
    writer: &'s mut ChunkWriter,
    chunk: &'s mut BytesMut,
    chat: &'s mut ChatRewriter,
    client: &'s mut Option<&'c mut ClientStream>,
    progress: &'s mut Progress,
    out: &'s mut BytesMut,
}

impl AnswerSink for EventSink<'_, '_> {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        let EventSink { writer, chunk, chat, client, progress, out } = self;
        chunk.clear();
        if let Some(client) = client {
            if let AnswerEvent::ToolCallArguments { choice, call, text } = &event {
                if let Some(call) = chat.passing_arguments((*choice, *call), text, progress, chunk)? {
                    let text = EscapedText::plain(utf8(chunk)?);
                    let settled = AnswerEvent::ToolCallArguments { choice: *choice, call, text };
                    return if chunk.is_empty() { Ok(()) } else { client.direct(settled, out) };
                }
            } else if chat.passes(&event, progress) {
                return client.direct(event, out);
            }
        }
        writer.push(&event, chunk);
        if chunk.is_empty() { Ok(()) } else { rewrite(chunk, chat, client, progress, out) }
    }
}

/// Takes a chunk of chat that the gateway made.
fn rewrite(
    chunk: &[u8],
    chat: &mut ChatRewriter,
    client: &mut Option<&mut ClientStream>,
    progress: &mut Progress,
    out: &mut BytesMut,
) -> Result<(), AnswerFault> {
    let chunk = StreamEvent { data: Cow::Borrowed(chunk), is_error: false };
    let Some(client) = client else { return chat.event(&chunk, progress, out) };
    chat.event(&chunk, progress, &mut client.chunks)?;
    client.encode(out)
}
