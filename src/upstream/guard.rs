//! Sits between awc and a socket and lets only regular HTTP/1.1 answers pass.
//!
//! awc takes an interim head for the answer, a cut body for a whole one, and stray bytes for the next answer. The
//! guard reads along: it drops interim heads, checks the framing, turns an early end into an error, and after anything
//! irregular closes the socket at once and reports its end, so that awc's pool throws the connection away.
//!
//! Body bytes go from the socket into awc's buffer and are only counted. A head is held back until it is complete; one
//! that arrives in a single read, as nearly all do, is examined in place.
//!
//! On the writing side it cures one thing: an upstream may refuse a large request before it has read it (413, say).
//! awc would write on, meet a reset and lose the status. The guard notices the refusal and swallows the rest of the
//! request, so that awc goes on to read.

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

use actix_rt::net::{ActixStream, Ready};
use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(super) use self::fault::Fault;
use self::{
    framing::Framing,
    head::{Head, Parsed},
};
use super::{idle::ManagedSocket, probe};

/// Most interim heads before an answer.
const MAX_INTERIM: u8 = 8;

/// A refusal of a request larger than this ends the connection: it may have come before the request was read, and
/// what the upstream makes of the rest is its own affair.
const MAX_REFUSED: usize = 64 * 1024;

/// What the guard can sit on.
pub(super) trait Wire: ActixStream {
    /// Whether the peer sent something, or closed, that nobody has read yet. Must not be fooled by a runtime that has
    /// not looked at the socket for a while.
    fn has_unread(&self) -> bool;
}

/// A guarded connection.
pub(super) struct Guard<S> {
    /// Where the socket stands. It is closed there once it is not to be used any more, be it by a clock while it idles.
    place: Rc<ManagedSocket<S>>,
    phase: Phase,
    /// Bytes of a head that is not complete, or not yet asked for.
    held: BytesMut,
    /// The complete head in `held`, which waits until its request is written.
    found: Option<Head>,
    /// Examined bytes that awc has not fetched yet.
    passed: BytesMut,
    /// Interim heads dropped in this exchange.
    interim: u8,
    /// Bytes of this exchange's request.
    written: usize,
    /// Whether a further exchange may follow this one.
    reusable: bool,
    /// The upstream answered before it had the whole request: what is still written goes nowhere.
    refused: bool,
    /// Why nothing can be written any more, while it is not yet known whether the upstream said why.
    broken: Option<io::Error>,
    /// Whether an exchange has begun on this connection before.
    used: bool,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is expected; the next write begins an exchange.
    Idle,
    /// A request is on its way and its answer's head not here.
    Head,
    /// The head has passed.
    Body(Framing),
}

impl<S: Wire> Guard<S> {
    pub(super) fn new(place: Rc<ManagedSocket<S>>) -> Guard<S> {
        Guard {
            place,
            phase: Phase::Idle,
            held: BytesMut::new(),
            found: None,
            passed: BytesMut::new(),
            interim: 0,
            written: 0,
            reusable: true,
            refused: false,
            broken: None,
            used: false,
        }
    }

    /// Closes the socket. From now on reads report its end.
    fn poison(&mut self) {
        self.place.close();
        self.held = BytesMut::new();
        self.found = None;
    }

    fn fail(&mut self, fault: Fault) -> io::Error {
        self.poison();
        fault.into()
    }

    /// Reads from the socket; no bytes mean its end.
    fn poll_wire(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        let outcome = match self.place.socket().as_mut() {
            Some(wire) => ready!(Pin::new(wire).poll_read(cx, buf)),
            None => return Poll::Ready(Ok(0)),
        };
        if outcome.is_err() {
            self.poison();
        }
        Poll::Ready(outcome.map(|()| buf.filled().len() - before))
    }

    /// awc asks, between two exchanges, whether the connection is still good: only silence is.
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
                probe::note_first_byte();
                let parsed = head::parse(unread(buf, start)).map_err(|fault| self.fail(fault))?;
                if let Parsed::Final(head) = parsed {
                    return Poll::Ready(self.pass_in_place(head, buf, start));
                }
            }
            complete = self.hold(unread(buf, start))?;
            buf.set_filled(start);
        }
    }

    /// Keeps bytes of a head until it is complete.
    fn hold(&mut self, bytes: &[u8]) -> io::Result<Option<Head>> {
        let first = self.held.is_empty();
        self.held.extend_from_slice(bytes);
        // Heads end with a line: without this, one that trickles in would be read again for each of its bytes.
        let worth_a_look = first || bytes.contains(&b'\n') || self.held.len() > head::MAX_HEAD;
        if worth_a_look { self.examine_held() } else { Ok(None) }
    }

    /// Drops interim heads from the held bytes; gives the answer's own head once it is all there.
    fn examine_held(&mut self) -> io::Result<Option<Head>> {
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
                        probe::note_first_byte();
                    }
                }
                Err(fault) => return Err(self.fail(fault)),
            }
        }
    }

    /// Lets a head pass that stands, with the start of its body, in awc's own buffer.
    fn pass_in_place(&mut self, head: Head, buf: &mut ReadBuf<'_>, start: usize) -> io::Result<()> {
        let (length, downgrade) = (head.length, head.downgrade);
        let body = unread(buf, start + length);
        let end = start + length + self.begin_body(head, body)?;
        if let Some(version) = downgrade.and_then(|at| buf.filled_mut().get_mut(start + at)) {
            *version = b'0';
        }
        buf.set_filled(end);
        Ok(())
    }

    /// Lets a head pass that came in pieces.
    fn pass_held(&mut self, head: Head) -> io::Result<()> {
        let mut answer = std::mem::take(&mut self.held);
        let (length, downgrade) = (head.length, head.downgrade);
        let body = answer.get(length..).unwrap_or_default();
        let end = length + self.begin_body(head, body)?;
        if let Some(version) = downgrade.and_then(|at| answer.get_mut(at)) {
            *version = b'0';
        }
        answer.truncate(end);
        self.passed = answer;
        Ok(())
    }

    fn begin_body(&mut self, head: Head, body: &[u8]) -> io::Result<usize> {
        self.reusable = head.reusable && !self.refused && (head.status == 200 || self.written <= MAX_REFUSED);
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

    /// Counts bytes of the body; says how many of them belong to it, and ends the exchange after the last one.
    fn count(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Phase::Body(framing) = &mut self.phase else { return Ok(0) };
        let counted = framing.advance(bytes);
        let complete = framing.is_complete();
        let counted = counted.map_err(|fault| self.fail(fault))?;
        if complete {
            self.phase = Phase::Idle;
            // Bytes after the body belong to nobody: not to this call, and least of all to the next one.
            if !self.reusable || counted < bytes.len() {
                self.poison();
            } else {
                self.place.rest();
            }
        }
        Ok(counted)
    }

    /// Gives awc what has been examined, as far as it has room.
    fn hand_over(&mut self, buf: &mut ReadBuf<'_>) {
        let length = self.passed.len().min(buf.remaining());
        buf.put_slice(self.passed.get(..length).unwrap_or_default());
        self.passed.advance(length);
    }

    /// Begins an exchange, if the connection is still as clean as it was left.
    fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.place.begin();
        if self.used {
            let mut stray = [0; 1];
            if self.poll_wire(cx, &mut ReadBuf::new(&mut stray)).is_ready() {
                return Poll::Ready(Err(self.fail(Fault::Stale)));
            }
            if self.has_unread() {
                // The runtime will learn of it at its next look and wake us; TLS may also find that it was nothing.
                return Poll::Pending;
            }
        }
        self.used = true;
        self.phase = Phase::Head;
        (self.interim, self.written) = (0, 0);
        Poll::Ready(Ok(()))
    }

    /// Whether the kernel has more than the runtime knows of.
    fn has_unread(&self) -> bool {
        self.place.socket().as_ref().is_some_and(Wire::has_unread)
    }

    fn ended_before_head(&mut self) -> io::Error {
        let fault = match head::parse(&self.held) {
            _ if self.held.is_empty() => Fault::NoAnswer,
            // Noise that came in pieces and without a line's end was not looked at so far.
            Err(fault) => fault,
            Ok(_) => Fault::HeadCut,
        };
        self.fail(fault)
    }
}

/// What was read into `buf` after its first `start` bytes.
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
            ready!(guard.poll_begin(cx))?;
        }
        let written = match guard.place.socket().as_mut() {
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
        let flushed = match guard.place.socket().as_mut().filter(|_| !guard.refused) {
            Some(wire) => Pin::new(wire).poll_flush(cx),
            None => return Poll::Ready(Ok(())),
        };
        guard.settle(cx, flushed, ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut().place.socket().as_mut() {
            Some(wire) => Pin::new(wire).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S: Wire> ActixStream for Guard<S> {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        self.place.socket().as_ref().map_or(Poll::Ready(Ok(Ready::READ_CLOSED)), |wire| wire.poll_read_ready(cx))
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        self.place.socket().as_ref().map_or(Poll::Ready(Ok(Ready::WRITE_CLOSED)), |wire| wire.poll_write_ready(cx))
    }
}

impl<S> fmt::Debug for Guard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("phase", &self.phase).field("open", &self.place.is_open()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
