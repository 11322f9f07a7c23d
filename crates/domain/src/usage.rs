use serde::{Deserialize, Serialize};

use super::{
    money::{Price, Usd},
    price_tier::PriceTier,
    service_tier::{RequestedService, ServedService, ServiceName},
};

/// Prices of another service than the standard, such as `flex`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTierPrices {
    /// Its name.
    pub name: ServiceName,
    /// Its prices, which name no further services.
    pub pricing: Pricing,
}

/// What prices of tokens are multiplied by in a geography, whatever the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeographyPrice {
    /// Its name, such as `us`.
    pub name: ServiceName,
    /// The factor, in thousandths.
    pub per_mille: u64,
}

/// The prices of an endpoint. `None` means that the configuration names no such price.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// Per input token written to the provider's cache for five minutes, or for a time that the provider does not report;
    /// input tokens' price when absent.
    pub input_cache_write: Option<Price>,
    /// Per input token written to the provider's cache for one hour; the price of `input_cache_write` when absent.
    pub input_cache_write_1h: Option<Price>,
    /// Per input token of audio; input tokens' price when absent.
    pub audio: Option<Price>,
    /// Per output token of audio; output tokens' price when absent.
    pub audio_output: Option<Price>,
    /// Token prices of longer prompts, by ascending length.
    pub tiers: Vec<PriceTier>,
    /// Prices of other services than the standard.
    pub service_tiers: Vec<ServiceTierPrices>,
    /// Factors of geographies.
    pub geographies: Vec<GeographyPrice>,
}

impl Pricing {
    /// Whether prompt, completion and request all cost nothing, at any length and of any service: the rule of the free pool.
    pub fn is_free(&self) -> bool {
        let costs_nothing = |prompt: Price, completion: Price| prompt.is_zero() && completion.is_zero();
        costs_nothing(self.prompt, self.completion)
            && self.request.is_zero()
            && self.tiers.iter().all(|tier| costs_nothing(tier.prompt, tier.completion))
            && self.service_tiers.iter().all(|tier| tier.pricing.is_free())
    }

    /// Highest possible price of a request: every token in its dearest class and tier, and one web search where searches have
    /// a price. `service`: what is sent.
    pub fn worst_case(
        &self,
        service: &RequestedService,
        prompt_tokens: u64,
        completion_tokens: u64,
        images: u64,
    ) -> Usd {
        let in_tier = |pricing: &Pricing| pricing.worst_case_in_tier(prompt_tokens, completion_tokens, images);
        self.dearest(service, prompt_tokens, in_tier)
    }

    fn worst_case_in_tier(&self, prompt_tokens: u64, completion_tokens: u64, images: u64) -> Usd {
        let classes = [self.input_cache_read, self.input_cache_write, self.input_cache_write_1h, self.audio];
        let input = classes.into_iter().flatten().fold(self.prompt, Usd::max);
        input * prompt_tokens
            + self.dearest_output_in_tier() * completion_tokens
            + self.image * images
            + self.request
            + self.web_search
    }

    /// Price of an output token in its dearest class and tier, for a prompt of about this length.
    pub fn dearest_output(&self, service: &RequestedService, prompt_tokens: u64) -> Usd {
        self.dearest(service, prompt_tokens, Pricing::dearest_output_in_tier)
    }

    fn dearest_output_in_tier(&self) -> Usd {
        [self.internal_reasoning, self.audio_output].into_iter().flatten().fold(self.completion, Usd::max)
    }

    /// The exact price of `usage`, of the service that served and in the tier of its prompt. Token classes are disjoint: cached, cache-written, audio and plain
    /// input tokens add up to `prompt_tokens`, reasoning, audio and plain output tokens to `completion_tokens`.
    pub fn cost(&self, usage: &Usage) -> CostBreakdown {
        self.served(&usage.service, usage.prompt_tokens).cost_in_tier(usage)
    }

    fn cost_in_tier(&self, usage: &Usage) -> CostBreakdown {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_write_tokens.min(usage.prompt_tokens - cached);
        let written_1h = usage.cache_write_1h_tokens.min(written);
        let audio = usage.audio_tokens.min(usage.prompt_tokens - cached - written);
        let reasoning = usage.reasoning_tokens.min(usage.completion_tokens);
        let audio_output = usage.audio_output_tokens.min(usage.completion_tokens - reasoning);
        let write = self.input_cache_write.unwrap_or(self.prompt);
        CostBreakdown {
            prompt: self.prompt * (usage.prompt_tokens - cached - written - audio),
            completion: self.completion * (usage.completion_tokens - reasoning - audio_output),
            reasoning: self.internal_reasoning.unwrap_or(self.completion) * reasoning,
            cache_read: self.input_cache_read.unwrap_or(self.prompt) * cached,
            cache_write: write * (written - written_1h),
            cache_write_1h: self.input_cache_write_1h.unwrap_or(write) * written_1h,
            audio: self.audio.unwrap_or(self.prompt) * audio,
            audio_output: self.audio_output.unwrap_or(self.completion) * audio_output,
            request: self.request,
            image: self.image * usage.images,
            web_search: self.web_search * usage.web_searches,
        }
    }
}

/// Tokens, images and searches of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, cached and cache-written ones included.
    pub prompt_tokens: u64,
    /// Output tokens, reasoning included.
    pub completion_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cached_tokens: u64,
    /// Input tokens written to the provider's cache, for whatever time.
    pub cache_write_tokens: u64,
    /// Cache-write tokens that were written for one hour.
    pub cache_write_1h_tokens: u64,
    /// Input tokens of audio that were neither read from the cache nor written to it.
    pub audio_tokens: u64,
    /// Output tokens of audio.
    pub audio_output_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// Billed images: input images of a chat, generated images of an image call.
    pub images: u64,
    /// Billed web searches.
    pub web_searches: u64,
    /// The cost that the provider reported, beside the one that the gateway computes. Never billed.
    pub reported_cost: Option<Usd>,
    /// Whether the gateway estimated the tokens because the provider reported none.
    pub estimated: bool,
    /// The service that it was made with.
    pub service: ServedService,
}

impl Usage {
    /// Input and output tokens together, independent of the total reported by the provider.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

/// A cost by component. The components sum exactly to the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CostBreakdown {
    /// Plain input tokens.
    pub prompt: Usd,
    /// Plain output tokens.
    pub completion: Usd,
    /// Reasoning tokens.
    pub reasoning: Usd,
    /// Input tokens read from cache.
    pub cache_read: Usd,
    /// Input tokens written to cache for five minutes, or for an unreported time.
    pub cache_write: Usd,
    /// Input tokens written to cache for one hour.
    pub cache_write_1h: Usd,
    /// Input tokens of audio.
    pub audio: Usd,
    /// Output tokens of audio.
    pub audio_output: Usd,
    /// The fixed price of the request.
    pub request: Usd,
    /// Images.
    pub image: Usd,
    /// Web searches.
    pub web_search: Usd,
}

impl CostBreakdown {
    /// The cost of the input: all its tokens, and images.
    pub fn input(&self) -> Usd {
        self.prompt + self.cache_read + self.cache_write + self.cache_write_1h + self.audio + self.image
    }

    /// The cost of the output tokens.
    pub fn output(&self) -> Usd {
        self.completion + self.reasoning + self.audio_output
    }

    /// The whole cost.
    pub fn total(&self) -> Usd {
        let parts = [
            self.prompt,
            self.completion,
            self.reasoning,
            self.cache_read,
            self.cache_write,
            self.cache_write_1h,
            self.audio,
            self.audio_output,
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
    fn cache_writes_of_five_minutes_and_one_hour_have_prices_of_their_own() {
        let usage = Usage {
            prompt_tokens: 100,
            cached_tokens: 20,
            cache_write_tokens: 50,
            cache_write_1h_tokens: 30,
            ..Usage::default()
        };
        let five_minutes = Pricing { prompt: usd("1"), input_cache_write: Some(usd("1.25")), ..Pricing::default() };
        let cost = five_minutes.cost(&usage);
        assert_eq!(
            (cost.cache_write, cost.cache_write_1h),
            (usd("25"), usd("37.5")),
            "an absent price is that of 5 min"
        );
        let both = Pricing { input_cache_write_1h: Some(usd("2")), ..five_minutes };
        let cost = both.cost(&usage);
        assert_eq!((cost.prompt, cost.cache_write, cost.cache_write_1h), (usd("30"), usd("25"), usd("60")));
        assert_eq!(cost.total(), usd("135"));
    }

    #[test]
    fn no_usage_within_the_counts_costs_more_than_the_worst_case() {
        let pricing = Pricing {
            prompt: usd("3"),
            completion: usd("7"),
            request: usd("11"),
            image: usd("13"),
            web_search: usd("17"),
            internal_reasoning: Some(usd("19")),
            input_cache_read: Some(usd("1")),
            input_cache_write: Some(usd("5")),
            input_cache_write_1h: Some(usd("23")),
            audio: Some(usd("2")),
            audio_output: Some(usd("4")),
            tiers: Vec::new(),
            service_tiers: Vec::new(),
            geographies: Vec::new(),
        };
        let worst = pricing.worst_case(&RequestedService::default(), 6, 5, 2);
        for mix in 0..4_096_u64 {
            let part = |shift: u64, most: u64| (mix >> shift) % (most + 1);
            let usage = Usage {
                prompt_tokens: 6,
                completion_tokens: 5,
                cached_tokens: part(0, 6),
                cache_write_tokens: part(2, 6),
                cache_write_1h_tokens: part(4, 6),
                audio_tokens: part(6, 6),
                reasoning_tokens: part(8, 5),
                audio_output_tokens: part(9, 5),
                images: 2,
                web_searches: part(11, 1),
                ..Usage::default()
            };
            assert!(pricing.cost(&usage).total() <= worst, "{usage:?}");
        }
        assert_eq!(pricing.dearest_output(&RequestedService::default(), 6), usd("19"));
    }

    #[test]
    fn audio_has_prices_of_its_own() {
        let pricing = Pricing {
            prompt: usd("1"),
            completion: usd("2"),
            audio: Some(usd("10")),
            audio_output: Some(usd("20")),
            ..Pricing::default()
        };
        let usage = Usage {
            prompt_tokens: 5,
            audio_tokens: 3,
            completion_tokens: 7,
            reasoning_tokens: 1,
            audio_output_tokens: 4,
            ..Usage::default()
        };
        let cost = pricing.cost(&usage);
        assert_eq!((cost.prompt, cost.audio), (usd("2"), usd("30")));
        assert_eq!((cost.completion, cost.reasoning, cost.audio_output), (usd("4"), usd("2"), usd("80")));
    }

    #[test]
    fn classes_larger_than_their_whole_are_cut_to_it() {
        let pricing = Pricing { prompt: usd("1"), completion: usd("1"), ..Pricing::default() };
        let usage = Usage { prompt_tokens: 3, cached_tokens: 9, cache_write_tokens: 9, ..Usage::default() };
        assert_eq!(pricing.cost(&usage).total(), usd("3"));
    }
}
