//! Changes of single keys, laid over a configuration: those of `[shadow.overrides]`, and of a comparison.
//!
//! A key is written as in the file, or as a path in quotes: `"routing.balanced.cost"`, `'aliases["chat"].objective'`. An entry of a
//! list of tables is found by its `id`, `name` or `provider`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Config, Surroundings,
    changes::name_of,
    complete,
    environment::Environment,
    fault::{Fault, Faults, SourceLocation},
    files::Files,
    read,
    section::Section,
    tree::{self, Node, Table, Value},
};

/// Most steps of a path, with those of the tables around it. Trees are walked by recursion.
const MOST_STEPS: usize = 32;

/// The text of a configuration as a tree, and what it was read with. What it says is in the other members of the configuration, so
/// all values are equal.
#[derive(Debug, Clone)]
pub(super) struct WrittenTree(Arc<Written>);

#[derive(Debug)]
struct Written {
    tree: Table,
    directory: PathBuf,
    environment: Environment,
}

impl WrittenTree {
    pub(super) fn new(tree: &Table, directory: &Path, environment: &Environment) -> WrittenTree {
        let (directory, environment) = (directory.to_owned(), environment.clone());
        WrittenTree(Arc::new(Written { tree: tree.clone(), directory, environment }))
    }

    pub(super) fn empty() -> WrittenTree {
        WrittenTree::new(&Table::empty(SourceLocation::Default), Path::new("."), &Environment::default())
    }
}

impl PartialEq for WrittenTree {
    fn eq(&self, _: &WrittenTree) -> bool {
        true
    }
}

impl Config {
    /// Reads another configuration as this one was read: in the same environment, with paths relative to the same directory.
    ///
    /// # Errors
    /// All faults.
    pub fn read_alike(&self, text: &str, name: &str) -> Result<Config, Vec<Fault>> {
        let Written { directory, environment, .. } = &*self.written.0;
        Config::parse(text, name, directory, environment)
    }

    /// This configuration with other values of some keys, which are TOML; a key may also be a path in quotes, such as
    /// `"routing.balanced.cost" = 0.7`. `name` is their file name in faults.
    ///
    /// # Errors
    /// All faults.
    pub fn with_changes(&self, changes: &str, name: &str) -> Result<Config, Vec<Fault>> {
        let faults = Faults::default();
        let changes = tree::read(changes, name, &faults);
        if !faults.is_empty() {
            return Err(faults.into_sorted());
        }
        self.read_tree(&self.tree(), &changes)
    }

    /// What was written, with the variables and the built-in catalogue.
    pub(super) fn tree(&self) -> Table {
        let Written { tree, environment, .. } = &*self.written.0;
        complete(tree.clone(), environment, &Faults::default())
    }

    /// Reads a complete tree with other values of some keys as this configuration was read, without its shadows.
    pub(super) fn read_tree(&self, tree: &Table, changes: &Table) -> Result<Config, Vec<Fault>> {
        let Written { directory, environment, .. } = &*self.written.0;
        changed(tree, changes, &self.source, &Surroundings { directory, environment, files: &Files::default() })
    }
}

/// The configuration of a complete tree with other values of some keys, without its shadows.
pub(super) fn changed(
    tree: &Table,
    changes: &Table,
    name: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Config, Vec<Fault>> {
    let (faults, mut tree) = (Faults::default(), tree.clone());
    lay_over(&mut tree, changes, 0, &faults);
    tree.entries.retain(|entry| entry.key != "shadow");
    let (config, _) = Section::root(&tree, &faults, |root| read(root, name, surroundings));
    let faults = faults.into_sorted();
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

/// One step of a path.
enum Step<'p> {
    Key(&'p str),
    /// The entry of this name in a list of tables.
    Entry(&'p str),
}

/// A tree with other values of some keys; what is no key is left out.
pub(super) fn laid_over(tree: &Table, changes: &Table) -> Table {
    let mut tree = tree.clone();
    lay_over(&mut tree, changes, 0, &Faults::default());
    tree
}

/// Lays `changes` over `root`, to which so many steps lead. Tables are merged, everything else is replaced.
fn lay_over(root: &mut Table, changes: &Table, depth: usize, faults: &Faults) {
    for entry in &changes.entries {
        let path = if root.get(&entry.key).is_some() { Some(vec![Step::Key(&entry.key)]) } else { steps(&entry.key) };
        let Some(path) = path.filter(|path| depth + path.len() <= MOST_STEPS) else {
            let allowed = "a key such as routing.objective, or an entry such as aliases[\"chat\"].objective";
            faults.value(&entry.location, &entry.key, "is not the path of a key", allowed);
            continue;
        };
        match slot(root, &path, &entry.location) {
            Ok(slot) => match (&mut slot.value, &entry.node.value) {
                (Value::Table(inner), Value::Table(changes)) => lay_over(inner, changes, depth + path.len(), faults),
                _ => *slot = entry.node.clone(),
            },
            Err(wrong) => faults.absence(&entry.location, &entry.key, wrong, "a key or an entry that exists"),
        }
    }
}

/// The steps of a path. `None` if it is none, or too long.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    loop {
        let (step, after) = if let Some(quoted) = rest.strip_prefix("[\"") {
            let (name, after) = quoted.split_once("\"]")?;
            (Step::Entry(name), after)
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (key, after) = quoted.split_once('"')?;
            (Step::Key(key), after)
        } else {
            let (key, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
            (Step::Key(Some(key).filter(|key| !key.is_empty())?), after)
        };
        if steps.len() == MOST_STEPS {
            return None;
        }
        steps.push(step);
        rest = match after.strip_prefix('.') {
            _ if after.is_empty() => return Some(steps),
            Some(after) => after,
            None if after.starts_with('[') => after,
            None => return None,
        };
    }
}

/// The value at a path; missing tables and aliases are added.
fn slot<'t>(root: &'t mut Table, path: &[Step<'_>], location: &SourceLocation) -> Result<&'t mut Node, String> {
    let Some((Step::Key(first), rest)) = path.split_first() else { return Err("names no key".to_owned()) };
    let mut node = child(root, first, location)?;
    let mut before = *first;
    for step in rest {
        node = match step {
            Step::Key(key) => {
                let kind = node.value.kind();
                let Value::Table(table) = &mut node.value else {
                    return Err(format!("'{before}' is {kind}, which has no '{key}'"));
                };
                before = key;
                child(table, key, location)?
            }
            Step::Entry(name) => entry(node, name, before, location)?,
        };
    }
    Ok(node)
}

/// The value of a key, an empty table if there is none yet.
fn child<'t>(table: &'t mut Table, key: &str, location: &SourceLocation) -> Result<&'t mut Node, String> {
    if table.get(key).is_none() {
        table.add(key, Node::new(Value::Table(Table::empty(location.clone())), location.clone()));
    }
    let found = table.entries.iter_mut().find(|entry| entry.key == key);
    found.map(|entry| &mut entry.node).ok_or_else(|| format!("has no '{key}'"))
}

/// The entry of a list of tables.
fn entry<'t>(list: &'t mut Node, name: &str, of: &str, location: &SourceLocation) -> Result<&'t mut Node, String> {
    if matches!(&list.value, Value::Table(table) if table.entries.is_empty()) {
        list.value = Value::List(Vec::new());
    }
    let Value::List(items) = &mut list.value else { return Err(format!("'{of}' is no list of tables")) };
    // A built-in alias is there though the file does not name it.
    if of == "aliases" && !items.iter().any(|item| name_of(item) == Some(name)) {
        let mut alias = Table::empty(location.clone());
        alias.add("name", Node::new(Value::Text(name.to_owned()), location.clone()));
        items.push(Node::new(Value::Table(alias), location.clone()));
    }
    let found = items.iter_mut().find(|item| name_of(item) == Some(name));
    found.ok_or_else(|| format!("'{of}' has no entry '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_value;

    #[track_caller]
    fn check(before: &str, changes: &str, after: &str) {
        let faults = Faults::default();
        let mut root = tree::read(before, "test", &faults);
        lay_over(&mut root, &tree::read(changes, "changes", &faults), 0, &faults);
        assert!(faults.is_empty(), "{:?}", faults.into_sorted());
        assert_eq!(toml_value::value(&Value::Table(root)), after);
    }

    #[test]
    fn tables_are_merged_and_values_replaced_however_the_key_is_written() {
        let before = "[routing]\nobjective = \"balanced\"\n[routing.balanced]\nlatency = 0.5\ncost = 0.5";
        let after = "{ routing = { objective = \"balanced\", balanced = { latency = 0.5, cost = 0.9 } } }";
        for changes in
            ["\"routing.balanced.cost\" = 0.9", "routing.balanced.cost = 0.9", "[routing]\n\"balanced.cost\" = 0.9"]
        {
            check(before, changes, after);
        }
        check("", "providers.acme.enabled = false", "{ providers = { acme = { enabled = false } } }");
    }

    #[test]
    fn an_entry_of_a_list_is_found_by_its_name_and_an_alias_is_added() {
        let one = "[[aliases]]\nname = \"chat\"\nobjective = \"fastest\"";
        let of = |objective: &str| format!("{{ aliases = [{{ name = \"chat\", objective = \"{objective}\" }}] }}");
        check(one, "'aliases[\"chat\"].objective' = \"cheapest\"", &of("cheapest"));
        check("", "'aliases[\"chat\"].objective' = \"cheapest\"", &of("cheapest"));
    }

    fn count_faults(changes: &str) -> usize {
        let faults = Faults::default();
        let mut root = tree::read("a = 1\nmodels = []", "test", &faults);
        lay_over(&mut root, &tree::read(changes, "changes", &faults), 0, &faults);
        faults.into_sorted().len()
    }

    #[test]
    fn what_is_no_path_or_is_not_there_is_a_fault() {
        for changes in ["\"routing..x\" = 1", "'models[\"acme/x\"].id' = 1", "\"a.b\" = 1", "\"a[x]\" = 1", "\"\" = 1"]
        {
            assert_eq!(count_faults(changes), 1, "{changes}");
        }
    }

    #[test]
    fn more_than_32_steps_are_no_path_also_where_tables_divide_them() {
        let path = |steps: usize| format!("\"{}\"", vec!["b"; steps].join("."));
        assert_eq!(count_faults(&format!("{} = 1", path(MOST_STEPS))), 0);
        for steps in [MOST_STEPS + 1, 100_000] {
            assert_eq!(count_faults(&format!("{} = 1", path(steps))), 1, "{steps} steps");
        }
        assert_eq!(count_faults(&format!("[{}]\n{} = 1", path(20), path(12))), 0);
        assert_eq!(count_faults(&format!("[{}]\n{} = 1", path(20), path(13))), 1);
    }
}
