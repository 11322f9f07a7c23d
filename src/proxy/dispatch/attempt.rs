//! A running attempt. It holds its claim on the endpoint until it ends, however it ends, and records its times.

use std::{sync::Arc, time::Duration};

use pointsman_actors::router::Routed;
use pointsman_base::clock;
use pointsman_dialect::{Doubt, Outcome, SentBody};
use pointsman_domain::{
    AttemptReason, AttemptRecord, CostBreakdown, Dialect, Endpoint, EndpointEvent, EventKind, Evidence, GateEvent,
    GenerationId, ReasoningHistory, RequestedService, ServedService, Tick, Usage, Usd,
};
use pointsman_routing::stats::{BreakerChange, Claim, FinishedClaim, QuotaReport};
use pointsman_transport::{Phases, UpstreamError, concurrency::Permit, habits::Habits};

use crate::{base::events, state::gateway::Worker};

/// A claim on an endpoint. An attempt that is dropped before it ended counts as cancelled.
pub struct Attempt {
    worker: Worker,
    routed: Routed,
    /// Number, plan position and reason.
    pub start: AttemptStart,
    /// Position of the endpoint in the catalog.
    pub endpoint: u32,
    /// Time of dispatch.
    pub started: Tick,
    /// Time of the first content. For a plain answer, of the first bytes of its body that are not padding.
    pub first_token: Option<Tick>,
    /// Times of its connection.
    pub phases: Phases,
    /// Whether the provider produced content, including content that is hidden from the client.
    pub at_work: bool,
    /// Reported usage of an attempt without an answer.
    usage: Option<Usage>,
    request: RequestSize,
    /// `None` once the attempt has ended.
    claim: Option<Claim>,
    /// Held until the attempt is dropped.
    _permit: Option<Permit>,
}

/// How an attempt was started, and which of its request it is.
#[derive(Debug, Clone, Copy)]
pub struct AttemptStart {
    /// Counted from 1.
    pub n: u32,
    /// Position in the plan.
    pub position: usize,
    /// Why it was started.
    pub reason: AttemptReason,
    /// Wait for a concurrency permit before the start.
    pub queue: Duration,
}

/// Properties of a request that statistics use.
#[derive(Debug, Clone, Copy)]
pub struct RequestSize {
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
    /// Images in the prompt.
    pub images: u32,
    /// The request's own limit on output tokens.
    pub max_tokens: Option<u32>,
    /// Requested number of answers. Lengths are learned per answer.
    pub answers: u32,
    /// Whether the answer is streamed.
    pub streamed: bool,
    /// Whether a second attempt may race a late one, if the objective allows it.
    pub may_be_raced: bool,
    /// What it asks for in the fields that change its price.
    pub service: RequestedService,
}

/// Names of an endpoint.
pub struct EndpointNames {
    /// Catalog id of the model.
    pub model: Arc<str>,
    /// Display name of the provider.
    pub provider: Arc<str>,
    /// Slug of the provider.
    pub slug: Arc<str>,
}

/// What an attempt costs.
struct Bill {
    /// `None` at an unknown price.
    cost: Option<Usd>,
    estimated: bool,
    reported_cost: Option<Usd>,
}

impl Bill {
    const NOTHING: Bill = Bill { cost: Some(Usd::ZERO), estimated: false, reported_cost: None };
}

/// Outcome of an attempt, as the record shows it.
struct AttemptEnd {
    status: Option<u16>,
    error_type: Option<&'static str>,
    cause: Option<&'static str>,
    bill: Bill,
    served: bool,
}

impl Attempt {
    /// Starts the attempt that `claim` admits. Boxed: it is moved through several futures.
    pub fn new(
        worker: &Worker,
        routed: &Routed,
        start: AttemptStart,
        request: RequestSize,
        claim: Claim,
        permit: Option<Permit>,
    ) -> Box<Attempt> {
        let dispatched = claim.event(claim.dispatched, EventKind::Dispatched);
        let attempt = Box::new(Attempt {
            worker: worker.clone(),
            routed: routed.clone(),
            start,
            endpoint: claim.index,
            started: claim.dispatched,
            first_token: None,
            phases: Phases::default(),
            at_work: false,
            usage: None,
            request,
            claim: Some(claim),
            _permit: permit,
        });
        attempt.post_event(dispatched);
        attempt
    }

    /// Records the first content. For a plain answer, the first bytes of its body: its head may come long before.
    pub fn first_token(&mut self, now: Tick) {
        if self.first_token.is_some() {
            return;
        }
        (self.first_token, self.at_work) = (Some(now), true);
        let Some(claim) = &self.claim else { return };
        let change = self.worker.setup.published.live.first_token(claim, now);
        if self.request.streamed {
            // The provider reports cached tokens only at the end of the stream, so the estimate is used here.
            let prompt_tokens = claim.prompt_tokens.saturating_sub(claim.cached_tokens);
            let gate = if change.is_some() { GateEvent::Moved } else { GateEvent::Unmoved };
            self.post_event(EndpointEvent { gate, ..claim.event(now, EventKind::FirstToken { prompt_tokens }) });
        }
        if change.is_some() {
            self.publish(change, now);
        }
    }

    /// Records the remaining quota that the provider reported. `request`: its body. One that chooses a tier, or brings something
    /// of its own, may have another quota than the calls of others.
    pub fn quota(&self, report: QuotaReport, request: &SentBody) {
        let is_own = || {
            let Doubt { chooses_a_tier, brings_its_own, .. } = Doubt::of_request(request);
            chooses_a_tier || brings_its_own
        };
        if report.is_some() && !(report.is_scarce() && is_own()) {
            self.note_quota(report);
        }
    }

    fn note_quota(&self, report: QuotaReport) {
        if let Some(claim) = &self.claim {
            self.worker.setup.published.live.quota(claim, clock::now(), report);
        }
    }

    /// Records usage of which the client has seen nothing yet.
    pub fn set_usage(&mut self, usage: Usage) {
        (self.usage, self.at_work) = (Some(usage), true);
    }

    /// Ends the attempt at `now` with a complete answer.
    pub fn completed(mut self, outcome: &Outcome, now: Tick) -> AttemptRecord {
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
            cost: outcome.cost.map(|cost| cost.total().to_f64()),
        };
        self.finish(now, end, events::Ending::Ordinary);
        if outcome.gives_reasoning_content {
            self.learn_reasoning_content();
        }
        self.record(
            now,
            AttemptEnd { status: Some(200), error_type: None, cause: None, bill: Self::bill_of(outcome), served: true },
        )
    }

    /// A provider takes reasoning back in the member in which it gives it, unless its configuration says another.
    fn learn_reasoning_content(&self) {
        let unknown = |endpoint: &&Endpoint| {
            endpoint.dialect == Dialect::OpenAi && endpoint.reasoning_history == ReasoningHistory::Unknown
        };
        let provider = self.catalog_entry().filter(unknown).map(|endpoint| endpoint.provider as usize);
        let habits = provider.and_then(|provider| self.worker.setup.habits.get(provider));
        habits.into_iter().for_each(|habits| habits.learn(Habits::REASONING_CONTENT));
    }

    /// Counted prompt tokens per estimated one. `None` if the provider did not count them.
    fn prompt_ratio(&self, usage: &Usage) -> Option<f64> {
        let estimated = f64::from(self.request.prompt_tokens);
        let is_counted = !usage.estimated && usage.prompt_tokens > 0 && estimated > 0.0;
        is_counted.then(|| usage.prompt_tokens as f64 / estimated)
    }

    /// Cached prompt tokens: counted by the provider, or else as expected.
    fn cached(&self, usage: &Usage) -> u64 {
        let expected = self.claim.as_ref().map_or(0, |claim| u64::from(claim.cached_tokens));
        if usage.estimated { expected } else { usage.cached_tokens }
    }

    /// Ends the attempt with a failure. `outcome` is the part of the answer that the client has seen.
    pub fn failed(
        mut self,
        error: &UpstreamError,
        generation: GenerationId,
        outcome: Option<&Outcome>,
    ) -> AttemptRecord {
        let now = clock::now();
        if let Some(quota) = error.quota.as_deref().filter(|_| error.failure.evidence != Evidence::Request) {
            self.note_quota(*quota);
        }
        let failure = *error.failure;
        let cause = events::FailureLog { detail: &error.detail, generation };
        let had_content = self.first_token.is_some();
        self.finish(now, EventKind::Failed { failure, had_content }, events::Ending::Because(cause));
        let bill = outcome.map_or_else(|| self.bill_without_answer(self.usage), Self::bill_of);
        let (status, error_type) = (failure.status, Some(failure.kind.as_str()));
        self.record(now, AttemptEnd { status, error_type, cause: error.cause, bill, served: outcome.is_some() })
    }

    /// Ends the attempt because the client left. `outcome` is the part of the answer that the client has seen.
    pub fn cancelled(mut self, outcome: Option<&Outcome>) -> AttemptRecord {
        let now = clock::now();
        self.cancel(now, events::Ending::Ordinary);
        let bill = outcome.map_or_else(|| self.bill_without_answer(self.sunk_usage()), Self::bill_of);
        let error_type = Some(AttemptRecord::CANCELLED);
        self.record(now, AttemptEnd { status: None, error_type, cause: None, bill, served: outcome.is_some() })
    }

    /// What is recorded of the attempt if the process is killed before it ends: given up, and billed as one whose request was
    /// sent, since that is known only when it ends.
    pub fn so_far(&self) -> AttemptRecord {
        let (bill, error_type) = (self.bill_without_answer(Some(self.usage_so_far())), Some(AttemptRecord::CANCELLED));
        self.record(clock::now(), AttemptEnd { status: None, error_type, cause: None, bill, served: false })
    }

    /// Ends the attempt because another one won the race.
    pub fn lost_race(mut self) -> AttemptRecord {
        let now = clock::now();
        self.cancel(now, events::Ending::LostRace);
        let error_type = Some(AttemptRecord::LOST_RACE);
        self.record(
            now,
            AttemptEnd {
                status: None,
                error_type,
                cause: None,
                bill: self.bill_without_answer(self.sunk_usage()),
                served: false,
            },
        )
    }

    fn cancel(&mut self, now: Tick, ending: events::Ending<'_>) {
        let had_content = self.first_token.is_some();
        self.finish(now, EventKind::Cancelled { had_content }, ending);
    }

    /// Usage of an attempt that was given up. `None` if nothing was sent.
    fn sunk_usage(&self) -> Option<Usage> {
        self.phases.sent.then(|| self.usage_so_far())
    }

    /// Usage as reported or produced so far, or else the estimated prompt.
    fn usage_so_far(&self) -> Usage {
        self.usage.unwrap_or_else(|| Usage {
            prompt_tokens: u64::from(self.request.prompt_tokens),
            images: u64::from(self.request.images),
            estimated: true,
            service: self.asked(),
            ..Usage::default()
        })
    }

    /// The service of an attempt that told none.
    fn asked(&self) -> ServedService {
        let pricing = self.catalog_entry().and_then(|endpoint| endpoint.pricing.as_deref());
        self.request.service.served(ServedService::default(), pricing)
    }

    fn bill_of(outcome: &Outcome) -> Bill {
        Bill {
            cost: outcome.cost.as_ref().map(CostBreakdown::total),
            estimated: outcome.usage.estimated,
            reported_cost: outcome.usage.reported_cost,
        }
    }

    fn bill_without_answer(&self, usage: Option<Usage>) -> Bill {
        usage.map_or(Bill::NOTHING, |usage| Bill {
            cost: self.catalog_entry().and_then(|endpoint| Some(endpoint.cost(&usage)?.total())),
            estimated: usage.estimated,
            reported_cost: usage.reported_cost,
        })
    }

    fn catalog_entry(&self) -> Option<&Endpoint> {
        self.routed.catalog.endpoint(self.endpoint)
    }

    /// Releases the claim at once, so that the next decision on any worker sees it. The statistics are updated later.
    fn finish(&mut self, now: Tick, end: EventKind, ending: events::Ending<'_>) {
        let Some(claim) = self.claim.take() else { return };
        let FinishedClaim { event, change } =
            self.worker.setup.published.live.finish(claim, now, end, &self.routed.policy);
        // The end of the attempt is logged before the breaker change that it causes.
        events::AttemptEnded { catalog: &self.routed.catalog, endpoint: self.endpoint, end: &end, ending }
            .emit(&self.worker.shared.process.metrics);
        self.publish(change, now);
        self.post_event(event);
    }

    /// Tells what has changed of the gates, and those who wait that something may have.
    fn publish(&self, change: Option<BreakerChange>, now: Tick) {
        let catalog = &self.routed.catalog;
        if let Some(change) = change {
            events::BreakerMoved { catalog, change }.emit(&self.worker.shared.process.metrics);
            self.worker.shared.records.breaker_history.record(catalog, &change, now);
        }
        if let Some(provider) = self.catalog_entry().and_then(|endpoint| catalog.provider_of(endpoint)) {
            self.worker.shared.access.waiting.gate_may_have_moved(&provider.slug);
        }
    }

    fn post_event(&self, event: EndpointEvent) {
        self.worker.schedule_flush(self.worker.events.event(event));
    }

    /// The record of the attempt. The builder of the record makes `started_ms` relative to the time when the request was accepted.
    fn record(&self, now: Tick, end: AttemptEnd) -> AttemptRecord {
        let EndpointNames { model, provider, slug } = self.names();
        AttemptRecord {
            n: self.start.n,
            reason: self.start.reason,
            endpoint: self.endpoint,
            model,
            provider_name: provider,
            provider_slug: slug,
            status: end.status,
            error_type: end.error_type.map(Into::into),
            cause: end.cause.map(Into::into),
            started_ms: self.started.0 / 1000,
            queue_ms: millis(self.start.queue),
            connect_ms: self.phases.connect.map(millis),
            tls_ms: self.phases.tls.map(millis),
            first_byte_ms: self.phases.first_byte.map(millis),
            first_token_ms: self.first_token.map(|first| millis(first - self.started)),
            stream_ms: self.first_token.map(|first| millis(now - first)),
            duration_ms: millis(now - self.started),
            cost: end.bill.cost,
            estimated: end.bill.estimated,
            reported_cost: end.bill.reported_cost,
            served: end.served,
        }
    }

    /// Names of the endpoint. Empty if the catalog does not know it.
    pub fn names(&self) -> EndpointNames {
        let catalog = &self.routed.catalog;
        let endpoint = self.catalog_entry();
        let provider = endpoint.and_then(|endpoint| catalog.provider_of(endpoint));
        let model = endpoint.and_then(|endpoint| catalog.model_of(endpoint));
        EndpointNames {
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
