//! Bills are exact for any usage at any prices: nothing is lost, rounded or counted twice.

use pointsman_domain::{CostBreakdown, Price, PriceTier, Pricing, RequestedService, Usage, Usd};
use proptest::prelude::*;

/// Up to 1,000 dollars each, with all 15 digits.
fn price() -> impl Strategy<Value = Price> {
    prop_oneof![Just(Price::ZERO), (0_i128..1_000_000_000_000_000_000).prop_map(Usd::from_femto)]
}

/// With up to three tiers for longer prompts.
fn pricing() -> impl Strategy<Value = Pricing> {
    let tiers = prop::collection::btree_map(0_u64..3_000, one_tier(), 0..4);
    (one_tier(), tiers).prop_map(|(base, tiers)| {
        let tiers = tiers.iter().map(|(above, pricing)| PriceTier::new(*above, pricing)).collect();
        Pricing { tiers, ..base }
    })
}

fn one_tier() -> impl Strategy<Value = Pricing> {
    let each = (price(), price(), price(), price(), price());
    let optional = prop::array::uniform6(prop::option::of(price()));
    (each, optional).prop_map(
        |(
            (prompt, completion, request, image, web_search),
            [reasoning, read, write, write_1h, audio, audio_output],
        )| Pricing {
            prompt,
            completion,
            request,
            image,
            web_search,
            internal_reasoning: reasoning,
            input_cache_read: read,
            input_cache_write: write,
            input_cache_write_1h: write_1h,
            audio,
            audio_output,
            ..Pricing::default()
        },
    )
}

/// Counts as a provider may report them: also classes larger than their whole.
fn usage() -> impl Strategy<Value = Usage> {
    let count = || prop_oneof![Just(0), 0_u64..2_000, 0_u64..1_000_000_000_000];
    let input = (count(), count(), count(), count(), count());
    let output = (count(), count(), count(), count(), count(), any::<bool>());
    (input, output).prop_map(
        |(
            (prompt, cached, written, written_1h, audio),
            (completion, reasoning, spoken, images, searches, estimated),
        )| {
            Usage {
                prompt_tokens: prompt,
                completion_tokens: completion,
                cached_tokens: cached,
                cache_write_tokens: written,
                cache_write_1h_tokens: written_1h,
                audio_tokens: audio,
                audio_output_tokens: spoken,
                reasoning_tokens: reasoning,
                images,
                web_searches: searches,
                reported_cost: None,
                estimated,
                ..Usage::default()
            }
        },
    )
}

/// All parts. Written out, so that a new part has to be added here.
fn parts(cost: &CostBreakdown) -> Vec<Usd> {
    let CostBreakdown {
        prompt,
        completion,
        reasoning,
        cache_read,
        cache_write,
        cache_write_1h,
        audio,
        audio_output,
        request,
        image,
        web_search,
    } = *cost;
    let input = [prompt, cache_read, cache_write, cache_write_1h, audio, image];
    let output = [completion, reasoning, audio_output];
    [&input[..], &output[..], &[request, web_search]].concat()
}

proptest! {
    #[test]
    fn the_total_is_the_sum_of_the_parts_to_the_last_unit(pricing in pricing(), usage in usage()) {
        let cost = pricing.cost(&usage);
        let sum: i128 = parts(&cost).iter().map(|part| part.femto()).sum();
        prop_assert_eq!(cost.total().femto(), sum);
        prop_assert!(parts(&cost).iter().all(|part| *part >= Usd::ZERO), "{:?}", cost);
        prop_assert_eq!(cost.total().to_string().parse(), Ok(cost.total()), "as written and read again");
    }

    #[test]
    fn what_is_reserved_for_a_prompt_covers_every_usage_of_it(pricing in pricing(), usage in usage()) {
        let usage = Usage { web_searches: usage.web_searches.min(1), ..usage };
        let reserved = pricing.worst_case(&RequestedService::default(), usage.prompt_tokens, usage.completion_tokens, usage.images);
        prop_assert!(pricing.cost(&usage).total() <= reserved);
        // Also if the prompt was estimated a quarter too low, but for the tokens that nobody expected.
        let estimate = usage.prompt_tokens - usage.prompt_tokens / 4;
        let expected = pricing.possible(&RequestedService::default(), estimate).any(|tier| tier.prompt == pricing.at(usage.prompt_tokens).prompt);
        prop_assert!(expected, "the tier of the prompt is among those that were reserved for");
    }

    /// At one price for all tokens it does not matter how they are divided into classes.
    #[test]
    fn every_token_is_billed_once(usage in usage(), price in price()) {
        let optional = Some(price);
        let flat = Pricing {
            prompt: price,
            completion: price,
            internal_reasoning: optional,
            input_cache_read: optional,
            input_cache_write: optional,
            input_cache_write_1h: optional,
            audio: optional,
            audio_output: optional,
            ..Pricing::default()
        };
        let tokens = i128::from(usage.prompt_tokens) + i128::from(usage.completion_tokens);
        prop_assert_eq!(flat.cost(&usage).total().femto(), price.femto() * tokens);
        let two = Pricing { prompt: price, completion: price, ..Pricing::default() };
        prop_assert_eq!(two.cost(&usage).total(), flat.cost(&usage).total(), "an absent price is that of the whole class");
    }
}
