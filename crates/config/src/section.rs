//! Strict reading of one table: keys are requested by name and type, and keys that were not requested are faults.
//!
//! A getter returns the value, or `None` when it is absent or wrong. A wrong value is reported at once and reading
//! continues. The closure that reads a section must request every known key and must not return early, because the
//! remaining keys are reported as unknown.
//!
//! While the reference is made, texts, types, ranges and defaults of the keys are recorded. Then every section is read
//! once, as if it were empty.

use std::{
    cell::{Cell, RefCell},
    fmt::Display,
    ops::RangeInclusive,
    time::Duration,
};

use chrono::NaiveDate;
use pointsman_domain::{listed_names, quoted_names};

use super::{
    described::{Key, Reference, Words},
    fault::{Faults, SourceLocation, hint},
    item::beginning,
    quantity,
    tree::{Node, Table, Value},
};

pub(super) use super::item::Item;

/// Largest rate or count.
pub(super) const MOST: u32 = 1_000_000_000;

/// One table being read.
pub(super) struct Section<'t> {
    path: String,
    /// Where the table is, or where its parent is if it is absent.
    location: SourceLocation,
    table: Option<&'t Table>,
    faults: &'t Faults,
    /// What is recorded while the reference is made.
    recorder: Option<&'t RefCell<Reference>>,
    known: RefCell<Vec<&'static str>>,
    refused: RefCell<Vec<&'static str>>,
    /// The section whose values absent keys take while [`Section::inheriting`] runs; the reference names it.
    inherited_from: Cell<Option<&'static str>>,
}

impl<'t> Section<'t> {
    /// Reads the whole configuration.
    pub(super) fn root<T>(table: &'t Table, faults: &'t Faults, read: impl FnOnce(&Section<'t>) -> T) -> T {
        Section::new(String::new(), table.location.clone(), Some(table), (faults, None)).open(read)
    }

    /// Reads the whole configuration, and records what is declared.
    pub(super) fn recorded<T>(
        table: &'t Table,
        faults: &'t Faults,
        recorder: &'t RefCell<Reference>,
        read: impl FnOnce(&Section<'t>) -> T,
    ) -> T {
        Section::new(String::new(), table.location.clone(), Some(table), (faults, Some(recorder))).open(read)
    }

    /// Reads a table that is absent: its defaults.
    pub(super) fn absent<T>(read: impl FnOnce(&Section<'_>) -> T) -> T {
        read(&Section::new(String::new(), SourceLocation::Default, None, (&Faults::default(), None)))
    }

    fn new(
        path: String,
        location: SourceLocation,
        table: Option<&'t Table>,
        (faults, recorder): (&'t Faults, Option<&'t RefCell<Reference>>),
    ) -> Section<'t> {
        let (known, refused) = (RefCell::default(), RefCell::default());
        Section { path, location, table, faults, recorder, known, refused, inherited_from: Cell::new(None) }
    }

    /// A table below this one.
    fn below(&self, path: String, location: SourceLocation, table: Option<&'t Table>) -> Section<'t> {
        Section::new(path, location, table, (self.faults, self.recorder))
    }

    fn open<T>(self, read: impl FnOnce(&Section<'t>) -> T) -> T {
        self.recording(|reference| {
            reference.section(&self.path);
        });
        let value = read(&self);
        self.report_unknown();
        value
    }

    /// Changes the reference while it is made.
    fn recording(&self, change: impl FnOnce(&mut Reference)) {
        if let Some(recorder) = self.recorder {
            change(&mut recorder.borrow_mut());
        }
    }

    fn report_unknown(&self) {
        let known = self.known.borrow();
        let refused = self.refused.borrow();
        for entry in self.table.into_iter().flat_map(|table| &table.entries) {
            let key = entry.key.as_str();
            if known.contains(&key) || refused.contains(&key) {
                continue;
            }
            let (meant, listed) = (hint(key, known.iter().copied()), listed_names(key, known.iter().copied()));
            if self.path.is_empty() {
                // An absence, because a syntax fault in the header above may have caused it.
                self.faults.absence(&entry.location, key, format!("unknown section{meant}"), listed);
            } else {
                let wrong = format!("unknown key{meant}");
                self.faults.value(&entry.location, &self.path_of(key), wrong, listed);
            }
        }
    }

    /// Where its table begins.
    pub(super) const fn location(&self) -> &SourceLocation {
        &self.location
    }

    /// The path of the key.
    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether there are no faults so far, here or elsewhere.
    pub(super) fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether the key is present.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.get(key).is_some())
    }

    /// The environment variable that set the key, if one did.
    pub(super) fn variable(&self, key: &str) -> Option<&'t str> {
        match &self.table?.get(key)?.location {
            SourceLocation::Variable(name) => Some(name),
            SourceLocation::File { .. } | SourceLocation::Default => None,
        }
    }

    /// Where the value of `key` is, or where this table is if it is absent.
    fn location_of(&self, key: &str) -> &SourceLocation {
        self.table.and_then(|table| table.get(key)).map_or(&self.location, |entry| &entry.node.location)
    }

    /// Reports that the value of `key` is wrong.
    pub(super) fn fault(&self, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.faults.value(self.location_of(key), &self.path_of(key), wrong, allowed);
    }

    /// Whether the value of `key`, which is usually a table, is this word.
    pub(super) fn is_word(&self, key: &'static str, word: &str) -> bool {
        self.node(key).is_some_and(|node| matches!(&node.value, Value::Text(text) if text == word))
    }

    /// Reports that the value of `key` is valid, and what the operator should know about it.
    pub(super) fn warning(&self, key: &str, text: impl Into<String>) {
        self.faults.warning(self.location_of(key), &self.path_of(key), text);
    }

    /// Reports that `key` is missing, or refers to what does not exist.
    pub(super) fn absence(&self, key: &str, wrong: impl Into<String>, allowed: impl Into<String>) {
        self.faults.absence(self.location_of(key), &self.path_of(key), wrong, allowed);
    }

    /// Reports `key`, if it is present, with this text instead of as an unknown key.
    pub(super) fn refuse(&self, key: &'static str, wrong: &str, allowed: &str) {
        self.refused.borrow_mut().push(key);
        if self.has(key) {
            self.fault(key, wrong, allowed);
        }
    }

    /// Records what the section is for. The first text counts, and an empty one is none.
    pub(super) fn about(&self, text: &str) {
        self.recording(|reference| {
            if let Some(section) = reference.section(&self.path).filter(|section| section.about.is_empty()) {
                text.trim().clone_into(&mut section.about);
            }
        });
    }

    /// Records what a key is for.
    pub(super) fn describe(&self, key: &str, about: &str, words: Words) {
        let inherited = self.inherited_from.get();
        self.record_key(key, |recorded| recorded.describe(about, words, inherited));
    }

    /// Reads keys whose values are those of another section where they are absent. `from` names it in the reference.
    pub(super) fn inheriting<T>(&self, from: &'static str, read: impl FnOnce() -> T) -> T {
        self.inherited_from.set(Some(from));
        let value = read();
        self.inherited_from.set(None);
        value
    }

    fn record_key(&self, key: &str, change: impl FnOnce(&mut Key)) {
        self.recording(|reference| {
            if let Some(key) = reference.key(&self.path, key) {
                change(key);
            }
        });
    }

    /// Records type and range of a key.
    fn record(&self, key: &str, kind: &'static str, range: impl FnOnce() -> String) {
        self.record_key(key, |recorded| recorded.request(kind, range()));
    }

    /// Records the value of an absent key.
    fn record_default(&self, key: &str, default: impl FnOnce() -> Value) {
        self.record_key(key, |recorded| recorded.set_default(default()));
    }

    /// The value, or the default.
    fn or<T>(&self, key: &str, value: Option<T>, default: T, shown: impl FnOnce(&T) -> Value) -> T {
        self.record_default(key, || shown(&default));
        value.unwrap_or(default)
    }

    /// A value that `read` reads from the section.
    pub(super) fn with<T>(&self, key: &'static str, read: impl FnOnce(&Section<'t>, &'static str) -> T) -> T {
        read(self, key)
    }

    fn node(&self, key: &'static str) -> Option<&'t Node> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table?.get(key).map(|entry| &entry.node)
    }

    fn mismatch(&self, key: &str, node: &Node, allowed: impl Into<String>) {
        self.faults.value(&node.location, &self.path_of(key), format!("got {}", node.value.kind()), allowed);
    }

    /// A string.
    pub(super) fn text(&self, key: &'static str) -> Option<&'t str> {
        self.text_of(key, "a string")
    }

    /// A string. `allowed` describes it in faults.
    pub(super) fn text_of(&self, key: &'static str, allowed: &str) -> Option<&'t str> {
        self.record(key, "string", String::new);
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

    /// A string, or a default.
    pub(super) fn text_or(&self, key: &'static str, default: &str) -> String {
        self.or(key, self.text(key).map(str::to_owned), default.to_owned(), |text| Value::Text(text.clone()))
    }

    /// The same as an owned string.
    pub(super) fn filled_text(&self, key: &'static str) -> Option<String> {
        self.filled(key).map(str::to_owned)
    }

    /// A string that must be present and not empty.
    pub(super) fn required(&self, key: &'static str, allowed: &str) -> Option<&'t str> {
        self.required_or(key, "is missing", allowed)
    }

    /// The same, with what is said if it is absent.
    pub(super) fn required_or(&self, key: &'static str, absent: &str, allowed: &str) -> Option<&'t str> {
        self.record(key, "string", String::new);
        self.record_key(key, |recorded| recorded.absent = "required".to_owned());
        if self.node(key).is_none() {
            self.absence(key, absent, allowed);
            return None;
        }
        self.filled(key)
    }

    /// A string with its location, for later checks. Reports nothing when it is absent or wrong.
    pub(super) fn item(&self, key: &'static str) -> Option<Item<'t>> {
        let node = self.node(key)?;
        Some(Item { text: as_text(node)?, location: &node.location, path: self.path_of(key), faults: self.faults })
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &'static str) -> Option<bool> {
        self.record(key, "true or false", String::new);
        let node = self.node(key)?;
        if let Value::Flag(flag) = node.value {
            return Some(flag);
        }
        self.mismatch(key, node, "true or false");
        None
    }

    /// `true` or `false`, or a default.
    pub(super) fn flag_or(&self, key: &'static str, default: bool) -> bool {
        self.or(key, self.flag(key), default, |flag| Value::Flag(*flag))
    }

    /// A quantity within a range, which stands in messages between two texts. `read` gives how it is written and what it is, if that
    /// can be told, or what is wrong with it; `None` where the value has another type.
    fn quantity<N: PartialOrd>(
        &self,
        key: &'static str,
        (kind, before, after): (&'static str, &str, &str),
        range: &RangeInclusive<N>,
        show: impl Fn(&N) -> String,
        read: impl FnOnce(&Node) -> Option<Result<(String, Option<N>), &'static str>>,
    ) -> Option<N> {
        let bounds = || format!("{} to {}", show(range.start()), show(range.end()));
        self.record(key, kind, bounds);
        let node = self.node(key)?;
        let allowed = || format!("{before}{}{after}", bounds());
        let wrong = match read(node) {
            Some(Ok((given, value))) => match value.filter(|value| range.contains(value)) {
                None => format!("{given} is out of range"),
                fitting => return fitting,
            },
            Some(Err(wrong)) => wrong.to_owned(),
            None => {
                self.mismatch(key, node, allowed());
                return None;
            }
        };
        self.fault(key, wrong, allowed());
        None
    }

    /// A whole number within a range.
    pub(super) fn integer<N>(&self, key: &'static str, range: RangeInclusive<N>) -> Option<N>
    where
        N: Copy + PartialOrd + Display + TryFrom<i64>,
    {
        let read = |node: &Node| match node.value {
            Value::Integer(number) => Some(Ok((number.to_string(), N::try_from(number).ok()))),
            _ => None,
        };
        self.quantity(key, ("whole number", "a whole number from ", ""), &range, N::to_string, read)
    }

    /// A whole number within a range, or a default.
    pub(super) fn integer_or<N>(&self, key: &'static str, range: RangeInclusive<N>, default: N) -> N
    where
        N: Copy + PartialOrd + Display + TryFrom<i64>,
        i64: TryFrom<N>,
    {
        let shown = |number: &N| Value::Integer(i64::try_from(*number).unwrap_or(i64::MAX));
        self.or(key, self.integer(key, range), default, shown)
    }

    /// A rate or count, or that of another key; 0 means no limit.
    pub(super) fn ceiling_from(&self, key: &'static str, other: Option<u32>) -> Option<u32> {
        self.integer(key, 0..=MOST).map_or(other, |most| (most > 0).then_some(most))
    }

    /// A rate or count, or a default; 0 means no limit.
    pub(super) fn ceiling_or(&self, key: &'static str, default: u32) -> Option<u32> {
        Some(self.integer_or(key, 0..=MOST, default)).filter(|most| *most > 0)
    }

    /// A number within a range.
    pub(super) fn number(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let read = |node: &Node| node.number().map(|number| Ok((number.to_string(), Some(number))));
        self.quantity(key, ("number", "a number from ", ""), &range, f64::to_string, read)
    }

    /// A number within a range, or a default.
    pub(super) fn number_or(&self, key: &'static str, range: RangeInclusive<f64>, default: f64) -> f64 {
        self.or(key, self.number(key, range), default, |number| Value::Number(*number))
    }

    /// A duration with its unit, such as `"15s"`.
    pub(super) fn duration(&self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let read = |node: &Node| match &node.value {
            Value::Text(text) => {
                Some(quantity::read_duration(text).map(|time| (text.clone(), Some(time))).ok_or("is not a time"))
            }
            _ => None,
        };
        let allowed = ("duration", "a time with its unit from ", ", such as \"15s\"");
        self.quantity(key, allowed, &range, |time| quantity::show_duration(*time), read)
    }

    /// A duration with its unit, or a default.
    pub(super) fn duration_or(
        &self,
        key: &'static str,
        range: RangeInclusive<Duration>,
        default: Duration,
    ) -> Duration {
        self.or(key, self.duration(key, range), default, |time| Value::Text(quantity::show_duration(*time)))
    }

    /// A number of bytes, such as `"32MiB"` or `33554432`.
    pub(super) fn bytes(&self, key: &'static str, range: RangeInclusive<usize>) -> Option<usize> {
        let read = |node: &Node| match &node.value {
            Value::Integer(number) => Some(Ok((number.to_string(), usize::try_from(*number).ok()))),
            Value::Text(text) => {
                Some(quantity::read_bytes(text).map(|size| (text.clone(), Some(size))).ok_or("is not a size"))
            }
            _ => None,
        };
        let allowed = ("size", "a size from ", ", such as \"32MiB\"");
        self.quantity(key, allowed, &range, |size| quantity::show_bytes(*size), read)
    }

    /// A number of bytes, or a default.
    pub(super) fn bytes_or(&self, key: &'static str, range: RangeInclusive<usize>, default: usize) -> usize {
        self.or(key, self.bytes(key, range), default, |bytes| Value::Text(quantity::show_bytes(*bytes)))
    }

    /// One of the words in `choices`.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let words = choices.iter().map(|(word, _)| *word);
        self.record(key, "word", || words.clone().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "));
        let text = self.text(key)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if chosen.is_none() {
            let wrong = format!("'{}' is unknown{}", beginning(text), hint(text, words.clone()));
            self.fault(key, wrong, quoted_names(text, words));
        }
        chosen
    }

    /// One of the words in `choices`, or a default.
    pub(super) fn choice_or<T: Copy + PartialEq>(&self, key: &'static str, choices: &[(&str, T)], default: T) -> T {
        let word = |chosen: &T| choices.iter().find(|(_, value)| value == chosen).map_or("", |(word, _)| word);
        self.or(key, self.choice(key, choices), default, |chosen| Value::Text(word(chosen).to_owned()))
    }

    /// A value of any type.
    pub(super) fn any(&self, key: &'static str) -> Option<&'t Value> {
        self.record(key, "", String::new);
        let node = self.node(key)?;
        Some(&node.value)
    }

    /// A date or time as text; empty for other values.
    pub(super) fn time_text(&self, key: &'static str) -> Option<String> {
        Some(match self.any(key)? {
            Value::Date(date) => date.to_string(),
            Value::Text(text) => text.clone(),
            _ => String::new(),
        })
    }

    /// A day.
    pub(super) fn day(&self, key: &'static str) -> Option<NaiveDate> {
        let text = self.time_text(key)?;
        // Years have exactly four digits, as in answers.
        let day = text.parse::<NaiveDate>().ok().filter(|_| text.len() == "2026-11-20".len());
        if day.is_none() {
            self.fault(key, "is not a day", "a date such as 2027-01-31");
        }
        day
    }

    /// A list of at most `most` strings.
    pub(super) fn texts(&self, key: &'static str, most: usize) -> Option<Vec<Item<'t>>> {
        self.record(key, "list of strings", || format!("at most {most}"));
        self.record_default(key, || Value::List(Vec::new()));
        let node = self.node(key)?;
        let Value::List(nodes) = &node.value else {
            self.mismatch(key, node, "a list of strings");
            return None;
        };
        let nodes = self.truncate(key, nodes, most);
        let items = nodes.iter().enumerate().filter_map(|(index, node)| {
            let path = format!("{}[{index}]", self.path_of(key));
            let Value::Text(text) = &node.value else {
                self.faults.value(&node.location, &path, format!("got {}", node.value.kind()), "a string");
                return None;
            };
            Some(Item { text, location: &node.location, path, faults: self.faults })
        });
        Some(items.collect())
    }

    /// A table in this one; an absent table is read as an empty one.
    pub(super) fn section<T>(&self, key: &'static str, read: impl FnOnce(&Section<'t>) -> T) -> T {
        let node = self.node(key);
        let table = node.and_then(|node| self.table_of(&self.path_of(key), node));
        let location = node.map_or(&self.location, |node| &node.location).clone();
        self.below(self.path_of(key), location, table).open(read)
    }

    /// A table in this one, if it is present.
    pub(super) fn optional<T>(&self, key: &'static str, read: impl FnOnce(&Section<'t>) -> T) -> Option<T> {
        if self.recorder.is_some() {
            return Some(self.empty(self.path_of(key), read));
        }
        let node = self.node(key)?;
        let table = self.table_of(&self.path_of(key), node)?;
        Some(self.below(self.path_of(key), node.location.clone(), Some(table)).open(read))
    }

    /// Reads a table as if it were empty.
    fn empty<T>(&self, path: String, read: impl FnOnce(&Section<'t>) -> T) -> T {
        self.below(path, SourceLocation::Default, None).open(read)
    }

    /// A list of at most `most` tables.
    pub(super) fn sections<T>(&self, key: &'static str, most: usize, read: impl Fn(&Section<'t>) -> T) -> Vec<T> {
        if self.recorder.is_some() {
            return vec![self.empty(format!("{}[]", self.path_of(key)), read)];
        }
        let Some(node) = self.node(key) else { return Vec::new() };
        let Value::List(nodes) = &node.value else {
            self.mismatch(key, node, format!("a list of tables, written as [[{}]]", self.path_of(key)));
            return Vec::new();
        };
        let nodes = self.truncate(key, nodes, most);
        let sections = nodes.iter().enumerate().filter_map(|(index, node)| {
            let path = format!("{}[{index}]", self.path_of(key));
            let table = self.table_of(&path, node)?;
            Some(self.below(path, node.location.clone(), Some(table)).open(&read))
        });
        sections.collect()
    }

    /// The entries of a table whose keys are names chosen by the operator.
    pub(super) fn named<T>(&self, key: &'static str, read: impl Fn(&Item<'t>, &Section<'t>) -> T) -> Vec<T> {
        if self.recorder.is_some() {
            let path = format!("{}.*", self.path_of(key));
            let name = Item { text: "a", location: &SourceLocation::Default, path: path.clone(), faults: self.faults };
            return vec![self.empty(path, |section| read(&name, section))];
        }
        let Some(node) = self.node(key) else { return Vec::new() };
        let Some(table) = self.table_of(&self.path_of(key), node) else { return Vec::new() };
        let sections = table.entries.iter().filter_map(|entry| {
            let path = format!("{}.{}", self.path_of(key), entry.key);
            let inner = self.table_of(&path, &entry.node)?;
            let name = Item { text: &entry.key, location: &entry.location, path: path.clone(), faults: self.faults };
            let read = |section: &Section<'t>| read(&name, section);
            Some(self.below(path, entry.location.clone(), Some(inner)).open(read))
        });
        sections.collect()
    }

    /// The keys and values of a table of strings with arbitrary keys.
    pub(super) fn pairs(&self, key: &'static str, most: usize) -> Vec<(&'t str, Item<'t>)> {
        self.record(key, "table of strings", || format!("at most {most}"));
        self.record_default(key, || Value::Table(Table::empty(SourceLocation::Default)));
        let Some(node) = self.node(key) else { return Vec::new() };
        let Some(table) = self.table_of(&self.path_of(key), node) else { return Vec::new() };
        let entries = self.truncate(key, &table.entries, most);
        let pairs = entries.iter().filter_map(|entry| {
            let path = format!("{}.{}", self.path_of(key), entry.key);
            let text = as_text(&entry.node).or_else(|| {
                let wrong = format!("got {}", entry.node.value.kind());
                self.faults.value(&entry.node.location, &path, wrong, "a string");
                None
            })?;
            Some((entry.key.as_str(), Item { text, location: &entry.node.location, path, faults: self.faults }))
        });
        pairs.collect()
    }

    /// At most `most` items. Reports a longer list.
    fn truncate<'a, T>(&self, key: &str, items: &'a [T], most: usize) -> &'a [T] {
        if items.len() > most {
            self.fault(key, format!("has {} entries", items.len()), format!("at most {most}"));
        }
        items.get(..most).unwrap_or(items)
    }

    fn table_of(&self, path: &str, node: &'t Node) -> Option<&'t Table> {
        if let Value::Table(table) = &node.value {
            return Some(table);
        }
        self.faults.value(&node.location, path, format!("got {}", node.value.kind()), "a table");
        None
    }
}

/// The values of an enumeration with their names, for [`Section::choice`].
pub(super) fn words<T: Copy, const N: usize>(all: [T; N], name: fn(T) -> &'static str) -> [(&'static str, T); N] {
    all.map(|value| (name(value), value))
}

/// The text of a node. The value of a variable is text even if it looks like a number.
fn as_text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(text),
        Value::List(_) | Value::Table(_) => None,
        _ => node.raw.as_deref(),
    }
}
