//! Answers that come while their request is still being written.
//!
//! awc writes the whole request before it reads. An upstream that refuses early and hangs up would so be remembered
//! for its reset, one that refuses and stops reading for the time it took, and never for what it said.

use std::{
    io,
    task::{Context, Poll},
};

use tokio::io::ReadBuf;

use super::{Guard, Phase, Wire, probe};

/// How much is read at a time.
const EARLY_READ: usize = 2048;

/// What came while a request was still being written.
enum EarlyAnswer {
    Nothing,
    /// The upstream does not want the request: nothing more need be written.
    Refusal,
    /// An answer to half a request. It may wait until the rest is written.
    Answer,
}

impl<S: Wire> Guard<S> {
    /// Looks, while a request is being written, whether its answer is here already.
    fn look_for_answer(&mut self, cx: &mut Context<'_>) -> io::Result<EarlyAnswer> {
        if !matches!(self.phase, Phase::Head) {
            return Ok(if self.refused { EarlyAnswer::Refusal } else { EarlyAnswer::Answer });
        }
        while self.found.is_none() {
            let mut space = [0; EARLY_READ];
            let mut buf = ReadBuf::new(&mut space);
            match self.poll_wire(cx, &mut buf) {
                Poll::Pending => return Ok(EarlyAnswer::Nothing),
                Poll::Ready(Ok(0)) => return Err(self.ended_before_head()),
                Poll::Ready(outcome) => outcome?,
            };
            if self.held.is_empty() {
                probe::note_first_byte();
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

    /// What a write comes to that could not be done now, or at all. A refused one counts as done.
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
            Poll::Pending => match self.look_for_answer(cx) {
                Ok(EarlyAnswer::Refusal) => Poll::Ready(Ok(done)),
                Ok(EarlyAnswer::Nothing | EarlyAnswer::Answer) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    /// After a failed write: waits for a refusal as long as there is anything left to read, then gives the error.
    pub(super) fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.look_for_answer(cx) {
            Ok(EarlyAnswer::Refusal) => {
                self.broken = None;
                return Poll::Ready(Ok(()));
            }
            // The kernel has more than the runtime knows of; its next look will wake us.
            Ok(EarlyAnswer::Nothing) if self.has_unread() => return Poll::Pending,
            // The first error tells more than what was met while looking.
            Ok(_) | Err(_) => {}
        }
        let error = self.broken.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        self.poison();
        Poll::Ready(Err(error))
    }
}
