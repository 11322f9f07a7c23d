//! The end of a generation: results, times that the client saw, tokens and dollars.

use std::{sync::Arc, time::Duration};

use log::kv;
use pointsman_domain::{Catalog, DecisionCode, Generation, GenerationStatus, Objective, Usage, Usd, named};
use prometheus::{Counter, CounterVec, Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::{
    Metrics,
    endpoints::{self, ENDPOINT, FIRST_TOKEN, WHOLE_ANSWER},
    instruments::Instruments,
};
use crate::base::log_output;

named! {
    /// Result of a generation in `generations_total`. In `request_seconds` a broken stream is a failure like others.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum GenerationResult {
        Ok = "ok",
        Rescued = "rescued",
        Failed = "failed",
        Cancelled = "cancelled",
        Truncated = "truncated",
    }
}

/// Those in `request_seconds`.
const TIMED_RESULTS: [GenerationResult; 4] =
    [GenerationResult::Ok, GenerationResult::Rescued, GenerationResult::Failed, GenerationResult::Cancelled];
/// Kinds of tokens. The last three are parts of the first two.
const KINDS: [&str; 5] = ["prompt", "completion", "cache_read", "cache_write", "reasoning"];
/// Provider and model of costs that belong to no endpoint.
const NO_ENDPOINT: [&str; 2] = ["none", "none"];

/// Series of generations.
pub(super) struct GenerationMetrics {
    /// By result.
    results: Vec<IntCounter>,
    /// By objective, whether it was streamed, and result.
    duration: Vec<Histogram>,
    first_token: HistogramVec,
    /// By objective and code.
    decisions: Vec<IntCounter>,
    explored: IntCounter,
    standby: IntCounter,
    tokens: IntCounterVec,
    cost: CounterVec,
    hedge_cost: Counter,
    compared_cost: CounterVec,
}

impl GenerationMetrics {
    /// With the series whose labels are known.
    pub(super) fn new(make: &Instruments<'_>) -> Result<GenerationMetrics, prometheus::Error> {
        let results = make.counters(
            "generations_total",
            "Ended generations by result; rescued: complete although an attempt failed; truncated: a stream that broke",
            &["result"],
        )?;
        let duration = make.times_by(
            "request_seconds",
            "Time from the acceptance of a request to the last byte of its answer, failed attempts included",
            &["objective", "streamed", "result"],
            &WHOLE_ANSWER,
        )?;
        let decisions = make.counters(
            "decisions_total",
            "Ended generations by objective and by the code of the decision, or of the fallback that served",
            &["objective", "code"],
        )?;
        let of_objective = |objective: Objective| {
            let timed = move |streamed| TIMED_RESULTS.map(|result| [objective.as_str(), streamed, result.as_str()]);
            ["false", "true"].into_iter().flat_map(timed)
        };
        let decided = |objective: Objective| DecisionCode::ALL.map(|code| [objective.as_str(), code.as_str()]);
        let metrics = GenerationMetrics {
            results: GenerationResult::ALL.iter().map(|result| results.with_label_values(&[result.as_str()])).collect(),
            duration: Objective::ALL
                .into_iter()
                .flat_map(of_objective)
                .map(|labels| duration.with_label_values(&labels))
                .collect(),
            decisions: Objective::ALL
                .into_iter()
                .flat_map(decided)
                .map(|labels| decisions.with_label_values(&labels))
                .collect(),
            first_token: make.times_by(
                "request_ttft_seconds",
                "Time from the acceptance of a request to the first content of its stream, failed attempts included",
                &["objective"],
                &FIRST_TOKEN,
            )?,
            explored: make.counter("explored_total", "Ended generations whose decision was changed by exploration")?,
            standby: make.counter("standby_called_total", "Attempts at endpoints on standby")?,
            tokens: make.counters(
                "tokens_total",
                "Tokens of answers; cache_read and cache_write are parts of prompt, reasoning of completion",
                &["provider", "model", "kind"],
            )?,
            cost: make.dollars_by(
                "cost_usd_total",
                "Dollars billed, lost and failed attempts included; unknown prices are not",
                &["provider", "model"],
            )?,
            hedge_cost: make.dollars("hedge_cost_usd_total", "Dollars billed for attempts that lost a race")?,
            compared_cost: make.dollars_by(
                "compared_cost_usd_total",
                "Dollars of answers whose provider reported a cost: as computed here and as reported there",
                &["provider", "source"],
            )?,
        };
        for objective in Objective::ALL {
            let _ = metrics.first_token.with_label_values(&[objective.as_str()]);
        }
        Ok(metrics)
    }

    /// Creates the series of every endpoint and provider that is on, and removes those of others.
    pub(super) fn adopt(&self, catalog: &Catalog) {
        let mut endpoints = endpoints::endpoints_of(catalog);
        endpoints.insert(NO_ENDPOINT);
        for [provider, model] in &endpoints {
            let _ = self.cost.with_label_values(&[*provider, *model]);
        }
        for ([provider, model], kind) in endpoints.iter().flat_map(|it| KINDS.map(|kind| (it, kind))) {
            let _ = self.tokens.with_label_values(&[*provider, *model, kind]);
        }
        endpoints::retain(&self.cost, ENDPOINT, &endpoints);
        endpoints::retain(&self.tokens, ENDPOINT, &endpoints);
        let providers = endpoints.iter().map(|[provider, _]| [*provider]).collect();
        endpoints::retain(&self.compared_cost, ["provider"], &providers);
        for (provider, source) in
            providers.iter().flat_map(|[provider]| ["computed", "reported"].map(|it| (provider, it)))
        {
            let _ = self.compared_cost.with_label_values(&[*provider, source]);
        }
    }

    fn count(&self, ended: &GenerationEnded<'_>) {
        let generation = ended.generation;
        let result = result_of(generation);
        self.results.get(result as usize).into_iter().for_each(IntCounter::inc);
        let decision = &generation.decision;
        let objective = decision.objective.value;
        let timed = if result == GenerationResult::Truncated { GenerationResult::Failed } else { result };
        let times = 2 * objective as usize + usize::from(generation.streamed);
        let duration = self.duration.get(times * TIMED_RESULTS.len() + timed as usize);
        duration.into_iter().for_each(|duration| duration.observe(ended.took.as_secs_f64()));
        if let Some(first) = generation.latency_ms.filter(|_| generation.streamed) {
            self.first_token.with_label_values(&[objective.as_str()]).observe(first as f64 / 1e3);
        }
        let decided = objective as usize * DecisionCode::ALL.len() + generation.decision_code() as usize;
        self.decisions.get(decided).into_iter().for_each(IntCounter::inc);
        self.explored.inc_by(u64::from(decision.explored));
        let is_standby = |endpoint| decision.standby.iter().any(|candidate| candidate.index == endpoint);
        let standby = generation.attempts.iter().filter(|attempt| is_standby(attempt.endpoint)).count();
        self.standby.inc_by(standby as u64);
        self.count_usage(generation);
        self.count_cost(generation);
        self.compare_costs(generation);
    }

    fn count_usage(&self, generation: &Generation) {
        let Usage { prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, .. } =
            generation.usage;
        let counts = [prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens];
        let [provider, model] = endpoint_of(generation);
        for (kind, count) in KINDS.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
            self.tokens.with_label_values(&[provider, model, kind]).inc_by(count);
        }
    }

    /// Adds up to [`Generation::known_spending`].
    fn count_cost(&self, generation: &Generation) {
        let add = |[provider, model]: [&str; 2], cost: Usd| {
            if cost != Usd::ZERO {
                self.cost.with_label_values(&[provider, model]).inc_by(cost.to_f64().max(0.0));
            }
        };
        add(endpoint_of(generation), generation.total_cost().unwrap_or(Usd::ZERO));
        for attempt in generation.attempts.iter().filter(|attempt| !attempt.served) {
            add([&attempt.provider_slug, &attempt.model], attempt.cost.unwrap_or(Usd::ZERO));
        }
        if generation.hedged() {
            self.hedge_cost.inc_by(generation.hedge_cost().unwrap_or_default().to_f64().max(0.0));
        }
    }

    /// Shows how far the prices in the configuration are from those that the provider bills.
    fn compare_costs(&self, generation: &Generation) {
        let Generation { usage, provider_slug: Some(provider), .. } = generation else { return };
        let Some((computed, reported)) = generation.total_cost().zip(usage.reported_cost) else { return };
        if !usage.estimated {
            let count = |source, cost: Usd| {
                self.compared_cost.with_label_values(&[&**provider, source]).inc_by(cost.to_f64().max(0.0));
            };
            count("computed", computed);
            count("reported", reported);
        }
    }
}

/// Provider and model that served.
fn endpoint_of(generation: &Generation) -> [&str; 2] {
    match (&generation.provider_slug, &generation.model) {
        (Some(provider), Some(model)) => [provider, model],
        _ => NO_ENDPOINT,
    }
}

fn result_of(generation: &Generation) -> GenerationResult {
    match generation.status {
        GenerationStatus::Completed if generation.rescued() => GenerationResult::Rescued,
        GenerationStatus::Completed => GenerationResult::Ok,
        GenerationStatus::Truncated => GenerationResult::Truncated,
        GenerationStatus::Cancelled => GenerationResult::Cancelled,
        GenerationStatus::Failed | GenerationStatus::Running => GenerationResult::Failed,
    }
}

/// A generation ended.
pub struct GenerationEnded<'a> {
    /// Its record.
    pub generation: &'a Generation,
    /// Time since its request was accepted.
    pub took: Duration,
    /// Name of the key that called, where every call is logged.
    pub key_name: Option<Arc<str>>,
}

impl GenerationEnded<'_> {
    /// Counts its result, time, tokens and dollars; logs it at `debug`, a failure at `info`.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.generations.count(self);
        metrics.keys.count_cost(self.generation.key, self.generation.known_spending().to_f64());
        let Generation { id, status, request_id, .. } = self.generation;
        if log_output::logs_requests() {
            self.log_call();
        } else if status.is_failure() {
            let attempts = self.generation.attempts.len();
            let plural = if attempts == 1 { "" } else { "s" };
            log::info!("{id} failed after {attempts} attempt{plural} ({request_id})");
        } else {
            log::debug!("{id} {} ({request_id})", status.as_str());
        }
    }

    /// One line with everything that people look for. Fields that are not known are empty, and left out of JSON.
    fn log_call(&self) {
        let Generation { id, request_id, usage, provider_slug, model, requested_model, .. } = self.generation;
        let (provider, model) = (provider_slug.as_deref().unwrap_or_default(), model.as_deref().unwrap_or_default());
        let decision = &self.generation.decision;
        let result = result_of(self.generation).as_str();
        let ms = u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX);
        let first = self.generation.latency_ms.filter(|_| self.generation.streamed);
        let cost = self.generation.spent().map(|cost| cost.to_string()).unwrap_or_default();
        let served = match (model, provider) {
            ("", _) => format!("{requested_model}, served by none"),
            _ => format!("{model} at {provider}"),
        };
        let dollars = if cost.is_empty() { "unknown" } else { &cost };
        log::info!(
            event = "call",
            request_id = &**request_id,
            generation_id = id.as_str(),
            key = self.key_name.as_deref().unwrap_or_default(),
            result = result,
            ms = ms,
            requested_model = &**requested_model,
            model = model,
            provider = provider,
            objective = decision.objective.value.as_str(),
            code = self.generation.decision_code().as_str(),
            attempts = self.generation.attempts.len() as u64,
            ttft_ms = first.map_or(kv::Value::from(""), kv::Value::from),
            prompt_tokens = usage.prompt_tokens,
            completion_tokens = usage.completion_tokens,
            cost_usd = cost.as_str();
            "{result} in {ms} ms: {served}, {} + {} tokens, {dollars} USD ({id}, {request_id})",
            usage.prompt_tokens,
            usage.completion_tokens
        );
    }
}
