//! Provider wire formats, both ways: bytes to domain and back, without sockets.
//!
//! The client speaks the OpenAI dialect. What an upstream speaks is its [`Dialect`], and there are two ways
//! of working between the two:
//!
//! * **The same dialect: splice and pass on.** The client's bytes are the upstream's bytes with the least
//!   change. A request is checked in one pass that keeps positions, not values, and is written out as
//!   slices of the original; fields that nobody here knows survive, and so does every byte of a prompt, a
//!   schema or a tool call's arguments. Answers and chunks are rewritten the same way. This is the fast
//!   form, and the faithful one.
//! * **Another dialect: translate.** The same parsed request is walked again and written in the other
//!   form; its answers are read into the same outcome and written as OpenAI answers. What the other side
//!   cannot express is dropped and reported, exactly as an unsupported parameter is.
//!
//! Either way the callers see the same things: a request gives an [`OutgoingBody`] for an endpoint, an
//! answer gives a body for the client and an outcome for the ledger. So a new dialect is a new variant
//! here and a new directory beside [`openai`], and nothing above this room changes.

mod answer;
pub mod frame;
mod json;
pub mod openai;
mod sanitize;

pub use answer::{Answer, AnswerContext, AnswerFault, Outcome};
pub use openai::{
    ChatStream, ImageAnswer, ImageOrigin, ImageSource, MadeImage, Progress, StreamError, StreamOptions, UsageChunk,
    request::{
        ChatPurpose, ChatRequest, ImageFormat, ImageRequest, OutgoingBody, PROVIDER_MEMBERS, RequestLimits,
        Restriction, RestrictionKind, field_meant_at_top_level, field_meant_in_metadata, shown,
    },
    rewrite_answer, rewrite_image_answer, usage_of_failed_answer,
};

use crate::domain::{Catalog, Endpoint};

/// What an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// The OpenAI convention: the one clients use, so requests and answers are spliced.
    #[default]
    OpenAi,
}

impl Dialect {
    /// Where a chat is posted, below the base address of the upstream.
    #[must_use]
    pub const fn chat_path(self) -> &'static str {
        match self {
            Dialect::OpenAi => "/chat/completions",
        }
    }

    /// Where an image request for `endpoint` is posted, below the base address of the upstream.
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
