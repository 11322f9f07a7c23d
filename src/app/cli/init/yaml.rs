//! A YAML document as a tree that knows its lines and which of them were read, so that what was not can be told.

use std::{cell::Cell, collections::HashMap};

use yaml_rust2::{
    Event,
    parser::{MarkedEventReceiver, Parser},
    scanner::Marker,
};

/// Most nodes of a document: an anchor that is used many times over could make any number of them.
const MAX_NODES: usize = 100_000;
/// The key of entries that a mapping takes over from another one.
const MERGED: &str = "<<";

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    content: Content,
    is_read: Cell<bool>,
}

#[derive(Debug, Clone)]
enum Content {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The first document of a text.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub(super) fn parse(text: &str) -> Result<Node, String> {
        let mut tree = Tree::default();
        Parser::new_from_str(text).load(&mut tree, false).map_err(|error| error.to_string())?;
        if tree.is_too_large {
            return Err(format!("it has more than {MAX_NODES} values"));
        }
        tree.root.ok_or_else(|| "it is empty".to_owned())
    }

    fn new(line: usize, content: Content) -> Node {
        Node { line, content, is_read: Cell::new(false) }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The text of a scalar, which is read with that; `None` for an empty one.
    pub(super) fn text(&self) -> Option<&str> {
        let Content::Scalar(text) = &self.content else { return None };
        self.is_read.set(true);
        Some(text.as_str()).filter(|text| !["", "~", "null"].contains(text))
    }

    /// The text of the scalar under a key.
    pub(super) fn text_at(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    pub(super) fn items(&self) -> &[Node] {
        if let Content::List(items) = &self.content { items } else { &[] }
    }

    pub(super) fn entries(&self) -> &[(String, Node)] {
        if let Content::Map(entries) = &self.content { entries } else { &[] }
    }

    /// Counts everything below as read.
    pub(super) fn read(&self) {
        self.is_read.set(true);
        self.items().iter().chain(self.entries().iter().map(|(_, node)| node)).for_each(Node::read);
    }

    /// Line and path of every scalar below that was not read.
    pub(super) fn unread(&self, path: &str, into: &mut Vec<(usize, String)>) {
        match &self.content {
            Content::Scalar(_) if !self.is_read.get() => into.push((self.line, path.to_owned())),
            Content::Scalar(_) => {}
            Content::List(items) => {
                items.iter().enumerate().for_each(|(n, item)| item.unread(&format!("{path}[{n}]"), into));
            }
            Content::Map(entries) => {
                let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                entries.iter().for_each(|(key, node)| node.unread(&below(key), into));
            }
        }
    }

    fn size(&self) -> usize {
        1 + self.items().iter().chain(self.entries().iter().map(|(_, node)| node)).map(Node::size).sum::<usize>()
    }
}

/// The tree, as far as it was read.
#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    nodes: usize,
    is_too_large: bool,
}

/// A list or mapping that is not at its end.
struct Open {
    line: usize,
    anchor: usize,
    items: Vec<Node>,
    entries: Option<Vec<(String, Node)>>,
    key: Option<String>,
}

impl Tree {
    fn open(&mut self, line: usize, anchor: usize, is_map: bool) {
        self.open.push(Open { line, anchor, items: Vec::new(), entries: is_map.then(Vec::new), key: None });
    }

    fn close(&mut self) {
        let Some(Open { line, anchor, items, entries, .. }) = self.open.pop() else { return };
        let content = entries.map_or(Content::List(items), |entries| Content::Map(merged(entries)));
        self.add(Node::new(line, content), anchor);
    }

    fn add(&mut self, node: Node, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(Open { items, entries, key, .. }) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        match (entries, key.take()) {
            (None, _) => items.push(node),
            (Some(entries), Some(key)) => entries.push((key, node)),
            // A list or mapping as a key names nothing that is known here.
            (Some(_), None) => {
                *key = Some(if let Content::Scalar(text) = node.content { text } else { "?".to_owned() })
            }
        }
    }
}

impl MarkedEventReceiver for Tree {
    fn on_event(&mut self, event: Event, mark: Marker) {
        if self.is_too_large {
            return;
        }
        self.nodes += 1;
        match event {
            Event::Scalar(text, _, anchor, _) => self.add(Node::new(mark.line(), Content::Scalar(text)), anchor),
            Event::SequenceStart(anchor, _) => self.open(mark.line(), anchor, false),
            Event::MappingStart(anchor, _) => self.open(mark.line(), anchor, true),
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                if let Some(node) = self.anchors.get(&anchor).cloned() {
                    self.nodes += node.size();
                    self.add(node, 0);
                }
            }
            _ => {}
        }
        self.is_too_large = self.nodes > MAX_NODES;
    }
}

/// A mapping with the entries that it takes over; its own ones go before.
fn merged(entries: Vec<(String, Node)>) -> Vec<(String, Node)> {
    let (taken_over, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key == MERGED);
    for (_, node) in taken_over {
        let more = if let Content::List(items) = node.content { items } else { vec![node] };
        for (key, value) in more.into_iter().flat_map(|node| node.entries().to_vec()) {
            if !own.iter().any(|(name, _)| *name == key) {
                own.push((key, value));
            }
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_is_told_with_its_line_and_path() {
        let text = "list:\n  - name: a\n    more: {x: 1, y: 2}\n  - name: b\nempty: ''\n";
        let root = Node::parse(text).unwrap();
        let names: Vec<_> = root.get("list").unwrap().items().iter().filter_map(|item| item.text_at("name")).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(root.get("list").unwrap().items()[0].get("more").unwrap().text_at("y"), Some("2"));
        let mut unread = Vec::new();
        root.unread("", &mut unread);
        assert_eq!(unread, [(3, "list[0].more.x".to_owned()), (5, "empty".to_owned())]);
    }

    #[test]
    fn anchors_are_followed_entries_are_merged_and_a_text_that_grows_without_end_is_refused() {
        let root = Node::parse("base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: *b\n").unwrap();
        assert_eq!(root.get("one").unwrap().text_at("x"), Some("1"));
        assert_eq!(root.get("one").unwrap().text_at("y"), Some("3"));
        assert_eq!(root.get("two").unwrap().text_at("y"), Some("2"));
        let laughs = (1..9).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
            let before = format!("*a{}", n - 1);
            format!("{text}a{n}: &a{n} [{}]\n", [before.as_str(); 10].join(", "))
        });
        assert!(Node::parse(&laughs).unwrap_err().contains("more than"));
        assert!(Node::parse("a: [").is_err() && Node::parse("").is_err());
    }
}
