//! `POST /embeddings`.

use actix_web::{HttpRequest, HttpResponse, web};
use pointsman_dialect::EmbeddingRequest;
use pointsman_domain::{ApiType, Dialect};

use super::admitted_request::AdmittedRequest;
use crate::{
    access::keys::Caller,
    api::auth::Authorized,
    base::error::ApiError,
    proxy::{
        body::{SESSION_ID, header_text},
        dispatch::{RequestedWork, attempt::RequestSize, record_builder::GenerationOpening},
        query, request_headers,
    },
};

/// Makes one vector for each input. Only endpoints of the requested model serve.
///
/// # Errors
/// 4xx for a refused request; 4xx, 502, 503 or 504 when no attempt succeeds.
pub async fn create(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    let (call, body) = AdmittedRequest::read(by, payload).await?;
    let Authorized { caller, worker, request } = &call.by;
    let mut embedding = EmbeddingRequest::parse(body, &worker.setup.config.limits.request)?;
    request_headers::apply(&mut embedding.routing, request)?;
    request_headers::check_session(request)?;
    let (opening, size) = (opening(&embedding, request, caller), request_size(&embedding));
    let asker = opening.asker(None, worker);
    let query = query::of_embedding(&embedding, &worker.setup.catalog, &worker.setup.config, (caller, asker));
    let query = query.map_err(|error| error.for_model(&embedding.model))?;
    let ignored = std::mem::take(&mut embedding.unknown_members);
    let work = RequestedWork::Embedding(Box::new(embedding));
    call.answer(work, query, opening, (size, size), ignored).await
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
        session_id: embedding.session_id.clone().or_else(|| header_text(request, &SESSION_ID)),
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
        service: embedding.service,
    }
}
