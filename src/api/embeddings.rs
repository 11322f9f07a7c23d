//! `POST /embeddings`.

use std::{sync::Arc, time::Instant};

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use pointsman_actors::{
    dialect::EmbeddingRequest,
    domain::{ApiType, Dialect},
};

use crate::{
    access::keys::Caller,
    api::auth::Authorized,
    base::{clock, error::ApiError},
    config::Scope,
    proxy::{
        body::{header_text, read_json},
        dispatch::{
            self, RequestedWork,
            attempt::RequestSize,
            cost,
            draft::{GenerationDraft, GenerationOpening},
            plain::{self, PlainAnswer},
            plan_run::PlanRun,
        },
        query, route_headers,
    },
    state::gateway::Worker,
};

/// Makes one vector for each input. Only endpoints of the requested model serve.
///
/// # Errors
/// 4xx for a refused request; 4xx, 502, 503 or 504 when no attempt succeeds.
pub async fn create(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let accepted = Instant::now();
    caller.require(Scope::Inference)?;
    let mut admitted = worker.setup.admission.admit(&caller)?;
    caller.budgets().check()?;
    let limits = worker.setup.body_limits(&caller);
    let share = Arc::clone(&limits.buffer);
    let body = read_json(&request, payload, limits).await?;
    let mut embedding = EmbeddingRequest::parse(body, &worker.setup.config.limits.request)?;
    route_headers::apply(&mut embedding.routing, &request)?;
    let query = query::of_embedding(&embedding, &worker.setup.catalog, &worker.setup.config, &caller)?;
    let (opening, size) = (opening(&embedding, &request, &caller), request_size(&embedding));
    let ignored = std::mem::take(&mut embedding.unknown_members);
    let work = RequestedWork::Embedding(embedding);
    let routed = dispatch::route(&worker, &work, query).await?;
    let budget = cost::admit(&worker, &routed, size, &mut admitted).await?;
    let record = opening.record(&request, &routed);
    let draft =
        GenerationDraft::new(&worker, clock::tick(accepted), admitted, budget.clone(), record).with_ignored(ignored);
    let plan = PlanRun::new(&worker, routed, accepted, size, budget);
    let PlainAnswer { answer, held, draft } = plain::answer(&worker, &work, plan, draft, &share).await?;
    let mut response = HttpResponse::Ok();
    draft.write_headers(&mut response);
    Ok(response.insert_header(header::ContentType::json()).body(held.answer(answer.body)))
}

/// The part of the record that is known before routing.
fn opening(embedding: &EmbeddingRequest, request: &HttpRequest, caller: &Caller) -> GenerationOpening {
    GenerationOpening {
        api_type: ApiType::Embeddings,
        client_dialect: Dialect::OpenAi,
        owner: caller.owner,
        key: caller.id,
        requested_model: embedding.model.as_str().into(),
        streamed: false,
        external_user: embedding.user.clone(),
        session_id: embedding.session_id.clone().or_else(|| header_text(request, "x-session-id")),
        tags: embedding.tags.clone(),
        trace: embedding.trace.clone(),
        media_prompt: 0,
    }
}

/// Size of the request, for predictions and prices. There are no output tokens.
fn request_size(embedding: &EmbeddingRequest) -> RequestSize {
    RequestSize {
        prompt_tokens: embedding.prompt_tokens,
        images: 0,
        max_tokens: Some(1),
        answers: 1,
        streamed: false,
        may_be_raced: true,
    }
}
