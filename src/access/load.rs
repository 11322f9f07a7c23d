//! Load counters: buffered bytes of requests and answers, client connections, refused calls.
//!
//! This module only counts; `admission`, `body` and `dispatch` decide which calls are refused. All workers share the
//! counters. A guard counts up when it is made and down when it is dropped. `key_buffer` divides the bytes among keys.

mod key_buffer;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use pointsman_base::clock;
use pointsman_domain::Tick;

pub use self::key_buffer::{BufferLimitReached, BufferLimits, BufferedBytes, KeyBuffer, Pieces};
use crate::base::load_reading::{LoadReading, ShedReason};

/// Time after a refusal in which the gateway reports that it sheds load.
const SHEDDING_PERIOD: Duration = Duration::from_secs(5);

/// The counters, one set per process.
#[derive(Debug)]
pub struct Load {
    buffered_bytes: AtomicUsize,
    max_buffered_bytes: AtomicUsize,
    /// Bytes that each key may use while the gateway is below its limit.
    key_minimum: AtomicUsize,
    connections: AtomicUsize,
    /// Refusals, by [`ShedReason`].
    shed: [AtomicU64; ShedReason::ALL.len()],
    /// Time of the last refusal, as a [`Tick`]; 0: never.
    last_shed: AtomicU64,
}

impl Load {
    /// Counters at zero, with the byte limits of `limits`.
    pub fn new(limits: BufferLimits) -> Arc<Load> {
        Arc::new(Load {
            buffered_bytes: AtomicUsize::new(0),
            max_buffered_bytes: AtomicUsize::new(limits.total),
            key_minimum: AtomicUsize::new(limits.key_minimum),
            connections: AtomicUsize::new(0),
            shed: Default::default(),
            last_shed: AtomicU64::new(0),
        })
    }

    /// The counters of `before` with the limits of `limits`; new counters without `before`.
    pub fn carried(limits: BufferLimits, before: Option<&Arc<Load>>) -> Arc<Load> {
        let Some(before) = before else { return Load::new(limits) };
        before.max_buffered_bytes.store(limits.total, Ordering::Relaxed);
        before.key_minimum.store(limits.key_minimum, Ordering::Relaxed);
        Arc::clone(before)
    }

    /// Counts a client connection until the guard is dropped.
    #[must_use]
    pub fn connection(self: &Arc<Load>) -> OpenConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Counts a refused call.
    pub fn shed(&self, why: ShedReason) {
        if let Some(count) = self.shed.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.last_shed.store(clock::now().0.max(1), Ordering::Relaxed);
    }

    /// Current values of the counters.
    pub fn read(&self) -> LoadReading {
        let last = self.last_shed.load(Ordering::Relaxed);
        LoadReading {
            buffered_bytes: self.buffered_bytes.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            shed: ShedReason::ALL
                .map(|why| (why, self.shed.get(why as usize).map_or(0, |count| count.load(Ordering::Relaxed)))),
            shedding: last > 0 && clock::now().since(Tick(last)) < SHEDDING_PERIOD,
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
        let load = Load::new(BufferLimits { total: 1, key_minimum: 1 });
        let open = [load.connection(), load.connection()];
        assert_eq!((load.read().connections, load.read().shedding), (2, false));
        drop(open);
        load.shed(ShedReason::BufferedBytes);
        let reading = load.read();
        assert_eq!((reading.connections, reading.shedding), (0, true));
        assert_eq!(reading.shed.map(|(_, count)| count), [0, 0, 1]);
    }
}
