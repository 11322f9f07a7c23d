//! `POST /responses` and `POST /responses/input_tokens`: the OpenAI Responses API for clients. Nothing is stored.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{self, Bytes},
};
use pointsman_actors::dialect::{
    ChatPurpose, ChatRequest, ClientRequest, ClientShape, InboundResponses, input_tokens_body, read_responses,
};

use super::{admitted_call::AdmittedCall, answer, chat};
use crate::{
    api::auth::Authorized,
    base::error::ApiError,
    config::Scope,
    proxy::{body::read_json, token_count},
    state::gateway::Worker,
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

/// The number of prompt tokens of a request that is not answered, as a provider of its model counts them or as estimated.
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
    let chat = read_chat(body, &worker, ChatPurpose::Chat)?;
    let count = token_count::of_prompt(chat, &request, &worker, &caller).await;
    Ok(answer::token_count(&count, input_tokens_body(count.tokens())))
}
