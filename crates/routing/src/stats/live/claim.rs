//! An attempt at an endpoint, from its claim to its end.

use pointsman_domain::{EndpointEvent, EndpointId, EventKind, GateEvent, Prediction, Tick};

use super::{breaker::PassedAs, change::BreakerChange};

/// An attempt that counts as in flight until [`LiveBoard::finish`](super::board::LiveBoard::finish) consumes it, on the board that issued it or on one
/// carried over from it.
#[derive(Debug, PartialEq)]
#[must_use = "an attempt that is not finished counts as in flight for ever"]
pub struct Claim {
    /// Position of the endpoint in the catalog of the issuing board.
    pub index: u32,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// When the claim was issued.
    pub dispatched: Tick,
    /// Requests in flight at the endpoint, this one included.
    pub in_flight: u32,
    /// Expected seconds until the first sign of life.
    pub expected: f64,
    /// Prompt tokens expected to be read from the cache. They do not train the prompt model.
    pub cached_tokens: u32,
    /// Expected prompt tokens, as the model counts them.
    pub prompt_tokens: u32,
    /// Prediction for the attempt; its events carry it.
    pub predicted: Prediction,
    /// Whether it is the probe of a half-open breaker, of the endpoint or its provider.
    pub probe: bool,
    /// Number of the account or key that asked; `None` if unknown. A refusal in unknown words counts only when two different
    /// callers got it.
    pub caller: Option<u64>,
    pub(super) serial: u64,
    pub(super) knee: f64,
    pub(super) passed_as: PassedAs,
    pub(super) passed_provider_as: PassedAs,
}

impl Claim {
    /// An event of this attempt.
    pub const fn event(&self, at: Tick, kind: EventKind) -> EndpointEvent {
        let Claim { endpoint, dispatched, in_flight, predicted, expected, .. } = *self;
        EndpointEvent { endpoint, at, dispatched, in_flight, predicted, expected, gate: GateEvent::Unmoved, kind }
    }
}

/// Result of finishing a claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FinishedClaim {
    /// The event for the statistics.
    pub event: EndpointEvent,
    /// Gates that changed, to be published at once.
    pub change: Option<BreakerChange>,
}
