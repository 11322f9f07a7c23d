//! Runs attempts until one has a result: one after the other, or two at once when the first is late.
//!
//! A race has at most two attempts and is run at most once per request. The first attempt with a result wins; the connection
//! of the other is closed at once. When one of the two fails, the other runs on. Everything is one future: dropping it, as
//! happens when the client leaves, drops both attempts.

use std::{
    cell::RefCell,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt as _,
    future::{Either, LocalBoxFuture, select},
};
use pointsman_actors::router::Routed;
use pointsman_base::clock;
use pointsman_dialect::{AnswerContext, Doubt, OutgoingBody, RememberedSignatures, SignatureSources};
use pointsman_domain::{Dialect, Endpoint, Generation, Model, Provider, ServedService, ServiceName};
use pointsman_transport::{UpstreamClient, UpstreamError, UpstreamRequest};

use crate::{
    base::error::ApiError,
    proxy::dispatch::{
        RequestedWork,
        attempt::Attempt,
        plan_run::{AfterFailure, PlanRun},
        record_builder::{RecordBuilder, UnsupportedParameters},
    },
    state::{
        gateway::Worker,
        traces::{self, Traces},
    },
};

/// Calls one endpoint, for a plain or a streamed answer.
pub(super) trait AttemptRunner {
    /// Result that wins a race.
    type Output;

    /// Sends `outgoing` to `target` and waits for a result.
    async fn run(
        &self,
        target: &Target<'_>,
        outgoing: OutgoingBody,
        attempt: AttemptHandle<'_>,
    ) -> Result<Self::Output, UpstreamError>;
}

/// A running attempt, as its [`AttemptRunner`] sees it.
#[derive(Clone, Copy)]
pub(super) struct AttemptHandle<'a> {
    /// Holds the attempt. Never borrowed across an await.
    pub record_builder: &'a RefCell<Box<RecordBuilder>>,
    /// Number of the attempt.
    pub n: u32,
    /// End of the time for a plain answer.
    pub deadline: Instant,
    /// Timeout for the first byte of a stream.
    pub first_byte: Duration,
}

impl AttemptHandle<'_> {
    /// Updates the attempt, if it still runs.
    pub(super) fn update(&self, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.record_builder.borrow_mut().attempt(self.n) {
            change(attempt);
        }
    }
}

/// An endpoint about to be called.
pub(super) struct Target<'a> {
    /// The provider's client on this worker.
    pub client: &'a UpstreamClient,
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    model: &'a Model,
    provider: &'a Provider,
    /// Who chose it.
    pub routed: &'a Routed,
    traces: Option<&'a Arc<Traces>>,
}

impl<'a> Target<'a> {
    /// The endpoint at position `endpoint` of the catalog. `None` only if catalog and clients disagree, which start-up rules
    /// out.
    fn new(worker: &'a Worker, routed: &'a Routed, endpoint: u32) -> Option<Target<'a>> {
        let endpoint = routed.catalog.endpoint(endpoint)?;
        Some(Target {
            client: worker.clients.get(endpoint.provider as usize)?.as_ref()?,
            endpoint,
            model: routed.catalog.model_of(endpoint)?,
            provider: routed.catalog.provider_of(endpoint)?,
            routed,
            traces: worker.shared.records.traces.as_ref(),
        })
    }

    /// Adds `traceparent` to `call`, if the provider shall have it.
    pub(super) fn with_traceparent(&self, mut call: UpstreamRequest, attempt: AttemptHandle<'_>) -> UpstreamRequest {
        if self.client.forwards_traceparent() {
            let record_builder = attempt.record_builder.borrow();
            let parent = traces::parent_for_provider(self.traces, record_builder.record(), attempt.n);
            call.headers.extend(parent.map(|parent| ("traceparent".into(), parent.to_string())));
        }
        call
    }

    /// A call for a plain answer. Its head may come last, so only the deadline limits the head.
    pub(super) fn plain_call(
        &self,
        work: &RequestedWork,
        outgoing: &OutgoingBody,
        deadline: Instant,
    ) -> UpstreamRequest {
        let head_timeout = deadline.saturating_duration_since(Instant::now());
        self.call(work, outgoing, (deadline, head_timeout), false)
    }

    /// A call for a stream, with a timeout for its first byte.
    pub(super) fn stream_call(
        &self,
        work: &RequestedWork,
        outgoing: &OutgoingBody,
        deadline: Instant,
        first_byte: Duration,
    ) -> UpstreamRequest {
        let head_timeout = first_byte.min(deadline.saturating_duration_since(Instant::now()));
        self.call(work, outgoing, (deadline, head_timeout), true)
    }

    fn call(
        &self,
        work: &RequestedWork,
        outgoing: &OutgoingBody,
        (deadline, head_timeout): (Instant, Duration),
        streamed: bool,
    ) -> UpstreamRequest {
        UpstreamRequest {
            path: self.client.path_for(work.path(self.endpoint, streamed), &self.endpoint.upstream_model),
            model: Arc::clone(&self.endpoint.upstream_model),
            prompt_tokens: work.prompt_tokens(),
            body: outgoing.bytes.clone(),
            headers: outgoing.headers.clone(),
            dialect: self.endpoint.dialect,
            streamed,
            deadline,
            head_timeout,
        }
    }

    /// What the dialect needs to rewrite an answer of this endpoint for the client of `record`. `told`: the service tier that its
    /// head tells.
    pub(super) fn answer_context(
        &self,
        record: &Generation,
        work: &RequestedWork,
        outgoing: &OutgoingBody,
        told: Option<ServiceName>,
    ) -> AnswerContext {
        AnswerContext {
            generation: record.id,
            created: record.created_ms / 1000,
            model: self.model.id.shared(),
            provider_name: Arc::clone(&self.provider.name),
            fingerprint: Arc::clone(&self.routed.policy.fingerprint),
            pricing: self.endpoint.pricing.clone(),
            prompt_tokens: work.prompt_tokens(),
            images: work.images(),
            exclude_reasoning: work.excludes_reasoning(),
            legacy_functions: work.uses_legacy_functions(),
            service: work.service().without(&outgoing.dropped),
            told: ServedService { tier: told, geography: None },
            clock: clock::unix_seconds,
        }
    }
}

/// Runs the attempts of one request.
pub(super) struct Race<'a, A> {
    pub worker: &'a Worker,
    pub work: &'a RequestedWork,
    pub record_builder: &'a RefCell<Box<RecordBuilder>>,
    pub runner: &'a A,
}

/// Outcome of one attempt, or of two that raced.
enum RaceOutcome<T> {
    /// The attempt of this number has a result.
    Won(u32, T),
    /// Every attempt failed; another candidate may be tried.
    Failed,
    /// The request ends with this error.
    Stopped(ApiError),
}

/// A started attempt and its position in the plan.
#[derive(Clone, Copy)]
struct StartedAttempt<'a> {
    handle: AttemptHandle<'a>,
    position: usize,
}

impl<'a, A: AttemptRunner> Race<'a, A> {
    /// Runs attempts until one has a result. Returns its number, under which it still runs, and the result.
    ///
    /// # Errors
    /// The client's error when no attempt has a result. The record is then posted as failed.
    pub(super) async fn run(&self, plan: &mut PlanRun) -> Result<(u32, A::Output), ApiError> {
        loop {
            let attempt = plan.next().await;
            if let Some(waited) = plan.waited() {
                self.record_builder.borrow_mut().waited(waited, &plan.routed.decision);
            }
            let Some(attempt) = attempt else { return Err(self.give_up(plan.give_up())) };
            if let Some(asked) = plan.asked.take() {
                self.record_builder.borrow_mut().ask_shadows(asked);
            }
            // A running attempt borrows the plan while `plan` is asked for its rival.
            let routed = plan.routed.clone();
            match self.round(plan, &routed, attempt).await {
                RaceOutcome::Won(n, output) => {
                    self.record_builder.borrow_mut().won(n);
                    return Ok((n, output));
                }
                RaceOutcome::Failed => {}
                RaceOutcome::Stopped(error) => return Err(self.give_up(error)),
            }
        }
    }

    /// Runs one attempt that nothing races. `None` if it failed.
    pub(super) async fn once(&self, plan: &PlanRun, attempt: Box<Attempt>) -> Option<(u32, A::Output)> {
        let routed = plan.routed.clone();
        let (started, running) = self.start(plan, &routed, attempt)?;
        let (n, result) = (started.handle.n, running.await);
        let mut record_builder = self.record_builder.borrow_mut();
        match result {
            Ok(output) => {
                plan.answered(started.position);
                record_builder.won(n);
                Some((n, output))
            }
            Err(error) => {
                record_builder.failed(n, &error);
                None
            }
        }
    }

    /// Runs one attempt, and a second that races it if it is late. On return the connection of a loser is closed.
    async fn round(&self, plan: &mut PlanRun, routed: &Routed, attempt: Box<Attempt>) -> RaceOutcome<A::Output> {
        let position = attempt.start.position;
        let race_times = plan.race_times(position);
        let Some((first, running)) = self.start(plan, routed, attempt) else {
            return RaceOutcome::Stopped(ApiError::internal());
        };
        let mut running = pin!(running);
        for (late, lateness) in race_times.into_iter().flatten() {
            if let Ok(result) = tokio::time::timeout_at(late.into(), running.as_mut()).await {
                return self.alone(plan, first, result);
            }
            let at_work =
                self.record_builder.borrow_mut().attempt(first.handle.n).is_none_or(|attempt| attempt.at_work);
            let hedge = if at_work { None } else { plan.hedge(position, lateness) };
            if let Some((second, rival)) = hedge.and_then(|hedge| self.start(plan, routed, hedge)) {
                // Boxed, because few requests are raced: the future of every other has room for one attempt.
                return self.raced(plan, (first, running), (second, rival.boxed_local())).boxed_local().await;
            }
        }
        self.alone(plan, first, running.await)
    }

    async fn raced(
        &self,
        plan: &mut PlanRun,
        (first, one): (StartedAttempt<'a>, impl Future<Output = Result<A::Output, UpstreamError>> + Unpin),
        (second, other): (StartedAttempt<'a>, LocalBoxFuture<'_, Result<A::Output, UpstreamError>>),
    ) -> RaceOutcome<A::Output> {
        match select(one, other).await {
            Either::Left((Ok(output), _)) => won(plan, first, output),
            Either::Right((Ok(output), _)) => won(plan, second, output),
            Either::Left((Err(error), other)) => match self.failed(plan, first, &error, true) {
                AfterFailure::Stop(error) => RaceOutcome::Stopped(error),
                AfterFailure::Continue => self.alone(plan, second, other.await),
            },
            Either::Right((Err(error), one)) => match self.failed(plan, second, &error, true) {
                AfterFailure::Stop(error) => RaceOutcome::Stopped(error),
                AfterFailure::Continue => self.alone(plan, first, one.await),
            },
        }
    }

    /// Outcome of an attempt without a running rival.
    fn alone(
        &self,
        plan: &mut PlanRun,
        started: StartedAttempt<'a>,
        result: Result<A::Output, UpstreamError>,
    ) -> RaceOutcome<A::Output> {
        match result {
            Ok(output) => won(plan, started, output),
            Err(error) => match self.failed(plan, started, &error, false) {
                AfterFailure::Stop(error) => RaceOutcome::Stopped(error),
                AfterFailure::Continue => RaceOutcome::Failed,
            },
        }
    }

    fn failed(
        &self,
        plan: &mut PlanRun,
        started: StartedAttempt<'a>,
        error: &UpstreamError,
        raced: bool,
    ) -> AfterFailure {
        self.record_builder.borrow_mut().failed(started.handle.n, error);
        plan.failed(started.position, error, raced)
    }

    /// Starts an attempt. `None` as in [`Target::new`], or if the request cannot be translated.
    fn start<'r>(
        &self,
        plan: &PlanRun,
        routed: &'r Routed,
        attempt: Box<Attempt>,
    ) -> Option<(StartedAttempt<'a>, impl Future<Output = Result<A::Output, UpstreamError>> + use<'a, 'r, A>)>
    where
        'a: 'r,
    {
        let (n, position, endpoint) = (attempt.start.n, attempt.start.position, attempt.endpoint);
        let target = Target::new(self.worker, routed, endpoint)?;
        let cap = plan.budget.output_cap(n, target.endpoint);
        let memory = &self.worker.shared.process.call_signatures;
        let signs = target.endpoint.dialect == Dialect::Gemini;
        let memory = signs.then(|| RememberedSignatures::at(memory, clock::now()));
        let signatures = SignatureSources { which: plan.signatures(position), memory: memory.as_ref() };
        let endpoint = plan.habits(position, target.endpoint.provider).applied(target.endpoint);
        let mut outgoing = self.work.upstream_body(&routed.catalog, &endpoint, cap, signatures)?;
        let unsupported = UnsupportedParameters {
            dropped: std::mem::take(&mut outgoing.dropped),
            emulated: std::mem::take(&mut outgoing.emulated),
        };
        self.record_builder.borrow_mut().begin(attempt, unsupported);
        let (deadline, first_byte) = (plan.plain_deadline(), plan.first_byte_timeout(position));
        let handle = AttemptHandle { record_builder: self.record_builder, n, deadline, first_byte };
        let runner = self.runner;
        let running = async move { runner.run(&target, outgoing, handle).await };
        Some((StartedAttempt { handle, position }, running))
    }

    fn give_up(&self, error: ApiError) -> ApiError {
        let mut record_builder = self.record_builder.borrow_mut();
        record_builder.fail();
        record_builder.annotate(error)
    }
}

fn won<T>(plan: &PlanRun, started: StartedAttempt<'_>, output: T) -> RaceOutcome<T> {
    plan.answered(started.position);
    RaceOutcome::Won(started.handle.n, output)
}

/// A failure after the head of an answer: its status was 200, whatever followed.
pub(super) fn after_head(mut error: UpstreamError) -> UpstreamError {
    error.failure.status.get_or_insert(200);
    error
}

/// The same for an answer to a request that may have caused it.
pub(super) fn after_request(error: UpstreamError, doubt: Doubt) -> UpstreamError {
    doubted(after_head(error), doubt)
}

/// A failure of a request that may have caused it, whether there was an answer or not.
pub(super) fn doubted(mut error: UpstreamError, doubt: Doubt) -> UpstreamError {
    error.failure.evidence = doubt.weigh(error.failure.kind, error.failure.evidence);
    error
}
