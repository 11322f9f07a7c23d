//! Prices as configured: decimal strings of US dollars, never floats.
//!
//! `usd_per_million` and `usd_each` are in the units of price lists; `pricing` is per token, as in the model list.

use std::ops::RangeInclusive;

use chrono::NaiveDate;
use pointsman_domain::{GeographyPrice, Price, PriceTier, Pricing, ServiceName, ServiceTierPrices, Usd, UsdFault};

use super::section::Section;

/// The value of `pricing` that says that prices are not known.
const UNKNOWN: &str = "unknown";
const UNKNOWN_WARNING: &str = "is unknown: cheapest, free aliases and requests with a limit on cost do not use the endpoint, \
                               and its cost is not counted; set prices as soon as they are known";

/// Most tiers of an endpoint.
const MAX_TIERS: usize = 8;
/// Most services with prices of their own.
const MAX_SERVICES: usize = 16;
/// A thousandth.
const FEMTO_PER_MILLE: i128 = 1_000_000_000_000;
/// Highest factor of a geography, in thousandths.
const MAX_FACTOR: i128 = 100_000;
/// Longest prompt above which a tier may begin, in tokens.
const MAX_TIER_TOKENS: u32 = 1_000_000_000;

/// What a token plausibly costs: from 0.0001 to 10,000 dollars per million. Anything else is probably in the other unit.
const PLAUSIBLE: RangeInclusive<Price> = Usd::from_femto(100_000)..=Usd::from_femto(10_000_000_000_000);

/// Unit of a price.
struct Measure {
    allowed: &'static str,
    digits: usize,
    /// Converts the text of a price to the price of one token or request.
    of_one: fn(&str) -> String,
}

const ONE: Measure = Measure {
    allowed: "US dollars as a decimal number in quotes, at least 0, such as \"0.00000015\"",
    digits: 15,
    of_one: str::to_owned,
};
const MILLION: Measure = Measure {
    allowed: "US dollars per million tokens as a decimal number in quotes, at least 0, such as \"0.15\"",
    digits: 9,
    of_one: per_token,
};

/// Prices as an entry sets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prices {
    /// These prices, and when they were read; a month is its first day.
    Known(Box<Pricing>, Option<NaiveDate>),
    /// `pricing = "unknown"`: the operator states that there is no price.
    Unknown,
}

impl Prices {
    pub(super) fn known(self) -> Option<Pricing> {
        match self {
            Prices::Known(pricing, _) => Some(*pricing),
            Prices::Unknown => None,
        }
    }

    pub(super) fn date(&self) -> Option<NaiveDate> {
        match self {
            Prices::Known(_, date) => *date,
            Prices::Unknown => None,
        }
    }
}

/// The prices that an entry sets itself; `None` when it inherits them.
pub(super) fn read(section: &Section<'_>) -> Option<Prices> {
    if !section.is_word("pricing", UNKNOWN) {
        return read_known(section).map(|(pricing, date)| Prices::Known(Box::new(pricing), date));
    }
    for other in ["usd_per_million", "usd_each"].into_iter().filter(|key| section.has(key)) {
        section.fault(other, "is set although pricing is \"unknown\"", "prices, or pricing = \"unknown\"");
    }
    section.warning("pricing", UNKNOWN_WARNING);
    Some(Prices::Unknown)
}

fn read_known(section: &Section<'_>) -> Option<(Pricing, Option<NaiveDate>)> {
    let per_million = section.optional("usd_per_million", read_per_million);
    let each = section.optional("usd_each", |each| {
        keys! { each:
            //! Prices per request, image and search in US dollars, together with `usd_per_million`.
        }
        of_calls(each)
    });
    let per_token = section.optional("pricing", read_pricing);
    if section.has("pricing") {
        for other in ["usd_per_million", "usd_each"].into_iter().filter(|key| section.has(key)) {
            section.fault(other, "is set together with pricing", "pricing, or usd_per_million with usd_each");
        }
        return per_token.map(|pricing| (pricing.with_shared_prices(), None));
    }
    if section.has("usd_each") && !section.has("usd_per_million") {
        section.fault(
            "usd_each",
            "is set without usd_per_million",
            "usd_per_million = { prompt = \"…\", completion = \"…\" } beside it",
        );
    }
    let [request, image, web_search] = each.unwrap_or_default();
    per_million.map(|(tokens, date)| (Pricing { request, image, web_search, ..tokens }.with_shared_prices(), date))
}

/// Prices of calls, input or generated images, and searches.
fn of_calls(section: &Section<'_>) -> [Price; 3] {
    keys! { section:
        /// A call.
        request = with(price_of_one) [default = "\"0\""],
        /// An input image; for image models: a generated image.
        image = with(price_of_one) [default = "\"0\""],
        /// A search.
        web_search = with(price_of_one) [default = "\"0\""],
    }
    [request, image, web_search].map(Option::unwrap_or_default)
}

/// A `pricing` table. Prompt and completion are required, because every answer shows its cost.
fn read_pricing(section: &Section<'_>) -> Pricing {
    keys! { section:
        //! All prices in one table, with prices of one token: `{ prompt = "0.00000015", completion = "0.0000006" }`.
        //! Alternative to the two tables above. `pricing = "unknown"` instead of a table: there is no price.
        //! `cheapest`, free aliases and requests with a limit on cost exclude the endpoint as `price_unknown`, and its
        //! cost is `null`, never 0.
    }
    let tokens = with_services(section, &ONE, " per token");
    let [request, image, web_search] = of_calls(section);
    Pricing { request, image, web_search, ..tokens }
}

/// A `usd_per_million` table: token prices with their source and date.
fn read_per_million(section: &Section<'_>) -> (Pricing, Option<NaiveDate>) {
    keys! { section:
        //! Prices of a million tokens in US dollars, as decimal strings. Prices of an endpoint replace those of its
        //! model as a whole.
    }
    let tokens = with_services(section, &MILLION, "");
    keys! { section:
        /// Source of the price.
        _source "source" = filled() [absent = "none"],
        /// When it was read.
        date = with(date) [absent = "none", allowed = "`2026-11` or `2026-11-20`"],
    }
    (tokens, date)
}

fn date(section: &Section<'_>, key: &'static str) -> Option<NaiveDate> {
    let day = day_of(section.filled(key)?);
    if day.is_none() {
        section.fault(key, "is not a month or a day", "when the price was read, such as \"2026-11\"");
    }
    day
}

/// The prices of tokens, with those of other services than the standard.
fn with_services(section: &Section<'_>, measure: &Measure, unit: &str) -> Pricing {
    const WORD: &str =
        "the provider's word, such as flex: up to 23 letters, digits, '_', '-' and '.', and none for the standard";
    let base = with_tiers(section, measure, unit);
    let named = section.named("service_tiers", |item, tier| {
        let name = ServiceName::parse(item.text).filter(|name| !name.is_standard() && name.as_str() != "auto");
        if name.is_none() {
            item.fault("is not the name of a service tier", WORD);
        }
        keys! { tier:
            //! Prices of other services than the standard, by the provider's word: `service_tiers = { flex = { prompt =
            //! "0.5", completion = "1.5" } }`. They replace the prices of tokens as a whole; prices per request, image
            //! and search stay. A request's `service_tier` (or `speed`) is sent only to endpoints that have a price for
            //! it. At endpoints of the OpenAI dialects `fast` and `priority` stand for each other where one has no
            //! price.
        }
        let pricing = with_tiers(tier, measure, unit);
        Some(ServiceTierPrices { name: name?, pricing })
    });
    keys! { section:
        /// What prices of tokens are multiplied by where the request or the answer names this geography
        /// (`inference_geo` of the Messages API). Without a factor an endpoint does not serve a request that names it.
        geographies "inference_geo" = with(geographies)
            [absent = "none", kind = "table", allowed = "name = factor such as `\"1.1\"`"],
    }
    let service_tiers: Vec<ServiceTierPrices> = named.into_iter().flatten().take(MAX_SERVICES).collect();
    Pricing { service_tiers, geographies, ..base }
}

fn geographies(section: &Section<'_>, key: &'static str) -> Vec<GeographyPrice> {
    let factors = section.pairs(key, MAX_SERVICES).into_iter().filter_map(|(name, item)| {
        let name = ServiceName::parse(name).filter(|name| !name.is_standard());
        let factor = item.text.parse::<Usd>().ok().map(|factor| factor.femto());
        let per_mille = factor.filter(|factor| factor % FEMTO_PER_MILLE == 0).map(|factor| factor / FEMTO_PER_MILLE);
        let per_mille = per_mille.filter(|per_mille| (1..=MAX_FACTOR).contains(per_mille));
        let (Some(name), Some(per_mille)) = (name, per_mille.and_then(|per_mille| u64::try_from(per_mille).ok()))
        else {
            item.fault(
                "is not a geography and its factor",
                "such as us = \"1.1\": above 0, at most 100, with up to 3 digits after the point",
            );
            return None;
        };
        Some(GeographyPrice { name, per_mille })
    });
    factors.collect()
}

/// The prices of tokens, with those of longer prompts.
fn with_tiers(section: &Section<'_>, measure: &Measure, unit: &str) -> Pricing {
    let base = of_tokens(section, measure, unit);
    let tiers = section.sections("tiers", MAX_TIERS, |tier| {
        keys! { tier:
            //! Prices of longer prompts, where a price list has them: one table for each length, the shortest first, such
            //! as `[[models.usd_per_million.tiers]]`. They replace the prices of tokens as a whole; prices per request,
            //! image and search stay.
            /// Prompts with more tokens than this, cached ones included, have the prices of this tier for all their
            /// tokens.
            above "above_prompt_tokens" = integer(1..=MAX_TIER_TOKENS) [unit = "tokens", absent = "required"],
        }
        if above.is_none() && !tier.has("above_prompt_tokens") {
            tier.absence(
                "above_prompt_tokens",
                "is missing",
                "the length of prompts, in tokens, above which these prices hold",
            );
        }
        let pricing = of_tokens(tier, measure, unit);
        above.map(|above| PriceTier::new(u64::from(above), &pricing))
    });
    let tiers: Vec<PriceTier> = tiers.into_iter().flatten().collect();
    if !tiers.is_sorted_by(|tier, next| tier.above_prompt_tokens < next.above_prompt_tokens) {
        section.fault("tiers", "are not in order", "tiers by ascending above_prompt_tokens, each length once");
    }
    Pricing { tiers, ..base }
}

fn of_tokens(section: &Section<'_>, measure: &Measure, unit: &str) -> Pricing {
    let price = |section: &Section<'_>, key| {
        let price = price(section, key, measure)?;
        if !price.is_zero() && !PLAUSIBLE.contains(&price) {
            let dollars = price.times(1_000_000);
            let hint = "pricing is in dollars per token, usd_per_million in dollars per million";
            section.warning(key, format!("is {dollars} dollars per million tokens: {hint}"));
        }
        Some(price)
    };
    let allowed = &format!("{}{unit}; \"0\" if it costs nothing", measure.allowed);
    let required = |section: &Section<'_>, key| {
        let price = price(section, key);
        if price.is_none() && !section.has(key) {
            section.absence(key, "is missing", allowed);
        }
        price.unwrap_or_default()
    };
    keys! { section:
        /// Tokens of the prompt.
        prompt = with(required) [absent = "required"],
        /// Tokens of the answer.
        completion = with(required) [absent = "required"],
        /// Whether a price of `"0"` for reasoning, cache and audio means that these tokens are free.
        explicit_zero = flag_or(false),
    }
    // Some price lists contain "0" for unknown prices, which must not make cached tokens free.
    let meant = |section: &Section<'_>, key| price(section, key).filter(|price| explicit_zero || !price.is_zero());
    keys! { section => Pricing { prompt, completion, ..Pricing::default() }:
        /// Reasoning tokens; `"0"` means the same as an absent key.
        internal_reasoning = with(meant) [absent = "the price of `completion`"],
        /// Prompt tokens read from the cache of the provider; `"0"` means the same as an absent key.
        input_cache_read = with(meant) [absent = "the price of `prompt`"],
        /// Prompt tokens written to the cache for five minutes, or for a time that the provider does not report; `"0"`
        /// means the same as an absent key.
        input_cache_write = with(meant) [absent = "the price of `prompt`"],
        /// Prompt tokens written to the cache for one hour; `"0"` means the same as an absent key.
        input_cache_write_1h = with(meant) [absent = "the price of `input_cache_write`"],
        /// Prompt tokens of audio; `"0"` means the same as an absent key.
        audio = with(meant) [absent = "the price of `prompt`"],
        /// Tokens of audio in the answer; `"0"` means the same as an absent key.
        audio_output = with(meant) [absent = "the price of `completion`"],
    }
}

fn price_of_one(section: &Section<'_>, key: &'static str) -> Option<Price> {
    price(section, key, &ONE)
}

fn price(section: &Section<'_>, key: &'static str, measure: &Measure) -> Option<Price> {
    let text = section.text_of(key, measure.allowed)?;
    let price = match (measure.of_one)(text).parse::<Price>() {
        Ok(price) if price >= Price::ZERO => Ok(price),
        Ok(_) => Err("is negative".to_owned()),
        Err(UsdFault::NotDecimal) => Err("is not a plain decimal number".to_owned()),
        Err(UsdFault::OutOfRange) => {
            Err(format!("is too large, or has more than {} digits after the point", measure.digits))
        }
    };
    price.map_err(|wrong| section.fault(key, wrong, measure.allowed)).ok()
}

/// Divides a decimal string by a million by moving the decimal point. Other text is returned unchanged.
pub(super) fn per_token(text: &str) -> String {
    let (sign, number) = text.strip_prefix('-').map_or(("", text), |number| ("-", number));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || (fraction.is_empty() && number.contains('.')) {
        return text.to_owned();
    }
    let padded = format!("{whole:0>7}");
    let (whole, moved) = padded.split_at_checked(padded.len() - 6).unwrap_or((&padded, ""));
    format!("{sign}{whole}.{moved}{fraction}")
}

/// `2026-11` or `2026-11-20`.
pub(super) fn day_of(text: &str) -> Option<NaiveDate> {
    let day = if text.len() == "2026-11".len() { format!("{text}-01") } else { text.to_owned() };
    day.parse().ok().filter(|_| day.len() == "2026-11-20".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_per_million_is_exact_per_token() {
        for (million, one) in [
            ("0.15", "0.00000015"),
            ("2", "0.000002"),
            ("0", "0"),
            ("1250000", "1.25"),
            ("0.000000001", "0.000000000000001"),
        ] {
            assert_eq!(per_token(million).parse::<Price>(), one.parse::<Price>(), "{million}");
        }
        assert_eq!(per_token("-1").parse::<Price>(), "-0.000001".parse::<Price>());
        for text in ["", ".", "1.", "1e3", "one", "+1"] {
            assert!(per_token(text).parse::<Price>().is_err(), "{text}");
        }
    }
}
