//! The way of one request through its plan: attempt after attempt, until one gives content.
//!
//! [`walk`] takes candidates from the plan and says when to give up; [`attempt`] is one of them in
//! progress; [`draft`] is the record that grows meanwhile; [`plain`] and [`stream`] are the two ways to
//! answer. Once content was sent to the client nothing here may try another endpoint.

pub mod attempt;
pub mod draft;
pub mod plain;
pub mod stream;
pub mod walk;

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use pointsman_actors::{
    dialect::{Answer, AnswerContext, AnswerFault, ChatRequest, Dialect, ImageRequest, OutgoingBody},
    domain::{Catalog, Endpoint, GenerationId, RouteError},
    router::{Route, Routed},
};

use crate::{clock, error::ApiError, gateway::Worker, refusal};

/// What is to be answered.
pub enum Work {
    /// A chat completion.
    Chat(ChatRequest),
    /// Images.
    Image(ImageRequest),
}

impl Work {
    /// The body an endpoint is sent.
    fn upstream_body(&self, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        match self {
            Work::Chat(request) => request.upstream_body(catalog, endpoint),
            Work::Image(request) => request.upstream_body(catalog, endpoint),
        }
    }

    /// Where an endpoint is sent it, below the provider's base address.
    fn path(&self, endpoint: &Endpoint) -> &'static str {
        match self {
            Work::Image(_) if !endpoint.images_through_chat => "/images/generations",
            _ => "/chat/completions",
        }
    }

    /// The client's answer, made from a whole upstream one.
    fn rewrite(&self, body: &Bytes, context: &AnswerContext, endpoint: &Endpoint) -> Result<Answer, AnswerFault> {
        match self {
            Work::Chat(_) => rewrite_answer(body, context),
            Work::Image(_) if endpoint.images_through_chat => bridge_image_answer(body, context),
            Work::Image(_) => rewrite_image_answer(body, context),
        }
    }

    /// Estimated prompt tokens.
    #[must_use]
    pub fn prompt_tokens(&self) -> u32 {
        match self {
            Work::Chat(request) => request.prompt_tokens,
            Work::Image(request) => request.prompt_tokens,
        }
    }
}

/// Asks this worker's router for a plan.
///
/// # Errors
/// What the client is told when nothing is left to choose from.
pub async fn route(worker: &Rc<Worker>, work: &Work, query: pointsman_actors::domain::Query) -> Result<Routed, ApiError> {
    let asked = worker.router.send(Route { query, now: clock::now() }).await.map_err(|_| ApiError::internal())?;
    asked.map_err(|error| refusal::explain(worker, work, &error))
}
