//! `POST /completions`: the deprecated API of OpenAI that continues a text, for clients that know no other. Off by default.
//!
//! Only endpoints with `legacy_completions` get such requests, as the client wrote them.

use actix_web::{
    HttpResponse,
    web::{self, Bytes},
};
use pointsman_dialect::{ChatPurpose, ChatRequest};

use super::{as_chat, client_reader::reader};
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
pub(crate) fn read_chat(body: Bytes, by: &Authorized, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    Ok(reader(&by.worker, purpose).completion(body)?)
}
