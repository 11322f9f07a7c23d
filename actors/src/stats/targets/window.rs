//! Requests counted over the last minutes, hour and day.

use std::time::Duration;

use crate::domain::Tick;

/// How far back each window looks.
pub const WINDOWS: [Duration; 3] = [Duration::from_secs(300), Duration::from_secs(3600), Duration::from_secs(86_400)];
/// Slots of each window: what is older leaves slot by slot, so a window is up to one slot short of its length.
const SLOTS: [usize; WINDOWS.len()] = [30, 60, 96];

/// Requests that kept a bound, and that missed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// First tokens in time.
    pub met: u64,
    /// Late ones, and failures.
    pub missed: u64,
}

impl Tally {
    /// All of them.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.met.saturating_add(self.missed)
    }

    /// The share that kept the bound; `None` without a request.
    #[must_use]
    pub fn attainment(&self) -> Option<f64> {
        (self.requests() > 0).then(|| self.met as f64 / self.requests() as f64)
    }

    fn count(&mut self, missed: bool) {
        let counter = if missed { &mut self.missed } else { &mut self.met };
        *counter = counter.saturating_add(1);
    }
}

/// The same requests in every window.
pub(super) struct Windows([Ring; WINDOWS.len()]);

impl Default for Windows {
    fn default() -> Windows {
        Windows([0, 1, 2].map(|window| {
            let length = WINDOWS.get(window).copied().unwrap_or_default();
            Ring::new(length, SLOTS.get(window).copied().unwrap_or(1))
        }))
    }
}

impl Windows {
    pub(super) fn add(&mut self, now: Tick, missed: bool) {
        for ring in &mut self.0 {
            ring.add(now, missed);
        }
    }

    pub(super) fn read(&self, now: Tick) -> [Tally; WINDOWS.len()] {
        self.0.each_ref().map(|ring| ring.read(now))
    }
}

struct Ring {
    /// Length of a slot, microseconds.
    step: u64,
    slots: Box<[Tally]>,
    /// The newest slot that was written, counted from the beginning of time.
    newest: u64,
}

impl Ring {
    fn new(length: Duration, slots: usize) -> Ring {
        let step = length.as_micros() / slots.max(1) as u128;
        let step = u64::try_from(step).unwrap_or(u64::MAX).max(1);
        Ring { step, slots: vec![Tally::default(); slots].into(), newest: 0 }
    }

    fn add(&mut self, now: Tick, missed: bool) {
        let slot = now.0 / self.step;
        // A worker may be a moment behind another: then the newest slot will do.
        for gone in (self.newest + 1..=slot).take(self.slots.len()) {
            self.clear(gone);
        }
        self.newest = self.newest.max(slot);
        let place = self.place(self.newest);
        if let Some(tally) = self.slots.get_mut(place) {
            tally.count(missed);
        }
    }

    fn read(&self, now: Tick) -> Tally {
        let slots = self.slots.len() as u64;
        let latest = (now.0 / self.step).max(self.newest);
        let oldest = (latest + 1).saturating_sub(slots);
        let mut sum = Tally::default();
        for slot in oldest..=self.newest {
            let Some(tally) = self.slots.get(self.place(slot)) else { continue };
            sum.met = sum.met.saturating_add(tally.met);
            sum.missed = sum.missed.saturating_add(tally.missed);
        }
        sum
    }

    fn clear(&mut self, slot: u64) {
        let place = self.place(slot);
        if let Some(tally) = self.slots.get_mut(place) {
            *tally = Tally::default();
        }
    }

    fn place(&self, slot: u64) -> usize {
        (slot % self.slots.len().max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick(seconds * 1_000_000)
    }

    #[test]
    fn each_window_forgets_in_its_own_time() {
        let mut windows = Windows::default();
        windows.add(at(5), true);
        for second in 10..20 {
            windows.add(at(second), false);
        }
        let seen = |windows: &Windows, second| windows.read(at(second)).map(|tally| (tally.met, tally.missed));
        assert_eq!(seen(&windows, 20), [(10, 1); 3]);
        assert_eq!(seen(&windows, 301), [(10, 0), (10, 1), (10, 1)]);
        assert_eq!(seen(&windows, 320), [(0, 0), (10, 1), (10, 1)]);
        assert_eq!(seen(&windows, 3700), [(0, 0), (0, 0), (10, 1)]);
        assert_eq!(seen(&windows, 90_000), [(0, 0); 3]);
        windows.add(at(90_000), false);
        assert_eq!(seen(&windows, 90_000), [(1, 0); 3], "nothing of yesterday came back");
    }

    #[test]
    fn a_moment_behind_the_newest_is_counted_with_it() {
        let mut ring = Ring::new(Duration::from_secs(30), 3);
        ring.add(at(25), false);
        ring.add(at(14), true);
        assert_eq!(ring.read(at(25)), Tally { met: 1, missed: 1 });
        assert_eq!(ring.read(at(10)), Tally { met: 1, missed: 1 }, "reading is not earlier than writing");
    }
}
