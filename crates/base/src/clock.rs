//! The two clocks of the server: the monotonic clock and the wall clock.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use pointsman_domain::Tick;

/// Time of the first reading.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Value of the monotonic clock at the first reading: 400 days. Times that an earlier process saved are smaller. No
/// saved time is older.
const HEAD_START: Duration = Duration::from_secs(400 * 86_400);

/// Starts the monotonic clock, if it is not running. Uptime counts from this call.
pub fn start() {
    LazyLock::force(&START);
}

/// Current time on the monotonic clock.
pub fn now() -> Tick {
    tick(Instant::now())
}

/// Time of the first reading, on the monotonic clock.
pub fn started() -> Tick {
    tick(*START)
}

/// `instant` as a [`Tick`].
pub fn tick(instant: Instant) -> Tick {
    let since = HEAD_START + instant.saturating_duration_since(*START);
    Tick(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Seconds since the process first asked for the time.
pub fn uptime_seconds() -> u64 {
    START.elapsed().as_secs()
}

/// Microseconds since 1970. May jump: use it for display, never to measure durations.
pub fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970. May jump: use it for display, never to measure durations.
pub fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Seconds since 1970. May jump, as [`unix_micros`].
pub fn unix_seconds() -> i64 {
    unix_millis() / 1000
}

/// Current date in UTC. The retirement dates of models are compared with it.
pub fn today() -> chrono::NaiveDate {
    chrono::DateTime::from_timestamp_millis(unix_millis()).map_or(chrono::NaiveDate::MAX, |now| now.date_naive())
}
