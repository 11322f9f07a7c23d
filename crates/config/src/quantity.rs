//! Durations and sizes with their units.

use std::time::Duration;

pub(super) const MICROSECOND: Duration = Duration::from_micros(1);
/// Lower limit of most durations.
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
pub(super) const WEEK: Duration = Duration::from_secs(7 * 86_400);

pub(super) const KIB: usize = 1 << 10;
pub(super) const MIB: usize = 1 << 20;
pub(super) const GIB: usize = 1 << 30;

const UNITS: [(&str, usize); 8] = [
    ("GiB", GIB),
    ("MiB", MIB),
    ("KiB", KIB),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Parses `"15s"`, `"250ms"`, `"1h30m"`.
pub(super) fn read_duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

const DAY_SECS: u64 = 86_400;

/// Formats a duration without spaces.
pub(super) fn show_duration(time: Duration) -> String {
    match (time.as_secs() / DAY_SECS, time.as_secs() % DAY_SECS, time.subsec_nanos()) {
        // Whole days stay days: a month of 30.44 days is in nobody's mind.
        (days @ 2.., 0, 0) => format!("{days}days"),
        _ => humantime::format_duration(time).to_string().replace(' ', ""),
    }
}

/// Parses `"32MiB"`, `"64 KiB"`, `"1024"`.
pub(super) fn read_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit.trim_start() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

/// Formats a size in the largest binary unit that divides it.
pub(super) fn show_bytes(bytes: usize) -> String {
    let fitting = UNITS.iter().take(3).find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    fitting.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_duration_is_parsed_back() {
        for (text, millis) in [("15s", 15_000), ("250ms", 250), ("1h30m", 5_400_000), ("1day", 86_400_000), ("0s", 0)] {
            let time = Duration::from_millis(millis);
            assert_eq!((read_duration(text), show_duration(time).as_str()), (Some(time), text));
        }
        for text in ["", "15", "s", "15 parsecs", "-1s"] {
            assert_eq!(read_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_formatted_size_is_parsed_back() {
        for (text, bytes) in [("32MiB", 32 << 20), ("64KiB", 65_536), ("1000B", 1000), ("0B", 0), ("2GiB", 2 << 30)] {
            assert_eq!((read_bytes(text), show_bytes(bytes).as_str()), (Some(bytes), text));
        }
        assert_eq!((read_bytes("1 MB"), read_bytes("7")), (Some(1_000_000), Some(7)));
        for text in ["", "MiB", "1.5MiB", "-1B", "99999999999999999999B", "9999999999999GiB", "1 mib"] {
            assert_eq!(read_bytes(text), None, "{text}");
        }
    }
}
