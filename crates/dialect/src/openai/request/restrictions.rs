//! The restrictions of a body with their paths and list entries.
//!
//! Parses the body a second time, only for previews and error responses, never for a served request. It validates
//! nothing: invalid values were rejected before or are left out.

use pointsman_domain::{ExclusionReason, MAX_COST};

use super::{
    json::{self, Object},
    json_type::JsonType,
    routing_values::{inner, list},
};
use crate::{json::Raw, neutral::Path};

/// Most restrictions that are reported of one body.
const MAX_RESTRICTIONS: usize = 64;

/// One restriction of a request, as it words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restriction {
    /// Where it stands, such as `metadata.provider_policy.only`.
    pub path: String,
    /// What kind it is.
    pub kind: RestrictionKind,
    /// What its list names, in order; empty where it is no list.
    pub entries: Vec<String>,
}

/// What a restriction is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestrictionKind {
    /// Models that may serve.
    Allowed,
    /// Models that may not.
    Blocked,
    /// Providers that may serve.
    Only,
    /// Providers that may not.
    Ignore,
    /// Providers to be tried first; without fallbacks, the only ones.
    Order,
    /// A ceiling on prices.
    MaxPrice,
    /// A ceiling on the cost of the whole request.
    MaxCost,
    /// A ceiling on the price of 1,000 tokens.
    MaxCostPer1kTokens,
    /// What a provider may do with prompts.
    DataPolicy,
    /// Number formats.
    Quantizations,
}

impl RestrictionKind {
    /// The reason it gives for an exclusion.
    #[must_use]
    pub const fn reason(self) -> ExclusionReason {
        match self {
            RestrictionKind::Allowed => ExclusionReason::NotAllowedModel,
            RestrictionKind::Blocked => ExclusionReason::BlockedModel,
            RestrictionKind::Only | RestrictionKind::Order => ExclusionReason::ProviderNotAllowed,
            RestrictionKind::Ignore => ExclusionReason::ProviderIgnored,
            RestrictionKind::MaxPrice | RestrictionKind::MaxCost => ExclusionReason::MaxPrice,
            RestrictionKind::MaxCostPer1kTokens => ExclusionReason::MaxCostPer1kTokens,
            RestrictionKind::DataPolicy => ExclusionReason::DataPolicy,
            RestrictionKind::Quantizations => ExclusionReason::Quantization,
        }
    }

    /// What [`ExcludedEndpoint::constraint`](pointsman_domain::ExcludedEndpoint::constraint) gives for an exclusion by it.
    #[must_use]
    pub const fn constraint(self) -> &'static str {
        match self {
            RestrictionKind::MaxCost => MAX_COST,
            other => other.reason().as_str(),
        }
    }

    fn named(name: &str) -> Option<RestrictionKind> {
        Some(match name {
            "allowed_models" => RestrictionKind::Allowed,
            "blocked_models" | "excluded_models" => RestrictionKind::Blocked,
            "only" => RestrictionKind::Only,
            "ignore" => RestrictionKind::Ignore,
            "order" => RestrictionKind::Order,
            "max_price" => RestrictionKind::MaxPrice,
            "max_cost" => RestrictionKind::MaxCost,
            "max_cost_per_1k_tokens" => RestrictionKind::MaxCostPer1kTokens,
            "data_collection" | "zdr" => RestrictionKind::DataPolicy,
            "quantizations" => RestrictionKind::Quantizations,
            _ => return None,
        })
    }

    const fn is_list(self) -> bool {
        !matches!(
            self,
            RestrictionKind::MaxPrice
                | RestrictionKind::MaxCost
                | RestrictionKind::MaxCostPer1kTokens
                | RestrictionKind::DataPolicy
        )
    }
}

/// The restrictions of a body that was parsed before.
pub(super) fn read(body: &[u8]) -> Vec<Restriction> {
    let mut found = Vec::new();
    let path = Path::Field("");
    let object = str::from_utf8(body).ok().and_then(|text| json::whole(text, usize::MAX));
    let object = object.and_then(|raw| Object::read(raw, &path).ok());
    if let Some(object) = object {
        level(&object, None, None, &mut found);
    }
    found.truncate(MAX_RESTRICTIONS);
    found
}

/// Reads the body itself, its `extra_body` (whose members count where `body` has none of that name) or its `metadata`.
fn level(object: &Object<'_>, at: Option<&Path<'_>>, body: Option<&Object<'_>>, found: &mut Vec<Restriction>) {
    // There only the names of routing parameters are read; `provider` is a tag like any other.
    let is_metadata = at.is_some() && body.is_none();
    for member in object.iter() {
        let path = at.map_or(Path::Field(&member.name), |at| at.member(&member.name));
        let is_overruled = || body.is_some_and(|body| body.get(&member.name).is_some());
        match (&*member.name, json::given(member.value)) {
            (_, None) => {}
            ("provider_policy", Some(raw)) => policy(raw, &path, found),
            ("allowed_models" | "blocked_models" | "max_cost" | "max_cost_per_1k_tokens", Some(raw)) => {
                restriction(&member.name, raw, &path, found);
            }
            ("provider" | "plugins" | "metadata", Some(_)) if is_metadata => {}
            ("provider", Some(raw)) if !is_overruled() => policy(raw, &path, found),
            ("plugins", Some(raw)) if !is_overruled() => plugins(raw, &path, found),
            ("metadata", Some(raw)) if !is_overruled() => within(raw, &path, None, found),
            ("extra_body", Some(raw)) if at.is_none() => within(raw, &path, Some(object), found),
            _ => {}
        }
    }
}

fn within(raw: Raw<'_>, path: &Path<'_>, body: Option<&Object<'_>>, found: &mut Vec<Restriction>) {
    if let Ok(object) = Object::read(raw, path) {
        level(&object, Some(path), body, found);
    }
}

fn plugins(raw: Raw<'_>, path: &Path<'_>, found: &mut Vec<Restriction>) {
    for (position, raw) in json::elements(raw, path, MAX_RESTRICTIONS).unwrap_or_default().into_iter().enumerate() {
        let at = path.item(position);
        let Ok(plugin) = Object::read(raw, &at) else { continue };
        if plugin.get("enabled").is_some_and(|raw| raw.written() == "false") {
            continue;
        }
        for name in ["allowed_models", "excluded_models"] {
            if let Some(raw) = plugin.get(name) {
                restriction(name, raw, &at.member(name), found);
            }
        }
    }
}

/// A `provider` object, or the text of one.
fn policy(raw: Raw<'_>, path: &Path<'_>, found: &mut Vec<Restriction>) {
    let text = raw.text();
    let raw = match &text {
        Some(text) if JsonType::of(raw) == JsonType::Text => inner(text).unwrap_or(raw),
        _ => raw,
    };
    let Ok(object) = Object::read(raw, path) else { return };
    for member in object.iter() {
        if let Some(raw) = json::given(member.value) {
            restriction(&member.name, raw, &path.member(&member.name), found);
        }
    }
}

fn restriction(name: &str, raw: Raw<'_>, path: &Path<'_>, found: &mut Vec<Restriction>) {
    let Some(kind) = RestrictionKind::named(name) else { return };
    let entries = if kind.is_list() { list(raw, path).unwrap_or_default() } else { Vec::new() };
    if !(kind.is_list() && entries.is_empty()) {
        let entries = entries.into_iter().map(|entry| entry.into_owned()).collect();
        found.push(Restriction { path: path.to_string(), kind, entries });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &[(&str, &[&str])]) {
        let found = read(body.as_bytes());
        let listed: Vec<(&str, Vec<&str>)> =
            found.iter().map(|one| (one.path.as_str(), one.entries.iter().map(String::as_str).collect())).collect();
        let expected: Vec<(&str, Vec<&str>)> =
            expected.iter().map(|(path, entries)| (*path, entries.to_vec())).collect();
        assert_eq!(listed, expected, "{body}");
    }

    #[test]
    fn every_restriction_is_found_where_it_stands() {
        check(r#"{"model":"m","messages":[]}"#, &[]);
        check(
            r#"{"provider":{"only":["a","b"],"zdr":true}}"#,
            &[("provider.only", &["a", "b"]), ("provider.zdr", &[])],
        );
        check(
            r#"{"metadata":{"allowed_models":"a/*, b/c","tag":"x","provider_policy":"{\"ignore\":[\"z\"]}"}}"#,
            &[("metadata.allowed_models", &["a/*", "b/c"]), ("metadata.provider_policy.ignore", &["z"])],
        );
        check(
            r#"{"plugins":[{"id":"auto-router","excluded_models":["a/b"]}],"extra_body":{"max_cost":1}}"#,
            &[("plugins[0].excluded_models", &["a/b"]), ("extra_body.max_cost", &[])],
        );
    }

    #[test]
    fn what_does_not_count_is_not_told() {
        check(
            r#"{"provider":{"order":["a"]},"extra_body":{"provider":{"order":["b"]},"blocked_models":["c/d"]}}"#,
            &[("provider.order", &["a"]), ("extra_body.blocked_models", &["c/d"])],
        );
        check(r#"{"plugins":[{"id":"auto-router","enabled":false,"allowed_models":["a/b"]}]}"#, &[]);
        check(r#"{"provider":{"only":[],"ignore":null}}"#, &[]);
    }
}
