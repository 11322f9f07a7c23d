//! Closes idle connections when their time is over.
//!
//! awc looks at the age of a kept connection only when the next call wants one; until then it would stay open, at both
//! ends. So each socket stands in a place that its guard shares with a task, one per provider and worker, which sleeps
//! until the first of them is due. What awc still holds then is an empty guard, and it throws that away.

use std::{
    cell::{Cell, RefCell, RefMut},
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

use tokio::time::sleep_until;

/// How long connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeepAlive {
    /// Without a call.
    pub(super) idle: Duration,
    /// At all, unless a call runs on it.
    pub(super) lifetime: Duration,
}

impl KeepAlive {
    /// Each serves a single call.
    pub(super) const NEVER: KeepAlive = KeepAlive { idle: Duration::ZERO, lifetime: Duration::ZERO };

    /// For longer than any test of a guard takes.
    pub(super) const LONG: KeepAlive =
        KeepAlive { idle: Duration::from_secs(3600), lifetime: Duration::from_secs(3600) };
}

/// The place of one socket.
pub(super) struct ManagedSocket<S> {
    /// `None` once it is closed.
    socket: RefCell<Option<S>>,
    opened: Instant,
    /// Since when no call runs on it.
    idle_since: Cell<Option<Instant>>,
    keeping: KeepAlive,
}

impl<S> ManagedSocket<S> {
    pub(super) fn new(socket: S, keeping: KeepAlive) -> ManagedSocket<S> {
        ManagedSocket {
            socket: RefCell::new(Some(socket)),
            opened: Instant::now(),
            idle_since: Cell::new(None),
            keeping,
        }
    }

    /// The socket, if it is still open.
    pub(super) fn socket(&self) -> RefMut<'_, Option<S>> {
        self.socket.borrow_mut()
    }

    /// Closes it.
    pub(super) fn close(&self) {
        *self.socket.borrow_mut() = None;
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.borrow().is_some()
    }

    /// A call begins on it.
    pub(super) fn begin(&self) {
        self.idle_since.set(None);
    }

    /// No call runs on it any more.
    pub(super) fn rest(&self) {
        let now = Instant::now();
        self.idle_since.set(Some(now));
        if self.due(now) <= now {
            self.close();
        }
    }

    /// When its time is over, as far as can be told now: a call that runs may end at any moment.
    fn due(&self, now: Instant) -> Instant {
        let by_idling = self.idle_since.get().unwrap_or(now) + self.keeping.idle;
        let by_age = self.opened + self.keeping.lifetime;
        match self.idle_since.get() {
            // Older than it may become, it is closed as soon as its call ends.
            None if by_age <= now => by_idling,
            _ => by_idling.min(by_age),
        }
    }

    /// Closes it if its time is over, and else says when that may be.
    fn look(&self, now: Instant) -> Option<Instant> {
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

/// The sockets that one connector opened.
pub(super) struct SocketPool<S> {
    keeping: KeepAlive,
    places: RefCell<Vec<Weak<ManagedSocket<S>>>>,
    watched: Cell<bool>,
}

impl<S: 'static> SocketPool<S> {
    pub(super) fn new(keeping: KeepAlive) -> Rc<SocketPool<S>> {
        Rc::new(SocketPool { keeping, places: RefCell::default(), watched: Cell::new(false) })
    }

    pub(super) fn keeping(&self) -> KeepAlive {
        self.keeping
    }

    /// A place for a new socket, on which a call is about to begin. From now on it is watched.
    pub(super) fn admit(self: &Rc<Self>, socket: S) -> Rc<ManagedSocket<S>> {
        let place = Rc::new(ManagedSocket::new(socket, self.keeping));
        if self.keeping.idle.is_zero() {
            return place;
        }
        let mut places = self.places.borrow_mut();
        if places.len() == places.capacity() {
            // Before it grows: those whose guard is gone need no place.
            places.retain(|place| place.strong_count() > 0);
        }
        places.push(Rc::downgrade(&place));
        if !self.watched.replace(true) {
            actix_rt::spawn(watch(Rc::downgrade(self)));
        }
        place
    }

    /// Closes what is due; gives the moment to look again, if anything is open.
    fn close_due(&self, now: Instant) -> Option<Instant> {
        let mut next = None;
        self.places.borrow_mut().retain(|place| {
            let Some(due) = place.upgrade().and_then(|place| place.look(now)) else { return false };
            next = Some(next.map_or(due, |next: Instant| next.min(due)));
            true
        });
        self.watched.set(next.is_some());
        next
    }
}

/// Ends when none is open; the next one that is opened begins anew.
async fn watch<S: 'static>(sockets: Weak<SocketPool<S>>) {
    while let Some(next) = sockets.upgrade().and_then(|sockets| sockets.close_due(Instant::now())) {
        sleep_until(next.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEPING: KeepAlive = KeepAlive { idle: Duration::from_secs(10), lifetime: Duration::from_secs(60) };

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_socket_is_closed_once_its_time_without_a_call_is_over_and_not_before() {
        let place = ManagedSocket::new((), KEEPING);
        place.rest();
        let rested = place.idle_since.get().unwrap();
        assert_eq!(place.look(rested + seconds(9)), Some(rested + seconds(10)));
        assert!(place.is_open());
        assert_eq!(place.look(rested + seconds(10)), None);
        assert!(!place.is_open());
    }

    #[test]
    fn a_socket_with_a_call_on_it_is_never_closed() {
        let place = ManagedSocket::new((), KEEPING);
        place.begin();
        for later in [1, 59, 61, 1000] {
            let now = place.opened + seconds(later);
            assert!(place.look(now).is_some_and(|due| due > now), "looked at again, but not at once");
        }
        assert!(place.is_open());
    }

    #[test]
    fn a_socket_is_closed_at_its_age_however_short_it_has_rested() {
        let mut place = ManagedSocket::new((), KEEPING);
        place.rest();
        place.opened -= seconds(55);
        let now = place.idle_since.get().unwrap();
        assert_eq!(place.look(now), Some(place.opened + seconds(60)));
        place.opened -= seconds(6);
        place.rest();
        assert!(!place.is_open(), "as soon as its call has ended");
    }

    #[test]
    fn a_socket_for_a_single_call_is_closed_behind_it() {
        let place = ManagedSocket::new((), KeepAlive::NEVER);
        place.begin();
        assert!(place.is_open());
        place.rest();
        assert!(!place.is_open());
    }

    #[actix_web::test]
    async fn sockets_whose_guards_are_gone_are_forgotten() {
        let sockets = SocketPool::new(KEEPING);
        for _ in 0..10_000 {
            drop(sockets.admit(()));
        }
        assert!(sockets.places.borrow().capacity() < 64);
    }
}
