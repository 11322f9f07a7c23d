//! Numbers, money and times as people read them. Exact values are kept in `data-v` and `title`.

use maud::{Markup, html};
use pointsman_domain::{Usd, grouped, shown_dollars};
use serde::Serialize;

/// Digits shown of an amount below one dollar.
const DIGITS: u32 = 3;

/// An amount; `unknown` without one.
pub(super) fn money(amount: Option<Usd>) -> Markup {
    let Some(amount) = amount else { return unknown("No price is known for this.") };
    html! { data.num value=(amount) data-v=(amount) title={ "$" (amount) } { (dollars(amount)) } }
}

/// A sum of amounts, with the number of those that are unknown and left out.
pub(super) fn sum(known: Usd, unknown: u64) -> Markup {
    html! {
        (money(Some(known)))
        @if unknown > 0 { " " span.unknown title="Their costs are not in the sum: no price is known for them." { "+ " (grouped(unknown.into())) " unknown" } }
    }
}

/// An amount with unit.
pub(super) fn dollars(amount: Usd) -> String {
    shown_dollars(amount)
}

/// An expected amount, which is a float because it only ranks.
pub(super) fn estimate(amount: Option<f64>) -> Markup {
    let Some(amount) = amount.filter(|amount| amount.is_finite()) else {
        return unknown("No price is known for this.");
    };
    html! { data.num value=(amount) data-v=(amount) { (estimated_dollars(amount)) } }
}

/// As [`dollars`], for an expected amount.
pub(super) fn estimated_dollars(amount: f64) -> String {
    // Less than the smallest amount there is.
    if amount.abs() < 1e-15 {
        return "$0".to_owned();
    }
    let digits = (DIGITS as i32 - 1 - amount.abs().log10().floor() as i32).clamp(2, 15) as usize;
    let sign = if amount < 0.0 { "-" } else { "" };
    format!("{sign}${:.digits$}", amount.abs())
}

/// Milliseconds; a dash without a value.
pub(super) fn millis(value: Option<f64>) -> Markup {
    let Some(value) = value.filter(|value| value.is_finite()) else { return none() };
    html! { data.num value=(value) data-v=(value) { (duration(value)) } }
}

/// Milliseconds with a unit of fitting size, which is that of the rounded value: never `1000 ms`.
pub(super) fn duration(millis: f64) -> String {
    match millis {
        _ if millis < 9.95 && millis.fract() != 0.0 => format!("{millis:.1} ms"),
        _ if millis < 999.5 => format!("{millis:.0} ms"),
        _ if millis < 9_995.0 => format!("{:.2} s", millis / 1e3),
        _ if millis < 99_950.0 => format!("{:.1} s", millis / 1e3),
        _ => seconds((millis / 1e3).round() as u64),
    }
}

/// Whole seconds in two units.
pub(super) fn seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => two_units(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two_units(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two_units(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two_units(greater: u64, unit: &str, lesser: u64, lesser_unit: &str) -> String {
    if lesser == 0 { format!("{greater} {unit}") } else { format!("{greater} {unit} {lesser} {lesser_unit}") }
}

/// A count with commas between thousands.
pub(super) fn count(value: impl Into<u128>) -> Markup {
    let value = value.into();
    html! { data.num value=(value) data-v=(value) { (grouped(value)) } }
}

/// A number of bytes.
pub(super) fn bytes(bytes: u64) -> Markup {
    html! { data.num value=(bytes) data-v=(bytes) { (bytes_text(bytes)) } }
}

/// A number of bytes with a unit of fitting size.
pub(super) fn bytes_text(bytes: u64) -> String {
    let (unit, size) = match bytes {
        0..1_000 => return format!("{bytes} bytes"),
        1_000..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    format!("{:.1} {unit}", bytes as f64 / size)
}

/// A share between 0 and 1 in percent; a dash without a value.
pub(super) fn share(value: Option<f64>) -> Markup {
    let Some(value) = value.filter(|value| value.is_finite()) else { return none() };
    html! { data.num value=(value) data-v=(value) { (percent(value)) } }
}

/// A share in percent. Only 0 and 1 are shown as 0 % and 100 %.
pub(super) fn percent(share: f64) -> String {
    if share < 0.0 {
        return format!("−{}", percent(-share));
    }
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        100.0 => "100 %".to_owned(),
        _ if percent < 0.01 => "< 0.01 %".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2} %"),
        _ if percent < 99.95 => format!("{percent:.1} %"),
        _ if percent < 99.9995 => format!("{percent:.3} %"),
        _ if percent < 100.0 => "> 99.999 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// A measured number with this many decimals; a dash without a value.
pub(super) fn figure(value: Option<f64>, decimals: usize) -> Markup {
    let Some(value) = value.filter(|value| value.is_finite()) else { return none() };
    html! { data.num value=(value) data-v=(value) { (format!("{value:.decimals$}")) } }
}

/// A time that is written as in RFC 3339. The script shows it in the zone of the browser on request.
pub(super) fn time(rfc_3339: &str) -> Markup {
    let date = rfc_3339.get(..10).unwrap_or(rfc_3339);
    let clock = rfc_3339.get(11..19).unwrap_or_default();
    html! { time datetime=(rfc_3339) title=(rfc_3339) { (date) " " (clock) } }
}

/// The zone in which the page shows times.
pub(super) fn zone() -> Markup {
    html! { span data-zone-name { "UTC" } }
}

/// A time without its year.
pub(super) fn short_time(rfc_3339: &str) -> Markup {
    let date = rfc_3339.get(5..10).unwrap_or_default();
    html! { time.short datetime=(rfc_3339) title=(rfc_3339) { (date) " " (rfc_3339.get(11..19).unwrap_or(rfc_3339)) } }
}

/// The same without the date.
pub(super) fn clock(rfc_3339: &str) -> Markup {
    html! { time.clock datetime=(rfc_3339) title=(rfc_3339) { (rfc_3339.get(11..19).unwrap_or(rfc_3339)) } }
}

/// Text of any length and kind from files and wires: cut after `most` characters, whole in its title.
pub(super) fn name(text: &str, most: usize) -> Markup {
    let text = printable(text);
    if text.chars().count() <= most {
        return html! { bdi { (text) } };
    }
    let cut: String = text.chars().take(most.saturating_sub(1)).collect();
    let whole: String = text.chars().take(MAX_TITLE).collect();
    html! { bdi title=(whole) { (cut) "…" } }
}

/// The same as plain text, where no element may stand.
pub(super) fn plain_name(text: &str, most: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Longest text in a title, in characters.
const MAX_TITLE: usize = 400;

/// The text with a visible sign for each control character and for each mark that changes the direction of writing.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// The value as JSON text on several lines, with an escape for each such mark.
pub(super) fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let escaped = |c: char| if is_hidden(c) && c != '\n' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    if text.is_ascii() { text } else { text.chars().map(escaped).collect() }
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A dash for a value that does not apply.
pub(super) fn none() -> Markup {
    html! { span.none { "–" } }
}

/// A value that should be known, and is not.
pub(super) fn unknown(why: &str) -> Markup {
    html! { span.unknown title=(why) { "unknown" } }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn money_has_a_unit_and_the_digits_that_matter() {
        for (amount, shown) in [
            ("0", "$0"),
            ("0.00000453", "$0.00000453"),
            ("0.000004535001", "$0.00000454"),
            ("0.9996", "$1.00"),
            ("0.5", "$0.500"),
            ("1.005", "$1.01"),
            ("1234567.891", "$1,234,567.89"),
            ("-0.25", "-$0.250"),
            ("0.000000000000001", "$0.000000000000001"),
        ] {
            assert_eq!(dollars(amount.parse().unwrap()), shown, "{amount}");
        }
    }

    #[test]
    fn shown_amounts_parse_back_to_the_amount_within_half_of_the_last_digit() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..10_000 {
            let femto = rng.random::<i64>() >> rng.random_range(0..62);
            let amount = Usd::from_femto(i128::from(femto));
            let shown = dollars(amount);
            assert!(shown.contains('$') && !shown.contains(['e', 'E']), "{shown}");
            let digits = shown.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            let back: Usd = shown.replace(['$', ','], "").parse().unwrap();
            let half = 10_i128.pow(15 - digits as u32) / 2;
            assert!((back.femto() - amount.femto()).abs() <= half, "{amount} {shown}");
        }
    }

    #[test]
    fn durations_and_shares_have_units() {
        assert_eq!(
            [4.25, 312.4, 2_104.0, 61_300.0, 150_000.0].map(duration),
            ["4.2 ms", "312 ms", "2.10 s", "61.3 s", "2 min 30 s"]
        );
        assert_eq!(
            [0.0, 0.00001, 0.0031, 0.912, 0.9998, 1.0].map(percent),
            ["0 %", "< 0.01 %", "0.31 %", "91.2 %", "99.980 %", "100 %"]
        );
        assert_eq!(
            [9.97, 999.7, 9_999.0, 99_970.0].map(duration),
            ["10 ms", "1.00 s", "10.0 s", "1 min 40 s"],
            "the unit is that of the rounded value"
        );
        assert_eq!([0.999_999_9, 1.5].map(percent), ["> 99.999 %", "150.0 %"], "only 1 is shown as 100 %");
        assert_eq!([-3.368, -0.005].map(percent), ["−336.8 %", "−0.50 %"]);
        assert_eq!([59, 61, 300, 7_260, 90_000].map(seconds), ["59 s", "1 min 1 s", "5 min", "2 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn names_are_escaped_and_cut_and_hidden_marks_are_visible() {
        let shown = name("<script>alert(1)</script>\u{202e}\n", 100).into_string();
        assert_eq!(shown, "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}\u{fffd}</bdi>");
        let long = name(&"x\"".repeat(10_000), 20).into_string();
        assert!(long.len() < 4_000 && long.contains("&quot;") && long.contains('…'), "{}", long.len());
    }
}
