//! The writer of answers for clients, one per API.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    AnswerContext, AnswerFault,
    answer::AnswerResult,
    anthropic::encode::{MessageOpening, MessagesEncoder},
    client_request::{ClientRequest, ClientShape},
    neutral::{AnswerEvent, AnswerForm, AnswerSink},
    openai::{
        AnswerMeter, ChatEncoder, StreamOptions, completion_writer::CompletionWriter, text_completion::TextEncoder,
    },
    responses::encode::{ResponseOpening, ResponsesEncoder},
    stream_error::StreamError,
};

/// Longest buffer that is kept for the next event.
const MAX_KEPT_BYTES: usize = 64 * 1024;
/// Most bytes of an answer that is repeated at its end.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// Writes answers in the dialect of a client. `max_held_bytes` bounds what waits for other content.
#[derive(Debug)]
pub(super) enum ClientEncoder {
    Chat(Box<ChatEncoder>),
    WholeChat(Box<CompletionWriter>),
    Messages(Box<MessagesEncoder>),
    Responses(Box<ResponsesEncoder>),
    Completion(Box<TextEncoder>),
}

impl ClientEncoder {
    /// The encoder for a client of chat, or of another API if there is a `client`.
    pub(super) fn new(
        client: Option<&ClientRequest>,
        context: &AnswerContext,
        options: StreamOptions,
        form: AnswerForm,
        max_held_bytes: usize,
    ) -> ClientEncoder {
        let (id, model) = (context.generation.as_str().into(), Arc::clone(&context.model));
        let Some(client) = client else {
            return match form {
                AnswerForm::Streamed => ClientEncoder::Chat(Box::new(ChatEncoder::new(context.clone(), options))),
                AnswerForm::Whole => ClientEncoder::WholeChat(Box::default()),
            };
        };
        let state_key = client.state_key.clone();
        match &client.shape {
            ClientShape::Messages { omits_thinking, stop_sequences, .. } => {
                ClientEncoder::Messages(Box::new(MessagesEncoder::new(MessageOpening {
                    id,
                    model,
                    prompt_tokens: context.prompt_tokens,
                    form,
                    omits_thinking: *omits_thinking,
                    stop_sequences: stop_sequences.clone(),
                    max_held_bytes,
                    state_key,
                })))
            }
            ClientShape::Responses(echo) => {
                ClientEncoder::Responses(Box::new(ResponsesEncoder::new(ResponseOpening {
                    id,
                    model,
                    created: context.created,
                    clock: context.clock,
                    form,
                    echo: echo.clone(),
                    max_answer_bytes: max_held_bytes.max(MAX_ANSWER_BYTES),
                    state_key,
                })))
            }
            ClientShape::Completion { .. } => {
                ClientEncoder::Completion(Box::new(TextEncoder::new(context, options.usage_chunk)))
            }
        }
    }

    /// Goes on behind events that passed as they came. `next`: the number of the next event, if they have numbers.
    pub(super) fn continue_at(&mut self, next: Option<u64>) {
        if let (ClientEncoder::Responses(encoder), Some(next)) = (self, next) {
            encoder.continue_at(next);
        }
    }

    /// Appends what there is to send.
    pub(super) fn take(&mut self, out: &mut BytesMut) {
        let written = match self {
            ClientEncoder::Chat(encoder) => &mut encoder.out,
            ClientEncoder::Messages(encoder) => encoder.written(),
            ClientEncoder::Responses(encoder) => encoder.written(),
            ClientEncoder::Completion(encoder) => encoder.written(),
            ClientEncoder::WholeChat(_) => return,
        };
        out.extend_from_slice(written);
        // A large event leaves nothing behind.
        if written.capacity() > MAX_KEPT_BYTES { *written = BytesMut::new() } else { written.clear() }
    }

    /// Ends the stream of this answer.
    pub(super) fn finish(&mut self, answer: &AnswerMeter) {
        let usage = AnswerEvent::Usage((&answer.usage()).into());
        match self {
            ClientEncoder::Chat(encoder) => encoder.finish(answer),
            ClientEncoder::Messages(encoder) => {
                // Counts cannot be too many.
                let _ = encoder.event(usage);
                encoder.finish();
            }
            ClientEncoder::Responses(encoder) => {
                let _ = encoder.event(usage);
                encoder.finish();
            }
            ClientEncoder::Completion(encoder) => encoder.finish(answer),
            ClientEncoder::WholeChat(_) => {}
        }
    }

    /// Ends the stream of this answer with an error.
    pub(super) fn fail(&mut self, error: &StreamError, answer: &AnswerMeter) {
        match self {
            ClientEncoder::Chat(encoder) => encoder.fail(error, answer),
            ClientEncoder::Messages(encoder) => encoder.fail(error),
            ClientEncoder::Responses(encoder) => encoder.fail(error),
            ClientEncoder::Completion(encoder) => encoder.fail(error),
            ClientEncoder::WholeChat(_) => {}
        }
    }

    pub(super) fn keep_alive(&mut self) {
        match self {
            ClientEncoder::Chat(encoder) => encoder.keep_alive(),
            ClientEncoder::Messages(encoder) => encoder.keep_alive(),
            ClientEncoder::Responses(encoder) => encoder.keep_alive(),
            ClientEncoder::Completion(encoder) => encoder.keep_alive(),
            ClientEncoder::WholeChat(_) => {}
        }
    }

    /// The body of this answer, ended.
    ///
    /// # Errors
    /// When it is not whole.
    pub(super) fn whole(mut self, answer: &AnswerMeter) -> AnswerResult<Bytes> {
        self.finish(answer);
        match self {
            ClientEncoder::WholeChat(writer) => writer.answer(answer),
            ClientEncoder::Messages(encoder) => Ok(encoder.whole()),
            ClientEncoder::Responses(encoder) => Ok(encoder.whole()),
            // Whole answers to requests of this API pass as they came.
            ClientEncoder::Chat(_) | ClientEncoder::Completion(_) => Err(AnswerFault::malformed("a stream")),
        }
    }
}

impl AnswerSink for ClientEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        match self {
            ClientEncoder::Chat(encoder) => encoder.event(event),
            ClientEncoder::WholeChat(writer) => writer.event(event),
            ClientEncoder::Messages(encoder) => encoder.event(event),
            ClientEncoder::Responses(encoder) => encoder.event(event),
            ClientEncoder::Completion(encoder) => encoder.event(event),
        }
    }
}
