use std::{fmt, time::Duration};

/// Who caused a failed attempt. Only failures caused by the provider count against its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The upstream.
    Provider,
    /// The client: the request itself was refused.
    Client,
    /// The gateway: its account, key, model name or time budget, or a resource this machine lacks.
    Configuration,
}

/// What may be tried after a failed attempt, as long as no content reached the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// The next candidate of the plan.
    AnotherEndpoint,
    /// The next candidate whose context window is larger.
    LargerContext,
    /// No further attempt: the error goes to the client.
    Stop,
}

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No connection: refused, unresolvable or unreachable.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The connection broke before the answer was complete.
    Reset,
    /// A time-out of the attempt expired: connect, first byte, first content, idle or total.
    Timeout,
    /// The gateway lacks a resource for a connection: file descriptors, ports or memory.
    Shortage,
    /// The time budget of the request ended while the upstream still delivered. The limit is the gateway's own, so the
    /// provider is not to blame.
    Deadline,
    /// 429: the endpoint is limited for a known time, which is not a fault.
    RateLimited,
    /// 503 or 529.
    Overloaded,
    /// Any other 5xx, and 408, 409, 425.
    Server,
    /// 401 or 402: the gateway's key or account at the provider.
    Auth,
    /// 403 about the gateway's account at the provider.
    Forbidden,
    /// 403 because of the content of the request. Says nothing about the account or the endpoint.
    ContentPolicy,
    /// 404: the configured upstream name of the model.
    NotFound,
    /// A 200 without a valid answer: broken JSON, an error body, no choices, a wrong encoding, an invalid frame.
    Malformed,
    /// The answer ended before its announced end.
    Truncated,
    /// A redirect, a 204 or any other unexpected status.
    UnexpectedStatus,
    /// 400 because of the prompt length: an endpoint with a larger context window may serve it.
    ContextLength,
    /// 400 and any other 4xx caused by the client.
    BadRequest,
    /// 413.
    TooLarge,
    /// 422.
    Unprocessable,
}

impl FailureKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [FailureKind; 20] = [
        FailureKind::Connect,
        FailureKind::Tls,
        FailureKind::Reset,
        FailureKind::Timeout,
        FailureKind::Shortage,
        FailureKind::Deadline,
        FailureKind::RateLimited,
        FailureKind::Overloaded,
        FailureKind::Server,
        FailureKind::Auth,
        FailureKind::Forbidden,
        FailureKind::ContentPolicy,
        FailureKind::NotFound,
        FailureKind::Malformed,
        FailureKind::Truncated,
        FailureKind::UnexpectedStatus,
        FailureKind::ContextLength,
        FailureKind::BadRequest,
        FailureKind::TooLarge,
        FailureKind::Unprocessable,
    ];

    /// Kind of an HTTP status of 400 to 599, as far as the status alone decides it. `None` for other numbers.
    #[must_use]
    pub const fn of_status(status: u64) -> Option<FailureKind> {
        Some(match status {
            401 | 402 => FailureKind::Auth,
            403 => FailureKind::Forbidden,
            404 => FailureKind::NotFound,
            408 | 409 | 425 => FailureKind::Server,
            413 => FailureKind::TooLarge,
            422 => FailureKind::Unprocessable,
            429 => FailureKind::RateLimited,
            400..=499 => FailureKind::BadRequest,
            503 | 529 => FailureKind::Overloaded,
            500..=599 => FailureKind::Server,
            _ => return None,
        })
    }

    /// Who caused the failure.
    #[must_use]
    pub const fn blame(self) -> Blame {
        use FailureKind::{
            Auth, BadRequest, ContentPolicy, ContextLength, Deadline, Forbidden, NotFound, Shortage, TooLarge,
            Unprocessable,
        };
        match self {
            BadRequest | ContextLength | TooLarge | Unprocessable => Blame::Client,
            Auth | NotFound | Forbidden | ContentPolicy | Deadline | Shortage => Blame::Configuration,
            _ => Blame::Provider,
        }
    }

    /// What may be tried next.
    #[must_use]
    pub const fn next(self) -> Next {
        use FailureKind::{BadRequest, ContextLength, TooLarge, Unprocessable};
        match self {
            BadRequest | TooLarge | Unprocessable => Next::Stop,
            ContextLength => Next::LargerContext,
            _ => Next::AnotherEndpoint,
        }
    }

    /// The name in attempt records, errors and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect",
            FailureKind::Tls => "tls",
            FailureKind::Reset => "reset",
            FailureKind::Timeout => "timeout",
            FailureKind::Shortage => "shortage",
            FailureKind::Deadline => "deadline",
            FailureKind::RateLimited => "rate_limited",
            FailureKind::Overloaded => "overloaded",
            FailureKind::Server => "server",
            FailureKind::Auth => "auth",
            FailureKind::Forbidden => "forbidden",
            FailureKind::ContentPolicy => "content_policy",
            FailureKind::NotFound => "not_found",
            FailureKind::Malformed => "malformed",
            FailureKind::Truncated => "truncated",
            FailureKind::UnexpectedStatus => "unexpected_status",
            FailureKind::ContextLength => "context_length",
            FailureKind::BadRequest => "bad_request",
            FailureKind::TooLarge => "too_large",
            FailureKind::Unprocessable => "unprocessable",
        }
    }
}

/// A failed attempt, as the statistics see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// HTTP status of the upstream, if there was one.
    pub status: Option<u16>,
    /// `Retry-After` of the upstream, clamped to 60 s.
    pub retry_after: Option<Duration>,
}

/// Short form of a failure for exclusion texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureCause {
    /// How it failed.
    pub kind: FailureKind,
    /// The status the upstream gave, if it gave one.
    pub status: Option<u16>,
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A 2xx status does not explain an answer that broke off.
        match self.status.filter(|status| *status >= 400) {
            Some(status) => write!(f, "{status}"),
            None => f.write_str(self.kind.as_str()),
        }
    }
}
