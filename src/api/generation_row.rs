//! A generation as one row of a list. No row contains a prompt or an answer.

use pointsman_actors::domain::{AttemptRecord, Generation};
use serde::Serialize;

use super::{number::Dollars, readings::rfc_3339};
use crate::store::generations::Event;

/// One row. `ttft_ms` and `total_ms` count from the acceptance of the request. `cost` includes all attempts.
#[derive(Serialize)]
pub(crate) struct GenerationRow<'a> {
    pub(super) id: &'a str,
    pub(super) created_at: String,
    /// `null` for a key that is no longer in the configuration.
    pub(super) key: Option<&'a str>,
    pub(super) requested_model: &'a str,
    /// `null` if none served.
    pub(super) model: Option<&'a str>,
    pub(super) provider_slug: Option<&'a str>,
    pub(super) objective: &'static str,
    pub(super) decision_code: &'static str,
    pub(super) status: &'static str,
    pub(super) streamed: bool,
    pub(super) chain: Vec<LinkBody<'a>>,
    pub(super) ttft_ms: Option<u64>,
    pub(super) total_ms: Option<u64>,
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) reasoning_tokens: u64,
    pub(super) cost: Dollars,
    pub(super) rescued: bool,
    pub(super) hedged: bool,
    pub(super) explored: bool,
}

/// One attempt in the chain of a generation.
#[derive(Serialize)]
pub(super) struct LinkBody<'a> {
    pub(super) provider_slug: &'a str,
    pub(super) outcome: &'a str,
    pub(super) cause: Option<&'a str>,
}

impl<'a> GenerationRow<'a> {
    /// The row of a generation that the key called `key` made.
    pub(crate) fn new(generation: &'a Generation, key: Option<&'a str>) -> GenerationRow<'a> {
        let link = |attempt: &'a AttemptRecord| LinkBody {
            provider_slug: &attempt.provider_slug,
            outcome: attempt.outcome(),
            cause: attempt.cause.as_deref(),
        };
        let ends = generation.attempts.iter().map(|attempt| attempt.started_ms.saturating_add(attempt.duration_ms));
        GenerationRow {
            id: generation.id.as_str(),
            created_at: rfc_3339(generation.created_ms),
            key,
            requested_model: &generation.requested_model,
            model: generation.model.as_deref(),
            provider_slug: generation.provider_slug.as_deref(),
            objective: generation.decision.objective.value.as_str(),
            decision_code: generation.decision_code().as_str(),
            status: generation.status.as_str(),
            streamed: generation.streamed,
            chain: generation.attempts.iter().map(link).collect(),
            ttft_ms: generation.latency_ms,
            // Start and duration are rounded down one by one: their sum may be just below the time to the first output.
            total_ms: ends.chain(generation.latency_ms).max(),
            prompt_tokens: generation.usage.prompt_tokens,
            completion_tokens: generation.usage.completion_tokens,
            cached_tokens: generation.usage.cached_tokens,
            reasoning_tokens: generation.usage.reasoning_tokens,
            cost: Dollars(generation.spent()),
            rescued: Event::Rescued.happened(generation),
            hedged: Event::Hedged.happened(generation),
            explored: Event::Explored.happened(generation),
        }
    }
}
