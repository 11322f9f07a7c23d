//! The keys that a configuration sets, and those whose values differ between two, for the log and for administrators.
//! The log and the audit log have names only. Values are shown to administrators who ask what a reload would change: the
//! configuration holds no secrets, and what might be one by mistake is left out, such as the queries of URLs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::{
    fault::SourceLocation,
    reference,
    restart::PendingRestart,
    toml_value,
    tree::{Node, Table, Value},
};

/// Longest list of changed keys.
const MAX_LISTED: usize = 20;
/// Longest shown value, in characters.
const MAX_SHOWN: usize = 120;
/// Ends of paths whose values are not shown: digests of keys, and headers and addresses of alerts, into which people put
/// secrets by mistake.
const UNSHOWN: [&str; 3] = [".sha256", ".headers", ".url"];

/// Every key of a configuration with the digest of its value and its place. Entries in lists of tables are identified by
/// their name, so that an entry inserted in the middle does not change the others.
#[derive(Debug, Clone, Default)]
pub struct WrittenConfig {
    keys: BTreeMap<String, WrittenKey>,
    /// What is in force instead for the keys that wait for a restart; `None` if the key is not set.
    waiting: BTreeMap<String, Option<WrittenKey>>,
}

/// A key whose value on disk differs from the one in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedKey {
    /// Its path.
    pub key: String,
    /// The value in force as TOML; `None` if the key is not set.
    pub in_force: Option<String>,
    /// The value on disk, or `None`.
    pub on_disk: Option<String>,
    /// Where it is set on disk.
    pub location: Option<SourceLocation>,
}

/// A key with the value that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInForce {
    /// Its path.
    pub key: String,
    /// The value as TOML, cut after 120 characters.
    pub value: String,
    /// Where it is set.
    pub location: SourceLocation,
}

impl ChangedKey {
    /// Whether it is one of the settings that wait for a restart, or a part of one.
    pub fn waits(&self, pending: &[PendingRestart]) -> bool {
        waits(&self.key, pending)
    }
}

#[derive(Debug, Clone)]
struct WrittenKey {
    digest: u64,
    /// The value as TOML, cut; those of several entries with the same name one after the other.
    shown: String,
    /// The first place, if several entries have the same name.
    location: SourceLocation,
}

impl WrittenConfig {
    /// The keys of a configuration, including those of the environment.
    pub(super) fn new(root: &Table) -> WrittenConfig {
        let mut written = WrittenConfig::default();
        written.table("", root);
        written
    }

    /// The keys whose values differ from `before`, without those that wait for a restart: at most 20, and
    /// the number of the others. Call it only for configurations that differ: if no key differs, the difference is the
    /// order of a list, or the content of a file or variable that a key names.
    pub fn changes_since(&self, before: &WrittenConfig, waiting: &[PendingRestart]) -> Vec<String> {
        let differences = self.differences_from(before).into_iter().filter(|change| !change.waits(waiting));
        let mut keys: Vec<String> = differences.map(|change| change.key).collect();
        if keys.is_empty() {
            return vec!["the order of a list, or the content of a file or variable".to_owned()];
        }
        let more = keys.len().saturating_sub(MAX_LISTED);
        keys.truncate(MAX_LISTED);
        keys.extend((more > 0).then(|| format!("{more} more")));
        keys
    }

    /// The keys whose values differ from those that are in force with `before`, by key, with both values.
    pub fn differences_from(&self, before: &WrittenConfig) -> Vec<ChangedKey> {
        self.differences(before.all_keys(), |key| before.in_force(key))
    }

    /// The keys for which `before` says something else, by key, with both values. What `before` says stands in place of what
    /// is in force, also where it waits for a restart.
    pub fn written_differences_from(&self, before: &WrittenConfig) -> Vec<ChangedKey> {
        self.differences(before.keys.keys(), |key| before.keys.get(key))
    }

    fn differences<'a>(
        &'a self,
        other_keys: impl Iterator<Item = &'a String>,
        before: impl Fn(&str) -> Option<&'a WrittenKey>,
    ) -> Vec<ChangedKey> {
        let keys: BTreeSet<&String> = self.keys.keys().chain(other_keys).collect();
        let difference = |key: &String| {
            let (new, old) = (self.keys.get(key), before(key));
            if new.map(|written| written.digest) == old.map(|written| written.digest) {
                return None;
            }
            let shown = |written: Option<&WrittenKey>| written.map(|written| written.shown.clone());
            let location = new.map(|written| written.location.clone());
            Some(ChangedKey { key: key.clone(), in_force: shown(old), on_disk: shown(new), location })
        };
        keys.into_iter().filter_map(difference).collect()
    }

    /// Notes what `running` has in force for the keys that wait for a restart. Call it before this configuration comes into
    /// force.
    pub fn keep_waiting(&mut self, running: &WrittenConfig, pending: &[PendingRestart]) {
        let keys = self.keys.keys().chain(running.all_keys()).filter(|key| waits(key, pending));
        self.waiting = keys.map(|key| (key.clone(), running.in_force(key).cloned())).collect();
    }

    /// The keys and where their values stand, by key.
    pub fn places(&self) -> impl Iterator<Item = (&str, &SourceLocation)> {
        self.keys.iter().map(|(key, written)| (key.as_str(), &written.location))
    }

    /// The keys that this file or a variable sets and their values as TOML, by key. What might be a secret is not shown, and long
    /// values are cut.
    pub fn values(&self, of: &str) -> impl Iterator<Item = (&str, &str)> {
        let is_set = move |location: &SourceLocation| match location {
            SourceLocation::File { file, .. } => **file == *of,
            SourceLocation::Variable(_) => true,
            SourceLocation::Default => false,
        };
        let set = self.keys.iter().filter(move |(_, written)| is_set(&written.location));
        set.map(|(key, written)| (key.as_str(), written.shown.as_str()))
    }

    /// Every key with its value in force, by key: also what the built-in catalogue sets, and the defaults of keys that are not set.
    pub fn in_force_keys(&self) -> Vec<KeyInForce> {
        let mut keys: BTreeMap<String, WrittenKey> = BTreeMap::new();
        reference::defaults(|path, value| {
            keys.insert(path.to_owned(), WrittenKey::of(path, value, SourceLocation::Default));
        });
        for key in self.keys.keys().chain(self.waiting.keys()) {
            // What waits for a restart, and was not set before, has its default until then.
            if let Some(written) = self.in_force(key) {
                keys.insert(key.clone(), written.clone());
            }
        }
        let listed = keys.into_iter();
        listed.map(|(key, WrittenKey { shown, location, .. })| KeyInForce { key, value: shown, location }).collect()
    }

    /// The keys that are written or in force. Some come twice.
    fn all_keys(&self) -> impl Iterator<Item = &String> {
        self.keys.keys().chain(self.waiting.keys())
    }

    /// A key as it is in force while this configuration is.
    fn in_force(&self, key: &str) -> Option<&WrittenKey> {
        self.waiting.get(key).map_or_else(|| self.keys.get(key), Option::as_ref)
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
                    let name = name_of(item).map_or_else(|| position.to_string(), |name| format!("\"{name}\""));
                    self.node(&format!("{path}[{name}]"), item);
                }
            }
            value => {
                let mut digest = DefaultHasher::new();
                plain(value).hash(&mut digest);
                // Entries with the same name share a path, so their digests are combined.
                let new = || WrittenKey::empty(node.location.clone());
                let written = self.keys.entry(path.to_owned()).or_insert_with(new);
                written.digest = written.digest.wrapping_mul(31).wrapping_add(digest.finish());
                written.show(path, value);
            }
        }
    }
}

impl WrittenKey {
    const fn empty(location: SourceLocation) -> WrittenKey {
        WrittenKey { digest: 0, shown: String::new(), location }
    }

    /// A value that is shown only.
    fn of(path: &str, value: &Value, location: SourceLocation) -> WrittenKey {
        let mut key = WrittenKey::empty(location);
        key.show(path, value);
        key
    }

    /// Adds a value to what is shown.
    fn show(&mut self, path: &str, value: &Value) {
        let is_unshown = UNSHOWN.iter().any(|end| path.ends_with(end) || path.contains(&format!("{end}.")));
        let url_parts = match value {
            Value::Text(text) if text.contains("://") => text.split_once('?'),
            _ => None,
        };
        let text = match url_parts {
            _ if is_unshown => "***".to_owned(),
            // People put keys into the query.
            Some((address, _)) => toml_value::quoted(&format!("{address}?…")),
            None => toml_value::value(value),
        };
        let room = MAX_SHOWN.saturating_sub(self.shown.chars().count());
        if room == 0 {
            return;
        }
        if !self.shown.is_empty() {
            self.shown.push_str(", ");
        }
        let is_cut = text.chars().count() > room;
        self.shown.extend(text.chars().filter(|c| !c.is_control()).take(room));
        if is_cut {
            self.shown.push('…');
        }
    }
}

/// The identifying name of an entry in a list of tables.
pub(super) fn name_of(item: &Node) -> Option<&str> {
    let Value::Table(table) = &item.value else { return None };
    ["id", "name", "provider"].iter().find_map(|key| match &table.get(key)?.node.value {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// A value as text, without source locations.
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

/// Whether `key` is one of the settings that wait for a restart, or a part of one.
fn waits(key: &str, pending: &[PendingRestart]) -> bool {
    pending.iter().any(|pending| is_within(pending.key, key))
}

/// Whether `key` is `section` or below it: `server.tls.cert_file` is below `server.tls`, and `server.tls_x` is not.
fn is_within(section: &str, key: &str) -> bool {
    let within = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    key.strip_prefix(section).is_some_and(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fault::Faults, tree};

    fn written(toml: &str) -> WrittenConfig {
        WrittenConfig::new(&tree::read(toml, "test", &Faults::default()))
    }

    #[track_caller]
    fn check(before: &str, after: &str, changes: &[&str]) {
        check_while_waiting(&[], before, after, changes);
    }

    #[track_caller]
    fn check_while_waiting(keys: &[&'static str], before: &str, after: &str, changes: &[&str]) {
        let waiting = pending(keys);
        assert_eq!(written(after).changes_since(&written(before), &waiting), changes, "{before} -> {after}");
    }

    fn pending(keys: &[&'static str]) -> Vec<PendingRestart> {
        let pending = |&key: &&'static str| PendingRestart { key, in_force: String::new(), wanted: String::new() };
        keys.iter().map(pending).collect()
    }

    /// What `after` changes, a line for each key.
    fn differences(after: &WrittenConfig, before: &WrittenConfig) -> Vec<String> {
        lines(&after.differences_from(before))
    }

    fn lines(changes: &[ChangedKey]) -> Vec<String> {
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unset".to_owned());
        let line = |it: &ChangedKey| format!("{}: {} -> {}", it.key, shown(&it.in_force), shown(&it.on_disk));
        changes.iter().map(line).collect()
    }

    #[test]
    fn changed_added_and_removed_keys_are_listed_and_no_others() {
        check("[limits]\nmax_n = 4\na = 1", "[limits]\nmax_n = 5\na  = 1 # the same", &["limits.max_n"]);
        check("[limits]\nmax_n = 4", "[limits]\nmax_tools = 5", &["limits.max_n", "limits.max_tools"]);
    }

    #[test]
    fn a_difference_outside_of_the_keys_is_reported_as_such() {
        check("a = 1", "a = 1", &["the order of a list, or the content of a file or variable"]);
    }

    #[test]
    fn a_key_that_waits_for_a_restart_is_left_out_and_keys_with_the_same_prefix_are_not() {
        let before = "[server]\nbind = 1\nbind_x = 1\n[server_x]\na = 1";
        let after = "[server]\nbind = 2\nbind_x = 2\n[server_x]\na = 2";
        check_while_waiting(&["server.bind"], before, after, &["server.bind_x", "server_x.a"]);
    }

    #[test]
    fn a_section_that_waits_for_a_restart_is_left_out_with_its_keys() {
        let after = "[server.tls]\ncert_file = 1\n[[server.tls.clients]]\nname = \"a\"\n[server.tls_x]\na = 1";
        check_while_waiting(&["server.tls"], "", after, &["server.tls_x.a"]);
        check_while_waiting(&["server.tls.clients"], "", after, &["server.tls.cert_file", "server.tls_x.a"]);
    }

    #[test]
    fn a_new_entry_in_the_middle_of_a_list_is_no_change_of_the_others() {
        let alias = |id: &str| format!("[[aliases]]\nname = \"{id}\"\nobjective = \"fastest\"\n");
        let (one, two) = (alias("service/one"), alias("service/two"));
        let new = ["aliases[\"service/one\"].name", "aliases[\"service/one\"].objective"];
        check(&two, &format!("{one}{two}"), &new);
    }

    #[test]
    fn a_difference_has_both_values_and_no_header_or_digest() {
        let before =
            "[limits]\nmax_n = 4\n[providers.acme.headers]\nx-team = \"a\"\n[[keys]]\nname = \"k\"\nsha256 = \"aa\"";
        let after = "[limits]\nmax_tools = [1, 2]\n[providers.acme.headers]\nx-team = \"b\"\n[[keys]]\nname = \"k\"\nsha256 = \"bb\"";
        assert_eq!(
            differences(&written(after), &written(before)),
            [
                "keys[\"k\"].sha256: *** -> ***",
                "limits.max_n: 4 -> unset",
                "limits.max_tools: unset -> [1, 2]",
                "providers.acme.headers.x-team: *** -> ***",
            ]
        );
        let changes = written(after).differences_from(&written(before));
        assert_eq!(changes[2].location.as_ref().map(ToString::to_string).as_deref(), Some("test:2:13"));
        assert_eq!(written(after).differences_from(&written(after)), []);
    }

    #[test]
    fn every_key_in_force_has_its_value_and_source_and_a_default_is_one_of_them() {
        let listed = |written: &WrittenConfig, key: &str| {
            let found = written.in_force_keys().into_iter().find(|listed| listed.key == key);
            found.map(|found| format!("{} {}", found.value, found.location))
        };
        let mut config =
            written("[limits]\nmax_n = 4\n[providers.acme.headers]\nx-team = \"a\"\n[server]\nbind = \"new\"");
        assert_eq!(listed(&config, "limits.max_n").as_deref(), Some("4 test:2:9"));
        assert_eq!(listed(&config, "providers.acme.headers.x-team").as_deref(), Some("*** test:4:10"));
        assert!(listed(&config, "reload.debounce").is_some_and(|default| default.ends_with(" default")));
        config.keep_waiting(&written("[server]\nbind = \"old\""), &pending(&["server.bind"]));
        assert_eq!(listed(&config, "server.bind").as_deref(), Some("\"old\" test:2:8"));
        config.keep_waiting(&written(""), &pending(&["server.bind"]));
        assert!(listed(&config, "server.bind").is_some_and(|default| default.ends_with(" default")));
    }

    #[test]
    fn a_url_is_shown_without_its_query() {
        let before = "[providers.acme]\nbase_url = \"https://a.example/v1?key=secret\"";
        let after = "[providers.acme]\nbase_url = \"https://a.example/v2?key=secret\"\n[console]\n\
                     trace_url = \"https://b.example/{trace_id}?token=secret\"\nnote = \"why?\"";
        assert_eq!(
            differences(&written(after), &written(before)),
            [
                "console.note: unset -> \"why?\"",
                "console.trace_url: unset -> \"https://b.example/{trace_id}?…\"",
                "providers.acme.base_url: \"https://a.example/v1?…\" -> \"https://a.example/v2?…\"",
            ]
        );
    }

    #[test]
    fn a_key_that_waits_for_a_restart_is_compared_with_what_is_in_force() {
        let config = |bind: u8, a: u8| written(&format!("[server]\nbind = {bind}\n[x]\na = {a}"));
        let mut second = config(2, 2);
        second.keep_waiting(&config(1, 1), &pending(&["server.bind"]));
        assert_eq!(differences(&config(3, 2), &second), ["server.bind: 1 -> 3"]);
        assert!(differences(&config(1, 2), &second).is_empty());
        assert_eq!(differences(&written("[x]\na = 2"), &second), ["server.bind: 1 -> unset"]);
        let mut third = config(3, 3);
        third.keep_waiting(&second, &pending(&["server.bind"]));
        assert_eq!(differences(&config(3, 3), &third), ["server.bind: 1 -> 3"]);
        let mut added = config(2, 2);
        added.keep_waiting(&written("[x]\na = 1"), &pending(&["server.bind"]));
        assert_eq!(differences(&config(2, 2), &added), ["server.bind: unset -> 2"]);
        assert_eq!(added.places().count(), 2, "it is still written");
    }

    #[test]
    fn what_waits_for_a_restart_is_listed_once_when_versions_are_compared_as_written() {
        let config = |bind: u8, a: u8| written(&format!("[server]\nbind = {bind}\n[x]\na = {a}"));
        let first = config(1, 1);
        let (mut second, mut third) = (config(2, 2), config(2, 3));
        second.keep_waiting(&first, &pending(&["server.bind"]));
        third.keep_waiting(&second, &pending(&["server.bind"]));
        assert_eq!(lines(&second.written_differences_from(&first)), ["server.bind: 1 -> 2", "x.a: 1 -> 2"]);
        assert_eq!(lines(&third.written_differences_from(&second)), ["x.a: 2 -> 3"]);
        assert!(second.written_differences_from(&second).is_empty());
    }

    #[test]
    fn a_long_value_is_cut() {
        let long = format!("a = \"{}\"", "x".repeat(500));
        let [change] = &written(&long).differences_from(&written(""))[..] else { panic!("one change") };
        assert_eq!(change.on_disk.as_ref().map(|text| text.chars().count()), Some(MAX_SHOWN + 1));
    }

    #[test]
    fn many_changes_are_counted() {
        let many: String = (0..30).map(|n| format!("[[aliases]]\nname = \"service/a{n}\"\n")).collect();
        let changes = written(&many).changes_since(&written(""), &[]);
        assert_eq!((changes.len(), changes.last().map(String::as_str)), (21, Some("10 more")));
    }
}
