//! Limits of sizes, counts and times: `[limits]`, `[timeouts]` and `[stream]`. Other modules enforce them.

use std::time::{Duration, Instant};

use pointsman_dialect::RequestLimits;
use pointsman_domain::PhaseClocks;

use super::{
    quantity::{DAY, GIB, HOUR, KIB, MIB, MILLISECOND, SECOND},
    section::{MOST, Section},
};

/// Copies of a request body in memory: the bytes received, the bytes to send, and the parsed content.
pub const COPIES_OF_A_BODY: usize = 3;

settings! {
    /// Limits of requests and buffered bytes. A request over a limit is refused before more of it is buffered.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LimitsConfig read(section) {
        /// Maximum size of a request body; requests with images are large.
        pub max_body_bytes "max_body": usize = bytes_or(KIB..=GIB, 32 * MIB),
        /// Maximum size of the header names and values of a request together; above it 431. From 128 KiB on the
        /// connection is closed without an answer.
        // The HTTP parser itself refuses headers from 128 KiB on.
        pub max_header_bytes "max_header": usize = bytes_or(KIB..=128 * KIB, 32 * KIB),
        /// Limits of the content of a request body.
        pub request: RequestLimits => request_limits(section, RequestLimits::default()),
        /// Calls in progress, all keys together; 0: no limit. Above it 503, which keeps the accepted calls fast.
        pub concurrency: Option<u32> = ceiling_or(4_096) [unit = "requests"],
        /// Calls per minute, all keys together; 0: no limit.
        pub requests_per_minute: Option<u32> = ceiling_or(0) [unit = "requests"],
        /// Calls per minute of a key without its own limit; 0: no limit.
        pub key_requests_per_minute: Option<u32> = ceiling_or(0) [unit = "requests"],
        /// Calls in progress of a key without its own limit; 0: no limit.
        pub key_concurrency: Option<u32> = ceiling_or(0) [unit = "requests"],
        /// Tokens per minute, all keys together, prompt and answer; 0: no limit.
        pub tokens_per_minute: Option<u32> = ceiling_or(0) [unit = "tokens"],
        /// Tokens per minute of a key without its own limit; 0: no limit.
        pub key_tokens_per_minute: Option<u32> = ceiling_or(0) [unit = "tokens"],
        /// Calls per minute of an account without its own limit; 0: no limit.
        pub account_requests_per_minute: Option<u32> = ceiling_or(0) [unit = "requests"],
        /// Tokens per minute of an account without its own limit; 0: no limit.
        pub account_tokens_per_minute: Option<u32> = ceiling_or(0) [unit = "tokens"],
        /// Calls in progress of an account without its own limit; 0: no limit.
        pub account_concurrency: Option<u32> = ceiling_or(0) [unit = "requests"],
        /// Calls per minute of an account to the free pool (aliases with free models only); 0: no limit.
        pub free_requests_per_minute: Option<u32> = ceiling_or(0) [unit = "requests"],
        /// Output tokens that a request without `max_tokens` reserves money and tokens for; 0: the longest answer of
        /// the model.
        pub assumed_output_tokens: Option<u32> = ceiling_or(0) [unit = "tokens"],
        /// Previews, explanations, replays and lists of generations of one key in progress: one runs on a separate
        /// thread, the others wait. Above it 429.
        pub key_analyses: u32 = integer_or(1..=10_000, 64) [unit = "requests"],
        /// Buffered bytes of requests and answers together. A request body counts three times: as received, as sent on,
        /// and as parsed. An answer that is not streamed counts twice while it is prepared, then once until the client
        /// has read it; of a stream the bytes that wait for the client count. Above it 503; streams are only slowed
        /// down. One key may use as much as is free, which is about half of the total, and always one body of the
        /// maximum size.
        pub buffered_bytes "buffered": usize = bytes_or(KIB..=1024 * GIB, 128 * MIB),
        /// Maximum size of a provider's answer that is not streamed; large because of images. An answer that does not
        /// fit twice into `limits.buffered` gets 503.
        pub upstream_body_bytes "upstream_body": usize = bytes_or(KIB..=GIB, 32 * MIB),
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        Section::absent(LimitsConfig::read)
    }
}

impl LimitsConfig {
    pub(super) fn checked(self, section: &Section<'_>) -> LimitsConfig {
        let least = self.max_body_bytes.saturating_mul(COPIES_OF_A_BODY);
        if self.buffered_bytes < least {
            let key = if section.has("buffered") { "buffered" } else { "max_body" };
            let wrong = "is too small for a single body of limits.max_body";
            let allowed = format!("limits.buffered of at least {COPIES_OF_A_BODY} times limits.max_body: {least}");
            section.fault(key, wrong, allowed);
        }
        self
    }
}

fn request_limits(section: &Section<'_>, default: RequestLimits) -> RequestLimits {
    keys! { section => RequestLimits {}:
        /// Maximum nesting depth of a request body.
        max_depth = integer_or(8..=512, default.max_depth),
        /// Maximum number of messages in a request.
        max_messages = integer_or(1..=1_000_000, default.max_messages),
        /// Maximum number of tools in a request.
        max_tools = integer_or(0..=65_536, default.max_tools),
        /// Maximum of `n`, the number of choices.
        max_n = integer_or(1..=128, default.max_n),
        /// Tokens that one input image adds to the estimate of the prompt.
        tokens_per_image = integer_or(0..=1_000_000, default.tokens_per_image) [unit = "tokens"],
    }
}

settings! {
    /// Time limits of each phase. The timeout between events of a stream is `stream.idle_timeout`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TimeoutsConfig read(section) {
        /// TCP connection and TLS handshake with a provider.
        pub connect: Duration = duration_or(MILLISECOND..=DAY, 2 * SECOND),
        /// Time that an idle connection to a provider is kept; 0s: connections are not reused. Less than the minute
        /// after which most servers close idle connections.
        pub provider_idle: Duration = duration_or(Duration::ZERO..=HOUR, 55 * SECOND),
        /// Until the first byte of a stream. An answer that is not streamed is limited by `total` only, because its
        /// head comes last; while another endpoint could take over, an attempt gets half of the remaining time.
        pub first_byte: Duration = duration_or(MILLISECOND..=DAY, 15 * SECOND),
        /// Until the first content of a stream. Comments do not count, because a provider may send them while it hangs.
        /// Events of the Messages and Responses API count while a block or item of the answer is open; reasoning and
        /// tools of a provider that send nothing until they are done have at least 5 minutes.
        pub first_content: Duration = duration_or(MILLISECOND..=DAY, 60 * SECOND),
        /// A whole request, all attempts together.
        pub total: Duration = duration_or(MILLISECOND..=DAY, 600 * SECOND),
        /// The whole request head of a client. Needs a restart.
        pub client_header: Duration = duration_or(MILLISECOND..=DAY, 10 * SECOND),
        /// A client's request body.
        pub client_body: BodyPace => BodyPace::read(section),
        /// A client that reads nothing of its answer for this time is disconnected.
        pub client_write_stall: Duration = duration_or(MILLISECOND..=DAY, 30 * SECOND),
        /// Time that requests in progress have to end after SIGTERM. Needs a restart.
        pub drain_grace: Duration = duration_or(Duration::ZERO..=DAY, 30 * SECOND),
    }
}

impl TimeoutsConfig {
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
    fn read(section: &Section<'_>) -> BodyPace {
        keys! { section:
            /// The whole request body of a client.
            whole "client_body" = duration_or(MILLISECOND..=DAY, 30 * SECOND),
            /// Minimum average rate of a request body after the grace period; 0: no minimum. Protects against clients
            /// that hold connections open with slow bodies.
            rate "client_body_min_rate" = bytes_or(0..=MOST as usize, 1024) [unit = "per second"],
            /// Grace period, in which a body may be slower.
            grace "client_body_grace" = duration_or(MILLISECOND..=DAY, 5 * SECOND),
        }
        BodyPace { whole, bytes_per_second: u32::try_from(rate).unwrap_or(MOST), grace }
    }

    /// Deadline for the next byte of a body that began at `begun` and of which `received` bytes have arrived.
    pub fn next_by(&self, begun: Instant, received: usize) -> Instant {
        let whole = begun + self.whole;
        if self.bytes_per_second == 0 {
            return whole;
        }
        let earned = Duration::from_secs_f64(received as f64 / f64::from(self.bytes_per_second));
        (begun + self.grace + earned).min(whole)
    }
}

settings! {
    /// Streamed answers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct StreamConfig read(section) {
        /// Time without content after which the client gets a comment, so that proxies keep the connection open. Also
        /// the time that the status line waits for the first content, so that an early failure gets its own status.
        pub keepalive: Duration = duration_or(MILLISECOND..=DAY, 15 * SECOND),
        /// Timeout between two events of a provider. Comments do not count as events, and the rules of
        /// `timeouts.first_content` hold here, too.
        pub idle_timeout: Duration = duration_or(MILLISECOND..=DAY, 30 * SECOND),
        /// Whether the error chunk of a failed stream has a member that makes client libraries of chat and Messages
        /// report it; without it some treat the truncated answer as complete. Clients of Responses get the event
        /// `response.failed`, which some hand over like any other.
        pub error_compat: bool = flag_or(true),
        /// Maximum size of a single event of a provider.
        pub max_event_bytes "max_event": usize = bytes_or(KIB..=GIB, 8 * MIB),
        /// Bytes buffered for a slow client before reading from the provider pauses; a single longer event may be
        /// buffered alone. Buffered bytes count in `limits.buffered`.
        pub buffer_bytes "buffer": usize = bytes_or(KIB..=64 * MIB, 64 * KIB),
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
