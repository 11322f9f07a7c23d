//! Wraps a socket and lets only regular HTTP/1.1 answers pass.
//!
//! The guard drops interim heads, checks the framing and turns an early end into an error. After anything irregular it closes
//! the socket and reports its end, so that the connection is not used again.
//!
//! Body bytes are read into the reader's buffer and only counted. A head is held back until it is complete. A head that
//! arrives in a single read, as nearly all do, is parsed in place.
//!
//! For writes the guard solves one problem: a provider may reject a large request before it has read it (413, for example).
//! Writing on would end in a reset and lose the status. The guard recognises the rejection and discards the rest of the
//! request, so that the answer is read.

pub(super) mod dry_run;
mod early;
mod fault;
mod framing;
mod head;

use std::{
    fmt, io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::head::{Head, Parsed};
pub(super) use self::{fault::Fault, framing::Framing, head::MAX_HEADERS};
use super::{connection_events, keep_alive::ManagedSocket};

/// Most interim heads before an answer.
const MAX_INTERIM: u8 = 8;

/// A rejection of a request larger than this ends the connection, because the provider may not have read the whole request.
const MAX_REFUSED: usize = 64 * 1024;

/// A socket that the guard can wrap.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin {
    /// Whether there are unread bytes, or an unread end. Must ask the kernel: the runtime's readiness may be outdated.
    fn has_unread(&self) -> bool;
}

/// A guarded connection.
pub(super) struct Guard<S> {
    /// Closed by the guard after anything irregular, or by a timeout while idle.
    socket: Rc<ManagedSocket<S>>,
    phase: Phase,
    /// Bytes of a head that is incomplete, or that is not read yet.
    held: BytesMut,
    /// The complete head in `held`, while its request is still being written.
    found: Option<Head>,
    /// Checked bytes that are not read yet.
    passed: BytesMut,
    /// Framing of the answer's body, from its start.
    framing: Framing,
    /// Interim heads dropped in this exchange.
    interim: u8,
    /// Bytes written of this exchange's request.
    written: usize,
    /// Whether another exchange may follow.
    reusable: bool,
    /// The provider rejected the request before it was written. Further writes are discarded.
    refused: bool,
    /// Error of a failed write, until it is known whether the provider sent a rejection.
    broken: Option<io::Error>,
}

#[derive(Debug)]
enum Phase {
    /// No exchange; the next write begins one.
    Idle,
    /// Waits for the head of the answer.
    Head,
    /// The head has passed; the body follows.
    Body(Framing),
}

impl<S: Wire> Guard<S> {
    pub(super) fn new(socket: Rc<ManagedSocket<S>>) -> Guard<S> {
        Guard {
            socket,
            phase: Phase::Idle,
            held: BytesMut::new(),
            found: None,
            passed: BytesMut::new(),
            framing: Framing::UntilClose,
            interim: 0,
            written: 0,
            reusable: true,
            refused: false,
            broken: None,
        }
    }

    /// Whether the socket is open.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Framing of the body of the answer whose head was read.
    pub(super) fn framing(&self) -> Framing {
        self.framing.clone()
    }

    /// Closes the socket. Later reads report its end.
    fn poison(&mut self) {
        self.socket.close();
        self.held = BytesMut::new();
        self.found = None;
    }

    fn fail(&mut self, fault: Fault) -> io::Error {
        self.poison();
        fault.into()
    }

    /// Reads from the socket. Returns the number of bytes; 0 at its end.
    fn poll_wire(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        let outcome = match self.socket.stream().as_mut() {
            Some(wire) => ready!(Pin::new(wire).poll_read(cx, buf)),
            None => return Poll::Ready(Ok(0)),
        };
        if outcome.is_err() {
            self.poison();
        }
        Poll::Ready(outcome.map(|()| buf.filled().len() - before))
    }

    /// Whether the connection was silent since its last exchange. Any byte, or the end, closes it.
    pub(super) fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.poll_idle(cx).is_ready() {
            return Poll::Ready(false);
        }
        // The runtime wakes this task once it polls the socket. With TLS the bytes may hold no data.
        if self.has_unread() { Poll::Pending } else { Poll::Ready(true) }
    }

    /// Handles a read between two exchanges.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stray = [0; 1];
        let _ = ready!(self.poll_wire(cx, &mut ReadBuf::new(&mut stray)));
        self.poison();
        Poll::Ready(Ok(()))
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut complete = self.found.take();
        loop {
            if let Some(head) = complete {
                self.pass_held(head)?;
                self.hand_over(buf);
                return Poll::Ready(Ok(()));
            }
            let start = buf.filled().len();
            if ready!(self.poll_wire(cx, buf))? == 0 {
                return Poll::Ready(Err(self.ended_before_head()));
            }
            if self.held.is_empty() {
                connection_events::note_first_byte();
                let parsed = head::parse(unread(buf, start)).map_err(|fault| self.fail(fault))?;
                if let Parsed::Final(head) = parsed {
                    return Poll::Ready(self.pass_in_place(head, buf, start));
                }
            }
            complete = self.hold(unread(buf, start))?;
            buf.set_filled(start);
        }
    }

    /// Appends bytes of a head. Returns the head once it is complete.
    fn hold(&mut self, bytes: &[u8]) -> io::Result<Option<Head>> {
        let first = self.held.is_empty();
        self.held.extend_from_slice(bytes);
        // A head ends with a line feed. Without this check, a head that arrives byte by byte would be parsed for each byte.
        let may_be_complete = first || bytes.contains(&b'\n') || self.held.len() > head::MAX_HEAD;
        if may_be_complete { self.parse_held() } else { Ok(None) }
    }

    /// Drops interim heads from the held bytes. Returns the answer's own head once it is complete.
    fn parse_held(&mut self) -> io::Result<Option<Head>> {
        loop {
            if self.held.is_empty() {
                return Ok(None);
            }
            match head::parse(&self.held) {
                Ok(Parsed::Partial) => return Ok(None),
                Ok(Parsed::Final(head)) => return Ok(Some(head)),
                Ok(Parsed::Interim(_)) if self.interim == MAX_INTERIM => return Err(self.fail(Fault::InterimFlood)),
                Ok(Parsed::Interim(length)) => {
                    self.interim += 1;
                    self.held.advance(length);
                    if !self.held.is_empty() {
                        connection_events::note_first_byte();
                    }
                }
                Err(fault) => return Err(self.fail(fault)),
            }
        }
    }

    /// Passes a head that is, with the start of its body, in the reader's buffer.
    fn pass_in_place(&mut self, head: Head, buf: &mut ReadBuf<'_>, start: usize) -> io::Result<()> {
        let behind_head = start + head.length;
        let end = behind_head + self.begin_body(head, unread(buf, behind_head))?;
        buf.set_filled(end);
        Ok(())
    }

    /// Passes a head that arrived in pieces.
    fn pass_held(&mut self, head: Head) -> io::Result<()> {
        let mut answer = std::mem::take(&mut self.held);
        let length = head.length;
        let end = length + self.begin_body(head, answer.get(length..).unwrap_or_default())?;
        answer.truncate(end);
        self.passed = answer;
        Ok(())
    }

    fn begin_body(&mut self, head: Head, body: &[u8]) -> io::Result<usize> {
        self.reusable = head.reusable && !self.refused && (head.status == 200 || self.written <= MAX_REFUSED);
        self.framing = head.framing.clone();
        self.phase = Phase::Body(head.framing);
        self.count(body)
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let start = buf.filled().len();
        if ready!(self.poll_wire(cx, buf))? == 0 {
            let whole = matches!(self.phase, Phase::Body(Framing::UntilClose));
            self.poison();
            return Poll::Ready(if whole { Ok(()) } else { Err(Fault::BodyCut.into()) });
        }
        let end = start + self.count(unread(buf, start))?;
        buf.set_filled(end);
        Poll::Ready(Ok(()))
    }

    /// Counts bytes of the body and ends the exchange after the last one. Returns how many bytes belong to the body.
    fn count(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Phase::Body(framing) = &mut self.phase else { return Ok(0) };
        let counted = framing.advance(bytes);
        let complete = framing.is_complete();
        let counted = counted.map_err(|fault| self.fail(fault))?;
        if complete {
            self.phase = Phase::Idle;
            // Bytes after the body belong to no call, so the connection cannot be used again.
            if !self.reusable || counted < bytes.len() {
                self.poison();
            } else {
                self.socket.end();
            }
        }
        Ok(counted)
    }

    /// Copies checked bytes to the reader's buffer, as far as it has room.
    fn hand_over(&mut self, buf: &mut ReadBuf<'_>) {
        let length = self.passed.len().min(buf.remaining());
        buf.put_slice(self.passed.get(..length).unwrap_or_default());
        self.passed.advance(length);
        if self.passed.is_empty() {
            // An idle connection holds no buffer.
            self.passed = BytesMut::new();
        }
    }

    /// Begins an exchange.
    fn begin(&mut self) {
        self.socket.begin();
        self.phase = Phase::Head;
        (self.interim, self.written) = (0, 0);
    }

    /// Whether the kernel has unread bytes.
    fn has_unread(&self) -> bool {
        self.socket.stream().as_ref().is_some_and(Wire::has_unread)
    }

    fn ended_before_head(&mut self) -> io::Error {
        let fault = match head::parse(&self.held) {
            _ if self.held.is_empty() => Fault::NoAnswer,
            // Bytes without a line feed were not parsed so far.
            Err(fault) => fault,
            Ok(_) => Fault::HeadCut,
        };
        self.fail(fault)
    }
}

/// The bytes read into `buf` after its first `start` bytes.
fn unread<'a>(buf: &'a ReadBuf<'_>, start: usize) -> &'a [u8] {
    buf.filled().get(start..).unwrap_or_default()
}

impl<S: Wire> AsyncRead for Guard<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !guard.passed.is_empty() {
            guard.hand_over(buf);
            return Poll::Ready(Ok(()));
        }
        match guard.phase {
            Phase::Idle => guard.poll_idle(cx),
            Phase::Head => guard.poll_head(cx, buf),
            Phase::Body(_) => guard.poll_body(cx, buf),
        }
    }
}

impl<S: Wire> AsyncWrite for Guard<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let guard = self.get_mut();
        if guard.refused {
            return Poll::Ready(Ok(bytes.len()));
        }
        if guard.broken.is_some() {
            return guard.poll_broken(cx).map_ok(|()| bytes.len());
        }
        if matches!(guard.phase, Phase::Idle) {
            guard.begin();
        }
        let written = match guard.socket.stream().as_mut() {
            Some(wire) => Pin::new(wire).poll_write(cx, bytes),
            None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
        let settled = ready!(guard.settle(cx, written, bytes.len()))?;
        guard.written = guard.written.saturating_add(settled);
        Poll::Ready(Ok(settled))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        if guard.broken.is_some() {
            return guard.poll_broken(cx);
        }
        let flushed = match guard.socket.stream().as_mut().filter(|_| !guard.refused) {
            Some(wire) => Pin::new(wire).poll_flush(cx),
            None => return Poll::Ready(Ok(())),
        };
        guard.settle(cx, flushed, ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().socket.stream().as_mut() {
            Some(wire) => Pin::new(wire).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S> fmt::Debug for Guard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("phase", &self.phase)
            .field("open", &self.socket.is_open())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
