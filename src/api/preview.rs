//! `POST /route/preview`: what serving would choose, without calling anybody.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use pointsman_actors::{
    decide::{fill_selection_probabilities, reason_sentence},
    dialect::{ChatRequest, Form},
    router::Preview,
};

use super::preview_view::{Asked, PreviewBody};
use crate::{
    auth::Authorized, body::read_json, clock, config::Scope, dispatch::Work, error::ApiError, gateway::Worker, query,
    refusal,
};

/// Ranks the candidates of a chat request. No upstream call, no cost, no generation; counts as one request.
///
/// # Errors
/// The same 4xx as chat, except that an empty pool is an answer.
pub async fn show(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Inference)?;
    let _admitted = worker.admit(&caller)?;
    let body = read_json(&request, payload, worker.setup.body_limits()).await?;
    let chat = ChatRequest::parse(body, Form::Preview, &worker.setup.config.limits.request)?;
    let catalog = &*worker.setup.catalog;
    let default_model = format!("{}/auto", worker.setup.config.service.alias_prefix);
    let query = query::of_chat(&chat, catalog, &worker.setup.config, &caller, Some(&default_model))?;
    let requested = chat.model.clone().or_else(|| chat.models.first().cloned()).unwrap_or(default_model);
    let asked = Asked { model: &requested, at: clock::unix_millis() / 1000, top_n: chat.routing.top_n };
    let preview = Preview {
        query,
        now: clock::now(),
        published: Arc::clone(&worker.setup.published),
        seed: chat.routing.route_seed,
    };
    let answer = worker.router.send(preview).await.map_err(|_| ApiError::internal())?;
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CACHE_CONTROL, "no-store"));
    match answer {
        Ok(routed) => {
            let mut decision = (*routed.decision).clone();
            fill_selection_probabilities(&mut decision, &routed.policy);
            let reason = reason_sentence(&decision, &routed.catalog, 0);
            Ok(response.json(PreviewBody::decided(asked, &decision, &routed.catalog, &reason)))
        }
        Err(error) => {
            let reason = refusal::explain(catalog, &Work::Chat(chat), &error, clock::now());
            let reason = reason.message();
            Ok(response.json(PreviewBody::nothing_left(asked, &error, catalog, reason)))
        }
    }
}
