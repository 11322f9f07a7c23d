use std::{borrow::Cow, iter};

use super::{
    money::{Price, Usd},
    price_tier::PriceTier,
    service_tier::{RequestedService, ServedService, ServiceName, ServicePreference},
    usage::{Pricing, ServiceTierPrices},
};

impl Pricing {
    /// The prices of a service tier; `None` if it has none of its own.
    pub fn service_tier(&self, name: &ServiceName) -> Option<&Pricing> {
        self.service_tiers.iter().find(|tier| tier.name == *name).map(|tier| &tier.pricing)
    }

    /// The factor of a geography in thousandths; `None` if it has none.
    pub fn geography(&self, name: &ServiceName) -> Option<u64> {
        self.geographies.iter().find(|geography| geography.name == *name).map(|geography| geography.per_mille)
    }

    /// The prices of the tier that served, for prompts of all lengths; the standard ones where it has none of its own.
    pub fn of_tier(&self, served: &ServedService) -> &Pricing {
        served.tier.and_then(|name| self.service_tier(&name)).unwrap_or(self)
    }

    /// The prices of what served, for a prompt of this length.
    pub fn served(&self, served: &ServedService, prompt_tokens: u64) -> Cow<'_, Pricing> {
        let pricing = self.of_tier(served).at(prompt_tokens);
        match served.geography.and_then(|name| self.geography(&name)) {
            Some(per_mille) => Cow::Owned(pricing.times(per_mille)),
            None => pricing,
        }
    }

    /// The prices that may turn out to hold for what a request asks for, each for prompts of all lengths: the standard ones, since a
    /// better service may be out of capacity, and those of each tier that it may get.
    fn of_request<'p>(&'p self, service: &'p RequestedService) -> impl Iterator<Item = &'p Pricing> {
        let tiers = self.service_tiers.iter().filter(|tier| service.may_get_tier(&tier.name));
        iter::once(self).chain(tiers.map(|tier| &tier.pricing))
    }

    /// Prices at the highest factor of a geography that the request may get.
    fn dearest_there<'p>(&self, service: &RequestedService, pricing: Cow<'p, Pricing>) -> Cow<'p, Pricing> {
        let possible = self.geographies.iter().filter(|geography| service.may_get_geography(&geography.name));
        match possible.map(|geography| geography.per_mille).max().filter(|per_mille| *per_mille > 1_000) {
            Some(per_mille) => Cow::Owned(pricing.times(per_mille)),
            None => pricing,
        }
    }

    /// The prices that may turn out to hold for a request whose prompt is estimated to have so many tokens: the estimate may be a
    /// quarter too low, or too high by anything.
    pub fn possible<'p>(
        &'p self,
        service: &'p RequestedService,
        prompt_tokens: u64,
    ) -> impl Iterator<Item = Cow<'p, Pricing>> {
        let longest = prompt_tokens.saturating_add(prompt_tokens / 3);
        let of_lengths = move |pricing: &'p Pricing| {
            let tiers = pricing.tiers.iter().take_while(move |tier| tier.above_prompt_tokens < longest);
            iter::once(Cow::Borrowed(pricing)).chain(tiers.map(|tier| Cow::Owned(tier.pricing(pricing))))
        };
        self.of_request(service).flat_map(of_lengths).map(|pricing| self.dearest_there(service, pricing))
    }

    /// The prices that may hold for a prompt of exactly this length.
    pub fn possible_at<'p>(
        &'p self,
        service: &'p RequestedService,
        prompt_tokens: u64,
    ) -> impl Iterator<Item = Cow<'p, Pricing>> {
        self.of_request(service).map(move |pricing| self.dearest_there(service, pricing.at(prompt_tokens)))
    }

    /// The highest of something over the prices that may hold for a request with a prompt of about this length.
    /// Where nothing was asked for, the settings of the account decide, and may ask for any.
    pub(super) fn dearest(&self, service: &RequestedService, prompt_tokens: u64, of: impl Fn(&Pricing) -> Usd) -> Usd {
        self.possible(&service.at_its_dearest(), prompt_tokens)
            .map(|pricing| of(&pricing))
            .reduce(Usd::max)
            .unwrap_or_default()
    }

    /// Gives the service tiers the prices of what is not counted in tokens.
    #[must_use]
    pub fn with_shared_prices(mut self) -> Pricing {
        let (request, image, web_search) = (self.request, self.image, self.web_search);
        for ServiceTierPrices { pricing, .. } in &mut self.service_tiers {
            (pricing.request, pricing.image, pricing.web_search) = (request, image, web_search);
        }
        self
    }

    /// Gives a service tier that has two words its prices under both.
    #[must_use]
    pub fn with_other_words(mut self) -> Pricing {
        let other = |tier: &ServiceTierPrices| {
            let name = tier.name.other_word().filter(|name| self.service_tier(name).is_none())?;
            Some(ServiceTierPrices { name, pricing: tier.pricing.clone() })
        };
        let others: Vec<ServiceTierPrices> = self.service_tiers.iter().filter_map(other).collect();
        self.service_tiers.extend(others);
        self
    }

    /// All prices of tokens multiplied, rounded up to the last digit.
    fn times(&self, per_mille: u64) -> Pricing {
        let scaled = |price: Price| {
            let product = price.femto().saturating_mul(i128::from(per_mille));
            Usd::from_femto(product.saturating_add(999).div_euclid(1_000))
        };
        self.with_tokens(&scaled)
    }

    /// Other prices of tokens, of every length, without other services.
    fn with_tokens(&self, of: &impl Fn(Price) -> Price) -> Pricing {
        let tier = |tier: &PriceTier| PriceTier::new(tier.above_prompt_tokens, &tier.pricing(self).with_tokens(of));
        Pricing {
            prompt: of(self.prompt),
            completion: of(self.completion),
            internal_reasoning: self.internal_reasoning.map(of),
            input_cache_read: self.input_cache_read.map(of),
            input_cache_write: self.input_cache_write.map(of),
            input_cache_write_1h: self.input_cache_write_1h.map(of),
            audio: self.audio.map(of),
            audio_output: self.audio_output.map(of),
            request: self.request,
            image: self.image,
            web_search: self.web_search,
            tiers: self.tiers.iter().map(tier).collect(),
            service_tiers: Vec::new(),
            geographies: Vec::new(),
        }
    }
}

impl RequestedService {
    /// What is asked of an endpoint with these prices: a service without a price is not, unless all prices are zero or unknown.
    #[must_use]
    pub fn sent_to(self, pricing: Option<&Pricing>) -> RequestedService {
        let Some(pricing) = pricing.filter(|pricing| self != RequestedService::default() && !pricing.is_free()) else {
            return self;
        };
        let sent = |wish: ServicePreference, is_priced: &dyn Fn(&ServiceName) -> bool| match wish {
            ServicePreference::Named(name) if !is_priced(&name) => ServicePreference::Open,
            ServicePreference::Unknown => ServicePreference::Open,
            wish => wish,
        };
        let has_tier = |name: &ServiceName| pricing.service_tier(name).is_some();
        RequestedService {
            tier: sent(self.tier, &has_tier),
            speed: sent(self.speed, &has_tier),
            geography: sent(self.geography, &|name| pricing.geography(name).is_some()),
        }
    }

    /// The service that an endpoint with these prices is asked for by name; the standard where there is none.
    #[must_use]
    pub fn asked(self, pricing: Option<&Pricing>) -> ServedService {
        let sent = self.sent_to(pricing);
        ServedService { tier: sent.speed.name().or(sent.tier.name()), geography: sent.geography.name() }
    }

    /// The fields that an endpoint with these prices does not get, because what they ask for has no price.
    pub fn unpriced(self, pricing: Option<&Pricing>) -> impl Iterator<Item = &'static str> + use<> {
        let sent = self.sent_to(pricing);
        let pairs = [(self.tier, sent.tier), (self.speed, sent.speed), (self.geography, sent.geography)];
        Self::FIELDS.into_iter().zip(pairs).filter(|(_, (asked, sent))| asked != sent).map(|(name, _)| name)
    }

    /// What is billed at an endpoint with these prices, if its answer tells `told`: that, unless it has a price that the request
    /// does not allow, or is unknown although another one was asked for; then what was asked for.
    #[must_use]
    pub fn served(self, told: ServedService, pricing: Option<&Pricing>) -> ServedService {
        let sent = self.sent_to(pricing);
        let ServedService { tier: asked_tier, geography: asked_geography } = self.asked(pricing);
        let is_open = sent.tier == ServicePreference::Open && sent.speed == ServicePreference::Open;
        let takes_tier = |name: &ServiceName| match pricing.and_then(|pricing| pricing.service_tier(name)) {
            // It repeats the request.
            _ if name.as_str() == "auto" => false,
            Some(_) => is_open || sent.may_get_tier(name),
            None => asked_tier.is_none() || name.is_standard(),
        };
        let takes_geography = |name: &ServiceName| match pricing.and_then(|pricing| pricing.geography(name)) {
            Some(_) => sent.geography == ServicePreference::Open || sent.may_get_geography(name),
            None => asked_geography.is_none() || name.is_standard(),
        };
        ServedService {
            tier: told.tier.filter(takes_tier).or(asked_tier),
            geography: told.geography.filter(takes_geography).or(asked_geography),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::usage::GeographyPrice;
    use crate::{ServicePreference, Usage};

    fn usd(text: &str) -> Usd {
        text.parse().unwrap_or_default()
    }

    fn name(text: &str) -> ServiceName {
        ServiceName::parse(text).unwrap()
    }

    /// A dollar and three; flex half of it, priority and fast more; 1.1 times that in the US; longer prompts twice that.
    fn priced() -> Pricing {
        let of = |prompt: &str, completion: &str| {
            let pricing = Pricing { prompt: usd(prompt), completion: usd(completion), ..Pricing::default() };
            let longer = pricing.with_tokens(&|price| price * 2);
            Pricing { tiers: vec![PriceTier::new(1_000, &longer)], ..pricing }
        };
        let tier = |text: &str, prompt: &str, completion: &str| ServiceTierPrices {
            name: name(text),
            pricing: of(prompt, completion),
        };
        let service_tiers = vec![
            tier("flex", "0.5", "1.5"),
            tier("priority", "2", "6"),
            tier("fast", "3", "4"),
            tier("scale", "9", "1"),
        ];
        let geographies = vec![
            GeographyPrice { name: name("us"), per_mille: 1_100 },
            GeographyPrice { name: name("eu"), per_mille: 900 },
        ];
        let base = Pricing { request: usd("7"), web_search: usd("11"), ..of("1", "3") };
        Pricing { service_tiers, geographies, ..base }.with_shared_prices()
    }

    fn cost(tier: &str, geography: &str) -> String {
        let service = ServedService { tier: ServiceName::parse(tier), geography: ServiceName::parse(geography) };
        let usage = Usage { prompt_tokens: 100, completion_tokens: 10, service, ..Usage::default() };
        priced().cost(&usage).total().to_string()
    }

    #[test]
    fn tokens_cost_what_the_tier_and_the_geography_say_and_a_request_the_same() {
        assert_eq!(cost("", ""), "137", "100 × 1 + 10 × 3 + 7");
        assert_eq!(cost("flex", ""), "72");
        assert_eq!(cost("priority", "us"), "293", "(100 × 2 + 10 × 6) × 1.1 + 7");
        assert_eq!(cost("unknown", "global"), "137");
    }

    #[test]
    fn a_word_without_a_price_is_not_sent_unless_all_is_free_or_the_price_unknown() {
        let asked = RequestedService { tier: ServicePreference::of("turbo"), ..RequestedService::default() };
        assert_eq!(asked.unpriced(Some(&priced())).collect::<Vec<_>>(), ["service_tier"]);
        assert_eq!(asked.unpriced(Some(&Pricing::default())).count() + asked.unpriced(None).count(), 0);
        let flex = RequestedService {
            tier: ServicePreference::of("Flex"),
            speed: ServicePreference::of("standard"),
            geography: ServicePreference::of("mars"),
        };
        assert_eq!(flex.unpriced(Some(&priced())).collect::<Vec<_>>(), ["inference_geo"]);
    }

    fn wish() -> impl Strategy<Value = ServicePreference> {
        let words = ["flex", "priority", "fast", "scale", "us", "eu", "auto", "default", "global", "zzz", "no word"];
        prop_oneof![
            Just(ServicePreference::Open),
            proptest::sample::select(words.to_vec()).prop_map(ServicePreference::of)
        ]
    }

    fn told() -> impl Strategy<Value = Option<ServiceName>> {
        let words = ["", "flex", "priority", "fast", "scale", "us", "eu", "default", "standard", "global", "zzz"];
        proptest::sample::select(words.to_vec()).prop_map(ServiceName::parse)
    }

    proptest! {
        #[test]
        fn whatever_an_answer_tells_no_request_with_such_a_field_costs_more_than_was_reserved(
            (tier, speed, geography) in (wish(), wish(), wish()),
            (reported_tier, reported_geography) in (told(), told()),
            (prompt_tokens, completion_tokens, web_searches) in (0_u64..3_000, 0_u64..100, 0_u64..=1),
        ) {
            let pricing = priced();
            let asked = RequestedService { tier, speed, geography };
            let sent = asked.sent_to(Some(&pricing));
            // Of a field that is not sent, only the settings of the account tell what comes.
            let is_open = sent.tier == ServicePreference::Open && sent.speed == ServicePreference::Open;
            let tier = reported_tier.filter(|_| !is_open);
            let geography = reported_geography.filter(|_| sent.geography != ServicePreference::Open);
            let service = asked.served(ServedService { tier, geography }, Some(&pricing));
            let usage = Usage { prompt_tokens, completion_tokens, web_searches, service, ..Usage::default() };
            let reserved = pricing.worst_case(&sent, prompt_tokens, completion_tokens, 0);
            prop_assert!(pricing.cost(&usage).total() <= reserved, "{asked:?} {tier:?} {geography:?} {service:?}");
        }
    }
}
