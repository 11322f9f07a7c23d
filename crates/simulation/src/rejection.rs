//! Error answers of simulated providers, in OpenAI's format and wording. The only status codes of the simulation.

use std::{fmt, time::Duration};

use actix_web::{HttpResponse, ResponseError, http::StatusCode};
use serde_json::json;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Rejection {
    /// The body is not JSON.
    BrokenJson,
    /// A required field is absent.
    Missing(&'static str),
    /// A field has a wrong type or value.
    Invalid { param: Option<String>, message: String },
    /// The model does not support the field.
    Unsupported { param: &'static str, message: String },
    /// The model does not exist.
    UnknownModel(String),
    /// Prompt and answer exceed the context length.
    TooLong { limit: u32, prompt: u32, completion: u32 },
    /// The rate limit is reached.
    RateLimited { model: String, limit: u32, wait: Duration },
    /// A simulated failure.
    Failed { provider: String },
    /// The request has no key.
    Unauthenticated,
    /// The path does not exist.
    UnknownPath { method: String, path: String },
    /// The path does not support the method.
    WrongMethod { method: String, path: String },
}

impl Rejection {
    /// Status, type, param and code of the error.
    fn parts(&self) -> (StatusCode, &'static str, Option<&str>, Option<&'static str>) {
        const INVALID: &str = "invalid_request_error";
        match self {
            Rejection::BrokenJson => (StatusCode::BAD_REQUEST, INVALID, None, None),
            Rejection::Missing(param) => {
                (StatusCode::BAD_REQUEST, INVALID, Some(param), Some("missing_required_parameter"))
            }
            Rejection::Invalid { param, .. } => {
                (StatusCode::BAD_REQUEST, INVALID, param.as_deref(), Some("invalid_value"))
            }
            Rejection::Unsupported { param, .. } => {
                (StatusCode::BAD_REQUEST, INVALID, Some(param), Some("unsupported_parameter"))
            }
            Rejection::UnknownModel(_) => (StatusCode::NOT_FOUND, INVALID, None, Some("model_not_found")),
            Rejection::TooLong { .. } => {
                (StatusCode::BAD_REQUEST, INVALID, Some("messages"), Some("context_length_exceeded"))
            }
            Rejection::RateLimited { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "requests", None, Some("rate_limit_exceeded"))
            }
            Rejection::Failed { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "server_error", None, None),
            Rejection::Unauthenticated => (StatusCode::UNAUTHORIZED, INVALID, None, Some("invalid_api_key")),
            Rejection::UnknownPath { .. } => (StatusCode::NOT_FOUND, INVALID, None, Some("unknown_url")),
            Rejection::WrongMethod { .. } => {
                (StatusCode::METHOD_NOT_ALLOWED, INVALID, None, Some("method_not_supported"))
            }
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::BrokenJson => f.write_str(
                "We could not parse the JSON body of your request. (HINT: This likely means you aren't using \
                 your HTTP library correctly.)",
            ),
            Rejection::Missing(param) => write!(f, "Missing required parameter: '{param}'."),
            Rejection::Invalid { message, .. } | Rejection::Unsupported { message, .. } => f.write_str(message),
            Rejection::UnknownModel(model) => {
                write!(f, "The model `{model}` does not exist or you do not have access to it.")
            }
            Rejection::TooLong { limit, prompt, completion } => write!(
                f,
                "This model's maximum context length is {limit} tokens. However, you requested {} tokens \
                 ({prompt} in the messages, {completion} in the completion). Please reduce the length of the \
                 messages or completion.",
                u64::from(*prompt) + u64::from(*completion)
            ),
            Rejection::RateLimited { model, limit, wait } => write!(
                f,
                "Rate limit reached for {model} on requests per min (RPM): Limit {limit}, Used {limit}, \
                 Requested 1. Please try again in {}s.",
                whole_seconds(*wait)
            ),
            Rejection::Failed { provider } => {
                write!(f, "The server had an error while processing your request: {provider} fails now and then.")
            }
            Rejection::Unauthenticated => f.write_str("x-api-key header is required"),
            Rejection::UnknownPath { method, path } => write!(f, "Invalid URL ({method} {path})"),
            Rejection::WrongMethod { method, path } => write!(f, "Not allowed to {method} on {path}."),
        }
    }
}

impl ResponseError for Rejection {
    fn status_code(&self) -> StatusCode {
        self.parts().0
    }

    fn error_response(&self) -> HttpResponse {
        let (status, kind, param, code) = self.parts();
        let mut response = HttpResponse::build(status);
        if let Rejection::RateLimited { limit, wait, .. } = self {
            let seconds = whole_seconds(*wait);
            response
                .insert_header(("retry-after", seconds.to_string()))
                .insert_header(("retry-after-ms", wait.as_millis().to_string()))
                .insert_header(("x-ratelimit-limit-requests", limit.to_string()))
                .insert_header(("x-ratelimit-remaining-requests", "0"))
                .insert_header(("x-ratelimit-reset-requests", format!("{seconds}s")));
        }
        let error = json!({ "message": self.to_string(), "type": kind, "param": param, "code": code });
        response.json(json!({ "error": error }))
    }
}

/// A wait in whole seconds for `Retry-After`, rounded up, at least 1.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}
