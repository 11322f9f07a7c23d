//! Reading one table: every key is asked for by name and type, and what nobody asked for is a fault.
//!
//! A getter gives the value, or nothing when it is absent or wrong; wrong ones are reported on the
//! spot, so that reading always goes on to the end. The closure that reads a section must ask for
//! every key it knows and must not return early: the unknown keys are the ones it did not ask for.

use std::{cell::RefCell, fmt::Display, ops::RangeInclusive, time::Duration};

use super::{
    fault::{Asked, Faults, SourceLocation, hint},
    quantity::{self, Unit},
    tree::{Node, Table, Value},
};

/// One table being read.
pub(super) struct Section<'t> {
    path: String,
    /// Where the table stands, or where it would stand.
    place: SourceLocation,
    table: Option<&'t Table>,
    faults: &'t Faults,
    known: RefCell<Vec<&'static str>>,
    refused: RefCell<Vec<&'static str>>,
}

/// A text together with where it stands; what lists consist of.
#[derive(Clone)]
pub(super) struct Item<'t> {
    pub(super) text: &'t str,
    place: &'t SourceLocation,
    path: String,
    faults: &'t Faults,
}

impl Item<'_> {
    /// Reports that this text is wrong.
    pub(super) fn fault(&self, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.faults.value(self.place, &self.path, wrong, allowed);
    }

    /// Reports that this text names something that does not exist.
    pub(super) fn dangling(&self, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.faults.absence(self.place, &self.path, wrong, allowed);
    }
}

impl<'t> Section<'t> {
    /// Reads the whole configuration.
    pub(super) fn root<T>(table: &'t Table, faults: &'t Faults, read: impl FnOnce(&Section<'t>) -> T) -> T {
        Section::open(String::new(), table.place.clone(), Some(table), faults, read)
    }

    fn open<T>(
        path: String,
        place: SourceLocation,
        table: Option<&'t Table>,
        faults: &'t Faults,
        read: impl FnOnce(&Section<'t>) -> T,
    ) -> T {
        let section = Section { path, place, table, faults, known: RefCell::default(), refused: RefCell::default() };
        let value = read(&section);
        section.report_unknown();
        value
    }

    fn report_unknown(&self) {
        let known = self.known.borrow();
        let refused = self.refused.borrow();
        for entry in self.table.into_iter().flat_map(|table| &table.entries) {
            let key = entry.key.as_str();
            if known.contains(&key) || refused.contains(&key) {
                continue;
            }
            let meant = hint(key, known.iter().copied());
            if self.path.is_empty() {
                // Doubtful in a broken file: the header above the key may be what is broken.
                self.faults.absence(&entry.place, key, format!("unknown section{meant}"), known.join(", "));
            } else {
                let wrong = format!("unknown key{meant}");
                self.faults.value(&entry.place, &self.path_of(key), wrong, known.join(", "));
            }
        }
    }

    /// The key with its path, as the operator wrote it.
    pub(super) fn path_of(&self, key: &str) -> String {
        if let Some(written) = self.written(key) {
            return written.to_owned();
        }
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The former name under which the key is given, if it is.
    fn written(&self, key: &str) -> Option<&'t str> {
        self.table?.get(key)?.written.as_deref()
    }

    /// Whether nothing was found wrong so far, here or elsewhere.
    pub(super) fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.get(key).is_some())
    }

    /// The environment variable that set the key, if one did.
    pub(super) fn variable(&self, key: &str) -> Option<&'t str> {
        match &self.table?.get(key)?.place {
            SourceLocation::Variable(name) => Some(name),
            SourceLocation::File { .. } | SourceLocation::Default => None,
        }
    }

    /// Reports that the value of `key` is wrong.
    pub(super) fn fault(&self, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        let place = self.table.and_then(|table| table.get(key)).map_or(&self.place, |entry| &entry.node.place);
        self.faults.value(place, &self.path_of(key), wrong, allowed);
    }

    /// Reports that `key` is missing, or refers to what does not exist.
    pub(super) fn absence(&self, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        let place = self.table.and_then(|table| table.get(key)).map_or(&self.place, |entry| &entry.node.place);
        self.faults.absence(place, &self.path_of(key), wrong, allowed);
    }

    /// Reports `key`, if it is there, with a sentence of its own instead of as unknown.
    pub(super) fn refuse(&self, key: &'static str, wrong: &str, allowed: &str) {
        self.refused.borrow_mut().push(key);
        if self.has(key) {
            self.fault(key, wrong, allowed);
        }
    }

    /// Notes what a key takes, for the page that describes all of them.
    fn tell(&self, key: &'static str, kind: &'static str, allowed: impl FnOnce() -> String) {
        self.faults.asked(|| Asked { section: self.path.clone(), key, kind, allowed: allowed() });
    }

    fn node(&self, key: &'static str) -> Option<&'t Node> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table?.get(key).map(|entry| &entry.node)
    }

    fn mismatch(&self, key: &str, node: &Node, allowed: impl Into<String>) {
        self.faults.value(&node.place, &self.path_of(key), format!("got {}", node.value.kind()), allowed);
    }

    /// A string.
    pub(super) fn text(&self, key: &'static str) -> Option<&'t str> {
        self.text_of(key, "a string")
    }

    /// A string of which `allowed` says more.
    pub(super) fn text_of(&self, key: &'static str, allowed: &str) -> Option<&'t str> {
        self.tell(key, "string", String::new);
        let node = self.node(key)?;
        let text = as_text(node);
        if text.is_none() {
            self.mismatch(key, node, allowed);
        }
        text
    }

    /// A string that may not be empty.
    pub(super) fn filled(&self, key: &'static str) -> Option<&'t str> {
        let text = self.text(key)?;
        if text.trim().is_empty() {
            self.fault(key, "is empty", "a non-empty string");
            return None;
        }
        Some(text)
    }

    /// A string that must be there and not be empty.
    pub(super) fn required(&self, key: &'static str, allowed: &str) -> Option<&'t str> {
        self.tell(key, "string", String::new);
        if self.node(key).is_none() {
            self.absence(key, "is missing", allowed);
            return None;
        }
        self.filled(key)
    }

    /// A string with its place, for checks that come later. Says nothing when it is absent or wrong.
    pub(super) fn item(&self, key: &'static str) -> Option<Item<'t>> {
        let node = self.node(key)?;
        Some(Item { text: as_text(node)?, place: &node.place, path: self.path_of(key), faults: self.faults })
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        self.tell(key, "true or false", String::new);
        let node = self.node(key)?;
        if let Value::Flag(flag) = node.value {
            return Some(flag);
        }
        self.mismatch(key, node, "true or false");
        None
    }

    /// A whole number within a range.
    pub(super) fn integer<N>(&self, key: &'static str, range: RangeInclusive<N>) -> Option<N>
    where
        N: Copy + PartialOrd + Display + TryFrom<i64>,
    {
        let allowed = || format!("a whole number from {} to {}", range.start(), range.end());
        self.tell(key, "whole number", || format!("{} to {}", range.start(), range.end()));
        let node = self.node(key)?;
        let Value::Integer(number) = node.value else {
            self.mismatch(key, node, allowed());
            return None;
        };
        let fitting = N::try_from(number).ok().filter(|number| range.contains(number));
        if fitting.is_none() {
            self.fault(key, format!("{number} is out of range"), allowed());
        }
        fitting
    }

    /// A number within a range, whole or not.
    pub(super) fn number(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        self.tell(key, "number", || format!("{} to {}", range.start(), range.end()));
        let node = self.node(key)?;
        self.number_at(key, node, range)
    }

    fn number_at(&self, key: &str, node: &Node, range: RangeInclusive<f64>) -> Option<f64> {
        let allowed = || format!("a number from {} to {}", range.start(), range.end());
        let Some(number) = node.number() else {
            self.mismatch(key, node, allowed());
            return None;
        };
        let fitting = range.contains(&number);
        if !fitting {
            self.fault(key, format!("{number} is out of range"), allowed());
        }
        fitting.then_some(number)
    }

    /// A time with its unit, such as `"15s"`. Under a former name that ended in a unit: a number of that.
    pub(super) fn duration(&self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let shown = |bound: &Duration| quantity::show_duration(*bound);
        self.tell(key, "duration", || format!("{} to {}", shown(range.start()), shown(range.end())));
        let node = self.node(key)?;
        if let Some(unit) = self.written(key).and_then(Unit::of_former) {
            let [least, most] = [range.start(), range.end()].map(|bound| unit.count(*bound));
            return self.number_at(key, node, least..=most).and_then(|number| unit.duration(number));
        }
        let allowed =
            || format!("a time with its unit from {} to {}, such as \"15s\"", shown(range.start()), shown(range.end()));
        let Value::Text(text) = &node.value else {
            self.mismatch(key, node, allowed());
            return None;
        };
        let time = quantity::read_duration(text);
        let fitting = time.filter(|time| range.contains(time));
        if fitting.is_none() {
            let wrong = if time.is_some() { format!("{text} is out of range") } else { "is not a time".to_owned() };
            self.fault(key, wrong, allowed());
        }
        fitting
    }

    /// A number of bytes, such as `"32MiB"` or `33554432`.
    pub(super) fn bytes(&self, key: &'static str, range: RangeInclusive<usize>) -> Option<usize> {
        let shown = |bound: &usize| quantity::show_bytes(*bound);
        self.tell(key, "size", || format!("{} to {}", shown(range.start()), shown(range.end())));
        let node = self.node(key)?;
        let allowed = || match self.written(key) {
            Some(_) => format!("a whole number from {} to {}", range.start(), range.end()),
            None => format!("a size from {} to {}, such as \"32MiB\"", shown(range.start()), shown(range.end())),
        };
        let (given, size) = match &node.value {
            Value::Integer(number) => (number.to_string(), usize::try_from(*number).ok()),
            Value::Text(text) if self.written(key).is_none() => match quantity::read_bytes(text) {
                Some(size) => (text.clone(), Some(size)),
                None => {
                    self.fault(key, "is not a size", allowed());
                    return None;
                }
            },
            _ => {
                self.mismatch(key, node, allowed());
                return None;
            }
        };
        let fitting = size.filter(|size| range.contains(size));
        if fitting.is_none() {
            self.fault(key, format!("{given} is out of range"), allowed());
        }
        fitting
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let words = choices.iter().map(|(word, _)| *word);
        let allowed = || words.clone().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        self.tell(key, "word", allowed);
        let text = self.text(key)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if chosen.is_none() {
            self.fault(key, format!("unknown value{}", hint(text, words.clone())), allowed());
        }
        chosen
    }

    /// A value of whatever type.
    pub(super) fn any(&self, key: &'static str) -> Option<&'t Value> {
        self.tell(key, "", String::new);
        let node = self.node(key)?;
        Some(&node.value)
    }

    /// A list of at most `most` strings.
    pub(super) fn texts(&self, key: &'static str, most: usize) -> Option<Vec<Item<'t>>> {
        self.tell(key, "list of strings", || format!("at most {most}"));
        let node = self.node(key)?;
        let Value::List(nodes) = &node.value else {
            self.mismatch(key, node, "a list of strings");
            return None;
        };
        let nodes = self.cut(key, nodes, most);
        let items = nodes.iter().enumerate().filter_map(|(index, node)| {
            let path = format!("{}[{index}]", self.path_of(key));
            let Value::Text(text) = &node.value else {
                self.faults.value(&node.place, &path, format!("got {}", node.value.kind()), "a string");
                return None;
            };
            Some(Item { text, place: &node.place, path, faults: self.faults })
        });
        Some(items.collect())
    }

    /// A table below this one; an absent table is read as an empty one.
    pub(super) fn section<T>(&self, key: &'static str, read: impl FnOnce(&Section<'t>) -> T) -> T {
        let node = self.node(key);
        let table = node.and_then(|node| self.table_of(&self.path_of(key), node));
        let place = node.map_or(&self.place, |node| &node.place).clone();
        Section::open(self.path_of(key), place, table, self.faults, read)
    }

    /// A table below this one, if it is there.
    pub(super) fn optional<T>(&self, key: &'static str, read: impl FnOnce(&Section<'t>) -> T) -> Option<T> {
        let node = self.node(key)?;
        let table = self.table_of(&self.path_of(key), node)?;
        Some(Section::open(self.path_of(key), node.place.clone(), Some(table), self.faults, read))
    }

    /// A list of at most `most` tables.
    pub(super) fn sections<T>(&self, key: &'static str, most: usize, read: impl Fn(&Section<'t>) -> T) -> Vec<T> {
        let Some(node) = self.node(key) else { return Vec::new() };
        let Value::List(nodes) = &node.value else {
            self.mismatch(key, node, format!("a list of tables, written as [[{}]]", self.path_of(key)));
            return Vec::new();
        };
        let nodes = self.cut(key, nodes, most);
        let sections = nodes.iter().enumerate().filter_map(|(index, node)| {
            let path = format!("{}[{index}]", self.path_of(key));
            let table = self.table_of(&path, node)?;
            Some(Section::open(path, node.place.clone(), Some(table), self.faults, &read))
        });
        sections.collect()
    }

    /// A table of tables whose keys are names that the operator chose: each is given with its name.
    pub(super) fn named<T>(&self, key: &'static str, read: impl Fn(&Item<'t>, &Section<'t>) -> T) -> Vec<T> {
        let Some(node) = self.node(key) else { return Vec::new() };
        let Some(table) = self.table_of(&self.path_of(key), node) else { return Vec::new() };
        let sections = table.entries.iter().filter_map(|entry| {
            let path = format!("{}.{}", self.path_of(key), entry.key);
            let inner = self.table_of(&path, &entry.node)?;
            let name = Item { text: &entry.key, place: &entry.place, path: path.clone(), faults: self.faults };
            let read = |section: &Section<'t>| read(&name, section);
            Some(Section::open(path, entry.place.clone(), Some(inner), self.faults, read))
        });
        sections.collect()
    }

    /// A table of strings whose keys are free: each key with its value.
    pub(super) fn pairs(&self, key: &'static str, most: usize) -> Vec<(&'t str, Item<'t>)> {
        self.tell(key, "table of strings", || format!("at most {most}"));
        let Some(node) = self.node(key) else { return Vec::new() };
        let Some(table) = self.table_of(&self.path_of(key), node) else { return Vec::new() };
        let entries = self.cut(key, &table.entries, most);
        let pairs = entries.iter().filter_map(|entry| {
            let path = format!("{}.{}", self.path_of(key), entry.key);
            let text = as_text(&entry.node).or_else(|| {
                let wrong = format!("got {}", entry.node.value.kind());
                self.faults.value(&entry.node.place, &path, wrong, "a string");
                None
            })?;
            Some((entry.key.as_str(), Item { text, place: &entry.node.place, path, faults: self.faults }))
        });
        pairs.collect()
    }

    fn cut<'a, T>(&self, key: &str, items: &'a [T], most: usize) -> &'a [T] {
        if items.len() > most {
            self.fault(key, format!("holds {} entries", items.len()), format!("at most {most}"));
        }
        items.get(..most).unwrap_or(items)
    }

    fn table_of(&self, path: &str, node: &'t Node) -> Option<&'t Table> {
        if let Value::Table(table) = &node.value {
            return Some(table);
        }
        self.faults.value(&node.place, path, format!("got {}", node.value.kind()), "a table");
        None
    }
}

/// The text of a node. A variable's value that happens to look like a number is still text.
fn as_text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(text),
        Value::List(_) | Value::Table(_) => None,
        _ => node.raw.as_deref(),
    }
}
