//! The record of a generation while it is being made. It reaches the ledger however the request ends:
//! dropped without a verdict, the client has left, or a handler panicked.

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpResponseBuilder,
    http::header::{self, HeaderValue},
};
use pointsman_actors::{
    dialect::Outcome,
    domain::{AttemptRecord, Generation, GenerationId, GenerationStatus, Tick},
};

use crate::{
    admission::{Admitted, RateState},
    clock,
    dispatch::attempt::Attempt,
    events,
    gateway::Worker,
};

/// A growing record.
pub struct Draft {
    worker: Worker,
    accepted: Tick,
    /// Time spent waiting for upstreams in attempts that ended.
    upstream_time: Duration,
    running: Option<Running>,
    record: Generation,
    posted: bool,
    admitted: Option<Admitted>,
    rate: Option<RateState>,
}

/// The attempt that serves right now.
struct Running {
    started: Tick,
    first_output: Option<Tick>,
    /// What is recorded of it if the request is dropped while it runs.
    unfinished: AttemptRecord,
}

impl Draft {
    /// The draft of `record`, of a request accepted at `accepted`.
    pub fn new(worker: &Worker, accepted: Tick, admitted: Admitted, record: Generation) -> Draft {
        Draft {
            worker: worker.clone(),
            accepted,
            upstream_time: Duration::ZERO,
            running: None,
            record,
            posted: false,
            rate: admitted.rate,
            admitted: Some(admitted),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> GenerationId {
        self.record.id
    }

    /// What is known so far.
    #[must_use]
    pub fn record(&self) -> &Generation {
        &self.record
    }

    /// An attempt begins: as long as it runs, it is the one that serves.
    pub fn attempt_began(&mut self, attempt: &Attempt, slug: Arc<str>, dropped: Vec<Arc<str>>) {
        let unfinished = attempt.unfinished();
        self.record.model = Some(Arc::clone(&unfinished.model));
        self.record.provider_name = Some(Arc::clone(&unfinished.provider_name));
        self.running = Some(Running { started: attempt.started, first_output: None, unfinished });
        self.record.provider_slug = Some(slug);
        self.record.dropped_parameters = dropped;
    }

    /// An attempt gave its first output.
    pub fn first_output(&mut self, now: Tick) {
        self.record.latency_ms = Some(millis(now - self.accepted));
        if let Some(running) = &mut self.running {
            running.first_output = Some(now);
        }
    }

    /// An attempt ended before the client saw anything of it: neither its model nor its times are the answer's.
    pub fn attempt_lost(&mut self, attempt: AttemptRecord) {
        self.attempt_ended(attempt);
        self.forget_winner();
    }

    /// An attempt ended, and whatever came of it is the answer.
    pub fn attempt_ended(&mut self, mut attempt: AttemptRecord) {
        attempt.started_ms = attempt.started_ms.saturating_sub(self.accepted.0 / 1000);
        if let Some(running) = self.running.take() {
            self.upstream_time += clock::now() - running.started;
        }
        self.record.generation_time_ms = Some(attempt.duration_ms);
        self.record.attempts.push(attempt);
    }

    /// Makes the record readable while the stream still runs.
    pub fn publish_running(&self) {
        self.worker.post(self.worker.news.record(self.record.clone()));
    }

    /// The whole answer is there.
    pub fn complete(&mut self, outcome: Outcome) {
        self.adopt(outcome);
        self.post(GenerationStatus::Completed);
    }

    /// It ended with an error, after having produced this much.
    pub fn fail(&mut self, outcome: Option<Outcome>) {
        match outcome {
            Some(outcome) => self.adopt(outcome),
            None => self.forget_winner(),
        }
        self.post(GenerationStatus::Failed);
    }

    /// The client left, after this much had been produced.
    pub fn cancel(&mut self, outcome: Outcome) {
        self.adopt(outcome);
        self.record.finish = None;
        self.post(GenerationStatus::Cancelled);
    }

    fn forget_winner(&mut self) {
        self.record.model = None;
        self.record.provider_name = None;
        self.record.provider_slug = None;
        self.record.latency_ms = None;
        self.record.generation_time_ms = None;
        self.record.dropped_parameters = Vec::new();
    }

    fn adopt(&mut self, outcome: Outcome) {
        self.record.usage = outcome.usage;
        self.record.cost = outcome.cost;
        self.record.finish = outcome.finish;
        self.record.native_finish_reason = outcome.native_finish;
        self.record.upstream_id = outcome.upstream_id;
        self.record.media_completion = outcome.images;
    }

    fn post(&mut self, status: GenerationStatus) {
        if std::mem::replace(&mut self.posted, true) {
            return;
        }
        self.record.status = status;
        self.admitted = None;
        events::GenerationEnded { generation: &self.record }.emit(&self.worker.shared.metrics);
        self.worker.post(self.worker.news.record(self.record.clone()));
    }

    /// How long the running attempt has kept the client waiting for its first output.
    fn waited(&self) -> Duration {
        let waited = |running: &Running| running.first_output.unwrap_or_else(clock::now) - running.started;
        self.running.as_ref().map_or(Duration::ZERO, waited)
    }

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
        let attempts = record.attempts.len() + usize::from(record.attempts.iter().all(|a| a.error_type.is_some()));
        response.insert_header(("x-route-reason", record.decision_code().as_str()));
        response.insert_header(("x-route-attempts", attempts));
        let elapsed = clock::now() - self.accepted;
        response.insert_header(("x-route-latency-ms", record.latency_ms.unwrap_or_else(|| millis(elapsed))));
        let overhead = elapsed.saturating_sub(self.upstream_time + self.waited());
        events::AnswerBegan { overhead }.emit(&self.worker.shared.metrics);
        response.insert_header(("x-route-overhead-ms", format!("{:.3}", overhead.as_secs_f64() * 1e3)));
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
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.posted {
            if let Some(Running { started, unfinished, .. }) = self.running.take() {
                let duration_ms = millis(clock::now() - started);
                self.attempt_ended(AttemptRecord { duration_ms, ..unfinished });
            }
            self.record.finish = None;
            // Cancelled means that the client left.
            let ours = std::thread::panicking() || self.worker.shared.drain.is_over();
            self.post(if ours { GenerationStatus::Failed } else { GenerationStatus::Cancelled });
        }
    }
}

/// `text` as a header, if it is printable ASCII: other bytes are allowed there, but clients read them differently.
fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok().filter(|value| value.to_str().is_ok())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
