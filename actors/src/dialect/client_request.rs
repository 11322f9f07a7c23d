//! Clients of other dialects than chat: what of their request is kept until the answer.

use bytes::Bytes;

use super::{
    neutral::{FieldFates, StateKey},
    outgoing::CallHeaders,
    responses::inbound::echo::ResponseEcho,
};
use crate::domain::Dialect;

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
    /// Headers of the request that endpoints of the same dialect get.
    pub headers: CallHeaders,
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
}
