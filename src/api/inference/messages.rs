//! `POST /messages` and `POST /messages/count_tokens`: the Anthropic Messages API for clients.

use actix_web::{
    HttpResponse,
    http::header::HeaderMap,
    web::{self, Bytes},
};
use pointsman_dialect::{ChatPurpose, ChatRequest, UpstreamHeaders};

use super::{
    as_chat::{self, TokenCountBody},
    client_reader::reader,
};
use crate::{api::auth::Authorized, base::error::ApiError};

/// The header that says a browser may be shown the key; it is for Anthropic alone.
const BROWSER_ACCESS: &str = "anthropic-dangerous-direct-browser-access";

/// Serves one message, plain or streamed.
///
/// # Errors
/// As [`super::chat::create`], in the shape of this API.
pub async fn create(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    as_chat::serve(by, payload, read_chat).await
}

/// Reads a request of this API as a chat.
///
/// # Errors
/// The 400 for a refused request.
pub(crate) fn read_chat(body: Bytes, by: &Authorized, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    let headers = by.request.headers();
    Ok(reader(&by.worker, purpose).messages(body, version(headers), &passed_on(headers))?)
}

/// Reads a request whose tokens are to be counted: it needs no limit on output.
fn read_counted(body: Bytes, by: &Authorized, purpose: ChatPurpose) -> Result<Box<ChatRequest>, ApiError> {
    Ok(reader(&by.worker, purpose).counted_messages(body, &passed_on(by.request.headers()))?)
}

/// The number of prompt tokens of a request that is not answered, as a provider of its model counts them or as estimated.
///
/// # Errors
/// 4xx for a refused request, in the shape of this API.
pub async fn count_tokens(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    as_chat::count_tokens(by, payload, (read_counted, |input_tokens| TokenCountBody { input_tokens })).await
}

fn version(headers: &HeaderMap) -> Option<&str> {
    headers.get("anthropic-version")?.to_str().ok()
}

/// What an endpoint of the same dialect gets as it came: versions, betas and whatever else is Anthropic's.
fn passed_on(headers: &HeaderMap) -> UpstreamHeaders {
    let of_anthropic = headers.iter().filter(|(name, _)| name.as_str().starts_with("anthropic-"));
    let passed = of_anthropic.filter(|(name, _)| name.as_str() != BROWSER_ACCESS);
    passed
        .filter_map(|(name, value)| Some((name.as_str().to_owned().into(), value.to_str().ok()?.to_owned())))
        .collect()
}
