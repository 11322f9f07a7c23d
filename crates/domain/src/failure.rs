use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

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

crate::named! {
    /// How an attempt failed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum FailureKind {
        /// No connection: refused, unresolvable or unreachable.
        Connect = "connect",
        /// The TLS handshake failed.
        Tls = "tls",
        /// The connection broke before the answer was complete.
        Reset = "reset",
        /// A time-out of the attempt expired: connect, first byte, first content, idle or total.
        Timeout = "timeout",
        /// The gateway lacks a resource for a connection: file descriptors, ports or memory.
        Shortage = "shortage",
        /// The time budget of the request ended while the upstream still delivered. The limit is the gateway's own, so the
        /// provider is not to blame.
        Deadline = "deadline",
        /// The answer exceeds a limit of this gateway, or links to where it may not look. The detail of such a failure is a sentence
        /// for the client that names the key of the configuration.
        GatewayLimit = "gateway_limit",
        /// 429: the endpoint is limited for a known time, which is not a fault.
        RateLimited = "rate_limited",
        /// 503 or 529.
        Overloaded = "overloaded",
        /// Any other 5xx, and 408, 409, 425.
        Server = "server",
        /// The gateway's key or account at the provider.
        Auth = "auth",
        /// 403: the model is not open to the gateway's account, or nothing more is known.
        Forbidden = "forbidden",
        /// Another status than 400 because of the content of the request: another endpoint may accept it.
        ContentPolicy = "content_policy",
        /// The upstream name of the model, or a 404 of which nothing more is known.
        NotFound = "not_found",
        /// A 200 without a valid answer: broken JSON, an error body, no choices, a wrong encoding, an invalid frame.
        Malformed = "malformed",
        /// The answer ended before its announced end.
        Truncated = "truncated",
        /// A redirect, a 204 or any other unexpected status.
        UnexpectedStatus = "unexpected_status",
        /// 400 because of the prompt length: an endpoint with a larger context window may serve it.
        ContextLength = "context_length",
        /// 400 and any other 4xx caused by the client.
        BadRequest = "bad_request",
        /// 413.
        TooLarge = "too_large",
        /// 422.
        Unprocessable = "unprocessable",
        /// This endpoint refuses this request: a file, store, feature or price that others may have.
        RefusedHere = "refused_here",
        /// The request alone is larger than a limit of the gateway's account at the provider.
        OverLimit = "over_limit",
    }
}

impl FailureKind {
    /// Kind of an HTTP status of 400 to 599, as far as the status alone decides it. `None` for other numbers.
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
            Auth, BadRequest, ContentPolicy, ContextLength, Deadline, Forbidden, GatewayLimit, NotFound, OverLimit,
            RefusedHere, Shortage, TooLarge, Unprocessable,
        };
        match self {
            BadRequest | ContextLength | TooLarge | Unprocessable | ContentPolicy | RefusedHere | OverLimit => {
                Blame::Client
            }
            Auth | NotFound | Forbidden | Deadline | GatewayLimit | Shortage => Blame::Configuration,
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
}

/// A failed attempt, as the statistics see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// HTTP status of the upstream, if there was one.
    pub status: Option<u16>,
    /// `Retry-After` of the upstream, as it was told. No more of it is heeded than [`Failure::LONGEST_WAIT`].
    pub retry_after: Option<Duration>,
    /// What speaks for more than this one request.
    pub evidence: Evidence,
}

impl Failure {
    /// The longest wait that is heeded.
    pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

    /// A failure without status, wait or evidence.
    pub const fn of(kind: FailureKind) -> Failure {
        Failure { kind, status: None, retry_after: None, evidence: Evidence::None }
    }
}

/// Whether a refusal concerns more than the request that got it. Nothing that one client can put into a request may close
/// an endpoint or provider for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evidence {
    /// Nothing says so.
    #[default]
    None,
    /// Something that the request holds may have caused it, whatever it looks like.
    Request,
    /// A status and words that are not known, or a fault of a request that may have caused it. The same for another caller's
    /// request is evidence.
    Unknown {
        /// Hash of status, codes and words; 0 for a fault, whatever it looks like.
        said: u64,
    },
    /// A code or sentence that the provider is known to use about the gateway's account or the model.
    Known(Finding),
}

impl Evidence {
    /// Of a fault that the request may have caused, whatever the fault looks like.
    pub const OF_ONE_CALLER: Evidence = Evidence::Unknown { said: 0 };
}

/// A known code or sentence of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// The code or the beginning of the sentence, as the table of refusals has it; empty if the gateway found it out itself.
    pub words: &'static str,
    /// Its meaning, as a sentence without a full stop.
    pub meaning: &'static str,
}

/// Short form of a failure for exclusion texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
