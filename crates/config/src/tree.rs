//! The syntax tree of a configuration: tables, lists and values with their source locations.
//!
//! This module parses TOML text and reports all syntax faults. It does not interpret keys; see [`super::section`].

use std::sync::Arc;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::fault::{Faults, SourceLocation};

/// Reported syntax faults. More usually follow from the first ones.
const MAX_SYNTAX_FAULTS: usize = 20;

/// A table: its entries in the order of the file.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Location of its header or opening brace.
    pub(super) location: SourceLocation,
    pub(super) entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) location: SourceLocation,
    pub(super) node: Node,
}

/// A value and its location.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) location: SourceLocation,
    /// The text of the environment variable that set this value: `1.10` may be a number or a string.
    pub(super) raw: Option<String>,
}

impl Node {
    pub(super) fn new(value: Value, location: SourceLocation) -> Node {
        Node { value, location, raw: None }
    }

    pub(super) fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Its value, if it is a number.
    pub(super) fn number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            Value::Integer(number) => Some(number as f64),
            _ => None,
        }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    /// A whole number that 64 bits cannot hold.
    Huge,
    Number(f64),
    Flag(bool),
    Date(toml::value::Datetime),
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// Its type, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Huge => "a number beyond 64 bits",
            Value::Number(_) => "a number",
            Value::Flag(_) => "true or false",
            Value::Date(_) => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

impl Table {
    pub(super) fn empty(location: SourceLocation) -> Table {
        Table { location, entries: Vec::new() }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn table_mut(&mut self, key: &str) -> Option<&mut Table> {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key)?;
        match &mut entry.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The value of `key`, if it is a string.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.node.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value at a path of keys.
    pub(super) fn at<'k>(&self, path: impl IntoIterator<Item = &'k str>) -> Option<&Node> {
        let mut path = path.into_iter();
        let first = &self.get(path.next()?)?.node;
        path.try_fold(first, |node, key| Some(&node.table()?.get(key)?.node))
    }

    /// Adds a new key.
    pub(super) fn add(&mut self, key: &str, node: Node) {
        let location = node.location.clone();
        self.entries.push(Entry { key: key.to_owned(), location, node });
    }
}

/// Parses TOML text. Reports every syntax fault; the tree holds everything that could be read.
pub(super) fn read(text: &str, file: &str, faults: &Faults) -> Table {
    let lines = Lines::new(text, file);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_SYNTAX_FAULTS) {
        let offset = error.span().map_or(0, |span| span.start);
        let (wrong, allowed) = match error.message() {
            "duplicate key" => ("is set a second time", "each key and each table once"),
            message => message.split_once(", expected ").unwrap_or((message, "valid TOML")),
        };
        faults.syntax(&lines.location(offset), &lines.key_at(offset), wrong, allowed);
    }
    let location = |offset: usize| lines.location(offset);
    table(root.into_inner(), lines.location(0), &location)
}

/// The table at a path below `table`. Missing tables are created with `location`. `None` when a value on the path is not
/// a table.
pub(super) fn descend<'t>(table: &'t mut Table, path: &[&str], location: &SourceLocation) -> Option<&'t mut Table> {
    path.iter().try_fold(table, |table, key| {
        if table.get(key).is_none() {
            table.add(key, Node::new(Value::Table(Table::empty(location.clone())), location.clone()));
        }
        table.table_mut(key)
    })
}

/// The location after the last character of `text`.
pub(super) fn end_of(text: &str, file: &str) -> SourceLocation {
    Lines::new(text, file).location(text.len())
}

/// Parses one TOML value. All its parts get the same location.
pub(super) fn read_value(text: &str, location: &SourceLocation) -> Option<Value> {
    let value = DeValue::parse(text).ok()?;
    Some(convert(value, &|_| location.clone()).value)
}

fn table(entries: DeTable<'_>, location: SourceLocation, location_of: &dyn Fn(usize) -> SourceLocation) -> Table {
    let mut entries: Vec<_> = entries.into_iter().collect();
    // The parser sorts by name; order has a meaning here (the first endpoint is the preferred one).
    entries.sort_by_key(|(key, _)| key.span().start);
    let entries = entries.into_iter().map(|(key, value)| {
        let location = location_of(key.span().start);
        Entry { location, key: key.into_inner().into_owned(), node: convert(value, location_of) }
    });
    Table { location, entries: entries.collect() }
}

fn convert(value: Spanned<DeValue<'_>>, location_of: &dyn Fn(usize) -> SourceLocation) -> Node {
    let location = location_of(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(digits) => {
            i64::from_str_radix(digits.as_str(), digits.radix()).map_or(Value::Huge, Value::Integer)
        }
        DeValue::Float(digits) => Value::Number(digits.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(date) => Value::Date(date),
        DeValue::Array(items) => Value::List(items.into_iter().map(|item| convert(item, location_of)).collect()),
        DeValue::Table(entries) => Value::Table(table(entries, location.clone(), location_of)),
    };
    Node { value, location, raw: None }
}

/// Turns byte offsets into lines and columns.
struct Lines<'t> {
    text: &'t str,
    file: Arc<str>,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str, file: &str) -> Lines<'t> {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset + 1);
        Lines { text, file: file.into(), starts: std::iter::once(0).chain(newlines).collect() }
    }

    fn location(&self, offset: usize) -> SourceLocation {
        let (line, start) = self.line_at(offset);
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count()) + 1;
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        SourceLocation::File { file: self.file.clone(), line: small(line), column: small(column) }
    }

    /// The path of the key on a line with a syntax fault: the header above the line and the key before `=`, if they look
    /// valid.
    fn key_at(&self, offset: usize) -> String {
        let (number, start) = self.line_at(offset);
        let line = self.text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"');
        let looks_right = |key: &&str| !key.is_empty() && key.len() <= 64 && key.chars().all(plain);
        let key = line.split_once('=').map(|(key, _)| key.trim()).filter(looks_right);
        let mut above = self.text.lines().take(number.saturating_sub(1)).collect::<Vec<_>>().into_iter().rev();
        let header = above.find_map(|line| line.trim().strip_prefix('['));
        let header = header.map(|header| header.trim_matches(['[', ']', ' '])).filter(looks_right);
        match (header, key) {
            (_, None) => "syntax".to_owned(),
            (None, Some(key)) => key.to_owned(),
            (Some(header), Some(key)) => format!("{header}.{key}"),
        }
    }

    fn line_at(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= offset);
        (line, self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0))
    }
}
