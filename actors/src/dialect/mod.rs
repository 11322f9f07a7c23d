//! Provider wire formats, both ways: bytes to domain and back, without sockets.
//!
//! Clients use the OpenAI dialect. The dialect of an upstream is its [`Dialect`]. Today there is one, so client and
//! upstream share it and requests are **spliced**: the body is checked in one pass that keeps positions instead of
//! values, and is written as slices of the original. Unknown fields and every byte of a prompt, a schema or tool call
//! arguments survive. Answers and chunks are rewritten in the same way.
//!
//! Layout: each dialect has a directory of its own ([`openai`]: `request`, `answer`, `stream`, `error`, `finish`,
//! `usage`); framing of streams is in [`frame`], JSON without a document model in `json`, and the cleaning of provider
//! texts in `sanitize`. All dialects produce the same types: an [`OutgoingBody`] for an endpoint, and an [`Answer`]
//! with the body for the client and the [`Outcome`] for the ledger. A further dialect is a new variant of [`Dialect`]
//! and a new directory beside [`openai`]; code outside this module does not change.

mod answer;
mod anthropic;
pub mod frame;
mod json;
mod neutral;
pub mod openai;
mod responses;
mod sanitize;

pub use answer::{Answer, AnswerContext, AnswerFault, Outcome};
pub use anthropic::inbound::{InboundMessages, read_messages};
pub use neutral::{FieldFates, StateKey};
pub use openai::{
    ChatStream, ImageAnswer, ImageOrigin, ImageSource, MadeImage, Progress, StreamError, StreamOptions, UsageChunk,
    request::{
        ChatPurpose, ChatRequest, ImageFormat, ImageRequest, OutgoingBody, PROVIDER_MEMBERS, RequestLimits,
        Restriction, RestrictionKind, field_meant_at_top_level, field_meant_in_metadata, shown,
    },
    rewrite_answer, rewrite_image_answer, usage_of_failed_answer,
};

pub use responses::inbound::{InboundResponses, ResponseEcho, read_responses};

use crate::domain::{Catalog, Endpoint};

/// Wire format of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// The OpenAI API, which clients use too, so requests and answers are spliced.
    #[default]
    OpenAi,
}

impl Dialect {
    /// Path of chat requests, relative to the base address of the upstream.
    #[must_use]
    pub const fn chat_path(self) -> &'static str {
        match self {
            Dialect::OpenAi => "/chat/completions",
        }
    }

    /// Path of image requests for `endpoint`, relative to the base address of the upstream.
    #[must_use]
    pub const fn image_path(self, endpoint: &Endpoint) -> &'static str {
        match self {
            Dialect::OpenAi if endpoint.images_through_chat => self.chat_path(),
            Dialect::OpenAi => "/images/generations",
        }
    }

    /// The body of a chat for one endpoint.
    #[must_use]
    pub fn chat_body(self, request: &ChatRequest, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        match self {
            Dialect::OpenAi => request.upstream_body(catalog, endpoint),
        }
    }

    /// The body of an image request for one endpoint.
    #[must_use]
    pub fn image_body(self, request: &ImageRequest, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        match self {
            Dialect::OpenAi => request.upstream_body(catalog, endpoint),
        }
    }
}
