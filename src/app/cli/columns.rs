//! Members of the gateway's JSON as columns of text.

use serde_json::Value;

/// The member without quotes and without control characters, which could move the cursor; `-` where it is unknown.
pub(super) fn shown(page: &Value, pointer: &str) -> String {
    match page.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.chars().filter(|letter| !letter.is_control()).collect(),
        Some(value) => value.to_string(),
    }
}

/// The number with so many decimals; `-` where it is unknown.
pub(super) fn number(page: &Value, pointer: &str, factor: f64, decimals: usize) -> String {
    let number = page.pointer(pointer).and_then(Value::as_f64);
    number.map_or_else(|| "-".to_owned(), |number| format!("{:.decimals$}", number * factor))
}

/// The amount of dollars with at least two decimals, and three digits that count below one dollar; `-` where it is unknown.
pub(super) fn dollars(page: &Value, pointer: &str) -> String {
    let amount = page.pointer(pointer).and_then(Value::as_f64);
    amount.map_or_else(
        || "-".to_owned(),
        |amount| {
            let magnitude = if amount == 0.0 { 0.0 } else { amount.abs().log10().floor() };
            let decimals = (2.0 - magnitude).clamp(2.0, 15.0) as usize;
            if amount == 0.0 { "0".to_owned() } else { format!("{amount:.decimals$}") }
        },
    )
}

/// `1 group`, `2 groups`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The list of this name; empty without one.
pub(super) fn list<'a>(page: &'a Value, member: &str) -> &'a [Value] {
    page.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The endpoint of a row.
pub(super) fn endpoint(page: &Value) -> String {
    format!("{} @ {}", shown(page, "/model"), shown(page, "/provider_slug"))
}

/// At most `most` letters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
