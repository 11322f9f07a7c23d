//! `POST /chat/completions`.

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::HeaderName,
    web::{self, Bytes},
};
use pointsman_actors::router::Routed;
use pointsman_base::clock;
use pointsman_dialect::{ChatPurpose, ChatRequest, StreamOptions, UsageChunk};
use pointsman_domain::{ApiType, Dialect};

use super::{admitted_request::AdmittedRequest, client_reader::reader, route_metadata};
use crate::{
    access::{keys::Caller, load::KeyBuffer},
    api::{answer::JSON, auth::Authorized, generations::feedback},
    base::error::ApiError,
    proxy::{
        body::{SESSION_ID, header_text},
        dispatch::{
            self, RequestedWork,
            attempt::RequestSize,
            plain::{self, PlainAnswer},
            plan_run::PlanRun,
            record_builder::{GenerationOpening, RecordBuilder},
            stream,
        },
        query, request_headers,
    },
    state::{gateway::Worker, running::RunningRequest},
};

/// The headers in which agents name a session.
static AGENT_SESSION_IDS: [HeaderName; 4] = [
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("thread-id"),
];

/// The headers in which an agent names itself and the agent that started it, and the tags for them.
static AGENT_IDS: [(HeaderName, &str); 2] = [
    (HeaderName::from_static("x-claude-code-agent-id"), "agent_id"),
    (HeaderName::from_static("x-claude-code-parent-agent-id"), "parent_agent_id"),
];

/// Serves one chat completion, plain or streamed.
///
/// # Errors
/// 4xx for a refused request; 4xx, 502, 503 or 504 when no attempt succeeds.
pub async fn create(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    let (call, body) = AdmittedRequest::read(by, payload).await?;
    let chat = read_chat(body, &call.by, ChatPurpose::Chat)?;
    answer(chat, call).await
}

/// Reads a chat. One that was refused may be in the form of the Responses API, in which some agents send it.
///
/// # Errors
/// The 400 for a refused request.
pub(crate) fn read_chat(body: Bytes, by: &Authorized, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    Ok(reader(&by.worker, purpose).chat_or_items(body)?)
}

/// Answers a chat, in the dialect of its client.
///
/// # Errors
/// As [`create`].
pub(crate) async fn answer(mut chat: Box<ChatRequest>, call: AdmittedRequest) -> Result<HttpResponse, ApiError> {
    let AdmittedRequest { by: Authorized { caller, worker, request }, accepted, mut admitted, share, running } = call;
    request_headers::apply(&mut chat.routing, &request)?;
    request_headers::check_session(&request)?;
    request_headers::add_models(&mut chat.models, &request)?;
    let catalog = &*worker.setup.catalog;
    let opening = opening(&chat, &request, &caller);
    let asker = opening.asker(chat.opening, &worker);
    let query = query::of_chat(&chat, catalog, &worker.setup.config, (&caller, asker), None);
    let mut query = query.map_err(|error| error.for_model(query::first_name(&chat.model, &chat.models)))?;
    feedback::reject_previous(&chat.tags, &caller, &worker);
    let (history, now) = (&worker.shared.records.history, clock::tick(accepted));
    let mut intent = history.apply(&worker.setup, &chat, caller.owner, opening.session_id.as_deref(), &mut query, now);
    let size = request_size(&chat);
    let streamed = chat.stream.then(|| stream_options(&worker, &chat));
    let ignored = std::mem::take(&mut chat.unknown_members);
    let work = RequestedWork::Chat(chat);
    let planned = dispatch::plan(&worker, &work, query, (size, accepted), &mut admitted).await;
    let (routed, budget, waiting) = match planned {
        Ok(planned) => planned,
        Err(unserved) => {
            intent.refused(history, &unserved.error, clock::now());
            let model = Arc::clone(&opening.requested_model);
            let record = |routed: &Routed, call: &RunningRequest| opening.record(&request, routed, call);
            let error = Box::pin(unserved.end(&worker, &admitted, running, record)).await;
            return Err(error.for_model(&model));
        }
    };
    let is_chat = matches!(&work, RequestedWork::Chat(chat) if chat.client.is_none());
    let metadata =
        (is_chat && route_metadata::is_wanted(&request)).then(|| (opening.requested_model.clone(), routed.clone()));
    intent.decided(history, &routed.decision);
    let record = opening.record(&request, &routed, &running);
    let record_builder = RecordBuilder::new(&worker, running, admitted, budget.clone(), record);
    let record_builder = record_builder.with_intent(intent).with_ignored(ignored);
    let plan = PlanRun::new(&worker, routed, accepted, size, (budget, waiting)).for_caller(caller.owner);
    let answered = match streamed {
        Some(options) => stream::answer(&worker, work, plan, record_builder, options, &share).await,
        None => {
            answer_unstreamed(&worker, &work, plan, record_builder, &share, metadata.as_ref().map(|(_, routed)| routed))
                .await
        }
    };
    answered.map_err(|error| match &metadata {
        Some((requested, routed)) => route_metadata::add_to_error(error, requested, routed),
        None => error,
    })
}

/// The part of the record that is known before routing.
fn opening(chat: &ChatRequest, request: &HttpRequest, caller: &Caller) -> GenerationOpening {
    GenerationOpening {
        api_type: ApiType::Completions,
        client_dialect: chat.client.as_ref().map_or(Dialect::OpenAi, |client| client.dialect()),
        owner: caller.owner,
        key: caller.id,
        requested_model: query::first_name(&chat.model, &chat.models).into(),
        streamed: chat.stream,
        external_user: chat.user.clone(),
        session_id: chat.session_id.clone().or_else(|| session_header(request)),
        tags: tags(chat, request),
        trace: chat.trace.clone(),
        media_prompt: u64::from(chat.images),
    }
}

/// The client's tags, and those for headers of agents unless the client has tags of these names.
fn tags(chat: &ChatRequest, request: &HttpRequest) -> Vec<(String, String)> {
    let mut tags = chat.tags.clone();
    for (header, name) in &AGENT_IDS {
        if let Some(id) = header_text(request, header).filter(|_| tags.iter().all(|(known, _)| known != name)) {
            tags.push(((*name).to_owned(), id));
        }
    }
    tags
}

/// The session that a header names: ours, or that of an agent.
pub(crate) fn session_header(request: &HttpRequest) -> Option<String> {
    // One pass over the headers of a request costs less than a look-up of each of these.
    let may_name = request.headers().keys().any(|name| name.as_str().ends_with("id"));
    let mut names = [&SESSION_ID].into_iter().chain(&AGENT_SESSION_IDS).filter(|_| may_name);
    names.find_map(|name| header_text(request, name))
}

/// Size of the request, for predictions and prices.
fn request_size(chat: &ChatRequest) -> RequestSize {
    RequestSize {
        prompt_tokens: chat.prompt_tokens,
        images: chat.images,
        max_tokens: chat.max_tokens,
        answers: chat.n,
        streamed: chat.stream,
        may_be_raced: true,
        service: chat.service,
    }
}

/// An unstreamed answer; with `metadata`, it contains [`route_metadata`].
async fn answer_unstreamed(
    worker: &Worker,
    work: &RequestedWork,
    plan: PlanRun,
    record_builder: Box<RecordBuilder>,
    share: &Arc<KeyBuffer>,
    metadata: Option<&Routed>,
) -> Result<HttpResponse, ApiError> {
    let PlainAnswer { body, held, record_builder } = plain::answer(worker, work, plan, record_builder, share).await?;
    let mut response = HttpResponse::Ok();
    record_builder.write_headers(&mut response);
    let body = match metadata {
        Some(routed) => route_metadata::add_to_answer(body, record_builder.record(), routed),
        None => body,
    };
    Ok(response.insert_header(JSON).body(held.answer(body)))
}

fn stream_options(worker: &Worker, chat: &ChatRequest) -> StreamOptions {
    let stream = &worker.setup.config.stream;
    let usage_chunk = match (chat.include_usage, chat.usage_include) {
        (Some(true), _) => UsageChunk::WithoutChoices,
        (Some(false), false) => UsageChunk::Omitted,
        (None, _) | (Some(false), true) => UsageChunk::WithEmptyDelta,
    };
    StreamOptions { usage_chunk, error_compat: stream.error_compat, max_event_bytes: stream.max_event_bytes }
}

#[cfg(test)]
mod tests {
    use actix_web::Handler;

    use super::*;

    fn future_bytes<F: Handler<Arguments>, Arguments>(_: F) -> usize {
        size_of::<F::Future>()
    }

    /// The server moves it into a box for every request.
    #[test]
    fn the_future_of_a_chat_stays_small() {
        let bytes = future_bytes(create);
        assert!(bytes <= 16 * 1024, "{bytes} bytes");
    }
}
