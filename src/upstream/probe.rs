//! What an attempt's sockets saw, and when.
//!
//! awc hides its connections, so the connector and the guard note what happens into a task-local cell that the client
//! sets around each attempt. Outside of an attempt (awc checking an idle connection, say) the notes go nowhere.

use std::{
    cell::Cell,
    pin::Pin,
    time::{Duration, Instant},
};

use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    pub(super) static PROBE: Probe;
}

/// The notes of one attempt.
#[derive(Debug, Default)]
pub(super) struct Probe {
    fresh: Cell<bool>,
    written: Cell<bool>,
    connect: Cell<Option<Duration>>,
    tls: Cell<Option<Duration>>,
    first_byte: Cell<Option<Instant>>,
}

impl Probe {
    /// Whether a connection was opened, or at least tried, for this attempt.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh.get()
    }

    /// Whether any byte of the request may have left: from then on the provider may be at work on it.
    pub(super) fn is_written(&self) -> bool {
        self.written.get()
    }

    fn phases(&self, begun: Instant) -> Phases {
        Phases {
            sent: self.written.get(),
            connect: self.connect.get(),
            tls: self.tls.get(),
            first_byte: self.first_byte.get().map(|moment| moment.duration_since(begun)),
        }
    }
}

/// How far an attempt came on its way to a head, however it ended: also when nobody waited for it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// Whether any byte of the request may have left.
    pub sent: bool,
    /// Name resolution and TCP handshake; `None` on a reused connection, or when they did not come to an end.
    pub connect: Option<Duration>,
    /// TLS handshake; `None` without one, or when it did not come to an end.
    pub tls: Option<Duration>,
    /// First byte of the answer's head at the socket, since the call.
    pub first_byte: Option<Duration>,
}

/// An attempt whose notes are told once: when they are taken, or when it is dropped before.
pub(super) struct ProbedSend<'a, F, N: Fn(Phases)> {
    /// The attempt itself.
    pub(super) sending: Pin<&'a mut TaskLocalFuture<Probe, F>>,
    /// When it began.
    pub(super) begun: Instant,
    /// Hears of them.
    pub(super) note: &'a N,
}

impl<F, N: Fn(Phases)> ProbedSend<'_, F, N> {
    /// The notes; empty ones when they were taken before.
    pub(super) fn take(&mut self) -> Probe {
        let Some(probe) = self.sending.as_mut().take_value() else { return Probe::default() };
        (self.note)(probe.phases(self.begun));
        probe
    }
}

impl<F, N: Fn(Phases)> Drop for ProbedSend<'_, F, N> {
    fn drop(&mut self) {
        self.take();
    }
}

/// A connection is being opened.
pub(super) fn note_connecting() {
    let _ = PROBE.try_with(|probe| probe.fresh.set(true));
}

/// The TCP connection stands.
pub(super) fn note_connected(took: Duration) {
    let _ = PROBE.try_with(|probe| probe.connect.set(Some(took)));
}

/// The TLS session stands.
pub(super) fn note_secured(took: Duration) {
    let _ = PROBE.try_with(|probe| probe.tls.set(Some(took)));
}

/// Bytes of the request leave, or may have left.
pub(super) fn note_written() {
    let _ = PROBE.try_with(|probe| probe.written.set(true));
}

/// The first bytes of a head arrived. A head that follows an interim one overwrites the moment.
pub(super) fn note_first_byte() {
    let _ = PROBE.try_with(|probe| probe.first_byte.set(Some(Instant::now())));
}
