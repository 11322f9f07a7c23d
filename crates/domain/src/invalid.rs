use std::fmt;

use super::{closest_name, listed_names};

/// A mistake in a client's request and its location. Becomes a 4xx response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The finer machine name of the mistake.
    pub reason: InvalidReason,
    /// The path of the field, such as `messages[2].content[0].type`; `None` for the body as a whole.
    pub param: Option<String>,
    /// One sentence for people: what is wrong and what is allowed. Contains no secret and no prompt text.
    pub message: String,
    /// The values the field may take, where it is an enumeration.
    pub allowed_values: Vec<String>,
}

/// The machine name of a client's mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InvalidReason {
    /// The body is not JSON.
    InvalidJson,
    /// A required field is absent.
    MissingField,
    /// A field has the wrong JSON type.
    InvalidType,
    /// A field has the right type and a value that is not allowed.
    InvalidValue,
    /// A mistake inside `messages`.
    InvalidPrompt(PromptFault),
    /// The model does not support what the request needs.
    UnsupportedParameter,
    /// A plugin that this gateway does not have.
    UnsupportedPlugin,
    /// The model belongs to another endpoint of the API.
    WrongEndpoint,
    /// Prompt and output do not fit the context window.
    ContextLength,
    /// The conversation is to be kept on the server; clients of the Messages API send it whole when they read this name.
    ThreadUnsupported,
    /// The request continues a response that this gateway did not keep.
    PreviousResponse,
}

/// The kind of mistake inside `messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PromptFault {
    /// A required field is absent.
    MissingField,
    /// A field has the wrong JSON type.
    InvalidType,
    /// A value that is not allowed.
    InvalidValue,
}

impl InvalidReason {
    /// The name in `error.metadata.reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            InvalidReason::InvalidJson => "invalid_json",
            InvalidReason::MissingField | InvalidReason::InvalidPrompt(PromptFault::MissingField) => "missing_field",
            InvalidReason::InvalidType | InvalidReason::InvalidPrompt(PromptFault::InvalidType) => "invalid_type",
            InvalidReason::InvalidValue | InvalidReason::InvalidPrompt(PromptFault::InvalidValue) => "invalid_value",
            InvalidReason::UnsupportedParameter => "unsupported_parameter",
            InvalidReason::UnsupportedPlugin => "unsupported_plugin",
            InvalidReason::WrongEndpoint => "wrong_endpoint",
            InvalidReason::ContextLength => "context_length_exceeded",
            InvalidReason::ThreadUnsupported => "thread_unsupported_request",
            InvalidReason::PreviousResponse => "previous_response_not_supported",
        }
    }

    /// The name in `error.metadata.error_type`.
    #[must_use]
    pub const fn error_type(self) -> &'static str {
        match self {
            InvalidReason::InvalidPrompt(_) => "invalid_prompt",
            InvalidReason::ContextLength => "context_length_exceeded",
            _ => "invalid_request",
        }
    }
}

impl Invalid {
    /// A mistake in the field `param`.
    pub fn field(reason: InvalidReason, param: impl Into<String>, message: impl Into<String>) -> Invalid {
        Invalid { reason, param: Some(param.into()), message: message.into(), allowed_values: Vec::new() }
    }

    /// The field `param` has a value that is none of the `allowed` ones. The message names `value` first.
    pub fn none_of(param: &str, value: &str, allowed: &[&str]) -> Invalid {
        let meant = closest_name(value, allowed.iter().copied());
        let meant = meant.map_or_else(String::new, |meant| format!(" Did you mean '{meant}'?"));
        let listed = listed_names(value, allowed.iter().copied());
        let message = format!("Unknown value '{value}' in '{param}'.{meant} Allowed: {listed}.");
        Invalid::field(InvalidReason::InvalidValue, param, message).allowing(allowed.iter().copied())
    }

    /// A mistake in the body as a whole.
    pub fn body(reason: InvalidReason, message: impl Into<String>) -> Invalid {
        Invalid { reason, param: None, message: message.into(), allowed_values: Vec::new() }
    }

    /// The same mistake with the list of allowed values.
    #[must_use]
    pub fn allowing(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> Invalid {
        self.allowed_values = values.into_iter().map(Into::into).collect();
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Invalid {}
