use std::time::Duration;

use super::{failure::Failure, id::EndpointId, prediction::Prediction, tick::Tick};

/// One thing that happened to one endpoint. Timestamps are taken at the socket.
///
/// Pushed into the worker's batch, applied to the statistics by `ProviderHealth`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointEvent {
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

impl EndpointEvent {
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
        /// Estimated prompt tokens of the request, less those expected in a cache.
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
