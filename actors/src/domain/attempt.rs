use std::time::Duration;

use super::{decision::Prediction, id::EndpointId, tick::Tick};

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

/// One thing that happened to one endpoint. Timestamps are taken at the socket.
///
/// Pushed into the worker's batch, applied to the statistics by `ProviderHealth`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Which endpoint.
    pub endpoint: EndpointId,
    /// When it happened.
    pub at: Tick,
    /// When the attempt was dispatched (counted at decision time).
    pub dispatched: Tick,
    /// Requests in flight at the endpoint when this one was dispatched, itself included.
    pub in_flight: u32,
    /// What was expected of the attempt when it was chosen; [`Prediction::NONE`] when nothing was.
    pub predicted: Prediction,
    /// Seconds after which a sign of life was expected: the first token of a stream, the whole of a plain answer.
    pub expected: f64,
    /// Whether a gate moved by it.
    pub gate: GateEvent,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// Whether routers are to know it at once: a gate moved.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.gate != GateEvent::Unmoved
    }
}

/// What the end of an attempt did to the gates it passed. Breakers say so; nobody infers it from the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateEvent {
    /// Nothing.
    #[default]
    Unmoved,
    /// One of them moved, the endpoint's or its provider's.
    Moved,
    /// It was a success that closed the endpoint's breaker.
    Recovered,
}

/// What happened to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EventKind {
    /// An attempt began.
    Dispatched,
    /// The first content of a stream arrived. Not sent for plain answers, which show only their total.
    FirstToken {
        /// Expected prompt tokens of the request, less those expected in a cache.
        prompt_tokens: u32,
    },
    /// The answer was whole.
    Completed {
        /// Whether it was a stream; a plain answer shows only its total.
        streamed: bool,
        /// First content since dispatch; for plain answers the response head.
        first_token: Duration,
        /// Last byte since dispatch.
        total: Duration,
        /// Input tokens, less those read from a cache.
        prompt_tokens: u32,
        /// Output tokens, as the provider counted them.
        completion_tokens: u32,
        /// The request's own limit on output tokens.
        max_tokens: Option<u32>,
        /// Input tokens, those read from a cache included, per estimated one; `None` where the provider counted none.
        prompt_ratio: Option<f64>,
        /// What it cost, in dollars; a bill that was rounded to a float, to be held against the prediction.
        cost: f64,
    },
    /// The attempt failed.
    Failed {
        /// How.
        failure: Failure,
        /// Whether the first content had arrived before.
        had_content: bool,
    },
    /// The client left, or the attempt lost a race: says nothing about the endpoint's health.
    Cancelled {
        /// Whether the first content had arrived before.
        had_content: bool,
    },
}
