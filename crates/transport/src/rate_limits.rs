//! Remaining quota that a provider reports: `x-ratelimit-limit-*`, `x-ratelimit-remaining-*` and `x-ratelimit-reset-*`.
//!
//! A hint only: invalid numbers are ignored, and no wait is longer than a minute.

use std::time::{Duration, SystemTime};

use actix_http::header::{HeaderMap, HeaderName};
use pointsman_routing::stats::{QuotaReport, Remaining};

/// Longest wait that is accepted; longer ones are shortened.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Longest time until a bucket is full.
const MAX_RESET: Duration = Duration::from_secs(86_400);
/// Least number that is a time in seconds since 1970, and not a duration.
const MIN_UNIX_SECONDS: f64 = 1e9;
/// Least number that is a time in milliseconds since 1970.
const MIN_UNIX_MILLIS: f64 = 1e12;

const LIMIT_REQUESTS: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const REMAINING_REQUESTS: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const LIMIT_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-limit-tokens");
const REMAINING_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-remaining-tokens");
const RESET_REQUESTS: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
const RESET_TOKENS: HeaderName = HeaderName::from_static("x-ratelimit-reset-tokens");

/// Reads the headers of an answer. `now` is called only if they hold a date.
pub(super) fn quota(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> QuotaReport {
    let read = |remaining: &HeaderName, reset: &HeaderName, limit: &HeaderName| {
        let left = count(text(headers, remaining)?)?;
        let reset = text(headers, reset).and_then(|value| wait(value, &now));
        // What is used comes back by the reset, one after the other.
        let used = || count(text(headers, limit)?)?.checked_sub(left).filter(|used| *used > 0);
        let refill = reset.and_then(|reset| Some(reset / u32::try_from(used()?).unwrap_or(u32::MAX)));
        Some(Remaining { left, resets_in: reset.map(|reset| reset.min(MAX_WAIT)), refill })
    };
    QuotaReport {
        requests: read(&REMAINING_REQUESTS, &RESET_REQUESTS, &LIMIT_REQUESTS),
        tokens: read(&REMAINING_TOKENS, &RESET_TOKENS, &LIMIT_TOKENS),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn count(text: &str) -> Option<u64> {
    // `parse` alone would also accept a sign. A number that does not fit becomes the largest.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// A wait: `1s`, `6m0s`, `120ms`, plain seconds, or the time of its end.
fn wait(text: &str, now: impl Fn() -> SystemTime) -> Option<Duration> {
    if let Some(number) = decimal(text) {
        let end = match number {
            MIN_UNIX_MILLIS.. => number / 1000.0,
            MIN_UNIX_SECONDS.. => number,
            _ => return Some(clamped(number)),
        };
        let since = now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        return Some(clamped(end - since.as_secs_f64()));
    }
    compound(text).map(clamped).or_else(|| date(text, now))
}

fn date(text: &str, now: impl Fn() -> SystemTime) -> Option<Duration> {
    let rfc3339 = || chrono::DateTime::parse_from_rfc3339(text).ok().map(SystemTime::from);
    let end = httpdate::parse_http_date(text).ok().or_else(rfc3339)?;
    Some(end.duration_since(now()).unwrap_or_default().min(MAX_RESET))
}

/// Seconds of a duration with units, such as `1h2m3.5s`.
fn compound(text: &str) -> Option<f64> {
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, behind) = rest.split_at_checked(digits)?;
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, behind) = behind.split_at_checked(letters)?;
        let seconds_per_unit = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        seconds += decimal(number)? * seconds_per_unit;
        rest = behind;
    }
    (!text.is_empty()).then_some(seconds)
}

/// A plain decimal number. `parse` alone would also accept "inf", "nan" and "1e9".
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

fn clamped(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.clamp(0.0, MAX_RESET.as_secs_f64())).unwrap_or(MAX_RESET)
}

#[cfg(test)]
mod tests {
    use actix_http::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: Duration = Duration::from_secs(784_111_777);
    /// Sun, 09 Sep 2001 01:46:40 GMT: seconds since 1970 have ten digits from here on.
    const LATER: Duration = Duration::from_secs(1_000_000_000);

    fn read(headers: &[(&str, &str)], now: Duration) -> QuotaReport {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        quota(&map, || SystemTime::UNIX_EPOCH + now)
    }

    #[track_caller]
    fn check_reset(reset: &str, now: Duration, expected_ms: Option<u64>) {
        let headers = [("x-ratelimit-remaining-requests", "7"), ("x-ratelimit-reset-requests", reset)];
        let expected = Remaining { left: 7, resets_in: expected_ms.map(Duration::from_millis), refill: None };
        assert_eq!(read(&headers, now), QuotaReport { requests: Some(expected), tokens: None }, "{reset}");
    }

    #[test]
    fn waits_come_in_many_forms() {
        for (reset, expected_ms) in [
            ("1s", 1_000),
            ("120ms", 120),
            ("0m12.5s", 12_500),
            ("1m0s", 60_000),
            ("30", 30_000),
            ("0.25", 250),
            ("0s", 0),
            ("Sun, 06 Nov 1994 08:49:57 GMT", 20_000),
            ("1994-11-06T08:49:42.5Z", 5_500),
            ("1994-11-06T08:49:00Z", 0),
        ] {
            check_reset(reset, NOW, Some(expected_ms));
        }
        check_reset("1000000003", LATER, Some(3_000));
        check_reset("1000000003500", LATER, Some(3_500));
        check_reset("1000000000", LATER + Duration::from_secs(9), Some(0));
    }

    #[test]
    fn no_wait_is_longer_than_a_minute() {
        for reset in ["6m0s", "24h", "9999999999999999999999h", "86400", "Sat, 06 Nov 2094 08:49:37 GMT", "4102444800"]
        {
            check_reset(reset, NOW, Some(60_000));
        }
    }

    #[test]
    fn what_was_used_comes_back_one_by_one_until_the_reset() {
        let refill = |limit: &str, left: &str, reset: &str| {
            let names = ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
            let report = read(&[(names[0], limit), (names[1], left), (names[2], reset)], NOW);
            report.requests.unwrap().refill.map(|refill| refill.as_millis())
        };
        assert_eq!(refill("120", "0", "60s"), Some(500));
        assert_eq!(refill("120", "119", "500ms"), Some(500));
        assert_eq!(refill("14400", "0", "24h"), Some(6_000), "of a day, though no wait is so long");
        assert_eq!(refill("120", "120", "0s"), None);
        assert_eq!(refill("many", "0", "60s"), None);
        assert_eq!(refill("5", "7", "60s"), None);
    }

    #[test]
    fn nonsense_is_no_wait() {
        for reset in ["", "soon", "-5", "1x", "s", "1s2", "nan", "inf", "1e3", "1..5s", "1 s", "tomorrow at 5"] {
            check_reset(reset, NOW, None);
        }
    }

    #[test]
    fn requests_and_tokens_are_kept_apart() {
        let headers = [("x-ratelimit-remaining-tokens", "149984"), ("x-ratelimit-reset-tokens", "6ms")];
        let tokens = Remaining { left: 149_984, resets_in: Some(Duration::from_millis(6)), refill: None };
        assert_eq!(read(&headers, NOW), QuotaReport { requests: None, tokens: Some(tokens) });
    }

    #[test]
    fn the_remaining_quota_is_a_count_or_nothing() {
        let left =
            |text| read(&[("x-ratelimit-remaining-requests", text)], NOW).requests.map(|remaining| remaining.left);
        assert_eq!(left("0"), Some(0));
        assert_eq!(left("99999999999999999999999999"), Some(u64::MAX));
        for nonsense in ["", "-1", "+1", "1.5", "many", "0x10"] {
            assert_eq!(left(nonsense), None, "{nonsense}");
        }
        assert!(!read(&[("x-ratelimit-reset-requests", "1s")], NOW).is_some(), "a reset of nothing");
    }

    proptest! {
        #[test]
        fn any_text_gives_a_wait_of_a_minute_at_most(text in "[ -~]{0,24}") {
            let wait = wait(&text, || SystemTime::UNIX_EPOCH + NOW);
            prop_assert!(wait.is_none_or(|wait| wait <= MAX_WAIT));
        }
    }
}
