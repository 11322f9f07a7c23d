//! The wait that a provider requests with `Retry-After`.

use std::time::{Duration, SystemTime};

use actix_http::header::{HeaderMap, RETRY_AFTER};

/// Longest wait that can be told: some thirty thousand years.
const MAX_WAIT: Duration = Duration::from_secs(1_000_000_000_000);

/// The wait in `retry-after-ms` or `Retry-After` (seconds, or an HTTP date, which is compared with `now`), however long.
/// `None` without a valid header.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let milliseconds = text("retry-after-ms").and_then(|value| number(value, 1000.0));
    milliseconds
        .or_else(|| text(RETRY_AFTER.as_str()).and_then(|value| number(value, 1.0).or_else(|| date(value, now))))
}

/// A plain decimal number in units of which `per_second` make a second.
fn number(text: &str, per_second: f64) -> Option<Duration> {
    // `parse` alone would also accept "inf", "nan" and "1e9".
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let seconds = text.parse::<f64>().ok()? / per_second;
    Some(Duration::from_secs_f64(seconds.min(MAX_WAIT.as_secs_f64())))
}

fn date(text: &str, now: SystemTime) -> Option<Duration> {
    let end = httpdate::parse_http_date(text).ok()?;
    // A past date is no wait.
    Some(end.duration_since(now).unwrap_or_default().min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use actix_http::header::{HeaderName, HeaderValue};

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: Duration = Duration::from_secs(784_111_777);

    #[track_caller]
    fn check(headers: &[(&'static str, &'static str)], expected: Option<u64>) {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(pair).collect();
        assert_eq!(retry_after(&headers, SystemTime::UNIX_EPOCH + NOW), expected.map(Duration::from_millis));
    }

    #[test]
    fn seconds_are_taken_whole_or_with_a_fraction() {
        check(&[("retry-after", "7")], Some(7_000));
        check(&[("retry-after", " 1.5 ")], Some(1_500));
        check(&[("retry-after", "0")], Some(0));
    }

    #[test]
    fn dates_are_compared_with_now() {
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT")], Some(20_000));
        check(&[("retry-after", "Sunday, 06-Nov-94 08:49:57 GMT")], Some(20_000));
        check(&[("retry-after", "Sun Nov  6 08:49:57 1994")], Some(20_000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:17 GMT")], Some(0));
    }

    #[test]
    fn milliseconds_win_over_seconds() {
        check(&[("retry-after-ms", "250"), ("retry-after", "1")], Some(250));
        check(&[("retry-after-ms", "soon"), ("retry-after", "1")], Some(1_000));
    }

    #[test]
    fn long_waits_are_told_as_they_are_and_endless_ones_are_finite() {
        check(&[("retry-after", "86400")], Some(86_400_000));
        check(&[("retry-after", "99999999999999999999999999999999999999")], Some(1_000_000_000_000_000));
        check(&[("retry-after-ms", "99999999000")], Some(99_999_999_000));
        check(&[("retry-after", "Mon, 07 Nov 1994 08:49:37 GMT")], Some(86_400_000));
    }

    #[test]
    fn invalid_values_are_ignored() {
        for value in ["", "-5", "soon", "nan", "inf", "1e9", "1.2.3", ".", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            check(&[("retry-after", value)], None);
        }
        check(&[], None);
    }
}
