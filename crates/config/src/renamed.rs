//! Keys that were renamed: the name of before is accepted with a warning.
//!
//! `was` of a key in the reference is the path that it had. What stands there is moved to the current path before the
//! configuration is read.

use super::{
    fault::{Faults, SourceLocation},
    reference::{REFERENCE, Reference},
    tree::{Entry, Table, Value, descend},
};

/// Moves the values of all keys that were renamed.
pub(super) fn rename(root: &mut Table, faults: &Faults) {
    rename_as(&REFERENCE, root, faults);
}

fn rename_as(reference: &Reference, root: &mut Table, faults: &Faults) {
    for section in &reference.sections {
        for key in &section.keys {
            let Some(was) = &key.was else { continue };
            let is_gone = was.rsplit_once('.').is_some_and(|(above, _)| reference.section(above).is_none());
            let current = format!("{}.{}", section.path, key.name);
            visit(root, "", [was, &current], &mut |table, prefix, paths| apply(table, prefix, paths, is_gone, faults));
        }
    }
}

/// Calls `change` for every table that matches the part of both paths before the last `*`, with the rest of both.
fn visit(table: &mut Table, prefix: &str, [was, now]: [&str; 2], change: &mut dyn FnMut(&mut Table, &str, [&str; 2])) {
    let (Some((above, was)), Some((_, now))) = (was.split_once(".*."), now.split_once(".*.")) else {
        change(table, prefix, [was, now]);
        return;
    };
    let inner = above.split('.').try_fold(table, |table, key| table.table_mut(key));
    for entry in inner.into_iter().flat_map(|inner| &mut inner.entries) {
        if let Value::Table(table) = &mut entry.node.value {
            visit(table, &format!("{prefix}{above}.{}.", entry.key), [was, now], change);
        }
    }
}

/// Moves what stands at `was`. `is_gone`: there is no section of that path any more.
fn apply(table: &mut Table, prefix: &str, [was, now]: [&str; 2], is_gone: bool, faults: &Faults) {
    let Some(mut entry) = take(table, was, is_gone) else { return };
    let (shown, today) = (format!("{prefix}{was}"), format!("{prefix}{now}"));
    let (above, key) = now.rsplit_once('.').unwrap_or(("", now));
    let path: Vec<&str> = above.split('.').filter(|key| !key.is_empty()).collect();
    let Some(table) = descend(table, &path, &entry.location) else { return };
    if let Some(other) = table.get(key) {
        // A variable overrides the file, whichever of the two names it uses.
        let is_variable = |location: &SourceLocation| matches!(location, SourceLocation::Variable(_));
        if is_variable(&other.location) || !is_variable(&entry.location) {
            let wrong = format!("is set together with {today}, as the key is called today");
            return faults.value(&entry.location, &shown, wrong, "one of the two");
        }
        table.entries.retain(|other| other.key != key);
    }
    faults.warning(&entry.location, &shown, format!("is called {today} today"));
    key.clone_into(&mut entry.key);
    table.entries.push(entry);
}

/// Takes an entry out, and with `is_gone` its table if that is empty then.
fn take(table: &mut Table, path: &str, is_gone: bool) -> Option<Entry> {
    let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
    let inner =
        above.split('.').filter(|key| !key.is_empty()).try_fold(&mut *table, |table, key| table.table_mut(key))?;
    let position = inner.entries.iter().position(|entry| entry.key == key)?;
    let entry = inner.entries.remove(position);
    if is_gone && inner.entries.is_empty() {
        take(table, above, false);
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    const REFERENCE: &str = "[clocks]\nconnect = { default = \"1s\", was = \"timeouts.dial\", about = \"a\" }\n\
                             [\"providers.*\"]\nwait = { default = \"1s\", was = \"providers.*.delay\", about = \"a\" }\n";

    /// The tree after all renames, with the warnings or the faults.
    fn renamed(toml: &str, variable: Option<(&[&str], &str)>) -> (Table, String) {
        let faults = Faults::default();
        let reference = Reference::of(&tree::read(REFERENCE, "r", &faults));
        let mut root = tree::read(toml, "f", &faults);
        rename_as(&reference, &mut root, &faults);
        if let Some((path, value)) = variable {
            let location = SourceLocation::Variable("VARIABLE".into());
            let (key, above) = path.split_last().unwrap();
            let table = descend(&mut root, above, &location).unwrap();
            table.entries.retain(|entry| entry.key != *key);
            table.add(key, tree::Node::new(Value::Text(value.to_owned()), location));
            rename_as(&reference, &mut root, &faults);
        }
        let lines = |lines: Vec<String>| lines.join("\n");
        let warnings = lines(faults.take_warnings().iter().map(ToString::to_string).collect());
        let faults = lines(faults.into_sorted().iter().map(ToString::to_string).collect());
        (root, if faults.is_empty() { warnings } else { faults })
    }

    fn text<'t>(root: &'t Table, path: [&str; 2]) -> Option<&'t str> {
        root.at([path[0]])?.table()?.text(path[1])
    }

    #[test]
    fn the_name_of_before_works_and_warns_with_its_place_and_the_name_of_today() {
        let (root, warnings) = renamed("[timeouts]\ndial = \"3s\"\n[providers.a]\ndelay = \"4s\"", None);
        assert_eq!(text(&root, ["clocks", "connect"]), Some("3s"));
        assert!(root.get("timeouts").is_none(), "an empty section that is unknown today would be a fault");
        assert_eq!(root.at(["providers", "a"]).and_then(|node| node.table()?.text("wait")), Some("4s"));
        let lines = "f:2:1: timeouts.dial: is called clocks.connect today\n\
                     f:4:1: providers.a.delay: is called providers.a.wait today";
        assert_eq!(warnings, lines);
    }

    #[test]
    fn both_names_at_once_are_a_fault() {
        let (_, faults) = renamed("[timeouts]\ndial = \"3s\"\n[clocks]\nconnect = \"1s\"", None);
        let fault = "f:2:1: timeouts.dial: is set together with clocks.connect, as the key is called today; allowed: one of \
                     the two";
        assert_eq!(faults, fault);
    }

    #[test]
    fn a_variable_with_either_name_overrides_a_file_with_the_other() {
        let (root, warnings) = renamed("[clocks]\nconnect = \"1s\"", Some((&["timeouts", "dial"], "5s")));
        assert_eq!(text(&root, ["clocks", "connect"]), Some("5s"));
        assert_eq!(warnings, "VARIABLE: timeouts.dial: is called clocks.connect today");
        let (root, warnings) = renamed("[timeouts]\ndial = \"1s\"", Some((&["clocks", "connect"], "6s")));
        assert_eq!(text(&root, ["clocks", "connect"]), Some("6s"));
        assert_eq!(warnings, "f:2:1: timeouts.dial: is called clocks.connect today");
    }
}
