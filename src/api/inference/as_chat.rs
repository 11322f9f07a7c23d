//! What the APIs have in common whose requests become chats: Messages, Responses, and the completions of texts.

use std::time::Instant;

use actix_web::{
    HttpResponse,
    web::{Bytes, Payload},
};
use pointsman_config::Scope;
use pointsman_dialect::{ChatPurpose, ChatRequest};
use serde::Serialize;

use super::{admitted_request::AdmittedRequest, chat};
use crate::{
    access::lease::Moment,
    api::{answer, auth::Authorized},
    base::error::ApiError,
    proxy::token_count,
};

/// Reads a request of one API as a chat. Fails with the 400 for a refused request.
pub(crate) type ReadChat = fn(Bytes, &Authorized, ChatPurpose) -> Result<Box<ChatRequest>, ApiError>;

/// A count of tokens.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(in crate::api) struct TokenCountBody {
    /// Tokens of the prompt, as a provider of the model counts them; with the header `x-route-usage: estimated`, as the gateway
    /// estimates them.
    pub(super) input_tokens: u64,
}

/// Answers a request, plain or streamed.
///
/// # Errors
/// As [`chat::create`].
pub(in crate::api) async fn serve(by: Authorized, payload: Payload, read: ReadChat) -> Result<HttpResponse, ApiError> {
    let (call, body) = AdmittedRequest::read(by, payload).await?;
    let chat = read(body, &call.by, ChatPurpose::Chat)?;
    chat::answer(chat, call).await
}

/// The number of prompt tokens of a request that is not answered, as a provider of its model counts them or as estimated;
/// `written` makes the body of the answer.
///
/// # Errors
/// 4xx for a refused request.
pub(in crate::api) async fn count_tokens<B: Serialize>(
    by: Authorized,
    payload: Payload,
    (read, written): (ReadChat, fn(u64) -> B),
) -> Result<HttpResponse, ApiError> {
    by.caller.require(Scope::Inference)?;
    let _admitted = by.worker.setup.admission.admit(&by.caller, Moment::at(Instant::now()))?;
    let body = by.read_json(payload).await?;
    let chat = read(body, &by, ChatPurpose::Chat)?;
    let count = token_count::of_prompt(chat, &by.request, &by.worker, &by.caller).await?;
    Ok(answer::token_count(&count, &written(count.tokens())))
}
