//! Clients of other dialects than chat: what of their request is kept until the answer, and the writer of their answers.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    AnswerContext, AnswerFault,
    anthropic::encode::{MessageOpening, MessagesEncoder},
    neutral::{AnswerEvent, AnswerForm, AnswerSink, FieldFates, StateKey},
    openai::StreamError,
    responses::{
        self,
        encode::{ResponseOpening, ResponsesEncoder},
        inbound::ResponseEcho,
    },
};
use crate::domain::Dialect;

/// Most bytes of an answer that is repeated at its end.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// A request in another dialect than chat.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    /// What only its dialect has.
    pub shape: ClientShape,
    /// Its body as it came, for endpoints of the same dialect.
    pub body: Bytes,
    /// What became of its fields on the way to the chat body.
    pub fates: FieldFates,
    /// A field of a feature that only endpoints of the same dialect have.
    pub native_feature: Option<String>,
    /// Headers of the request that endpoints of the same dialect get: names in lower case, and values.
    pub headers: Vec<(&'static str, String)>,
    /// Seals reasoning of other providers.
    pub state_key: StateKey,
}

/// What only requests of one dialect have.
#[derive(Debug, Clone)]
pub enum ClientShape {
    /// The Anthropic Messages API.
    Messages {
        /// Whether the client wants signatures of thoughts without their text.
        omits_thinking: bool,
    },
    /// The OpenAI Responses API, with what answers repeat of the request.
    Responses(ResponseEcho),
}

impl ClientRequest {
    /// Its dialect.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        match self.shape {
            ClientShape::Messages { .. } => Dialect::Anthropic,
            ClientShape::Responses(_) => Dialect::Responses,
        }
    }

    /// The client's name for a field of the chat body.
    #[must_use]
    pub fn field_name<'n>(&self, name: &'n str) -> &'n str {
        match (&self.shape, name) {
            (ClientShape::Responses(_), name) => responses::inbound::field_name(name),
            (ClientShape::Messages { .. }, "stop") => "stop_sequences",
            (ClientShape::Messages { .. }, "response_format") => "output_config.format",
            (ClientShape::Messages { .. }, "reasoning" | "reasoning_effort") => "thinking",
            (ClientShape::Messages { .. }, "user") => "metadata.user_id",
            (ClientShape::Messages { .. }, "parallel_tool_calls") => "tool_choice.disable_parallel_tool_use",
            (ClientShape::Messages { .. }, name) => name,
        }
    }
}

/// Writes answers in the dialect of a client. `max_held_bytes` bounds what waits for other content.
#[derive(Debug)]
pub(super) enum ClientEncoder {
    Messages(Box<MessagesEncoder>),
    Responses(Box<ResponsesEncoder>),
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
            ClientShape::Messages { omits_thinking } => {
                ClientEncoder::Messages(Box::new(MessagesEncoder::new(MessageOpening {
                    id,
                    model,
                    prompt_tokens: context.prompt_tokens,
                    form,
                    omits_thinking: *omits_thinking,
                    max_held_bytes,
                    state_key,
                })))
            }
            ClientShape::Responses(echo) => {
                ClientEncoder::Responses(Box::new(ResponsesEncoder::new(ResponseOpening {
                    id,
                    model,
                    created: context.created,
                    form,
                    echo: echo.clone(),
                    max_answer_bytes: max_held_bytes.max(MAX_ANSWER_BYTES),
                    state_key,
                })))
            }
        }
    }

    /// Goes on behind events that passed as they came. `next`: the number of the next event, if they have numbers.
    pub(super) fn continue_at(&mut self, next: u64) {
        match self {
            ClientEncoder::Messages(_) => {}
            ClientEncoder::Responses(encoder) => encoder.continue_at(next),
        }
    }

    /// Appends what there is to send.
    pub(super) fn take(&mut self, out: &mut BytesMut) {
        match self {
            ClientEncoder::Messages(encoder) => out.extend_from_slice(&encoder.take()),
            ClientEncoder::Responses(encoder) => out.extend_from_slice(&encoder.take()),
        }
    }

    pub(super) fn finish(&mut self) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.finish(),
            ClientEncoder::Responses(encoder) => encoder.finish(),
        }
    }

    pub(super) fn fail(&mut self, error: &StreamError) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.fail(error),
            ClientEncoder::Responses(encoder) => encoder.fail(error),
        }
    }

    pub(super) fn keep_alive(&mut self) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.keep_alive(),
            ClientEncoder::Responses(encoder) => encoder.keep_alive(),
        }
    }

    pub(super) fn whole(self) -> Bytes {
        match self {
            ClientEncoder::Messages(encoder) => encoder.whole(),
            ClientEncoder::Responses(encoder) => encoder.whole(),
        }
    }
}

impl AnswerSink for ClientEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        match self {
            ClientEncoder::Messages(encoder) => encoder.event(event),
            ClientEncoder::Responses(encoder) => encoder.event(event),
        }
    }
}
