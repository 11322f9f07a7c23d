//! The reason of an error, as counters and the records of refused requests need it.

use actix_web::http::StatusCode;

use super::ApiError;

/// Longest model name that is kept with an error, in characters.
const MAX_MODEL: usize = 64;

/// Reason of an error, in the extensions of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorReason {
    /// The finest reason that is known.
    pub reason: &'static str,
    /// The model that the call asked for, cut; `None` if its body was not read.
    pub model: Option<Box<str>>,
}

/// Whether an answer with this status refuses the key of its call.
pub fn refuses_key(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED
}

impl ApiError {
    /// The same error, of a call that asked for `model`. For the list of refused calls alone: clients do not see it.
    pub fn for_model(mut self, model: &str) -> ApiError {
        let cut = model.char_indices().nth(MAX_MODEL).map_or(model.len(), |(end, _)| end);
        self.0.model = model.get(..cut).filter(|model| !model.is_empty()).map(Box::from);
        self
    }

    /// Reason and model of the error.
    pub fn error_reason(&self) -> ErrorReason {
        ErrorReason { reason: self.finest_reason(), model: self.0.model.clone() }
    }

    /// Whether the request was valid but could not be served: 429 and every 5xx.
    pub fn is_capacity_error(&self) -> bool {
        self.0.status == StatusCode::TOO_MANY_REQUESTS || self.0.status.is_server_error()
    }

    /// Value of `error.metadata.reason`, or else that of `error.metadata.error_type`.
    pub fn finest_reason(&self) -> &'static str {
        self.0.reason.unwrap_or(self.0.error_type)
    }

    /// Whether a valid request, within the limits of its caller, could not be served: every 5xx, and 429 of the providers.
    pub fn is_failure_of_a_valid_request(&self) -> bool {
        self.0.status.is_server_error() || (self.is_capacity_error() && self.0.reason == Some("provider"))
    }
}
