//! Times and events of an attempt's connection.
//!
//! The connector, the guard and the socket write to a task-local value that the client sets around each attempt. Events
//! outside of an attempt are discarded.

use std::{
    cell::Cell,
    pin::Pin,
    time::{Duration, Instant},
};

use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    pub(super) static EVENTS: ConnectionEvents;
}

/// Events of one attempt.
#[derive(Debug, Default)]
pub(super) struct ConnectionEvents {
    written: Cell<bool>,
    connect: Cell<Option<Duration>>,
    tls: Cell<Option<Duration>>,
    first_byte: Cell<Option<Instant>>,
}

impl ConnectionEvents {
    /// Whether any byte of the request may have been sent. The provider may then work on it.
    pub(super) fn is_written(&self) -> bool {
        self.written.get()
    }

    fn phases(&self, started: Instant) -> Phases {
        Phases {
            sent: self.written.get(),
            connect: self.connect.get(),
            tls: self.tls.get(),
            first_byte: self.first_byte.get().map(|time| time.duration_since(started)),
        }
    }
}

/// Durations of the phases of an attempt before the head of its answer. Also known for an attempt that was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// Whether any byte of the request may have been sent.
    pub sent: bool,
    /// Name resolution and TCP handshake. `None` on a reused connection, or if they did not complete.
    pub connect: Option<Duration>,
    /// TLS handshake. `None` without TLS, or if it did not complete.
    pub tls: Option<Duration>,
    /// From the start of the call to the first byte of the head.
    pub first_byte: Option<Duration>,
}

/// A send whose phases are reported once: by `take`, or when it is dropped before.
pub(super) struct ObservedSend<'a, F, N: Fn(Phases)> {
    /// The future that sends the request.
    pub(super) sending: Pin<&'a mut TaskLocalFuture<ConnectionEvents, F>>,
    /// Start of the attempt.
    pub(super) started: Instant,
    /// Called with the phases.
    pub(super) observe: &'a N,
}

impl<F, N: Fn(Phases)> ObservedSend<'_, F, N> {
    /// The events; none if they were taken before.
    pub(super) fn take(&mut self) -> ConnectionEvents {
        let Some(events) = self.sending.as_mut().take_value() else { return ConnectionEvents::default() };
        (self.observe)(events.phases(self.started));
        events
    }
}

impl<F, N: Fn(Phases)> Drop for ObservedSend<'_, F, N> {
    fn drop(&mut self) {
        self.take();
    }
}

/// The TCP connection is open.
pub(super) fn note_connected(duration: Duration) {
    let _ = EVENTS.try_with(|events| events.connect.set(Some(duration)));
}

/// The TLS session is established.
pub(super) fn note_secured(duration: Duration) {
    let _ = EVENTS.try_with(|events| events.tls.set(Some(duration)));
}

/// Bytes of the request may have been sent.
pub(super) fn note_written() {
    let _ = EVENTS.try_with(|events| events.written.set(true));
}

/// The first bytes of a head arrived. A head after an interim one overwrites the time.
pub(super) fn note_first_byte() {
    let _ = EVENTS.try_with(|events| events.first_byte.set(Some(Instant::now())));
}
