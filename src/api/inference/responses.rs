//! `POST /responses` and `POST /responses/input_tokens`: the OpenAI Responses API for clients. Nothing is stored.

use actix_web::{
    HttpResponse,
    web::{self, Bytes},
};
use pointsman_dialect::{
    ChatPurpose, ChatRequest, ClientRequest, ClientShape, InboundResponses, ProviderState, input_tokens_body,
    read_responses_with, with_whole_characters,
};

use super::as_chat;
use crate::{api::auth::Authorized, base::error::ApiError};

/// Makes one response, plain or streamed.
///
/// # Errors
/// As [`super::chat::create`].
pub async fn create(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    as_chat::serve(by, payload, read_chat).await
}

/// Reads a request of this API as a chat.
///
/// # Errors
/// The 400 for a refused request.
pub(crate) fn read_chat(mut body: Bytes, by: &Authorized, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    let InboundResponses { chat, unsupported, native_feature, hosted_tool, echo } =
        with_whole_characters(&mut body, |body| {
            read_responses_with(body, &by.worker.shared.state_key, || {
                ProviderState::anywhere_in(&by.worker.setup.catalog)
            })
        })?;
    let hosted_tool = hosted_tool.filter(|_| !by.worker.setup.config.responses.drop_hosted_tools);
    let client = ClientRequest {
        shape: ClientShape::Responses(echo),
        body,
        unsupported,
        native_feature: native_feature.or(hosted_tool),
        headers: Vec::new(),
        state_key: by.worker.shared.state_key.clone(),
    };
    Ok(client.parse_chat(chat, purpose, &by.worker.setup.config.limits.request)?)
}

/// The number of prompt tokens of a request that is not answered, as a provider of its model counts them or as estimated.
///
/// # Errors
/// 4xx for a refused request.
pub async fn input_tokens(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    as_chat::count_tokens(by, payload, (read_chat, input_tokens_body)).await
}
