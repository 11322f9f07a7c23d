//! A configuration as text: what `pointsman config show` prints.

use super::{
    fault::SourceLocation,
    quantity::Unit,
    reference::REFERENCE,
    tree::{Entry, Node, Table, Value},
};

/// Where comments begin, if the line before them is short enough.
const COLUMN: usize = 48;

/// The tree as TOML, each key with a comment that says where it comes from.
pub(super) fn toml(root: &Table) -> String {
    let mut text = String::new();
    table(&mut text, root, "", "");
    text
}

/// Plain keys first, then sections, as TOML wants it. `pattern` is the path with `*` and `[]`, as the reference has it.
fn table(text: &mut String, table: &Table, path: &str, pattern: &str) {
    let below = |entry: &Entry| is_section(&entry.node, &join(pattern, &entry.key));
    for entry in table.entries.iter().filter(|entry| !below(entry)) {
        let line = format!("{} = {}", key(&entry.key), today(entry));
        text.push_str(&format!("{line:<COLUMN$}  # {}\n", place(&entry.place)));
    }
    for entry in table.entries.iter().filter(|entry| below(entry)) {
        let inner = join(path, &key(&entry.key));
        let pattern = join(pattern, &entry.key);
        match &entry.node.value {
            Value::List(items) => {
                for item in items.iter().filter_map(Node::table) {
                    text.push_str(&format!("\n[[{inner}]]\n"));
                    self::table(text, item, &inner, &format!("{pattern}[]"));
                }
            }
            Value::Table(section) if ["providers", "simulation.providers"].contains(&pattern.as_str()) => {
                for named in &section.entries {
                    let Some(provider) = named.node.table() else { continue };
                    let inner = join(&inner, &key(&named.key));
                    text.push_str(&format!("\n[{inner}]\n"));
                    self::table(text, provider, &inner, &format!("{pattern}.*"));
                }
            }
            Value::Table(section) => {
                text.push_str(&format!("\n[{inner}]\n"));
                self::table(text, section, &inner, &pattern);
            }
            _ => {}
        }
    }
}

/// The value of an entry; a number whose former name told its unit gets it.
fn today(entry: &Entry) -> String {
    let unit = entry.written.as_deref().and_then(Unit::of_former);
    let shown = unit.zip(entry.node.number()).and_then(|(unit, number)| unit.show(number));
    shown.map_or_else(|| value(&entry.node.value), |shown| quoted(&shown))
}

/// Whether what stands at `pattern` is written below a header of its own, rather than in one line.
fn is_section(node: &Node, pattern: &str) -> bool {
    match &node.value {
        Value::Table(_) => {
            let inline = ["pricing", "usd_per_million", "usd_each", "default_parameters"];
            let described = REFERENCE.section(pattern).is_some() || pattern.ends_with("providers");
            described && !inline.iter().any(|key| pattern.ends_with(key))
        }
        Value::List(_) => REFERENCE.section(&format!("{pattern}[]")).is_some(),
        _ => false,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn key(key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { quoted(key) }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn place(place: &SourceLocation) -> String {
    place.to_string().chars().filter(|c| !c.is_control()).collect()
}

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

/// A text of several lines in one: the writer of the library would spread it.
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
