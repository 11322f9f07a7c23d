//! A configuration as text: what `pointsman config show` prints.

use super::{
    fault::SourceLocation,
    quantity::Unit,
    reference::REFERENCE,
    toml_value::{key, quoted, value},
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

fn place(place: &SourceLocation) -> String {
    place.to_string().chars().filter(|c| !c.is_control()).collect()
}
