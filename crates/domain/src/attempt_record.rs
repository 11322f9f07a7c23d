use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use super::money::Usd;

crate::named! {
    /// Why an attempt was started.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub enum AttemptReason {
        /// First choice of the decision.
        #[default]
        First = "first",
        /// An earlier attempt failed.
        Fallback = "fallback",
        /// An earlier attempt was late; this one races it.
        Hedge = "hedge",
        /// All other attempts failed; taken from the budget of last resorts.
        LastResort = "last_resort",
        /// All breakers were open and no other endpoint was left.
        Panic = "panic",
        /// Probe of a half-open breaker.
        Probe = "probe",
        /// The answer before was broken; this one is asked for in its place.
        Cascade = "cascade",
    }
}

/// One upstream attempt of a generation with its timings. Times count from the start of the attempt, except
/// `started_ms`, `queue_ms` and `stream_ms`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Kind of failure, [`AttemptRecord::CANCELLED`] or [`AttemptRecord::LOST_RACE`]; `None` for a completed attempt.
    pub error_type: Option<Cow<'static, str>>,
    /// Why the connection failed, without a host name, such as `refused`; of an answer that a cascade set aside, what is wrong with it
    /// ([`BrokenAnswer::cause`](super::BrokenAnswer::cause)). `None` for all others.
    pub cause: Option<Cow<'static, str>>,
    /// Time from acceptance of the request to the start, milliseconds.
    pub started_ms: u64,
    /// Wait for the provider's concurrency limit, before the start, milliseconds.
    pub queue_ms: u64,
    /// Name resolution and TCP, milliseconds; `None` on a reused connection.
    pub connect_ms: Option<u64>,
    /// TLS handshake, milliseconds; `None` on a reused connection and without TLS.
    pub tls_ms: Option<u64>,
    /// First byte of the response head, milliseconds.
    pub first_byte_ms: Option<u64>,
    /// First content, for a plain answer the complete response head, milliseconds.
    pub first_token_ms: Option<u64>,
    /// From the first content to the last byte, milliseconds: not counted from the start.
    pub stream_ms: Option<u64>,
    /// Duration, milliseconds.
    pub duration_ms: u64,
    /// Cost at the prices at dispatch; `None` where they are unknown. An estimate, often zero, for an attempt without an
    /// answer.
    pub cost: Option<Usd>,
    /// Whether the cost rests on tokens that the gateway estimated.
    pub estimated: bool,
    /// The cost that the provider reported.
    pub reported_cost: Option<Usd>,
    /// Whether it delivered the answer, complete or in part. Then its cost is the cost of the generation.
    pub served: bool,
}

impl AttemptRecord {
    /// The client disconnected during the attempt.
    pub const CANCELLED: &str = "cancelled";
    /// Another attempt was faster.
    pub const LOST_RACE: &str = "lost_race";

    /// Whether it gave a whole answer that the client did not get, because it was broken.
    pub const fn is_set_aside(&self) -> bool {
        self.error_type.is_none() && self.cause.is_some() && !self.served
    }

    /// Name of the outcome.
    pub fn outcome(&self) -> &str {
        self.error_type.as_deref().unwrap_or("completed")
    }
}
