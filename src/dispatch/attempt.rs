//! One attempt in progress: it holds its place at the endpoint until it ended, however it ends.

use std::{sync::Arc, time::Duration};

use pointsman_actors::{
    domain::{AttemptRecord, EventKind, GenerationId, Tick, Usage},
    router::Routed,
    stats::Claim,
};

use crate::{
    clock, events,
    gateway::Worker,
    permits::Place,
    upstream::{Timing, UpstreamError},
};

/// A claimed place at an endpoint. Dropped without a verdict, it counts as cancelled.
pub struct Attempt {
    worker: Worker,
    routed: Routed,
    /// Counted from 1.
    pub n: u32,
    /// Position in the plan.
    pub position: usize,
    /// Position of the endpoint in the catalog.
    pub endpoint: u32,
    /// When it was dispatched.
    pub started: Tick,
    /// The first content, or for a plain answer the response head.
    pub first_token: Option<Tick>,
    /// TCP and TLS, when the connection was fresh.
    pub connect: Option<Duration>,
    request: Measure,
    claim: Option<Claim>,
    _permit: Option<Place>,
}

/// The measures of a request that statistics are kept by.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// The request's own limit on output tokens.
    pub max_tokens: Option<u32>,
    /// Answers asked for: lengths are learned per answer.
    pub answers: u32,
    /// Whether the answer is streamed.
    pub streamed: bool,
}

impl Attempt {
    /// The attempt that `claim` admits.
    pub fn new(
        worker: &Worker,
        routed: &Routed,
        (n, position): (u32, usize),
        request: Measure,
        claim: Claim,
        permit: Option<Place>,
    ) -> Attempt {
        let attempt = Attempt {
            worker: worker.clone(),
            routed: routed.clone(),
            n,
            position,
            endpoint: claim.index,
            started: claim.dispatched,
            first_token: None,
            connect: None,
            request,
            claim: Some(claim),
            _permit: permit,
        };
        attempt.tell(claim, attempt.started, EventKind::Dispatched);
        attempt
    }

    /// The response head came, over this connection.
    pub fn connected(&mut self, timing: &Timing) {
        self.connect = match (timing.connect, timing.tls) {
            (Some(connect), tls) => Some(connect + tls.unwrap_or_default()),
            (None, _) => None,
        };
    }

    /// The first content arrived; for a plain answer its head.
    pub fn first_token(&mut self, now: Tick) {
        if self.first_token.is_some() {
            return;
        }
        self.first_token = Some(now);
        let Some(claim) = self.claim else { return };
        self.worker.setup.published.live.first_token(&claim, now);
        if self.request.streamed {
            self.tell(claim, now, EventKind::FirstToken { prompt_tokens: self.request.prompt_tokens });
        }
    }

    /// The answer was whole.
    pub fn completed(mut self, usage: &Usage) -> AttemptRecord {
        let now = clock::now();
        let first = self.first_token.unwrap_or(now);
        let small = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        self.finish(
            now,
            EventKind::Completed {
                streamed: self.request.streamed,
                first_token: first - self.started,
                total: now - self.started,
                prompt_tokens: small(usage.prompt_tokens),
                completion_tokens: small(usage.completion_tokens) / self.request.answers.max(1),
                max_tokens: self.request.max_tokens,
                cost: self.cost(usage),
            },
            None,
        );
        self.record(now, Some(200), None)
    }

    /// What the endpoint's prices make of it, in dollars.
    fn cost(&self, usage: &Usage) -> f64 {
        let endpoint = self.routed.catalog.endpoint(self.endpoint);
        endpoint.map_or(0.0, |endpoint| endpoint.pricing.cost(usage).total().to_f64())
    }

    /// The attempt failed, and with it perhaps `generation`.
    pub fn failed(mut self, error: &UpstreamError, generation: GenerationId) -> AttemptRecord {
        let now = clock::now();
        let failure = error.failure;
        let cause = events::Cause { detail: &error.detail, generation };
        self.finish(now, EventKind::Failed { failure, had_content: self.first_token.is_some() }, Some(cause));
        self.record(now, failure.status, Some(failure.kind.as_str()))
    }

    /// The client left.
    pub fn cancelled(mut self) -> AttemptRecord {
        let now = clock::now();
        self.cancel(now);
        self.record(now, None, Some("cancelled"))
    }

    fn cancel(&mut self, now: Tick) {
        let expected_ln_first_token = self.claim.map_or(0.0, |claim| claim.expected.ln());
        let had_content = self.first_token.is_some();
        self.finish(now, EventKind::Cancelled { had_content, expected_ln_first_token }, None);
    }

    /// Gives the place back at once, so that the next decision on any worker sees it; the statistics hear later.
    fn finish(&mut self, now: Tick, end: EventKind, cause: Option<events::Cause<'_>>) {
        let Some(claim) = self.claim.take() else { return };
        let change = self.worker.setup.published.live.finish(claim, now, end, &self.routed.policy);
        if let Some(change) = change {
            events::BreakerMoved { catalog: &self.routed.catalog, change }.emit(&self.worker.shared.metrics);
        }
        events::AttemptEnded { catalog: &self.routed.catalog, endpoint: self.endpoint, end: &end, cause }
            .emit(&self.worker.shared.metrics);
        self.tell(claim, now, end);
    }

    fn tell(&self, claim: Claim, at: Tick, kind: EventKind) {
        self.worker.post(self.worker.news.event(claim.event(at, kind)));
    }

    /// Its record if nothing more is heard of it: the client left while it ran.
    #[must_use]
    pub fn unfinished(&self) -> AttemptRecord {
        self.record(self.started, None, Some("cancelled"))
    }

    /// `started_ms` is filled in by the draft, which knows when the request was accepted.
    fn record(&self, now: Tick, status: Option<u16>, error_type: Option<&'static str>) -> AttemptRecord {
        let (model, provider_name) = self.names();
        AttemptRecord {
            n: self.n,
            endpoint: self.endpoint,
            model,
            provider_name,
            status,
            error_type,
            started_ms: self.started.0 / 1000,
            duration_ms: millis(now - self.started),
            connect_ms: self.connect.map(millis),
            first_token_ms: self.first_token.map(|first| millis(first - self.started)),
        }
    }

    /// The model's id and the provider's display name.
    #[must_use]
    pub fn names(&self) -> (Arc<str>, Arc<str>) {
        let catalog = &self.routed.catalog;
        let Some(endpoint) = catalog.endpoint(self.endpoint) else { return ("".into(), "".into()) };
        let model = catalog.model_of(endpoint).map_or_else(|| "".into(), |model| model.id.shared());
        let provider = catalog.provider_of(endpoint).map_or_else(|| "".into(), |provider| Arc::clone(&provider.name));
        (model, provider)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.claim.is_some() {
            self.cancel(clock::now());
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
