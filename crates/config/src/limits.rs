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

/// Largest rate or count.
const MOST: u32 = 1_000_000_000;

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
        Section::absent(LimitsConfig::read)
    }
}

impl LimitsConfig {
    pub(super) fn read(section: &Section<'_>) -> LimitsConfig {
        let bytes = |key, most, default| section.bytes_or(key, KIB..=most, default);
        let most = |key| ceiling_or(section, key, 0);
        let limits = LimitsConfig {
            max_body_bytes: bytes("max_body", GIB, 32 * MIB),
            // The HTTP parser itself refuses headers from 128 KiB on.
            max_header_bytes: bytes("max_header", 128 * KIB, 32 * KIB),
            request: request_limits(section, RequestLimits::default()),
            concurrency: ceiling_or(section, "concurrency", 4_096),
            requests_per_minute: most("requests_per_minute"),
            key_requests_per_minute: most("key_requests_per_minute"),
            key_concurrency: most("key_concurrency"),
            tokens_per_minute: most("tokens_per_minute"),
            key_tokens_per_minute: most("key_tokens_per_minute"),
            account_requests_per_minute: most("account_requests_per_minute"),
            account_tokens_per_minute: most("account_tokens_per_minute"),
            account_concurrency: most("account_concurrency"),
            free_requests_per_minute: most("free_requests_per_minute"),
            assumed_output_tokens: most("assumed_output_tokens"),
            key_analyses: section.integer_or("key_analyses", 1..=10_000, 64),
            buffered_bytes: bytes("buffered", 1024 * GIB, 128 * MIB),
            upstream_body_bytes: bytes("upstream_body", GIB, 32 * MIB),
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
        max_depth: section.integer_or("max_depth", 8..=512, default.max_depth),
        max_messages: section.integer_or("max_messages", 1..=1_000_000, default.max_messages),
        max_tools: section.integer_or("max_tools", 0..=65_536, default.max_tools),
        max_n: section.integer_or("max_n", 1..=128, default.max_n),
        tokens_per_image: section.integer_or("tokens_per_image", 0..=1_000_000, default.tokens_per_image),
    }
}

/// A rate or count; 0 means no limit.
pub(super) fn ceiling(section: &Section<'_>, key: &'static str) -> Option<Option<u32>> {
    section.integer(key, 0..=MOST).map(|most| (most > 0).then_some(most))
}

/// The same, or a default.
fn ceiling_or(section: &Section<'_>, key: &'static str, default: u32) -> Option<u32> {
    Some(section.integer_or(key, 0..=MOST, default)).filter(|most| *most > 0)
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

impl TimeoutsConfig {
    pub(super) fn read(section: &Section<'_>) -> TimeoutsConfig {
        let timeout = |key, default| section.duration_or(key, MILLISECOND..=DAY, default);
        TimeoutsConfig {
            connect: timeout("connect", Duration::from_secs(2)),
            provider_idle: section.duration_or("provider_idle", Duration::ZERO..=HOUR, Duration::from_secs(55)),
            first_byte: timeout("first_byte", Duration::from_secs(15)),
            first_content: timeout("first_content", Duration::from_secs(60)),
            total: timeout("total", Duration::from_secs(600)),
            client_header: timeout("client_header", Duration::from_secs(10)),
            client_body: BodyPace {
                whole: timeout("client_body", Duration::from_secs(30)),
                bytes_per_second: u32::try_from(section.bytes_or("client_body_min_rate", 0..=MOST as usize, 1024))
                    .unwrap_or(MOST),
                grace: timeout("client_body_grace", Duration::from_secs(5)),
            },
            client_write_stall: timeout("client_write_stall", Duration::from_secs(30)),
            drain_grace: section.duration_or("drain_grace", Duration::ZERO..=DAY, Duration::from_secs(30)),
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

impl StreamConfig {
    pub(super) fn read(section: &Section<'_>) -> StreamConfig {
        let timeout = |key, default| section.duration_or(key, MILLISECOND..=DAY, default);
        let bytes = |key, most, default| section.bytes_or(key, KIB..=most, default);
        StreamConfig {
            keepalive: timeout("keepalive", Duration::from_secs(15)),
            idle_timeout: timeout("idle_timeout", Duration::from_secs(30)),
            error_compat: section.flag_or("error_compat", true),
            max_event_bytes: bytes("max_event", GIB, 8 * MIB),
            buffer_bytes: bytes("buffer", 64 * MIB, 64 * KIB),
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
