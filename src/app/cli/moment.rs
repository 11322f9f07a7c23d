//! Times in arguments: `24h`, a date or a time.

use pointsman_base::clock;

/// Unix milliseconds of a time or of a span before now.
pub(super) fn moment(text: &str) -> Option<i64> {
    let span = |text: &str| {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let milliseconds = match unit {
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        Some(
            clock::unix_millis()
                .saturating_sub(number.parse::<u32>().map(i64::from).ok()?.saturating_mul(milliseconds)),
        )
    };
    span(text).or_else(|| crate::api::generations::ledger_query::moment(text))
}
