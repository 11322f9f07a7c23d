//! The token prices of an endpoint, by the names of their keys.

use pointsman_domain::{Price, Pricing};

/// A price per token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenClass {
    /// Input.
    Prompt,
    /// Output.
    Completion,
    /// Reasoning.
    Reasoning,
    /// Input from the provider's cache.
    CacheRead,
    /// Input written to the provider's cache.
    CacheWrite,
    /// Input written to the provider's cache for one hour.
    CacheWriteHour,
    /// Input of audio.
    Audio,
    /// Output of audio.
    AudioOutput,
}

impl TokenClass {
    /// All, in the order in which they are written.
    pub const ALL: [TokenClass; 8] = [
        TokenClass::Prompt,
        TokenClass::Completion,
        TokenClass::Reasoning,
        TokenClass::CacheRead,
        TokenClass::CacheWrite,
        TokenClass::CacheWriteHour,
        TokenClass::Audio,
        TokenClass::AudioOutput,
    ];

    /// Its key in `usd_per_million` and `pricing`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TokenClass::Prompt => "prompt",
            TokenClass::Completion => "completion",
            TokenClass::Reasoning => "internal_reasoning",
            TokenClass::CacheRead => "input_cache_read",
            TokenClass::CacheWrite => "input_cache_write",
            TokenClass::CacheWriteHour => "input_cache_write_1h",
            TokenClass::Audio => "audio",
            TokenClass::AudioOutput => "audio_output",
        }
    }

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
