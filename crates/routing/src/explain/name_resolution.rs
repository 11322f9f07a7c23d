//! Resolution of a name in a why-not or what-if question to endpoints.
//!
//! A name is a model, a provider, or `model@provider`. The catalog resolves the names in requests; it is stricter.

use pointsman_domain::{Catalog, name_distance};

use crate::decide::filter::CatalogEndpoint;

/// Maximum number of suggestions for an unknown name.
const MAX_SUGGESTIONS: usize = 5;

/// The meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResolvedName {
    /// Indices of endpoints in the catalog. Never empty.
    Endpoints(Vec<u32>),
    /// An alias, which is no single endpoint.
    Alias,
    Unknown,
}

/// Resolves `text`: a model's id or canonical slug, a provider's slug or display name (also `slug/variant`),
/// or `model@provider`; else any spelling of an alias.
pub(crate) fn resolve(catalog: &Catalog, text: &str) -> ResolvedName {
    let found = |model: Option<&str>, provider: Option<&str>| {
        let endpoints = endpoints(catalog, model, provider);
        (!endpoints.is_empty()).then_some(ResolvedName::Endpoints(endpoints))
    };
    let both = || text.rsplit_once('@').and_then(|(model, provider)| found(Some(model), Some(provider)));
    let alias = || catalog.names_alias(text).then_some(ResolvedName::Alias);
    found(Some(text), None)
        .or_else(both)
        .or_else(|| found(None, Some(text)))
        .or_else(alias)
        .unwrap_or(ResolvedName::Unknown)
}

/// Indices of the endpoints of a model at a provider; `None` matches any.
pub(crate) fn endpoints(catalog: &Catalog, model: Option<&str>, provider: Option<&str>) -> Vec<u32> {
    let matches = |subject: CatalogEndpoint<'_>| {
        let is_model = |name: &str| {
            let same = |known: &str| known.eq_ignore_ascii_case(name);
            same(subject.model.id.as_str()) || same(&subject.model.canonical_slug)
        };
        model.is_none_or(is_model) && provider.is_none_or(|name| subject.is_named(name))
    };
    let positions = (0_u32..).take(catalog.endpoints.len());
    positions.filter(|index| CatalogEndpoint::at(catalog, *index).is_some_and(matches)).collect()
}

/// Models and providers with a name similar to `text`, the most similar first.
pub(crate) fn suggestions(catalog: &Catalog, text: &str) -> Vec<String> {
    let wanted = text.to_ascii_lowercase();
    let models = catalog.models.iter().map(|model| model.id.as_str());
    let known = models.chain(catalog.providers.iter().map(|provider| provider.slug.as_str()));
    let mut similar: Vec<(usize, &str)> = known.filter_map(|name| Some((distance(&wanted, name)?, name))).collect();
    similar.sort_unstable();
    similar.dedup();
    similar.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

/// Number of typing errors between two names; `None` if they are too different. A name that contains the other counts as 1.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    let short = name.rsplit('/').next().unwrap_or(&name);
    if (wanted.len() >= 3 && name.contains(wanted)) || (short.len() >= 3 && wanted.contains(short)) {
        return Some(1);
    }
    name_distance(wanted, &name).or_else(|| Some(name_distance(wanted, short)? + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_similar_to_the_right_one_only() {
        assert!(distance("acme/smal", "acme/small").is_some());
        assert!(distance("small", "acme/small").is_some());
        assert!(distance("acme", "acme/small").is_some());
        assert_eq!(distance("bolt", "acme/small"), None);
    }
}
