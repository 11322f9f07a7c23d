//! Restoring saved estimates: means are kept, weights are reduced, implausible values are rejected.
//!
//! Each model defines its saved state in a `state` module. The whole document is in `stats::persist`.

use std::{fmt, time::Duration};

use pointsman_domain::Tick;

/// Highest weight of an estimate after a restart, in observations.
pub(crate) const TRUST: f64 = 2.0;
/// Highest plausible weight: the highest that a configuration allows.
const HEAVIEST: f64 = 1e6;
/// Highest plausible |mean| of ln seconds: two nanoseconds, sixteen years.
const FURTHEST: f64 = 20.0;

/// Why a saved value is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImplausibleValue(pub(crate) &'static str);

impl fmt::Display for ImplausibleValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// When a process restores the state of an earlier one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart {
    /// The present time.
    pub now: Tick,
    /// Age of the state.
    pub age: Duration,
}

impl Restart {
    /// The time of an observation that was `idle` seconds old when the state was saved.
    pub(crate) fn time_of(self, idle: f64) -> Tick {
        let idle = Duration::try_from_secs_f64(idle).unwrap_or(Duration::MAX);
        let ago = u64::try_from(self.age.saturating_add(idle).as_micros()).unwrap_or(u64::MAX);
        Tick(self.now.0.saturating_sub(ago))
    }
}

/// Factor that reduces a weight to [`TRUST`] at most.
pub(crate) fn trusted(weight: f64) -> f64 {
    if weight > TRUST { TRUST / weight } else { 1.0 }
}

/// Accepts a plausible weight.
pub(crate) fn weight(value: f64) -> Result<f64, ImplausibleValue> {
    if (0.0..=HEAVIEST).contains(&value) { Ok(value) } else { Err(ImplausibleValue("a weight is out of range")) }
}

/// Accepts a plausible mean of logarithms.
pub(crate) fn ln_mean(value: f64) -> Result<f64, ImplausibleValue> {
    if value.abs() <= FURTHEST { Ok(value) } else { Err(ImplausibleValue("a mean is out of range")) }
}

/// Accepts a value from 0 to `most`.
pub(crate) fn within(value: f64, most: f64) -> Result<f64, ImplausibleValue> {
    if (0.0..=most).contains(&value) { Ok(value) } else { Err(ImplausibleValue("a sum is out of range")) }
}

/// Accepts a plausible idle time.
pub(crate) fn idle(seconds: f64) -> Result<f64, ImplausibleValue> {
    if seconds >= 0.0 && seconds.is_finite() { Ok(seconds) } else { Err(ImplausibleValue("a time is out of range")) }
}
