//! One attempt in progress: it holds its place at the endpoint until it ended, however it ends, and notes where
//! its time goes.

use std::{sync::Arc, time::Duration};

use pointsman_actors::{
    actors::router::Routed,
    dialect::Outcome,
    domain::{AttemptReason, AttemptRecord, Endpoint, EndpointEvent, EventKind, GenerationId, Tick, Usage, Usd},
    stats::{Claim, FinishedClaim, QuotaReport},
};

use crate::{
    base::{clock, events},
    state::gateway::Worker,
    upstream::{Phases, UpstreamError, concurrency::Permit},
};

/// A claimed place at an endpoint. Dropped without a verdict, it counts as cancelled.
pub struct Attempt {
    worker: Worker,
    routed: Routed,
    /// Where it stands among the request's attempts.
    pub turn: AttemptPosition,
    /// Position of the endpoint in the catalog.
    pub endpoint: u32,
    /// When it was dispatched.
    pub started: Tick,
    /// The first content; of a plain answer the first bytes of its body that are not padding.
    pub first_token: Option<Tick>,
    /// How far its connection came.
    pub phases: Phases,
    /// Whether the upstream was seen at work: content came, if only such that the client does not want to see.
    pub at_work: bool,
    /// What it is known to have taken, if it gave no answer.
    took: Option<Usage>,
    request: RequestSize,
    claim: Option<Claim>,
    _place: Option<Permit>,
}

/// Where an attempt stands among those of its request.
#[derive(Debug, Clone, Copy)]
pub struct AttemptPosition {
    /// Counted from 1.
    pub n: u32,
    /// Position in the plan.
    pub position: usize,
    /// Why it was started.
    pub reason: AttemptReason,
    /// How long it waited for a free place at the provider before it started.
    pub queue: Duration,
}

/// The measures of a request that statistics are kept by.
#[derive(Debug, Clone, Copy)]
pub struct RequestSize {
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// Images in the prompt.
    pub images: u32,
    /// The request's own limit on output tokens.
    pub max_tokens: Option<u32>,
    /// Answers asked for: lengths are learned per answer.
    pub answers: u32,
    /// Whether the answer is streamed.
    pub streamed: bool,
    /// Whether a late attempt may be raced, if its objective allows it.
    pub may_be_raced: bool,
}

/// The names of an attempt's endpoint.
pub struct Names {
    /// Catalog id of the model.
    pub model: Arc<str>,
    /// Display name of the provider.
    pub provider: Arc<str>,
    /// Slug of the provider.
    pub slug: Arc<str>,
}

/// What a record says of an attempt's end.
struct End {
    status: Option<u16>,
    error_type: Option<&'static str>,
    cause: Option<&'static str>,
    cost: Usd,
    served: bool,
}

impl Attempt {
    /// The attempt that `claim` admits.
    pub fn new(
        worker: &Worker,
        routed: &Routed,
        turn: AttemptPosition,
        request: RequestSize,
        claim: Claim,
        place: Option<Permit>,
    ) -> Attempt {
        let dispatched = claim.event(claim.dispatched, EventKind::Dispatched);
        let attempt = Attempt {
            worker: worker.clone(),
            routed: routed.clone(),
            turn,
            endpoint: claim.index,
            started: claim.dispatched,
            first_token: None,
            phases: Phases::default(),
            at_work: false,
            took: None,
            request,
            claim: Some(claim),
            _place: place,
        };
        attempt.tell(dispatched);
        attempt
    }

    /// The first content arrived; of a plain answer, whose head may come long before the work is done, bytes of its body.
    pub fn first_token(&mut self, now: Tick) {
        if self.first_token.is_some() {
            return;
        }
        (self.first_token, self.at_work) = (Some(now), true);
        let Some(claim) = &self.claim else { return };
        self.worker.setup.published.live.first_token(claim, now);
        if self.request.streamed {
            // How much was read from a cache is not told before the stream ends.
            let prompt_tokens = claim.prompt_tokens.saturating_sub(claim.cached_tokens);
            self.tell(claim.event(now, EventKind::FirstToken { prompt_tokens }));
        }
    }

    /// The upstream said this about its limits.
    pub fn quota(&self, report: QuotaReport) {
        if let Some(claim) = self.claim.as_ref().filter(|_| report.is_some()) {
            self.worker.setup.published.live.quota(claim, clock::now(), report);
        }
    }

    /// The upstream took this much, and the client has seen nothing of it yet.
    pub fn took(&mut self, usage: Usage) {
        (self.took, self.at_work) = (Some(usage), true);
    }

    /// The answer was whole.
    pub fn completed(mut self, outcome: &Outcome) -> AttemptRecord {
        let now = clock::now();
        let (first, usage) = (self.first_token.unwrap_or(now), &outcome.usage);
        let small = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let end = EventKind::Completed {
            streamed: self.request.streamed,
            first_token: first - self.started,
            total: now - self.started,
            prompt_tokens: small(usage.prompt_tokens.saturating_sub(self.cached(usage))),
            completion_tokens: small(usage.completion_tokens) / self.request.answers.max(1),
            max_tokens: self.request.max_tokens,
            prompt_ratio: self.prompt_ratio(usage),
            hidden_tokens: small(outcome.hidden_tokens) / self.request.answers.max(1),
            cost: outcome.cost.total().to_f64(),
        };
        self.finish(now, end, events::Ending::Ordinary);
        self.record(
            now,
            End { status: Some(200), error_type: None, cause: None, cost: outcome.cost.total(), served: true },
        )
    }

    /// Prompt tokens per estimated one, if the provider counted them.
    fn prompt_ratio(&self, usage: &Usage) -> Option<f64> {
        let estimated = f64::from(self.request.prompt_tokens);
        let is_counted = !usage.estimated && usage.prompt_tokens > 0 && estimated > 0.0;
        is_counted.then(|| usage.prompt_tokens as f64 / estimated)
    }

    /// Prompt tokens that were read from a cache: as the provider counted them, else as expected.
    fn cached(&self, usage: &Usage) -> u64 {
        let expected = self.claim.as_ref().map_or(0, |claim| u64::from(claim.cached_tokens));
        if usage.estimated { expected } else { usage.cached_tokens }
    }

    /// The attempt failed, and with it perhaps `generation`; `outcome` is what the client had seen of it by then.
    pub fn failed(
        mut self,
        error: &UpstreamError,
        generation: GenerationId,
        outcome: Option<&Outcome>,
    ) -> AttemptRecord {
        let now = clock::now();
        if let Some(quota) = error.quota.as_deref() {
            self.quota(*quota);
        }
        let failure = error.failure;
        let cause = events::FailureLog { detail: &error.detail, generation };
        let had_content = self.first_token.is_some();
        self.finish(now, EventKind::Failed { failure, had_content }, events::Ending::Because(cause));
        let cost = match outcome {
            Some(outcome) => outcome.cost.total(),
            None => self.took.map_or(Usd::ZERO, |usage| self.price(&usage)),
        };
        let (status, error_type) = (failure.status, Some(failure.kind.as_str()));
        self.record(now, End { status, error_type, cause: error.cause, cost, served: outcome.is_some() })
    }

    /// The client left; `outcome` is what it had seen by then.
    pub fn cancelled(mut self, outcome: Option<&Outcome>) -> AttemptRecord {
        let now = clock::now();
        self.cancel(now, events::Ending::Ordinary);
        let cost = outcome.map_or_else(|| self.sunk(), |outcome| outcome.cost.total());
        let error_type = Some(AttemptRecord::CANCELLED);
        self.record(now, End { status: None, error_type, cause: None, cost, served: outcome.is_some() })
    }

    /// Another attempt was quicker.
    pub fn lost_race(mut self) -> AttemptRecord {
        let now = clock::now();
        self.cancel(now, events::Ending::LostRace);
        let error_type = Some(AttemptRecord::LOST_RACE);
        self.record(now, End { status: None, error_type, cause: None, cost: self.sunk(), served: false })
    }

    fn cancel(&mut self, now: Tick, ending: events::Ending<'_>) {
        let had_content = self.first_token.is_some();
        self.finish(now, EventKind::Cancelled { had_content }, ending);
    }

    /// What an attempt costs that is given up: its prompt, if there was anybody to send it to, and what it is known
    /// to have produced.
    fn sunk(&self) -> Usd {
        if !self.phases.sent {
            return Usd::ZERO;
        }
        let prompt = Usage {
            prompt_tokens: u64::from(self.request.prompt_tokens),
            images: u64::from(self.request.images),
            estimated: true,
            ..Usage::default()
        };
        self.price(&self.took.unwrap_or(prompt))
    }

    fn price(&self, usage: &Usage) -> Usd {
        self.catalog_entry().map_or(Usd::ZERO, |endpoint| endpoint.pricing.cost(usage).total())
    }

    fn catalog_entry(&self) -> Option<&Endpoint> {
        self.routed.catalog.endpoint(self.endpoint)
    }

    /// Gives the place back at once, so that the next decision on any worker sees it; the statistics hear later.
    fn finish(&mut self, now: Tick, end: EventKind, ending: events::Ending<'_>) {
        let Some(claim) = self.claim.take() else { return };
        let FinishedClaim { event, change } =
            self.worker.setup.published.live.finish(claim, now, end, &self.routed.policy);
        // In this order, so that the log reads as cause and effect.
        events::AttemptEnded { catalog: &self.routed.catalog, endpoint: self.endpoint, end: &end, ending }
            .emit(&self.worker.shared.metrics);
        if let Some(change) = change {
            events::BreakerMoved { catalog: &self.routed.catalog, change }.emit(&self.worker.shared.metrics);
        }
        self.tell(event);
    }

    fn tell(&self, event: EndpointEvent) {
        self.worker.schedule_flush(self.worker.events.event(event));
    }

    /// `started_ms` is made relative by the draft, which knows when the request was accepted.
    fn record(&self, now: Tick, end: End) -> AttemptRecord {
        let Names { model, provider, slug } = self.names();
        AttemptRecord {
            n: self.turn.n,
            reason: self.turn.reason,
            endpoint: self.endpoint,
            model,
            provider_name: provider,
            provider_slug: slug,
            status: end.status,
            error_type: end.error_type,
            cause: end.cause,
            started_ms: self.started.0 / 1000,
            queue_ms: millis(self.turn.queue),
            connect_ms: self.phases.connect.map(millis),
            tls_ms: self.phases.tls.map(millis),
            first_byte_ms: self.phases.first_byte.map(millis),
            first_token_ms: self.first_token.map(|first| millis(first - self.started)),
            stream_ms: self.first_token.map(|first| millis(now - first)),
            duration_ms: millis(now - self.started),
            cost: end.cost,
            served: end.served,
        }
    }

    /// What its endpoint is called.
    #[must_use]
    pub fn names(&self) -> Names {
        let catalog = &self.routed.catalog;
        let endpoint = self.catalog_entry();
        let provider = endpoint.and_then(|endpoint| catalog.provider_of(endpoint));
        let model = endpoint.and_then(|endpoint| catalog.model_of(endpoint));
        Names {
            model: model.map_or_else(|| "".into(), |model| model.id.shared()),
            provider: provider.map_or_else(|| "".into(), |provider| Arc::clone(&provider.name)),
            slug: provider.map_or_else(|| "".into(), |provider| provider.slug.shared()),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.claim.is_some() {
            self.cancel(clock::now(), events::Ending::Ordinary);
        }
    }
}

/// Whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
