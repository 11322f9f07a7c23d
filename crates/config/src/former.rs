//! Former names of keys, and keys without effect: both are accepted with a warning.
//!
//! Keys are renamed before the configuration is read. An entry keeps the path that the operator wrote, for faults and
//! for the unit in a former name.

use super::{
    fault::{Faults, SourceLocation},
    quantity::Unit,
    reference::{REFERENCE, Reference},
    tree::{Entry, Table, Value, descend},
};

/// Renames all keys with former names.
pub(super) fn rename(root: &mut Table, faults: &Faults) {
    rename_as(&REFERENCE, root, faults);
}

fn rename_as(reference: &Reference, root: &mut Table, faults: &Faults) {
    for section in &reference.sections {
        for key in &section.keys {
            if let Some(former) = &key.was {
                let current = format!("{}.{}", section.path, key.name);
                visit(root, "", former, &current, &mut |base, prefix, former, current| {
                    Rename { reference, prefix, former, current }.apply(base, faults);
                });
            }
        }
    }
    for removed in &reference.removed {
        visit(root, "", &removed.path, &removed.path, &mut |base, prefix, path, _| {
            let Some(entry) = take(reference, base, path) else { return };
            faults.warning(&entry.location, &full(prefix, path), format!("has no effect: {}", removed.why));
        });
    }
}

/// Calls `change` for every table that matches the part of the paths before the last `*`, with the rest of both paths.
fn visit(
    table: &mut Table,
    prefix: &str,
    former: &str,
    current: &str,
    change: &mut dyn FnMut(&mut Table, &str, &str, &str),
) {
    let (Some((above, former)), Some((_, current))) = (former.split_once(".*."), current.split_once(".*.")) else {
        change(table, prefix, former, current);
        return;
    };
    let inner = above.split('.').try_fold(table, |table, key| table.table_mut(key));
    for entry in inner.into_iter().flat_map(|inner| &mut inner.entries) {
        let prefix = full(prefix, &format!("{above}.{}", entry.key));
        if let Value::Table(table) = &mut entry.node.value {
            visit(table, &prefix, former, current, change);
        }
    }
}

fn full(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") }
}

/// A key and its former name.
struct Rename<'m> {
    reference: &'m Reference,
    prefix: &'m str,
    former: &'m str,
    current: &'m str,
}

impl Rename<'_> {
    fn apply(&self, base: &mut Table, faults: &Faults) {
        let Some(mut entry) = take(self.reference, base, self.former) else { return };
        let (former, current) = (full(self.prefix, self.former), full(self.prefix, self.current));
        let (above, key) = self.current.rsplit_once('.').unwrap_or(("", self.current));
        let path: Vec<&str> = above.split('.').filter(|key| !key.is_empty()).collect();
        let Some(table) = descend(base, &path, &entry.location) else { return };
        let is_variable = |location: &SourceLocation| matches!(location, SourceLocation::Variable(_));
        if let Some(other) = table.get(key) {
            // A variable overrides the file, also when only one of them uses the former name.
            if is_variable(&other.location) || !is_variable(&entry.location) {
                let allowed = format!("one of the two: {current}, as it is called today");
                faults.value(
                    &entry.location,
                    &former,
                    format!("is set together with {current}, which is the same key"),
                    allowed,
                );
                return;
            }
            table.entries.retain(|other| other.key != key);
        }
        faults.warning(&entry.location, &former, self.advice(&current, key, &entry));
        key.clone_into(&mut entry.key);
        entry.written = Some(former);
        table.entries.push(entry);
    }

    /// The current name, with the value if the former name ends in a unit.
    fn advice(&self, current: &str, key: &str, entry: &Entry) -> String {
        let number = Unit::of_former(self.former).zip(entry.node.number());
        match number.and_then(|(unit, number)| unit.show(number)) {
            Some(value) => format!("is called {current} today: {key} = \"{value}\""),
            None => format!("is called {current} today"),
        }
    }
}

/// Removes the entry at `path`, and its table if that is empty afterwards and not a current section.
fn take(reference: &Reference, base: &mut Table, path: &str) -> Option<Entry> {
    let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
    let table =
        above.split('.').filter(|key| !key.is_empty()).try_fold(&mut *base, |table, key| table.table_mut(key))?;
    let position = table.entries.iter().position(|entry| entry.key == key)?;
    let entry = table.entries.remove(position);
    if table.entries.is_empty() && !above.is_empty() && reference.section(above).is_none() {
        take(reference, base, above);
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, environment::Environment, reference::Removed, tree};

    fn read<const N: usize>(toml: &str, variables: [(&str, &str); N]) -> (Result<Config, String>, String) {
        let environment: Environment = variables.into_iter().collect();
        let lines = |lines: Vec<String>| lines.join("\n");
        match Config::parse(toml, "f", Path::new("."), &environment) {
            Ok(config) => {
                let warnings = lines(config.warnings().iter().map(ToString::to_string).collect());
                (Ok(config), warnings)
            }
            Err(faults) => (Err(lines(faults.iter().map(ToString::to_string).collect())), String::new()),
        }
    }

    #[test]
    fn a_former_name_works_and_warns_with_its_location_and_the_new_line() {
        let (config, warnings) = read("[timeouts]\nconnect_secs = 1.5\n[limits]\nmax_body_bytes = 1048576", []);
        let config = config.unwrap();
        assert_eq!((config.timeouts.connect.as_millis(), config.limits.max_body_bytes), (1500, 1 << 20));
        assert_eq!(
            warnings,
            "f:2:1: timeouts.connect_secs: is called timeouts.connect today: connect = \"1s500ms\"\n\
             f:4:1: limits.max_body_bytes: is called limits.max_body today: max_body = \"1MiB\""
        );
    }

    #[test]
    fn a_key_of_a_former_section_works_and_the_empty_section_is_no_fault() {
        let (config, warnings) = read("[routing]\nstaleness = 0.5\n[routing.latency_targets]\ngain = 0.3", []);
        let policy = config.unwrap().routing.policy;
        assert_eq!((policy.staleness, policy.targets.gain), (0.5, 0.3));
        assert_eq!(
            warnings,
            "f:2:1: routing.staleness: is called routing.expert.staleness today\n\
             f:4:1: routing.latency_targets.gain: is called routing.expert.target_gain today"
        );
    }

    #[test]
    fn a_former_name_in_a_named_section_works() {
        let (config, warnings) = read("[providers.a]\nbase_url = \"http://h/v1\"\npermit_wait_ms = 7", []);
        assert_eq!(config.unwrap().providers[0].permit_wait.as_millis(), 7);
        assert_eq!(
            warnings,
            "f:3:1: providers.a.permit_wait_ms: is called providers.a.permit_wait today: permit_wait = \"7ms\""
        );
    }

    #[test]
    fn both_names_at_once_are_a_fault() {
        let (config, _) = read("[timeouts]\nconnect = \"1s\"\nconnect_secs = 2", []);
        let fault = "f:3:1: timeouts.connect_secs: is set together with timeouts.connect, which is the same key; allowed: one of the \
                     two: timeouts.connect, as it is called today";
        assert_eq!(config.unwrap_err(), fault);
        let both = [("POINTSMAN__TIMEOUTS__CONNECT", "1s"), ("POINTSMAN__TIMEOUTS__CONNECT_SECS", "2")];
        let (config, _) = read("", both);
        assert!(
            config
                .unwrap_err()
                .starts_with("POINTSMAN__TIMEOUTS__CONNECT_SECS: timeouts.connect_secs: is set together with")
        );
    }

    #[test]
    fn a_variable_with_either_name_overrides_a_file_with_the_other() {
        let (config, warnings) = read("[timeouts]\nconnect = \"1s\"", [("POINTSMAN__TIMEOUTS__CONNECT_SECS", "3")]);
        assert_eq!(config.unwrap().timeouts.connect.as_secs(), 3);
        assert!(
            warnings.starts_with("POINTSMAN__TIMEOUTS__CONNECT_SECS: timeouts.connect_secs: is called"),
            "{warnings}"
        );
        let (config, warnings) = read("[timeouts]\nconnect_secs = 1", [("POINTSMAN__TIMEOUTS__CONNECT", "4s")]);
        assert_eq!(config.unwrap().timeouts.connect.as_secs(), 4);
        assert!(warnings.starts_with("f:2:1: timeouts.connect_secs: is called timeouts.connect"), "{warnings}");
    }

    #[test]
    fn a_number_without_a_unit_is_a_fault_under_the_new_name() {
        let (config, _) = read("[timeouts]\nconnect = 2\ntotal = \"2\"\nfirst_byte = \"2d\"", []);
        assert_eq!(
            config.unwrap_err(),
            "f:2:11: timeouts.connect: got a whole number; allowed: a time with its unit from 1ms to 1day, such as \"15s\"\n\
             f:3:9: timeouts.total: is not a time; allowed: a time with its unit from 1ms to 1day, such as \"15s\"\n\
             f:4:14: timeouts.first_byte: 2d is out of range; allowed: a time with its unit from 1ms to 1day, such as \"15s\""
        );
    }

    #[test]
    fn a_key_without_effect_is_removed_and_warned_about() {
        let removed = |path: &str| Removed { path: path.to_owned(), why: "it bought nothing".to_owned() };
        let reference = Reference { sections: Vec::new(), removed: vec![removed("a.b"), removed("c.*.d")] };
        let faults = Faults::default();
        let mut root = tree::read("[a]\nb = 1\n[c.x]\nd = 2\ne = 3", "f", &faults);
        rename_as(&reference, &mut root, &faults);
        let warnings: Vec<String> = faults.take_warnings().iter().map(ToString::to_string).collect();
        let reason = "has no effect: it bought nothing";
        assert_eq!(warnings, [format!("f:2:1: a.b: {reason}"), format!("f:4:1: c.x.d: {reason}")]);
        assert!(root.get("a").is_none() && root.at(["c", "x", "e"]).is_some() && root.at(["c", "x", "d"]).is_none());
    }
}
