//! Clients of other dialects than chat: what of their request is kept until the answer, and the writer of their answers.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{
    AnswerContext, AnswerFault,
    anthropic::encode::{AnswerForm, MessageOpening, MessagesEncoder},
    neutral::{AnswerEvent, AnswerSink, FieldFates, StateKey},
    openai::StreamError,
};
use crate::domain::Dialect;

/// A request in another dialect than chat.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    /// Its dialect.
    pub dialect: Dialect,
    /// Its body as it came, for endpoints of the same dialect.
    pub body: Bytes,
    /// What became of its fields on the way to the chat body.
    pub fates: FieldFates,
    /// A field of a feature that only endpoints of the same dialect have.
    pub native_feature: Option<String>,
    /// Whether the client wants signatures of thoughts without their text.
    pub omits_thinking: bool,
    /// Headers of the request that endpoints of the same dialect get: names in lower case, and values.
    pub headers: Vec<(&'static str, String)>,
    /// Seals reasoning of other providers.
    pub state_key: StateKey,
}

impl ClientRequest {
    /// The client's name for a field of the chat body.
    #[must_use]
    pub fn field_name<'n>(&self, name: &'n str) -> &'n str {
        match (self.dialect, name) {
            (Dialect::Anthropic, "stop") => "stop_sequences",
            (Dialect::Anthropic, "response_format") => "output_config.format",
            (Dialect::Anthropic, "reasoning" | "reasoning_effort") => "thinking",
            (Dialect::Anthropic, "user") => "metadata.user_id",
            (Dialect::Anthropic, "parallel_tool_calls") => "tool_choice.disable_parallel_tool_use",
            (_, name) => name,
        }
    }
}

/// Writes answers in the dialect of a client. `max_held_bytes` bounds what waits for other content.
#[derive(Debug)]
pub(super) enum ClientEncoder {
    Messages(Box<MessagesEncoder>),
}

impl ClientEncoder {
    pub(super) fn new(
        client: &ClientRequest,
        context: &AnswerContext,
        form: AnswerForm,
        max_held_bytes: usize,
    ) -> Option<ClientEncoder> {
        match client.dialect {
            Dialect::OpenAi | Dialect::Gemini => None,
            Dialect::Anthropic => Some(ClientEncoder::Messages(Box::new(MessagesEncoder::new(MessageOpening {
                id: context.generation.as_str().into(),
                model: Arc::clone(&context.model),
                prompt_tokens: context.prompt_tokens,
                form,
                omits_thinking: client.omits_thinking,
                max_held_bytes,
                state_key: client.state_key.clone(),
            })))),
        }
    }

    /// Appends what there is to send.
    pub(super) fn take(&mut self, out: &mut BytesMut) {
        match self {
            ClientEncoder::Messages(encoder) => out.extend_from_slice(&encoder.take()),
        }
    }

    pub(super) fn finish(&mut self) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.finish(),
        }
    }

    pub(super) fn fail(&mut self, error: &StreamError) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.fail(error),
        }
    }

    pub(super) fn keep_alive(&mut self) {
        match self {
            ClientEncoder::Messages(encoder) => encoder.keep_alive(),
        }
    }

    pub(super) fn whole(self) -> Bytes {
        match self {
            ClientEncoder::Messages(encoder) => encoder.whole(),
        }
    }
}

impl AnswerSink for ClientEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        match self {
            ClientEncoder::Messages(encoder) => encoder.event(event),
        }
    }
}
