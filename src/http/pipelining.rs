//! One request at a time: what a client sends behind a request is kept from the HTTP server until that is answered.
//!
//! The server of actix decodes as far as it has bytes, and lets the latest head decide how the answer under way is
//! framed and whether the connection ends behind it; behind 128 KiB it reads no further, so that it does not see a client
//! leave. See "What stands in actix" in `docs/ARCHITECTURE.md`. Here the bytes of the next request wait outside, up to a
//! bound, and the socket is watched all the while.
//!
//! Nothing is decided by what is read here but when bytes are handed on, unchanged and in their order: a request whose
//! end is misjudged is late, never another one.

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

/// Bytes kept of what was sent behind a running call; more wait in the system's buffers.
const MOST_HELD: usize = 64 * 1024;

/// Bytes looked for at once behind a running call.
const PIECE: usize = 4096;

/// How long a client that still sends is listened to when its connection ends: a socket that is closed with bytes unread
/// takes the last answer back.
const LAST_READING: Duration = Duration::from_secs(1);

/// Whose turn it is on a connection: shared by its stream and its calls.
#[derive(Default)]
pub(crate) struct Turn {
    answered: Cell<bool>,
    last: Cell<bool>,
    waited: Cell<bool>,
    waiting: Cell<Option<Waker>>,
}

impl Turn {
    /// No further request is taken on this connection.
    pub(crate) fn is_last(&self) {
        self.last.set(true);
    }

    /// The call that was handed on is answered, or its answer is.
    pub(crate) fn end(&self) {
        self.answered.set(true);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    /// Whether the request under way had to wait, so that its body may be here already.
    pub(crate) fn waited(&self) -> bool {
        self.waited.get()
    }

    /// Whether the next request may come.
    fn is_next(&self) -> bool {
        self.answered.get() && !self.last.get()
    }

    fn wait(&self, cx: &Context<'_>) {
        self.waiting.set(Some(cx.waker().clone()));
    }
}

/// A connection with a socket under it.
pub(crate) trait OnSocket: AsyncRead + AsyncWrite + Unpin {
    /// The socket.
    fn socket(&self) -> &TcpStream;
}

impl OnSocket for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl OnSocket for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// A client connection that hands on one request at a time.
pub(crate) struct InTurn<T> {
    io: T,
    turn: Rc<Turn>,
    framing: Framing,
    /// What came behind the request that was handed on.
    held: BytesMut,
    /// Whether bytes behind the last request were thrown away.
    threw_away: bool,
    last_reading: Option<Pin<Box<Sleep>>>,
    /// Tells of the client's end while nothing is read.
    lookout: Option<TcpStream>,
}

impl<T: OnSocket> InTurn<T> {
    /// Around a new connection.
    pub(crate) fn new(io: T) -> InTurn<T> {
        InTurn {
            io,
            turn: Rc::default(),
            framing: Framing::default(),
            held: BytesMut::new(),
            threw_away: false,
            last_reading: None,
            lookout: None,
        }
    }

    /// The connection itself.
    pub(crate) fn io(&self) -> &T {
        &self.io
    }

    /// Whose turn it is.
    pub(crate) fn turn(&self) -> &Rc<Turn> {
        &self.turn
    }

    /// Behind a whole request that is not answered: ready only when the client is gone.
    fn poll_behind(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.held.len() >= MOST_HELD {
                return self.poll_gone(cx);
            }
            let mut room = [MaybeUninit::uninit(); PIECE];
            let mut piece = ReadBuf::uninit(&mut room);
            if Pin::new(&mut self.io).poll_read(cx, &mut piece)?.is_pending() {
                if !self.held.is_empty() {
                    self.turn.wait(cx);
                }
                return Poll::Pending;
            }
            match piece.filled() {
                [] => return Poll::Ready(Ok(())),
                _ if self.turn.last.get() => self.threw_away = true,
                bytes => self.held.extend_from_slice(bytes),
            }
        }
    }

    /// The same, without reading.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.turn.wait(cx);
        if self.lookout.is_none() {
            // A descriptor of its own, so that nobody who reads misses what is forgotten here.
            let socket = SockRef::from(self.io.socket()).try_clone();
            self.lookout = socket.and_then(|socket| TcpStream::from_std(socket.into())).ok();
        }
        let Some(lookout) = &self.lookout else { return Poll::Pending };
        loop {
            ready!(lookout.poll_read_ready(cx))?;
            let mut seen = pin!(lookout.ready(Interest::READABLE));
            if let Poll::Ready(Ok(seen)) = seen.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                && seen.is_read_closed()
            {
                return Poll::Ready(Ok(()));
            }
            // Only further news count: that there are bytes is known.
            let _ = lookout.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
    }

    /// The bytes of the next request, or of what is left of this one.
    fn poll_request(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.held.is_empty() {
            let fitting = self.held.get(..buffer.remaining()).unwrap_or(&self.held);
            let ours = self.framing.advance(fitting);
            buffer.put_slice(fitting.get(..ours).unwrap_or_default());
            self.held.advance(ours);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        let ours = self.framing.advance(new);
        self.held.extend_from_slice(new.get(ours..).unwrap_or_default());
        buffer.set_filled(before + ours);
        Poll::Ready(Ok(()))
    }
}

impl<T: OnSocket> AsyncRead for InTurn<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.framing.is_whole() {
            if !this.turn.is_next() {
                return this.poll_behind(cx);
            }
            this.turn.answered.set(false);
            this.turn.waited.set(!this.held.is_empty());
            this.framing = Framing::default();
            drop(this.lookout.take());
        }
        this.poll_request(cx, buffer)
    }
}

impl<T: OnSocket> AsyncWrite for InTurn<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
        if this.held.is_empty() && !this.threw_away {
            return Poll::Ready(Ok(()));
        }
        let last_reading = this.last_reading.get_or_insert_with(|| Box::pin(sleep(LAST_READING)));
        while last_reading.as_mut().poll(cx).is_pending() {
            let mut room = [MaybeUninit::uninit(); PIECE];
            let mut piece = ReadBuf::uninit(&mut room);
            match ready!(Pin::new(&mut this.io).poll_read(cx, &mut piece)) {
                Ok(()) if !piece.filled().is_empty() => {}
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
