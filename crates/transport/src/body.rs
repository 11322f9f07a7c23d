//! The body of an answer, as a stream with an idle timeout and a deadline.
//!
//! A clean end means that the body is complete: the guard turns an early one into an error. Only a body that ends with its
//! connection may still be incomplete.

use std::{
    convert::Infallible,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use actix_http::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use pointsman_domain::FailureKind;
use tokio::time::{Sleep, sleep_until};

use super::{
    failure::{self, UpstreamError},
    mask::Mask,
};

/// The body of an answer. Dropping it unfinished closes the connection at once.
pub struct UpstreamBody {
    /// `Payload::None` once it has ended or failed.
    payload: Payload,
    announced: Option<u64>,
    bounds: BodyBounds,
    /// Masks the provider key.
    mask: Option<Rc<Mask>>,
    /// Start of the current wait for the provider. The time of a slow reader does not count.
    waiting_since: Option<Instant>,
    /// Created at the first wait, and reset only when it fires, because most answers never wait.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Limits of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyBounds {
    /// End of the time for the whole body.
    pub(super) deadline: Instant,
    /// Longest pause; `None` if only the deadline counts.
    pub(super) idle: Option<Duration>,
    /// Most bytes of a body that is collected.
    pub(super) size: usize,
}

impl UpstreamBody {
    pub(super) fn new(payload: Payload, announced: Option<u64>, bounds: BodyBounds) -> UpstreamBody {
        UpstreamBody { payload, announced, bounds, mask: None, waiting_since: None, timer: None }
    }

    /// Masks the provider key in the body.
    pub(super) fn masked(mut self, mask: Option<Rc<Mask>>) -> UpstreamBody {
        self.mask = mask;
        self
    }

    /// The whole body. Not copied if it arrived in one piece.
    ///
    /// # Errors
    /// When the body is cut off, late or too large.
    pub async fn collect(self) -> Result<Bytes, UpstreamError> {
        self.collect_while(|_| Ok::<(), Infallible>(())).await.map(|Ok(whole)| whole)
    }

    /// The whole JSON body, without leading white space: servers send it to keep a connection open while they work. `keep`
    /// gets the length of every later piece before it is buffered, and can stop with an error.
    ///
    /// # Errors
    /// When the body is cut off, late or too large. The inner error is that of `keep`.
    pub async fn collect_while<E>(
        mut self,
        mut keep: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Result<Bytes, E>, UpstreamError> {
        let limit = self.bounds.size;
        let announced = self.announced.map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX));
        if announced > limit {
            return Err(too_large(limit));
        }
        let Some(first) = self.skip_padding().await? else { return Ok(Ok(Bytes::new())) };
        if let Err(end) = keep(first.len()) {
            return Ok(Err(end));
        }
        let Some(second) = self.next().await.transpose()? else { return check_size(first, limit).map(Ok) };
        if let Err(end) = keep(second.len()) {
            return Ok(Err(end));
        }
        let mut whole = BytesMut::with_capacity(announced.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        drop((first, second));
        while whole.len() <= limit {
            let Some(bytes) = self.next().await.transpose()? else { return Ok(Ok(whole.freeze())) };
            if let Err(end) = keep(bytes.len()) {
                return Ok(Err(end));
            }
            whole.extend_from_slice(&bytes);
        }
        Err(too_large(limit))
    }

    /// The first piece with anything but white space. Pieces before it are discarded, but count towards the size limit.
    async fn skip_padding(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let mut padding = 0;
        while let Some(piece) = self.next().await.transpose()? {
            if !piece.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
                return Ok(Some(piece));
            }
            padding += piece.len();
            if padding > self.bounds.size {
                return Err(too_large(self.bounds.size));
            }
        }
        Ok(None)
    }

    /// The bytes up to the end, the size limit or a failure. For error bodies: an incomplete one is still useful.
    pub(super) async fn collect_available(mut self) -> BytesMut {
        let (mut found, limit) = (BytesMut::new(), self.bounds.size);
        while let Some(Ok(bytes)) = self.next().await {
            let room = limit - found.len();
            found.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
            if found.len() == limit {
                break;
            }
        }
        found
    }

    fn end(&mut self) {
        self.payload = Payload::None;
        self.timer = None;
    }

    fn fail(&mut self, error: UpstreamError) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        self.end();
        Poll::Ready(Some(Err(error)))
    }

    fn poll_timeouts(&mut self, cx: &mut Context<'_>) -> Poll<UpstreamError> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let deadline = self.bounds.deadline;
        let limit = self.bounds.idle.map_or(deadline, |idle| deadline.min(since + idle));
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(limit.into())));
        // The timer may be set for an earlier wait that ended in time.
        while timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= limit {
                return Poll::Ready(self.expired(limit));
            }
            timer.as_mut().reset(limit.into());
        }
        Poll::Pending
    }

    fn expired(&self, limit: Instant) -> UpstreamError {
        if limit < self.bounds.deadline {
            return UpstreamError::timeout("no further bytes in time");
        }
        // With an idle timeout it is certain that the provider was not silent.
        let kind = if self.bounds.idle.is_some() { FailureKind::Deadline } else { FailureKind::Timeout };
        UpstreamError::new(kind, "the answer was not whole in time")
    }
}

impl Stream for UpstreamBody {
    type Item = Result<Bytes, UpstreamError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = self.get_mut();
        match Pin::new(&mut body.payload).poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                let has_waited = body.waiting_since.take().is_some();
                // The timer runs only while the body waits, not while the provider always has another byte ready.
                if !has_waited && Instant::now() >= body.bounds.deadline {
                    return body.fail(body.expired(body.bounds.deadline));
                }
                Poll::Ready(Some(Ok(match &body.mask {
                    Some(mask) => mask.apply(bytes),
                    None => bytes,
                })))
            }
            Poll::Ready(Some(Err(error))) => body.fail(failure::of_body(&error)),
            Poll::Ready(None) => {
                body.end();
                Poll::Ready(None)
            }
            Poll::Pending => match body.poll_timeouts(cx) {
                Poll::Ready(error) => body.fail(error),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl std::fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamBody").field("announced", &self.announced).finish_non_exhaustive()
    }
}

fn check_size(bytes: Bytes, limit: usize) -> Result<Bytes, UpstreamError> {
    if bytes.len() <= limit { Ok(bytes) } else { Err(too_large(limit)) }
}

fn too_large(limit: usize) -> UpstreamError {
    let sentence = format!(
        "The provider's answer has more than {limit} bytes. The administrator of the gateway can raise limits.upstream_body."
    );
    UpstreamError::new(FailureKind::GatewayLimit, sentence)
}
