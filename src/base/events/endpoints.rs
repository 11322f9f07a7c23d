//! Events at endpoints: ended attempts and changed breakers, with the series of each endpoint.

use std::collections::{HashMap, HashSet};

use pointsman_base::clock;
use pointsman_domain::{AttemptRecord, Blame, Catalog, Endpoint, EventKind, Failure, FailureKind, GenerationId, Tick};
use pointsman_routing::stats::{BreakerChange, Gate, GateChange};
use prometheus::{
    HistogramVec, IntCounterVec, IntGaugeVec,
    core::{Collector, MetricVec, MetricVecBuilder},
};

use super::{Metrics, instruments::Instruments};

/// Buckets of the histograms for times to first token, in seconds.
pub(super) const FIRST_TOKEN: [f64; 14] =
    [0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 120.0];
/// Buckets of the histograms for whole answers, in seconds.
pub(super) const WHOLE_ANSWER: [f64; 16] =
    [0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Some of them, for the histogram of each endpoint: a scrape has to stay small.
const ANSWER_OF_ENDPOINT: [f64; 10] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Buckets of the histogram for the time per output token, in seconds.
const PER_TOKEN: [f64; 6] = [0.005, 0.01, 0.02, 0.04, 0.1, 0.3];
/// States of a breaker in `breaker_moves_total`.
const STATES: [&str; 4] = ["closed", "cooling", "open", "probing"];

/// The labels that name an endpoint.
pub(super) const ENDPOINT: [&str; 2] = ["provider", "model"];

/// Series per endpoint, identified by provider and model.
pub(super) struct EndpointMetrics {
    attempts: IntCounterVec,
    first_token: HistogramVec,
    duration: HistogramVec,
    per_token: HistogramVec,
    circuit: IntGaugeVec,
    moves: IntCounterVec,
}

impl EndpointMetrics {
    pub(super) fn new(make: &Instruments<'_>) -> Result<EndpointMetrics, prometheus::Error> {
        Ok(EndpointMetrics {
            attempts: make.counters(
                "upstream_attempts_total",
                "Upstream attempts by result; ok: a complete answer",
                &["provider", "model", "outcome"],
            )?,
            first_token: make.times_by(
                "ttft_seconds",
                "Time from the dispatch of an attempt to the first content of its stream, complete streams only",
                &ENDPOINT,
                &FIRST_TOKEN,
            )?,
            duration: make.times_by(
                "generation_seconds",
                "Time from the dispatch of an attempt to the last byte of its complete answer",
                &["provider", "model", "streamed"],
                &ANSWER_OF_ENDPOINT,
            )?,
            per_token: make.times_by(
                "time_per_output_token_seconds",
                "Time from the first to the last content of a complete stream, per output token after the first; hidden reasoning left out",
                &ENDPOINT,
                &PER_TOKEN,
            )?,
            circuit: make.gauges(
                "circuit_open",
                "1 while the breaker of an endpoint is not closed; model=\"\" is the breaker of the provider",
                &ENDPOINT,
            )?,
            moves: make.counters(
                "breaker_moves_total",
                "Changes of a breaker by its new state; model=\"\" is the breaker of the provider",
                &["provider", "model", "to"],
            )?,
        })
    }

    /// Creates the series of every endpoint and provider that is on, and removes those of others.
    pub(super) fn adopt(&self, catalog: &Catalog) {
        let enabled = || catalog.providers.iter().filter(|provider| provider.is_on());
        let providers: HashSet<[&str; 2]> = enabled().map(|provider| [provider.slug.as_str(), ""]).collect();
        let endpoints = endpoints_of(catalog);
        for [provider, model] in providers.iter().chain(&endpoints) {
            let _ = self.circuit.with_label_values(&[provider, model]);
            for state in STATES {
                let _ = self.moves.with_label_values(&[provider, model, state]);
            }
        }
        for [provider, model] in &endpoints {
            for outcome in usual_outcomes() {
                let _ = self.attempts.with_label_values(&[*provider, *model, outcome]);
            }
            for streamed in ["true", "false"] {
                let _ = self.duration.with_label_values(&[*provider, *model, streamed]);
            }
            let _ = self.first_token.with_label_values(&[*provider, *model]);
            let _ = self.per_token.with_label_values(&[*provider, *model]);
        }
        let known: HashSet<[&str; 2]> = providers.union(&endpoints).copied().collect();
        retain(&self.attempts, ENDPOINT, &known);
        retain(&self.first_token, ENDPOINT, &known);
        retain(&self.duration, ENDPOINT, &known);
        retain(&self.per_token, ENDPOINT, &known);
        retain(&self.circuit, ENDPOINT, &known);
        retain(&self.moves, ENDPOINT, &known);
    }
}

impl EndpointMetrics {
    fn count_move(&self, [provider, model]: [&str; 2], gate: GateChange) {
        self.circuit.with_label_values(&[provider, model]).set(i64::from(gate.to != Gate::Passing));
        let state = match gate.to {
            Gate::Passing => "closed",
            Gate::Cooling { .. } => "cooling",
            Gate::Open { .. } | Gate::ConfigFault { .. } => "open",
            Gate::HalfOpen { .. } | Gate::Probing { .. } => "probing",
        };
        if state == "probing" && matches!(gate.from, Gate::HalfOpen { .. } | Gate::Probing { .. }) {
            return;
        }
        self.moves.with_label_values(&[provider, model, state]).inc();
    }
}

/// Provider and model of every endpoint whose provider is on.
pub(super) fn endpoints_of(catalog: &Catalog) -> HashSet<[&str; 2]> {
    let is_on = |endpoint: &&Endpoint| catalog.provider_of(endpoint).is_some_and(|provider| provider.is_on());
    catalog.endpoints.iter().filter(is_on).map(|endpoint| labels(catalog, endpoint)).collect()
}

/// Outcomes whose series exist before the first attempt. Faults of clients and of the gateway's own limits get theirs
/// when they first occur, because a scrape has to stay small.
fn usual_outcomes() -> impl Iterator<Item = &'static str> {
    let of_provider = FailureKind::ALL.into_iter().filter(|kind| kind.blame() == Blame::Provider);
    let failures = of_provider.chain([FailureKind::Auth]).map(FailureKind::as_str);
    ["ok", AttemptRecord::CANCELLED, AttemptRecord::LOST_RACE].into_iter().chain(failures)
}

/// Removes all series whose values of the labels `names` are not known.
pub(super) fn retain<B: MetricVecBuilder, const N: usize>(
    metric: &MetricVec<B>,
    names: [&str; N],
    known: &HashSet<[&str; N]>,
) where
    MetricVec<B>: Collector,
{
    for family in metric.collect() {
        for series in family.get_metric() {
            let labels: HashMap<&str, &str> =
                series.get_label().iter().map(|label| (label.name(), label.value())).collect();
            if !known.contains(&names.map(|name| labels.get(name).copied().unwrap_or_default())) {
                let _ = metric.remove(&labels);
            }
        }
    }
}

/// The labels of an endpoint: slug of its provider, id of its model.
pub(crate) fn labels<'c>(catalog: &'c Catalog, endpoint: &Endpoint) -> [&'c str; 2] {
    let provider = catalog.provider_of(endpoint).map_or("", |provider| provider.slug.as_str());
    let model = catalog.model_of(endpoint).map_or("", |model| model.id.as_str());
    [provider, model]
}

/// An attempt ended.
pub struct AttemptEnded<'a> {
    /// The catalog its position points into.
    pub catalog: &'a Catalog,
    /// The endpoint's position.
    pub endpoint: u32,
    /// How it ended.
    pub end: &'a EventKind,
    /// Details beyond the kind of the result.
    pub ending: Ending<'a>,
}

/// Details of an attempt's result beyond its kind.
#[derive(Clone, Copy)]
pub enum Ending<'a> {
    /// Nothing.
    Ordinary,
    /// Why it failed.
    Because(FailureLog<'a>),
    /// It was cancelled because another attempt was quicker.
    LostRace,
}

/// Why an attempt failed, for the log alone.
#[derive(Clone, Copy)]
pub struct FailureLog<'a> {
    /// Description of the failure. Contains no text of the provider.
    pub detail: &'a str,
    /// The generation the attempt was made for.
    pub generation: GenerationId,
}

impl std::fmt::Display for FailureLog<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        write!(f, " [{}]", self.generation)
    }
}

impl AttemptEnded<'_> {
    /// Counts the attempt. Logs a provider failure at `info`, a failure of the gateway at `warn`.
    pub fn emit(&self, metrics: &Metrics) {
        let metrics = &metrics.endpoints;
        let Some(endpoint) = self.catalog.endpoint(self.endpoint) else { return };
        let [provider, model] = labels(self.catalog, endpoint);
        let outcome = match *self.end {
            EventKind::Completed { streamed, first_token, total, completion_tokens, hidden_tokens, .. } => {
                let name = if streamed { "true" } else { "false" };
                metrics.duration.with_label_values(&[provider, model, name]).observe(total.as_secs_f64());
                if streamed {
                    metrics.first_token.with_label_values(&[provider, model]).observe(first_token.as_secs_f64());
                    let later_tokens = completion_tokens.saturating_sub(hidden_tokens).saturating_sub(1);
                    if later_tokens > 0 {
                        let pace = total.saturating_sub(first_token).as_secs_f64() / f64::from(later_tokens);
                        metrics.per_token.with_label_values(&[provider, model]).observe(pace);
                    }
                }
                "ok"
            }
            EventKind::Failed { ref failure, .. } => {
                self.log_failure(provider, model, failure);
                failure.kind.as_str()
            }
            EventKind::Cancelled { .. } => match self.ending {
                Ending::LostRace => AttemptRecord::LOST_RACE,
                Ending::Ordinary | Ending::Because(_) => AttemptRecord::CANCELLED,
            },
            EventKind::Dispatched | EventKind::FirstToken { .. } => return,
        };
        metrics.attempts.with_label_values(&[provider, model, outcome]).inc();
    }

    fn log_failure(&self, provider: &str, model: &str, failure: &Failure) {
        let kind = failure.kind.as_str();
        let cause = match self.ending {
            Ending::Because(cause) => cause.to_string(),
            Ending::Ordinary | Ending::LostRace => String::new(),
        };
        if failure.kind == FailureKind::Shortage {
            // Only the operator can repair this, and only this log line reports it.
            log::warn!(
                event = "attempt_failed", provider = provider, model = model;
                "{model} at {provider} could not be called, the gateway lacks descriptors, ports or memory{cause}"
            );
        } else {
            log::info!(event = "attempt_failed", provider = provider, model = model; "{model} at {provider} failed: {kind}{cause}");
        }
    }
}

/// A breaker opened or closed.
pub struct BreakerMoved<'a> {
    /// The catalog its position points into.
    pub catalog: &'a Catalog,
    /// The change.
    pub change: BreakerChange,
}

impl BreakerMoved<'_> {
    /// Updates the gauge of each changed gate. Logs an open circuit at `warn`, a configuration fault at `error`, and other
    /// changes at `info`.
    pub fn emit(&self, metrics: &Metrics) {
        let Some(endpoint) = self.catalog.endpoint(self.change.index) else { return };
        let [provider, model] = labels(self.catalog, endpoint);
        if let Some(gate) = self.change.endpoint_gate {
            metrics.endpoints.count_move([provider, model], gate);
            self.log(&format!("{model} at {provider}"), gate);
        }
        if let Some(gate) = self.change.provider_gate {
            metrics.endpoints.count_move([provider, ""], gate);
            self.log(provider, gate);
        }
    }

    fn log(&self, subject: &str, gate: GateChange) {
        let cause = self.change.cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
        match gate.to {
            Gate::Passing => log::info!(event = "breaker"; "{subject}: in service again"),
            Gate::HalfOpen { .. } | Gate::Probing { .. } => log::info!(event = "breaker"; "{subject}: probing"),
            Gate::Cooling { until } => {
                log::info!(event = "breaker"; "{subject}: cooling down for {}{cause}", seconds_to(until))
            }
            Gate::Open { until } => {
                log::warn!(event = "breaker"; "{subject}: circuit open for {}{cause}", seconds_to(until))
            }
            Gate::ConfigFault { until } => log::error!(
                event = "breaker";
                "{subject}: the provider does not accept the configured key, account or model name{cause}; next attempt in {}",
                seconds_to(until)
            ),
        }
    }
}

/// Time until `until`, such as `5.0 s`.
fn seconds_to(until: Tick) -> String {
    format!("{:.1} s", (until - clock::now()).as_secs_f64())
}
