//! What one attempt needs to know of its endpoint: the client, the path, and how its answer is rewritten.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use pointsman_actors::{
    actors::router::Routed,
    dialect::AnswerContext,
    domain::{Endpoint, Generation, Model, Provider},
};

use crate::{
    proxy::dispatch::RequestedWork,
    state::gateway::Worker,
    upstream::{Call, UpstreamClient},
};

/// An endpoint about to be called.
pub struct Target<'a> {
    /// The provider's client on this worker.
    pub client: &'a UpstreamClient,
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    model: &'a Model,
    provider: &'a Provider,
    routed: &'a Routed,
}

impl<'a> Target<'a> {
    /// The endpoint at that position of the catalog; `None` only if catalog and clients disagreed, which start-up rules out.
    pub fn of(worker: &'a Worker, routed: &'a Routed, endpoint: u32) -> Option<Target<'a>> {
        let endpoint = routed.catalog.endpoint(endpoint)?;
        Some(Target {
            client: worker.clients.get(endpoint.provider as usize)?.as_ref()?,
            endpoint,
            model: routed.catalog.model_of(endpoint)?,
            provider: routed.catalog.provider_of(endpoint)?,
            routed,
        })
    }

    /// A call whose answer comes in one piece: its head comes last, so only the total limits it.
    pub fn plain_call(&self, work: &RequestedWork, body: Bytes, deadline: Instant) -> Call {
        let rest = deadline.saturating_duration_since(Instant::now());
        let path = work.path(self.endpoint);
        Call { path, body, streamed: false, deadline, head_timeout: rest }
    }

    /// A call whose answer is streamed, and whose first byte may take so long.
    pub fn stream_call(&self, work: &RequestedWork, body: Bytes, deadline: Instant, first_byte: Duration) -> Call {
        let rest = deadline.saturating_duration_since(Instant::now());
        let head_timeout = first_byte.min(rest);
        Call { path: work.path(self.endpoint), body, streamed: true, deadline, head_timeout }
    }

    /// How an answer of this endpoint is rewritten for the client of `record`.
    pub fn answer_context(&self, record: &Generation, work: &RequestedWork) -> AnswerContext {
        AnswerContext {
            generation: record.id,
            created: record.created_ms / 1000,
            model: self.model.id.shared(),
            provider_name: Arc::clone(&self.provider.name),
            fingerprint: Arc::clone(&self.routed.policy.fingerprint),
            pricing: Arc::clone(&self.endpoint.pricing),
            prompt_tokens: work.prompt_tokens(),
            images: work.images(),
            exclude_reasoning: work.excludes_reasoning(),
        }
    }
}

/// The shape of an error chunk for a stream that no endpoint answered.
pub fn unanswered(record: &Generation) -> AnswerContext {
    AnswerContext {
        generation: record.id,
        created: record.created_ms / 1000,
        model: record.model.clone().unwrap_or_else(|| Arc::clone(&record.requested_model)),
        provider_name: record.provider_name.clone().unwrap_or_else(|| "".into()),
        fingerprint: format!("fp_{}", record.decision.policy_version).into(),
        pricing: Arc::default(),
        prompt_tokens: 0,
        images: 0,
        exclude_reasoning: false,
    }
}
