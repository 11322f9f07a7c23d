//! Answers that arrive while their request is still being written.
//!
//! A request is written whole before its answer is read. Without this module, a provider that rejects one early and closes the
//! connection would count as a reset, and one that rejects it and stops reading as a timeout.

use std::{
    io,
    task::{Context, Poll},
};

use tokio::io::ReadBuf;

use super::{Guard, Phase, Wire, connection_events};

/// Bytes per read.
const EARLY_READ: usize = 2048;

/// Answer that arrived while the request was still being written.
enum EarlyAnswer {
    None,
    /// A status of 300 or more: the rest of the request need not be written.
    Refusal,
    /// Another answer. It is held until the request is written.
    Answer,
}

impl<S: Wire> Guard<S> {
    /// Reads an answer that arrived while its request is being written.
    fn read_early_answer(&mut self, cx: &mut Context<'_>) -> io::Result<EarlyAnswer> {
        if !matches!(self.phase, Phase::Head) {
            return Ok(if self.refused { EarlyAnswer::Refusal } else { EarlyAnswer::Answer });
        }
        while self.found.is_none() {
            let mut space = [0; EARLY_READ];
            let mut buf = ReadBuf::new(&mut space);
            match self.poll_wire(cx, &mut buf) {
                Poll::Pending => return Ok(EarlyAnswer::None),
                Poll::Ready(Ok(0)) => return Err(self.ended_before_head()),
                Poll::Ready(outcome) => outcome?,
            };
            if self.held.is_empty() {
                connection_events::note_first_byte();
            }
            self.found = self.hold(buf.filled())?;
        }
        match self.found.take_if(|head| head.status >= 300) {
            None => Ok(EarlyAnswer::Answer),
            Some(head) => {
                self.refused = true;
                self.pass_held(head)?;
                Ok(EarlyAnswer::Refusal)
            }
        }
    }

    /// Result of a write or flush. If it failed or is pending, an early rejection makes it count as `done`.
    pub(super) fn settle<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
        done: T,
    ) -> Poll<io::Result<T>> {
        match outcome {
            Poll::Ready(Ok(done)) => Poll::Ready(Ok(done)),
            Poll::Ready(Err(error)) => {
                self.broken = Some(error);
                self.poll_broken(cx).map_ok(|()| done)
            }
            Poll::Pending => match self.read_early_answer(cx) {
                Ok(EarlyAnswer::Refusal) => Poll::Ready(Ok(done)),
                Ok(EarlyAnswer::None | EarlyAnswer::Answer) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    /// After a failed write: waits for a rejection as long as there are unread bytes, then returns the error.
    pub(super) fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.read_early_answer(cx) {
            Ok(EarlyAnswer::Refusal) => {
                self.broken = None;
                return Poll::Ready(Ok(()));
            }
            // The runtime wakes this task once it polls the socket.
            Ok(EarlyAnswer::None) if self.has_unread() => return Poll::Pending,
            // The error of the write says more than a later one of the read.
            Ok(_) | Err(_) => {}
        }
        let error = self.broken.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        self.poison();
        Poll::Ready(Err(error))
    }
}
