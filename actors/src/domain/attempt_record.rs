use std::sync::Arc;

use super::money::Usd;

/// Why an attempt was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptReason {
    /// It is the choice.
    First,
    /// An earlier one failed.
    Fallback,
    /// An earlier one was late: it races that one.
    Hedge,
    /// All that need no budget failed, and somebody was left.
    LastResort,
    /// Every circuit was open, and something had to be tried.
    Panic,
    /// It is the one probe of a half-open breaker.
    Probe,
}

impl AttemptReason {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            AttemptReason::First => "first",
            AttemptReason::Fallback => "fallback",
            AttemptReason::Hedge => "hedge",
            AttemptReason::LastResort => "last_resort",
            AttemptReason::Panic => "panic",
            AttemptReason::Probe => "probe",
        }
    }
}

/// One upstream try of a generation, with where its time went. Times count from its start, but for the first two.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    /// Counted from 1.
    pub n: u32,
    /// Why it was started.
    pub reason: AttemptReason,
    /// The endpoint's position in the decision's catalog version.
    pub endpoint: u32,
    /// Model and provider, so that the record outlives a reload.
    pub model: Arc<str>,
    /// Display name of the provider.
    pub provider_name: Arc<str>,
    /// Slug of the provider.
    pub provider_slug: Arc<str>,
    /// The status the upstream gave.
    pub status: Option<u16>,
    /// How it failed, [`AttemptRecord::CANCELLED`] or [`AttemptRecord::LOST_RACE`]; `None` for the one that served
    /// to the end.
    pub error_type: Option<&'static str>,
    /// Why no connection came about, in a word without a host, such as `refused`; only where that is what failed.
    pub cause: Option<&'static str>,
    /// Start since the request was accepted, milliseconds.
    pub started_ms: u64,
    /// Wait for a free place at the provider, before the start, milliseconds.
    pub queue_ms: u64,
    /// Name resolution and TCP, milliseconds; `None` on a reused connection.
    pub connect_ms: Option<u64>,
    /// TLS handshake, milliseconds; `None` on a reused connection and without TLS.
    pub tls_ms: Option<u64>,
    /// First byte of the response head, milliseconds.
    pub first_byte_ms: Option<u64>,
    /// First content, for a plain answer its whole head, milliseconds.
    pub first_token_ms: Option<u64>,
    /// From the first content to the last byte, milliseconds: not counted from the start.
    pub stream_ms: Option<u64>,
    /// How long it took, milliseconds.
    pub duration_ms: u64,
    /// What it cost at the prices of dispatch. Of one that gave no answer it is an estimate, and often nothing.
    pub cost: Usd,
    /// Whether what came of it is the answer, whole or in part: then its cost is the generation's.
    pub served: bool,
}

impl AttemptRecord {
    /// The client left while it ran.
    pub const CANCELLED: &str = "cancelled";
    /// Another attempt was quicker.
    pub const LOST_RACE: &str = "lost_race";

    /// How it ended, in a word.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        self.error_type.unwrap_or("completed")
    }
}
