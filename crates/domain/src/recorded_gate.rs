use serde::{Deserialize, Serialize};

use super::tick::Tick;

/// An endpoint of the pool that not every request passed to at the time of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedGate {
    /// Position of the endpoint in the catalog version of the decision.
    pub index: u32,
    /// What stood in the way: its own gate, or its provider's where that is stricter.
    pub state: GateState,
    /// When the gate opens; of a half-open breaker, since when it has been half-open.
    pub until: Tick,
}

/// State of a gate that does not let every request pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GateState {
    /// Cooldown after a 429.
    Cooling,
    /// The breaker is open.
    Open,
    /// The configured account or model name at the provider is wrong.
    ConfigFault,
    /// One request may probe it.
    HalfOpen,
    /// Its one probe is in flight.
    Probing,
}
