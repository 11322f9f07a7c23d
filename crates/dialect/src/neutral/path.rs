//! Where a field stands in the body, as error messages name it.

use std::fmt;

/// How much of a caller's value a message may show.
const SHOWN_CHARS: usize = 64;

/// Path of a value in the body, as a chain of borrowed steps. Allocates only when it is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'p> {
    /// A member of the body itself.
    Field(&'p str),
    /// A member of an object.
    Member(&'p Path<'p>, &'p str),
    /// An element of an array.
    Item(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// The path of a member of the object that stands here.
    pub(crate) fn member(&'p self, name: &'p str) -> Path<'p> {
        Path::Member(self, name)
    }

    /// The path of an element of the array that stands here.
    pub(crate) fn item(&'p self, position: usize) -> Path<'p> {
        Path::Item(self, position)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Field(name) => f.write_str(&shown(name)),
            Path::Member(parent, name) => write!(f, "{parent}.{}", shown(name)),
            Path::Item(parent, position) => write!(f, "{parent}[{position}]"),
        }
    }
}

/// A caller's value as a message may show it: one line, no control characters, cut.
pub fn shown(value: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = value.chars().take(SHOWN_CHARS).map(clean).collect();
    if value.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_value_is_short_and_on_one_line() {
        assert_eq!(shown("plain"), "plain");
        assert_eq!(shown("a\r\nb\u{0}"), "a\u{fffd}\u{fffd}b\u{fffd}");
        assert_eq!(shown(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
    }

    #[test]
    fn paths_read_as_in_code() {
        let messages = Path::Field("messages");
        let message = messages.item(2);
        let content = message.member("content");
        assert_eq!(content.item(0).member("type").to_string(), "messages[2].content[0].type");
    }
}
