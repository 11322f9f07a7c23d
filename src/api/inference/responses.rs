//! `POST /responses` and `POST /responses/input_tokens`: the OpenAI Responses API for clients. Nothing is stored.

use actix_web::{
    HttpResponse,
    web::{self, Bytes},
};
use pointsman_dialect::{ChatPurpose, ChatRequest, ProviderState};
use serde::Serialize;

use super::{
    as_chat::{self, TokenCountBody},
    client_reader::reader,
};
use crate::{api::auth::Authorized, base::error::ApiError};

view! {
    /// The answer of `input_tokens`.
    #[cfg_attr(test, schemars(description = ""))]
    pub(in crate::api) struct InputTokensBody {
        fn new(input_tokens: u64) {}

        /// Always `response.input_tokens`.
        object: &'static str = "response.input_tokens",
        #[serde(flatten)]
        count: TokenCountBody = TokenCountBody { input_tokens },
    }
}

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
pub(crate) fn read_chat(body: Bytes, by: &Authorized, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    let state = || ProviderState::anywhere_in(&by.worker.setup.catalog);
    let drops_hosted_tools = by.worker.setup.config.responses.drop_hosted_tools;
    Ok(reader(&by.worker, purpose).responses(body, state, drops_hosted_tools)?)
}

/// The number of prompt tokens of a request that is not answered, as a provider of its model counts them or as estimated.
///
/// # Errors
/// 4xx for a refused request.
pub async fn input_tokens(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    as_chat::count_tokens(by, payload, (read_chat, InputTokensBody::new)).await
}
