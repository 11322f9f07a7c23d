use serde::{Deserialize, Serialize};

use super::money::Price;

/// Token prices of an endpoint for prompts above a length. They hold for all tokens of such a request, not only for those
/// above it. `None` as in the prices of shorter prompts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PriceTier {
    /// Prompts with more tokens than this have these prices. Cached tokens are tokens of the prompt.
    pub above_prompt_tokens: u64,
    /// Per input token.
    pub prompt: Price,
    /// Per output token.
    pub completion: Price,
    /// Per reasoning token.
    pub internal_reasoning: Option<Price>,
    /// Per input token read from the provider's cache.
    pub input_cache_read: Option<Price>,
    /// Per input token written to the provider's cache for five minutes.
    pub input_cache_write: Option<Price>,
    /// Per input token written to the provider's cache for one hour.
    pub input_cache_write_1h: Option<Price>,
    /// Per input token of audio.
    pub audio: Option<Price>,
    /// Per output token of audio.
    pub audio_output: Option<Price>,
}
