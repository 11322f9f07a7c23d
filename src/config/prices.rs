//! Prices as configured: decimal strings in US dollars, never floats.

use pointsman_actors::domain::{Price, Pricing, UsdFault};

use super::section::Section;

const PLAIN_DECIMAL: &str = "a plain decimal string of US dollars, at least 0, such as \"0.00000015\"";

/// A `pricing` table. Prompt and completion must be there: a cost is shown with every answer.
pub(super) fn read(section: &Section<'_>) -> Pricing {
    let explicit_zero = section.flag("explicit_zero").unwrap_or(false);
    // A price list that writes "0" for what it does not know must not make cached tokens free.
    let fallback = |key| price(section, key).filter(|price| explicit_zero || !price.is_zero());
    Pricing {
        prompt: required(section, "prompt"),
        completion: required(section, "completion"),
        request: price(section, "request").unwrap_or_default(),
        image: price(section, "image").unwrap_or_default(),
        web_search: price(section, "web_search").unwrap_or_default(),
        internal_reasoning: fallback("internal_reasoning"),
        input_cache_read: fallback("input_cache_read"),
        input_cache_write: fallback("input_cache_write"),
    }
}

fn required(section: &Section<'_>, key: &'static str) -> Price {
    let price = price(section, key);
    if price.is_none() && !section.has(key) {
        section.absence(key, "is missing", format!("{PLAIN_DECIMAL} per token; \"0\" if it costs nothing"));
    }
    price.unwrap_or_default()
}

fn price(section: &Section<'_>, key: &'static str) -> Option<Price> {
    let price = match section.text_of(key, PLAIN_DECIMAL)?.parse::<Price>() {
        Ok(price) if price >= Price::ZERO => Ok(price),
        Ok(_) => Err("is negative"),
        Err(UsdFault::NotDecimal) => Err("is not a plain decimal number"),
        Err(UsdFault::OutOfRange) => Err("is too large, or has more than 15 digits after the point"),
    };
    price.map_err(|wrong| section.fault(key, wrong, PLAIN_DECIMAL)).ok()
}
