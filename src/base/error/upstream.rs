//! What a client hears when upstreams failed: all of them, one in mid-stream, or because of the request itself.

use std::time::Duration;

use actix_web::http::StatusCode;
use pointsman_actors::domain::FailureKind;

use super::{ApiError, Kind, PreviousError, UpstreamDetail};

/// What a client reads when the limit on the whole request struck.
const DEADLINE_MESSAGE: &str = "The request took longer than this gateway allows.";

/// What a client reads when no connection could be opened for want of something of ours.
const SHORTAGE_MESSAGE: &str =
    "The gateway is short of descriptors, ports or memory for its own connections. No provider is to blame.";

/// How a route failed when every attempt did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// Every candidate said 429.
    RateLimited,
    /// Every candidate ran out of time.
    TimedOut,
    /// The time this gateway allows a request was over.
    Deadline,
    /// Every candidate was overloaded.
    Overloaded,
    /// The gateway itself lacked what a connection takes, whoever it tried.
    Shortage,
    /// Anything else.
    Unavailable,
}

impl ApiError {
    /// Every attempt failed: 429, 502, 503 or 504.
    #[must_use]
    pub fn exhausted(how: Exhausted, wait: Duration, previous: Vec<PreviousError>) -> ApiError {
        let (status, kind, error_type, reason, message) = match how {
            Exhausted::RateLimited => (
                StatusCode::TOO_MANY_REQUESTS,
                Kind::RateLimit,
                "rate_limit_exceeded",
                "provider",
                "Every provider that could serve this request is limiting its rate.",
            ),
            Exhausted::TimedOut => (
                StatusCode::GATEWAY_TIMEOUT,
                Kind::Timeout,
                "timeout",
                "upstream_timeout",
                "No provider answered in time.",
            ),
            Exhausted::Deadline => {
                (StatusCode::GATEWAY_TIMEOUT, Kind::Timeout, "timeout", "deadline", DEADLINE_MESSAGE)
            }
            Exhausted::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                Kind::Provider,
                "provider_overloaded",
                "overloaded",
                "Every provider that could serve this request is overloaded.",
            ),
            Exhausted::Shortage => (
                StatusCode::SERVICE_UNAVAILABLE,
                Kind::Provider,
                "provider_overloaded",
                "gateway_shortage",
                SHORTAGE_MESSAGE,
            ),
            Exhausted::Unavailable => (
                StatusCode::BAD_GATEWAY,
                Kind::Provider,
                "provider_unavailable",
                "provider_unavailable",
                "No provider could complete this request.",
            ),
        };
        ApiError::new(status, kind, error_type, message).because(reason).retry_after(wait).after(previous)
    }

    /// The same error, after these attempts.
    #[must_use]
    pub fn after(mut self, previous: Vec<PreviousError>) -> ApiError {
        self.0.upstream = previous.last().map(|last| UpstreamDetail {
            provider_name: last.provider.clone(),
            status: last.status,
            code: None,
            raw: None,
        });
        self.0.previous = previous;
        self
    }

    /// What ends a stream that failed after its first content.
    #[must_use]
    pub fn broken_stream(kind: FailureKind) -> ApiError {
        match kind {
            FailureKind::Timeout => {
                let message = "The provider fell silent in the middle of its answer.";
                ApiError::new(StatusCode::GATEWAY_TIMEOUT, Kind::Timeout, "timeout", message)
                    .because("upstream_timeout")
            }
            FailureKind::Deadline => {
                ApiError::new(StatusCode::GATEWAY_TIMEOUT, Kind::Timeout, "timeout", DEADLINE_MESSAGE)
                    .because("deadline")
            }
            FailureKind::Shortage => {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Kind::Provider, "provider_overloaded", SHORTAGE_MESSAGE)
                    .because("gateway_shortage")
            }
            _ => {
                let message = "The provider broke off in the middle of its answer.";
                ApiError::new(StatusCode::BAD_GATEWAY, Kind::Provider, "provider_unavailable", message)
                    .because("provider_unavailable")
            }
        }
    }

    /// An upstream refused the request itself, as `kind` says: 400, 413 or 422, with its own words. The status is not the
    /// upstream's: a refusal may also come inside a 200.
    #[must_use]
    pub fn refused(kind: FailureKind, detail: UpstreamDetail, previous: Vec<PreviousError>) -> ApiError {
        let (status, error_type, reason, message) = match kind {
            FailureKind::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload_too_large",
                "payload_too_large",
                "The provider refused the request because it is too large.",
            ),
            FailureKind::Unprocessable => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "unprocessable",
                "unprocessable",
                "The provider could not process the request.",
            ),
            FailureKind::ContextLength => (
                StatusCode::BAD_REQUEST,
                "context_length_exceeded",
                "context_length_exceeded",
                "The request exceeds this model's maximum context length.",
            ),
            _ => (StatusCode::BAD_REQUEST, "invalid_request", "provider_refused", "The provider refused the request."),
        };
        let mut error = ApiError::new(status, Kind::InvalidRequest, error_type, message).because(reason);
        error.0.upstream = Some(detail);
        error.0.previous = previous;
        error
    }
}
