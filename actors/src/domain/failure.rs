use std::{fmt, time::Duration};

/// Whose fault a failed attempt is. Only the provider's own faults lower its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The upstream's.
    Provider,
    /// The caller's: the request itself was refused.
    Client,
    /// Ours: the account, key, model name or time we configured, or what this machine lacks.
    Configuration,
}

/// What may be tried after a failed attempt, as long as no content reached the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// The next candidate of the plan.
    AnotherEndpoint,
    /// The next candidate whose context window is larger.
    LargerContext,
    /// Nothing: the answer goes to the client.
    Stop,
}

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Refused, unresolvable or unreachable: no connection came about.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The connection broke before the answer was whole.
    Reset,
    /// The upstream kept us waiting until a clock ran out: connect, first byte, content, idle or total.
    Timeout,
    /// We ourselves lack what a connection takes: descriptors, ports or memory.
    Shortage,
    /// The request's own time was over while the upstream still delivered: its limit is ours, so nobody is blamed.
    Deadline,
    /// 429: a promise with a date, not a fault.
    RateLimited,
    /// 503 or 529.
    Overloaded,
    /// Any other 5xx, and 408, 409, 425.
    Server,
    /// 401 or 402: our key or our account.
    Auth,
    /// 403 about our account.
    Forbidden,
    /// 403 because of what the request says: tells nothing about our account or the endpoint.
    ContentPolicy,
    /// 404: our name for the model.
    NotFound,
    /// A 200 that is no answer: broken JSON, an error body, no choices, a false encoding, an irregular frame.
    Malformed,
    /// The answer ended before its announced or proven end.
    Truncated,
    /// A redirect, a 204 or any other status that is no answer.
    UnexpectedStatus,
    /// 400 for its length: another endpoint may have room.
    ContextLength,
    /// 400 and any other 4xx that is the caller's mistake.
    BadRequest,
    /// 413.
    TooLarge,
    /// 422.
    Unprocessable,
}

impl FailureKind {
    /// Whose fault it is.
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

    /// The word in attempts, errors and metrics.
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

/// A failed attempt, as far as the statistics care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// The status the upstream gave, if it gave one.
    pub status: Option<u16>,
    /// How long the upstream asked to be left alone, already clamped to 60 s.
    pub retry_after: Option<Duration>,
}

/// How an attempt failed, as briefly as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureCause {
    /// How it failed.
    pub kind: FailureKind,
    /// The status the upstream gave, if it gave one.
    pub status: Option<u16>,
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A good status says nothing about an answer that was broken off.
        match self.status.filter(|status| *status >= 400) {
            Some(status) => write!(f, "{status}"),
            None => f.write_str(self.kind.as_str()),
        }
    }
}
