//! Events: each event updates its metrics and, where an operator needs to read it, writes one log line.
//! Labels come from closed sets: configured slugs, model ids and the gateway's own codes. Events contain no keys, no
//! prompts and no text of providers.

mod alerts;
mod decisions;
mod endpoints;
mod families;
#[expect(clippy::disallowed_methods, reason = "a counter of Prometheus is a float")]
mod generations;
mod instruments;
mod keys;
mod life;
mod process;
mod spans;

use std::{sync::Arc, time::Duration};

use pointsman_base::clock;
use pointsman_domain::{CascadeSignal, Catalog};
use prometheus::{
    Encoder as _, Histogram, IntCounter, IntCounterVec, IntGauge, Registry, TextEncoder, core::Collector as _,
    proto::MetricFamily,
};

use crate::base::{build, log_output};

use alerts::AlertMetrics;
pub use alerts::AlertResult;
use decisions::DecisionMetrics;
use endpoints::EndpointMetrics;
pub(crate) use endpoints::labels;
pub use endpoints::{AttemptEnded, BreakerMoved, Ending, FailureLog};
pub(crate) use families::Families;
pub use generations::GenerationEnded;
use generations::GenerationMetrics;
use instruments::Instruments;
use keys::KeyMetrics;
pub(crate) use keys::MOST_KEYS;
use life::LifeMetrics;
pub use life::{CanaryFellBack, QualityDrifted, administered, console_login};
pub use spans::{SpanCounts, SpanLoss};

/// Prefix of all metric names.
const PREFIX: &str = "pointsman";
/// Buckets of the histogram for the gateway's own time, in seconds.
const OVERHEAD: [f64; 10] = [0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2];

/// Reasons of refused calls whose series exist from the start.
const COMMON_REFUSALS: [&str; 8] = [
    "no_candidates",
    "model_not_found",
    "context_length_exceeded",
    "invalid_key",
    "key_limit",
    "account_limit",
    "team_limit",
    "gateway_requests",
];

/// Ends of the paths of inference calls.
const INFERENCE: [&str; 6] =
    ["/completions", "/messages", "/responses", "/embeddings", "/images/generations", "/images"];

/// All metrics of `/metrics`.
pub struct Metrics {
    registry: Registry,
    /// Unix seconds.
    started: f64,
    requests: IntCounterVec,
    refused: IntCounterVec,
    overhead: Histogram,
    hedges: IntCounterVec,
    withheld: IntCounterVec,
    waits: IntCounterVec,
    cascades: IntCounterVec,
    panics: IntCounter,
    ledger_records: IntGauge,
    endpoints: EndpointMetrics,
    generations: GenerationMetrics,
    decisions: DecisionMetrics,
    keys: KeyMetrics,
    pub(crate) life: LifeMetrics,
    pub(crate) alerts: AlertMetrics,
    /// Spans sent and lost.
    pub spans: SpanCounts,
}

impl Metrics {
    /// All metrics at zero.
    ///
    /// # Errors
    /// When the registry refuses a name, which a test rules out.
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let registry = Registry::new_custom(Some(PREFIX.to_owned()), None)?;
        let make = Instruments(&registry);
        let hedges = make.counters("hedges_total", "Hedges by phase and result", &["outcome"])?;
        for end in HedgeEnd::ALL {
            let _ = hedges.with_label_values(&[end.as_str()]);
        }
        let withheld = "Attempts not made because the budget of their kind was spent";
        let withheld = make.counters("attempts_withheld_total", withheld, &["budget"])?;
        for budget in BudgetSpent::ALL {
            let _ = withheld.with_label_values(&[budget.as_str()]);
        }
        let waits =
            make.counters("waits_total", "Waits for an endpoint to take requests again, by their end", &["outcome"])?;
        for end in WaitEnd::ALL {
            let _ = waits.with_label_values(&[end.as_str()]);
        }
        let cascades = "Broken answers of aliases with a cascade, by what was wrong and by what became of them";
        let cascades = make.counters("cascades_total", cascades, &["signal", "outcome"])?;
        for (signal, end) in CascadeSignal::ALL.into_iter().flat_map(|signal| CascadeEnd::ALL.map(|end| (signal, end)))
        {
            let _ = cascades.with_label_values(&[signal.as_str(), end.as_str()]);
        }
        let refused =
            "Inference calls refused before an endpoint was called, by the reason of the error; no generations";
        let refused = make.counters("refused_requests_total", refused, &["reason"])?;
        for reason in COMMON_REFUSALS {
            let _ = refused.with_label_values(&[reason]);
        }
        let build = make.gauges("build_info", "1; what runs, as labels", &["version", "revision"])?;
        build.with_label_values(&[build::VERSION, build::REVISION]).set(1);
        Ok(Metrics {
            started: clock::unix_millis() as f64 / 1e3,
            requests: make.counters(
                "requests_total",
                "Answered calls by the pattern of their path; none: a path that does not exist",
                &["route", "status"],
            )?,
            refused,
            overhead: make.times(
                "overhead_seconds",
                "The gateway's own time up to the head of a successful answer, without the wait for providers",
                &OVERHEAD,
            )?,
            hedges,
            withheld,
            waits,
            cascades,
            panics: make.counter("panics_total", "Handlers that panicked")?,
            ledger_records: make.gauge("ledger_records", "Generations in the ledger")?,
            endpoints: EndpointMetrics::new(&make)?,
            generations: GenerationMetrics::new(&make)?,
            decisions: DecisionMetrics::new(&make)?,
            keys: KeyMetrics::new(&make)?,
            life: LifeMetrics::new(&make)?,
            alerts: AlertMetrics::new(&make)?,
            spans: SpanCounts::new(&make)?,
            registry,
        })
    }

    /// Creates the series of the endpoints and keys of a configuration that comes into force, and removes those of
    /// others. Keys are given by number and name.
    pub fn adopt(&self, catalog: &Catalog, keys: impl Iterator<Item = (u64, Arc<str>)>) {
        self.endpoints.adopt(catalog);
        self.generations.adopt(catalog);
        self.keys.adopt(keys);
    }

    /// Names the series of these keys, given by number and name, if they are other keys than before.
    pub fn name_keys(&self, keys: impl Iterator<Item = (u64, Arc<str>)>) {
        self.keys.adopt_if_changed(keys);
    }

    /// Inference calls refused before an endpoint was called: how often for each reason that there was.
    pub fn refused(&self) -> Vec<(String, u64)> {
        let families = self.refused.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        let counts = series.filter_map(|series| {
            let reason = series.get_label().first()?.value().to_owned();
            Some((reason, series.get_counter().get_value() as u64))
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Handlers that panicked since the start.
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// Number of records in the ledger. Where it is not known, the last known number stays.
    pub fn observe_ledger(&self, records: usize) {
        self.ledger_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// All metrics and `scraped` in the Prometheus text format, version 0.0.4.
    ///
    /// # Errors
    /// When the encoder fails.
    pub fn render(&self, scraped: &[MetricFamily]) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        for families in [&self.registry.gather(), scraped, &process::families(self.started)] {
            TextEncoder::new().encode(families, &mut text)?;
        }
        Ok(text)
    }

    /// The head of a successful answer is ready: records the gateway's own time so far, which is total time minus the wait
    /// for upstreams.
    pub fn answer_began(&self, overhead: Duration) {
        self.overhead.observe(overhead.as_secs_f64());
    }

    /// A handler panicked, whose message went to the panic hook, not to the client: counts it and logs it at `error`.
    pub fn panicked(&self, request_id: &str) {
        self.panics.inc();
        log::error!(event = "panic", request_id = request_id; "a handler panicked while serving {request_id}");
    }
}

/// A call was answered, with success or an error.
pub struct Answered<'a> {
    /// The pattern of its path; `None` for a path that does not exist.
    pub route: Option<&'a str>,
    /// Status of the answer.
    pub status: u16,
    /// Time from reading the request head to the start of the answer.
    pub took: Duration,
    /// Reason of the error, if it is one.
    pub reason: Option<&'static str>,
    /// Its id.
    pub request_id: &'a str,
    /// The generation it created, if any.
    pub generation: Option<&'a str>,
    /// Number of the caller's key; `None` without a valid one.
    pub key: Option<u64>,
    /// Name of the caller's key.
    pub key_name: Option<&'a str>,
}

impl Answered<'_> {
    /// Counts the call and logs it at `debug`.
    pub fn emit(&self, metrics: &Metrics) {
        let mut digits = [0_u8; 3];
        let status = three_digits(self.status, &mut digits);
        metrics.requests.with_label_values(&[self.route.unwrap_or("none"), status]).inc();
        if let Some(key) = self.key {
            metrics.keys.count_request(key, self.status);
        }
        if self.is_refused_call() {
            metrics.refused.with_label_values(&[self.reason.unwrap_or("unknown")]).inc();
            self.log_refused_call(status);
        }
        log::debug!(
            request_id = self.request_id, generation_id = self.generation.unwrap_or_default(), status = self.status;
            "{} {status} in {:.1} ms ({}{}{})",
            self.route.unwrap_or("unknown path"),
            self.took.as_secs_f64() * 1e3,
            self.request_id,
            if self.generation.is_some() { ", " } else { "" },
            self.generation.unwrap_or_default()
        );
    }
}

impl Answered<'_> {
    /// Whether it is an inference call that was refused before there was a generation; others are counted at their end.
    pub(crate) fn is_refused_call(&self) -> bool {
        let is_inference = |route: &str| INFERENCE.iter().any(|end| route.ends_with(end));
        self.generation.is_none() && self.status >= 400 && self.route.is_some_and(is_inference)
    }

    fn log_refused_call(&self, status: &str) {
        if !log_output::logs_requests() {
            return;
        }
        let route = self.route.unwrap_or_default();
        let ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        log::info!(
            event = "call",
            request_id = self.request_id,
            key = self.key_name.unwrap_or_default(),
            route = route,
            status = self.status,
            ms = ms;
            "refused with {status} in {ms} ms: {route} ({})",
            self.request_id
        );
    }
}

/// A status as text, without allocating on every call.
fn three_digits(status: u16, digits: &mut [u8; 3]) -> &str {
    for (digit, unit) in digits.iter_mut().zip([100, 10, 1]) {
        *digit = b'0' + ((status / unit) % 10) as u8;
    }
    std::str::from_utf8(digits).unwrap_or("000")
}

pointsman_domain::named! {
    /// Phases and results of a hedge.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum HedgeEnd {
        /// It began. One of the other values follows.
        Started = "started",
        /// It answered the client.
        Won = "won",
        /// The other attempt was faster.
        Lost = "lost",
        /// It failed.
        Failed = "failed",
        /// The client left while both ran.
        Cancelled = "cancelled",
    }
}

impl HedgeEnd {
    /// Counts the hedge.
    pub fn emit(self, metrics: &Metrics) {
        metrics.hedges.with_label_values(&[self.as_str()]).inc();
    }
}

pointsman_domain::named! {
    /// An attempt was not made because its budget was spent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum BudgetSpent {
        /// An attempt at an endpoint with an open circuit, or a second attempt next to an overdue one.
        Retry = "retry",
        /// A second attempt next to a late one.
        Hedge = "hedge",
        /// A further attempt after all attempts that need no budget failed.
        LastResort = "last_resort",
    }
}

impl BudgetSpent {
    /// Counts the attempt that was not made.
    pub fn emit(self, metrics: &Metrics) {
        metrics.withheld.with_label_values(&[self.as_str()]).inc();
    }
}

pointsman_domain::named! {
    /// How the wait of a call for an endpoint to take requests again ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum WaitEnd {
        /// An attempt started.
        Reopened = "reopened",
        /// No endpoint took the call in its time.
        Expired = "expired",
        /// The client left.
        Left = "left",
        /// As many calls waited as may wait.
        Refused = "refused",
    }
}

impl WaitEnd {
    /// Counts the wait.
    pub fn emit(self, metrics: &Metrics) {
        metrics.waits.with_label_values(&[self.as_str()]).inc();
    }
}

pointsman_domain::named! {
    /// What became of a broken answer of an alias with a cascade.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CascadeEnd {
        /// The client got the second answer.
        Answered = "answered",
        /// There was no second answer, so the client got the first.
        Failed = "failed",
        /// No endpoint could be asked for a second answer.
        NoCandidate = "no_candidate",
        /// The hourly budget had no room for a second answer.
        OverBudget = "over_budget",
        /// The client left.
        Left = "left",
    }
}

impl CascadeEnd {
    /// Counts the answer, which is broken by `signal`.
    pub fn emit(self, signal: CascadeSignal, metrics: &Metrics) {
        metrics.cascades.with_label_values(&[signal.as_str(), self.as_str()]).inc();
    }
}
