use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    api_type::ApiType,
    attempt_record::{AttemptReason, AttemptRecord},
    catalog::{Catalog, Endpoint},
    decision::{Decision, DecisionCode},
    dialect::Dialect,
    exclusion::ExclusionReason,
    id::GenerationId,
    money::Usd,
    policy::RoutingPolicy,
    shadow::ShadowChoice,
    trace_parent::{ServedTime, TraceParent},
    usage::{CostBreakdown, Usage},
};

/// Status of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GenerationStatus {
    /// Admitted and not yet ended.
    Running,
    /// The whole answer was delivered.
    Completed,
    /// It ended with an error.
    Failed,
    /// The client left.
    Cancelled,
    /// The stream broke after its first content.
    Truncated,
}

impl GenerationStatus {
    /// Whether an error ended it, before or after its first content.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, GenerationStatus::Failed | GenerationStatus::Truncated)
    }

    /// The name on the wire, where a broken stream is a failure like others.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            GenerationStatus::Running => "running",
            GenerationStatus::Completed => "completed",
            GenerationStatus::Failed | GenerationStatus::Truncated => "failed",
            GenerationStatus::Cancelled => "cancelled",
        }
    }
}

crate::named! {
    /// Why a model ended its answer, normalised.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum FinishReason {
        /// The answer was finished.
        Stop = "stop",
        /// It reached a token limit.
        Length = "length",
        /// The model called tools.
        ToolCalls = "tool_calls",
        /// A filter stopped it.
        ContentFilter = "content_filter",
        /// An error ended the answer.
        Error = "error",
    }
}

impl FinishReason {
    /// The reason of an answer that has called tools, if it has: some providers call it a plain stop.
    #[must_use]
    pub const fn after_calls(self, has_called: bool) -> FinishReason {
        match self {
            FinishReason::Stop if has_called => FinishReason::ToolCalls,
            other => other,
        }
    }
}

/// A wait of a request for an endpoint to take requests again, while all that could serve it rested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// All waits of the request together, milliseconds.
    pub ms: u64,
    /// Why the endpoint that was awaited last took no request.
    pub reason: ExclusionReason,
}

/// The record of one generation: request, decision, attempts, usage and cost. Holds no prompt and no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// Its id.
    pub id: GenerationId,
    /// The account that it is charged to. Only its keys may read the record.
    pub owner: u64,
    /// Number of the key that called; 0 if it is not known.
    #[serde(skip)]
    pub key: u64,
    /// Team of the account when it was admitted, if it had one: its budget paid too.
    #[serde(skip)]
    pub team: Option<Arc<str>>,
    /// Chat or image.
    pub api_type: ApiType,
    /// Request id of the call that made it.
    pub request_id: Arc<str>,
    /// When it was admitted, Unix milliseconds.
    pub created_ms: i64,
    /// Status.
    pub status: GenerationStatus,
    /// Requested model as written by the client.
    pub requested_model: Arc<str>,
    /// Whether the answer was streamed.
    pub streamed: bool,
    /// The decision with its figures; of many candidates only the best (`pointsman_routing::decide::decide_to_serve`).
    pub decision: Arc<Decision>,
    /// The policy of the decision, needed for a replay after a reload.
    #[serde(skip)]
    pub policy: Arc<RoutingPolicy>,
    /// The catalog of the decision, to which its positions refer even after a reload.
    #[serde(skip)]
    pub catalog: Arc<Catalog>,
    /// How long it waited for an endpoint to take requests again, if it did.
    pub waited: Option<Waited>,
    /// All upstream attempts, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Catalog id of the model that served.
    pub model: Option<Arc<str>>,
    /// Display name of the provider that served.
    pub provider_name: Option<Arc<str>>,
    /// Slug of the provider that served.
    pub provider_slug: Option<Arc<str>>,
    /// The provider's own id of the answer, cleaned.
    pub upstream_id: Option<String>,
    /// Time from acceptance to the first output of the upstream that served, milliseconds.
    pub latency_ms: Option<u64>,
    /// Time from sending the request to the last byte, at the upstream that served, milliseconds.
    pub generation_time_ms: Option<u64>,
    /// Tokens and images used.
    pub usage: Usage,
    /// Cost of the answer at the prices at dispatch, as shown to the client; `None` where they are unknown.
    /// [`Generation::spent`] includes all attempts.
    pub cost: Option<CostBreakdown>,
    /// Normalised finish reason.
    pub finish: Option<FinishReason>,
    /// The provider's own finish reason, cleaned.
    pub native_finish_reason: Option<String>,
    /// Parameters of the request that were not forwarded.
    pub dropped_parameters: Vec<Arc<str>>,
    /// Parameters of the request whose meaning was produced by other means.
    pub emulated_parameters: Vec<Arc<str>>,
    /// Wire format of the request.
    pub client_dialect: Dialect,
    /// `user` of the request.
    pub external_user: Option<String>,
    /// `session_id` of the request.
    pub session_id: Option<String>,
    /// Client tags from `metadata`.
    pub tags: Vec<(String, String)>,
    /// `trace` of the request, as JSON.
    pub trace: Option<String>,
    /// `user-agent` of the request, cleaned and cut.
    pub user_agent: Option<String>,
    /// `http-referer` of the request, cleaned and cut.
    pub http_referer: Option<String>,
    /// `x-title` of the request, cleaned and cut.
    pub origin: Option<String>,
    /// Images in the prompt.
    pub media_prompt: u64,
    /// Images in the answer.
    pub media_completion: u64,
    /// The client's span, from `traceparent`.
    pub trace_parent: Option<TraceParent>,
    /// From acceptance to the end, if traces were on when it ended and the sampler kept it: then it has a span.
    pub served: Option<ServedTime>,
    /// What shadow policies would have chosen, one of each that decided. Stored behind everything else, where there is any.
    #[serde(skip)]
    pub shadows: Vec<ShadowChoice>,
}

impl Generation {
    /// The record of one that was just admitted: who asked, and for what, is left to the caller.
    pub fn admitted(
        id: GenerationId,
        created_ms: i64,
        decision: Arc<Decision>,
        policy: Arc<RoutingPolicy>,
        catalog: Arc<Catalog>,
    ) -> Generation {
        Generation {
            id,
            owner: 0,
            key: 0,
            team: None,
            api_type: ApiType::Completions,
            request_id: Arc::default(),
            created_ms,
            status: GenerationStatus::Running,
            requested_model: Arc::default(),
            streamed: decision.streamed,
            decision,
            policy,
            catalog,
            waited: None,
            attempts: Vec::new(),
            model: None,
            provider_name: None,
            provider_slug: None,
            upstream_id: None,
            latency_ms: None,
            generation_time_ms: None,
            usage: Usage::default(),
            cost: Some(CostBreakdown::default()),
            finish: None,
            native_finish_reason: None,
            dropped_parameters: Vec::new(),
            emulated_parameters: Vec::new(),
            client_dialect: Dialect::default(),
            external_user: None,
            session_id: None,
            tags: Vec::new(),
            trace: None,
            user_agent: None,
            http_referer: None,
            origin: None,
            media_prompt: 0,
            media_completion: 0,
            trace_parent: None,
            served: None,
            shadows: Vec::new(),
        }
    }

    /// The endpoint that served.
    pub fn served_endpoint(&self) -> Option<&Endpoint> {
        self.attempts.iter().find(|attempt| attempt.served).and_then(|attempt| self.catalog.endpoint(attempt.endpoint))
    }

    /// Whether a second attempt raced the first.
    pub fn hedged(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.reason == AttemptReason::Hedge)
    }

    /// Whether it completed although an attempt failed. An attempt that lost a race did not fail, and without the second answer of
    /// a cascade there is the first.
    pub fn rescued(&self) -> bool {
        let harmless = [AttemptRecord::CANCELLED, AttemptRecord::LOST_RACE];
        let failed = |attempt: &AttemptRecord| {
            attempt.reason != AttemptReason::Cascade
                && attempt.error_type.as_deref().is_some_and(|kind| !harmless.contains(&kind))
        };
        self.status == GenerationStatus::Completed && self.attempts.iter().any(failed)
    }

    /// Cost of attempts that lost a race, at their own prices; `None` where one of them is unknown.
    pub fn hedge_cost(&self) -> Option<Usd> {
        self.cost_of_other_attempts(|attempt| attempt.error_type.as_deref() == Some(AttemptRecord::LOST_RACE))
    }

    /// Cost of attempts that failed, or were cancelled after they had used tokens, or whose answer a cascade replaced; `None` where one
    /// of them is unknown.
    pub fn failed_cost(&self) -> Option<Usd> {
        self.cost_of_other_attempts(|attempt| attempt.error_type.as_deref() != Some(AttemptRecord::LOST_RACE))
    }

    /// Cost of the answer; `None` where it is unknown.
    pub fn total_cost(&self) -> Option<Usd> {
        self.cost.as_ref().map(CostBreakdown::total)
    }

    /// Cost of all attempts together; `None` where one of them is unknown.
    pub fn spent(&self) -> Option<Usd> {
        Some(self.total_cost()? + self.cost_of_other_attempts(|_| true)?)
    }

    /// Cost of all attempts whose cost is known, as charged to the key.
    pub fn known_spending(&self) -> Usd {
        let others = self.attempts.iter().filter(|attempt| !attempt.served).filter_map(|attempt| attempt.cost);
        self.total_cost().unwrap_or(Usd::ZERO) + others.sum()
    }

    fn cost_of_other_attempts(&self, counts: impl Fn(&AttemptRecord) -> bool) -> Option<Usd> {
        self.attempts.iter().filter(|attempt| !attempt.served && counts(attempt)).map(|attempt| attempt.cost).sum()
    }

    /// The code of the decision, or the code of the fallback that served.
    pub fn decision_code(&self) -> DecisionCode {
        let served = self.attempts.iter().rfind(|attempt| attempt.error_type.is_none());
        match (self.attempts.first(), served) {
            (Some(first), Some(served)) if first.n == served.n => self.decision.code,
            (_, Some(served)) if served.reason == AttemptReason::Cascade => DecisionCode::Cascade,
            (Some(first), Some(served)) if first.model == served.model => DecisionCode::ProviderFallback,
            (Some(_), Some(_)) => DecisionCode::ModelFallback,
            _ => self.decision.code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_stream_is_a_failure_and_shown_as_one() {
        let all = [
            (GenerationStatus::Running, "running", false),
            (GenerationStatus::Completed, "completed", false),
            (GenerationStatus::Failed, "failed", true),
            (GenerationStatus::Cancelled, "cancelled", false),
            (GenerationStatus::Truncated, "failed", true),
        ];
        for (status, shown, is_failure) in all {
            assert_eq!((status.as_str(), status.is_failure()), (shown, is_failure));
        }
    }
}
