//! An answer in a stream. The head waits for the first content or the first keep-alive, whichever is
//! earlier; until the content another endpoint may still take over, after it none ever does.

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
    actors::relay::{
        Aborted, Relay, RelayBody, RelayInput, RelayInputStream, RelayLimits, RelayObserver, StreamEnd,
        StreamNotOpened, StreamOpened,
    },
    dialect::{AnswerFault, ChatStream, Outcome, StreamError, StreamOptions},
    domain::Generation,
};

use crate::{
    access::load::KeyBuffer,
    base::{clock, error::ApiError},
    proxy::dispatch::{
        Work,
        call::{self, Target},
        draft::GenerationDraft,
        fault,
        race::{Ask, Lane, Race},
        walk::Walk,
    },
    state::gateway::Worker,
    upstream::{UpstreamBody, UpstreamError},
};

/// A draft that both the walk and, later, the relay write to.
type SharedDraft = Rc<RefCell<GenerationDraft>>;

/// An upstream whose first content was read.
struct Open {
    opened: StreamOpened,
    /// `None` when the body already ended in order.
    body: Option<UpstreamBody>,
}

/// Answers with a stream. What waits for its client counts in `share`.
///
/// # Errors
/// What the client is told when no endpoint gave content before the first keep-alive was due.
pub async fn answer(
    worker: &Worker,
    work: Work,
    walk: Walk,
    draft: GenerationDraft,
    options: StreamOptions,
    share: &Arc<KeyBuffer>,
) -> Result<HttpResponse, ApiError> {
    let stream = &worker.setup.config.stream;
    let limits = RelayLimits {
        buffer_bytes: stream.buffer_bytes,
        keep_alive: stream.keepalive,
        idle: stream.idle_timeout,
        write_stall: worker.setup.config.timeouts.client_write_stall,
        deadline: walk.deadline,
    };
    let draft = Rc::new(RefCell::new(draft));
    let mut opening = open(worker.clone(), work, walk, Rc::clone(&draft), options).boxed_local();
    let feeds = match actix_rt::time::timeout(limits.keep_alive, &mut opening).await {
        Ok(Ok(open)) => feeds(open),
        Ok(Err(error)) => return Err(error),
        Err(_) => {
            let chat = ChatStream::new(call::unanswered(draft.borrow().record()), options);
            late_feeds(unless_stopped(opening, worker.shared.drain.over()), chat, Rc::clone(&draft))
        }
    };
    let mut head = head(&draft.borrow());
    draft.borrow().publish_running();
    Ok(head.body(Body(Relay::start(feeds, limits, share.count(), worker.shared.drain.over()))))
}

fn head(draft: &GenerationDraft) -> actix_web::HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    draft.write_headers(&mut response);
    response.insert_header((header::CONTENT_TYPE, "text/event-stream; charset=utf-8"));
    response.insert_header((header::CACHE_CONTROL, "no-cache, no-store"));
    response.insert_header(("x-accel-buffering", "no"));
    response
}

/// What the relay reads once an upstream gave content.
fn feeds(open: Open) -> RelayInputStream {
    let first = stream::iter([RelayInput::Opened(Box::new(open.opened))]);
    match open.body {
        Some(body) => first.chain(body.map(|read| RelayInput::Read(read.map_err(AnswerFault::from)))).boxed_local(),
        None => first.boxed_local(),
    }
}

/// What the relay reads while the attempts are still running: dropping it, as the relay does when the
/// client leaves, drops them.
fn late_feeds(
    opening: LocalBoxFuture<'static, Result<Open, ApiError>>,
    chat: ChatStream,
    draft: SharedDraft,
) -> RelayInputStream {
    let opened = opening.map(move |outcome| match outcome {
        Ok(open) => feeds(open),
        Err(error) => {
            let unopened = StreamNotOpened { chat, error: stream_error(&error, draft.borrow().record()) };
            stream::iter([RelayInput::Failed(Box::new(unopened))]).boxed_local()
        }
    });
    stream::once(opened).flatten().boxed_local()
}

/// The same attempts, given up when the process must leave: dropping them ends them, and their record.
fn unless_stopped(
    opening: LocalBoxFuture<'static, Result<Open, ApiError>>,
    time_up: impl Future<Output = ()> + 'static,
) -> LocalBoxFuture<'static, Result<Open, ApiError>> {
    async move {
        tokio::select! {
            biased;
            open = opening => open,
            () = time_up => Err(ApiError::draining()),
        }
    }
    .boxed_local()
}

/// Walks the plan until an endpoint gives content.
async fn open(
    worker: Worker,
    work: Work,
    mut walk: Walk,
    draft: SharedDraft,
    options: StreamOptions,
) -> Result<Open, ApiError> {
    let patience = walk.routed.policy.clocks.first_content;
    let ask = FirstContent { work: &work, options, patience, deadline: walk.deadline };
    let race = Race { worker: &worker, work: &work, draft: &draft, ask: &ask };
    let (n, (reading, body)) = race.run(&mut walk).await?;
    let observer = Box::new(StreamObserver { draft, n });
    Ok(Open { opened: StreamOpened { chat: reading.chat, held: reading.held, observer }, body })
}

/// Waits for first contents.
struct FirstContent<'a> {
    work: &'a Work,
    options: StreamOptions,
    /// Longest wait for content, hidden reasoning included.
    patience: Duration,
    deadline: Instant,
}

/// One attempt up to its first content; what it wrote is held back and thrown away if it fails.
struct Reading {
    chat: ChatStream,
    held: BytesMut,
}

impl Ask for FirstContent<'_> {
    /// `None` instead of a body that already ended in order.
    type Got = (Reading, Option<UpstreamBody>);

    async fn ask(&self, target: &Target<'_>, body: Bytes, lane: Lane<'_>) -> Result<Self::Got, UpstreamError> {
        let content_by = self.content_by();
        let call = target.stream_call(self.work, body, self.deadline, lane.first_byte);
        let response = target.client.send_noting(call, |phases| lane.note(|attempt| attempt.phases = phases)).await?;
        lane.note(|attempt| attempt.quota(response.quota));
        let context = target.answer_context(lane.draft.borrow().record(), self.work);
        let mut reading = Reading { chat: ChatStream::new(context, self.options), held: BytesMut::new() };
        match self.read_to_content(&mut reading, response.body, lane, content_by).await {
            Ok(body) => {
                let now = clock::now();
                lane.note(|attempt| attempt.first_token(now));
                Ok((reading, body))
            }
            Err(error) => {
                if let Some(usage) = reading.chat.spent() {
                    lane.note(|attempt| attempt.took(usage));
                }
                Err(fault::behind_head(error))
            }
        }
    }
}

impl FirstContent<'_> {
    async fn read_to_content(
        &self,
        Reading { chat, held }: &mut Reading,
        mut body: UpstreamBody,
        lane: Lane<'_>,
        mut content_by: Instant,
    ) -> Result<Option<UpstreamBody>, UpstreamError> {
        loop {
            let read = tokio::time::timeout_at(content_by.into(), body.next()).await;
            let Ok(read) = read else { return Err(UpstreamError::timeout("no content in time")) };
            let Some(bytes) = read.transpose()? else {
                chat.end(held)?;
                return Ok(None);
            };
            let progress = chat.push(&bytes, held)?;
            if chat.has_content() {
                return Ok(Some(body));
            }
            if progress.content {
                // Reasoning that the client does not want to see: the model is at work.
                content_by = self.content_by();
                if let Some(usage) = chat.spent() {
                    lane.note(|attempt| attempt.took(usage));
                }
            }
        }
    }

    /// When content must have come, counted from now.
    fn content_by(&self) -> Instant {
        (Instant::now() + self.patience).min(self.deadline)
    }
}

/// Ends attempt and record with the stream.
struct StreamObserver {
    draft: SharedDraft,
    /// The attempt that serves.
    n: u32,
}

impl RelayObserver for StreamObserver {
    fn ended(self: Box<Self>, ending: StreamEnd, outcome: Outcome) {
        let mut draft = self.draft.borrow_mut();
        match ending {
            StreamEnd::Completed => draft.complete(self.n, outcome),
            StreamEnd::Failed(fault) => draft.broke(self.n, &fault::behind_head(fault.into()), outcome),
            StreamEnd::Stopped => draft.stop(self.n, outcome),
            StreamEnd::ClientLeft => draft.cancel(self.n, outcome),
        }
    }

    fn error(&self, fault: &AnswerFault) -> StreamError {
        self.told(&ApiError::broken_stream(fault.kind))
    }

    fn stopped(&self) -> StreamError {
        StreamError { provider_name: None, ..self.told(&ApiError::draining()) }
    }
}

impl StreamObserver {
    fn told(&self, error: &ApiError) -> StreamError {
        let draft = self.draft.borrow();
        StreamError { provider_name: draft.record().provider_name.clone(), ..stream_error(error, draft.record()) }
    }
}

/// An error as the last chunk of that generation's stream tells it.
fn stream_error(error: &ApiError, of: &Generation) -> StreamError {
    StreamError {
        code: error.status().as_u16(),
        message: error.message().to_owned().into(),
        kind: error.kind(),
        error_type: error.error_type(),
        reason: error.reason(),
        provider_name: error.provider_name().map(Arc::from),
        request_id: Some(Arc::clone(&of.request_id)),
        previous_errors: error.previous_errors(),
    }
}

/// The response body a relay writes to.
struct Body(RelayBody);

impl actix_web::body::MessageBody for Body {
    type Error = Aborted;

    fn size(&self) -> actix_web::body::BodySize {
        actix_web::body::BodySize::Stream
    }

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<bytes::Bytes, Self::Error>>> {
        self.0.poll_bytes(cx)
    }
}
