//! What the head of an answer tells of its route.

use std::sync::Arc;

use actix_web::{
    HttpResponseBuilder,
    http::header::{self, HeaderName, HeaderValue},
};

use super::GenerationDraft;
use crate::{
    access::admission::RateState,
    base::{clock, error::ApiError, events},
    proxy::dispatch::attempt::millis,
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
const IGNORED: HeaderName = HeaderName::from_static("x-route-ignored");
const USAGE: HeaderName = HeaderName::from_static("x-route-usage");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

impl GenerationDraft {
    /// The route headers of a success.
    pub fn write_headers(&self, response: &mut HttpResponseBuilder) {
        let record = &*self.record;
        // A display name may hold anything; a slug is always fit for a header.
        let readable = |text: &Option<Arc<str>>| text.as_deref().and_then(header_value);
        let attempts = record.attempts.len() + self.running.iter().flatten().count();
        let dropped = Some(&record.dropped_parameters).filter(|names| !names.is_empty());
        let told = [
            (header::CACHE_CONTROL, Some(HeaderValue::from_static("no-store"))),
            (GENERATION_ID, header_value(record.id.as_str())),
            (MODEL, readable(&record.model)),
            (PROVIDER, readable(&record.provider_name).or_else(|| readable(&record.provider_slug))),
            (ROUTER, header_value(record.decision.router.as_deref().unwrap_or("fixed"))),
            (REASON, Some(HeaderValue::from_static(record.decision_code().as_str()))),
            (ATTEMPTS, Some(HeaderValue::from(attempts.max(1)))),
            (DROPPED_PARAMETERS, dropped.and_then(|names| header_value(&names.join(",")))),
            (IGNORED, listed(&self.ignored)),
            (USAGE, record.usage.estimated.then(|| HeaderValue::from_static("estimated"))),
        ];
        for (name, value) in told.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            response.insert_header((name, value));
        }
        self.write_times(response);
        for (name, value) in self.rate.into_iter().flat_map(RateState::headers) {
            response.insert_header((name, value));
        }
    }

    fn write_times(&self, response: &mut HttpResponseBuilder) {
        let now = clock::now();
        let elapsed = now - self.accepted;
        response.insert_header((LATENCY, self.record.latency_ms.unwrap_or_else(|| millis(elapsed))));
        let waiting = self.waiting_since.map(|since| now - since).unwrap_or_default();
        let overhead = elapsed.saturating_sub(self.upstream_time + waiting);
        events::AnswerBegan { overhead }.emit(&self.worker.shared.metrics);
        response.insert_header((OVERHEAD, format!("{:.3}", overhead.as_secs_f64() * 1e3)));
        if let Some(timing) = header_value(&self.server_timing(now)) {
            response.insert_header((SERVER_TIMING, timing));
        }
    }

    /// `error` as the end of this generation: it names it, and says where the time went if anybody was called.
    #[must_use]
    pub fn told(&self, error: ApiError) -> ApiError {
        let error = error.of_generation(self.record.id);
        match header_value(&self.server_timing(clock::now())) {
            Some(timing) if !self.record.attempts.is_empty() => error.with_header(SERVER_TIMING, timing),
            _ => error,
        }
    }
}

/// Names the client made up, as one header. What no header holds, or is too long for a slip of the finger, is left out:
/// it must take neither the others nor the answer with it.
fn listed(names: &[String]) -> Option<HeaderValue> {
    const LONGEST: usize = 100;
    let fits = |name: &&str| name.len() <= LONGEST && header_value(name).is_some();
    let names: Vec<&str> = names.iter().map(String::as_str).filter(fits).collect();
    header_value(&names.join(",")).filter(|value| !value.is_empty())
}

/// `text` as a header, if it is printable ASCII: other bytes are allowed there, but clients read them differently.
fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok().filter(|value| value.to_str().is_ok())
}
