//! JSON of what an answer used and cost.

use pointsman_domain::{CostBreakdown, Generation};
use serde::Serialize;

use crate::api::number::Dollars;

/// The parts of the cost; their sum is exactly the total.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct CostBreakdownBody {
    /// US dollars for prompt tokens that no other part counts.
    pub(crate) prompt: Dollars,
    /// US dollars for output tokens that no other part counts.
    pub(crate) completion: Dollars,
    /// US dollars for reasoning tokens.
    pub(crate) reasoning: Dollars,
    /// US dollars for prompt tokens read from the provider's cache.
    pub(crate) cache_read: Dollars,
    /// US dollars for prompt tokens written to it for five minutes, or for a time that is not reported.
    pub(crate) cache_write: Dollars,
    /// US dollars for prompt tokens written to it for one hour.
    pub(crate) cache_write_1h: Dollars,
    /// US dollars for prompt tokens that are audio.
    pub(crate) audio: Dollars,
    /// US dollars for output tokens that are audio.
    pub(crate) audio_output: Dollars,
    /// US dollars for the request itself.
    pub(crate) request: Dollars,
    /// US dollars for images.
    pub(crate) image: Dollars,
    /// US dollars for web searches.
    pub(crate) web_search: Dollars,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct UsageBody {
    /// Tokens of the prompt, those read from or written to a cache included.
    pub(crate) prompt_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub(crate) completion_tokens: u64,
    /// Both together.
    pub(crate) total_tokens: u64,
    /// Cost of the answer in US dollars, without that of other attempts; `null` at an unknown price.
    pub(crate) cost: Option<Dollars>,
    pub(crate) prompt_tokens_details: PromptDetailsBody,
    pub(crate) completion_tokens_details: CompletionDetailsBody,
    /// Whether the gateway counted the tokens, because the provider reported none.
    pub(crate) estimated: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PromptDetailsBody {
    /// Prompt tokens read from the provider's cache.
    pub(crate) cached_tokens: u64,
    /// Prompt tokens written to the provider's cache.
    pub(crate) cache_write_tokens: u64,
    /// Of those, the tokens written to be kept for one hour.
    pub(crate) cache_write_1h_tokens: u64,
    /// Other prompt tokens that are audio.
    pub(crate) audio_tokens: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct CompletionDetailsBody {
    /// Tokens of the answer that were spent on reasoning.
    pub(crate) reasoning_tokens: u64,
    /// Tokens of the answer that are audio.
    pub(crate) audio_tokens: u64,
}

impl CostBreakdownBody {
    /// The parts of a cost.
    pub(crate) fn new(cost: &CostBreakdown) -> CostBreakdownBody {
        CostBreakdownBody {
            prompt: Dollars(cost.prompt),
            completion: Dollars(cost.completion),
            reasoning: Dollars(cost.reasoning),
            cache_read: Dollars(cost.cache_read),
            cache_write: Dollars(cost.cache_write),
            cache_write_1h: Dollars(cost.cache_write_1h),
            audio: Dollars(cost.audio),
            audio_output: Dollars(cost.audio_output),
            request: Dollars(cost.request),
            image: Dollars(cost.image),
            web_search: Dollars(cost.web_search),
        }
    }
}

impl UsageBody {
    /// The usage of a generation.
    pub(crate) fn new(generation: &Generation) -> UsageBody {
        let usage = &generation.usage;
        UsageBody {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.total_tokens(),
            cost: generation.total_cost().map(Dollars),
            prompt_tokens_details: PromptDetailsBody {
                cached_tokens: usage.cached_tokens,
                cache_write_tokens: usage.cache_write_tokens,
                cache_write_1h_tokens: usage.cache_write_1h_tokens,
                audio_tokens: usage.audio_tokens,
            },
            completion_tokens_details: CompletionDetailsBody {
                reasoning_tokens: usage.reasoning_tokens,
                audio_tokens: usage.audio_output_tokens,
            },
            estimated: usage.estimated,
        }
    }
}
