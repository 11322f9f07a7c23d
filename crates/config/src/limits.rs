//! Limits of sizes, counts and times: `[limits]`, `[timeouts]` and `[stream]`. Other modules enforce them.

use std::time::{Duration, Instant};

use pointsman_dialect::RequestLimits;
use pointsman_domain::PhaseClocks;

use super::{
    quantity::{DAY, HOUR, MILLISECOND},
    section::Section,
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GIB: usize = 1024 * MIB;

/// Copies of a request body in memory: the bytes received, the bytes to send, and the parsed content.
pub const COPIES_OF_A_BODY: usize = 3;

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Maximum size of a request body.
    pub max_body_bytes: usize,
    /// Maximum size of a request's header names and values together. Above it 431.
    pub max_header_bytes: usize,
    /// Limits of the content of a request body.
    pub request: RequestLimits,
    /// Inference requests in progress, all keys together; `None` means no limit.
    pub concurrency: Option<u32>,
    /// Inference requests per minute, all keys together; `None` means no limit.
    pub requests_per_minute: Option<u32>,
    /// Requests per minute of a key without its own limit; `None` means no limit.
    pub key_requests_per_minute: Option<u32>,
    /// Requests in progress of a key without its own limit; `None` means no limit.
    pub key_concurrency: Option<u32>,
    /// Tokens per minute, all keys together; `None` means no limit.
    pub tokens_per_minute: Option<u32>,
    /// Tokens per minute of a key without its own limit; `None` means no limit.
    pub key_tokens_per_minute: Option<u32>,
    /// Requests per minute of an account without its own limit; `None` means no limit.
    pub account_requests_per_minute: Option<u32>,
    /// Tokens per minute of an account without its own limit; `None` means no limit.
    pub account_tokens_per_minute: Option<u32>,
    /// Requests in progress of an account without its own limit; `None` means no limit.
    pub account_concurrency: Option<u32>,
    /// Requests per minute of an account to the free pool; `None` means no limit.
    pub free_requests_per_minute: Option<u32>,
    /// Output tokens that a request without `max_tokens` reserves money for; `None` means the model's longest answer.
    pub assumed_output_tokens: Option<u32>,
    /// Previews, explanations, replays and lists of generations of one key in progress. One of them runs, the others wait.
    pub key_analyses: u32,
    /// Maximum of buffered bytes: request bodies, each counted three times, and answers that wait for their clients. One
    /// key may use as much as is free, and always one body of the maximum size.
    pub buffered_bytes: usize,
    /// Maximum size of a provider's answer that is not streamed.
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
            tokens_per_minute: None,
            key_tokens_per_minute: None,
            account_requests_per_minute: None,
            account_tokens_per_minute: None,
            account_concurrency: None,
            free_requests_per_minute: None,
            assumed_output_tokens: None,
            key_analyses: 64,
            buffered_bytes: 128 * MIB,
            upstream_body_bytes: 32 * MIB,
        }
    }
}

impl LimitsConfig {
    pub(super) fn read(section: &Section<'_>) -> LimitsConfig {
        let default = LimitsConfig::default();
        let bytes = |key, most, default| section.bytes(key, KIB..=most).unwrap_or(default);
        let most = |key| ceiling(section, key).flatten();
        let limits = LimitsConfig {
            max_body_bytes: bytes("max_body", GIB, default.max_body_bytes),
            // The HTTP parser itself refuses headers from 128 KiB on.
            max_header_bytes: bytes("max_header", 128 * KIB, default.max_header_bytes),
            request: request_limits(section, default.request),
            concurrency: ceiling(section, "concurrency").unwrap_or(default.concurrency),
            requests_per_minute: ceiling(section, "requests_per_minute").unwrap_or(default.requests_per_minute),
            key_requests_per_minute: ceiling(section, "key_requests_per_minute")
                .unwrap_or(default.key_requests_per_minute),
            key_concurrency: ceiling(section, "key_concurrency").unwrap_or(default.key_concurrency),
            tokens_per_minute: most("tokens_per_minute"),
            key_tokens_per_minute: most("key_tokens_per_minute"),
            account_requests_per_minute: most("account_requests_per_minute"),
            account_tokens_per_minute: most("account_tokens_per_minute"),
            account_concurrency: most("account_concurrency"),
            free_requests_per_minute: most("free_requests_per_minute"),
            assumed_output_tokens: most("assumed_output_tokens"),
            key_analyses: section.integer("key_analyses", 1..=10_000).unwrap_or(default.key_analyses),
            buffered_bytes: bytes("buffered", 1024 * GIB, default.buffered_bytes),
            upstream_body_bytes: bytes("upstream_body", GIB, default.upstream_body_bytes),
        };
        let least = limits.max_body_bytes.saturating_mul(COPIES_OF_A_BODY);
        if limits.buffered_bytes < least {
            let key = if section.has("buffered") { "buffered" } else { "max_body" };
            let wrong = "is too small for a single body of limits.max_body";
            let allowed = format!("limits.buffered of at least {COPIES_OF_A_BODY} times limits.max_body: {least}");
            section.fault(key, wrong, allowed);
        }
        limits
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

/// A rate or count; 0 means no limit.
pub(super) fn ceiling(section: &Section<'_>, key: &'static str) -> Option<Option<u32>> {
    section.integer(key, 0..=1_000_000_000_u32).map(|most| (most > 0).then_some(most))
}

/// `[timeouts]`: one limit per phase. The timeout between the events of a stream is [`StreamConfig::idle_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutsConfig {
    /// TCP connection and TLS handshake with a provider.
    pub connect: Duration,
    /// Time that an idle connection to a provider is kept; zero means that connections are not reused.
    pub provider_idle: Duration,
    /// From sending a streamed request to the first byte of the answer.
    pub first_byte: Duration,
    /// From sending a streamed request to its first content event.
    pub first_content: Duration,
    /// A whole request, all attempts together.
    pub total: Duration,
    /// A client's whole request head.
    pub client_header: Duration,
    /// A client's request body.
    pub client_body: BodyPace,
    /// Time after which a client that reads nothing of its answer is disconnected.
    pub client_write_stall: Duration,
    /// Time that requests in progress have to end after SIGTERM.
    pub drain_grace: Duration,
}

impl Default for TimeoutsConfig {
    fn default() -> TimeoutsConfig {
        TimeoutsConfig {
            connect: Duration::from_secs(2),
            provider_idle: Duration::from_secs(55),
            first_byte: Duration::from_secs(15),
            first_content: Duration::from_secs(60),
            total: Duration::from_secs(600),
            client_header: Duration::from_secs(10),
            client_body: BodyPace {
                whole: Duration::from_secs(30),
                bytes_per_second: 1024,
                grace: Duration::from_secs(5),
            },
            client_write_stall: Duration::from_secs(30),
            drain_grace: Duration::from_secs(30),
        }
    }
}

impl TimeoutsConfig {
    pub(super) fn read(section: &Section<'_>) -> TimeoutsConfig {
        let default = TimeoutsConfig::default();
        let timeout = |key, default| section.duration(key, MILLISECOND..=DAY).unwrap_or(default);
        TimeoutsConfig {
            connect: timeout("connect", default.connect),
            provider_idle: section.duration("provider_idle", Duration::ZERO..=HOUR).unwrap_or(default.provider_idle),
            first_byte: timeout("first_byte", default.first_byte),
            first_content: timeout("first_content", default.first_content),
            total: timeout("total", default.total),
            client_header: timeout("client_header", default.client_header),
            client_body: BodyPace {
                whole: timeout("client_body", default.client_body.whole),
                bytes_per_second: section
                    .bytes("client_body_min_rate", 0..=1_000_000_000)
                    .and_then(|rate| u32::try_from(rate).ok())
                    .unwrap_or(default.client_body.bytes_per_second),
                grace: timeout("client_body_grace", default.client_body.grace),
            },
            client_write_stall: timeout("client_write_stall", default.client_write_stall),
            drain_grace: section.duration("drain_grace", Duration::ZERO..=DAY).unwrap_or(default.drain_grace),
        }
    }

    /// The timeouts of one attempt, for routing and dispatch.
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

/// Minimum transfer rate of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyPace {
    /// Timeout for the whole body.
    pub whole: Duration,
    /// Minimum average rate after the grace period; 0 means no minimum.
    pub bytes_per_second: u32,
    /// Grace period, in which the body may be slower.
    pub grace: Duration,
}

impl BodyPace {
    /// Deadline for the next byte of a body that began at `begun` and of which `received` bytes have arrived.
    #[must_use]
    pub fn next_by(&self, begun: Instant, received: usize) -> Instant {
        let whole = begun + self.whole;
        if self.bytes_per_second == 0 {
            return whole;
        }
        let earned = Duration::from_secs_f64(received as f64 / f64::from(self.bytes_per_second));
        (begun + self.grace + earned).min(whole)
    }
}

/// `[stream]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamConfig {
    /// Time without content after which a comment is sent to the client.
    pub keepalive: Duration,
    /// Timeout between two events of the provider. Comments do not count as events.
    pub idle_timeout: Duration,
    /// Whether the error chunk has the member that makes every client library report it.
    pub error_compat: bool,
    /// Maximum size of a single event of a provider.
    pub max_event_bytes: usize,
    /// Bytes buffered for a slow client before reading from the provider pauses.
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
        let timeout = |key, default| section.duration(key, MILLISECOND..=DAY).unwrap_or(default);
        let bytes = |key, most, default| section.bytes(key, KIB..=most).unwrap_or(default);
        StreamConfig {
            keepalive: timeout("keepalive", default.keepalive),
            idle_timeout: timeout("idle_timeout", default.idle_timeout),
            error_compat: section.flag("error_compat").unwrap_or(default.error_compat),
            max_event_bytes: bytes("max_event", GIB, default.max_event_bytes),
            buffer_bytes: bytes("buffer", 64 * MIB, default.buffer_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, environment::Environment};

    #[test]
    fn the_buffer_limit_must_admit_one_body_of_the_maximum_size() {
        let faults = |limits: &str| {
            let text = format!("[simulation]\nmode = \"off\"\n[limits]\n{limits}\n");
            let read = Config::parse(&text, "f", Path::new("."), &Environment::default());
            read.err().map(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        };
        assert_eq!(faults("max_body = 1024\nbuffered = 3072"), None);
        let little = faults("max_body = 1024\nbuffered = 3071").unwrap();
        assert!(little.starts_with("f:5:12: limits.buffered: is too small"), "{little}");
        let large = faults("max_body = 50000000").unwrap();
        assert!(large.starts_with("f:4:12: limits.max_body: ") && large.contains("150000000"), "{large}");
    }

    #[test]
    fn the_next_byte_is_due_by_the_minimum_rate_and_never_after_the_timeout() {
        let pace = BodyPace { whole: Duration::from_secs(30), bytes_per_second: 1_000, grace: Duration::from_secs(5) };
        let begun = Instant::now();
        let due = |pace: BodyPace, received| (pace.next_by(begun, received) - begun).as_millis();
        assert_eq!(due(pace, 0), 5_000);
        assert_eq!(due(pace, 1_500), 6_500);
        assert_eq!(due(pace, 1_000_000), 30_000);
        assert_eq!(due(BodyPace { bytes_per_second: 0, ..pace }, 0), 30_000);
    }
}
