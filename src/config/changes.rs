//! What two configurations say differently, by key: for the log and for administrators. Keys only, never what they are set
//! to.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::{
    Config,
    tree::{Node, Table, Value},
};

/// Changed keys that are told one by one.
const MOST_TOLD: usize = 20;

/// Every key of a configuration with the digest of its value. Of lists of tables, the entries are told apart by what
/// identifies them, so that a new one in the middle is one change.
#[derive(Debug, Clone, Default)]
pub(super) struct Written(BTreeMap<String, u64>);

/// How a key is written says nothing about what it does: a configuration that spells out a default is the same.
impl PartialEq for Written {
    fn eq(&self, _: &Written) -> bool {
        true
    }
}

impl Written {
    /// The keys of a configuration as it was read, those of the environment included.
    pub(super) fn of(root: &Table) -> Written {
        let mut written = Written::default();
        written.table("", root);
        written
    }

    fn table(&mut self, path: &str, table: &Table) {
        for entry in &table.entries {
            let dot = if path.is_empty() { "" } else { "." };
            self.node(&format!("{path}{dot}{}", entry.key), &entry.node);
        }
    }

    fn node(&mut self, path: &str, node: &Node) {
        match &node.value {
            Value::Table(table) => self.table(path, table),
            Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Table(_))) => {
                for (position, item) in items.iter().enumerate() {
                    let name = name(item).map_or_else(|| position.to_string(), |name| format!("\"{name}\""));
                    self.node(&format!("{path}[{name}]"), item);
                }
            }
            value => {
                let mut digest = DefaultHasher::new();
                plain(value).hash(&mut digest);
                // Twins of one name share a path: what both hold counts.
                let held = self.0.entry(path.to_owned()).or_default();
                *held = held.wrapping_mul(31).wrapping_add(digest.finish());
            }
        }
    }
}

/// What tells an entry of a list of tables from the others.
fn name(item: &Node) -> Option<&str> {
    let Value::Table(table) = &item.value else { return None };
    ["id", "name", "provider"].iter().find_map(|key| match &table.get(key)?.node.value {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// A plain value as text, without the places in it.
fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        Value::Integer(number) => number.to_string(),
        Value::Huge => "huge".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Date(date) => date.to_string(),
        Value::List(items) => items.iter().fold(String::new(), |mut all, item| {
            // Writing to a `String` cannot fail.
            let _ = write!(all, "{},", plain(&item.value));
            all
        }),
        Value::Table(_) => String::new(),
    }
}

impl Config {
    /// The keys that this configuration sets otherwise than `before`, at most a few of them and a count of the others. A
    /// change in none of them is one of order, or lies in a file or a variable that the configuration names.
    #[must_use]
    pub fn changes_since(&self, before: &Config) -> Vec<String> {
        let (new, old) = (&self.written.0, &before.written.0);
        let changed = new.iter().filter(|(key, digest)| old.get(*key) != Some(*digest)).map(|(key, _)| key);
        let gone = old.keys().filter(|key| !new.contains_key(*key));
        let mut keys: Vec<String> = changed.chain(gone).cloned().collect();
        keys.sort_unstable();
        if keys.is_empty() && self != before {
            return vec!["the order of a list, or what a file or a variable that it names holds".to_owned()];
        }
        let more = keys.len().saturating_sub(MOST_TOLD);
        keys.truncate(MOST_TOLD);
        keys.extend((more > 0).then(|| format!("{more} more")));
        keys
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(toml: &str) -> Config {
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        Config::parse(&format!("{toml}\n[simulation]\nmode = \"off\"\n"), "test", Path::new("."), &environment).unwrap()
    }

    #[track_caller]
    fn check(before: &str, after: &str, changes: &[&str]) {
        assert_eq!(config(after).changes_since(&config(before)), changes, "{before} -> {after}");
    }

    #[test]
    fn changed_new_and_vanished_keys_are_named_and_nothing_else() {
        check("[limits]\nmax_n = 4", "[limits]\nmax_n  = 4 # the same", &[]);
        check("[limits]\nmax_n = 4", "[limits]\nmax_n = 5", &["limits.max_n"]);
        check("[limits]\nmax_n = 4", "[limits]\nmax_tools = 5", &["limits.max_n", "limits.max_tools"]);
    }

    #[test]
    fn a_new_entry_in_the_middle_of_a_list_is_no_change_of_the_others() {
        let alias = |id: &str| format!("[[aliases]]\nname = \"{id}\"\nobjective = \"fastest\"\n");
        let (one, two) = (alias("service/one"), alias("service/two"));
        let new = ["aliases[\"service/one\"].name", "aliases[\"service/one\"].objective"];
        check(&two, &format!("{one}{two}"), &new);
    }

    #[test]
    fn many_changes_are_counted() {
        let many: String = (0..30).map(|n| format!("[[aliases]]\nname = \"service/a{n}\"\n")).collect();
        let changes = config(&many).changes_since(&config(""));
        assert_eq!((changes.len(), changes.last().map(String::as_str)), (21, Some("10 more")));
    }
}
