//! How a caller's mistakes are worded.
//!
//! Every sentence here reaches the client: it names fields, types and limits, and shows at most a short,
//! cleaned piece of a value that the caller chose from a list. It never shows a prompt.

use std::fmt;

use super::json::Kind;
use crate::domain::{Invalid, InvalidReason, PromptFault};

/// How much of a caller's value a message may show.
const SHOWN_CHARS: usize = 64;

/// Where a value stands in the body, as a chain of borrowed steps: free until somebody prints it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'p> {
    /// A member of the body itself.
    Field(&'p str),
    /// A member of an object.
    Member(&'p Path<'p>, &'p str),
    /// An element of an array.
    Item(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// The path of a member of the object that stands here.
    pub(super) fn member(&'p self, name: &'p str) -> Path<'p> {
        Path::Member(self, name)
    }

    /// The path of an element of the array that stands here.
    pub(super) fn item(&'p self, position: usize) -> Path<'p> {
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
#[must_use]
pub fn shown(value: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = value.chars().take(SHOWN_CHARS).map(clean).collect();
    if value.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// The body is not JSON, as the parser puts it; its own text ends in line and column.
pub(super) fn not_json(fault: &serde_json::Error) -> Invalid {
    Invalid::body(InvalidReason::InvalidJson, format!("Request body is not valid JSON: {fault}."))
}

/// The body is not JSON because of `what` at a byte position.
pub(super) fn broken_at(body: &[u8], at: usize, what: &str) -> Invalid {
    let before = body.get(..at).unwrap_or(body);
    let line = 1 + memchr::memchr_iter(b'\n', before).count();
    let column = 1 + before.len() - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let message = format!("Request body is not valid JSON: {what} at line {line} column {column}.");
    Invalid::body(InvalidReason::InvalidJson, message)
}

/// There is no body.
pub(super) fn empty() -> Invalid {
    let message = "Request body is not valid JSON: the body is empty at line 1 column 1. Send a JSON object with 'model' \
                   and 'messages' (or 'prompt' for images).";
    Invalid::body(InvalidReason::InvalidJson, message)
}

/// The body is JSON of another type.
pub(super) fn not_an_object() -> Invalid {
    Invalid::body(InvalidReason::InvalidType, "Request body must be a JSON object.")
}

/// A required field is absent or null.
pub(super) fn required(path: &Path<'_>) -> Invalid {
    Invalid::field(InvalidReason::MissingField, path.to_string(), format!("Field '{path}' is required."))
}

/// A field has the wrong JSON type.
pub(super) fn wrong_type(path: &Path<'_>, expected: &str, got: Kind) -> Invalid {
    mistyped(path, format!("'{path}' must be {expected}, got {got}."))
}

/// A field has the wrong JSON type, in the words of `message`.
pub(super) fn mistyped(path: &Path<'_>, message: impl Into<String>) -> Invalid {
    Invalid::field(InvalidReason::InvalidType, path.to_string(), message)
}

/// A field has a value that is not allowed, in the words of `message`.
pub(super) fn refused(path: &Path<'_>, message: impl Into<String>) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, path.to_string(), message)
}

/// A number lies outside its range.
pub(super) fn out_of_range(path: &Path<'_>, least: impl fmt::Display, most: impl fmt::Display) -> Invalid {
    refused(path, format!("'{path}' must be between {least} and {most}."))
}

/// A value is none of the few that are allowed.
pub(super) fn not_one_of(path: &Path<'_>, value: &str, allowed: &[&str]) -> Invalid {
    let message = format!("'{path}' must be one of {}, not '{}'.", allowed.join(", "), shown(value));
    refused(path, message).allowing(allowed.iter().copied())
}

/// A name is given twice in one object.
pub(super) fn given_twice(path: &Path<'_>) -> Invalid {
    refused(path, format!("'{path}' is given twice."))
}

/// The same mistake as one about the shape of the conversation.
pub(super) fn in_prompt(mut invalid: Invalid) -> Invalid {
    invalid.reason = match invalid.reason {
        InvalidReason::MissingField => InvalidReason::InvalidPrompt(PromptFault::MissingField),
        InvalidReason::InvalidType => InvalidReason::InvalidPrompt(PromptFault::InvalidType),
        InvalidReason::InvalidValue => InvalidReason::InvalidPrompt(PromptFault::InvalidValue),
        other => other,
    };
    invalid
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
