//! How a model comes back after a restart: its means as they were, its certainty reduced, and nothing that cannot be true.
//!
//! Each model says for itself what it keeps, in a `state` module beside its fields. The whole document is in
//! `stats::persist`.

use std::{fmt, time::Duration};

use crate::domain::Tick;

/// The most observations that an estimate counts for after a restart.
pub(crate) const TRUST: f64 = 2.0;
/// No weight is larger: it is the most that a configuration allows.
const HEAVIEST: f64 = 1e6;
/// No mean of ln seconds is further from 0: two nanoseconds, sixteen years.
const FURTHEST: f64 = 20.0;

/// What cannot be true of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImplausibleValue(pub(crate) &'static str);

impl fmt::Display for ImplausibleValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// When a process goes on with what an earlier one learned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart {
    /// The present moment.
    pub now: Tick,
    /// How long ago the last of it was learned.
    pub age: Duration,
}

impl Restart {
    /// When something happened that was `idle` seconds old as the rest was written.
    pub(crate) fn moment(self, idle: f64) -> Tick {
        let idle = Duration::try_from_secs_f64(idle).unwrap_or(Duration::MAX);
        let ago = u64::try_from(self.age.saturating_add(idle).as_micros()).unwrap_or(u64::MAX);
        Tick(self.now.0.saturating_sub(ago))
    }
}

/// What is left of a weight, as a factor, when it may count for [`TRUST`] at most.
pub(crate) fn trusted(weight: f64) -> f64 {
    if weight > TRUST { TRUST / weight } else { 1.0 }
}

/// Lets pass a weight that can be one.
pub(crate) fn weight(value: f64) -> Result<f64, ImplausibleValue> {
    if (0.0..=HEAVIEST).contains(&value) { Ok(value) } else { Err(ImplausibleValue("a weight is out of range")) }
}

/// Lets pass a mean of logarithms that can be one.
pub(crate) fn ln_mean(value: f64) -> Result<f64, ImplausibleValue> {
    if value.abs() <= FURTHEST { Ok(value) } else { Err(ImplausibleValue("a mean is out of range")) }
}

/// Lets pass what is not negative and no larger than `most`.
pub(crate) fn within(value: f64, most: f64) -> Result<f64, ImplausibleValue> {
    if (0.0..=most).contains(&value) { Ok(value) } else { Err(ImplausibleValue("a sum is out of range")) }
}

/// Lets pass an idle time.
pub(crate) fn idle(seconds: f64) -> Result<f64, ImplausibleValue> {
    if seconds >= 0.0 && seconds.is_finite() { Ok(seconds) } else { Err(ImplausibleValue("a time is out of range")) }
}
