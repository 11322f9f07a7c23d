//! Collects the routing parameters of a request from all their locations.
//!
//! The same names are read inside `metadata`, inside `extra_body` and at the top level, because clients differ in
//! which of these they can send. A single value is taken from the location with the highest precedence; lists of all
//! locations are kept, because each list only restricts further. What the values mean for a
//! candidate is decided in `pointsman_routing::decide`.

use std::borrow::Cow;

use pointsman_domain::{Invalid, InvalidReason, RoutingParameters, Source, Sourced};

use super::{
    fault,
    json::{self, Object},
    json_type::JsonType,
    provider_policy::{MAX_UNKNOWN_MEMBERS, ProviderPolicyBuilder},
    routing_values::{
        bounded, ceiling, highest, inner, lowest, min_quality, objective, offer, patterns, quality_unknown, weights,
    },
};
use crate::{
    gateway_fields::RoutingField,
    json::Raw,
    neutral::{Path, shown},
};

/// Most plugins.
const MAX_PLUGINS: usize = 32;
/// Most candidates a preview may be asked for.
const MAX_SHOWN: i64 = 100;
/// Collects the routing parameters of one request.
#[derive(Default)]
pub(super) struct RoutingBuilder {
    parameters: RoutingParameters,
    provider: Option<Box<ProviderPolicyBuilder>>,
    top_n: Option<Sourced<u32>>,
    /// Paths of unknown names that were probably meant as routing parameters.
    suspected_fields: Vec<String>,
}

impl RoutingBuilder {
    /// Takes the parameter `name`, which stands at `path`.
    pub(super) fn read(
        &mut self,
        name: RoutingField,
        raw: Raw<'_>,
        path: &Path<'_>,
        source: Source,
    ) -> Result<(), Invalid> {
        let has_own_text = matches!(
            name,
            RoutingField::Objective
                | RoutingField::AllowedModels
                | RoutingField::BlockedModels
                | RoutingField::QualityUnknown
        );
        if has_own_text || JsonType::of(raw) != JsonType::Text {
            return self.value(name, raw, path, source);
        }
        // Some clients can send nothing but strings as metadata: then the string holds the JSON.
        let text = json::text(raw, path)?;
        match inner(&text) {
            Some(inner) => self.value(name, inner, path, source),
            None => self.value(name, raw, path, source),
        }
    }

    fn value(&mut self, name: RoutingField, raw: Raw<'_>, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        let parameters = &mut self.parameters;
        match name {
            RoutingField::Objective => offer(&mut parameters.objective, objective(raw, path)?, source),
            RoutingField::AllowedModels => self.allow(raw, path)?,
            RoutingField::BlockedModels => self.block(raw, path)?,
            RoutingField::ProviderPolicy => self.provider(raw, path, source)?,
            RoutingField::MaxCostPer1kTokens => {
                offer(&mut parameters.max_cost_per_1k_tokens, ceiling(raw, path)?, source);
            }
            RoutingField::MaxCost => offer(&mut parameters.max_cost, ceiling(raw, path)?, source),
            RoutingField::Weights => offer(&mut parameters.weights, weights(raw, path)?, source),
            RoutingField::PreferredMaxLatency => {
                offer(&mut parameters.preferred_max_latency, highest(raw, path)?, source);
            }
            RoutingField::PreferredMinThroughput => {
                offer(&mut parameters.preferred_min_throughput, lowest(raw, path)?, source);
            }
            RoutingField::MinQuality => offer(&mut parameters.min_quality, min_quality(raw, path)?, source),
            RoutingField::QualityUnknown => offer(&mut parameters.quality_unknown, quality_unknown(raw, path)?, source),
            RoutingField::TopN => {
                let shown = json::integer_within(raw, path, 1, MAX_SHOWN)?;
                offer(&mut self.top_n, u32::try_from(shown).unwrap_or(1), source);
            }
        }
        Ok(())
    }

    /// Takes a `provider` object (or one of its other names).
    pub(super) fn provider(&mut self, raw: Raw<'_>, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        self.provider.get_or_insert_default().read(raw, path, source)
    }

    /// Takes the `plugins` that stand for allowed and blocked lists; there are no others.
    pub(super) fn plugins(&mut self, raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        for (position, raw) in json::elements(raw, path, MAX_PLUGINS)?.into_iter().enumerate() {
            self.plugin(raw, &path.item(position))?;
        }
        Ok(())
    }

    fn plugin(&mut self, raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        let plugin = Object::read(raw, path)?;
        let at = path.member("id");
        let id = json::text(plugin.get("id").ok_or_else(|| fault::required(&at))?, &at)?;
        let enabled = plugin.get("enabled").map(|raw| json::flag(raw, &path.member("enabled"))).transpose()?;
        if enabled == Some(false) {
            let lists = ["allowed_models", "excluded_models"];
            return lists.into_iter().try_for_each(|name| {
                plugin.get(name).map_or(Ok(()), |raw| patterns(raw, &path.member(name)).map(drop))
            });
        }
        if !matches!(&*id, "auto-router" | "auto-beta-router") {
            let message = format!("Plugin '{}' is not available on this gateway.", shown(&id));
            return Err(Invalid::field(InvalidReason::UnsupportedPlugin, at.to_string(), message));
        }
        if let Some(raw) = plugin.get("allowed_models") {
            self.allow(raw, &path.member("allowed_models"))?;
        }
        if let Some(raw) = plugin.get("excluded_models") {
            self.block(raw, &path.member("excluded_models"))?;
        }
        Ok(())
    }

    fn allow(&mut self, raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        let patterns = patterns(raw, path)?;
        if !patterns.is_empty() {
            self.parameters.allowed.push(patterns);
        }
        bounded(self.parameters.allowed.iter().map(Vec::len).sum(), path)
    }

    fn block(&mut self, raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        self.parameters.blocked.extend(patterns(raw, path)?);
        bounded(self.parameters.blocked.len(), path)
    }

    /// The decision seed a preview is to rank with.
    pub(super) fn route_seed(&mut self, raw: Raw<'_>, path: &Path<'_>) -> Result<(), Invalid> {
        // JavaScript cannot hold 64 bits in a number, so the digits may come as a string.
        let digits = raw.text().unwrap_or(Cow::Borrowed(raw.written()));
        let wrong = || fault::mistyped(path, format!("'{path}' must be an integer between 0 and {}.", u64::MAX));
        self.parameters.route_seed = Some(digits.parse().map_err(|_| wrong())?);
        Ok(())
    }

    /// Notes an unknown name that was probably meant as a routing parameter.
    pub(super) fn note_suspected_field(&mut self, path: &Path<'_>) {
        if self.suspected_fields.len() < MAX_UNKNOWN_MEMBERS {
            self.suspected_fields.push(path.to_string());
        }
    }

    /// Paths of probably misspelt routing parameters and of unknown members of `provider` objects, as far as they are kept.
    pub(super) fn take_unknown_members(&mut self) -> Vec<String> {
        let mut unknown_members = std::mem::take(&mut self.suspected_fields);
        unknown_members.extend(self.provider.iter_mut().flat_map(|draft| draft.take_unknown_members()));
        unknown_members
    }

    /// Everything that was gathered.
    pub(super) fn finish(self) -> RoutingParameters {
        let mut parameters = self.parameters;
        parameters.top_n = self.top_n.map(|shown| shown.value);
        if let Some(draft) = self.provider {
            draft.finish(&mut parameters);
        }
        parameters
    }
}
