//! Helpers for answers: uncached JSON, and the `data` envelope.

use actix_web::{
    HttpResponse,
    http::header::{self, HeaderName, HeaderValue},
};
use serde::Serialize;

use crate::proxy::token_count::TokenCount;

/// The content type of an answer. Unlike that of actix, it is not written anew each time.
pub(crate) const JSON: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));

/// The body in a `data` envelope.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct Data<T> {
    pub(crate) data: T,
}

/// 200 with a count of tokens, in the form of the client's API.
pub(crate) fn token_count(count: &TokenCount, body: &impl Serialize) -> HttpResponse {
    let mut answer = HttpResponse::Ok();
    if matches!(count, TokenCount::Estimated(_)) {
        answer.insert_header(("x-route-usage", "estimated"));
    }
    answer.json(body)
}

/// 200 with a JSON body and `cache-control: no-store`.
pub(crate) fn uncached(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Ok().insert_header((header::CACHE_CONTROL, "no-store")).json(body)
}
