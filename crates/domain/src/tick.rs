use std::{ops::Sub, time::Duration};

use serde::{Deserialize, Serialize};

/// A time on the process's monotonic clock, in microseconds. Zero is well before the start of the process, so that
/// subtracting a duration does not underflow.
///
/// The core never reads a clock: callers pass the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Tick(pub u64);

impl Tick {
    /// The time `after` later; saturates at the maximum.
    #[must_use]
    pub fn plus(self, after: Duration) -> Tick {
        Tick(self.0.saturating_add(u64::try_from(after.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Time since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Tick) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since `earlier`; zero when `earlier` is later.
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
