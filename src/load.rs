//! What the gateway carries right now, and what it turned away: bytes of request bodies, client connections, refusals.
//!
//! Only counting; who is refused is decided by `admission` and `body`. Everything is shared by all workers,
//! and whatever is counted in is a guard that counts itself out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use pointsman_actors::domain::Tick;

use crate::{clock, config::COPIES_OF_A_BODY};

/// How long after a refusal the gateway still says that it sheds load.
const SHEDDING: Duration = Duration::from_secs(5);

/// The counters, one set per process.
#[derive(Debug)]
pub struct Load {
    body_bytes: AtomicUsize,
    most_body_bytes: AtomicUsize,
    connections: AtomicUsize,
    /// Refusals, by [`Shed`].
    shed: [AtomicU64; Shed::ALL.len()],
    /// The moment of the last refusal, as a [`Tick`]; 0: never.
    last_shed: AtomicU64,
}

/// What a call was turned away for, when it was not the caller's own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// As many calls are in flight as the gateway takes.
    InFlight,
    /// All keys together sent as many requests per minute as it takes.
    RequestRate,
    /// It holds as many bytes of request bodies as it may.
    BufferedBytes,
}

impl Shed {
    /// Each of them.
    pub const ALL: [Shed; 3] = [Shed::InFlight, Shed::RequestRate, Shed::BufferedBytes];

    /// Its name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Shed::InFlight => "in_flight",
            Shed::RequestRate => "request_rate",
            Shed::BufferedBytes => "buffered_bytes",
        }
    }
}

impl Load {
    /// Nothing carried yet; request bodies may take up to `most_body_bytes` in all their copies.
    #[must_use]
    pub fn new(most_body_bytes: usize) -> Arc<Load> {
        Arc::new(Load {
            body_bytes: AtomicUsize::new(0),
            most_body_bytes: AtomicUsize::new(most_body_bytes),
            connections: AtomicUsize::new(0),
            shed: Default::default(),
            last_shed: AtomicU64::new(0),
        })
    }

    /// The same counters under another configuration; fresh ones where there are none.
    #[must_use]
    pub fn carried(most_body_bytes: usize, before: Option<&Arc<Load>>) -> Arc<Load> {
        let Some(before) = before else { return Load::new(most_body_bytes) };
        before.most_body_bytes.store(most_body_bytes, Ordering::Relaxed);
        Arc::clone(before)
    }

    /// Whether a body of `bytes` could be held right now, if nobody else came.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let held = self.body_bytes.load(Ordering::Relaxed);
        held.saturating_add(bytes.saturating_mul(COPIES_OF_A_BODY)) <= self.most_body_bytes.load(Ordering::Relaxed)
    }

    /// The count of one body, at zero.
    #[must_use]
    pub fn body(self: &Arc<Load>) -> HeldBody {
        HeldBody { load: Arc::clone(self), counted: 0 }
    }

    /// Counts a client connection as long as the guard lives.
    #[must_use]
    pub fn connection(self: &Arc<Load>) -> OpenConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Takes note of a call that was turned away.
    pub fn shed(&self, why: Shed) {
        if let Some(count) = self.shed.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.last_shed.store(clock::now().0.max(1), Ordering::Relaxed);
    }

    /// How things stand.
    #[must_use]
    pub fn read(&self) -> LoadReading {
        let last = self.last_shed.load(Ordering::Relaxed);
        LoadReading {
            body_bytes: self.body_bytes.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            shed: Shed::ALL
                .map(|why| (why, self.shed.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed)))),
            shedding: last > 0 && clock::now().since(Tick(last)) < SHEDDING,
        }
    }
}

/// How things stood at one moment.
#[derive(Debug, Clone, Copy)]
pub struct LoadReading {
    /// Bytes that request bodies count for.
    pub body_bytes: usize,
    /// Client connections.
    pub connections: usize,
    /// Calls turned away since the start.
    pub shed: [(Shed, u64); Shed::ALL.len()],
    /// Whether a call was turned away in the last few seconds.
    pub shedding: bool,
}

/// The bytes of one body, counted before they are buffered. Counted out again when dropped.
#[derive(Debug)]
pub struct HeldBody {
    load: Arc<Load>,
    counted: usize,
}

impl HeldBody {
    /// Counts `bytes` more, unless that is more than may be held.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_mul(COPIES_OF_A_BODY);
        let held = self.load.body_bytes.fetch_add(more, Ordering::Relaxed);
        if held.saturating_add(more) > self.load.most_body_bytes.load(Ordering::Relaxed) {
            self.load.body_bytes.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.counted += more;
        true
    }

    /// The same bytes, which count until their last slice is dropped.
    #[must_use]
    pub fn hold(self, body: Bytes) -> Bytes {
        if body.is_empty() { body } else { Bytes::from_owner(Held { body, _count: self }) }
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.load.body_bytes.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

struct Held {
    body: Bytes,
    _count: HeldBody,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// A client connection.
#[derive(Debug)]
pub struct OpenConnection(Arc<Load>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_counts_three_times_until_its_last_slice_is_gone() {
        let load = Load::new(30);
        let mut first = load.body();
        assert!(first.grow(6) && first.grow(2));
        assert!(load.has_room(2) && !load.has_room(3));
        let mut second = load.body();
        assert!(!second.grow(3), "32 of 30");
        assert!(second.grow(2));
        assert_eq!(load.read().body_bytes, 30);

        let body = first.hold(Bytes::from_static(b"12345678"));
        let slice = body.slice(2..4);
        drop((body, second));
        assert_eq!(load.read().body_bytes, 24);
        drop(slice);
        assert_eq!(load.read().body_bytes, 0);
    }

    #[test]
    fn a_refused_growth_leaves_nothing_behind() {
        let load = Load::new(9);
        let mut body = load.body();
        assert!(body.grow(1));
        for _ in 0..10 {
            assert!(!body.grow(usize::MAX) && !body.grow(3));
        }
        assert_eq!(load.read().body_bytes, 3);
        drop(body);
        assert_eq!(load.read().body_bytes, 0);
    }

    #[test]
    fn connections_and_refusals_are_counted() {
        clock::start();
        let load = Load::new(1);
        let open = [load.connection(), load.connection()];
        assert_eq!((load.read().connections, load.read().shedding), (2, false));
        drop(open);
        load.shed(Shed::BufferedBytes);
        let reading = load.read();
        assert_eq!((reading.connections, reading.shedding), (0, true));
        assert_eq!(reading.shed.map(|(_, count)| count), [0, 0, 1]);
    }
}
