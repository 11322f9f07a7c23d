//! What a caller says about routing, gathered from every place where it may stand.
//!
//! The same names are understood inside `metadata`, inside `extra_body` and at the top level, because
//! clients differ in which of these they can send. One value that stands in several places is taken from
//! the strongest; lists are all kept, because lists only ever tighten. What the values mean for a
//! candidate is decided in [`crate::decide`].

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    fault::{self, Path},
    json::{self, Kind, Object},
    provider::{MOST_STRANGERS, ProviderDraft},
    scan,
};
use crate::domain::{
    Invalid, InvalidReason, ModelPattern, Objective, Percentile, Preference, RoutingParameters, Source, Sourced, Usd,
    Weights,
};

/// Most entries that the lists of one kind may have together: every one is compared with every model.
const MOST_ENTRIES: usize = 1_000;
/// Most plugins.
const MOST_PLUGINS: usize = 32;
/// Most candidates a preview may be asked for.
const MOST_SHOWN: i64 = 100;
/// What `weights` may hold.
const WEIGHTS: [&str; 2] = ["latency", "cost"];
/// Nesting allowed inside a value that came as a string.
const INNER_DEPTH: usize = 16;

/// The names that are routing parameters wherever they stand; in `metadata` every other name is a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    Objective,
    AllowedModels,
    BlockedModels,
    ProviderPolicy,
    MaxCostPer1kTokens,
    MaxCost,
    Weights,
    PreferredMaxLatency,
    PreferredMinThroughput,
    TopN,
}

impl Reserved {
    /// The routing parameter of that name.
    pub(super) fn named(name: &str) -> Option<Reserved> {
        Some(match name {
            "objective" => Reserved::Objective,
            "allowed_models" => Reserved::AllowedModels,
            "blocked_models" => Reserved::BlockedModels,
            "provider_policy" => Reserved::ProviderPolicy,
            "max_cost_per_1k_tokens" => Reserved::MaxCostPer1kTokens,
            "max_cost" => Reserved::MaxCost,
            "weights" => Reserved::Weights,
            "preferred_max_latency" => Reserved::PreferredMaxLatency,
            "preferred_min_throughput" => Reserved::PreferredMinThroughput,
            "top_n" => Reserved::TopN,
            _ => return None,
        })
    }
}

/// Keeps the value of the stronger source.
pub(super) fn offer<T>(slot: &mut Option<Sourced<T>>, value: T, source: Source) {
    if slot.as_ref().is_none_or(|held| source < held.source) {
        *slot = Some(Sourced { value, source });
    }
}

/// The routing parameters of one request while they are being gathered.
#[derive(Default)]
pub(super) struct Routing {
    parameters: RoutingParameters,
    provider: Option<Box<ProviderDraft>>,
    top_n: Option<Sourced<u32>>,
    /// Paths of unknown names that were probably meant as routing parameters.
    misspelt: Vec<String>,
}

impl Routing {
    /// Takes the parameter `name`, which stands at `path`.
    pub(super) fn read(
        &mut self,
        name: Reserved,
        raw: &RawValue,
        path: &Path<'_>,
        source: Source,
    ) -> Result<(), Invalid> {
        let has_own_text = matches!(name, Reserved::Objective | Reserved::AllowedModels | Reserved::BlockedModels);
        if has_own_text || Kind::of(raw) != Kind::Text {
            return self.value(name, raw, path, source);
        }
        // Some clients can send nothing but strings as metadata: then the string holds the JSON.
        let text = json::text(raw, path)?;
        match inner(&text) {
            Some(inner) => self.value(name, inner, path, source),
            None => self.value(name, raw, path, source),
        }
    }

    fn value(&mut self, name: Reserved, raw: &RawValue, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        let parameters = &mut self.parameters;
        match name {
            Reserved::Objective => offer(&mut parameters.objective, objective(raw, path)?, source),
            Reserved::AllowedModels => self.allow(raw, path)?,
            Reserved::BlockedModels => self.block(raw, path)?,
            Reserved::ProviderPolicy => self.provider(raw, path, source)?,
            Reserved::MaxCostPer1kTokens => {
                offer(&mut parameters.max_cost_per_1k_tokens, ceiling(raw, path)?, source);
            }
            Reserved::MaxCost => offer(&mut parameters.max_cost, ceiling(raw, path)?, source),
            Reserved::Weights => offer(&mut parameters.weights, weights(raw, path)?, source),
            Reserved::PreferredMaxLatency => {
                offer(&mut parameters.preferred_max_latency, highest(raw, path)?, source);
            }
            Reserved::PreferredMinThroughput => {
                offer(&mut parameters.preferred_min_throughput, lowest(raw, path)?, source);
            }
            Reserved::TopN => {
                let shown = json::integer_within(raw, path, 1, MOST_SHOWN)?;
                offer(&mut self.top_n, u32::try_from(shown).unwrap_or(1), source);
            }
        }
        Ok(())
    }

    /// Takes a `provider` object (or one of its other names).
    pub(super) fn provider(&mut self, raw: &RawValue, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        self.provider.get_or_insert_default().read(raw, path, source)
    }

    /// Takes the `plugins` that stand for allowed and blocked lists; there are no others.
    pub(super) fn plugins(&mut self, raw: &RawValue, path: &Path<'_>) -> Result<(), Invalid> {
        for (position, raw) in json::elements(raw, path, MOST_PLUGINS)?.into_iter().enumerate() {
            self.plugin(raw, &path.item(position))?;
        }
        Ok(())
    }

    fn plugin(&mut self, raw: &RawValue, path: &Path<'_>) -> Result<(), Invalid> {
        let plugin = Object::read(raw, path)?;
        let at = path.member("id");
        let id = json::text(plugin.get("id").ok_or_else(|| fault::required(&at))?, &at)?;
        let enabled = plugin.get("enabled").map(|raw| json::flag(raw, &path.member("enabled"))).transpose()?;
        if enabled == Some(false) {
            return Ok(());
        }
        if !matches!(&*id, "auto-router" | "auto-beta-router") {
            let message = format!("Plugin '{}' is not available on this gateway.", fault::shown(&id));
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

    fn allow(&mut self, raw: &RawValue, path: &Path<'_>) -> Result<(), Invalid> {
        let patterns = patterns(raw, path)?;
        if !patterns.is_empty() {
            self.parameters.allowed.push(patterns);
        }
        bounded(self.parameters.allowed.iter().map(Vec::len).sum(), path)
    }

    fn block(&mut self, raw: &RawValue, path: &Path<'_>) -> Result<(), Invalid> {
        self.parameters.blocked.extend(patterns(raw, path)?);
        bounded(self.parameters.blocked.len(), path)
    }

    /// The decision seed a preview is to rank with.
    pub(super) fn route_seed(&mut self, raw: &RawValue, path: &Path<'_>) -> Result<(), Invalid> {
        // JavaScript cannot hold 64 bits in a number, so the digits may come as a string.
        let digits = json::unquoted(raw).unwrap_or(Cow::Borrowed(raw.get()));
        let wrong = || fault::mistyped(path, format!("'{path}' must be an integer between 0 and {}.", u64::MAX));
        self.parameters.route_seed = Some(digits.parse().map_err(|_| wrong())?);
        Ok(())
    }

    /// Notes an unknown name that was probably meant as a routing parameter.
    pub(super) fn note_misspelt(&mut self, path: &Path<'_>) {
        if self.misspelt.len() < MOST_STRANGERS {
            self.misspelt.push(path.to_string());
        }
    }

    /// The paths of misspelt routing parameters, and of members of `provider` objects that have no effect, as far as they
    /// are kept.
    pub(super) fn take_strangers(&mut self) -> Vec<String> {
        let mut strangers = std::mem::take(&mut self.misspelt);
        strangers.extend(self.provider.iter_mut().flat_map(|draft| draft.take_strangers()));
        strangers
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

/// The JSON value inside a string, if there is one and it could have stood in the body.
pub(super) fn inner(text: &str) -> Option<&RawValue> {
    scan::text(text.as_bytes(), INNER_DEPTH).ok()?;
    serde_json::from_str(text).ok()
}

pub(super) fn objective(raw: &RawValue, path: &Path<'_>) -> Result<Objective, Invalid> {
    let names = Objective::ALL.map(Objective::as_str);
    let value = json::text(raw, path).map_err(|invalid| invalid.allowing(names))?;
    value.parse().map_err(|()| {
        let message = format!("Unknown objective '{}'. Allowed: {}.", fault::shown(&value), names.join(", "));
        fault::refused(path, message).allowing(names)
    })
}

fn ceiling(raw: &RawValue, path: &Path<'_>) -> Result<Usd, Invalid> {
    let amount = json::dollars(raw, path)?;
    if amount.is_zero() { Err(fault::refused(path, format!("'{path}' must be above 0."))) } else { Ok(amount) }
}

pub(super) fn weights(raw: &RawValue, path: &Path<'_>) -> Result<Weights, Invalid> {
    let object = json::known(raw, path, &WEIGHTS)?;
    let weight = |name| object.get(name).map_or(Ok(0.0), |raw| not_negative(raw, &path.member(name)));
    Weights::new(weight("latency")?, weight("cost")?)
        .ok_or_else(|| fault::refused(path, format!("'{path}' must hold numbers of 0 or more, not all of them 0.")))
}

fn not_negative(raw: &RawValue, path: &Path<'_>) -> Result<f64, Invalid> {
    let number = json::number(raw, path)?;
    let good = number.is_finite() && number >= 0.0;
    if good { Ok(number) } else { Err(fault::refused(path, format!("'{path}' must be a number of 0 or more."))) }
}

/// The longest that may be waited: bounds that rise with the percentile, as every distribution does.
pub(super) fn highest(raw: &RawValue, path: &Path<'_>) -> Result<Preference, Invalid> {
    let preference = preference(raw, path)?;
    let Preference { p50, p75, p90, p95, p99 } = preference;
    let mut below: Option<(&str, f64)> = None;
    for (name, bound) in [("p50", p50), ("p75", p75), ("p90", p90), ("p95", p95), ("p99", p99)] {
        let Some(bound) = bound else { continue };
        if let Some((lower, least)) = below.filter(|(_, least)| bound < *least) {
            let at = path.member(name);
            let message = format!("'{at}' is {bound}, below the {least} of '{lower}': no distribution falls so.");
            return Err(fault::refused(&at, message));
        }
        below = Some((name, bound));
    }
    Ok(preference)
}

/// The least that must be reached, by so many answers in a hundred.
pub(super) fn lowest(raw: &RawValue, path: &Path<'_>) -> Result<Preference, Invalid> {
    preference(raw, path)
}

/// A bound on the median, or bounds on percentiles.
fn preference(raw: &RawValue, path: &Path<'_>) -> Result<Preference, Invalid> {
    if Kind::of(raw) != Kind::Object {
        return Ok(Preference { p50: Some(bound(raw, path)?), ..Preference::default() });
    }
    let names = Percentile::ALL.map(Percentile::as_str);
    let object = json::known(raw, path, &names)?;
    let percentile = |name| object.get(name).map(|raw| bound(raw, &path.member(name))).transpose();
    let preference = Preference {
        p50: percentile("p50")?,
        p75: percentile("p75")?,
        p90: percentile("p90")?,
        p95: percentile("p95")?,
        p99: percentile("p99")?,
    };
    if preference == Preference::default() {
        // Taken for a bound, it would be kept by everybody, and outrank that of an alias.
        return Err(fault::refused(path, format!("'{path}' names none of {}.", names.join(", "))).allowing(names));
    }
    Ok(preference)
}

fn bound(raw: &RawValue, path: &Path<'_>) -> Result<f64, Invalid> {
    let bound = json::number(raw, path)?;
    let good = bound.is_finite() && bound > 0.0;
    if good { Ok(bound) } else { Err(fault::refused(path, format!("'{path}' must be a number above 0."))) }
}

fn patterns(raw: &RawValue, path: &Path<'_>) -> Result<Vec<ModelPattern>, Invalid> {
    let pattern = |(position, entry): (usize, Cow<'_, str>)| {
        entry.parse().map_err(|_| {
            let message = format!("'{}' is not a model id or a pattern ending in '*'.", fault::shown(&entry));
            fault::refused(&path.item(position), message)
        })
    };
    list(raw, path)?.into_iter().enumerate().map(pattern).collect()
}

/// Refuses more entries than a decision should have to look at.
fn bounded(entries: usize, path: &Path<'_>) -> Result<(), Invalid> {
    let message = || format!("'{path}' may hold at most {MOST_ENTRIES} entries, all lists of its kind together.");
    if entries <= MOST_ENTRIES { Ok(()) } else { Err(fault::refused(path, message())) }
}

/// A list of strings: an array, the text of a JSON array, or a comma list.
pub(super) fn list<'a>(raw: &'a RawValue, path: &Path<'_>) -> Result<Vec<Cow<'a, str>>, Invalid> {
    match Kind::of(raw) {
        Kind::Array => array(raw, path),
        Kind::Text => list_in_text(&json::text(raw, path)?, path),
        other => Err(fault::wrong_type(path, "an array of strings", other)),
    }
}

fn array<'a>(raw: &'a RawValue, path: &Path<'_>) -> Result<Vec<Cow<'a, str>>, Invalid> {
    let entry = |(position, raw): (usize, &'a RawValue)| json::text(raw, &path.item(position));
    json::elements(raw, path, MOST_ENTRIES)?.into_iter().enumerate().map(entry).collect()
}

fn list_in_text(text: &str, path: &Path<'_>) -> Result<Vec<Cow<'static, str>>, Invalid> {
    let owned = |entry: &str| Cow::Owned(entry.to_owned());
    if text.trim_start().starts_with('[') {
        let no_array = || fault::refused(path, format!("'{path}' is not a JSON array of strings."));
        let entries = array(inner(text).ok_or_else(no_array)?, path)?;
        return Ok(entries.iter().map(|entry| owned(entry)).collect());
    }
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let entries: Vec<_> = entries.take(MOST_ENTRIES + 1).map(owned).collect();
    bounded(entries.len(), path).map(|()| entries)
}
