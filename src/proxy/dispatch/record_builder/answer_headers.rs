//! Response headers that describe the route of a request, with `Server-Timing` for browsers and scripts.
//!
//! `Server-Timing` holds provider slugs, statuses and fixed words, no other text of a provider.

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpResponseBuilder,
    http::header::{self, HeaderName, HeaderValue},
};
use itoa::Integer;
use pointsman_base::clock;
use pointsman_domain::{AttemptRecord, Dialect, Tick};

use super::RecordBuilder;
use crate::{
    access::rate_limits::RateState,
    base::error::ApiError,
    proxy::dispatch::attempt::{Attempt, millis},
};

const GENERATION_ID: HeaderName = HeaderName::from_static("x-generation-id");
const MODEL: HeaderName = HeaderName::from_static("x-route-model");
const PROVIDER: HeaderName = HeaderName::from_static("x-route-provider");
const ROUTER: HeaderName = HeaderName::from_static("x-route-router");
const REASON: HeaderName = HeaderName::from_static("x-route-reason");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-route-attempts");
const LATENCY: HeaderName = HeaderName::from_static("x-route-latency-ms");
const OVERHEAD: HeaderName = HeaderName::from_static("x-route-overhead-ms");
const DROPPED_PARAMETERS: HeaderName = HeaderName::from_static("x-route-dropped-parameters");
const EMULATED_PARAMETERS: HeaderName = HeaderName::from_static("x-route-emulated-parameters");
const IGNORED: HeaderName = HeaderName::from_static("x-route-ignored");
const COST: HeaderName = HeaderName::from_static("x-route-cost");
const USAGE: HeaderName = HeaderName::from_static("x-route-usage");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
/// Of a request that names models.
const FIXED: HeaderValue = HeaderValue::from_static("fixed");

/// Most attempts in `Server-Timing`; later ones are omitted.
const MAX_TIMED_ATTEMPTS: usize = 8;
/// Longest slug in `Server-Timing`, in bytes; a longer one is cut.
const MAX_SLUG_BYTES: usize = 48;

/// Longest list of parameters, bytes: clients and proxies limit all headers of a response together.
const MAX_LIST_BYTES: usize = 1_024;

/// Durations of an attempt's phases.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptPhases {
    queue: Duration,
    connect: Option<Duration>,
    tls: Option<Duration>,
    first_token: Option<Tick>,
}

impl AttemptPhases {
    pub(super) fn new(attempt: &Attempt) -> AttemptPhases {
        AttemptPhases {
            queue: attempt.start.queue,
            connect: attempt.phases.connect,
            tls: attempt.phases.tls,
            first_token: attempt.first_token,
        }
    }
}

impl RecordBuilder {
    /// Writes the headers of a successful response.
    pub fn write_headers(&self, response: &mut HttpResponseBuilder) {
        let record = &*self.record;
        // A display name may hold characters that no header allows; a slug may not.
        let text_header = |text: &Option<Arc<str>>| text.as_deref().and_then(header_value);
        let attempts = record.attempts.len() + self.running.iter().flatten().count();
        // Appended: nothing is looked up and replaced, because each name comes once.
        let mut put = |name, value| append(response, name, value);
        put(header::CACHE_CONTROL, Some(HeaderValue::from_static("no-store")));
        put(GENERATION_ID, header_value(record.id.as_str()));
        put(MODEL, text_header(&record.model));
        put(PROVIDER, text_header(&record.provider_name).or_else(|| text_header(&record.provider_slug)));
        put(ROUTER, record.decision.router.as_deref().map_or(Some(FIXED), header_value));
        put(REASON, Some(HeaderValue::from_static(record.decision_code().as_str())));
        put(ATTEMPTS, integer(attempts.max(1)));
        put(DROPPED_PARAMETERS, parameter_list(&record.dropped_parameters));
        put(EMULATED_PARAMETERS, parameter_list(&record.emulated_parameters));
        put(IGNORED, name_list(&self.ignored));
        put(COST, self.cost_header());
        put(USAGE, record.usage.estimated.then(|| HeaderValue::from_static("estimated")));
        self.write_timing(response);
        let requests = self.rate.into_iter().flat_map(RateState::headers);
        let tokens = self.token_rate.into_iter().flat_map(RateState::token_headers);
        for (name, value) in requests.chain(tokens) {
            response.append_header((name, value));
        }
    }

    /// The cost of an answer that does not tell it itself, in USD. Unknown before the end of a stream.
    fn cost_header(&self) -> Option<HeaderValue> {
        let record = &*self.record;
        let reports_none = record.client_dialect != Dialect::OpenAi && !record.streamed;
        let cost = record.cost.as_ref().filter(|_| reports_none)?;
        header_value(&cost.total().to_string())
    }

    fn write_timing(&self, response: &mut HttpResponseBuilder) {
        let now = clock::now();
        let elapsed = now - self.accepted;
        let waiting = self.waiting_since.map(|since| now - since).unwrap_or_default();
        let overhead = elapsed.saturating_sub(self.upstream_time + waiting);
        self.worker.shared.process.metrics.answer_began(overhead);
        let mut text = String::with_capacity(16);
        push_millis(&mut text, overhead, Decimals::Always);
        append(response, LATENCY, integer(self.record.latency_ms.unwrap_or_else(|| millis(elapsed))));
        append(response, OVERHEAD, header_value(&text));
        append(response, SERVER_TIMING, header_value(&self.server_timing(now)));
    }

    /// Adds the generation's id to an error, and `Server-Timing` if a provider was called.
    pub fn annotate(&self, error: ApiError) -> ApiError {
        let error = error.of_generation(self.record.id);
        match header_value(&self.server_timing(clock::now())) {
            Some(timing) if !self.record.attempts.is_empty() => error.with_header(SERVER_TIMING, timing),
            _ => error,
        }
    }

    /// The value of `Server-Timing` at `now`. `queue`, `connect` and `tls` are of the attempt that serves. `ttft` and
    /// `total` count from the time the request was accepted; `total` is omitted while a stream runs.
    fn server_timing(&self, now: Tick) -> String {
        let mut list = MetricList(String::with_capacity(192));
        list.add("route", self.routing);
        let running = self.running.iter().flatten().map(|running| &*running.attempt);
        let latest = self.latest.or_else(|| running.clone().next().map(AttemptPhases::new));
        if let Some(latest) = latest {
            list.add("queue", latest.queue);
            let ttft = latest.first_token.map(|first| first - self.accepted);
            for (name, duration) in [("connect", latest.connect), ("tls", latest.tls), ("ttft", ttft)] {
                if let Some(duration) = duration {
                    list.add(name, duration);
                }
            }
        }
        if !self.has_running() {
            list.add("total", now - self.accepted);
        }
        let count = self.record.attempts.len() + running.clone().count();
        for n in 1..=count.min(MAX_TIMED_ATTEMPTS) as u32 {
            if let Some(ended) = self.record.attempts.iter().find(|attempt| attempt.n == n) {
                list.add_attempt(n, &ended.provider_slug, result(ended), Duration::from_millis(ended.duration_ms));
            } else if let Some(attempt) = running.clone().find(|attempt| attempt.start.n == n) {
                list.add_attempt(n, &attempt.names().slug, Outcome::Word("running"), now - attempt.started);
            }
        }
        list.0
    }
}

fn append(response: &mut HttpResponseBuilder, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        response.append_header((name, value));
    }
}

/// Member names of the client's request as one header. Names that are too long or not allowed in a header are omitted.
fn name_list(names: &[String]) -> Option<HeaderValue> {
    const LONGEST: usize = 100;
    let fits = |name: &&str| (1..=LONGEST).contains(&name.len()) && header_value(name).is_some();
    let names: Vec<&str> = names.iter().map(String::as_str).filter(fits).collect();
    if names.is_empty() { None } else { header_value(&names.join(",")) }
}

/// The names divided by commas, as many as fit, and `...` for those that do not. The record has up to 64 of them.
fn parameter_list(names: &[Arc<str>]) -> Option<HeaderValue> {
    const MORE: &str = ",...";
    let mut list = String::new();
    for name in names {
        if list.len() + name.len() + MORE.len() >= MAX_LIST_BYTES {
            list.push_str(MORE);
            break;
        }
        list.extend([if list.is_empty() { "" } else { "," }, name]);
    }
    if list.is_empty() { None } else { header_value(&list) }
}

/// `text` as a header if it is printable ASCII. Clients decode other bytes that a header may hold differently.
fn header_value(text: &str) -> Option<HeaderValue> {
    // Many bytes at once, unlike a search for the first one.
    let has_odd = text.bytes().fold(false, |odd, byte| odd | !matches!(byte, b' '..=b'~'));
    if has_odd { None } else { HeaderValue::from_str(text).ok() }
}

fn integer(value: impl Integer) -> Option<HeaderValue> {
    header_value(itoa::Buffer::new().format(value))
}

/// How an attempt ended, as `Server-Timing` says it.
enum Outcome<'a> {
    Status(u16),
    Word(&'a str),
}

/// The result of an attempt: its status, or the word for its outcome if it failed after a status below 400.
fn result(attempt: &AttemptRecord) -> Outcome<'_> {
    match attempt.status.filter(|status| *status >= 400 || attempt.error_type.is_none()) {
        Some(status) => Outcome::Status(status),
        None => Outcome::Word(attempt.outcome()),
    }
}

/// Builds the list of metrics, without the formatter: every answer has one.
struct MetricList(String);

impl MetricList {
    fn add(&mut self, name: &str, duration: Duration) {
        self.separate();
        self.0.push_str(name);
        self.push_duration(duration);
    }

    fn add_attempt(&mut self, n: u32, slug: &str, outcome: Outcome<'_>, duration: Duration) {
        self.separate();
        self.0.push_str("attempt-");
        push_integer(&mut self.0, n);
        self.0.push_str(";desc=\"");
        self.0.push_str(slug.get(..MAX_SLUG_BYTES).unwrap_or(slug));
        self.0.push(' ');
        match outcome {
            Outcome::Status(status) => push_integer(&mut self.0, status),
            Outcome::Word(word) => self.0.push_str(word),
        }
        self.0.push('"');
        self.push_duration(duration);
    }

    fn push_duration(&mut self, duration: Duration) {
        self.0.push_str(";dur=");
        push_millis(&mut self.0, duration, Decimals::UnlessZero);
    }

    fn separate(&mut self) {
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
    }
}

fn push_integer(text: &mut String, value: impl Integer) {
    text.push_str(itoa::Buffer::new().format(value));
}

/// When the three decimals of a number are written.
#[derive(PartialEq)]
enum Decimals {
    Always,
    UnlessZero,
}

/// Milliseconds with three decimals. Written without floats.
fn push_millis(text: &mut String, duration: Duration, decimals: Decimals) {
    push_integer(text, millis(duration));
    let rest = duration.subsec_micros() % 1000;
    if rest > 0 || decimals == Decimals::Always {
        // The added thousand keeps leading zeros.
        let mut buffer = itoa::Buffer::new();
        text.push('.');
        text.push_str(buffer.format(1000 + rest).get(1..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_with_decimals() {
        let mut list = MetricList(String::new());
        list.add("route", Duration::from_micros(50));
        list.add("queue", Duration::ZERO);
        list.add("ttft", Duration::from_micros(120_340));
        list.add_attempt(1, "swift", Outcome::Status(500), Duration::from_millis(40));
        assert_eq!(list.0, "route;dur=0.050, queue;dur=0, ttft;dur=120.340, attempt-1;desc=\"swift 500\";dur=40");
    }

    #[test]
    fn a_list_of_parameters_that_is_too_long_says_so() {
        let list = |names: &[Arc<str>]| parameter_list(names).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(list(&[]), None);
        assert_eq!(list(&["messages[].name".into(), "seed".into()]), Some("messages[].name,seed".into()));
        let names: Vec<Arc<str>> = (0..64).map(|n| format!("{n:0>60}").into()).collect();
        let cut = list(&names).unwrap();
        assert!(cut.len() <= MAX_LIST_BYTES && cut.ends_with("15,..."), "{cut}");
    }

    #[test]
    fn a_long_slug_is_cut() {
        let mut list = MetricList(String::new());
        list.add_attempt(12, &"x".repeat(500), Outcome::Word("timeout"), Duration::ZERO);
        assert!(list.0.len() < 100 && list.0.ends_with("x timeout\";dur=0"), "{}", list.0);
    }
}
