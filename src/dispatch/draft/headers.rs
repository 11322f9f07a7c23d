//! What the head of an answer tells of its route.

use std::sync::Arc;

use actix_web::{
    HttpResponseBuilder,
    http::header::{self, HeaderName, HeaderValue},
};

use super::Draft;
use crate::{clock, dispatch::attempt::millis, error::ApiError, events};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

impl Draft {
    /// The route headers of a success.
    pub fn write_headers(&self, response: &mut HttpResponseBuilder) {
        let record = &self.record;
        response.insert_header((header::CACHE_CONTROL, "no-store"));
        response.insert_header(("x-generation-id", record.id.as_str()));
        // A display name may hold anything; a slug is always fit for a header.
        let readable = |text: &Option<Arc<str>>| text.as_deref().and_then(header_value);
        let provider = readable(&record.provider_name).or_else(|| readable(&record.provider_slug));
        let router = record.decision.router.as_deref().unwrap_or("fixed");
        let named = [
            ("x-route-model", readable(&record.model)),
            ("x-route-provider", provider),
            ("x-route-router", header_value(router)),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                response.insert_header((name, value));
            }
        }
        let attempts = record.attempts.len() + self.running.iter().flatten().count();
        response.insert_header(("x-route-reason", record.decision_code().as_str()));
        response.insert_header(("x-route-attempts", attempts.max(1)));
        self.write_times(response);
        if !record.dropped_parameters.is_empty()
            && let Some(names) = header_value(&record.dropped_parameters.join(","))
        {
            response.insert_header(("x-route-dropped-parameters", names));
        }
        if record.usage.estimated {
            response.insert_header(("x-route-usage", "estimated"));
        }
        if let Some(rate) = self.rate {
            for (name, value) in rate.headers() {
                response.insert_header((name, value));
            }
        }
    }

    fn write_times(&self, response: &mut HttpResponseBuilder) {
        let now = clock::now();
        let elapsed = now - self.accepted;
        response.insert_header(("x-route-latency-ms", self.record.latency_ms.unwrap_or_else(|| millis(elapsed))));
        let waiting = self.waiting_since.map(|since| now - since).unwrap_or_default();
        let overhead = elapsed.saturating_sub(self.upstream_time + waiting);
        events::AnswerBegan { overhead }.emit(&self.worker.shared.metrics);
        response.insert_header(("x-route-overhead-ms", format!("{:.3}", overhead.as_secs_f64() * 1e3)));
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

/// `text` as a header, if it is printable ASCII: other bytes are allowed there, but clients read them differently.
fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok().filter(|value| value.to_str().is_ok())
}
