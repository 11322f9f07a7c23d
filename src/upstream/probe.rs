//! What an attempt's sockets saw, and when.
//!
//! awc hides its connections, so the connector and the guard note what happens into a task-local cell that the client
//! sets around each attempt. Outside of an attempt (awc checking an idle connection, say) the notes go nowhere.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

tokio::task_local! {
    pub(super) static PROBE: Probe;
}

/// The notes of one attempt.
#[derive(Debug, Default)]
pub(super) struct Probe {
    fresh: Cell<bool>,
    connect: Cell<Option<Duration>>,
    tls: Cell<Option<Duration>>,
    answered: Cell<bool>,
    first_byte: Cell<Option<Instant>>,
}

impl Probe {
    /// Whether a connection was opened, or at least tried, for this attempt.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh.get()
    }

    /// Whether the upstream sent anything at all.
    pub(super) fn is_answered(&self) -> bool {
        self.answered.get()
    }

    /// The timing of an attempt that began at `begun` and whose head is complete now.
    pub(super) fn timing(&self, begun: Instant, retried: bool) -> Timing {
        let head = begun.elapsed();
        let first_byte = self.first_byte.get().map_or(head, |moment| moment.duration_since(begun));
        Timing {
            reused: !self.fresh.get(),
            retried,
            connect: self.connect.get(),
            tls: self.tls.get(),
            first_byte,
            head,
        }
    }
}

/// How an attempt that was answered spent its time; each duration but the first two counts from the call of `send`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Whether the connection had served before.
    pub reused: bool,
    /// Whether a reused connection had died and a fresh one took over.
    pub retried: bool,
    /// Name resolution and TCP handshake; `None` on a reused connection.
    pub connect: Option<Duration>,
    /// TLS handshake; `None` without one.
    pub tls: Option<Duration>,
    /// First byte of the answer's head at the socket, interim heads aside.
    pub first_byte: Duration,
    /// The head was complete.
    pub head: Duration,
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

/// The first bytes of a head arrived. A head that follows an interim one overwrites the moment.
pub(super) fn note_first_byte() {
    let _ = PROBE.try_with(|probe| {
        probe.answered.set(true);
        probe.first_byte.set(Some(Instant::now()));
    });
}
