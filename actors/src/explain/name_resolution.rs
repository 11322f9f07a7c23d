//! Which endpoints a person means.
//!
//! People name a model, a provider, or a model at a provider. For explanations and imagined worlds only: what a
//! request may name is resolved by the catalog.

use crate::decide::filter::CatalogEndpoint;
use crate::domain::{Catalog, ProviderPolicy};

/// Names that resemble an unknown one: so many are offered.
const SUGGESTED: usize = 5;

/// What a text stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// These endpoints, by position. Never empty.
    Endpoints(Vec<u32>),
    /// An alias, which is nobody in particular.
    Alias,
    /// Nobody.
    Nobody,
}

/// What `text` stands for: a model's id or canonical slug, a provider's slug or display name (also `slug/variant`),
/// or `model@provider`; else any spelling of an alias.
pub(crate) fn named(catalog: &Catalog, text: &str) -> Named {
    let found = |model: Option<&str>, provider: Option<&str>| {
        let endpoints = endpoints(catalog, model, provider);
        (!endpoints.is_empty()).then_some(Named::Endpoints(endpoints))
    };
    let both = || text.rsplit_once('@').and_then(|(model, provider)| found(Some(model), Some(provider)));
    let alias = || catalog.names_alias(text).then_some(Named::Alias);
    found(Some(text), None).or_else(both).or_else(|| found(None, Some(text))).or_else(alias).unwrap_or(Named::Nobody)
}

/// The endpoints of that model at that provider, by position; `None` stands for any.
pub(crate) fn endpoints(catalog: &Catalog, model: Option<&str>, provider: Option<&str>) -> Vec<u32> {
    let meant = |subject: CatalogEndpoint<'_>| {
        let is_model = |name: &str| {
            let same = |known: &str| known.eq_ignore_ascii_case(name);
            same(subject.model.id.as_str()) || same(&subject.model.canonical_slug)
        };
        model.is_none_or(is_model) && provider.is_none_or(|name| subject.is_named(name))
    };
    let endpoints = (0_u32..).zip(&catalog.endpoints);
    let meant = endpoints.filter(|(_, endpoint)| CatalogEndpoint::of(catalog, endpoint).is_some_and(meant));
    meant.map(|(index, _)| index).collect()
}

/// Whether `provider.order` leads nowhere: without fallbacks it must be served by somebody it names, and
/// `provider.only` allows none of them. Needs the catalog, because a provider may be called by its slug or its name.
#[must_use]
pub fn order_leads_nowhere(catalog: &Catalog, policy: &ProviderPolicy) -> bool {
    let is_told = !policy.allow_fallbacks && !policy.order.is_empty() && !policy.only.is_empty();
    let serves = |subject: CatalogEndpoint<'_>| {
        let named = |list: &Vec<String>| list.iter().any(|entry| subject.is_named(entry));
        named(&policy.order) && policy.only.iter().all(named)
    };
    let subjects = || catalog.endpoints.iter().filter_map(|endpoint| CatalogEndpoint::of(catalog, endpoint));
    is_told && !subjects().any(serves)
}

/// Known models and providers whose names resemble `text`, the most alike first.
pub(crate) fn suggestions(catalog: &Catalog, text: &str) -> Vec<String> {
    let wanted = text.to_ascii_lowercase();
    let models = catalog.models.iter().map(|model| model.id.as_str());
    let known = models.chain(catalog.providers.iter().map(|provider| provider.slug.as_str()));
    let mut alike: Vec<(usize, &str)> = known.filter_map(|name| Some((distance(&wanted, name)?, name))).collect();
    alike.sort_unstable();
    alike.dedup();
    alike.into_iter().take(SUGGESTED).map(|(_, name)| name.to_owned()).collect()
}

/// How many letters apart two names are; `None` when they are no misspelling of each other. A part counts as the whole.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    let short = name.rsplit('/').next().unwrap_or(&name);
    if (wanted.len() >= 3 && name.contains(wanted)) || (short.len() >= 3 && wanted.contains(short)) {
        return Some(1);
    }
    let apart = edits(wanted, &name).min(edits(wanted, short) + 1);
    (apart <= 1 + wanted.len() / 4).then_some(apart)
}

/// Letters to insert, delete or replace. Names are short; longer ones are cut.
fn edits(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    let b: Vec<char> = b.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, letter) in (1..).zip(a.chars().take(LONGEST)) {
        let mut before = line;
        let mut next = vec![line];
        for ((above, diagonal), other) in row.iter().skip(1).zip(&row).zip(&b) {
            before = (before + 1).min(above + 1).min(diagonal + usize::from(letter != *other));
            next.push(before);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_apart_are_counted() {
        for (a, b, apart) in [("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0), ("ab", "ba", 2)] {
            assert_eq!(edits(a, b), apart, "{a} {b}");
        }
    }

    #[test]
    fn a_misspelt_name_resembles_the_right_one_and_nothing_else() {
        assert!(distance("acme/smal", "acme/small").is_some());
        assert!(distance("small", "acme/small").is_some());
        assert!(distance("acme", "acme/small").is_some());
        assert_eq!(distance("bolt", "acme/small"), None);
    }
}
