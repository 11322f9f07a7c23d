//! Which part of a divided alias a request falls to.
//!
//! A request has a place among 65,536, hashed from what is to stay together ([`place`]). Shares lie side by side on the
//! places, the rest belongs to the alias itself, and a canary takes the beginning of each of these parts, so that it is tried
//! on the same mixture as everything else. [`part_at`] is a pure function of the definition and the place, its
//! probabilities are exact, and a record of both gives the same part again. Growing a share moves no request out of it.
//!
//! [`divide`] puts the models and aliases of the part in the place of the alias. What a canary may cost is in [`guard`].

pub mod guard;

use std::sync::Arc;

use chrono::NaiveDate;
use pointsman_domain::{Alias, AliasSplit, Catalog, Resolved, SplitPart, StickyBy, TakenSplit, Target};

use crate::stats::{seeded_hash, splitmix64};

/// Number of places.
pub const PLACES: u32 = 1 << 16;

/// The place of a request at an alias. `owner` keeps the names of different callers apart.
pub fn place(alias: &str, owner: u64, key: &[u8]) -> u16 {
    (seeded_hash(seeded_hash(hash(alias.as_bytes()), owner), hash(key)) >> 48) as u16
}

/// FNV-1a. It is the same on every replica and after every restart.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The places of a part: those before `canary_end` are the canary's.
struct Stretch {
    part: SplitPart,
    start: u32,
    canary_end: u32,
    end: u32,
}

fn stretches(split: &AliasSplit, canary_stopped: bool) -> impl Iterator<Item = Stretch> {
    let canary = split.canary.as_ref().filter(|_| !canary_stopped).map_or(0.0, |canary| canary.share.clamp(0.0, 1.0));
    let shares = (0..).zip(&split.shares).map(|(at, share)| (SplitPart::Share(at), share.weight));
    let mut sum = 0.0;
    let mut start = 0;
    shares.chain([(SplitPart::Own, 1.0)]).map(move |(part, weight)| {
        sum = f64::min(sum + weight.max(0.0), 1.0);
        let end = (sum * f64::from(PLACES)).round() as u32;
        let canary_end = start + (f64::from(end - start) * canary).round() as u32;
        Stretch { part, start: std::mem::replace(&mut start, end), canary_end, end }
    })
}

/// Every part that requests without a matching rule fall to, with its probability.
pub fn parts(split: &AliasSplit, canary_stopped: bool) -> Vec<(SplitPart, f64)> {
    let share = |places: u32| f64::from(places) / f64::from(PLACES);
    let canary: u32 = stretches(split, canary_stopped).map(|one| one.canary_end - one.start).sum();
    let others = stretches(split, canary_stopped).map(|one| (one.part, share(one.end - one.canary_end)));
    let all = [(SplitPart::Canary, share(canary))].into_iter().chain(others);
    all.filter(|(_, probability)| *probability > 0.0).collect()
}

/// The part at a place, and its probability.
pub fn part_at(split: &AliasSplit, place: u16, canary_stopped: bool) -> (SplitPart, f64) {
    let place = u32::from(place);
    let found = stretches(split, canary_stopped).find(|one| place < one.end);
    let part = found.map_or(SplitPart::Own, |one| if place < one.canary_end { SplitPart::Canary } else { one.part });
    let probability = parts(split, canary_stopped).into_iter().find(|(known, _)| *known == part);
    (part, probability.map_or(1.0, |(_, probability)| probability))
}

/// A place of the most probable part: for previews of requests of which nothing is known.
pub fn likeliest_place(split: &AliasSplit, canary_stopped: bool) -> u16 {
    let all = parts(split, canary_stopped);
    let most = all.iter().map(|(_, probability)| *probability).fold(0.0, f64::max);
    let part = all.iter().find(|(_, probability)| *probability >= most).map_or(SplitPart::Own, |(part, _)| *part);
    let is_it = |one: &Stretch| if part == SplitPart::Canary { one.canary_end > one.start } else { one.part == part };
    let found = stretches(split, canary_stopped).find(is_it);
    found.map_or(0, |one| if part == SplitPart::Canary { one.start } else { one.canary_end }) as u16
}

/// Position of the first rule that these tags meet.
pub fn matching_rule(split: &AliasSplit, tags: &[(String, String)]) -> Option<u32> {
    let meets = |wanted: &(String, String)| tags.contains(wanted);
    let position = split.rules.iter().position(|rule| rule.tags.iter().all(meets))?;
    u32::try_from(position).ok()
}

/// Whether a recorded request falls to the recorded part again, with the same probability bit for bit.
pub fn is_reproduced(taken: &TakenSplit) -> bool {
    let (part, probability) = match taken.part {
        SplitPart::Rule(_) => (taken.part, 1.0),
        _ => part_at(&taken.split, taken.place, taken.canary_stopped),
    };
    part == taken.part && probability.to_bits() == taken.probability.to_bits()
}

/// Another place of the same part, drawn with `seed`: one that tells nothing of whose request it is.
pub fn another_place(taken: &TakenSplit, seed: u64) -> u16 {
    let of_part = |one: Stretch| match taken.part {
        SplitPart::Rule(_) => one.start..one.end,
        SplitPart::Canary => one.start..one.canary_end,
        part if part == one.part => one.canary_end..one.end,
        _ => 0..0,
    };
    let places = || stretches(&taken.split, taken.canary_stopped).flat_map(of_part);
    let count = places().count().max(1) as u64;
    places().nth((splitmix64(seed) % count) as usize).map_or(taken.place, |place| place as u16)
}

/// What decides about the part of one request.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    /// What the place follows from.
    pub sticky: StickyBy,
    /// The place.
    pub place: u16,
    /// The rule that the request meets.
    pub rule: Option<u32>,
    /// Whether the canary of the alias has fallen back.
    pub canary_stopped: bool,
}

/// A request whose alias was divided.
#[derive(Debug, Clone)]
pub struct Divided {
    /// What stands in the place of the requested models and aliases, each once.
    pub targets: Vec<Target>,
    /// The alias with the settings of the part: those of the first alias that the part names, then its own. `None` if
    /// another alias was requested before it.
    pub settings: Option<Alias>,
    /// What was taken, for the record.
    pub taken: Arc<TakenSplit>,
}

/// Divides the first of the requested aliases that divides its requests; of further ones their ladder counts. `None` if there
/// is none.
pub fn divide(
    catalog: &Catalog,
    requested: &[Target],
    today: NaiveDate,
    draw: impl FnOnce(&Alias, &AliasSplit) -> Drawn,
) -> Option<Divided> {
    let divided = |target: &Target| alias_of(catalog, *target)?.split.as_ref().map(|_| *target);
    let Target::Alias(position) = requested.iter().find_map(divided)? else { return None };
    let alias = catalog.alias(position)?;
    let split = alias.split.as_ref()?;
    let Drawn { sticky, place, rule, canary_stopped } = draw(alias, split);
    let (part, probability) = match rule {
        Some(rule) => (SplitPart::Rule(rule), 1.0),
        None => part_at(split, place, canary_stopped),
    };
    let (mut targets, mut of_part) = (Vec::new(), Vec::new());
    for target in requested {
        let leads = match alias_of(catalog, *target).and_then(|alias| alias.split.as_ref()) {
            Some(_) if *target == Target::Alias(position) => {
                let names = split.names(part);
                // A share or canary whose models are all gone is served as what no share is for.
                let names = if is_gone(catalog, names, today) { &split.ladder } else { names };
                of_part = found(catalog, names, today, *target);
                of_part.clone()
            }
            Some(other) => found(catalog, &other.ladder, today, *target),
            None => vec![*target],
        };
        leads.into_iter().for_each(|lead| {
            if !targets.contains(&lead) {
                targets.push(lead)
            }
        });
    }
    let first = requested.iter().find(|target| matches!(target, Target::Alias(_)));
    let settings = (first == Some(&Target::Alias(position))).then(|| settings(catalog, &of_part, alias));
    let taken = TakenSplit {
        requested: requested.to_vec(),
        alias: position,
        split: Arc::clone(split),
        sticky,
        place,
        canary_stopped,
        part,
        probability,
    };
    Some(Divided { targets, settings, taken: Arc::new(taken) })
}

fn alias_of(catalog: &Catalog, target: Target) -> Option<&Alias> {
    match target {
        Target::Alias(position) => catalog.alias(position),
        Target::Model(_) => None,
    }
}

/// Whether all of these names are retired models.
fn is_gone(catalog: &Catalog, names: &[String], today: NaiveDate) -> bool {
    !names.is_empty() && names.iter().all(|name| matches!(catalog.resolve(name, today), Resolved::Retired(_)))
}

/// What these names mean today; without any, the alias itself. A retired model stays: a filter excludes it and says why.
fn found(catalog: &Catalog, names: &[String], today: NaiveDate, own: Target) -> Vec<Target> {
    let target = |name: &String| match catalog.resolve(name, today) {
        Resolved::Found(target) => Some(target),
        Resolved::Retired(_) => {
            let position = catalog.models.iter().position(|model| model.id.as_str() == name)?;
            Some(Target::Model(position as u32))
        }
        Resolved::Unknown => None,
    };
    let all: Vec<Target> = names.iter().filter_map(target).collect();
    if all.is_empty() { vec![own] } else { all }
}

fn settings(catalog: &Catalog, of_part: &[Target], own: &Alias) -> Alias {
    let Some(chosen) = of_part.iter().find_map(|target| alias_of(catalog, *target)) else { return own.clone() };
    Alias {
        objective: chosen.objective.or(own.objective),
        task: chosen.task.or(own.task),
        weights: chosen.weights.or(own.weights),
        preferred_max_latency: chosen.preferred_max_latency.or(own.preferred_max_latency),
        preferred_min_throughput: chosen.preferred_min_throughput.or(own.preferred_min_throughput),
        min_quality: chosen.min_quality.or(own.min_quality),
        quality_unknown: chosen.quality_unknown.or(own.quality_unknown),
        ..own.clone()
    }
}

#[cfg(test)]
mod tests;
