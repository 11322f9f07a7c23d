//! Clients of other APIs than chat: what of their request is kept until the answer.

use std::{borrow::Cow, cell::OnceCell};

use bytes::Bytes;
use pointsman_domain::{Capability, Dialect, Endpoint};

use super::{
    anthropic,
    json::{Raw, object},
    neutral::{Conversation, StateKey, UnsupportedFields, UpstreamHeaders},
    responses::{self, inbound::echo::ResponseEcho},
};

/// A request to another API than chat.
#[derive(Debug, Clone)]
pub struct ClientRequest {
    /// What only its API has.
    pub shape: ClientShape,
    /// Its body as it came, for endpoints with the same API.
    pub body: Bytes,
    /// What became of its fields on the way to the chat body.
    pub unsupported: UnsupportedFields,
    /// A field of a feature that only endpoints with the same API have.
    pub native_feature: Option<String>,
    /// Headers of the request that endpoints of the same dialect get.
    pub headers: UpstreamHeaders,
    /// Seals reasoning of other providers.
    pub state_key: StateKey,
}

/// Reads what the body of a request that was accepted asks for.
pub(crate) type ConversationReader = for<'b> fn(&'b [u8], &StateKey) -> Option<Conversation<'b>>;

/// Where a chat stands that is a request of another API.
#[derive(Debug, Clone)]
pub(crate) struct MessageSource {
    /// The client's body.
    pub(super) body: Bytes,
    pub(super) state_key: StateKey,
    pub(super) read: ConversationReader,
    /// Whether a text alone is written as a string to chat servers. For clients of Responses it stays a list of one part.
    pub(super) has_short_texts: bool,
}

impl MessageSource {
    /// What it asks for.
    pub(crate) fn conversation(&self) -> Option<Conversation<'_>> {
        (self.read)(&self.body, &self.state_key)
    }
}

/// What only requests to one API have.
#[derive(Debug, Clone)]
pub enum ClientShape {
    /// The Anthropic Messages API.
    Messages {
        /// Whether the client wants signatures of reasoning without its text.
        omits_thinking: bool,
        /// Texts that end the answer, a JSON array as the client wrote it; may be empty.
        stop_sequences: Bytes,
        /// Whether answers in its history have texts that say nothing, which the original API does not take back.
        has_blank_answers: bool,
    },
    /// The OpenAI Responses API, with what answers repeat of the request.
    Responses(ResponseEcho),
    /// The deprecated completions of texts of the OpenAI API.
    Completion {
        /// Whether the client asked for the usage of a stream.
        shows_usage: bool,
    },
}

impl ClientRequest {
    /// Its dialect.
    pub const fn dialect(&self) -> Dialect {
        match self.shape {
            ClientShape::Messages { .. } => Dialect::Anthropic,
            ClientShape::Responses(_) => Dialect::Responses,
            ClientShape::Completion { .. } => Dialect::OpenAi,
        }
    }

    /// Whether an endpoint has the API of the client, so that it gets the client's bytes.
    pub fn is_native_at(&self, endpoint: &Endpoint) -> bool {
        match self.shape {
            ClientShape::Completion { .. } => {
                endpoint.dialect == Dialect::OpenAi && !endpoint.lacks.has(Capability::LegacyCompletions)
            }
            ClientShape::Messages { .. } | ClientShape::Responses(_) => endpoint.dialect == self.dialect(),
        }
    }

    /// The client's names for fields of the chat body.
    pub(super) fn field_names(&self) -> FieldNames<'_> {
        FieldNames { client: self, body: OnceCell::new() }
    }
}

/// The names that a client has for fields of the chat body. Its own body is read for those few of which it depends on that.
pub(super) struct FieldNames<'c> {
    client: &'c ClientRequest,
    body: OnceCell<Option<Raw<'c>>>,
}

impl FieldNames<'_> {
    /// Several fields of the client may have become one of chat; none, if the gateway has added it.
    pub(super) fn of<'n>(&self, name: &'n str) -> Vec<Cow<'n, str>> {
        let read = || std::str::from_utf8(&self.client.body).ok().and_then(|text| object(text).ok());
        let member = |name: &[u8]| (*self.body.get_or_init(read))?.member(name).filter(|value| !value.is_null());
        let given = match self.client.shape {
            ClientShape::Messages { .. } => anthropic::inbound::given_fields(member, name),
            ClientShape::Responses(_) => responses::inbound::given_fields(member, name),
            ClientShape::Completion { .. } => None,
        };
        match given {
            Some(given) => given.into_iter().map(Cow::Borrowed).collect(),
            None => vec![self.client.shape.field_name(name)],
        }
    }
}

impl ClientShape {
    /// The field that holds the prompt.
    pub const fn prompt_field(&self) -> &'static str {
        match self {
            ClientShape::Messages { .. } => "messages",
            ClientShape::Responses(_) => "input",
            ClientShape::Completion { .. } => "prompt",
        }
    }

    /// The client's name for a field of the chat body.
    pub(super) fn field_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match (self, name) {
            (ClientShape::Messages { .. }, name) => anthropic::inbound::field_name(name),
            (ClientShape::Responses(_), name) => responses::inbound::field_name(name),
            (ClientShape::Completion { .. }, name) => completion_field(name),
        }
    }

    /// The client's name for a place in the chat body. A place within the conversation is that of the whole where the client's API
    /// counts other things than messages.
    pub(super) fn param(&self, param: &str) -> String {
        let counts_messages = matches!(self, ClientShape::Messages { .. });
        let known = if param.starts_with("messages[") && !counts_messages { "messages" } else { param };
        self.field_name(known).into_owned()
    }
}

/// The name that a completion of a text has for a field of the chat body.
pub(super) fn completion_field(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(if name == "messages" { "prompt" } else { name })
}
