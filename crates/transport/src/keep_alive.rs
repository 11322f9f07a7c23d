//! Closes connections that are idle for too long or too old.
//!
//! The guard of each socket shares it with a task, one per provider and worker, that sleeps until the first socket is due. The
//! connector then holds an empty guard, which the next call discards.

use std::{
    cell::{Cell, RefCell, RefMut},
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

use tokio::time::sleep_until;

/// How long connections are kept open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeepAlive {
    /// Longest time without a call.
    pub(super) idle: Duration,
    /// Longest age. A running call may still finish.
    pub(super) lifetime: Duration,
}

impl KeepAlive {
    /// Each connection serves a single call.
    pub(super) const NEVER: KeepAlive = KeepAlive { idle: Duration::ZERO, lifetime: Duration::ZERO };

    /// Longer than any test of a guard runs.
    pub(super) const LONG: KeepAlive =
        KeepAlive { idle: Duration::from_secs(3600), lifetime: Duration::from_secs(3600) };
}

/// A socket that can be closed while its guard is kept.
pub(super) struct ManagedSocket<S> {
    /// `None` once closed.
    stream: RefCell<Option<S>>,
    opened: Instant,
    /// End of the last call, while none runs.
    idle_since: Cell<Option<Instant>>,
    keep_alive: KeepAlive,
}

impl<S> ManagedSocket<S> {
    pub(super) fn new(stream: S, keep_alive: KeepAlive) -> ManagedSocket<S> {
        ManagedSocket {
            stream: RefCell::new(Some(stream)),
            opened: Instant::now(),
            idle_since: Cell::new(None),
            keep_alive,
        }
    }

    /// The stream; `None` if the socket is closed.
    pub(super) fn stream(&self) -> RefMut<'_, Option<S>> {
        self.stream.borrow_mut()
    }

    /// Closes the socket.
    pub(super) fn close(&self) {
        *self.stream.borrow_mut() = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.stream.borrow().is_some()
    }

    /// Marks the start of a call.
    pub(super) fn begin(&self) {
        self.idle_since.set(None);
    }

    /// Marks the end of a call.
    pub(super) fn end(&self) {
        let now = Instant::now();
        self.idle_since.set(Some(now));
        if self.due(now) <= now {
            self.close();
        }
    }

    /// Earliest time at which the socket is to be closed, if a running call ends now.
    fn due(&self, now: Instant) -> Instant {
        let by_idle_time = self.idle_since.get().unwrap_or(now) + self.keep_alive.idle;
        let by_age = self.opened + self.keep_alive.lifetime;
        match self.idle_since.get() {
            // Too old already: `end` closes it.
            None if by_age <= now => by_idle_time,
            _ => by_idle_time.min(by_age),
        }
    }

    /// Closes the socket if it is due. Otherwise returns the time of the next check; `None` if it is closed.
    fn check(&self, now: Instant) -> Option<Instant> {
        if !self.is_open() {
            return None;
        }
        let due = self.due(now);
        if self.idle_since.get().is_some() && due <= now {
            self.close();
            return None;
        }
        Some(due)
    }
}

/// The sockets of one connector.
pub(super) struct SocketPool<S> {
    keep_alive: KeepAlive,
    sockets: RefCell<Vec<Weak<ManagedSocket<S>>>>,
    /// Whether the task runs.
    watched: Cell<bool>,
}

impl<S: 'static> SocketPool<S> {
    pub(super) fn new(keep_alive: KeepAlive) -> Rc<SocketPool<S>> {
        Rc::new(SocketPool { keep_alive, sockets: RefCell::default(), watched: Cell::new(false) })
    }

    /// Adds a new socket, on which a call is about to begin, and starts the task if it does not run.
    pub(super) fn admit(self: &Rc<Self>, stream: S) -> Rc<ManagedSocket<S>> {
        let socket = Rc::new(ManagedSocket::new(stream, self.keep_alive));
        if self.keep_alive.idle.is_zero() {
            return socket;
        }
        let mut sockets = self.sockets.borrow_mut();
        if sockets.len() == sockets.capacity() {
            // Removes sockets whose guard is gone before the list grows.
            sockets.retain(|socket| socket.strong_count() > 0);
        }
        sockets.push(Rc::downgrade(&socket));
        if !self.watched.replace(true) {
            actix_rt::spawn(watch(Rc::downgrade(self)));
        }
        socket
    }

    /// Closes the sockets that are due. Returns the time of the next check; `None` if no socket is open.
    fn close_due(&self, now: Instant) -> Option<Instant> {
        let mut next = None;
        self.sockets.borrow_mut().retain(|socket| {
            let Some(due) = socket.upgrade().and_then(|socket| socket.check(now)) else { return false };
            next = Some(next.map_or(due, |next: Instant| next.min(due)));
            true
        });
        self.watched.set(next.is_some());
        next
    }
}

/// Closes sockets when they are due. Ends when none is open; `admit` starts it again.
async fn watch<S: 'static>(sockets: Weak<SocketPool<S>>) {
    while let Some(next) = sockets.upgrade().and_then(|sockets| sockets.close_due(Instant::now())) {
        sleep_until(next.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP_ALIVE: KeepAlive = KeepAlive { idle: Duration::from_secs(10), lifetime: Duration::from_secs(60) };

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn an_idle_socket_is_closed_after_its_idle_time_and_not_before() {
        let socket = ManagedSocket::new((), KEEP_ALIVE);
        socket.end();
        let idle_since = socket.idle_since.get().unwrap();
        assert_eq!(socket.check(idle_since + seconds(9)), Some(idle_since + seconds(10)));
        assert!(socket.is_open());
        assert_eq!(socket.check(idle_since + seconds(10)), None);
        assert!(!socket.is_open());
    }

    #[test]
    fn a_socket_with_a_call_on_it_is_never_closed() {
        let socket = ManagedSocket::new((), KEEP_ALIVE);
        socket.begin();
        for later in [1, 59, 61, 1000] {
            let now = socket.opened + seconds(later);
            assert!(socket.check(now).is_some_and(|due| due > now), "checked again, but not at once");
        }
        assert!(socket.is_open());
    }

    #[test]
    fn a_socket_is_closed_at_its_longest_age_even_if_it_was_used_just_before() {
        let mut socket = ManagedSocket::new((), KEEP_ALIVE);
        socket.end();
        socket.opened -= seconds(55);
        let now = socket.idle_since.get().unwrap();
        assert_eq!(socket.check(now), Some(socket.opened + seconds(60)));
        socket.opened -= seconds(6);
        socket.end();
        assert!(!socket.is_open(), "as soon as its call has ended");
    }

    #[test]
    fn a_socket_for_a_single_call_is_closed_after_it() {
        let socket = ManagedSocket::new((), KeepAlive::NEVER);
        socket.begin();
        assert!(socket.is_open());
        socket.end();
        assert!(!socket.is_open());
    }

    #[actix_web::test]
    async fn sockets_whose_guards_are_gone_are_removed() {
        let sockets = SocketPool::new(KEEP_ALIVE);
        for _ in 0..10_000 {
            drop(sockets.admit(()));
        }
        assert!(sockets.sockets.borrow().capacity() < 64);
    }
}
