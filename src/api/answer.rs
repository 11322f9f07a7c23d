//! The plain frames of answers: a page that nobody keeps, and `data` around what it shows.

use actix_web::{HttpResponse, http::header};
use serde::Serialize;

/// What a page shows, in an envelope.
#[derive(Serialize)]
pub(crate) struct Data<T> {
    pub(crate) data: T,
}

/// A success that no cache keeps: the next one may say something else.
pub(crate) fn uncached(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Ok().insert_header((header::CACHE_CONTROL, "no-store")).json(body)
}
