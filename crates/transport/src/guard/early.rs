//! Answers that arrive while their request is still being written.
//!
//! A request is written whole before its answer is read. Without this module, a provider that rejects one early and closes the
//! connection would count as a reset, and one that rejects it and stops reading as a timeout.

use std::{
    io,
    task::{Context, Poll},
};

use super::{Guard, Wire};

impl<S: Wire> Guard<S> {
    /// Whether the provider has rejected the request, by a status of 300 or more. Another answer is held until the request is
    /// written.
    fn read_rejection(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if let Poll::Ready(found) = self.poll_found(cx) {
            found?;
        }
        self.refused = self.found.as_ref().is_some_and(|head| head.status.as_u16() >= 300);
        Ok(self.refused)
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
            Poll::Pending => match self.read_rejection(cx) {
                Ok(true) => Poll::Ready(Ok(done)),
                Ok(false) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    /// After a failed write: waits for a rejection as long as there are unread bytes, then returns the error.
    pub(super) fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.read_rejection(cx) {
            Ok(true) => {
                self.broken = None;
                return Poll::Ready(Ok(()));
            }
            // The runtime wakes this task once it polls the socket.
            Ok(false) if self.found.is_none() && self.has_unread() => return Poll::Pending,
            // The error of the write says more than a later one of the read.
            Ok(_) | Err(_) => {}
        }
        let error = self.broken.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        self.poison();
        Poll::Ready(Err(error))
    }
}
