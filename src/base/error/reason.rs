//! The reason of an error, as counters and the records of refused requests need it.

use actix_web::http::StatusCode;

use super::ApiError;

/// Reason of an error, in the extensions of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorReason(pub &'static str);

impl ApiError {
    /// Whether the request was valid but could not be served: 429 and every 5xx.
    #[must_use]
    pub fn is_capacity_error(&self) -> bool {
        self.0.status == StatusCode::TOO_MANY_REQUESTS || self.0.status.is_server_error()
    }

    /// Value of `error.metadata.reason`, or else that of `error.metadata.error_type`.
    #[must_use]
    pub fn finest_reason(&self) -> &'static str {
        self.0.reason.unwrap_or(self.0.error_type)
    }

    /// Whether a valid request, within the limits of its caller, could not be served: every 5xx, and 429 of the providers.
    #[must_use]
    pub fn is_failure_of_a_valid_request(&self) -> bool {
        self.0.status.is_server_error() || (self.is_capacity_error() && self.0.reason == Some("provider"))
    }
}
