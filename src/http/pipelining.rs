//! Serializes pipelined requests: bytes that follow a request are buffered until that request is answered.
//!
//! The HTTP server of actix decodes all available bytes, and the latest decoded head decides how the current answer is
//! framed and whether the connection closes after it. It also stops reading after 128 KiB, and then misses that the
//! client disconnects: see `docs/ACTIX.md`. `SerialConnection` buffers the bytes of the next requests up to a bound, and
//! watches the socket for a disconnect.
//!
//! This module only decides when bytes are passed on; their content and order are unchanged. If the end of a request is
//! misjudged, the request is delayed, but never altered.

use std::{
    cell::Cell,
    io,
    mem::MaybeUninit,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use actix_rt::{
    net::TcpStream,
    time::{Sleep, sleep},
};
use actix_tls::accept::rustls_0_23::TlsStream;
use bytes::{Buf as _, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::http::request_framing::Framing;

/// Most bytes buffered after the current request; further bytes stay in the socket's receive buffer.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;

/// Bytes per read after the current request.
const READ_BYTES: usize = 4096;

/// How long a closing connection is still read: closing a socket with unread bytes resets the connection, and the client
/// may lose the last answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Progress of the current request of a connection, shared by the connection and its calls.
#[derive(Default)]
pub(crate) struct RequestProgress {
    is_answered: Cell<bool>,
    is_last: Cell<bool>,
    was_buffered: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl RequestProgress {
    /// Marks the current request as the last one of the connection.
    pub(crate) fn mark_last(&self) {
        self.is_last.set(true);
    }

    /// Marks the current request as answered, and wakes the connection.
    pub(crate) fn mark_answered(&self) {
        self.is_answered.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether the current request was buffered, so that its body may already be available.
    pub(crate) fn was_buffered(&self) -> bool {
        self.was_buffered.get()
    }

    /// Whether the next request may be passed on.
    fn admits_next(&self) -> bool {
        self.is_answered.get() && !self.is_last.get()
    }

    fn register_waker(&self, cx: &Context<'_>) {
        self.waker.set(Some(cx.waker().clone()));
    }
}

/// A connection on a TCP socket, encrypted or not.
pub(crate) trait TcpConnection: AsyncRead + AsyncWrite + Unpin {
    /// The TCP socket.
    fn socket(&self) -> &TcpStream;
}

impl TcpConnection for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl TcpConnection for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// A client connection that passes on one request at a time.
pub(crate) struct SerialConnection<T> {
    io: T,
    progress: Rc<RequestProgress>,
    framing: Framing,
    /// Bytes received after the current request.
    buffered: BytesMut,
    /// Whether bytes after the last request were discarded.
    has_discarded: bool,
    linger: Option<Pin<Box<Sleep>>>,
    /// Second descriptor of the socket, to notice a disconnect while nothing is read.
    disconnect_watch: Option<TcpStream>,
}

impl<T: TcpConnection> SerialConnection<T> {
    /// Wraps a new connection.
    pub(crate) fn new(io: T) -> SerialConnection<T> {
        SerialConnection {
            io,
            progress: Rc::default(),
            framing: Framing::default(),
            buffered: BytesMut::new(),
            has_discarded: false,
            linger: None,
            disconnect_watch: None,
        }
    }

    /// The wrapped connection.
    pub(crate) fn io(&self) -> &T {
        &self.io
    }

    /// Progress of the current request.
    pub(crate) fn progress(&self) -> &Rc<RequestProgress> {
        &self.progress
    }

    /// Buffers bytes after a complete request that is not answered. Ready only when the client has disconnected.
    fn poll_unanswered(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.buffered.len() >= MAX_BUFFERED_BYTES {
                return self.poll_disconnected(cx);
            }
            let mut room = [MaybeUninit::uninit(); READ_BYTES];
            let mut chunk = ReadBuf::uninit(&mut room);
            if Pin::new(&mut self.io).poll_read(cx, &mut chunk)?.is_pending() {
                if !self.buffered.is_empty() {
                    self.progress.register_waker(cx);
                }
                return Poll::Pending;
            }
            match chunk.filled() {
                [] => return Poll::Ready(Ok(())),
                _ if self.progress.is_last.get() => self.has_discarded = true,
                bytes => self.buffered.extend_from_slice(bytes),
            }
        }
    }

    /// Ready when the client has disconnected. Reads nothing.
    fn poll_disconnected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.progress.register_waker(cx);
        if self.disconnect_watch.is_none() {
            // A separate descriptor: clearing its readiness below must not affect reads on the connection.
            let socket = SockRef::from(self.io.socket()).try_clone();
            self.disconnect_watch = socket.and_then(|socket| TcpStream::from_std(socket.into())).ok();
        }
        let Some(disconnect_watch) = &self.disconnect_watch else { return Poll::Pending };
        loop {
            ready!(disconnect_watch.poll_read_ready(cx))?;
            let mut readiness = pin!(disconnect_watch.ready(Interest::READABLE));
            if let Poll::Ready(Ok(readiness)) = readiness.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                && readiness.is_read_closed()
            {
                return Poll::Ready(Ok(()));
            }
            // Clears the readiness of the buffered bytes, so that only new events wake the task.
            let _ = disconnect_watch.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
    }

    /// Reads the bytes of the next request or the rest of the current one.
    fn poll_request(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.buffered.is_empty() {
            let fitting = self.buffered.get(..buffer.remaining()).unwrap_or(&self.buffered);
            let own = self.framing.advance(fitting);
            buffer.put_slice(fitting.get(..own).unwrap_or_default());
            self.buffered.advance(own);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        let own = self.framing.advance(new);
        self.buffered.extend_from_slice(new.get(own..).unwrap_or_default());
        buffer.set_filled(before + own);
        Poll::Ready(Ok(()))
    }
}

impl<T: TcpConnection> AsyncRead for SerialConnection<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.framing.is_whole() {
            if !this.progress.admits_next() {
                return this.poll_unanswered(cx);
            }
            this.progress.is_answered.set(false);
            this.progress.was_buffered.set(!this.buffered.is_empty());
            this.framing = Framing::default();
            drop(this.disconnect_watch.take());
        }
        this.poll_request(cx, buffer)
    }
}

impl<T: TcpConnection> AsyncWrite for SerialConnection<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
        if this.buffered.is_empty() && !this.has_discarded {
            return Poll::Ready(Ok(()));
        }
        let linger = this.linger.get_or_insert_with(|| Box::pin(sleep(LINGER_TIMEOUT)));
        while linger.as_mut().poll(cx).is_pending() {
            let mut room = [MaybeUninit::uninit(); READ_BYTES];
            let mut chunk = ReadBuf::uninit(&mut room);
            match ready!(Pin::new(&mut this.io).poll_read(cx, &mut chunk)) {
                Ok(()) if !chunk.filled().is_empty() => {}
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
