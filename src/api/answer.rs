//! Helpers for answers: uncached JSON, and the `data` envelope.

use actix_web::{HttpResponse, http::header};
use serde::Serialize;

/// The body in a `data` envelope.
#[derive(Serialize)]
pub(crate) struct Data<T> {
    pub(crate) data: T,
}

/// 200 with a JSON body and `cache-control: no-store`.
pub(crate) fn uncached(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Ok().insert_header((header::CACHE_CONTROL, "no-store")).json(body)
}
