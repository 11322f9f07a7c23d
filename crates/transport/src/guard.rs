//! Wraps a socket and lets only regular HTTP/1.1 answers pass.
//!
//! The guard drops interim heads, takes the body out of its framing and turns an early end into an error. After anything
//! irregular it closes the socket, so that the connection is not used again. It holds no buffer while nothing arrives.
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
    mem::MaybeUninit,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use actix_http::{StatusCode, header::HeaderMap};
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(super) use self::fault::Fault;
use self::{
    framing::Framing,
    head::{Head, Parsed},
};
use super::{connection_events, keep_alive::ManagedSocket};

/// Most bytes of a read.
const READ: usize = 16 * 1024;

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
    /// What was read and not passed on: of a head that is incomplete, or of the body.
    read: Bytes,
    /// The complete head, while its request is still being written.
    found: Option<Head>,
    /// Interim heads dropped in this exchange.
    interim: u8,
    /// Bytes written of this exchange's request.
    written: usize,
    /// Whether another exchange may follow.
    reusable: bool,
    /// Whether content of this exchange's answer was given on.
    has_passed: bool,
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
            read: Bytes::new(),
            found: None,
            interim: 0,
            written: 0,
            reusable: true,
            has_passed: false,
            refused: false,
            broken: None,
        }
    }

    /// Whether the socket is open.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Whether no exchange runs.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether the connection was silent since its last exchange. Any byte, or the end, closes it.
    pub(super) fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.poll_wire(cx) {
            Poll::Ready(_) => {
                self.poison();
                Poll::Ready(false)
            }
            // The runtime wakes this task once it polls the socket. With TLS the bytes may hold no data.
            Poll::Pending if self.has_unread() => Poll::Pending,
            Poll::Pending => Poll::Ready(true),
        }
    }

    /// Status and headers of the answer, once its request is written.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(StatusCode, HeaderMap)>> {
        ready!(self.poll_found(cx))?;
        let Some(head) = self.found.take() else { return Poll::Ready(Err(self.fail(Fault::NoAnswer))) };
        let is_read = head.status == StatusCode::OK || self.written <= MAX_REFUSED;
        self.reusable = head.reusable && !self.refused && is_read;
        self.phase = Phase::Body(head.framing);
        self.end_if_complete();
        Poll::Ready(Ok((head.status, head.headers)))
    }

    /// The next piece of the body; `None` behind the last one.
    pub(super) fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let Phase::Body(framing) = &mut self.phase else { return Poll::Ready(None) };
            // Until content has passed another provider can answer: what is read with the first of it has to be regular, too.
            let checked = if self.has_passed { Ok(()) } else { framing.check(&self.read) };
            let content =
                checked.and_then(|()| framing.take_content(&mut self.read)).map_err(|fault| self.fail(fault))?;
            if !content.is_empty() {
                self.has_passed = true;
                return Poll::Ready(Some(Ok(content)));
            }
            if self.end_if_complete() {
                return Poll::Ready(None);
            }
            self.read = ready!(self.poll_wire(cx))?;
            if self.read.is_empty() {
                self.poison();
                let is_whole = matches!(self.phase, Phase::Body(Framing::UntilClose));
                return Poll::Ready(if is_whole { None } else { Some(Err(Fault::BodyCut.into())) });
            }
        }
    }

    /// Closes the socket. Later reads report its end.
    fn poison(&mut self) {
        self.socket.close();
        self.read = Bytes::new();
        self.found = None;
    }

    fn fail(&mut self, fault: Fault) -> io::Error {
        self.poison();
        fault.into()
    }

    /// Reads what has arrived. Returns nothing at the end of the connection.
    fn poll_wire(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut space = [MaybeUninit::uninit(); READ];
        let mut buf = ReadBuf::uninit(&mut space);
        let outcome = match self.socket.stream().as_mut() {
            Some(wire) => ready!(Pin::new(wire).poll_read(cx, &mut buf)),
            None => return Poll::Ready(Ok(Bytes::new())),
        };
        if outcome.is_err() {
            self.poison();
        }
        Poll::Ready(outcome.map(|()| Bytes::copy_from_slice(buf.filled())))
    }

    /// Reads until the head is complete.
    fn poll_found(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.found.is_none() {
            let more = ready!(self.poll_wire(cx))?;
            if more.is_empty() {
                return Poll::Ready(Err(self.ended_before_head()));
            }
            self.found = self.hold(more)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Appends bytes of a head. Returns the head once it is complete.
    fn hold(&mut self, more: Bytes) -> io::Result<Option<Head>> {
        if self.read.is_empty() {
            connection_events::note_first_byte();
            self.read = more;
            return self.take_head();
        }
        let has_line_end = more.contains(&b'\n');
        let mut all = BytesMut::from(std::mem::take(&mut self.read));
        all.extend_from_slice(&more);
        self.read = all.freeze();
        // A head ends with a line feed. Without this check, a head that arrives byte by byte would be parsed for each byte.
        if has_line_end || self.read.len() > head::MAX_HEAD { self.take_head() } else { Ok(None) }
    }

    /// Drops interim heads. Returns the answer's own head, taken off what was read, once it is complete.
    fn take_head(&mut self) -> io::Result<Option<Head>> {
        while !self.read.is_empty() {
            match head::parse(&self.read).map_err(|fault| self.fail(fault))? {
                Parsed::Partial => return Ok(None),
                Parsed::Final(head) => {
                    self.read.advance(head.length);
                    return Ok(Some(head));
                }
                Parsed::Interim(_) if self.interim == MAX_INTERIM => return Err(self.fail(Fault::InterimFlood)),
                Parsed::Interim(length) => {
                    self.interim += 1;
                    self.read.advance(length);
                    if !self.read.is_empty() {
                        connection_events::note_first_byte();
                    }
                }
            }
        }
        Ok(None)
    }

    /// Ends the exchange behind the last byte of the body.
    fn end_if_complete(&mut self) -> bool {
        if !matches!(&self.phase, Phase::Body(framing) if framing.is_complete()) {
            return false;
        }
        self.phase = Phase::Idle;
        // Bytes after the body belong to no call, so the connection cannot be used again.
        if self.reusable && self.read.is_empty() {
            self.socket.end();
        } else {
            self.poison();
        }
        true
    }

    /// Begins an exchange.
    fn begin(&mut self) {
        self.socket.begin();
        self.phase = Phase::Head;
        (self.interim, self.written, self.has_passed) = (0, 0, false);
    }

    /// Whether the kernel has unread bytes.
    fn has_unread(&self) -> bool {
        self.socket.stream().as_ref().is_some_and(Wire::has_unread)
    }

    fn ended_before_head(&mut self) -> io::Error {
        let fault = match head::parse(&self.read) {
            _ if self.read.is_empty() => Fault::NoAnswer,
            // Bytes without a line feed were not parsed so far.
            Err(fault) => fault,
            Ok(_) => Fault::HeadCut,
        };
        self.fail(fault)
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
        if guard.is_idle() {
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
