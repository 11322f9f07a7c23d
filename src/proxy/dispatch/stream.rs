//! Streamed answers. The response head is sent at the first content or the first keep-alive, whichever is earlier. Until the
//! first content another endpoint may take over; after it, none does.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{HttpResponse, http::header};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream};
use pointsman_actors::{
    cost_ceiling::CostCeiling,
    relay::{
        Aborted, Relay, RelayBody, RelayInput, RelayInputStream, RelayLimits, RelayObserver, StreamEnd,
        StreamNotOpened, StreamOpened,
    },
};
use pointsman_base::clock;
use pointsman_dialect::{
    AnswerContext, AnswerFault, ChatStream, Doubt, Outcome, OutgoingBody, StreamError, StreamOptions,
};
use pointsman_domain::{FailureKind, Generation, RequestedService, ServedService};
use pointsman_transport::{UpstreamBody, UpstreamError};

use crate::{
    access::load::KeyBuffer,
    base::error::{ApiError, BrokenStream},
    proxy::dispatch::{
        RequestedWork,
        cost::RequestBudget,
        durable::Durable,
        plan_run::PlanRun,
        race::{AttemptHandle, AttemptRunner, Race, Target, after_request},
        record_builder::RecordBuilder,
    },
    state::gateway::Worker,
};

/// The builder of a record that first the attempts and then the relay update.
type SharedRecordBuilder = Rc<RefCell<Box<RecordBuilder>>>;

/// An upstream stream whose first content was read.
struct OpenStream {
    opened: StreamOpened,
    /// `None` when the body is already complete.
    body: Option<UpstreamBody>,
}

/// Answers with a stream. Bytes that wait for the client count in `share`.
///
/// # Errors
/// The client's error when every endpoint failed before the first keep-alive was due.
pub async fn answer(
    worker: &Worker,
    work: RequestedWork,
    plan: PlanRun,
    record_builder: Box<RecordBuilder>,
    options: StreamOptions,
    share: &Arc<KeyBuffer>,
) -> Result<HttpResponse, ApiError> {
    let stream = &worker.setup.config.stream;
    let limits = RelayLimits {
        buffer_bytes: stream.buffer_bytes,
        keep_alive: stream.keepalive,
        idle: stream.idle_timeout,
        write_stall: worker.setup.config.timeouts.client_write_stall,
        deadline: plan.deadline,
    };
    let durable = record_builder.durable();
    let record_builder = Rc::new(RefCell::new(record_builder));
    let client = work.client().cloned();
    let mut opening = open(worker.clone(), work, plan, Rc::clone(&record_builder), options).boxed_local();
    let input = match actix_rt::time::timeout(limits.keep_alive, &mut opening).await {
        Ok(Ok(open)) => relay_input(open),
        Ok(Err(error)) => {
            durable.wait().await;
            return Err(error);
        }
        Err(_) => {
            let chat = ChatStream::between(
                None,
                client.as_ref(),
                unanswered_context(record_builder.borrow().record()),
                options,
            );
            late_relay_input(
                unless_stopped(opening, worker.shared.process.drain.over()),
                chat,
                Rc::clone(&record_builder),
            )
        }
    };
    let mut head = head(&record_builder.borrow());
    record_builder.borrow_mut().publish_running();
    let relay = Relay::start(input, limits, share.count(), worker.shared.process.drain.over());
    Ok(head.body(Body { relay, durable }))
}

fn head(record_builder: &RecordBuilder) -> actix_web::HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    record_builder.write_headers(&mut response);
    response.insert_header((header::CONTENT_TYPE, "text/event-stream; charset=utf-8"));
    response.insert_header((header::CACHE_CONTROL, "no-cache, no-store"));
    response.insert_header(("x-accel-buffering", "no"));
    response
}

/// Input of the relay after the first content.
fn relay_input(open: OpenStream) -> RelayInputStream {
    let first = stream::iter([RelayInput::Opened(Box::new(open.opened))]);
    match open.body {
        Some(body) => first.chain(body.map(|read| RelayInput::Read(read.map_err(AnswerFault::from)))).boxed_local(),
        None => first.boxed_local(),
    }
}

/// Input of the relay while attempts still run. The relay drops it when the client leaves, and the attempts with it.
fn late_relay_input(
    opening: LocalBoxFuture<'static, Result<OpenStream, ApiError>>,
    chat: ChatStream,
    record_builder: SharedRecordBuilder,
) -> RelayInputStream {
    let opened = opening.map(move |outcome| match outcome {
        Ok(open) => {
            record_builder.borrow().update_running();
            relay_input(open)
        }
        Err(error) => {
            let unopened = StreamNotOpened { chat, error: stream_error(&error, record_builder.borrow().record()) };
            stream::iter([RelayInput::Failed(Box::new(unopened))]).boxed_local()
        }
    });
    stream::once(opened).flatten().boxed_local()
}

/// Runs `opening` until `drained`: then it is dropped, which ends its attempts and posts its record.
fn unless_stopped(
    opening: LocalBoxFuture<'static, Result<OpenStream, ApiError>>,
    drained: impl Future<Output = ()> + 'static,
) -> LocalBoxFuture<'static, Result<OpenStream, ApiError>> {
    async move {
        tokio::select! {
            biased;
            open = opening => open,
            () = drained => Err(ApiError::draining()),
        }
    }
    .boxed_local()
}

/// Runs the plan until an endpoint gives content.
async fn open(
    worker: Worker,
    work: RequestedWork,
    mut plan: PlanRun,
    record_builder: SharedRecordBuilder,
    options: StreamOptions,
) -> Result<OpenStream, ApiError> {
    let content_timeout = plan.routed.policy.clocks.first_content;
    let budget = plan.budget.clone();
    let runner = StreamRunner { work: &work, options, content_timeout, deadline: plan.deadline, budget: &budget };
    let race = Race { worker: &worker, work: &work, record_builder: &record_builder, runner: &runner };
    let (n, (partial, body, request)) = race.run(&mut plan).await?;
    let PartialStream { chat, held, ceiling } = partial;
    let observer = Box::new(StreamObserver { record_builder, n, request });
    Ok(OpenStream { opened: StreamOpened { chat, held, observer, ceiling }, body })
}

/// Waits for the first content of a stream.
struct StreamRunner<'a> {
    work: &'a RequestedWork,
    options: StreamOptions,
    /// Longest wait for content; hidden reasoning counts as content.
    content_timeout: Duration,
    deadline: Instant,
    budget: &'a RequestBudget,
}

/// A stream up to its first content. Its output is held back, and discarded if the attempt fails.
struct PartialStream {
    chat: ChatStream,
    held: BytesMut,
    ceiling: Option<CostCeiling>,
}

/// What is kept of a request while its answer streams: all of a small one, or what a failure may be about.
enum RequestLeft {
    Small(Bytes),
    Large(Doubt),
}

impl RequestLeft {
    /// Most bytes that a stream keeps; a larger body is read at once.
    const MOST: usize = 16 * 1024;

    fn of(body: &Bytes) -> RequestLeft {
        if body.len() <= RequestLeft::MOST {
            RequestLeft::Small(body.clone())
        } else {
            RequestLeft::Large(Doubt::of_request(body))
        }
    }

    /// A failure within the answer.
    fn failure(&self, error: UpstreamError) -> UpstreamError {
        let doubt = match self {
            RequestLeft::Small(request) => Doubt::of_request(request),
            RequestLeft::Large(doubt) => *doubt,
        };
        after_request(error, doubt)
    }
}

impl AttemptRunner for StreamRunner<'_> {
    /// The body is `None` when it is already complete.
    type Output = (PartialStream, Option<UpstreamBody>, RequestLeft);

    async fn run(
        &self,
        target: &Target<'_>,
        outgoing: OutgoingBody,
        attempt: AttemptHandle<'_>,
    ) -> Result<Self::Output, UpstreamError> {
        let content_deadline = self.content_deadline(self.content_timeout);
        let call = target.stream_call(self.work, &outgoing, self.deadline, attempt.first_byte);
        let call = target.with_traceparent(call, attempt);
        let response =
            target.client.send_observed(call, |phases| attempt.update(|attempt| attempt.phases = phases)).await?;
        attempt.update(|attempt| attempt.quota(response.quota, &outgoing.bytes));
        let context = target.answer_context(
            attempt.record_builder.borrow().record(),
            self.work,
            &outgoing,
            response.service_tier,
        );
        let ceiling = self.budget.ceiling_of(attempt.n).map(|most| CostCeiling::new(most, self.budget.answers()));
        let chat = ChatStream::between(Some(&outgoing), self.work.client(), context, self.options);
        let mut partial = PartialStream { chat, held: BytesMut::new(), ceiling };
        match self.read_to_content(&mut partial, response.body, attempt, content_deadline).await {
            Ok(body) => {
                let mut record_builder = attempt.record_builder.borrow_mut();
                record_builder.produced(partial.chat.produced_tokens());
                record_builder.first_token(attempt.n, clock::now());
                Ok((partial, body, RequestLeft::of(outgoing.bytes.whole())))
            }
            Err(error) => {
                if let Some(usage) = partial.chat.spent() {
                    attempt.update(|attempt| attempt.set_usage(usage));
                }
                Err(after_request(error, Doubt::of_request(&outgoing.bytes)))
            }
        }
    }
}

impl StreamRunner<'_> {
    async fn read_to_content(
        &self,
        PartialStream { chat, held, ceiling }: &mut PartialStream,
        mut body: UpstreamBody,
        attempt: AttemptHandle<'_>,
        mut content_deadline: Instant,
    ) -> Result<Option<UpstreamBody>, UpstreamError> {
        loop {
            let read = tokio::time::timeout_at(content_deadline.into(), body.next()).await;
            let Ok(read) = read else { return Err(UpstreamError::timeout("no content in time")) };
            let Some(bytes) = read.transpose()? else {
                chat.end(held)?;
                return Ok(None);
            };
            let progress = match ceiling {
                Some(ceiling) => ceiling.push(chat, &bytes, held)?,
                None => chat.push(&bytes, held)?,
            };
            if chat.has_content() {
                return Ok(Some(body));
            }
            if progress.content {
                // Hidden reasoning: the model works, so the timeout starts again.
                content_deadline = self.content_deadline(chat.longest_silence(self.content_timeout));
                if let Some(usage) = chat.spent() {
                    attempt.update(|attempt| attempt.set_usage(usage));
                }
            }
        }
    }

    /// Deadline of the next content, after this silence.
    fn content_deadline(&self, silence: Duration) -> Instant {
        (Instant::now() + silence).min(self.deadline)
    }
}

/// Ends the attempt and posts the record when the stream ends.
struct StreamObserver {
    record_builder: SharedRecordBuilder,
    /// The attempt that serves.
    n: u32,
    request: RequestLeft,
}

impl RelayObserver for StreamObserver {
    fn ended(self: Box<Self>, ending: StreamEnd, outcome: Outcome) {
        let mut record_builder = self.record_builder.borrow_mut();
        match ending {
            StreamEnd::Completed => record_builder.complete(self.n, outcome),
            StreamEnd::Failed(fault) => record_builder.broke(self.n, &self.request.failure(fault.into()), outcome),
            StreamEnd::Stopped => record_builder.stop(self.n, outcome),
            StreamEnd::ClientLeft => record_builder.cancel(self.n, outcome),
        }
    }

    fn produced(&self, tokens: u64) {
        self.record_builder.borrow().produced(tokens);
    }

    fn error(&self, fault: &AnswerFault, tokens: u64, silence: Duration) -> StreamError {
        if fault.kind == FailureKind::GatewayLimit {
            return self.stream_error(&ApiError::gateway_limit(&fault.detail, Vec::new()));
        }
        let record_builder = self.record_builder.borrow();
        let provider = record_builder.record().provider_name.as_deref();
        self.stream_error(&ApiError::broken_stream(&BrokenStream { kind: fault.kind, provider, silence, tokens }))
    }

    fn stopped(&self) -> StreamError {
        StreamError { provider_name: None, ..self.stream_error(&ApiError::draining()) }
    }
}

impl StreamObserver {
    fn stream_error(&self, error: &ApiError) -> StreamError {
        let record_builder = self.record_builder.borrow();
        StreamError {
            provider_name: record_builder.record().provider_name.clone(),
            ..stream_error(error, record_builder.record())
        }
    }
}

/// The context of an error chunk for a stream that no endpoint answered.
fn unanswered_context(record: &Generation) -> AnswerContext {
    AnswerContext {
        generation: record.id,
        created: record.created_ms / 1000,
        model: record.model.clone().unwrap_or_else(|| Arc::clone(&record.requested_model)),
        provider_name: record.provider_name.clone().unwrap_or_else(|| "".into()),
        fingerprint: format!("fp_{}", record.decision.policy_version).into(),
        pricing: Some(Arc::default()),
        prompt_tokens: 0,
        images: 0,
        exclude_reasoning: false,
        legacy_functions: false,
        service: RequestedService::default(),
        told: ServedService::default(),
        clock: clock::unix_seconds,
    }
}

/// The error chunk that ends the stream of `record`.
fn stream_error(error: &ApiError, record: &Generation) -> StreamError {
    StreamError {
        code: error.status().as_u16(),
        message: error.message().to_owned().into(),
        kind: error.kind(),
        error_type: error.error_type(),
        reason: error.reason(),
        provider_name: error.provider_name().map(Arc::from),
        request_id: Some(Arc::clone(&record.request_id)),
        previous_errors: error.previous_errors(),
        is_final: error.is_final(),
    }
}

/// The response body that the relay writes to. The record is posted before the last bytes are sent: from then on they wait
/// until it is safe.
struct Body {
    relay: RelayBody,
    durable: Durable,
}

impl actix_web::body::MessageBody for Body {
    type Error = Aborted;

    fn size(&self) -> actix_web::body::BodySize {
        actix_web::body::BodySize::Stream
    }

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<bytes::Bytes, Self::Error>>> {
        std::task::ready!(self.durable.poll(cx));
        self.relay.poll_bytes(cx)
    }
}
