//! `POST /responses` and `POST /responses/input_tokens`: the OpenAI Responses API for clients. Nothing is stored.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::ContentType,
    web::{self, Bytes},
};
use pointsman_actors::dialect::{
    ChatPurpose, ChatRequest, ClientRequest, ClientShape, InboundResponses, input_tokens_body, read_responses,
};

use super::{admitted_call::AdmittedCall, chat};
use crate::{
    api::auth::Authorized, base::error::ApiError, config::Scope, proxy::body::read_json, state::gateway::Worker,
};

/// Makes one response, plain or streamed.
///
/// # Errors
/// As [`chat::create`].
pub async fn create(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let (call, body) = AdmittedCall::read(caller, worker, request, payload).await?;
    let chat = read_chat(body, &call.worker, ChatPurpose::Chat)?;
    chat::answer(chat, call).await
}

/// Reads a request of this API as a chat.
///
/// # Errors
/// The 400 for a refused request.
pub(super) fn read_chat(body: Bytes, worker: &Worker, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    let InboundResponses { chat, fates, native_feature, echo, .. } = read_responses(&body, &worker.shared.state_key)?;
    let client = ClientRequest {
        shape: ClientShape::Responses(echo),
        body,
        fates,
        native_feature,
        headers: Vec::new(),
        state_key: worker.shared.state_key.clone(),
    };
    Ok(client.parse_chat(chat, purpose, &worker.setup.config.limits.request)?)
}

/// The number of prompt tokens of a request that is not answered: the gateway's estimate.
///
/// # Errors
/// 4xx for a refused request.
pub async fn input_tokens(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Inference)?;
    let _admitted = worker.setup.admission.admit(&caller)?;
    let body = read_json(&request, payload, worker.setup.body_limits(&caller)).await?;
    let read = read_responses(&body, &worker.shared.state_key)?;
    let shape = ClientShape::Responses(read.echo);
    let chat = shape.parse_chat(read.chat, ChatPurpose::Chat, &worker.setup.config.limits.request)?;
    Ok(HttpResponse::Ok().insert_header(ContentType::json()).body(input_tokens_body(chat.prompt_tokens)))
}
