//! The number of prompt tokens of a request that is not answered: counted by a provider of its model, or estimated.
//!
//! Only a fixed model is counted: an alias may be served by another one at the next request. No generation, no claim, no
//! statistics; a provider that does not answer in time costs nothing but that time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::HttpRequest;
use pointsman_actors::router::Preview;
use pointsman_base::clock;
use pointsman_dialect::{ChatRequest, CountRequest, count_request, counted_tokens};
use pointsman_domain::{Candidate, Catalog, Endpoint, Query, Target};
use pointsman_transport::UpstreamRequest;

use crate::{
    access::keys::Caller,
    base::error::ApiError,
    proxy::{query, request_headers, splitting::Asker},
    state::gateway::Worker,
};

/// Time for a provider to count. Clients wait for the count before they send the request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prompt tokens.
pub enum TokenCount {
    /// As a provider counts them.
    Counted(u64),
    /// As the gateway estimates them.
    Estimated(u64),
}

impl TokenCount {
    /// The number.
    pub fn tokens(&self) -> u64 {
        match self {
            TokenCount::Counted(tokens) | TokenCount::Estimated(tokens) => *tokens,
        }
    }
}

/// Counts the prompt of a chat at the endpoint that would be asked first of those that count. If none does, the estimate is
/// there.
///
/// # Errors
/// As for a request that is answered: 404 for an unknown model, 400 for a header that is refused.
pub async fn of_prompt(
    mut chat: Box<ChatRequest>,
    request: &HttpRequest,
    worker: &Worker,
    caller: &Caller,
) -> Result<TokenCount, ApiError> {
    let estimate = TokenCount::Estimated(u64::from(chat.prompt_tokens));
    request_headers::apply(&mut chat.routing, request)?;
    request_headers::check_session(request)?;
    let asker = Asker::of_preview(&chat, chat.session_id.as_deref(), worker);
    let query = query::of_chat(&chat, &worker.setup.catalog, &worker.setup.config, (caller, asker), None)?;
    let Some((endpoint, call)) = count_at(&chat, query, worker) else { return Ok(estimate) };
    Ok(counted(&endpoint, call, worker).await.map_or(estimate, TokenCount::Counted))
}

/// The first endpoint of the plan that counts, and how it is asked.
fn count_at(chat: &ChatRequest, query: Box<Query>, worker: &Worker) -> Option<(Endpoint, CountRequest)> {
    let catalog = &worker.setup.catalog;
    if !worker.setup.counts_tokens {
        return None;
    }
    if !matches!(*query.targets, [Target::Model(_)]) {
        return None;
    }
    let published = worker.setup.published.clone();
    let preview = Preview { query, now: clock::now(), published, seed: None, imagination: None, why_not: None };
    let decided = preview.answer().actual.decided.ok()?;
    let call = |candidate: &Candidate| asked(chat, catalog, candidate);
    decided.candidates.iter().find_map(call)
}

fn asked(chat: &ChatRequest, catalog: &Catalog, candidate: &Candidate) -> Option<(Endpoint, CountRequest)> {
    let endpoint = catalog.find(candidate.index, candidate.endpoint)?;
    Some((endpoint.clone(), count_request(chat, catalog, endpoint)?))
}

/// What the provider counts. `None` if it may not be asked now, or does not say it in time.
async fn counted(endpoint: &Endpoint, call: CountRequest, worker: &Worker) -> Option<u64> {
    let provider = endpoint.provider as usize;
    let client = worker.clients.get(provider)?.as_ref()?;
    let _permit = match worker.setup.permits.get(provider) {
        Some(limits) => Some(limits.permits.try_acquire()?),
        None => None,
    };
    let call = UpstreamRequest {
        path: client.path_for(call.path, &endpoint.upstream_model),
        model: Arc::clone(&endpoint.upstream_model),
        prompt_tokens: 0,
        body: call.body.into(),
        headers: call.headers,
        dialect: endpoint.dialect,
        streamed: false,
        deadline: Instant::now() + PATIENCE,
        head_timeout: PATIENCE,
    };
    let answer = client.send(call).await.ok()?;
    counted_tokens(&answer.body.collect().await.ok()?)
}
