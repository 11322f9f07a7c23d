//! What errors of one class have in common: status, `error.type` and `error.metadata.error_type`.

use actix_web::http::StatusCode;

use super::{ApiError, Kind};

/// Status, `error.type` and `error.metadata.error_type`.
#[derive(Clone, Copy)]
pub(super) struct Class(StatusCode, Kind, &'static str);

impl Class {
    /// An error of the class. `reason` is that of `error.metadata.reason`.
    pub(super) fn error(self, reason: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(self.0, self.1, self.2, message).because(reason)
    }
}

pub(super) const BAD_GATEWAY: Class = Class(StatusCode::BAD_GATEWAY, Kind::Provider, "provider_unavailable");
pub(super) const BAD_REQUEST: Class = Class(StatusCode::BAD_REQUEST, Kind::InvalidRequest, "invalid_request");
pub(super) const CONFLICT: Class = Class(StatusCode::CONFLICT, Kind::InvalidRequest, "invalid_request");
pub(super) const FORBIDDEN: Class = Class(StatusCode::FORBIDDEN, Kind::Permission, "permission_denied");
pub(super) const GONE: Class = Class(StatusCode::GONE, Kind::InvalidRequest, "invalid_request");
pub(super) const LIMITED: Class = Class(StatusCode::TOO_MANY_REQUESTS, Kind::RateLimit, "rate_limit_exceeded");
pub(super) const MEDIA_TYPE: Class = Class(StatusCode::UNSUPPORTED_MEDIA_TYPE, Kind::InvalidRequest, "invalid_request");
pub(super) const METHOD_NOT_ALLOWED: Class =
    Class(StatusCode::METHOD_NOT_ALLOWED, Kind::InvalidRequest, "invalid_request");
pub(super) const NOT_FOUND: Class = Class(StatusCode::NOT_FOUND, Kind::InvalidRequest, "not_found");
pub(super) const OVERLOADED: Class = Class(StatusCode::SERVICE_UNAVAILABLE, Kind::Provider, "provider_overloaded");
pub(super) const PAYMENT_REQUIRED: Class = Class(StatusCode::PAYMENT_REQUIRED, Kind::Quota, "payment_required");
pub(super) const SLOW_REQUEST: Class = Class(StatusCode::REQUEST_TIMEOUT, Kind::Timeout, "timeout");
pub(super) const TIMEOUT: Class = Class(StatusCode::GATEWAY_TIMEOUT, Kind::Timeout, "timeout");
pub(super) const TOO_LARGE: Class = Class(StatusCode::PAYLOAD_TOO_LARGE, Kind::InvalidRequest, "payload_too_large");
pub(super) const UNAUTHORIZED: Class = Class(StatusCode::UNAUTHORIZED, Kind::Authentication, "authentication");
pub(super) const UNAVAILABLE: Class = Class(StatusCode::SERVICE_UNAVAILABLE, Kind::Server, "server");
