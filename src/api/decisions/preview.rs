//! `POST /route/preview`: the routing decision for a request, without an upstream call.
//!
//! `what_if` adds the decision under changed conditions, `why_not` the reason why a named endpoint is not chosen.

use std::{sync::Arc, time::Instant};

use actix_web::{
    HttpResponse,
    web::{self, Bytes},
};
use pointsman_actors::router::{Preview, PreviewedDecision};
use pointsman_base::clock;
use pointsman_config::{Key, Scope};
use pointsman_dialect::{ChatPurpose, ChatRequest, EmbeddingRequest};
use pointsman_domain::{Candidate, Catalog, Query, Tick};
use pointsman_routing::explain::{ResolvedWhatIf, fill_selection_probabilities};

use super::{
    preview_api::{self, PreviewApi},
    preview_view::{self, PreviewBody, PreviewHeader, RenderedDecision},
    previewed_parameters::PreviewedParameters,
    sentences::Sentences,
    why_not_view,
};
use crate::{
    access::{keys::Caller, lease::Moment},
    api::{
        answer::uncached,
        auth::Authorized,
        inference::{as_chat::ReadChat, chat, completions, messages, responses},
        query_parameters::QueryParameters,
    },
    base::error::ApiError,
    proxy::{
        dispatch::RequestedWork,
        no_candidate, query, request_headers,
        splitting::Asker,
        unknown_fields::{self, UnknownField},
    },
    state::gateway::Worker,
};

/// Ranks the candidates of a request of any API of the gateway but images. No upstream call, no cost, no generation; counts as
/// one request.
///
/// # Errors
/// The same 4xx as the API of the request, except that an empty pool is an answer; 400 also for a `what_if` that names no known
/// endpoint.
pub async fn show(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    by.caller.require(Scope::Inference)?;
    let query = QueryParameters::read(by.query(), &["api", "why_not"])?;
    let _admitted = by.worker.setup.admission.admit(&by.caller, Moment::at(Instant::now()))?;
    let body = by.read_json(payload).await?;
    let read: Option<ReadChat> = match preview_api::api_of(&by.request, &query, &body, (&by.worker, &by.caller))? {
        PreviewApi::Chat => Some(chat::read_chat),
        PreviewApi::Messages => Some(messages::read_chat),
        PreviewApi::Responses => Some(responses::read_chat),
        PreviewApi::Completions => Some(completions::read_chat),
        PreviewApi::Embeddings => None,
    };
    let mut asked = match read {
        Some(read) => of_chat(read(body, &by, ChatPurpose::Preview)?, &by)?,
        None => of_embedding(body, &by)?,
    };
    if asked.why_not.is_none() {
        asked.why_not = why_not_view::in_query(&query)?;
    }
    Ok(uncached(&answer(asked, &by.worker, &by.caller).await?.body()))
}

/// Ranks the candidates of a chat, as [`show`] does.
///
/// # Errors
/// As [`show`].
pub(crate) async fn of_chat_body(body: Bytes, by: &Authorized) -> Result<PreviewAnswer, ApiError> {
    let chat = ChatRequest::parse(body, ChatPurpose::Preview, &by.worker.setup.config.limits.request)?;
    answer(of_chat(chat, by)?, &by.worker, &by.caller).await
}

/// The decision, and that under the conditions of `what_if`.
pub(crate) struct PreviewAnswer {
    requested: String,
    at: i64,
    top_n: Option<u32>,
    warnings: Vec<UnknownField>,
    actual: RenderedDecision,
    hypothetical: Option<RenderedDecision>,
}

impl PreviewAnswer {
    /// The answer as JSON.
    pub(crate) fn body(&self) -> PreviewBody<'_> {
        let PreviewAnswer { requested, at, top_n, warnings, actual, hypothetical } = self;
        let header = PreviewHeader { model: requested, at: *at, top_n: *top_n, warnings };
        PreviewBody::new(header, actual, hypothetical.as_ref())
    }
}

async fn answer(asked: AskedPreview, worker: &Worker, caller: &Arc<Caller>) -> Result<PreviewAnswer, ApiError> {
    let AskedPreview { query, work, requested, warnings, top_n, seed, why_not, what_if } = asked;
    let why_not = why_not.map(|name| why_not_view::meant(name, &caller.key));
    let at = clock::unix_millis() / 1000;
    let (published, shown) = (Arc::clone(&worker.setup.published), preview_view::shown(top_n));
    let decide = move || {
        let now = clock::now();
        let answer = Preview { query, now, published, seed, imagination: what_if, why_not }.answer();
        let render = |previewed| render(previewed, &work, shown, now);
        (render(answer.actual), answer.imagined.map(render))
    };
    let (actual, hypothetical) = worker.analyse(caller, decide).await?;
    Ok(PreviewAnswer { requested, at, top_n, warnings, actual, hypothetical })
}

/// A request whose routing is to be shown.
struct AskedPreview {
    query: Box<Query>,
    work: RequestedWork,
    /// The requested model, or the default alias.
    requested: String,
    warnings: Vec<UnknownField>,
    top_n: Option<u32>,
    seed: Option<u64>,
    why_not: Option<String>,
    what_if: Option<Box<ResolvedWhatIf>>,
}

fn of_chat(mut chat: Box<ChatRequest>, by: &Authorized) -> Result<AskedPreview, ApiError> {
    let Authorized { caller, worker, request } = by;
    request_headers::apply(&mut chat.routing, request)?;
    request_headers::check_session(request)?;
    request_headers::add_models(&mut chat.models, request)?;
    let catalog = &*worker.setup.catalog;
    let default_model = format!("{}/auto", worker.setup.config.service.alias_prefix);
    let session_id = chat.session_id.clone().or_else(|| chat::session_header(request));
    let asker = Asker::of_preview(&chat, session_id.as_deref(), worker);
    let mut query = query::of_chat(&chat, catalog, &worker.setup.config, (caller, asker), Some(&default_model))?;
    // Completes the query with remembered preferences; a preview remembers none.
    let history = &worker.shared.records.history;
    let _ = history.apply(&worker.setup, &chat, caller.owner, session_id.as_deref(), &mut query, clock::now());
    Ok(AskedPreview {
        query,
        requested: chat.model.clone().or_else(|| chat.models.first().cloned()).unwrap_or(default_model),
        warnings: unknown_fields::warnings(catalog, &chat.unknown_members, &chat.restrictions()),
        top_n: chat.routing.top_n,
        seed: chat.routing.route_seed,
        why_not: chat.why_not.take(),
        what_if: what_if(&mut chat, catalog, &caller.key)?,
        work: RequestedWork::Chat(chat),
    })
}

/// Embeddings have no `what_if`: their model is fixed.
fn of_embedding(body: Bytes, by: &Authorized) -> Result<AskedPreview, ApiError> {
    let Authorized { caller, worker, request } = by;
    let mut embedding = EmbeddingRequest::parse(body, &worker.setup.config.limits.request)?;
    request_headers::apply(&mut embedding.routing, request)?;
    request_headers::check_session(request)?;
    let catalog = &*worker.setup.catalog;
    let (session, user) = (embedding.session_id.as_deref(), embedding.user.as_deref());
    let canaries = &worker.shared.records.canaries;
    let asker = Asker { session, opening: None, user, tags: &embedding.tags, canaries, is_served: false };
    Ok(AskedPreview {
        query: query::of_embedding(&embedding, catalog, &worker.setup.config, (caller, asker))?,
        requested: embedding.model.clone(),
        warnings: unknown_fields::warnings(catalog, &embedding.unknown_members, &embedding.restrictions()),
        top_n: embedding.routing.top_n,
        seed: embedding.routing.route_seed,
        why_not: None,
        what_if: None,
        work: RequestedWork::Embedding(Box::new(embedding)),
    })
}

fn what_if(chat: &mut ChatRequest, catalog: &Catalog, key: &Key) -> Result<Option<Box<ResolvedWhatIf>>, ApiError> {
    let resolved = chat.what_if.take().map(|mut what_if| {
        for model in what_if.endpoints.iter_mut().filter_map(|entry| entry.model.as_mut()) {
            *model = key.meant(model).to_owned();
        }
        ResolvedWhatIf::new(*what_if, catalog)
    });
    Ok(resolved.transpose()?.map(Box::new))
}

/// Adds probabilities, the reason sentence, the nearest relaxation, and what becomes of the request's fields at the first
/// candidates.
fn render(previewed: PreviewedDecision, work: &RequestedWork, shown: usize, now: Tick) -> RenderedDecision {
    let PreviewedDecision { mut decided, snapshot, why_not } = previewed;
    let mut previewed_parameters = Vec::new();
    let (sentences, nearest) = match &mut decided {
        Ok(decision) => {
            fill_selection_probabilities(decision, &snapshot.policy);
            let endpoint = |candidate: &Candidate| snapshot.catalog.find(candidate.index, candidate.endpoint);
            let parameters_at = |candidate| PreviewedParameters::new(work, &snapshot.catalog, endpoint(candidate)?);
            previewed_parameters.extend(decision.candidates.iter().take(shown).map(parameters_at));
            (Sentences::of_preview(decision, &snapshot.catalog), None)
        }
        Err(error) => {
            let refusal = no_candidate::explain(&snapshot, work, error, now);
            (Sentences::of_refusal(error, refusal.message().to_owned()), no_candidate::nearest(&snapshot, error))
        }
    };
    RenderedDecision { decided, catalog: snapshot.catalog, sentences, nearest, why_not, previewed_parameters }
}
