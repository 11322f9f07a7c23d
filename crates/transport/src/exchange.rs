//! One HTTP/1.1 exchange on a guarded connection: the request is written, the head of the answer awaited, its body streamed.

use std::{
    cell::RefCell,
    error::Error,
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use actix_http::{StatusCode, body::MessageBody, error::PayloadError, header::HeaderMap};
use bytes::Bytes;
use futures_util::Stream;
use tokio::io::AsyncWriteExt as _;

use super::{guard::Guard, transport::Transport};

/// Most bytes of a body that are copied behind the head, to leave with it in one write.
pub(super) const WITH_HEAD: usize = 16 * 1024;

/// A guarded connection to a provider. Boxed once, because it is moved with every call.
pub(super) type Guarded = Box<Guard<Transport>>;

/// Connections without a call, the one that was used last at the end. Clones share them.
#[derive(Clone, Default)]
pub(super) struct IdleConnections(Rc<RefCell<Vec<Guarded>>>);

/// An answer whose body is not read yet.
pub(super) struct Answer {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its headers.
    pub(super) headers: HeaderMap,
    /// Its body.
    pub(super) body: AnswerBody,
}

/// The body of an answer, without its framing. Gives the connection back behind the last byte; dropped before, it closes it.
pub(super) struct AnswerBody {
    /// `None` once given back.
    connection: Option<Guarded>,
    idle: IdleConnections,
}

/// Sends a request and reads the head of the answer.
///
/// # Errors
/// When the connection fails, or the guard refuses the answer.
pub(super) async fn exchange(
    mut connection: Guarded,
    head: Vec<u8>,
    body: impl MessageBody<Error = Box<dyn Error>> + Unpin,
    idle: IdleConnections,
) -> io::Result<Answer> {
    send(&mut connection, head, body).await?;
    let (status, headers) = poll_fn(|cx| connection.poll_head(cx)).await?;
    let mut body = AnswerBody { connection: Some(connection), idle };
    body.release();
    Ok(Answer { status, headers, body })
}

/// Sends the head and the start of the body in one write, and what is left in others.
async fn send(
    connection: &mut Guarded,
    head: Vec<u8>,
    mut body: impl MessageBody<Error = Box<dyn Error>> + Unpin,
) -> io::Result<()> {
    let mut start = head;
    while let Some(part) = poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await {
        let mut part = part.map_err(|error| io::Error::other(error.to_string()))?;
        start.extend_from_slice(&part.split_to(part.len().min(WITH_HEAD.saturating_sub(start.len()))));
        if !part.is_empty() {
            connection.write_all(&std::mem::take(&mut start)).await?;
            connection.write_all(&part).await?;
        }
    }
    connection.write_all(&start).await?;
    connection.flush().await
}

impl AnswerBody {
    /// Gives the connection back once the exchange has ended, if another call may use it.
    fn release(&mut self) {
        if let Some(connection) = self.connection.take_if(|connection| connection.is_idle())
            && connection.is_open()
        {
            self.idle.keep(connection);
        }
    }
}

impl Stream for AnswerBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = self.get_mut();
        let Some(connection) = &mut body.connection else { return Poll::Ready(None) };
        let content = ready!(connection.poll_content(cx)?);
        body.release();
        Poll::Ready(content.map(Ok))
    }
}

impl IdleConnections {
    /// The connection that was used last, of those on which nothing has arrived since. Others are closed.
    ///
    /// A provider has had the least time to close that one, and those that a burst left over reach their idle time.
    pub(super) async fn take(&self) -> Option<Guarded> {
        loop {
            let mut connection = self.0.borrow_mut().pop()?;
            if poll_fn(|cx| connection.poll_silent(cx)).await {
                return Some(connection);
            }
        }
    }

    fn keep(&self, connection: Guarded) {
        let mut idle = self.0.borrow_mut();
        // The first was used longest ago, so it is among the first whose time is over.
        if idle.first().is_some_and(|first| !first.is_open()) {
            idle.retain(|kept| kept.is_open());
        }
        idle.push(connection);
    }
}
