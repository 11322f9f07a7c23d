//! One HTTP/1.1 exchange on a guarded connection: the request is written, the head of the answer read, its body streamed.
//!
//! The guard has checked every byte that is read here: heads are complete and regular, bodies are framed as they should be.
//! No buffer is held while nothing arrives.

use std::{
    cell::RefCell,
    error::Error,
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use actix_http::{
    StatusCode,
    body::MessageBody,
    error::PayloadError,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};

use super::{
    guard::{Fault, Framing, Guard, MAX_HEADERS},
    transport::Transport,
};

/// Most bytes of a read.
const READ: usize = 16 * 1024;

/// Most bytes of a body that are copied behind the head, to leave with it in one write.
pub(super) const WITH_HEAD: usize = 16 * 1024;

/// The guard has parsed the head before.
const UNREADABLE: Fault = Fault::Head("a header is none");

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
    framing: Framing,
    /// What was read and not given on.
    read: Bytes,
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
    let mut read = BytesMut::new();
    loop {
        if poll_fn(|cx| poll_read(&mut connection, cx, |bytes| read.extend_from_slice(bytes))).await? == 0 {
            return Err(Fault::NoAnswer.into());
        }
        // The guard passes a head only when it is complete, but a long one in several reads.
        let bytes = read.split().freeze();
        match parse(&bytes)? {
            None => read = bytes.into(),
            Some((length, status, headers)) => {
                let body = AnswerBody::new(connection, bytes.slice(length..), idle);
                return Ok(Answer { status, headers, body });
            }
        }
    }
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

/// Reads what has arrived, and gives it to `keep`. Returns the number of bytes; 0 at the end of the connection.
fn poll_read(connection: &mut Guarded, cx: &mut Context<'_>, keep: impl FnOnce(&[u8])) -> Poll<io::Result<usize>> {
    let mut space = [MaybeUninit::uninit(); READ];
    let mut buf = ReadBuf::uninit(&mut space);
    ready!(Pin::new(connection).poll_read(cx, &mut buf))?;
    keep(buf.filled());
    Poll::Ready(Ok(buf.filled().len()))
}

/// Length, status and headers of the head at the start of `bytes`; `None` if it is not whole.
fn parse(bytes: &Bytes) -> Result<Option<(usize, StatusCode, HeaderMap)>, Fault> {
    let mut space = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut head, bytes, &mut space).map_err(|_| UNREADABLE)?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let status = StatusCode::from_u16(head.code.unwrap_or_default()).map_err(|_| UNREADABLE)?;
    let mut headers = HeaderMap::with_capacity(head.headers.len());
    for header in &*head.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| UNREADABLE)?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(header.value)).map_err(|_| UNREADABLE)?;
        headers.append(name, value);
    }
    Ok(Some((length, status, headers)))
}

impl AnswerBody {
    fn new(connection: Guarded, read: Bytes, idle: IdleConnections) -> AnswerBody {
        let framing = connection.framing();
        let mut body = AnswerBody { connection: Some(connection), framing, read, idle };
        if body.framing.is_complete() {
            body.release();
        }
        body
    }

    /// Gives the connection back, if another call may use it.
    fn release(&mut self) {
        if let Some(connection) = self.connection.take().filter(|connection| connection.is_open()) {
            self.idle.keep(connection);
        }
    }
}

impl Stream for AnswerBody {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = self.get_mut();
        loop {
            let content = body.framing.take_content(&mut body.read).map_err(io::Error::from)?;
            if !content.is_empty() {
                return Poll::Ready(Some(Ok(content)));
            }
            if body.framing.is_complete() {
                body.release();
            }
            let Some(connection) = &mut body.connection else { return Poll::Ready(None) };
            let read = &mut body.read;
            if ready!(poll_read(connection, cx, |bytes| *read = Bytes::copy_from_slice(bytes)))? == 0 {
                body.connection = None;
                return Poll::Ready(None);
            }
        }
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
