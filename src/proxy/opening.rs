//! The first page of a generation's record: what is known when it is admitted.

use std::sync::Arc;

use actix_web::HttpRequest;
use pointsman_actors::{
    actors::router::Routed,
    domain::{ApiType, CostBreakdown, Generation, GenerationId, GenerationStatus, Usage},
};

use crate::{base::clock, base::request_id::RequestId, proxy::body::header_text};

/// What a request says of itself.
pub struct GenerationOpening {
    /// Chat or image.
    pub api_type: ApiType,
    /// Whose it is.
    pub owner: u64,
    /// The first name that was asked for.
    pub requested_model: Arc<str>,
    /// Whether the answer is streamed.
    pub streamed: bool,
    /// `user` of the request.
    pub external_user: Option<String>,
    /// `session_id` of the request.
    pub session_id: Option<String>,
    /// Client tags.
    pub tags: Vec<(String, String)>,
    /// `trace` of the request, as JSON.
    pub trace: Option<String>,
    /// Images in the prompt.
    pub media_prompt: u64,
}

/// The name that a request asks for first: its model, else the first of its list; empty where it names none.
#[must_use]
pub fn asked_first<'r>(model: &'r Option<String>, models: &'r [String]) -> &'r str {
    model.as_ref().or_else(|| models.first()).map(String::as_str).unwrap_or_default()
}

impl GenerationOpening {
    /// The record of a generation that begins now, under a new id.
    #[must_use]
    pub fn record(self, request: &HttpRequest, routed: &Routed) -> Generation {
        let created_ms = clock::unix_millis();
        let seconds = u64::try_from(created_ms / 1000).unwrap_or_default();
        Generation {
            id: GenerationId::new(seconds, rand::random()),
            owner: self.owner,
            api_type: self.api_type,
            request_id: RequestId::of(request).shared(),
            created_ms,
            status: GenerationStatus::Running,
            requested_model: self.requested_model,
            streamed: self.streamed,
            decision: Arc::clone(&routed.decision),
            policy: Arc::clone(&routed.policy),
            catalog: Arc::clone(&routed.catalog),
            attempts: Vec::new(),
            model: None,
            provider_name: None,
            provider_slug: None,
            upstream_id: None,
            latency_ms: None,
            generation_time_ms: None,
            usage: Usage::default(),
            cost: CostBreakdown::default(),
            finish: None,
            native_finish_reason: None,
            dropped_parameters: Vec::new(),
            external_user: self.external_user,
            session_id: self.session_id,
            tags: self.tags,
            trace: self.trace,
            user_agent: header_text(request, "user-agent"),
            http_referer: header_text(request, "referer").or_else(|| header_text(request, "http-referer")),
            origin: header_text(request, "x-title"),
            media_prompt: self.media_prompt,
            media_completion: 0,
        }
    }
}
