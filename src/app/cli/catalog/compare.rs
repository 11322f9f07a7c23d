//! What the price list says about each endpoint, against the configuration.

use pointsman_config::TokenClass;
use pointsman_domain::{Catalog, Endpoint, Price, Pricing};

use super::source::{Offer, Source};

/// A price that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PriceChange {
    pub(super) class: TokenClass,
    /// `None` where the price is unknown.
    pub(super) old: Option<Price>,
    pub(super) new: Price,
}

/// A price of longer prompts that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TierChange {
    pub(super) above: u64,
    pub(super) change: PriceChange,
}

/// An endpoint and what the list says about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) model: String,
    pub(super) provider: String,
    pub(super) variant: String,
    pub(super) upstream_model: String,
    /// The list does not have it, though it has others of its provider.
    pub(super) is_unlisted: bool,
    pub(super) prices: Vec<PriceChange>,
    pub(super) tiers: Vec<TierChange>,
    pub(super) context: Option<(u32, u32)>,
    pub(super) longest_answer: Option<(u32, u32)>,
    pub(super) retirement: Option<chrono::NaiveDate>,
}

impl Comparison {
    pub(super) fn differs(&self) -> bool {
        self.is_unlisted
            || !self.prices.is_empty()
            || !self.tiers.is_empty()
            || self.context.is_some()
            || self.longest_answer.is_some()
            || self.retirement.is_some()
    }

    /// Its name in the text.
    pub(super) fn name(&self) -> String {
        let variant = if self.variant.is_empty() { String::new() } else { format!(":{}", self.variant) };
        format!("{}@{}{variant}", self.model, self.provider)
    }
}

/// Compares all endpoints of the providers that the list has; of one provider only, if it is named.
pub(super) fn compare(catalog: &Catalog, source: &Source, only: Option<&str>) -> Vec<Comparison> {
    let mut all = Vec::new();
    for model in &catalog.models {
        for (_, endpoint) in catalog.endpoints_of(model) {
            let Some(provider) = catalog.provider_of(endpoint).map(|provider| provider.slug.as_str()) else { continue };
            let is_listed = source.providers.contains(provider);
            if !is_listed || endpoint.disabled || only.is_some_and(|only| only != provider) {
                continue;
            }
            let key = (provider.to_owned(), endpoint.upstream_model.to_string());
            let offer = source.offers.get(&key);
            let mut comparison = Comparison {
                model: model.id.as_str().to_owned(),
                provider: key.0,
                variant: endpoint.variant.clone(),
                upstream_model: key.1,
                is_unlisted: offer.is_none(),
                prices: Vec::new(),
                tiers: Vec::new(),
                context: None,
                longest_answer: None,
                retirement: None,
            };
            if let Some(offer) = offer {
                compare_limits(&mut comparison, endpoint, offer);
                compare_prices(&mut comparison, endpoint.pricing.as_deref(), offer);
                comparison.retirement = offer.retirement.filter(|day| model.expiration_date != Some(*day));
            }
            all.push(comparison);
        }
    }
    all
}

fn compare_limits(comparison: &mut Comparison, endpoint: &Endpoint, offer: &Offer) {
    let differs = |old: u32, new: u32| (old != new).then_some((old, new));
    let limits = &endpoint.limits;
    comparison.context = offer.context.and_then(|new| differs(limits.context_length, new));
    let longest = offer.longest_answer.zip(limits.max_completion_tokens);
    comparison.longest_answer = longest.and_then(|(new, old)| differs(old, new));
}

/// Prices count only where the list has both prices of text.
fn compare_prices(comparison: &mut Comparison, old: Option<&Pricing>, offer: &Offer) {
    let mut required = TokenClass::ALL.iter().filter(|class| class.is_required());
    if !required.all(|class| offer.prices.contains_key(class)) {
        return;
    }
    for (class, new) in &offer.prices {
        let old = old.map(|old| class.cost_in(old));
        if old != Some(*new) {
            comparison.prices.push(PriceChange { class: *class, old, new: *new });
        }
    }
    comparison.tiers = old.map(|old| changed_tiers(old, offer)).unwrap_or_default();
}

/// Prices of the list for longer prompts that the configuration does not have.
fn changed_tiers(old: &Pricing, offer: &Offer) -> Vec<TierChange> {
    let mut changes = Vec::new();
    for (above, prices) in &offer.tiers {
        let tier = old.tiers.iter().find(|tier| tier.above_prompt_tokens == *above).map(|tier| tier.pricing(old));
        for (class, new) in prices {
            let (class, new, old) = (*class, *new, tier.as_ref().map(|tier| class.cost_in(tier)));
            if old != Some(new) {
                changes.push(TierChange { above: *above, change: PriceChange { class, old, new } });
            }
        }
    }
    changes
}
