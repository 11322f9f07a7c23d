//! `POST /route/preview`: the routing decision for a request, without an upstream call.
//!
//! `what_if` adds the decision under changed conditions, `why_not` the reason why a named endpoint is not chosen.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use pointsman_actors::{
    actors::router::{Preview, PreviewedDecision},
    dialect::{ChatPurpose, ChatRequest},
    domain::{Catalog, Tick},
    explain::{ResolvedWhatIf, fill_selection_probabilities, reason_sentence},
};

use super::{
    answer::uncached,
    preview_view::{PreviewBody, PreviewHeader, RenderedDecision},
    why_not_view,
};
use crate::{
    api::auth::Authorized,
    base::{clock, error::ApiError},
    config::Scope,
    proxy::{
        body::{header_text, read_json},
        dispatch::RequestedWork,
        query, refusal, route_headers, unknown_fields,
    },
    state::gateway::Worker,
};

/// Ranks the candidates of a chat request. No upstream call, no cost, no generation; counts as one request.
///
/// # Errors
/// The same 4xx as chat, except that an empty pool is an answer; 400 also for a `what_if` that names no known endpoint.
pub async fn show(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Inference)?;
    let _admitted = worker.setup.admission.admit(&caller)?;
    let body = read_json(&request, payload, worker.setup.body_limits(&caller)).await?;
    let mut chat = ChatRequest::parse(body, ChatPurpose::Preview, &worker.setup.config.limits.request)?;
    route_headers::apply(&mut chat.routing, &request)?;
    route_headers::add_models(&mut chat.models, &request)?;
    let catalog = &*worker.setup.catalog;
    let default_model = format!("{}/auto", worker.setup.config.service.alias_prefix);
    let mut query = query::of_chat(&chat, catalog, &worker.setup.config, &caller, Some(&default_model))?;
    let session_id = chat.session_id.clone().or_else(|| header_text(&request, "x-session-id"));
    // Completes the query with remembered preferences; a preview remembers none.
    let intents = &worker.shared.preferences;
    let _ = intents.apply(&worker.setup, &chat, caller.owner, session_id.as_deref(), &mut query, clock::now());
    let requested = chat.model.clone().or_else(|| chat.models.first().cloned()).unwrap_or(default_model);
    let warnings = unknown_fields::warnings(catalog, &chat.unknown_members, &chat.restrictions());
    let at = clock::unix_millis() / 1000;
    let header = PreviewHeader { model: &requested, at, top_n: chat.routing.top_n, warnings: &warnings };
    let why_not = chat.why_not.take().map_or_else(|| why_not_view::in_query(&request), |name| Ok(Some(name)))?;
    let what_if = what_if(&mut chat, catalog)?;
    let (published, seed) = (Arc::clone(&worker.setup.published), chat.routing.route_seed);
    let decide = move || {
        let now = clock::now();
        let answer = Preview { query, now, published, seed, imagination: what_if, why_not }.answer();
        let work = RequestedWork::Chat(chat);
        (render(answer.actual, &work, now), answer.imagined.map(|imagined| render(imagined, &work, now)))
    };
    let (actual, hypothetical) = worker.analyse(&caller, decide).await?;
    Ok(uncached(&PreviewBody::new(header, &actual, hypothetical.as_ref())))
}

fn what_if(chat: &mut ChatRequest, catalog: &Catalog) -> Result<Option<Box<ResolvedWhatIf>>, ApiError> {
    let resolved = chat.what_if.take().map(|what_if| ResolvedWhatIf::new(*what_if, catalog));
    Ok(resolved.transpose()?.map(Box::new))
}

/// Adds probabilities, the reason sentence and the nearest relaxation to a decision.
fn render(previewed: PreviewedDecision, work: &RequestedWork, now: Tick) -> RenderedDecision {
    let PreviewedDecision { mut decided, snapshot, why_not } = previewed;
    let (reason, nearest) = match &mut decided {
        Ok(decision) => {
            fill_selection_probabilities(decision, &snapshot.policy);
            (reason_sentence(decision, &snapshot.catalog, &[]), None)
        }
        Err(error) => {
            let refusal = refusal::explain(&snapshot, work, error, now);
            (refusal.message().to_owned(), refusal::nearest(&snapshot, error))
        }
    };
    RenderedDecision { decided, catalog: snapshot.catalog, reason, nearest, why_not }
}
