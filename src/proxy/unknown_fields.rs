//! Parts of a request that have no effect: unknown routing fields, unknown members of `provider`, and list entries that match
//! nothing or only providers that are off. Each comes with a suggestion. Previews and errors show them; no request fails
//! because of them.

use std::cmp::Reverse;

use chrono::NaiveDate;
use pointsman_dialect::{
    PROVIDER_MEMBERS, Restriction, RestrictionKind, field_meant_at_top_level, field_meant_in_metadata, parameter_meant,
    shown,
};
use pointsman_domain::{
    Catalog, Endpoint, ExclusionReason, Model, ModelPattern, Provider, ProviderState, closest_name, name_distance,
};
use serde::Serialize;

use crate::base::error::ApiError;

/// Most warnings about one request.
const MAX_WARNINGS: usize = 16;
/// Most providers in a message about providers that are off.
const MAX_OFF: usize = 3;
/// Most suggestions for an unknown model name.
const MAX_SUGGESTIONS: usize = 3;

/// A part of a request that has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct UnknownField {
    /// Its path, such as `provider.only[0]`.
    pub param: String,
    /// What is wrong with it, as a sentence.
    pub message: String,
    /// The exclusion reason that it may cause.
    #[serde(skip)]
    pub reason: ExclusionReason,
}

/// Warnings about the members at the paths `unknown_members` and the entries of `restrictions`.
pub fn warnings(catalog: &Catalog, unknown_members: &[String], restrictions: &[Restriction]) -> Vec<UnknownField> {
    let mut warnings: Vec<UnknownField> = unknown_members.iter().map(|path| unknown_member(path)).collect();
    warnings.extend(unknown_entries(catalog, restrictions));
    warnings.truncate(MAX_WARNINGS);
    warnings
}

/// The entries of these restrictions that match nothing in the catalog, or only providers that are off.
pub fn unknown_entries<'r>(
    catalog: &Catalog,
    restrictions: impl IntoIterator<Item = &'r Restriction>,
) -> Vec<UnknownField> {
    let mut found = Vec::new();
    for restriction in restrictions {
        for (position, entry) in restriction.entries.iter().enumerate() {
            if let Some(problem) = entry_problem(catalog, restriction.kind, entry) {
                let param = format!("{}[{position}]", restriction.path);
                let message = format!("'{param}': {problem}");
                found.push(UnknownField { param, message, reason: restriction.kind.reason() });
            }
            if found.len() == MAX_WARNINGS {
                return found;
            }
        }
    }
    found
}

/// A sentence that says why an entry has no effect. `None` if it has one.
fn entry_problem(catalog: &Catalog, kind: RestrictionKind, entry: &str) -> Option<String> {
    match kind {
        RestrictionKind::Only | RestrictionKind::Ignore | RestrictionKind::Order => {
            if !catalog.names_provider(entry) {
                let known = catalog.providers.iter().flat_map(|provider| [provider.slug.as_str(), &provider.name]);
                return Some(format!("'{}' is no provider of this catalog{}", shown(entry), suggestion(entry, known)));
            }
            let is_named = |provider: &Provider, endpoint: &Endpoint| provider.is_named(entry, &endpoint.variant);
            let off = off(catalog, |endpoint| catalog.provider_of(endpoint).is_some_and(|one| is_named(one, endpoint)));
            let off = off.filter(|_| kind != RestrictionKind::Ignore)?;
            Some(format!("'{}' serves nothing, because it is off ({off}).", shown(entry)))
        }
        RestrictionKind::Allowed | RestrictionKind::Blocked => {
            let pattern: ModelPattern = entry.parse().ok()?;
            if !catalog.names_model(&pattern) {
                let known = catalog.models.iter().map(|model| model.id.as_str());
                return Some(format!(
                    "'{}' matches no model of this catalog{}",
                    shown(entry),
                    suggestion(entry, known)
                ));
            }
            let off = off_of(catalog, std::slice::from_ref(&pattern)).filter(|_| kind == RestrictionKind::Allowed)?;
            Some(format!("'{}' matches only models whose provider is off ({off}).", shown(entry)))
        }
        _ => None,
    }
}

/// Why every provider of the models that match is off. `None` if one is on, or no model matches.
pub fn off_of(catalog: &Catalog, patterns: &[ModelPattern]) -> Option<String> {
    let is_in =
        |model: &Model| patterns.iter().any(|pattern| pattern.matches(model.id.as_str(), &model.canonical_slug));
    off(catalog, |endpoint| catalog.model_of(endpoint).is_some_and(is_in))
}

/// Why every provider of the selected endpoints is off; usually the variable to set. `None` if one is on.
fn off(catalog: &Catalog, is_selected: impl Fn(&Endpoint) -> bool) -> Option<String> {
    let mut reasons = Vec::new();
    for endpoint in catalog.endpoints.iter().filter(|endpoint| !endpoint.disabled && is_selected(endpoint)) {
        let provider = catalog.provider_of(endpoint)?;
        let ProviderState::Off(why) = &provider.state else { return None };
        let reason = format!("{}: {why}", provider.slug);
        if !reasons.contains(&reason) && reasons.len() < MAX_OFF {
            reasons.push(reason);
        }
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn unknown_member(path: &str) -> UnknownField {
    let (parent, name) = path.rsplit_once('.').map_or((None, path), |(parent, name)| (Some(parent), name));
    let field = match parent {
        None | Some("extra_body") => field_meant_at_top_level(name),
        Some("metadata") if name == "provider" => Some("provider_policy"),
        Some("metadata") => field_meant_in_metadata(name),
        Some(_) => None,
    };
    let parameter = parent.is_none_or(|parent| parent == "extra_body").then(|| parameter_meant(name)).flatten();
    let message = match field {
        None if let Some(parameter) = parameter => {
            format!("'{path}' is not known here and is passed on unchanged; did you mean '{parameter}'?")
        }
        Some(field) => format!("'{path}' is no routing field and routes nothing; did you mean '{field}'?"),
        None if path.ends_with(".max_price.audio") => {
            format!("'{path}' has no effect: no price for audio is known here.")
        }
        None => format!("'{path}' is not known and has no effect{}", suggestion(name, PROVIDER_MEMBERS)),
    };
    UnknownField { param: path.to_owned(), message, reason: ExclusionReason::ProviderNotAllowed }
}

/// Known names that resemble an unknown one, the most similar first.
pub struct Suggestions {
    /// Served models and aliases with a similar name.
    pub meant: Vec<String>,
    /// The same, then further served models of the same family.
    pub served: Vec<String>,
    /// The model of nearly this name whose providers are all off, and why they are.
    pub off: Option<(String, String)>,
}

/// Known names that resemble the unknown `name`. Visits every model once and computes the edit distance for few.
pub fn models(catalog: &Catalog, name: &str, today: NaiveDate) -> Suggestions {
    let is_there = |model: &&Model| catalog.is_served(model, today);
    let is_other = |id: &&str| *id != name;
    let aliases = catalog.aliases.iter().map(|alias| alias.id.as_str()).filter(is_other);
    let models = catalog.models.iter().filter(is_there).map(|model| model.id.as_str()).filter(is_other);
    let mut meant: Vec<(usize, &str)> =
        models.clone().chain(aliases).filter_map(|id| Some((distance(name, id)?, id))).collect();
    meant.sort_unstable();
    meant.truncate(MAX_SUGGESTIONS);
    let mut family: Vec<(Reverse<usize>, &str)> = models.map(|id| (Reverse(shared_prefix(name, id)), id)).collect();
    family.retain(|(shared, id)| shared.0 >= 3 && !meant.iter().any(|(_, known)| known == id));
    family.sort_unstable();
    let meant: Vec<String> = meant.into_iter().map(|(_, id)| id.to_owned()).collect();
    let others = family.into_iter().map(|(_, id)| id.to_owned());
    let served = meant.iter().cloned().chain(others).take(MAX_SUGGESTIONS).collect();
    Suggestions { meant, served, off: known_but_off(catalog, name, today) }
}

/// The model that is called `name` but for its namespace and the case of its letters, if every provider of it is off, and
/// why they are.
fn known_but_off(catalog: &Catalog, name: &str, today: NaiveDate) -> Option<(String, String)> {
    let is_it = |model: &&Model| last_part(model.id.as_str()).eq_ignore_ascii_case(last_part(name));
    let mut named = catalog.models.iter().filter(is_it).peekable();
    named.peek()?;
    let mut off = named.filter(|model| !catalog.is_served(model, today));
    off.find_map(|model| {
        let is_of_it = |endpoint: &Endpoint| catalog.model_of(endpoint).is_some_and(|other| other.id == model.id);
        Some((model.id.to_string(), self::off(catalog, is_of_it)?))
    })
}

impl Suggestions {
    /// The error for the unknown `name` in the field `param`.
    pub fn unknown(self, param: &str, name: &str) -> ApiError {
        match self.off {
            Some((known, why)) => ApiError::model_is_off(param, name, &known, &why, self.served),
            None => ApiError::unknown_model(param, name, &self.meant, self.served),
        }
    }
}

/// Edit distance of `name` from a known id, without the namespaces; a different namespace counts as one letter. A name without
/// namespace is also compared with the whole id. `None` if they are too different.
fn distance(name: &str, id: &str) -> Option<usize> {
    let namespace = |text: &str| text.rsplit_once('/').map(|(namespace, _)| namespace.to_owned());
    let whole = || name_distance(name, id).filter(|_| namespace(name).is_none());
    let parts = name_distance(last_part(name), last_part(id));
    parts.map(|letters| letters + usize::from(namespace(name) != namespace(id))).or_else(whole)
}

fn last_part(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Number of leading characters that both have in common, without their namespaces.
fn shared_prefix(name: &str, id: &str) -> usize {
    let pairs = last_part(name).bytes().zip(last_part(id).bytes());
    pairs.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
}

/// The end of a sentence about an unknown word, with the most similar known one.
fn suggestion<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    closest_name(text, known).map_or_else(|| ".".to_owned(), |meant| format!("; did you mean '{meant}'?"))
}
