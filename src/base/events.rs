//! Events: each event updates its metrics and, where an operator needs to read it, writes one log line.
//! Labels come from closed sets: configured slugs, model ids and the gateway's own codes. Events contain no keys, no
//! prompts and no text of providers.

mod instruments;
mod life;

use std::time::Duration;

use pointsman_actors::{
    domain::{AttemptRecord, Catalog, Endpoint, EventKind, Failure, FailureKind, Generation, GenerationId, Tick, Usd},
    stats::{BreakerChange, Gate, GateChange},
};
use prometheus::{
    CounterVec, Encoder as _, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    TextEncoder, proto::MetricFamily,
};

use crate::base::{clock, load_reading::LoadReading};

use instruments::Instruments;
use life::LifeMetrics;
pub use life::{ActorReplaced, ActorSilent, Administered, ConfigInForce};

/// Prefix of all metric names.
pub(crate) const PREFIX: &str = "pointsman";
/// Buckets of the histograms for time to first token and total time, in seconds.
const SECONDS: [f64; 14] = [0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 120.0];
/// Buckets of the histogram for the gateway's own time, in seconds.
const OVERHEAD: [f64; 10] = [0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2];

/// All metrics of `/metrics`.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    attempts: IntCounterVec,
    first_token: HistogramVec,
    duration: HistogramVec,
    overhead: Histogram,
    prompt_tokens: IntCounter,
    completion_tokens: IntCounter,
    cost: prometheus::Counter,
    hedges: IntCounterVec,
    hedge_cost: prometheus::Counter,
    compared_cost: CounterVec,
    budget_spent: IntCounterVec,
    panics: IntCounter,
    gauges: Gauges,
    pub(crate) life: LifeMetrics,
}

/// The gauges.
struct Gauges {
    circuit: IntGaugeVec,
    silent: IntGaugeVec,
    in_flight: IntGauge,
    mailbox_depth: IntGaugeVec,
    ledger_records: IntGauge,
    dropped_events: IntGauge,
    dropped_records: IntGauge,
    body_bytes: IntGauge,
    connections: IntGauge,
    shed: IntGaugeVec,
}

impl Gauges {
    fn new(make: &Instruments<'_>) -> Result<Gauges, prometheus::Error> {
        let circuit = "1 while the breaker of an endpoint is not closed";
        let silent = "1 while an endpoint counts as silent because of its unanswered requests";
        let depth = "Batches waiting in the mailbox of a control actor";
        let shed = "Calls refused since the start because a limit of the gateway was reached";
        Ok(Gauges {
            circuit: make.gauges("circuit_open", circuit, &["provider", "model"])?,
            silent: make.gauges("endpoint_silent", silent, &["provider", "model"])?,
            in_flight: make.gauge("in_flight_requests", "Inference calls in progress")?,
            mailbox_depth: make.gauges("mailbox_depth", depth, &["actor"])?,
            ledger_records: make.gauge("ledger_records", "Generations in the ledger")?,
            dropped_events: make
                .gauge("dropped_events", "Statistics events dropped because an event buffer was full")?,
            dropped_records: make
                .gauge("dropped_records", "Records of generations dropped because an event buffer was full")?,
            body_bytes: make.gauge(
                "buffered_body_bytes",
                "Buffered bytes of answers and of request bodies, counted three times each",
            )?,
            connections: make.gauge("client_connections", "Client connections")?,
            shed: make.gauges("shed_requests", shed, &["reason"])?,
        })
    }
}

/// Gauge values that are read when `/metrics` is requested.
pub struct GaugeReadings {
    /// Inference calls in progress.
    pub in_flight: u32,
    /// Batches that wait in the mailbox of the health actor.
    pub health_depth: usize,
    /// Batches that wait in the mailbox of the ledger.
    pub ledger_depth: usize,
    /// Records held by the ledger; `None` when it did not answer, and the last known number stays.
    pub ledger_records: Option<usize>,
    /// Events dropped because the event buffer of a worker was full, since the start.
    pub dropped_events: u64,
    /// Records dropped because all event buffers were full, since the start.
    pub dropped_records: u64,
    /// Bytes, connections and refusals.
    pub load: LoadReading,
}

impl Metrics {
    /// All metrics at zero.
    ///
    /// # Errors
    /// When the registry refuses a name, which a test rules out.
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let registry = Registry::new_custom(Some(PREFIX.to_owned()), None)?;
        let make = Instruments(&registry);
        let tokens = make.counters("tokens_total", "Tokens billed", &["kind"])?;
        let first_token = "Time from dispatch to first content, or to the head of a plain answer";
        let late = "Hedges by phase and result";
        Ok(Metrics {
            requests: make.counters("requests_total", "Answered calls", &["route", "status"])?,
            attempts: make.counters(
                "upstream_attempts_total",
                "Upstream attempts",
                &["provider", "model", "outcome"],
            )?,
            first_token: make.times_of_endpoints("ttft_seconds", first_token, &SECONDS)?,
            duration: make.times_of_endpoints(
                "generation_seconds",
                "Time from dispatch to the last byte of a complete answer",
                &SECONDS,
            )?,
            overhead: make.times("overhead_seconds", "The gateway's own time per answered call", &OVERHEAD)?,
            prompt_tokens: tokens.with_label_values(&["prompt"]),
            completion_tokens: tokens.with_label_values(&["completion"]),
            cost: make.dollars("cost_usd_total", "Dollars billed, lost and failed attempts included")?,
            hedges: make.counters("hedges_total", late, &["outcome"])?,
            hedge_cost: make.dollars("hedge_cost_usd_total", "Dollars billed for attempts that lost a race")?,
            compared_cost: make.dollars_by(
                "compared_cost_usd_total",
                "Dollars of answers whose provider reported a cost: as computed here and as reported there",
                &["provider", "source"],
            )?,
            budget_spent: make.counters(
                "budget_spent_total",
                "Attempts not made because their budget was spent",
                &["budget"],
            )?,
            panics: make.counter("panics_total", "Handlers that panicked")?,
            gauges: Gauges::new(&make)?,
            life: LifeMetrics::new(&make)?,
            registry,
        })
    }

    /// Writes the current values into the gauges.
    pub fn observe(&self, readings: &GaugeReadings) {
        self.gauges.in_flight.set(i64::from(readings.in_flight));
        self.gauges.dropped_events.set(i64::try_from(readings.dropped_events).unwrap_or(i64::MAX));
        self.gauges.dropped_records.set(i64::try_from(readings.dropped_records).unwrap_or(i64::MAX));
        self.gauges.body_bytes.set(gauge_value(readings.load.buffered_bytes));
        self.gauges.connections.set(gauge_value(readings.load.connections));
        for (why, count) in readings.load.shed {
            self.gauges.shed.with_label_values(&[why.as_str()]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        for (actor, depth) in [("health", readings.health_depth), ("ledger", readings.ledger_depth)] {
            self.gauges.mailbox_depth.with_label_values(&[actor]).set(gauge_value(depth));
        }
        if let Some(records) = readings.ledger_records {
            self.gauges.ledger_records.set(gauge_value(records));
        }
    }

    /// Updates the gauge of silent endpoints, by their labels. Endpoints that are not given are removed.
    pub fn observe_silence<'e>(&self, endpoints: impl Iterator<Item = ([&'e str; 2], bool)>) {
        self.gauges.silent.reset();
        for (labels, silent) in endpoints {
            self.gauges.silent.with_label_values(&labels).set(i64::from(silent));
        }
    }

    /// All metrics and `others` in the Prometheus text format, version 0.0.4.
    ///
    /// # Errors
    /// When the encoder fails.
    pub fn render(&self, others: &[MetricFamily]) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        TextEncoder::new().encode(others, &mut text)?;
        Ok(text)
    }
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The labels of an endpoint: slug of its provider, id of its model.
pub(crate) fn labels<'c>(catalog: &'c Catalog, endpoint: &Endpoint) -> [&'c str; 2] {
    let provider = catalog.provider_of(endpoint).map_or("", |provider| provider.slug.as_str());
    let model = catalog.model_of(endpoint).map_or("", |model| model.id.as_str());
    [provider, model]
}

/// A call was answered, with success or an error.
pub struct Answered<'a> {
    /// The pattern of its path; `None` for a path that does not exist.
    pub route: Option<&'a str>,
    /// Status of the answer.
    pub status: u16,
    /// Time from reading the request head to the start of the answer.
    pub took: Duration,
    /// Its id.
    pub request_id: &'a str,
    /// The generation it created, if any.
    pub generation: Option<&'a str>,
}

impl Answered<'_> {
    /// Counts the call and logs it at `debug`.
    pub fn emit(&self, metrics: &Metrics) {
        let mut digits = [0_u8; 3];
        let status = three_digits(self.status, &mut digits);
        metrics.requests.with_label_values(&[self.route.unwrap_or("none"), status]).inc();
        log::debug!(
            "{} {status} in {:.1} ms ({}{}{})",
            self.route.unwrap_or("unknown path"),
            self.took.as_secs_f64() * 1e3,
            self.request_id,
            if self.generation.is_some() { ", " } else { "" },
            self.generation.unwrap_or_default()
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
        let Some(endpoint) = self.catalog.endpoint(self.endpoint) else { return };
        let [provider, model] = labels(self.catalog, endpoint);
        let outcome = match self.end {
            EventKind::Completed { first_token, total, .. } => {
                metrics.first_token.with_label_values(&[provider, model]).observe(first_token.as_secs_f64());
                metrics.duration.with_label_values(&[provider, model]).observe(total.as_secs_f64());
                "ok"
            }
            EventKind::Failed { failure, .. } => {
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
                "{model} at {provider} could not be called, the gateway lacks descriptors, ports or memory{cause}"
            );
        } else {
            log::info!("{model} at {provider} failed: {kind}{cause}");
        }
    }
}

/// The head of a successful answer is ready.
pub struct AnswerBegan {
    /// The gateway's own time so far: total time minus the wait for upstreams.
    pub overhead: Duration,
}

impl AnswerBegan {
    /// Records the overhead.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.overhead.observe(self.overhead.as_secs_f64());
    }
}

/// Phases and results of a hedge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeEnd {
    /// It began. One of the other values follows.
    Started,
    /// It answered the client.
    Won,
    /// The other attempt was faster.
    Lost,
    /// It failed.
    Failed,
    /// The client left while both ran.
    Cancelled,
}

impl HedgeEnd {
    const fn as_str(self) -> &'static str {
        match self {
            HedgeEnd::Started => "started",
            HedgeEnd::Won => "won",
            HedgeEnd::Lost => "lost",
            HedgeEnd::Failed => "failed",
            HedgeEnd::Cancelled => "cancelled",
        }
    }
}

/// A hedge began or ended.
pub struct Hedged {
    /// Its phase or result.
    pub end: HedgeEnd,
}

impl Hedged {
    /// Counts the hedge.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.hedges.with_label_values(&[self.end.as_str()]).inc();
    }
}

/// An attempt was not made because its budget was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetSpent {
    /// An attempt at an endpoint with an open circuit, or a second attempt next to an overdue one.
    Retry,
    /// A second attempt next to a late one.
    Hedge,
    /// A further attempt after all attempts that need no budget failed.
    LastResort,
}

impl BudgetSpent {
    /// Counts the attempt that was not made.
    pub fn emit(self, metrics: &Metrics) {
        let budget = match self {
            BudgetSpent::Retry => "retry",
            BudgetSpent::Hedge => "hedge",
            BudgetSpent::LastResort => "last_resort",
        };
        metrics.budget_spent.with_label_values(&[budget]).inc();
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
            metrics.gauges.circuit.with_label_values(&[provider, model]).set(i64::from(gate.to != Gate::Passing));
            self.log(&format!("{model} at {provider}"), gate);
        }
        if let Some(gate) = self.change.provider_gate {
            metrics.gauges.circuit.with_label_values(&[provider, ""]).set(i64::from(gate.to != Gate::Passing));
            self.log(provider, gate);
        }
    }

    fn log(&self, subject: &str, gate: GateChange) {
        let cause = self.change.cause.map(|cause| format!(" ({cause})")).unwrap_or_default();
        match gate.to {
            Gate::Passing => log::info!("{subject}: in service again"),
            Gate::HalfOpen { .. } | Gate::Probing { .. } => log::info!("{subject}: probing"),
            Gate::Cooling { until } => log::info!("{subject}: cooling down for {}{cause}", seconds_to(until)),
            Gate::Open { until } => log::warn!("{subject}: circuit open for {}{cause}", seconds_to(until)),
            Gate::ConfigFault { until } => log::error!(
                "{subject}: the provider does not accept the configured key or model name{cause}; next attempt in {}",
                seconds_to(until)
            ),
        }
    }
}

/// Time until `until`, such as `5.0 s`.
fn seconds_to(until: Tick) -> String {
    format!("{:.1} s", (until - clock::now()).as_secs_f64())
}

/// A generation ended.
pub struct GenerationEnded<'a> {
    /// Its record.
    pub generation: &'a Generation,
}

impl GenerationEnded<'_> {
    /// Counts its tokens and dollars; logs it at `debug`.
    pub fn emit(&self, metrics: &Metrics) {
        let Generation { id, usage, status, .. } = self.generation;
        metrics.prompt_tokens.inc_by(usage.prompt_tokens);
        metrics.completion_tokens.inc_by(usage.completion_tokens);
        metrics.cost.inc_by(self.generation.known_spending().to_f64().max(0.0));
        if self.generation.hedged() {
            metrics.hedge_cost.inc_by(self.generation.hedge_cost().unwrap_or_default().to_f64().max(0.0));
        }
        self.compare_costs(metrics);
        let request_id = &self.generation.request_id;
        if status.is_failure() {
            log::info!("{id} failed after {} attempts ({request_id})", self.generation.attempts.len());
        } else {
            log::debug!("{id} {} ({request_id})", status.as_str());
        }
    }
}

impl GenerationEnded<'_> {
    /// Shows how far the prices in the configuration are from those that the provider bills.
    fn compare_costs(&self, metrics: &Metrics) {
        let Generation { usage, provider_slug: Some(provider), .. } = self.generation else { return };
        let Some((computed, reported)) = self.generation.total_cost().zip(usage.reported_cost) else { return };
        if !usage.estimated {
            let count = |source, cost: Usd| {
                metrics.compared_cost.with_label_values(&[&**provider, source]).inc_by(cost.to_f64().max(0.0));
            };
            count("computed", computed);
            count("reported", reported);
        }
    }
}

/// A handler panicked. The message went to the panic hook, not to the client.
pub struct Panicked<'a> {
    /// The call it was serving.
    pub request_id: &'a str,
}

impl Panicked<'_> {
    /// Counts the panic and logs it at `error`.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.panics.inc();
        log::error!("a handler panicked while serving {}", self.request_id);
    }
}
