//! What the gateway carried at one moment, and why calls were turned away. The counting is done in `access::load`.

/// What a call was turned away for, when it was not the caller's own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// As many calls are in flight as the gateway takes.
    InFlight,
    /// All keys together sent as many requests per minute as it takes.
    RequestRate,
    /// It holds as many bytes of requests and answers as it may, or as it may for one key.
    BufferedBytes,
}

impl Shed {
    /// Each of them.
    pub const ALL: [Shed; 3] = [Shed::InFlight, Shed::RequestRate, Shed::BufferedBytes];

    /// Its name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Shed::InFlight => "in_flight",
            Shed::RequestRate => "request_rate",
            Shed::BufferedBytes => "buffered_bytes",
        }
    }
}

/// How things stood at one moment.
#[derive(Debug, Clone, Copy)]
pub struct LoadReading {
    /// Bytes that requests and answers count for.
    pub held_bytes: usize,
    /// Client connections.
    pub connections: usize,
    /// Calls turned away since the start.
    pub shed: [(Shed, u64); Shed::ALL.len()],
    /// Whether a call was turned away in the last few seconds.
    pub shedding: bool,
}
