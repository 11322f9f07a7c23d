//! Writes a configuration as TOML, for `pointsman config show`.

use super::{
    fault::SourceLocation,
    reference::REFERENCE,
    toml_value::{key, value},
    tree::{Entry, Node, Table, Value},
};

/// Column of the comments, unless a line is longer.
const COMMENT_COLUMN: usize = 48;

/// The tree as TOML. A comment after each key shows the source of its value.
pub(super) fn toml(root: &Table) -> String {
    let mut text = String::new();
    table(&mut text, root, "", "");
    text
}

/// Writes plain keys before sections, as TOML requires. `pattern` is the path of the table in the reference, with `*` and
/// `[]`.
fn table(text: &mut String, table: &Table, path: &str, pattern: &str) {
    let below = |entry: &Entry| is_section(&entry.node, &join(pattern, &entry.key));
    for entry in table.entries.iter().filter(|entry| !below(entry)) {
        let line = format!("{} = {}", key(&entry.key), value(&entry.node.value));
        text.push_str(&format!("{line:<COMMENT_COLUMN$}  # {}\n", location(&entry.location)));
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

/// Whether the value at `pattern` is written as a section, not inline.
fn is_section(node: &Node, pattern: &str) -> bool {
    match &node.value {
        Value::Table(_) => {
            let inline = ["pricing", "usd_per_million", "usd_each", "default_parameters"];
            let described = REFERENCE.at(pattern).is_some() || pattern.ends_with("providers");
            described && !inline.iter().any(|key| pattern.ends_with(key))
        }
        Value::List(_) => REFERENCE.at(&format!("{pattern}[]")).is_some(),
        _ => false,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn location(location: &SourceLocation) -> String {
    location.to_string().chars().filter(|c| !c.is_control()).collect()
}
