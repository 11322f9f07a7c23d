//! Runs the plan of one request: attempt after attempt, until one gives content.
//!
//! [`cost`] reserves its money. [`plan_run`] chooses the next candidate and decides when to give up. [`attempt`] is a running
//! attempt. `race` calls the endpoints, one after the other or two at once. [`record_builder`] is the record of the request
//! while it runs, [`unserved`] that of a request for which none is called. [`waiting`]
//! holds a request back while all endpoints that could serve it rest. [`plain`] and [`stream`] answer the client; `cascade`
//! asks another model where a plain answer is broken. Once content was sent to the client, no other endpoint is tried. The retries of all requests together are limited in
//! [`crate::state::retry_budget`].

#[expect(clippy::disallowed_methods, reason = "a reward of the statistics, no bill")]
pub mod attempt;
mod calls;
mod cascade;
#[deny(clippy::float_arithmetic)]
pub mod cost;
pub mod durable;
pub mod images;
pub mod plain;
pub mod plan_run;
mod race;
pub mod record_builder;
pub mod stream;
pub mod unserved;
pub mod waiting;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use pointsman_actors::router::{Route, Routed};
use pointsman_base::clock;
use pointsman_config::ExploreConfig;
use pointsman_dialect::{
    Answer, AnswerContext, AnswerFault, BufferedAnswer, ChatRequest, ClientRequest, EmbeddingRequest, OutgoingBody,
    Restriction, SignatureSources, Translation, chat_body_with, chat_path, embedding_body, embedding_path,
    embeddings_of, image_body, image_path, images_of, rewrite_embeddings, rewrite_whole, unmet_translation,
    usage_of_failure,
};
use pointsman_domain::{
    Catalog, Dialect, Endpoint, Exploration, Invalid, Model, Query, ReasoningFormat, RequestedService, RouteError,
    Usage,
};
use pointsman_routing::decide::{Hope, Obstacle, without_candidates};
use pointsman_transport::UpstreamError;

use self::{
    attempt::RequestSize,
    cost::RequestBudget,
    images::{ImageBounds, ImageWork},
    race::Target,
    unserved::Unserved,
    waiting::Waiting,
};
use crate::{
    access::{
        admission::Admitted,
        load::{BufferLimitReached, BufferedBytes},
    },
    base::error::ApiError,
    proxy::no_candidate::{self, RequestRestrictions},
    state::gateway::Worker,
};

/// A parsed request. Boxed: it is moved through several futures, and each would hold room for it.
pub enum RequestedWork {
    /// A chat completion.
    Chat(Box<ChatRequest>),
    /// Images.
    Image(Box<ImageWork>),
    /// Embeddings.
    Embedding(Box<EmbeddingRequest>),
}

impl RequestedWork {
    /// The body to send to an endpoint. `None` if the request is nested too deeply to be translated.
    pub(crate) fn upstream_body(
        &self,
        catalog: &Catalog,
        endpoint: &Endpoint,
        most_output: Option<u32>,
        signatures: SignatureSources<'_>,
    ) -> Option<OutgoingBody> {
        match self {
            RequestedWork::Chat(request) => chat_body_with(request, catalog, endpoint, most_output, signatures),
            RequestedWork::Image(work) => image_body(&work.request, catalog, endpoint),
            RequestedWork::Embedding(request) => embedding_body(request, catalog, endpoint),
        }
    }

    /// The path of the call, below the provider's base address.
    fn path(&self, endpoint: &Endpoint, streamed: bool) -> Arc<str> {
        match self {
            RequestedWork::Embedding(_) => embedding_path(endpoint),
            RequestedWork::Image(_) => image_path(endpoint),
            RequestedWork::Chat(_) => chat_path(self.client(), endpoint, streamed),
        }
    }

    /// Turns the complete upstream answers of one attempt into the client's. `Full` when there is no room for the bytes it adds
    /// to `held`.
    async fn rewrite(
        &self,
        (answers, outgoing): (&[BufferedAnswer], &OutgoingBody),
        context: &AnswerContext,
        target: &Target<'_>,
        bounds: ImageBounds<'_>,
        held: &mut BufferedBytes,
    ) -> Result<Result<Answer, BufferLimitReached>, UpstreamError> {
        let body = answers.first().map(|answer| &answer.body).ok_or_else(|| AnswerFault::malformed("no answer"))?;
        match self {
            RequestedWork::Chat(chat) => Ok(Ok(rewrite_whole(body, outgoing, chat.client.as_deref(), context)?)),
            RequestedWork::Embedding(request) => {
                let body = embeddings_of(answers, request.inputs, target.endpoint)?;
                Ok(Ok(rewrite_embeddings(&body, request.inputs, request.format, context)?))
            }
            // Boxed, so that this future does not enlarge that of every chat.
            RequestedWork::Image(work) => {
                Box::pin(work.rewrite(&*images_of(body, outgoing, target.endpoint)?, context, target, bounds, held))
                    .await
            }
        }
    }

    /// Usage that the provider reports in a body that is not an answer. `None` for all but chats: no provider reports it.
    fn usage_of_failed_answer(
        &self,
        body: &Bytes,
        translation: Option<&Translation>,
        context: &AnswerContext,
    ) -> Option<Usage> {
        matches!(self, RequestedWork::Chat(_)).then(|| usage_of_failure(body, translation, context)).flatten()
    }

    /// Estimated prompt tokens.
    fn prompt_tokens(&self) -> u32 {
        match self {
            RequestedWork::Chat(request) => request.prompt_tokens,
            RequestedWork::Image(work) => work.request.prompt_tokens,
            RequestedWork::Embedding(request) => request.prompt_tokens,
        }
    }

    /// What it asks for in the fields that change its price.
    fn service(&self) -> RequestedService {
        match self {
            RequestedWork::Chat(request) => request.service,
            RequestedWork::Image(work) => work.request.service,
            RequestedWork::Embedding(request) => request.service,
        }
    }

    /// Images in the prompt.
    fn images(&self) -> u32 {
        match self {
            RequestedWork::Chat(request) => request.images,
            RequestedWork::Image(work) => work.request.references,
            RequestedWork::Embedding(_) => 0,
        }
    }

    /// The request of a client of another API than chat.
    fn client(&self) -> Option<&ClientRequest> {
        match self {
            RequestedWork::Chat(request) => request.client.as_deref(),
            RequestedWork::Image(_) | RequestedWork::Embedding(_) => None,
        }
    }

    /// Whether it is a chat that was made from a request to another API.
    pub(crate) fn is_from_another_api(&self) -> bool {
        self.client().is_some()
    }

    /// API of the client.
    pub(crate) fn client_dialect(&self) -> Dialect {
        self.client().map_or(Dialect::OpenAi, |client| client.dialect())
    }

    /// Names of the client's fields that are not for the gateway alone, sorted.
    pub(crate) fn given_names(&self) -> Vec<String> {
        match self {
            RequestedWork::Chat(request) => request.given_names(),
            RequestedWork::Embedding(request) => request.given_names(),
            // There are no previews of images.
            RequestedWork::Image(_) => Vec::new(),
        }
    }

    fn excludes_reasoning(&self) -> bool {
        matches!(self, RequestedWork::Chat(request) if request.exclude_reasoning)
    }

    fn uses_legacy_functions(&self) -> bool {
        matches!(self, RequestedWork::Chat(request) if request.legacy_functions())
    }
}

impl RequestRestrictions for RequestedWork {
    fn unmet(&self, catalog: &Catalog, model: &Model) -> Option<Invalid> {
        match self {
            RequestedWork::Chat(request) => {
                request.unmet(catalog, model).or_else(|| unmet_translation(request, catalog, model))
            }
            RequestedWork::Image(work) => work.request.unmet(model),
            RequestedWork::Embedding(request) => request.unmet(catalog, model),
        }
    }

    fn not_understood(&self) -> Option<&Invalid> {
        match self {
            RequestedWork::Chat(request) => request.not_understood(),
            RequestedWork::Image(_) | RequestedWork::Embedding(_) => None,
        }
    }

    fn dialect(&self) -> Dialect {
        self.client_dialect()
    }

    fn prompt_field(&self) -> &'static str {
        match self {
            RequestedWork::Chat(_) => self.client().map_or("messages", |client| client.shape.prompt_field()),
            RequestedWork::Image(_) => "prompt",
            RequestedWork::Embedding(_) => "input",
        }
    }

    fn restrictions(&self) -> Vec<Restriction> {
        match self {
            RequestedWork::Chat(request) => request.restrictions(),
            RequestedWork::Image(work) => work.request.restrictions(),
            RequestedWork::Embedding(request) => request.restrictions(),
        }
    }
}

/// Routes a request and reserves its cost, at most that of a request of the size `worst`.
///
/// # Errors
/// The client's error when no endpoint may serve the request, or when it does not fit in a limit of the caller or of its own.
pub async fn plan(
    worker: &Worker,
    work: &RequestedWork,
    query: Box<Query>,
    (worst, accepted): (RequestSize, Instant),
    admitted: &mut Admitted,
) -> Result<(Routed, RequestBudget, Waiting), Unserved> {
    worker.require_ledger()?;
    let mut waiting = Waiting::of(admitted.caller().owner);
    let routed = match decide(worker, query).await? {
        Ok(routed) => routed,
        // Boxed: few requests wait.
        Err(error) => Box::pin(reopened(worker, work, error, accepted, &mut waiting)).await?,
    };
    match cost::admit(worker, &routed, worst, admitted).await {
        Ok(budget) => Ok((routed, budget, waiting)),
        Err(error) => Err(Unserved::after(error, waiting.waited(), || routed)),
    }
}

/// Requests a plan from this worker's router.
///
/// # Errors
/// When the router does not answer. The inner error means that no endpoint may serve the request.
async fn decide(worker: &Worker, mut query: Box<Query>) -> Result<Result<Routed, RouteError>, ApiError> {
    query.exploration = exploration(&worker.setup.config.routing.explore, &query);
    let published = Arc::clone(&worker.setup.published);
    let (now, unix_ms) = (clock::now(), clock::unix_millis());
    let question = Route { query, now, unix_ms, published, shadows: worker.setup.shadows.clone() };
    let routed = worker.router.send(question).await.map_err(|_| ApiError::internal())?;
    let (took, excluded) = match &routed {
        Ok(routed) => (Some(routed.took), &routed.decision.excluded),
        Err(error) => (None, &error.excluded),
    };
    worker.shared.process.metrics.decided(took, excluded);
    Ok(routed)
}

/// How far the choice of a request may be drawn at random. One that is bound to an endpoint, by its wishes or by a warm prompt cache,
/// is not explored.
pub(crate) fn exploration(explore: &ExploreConfig, query: &Query) -> Exploration {
    let ExploreConfig { exploration, aliases, objectives } = explore;
    if exploration.share <= 0.0 {
        return Exploration::NONE;
    }
    let (routing, provider) = (&query.routing, &query.routing.provider);
    let is_named = aliases.is_empty() || query.router.as_ref().is_some_and(|router| aliases.contains(router));
    let is_free = !routing.unexplored
        && provider.allow_fallbacks
        && provider.order.is_empty()
        && query.sticky.is_none()
        && query.pending_reasoning == ReasoningFormat::Unknown;
    let may_explore = is_named && is_free && objectives.contains(&query.objective.value);
    Exploration { share: if may_explore { exploration.share } else { 0.0 }, ..*exploration }
}

/// Waits for an endpoint to take requests again, if one does so in time, until the request has a plan.
///
/// # Errors
/// The client's error when no endpoint may serve the request.
async fn reopened(
    worker: &Worker,
    work: &RequestedWork,
    mut error: RouteError,
    accepted: Instant,
    waiting: &mut Waiting,
) -> Result<Routed, Unserved> {
    let snapshot = worker.setup.published.snapshot_to_keep();
    let (catalog, policy) = (&*snapshot.catalog, &*snapshot.policy);
    loop {
        let resting = error.excluded.iter().filter(|excluded| excluded.reason.is_passing());
        let hopes = resting.map(|excluded| Hope { index: excluded.index, obstacle: Obstacle::None });
        if !waiting.wait(worker, (catalog, policy), accepted + policy.clocks.total, hopes).await {
            break;
        }
        match decide(worker, error.query).await? {
            Ok(routed) => return Ok(routed),
            Err(again) => error = again,
        }
    }
    let (snapshot, now) = (worker.setup.published.snapshot(), clock::now());
    Err(Unserved::after(no_candidate::explain(&snapshot, work, &error, now), waiting.waited(), || Routed {
        decision: Arc::new(without_candidates(&error, &snapshot, now)),
        catalog: Arc::clone(&snapshot.catalog),
        policy: Arc::clone(&snapshot.policy),
        took: Duration::ZERO,
        asked: None,
    }))
}
