//! `POST /chat/completions`.

use std::{sync::Arc, time::Instant};

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use pointsman_actors::{
    actors::router::Routed,
    dialect::{ChatPurpose, ChatRequest, StreamOptions, UsageChunk},
    domain::ApiType,
};

use super::route_metadata;
use crate::{
    access::load::KeyBuffer,
    api::auth::Authorized,
    base::{clock, error::ApiError},
    config::Scope,
    proxy::{
        body::{header_text, read_json},
        dispatch::{
            self, Work,
            attempt::RequestSize,
            draft::GenerationDraft,
            plain::{self, Served},
            stream,
            walk::Walk,
        },
        opening::{Opening, asked_first},
        query,
    },
    state::gateway::Worker,
};

/// Serves one chat completion, plain or streamed.
///
/// # Errors
/// Everything of the contract's section 3.
pub async fn create(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let accepted = Instant::now();
    caller.require(Scope::Inference)?;
    let admitted = worker.setup.admission.admit(&caller)?;
    let limits = worker.setup.body_limits(&caller)?;
    let share = Arc::clone(&limits.buffer);
    let body = read_json(&request, payload, limits).await?;
    let mut chat = ChatRequest::parse(body, ChatPurpose::Chat, &worker.setup.config.limits.request)?;
    let catalog = &*worker.setup.catalog;
    let mut query = query::of_chat(&chat, catalog, &worker.setup.config, &caller, None)?;
    let opening = opening(&chat, &request, caller.owner);
    let (intents, now) = (&worker.shared.preferences, clock::tick(accepted));
    let intent = intents.apply(&worker.setup, &chat, caller.owner, opening.session_id.as_deref(), &mut query, now);
    let measure = measure(&chat);
    let streamed = chat.stream.then(|| stream_options(&worker, &chat));
    let ignored = std::mem::take(&mut chat.unknown_members);
    let work = Work::Chat(chat);
    let routed = dispatch::route(&worker, &work, query).await;
    let routed = routed.inspect_err(|error| intent.refused(intents, error, clock::now()))?;
    let told = route_metadata::is_wanted(&request).then(|| (opening.requested_model.clone(), routed.clone()));
    let draft = GenerationDraft::new(&worker, clock::tick(accepted), admitted, opening.record(&request, &routed));
    let draft = draft.minding(intent).ignoring(ignored);
    let walk = Walk::new(&worker, routed, accepted, measure);
    let answered = match streamed {
        Some(options) => stream::answer(&worker, work, walk, draft, options, &share).await,
        None => whole(&worker, &work, walk, draft, &share, told.as_ref().map(|(_, routed)| routed)).await,
    };
    answered.map_err(|error| match &told {
        Some((requested, routed)) => route_metadata::add_to_error(error, requested, routed),
        None => error,
    })
}

/// What the record begins with.
fn opening(chat: &ChatRequest, request: &HttpRequest, owner: u64) -> Opening {
    Opening {
        api_type: ApiType::Completions,
        owner,
        requested_model: asked_first(&chat.model, &chat.models).into(),
        streamed: chat.stream,
        external_user: chat.user.clone(),
        session_id: chat.session_id.clone().or_else(|| header_text(request, "x-session-id")),
        tags: chat.tags.clone(),
        trace: chat.trace.clone(),
        media_prompt: u64::from(chat.images),
    }
}

/// What an attempt is measured and paid by.
fn measure(chat: &ChatRequest) -> RequestSize {
    RequestSize {
        prompt_tokens: chat.prompt_tokens,
        images: chat.images,
        max_tokens: chat.max_tokens,
        answers: chat.n,
        streamed: chat.stream,
        may_be_raced: true,
    }
}

/// An answer in one piece; with `told`, it also says how it was routed.
async fn whole(
    worker: &Worker,
    work: &Work,
    walk: Walk,
    draft: GenerationDraft,
    share: &Arc<KeyBuffer>,
    told: Option<&Routed>,
) -> Result<HttpResponse, ApiError> {
    let Served { answer, held, draft } = plain::answer(worker, work, walk, draft, share).await?;
    let mut response = HttpResponse::Ok();
    draft.write_headers(&mut response);
    let body = match told {
        Some(routed) => route_metadata::add_to_answer(answer.body, draft.record(), routed),
        None => answer.body,
    };
    Ok(response.insert_header(header::ContentType::json()).body(held.answer(body)))
}

fn stream_options(worker: &Worker, chat: &ChatRequest) -> StreamOptions {
    let stream = &worker.setup.config.stream;
    let usage_chunk = match (chat.include_usage, chat.usage_include) {
        (Some(true), _) => UsageChunk::WithoutChoices,
        (Some(false), false) => UsageChunk::Omitted,
        (None, _) | (Some(false), true) => UsageChunk::WithEmptyDelta,
    };
    StreamOptions {
        usage_chunk,
        error_compat: stream.error_compat,
        max_event_bytes: stream.max_event_bytes,
        legacy_functions: chat.legacy_functions(),
    }
}
