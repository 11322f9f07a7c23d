//! Answers of the console: pages, redirects and error pages. Knows the statuses of the console.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use maud::{Markup, html};

use super::layout::Frame;
use crate::{base::error::ApiError, state::gateway::GatewayView};

/// A page.
pub(super) fn page(markup: Markup) -> HttpResponse {
    page_with(StatusCode::OK, markup)
}

/// The page of a list that cannot be shown: because no records are kept, where `instead` says what there is, or because of what
/// was asked.
///
/// # Errors
/// Any other.
pub(super) fn unlisted(
    error: ApiError,
    worker: &GatewayView,
    instead: &str,
    page_of: impl FnOnce(Markup) -> Markup,
) -> Result<HttpResponse, ApiError> {
    match error.status() {
        status if status.is_client_error() && worker.shared.records.ledger.is_none() => {
            Ok(page(page_of(html! { p.empty { (error.message()) (instead) } })))
        }
        StatusCode::BAD_REQUEST => Ok(refused(&error, page_of(html! { p.alert role="alert" { (error.message()) } }))),
        _ => Err(error),
    }
}

/// A page with an error on it, which has the status of the error and the headers that belong to it.
pub(super) fn refused(error: &ApiError, markup: Markup) -> HttpResponse {
    let mut response = page_with(error.status(), markup);
    let answer = error.respond();
    for name in [header::RETRY_AFTER, header::ALLOW] {
        if let Some(value) = answer.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Sends the browser to another page of the console. `path` is relative.
pub(super) fn redirect(path: &str) -> HttpResponse {
    HttpResponse::SeeOther().insert_header((header::LOCATION, path.to_owned())).finish()
}

/// The page of an error, with the public sentence of the API.
pub(super) fn error_page(frame: &Frame, error: &ApiError) -> HttpResponse {
    let title = error.status().canonical_reason().unwrap_or("Error");
    let content = html! {
        h1 { (title) }
        p.lead { (error.message()) }
        p { a href={ (frame.root) "./" } { "To the overview" } }
    };
    refused(error, frame.page(title, None, content))
}

fn page_with(status: StatusCode, markup: Markup) -> HttpResponse {
    HttpResponse::build(status).content_type("text/html; charset=utf-8").body(markup.into_string())
}
