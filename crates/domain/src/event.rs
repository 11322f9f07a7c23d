use std::time::Duration;

use super::{failure::Failure, id::EndpointId, prediction::Prediction, tick::Tick};

/// One event at one endpoint. Timestamps are taken at the socket.
///
/// Added to the batch of the worker; `ProviderHealth` applies it to the statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointEvent {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// When the event happened.
    pub at: Tick,
    /// When the attempt was dispatched (time of the decision).
    pub dispatched: Tick,
    /// Requests in flight at the endpoint when the attempt was dispatched, including itself.
    pub in_flight: u32,
    /// Prediction for the attempt at the time of the decision; [`Prediction::NONE`] without one.
    pub predicted: Prediction,
    /// Expected seconds to the first token of a stream, or to the complete plain answer.
    pub expected: f64,
    /// Whether a breaker changed state.
    pub gate: GateEvent,
    /// Kind of event.
    pub kind: EventKind,
}

impl EndpointEvent {
    /// Whether routers need a new snapshot at once: a breaker changed state.
    pub fn is_urgent(&self) -> bool {
        self.gate != GateEvent::Unmoved
    }
}

/// Effect of an attempt's end on the breakers of its endpoint and provider. Reported by the breakers, never inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateEvent {
    /// No state changed.
    #[default]
    Unmoved,
    /// The breaker of the endpoint or of its provider changed state.
    Moved,
    /// A success closed the breaker of the endpoint.
    Recovered,
}

/// Kind of event at an endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EventKind {
    /// An attempt began.
    Dispatched,
    /// The first content of a stream arrived. Not sent for plain answers, which have only a total time.
    FirstToken {
        /// Estimated prompt tokens of the request without those expected in the prompt cache.
        prompt_tokens: u32,
    },
    /// The answer was complete.
    Completed {
        /// Whether the answer was streamed; a plain answer has only a total time.
        streamed: bool,
        /// Time from dispatch to the first content; for plain answers to the response head.
        first_token: Duration,
        /// Time from dispatch to the last byte.
        total: Duration,
        /// Input tokens without those read from the prompt cache.
        prompt_tokens: u32,
        /// Output tokens as counted by the provider.
        completion_tokens: u32,
        /// The request's own limit on output tokens.
        max_tokens: Option<u32>,
        /// Input tokens, those read from a cache included, per estimated token; `None` if the provider counted none.
        prompt_ratio: Option<f64>,
        /// Output tokens that the answer did not show: reasoning that was generated before its first content.
        hidden_tokens: u32,
        /// Cost in dollars, rounded to a float, for comparison with the prediction; `None` where no price is known.
        cost: Option<f64>,
    },
    /// The attempt failed.
    Failed {
        /// The failure.
        failure: Failure,
        /// Whether the first content had arrived before.
        had_content: bool,
    },
    /// The client disconnected, or another attempt was faster. Says nothing about the health of the endpoint.
    Cancelled {
        /// Whether the first content had arrived before.
        had_content: bool,
    },
}
