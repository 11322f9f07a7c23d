//! Error messages for mistakes in requests.
//!
//! Every message is sent to the client. It names fields, types and limits, and shows at most a short, cleaned part of
//! a value that should be one of a list. It never shows prompt text.

use std::fmt;

use pointsman_domain::{Invalid, InvalidReason, PromptFault};

use super::json_type::JsonType;
use crate::neutral::{Path, shown};

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
    let message = "Request body is not valid JSON: the body is empty at line 1 column 1. Send a JSON object with the \
                   fields of this call.";
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
pub(super) fn wrong_type(path: &Path<'_>, expected: &str, got: JsonType) -> Invalid {
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
    Invalid::none_of(&path.to_string(), &shown(value), allowed)
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
