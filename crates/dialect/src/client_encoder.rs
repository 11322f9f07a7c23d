//! The writer of answers for clients of other dialects than chat.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    AnswerContext, AnswerFault,
    anthropic::encode::{MessageOpening, MessagesEncoder},
    client_request::{ClientRequest, ClientShape},
    neutral::{AnswerEvent, AnswerForm, AnswerSink, ToolNames},
    openai::{
        answer_reader::{read_chunk, read_completion},
        text_completion::TextEncoder,
    },
    responses::encode::{ResponseOpening, ResponsesEncoder},
    stream_error::StreamError,
};

/// Most bytes of an answer that is repeated at its end.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// Writes answers in the dialect of a client. `max_held_bytes` bounds what waits for other content.
#[derive(Debug)]
pub(super) enum ClientEncoder {
    Messages(Box<MessagesEncoder>),
    Responses(Box<ResponsesEncoder>),
    Completion(Box<TextEncoder>),
}

impl ClientEncoder {
    pub(super) fn new(
        client: &ClientRequest,
        context: &AnswerContext,
        form: AnswerForm,
        max_held_bytes: usize,
    ) -> ClientEncoder {
        let (id, model) = (context.generation.as_str().into(), Arc::clone(&context.model));
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
                ClientEncoder::Completion(Box::new(TextEncoder::new(id, model, context.created)))
            }
        }
    }

    /// Takes a chunk of chat, JSON without framing. `names`: of the tools in the chat body.
    pub(super) fn chunk(&mut self, chunk: &[u8], names: &ToolNames) -> Result<(), AnswerFault> {
        match self {
            ClientEncoder::Messages(encoder) => read_chunk(chunk, &mut ClientsNames { names, encoder: &mut **encoder }),
            ClientEncoder::Responses(encoder) => {
                read_chunk(chunk, &mut ClientsNames { names, encoder: &mut **encoder })
            }
            ClientEncoder::Completion(encoder) => encoder.chunk(chunk),
        }
    }

    /// Goes on behind events that passed as they came. `next`: the number of the next event, if they have numbers.
    pub(super) fn continue_at(&mut self, next: u64) {
        match self {
            ClientEncoder::Messages(_) | ClientEncoder::Completion(_) => {}
            ClientEncoder::Responses(encoder) => encoder.continue_at(next),
        }
    }

    /// Appends what there is to send.
    pub(super) fn take(&mut self, out: &mut BytesMut) {
        match self {
            ClientEncoder::Messages(encoder) => out.extend_from_slice(&encoder.take()),
            ClientEncoder::Responses(encoder) => out.extend_from_slice(&encoder.take()),
            ClientEncoder::Completion(encoder) => out.extend_from_slice(&encoder.take()),
        }
    }

    pub(super) fn finish(&mut self) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.finish(),
            ClientEncoder::Responses(encoder) => encoder.finish(),
            ClientEncoder::Completion(encoder) => encoder.finish(),
        }
    }

    pub(super) fn fail(&mut self, error: &StreamError) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.fail(error),
            ClientEncoder::Responses(encoder) => encoder.fail(error),
            ClientEncoder::Completion(encoder) => encoder.fail(error),
        }
    }

    pub(super) fn keep_alive(&mut self) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.keep_alive(),
            ClientEncoder::Responses(encoder) => encoder.keep_alive(),
            ClientEncoder::Completion(encoder) => encoder.keep_alive(),
        }
    }

    /// The answer to the client that a whole chat answer of the gateway means. `names`: of the tools in the chat body.
    pub(super) fn completion(self, body: &[u8], names: &ToolNames) -> Result<Bytes, AnswerFault> {
        match self {
            ClientEncoder::Messages(mut encoder) => {
                read_completion(body, &mut ClientsNames { names, encoder: &mut *encoder })?;
                Ok(encoder.whole())
            }
            ClientEncoder::Responses(mut encoder) => {
                read_completion(body, &mut ClientsNames { names, encoder: &mut *encoder })?;
                Ok(encoder.whole())
            }
            // Requests of this API go only where it is served.
            ClientEncoder::Completion(_) => Err(AnswerFault::malformed("a chat in the place of a text")),
        }
    }
}

impl AnswerSink for ClientEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        match self {
            ClientEncoder::Messages(encoder) => encoder.event(event),
            ClientEncoder::Responses(encoder) => encoder.event(event),
            // Its answers are never translated.
            ClientEncoder::Completion(_) => Err(AnswerFault::malformed("a chat in the place of a text")),
        }
    }
}

/// Passes events on with the client's names of tools.
struct ClientsNames<'e, E> {
    names: &'e ToolNames,
    encoder: &'e mut E,
}

impl<E: AnswerSink> AnswerSink for ClientsNames<'_, E> {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        let AnswerEvent::ToolCallStarted { choice, call, id, name, kind } = event else {
            return self.encoder.event(event);
        };
        let name = self.names.original(&name);
        self.encoder.event(AnswerEvent::ToolCallStarted { choice, call, id, name, kind })
    }
}
