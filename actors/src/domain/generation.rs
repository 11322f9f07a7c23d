use std::sync::Arc;

use super::{
    api_type::ApiType,
    attempt_record::{AttemptReason, AttemptRecord},
    catalog::Catalog,
    decision::{Decision, DecisionCode},
    id::GenerationId,
    money::Usd,
    policy::RoutingPolicy,
    usage::{CostBreakdown, Usage},
};

/// Where a generation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationStatus {
    /// Admitted, not ended.
    Running,
    /// The whole answer was delivered.
    Completed,
    /// It ended with an error.
    Failed,
    /// The client left.
    Cancelled,
}

impl GenerationStatus {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            GenerationStatus::Running => "running",
            GenerationStatus::Completed => "completed",
            GenerationStatus::Failed => "failed",
            GenerationStatus::Cancelled => "cancelled",
        }
    }
}

/// How a model ended its answer, normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It reached a token limit.
    Length,
    /// It asked for tools.
    ToolCalls,
    /// A filter stopped it.
    ContentFilter,
    /// It broke.
    Error,
}

impl FinishReason {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::ContentFilter => "content_filter",
            FinishReason::Error => "error",
        }
    }
}

/// The record of one generation: what was asked, decided, tried, used and paid. Holds no prompt and no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Its id.
    pub id: GenerationId,
    /// Which key it belongs to (the key's position-independent label hash); only its owner may read it.
    pub owner: u64,
    /// Chat or image.
    pub api_type: ApiType,
    /// Request id of the call that made it.
    pub request_id: Arc<str>,
    /// When it was admitted, Unix milliseconds.
    pub created_ms: i64,
    /// Where it stands.
    pub status: GenerationStatus,
    /// What the client asked for, as it wrote it.
    pub requested_model: Arc<str>,
    /// Whether the answer was streamed.
    pub streamed: bool,
    /// What was decided, and with which numbers; of many candidates the best
    /// ([`crate::decide::decide_to_serve`]).
    pub decision: Arc<Decision>,
    /// The constants it was decided under: a replay needs them, whatever is configured by then.
    pub policy: Arc<RoutingPolicy>,
    /// The catalog it was decided under: the decision's positions point into it, also when a reload has replaced it.
    pub catalog: Arc<Catalog>,
    /// Every upstream try, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Catalog id of the model that served.
    pub model: Option<Arc<str>>,
    /// Display name of the provider that served.
    pub provider_name: Option<Arc<str>>,
    /// Slug of the provider that served.
    pub provider_slug: Option<Arc<str>>,
    /// The provider's own id of the answer, cleaned.
    pub upstream_id: Option<String>,
    /// Accepted to first output from the winning upstream, milliseconds.
    pub latency_ms: Option<u64>,
    /// Winning upstream request sent to its last byte, milliseconds.
    pub generation_time_ms: Option<u64>,
    /// What was used.
    pub usage: Usage,
    /// What the answer cost, at the prices of dispatch: what the client is told. [`Generation::spent`] is the whole.
    pub cost: CostBreakdown,
    /// Normalised finish.
    pub finish: Option<FinishReason>,
    /// The provider's own word for it, cleaned.
    pub native_finish_reason: Option<String>,
    /// Parameters that were given and not sent on.
    pub dropped_parameters: Vec<Arc<str>>,
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
}

impl Generation {
    /// Whether a second attempt raced the first.
    #[must_use]
    pub fn hedged(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.reason == AttemptReason::Hedge)
    }

    /// What racing cost: the attempts that lost, at their own prices.
    #[must_use]
    pub fn hedge_cost(&self) -> Usd {
        self.cost_of_other_attempts(|attempt| attempt.error_type == Some(AttemptRecord::LOST_RACE))
    }

    /// What attempts cost that failed, or were left, after they had taken something.
    #[must_use]
    pub fn failed_cost(&self) -> Usd {
        self.cost_of_other_attempts(|attempt| attempt.error_type != Some(AttemptRecord::LOST_RACE))
    }

    /// What all attempts cost together: what the ledger enters against the key.
    #[must_use]
    pub fn spent(&self) -> Usd {
        self.cost.total() + self.cost_of_other_attempts(|_| true)
    }

    fn cost_of_other_attempts(&self, counts: impl Fn(&AttemptRecord) -> bool) -> Usd {
        self.attempts.iter().filter(|attempt| !attempt.served && counts(attempt)).map(|attempt| attempt.cost).sum()
    }

    /// Why the one that served did: the decision's own code, or that a fallback took over.
    #[must_use]
    pub fn decision_code(&self) -> DecisionCode {
        let served = self.attempts.iter().rfind(|attempt| attempt.error_type.is_none());
        match (self.attempts.first(), served) {
            (Some(first), Some(served)) if first.n == served.n => self.decision.code,
            (Some(first), Some(served)) if first.model == served.model => DecisionCode::ProviderFallback,
            (Some(_), Some(_)) => DecisionCode::ModelFallback,
            _ => self.decision.code,
        }
    }
}
