//! What price lists say about an endpoint, against the configuration, and whether that may be written.
//!
//! Lists have errors that stay for long: a price ten times too high, a unit mistaken for another. What looks like one is
//! written only for an endpoint that the operator accepts by name, and a slip of units never.

use pointsman_config::TokenClass;
use pointsman_domain::{Catalog, Endpoint, Price, Pricing};

use super::source::{Offer, Retirement, Source};

/// A price that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PriceChange {
    pub(super) class: TokenClass,
    /// `None` where the price is unknown.
    pub(super) old: Option<Price>,
    pub(super) new: Price,
}

/// A price of longer prompts that differs. Such prices are told, and written by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TierChange {
    pub(super) above: u64,
    pub(super) change: PriceChange,
}

/// Whether changed prices may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WritePermission {
    /// No price differs.
    Same,
    Write,
    /// Only with `--accept`, because …
    Ask(&'static str),
    /// Never, because …
    Refuse(String),
}

/// An endpoint and what the lists say about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) model: String,
    pub(super) provider: String,
    pub(super) variant: String,
    pub(super) upstream_model: String,
    /// Provider and variant of the endpoints of the model before it.
    pub(super) earlier: Vec<(String, String)>,
    /// No list has it, though one has others of its provider.
    pub(super) is_unlisted: bool,
    pub(super) prices: Vec<PriceChange>,
    pub(super) tiers: Vec<TierChange>,
    pub(super) permission: WritePermission,
    /// All its prices as they would be; `None` where no list has both prices of text.
    pub(super) target: Option<Pricing>,
    /// The list that the prices come from: a position.
    pub(super) source: usize,
    pub(super) context: Option<(u32, u32)>,
    pub(super) longest_answer: Option<(u32, u32)>,
    pub(super) retirement: Option<Retirement>,
}

impl Comparison {
    pub(super) fn differs(&self) -> bool {
        self.is_unlisted || self.permission != WritePermission::Same || self.differs_beyond_prices()
    }

    /// Whether anything differs that is never written.
    pub(super) fn differs_beyond_prices(&self) -> bool {
        !self.tiers.is_empty() || self.context.is_some() || self.longest_answer.is_some() || self.retirement.is_some()
    }

    /// Its name for `--accept`.
    pub(super) fn name(&self) -> String {
        let variant = if self.variant.is_empty() { String::new() } else { format!(":{}", self.variant) };
        format!("{}@{}{variant}", self.model, self.provider)
    }
}

/// Compares all endpoints of the providers that the lists have; of one provider only, if it is named.
pub(super) fn compare(
    catalog: &Catalog,
    sources: &[Source],
    only: Option<&str>,
    accepted: &[String],
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for model in &catalog.models {
        let mut earlier = Vec::new();
        for (_, endpoint) in catalog.endpoints_of(model) {
            let Some(provider) = catalog.provider_of(endpoint).map(|provider| provider.slug.as_str()) else { continue };
            let before = earlier.clone();
            earlier.push((provider.to_owned(), endpoint.variant.clone()));
            let is_listed = sources.iter().any(|source| source.providers.contains(provider));
            if !is_listed || endpoint.disabled || only.is_some_and(|only| only != provider) {
                continue;
            }
            let key = (provider.to_owned(), endpoint.upstream_model.to_string());
            let offers: Vec<(usize, &Offer)> = sources
                .iter()
                .enumerate()
                .filter_map(|(index, source)| Some((index, source.offers.get(&key)?)))
                .collect();
            let mut comparison = Comparison {
                model: model.id.as_str().to_owned(),
                provider: key.0,
                variant: endpoint.variant.clone(),
                upstream_model: key.1,
                earlier: before,
                is_unlisted: offers.is_empty(),
                prices: Vec::new(),
                tiers: Vec::new(),
                permission: WritePermission::Same,
                target: None,
                source: 0,
                context: None,
                longest_answer: None,
                retirement: None,
            };
            compare_limits(&mut comparison, endpoint, &offers, model.expiration_date);
            compare_prices(&mut comparison, endpoint.pricing.as_deref(), &offers, sources);
            let names = [comparison.model.clone(), comparison.name()];
            if matches!(comparison.permission, WritePermission::Ask(_))
                && accepted.iter().any(|name| names.contains(name))
            {
                comparison.permission = WritePermission::Write;
            }
            all.push(comparison);
        }
    }
    all
}

fn compare_limits(
    comparison: &mut Comparison,
    endpoint: &Endpoint,
    offers: &[(usize, &Offer)],
    expiration: Option<chrono::NaiveDate>,
) {
    let differs = |old: u32, new: u32| (old != new).then_some((old, new));
    let first = |of: fn(&Offer) -> Option<u32>| offers.iter().find_map(|(_, offer)| of(offer));
    let limits = &endpoint.limits;
    comparison.context = first(|offer| offer.context).and_then(|new| differs(limits.context_length, new));
    let longest = first(|offer| offer.longest_answer).zip(limits.max_completion_tokens);
    comparison.longest_answer = longest.and_then(|(new, old)| differs(old, new));
    let told = offers.iter().find_map(|(_, offer)| offer.retirement);
    comparison.retirement = told.filter(|told| match told {
        Retirement::On(day) => expiration != Some(*day),
        Retirement::Announced => expiration.is_none(),
    });
}

fn compare_prices(comparison: &mut Comparison, old: Option<&Pricing>, offers: &[(usize, &Offer)], sources: &[Source]) {
    let is_whole = |offer: &Offer| {
        TokenClass::ALL.iter().filter(|class| class.is_required()).all(|class| offer.prices.contains_key(class))
    };
    let Some((source, offer)) = offers.iter().find(|(_, offer)| is_whole(offer)) else { return };
    let mut target = old.cloned().unwrap_or_default();
    for (class, price) in &offer.prices {
        // A price that holds by way of another is not set.
        if class.of(&target).is_some() || class.cost_in(&target) != *price {
            class.set(&mut target, *price);
        }
    }
    for (class, new) in &offer.prices {
        let old = old.map(|old| class.cost_in(old));
        if old != Some(*new) {
            comparison.prices.push(PriceChange { class: *class, old, new: *new });
        }
    }
    comparison.tiers = old.map(|old| changed_tiers(old, offer)).unwrap_or_default();
    comparison.source = *source;
    comparison.permission = match disagreement(offers, sources) {
        Some(told) => WritePermission::Refuse(told),
        None if comparison.prices.is_empty() => WritePermission::Same,
        None => judge(&comparison.prices, &target),
    };
    comparison.target = Some(target);
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

/// Two lists whose prices are more than 5 % apart.
fn disagreement(offers: &[(usize, &Offer)], sources: &[Source]) -> Option<String> {
    TokenClass::ALL.into_iter().find_map(|class| {
        let told = || offers.iter().filter_map(|(index, offer)| Some((*index, *offer.prices.get(&class)?)));
        let (least, most) = (told().map(|(_, price)| price).min()?, told().map(|(_, price)| price).max()?);
        let shown = told()
            .filter_map(|(index, price)| Some(format!("{} {} $/M", sources.get(index)?.name, price.times(1_000_000))));
        (most.times(100) > least.times(105))
            .then(|| format!("the lists disagree on {}: {}", class.as_str(), shown.collect::<Vec<_>>().join(", ")))
    })
}

fn judge(changes: &[PriceChange], target: &Pricing) -> WritePermission {
    let known = || changes.iter().filter_map(|change| Some((change.class, change.old?, change.new)));
    for (class, old, new) in known() {
        if let Some(factor) = slip(old, new) {
            return WritePermission::Refuse(format!(
                "{} changes by a factor of about {factor}, as by a wrong unit; if it is right, write it by hand",
                class.as_str()
            ));
        }
    }
    if known().any(|(_, old, new)| new.is_zero() && !old.is_zero()) {
        return WritePermission::Ask("a price falls to 0");
    }
    if known().any(|(_, old, new)| new > old.times(3) || old > new.times(3)) {
        return WritePermission::Ask("a price changes by more than three times");
    }
    let paid = TokenClass::ALL.iter().filter(|class| class.of(target).is_some_and(|price| !price.is_zero())).count();
    if known().count() == 1 && paid > 1 {
        return WritePermission::Ask("only one of several prices changes");
    }
    WritePermission::Write
}

/// The factor, if two prices are about a thousand or a million times apart: from half to twice as much.
fn slip(one: Price, other: Price) -> Option<&'static str> {
    let (least, most) = (one.min(other), one.max(other));
    let is_about = |factor: u64| most.times(2) >= least.times(factor) && most <= least.times(2 * factor);
    match () {
        () if least.is_zero() => None,
        () if is_about(1_000) => Some("1,000"),
        () if is_about(1_000_000) => Some("1,000,000"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(changes: &[(&str, &str)]) -> WritePermission {
        let classes = [TokenClass::Prompt, TokenClass::Completion, TokenClass::CacheRead];
        let mut target = Pricing::default();
        let mut all = Vec::new();
        for (class, (old, new)) in classes.into_iter().zip(changes) {
            let (old, new) = (old.parse().ok(), new.parse().unwrap());
            class.set(&mut target, new);
            if old != Some(new) {
                all.push(PriceChange { class, old, new });
            }
        }
        judge(&all, &target)
    }

    #[test]
    fn jumps_zeros_and_single_changes_need_a_word_and_slips_are_refused() {
        for (changes, expected) in [
            (&[("1", "2"), ("2", "4")] as &[_], "Write"),
            (&[("1", "3"), ("3", "1")], "Write"),
            (&[("unknown", "900"), ("unknown", "1")], "Write"),
            (&[("1", "2"), ("0", "0")], "Write"),
            (&[("1", "3.1"), ("2", "2.5")], "Ask(\"a price changes by more than three times\")"),
            (&[("3.1", "1"), ("2", "2.5")], "Ask(\"a price changes by more than three times\")"),
            (&[("0", "1"), ("2", "2.5")], "Ask(\"a price changes by more than three times\")"),
            (&[("1", "0"), ("2", "2.5")], "Ask(\"a price falls to 0\")"),
            (&[("1", "2"), ("2", "2")], "Ask(\"only one of several prices changes\")"),
            (&[("1", "1"), ("2", "2"), ("1", "0.1")], "Ask(\"a price changes by more than three times\")"),
        ] {
            assert_eq!(format!("{:?}", permission(changes)), expected, "{changes:?}");
        }
        for (old, new, factor) in
            [("1", "1000", "1,000"), ("1200", "1", "1,000"), ("0.000002", "2.5", "1,000,000"), ("1", "500", "1,000")]
        {
            let WritePermission::Refuse(why) = permission(&[(old, new), ("2", "3")]) else { panic!("{old} {new}") };
            assert!(why.contains("prompt") && why.contains(&format!("about {factor},")), "{why}");
        }
    }
}
