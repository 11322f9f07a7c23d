//! Error messages for mistakes in requests.
//!
//! Every message is sent to the client. It names fields, types and limits, and shows at most a short, cleaned part of
//! a value that should be one of a list. It never shows prompt text.

use std::fmt;

use pointsman_domain::{Invalid, InvalidReason, PromptFault};

use super::json_type::JsonType;
use crate::neutral::{Path, shown};

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
