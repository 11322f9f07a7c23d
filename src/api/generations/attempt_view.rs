//! JSON of a generation's attempts: reason, times, outcome and cost of each.

use pointsman_domain::{AttemptRecord, Generation};
use serde::Serialize;

use crate::api::number::Dollars;

view! {
    /// One call of an endpoint, in the order of their starts.
    pub(crate) struct AttemptBody<'a> as "Attempt" {
        pub(crate) fn new(attempt: &'a AttemptRecord) {}

        /// Number of the attempt, from 1.
        pub(crate) n: u32 = attempt.n,
        /// Why it was started. `first`: the choice. `fallback`: an earlier attempt failed. `hedge`: an earlier attempt was
        /// late, and this one races it. `last_resort`: all others failed. `panic`: every breaker was open, and nothing else
        /// was left. `probe`: it tests a half-open breaker. `cascade`: the answer
        /// before was broken.
        #[cfg_attr(test, schemars(extend("enum" = ["first", "fallback", "hedge", "last_resort", "panic", "probe", "cascade"])))]
        pub(crate) reason: &'static str = attempt.reason.as_str(),
        /// Id of the model, such as `meadow/small`.
        pub(crate) model: &'a str = &attempt.model,
        /// Display name of the provider.
        pub(crate) provider_name: &'a str = &attempt.provider_name,
        /// Slug of the provider: its name in the configuration, in requests and in filters.
        pub(crate) provider_slug: &'a str = &attempt.provider_slug,
        /// The HTTP status that the provider gave; `null` if it gave none.
        pub(crate) status: Option<u16> = attempt.status,
        /// How it failed; `null` if it completed. `cancelled`: the client left; `lost_race`: another attempt was faster.
        /// Otherwise the kind of the failure: `connect`: no connection; `tls`: the TLS handshake failed; `reset`: the
        /// connection broke before the answer was whole; `timeout`: a time-out of the attempt; `shortage`: the gateway
        /// lacks file descriptors, ports or memory; `gateway_limit`: the answer exceeds a limit of the gateway; `deadline`: the time budget of the request ended while the provider
        /// still delivered; `rate_limited`: 429; `overloaded`: 503 or 529; `server`: any other 5xx, and 408, 409, 425;
        /// `auth`: the key or account of the gateway, or a 401 or 402 of which no more is known; `forbidden`: a 403 about
        /// the model, or of which no more is known; `content_policy`: the content, with another status than 400;
        /// `not_found`: the name of the model, or a 404 of which no more is known; `refused_here`: this request at this
        /// provider, such as a file that it lacks; `over_limit`: the request alone exceeds a limit at the provider;
        /// `malformed`: a 200 without a valid answer; `truncated`: the answer ended before its announced end;
        /// `unexpected_status`: such as a redirect; `context_length`: the prompt is too long; `bad_request`: any other 4xx;
        /// `too_large`: 413; `unprocessable`: 422.
        pub(crate) error_type: Option<&'a str> = attempt.error_type.as_deref(),
        /// Why the connection failed, such as `refused`, `timed_out` or `name_unknown`. Of a broken answer of an alias with a
        /// cascade, what is wrong with it, such as `schema /items/3/price (number expected)`. Absent for all others.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) cause: Option<&'a str> = attempt.cause.as_deref(),
        /// `completed`, or the `error_type`.
        pub(crate) outcome: &'a str = attempt.outcome(),
        /// Milliseconds from the acceptance of the request to the start of the attempt, `queue_ms` included.
        pub(crate) started_ms: u64 = attempt.started_ms,
        /// Milliseconds from the start of the attempt to its end.
        pub(crate) duration_ms: u64 = attempt.duration_ms,
        /// Milliseconds that it waited, before its start, for the concurrency limit of the provider.
        pub(crate) queue_ms: u64 = attempt.queue_ms,
        /// Milliseconds for the name and the TCP connection; `null` on a connection that was open already.
        pub(crate) connect_ms: Option<u64> = attempt.connect_ms,
        /// Milliseconds for the TLS handshake; `null` on a connection that was open already, and without TLS.
        pub(crate) tls_ms: Option<u64> = attempt.tls_ms,
        /// Milliseconds from the start of the attempt to the first byte of the provider's answer; `null` without one.
        pub(crate) first_byte_ms: Option<u64> = attempt.first_byte_ms,
        /// Milliseconds from the start of the attempt to the first content of a stream, or to the whole head of another
        /// answer; `null` without one.
        pub(crate) first_token_ms: Option<u64> = attempt.first_token_ms,
        /// Milliseconds from the end of `first_token_ms` to the end of the attempt; `null` without a first token.
        pub(crate) stream_ms: Option<u64> = attempt.stream_ms,
        /// Cost in US dollars at the prices at the start of the attempt; of a failed one an estimate, often 0. `null` at an
        /// unknown price.
        pub(crate) cost: Option<Dollars> = attempt.cost.map(Dollars),
        /// Whether the cost rests on tokens that the gateway estimated, because the provider reported none.
        pub(crate) estimated: bool = attempt.estimated,
        /// The cost in US dollars that the provider reported, which is never charged; `null` if it reported none.
        pub(crate) reported_cost: Option<Dollars> = attempt.reported_cost.map(Dollars),
    }
}

view! {
    /// Cost of hedges and failed attempts, and the total with the answer; `null` where a price is unknown.
    pub(crate) struct SpentBody {
        pub(in crate::api) fn new(generation: &Generation) {}

        /// US dollars of attempts that lost a race; `null` if the price of one is unknown.
        pub(crate) hedge_cost: Option<Dollars> = generation.hedge_cost().map(Dollars),
        /// US dollars of attempts that failed, or were cancelled after they had used tokens, or whose answer was replaced
        /// because it was broken; `null` if the price of one is unknown.
        pub(crate) failed_cost: Option<Dollars> = generation.failed_cost().map(Dollars),
        /// US dollars of all attempts together: `total_cost`, `hedge_cost` and `failed_cost`; `null` if one of them is.
        pub(crate) ledger_cost: Option<Dollars> = generation.spent().map(Dollars),
    }
}
