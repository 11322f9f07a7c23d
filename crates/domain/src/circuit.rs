use serde::{Deserialize, Serialize};

/// State of a circuit breaker, or cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Circuit {
    /// All requests are admitted.
    Closed,
    /// No requests are admitted.
    Open,
    /// One request is admitted as a probe.
    HalfOpen,
    /// No requests are admitted for some time after a 429.
    Cooldown,
}

impl Circuit {
    /// All states, in the order in which messages list them.
    pub const ALL: [Circuit; 4] = [Circuit::Closed, Circuit::Open, Circuit::HalfOpen, Circuit::Cooldown];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Circuit::Closed => "closed",
            Circuit::Open => "open",
            Circuit::HalfOpen => "half_open",
            Circuit::Cooldown => "cooldown",
        }
    }
}
