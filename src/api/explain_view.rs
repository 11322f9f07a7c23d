//! The wire shape of a route explanation: the eight published fields of a generation's route, and
//! every number behind them.

use chrono::{DateTime, SecondsFormat};
use pointsman_actors::domain::{AttemptRecord, Catalog, CostBreakdown, Generation, GenerationStatus, Usage};
use serde::Serialize;

use super::{
    number::{Dollars, Text},
    parameters_view::ParametersBody,
    route_view::{self, CandidateBody, EstimateBody, ExcludedBody, Places},
};

/// The answer to an explain call. Flat.
#[derive(Serialize)]
pub(crate) struct ExplainBody<'a> {
    generation_id: &'a str,
    model: Option<&'a str>,
    provider_name: Option<&'a str>,
    latency_ms: Option<u64>,
    generation_time_ms: Option<u64>,
    router: Option<&'a str>,
    total_cost: Dollars,
    decision_reason: &'a str,
    decision_code: &'static str,
    requested_model: &'a str,
    objective: &'static str,
    parameters: ParametersBody<'a>,
    estimate: EstimateBody,
    candidates: Vec<CandidateBody<'a>>,
    candidates_total: usize,
    excluded: Vec<ExcludedBody<'a>>,
    excluded_total: usize,
    attempts: Vec<AttemptBody<'a>>,
    cost_breakdown: CostBreakdownBody,
    created_at: String,
    status: &'static str,
    streamed: bool,
    finish_reason: Option<&'static str>,
    usage: UsageBody,
    dropped_parameters: Vec<&'a str>,
    explored: bool,
    /// Digits in a string: not every client can hold 64 bits in a number.
    route_seed: Text<u64>,
    snapshot_version: u64,
    catalog_version: u64,
    policy_version: u64,
}

#[derive(Serialize)]
struct AttemptBody<'a> {
    n: u32,
    model: &'a str,
    provider_name: &'a str,
    status: Option<u16>,
    error_type: Option<&'static str>,
    started_ms: u64,
    duration_ms: u64,
    connect_ms: Option<u64>,
    first_token_ms: Option<u64>,
}

/// The parts of the cost; they sum to the whole exactly.
#[derive(Serialize)]
struct CostBreakdownBody {
    prompt: Dollars,
    completion: Dollars,
    reasoning: Dollars,
    cache_read: Dollars,
    cache_write: Dollars,
    request: Dollars,
    image: Dollars,
    web_search: Dollars,
}

#[derive(Serialize)]
struct UsageBody {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    cost: Dollars,
    prompt_tokens_details: PromptDetailsBody,
    completion_tokens_details: CompletionDetailsBody,
    estimated: bool,
}

#[derive(Serialize)]
struct PromptDetailsBody {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetailsBody {
    reasoning_tokens: u64,
}

impl<'a> ExplainBody<'a> {
    /// The explanation of a generation; `reason` is the sentence that tells its decision.
    pub(crate) fn new(generation: &'a Generation, catalog: &'a Catalog, reason: &'a str) -> ExplainBody<'a> {
        let decision = &*generation.decision;
        let places = Places::new(catalog, decision.catalog_version);
        ExplainBody {
            generation_id: generation.id.as_str(),
            model: generation.model.as_deref(),
            provider_name: generation.provider_name.as_deref(),
            latency_ms: generation.latency_ms,
            generation_time_ms: generation
                .generation_time_ms
                .filter(|_| generation.status != GenerationStatus::Running),
            router: decision.router.as_deref(),
            total_cost: Dollars(generation.cost.total()),
            decision_reason: reason,
            decision_code: generation.decision_code().as_str(),
            requested_model: &generation.requested_model,
            objective: decision.objective.value.as_str(),
            parameters: ParametersBody::new(decision),
            estimate: EstimateBody::new(decision.prompt_tokens, decision.completion_tokens),
            candidates: route_view::candidates(decision, places, usize::MAX),
            candidates_total: decision.candidates.len(),
            excluded: route_view::excluded(&decision.excluded, places),
            excluded_total: decision.excluded.len(),
            attempts: generation.attempts.iter().map(AttemptBody::new).collect(),
            cost_breakdown: CostBreakdownBody::new(&generation.cost),
            created_at: rfc_3339(generation.created_ms),
            status: generation.status.as_str(),
            streamed: generation.streamed,
            finish_reason: generation.finish.map(|finish| finish.as_str()),
            usage: UsageBody::new(&generation.usage, &generation.cost),
            dropped_parameters: generation.dropped_parameters.iter().map(|name| &**name).collect(),
            explored: decision.explored,
            route_seed: Text(decision.seed),
            snapshot_version: decision.snapshot_version,
            catalog_version: decision.catalog_version,
            policy_version: decision.policy_version,
        }
    }
}

impl<'a> AttemptBody<'a> {
    fn new(attempt: &'a AttemptRecord) -> AttemptBody<'a> {
        AttemptBody {
            n: attempt.n,
            model: &attempt.model,
            provider_name: &attempt.provider_name,
            status: attempt.status,
            error_type: attempt.error_type,
            started_ms: attempt.started_ms,
            duration_ms: attempt.duration_ms,
            connect_ms: attempt.connect_ms,
            first_token_ms: attempt.first_token_ms,
        }
    }
}

impl CostBreakdownBody {
    fn new(cost: &CostBreakdown) -> CostBreakdownBody {
        CostBreakdownBody {
            prompt: Dollars(cost.prompt),
            completion: Dollars(cost.completion),
            reasoning: Dollars(cost.reasoning),
            cache_read: Dollars(cost.cache_read),
            cache_write: Dollars(cost.cache_write),
            request: Dollars(cost.request),
            image: Dollars(cost.image),
            web_search: Dollars(cost.web_search),
        }
    }
}

impl UsageBody {
    fn new(usage: &Usage, cost: &CostBreakdown) -> UsageBody {
        UsageBody {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens(),
            cost: Dollars(cost.total()),
            prompt_tokens_details: PromptDetailsBody {
                cached_tokens: usage.cached_tokens,
                cache_write_tokens: usage.cache_write_tokens,
            },
            completion_tokens_details: CompletionDetailsBody { reasoning_tokens: usage.reasoning_tokens },
            estimated: usage.estimated,
        }
    }
}

/// A moment in Unix milliseconds as clients read it: `2025-11-20T09:05:00.000Z`.
pub(crate) fn rfc_3339(unix_millis: i64) -> String {
    DateTime::from_timestamp_millis(unix_millis).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}
