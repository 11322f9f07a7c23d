//! Writes keys and values as TOML on one line.

use super::tree::Value;

/// A value on one line.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Text(text) if text.contains('\n') => toml_escaped(text),
        Value::Text(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Huge => "0".to_owned(),
        Value::Number(number) => toml::Value::Float(*number).to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Date(date) => date.to_string(),
        Value::List(items) => {
            format!("[{}]", items.iter().map(|item| self::value(&item.value)).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) if table.entries.is_empty() => "{}".to_owned(),
        Value::Table(table) => {
            let pairs =
                table.entries.iter().map(|entry| format!("{} = {}", key(&entry.key), self::value(&entry.node.value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A string with line breaks, escaped to one line. The `toml` crate would use several lines.
fn toml_escaped(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A key of a table, in quotes where TOML needs them.
pub(super) fn key(key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { quoted(key) }
}

/// A string in quotes, with escapes.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
