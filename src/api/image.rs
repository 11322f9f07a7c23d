//! `POST /images/generations`, and the image files that its answers link to.

use std::{sync::Arc, time::Instant};

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use pointsman_actors::{
    dialect::ImageRequest,
    domain::{ApiType, Dialect},
};

use crate::{
    access::{keys::Caller, load::Pieces},
    api::{auth::Authorized, path_name::PathName},
    base::{clock, error::ApiError},
    config::Scope,
    proxy::{
        body::{header_text, read_json},
        dispatch::{
            self, RequestedWork,
            attempt::RequestSize,
            cost,
            draft::{GenerationDraft, GenerationOpening},
            images::ImageWork,
            plain::{self, PlainAnswer},
            plan_run::PlanRun,
        },
        query, route_headers,
    },
    state::gateway::Worker,
};

/// Generates images.
///
/// # Errors
/// 4xx for a refused request; 4xx, 502, 503 or 504 when no attempt succeeds.
pub async fn create(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let accepted = Instant::now();
    caller.require(Scope::Inference)?;
    let mut admitted = worker.setup.admission.admit(&caller)?;
    caller.budgets().check()?;
    let limits = worker.setup.body_limits(&caller);
    let share = Arc::clone(&limits.buffer);
    let body = read_json(&request, payload, limits).await?;
    let mut image = ImageRequest::parse(body, &worker.setup.config.limits.request)?;
    route_headers::apply(&mut image.routing, &request)?;
    let images_wanted = image.n;
    let catalog = &*worker.setup.catalog;
    let query = query::of_image(&image, catalog, &worker.setup.config, &caller)?;
    let (opening, size) = (opening(&image, &request, &caller), request_size(&image));
    let ignored = std::mem::take(&mut image.unknown_members);
    let work = RequestedWork::Image(ImageWork::new(image, &request));
    let routed = dispatch::route(&worker, &work, query).await?;
    // A generated image costs `pricing.image`.
    let worst = RequestSize { images: images_wanted, ..size };
    let budget = cost::admit(&worker, &routed, worst, &mut admitted).await?;
    let record = opening.record(&request, &routed);
    let draft =
        GenerationDraft::new(&worker, clock::tick(accepted), admitted, budget.clone(), record).with_ignored(ignored);
    let plan = PlanRun::new(&worker, routed, accepted, size, budget);
    let PlainAnswer { answer, held, draft } = plain::answer(&worker, &work, plan, draft, &share).await?;
    let mut response = HttpResponse::Ok();
    draft.write_headers(&mut response);
    Ok(response.insert_header(header::ContentType::json()).body(held.answer(answer.body)))
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
        session_id: image.session_id.clone().or_else(|| header_text(request, "x-session-id")),
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
    }
}

/// Serves a stored image. Needs no key: the name in the link is secret.
///
/// # Errors
/// 404 for an unknown or expired name.
pub async fn file(worker: Worker, name: PathName) -> Result<HttpResponse, ApiError> {
    let file = worker.shared.images.find(&name, Instant::now()).ok_or_else(|| ApiError::no_such("image"))?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, file.media_type))
        .insert_header((header::CACHE_CONTROL, "private"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(Pieces::of(file.bytes)))
}
