//! `POST /images/generations`, and the links its answers may hold.

use std::{sync::Arc, time::Instant};

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use pointsman_actors::{dialect::ImageRequest, domain::ApiType};

use crate::{
    access::load::Pieces,
    api::{auth::Authorized, named::Named},
    base::{clock, error::ApiError},
    config::Scope,
    proxy::{
        body::{header_text, read_json},
        dispatch::{
            self, Work,
            attempt::RequestSize,
            draft::GenerationDraft,
            images::ImageWork,
            plain::{self, Served},
            walk::Walk,
        },
        opening::{Opening, asked_first},
        query,
    },
    state::gateway::Worker,
};

/// Makes images.
///
/// # Errors
/// Everything of the contract's section 3.
pub async fn create(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let accepted = Instant::now();
    caller.require(Scope::Inference)?;
    let admitted = worker.setup.admission.admit(&caller)?;
    let limits = worker.setup.body_limits(&caller)?;
    let share = Arc::clone(&limits.buffer);
    let body = read_json(&request, payload, limits).await?;
    let mut image = ImageRequest::parse(body, &worker.setup.config.limits.request)?;
    let catalog = &*worker.setup.catalog;
    let query = query::of_image(&image, catalog, &worker.setup.config, &caller)?;
    let (opening, measure) = (opening(&image, &request, caller.owner), measure(&image));
    let ignored = std::mem::take(&mut image.unknown_members);
    let work = Work::Image(ImageWork::new(image, &request));
    let routed = dispatch::route(&worker, &work, query).await?;
    let draft = GenerationDraft::new(&worker, clock::tick(accepted), admitted, opening.record(&request, &routed))
        .ignoring(ignored);
    let walk = Walk::new(&worker, routed, accepted, measure);
    let Served { answer, held, draft } = plain::answer(&worker, &work, walk, draft, &share).await?;
    let mut response = HttpResponse::Ok();
    draft.write_headers(&mut response);
    Ok(response.insert_header(header::ContentType::json()).body(held.answer(answer.body)))
}

/// What the record begins with.
fn opening(image: &ImageRequest, request: &HttpRequest, owner: u64) -> Opening {
    Opening {
        api_type: ApiType::Image,
        owner,
        requested_model: asked_first(&image.model, &image.models).into(),
        streamed: false,
        external_user: image.user.clone(),
        session_id: image.session_id.clone().or_else(|| header_text(request, "x-session-id")),
        tags: image.tags.clone(),
        trace: image.trace.clone(),
        media_prompt: u64::from(image.references),
    }
}

/// What an attempt is measured and paid by.
fn measure(image: &ImageRequest) -> RequestSize {
    RequestSize {
        prompt_tokens: image.prompt_tokens,
        // The price of an image is that of one made.
        images: 0,
        max_tokens: None,
        answers: 1,
        streamed: false,
        // Each one made is paid for, and none is half made.
        may_be_raced: false,
    }
}

/// Shows an image behind a link: whoever knows it may look.
///
/// # Errors
/// 404 for a name that never was, or has expired.
pub async fn file(worker: Worker, name: Named) -> Result<HttpResponse, ApiError> {
    let file = worker.shared.images.find(&name, Instant::now()).ok_or_else(|| ApiError::no_such("image"))?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, file.media_type))
        .insert_header((header::CACHE_CONTROL, "private"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(Pieces::of(file.bytes)))
}
