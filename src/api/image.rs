//! `POST /images/generations`, and the image files that its answers link to.

use std::time::Instant;

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use pointsman_dialect::ImageRequest;
use pointsman_domain::{ApiType, Dialect};

use crate::{
    access::{keys::Caller, load::Pieces},
    api::{auth::Authorized, inference::admitted_request::AdmittedRequest, path_name::PathName},
    base::error::ApiError,
    proxy::{
        body::{SESSION_ID, header_text},
        dispatch::{RequestedWork, attempt::RequestSize, images::ImageWork, record_builder::GenerationOpening},
        query, request_headers,
    },
    state::gateway::Worker,
};

/// Generates images.
///
/// # Errors
/// 4xx for a refused request; 4xx, 502, 503 or 504 when no attempt succeeds.
pub async fn create(by: Authorized, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    let (call, body) = AdmittedRequest::read(by, payload).await?;
    let Authorized { caller, worker, request } = &call.by;
    let mut image = ImageRequest::parse(body, &worker.setup.config.limits.request)?;
    request_headers::apply(&mut image.routing, request)?;
    request_headers::check_session(request)?;
    let (opening, size) = (opening(&image, request, caller), request_size(&image));
    let asker = opening.asker(None, worker);
    let query = query::of_image(&image, &worker.setup.catalog, &worker.setup.config, (caller, asker));
    let query = query.map_err(|error| error.for_model(query::first_name(&image.model, &image.models)))?;
    // A generated image costs `pricing.image`.
    let worst = RequestSize { images: image.n, ..size };
    let ignored = std::mem::take(&mut image.unknown_members);
    let work = RequestedWork::Image(Box::new(ImageWork::new(image, request)));
    call.answer(work, query, opening, (size, worst), ignored).await
}

/// The part of the record that is known before routing.
fn opening(image: &ImageRequest, request: &HttpRequest, caller: &Caller) -> GenerationOpening {
    GenerationOpening {
        api_type: ApiType::Image,
        client_dialect: Dialect::OpenAi,
        owner: caller.owner,
        key: caller.id,
        requested_model: query::first_name(&image.model, &image.models).into(),
        streamed: false,
        external_user: image.user.clone(),
        session_id: image.session_id.clone().or_else(|| header_text(request, &SESSION_ID)),
        tags: image.tags.clone(),
        trace: image.trace.clone(),
        media_prompt: u64::from(image.references),
    }
}

/// Size of the request, for predictions and prices.
fn request_size(image: &ImageRequest) -> RequestSize {
    RequestSize {
        prompt_tokens: image.prompt_tokens,
        // Images in the prompt cost nothing: `pricing.image` of an image model is the price of a generated image.
        images: 0,
        max_tokens: None,
        answers: 1,
        streamed: false,
        // No hedging: every generated image costs its full price.
        may_be_raced: false,
        service: image.service,
    }
}

/// Serves a stored image. Needs no key: the name in the link is secret.
///
/// # Errors
/// 404 for an unknown or expired name.
pub async fn file(worker: Worker, name: PathName) -> Result<HttpResponse, ApiError> {
    let file = worker.shared.process.images.find(&name, Instant::now()).ok_or_else(|| ApiError::no_such("image"))?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, file.media_type))
        .insert_header((header::CACHE_CONTROL, "private"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(Pieces::uncounted(file.bytes)))
}
