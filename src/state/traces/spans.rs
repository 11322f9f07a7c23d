//! The spans of a generation, from its record: one for the generation, with the attributes `gen_ai.*`, and a child for
//! each attempt.
//!
//! Names and meanings are those of the semantic conventions in version [`CONVENTIONS`]; their part about generative AI may
//! still change, so all of it is in this file. No attribute holds text of a prompt, an answer or a provider.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry::{
    Array, InstrumentationScope, KeyValue, StringValue, Value,
    trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use pointsman_domain::{ApiType, AttemptRecord, Generation, GenerationStatus, ServedTime, span_of};

use super::sampler::trace_of_record;
use crate::{access::keys::HolderNames, base::build};

/// Schema of the semantic conventions that the attributes follow.
const CONVENTIONS: &str = "https://opentelemetry.io/schemas/1.40.0";
/// Longest name of a requested model, in characters: it is the client's text.
const MOST_OF_A_NAME: usize = 128;

static SCOPE: LazyLock<InstrumentationScope> = LazyLock::new(|| {
    InstrumentationScope::builder("pointsman").with_version(build::VERSION).with_schema_url(CONVENTIONS).build()
});

/// Number of the spans of a generation.
pub(super) fn count(record: &Generation) -> usize {
    1 + record.attempts.len()
}

/// Appends the spans of a generation.
pub(super) fn add(record: &Generation, names: &HolderNames, spans: &mut Vec<SpanData>) {
    let ServedTime { from_us, until_us } = record.served.unwrap_or_else(|| whole_milliseconds(record));
    let (from, until) = (moment(from_us), moment(until_us));
    let parent = record.trace_parent.map_or(SpanId::INVALID, |parent| SpanId::from(parent.span));
    let root = span_of(record.id, 0);
    spans.push(SpanData {
        parent_span_is_remote: record.trace_parent.is_some(),
        // A child of the client's call, where a request enters this service.
        span_kind: SpanKind::Server,
        attributes: generation_attributes(record, names),
        status: generation_status(record),
        ..span((record, root, parent), span_name(record), (from, until))
    });
    for attempt in &record.attempts {
        // The record rounds to milliseconds; a child does not outlive its parent for that.
        let at = |ms: u64| (from + Duration::from_millis(ms)).min(until);
        let (start, end) = (at(attempt.started_ms), at(attempt.started_ms.saturating_add(attempt.duration_ms)));
        let id = span_of(record.id, attempt.n);
        spans.push(SpanData {
            span_kind: SpanKind::Client,
            attributes: attempt_attributes(attempt),
            status: attempt_status(attempt),
            events: attempt_events(attempt, &at),
            ..span((record, id, SpanId::from(root)), "POST".to_owned(), (start, end))
        });
    }
}

fn span(
    (record, id, parent_span_id): (&Generation, u64, SpanId),
    name: String,
    (start_time, end_time): (SystemTime, SystemTime),
) -> SpanData {
    let trace = TraceId::from(trace_of_record(record));
    SpanData {
        span_context: SpanContext::new(trace, SpanId::from(id), TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time,
        end_time,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: SCOPE.clone(),
    }
}

/// The times of a record that was made while traces were off.
fn whole_milliseconds(record: &Generation) -> ServedTime {
    let ends = record.attempts.iter().map(|attempt| attempt.started_ms.saturating_add(attempt.duration_ms));
    let took = i64::try_from(ends.max().unwrap_or_default()).unwrap_or(i64::MAX);
    let from_us = record.created_ms.saturating_mul(1000);
    ServedTime { from_us, until_us: from_us.saturating_add(took.saturating_mul(1000)) }
}

fn moment(unix_us: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(unix_us).unwrap_or_default())
}

/// `chat` and its like.
const fn operation(record: &Generation) -> &'static str {
    match record.api_type {
        ApiType::Completions => "chat",
        ApiType::Image => "generate_content",
        ApiType::Embeddings => "embeddings",
    }
}

/// The name says which operation and which model. A model that nobody configured does not become a name of spans.
fn span_name(record: &Generation) -> String {
    let known = record.model.as_deref().or_else(|| record.attempts.last().map(|attempt| &*attempt.model));
    known.map_or_else(|| operation(record).to_owned(), |model| format!("{} {model}", operation(record)))
}

fn generation_attributes(record: &Generation, names: &HolderNames) -> Vec<KeyValue> {
    let (usage, decision) = (&record.usage, &record.decision);
    let mut all = Attributes::default();
    all.add("gen_ai.operation.name", operation(record));
    let provider = record.provider_slug.as_deref().or_else(|| record.attempts.last().map(|it| &*it.provider_slug));
    all.add("gen_ai.provider.name", provider.map_or_else(|| "pointsman".to_owned(), provider_name));
    let requested: String = record.requested_model.chars().take(MOST_OF_A_NAME).collect();
    all.add("gen_ai.request.model", requested);
    all.add("gen_ai.request.stream", record.streamed);
    all.add("gen_ai.response.id", record.id.as_str().to_owned());
    all.set("gen_ai.response.model", record.model.clone());
    if let Some(finish) = record.finish {
        let reasons = vec![StringValue::from(finish.as_str())];
        all.add("gen_ai.response.finish_reasons", Value::Array(Array::String(reasons)));
    }
    if record.streamed {
        all.set("gen_ai.response.time_to_first_chunk", record.latency_ms.map(|ms| ms as f64 / 1e3));
    }
    all.tokens("gen_ai.usage.input_tokens", Some(usage.prompt_tokens));
    all.tokens("gen_ai.usage.output_tokens", Some(usage.completion_tokens));
    let some = |tokens: u64| Some(tokens).filter(|tokens| *tokens > 0);
    all.tokens("gen_ai.usage.cache_read.input_tokens", some(usage.cached_tokens));
    all.tokens("gen_ai.usage.cache_creation.input_tokens", some(usage.cache_write_tokens));
    all.tokens("gen_ai.usage.reasoning.output_tokens", some(usage.reasoning_tokens));
    all.set("error.type", error_of(record));
    all.add("pointsman.request_id", record.request_id.clone());
    all.set("pointsman.key", names.key.clone());
    all.set("pointsman.account", names.account.clone());
    all.set("pointsman.team", record.team.clone());
    all.set("gen_ai.conversation.id", record.session_id.clone());
    all.add("pointsman.status", status_name(record.status));
    all.add("pointsman.decision.code", record.decision_code().as_str());
    all.add("pointsman.decision.objective", decision.objective.value.as_str());
    all.add("pointsman.decision.explored", decision.explored);
    all.tokens("pointsman.attempts", Some(record.attempts.len() as u64));
    all.add("pointsman.rescued", record.rescued());
    all.add("pointsman.hedged", record.hedged());
    all.set("pointsman.cost_usd", record.spent().map(|cost| cost.to_string()));
    all.0
}

/// Names of providers in the conventions, where ours differ; else our own.
fn provider_name(slug: &str) -> String {
    match slug {
        "google" | "gemini" | "google-ai-studio" => "gcp.gemini",
        "vertex" | "google-vertex" => "gcp.vertex_ai",
        "bedrock" | "amazon-bedrock" => "aws.bedrock",
        "azure" | "azure-openai" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        "moonshot" | "moonshotai" => "moonshot_ai",
        own => own,
    }
    .to_owned()
}

/// The status of a generation, a broken stream apart from other failures.
const fn status_name(status: GenerationStatus) -> &'static str {
    match status {
        GenerationStatus::Truncated => "truncated",
        other => other.as_str(),
    }
}

/// Why a generation failed: the kind of its last failed attempt, or its status if there was none.
fn error_of(record: &Generation) -> Option<Value> {
    record.status.is_failure().then(|| {
        let kind = record.attempts.iter().rev().find_map(failure_of);
        kind.map_or_else(|| Value::from(status_name(record.status)), |kind| Value::from(kind.to_owned()))
    })
}

/// The kind of failure of an attempt. One that was given up did not fail.
fn failure_of(attempt: &AttemptRecord) -> Option<&str> {
    let harmless = [AttemptRecord::CANCELLED, AttemptRecord::LOST_RACE];
    attempt.error_type.as_deref().filter(|kind| !harmless.contains(kind))
}

/// Without a description: an error has its kind and no text.
fn error(is_error: bool) -> Status {
    if is_error { Status::error("") } else { Status::Unset }
}

fn generation_status(record: &Generation) -> Status {
    error(record.status.is_failure())
}

fn attempt_status(attempt: &AttemptRecord) -> Status {
    error(failure_of(attempt).is_some())
}

fn attempt_attributes(attempt: &AttemptRecord) -> Vec<KeyValue> {
    let mut all = Attributes::default();
    all.add("http.request.method", "POST");
    all.set("http.response.status_code", attempt.status.map(i64::from));
    all.set("error.type", failure_of(attempt).map(str::to_owned));
    if attempt.n > 1 {
        all.add("http.request.resend_count", i64::from(attempt.n) - 1);
    }
    all.add("pointsman.provider", attempt.provider_slug.clone());
    all.add("pointsman.model", attempt.model.clone());
    all.add("pointsman.attempt.n", i64::from(attempt.n));
    all.add("pointsman.attempt.reason", attempt.reason.as_str());
    all.add("pointsman.attempt.outcome", attempt.outcome().to_owned());
    // Behind the first word stand names of a schema that the client wrote.
    let cause = attempt.cause.as_deref().and_then(|cause| cause.split(' ').next());
    all.set("pointsman.attempt.cause", cause.map(str::to_owned));
    all.tokens("pointsman.attempt.queue_ms", Some(attempt.queue_ms).filter(|ms| *ms > 0));
    all.set("pointsman.attempt.cost_usd", attempt.cost.map(|cost| cost.to_string()));
    all.0
}

fn attempt_events(attempt: &AttemptRecord, at: &impl Fn(u64) -> SystemTime) -> SpanEvents {
    let since_start = |ms: u64| at(attempt.started_ms.saturating_add(ms));
    let tls = attempt.tls_ms.map(|tls| tls.saturating_add(attempt.connect_ms.unwrap_or_default()));
    let times = [
        ("connected", attempt.connect_ms),
        ("tls_done", tls),
        ("first_byte", attempt.first_byte_ms),
        ("first_token", attempt.first_token_ms),
    ];
    let mut events = SpanEvents::default();
    let known = times.into_iter().filter_map(|(name, ms)| Some((name, ms?)));
    events.events.extend(known.map(|(name, ms)| Event::new(name, since_start(ms), Vec::new(), 0)));
    events
}

/// Attributes in the order in which they were added.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push(KeyValue::new(key, value));
    }

    fn set(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        self.0.extend(value.map(|value| KeyValue::new(key, value)));
    }

    fn tokens(&mut self, key: &'static str, number: Option<u64>) {
        self.set(key, number.map(|number| i64::try_from(number).unwrap_or(i64::MAX)));
    }
}
