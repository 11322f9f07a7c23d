//! A reading of the load counters of `access::load`: buffered bytes, connections, refused calls.

pointsman_domain::named! {
    /// Limit of the whole gateway for which a call was refused.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ShedReason {
        /// Limit of calls in flight.
        InFlight = "in_flight",
        /// Limit of requests per minute, all keys together.
        RequestRate = "request_rate",
        /// Limit of buffered bytes of requests and answers, of the gateway or of one key.
        BufferedBytes = "buffered_bytes",
    }
}

/// Values of the load counters at one time.
#[derive(Debug, Clone, Copy)]
pub struct LoadReading {
    /// Buffered bytes of requests and answers.
    pub buffered_bytes: usize,
    /// Open client connections.
    pub connections: usize,
    /// Calls refused since the start, by reason.
    pub shed: [(ShedReason, u64); ShedReason::ALL.len()],
    /// Whether a call was refused in the last few seconds.
    pub shedding: bool,
}
