use serde::{Deserialize, Serialize};

crate::named! {
    /// State of a circuit breaker, or cooldown.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Circuit {
        /// All requests are admitted.
        Closed = "closed",
        /// No requests are admitted.
        Open = "open",
        /// One request is admitted as a probe.
        HalfOpen = "half_open",
        /// No requests are admitted for some time after a 429.
        Cooldown = "cooldown",
    }
}
