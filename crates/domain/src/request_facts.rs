//! What a decision records of its request beside the merged parameters, so that the hard filters can be run again.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{
    api_type::ApiType,
    catalog::Target,
    conversation::StickyEndpoint,
    pattern::ModelPattern,
    query::{Needs, Query},
    reasoning_format::ReasoningFormat,
};

/// The members of a [`Query`] that a decision does not hold itself. Positions refer to the catalog of the decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestFacts {
    /// Chat or images.
    pub api: ApiType,
    /// Day of the request, UTC.
    #[serde(with = "super::days")]
    pub today: NaiveDate,
    /// Resolved models and aliases, in order.
    pub targets: Vec<Target>,
    /// What an endpoint must support.
    pub needs: Needs,
    /// Models the key may use, all when empty.
    pub key_allowed: Vec<ModelPattern>,
    /// Models the key may never use.
    pub key_blocked: Vec<ModelPattern>,
    /// Prompt tokens as estimated for every endpoint, before the corrections of the models.
    pub prompt_tokens: u32,
    /// Billed images.
    pub images: u32,
    /// The request's own limit on output tokens, of each answer.
    pub max_tokens: Option<u32>,
    /// Number of requested answers.
    pub answers: u32,
    /// Endpoint that served the conversation last.
    pub sticky: Option<StickyEndpoint>,
    /// Format of the reasoning before calls whose results the request brings.
    pub pending_reasoning: ReasoningFormat,
}

impl RequestFacts {
    /// The facts of a query.
    pub fn new(query: &Query) -> RequestFacts {
        RequestFacts {
            api: query.api,
            today: query.today,
            targets: query.targets.clone(),
            needs: query.needs.clone(),
            key_allowed: query.key_allowed.clone(),
            key_blocked: query.key_blocked.clone(),
            prompt_tokens: query.prompt_tokens,
            images: query.images,
            max_tokens: query.max_tokens,
            answers: query.answers,
            sticky: query.sticky,
            pending_reasoning: query.pending_reasoning,
        }
    }
}

/// The facts of a chat of which nothing is known, for decisions that were recorded without them.
impl Default for RequestFacts {
    fn default() -> RequestFacts {
        RequestFacts {
            api: ApiType::Completions,
            today: NaiveDate::default(),
            targets: Vec::new(),
            needs: Needs::default(),
            key_allowed: Vec::new(),
            key_blocked: Vec::new(),
            prompt_tokens: 0,
            images: 0,
            max_tokens: None,
            answers: 1,
            sticky: None,
            pending_reasoning: ReasoningFormat::Unknown,
        }
    }
}
