//! The record of a generation while its request runs, with its running attempts.
//!
//! The record reaches the ledger however the request ends. A builder that is dropped before posts it: as cancelled
//! when the client left, as failed when a handler panicked or the gateway stops.

mod answer_headers;

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderName},
};
use pointsman_actors::router::Routed;
use pointsman_base::clock;
use pointsman_dialect::Outcome;
use pointsman_domain::{
    ApiType, AttemptReason, AttemptRecord, Decision, Dialect, Generation, GenerationStatus, ServedTime, SessionOpening,
    Tick, TraceParent, Waited,
};
use pointsman_ledger::{journal::Started, write_batch::Saving};
use pointsman_routing::explain::diff::Asked;
use pointsman_transport::UpstreamError;

use self::answer_headers::AttemptPhases;
use crate::{
    access::{admission::Admitted, rate_limits::RateState},
    base::{
        events::{self, HedgeEnd},
        log_output,
        request_id::RequestId,
    },
    proxy::{
        body::header_text,
        dispatch::{
            attempt::{Attempt, EndpointNames, millis},
            cost::RequestBudget,
            durable::Durable,
        },
        shadowing::{self, Chosen},
        splitting::{self, Asker},
    },
    state::{
        gateway::Worker,
        request_history::RequestIntent,
        running::{AttemptInProgress, MOST_ATTEMPTS, RunningRequest},
    },
};

static HTTP_REFERER: HeaderName = HeaderName::from_static("http-referer");
static TITLE: HeaderName = HeaderName::from_static("x-title");
static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Parts of a record that come from the request.
pub struct GenerationOpening {
    /// Chat or image.
    pub api_type: ApiType,
    /// Wire format of the request.
    pub client_dialect: Dialect,
    /// Account of the key.
    pub owner: u64,
    /// Number of the key.
    pub key: u64,
    /// The first requested name.
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

/// Parameters that an endpoint did not get as they were.
#[derive(Debug, Clone, Default)]
pub struct UnsupportedParameters {
    /// Left out.
    pub dropped: Vec<Arc<str>>,
    /// Produced by other means.
    pub emulated: Vec<Arc<str>>,
}

impl UnsupportedParameters {
    fn write_to(self, record: &mut Generation) {
        record.dropped_parameters = self.dropped;
        record.emulated_parameters = self.emulated;
    }
}

impl GenerationOpening {
    /// By what the request falls to a part of a divided alias.
    pub fn asker<'a>(&'a self, opening: Option<SessionOpening>, worker: &'a Worker) -> Asker<'a> {
        Asker {
            session: self.session_id.as_deref(),
            opening,
            user: self.external_user.as_deref(),
            tags: &self.tags,
            canaries: &worker.shared.records.canaries,
            is_served: true,
        }
    }

    /// The record of a call that was routed. Its time is that of its id: the ledger finds it by it.
    #[must_use]
    pub fn record(self, request: &HttpRequest, routed: &Routed, call: &RunningRequest) -> Generation {
        Generation {
            owner: self.owner,
            key: self.key,
            api_type: self.api_type,
            request_id: RequestId::of(request).shared(),
            requested_model: self.requested_model,
            streamed: self.streamed,
            client_dialect: self.client_dialect,
            external_user: self.external_user,
            session_id: self.session_id,
            tags: self.tags,
            trace: self.trace,
            user_agent: header_text(request, &header::USER_AGENT),
            http_referer: header_text(request, &header::REFERER).or_else(|| header_text(request, &HTTP_REFERER)),
            origin: header_text(request, &TITLE),
            media_prompt: self.media_prompt,
            trace_parent: trace_parent(request),
            ..Generation::admitted(
                call.id(),
                call.created_ms(),
                Arc::clone(&routed.decision),
                Arc::clone(&routed.policy),
                Arc::clone(&routed.catalog),
            )
        }
    }
}

/// The client's span; `None` if it sent none, or not exactly one that is valid.
fn trace_parent(request: &HttpRequest) -> Option<TraceParent> {
    let mut sent = request.headers().get_all(&TRACE_PARENT);
    let only = sent.next().filter(|_| sent.next().is_none())?;
    TraceParent::parse(only.to_str().ok()?)
}

/// A record and the attempts that still run for it.
pub struct RecordBuilder {
    worker: Worker,
    accepted: Tick,
    /// Duration of the routing.
    routing: Duration,
    /// Time spent waiting for providers, failed attempts included.
    upstream_time: Duration,
    /// Start of the current wait for a provider.
    waiting_since: Option<Tick>,
    running: [Option<AttemptBuilder>; MOST_ATTEMPTS],
    /// Phases of the attempt that serves, or of the last that ended.
    latest: Option<AttemptPhases>,
    /// Shared with the ledger once it was posted; later changes are made to a copy.
    record: Arc<Generation>,
    posted: bool,
    /// Its place among the calls in progress; `None` once the record is posted.
    call: Option<RunningRequest>,
    admitted: Option<Admitted>,
    budget: RequestBudget,
    intent: Option<RequestIntent>,
    /// Paths of request members that had no effect.
    ignored: Vec<String>,
    rate: Option<RateState>,
    token_rate: Option<RateState>,
    /// The recorded beginning of a call that takes long.
    started: Option<Started>,
    durable: Durable,
    /// Tokens of an answer that was set aside.
    tokens_aside: u64,
    /// What shadow policies have chosen, if one was asked.
    shadows: Option<Chosen>,
}

/// A broken answer, as the record showed it when it was there.
pub struct SetAside {
    n: u32,
    record: Arc<Generation>,
    phases: Option<AttemptPhases>,
}

struct AttemptBuilder {
    attempt: Box<Attempt>,
    /// Request parameters that were not sent to the endpoint.
    unsupported: UnsupportedParameters,
}

impl RecordBuilder {
    /// The builder of `record`, for a call that was routed just now. Boxed: it is moved through several
    /// futures, and each would hold room for it.
    pub fn new(
        worker: &Worker,
        call: RunningRequest,
        admitted: Admitted,
        budget: RequestBudget,
        mut record: Generation,
    ) -> Box<RecordBuilder> {
        record.team = budget.team();
        call.routed(&record);
        Box::new(RecordBuilder {
            worker: worker.clone(),
            accepted: call.accepted(),
            routing: clock::now() - record.decision.tick,
            upstream_time: Duration::ZERO,
            waiting_since: None,
            running: [None, None],
            latest: None,
            record: Arc::new(record),
            posted: false,
            call: Some(call),
            rate: admitted.rate,
            token_rate: admitted.token_rate,
            budget,
            admitted: Some(admitted),
            intent: None,
            ignored: Vec::new(),
            started: None,
            durable: Durable::default(),
            tokens_aside: 0,
            shadows: None,
        })
    }

    /// Sets the preferences that are updated when the request ends.
    #[must_use]
    pub fn with_intent(mut self: Box<Self>, intent: RequestIntent) -> Box<RecordBuilder> {
        self.intent = Some(intent);
        self
    }

    /// Sets the paths of request members that had no effect.
    #[must_use]
    pub fn with_ignored(mut self: Box<Self>, paths: Vec<String>) -> Box<RecordBuilder> {
        self.ignored = paths;
        self
    }

    /// When the record is safe on disk. Before it is posted nothing is waited for.
    pub fn durable(&self) -> Durable {
        self.durable.clone()
    }

    /// The record so far.
    pub fn record(&self) -> &Generation {
        &self.record
    }

    /// The request has waited for an endpoint to take requests again, all its waits together so long, and this is the decision
    /// since. The record keeps the decision that the first attempt followed.
    pub fn waited(&mut self, waited: Waited, decision: &Arc<Decision>) {
        let before = self.record.waited.map_or(0, |before| before.ms);
        self.upstream_time += Duration::from_millis(waited.ms.saturating_sub(before));
        let has_begun = !self.record.attempts.is_empty();
        let record = self.record_mut();
        record.waited = Some(waited);
        if !has_begun {
            record.decision = Arc::clone(decision);
        }
    }

    /// Has shadow policies decide what the request was decided on, once its first attempt is on its way.
    pub fn ask_shadows(&mut self, asked: Arc<Asked>) {
        self.shadows = Some(shadowing::decide_later(&self.worker, asked, &self.record));
    }

    /// Adds a started attempt. The record names its endpoint, unless it races another attempt.
    pub fn begin(&mut self, attempt: Box<Attempt>, unsupported: UnsupportedParameters) {
        self.waiting_since.get_or_insert(attempt.started);
        if let Some(call) = &self.call {
            call.attempt_started(AttemptInProgress { n: attempt.start.n, endpoint: attempt.endpoint });
        }
        if attempt.start.reason == AttemptReason::Hedge {
            self.hedge(HedgeEnd::Started);
        } else {
            self.set_endpoint(&attempt.names());
            unsupported.clone().write_to(self.record_mut());
        }
        let free = self.running.iter_mut().find(|slot| slot.is_none());
        debug_assert!(free.is_some(), "at most two attempts run at once");
        if let Some(slot) = free {
            *slot = Some(AttemptBuilder { attempt, unsupported });
        }
    }

    /// The running attempt with number `n`.
    pub fn attempt(&mut self, n: u32) -> Option<&mut Attempt> {
        self.running.iter_mut().flatten().map(|running| &mut *running.attempt).find(|attempt| attempt.start.n == n)
    }

    /// Attempt `n` has given its first output.
    pub fn first_token(&mut self, n: u32, now: Tick) {
        if let Some(attempt) = self.attempt(n) {
            attempt.first_token(now);
        }
        if let Some(call) = &self.call {
            call.first_token(now);
        }
    }

    /// The tokens of the answer so far.
    pub fn produced(&self, tokens: u64) {
        if let Some(call) = &self.call {
            call.set_output_tokens(tokens);
        }
    }

    /// Attempt `n` has the answer, or its first content, and serves the request. Ends the attempt that raced it.
    pub fn won(&mut self, n: u32) {
        let now = clock::now();
        let rival = self.running.iter().flatten().map(|running| running.attempt.start.n).find(|other| *other != n);
        if let Some(lost) = rival.and_then(|rival| self.take(rival)) {
            let hedge_won = lost.attempt.start.reason != AttemptReason::Hedge;
            self.hedge(if hedge_won { HedgeEnd::Won } else { HedgeEnd::Lost });
            self.push_attempt(lost.attempt.lost_race());
        }
        self.end_wait(now);
        let Some(winner) = self.running.iter_mut().flatten().find(|running| running.attempt.start.n == n) else {
            return;
        };
        self.latest = Some(AttemptPhases::new(&winner.attempt));
        let latency = millis(winner.attempt.first_token.unwrap_or(now) - self.accepted);
        let (names, unsupported) = (winner.attempt.names(), std::mem::take(&mut winner.unsupported));
        self.set_endpoint(&names);
        let record = self.record_mut();
        record.latency_ms = Some(latency);
        unsupported.write_to(record);
    }

    /// Ends attempt `n`, which failed before the client saw anything of it. The record forgets its endpoint and times.
    pub fn failed(&mut self, n: u32, error: &UpstreamError) {
        let Some(failed) = self.take(n) else { return };
        let (was_hedge, raced) = (failed.attempt.start.reason == AttemptReason::Hedge, self.has_running());
        self.latest = Some(AttemptPhases::new(&failed.attempt));
        if let Some(call) = &self.call {
            call.attempt_failed(failed.attempt.first_token.is_some());
        }
        let record = failed.attempt.failed(error, self.record.id, None);
        self.push_attempt(record);
        if was_hedge {
            self.hedge(HedgeEnd::Failed);
        }
        if !raced {
            self.end_wait(clock::now());
            self.clear_endpoint();
        } else if let Some(left) = self.running.iter().flatten().next() {
            let (names, unsupported) = (left.attempt.names(), left.unsupported.clone());
            self.set_endpoint(&names);
            unsupported.write_to(self.record_mut());
        }
    }

    /// Ends the running attempts, because the request has failed.
    fn end_running(&mut self) {
        while let Some(running) = self.running.iter_mut().find_map(Option::take) {
            if running.attempt.start.reason == AttemptReason::Hedge {
                self.hedge(HedgeEnd::Lost);
            }
            self.push_attempt(running.attempt.lost_race());
        }
        self.end_wait(clock::now());
    }

    /// Posts the record of a call that still runs, so that clients can read it. The journal holds what is to stay of it if the
    /// process is killed: its attempts as given up, with what they cost by estimate.
    pub fn publish_running(&mut self) {
        let left = || {
            let mut left = Generation::clone(&self.record);
            let running = self.running.iter().flatten();
            left.attempts.extend(running.map(|running| self.since_accepted(running.attempt.so_far())));
            left.attempts.sort_by_key(|attempt| attempt.n);
            left
        };
        self.started = self.worker.record_running(&self.record, left);
    }

    /// Posts the record of a running stream again: meanwhile an endpoint gave output.
    pub fn update_running(&self) {
        self.worker.update_running(&self.record);
    }

    /// Ends attempt `n`, whose answer is complete and broken: another one is asked for. What the record says of it is kept in case that
    /// the client gets it after all.
    pub fn set_aside(&mut self, n: u32, outcome: &Outcome, cause: String) -> SetAside {
        let before = SetAside { n, record: Arc::clone(&self.record), phases: self.latest };
        self.tokens_aside = outcome.usage.total_tokens();
        if let Some(running) = self.take(n) {
            let attempt = running.attempt.completed(outcome, clock::now());
            self.push_attempt(AttemptRecord { served: false, cause: Some(cause.into()), ..attempt });
        }
        before
    }

    /// The client gets the answer that was set aside. [`RecordBuilder::complete`] follows.
    pub fn take_back(&mut self, SetAside { n, record, phases }: SetAside) {
        let mut attempts = std::mem::take(&mut self.record_mut().attempts);
        let answered = attempts.iter_mut().find(|attempt| attempt.n == n);
        let duration = answered.map(|attempt| {
            attempt.served = true;
            attempt.duration_ms
        });
        let before = Generation { attempts, generation_time_ms: duration, ..Generation::clone(&record) };
        (self.record, self.latest, self.tokens_aside) = (Arc::new(before), phases, 0);
    }

    /// Ends attempt `n`, for whose answer the gateway has no room.
    pub fn drop_answer(&mut self, n: u32) {
        if let Some(running) = self.take(n) {
            self.push_attempt(running.attempt.cancelled(None));
        }
    }

    /// Posts the record: attempt `n` gave the complete answer.
    pub fn complete(&mut self, n: u32, outcome: Outcome) {
        let now = clock::now();
        if let Some(running) = self.take(n) {
            self.push_attempt(running.attempt.completed(&outcome, now));
        }
        self.set_outcome(outcome);
        self.post(GenerationStatus::Completed, now);
    }

    /// Posts the record: attempt `n` failed after the client had seen `outcome`.
    pub fn broke(&mut self, n: u32, error: &UpstreamError, outcome: Outcome) {
        if let Some(running) = self.take(n) {
            self.push_attempt(running.attempt.failed(error, self.record.id, Some(&outcome)));
        }
        self.set_outcome(outcome);
        self.post(GenerationStatus::Truncated, clock::now());
    }

    /// Posts the record: the request failed without an answer.
    pub fn fail(&mut self) {
        self.end_running();
        self.clear_endpoint();
        self.post(GenerationStatus::Failed, clock::now());
    }

    /// Posts the record: the client left after it had seen `outcome` of attempt `n`.
    pub fn cancel(&mut self, n: u32, outcome: Outcome) {
        self.cancel_attempt(n, outcome);
        self.record_mut().finish = None;
        self.post(GenerationStatus::Cancelled, clock::now());
    }

    /// Posts the record: the gateway stopped after the client had seen `outcome` of attempt `n`. The attempt counts as
    /// cancelled, not as a failure of the provider.
    pub fn stop(&mut self, n: u32, outcome: Outcome) {
        self.cancel_attempt(n, outcome);
        self.post(GenerationStatus::Failed, clock::now());
    }

    fn cancel_attempt(&mut self, n: u32, outcome: Outcome) {
        if let Some(running) = self.take(n) {
            self.push_attempt(running.attempt.cancelled(Some(&outcome)));
        }
        self.set_outcome(outcome);
    }

    /// Posts the record: the gateway has no room for the answer of attempt `n`. The attempt counts as cancelled, not as a
    /// failure of the provider.
    pub fn fail_without_room(&mut self, n: u32) {
        self.drop_answer(n);
        self.clear_endpoint();
        self.post(GenerationStatus::Failed, clock::now());
    }

    fn take(&mut self, n: u32) -> Option<AttemptBuilder> {
        if let Some(call) = &self.call {
            call.attempt_ended(n);
        }
        self.running.iter_mut().find(|slot| slot.as_ref().is_some_and(|running| running.attempt.start.n == n))?.take()
    }

    fn has_running(&self) -> bool {
        self.running.iter().any(Option::is_some)
    }

    /// Adds an attempt to the record, which lists attempts in the order of their start.
    fn push_attempt(&mut self, attempt: AttemptRecord) {
        self.budget.ended(attempt.n, attempt.cost.unwrap_or_default());
        let attempt = self.since_accepted(attempt);
        let record = self.record_mut();
        if attempt.served {
            record.generation_time_ms = Some(attempt.duration_ms);
        }
        let position = record.attempts.partition_point(|earlier| earlier.n < attempt.n);
        // Most requests have one, and the record is kept.
        record.attempts.reserve_exact(1);
        record.attempts.insert(position, attempt);
    }

    /// The attempt with its beginning relative to the time when the request was accepted.
    fn since_accepted(&self, attempt: AttemptRecord) -> AttemptRecord {
        AttemptRecord { started_ms: attempt.started_ms.saturating_sub(self.accepted.0 / 1000), ..attempt }
    }

    /// Ends the wait for a provider. Time after `until` counts as the gateway's own.
    fn end_wait(&mut self, until: Tick) {
        if let Some(since) = self.waiting_since.take() {
            self.upstream_time += until - since;
        }
    }

    fn record_mut(&mut self) -> &mut Generation {
        Arc::make_mut(&mut self.record)
    }

    fn set_endpoint(&mut self, names: &EndpointNames) {
        let record = self.record_mut();
        record.model = Some(Arc::clone(&names.model));
        record.provider_name = Some(Arc::clone(&names.provider));
        record.provider_slug = Some(Arc::clone(&names.slug));
    }

    fn clear_endpoint(&mut self) {
        let record = self.record_mut();
        record.model = None;
        record.provider_name = None;
        record.provider_slug = None;
        record.latency_ms = None;
        record.generation_time_ms = None;
        UnsupportedParameters::default().write_to(record);
    }

    fn set_outcome(&mut self, outcome: Outcome) {
        let record = self.record_mut();
        record.usage = outcome.usage;
        record.cost = outcome.cost;
        record.finish = outcome.finish;
        record.native_finish_reason = outcome.native_finish;
        record.upstream_id = outcome.upstream_id;
        record.media_completion = outcome.images;
    }

    fn post(&mut self, status: GenerationStatus, now: Tick) {
        if std::mem::replace(&mut self.posted, true) {
            return;
        }
        self.call = None;
        self.record_mut().status = status;
        if let Some(shadows) = self.shadows.take() {
            self.record_mut().shadows = shadows.take();
        }
        self.budget.settle(self.record.known_spending(), self.record.created_ms);
        if let Some(mut admitted) = self.admitted.take() {
            admitted.correct_tokens(self.record.usage.total_tokens().saturating_add(self.tokens_aside));
        }
        let took = now - self.accepted;
        if let Some(intent) = &self.intent {
            intent.ended(&self.worker.shared.records.history, &self.record, took, now);
        }
        self.durable.set(post_ended(&self.worker, &mut self.record, took, self.started.take()));
    }

    fn hedge(&self, end: HedgeEnd) {
        end.emit(&self.worker.shared.process.metrics);
    }

    /// Ends the running attempts as cancelled: the client left and has seen nothing of them.
    fn abandon(&mut self) {
        let raced = self.running.iter().all(Option::is_some);
        while let Some(running) = self.running.iter_mut().find_map(Option::take) {
            if raced && running.attempt.start.reason == AttemptReason::Hedge {
                self.hedge(HedgeEnd::Cancelled);
            }
            let (first, duration) = (running.attempt.first_token, clock::now() - running.attempt.started);
            let latency = first.map(|first| millis(first - self.accepted));
            let record = self.record_mut();
            record.latency_ms = latency.or(record.latency_ms);
            record.generation_time_ms = Some(millis(duration));
            self.push_attempt(running.attempt.cancelled(None));
        }
        self.record_mut().finish = None;
    }
}

/// Counts and logs a generation that ended, `took` after its request was accepted, and records it. Gives what becomes ready
/// when the record is as safe as `ledger.durability` asks.
pub(super) fn post_ended(
    worker: &Worker,
    record: &mut Arc<Generation>,
    took: Duration,
    started: Option<Started>,
) -> Option<Saving> {
    let key_name = log_output::logs_requests().then(|| worker.setup.keys.name_of(record.owner, record.key)).flatten();
    if let Some(traces) = &worker.shared.records.traces {
        let ended = Arc::make_mut(record);
        // The sampler compares it with `traces.slow`.
        ended.served = Some(ServedTime::ending_at(clock::unix_micros(), took));
        if !traces.sampler().keeps(ended) {
            ended.served = None;
        }
    }
    events::GenerationEnded { generation: record, took, key_name }.emit(&worker.shared.process.metrics);
    splitting::count_ended(worker, record);
    worker.shared.records.shadows.ended(record);
    worker.record_ended(record, started)
}

impl Drop for RecordBuilder {
    fn drop(&mut self) {
        if !self.posted {
            self.abandon();
            // `Cancelled` means that the client left.
            let is_own_fault = std::thread::panicking() || self.worker.shared.process.drain.is_over();
            let status = if is_own_fault { GenerationStatus::Failed } else { GenerationStatus::Cancelled };
            self.post(status, clock::now());
        }
    }
}
