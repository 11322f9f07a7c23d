//! The environment of the process: secrets, and overrides of single keys.
//!
//! `POINTSMAN__SECTION__KEY` overrides `key` in `[section]`; deeper keys have more parts. Names are compared without
//! case, and `_` also matches `-` and `.`, which variable names cannot contain. The value is parsed as TOML, and used as
//! plain text when it is not TOML.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use pointsman_domain::listed_names;

use super::{
    fault::{Faults, SourceLocation, hint},
    tree::{self, Entry, Node, Table, Value},
};

/// Prefix of overrides. It ends in two underscores, because Kubernetes sets variables such as `POINTSMAN_PORT` in
/// containers of a service of this name.
const PREFIX: &str = "POINTSMAN__";

/// Variables with which other programs are given a proxy.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Tables whose keys are names chosen by the operator.
const NAMED: [&str; 2] = ["providers", "simulation.providers"];

/// Environment variables. `Debug` shows names, never values.
#[derive(Clone, Default, PartialEq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    unreadable: BTreeSet<String>,
}

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Environment {
        let mut environment = Environment::default();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => {
                    environment.variables.insert(name, value);
                }
                Err(_) => {
                    environment.unreadable.insert(name);
                }
            }
        }
        environment
    }

    /// The value of a variable; `None` when it is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Whether the value of the variable is not UTF-8.
    pub(super) fn is_unreadable(&self, name: &str) -> bool {
        self.unreadable.contains(name)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Environment {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Environment { variables, unreadable: BTreeSet::new() }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Kind of an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Defines whole providers or models, or says whether the built-in catalogue is used. Applied before the catalogue.
    Definitions,
    /// Overrides a single key. Applied after the catalogue, so that it can override its keys.
    Corrections,
}

/// Applies overrides to the tree. Shorter paths are applied first, so that a key can override a whole section that was set
/// before. Unknown keys are reported later, when their section is read.
pub(super) fn apply(root: &mut Table, environment: &Environment, part: Part, faults: &Faults) {
    if part == Part::Definitions {
        for name in environment.unreadable.iter().filter(|name| name.starts_with(PREFIX)) {
            faults.value(&SourceLocation::Variable(name.as_str().into()), name, "is not UTF-8", "UTF-8 text");
        }
    }
    let overrides = environment.variables.iter().filter_map(|(name, text)| Override::new(name, text));
    let mut overrides: Vec<Override<'_>> = overrides.filter(|change| change.part() == part).collect();
    overrides.sort_by_key(|change| change.path.len());
    for change in &overrides {
        change.apply(root, faults);
    }
}

/// Warns of variables with one underscore between section and key, such as `POINTSMAN_SERVER_BIND`. `path_of` finds the path of
/// a key in its words.
pub(super) fn warn_of_misspelt(environment: &Environment, path_of: impl Fn(&str) -> Option<String>, faults: &Faults) {
    for name in environment.variables.keys() {
        let words = name.strip_prefix("POINTSMAN_").map(str::to_ascii_lowercase);
        if let Some(path) = words.and_then(|words| path_of(&words)) {
            let meant = path.to_ascii_uppercase().replace('.', "__");
            let location = SourceLocation::Variable(name.as_str().into());
            faults.warning(&location, name, format!("is not read; did you mean {PREFIX}{meant}?"));
        }
    }
}

/// Warns of variables that name a proxy: none is used. Their values may hold a password and are not shown.
pub(super) fn warn_of_proxies(environment: &Environment, faults: &Faults) {
    let is_proxy = |name: &str| PROXIES.contains(&&*name.to_ascii_uppercase());
    let set = environment.variables.iter().filter(|(name, value)| is_proxy(name) && !value.trim().is_empty());
    let names: Vec<&str> = set.map(|(name, _)| name.as_str()).collect();
    let Some(first) = names.first() else { return };
    let text = "no proxy is used: providers and stores are called directly; where the network demands a proxy, let base_url of a \
                provider name a relay that forwards to it";
    faults.warning(&SourceLocation::Variable((*first).into()), &names.join(", "), text);
}

/// One variable and the key that it overrides.
struct Override<'e> {
    location: SourceLocation,
    path: Vec<String>,
    text: &'e str,
}

impl<'e> Override<'e> {
    fn new(name: &str, text: &'e str) -> Option<Override<'e>> {
        let path = name.strip_prefix(PREFIX)?.split("__").map(str::to_ascii_lowercase).collect();
        Some(Override { location: SourceLocation::Variable(Arc::from(name)), path, text })
    }

    fn part(&self) -> Part {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["models"] | ["catalog", ..] | ["providers"] | ["providers", _] => Part::Definitions,
            ["simulation"] | ["simulation", "providers"] | ["simulation", "providers", _] => Part::Definitions,
            _ => Part::Corrections,
        }
    }

    fn apply(&self, root: &mut Table, faults: &Faults) {
        let dotted = self.path.join(".");
        let Some((last, sections)) = self.path.split_last().filter(|_| !self.path.iter().any(String::is_empty)) else {
            let key = if dotted.is_empty() { "?" } else { &dotted };
            faults.value(&self.location, key, "is not the path of a key", "POINTSMAN__SECTION__KEY");
            return;
        };
        let mut table = root;
        let mut path = String::new();
        for section in sections {
            let Some(inner) = self.enter(table, &path, section, faults) else { return };
            table = inner;
            path = if path.is_empty() { section.clone() } else { format!("{path}.{section}") };
        }
        self.set(table, last, &dotted, faults);
    }

    /// The table called `section`, created when it is missing.
    fn enter<'t>(&self, table: &'t mut Table, path: &str, section: &str, faults: &Faults) -> Option<&'t mut Table> {
        let key = self.path.join(".");
        let found = position(table, section).map_err(|both| self.ambiguous(&key, &both, faults)).ok()?;
        if found.is_none() && NAMED.contains(&path) {
            let known = table.entries.iter().map(|entry| entry.key.as_str());
            let allowed = listed_names(section, known.clone());
            let wrong = format!("{path} has no entry '{section}'{}", hint(section, known));
            faults.absence(&self.location, &key, wrong, format!("one of: {allowed}; or a whole inline table"));
            return None;
        }
        let index = found.unwrap_or_else(|| {
            let value = Value::Table(Table::empty(self.location.clone()));
            self.push(table, section, Node { value, location: self.location.clone(), raw: None })
        });
        let node = &mut table.entries.get_mut(index)?.node;
        let kind = node.value.kind();
        let Value::Table(inner) = &mut node.value else {
            let wrong = format!("'{section}' is {kind}, not a table");
            faults.value(&self.location, &key, wrong, "the path of a key; a list is set as a whole");
            return None;
        };
        Some(inner)
    }

    fn set(&self, table: &mut Table, last: &str, dotted: &str, faults: &Faults) {
        let value = tree::read_value(self.text, &self.location);
        let value = value.unwrap_or_else(|| Value::Text(self.text.to_owned()));
        let node = Node { value, location: self.location.clone(), raw: Some(self.text.to_owned()) };
        match position(table, last) {
            Err(both) => self.ambiguous(dotted, &both, faults),
            Ok(None) => {
                self.push(table, last, node);
            }
            Ok(Some(index)) => {
                if let Some(entry) = table.entries.get_mut(index) {
                    entry.location = self.location.clone();
                    entry.node = node;
                }
            }
        }
    }

    fn push(&self, table: &mut Table, key: &str, node: Node) -> usize {
        let location = self.location.clone();
        table.entries.push(Entry { key: key.to_owned(), location, node });
        table.entries.len() - 1
    }

    fn ambiguous(&self, key: &str, both: &[String; 2], faults: &Faults) {
        let [one, other] = both;
        let wrong = format!("matches both '{one}' and '{other}'");
        faults.value(&self.location, key, wrong, "names that differ by more than '-', '_', '.' and case");
    }
}

/// Position of the entry that matches a part of a variable's name.
///
/// # Errors
/// The keys of two entries, when it matches more than one.
fn position(table: &Table, part: &str) -> Result<Option<usize>, [String; 2]> {
    if let Some(exact) = table.entries.iter().position(|entry| entry.key == part) {
        return Ok(Some(exact));
    }
    let folded = |key: &str| key.to_ascii_lowercase().replace(['-', '.'], "_");
    let part = folded(part);
    let mut matches = table.entries.iter().enumerate().filter(|(_, entry)| folded(&entry.key) == part);
    match (matches.next(), matches.next()) {
        (Some((_, one)), Some((_, other))) => Err([one.key.clone(), other.key.clone()]),
        (first, _) => Ok(first.map(|(index, _)| index)),
    }
}
