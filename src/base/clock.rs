//! The only clocks of the server: one that never jumps, and the wall's.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use pointsman_actors::domain::Tick;

/// When the time was first read.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What the monotonic clock shows at the first reading: moments that an earlier process saw lie before it. More than
/// anything is remembered.
const HEAD_START: Duration = Duration::from_secs(400 * 86_400);

/// Starts the monotonic clock, unless it runs: uptime counts from here.
pub fn start() {
    LazyLock::force(&START);
}

/// The present moment on the monotonic clock.
#[must_use]
pub fn now() -> Tick {
    tick(Instant::now())
}

/// The moment of the first reading.
#[must_use]
pub fn started() -> Tick {
    tick(*START)
}

/// `instant` as the core counts it.
#[must_use]
pub fn tick(instant: Instant) -> Tick {
    let since = HEAD_START + instant.saturating_duration_since(*START);
    Tick(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Seconds since the process first asked for the time.
#[must_use]
pub fn uptime_seconds() -> u64 {
    START.elapsed().as_secs()
}

/// Milliseconds since 1970. May jump: for showing, never for measuring.
#[must_use]
pub fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The day it is, in UTC: models retire by it.
#[must_use]
pub fn today() -> chrono::NaiveDate {
    chrono::DateTime::from_timestamp_millis(unix_millis()).map_or(chrono::NaiveDate::MAX, |now| now.date_naive())
}
