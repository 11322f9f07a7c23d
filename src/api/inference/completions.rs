//! `POST /completions`: the deprecated API of OpenAI that continues a text, for clients that know no other. Off by default.
//!
//! Only endpoints with `legacy_completions` get such requests, as the client wrote them.

use actix_web::{
    HttpResponse,
    web::{self, Bytes},
};
use pointsman_dialect::{
    ChatPurpose, ChatRequest, ClientRequest, ClientShape, UnsupportedFields, read_completion_request,
    with_whole_characters,
};

use super::as_chat;
use crate::{api::auth::Authorized, base::error::ApiError};

/// Continues one text, plain or streamed.
///
/// # Errors
/// As [`super::chat::create`].
pub async fn create(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    as_chat::serve(by, payload, read_chat).await
}

/// Reads a request of this API, with the chat that is measured in its place.
///
/// # Errors
/// The 400 for a refused request.
pub(crate) fn read_chat(mut body: Bytes, by: &Authorized, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    let chat = with_whole_characters(&mut body, |body| read_completion_request(body))?;
    let client = ClientRequest {
        shape: ClientShape::Completion { shows_usage: false },
        body,
        unsupported: UnsupportedFields::default(),
        native_feature: None,
        headers: Vec::new(),
        state_key: by.worker.shared.state_key.clone(),
    };
    Ok(client.parse_chat(chat, purpose, &by.worker.setup.config.limits.request)?)
}
