//! The token prices of an endpoint, by the names of their keys.

use pointsman_domain::{Price, Pricing};

pointsman_domain::named! {
    /// A price per token.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TokenClass {
        /// Input.
        Prompt = "prompt",
        /// Output.
        Completion = "completion",
        /// Reasoning.
        Reasoning = "internal_reasoning",
        /// Input from the provider's cache.
        CacheRead = "input_cache_read",
        /// Input written to the provider's cache.
        CacheWrite = "input_cache_write",
        /// Input written to the provider's cache for one hour.
        CacheWriteHour = "input_cache_write_1h",
        /// Input of audio.
        Audio = "audio",
        /// Output of audio.
        AudioOutput = "audio_output",
    }
}

impl TokenClass {
    /// Whether every entry with prices has this one.
    #[must_use]
    pub const fn is_required(self) -> bool {
        matches!(self, TokenClass::Prompt | TokenClass::Completion)
    }

    /// The price that an entry sets; `None` where another one holds instead.
    fn of(self, pricing: &Pricing) -> Option<Price> {
        match self {
            TokenClass::Prompt => Some(pricing.prompt),
            TokenClass::Completion => Some(pricing.completion),
            TokenClass::Reasoning => pricing.internal_reasoning,
            TokenClass::CacheRead => pricing.input_cache_read,
            TokenClass::CacheWrite => pricing.input_cache_write,
            TokenClass::CacheWriteHour => pricing.input_cache_write_1h,
            TokenClass::Audio => pricing.audio,
            TokenClass::AudioOutput => pricing.audio_output,
        }
    }

    /// What a token of this class costs, whichever key says so.
    #[must_use]
    pub fn cost_in(self, pricing: &Pricing) -> Price {
        let other = match self {
            TokenClass::Reasoning | TokenClass::AudioOutput => pricing.completion,
            TokenClass::CacheWriteHour => pricing.input_cache_write.unwrap_or(pricing.prompt),
            _ => pricing.prompt,
        };
        self.of(pricing).unwrap_or(other)
    }
}
