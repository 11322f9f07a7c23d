use super::money::{Price, Usd};

/// The eight prices of an endpoint. `None` means that the configuration names no such price.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pricing {
    /// Per input token.
    pub prompt: Price,
    /// Per output token.
    pub completion: Price,
    /// Per request.
    pub request: Price,
    /// Per input image; for image models per generated image.
    pub image: Price,
    /// Per web search.
    pub web_search: Price,
    /// Per reasoning token; output tokens' price when absent.
    pub internal_reasoning: Option<Price>,
    /// Per input token read from the provider's cache; input tokens' price when absent.
    pub input_cache_read: Option<Price>,
    /// Per input token written to the provider's cache; input tokens' price when absent.
    pub input_cache_write: Option<Price>,
}

impl Pricing {
    /// Whether prompt, completion and request all cost nothing: the rule of the free pool.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.prompt.is_zero() && self.completion.is_zero() && self.request.is_zero()
    }

    /// The exact price of `usage`. Token classes are disjoint: cached, cache-written and plain input
    /// tokens add up to `prompt_tokens`, reasoning and plain output tokens to `completion_tokens`.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> CostBreakdown {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_write_tokens.min(usage.prompt_tokens - cached);
        let reasoning = usage.reasoning_tokens.min(usage.completion_tokens);
        CostBreakdown {
            prompt: self.prompt * (usage.prompt_tokens - cached - written),
            completion: self.completion * (usage.completion_tokens - reasoning),
            reasoning: self.internal_reasoning.unwrap_or(self.completion) * reasoning,
            cache_read: self.input_cache_read.unwrap_or(self.prompt) * cached,
            cache_write: self.input_cache_write.unwrap_or(self.prompt) * written,
            request: self.request,
            image: self.image * usage.images,
            web_search: self.web_search * usage.web_searches,
        }
    }
}

/// Tokens, images and searches of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input tokens, cached and cache-written ones included.
    pub prompt_tokens: u64,
    /// Output tokens, reasoning included.
    pub completion_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cached_tokens: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// Billed images: input images of a chat, generated images of an image call.
    pub images: u64,
    /// Billed web searches.
    pub web_searches: u64,
    /// Whether the gateway estimated the tokens because the provider reported none.
    pub estimated: bool,
}

impl Usage {
    /// Input and output tokens together, independent of the total reported by the provider.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

/// A cost by component. The components sum exactly to the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostBreakdown {
    /// Plain input tokens.
    pub prompt: Usd,
    /// Plain output tokens.
    pub completion: Usd,
    /// Reasoning tokens.
    pub reasoning: Usd,
    /// Input tokens read from cache.
    pub cache_read: Usd,
    /// Input tokens written to cache.
    pub cache_write: Usd,
    /// The fixed price of the request.
    pub request: Usd,
    /// Images.
    pub image: Usd,
    /// Web searches.
    pub web_search: Usd,
}

impl CostBreakdown {
    /// The whole cost.
    #[must_use]
    pub fn total(&self) -> Usd {
        let parts = [
            self.prompt,
            self.completion,
            self.reasoning,
            self.cache_read,
            self.cache_write,
            self.request,
            self.image,
            self.web_search,
        ];
        parts.into_iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap_or_default()
    }

    #[test]
    fn token_classes_are_disjoint_and_the_sum_is_exact() {
        let pricing = Pricing {
            prompt: usd("0.00000015"),
            completion: usd("0.0000006"),
            input_cache_read: Some(usd("0.000000015")),
            ..Pricing::default()
        };
        let usage = Usage { prompt_tokens: 12, completion_tokens: 5, cached_tokens: 2, ..Usage::default() };
        let cost = pricing.cost(&usage);
        assert_eq!(cost.prompt, usd("0.0000015"));
        assert_eq!(cost.cache_read, usd("0.00000003"));
        assert_eq!(cost.total().to_string(), "0.00000453");
    }

    #[test]
    fn classes_larger_than_their_whole_are_cut_to_it() {
        let pricing = Pricing { prompt: usd("1"), completion: usd("1"), ..Pricing::default() };
        let usage = Usage { prompt_tokens: 3, cached_tokens: 9, cache_write_tokens: 9, ..Usage::default() };
        assert_eq!(pricing.cost(&usage).total(), usd("3"));
    }
}
