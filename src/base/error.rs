//! Errors that clients receive: status codes, error types, codes and the JSON body. No other file knows status codes.
//!
//! Other modules return typed failures, handlers convert them to [`ApiError`], and the middleware `frame` writes the
//! answer with the request id. This module does not log. Errors contain no text of providers, except the redacted `raw`
//! of a request that a provider refused.

mod availability;
pub(crate) mod body;
mod budget;
mod change;
mod class;
mod console;
mod feedback;
mod limit;
mod model;
mod overload;
mod place;
mod reason;
mod upstream;

use std::{borrow::Cow, fmt, time::Duration};

use actix_web::{
    HttpResponse, ResponseError,
    http::{
        StatusCode,
        header::{self, HeaderName, HeaderValue},
    },
};
use pointsman_dialect::{MessagesError, UPSTREAM_TOO_LONG, too_long_by};
use pointsman_domain::{Dialect, GenerationId, Invalid, InvalidReason};

use super::unknown_path;
pub use availability::{Availability, Constraint, NearestRelaxation};
pub use budget::{BudgetHolder, BudgetShortfall};
pub use limit::Limit;
pub use overload::Overload;
use place::message_with_place;
pub use reason::{ErrorReason, refuses_key};
use serde_json::value::RawValue;
pub use upstream::{BrokenStream, Exhausted, PreviousError, UpstreamDetail};

/// The error answer of a failed call.
#[derive(Debug, Clone)]
#[must_use]
pub struct ApiError(Box<Problem>);

/// Content of an error body. Only the constructors of [`ApiError`] build it.
#[derive(Debug, Clone)]
struct Problem {
    status: StatusCode,
    kind: Kind,
    error_type: &'static str,
    reason: Option<&'static str>,
    message: String,
    param: Option<String>,
    allowed_values: Vec<String>,
    faults: Vec<String>,
    generation: Option<GenerationId>,
    /// The model that the call asked for, cut.
    model: Option<Box<str>>,
    upstream: Option<UpstreamDetail>,
    previous: Vec<PreviousError>,
    availability: Option<Availability>,
    budget: Option<Box<budget::BudgetBody>>,
    retry: Retry,
    headers: Vec<(HeaderName, HeaderValue)>,
    request_id: Option<String>,
    /// Wire format of the body.
    dialect: Dialect,
    route: Option<Box<RawValue>>,
}

pointsman_domain::named! {
    /// Value of `error.type`, as OpenAI defines it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Kind {
        InvalidRequest = "invalid_request_error",
        Authentication = "authentication_error",
        Permission = "permission_error",
        Quota = "insufficient_quota",
        RateLimit = "rate_limit_error",
        Provider = "provider_error",
        Timeout = "timeout_error",
        Server = "server_error",
    }
}

/// Whether and when an identical call may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    /// A retry cannot succeed, or its time is not disclosed.
    Never,
    /// A retry may succeed after this time.
    After(Duration),
    /// The same, where a provider asks for more time than any that is heeded, so that a retry will hardly succeed then.
    Shortened(Duration),
    /// No time helps, only the gateway's administrator. SDKs would repeat the status otherwise, some after a minute.
    Futile,
}

/// Reason for refusing an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFault {
    /// None was sent.
    Missing,
    /// Malformed, unknown, or two different ones.
    Invalid,
    /// Switched off.
    Disabled,
    /// Past its date.
    Expired,
}

impl ApiError {
    fn new(status: StatusCode, kind: Kind, error_type: &'static str, message: impl Into<String>) -> ApiError {
        ApiError(Box::new(Problem {
            status,
            kind,
            error_type,
            reason: None,
            message: message.into(),
            param: None,
            allowed_values: Vec::new(),
            faults: Vec::new(),
            generation: None,
            model: None,
            upstream: None,
            previous: Vec::new(),
            availability: None,
            budget: None,
            retry: Retry::Never,
            headers: Vec::new(),
            request_id: None,
            dialect: Dialect::OpenAi,
            route: None,
        }))
    }

    /// 401.
    pub fn unauthorized(fault: KeyFault) -> ApiError {
        let (reason, message) = match fault {
            KeyFault::Missing => {
                ("missing_key", "No API key was sent. Send 'Authorization: Bearer <key>' or 'X-API-Key: <key>'.")
            }
            KeyFault::Invalid => (
                "invalid_key",
                "The API key is not valid for this gateway: it is unknown, or not sent as 'Authorization: Bearer <key>'.",
            ),
            KeyFault::Disabled => ("disabled_key", "This API key is disabled."),
            KeyFault::Expired => ("expired_key", "This API key has expired."),
        };
        class::UNAUTHORIZED
            .error(reason, message)
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 401: the account of the key, or the team of that, is disabled.
    pub fn disabled_holder(holder: BudgetHolder, name: &str) -> ApiError {
        let reason = holder.disabled();
        let word = reason.trim_start_matches("disabled_");
        class::UNAUTHORIZED
            .error(reason, format!("The {word} '{name}' of this API key is disabled."))
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 403: the key lacks a scope.
    pub fn missing_scope(scope: &str) -> ApiError {
        let message = format!("This API key lacks the scope '{scope}'.");
        class::FORBIDDEN.error("scope", message)
    }

    /// 403: a CORS preflight request is refused.
    pub fn refused_preflight() -> ApiError {
        let message = "Calls of this kind are not allowed from this origin.";
        class::FORBIDDEN.error("cors", message)
    }

    /// 403: the key may not use the model.
    pub fn model_not_allowed(model: &str) -> ApiError {
        let message = format!("This API key may not use the model '{model}'.");
        class::FORBIDDEN.error("model_not_allowed_for_key", message).with_param("model")
    }

    /// 400: a mistake in the request.
    pub fn invalid(invalid: Invalid) -> ApiError {
        let mut error =
            ApiError::new(StatusCode::BAD_REQUEST, Kind::InvalidRequest, invalid.reason.error_type(), invalid.message)
                .because(invalid.reason.as_str());
        error.0.param = invalid.param;
        error.0.allowed_values = invalid.allowed_values;
        error
    }

    /// 400: the configuration on disk is refused; `version` stays in force.
    pub fn refused_configuration(version: u64, faults: &[String]) -> ApiError {
        let first = faults.first().map_or("", String::as_str);
        let message = format!("The configuration is refused, version {version} stays in force: {first}");
        let mut error = class::BAD_REQUEST.error("configuration_refused", message);
        error.0.faults = faults.to_vec();
        error
    }

    /// 400: a query parameter is wrong.
    pub fn bad_query(param: &str, message: impl Into<String>) -> ApiError {
        ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, param, message))
    }

    /// 404: no such generation, or not this key's.
    pub fn unknown_generation() -> ApiError {
        ApiError::not_found("generation_not_found", "No generation with this id is known for this API key.")
            .with_param("generation_id")
    }

    /// 404: records are in memory only, so there is nothing to list.
    pub fn no_durable_ledger() -> ApiError {
        ApiError::not_found(
            "no_durable_ledger",
            "This gateway keeps records in memory only and cannot list them or add them up. Its operator can store them \
             with ledger.data_dir and ledger.durability = \"group\".",
        )
    }

    /// 404: no such path.
    pub fn unknown_path(path: &str) -> ApiError {
        let what = unknown_path::mistake(path);
        ApiError::not_found(
            "unknown_path",
            format!(
                "{what} Under /api/v1 there are chat/completions, messages, responses, completions (with \
                 server.legacy_completions = true), embeddings, images, models, providers, route, generation, generations, \
                 feedback, activity, keys, key, credits and health; administration has a listener of its own."
            ),
        )
    }

    /// 404: no such path at the admin listener.
    pub fn unknown_admin_path() -> ApiError {
        ApiError::not_found(
            "unknown_path",
            "This path does not exist here. This is the listener for administration (admin.bind): it has the calls below \
             /api/v1/admin, /console, /metrics and the health pages. Models are called at server.bind.",
        )
    }

    /// 404: a client appended the path of a call with its version to a base address that has one.
    pub fn doubled_version() -> ApiError {
        ApiError::not_found(
            "unknown_path",
            "This path does not exist: the base address has one /v1 too many. Clients that append /v1/messages get the \
             address that ends in /api, clients that append /chat/completions or /responses the one that ends in /api/v1.",
        )
    }

    /// 404: the path exists, and the thing that it names does not.
    pub fn no_such(what: &str) -> ApiError {
        ApiError::not_found("not_found", format!("There is no such {what}."))
    }

    fn not_found(reason: &'static str, message: impl Into<String>) -> ApiError {
        class::NOT_FOUND.error(reason, message)
    }

    /// 405, with the allowed methods.
    pub fn method_not_allowed(allowed: &'static str) -> ApiError {
        let message = format!("This path answers {allowed} only.");
        class::METHOD_NOT_ALLOWED
            .error("method_not_allowed", message)
            .with_header(header::ALLOW, HeaderValue::from_static(allowed))
    }

    /// 421: the request names a host that the listener does not answer to; `hosts` is the key that lists more.
    pub fn misdirected(hosts: &str) -> ApiError {
        let message = format!(
            "This gateway listens on this machine only and does not answer to the host that this request names. Call it \
             as localhost or by a loopback address, or add the host to {hosts}."
        );
        let status = StatusCode::MISDIRECTED_REQUEST;
        ApiError::new(status, Kind::InvalidRequest, "invalid_request", message).because("host_not_allowed")
    }

    /// 408: the body did not arrive in time.
    pub fn slow_body() -> ApiError {
        let message = "The request body was not received in time.";
        class::SLOW_REQUEST.error("client_timeout", message)
    }

    /// 413: the body is over the limit.
    pub fn body_too_large(limit_bytes: usize) -> ApiError {
        let message = format!("The request body is larger than {limit_bytes} bytes, the most this gateway accepts.");
        class::TOO_LARGE.error("payload_too_large", message)
    }

    /// 431: the headers are over the limit.
    pub fn headers_too_large(limit_bytes: usize) -> ApiError {
        let message = format!("The request headers have more than {limit_bytes} bytes, the most this gateway accepts.");
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        ApiError::new(status, Kind::InvalidRequest, "payload_too_large", message).because("headers_too_large")
    }

    /// 400: the body broke off.
    pub fn broken_body() -> ApiError {
        ApiError::invalid(Invalid::body(InvalidReason::InvalidJson, "The request body broke off before its end."))
    }

    /// 400: the HTTP library refused the request before a handler was called.
    pub fn malformed() -> ApiError {
        ApiError::invalid(Invalid::body(InvalidReason::InvalidValue, "The request is malformed."))
    }

    /// 400: the body is declared in another charset.
    pub fn unsupported_charset() -> ApiError {
        ApiError::invalid(Invalid::body(InvalidReason::InvalidValue, "The request body must be UTF-8."))
    }

    /// 415: the body is compressed.
    pub fn unsupported_encoding() -> ApiError {
        let message = "The request body must not be compressed: leave out 'Content-Encoding'.";
        class::MEDIA_TYPE.error("unsupported_media_type", message)
    }

    /// 415: the body is not declared to be JSON.
    pub fn unsupported_media_type() -> ApiError {
        let message = "The request body must be JSON: send 'Content-Type: application/json'.";
        class::MEDIA_TYPE.error("unsupported_media_type", message)
    }

    /// 503: the gateway cannot serve the call now.
    pub fn overloaded(by: Overload, wait: Duration) -> ApiError {
        let (reason, message) = by.reason_with_message();
        let error = class::OVERLOADED.error(reason, message);
        if by == Overload::RefusedByProviders { error.never_again() } else { error.retry_after(wait) }
    }

    /// 503: the process is shutting down. Another instance may serve the call at once.
    pub fn draining() -> ApiError {
        ApiError::overloaded(Overload::Draining, Duration::from_secs(1))
    }

    /// 500: an internal error. The log has the details, the answer has none.
    pub fn internal() -> ApiError {
        let message = "The gateway failed to handle this request. The request id helps its operator to find out why.";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Kind::Server, "server", message)
            .retry_after(Duration::from_secs(1))
    }

    /// The same error with the id of its generation.
    pub fn of_generation(mut self, id: GenerationId) -> ApiError {
        // Client libraries show nothing but the message.
        if self.0.generation.is_none() && self.0.retry != Retry::Never && !self.0.previous.is_empty() {
            self.0.message.push_str(&format!(" 'pointsman explain {id}' says more."));
        }
        self.0.generation = Some(id);
        self
    }

    /// The same error with the id of its request.
    pub fn with_request_id(mut self, request_id: &str) -> ApiError {
        self.0.request_id = Some(request_id.to_owned());
        self
    }

    /// The same error with a further header.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> ApiError {
        self.0.headers.push((name, value));
        self
    }

    fn because(mut self, reason: &'static str) -> ApiError {
        self.0.reason = Some(reason);
        self
    }

    fn with_param(mut self, param: &str) -> ApiError {
        self.0.param = Some(param.to_owned());
        self
    }

    /// The same error with the availability of models and providers.
    pub fn with_availability(mut self, availability: Availability) -> ApiError {
        self.0.availability = Some(availability);
        self
    }

    fn never_again(mut self) -> ApiError {
        self.0.retry = Retry::Futile;
        self
    }

    fn retry_after(mut self, wait: Duration) -> ApiError {
        self.0.retry = Retry::After(wait);
        self
    }

    /// The same error, whose wait is less than the providers ask for.
    pub fn with_shortened_wait(mut self) -> ApiError {
        if let Retry::After(wait) = self.0.retry {
            self.0.retry = Retry::Shortened(wait);
        }
        self
    }

    /// The same error with the route of the request.
    pub fn with_route(mut self, route: Box<RawValue>) -> ApiError {
        self.0.route = Some(route);
        self
    }

    /// The failed attempts.
    pub fn previous(&self) -> &[PreviousError] {
        &self.0.previous
    }

    /// The failed attempts as JSON, for answers without an error body; `None` when there are none.
    pub fn previous_errors(&self) -> Option<Box<str>> {
        let written = serde_json::to_string(&self.0.previous).ok().filter(|_| !self.0.previous.is_empty());
        written.map(String::into_boxed_str)
    }

    /// The provider that failed last.
    pub fn provider_name(&self) -> Option<&str> {
        self.0.upstream.as_ref().map(|detail| detail.provider_name.as_str())
    }

    /// Status of the answer.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The message for the client.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The member or parameter that is at fault.
    pub fn param(&self) -> Option<&str> {
        self.0.param.as_deref()
    }

    /// Value of `error.type`.
    pub fn kind(&self) -> &'static str {
        self.0.kind.as_str()
    }

    /// Value of `error.metadata.error_type`.
    pub fn error_type(&self) -> &'static str {
        self.0.error_type
    }

    /// Whether an identical call fails whenever it is sent, until the gateway's administrator acts.
    pub fn is_final(&self) -> bool {
        self.0.retry == Retry::Futile
    }

    /// Value of `error.metadata.reason`.
    pub fn reason(&self) -> Option<&'static str> {
        self.0.reason
    }

    /// The error in the wire format of the request.
    pub fn in_dialect(mut self, dialect: Dialect) -> ApiError {
        self.0.dialect = dialect;
        self
    }

    /// The HTTP answer.
    pub fn respond(&self) -> HttpResponse {
        let problem = &self.0;
        let too_long = problem.upstream.as_ref().filter(|_| problem.reason == Some("context_length_exceeded"));
        let message = match problem.dialect {
            _ if let Some(upstream) = too_long => match upstream.raw.as_deref().and_then(too_long_by) {
                Some(message) => message.into(),
                None => UPSTREAM_TOO_LONG.into(),
            },
            Dialect::Anthropic => message_with_place(problem),
            _ => Cow::Borrowed(&*problem.message),
        };
        let metadata = (problem.dialect == Dialect::Anthropic).then(|| body::metadata(problem));
        let messages = MessagesError {
            status: problem.status.as_u16(),
            message: &message,
            reason: problem.reason.or(Some(problem.error_type)),
            metadata: metadata.as_deref(),
            request_id: problem.request_id.as_deref(),
        };
        let status = match problem.dialect {
            Dialect::OpenAi | Dialect::Gemini | Dialect::Responses | Dialect::Converse => problem.status,
            Dialect::Anthropic => StatusCode::from_u16(messages.messages_status()).unwrap_or(problem.status),
        };
        let mut response = HttpResponse::build(status);
        response.insert_header((header::CACHE_CONTROL, "no-store"));
        for (name, value) in &problem.headers {
            response.insert_header((name.clone(), value.clone()));
        }
        if let Some(id) = &problem.request_id {
            response.insert_header(("x-request-id", id.as_str()));
        }
        if let Some(id) = problem.generation {
            response.insert_header(("x-generation-id", id.as_str()));
        }
        if problem.retry == Retry::Futile {
            response.insert_header(("x-should-retry", "false"));
        }
        if let Retry::After(wait) | Retry::Shortened(wait) = problem.retry {
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
            response.insert_header((header::RETRY_AFTER, whole_seconds(wait)));
            response.insert_header(("retry-after-ms", millis));
            // A wait of a minute may be one that was shortened to it, and clients heed none that is longer.
            if wait >= Duration::from_secs(60) || problem.retry == Retry::Shortened(wait) {
                response.insert_header(("x-should-retry", "false"));
            }
        }
        response.extensions_mut().insert(self.error_reason());
        match problem.dialect {
            Dialect::OpenAi | Dialect::Gemini | Dialect::Responses | Dialect::Converse => {
                response.json(body::ErrorBody::new(problem))
            }
            Dialect::Anthropic => {
                // Their body holds a type that belongs to their status.
                let alike = |upstream: &&UpstreamDetail| upstream.status == Some(problem.status.as_u16());
                let refusal = problem.upstream.as_ref().filter(alike).and_then(|upstream| upstream.raw.as_deref());
                let passed_on = refusal.and_then(|refusal| messages.passed_on(refusal));
                response.content_type("application/json").body(passed_on.unwrap_or_else(|| messages.body()))
            }
        }
    }
}

/// Seconds that a client should wait, rounded up, at least one.
fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.0.status.as_u16(), self.0.error_type, self.0.message)
    }
}

impl std::error::Error for ApiError {}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    fn error_response(&self) -> HttpResponse {
        self.respond()
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> ApiError {
        ApiError::invalid(invalid)
    }
}
