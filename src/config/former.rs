//! Keys under their former names, and keys that have no effect any more: accepted, with a warning.
//!
//! They are moved to where they belong today before anything is read, and keep the path under which they were written,
//! so that faults and units are those of what the operator sees.

use super::{
    fault::{Faults, SourceLocation},
    quantity::Unit,
    reference::{REFERENCE, Reference},
    tree::{Entry, Table, Value, descend},
};

/// Moves every key with a former name to its place of today.
pub(super) fn rename(root: &mut Table, faults: &Faults) {
    rename_as(&REFERENCE, root, faults);
}

fn rename_as(reference: &Reference, root: &mut Table, faults: &Faults) {
    for section in &reference.sections {
        for key in &section.keys {
            if let Some(was) = &key.was {
                let today = format!("{}.{}", section.path, key.name);
                visit(root, "", was, &today, &mut |base, prefix, was, today| {
                    Move { reference, prefix, was, today }.apply(base, faults);
                });
            }
        }
    }
    for removed in &reference.removed {
        visit(root, "", &removed.path, &removed.path, &mut |base, prefix, path, _| {
            let Some(entry) = take(reference, base, path) else { return };
            faults.warning(&entry.place, &full(prefix, path), format!("has no effect any more: {}", removed.why));
        });
    }
}

/// Calls `change` at every table that stands for the part of both paths before their last `*`, with what is left of them.
fn visit(
    table: &mut Table,
    prefix: &str,
    was: &str,
    today: &str,
    change: &mut dyn FnMut(&mut Table, &str, &str, &str),
) {
    let (Some((above, was)), Some((_, today))) = (was.split_once(".*."), today.split_once(".*.")) else {
        change(table, prefix, was, today);
        return;
    };
    let inner = above.split('.').try_fold(table, |table, key| table.table_mut(key));
    for entry in inner.into_iter().flat_map(|inner| &mut inner.entries) {
        let prefix = full(prefix, &format!("{above}.{}", entry.key));
        if let Value::Table(table) = &mut entry.node.value {
            visit(table, &prefix, was, today, change);
        }
    }
}

fn full(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}.{path}") }
}

/// One key and its former name.
struct Move<'m> {
    reference: &'m Reference,
    prefix: &'m str,
    was: &'m str,
    today: &'m str,
}

impl Move<'_> {
    fn apply(&self, base: &mut Table, faults: &Faults) {
        let Some(mut entry) = take(self.reference, base, self.was) else { return };
        let (was, today) = (full(self.prefix, self.was), full(self.prefix, self.today));
        let (above, key) = self.today.rsplit_once('.').unwrap_or(("", self.today));
        let path: Vec<&str> = above.split('.').filter(|key| !key.is_empty()).collect();
        let Some(table) = descend(base, &path, &entry.place) else { return };
        let is_variable = |place: &SourceLocation| matches!(place, SourceLocation::Variable(_));
        if let Some(other) = table.get(key) {
            // A variable overrides what the file says, whatever either calls it.
            if is_variable(&other.place) || !is_variable(&entry.place) {
                let allowed = format!("one of the two: {today}, as it is called today");
                faults.value(&entry.place, &was, format!("stands beside {today}, which is the same key"), allowed);
                return;
            }
            table.entries.retain(|other| other.key != key);
        }
        faults.warning(&entry.place, &was, self.advice(&today, key, &entry));
        key.clone_into(&mut entry.key);
        entry.written = Some(was);
        table.entries.push(entry);
    }

    /// What to write today: with the value, where its unit was part of the name.
    fn advice(&self, today: &str, key: &str, entry: &Entry) -> String {
        let number = Unit::of_former(self.was).zip(entry.node.number());
        match number.and_then(|(unit, number)| unit.show(number)) {
            Some(value) => format!("is called {today} today: {key} = \"{value}\""),
            None => format!("is called {today} today"),
        }
    }
}

/// Takes out the entry at `path`, and its table too where nothing else stands in it and nobody reads it.
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
    use crate::config::{Config, environment::Environment, reference::Removed, tree};

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
    fn a_former_name_works_and_warns_with_its_place_and_the_new_line() {
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
    fn a_former_place_works_and_a_section_that_is_empty_without_it_is_no_fault() {
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
    fn a_former_name_below_a_name_of_the_operators_works() {
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
        let fault = "f:3:1: timeouts.connect_secs: stands beside timeouts.connect, which is the same key; allowed: one of the \
                     two: timeouts.connect, as it is called today";
        assert_eq!(config.unwrap_err(), fault);
        let both = [("POINTSMAN__TIMEOUTS__CONNECT", "1s"), ("POINTSMAN__TIMEOUTS__CONNECT_SECS", "2")];
        let (config, _) = read("", both);
        assert!(
            config.unwrap_err().starts_with("POINTSMAN__TIMEOUTS__CONNECT_SECS: timeouts.connect_secs: stands beside")
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
    fn a_removed_key_is_taken_out_and_its_reason_told() {
        let removed = |path: &str| Removed { path: path.to_owned(), why: "it bought nothing".to_owned() };
        let reference = Reference { sections: Vec::new(), removed: vec![removed("a.b"), removed("c.*.d")] };
        let faults = Faults::default();
        let mut root = tree::read("[a]\nb = 1\n[c.x]\nd = 2\ne = 3", "f", &faults);
        rename_as(&reference, &mut root, &faults);
        let warnings: Vec<String> = faults.take_warnings().iter().map(ToString::to_string).collect();
        let reason = "has no effect any more: it bought nothing";
        assert_eq!(warnings, [format!("f:2:1: a.b: {reason}"), format!("f:4:1: c.x.d: {reason}")]);
        assert!(root.get("a").is_none() && root.at(["c", "x", "e"]).is_some() && root.at(["c", "x", "d"]).is_none());
    }
}
