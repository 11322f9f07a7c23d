use std::borrow::Cow;

use super::{price_tier::PriceTier, usage::Pricing};

impl PriceTier {
    /// The token prices of `pricing`, for longer prompts.
    pub fn new(above_prompt_tokens: u64, pricing: &Pricing) -> PriceTier {
        PriceTier {
            above_prompt_tokens,
            prompt: pricing.prompt,
            completion: pricing.completion,
            internal_reasoning: pricing.internal_reasoning,
            input_cache_read: pricing.input_cache_read,
            input_cache_write: pricing.input_cache_write,
            input_cache_write_1h: pricing.input_cache_write_1h,
            audio: pricing.audio,
            audio_output: pricing.audio_output,
        }
    }

    /// All prices of the tier: what is not counted in tokens costs as much as at any length.
    pub fn pricing(&self, base: &Pricing) -> Pricing {
        Pricing {
            prompt: self.prompt,
            completion: self.completion,
            request: base.request,
            image: base.image,
            web_search: base.web_search,
            internal_reasoning: self.internal_reasoning,
            input_cache_read: self.input_cache_read,
            input_cache_write: self.input_cache_write,
            input_cache_write_1h: self.input_cache_write_1h,
            audio: self.audio,
            audio_output: self.audio_output,
            tiers: Vec::new(),
            service_tiers: Vec::new(),
            geographies: Vec::new(),
        }
    }
}

impl Pricing {
    /// The tier of a prompt of this length; `None` below the first.
    pub fn tier(&self, prompt_tokens: u64) -> Option<&PriceTier> {
        self.tiers.iter().rev().find(|tier| tier.above_prompt_tokens < prompt_tokens)
    }

    /// The prices for a prompt of this length.
    pub fn at(&self, prompt_tokens: u64) -> Cow<'_, Pricing> {
        match self.tier(prompt_tokens) {
            Some(tier) => Cow::Owned(tier.pricing(self)),
            None => Cow::Borrowed(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestedService, ServicePreference, Usage, money::Usd};

    const ANY: RequestedService = RequestedService {
        tier: ServicePreference::Open,
        speed: ServicePreference::Open,
        geography: ServicePreference::Open,
    };

    fn usd(text: &str) -> Usd {
        text.parse().unwrap_or_default()
    }

    /// 1 and 2 dollars a token, from 201 tokens on 3 and 5, from 1,001 on 2 and 4.
    fn tiered() -> Pricing {
        let tier = |above, prompt, completion| {
            let pricing = Pricing { prompt: usd(prompt), completion: usd(completion), ..Pricing::default() };
            PriceTier::new(above, &pricing)
        };
        Pricing {
            prompt: usd("1"),
            completion: usd("2"),
            request: usd("100"),
            input_cache_read: Some(usd("0.5")),
            tiers: vec![tier(200, "3", "5"), tier(1_000, "2", "4")],
            ..Pricing::default()
        }
    }

    #[test]
    fn a_prompt_above_the_length_of_a_tier_has_its_prices_for_every_token() {
        let cost = |prompt_tokens| {
            let usage = Usage { prompt_tokens, completion_tokens: 10, ..Usage::default() };
            tiered().cost(&usage).total().to_string()
        };
        assert_eq!(cost(200), "320", "200 × 1 + 10 × 2 + 100");
        assert_eq!(cost(201), "753", "201 × 3 + 10 × 5 + 100");
        assert_eq!(cost(1_000), "3150");
        assert_eq!(cost(1_001), "2142");
    }

    #[test]
    fn cached_tokens_count_for_the_length_and_cost_what_the_tier_says() {
        let usage = Usage { prompt_tokens: 300, cached_tokens: 250, ..Usage::default() };
        let cost = tiered().cost(&usage);
        assert_eq!(
            (cost.cache_read, cost.prompt),
            (usd("750"), usd("150")),
            "the tier has no price of its own for them"
        );
        let mut own = tiered();
        own.tiers[0].input_cache_read = Some(usd("1.5"));
        assert_eq!(own.cost(&usage).cache_read, usd("375"));
    }

    #[test]
    fn what_is_reserved_covers_every_tier_that_the_prompt_may_turn_out_to_be_in() {
        let pricing = tiered();
        assert_eq!(pricing.worst_case(&ANY, 150, 10, 0), usd("270"), "150 tokens cannot be more than 200");
        assert_eq!(pricing.worst_case(&ANY, 151, 10, 0), usd("603"), "151 × 3 + 10 × 5 + 100");
        assert_eq!(
            pricing.worst_case(&ANY, 2_000, 10, 0),
            usd("6150"),
            "the dearest tier, though the prompt is in another"
        );
        assert_eq!((pricing.dearest_output(&ANY, 150), pricing.dearest_output(&ANY, 151)), (usd("2"), usd("5")));
        for prompt_tokens in [0, 1, 149, 151, 200, 201, 999, 1_001, 4_000] {
            for cached_tokens in [0, prompt_tokens / 2, prompt_tokens] {
                let usage = Usage { prompt_tokens, cached_tokens, completion_tokens: 7, ..Usage::default() };
                let reserved = pricing.worst_case(&ANY, prompt_tokens, 7, 0);
                assert!(pricing.cost(&usage).total() <= reserved, "{usage:?}");
            }
        }
    }

    #[test]
    fn an_endpoint_is_free_only_if_no_tier_costs_anything() {
        let free =
            Pricing { tiers: vec![PriceTier { above_prompt_tokens: 5, ..PriceTier::default() }], ..Pricing::default() };
        assert!(free.is_free());
        let mut paid = free;
        paid.tiers[0].completion = usd("1");
        assert!(!paid.is_free());
    }
}
