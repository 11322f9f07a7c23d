//! What is sent to an endpoint, and what is kept to read its answer.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use pointsman_domain::{Dialect, Endpoint, Platform};

use super::{
    gemini::RememberedSignatures,
    neutral::{ToolNames, UnsupportedFields, UpstreamHeaders},
    responses::provider_state::ProviderState,
    stream_reader::Framing,
};

/// A request body in two parts. The second is the end of the client's own body if that is long: it is not copied.
#[derive(Debug, Clone, Default)]
pub struct SentBody {
    parts: [Bytes; 2],
    /// Both in one, for those who read it.
    whole: OnceLock<Bytes>,
}

impl SentBody {
    pub(super) fn new(first: Bytes, rest: Bytes) -> SentBody {
        SentBody { parts: [first, rest], whole: OnceLock::new() }
    }

    /// The parts, in order. The second is mostly empty.
    pub const fn parts(&self) -> &[Bytes; 2] {
        &self.parts
    }

    /// The body in one piece. Copied the first time if it has two.
    pub fn whole(&self) -> &Bytes {
        match &self.parts {
            [first, rest] if rest.is_empty() => first,
            [first, rest] => self.whole.get_or_init(|| [&**first, &**rest].concat().into()),
        }
    }
}

impl Deref for SentBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.whole()
    }
}

impl From<Bytes> for SentBody {
    fn from(body: Bytes) -> SentBody {
        SentBody::new(body, Bytes::new())
    }
}

/// A body for one attempt.
#[derive(Debug, Clone, Default)]
pub struct OutgoingBody {
    /// What to send.
    pub bytes: SentBody,
    /// Bodies of further calls to the same address, whose responses make one with that to the first. Only embeddings have any.
    pub further: Vec<Bytes>,
    /// Parameters that the endpoint does not support and was not sent, fit for a header; the first 64.
    pub dropped: Vec<Arc<str>>,
    /// Parameters whose meaning was produced by other means, fit for a header; the first 64.
    pub emulated: Vec<Arc<str>>,
    /// Headers that this body needs.
    pub headers: UpstreamHeaders,
    /// Whether it is the client's own body, whose response passes as it comes.
    pub is_clients_own: bool,
    /// Whether the provider may keep its answer.
    pub(super) state: ProviderState,
    /// Names of tools in a chat body that the gateway wrote for a client of another dialect.
    pub(super) names: ToolNames,
    /// How the response is read; `None` if it is a chat response.
    pub translation: Option<Translation>,
}

impl OutgoingBody {
    pub(super) fn new(bytes: impl Into<SentBody>) -> OutgoingBody {
        OutgoingBody { bytes: bytes.into(), ..OutgoingBody::default() }
    }

    /// A body that does without these fields.
    pub(super) fn without(bytes: impl Into<SentBody>, unsupported: UnsupportedFields) -> OutgoingBody {
        let (dropped, emulated) = unsupported.into_parts();
        OutgoingBody { dropped, emulated, ..OutgoingBody::new(bytes) }
    }

    /// The same body, with the fields that it does without under other names, which may be several or none, and with `more` of them.
    pub(super) fn renamed(self, more: &UnsupportedFields, names: impl Fn(&str) -> Vec<String>) -> OutgoingBody {
        let mut unsupported = more.clone();
        self.dropped.iter().flat_map(|name| names(name)).for_each(|name| unsupported.drop(&name));
        self.emulated.iter().flat_map(|name| names(name)).for_each(|name| unsupported.emulate(&name));
        let (dropped, emulated) = unsupported.into_parts();
        OutgoingBody { dropped, emulated, ..self }
    }
}

/// How responses in another dialect are read.
#[derive(Debug, Clone)]
pub struct Translation {
    pub(super) dialect: Dialect,
    pub(super) names: ToolNames,
    /// How its streams are framed.
    pub(super) framing: Framing,
    /// The provider's name for the model.
    pub(super) model: Arc<str>,
    /// Where signatures of calls are kept.
    pub(super) signatures: Option<RememberedSignatures>,
}

impl Translation {
    pub(super) fn new(dialect: Dialect, names: ToolNames, endpoint: &Endpoint) -> Translation {
        let framing = match (dialect, endpoint.platform) {
            (Dialect::Converse, _) => Framing::Events,
            (Dialect::Anthropic, Platform::Bedrock) => Framing::Chunks,
            _ => Framing::ServerSent,
        };
        Translation { dialect, names, framing, model: Arc::clone(&endpoint.upstream_model), signatures: None }
    }
}
