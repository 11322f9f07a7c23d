//! Load counters: buffered bytes of requests and answers, client connections, refused calls.
//!
//! This module only counts; `admission`, `body` and `dispatch` decide which calls are refused. All workers share the
//! counters. A guard counts up when it is made and down when it is dropped. `share` divides the bytes among keys.

mod share;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use pointsman_actors::domain::Tick;

pub use self::share::{Full, Held, Pieces, Room, Share};
use crate::base::{
    clock,
    load_reading::{LoadReading, Shed},
};

/// Time after a refusal in which the gateway reports that it sheds load.
const SHEDDING: Duration = Duration::from_secs(5);

/// The counters, one set per process.
#[derive(Debug)]
pub struct Load {
    held_bytes: AtomicUsize,
    most_bytes: AtomicUsize,
    /// Bytes that each key may hold while the gateway is below its limit.
    least_share: AtomicUsize,
    connections: AtomicUsize,
    /// Refusals, by [`Shed`].
    shed: [AtomicU64; Shed::ALL.len()],
    /// Time of the last refusal, as a [`Tick`]; 0: never.
    last_shed: AtomicU64,
}

impl Load {
    /// Counters at zero, with the byte limits of `room`.
    #[must_use]
    pub fn new(room: Room) -> Arc<Load> {
        Arc::new(Load {
            held_bytes: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(room.most),
            least_share: AtomicUsize::new(room.least_share),
            connections: AtomicUsize::new(0),
            shed: Default::default(),
            last_shed: AtomicU64::new(0),
        })
    }

    /// The counters of `before` with the limits of `room`; new counters without `before`.
    #[must_use]
    pub fn carried(room: Room, before: Option<&Arc<Load>>) -> Arc<Load> {
        let Some(before) = before else { return Load::new(room) };
        before.most_bytes.store(room.most, Ordering::Relaxed);
        before.least_share.store(room.least_share, Ordering::Relaxed);
        Arc::clone(before)
    }

    /// Counts a client connection until the guard is dropped.
    #[must_use]
    pub fn connection(self: &Arc<Load>) -> OpenConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Counts a refused call.
    pub fn shed(&self, why: Shed) {
        if let Some(count) = self.shed.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.last_shed.store(clock::now().0.max(1), Ordering::Relaxed);
    }

    /// Current values of the counters.
    #[must_use]
    pub fn read(&self) -> LoadReading {
        let last = self.last_shed.load(Ordering::Relaxed);
        LoadReading {
            held_bytes: self.held_bytes.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            shed: Shed::ALL
                .map(|why| (why, self.shed.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed)))),
            shedding: last > 0 && clock::now().since(Tick(last)) < SHEDDING,
        }
    }
}

/// Guard that counts one client connection.
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
    fn connections_and_refusals_are_counted() {
        clock::start();
        let load = Load::new(Room { most: 1, least_share: 1 });
        let open = [load.connection(), load.connection()];
        assert_eq!((load.read().connections, load.read().shedding), (2, false));
        drop(open);
        load.shed(Shed::BufferedBytes);
        let reading = load.read();
        assert_eq!((reading.connections, reading.shedding), (0, true));
        assert_eq!(reading.shed.map(|(_, count)| count), [0, 0, 1]);
    }
}
