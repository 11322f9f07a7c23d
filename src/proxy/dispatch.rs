//! The way of one request through its plan: attempt after attempt, until one gives content.
//!
//! [`walk`] takes candidates from the plan and says when to give up; [`attempt`] is one of them in
//! progress; `race` runs one after the other, or two side by side when one is late; `draft` is the record
//! that grows meanwhile; [`plain`] and [`stream`] are the two ways to answer. Once content was sent to the client nothing
//! here may try another endpoint. What all requests together may try is bounded in [`crate::state::budgets`].

pub mod attempt;
mod call;
pub mod draft;
mod fault;
pub mod images;
pub mod plain;
mod race;
pub mod stream;
pub mod walk;

use std::sync::Arc;

use bytes::Bytes;
use pointsman_actors::{
    actors::router::{Route, Routed},
    dialect::{
        Answer, AnswerContext, ChatRequest, Dialect, OutgoingBody, Restriction, rewrite_answer, usage_of_failed_answer,
    },
    domain::{Catalog, Endpoint, Invalid, Model, Query, Usage},
};

use self::{
    call::Target,
    images::{ImageBounds, ImageWork},
};
use crate::{
    access::load::{BufferLimitReached, BufferedBytes},
    base::{clock, error::ApiError},
    proxy::refusal::{self, Asker},
    state::gateway::Worker,
    upstream::UpstreamError,
};

/// What every provider speaks so far.
const UPSTREAM: Dialect = Dialect::OpenAi;

/// What is to be answered.
pub enum Work {
    /// A chat completion.
    Chat(ChatRequest),
    /// Images.
    Image(ImageWork),
}

impl Work {
    /// The body an endpoint is sent.
    fn upstream_body(&self, catalog: &Catalog, endpoint: &Endpoint) -> OutgoingBody {
        match self {
            Work::Chat(request) => UPSTREAM.chat_body(request, catalog, endpoint),
            Work::Image(work) => UPSTREAM.image_body(&work.request, catalog, endpoint),
        }
    }

    /// Where an endpoint is sent it, below the provider's base address.
    fn path(&self, endpoint: &Endpoint) -> &'static str {
        match self {
            Work::Chat(_) => UPSTREAM.chat_path(),
            Work::Image(_) => UPSTREAM.image_path(endpoint),
        }
    }

    /// The client's answer, made from a whole upstream one, unless there is no room for what it takes beyond `held`.
    async fn rewrite(
        &self,
        body: &Bytes,
        context: &AnswerContext,
        target: &Target<'_>,
        bounds: ImageBounds<'_>,
        held: &mut BufferedBytes,
    ) -> Result<Result<Answer, BufferLimitReached>, UpstreamError> {
        match self {
            Work::Chat(_) => Ok(Ok(rewrite_answer(body, context)?)),
            // Boxed: its waiting would make the future of every chat larger.
            Work::Image(work) => Box::pin(work.rewrite(body, context, target, bounds, held)).await,
        }
    }

    /// What an upstream reports to have taken for a body that is no answer. Of images nobody says.
    fn usage_of_failed_answer(&self, body: &Bytes, context: &AnswerContext) -> Option<Usage> {
        matches!(self, Work::Chat(_)).then(|| usage_of_failed_answer(body, context)).flatten()
    }

    /// Estimated prompt tokens.
    fn prompt_tokens(&self) -> u32 {
        match self {
            Work::Chat(request) => request.prompt_tokens,
            Work::Image(work) => work.request.prompt_tokens,
        }
    }

    /// Images in the prompt.
    fn images(&self) -> u32 {
        match self {
            Work::Chat(request) => request.images,
            Work::Image(work) => work.request.references,
        }
    }

    fn excludes_reasoning(&self) -> bool {
        matches!(self, Work::Chat(request) if request.exclude_reasoning)
    }
}

impl Asker for Work {
    fn unmet(&self, catalog: &Catalog, model: &Model) -> Option<Invalid> {
        match self {
            Work::Chat(request) => request.unmet(catalog, model),
            Work::Image(work) => work.request.unmet(model),
        }
    }

    fn restrictions(&self) -> Vec<Restriction> {
        match self {
            Work::Chat(request) => request.restrictions(),
            Work::Image(work) => work.request.restrictions(),
        }
    }
}

/// Asks this worker's router for a plan.
///
/// # Errors
/// What the client is told when nothing is left to choose from.
pub async fn route(worker: &Worker, work: &Work, query: Query) -> Result<Routed, ApiError> {
    let now = clock::now();
    let published = Arc::clone(&worker.setup.published);
    let asked = worker.router.send(Route { query, now, published }).await.map_err(|_| ApiError::internal())?;
    asked.map_err(|error| refusal::explain(&worker.setup.published.snapshot(), work, &error, now))
}
