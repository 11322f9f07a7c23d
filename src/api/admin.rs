//! `/admin`: what operators do to a running gateway. Served by a listener of its own, to keys with the scope `admin`.

pub(crate) mod config;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod status;

use actix_web::{HttpResponse, http::header};
use serde::Serialize;

/// An answer that nobody keeps.
fn answer(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Ok().insert_header((header::CACHE_CONTROL, "no-store")).json(body)
}

#[derive(Serialize)]
struct Data<T> {
    data: T,
}
