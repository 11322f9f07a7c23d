use std::{ops::Sub, time::Duration};

/// A moment on the process's monotonic clock, in microseconds. Its zero lies well before the start, so that nothing is ever too long ago.
///
/// The core never reads a clock: whoever calls it passes the moment in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// The moment `after` later; saturates at the end of time.
    #[must_use]
    pub fn plus(self, after: Duration) -> Tick {
        Tick(self.0.saturating_add(u64::try_from(after.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Tick) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since `earlier`, as the statistics count them; zero when it lies ahead.
    #[must_use]
    pub fn seconds_since(self, earlier: Tick) -> f64 {
        // A signed number becomes a float in one instruction.
        i64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(i64::MAX) as f64 / 1e6
    }
}

impl Sub for Tick {
    type Output = Duration;

    fn sub(self, earlier: Tick) -> Duration {
        self.since(earlier)
    }
}
