//! The type of a JSON value, as error messages name it.

use std::fmt;

use crate::json::Raw;

/// The type of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonType {
    Null,
    Bool,
    Number,
    Text,
    Array,
    Object,
}

impl JsonType {
    /// The type of a value, which its first byte tells.
    pub(super) fn of(raw: Raw<'_>) -> JsonType {
        match raw.bytes().first() {
            Some(b'n') => JsonType::Null,
            Some(b't' | b'f') => JsonType::Bool,
            Some(b'"') => JsonType::Text,
            Some(b'[') => JsonType::Array,
            Some(b'{') => JsonType::Object,
            _ => JsonType::Number,
        }
    }
}

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonType::Null => "null",
            JsonType::Bool => "a boolean",
            JsonType::Number => "a number",
            JsonType::Text => "a string",
            JsonType::Array => "an array",
            JsonType::Object => "an object",
        })
    }
}
