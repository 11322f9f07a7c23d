//! JSON of what an answer used and cost.

use pointsman_domain::{CostBreakdown, Generation};
use serde::Serialize;

use crate::api::number::Dollars;

view! {
    /// The parts of the cost; their sum is exactly the total.
    pub(crate) struct CostBreakdownBody {
        /// The parts of a cost.
        pub(crate) fn new(cost: &CostBreakdown) {}

        /// US dollars for prompt tokens that no other part counts.
        pub(crate) prompt: Dollars = Dollars(cost.prompt),
        /// US dollars for output tokens that no other part counts.
        pub(crate) completion: Dollars = Dollars(cost.completion),
        /// US dollars for reasoning tokens.
        pub(crate) reasoning: Dollars = Dollars(cost.reasoning),
        /// US dollars for prompt tokens read from the provider's cache.
        pub(crate) cache_read: Dollars = Dollars(cost.cache_read),
        /// US dollars for prompt tokens written to it for five minutes, or for a time that is not reported.
        pub(crate) cache_write: Dollars = Dollars(cost.cache_write),
        /// US dollars for prompt tokens written to it for one hour.
        pub(crate) cache_write_1h: Dollars = Dollars(cost.cache_write_1h),
        /// US dollars for prompt tokens that are audio.
        pub(crate) audio: Dollars = Dollars(cost.audio),
        /// US dollars for output tokens that are audio.
        pub(crate) audio_output: Dollars = Dollars(cost.audio_output),
        /// US dollars for the request itself.
        pub(crate) request: Dollars = Dollars(cost.request),
        /// US dollars for images.
        pub(crate) image: Dollars = Dollars(cost.image),
        /// US dollars for web searches.
        pub(crate) web_search: Dollars = Dollars(cost.web_search),
    }
}

view! {
    pub(crate) struct UsageBody {
        /// The usage of a generation.
        pub(crate) fn new(generation: &Generation) {
            let usage = &generation.usage;
        }

        /// Tokens of the prompt, those read from or written to a cache included.
        pub(crate) prompt_tokens: u64 = usage.prompt_tokens,
        /// Tokens of the answer, reasoning included.
        pub(crate) completion_tokens: u64 = usage.completion_tokens,
        /// Both together.
        pub(crate) total_tokens: u64 = usage.total_tokens(),
        /// Cost of the answer in US dollars, without that of other attempts; `null` at an unknown price.
        pub(crate) cost: Option<Dollars> = generation.total_cost().map(Dollars),
        pub(crate) prompt_tokens_details: PromptDetailsBody = PromptDetailsBody {
            cached_tokens: usage.cached_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            cache_write_1h_tokens: usage.cache_write_1h_tokens,
            audio_tokens: usage.audio_tokens,
        },
        pub(crate) completion_tokens_details: CompletionDetailsBody = CompletionDetailsBody {
            reasoning_tokens: usage.reasoning_tokens,
            audio_tokens: usage.audio_output_tokens,
        },
        /// Whether the gateway counted the tokens, because the provider reported none.
        pub(crate) estimated: bool = usage.estimated,
    }
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
