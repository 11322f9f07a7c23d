//! An answer in a stream. The head waits for the first content or the first keep-alive, whichever is
//! earlier; until the content another endpoint may still take over, after it none ever does.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{HttpResponse, http::header};
use bytes::BytesMut;
use futures_util::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream};
use pointsman_actors::{
    dialect::{AnswerFault, ChatStream, Outcome, StreamError, StreamOptions},
    relay::{Aborted, Ending, Feed, FeedStream, Observer, Opened, Relay, RelayBody, RelayLimits, Unopened},
};

use crate::{
    clock,
    dispatch::{
        Work,
        attempt::Attempt,
        call::{self, Target},
        draft::Draft,
        fault,
        walk::{Verdict, Walk},
    },
    error::ApiError,
    gateway::Worker,
    upstream::{UpstreamBody, UpstreamError},
};

/// A draft that both the walk and, later, the relay write to.
type SharedDraft = Rc<RefCell<Draft>>;

/// An upstream whose first content was read.
struct Open {
    opened: Opened,
    /// `None` when the body already ended in order.
    body: Option<UpstreamBody>,
}

/// Answers with a stream.
///
/// # Errors
/// What the client is told when no endpoint gave content before the first keep-alive was due.
pub async fn answer(
    worker: &Worker,
    work: Work,
    walk: Walk,
    draft: Draft,
    options: StreamOptions,
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
            late_feeds(unless_stopped(opening, worker.shared.drain.over()), chat)
        }
    };
    let mut head = head(&draft.borrow());
    draft.borrow().publish_running();
    Ok(head.body(Body(Relay::start(feeds, limits, worker.shared.drain.over()))))
}

fn head(draft: &Draft) -> actix_web::HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    draft.write_headers(&mut response);
    response.insert_header((header::CONTENT_TYPE, "text/event-stream; charset=utf-8"));
    response.insert_header((header::CACHE_CONTROL, "no-cache, no-store"));
    response.insert_header(("x-accel-buffering", "no"));
    response
}

/// What the relay reads once an upstream gave content.
fn feeds(open: Open) -> FeedStream {
    let first = stream::iter([Feed::Opened(Box::new(open.opened))]);
    match open.body {
        Some(body) => first.chain(body.map(|read| Feed::Read(read.map_err(AnswerFault::from)))).boxed_local(),
        None => first.boxed_local(),
    }
}

/// What the relay reads while the attempts are still running: dropping it, as the relay does when the
/// client leaves, drops them.
fn late_feeds(opening: LocalBoxFuture<'static, Result<Open, ApiError>>, chat: ChatStream) -> FeedStream {
    let opened = opening.map(|outcome| match outcome {
        Ok(open) => feeds(open),
        Err(error) => {
            let unopened = Unopened { chat, error: stream_error(&error) };
            stream::iter([Feed::Failed(Box::new(unopened))]).boxed_local()
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
    loop {
        let Some(mut attempt) = walk.next().await else {
            draft.borrow_mut().fail(None);
            return Err(walk.give_up().of_generation(draft.borrow().id()));
        };
        let Some(target) = Target::of(&worker, &walk.routed, &attempt) else {
            draft.borrow_mut().fail(None);
            return Err(ApiError::internal().of_generation(draft.borrow().id()));
        };
        let outgoing = work.upstream_body(&walk.routed.catalog, target.endpoint);
        draft.borrow_mut().attempt_began(&attempt, target.slug(), outgoing.dropped);
        let context = target.answer_context(draft.borrow().record(), &work);
        let call = target.stream_call(&work, outgoing.bytes, walk.deadline);
        let mut reading = Reading {
            chat: ChatStream::new(context, options),
            held: BytesMut::new(),
            patience: walk.routed.policy.clocks.first_content,
            deadline: walk.deadline,
        };
        match reading.first_content(&target, call, &mut attempt).await {
            Ok(body) => {
                draft.borrow_mut().first_output(clock::now());
                let observer = Box::new(StreamObserver { draft, attempt: Some(attempt) });
                let opened = Opened { chat: reading.chat, held: reading.held, observer };
                return Ok(Open { opened, body });
            }
            Err(error) => {
                let position = attempt.position;
                let failed = attempt.failed(&error, draft.borrow().id());
                draft.borrow_mut().attempt_lost(failed);
                if let Verdict::Stop(error) = walk.failed(position, &error) {
                    draft.borrow_mut().fail(None);
                    return Err(error.of_generation(draft.borrow().id()));
                }
            }
        }
    }
}

/// One attempt up to its first content; what it wrote is held back and thrown away if it fails.
struct Reading {
    chat: ChatStream,
    held: BytesMut,
    /// Longest wait for content, hidden reasoning included.
    patience: Duration,
    deadline: Instant,
}

impl Reading {
    async fn first_content(
        &mut self,
        target: &Target<'_>,
        call: crate::upstream::Call,
        attempt: &mut Attempt,
    ) -> Result<Option<UpstreamBody>, UpstreamError> {
        let content_by = self.content_by();
        let response = target.client.send(call).await?;
        attempt.connected(&response.timing);
        self.read_to_content(response.body, attempt, content_by).await.map_err(fault::behind_head)
    }

    async fn read_to_content(
        &mut self,
        mut body: UpstreamBody,
        attempt: &mut Attempt,
        mut content_by: Instant,
    ) -> Result<Option<UpstreamBody>, UpstreamError> {
        loop {
            let read = tokio::time::timeout_at(content_by.into(), body.next()).await;
            let Ok(read) = read else { return Err(UpstreamError::timeout("no content in time")) };
            let Some(bytes) = read.transpose()? else {
                self.chat.end(&mut self.held)?;
                attempt.first_token(clock::now());
                return Ok(None);
            };
            let progress = self.chat.push(&bytes, &mut self.held)?;
            if self.chat.has_content() {
                attempt.first_token(clock::now());
                return Ok(Some(body));
            }
            if progress.content {
                // Reasoning that the client does not want to see: the model is at work.
                content_by = self.content_by();
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
    attempt: Option<Attempt>,
}

impl Observer for StreamObserver {
    fn ended(mut self: Box<Self>, ending: Ending, outcome: Outcome) {
        let Some(attempt) = self.attempt.take() else { return };
        let mut draft = self.draft.borrow_mut();
        match ending {
            Ending::Completed => {
                draft.attempt_ended(attempt.completed(&outcome.usage));
                draft.complete(outcome);
            }
            Ending::Failed(fault) => {
                let failed = attempt.failed(&fault::behind_head(fault.into()), draft.id());
                draft.attempt_ended(failed);
                draft.fail(Some(outcome));
            }
            Ending::Stopped => {
                draft.attempt_ended(attempt.cancelled());
                draft.fail(Some(outcome));
            }
            Ending::ClientLeft => {
                draft.attempt_ended(attempt.cancelled());
                draft.cancel(outcome);
            }
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
        StreamError {
            provider_name: draft.record().provider_name.clone(),
            request_id: Some(Arc::clone(&draft.record().request_id)),
            ..stream_error(error)
        }
    }
}

/// An error as a stream's last chunk tells it.
fn stream_error(error: &ApiError) -> StreamError {
    StreamError {
        code: error.status().as_u16(),
        message: error.message().to_owned().into(),
        kind: error.kind(),
        error_type: error.error_type(),
        reason: error.reason(),
        provider_name: None,
        request_id: None,
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
