//! Readers for the values of routing parameters: objectives, weights, bounds, patterns and lists of names.

use std::borrow::Cow;

use pointsman_domain::{
    Invalid, ModelPattern, Objective, Percentile, Preference, QualityFloor, Source, Sourced, UnknownQuality, Usd,
    Weights, listed_names,
};

use super::{fault, json, json_type::JsonType};
use crate::{
    json::Raw,
    neutral::{Path, shown},
};

/// Most entries that the lists of one kind may have together: every one is compared with every model.
const MAX_ENTRIES: usize = 1_000;
/// What `weights` may hold.
const WEIGHTS: [&str; 3] = ["latency", "cost", "quality"];
/// What `min_quality` may hold instead of a number.
const LOWER_TENTH: &str = "p10";
/// Nesting allowed inside a value that came as a string.
const INNER_DEPTH: usize = 16;

/// Keeps the value of the stronger source.
pub(super) fn offer<T>(slot: &mut Option<Sourced<T>>, value: T, source: Source) {
    if slot.as_ref().is_none_or(|held| source < held.source) {
        *slot = Some(Sourced { value, source });
    }
}

/// The JSON value inside a string, if there is one and it could have stood in the body.
pub(super) fn inner(text: &str) -> Option<Raw<'_>> {
    json::whole(text, INNER_DEPTH)
}

pub(super) fn objective(raw: Raw<'_>, path: &Path<'_>) -> Result<Objective, Invalid> {
    let names = Objective::ALL.map(Objective::as_str);
    let value = json::text(raw, path).map_err(|invalid| invalid.allowing(names))?;
    value.parse().map_err(|()| {
        let message = format!("Unknown objective '{}'. Allowed: {}.", shown(&value), listed_names(&value, names));
        fault::refused(path, message).allowing(names)
    })
}

pub(super) fn ceiling(raw: Raw<'_>, path: &Path<'_>) -> Result<Usd, Invalid> {
    let amount = json::dollars(raw, path)?;
    if amount.is_zero() { Err(fault::refused(path, format!("'{path}' must be above 0."))) } else { Ok(amount) }
}

pub(super) fn weights(raw: Raw<'_>, path: &Path<'_>) -> Result<Weights, Invalid> {
    let object = json::known(raw, path, &WEIGHTS)?;
    let weight = |name| object.get(name).map_or(Ok(0.0), |raw| not_negative(raw, &path.member(name)));
    let weights = Weights { latency: weight("latency")?, cost: weight("cost")?, quality: weight("quality")? };
    let wrong = || fault::refused(path, format!("'{path}' must hold numbers of 0 or more, not all of them 0."));
    weights.checked().ok_or_else(wrong)
}

/// The least quality: a number for its mean, or `{ "p10": … }` for its lower tenth.
pub(super) fn min_quality(raw: Raw<'_>, path: &Path<'_>) -> Result<QualityFloor, Invalid> {
    let share = |raw, path: &Path<'_>| json::number_within(raw, path, 0.0, 1.0);
    if JsonType::of(raw) != JsonType::Object {
        return share(raw, path).map(QualityFloor::Mean);
    }
    let at = path.member(LOWER_TENTH);
    let object = json::known(raw, path, &[LOWER_TENTH])?;
    share(object.get(LOWER_TENTH).ok_or_else(|| fault::required(&at))?, &at).map(QualityFloor::Tenth)
}

pub(super) fn quality_unknown(raw: Raw<'_>, path: &Path<'_>) -> Result<UnknownQuality, Invalid> {
    let position = json::choice(raw, path, &UnknownQuality::ALL.map(UnknownQuality::as_str))?;
    Ok(UnknownQuality::ALL.get(position).copied().unwrap_or(UnknownQuality::Exclude))
}

pub(super) fn not_negative(raw: Raw<'_>, path: &Path<'_>) -> Result<f64, Invalid> {
    let number = json::number(raw, path)?;
    let good = number.is_finite() && number >= 0.0;
    if good { Ok(number) } else { Err(fault::refused(path, format!("'{path}' must be a number of 0 or more."))) }
}

/// The longest that may be waited: bounds that rise with the percentile, as every distribution does.
pub(super) fn highest(raw: Raw<'_>, path: &Path<'_>) -> Result<Preference, Invalid> {
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
pub(super) fn lowest(raw: Raw<'_>, path: &Path<'_>) -> Result<Preference, Invalid> {
    preference(raw, path)
}

/// A bound on the median, or bounds on percentiles.
pub(super) fn preference(raw: Raw<'_>, path: &Path<'_>) -> Result<Preference, Invalid> {
    if JsonType::of(raw) != JsonType::Object {
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
        // An empty bound would be met by every endpoint and would override the bound of an alias.
        return Err(fault::refused(path, format!("'{path}' names none of {}.", names.join(", "))).allowing(names));
    }
    Ok(preference)
}

pub(super) fn bound(raw: Raw<'_>, path: &Path<'_>) -> Result<f64, Invalid> {
    let bound = json::number(raw, path)?;
    let good = bound.is_finite() && bound > 0.0;
    if good { Ok(bound) } else { Err(fault::refused(path, format!("'{path}' must be a number above 0."))) }
}

pub(super) fn patterns(raw: Raw<'_>, path: &Path<'_>) -> Result<Vec<ModelPattern>, Invalid> {
    let pattern = |(position, entry): (usize, Cow<'_, str>)| {
        entry.parse().map_err(|_| {
            let message = format!("'{}' is not a model id or a pattern ending in '*'.", shown(&entry));
            fault::refused(&path.item(position), message)
        })
    };
    list(raw, path)?.into_iter().enumerate().map(pattern).collect()
}

/// Refuses more entries than a decision should have to look at.
pub(super) fn bounded(entries: usize, path: &Path<'_>) -> Result<(), Invalid> {
    let message = || format!("'{path}' may hold at most {MAX_ENTRIES} entries, all lists of its kind together.");
    if entries <= MAX_ENTRIES { Ok(()) } else { Err(fault::refused(path, message())) }
}

/// A list of strings: an array, the text of a JSON array, or a comma list.
pub(super) fn list<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Vec<Cow<'a, str>>, Invalid> {
    match JsonType::of(raw) {
        JsonType::Array => array(raw, path),
        JsonType::Text => list_in_text(&json::text(raw, path)?, path),
        other => Err(fault::wrong_type(path, "an array of strings", other)),
    }
}

pub(super) fn array<'a>(raw: Raw<'a>, path: &Path<'_>) -> Result<Vec<Cow<'a, str>>, Invalid> {
    let entry = |(position, raw): (usize, Raw<'a>)| json::text(raw, &path.item(position));
    json::elements(raw, path, MAX_ENTRIES)?.into_iter().enumerate().map(entry).collect()
}

pub(super) fn list_in_text(text: &str, path: &Path<'_>) -> Result<Vec<Cow<'static, str>>, Invalid> {
    let owned = |entry: &str| Cow::Owned(entry.to_owned());
    if text.trim_start().starts_with('[') {
        let no_array = || fault::refused(path, format!("'{path}' is not a JSON array of strings."));
        let entries = array(inner(text).ok_or_else(no_array)?, path)?;
        return Ok(entries.iter().map(|entry| owned(entry)).collect());
    }
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let entries: Vec<_> = entries.take(MAX_ENTRIES + 1).map(owned).collect();
    bounded(entries.len(), path).map(|()| entries)
}
