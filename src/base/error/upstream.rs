//! Errors for clients after upstream failures: all attempts failed, a stream broke, or a provider refused the request.

use std::time::Duration;

use actix_web::http::StatusCode;
use pointsman_domain::FailureKind;

use super::{ApiError, Kind, class};

/// Message when the deadline of the whole request has passed.
const DEADLINE_MESSAGE: &str = "The request took longer than this gateway allows.";

/// Message when the gateway lacks resources for a connection.
const SHORTAGE_MESSAGE: &str =
    "The gateway is short of descriptors, ports or memory for its own connections. No provider is to blame.";

/// Details of an upstream failure, for `error.metadata`.
#[derive(Debug, Clone)]
pub struct UpstreamDetail {
    /// Display name of the provider.
    pub provider_name: String,
    /// Its status, if it gave one.
    pub status: Option<u16>,
    /// Its own error code; only when it refused the request.
    pub code: Option<String>,
    /// Its body, or its reason within a 200, redacted and truncated; only when it refused the request.
    pub raw: Option<String>,
    /// Whether it refused the content of the request, or of its answer.
    pub is_about_content: bool,
    /// Whether it would accept fewer output tokens.
    pub wants_fewer_tokens: bool,
}

/// One failed attempt, for `error.metadata.previous_errors`.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct PreviousError {
    /// Display name of the provider.
    pub provider: String,
    /// Id of the model, such as `meadow/small`.
    pub model: String,
    /// The HTTP status that the provider gave; `null` if it gave none.
    pub status: Option<u16>,
    /// Kind of the failure, as `error_type` of an attempt in `/route/explain`.
    pub code: &'static str,
}

/// Why all attempts of a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// Every candidate answered 429.
    RateLimited,
    /// Every candidate timed out.
    TimedOut,
    /// The deadline of the whole request passed.
    Deadline,
    /// Every candidate was overloaded.
    Overloaded,
    /// The gateway lacked resources for connections.
    Shortage,
    /// Every candidate refused the gateway's own key, account or name of the model. Waiting does not help.
    Refused,
    /// Anything else.
    Unavailable,
}

/// Most attempts that the message names.
const MOST_NAMED: usize = 3;

/// ` Deadend answered 500; Swift could not be reached.`: what each of the last providers did, each thing once.
fn named(previous: &[PreviousError]) -> String {
    let mut clauses: Vec<String> = Vec::new();
    for failed in previous.iter().rev() {
        let clause = failed.clause();
        if !clauses.contains(&clause) {
            clauses.push(clause);
        }
    }
    let more = clauses.len().saturating_sub(MOST_NAMED);
    clauses.truncate(MOST_NAMED);
    clauses.reverse();
    match clauses.as_slice() {
        [] => String::new(),
        _ if more > 0 => format!(" {more} others failed too; {}.", clauses.join("; ")),
        _ => format!(" {}.", clauses.join("; ")),
    }
}

impl PreviousError {
    /// `Deadend answered 500`
    fn clause(&self) -> String {
        let what = match (self.status, self.code) {
            (Some(status), _) if status >= 400 => format!("answered {status}"),
            (_, "connect" | "shortage") => "could not be reached".to_owned(),
            (_, "tls") => "could not be reached by TLS".to_owned(),
            (_, "timeout" | "deadline") => "did not answer in time".to_owned(),
            (_, "reset" | "truncated") => "broke off its answer".to_owned(),
            (_, code) => format!("gave no valid answer ({})", code.replace('_', " ")),
        };
        format!("{} {what}", self.provider)
    }
}

/// What is known of a stream that broke off.
#[derive(Debug, Clone, Copy)]
pub struct BrokenStream<'a> {
    /// How it failed.
    pub kind: FailureKind,
    /// Display name of the provider.
    pub provider: Option<&'a str>,
    /// Time since the last content.
    pub silence: Duration,
    /// Tokens that had come, as far as they are counted.
    pub tokens: u64,
}

impl ApiError {
    /// Every attempt failed: 429, 502, 503 or 504.
    pub fn exhausted(how: Exhausted, wait: Duration, previous: Vec<PreviousError>) -> ApiError {
        let every = "Every provider that could serve this request is";
        let (class, reason, message) = match how {
            Exhausted::RateLimited => (class::LIMITED, "provider", format!("{every} limiting its rate.")),
            Exhausted::TimedOut => (class::TIMEOUT, "upstream_timeout", "No provider answered in time.".to_owned()),
            Exhausted::Deadline => (class::TIMEOUT, "deadline", DEADLINE_MESSAGE.to_owned()),
            Exhausted::Overloaded => (class::OVERLOADED, "overloaded", format!("{every} overloaded.")),
            Exhausted::Shortage => (class::OVERLOADED, "gateway_shortage", SHORTAGE_MESSAGE.to_owned()),
            Exhausted::Refused | Exhausted::Unavailable => {
                let message = "No provider could complete this request.".to_owned();
                (class::BAD_GATEWAY, "provider_unavailable", message)
            }
        };
        let error = class.error(reason, message + &named(&previous)).after(previous);
        if how == Exhausted::Refused { error.never_again() } else { error.retry_after(wait) }
    }

    /// The same error, after these attempts.
    pub fn after(mut self, previous: Vec<PreviousError>) -> ApiError {
        self.0.upstream = previous.last().map(|last| UpstreamDetail {
            provider_name: last.provider.clone(),
            status: last.status,
            code: None,
            raw: None,
            is_about_content: false,
            wants_fewer_tokens: false,
        });
        self.0.previous = previous;
        self
    }

    /// 502: an answer exceeds a limit of this gateway. `sentence`: which, and its key.
    pub fn gateway_limit(sentence: &str, previous: Vec<PreviousError>) -> ApiError {
        class::BAD_GATEWAY.error("gateway_limit", sentence).after(previous).never_again()
    }

    /// The error at the end of a stream that failed after its first content.
    pub fn broken_stream(broken: &BrokenStream<'_>) -> ApiError {
        let BrokenStream { kind, provider, silence, tokens } = *broken;
        let provider = provider.unwrap_or("The provider");
        let in_the_middle = |did: &str| format!("{provider} {did} in the middle of its answer");
        match kind {
            FailureKind::Timeout => {
                let message = format!(
                    "{provider} sent nothing for {:.1} s in the middle of its answer, after about {tokens} tokens.",
                    silence.as_secs_f64()
                );
                class::TIMEOUT.error("upstream_timeout", message)
            }
            FailureKind::Deadline => class::TIMEOUT.error("deadline", DEADLINE_MESSAGE),
            FailureKind::Shortage => class::OVERLOADED.error("gateway_shortage", SHORTAGE_MESSAGE),
            FailureKind::RateLimited => class::LIMITED.error("provider", in_the_middle("limited its rate") + "."),
            FailureKind::Overloaded => class::OVERLOADED.error("overloaded", in_the_middle("became overloaded") + "."),
            FailureKind::BadRequest
            | FailureKind::ContextLength
            | FailureKind::TooLarge
            | FailureKind::Unprocessable
            | FailureKind::RefusedHere
            | FailureKind::OverLimit
            | FailureKind::ContentPolicy => ApiError::refusal(kind, None),
            FailureKind::Server | FailureKind::Auth | FailureKind::Forbidden | FailureKind::NotFound => {
                class::BAD_GATEWAY.error("provider_unavailable", in_the_middle("reported an error") + ".")
            }
            _ => {
                let message = format!("{}, after about {tokens} tokens.", in_the_middle("broke off"));
                class::BAD_GATEWAY.error("provider_unavailable", message)
            }
        }
    }

    /// Upstreams refused the request itself, with the text of one of them. The status is that of the upstream only where it
    /// means the client; a refusal may also come with a 200.
    pub fn refused(kind: FailureKind, detail: UpstreamDetail, previous: Vec<PreviousError>) -> ApiError {
        let mut error = ApiError::refusal(kind, Some(&detail));
        error.0.upstream = Some(detail);
        error.0.previous = previous;
        error
    }

    fn refusal(kind: FailureKind, detail: Option<&UpstreamDetail>) -> ApiError {
        const REFUSED: &str = "The provider refused the request.";
        let is_about_content =
            kind == FailureKind::ContentPolicy || detail.is_some_and(|detail| detail.is_about_content);
        if detail.is_some_and(|detail| detail.wants_fewer_tokens) {
            let message = "The provider serves this request only with fewer tokens. Lower 'max_tokens'.";
            return class::PAYMENT_REQUIRED.error("provider_refused", message).with_param("max_tokens");
        }
        let too_large = (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "payload_too_large");
        let ((status, error_type, reason), message) = match kind {
            FailureKind::RefusedHere => {
                let class = match detail.and_then(|detail| detail.status) {
                    Some(402) => class::PAYMENT_REQUIRED,
                    Some(403) => class::FORBIDDEN,
                    Some(404) => class::NOT_FOUND,
                    Some(429) => class::LIMITED,
                    _ => class::BAD_REQUEST,
                };
                return class.error("provider_refused", REFUSED);
            }
            FailureKind::OverLimit => (
                too_large,
                "The request alone is larger than a limit of the provider. Shorten it, or lower 'max_tokens'.",
            ),
            FailureKind::TooLarge => (too_large, "The provider refused the request because it is too large."),
            FailureKind::Unprocessable => (
                (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable", "unprocessable"),
                "The provider could not process the request.",
            ),
            FailureKind::ContextLength => (
                (StatusCode::BAD_REQUEST, "context_length_exceeded", "context_length_exceeded"),
                "The request exceeds this model's maximum context length.",
            ),
            _ if is_about_content => (
                (StatusCode::BAD_REQUEST, "content_policy_violation", "content_policy_violation"),
                "The provider refused the request because of its content.",
            ),
            _ => ((StatusCode::BAD_REQUEST, "invalid_request", "provider_refused"), REFUSED),
        };
        ApiError::new(status, Kind::InvalidRequest, error_type, message).because(reason)
    }
}
