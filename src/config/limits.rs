//! Bounds on bytes, counts and seconds: `[limits]`, `[timeouts]` and `[stream]`.
//!
//! Values only; each is enforced where the thing it bounds is held.

use std::time::Duration;

use pointsman_actors::{dialect::RequestLimits, domain::PhaseClocks};

use super::section::Section;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GIB: usize = 1024 * MIB;
/// The longest time that may be configured: a day.
const DAY: f64 = 86_400.0;
/// The shortest clock that may be configured; tests use short ones, zero would mean "never works".
const SHORTEST: f64 = 0.001;

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Most bytes of a request's header names and values; above it 431.
    pub max_header_bytes: usize,
    /// What a request body may hold.
    pub request: RequestLimits,
    /// Inference requests in progress at once, over all keys; `None` means no limit.
    pub concurrency: Option<u32>,
    /// Inference requests per minute over all keys; `None` means no limit.
    pub requests_per_minute: Option<u32>,
    /// Requests per minute of a key that names no limit of its own; `None` means no limit.
    pub key_requests_per_minute: Option<u32>,
    /// Requests in progress of a key that names no limit of its own; `None` means no limit.
    pub key_concurrency: Option<u32>,
    /// Largest plain answer of a provider.
    pub upstream_body_bytes: usize,
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            max_body_bytes: 32 * MIB,
            max_header_bytes: 32 * KIB,
            request: RequestLimits::default(),
            concurrency: Some(4_096),
            requests_per_minute: None,
            key_requests_per_minute: None,
            key_concurrency: None,
            upstream_body_bytes: 32 * MIB,
        }
    }
}

impl LimitsConfig {
    pub(super) fn read(section: &Section<'_>) -> LimitsConfig {
        let default = LimitsConfig::default();
        let bytes = |key, most, default| section.integer(key, KIB..=most).unwrap_or(default);
        LimitsConfig {
            max_body_bytes: bytes("max_body_bytes", GIB, default.max_body_bytes),
            // 128 KiB is where the HTTP parser itself gives up.
            max_header_bytes: bytes("max_header_bytes", 128 * KIB, default.max_header_bytes),
            request: request_limits(section, default.request),
            concurrency: ceiling(section, "concurrency").unwrap_or(default.concurrency),
            requests_per_minute: ceiling(section, "requests_per_minute").unwrap_or(default.requests_per_minute),
            key_requests_per_minute: ceiling(section, "key_requests_per_minute")
                .unwrap_or(default.key_requests_per_minute),
            key_concurrency: ceiling(section, "key_concurrency").unwrap_or(default.key_concurrency),
            upstream_body_bytes: bytes("upstream_body_bytes", GIB, default.upstream_body_bytes),
        }
    }
}

fn request_limits(section: &Section<'_>, default: RequestLimits) -> RequestLimits {
    RequestLimits {
        max_depth: section.integer("max_depth", 8..=512).unwrap_or(default.max_depth),
        max_messages: section.integer("max_messages", 1..=1_000_000).unwrap_or(default.max_messages),
        max_tools: section.integer("max_tools", 0..=65_536).unwrap_or(default.max_tools),
        max_n: section.integer("max_n", 1..=128).unwrap_or(default.max_n),
        tokens_per_image: section.integer("tokens_per_image", 0..=1_000_000).unwrap_or(default.tokens_per_image),
    }
}

/// A rate or a count of which 0 means "no limit".
pub(super) fn ceiling(section: &Section<'_>, key: &'static str) -> Option<Option<u32>> {
    section.integer(key, 0..=1_000_000_000_u32).map(|most| (most > 0).then_some(most))
}

/// `[timeouts]`: each a limit on one phase. Silence between the events of a stream is
/// [`StreamConfig::idle_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutsConfig {
    /// TCP connection and TLS handshake with a provider.
    pub connect: Duration,
    /// From sending a streamed request to the first byte of its answer.
    pub first_byte: Duration,
    /// From sending a streamed request to its first content event.
    pub first_content: Duration,
    /// A whole request, all attempts together.
    pub total: Duration,
    /// A client's whole request head.
    pub client_header: Duration,
    /// A client's whole request body.
    pub client_body: Duration,
    /// How long a client may read nothing of its answer.
    pub client_write_stall: Duration,
    /// How long running requests may go on after SIGTERM.
    pub drain_grace: Duration,
}

impl Default for TimeoutsConfig {
    fn default() -> TimeoutsConfig {
        TimeoutsConfig {
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(15),
            first_content: Duration::from_secs(60),
            total: Duration::from_secs(600),
            client_header: Duration::from_secs(10),
            client_body: Duration::from_secs(30),
            client_write_stall: Duration::from_secs(30),
            drain_grace: Duration::from_secs(30),
        }
    }
}

impl TimeoutsConfig {
    pub(super) fn read(section: &Section<'_>) -> TimeoutsConfig {
        let default = TimeoutsConfig::default();
        let clock = |key, default| section.seconds(key, SHORTEST..=DAY).unwrap_or(default);
        TimeoutsConfig {
            connect: clock("connect_secs", default.connect),
            first_byte: clock("first_byte_secs", default.first_byte),
            first_content: clock("first_content_secs", default.first_content),
            total: clock("total_secs", default.total),
            client_header: clock("client_header_secs", default.client_header),
            client_body: clock("client_body_secs", default.client_body),
            client_write_stall: clock("client_write_stall_secs", default.client_write_stall),
            drain_grace: section.seconds("drain_grace_secs", 0.0..=DAY).unwrap_or(default.drain_grace),
        }
    }

    /// The clocks of one attempt, for the routing and the dispatch.
    pub(super) fn phases(&self, stream: &StreamConfig) -> PhaseClocks {
        PhaseClocks {
            connect: self.connect,
            first_byte: self.first_byte,
            first_content: self.first_content,
            idle: stream.idle_timeout,
            total: self.total,
        }
    }
}

/// `[stream]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamConfig {
    /// Silence after which a comment is sent to the client.
    pub keepalive: Duration,
    /// Silence of the provider between two events after which the stream has failed. Comments do not count.
    pub idle_timeout: Duration,
    /// Whether the error chunk carries the member that makes every client report it.
    pub error_compat: bool,
    /// Largest single event of a provider.
    pub max_event_bytes: usize,
    /// Bytes held for a slow client before the provider is no longer read.
    pub buffer_bytes: usize,
}

impl Default for StreamConfig {
    fn default() -> StreamConfig {
        StreamConfig {
            keepalive: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(30),
            error_compat: true,
            max_event_bytes: 8 * MIB,
            buffer_bytes: 64 * KIB,
        }
    }
}

impl StreamConfig {
    pub(super) fn read(section: &Section<'_>) -> StreamConfig {
        let default = StreamConfig::default();
        let clock = |key, default| section.seconds(key, SHORTEST..=DAY).unwrap_or(default);
        let bytes = |key, most, default| section.integer(key, KIB..=most).unwrap_or(default);
        StreamConfig {
            keepalive: clock("keepalive_secs", default.keepalive),
            idle_timeout: clock("idle_timeout_secs", default.idle_timeout),
            error_compat: section.flag("error_compat").unwrap_or(default.error_compat),
            max_event_bytes: bytes("max_event_bytes", GIB, default.max_event_bytes),
            buffer_bytes: bytes("buffer_bytes", 64 * MIB, default.buffer_bytes),
        }
    }
}
