//! Requests counted over the last minutes, hour and day.

use std::time::Duration;

use pointsman_domain::Tick;

use crate::stats::observe::ring::{Merge, Ring};

/// Length of each window.
pub const WINDOWS: [Duration; 3] = [Duration::from_secs(300), Duration::from_secs(3600), Duration::from_secs(86_400)];

/// Slots that the day consists of. The last one is not over.
pub const DAY_SLOT: Duration = Duration::from_secs(900);

/// Requests in time and missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// First tokens in time.
    pub met: u64,
    /// Late first tokens, and failures.
    pub missed: u64,
}

impl Tally {
    /// All of them.
    pub const fn requests(&self) -> u64 {
        self.met.saturating_add(self.missed)
    }

    /// Share in time; `None` without a request.
    pub fn attainment(&self) -> Option<f64> {
        (self.requests() > 0).then(|| self.met as f64 / self.requests() as f64)
    }

    fn count(&mut self, missed: bool) {
        let counter = if missed { &mut self.missed } else { &mut self.met };
        *counter = counter.saturating_add(1);
    }
}

impl Merge for Tally {
    fn merge(&mut self, other: &Tally) {
        self.met = self.met.saturating_add(other.met);
        self.missed = self.missed.saturating_add(other.missed);
    }
}

/// The same requests in every window. Old requests leave slot by slot, so a window is up to one slot shorter than its
/// length.
pub(crate) struct TargetWindows {
    minutes: Ring<Tally, 30>,
    hour: Ring<Tally, 60>,
    day: Ring<Tally, 96>,
}

impl Default for TargetWindows {
    fn default() -> TargetWindows {
        let [minutes, hour, day] = WINDOWS;
        TargetWindows { minutes: Ring::new(minutes / 30), hour: Ring::new(hour / 60), day: Ring::new(day / 96) }
    }
}

impl TargetWindows {
    pub(crate) fn add(&mut self, now: Tick, missed: bool) {
        let slots = [self.minutes.slot(now), self.hour.slot(now), self.day.slot(now)];
        slots.into_iter().flatten().for_each(|tally| tally.count(missed));
    }

    pub(crate) fn read(&self, now: Tick) -> [Tally; WINDOWS.len()] {
        [self.minutes.sum(now), self.hour.sum(now), self.day.sum(now)]
    }

    /// The day in slots of [`DAY_SLOT`], oldest first.
    pub(crate) fn day(&self, now: Tick) -> Vec<Tally> {
        self.day.each(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick(seconds * 1_000_000)
    }

    #[test]
    fn each_window_drops_old_requests_after_its_length() {
        let mut windows = TargetWindows::default();
        windows.add(at(5), true);
        for second in 10..20 {
            windows.add(at(second), false);
        }
        let seen = |windows: &TargetWindows, second| windows.read(at(second)).map(|tally| (tally.met, tally.missed));
        assert_eq!(seen(&windows, 20), [(10, 1); 3]);
        assert_eq!(seen(&windows, 301), [(10, 0), (10, 1), (10, 1)]);
        assert_eq!(seen(&windows, 320), [(0, 0), (10, 1), (10, 1)]);
        assert_eq!(seen(&windows, 3700), [(0, 0), (0, 0), (10, 1)]);
        assert_eq!(seen(&windows, 90_000), [(0, 0); 3]);
        windows.add(at(90_000), false);
        assert_eq!(seen(&windows, 90_000), [(1, 0); 3], "nothing of yesterday came back");
    }
}
