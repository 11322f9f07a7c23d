//! The `provider` object: which providers may serve a request, and in what order they are tried.
//!
//! It may stand in up to four places (`provider_policy` in `metadata`, in `extra_body` and at the top
//! level, and `provider`). Single values are taken from the strongest place; restrictions add up.

use pointsman_domain::{
    DataCollection, Invalid, Objective, Preference, PriceCeiling, ProviderPolicy, RoutingParameters, Source, Sourced,
    Usd,
};

use super::{
    fault::refused,
    json::{self, Object},
    json_type::JsonType,
    routing_values::{highest, list, lowest, offer},
};
use crate::{
    json::Raw,
    neutral::{Path, shown},
};

/// The ways a client may ask for an order, with the objective that each means.
const SORTS: [(&str, Objective); 3] =
    [("price", Objective::Cheapest), ("throughput", Objective::Fastest), ("latency", Objective::Fastest)];
/// Tokens that the prices of `max_price` are for.
const MILLION: i128 = 1_000_000;
/// Stands for "none" where two lists of quantizations have nothing in common: no endpoint has it.
const NO_QUANTIZATION: &str = "(none)";

/// What a `provider` object may hold; other members are ignored.
pub const PROVIDER_MEMBERS: [&str; 13] = names![
    order only ignore quantizations allow_fallbacks explore require_parameters data_collection zdr sort max_price
    preferred_max_latency preferred_min_throughput
];
/// What `max_price` may hold: the prices of the convention. No endpoint has one for audio.
const PRICES: [&str; 5] = ["prompt", "completion", "request", "image", NO_PRICE];
const NO_PRICE: &str = "audio";
/// Most members without effect that are reported.
pub(super) const MAX_UNKNOWN_MEMBERS: usize = 8;

/// Collects the `provider` objects of one request.
#[derive(Default)]
pub(super) struct ProviderPolicyBuilder {
    order: Option<Sourced<Vec<String>>>,
    only: Vec<Vec<String>>,
    ignore: Vec<String>,
    quantizations: Vec<Vec<String>>,
    allow_fallbacks: Option<Sourced<bool>>,
    explore: Option<Sourced<bool>>,
    require_parameters: Option<Sourced<bool>>,
    data_collection: Option<Sourced<DataCollection>>,
    zero_data_retention: Option<Sourced<bool>>,
    sort: Option<Sourced<Objective>>,
    across_models: Option<Sourced<bool>>,
    max_price: PriceCeilingBuilder,
    latency: Option<Sourced<Preference>>,
    throughput: Option<Sourced<Preference>>,
    /// Paths of members that have no effect.
    unknown_members: Vec<String>,
}

#[derive(Default)]
struct PriceCeilingBuilder {
    prompt: Option<Sourced<Usd>>,
    completion: Option<Sourced<Usd>>,
    request: Option<Sourced<Usd>>,
    image: Option<Sourced<Usd>>,
}

impl ProviderPolicyBuilder {
    /// Takes one of the objects, which stands at `path`.
    pub(super) fn read(&mut self, raw: Raw<'_>, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        let object = Object::read(raw, path)?;
        for member in object.iter() {
            if let Some(raw) = json::given(member.value) {
                self.member(&member.name, raw, &path.member(&member.name), source)?;
            }
        }
        refuse_contradictions(&object, path)
    }

    fn member(&mut self, name: &str, raw: Raw<'_>, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        match name {
            "order" => offer(&mut self.order, names(raw, path)?, source),
            "only" => self.only.extend(some(names(raw, path)?)),
            "ignore" => self.ignore.extend(names(raw, path)?),
            "quantizations" => {
                let lower = names(raw, path)?.iter().map(|name| name.to_ascii_lowercase()).collect();
                self.quantizations.extend(some(lower));
            }
            "allow_fallbacks" => offer(&mut self.allow_fallbacks, json::flag(raw, path)?, source),
            "explore" => offer(&mut self.explore, json::flag(raw, path)?, source),
            "require_parameters" => offer(&mut self.require_parameters, json::flag(raw, path)?, source),
            "data_collection" => offer(&mut self.data_collection, data_collection(raw, path)?, source),
            "zdr" => offer(&mut self.zero_data_retention, json::flag(raw, path)?, source),
            "sort" => {
                let (objective, across_models) = sort(raw, path)?;
                if let Some(objective) = objective {
                    offer(&mut self.sort, objective, source);
                }
                if let Some(across_models) = across_models {
                    offer(&mut self.across_models, across_models, source);
                }
            }
            "max_price" => self.prices(raw, path, source)?,
            "preferred_max_latency" => offer(&mut self.latency, highest(raw, path)?, source),
            "preferred_min_throughput" => offer(&mut self.throughput, lowest(raw, path)?, source),
            _ => self.ignore_member(path),
        }
        Ok(())
    }

    fn prices(&mut self, raw: Raw<'_>, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        let prices = json::known(raw, path, &PRICES)?;
        if prices.get(NO_PRICE).is_some() {
            self.ignore_member(&path.member(NO_PRICE));
        }
        self.max_price.take(&prices, path, source)
    }

    fn ignore_member(&mut self, path: &Path<'_>) {
        if self.unknown_members.len() < MAX_UNKNOWN_MEMBERS {
            self.unknown_members.push(path.to_string());
        }
    }

    /// The paths of members that have no effect, in order; only the first few are kept.
    pub(super) fn take_unknown_members(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unknown_members)
    }

    /// Adds the collected values to the parameters. Existing values have precedence.
    pub(super) fn finish(self, parameters: &mut RoutingParameters) {
        let standing = ProviderPolicy::default();
        parameters.provider = ProviderPolicy {
            order: value(self.order, standing.order),
            only: self.only,
            ignore: self.ignore,
            across_models: value(self.across_models, standing.across_models),
            allow_fallbacks: value(self.allow_fallbacks, standing.allow_fallbacks),
            require_parameters: value(self.require_parameters, standing.require_parameters),
            data_collection: value(self.data_collection, standing.data_collection),
            zero_data_retention: value(self.zero_data_retention, standing.zero_data_retention),
            quantizations: common(self.quantizations),
            max_price: self.max_price.finish(),
        };
        parameters.unexplored = !value(self.explore, true);
        let weaker = |value| Sourced { value, source: Source::Provider };
        parameters.objective = parameters.objective.or(self.sort.map(|sort| weaker(sort.value)));
        let latency = self.latency.map(|held| Sourced { value: held.value, source: Source::Provider });
        let throughput = self.throughput.map(|held| Sourced { value: held.value, source: Source::Provider });
        parameters.preferred_max_latency = parameters.preferred_max_latency.or(latency);
        parameters.preferred_min_throughput = parameters.preferred_min_throughput.or(throughput);
    }
}

/// Rejects lists of one object that contradict each other. Lists of different objects only restrict each other and may
/// leave no provider.
fn refuse_contradictions(object: &Object<'_>, path: &Path<'_>) -> Result<(), Invalid> {
    let list = |member: &str| object.get(member).map_or(Ok(Vec::new()), |raw| list(raw, &path.member(member)));
    let ignored = list("ignore")?;
    if ignored.is_empty() {
        return Ok(());
    }
    let by = |name: &str| ignored.iter().find(|ignored| covers(ignored, name));
    let at = path.member("order");
    for (position, name) in list("order")?.iter().enumerate() {
        if let Some(ignored) = by(name) {
            let at = at.item(position);
            let message =
                format!("'{at}' names '{}', which '{path}.ignore' excludes as '{}'.", shown(name), shown(ignored));
            return Err(refused(&at, message));
        }
    }
    let only = list("only")?;
    if !only.is_empty() && only.iter().all(|name| by(name).is_some()) {
        let at = path.member("only");
        let message = format!("'{path}.ignore' excludes every provider that '{at}' allows: no provider is left.");
        return Err(refused(&at, message));
    }
    Ok(())
}

/// Whether an entry of a list names all that another one does: the same name, or all variants of it.
fn covers(entry: &str, name: &str) -> bool {
    let slug = name.rsplit_once('/').map_or(name, |(slug, _)| slug);
    entry.eq_ignore_ascii_case(name) || entry.eq_ignore_ascii_case(slug)
}

impl PriceCeilingBuilder {
    fn take(&mut self, object: &Object<'_>, path: &Path<'_>, source: Source) -> Result<(), Invalid> {
        let price = |name| object.get(name).map(|raw| json::dollars(raw, &path.member(name))).transpose();
        let per_token = |amount: Usd| Usd::from_femto(amount.femto() / MILLION);
        let offer_some = |slot: &mut Option<Sourced<Usd>>, amount: Option<Usd>| {
            if let Some(amount) = amount {
                offer(slot, amount, source);
            }
        };
        offer_some(&mut self.prompt, price("prompt")?.map(per_token));
        offer_some(&mut self.completion, price("completion")?.map(per_token));
        offer_some(&mut self.request, price("request")?);
        offer_some(&mut self.image, price("image")?);
        Ok(())
    }

    fn finish(self) -> PriceCeiling {
        let amount = |held: Option<Sourced<Usd>>| held.map(|held| held.value);
        PriceCeiling {
            prompt: amount(self.prompt),
            completion: amount(self.completion),
            request: amount(self.request),
            image: amount(self.image),
        }
    }
}

fn value<T>(held: Option<Sourced<T>>, standing: T) -> T {
    held.map_or(standing, |held| held.value)
}

fn names(raw: Raw<'_>, path: &Path<'_>) -> Result<Vec<String>, Invalid> {
    Ok(list(raw, path)?.into_iter().map(|name| name.into_owned()).collect())
}

/// A list, unless it is empty: an empty one restricts nothing.
fn some(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

/// What all the lists name.
fn common(lists: Vec<Vec<String>>) -> Vec<String> {
    let mut lists = lists.into_iter();
    let Some(mut kept) = lists.next() else { return Vec::new() };
    for list in lists {
        kept.retain(|name| list.contains(name));
    }
    if kept.is_empty() {
        // An empty list would lift the restriction that two lists together make total.
        kept.push(NO_QUANTIZATION.to_owned());
    }
    kept
}

fn data_collection(raw: Raw<'_>, path: &Path<'_>) -> Result<DataCollection, Invalid> {
    let choice = json::choice(raw, path, &["allow", "deny"])?;
    Ok(if choice == 0 { DataCollection::Allow } else { DataCollection::Deny })
}

/// The objective that a `sort` stands for: a word, or an object with the word as `by`; and whether it goes across
/// models, where it says so.
fn sort(raw: Raw<'_>, path: &Path<'_>) -> Result<(Option<Objective>, Option<bool>), Invalid> {
    let by = |raw: Raw<'_>, path: &Path<'_>| {
        let position = json::choice(raw, path, &SORTS.map(|(name, _)| name))?;
        Ok(SORTS.get(position).map(|(_, objective)| *objective))
    };
    if JsonType::of(raw) == JsonType::Text {
        return Ok((by(raw, path)?, None));
    }
    let object = Object::read(raw, path)?;
    let partition = |raw| Ok(json::choice(raw, &path.member("partition"), &["model", "none"])? == 1);
    let across_models = object.get("partition").map(partition).transpose()?;
    let objective = object.get("by").map_or(Ok(None), |raw| by(raw, &path.member("by")))?;
    Ok((objective, across_models))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_members(name: &str) -> Vec<String> {
        let text = format!("{{\"{name}\":{{}}}}");
        let raw: Raw<'_> = json::whole(&text, 8).unwrap();
        let mut draft = ProviderPolicyBuilder::default();
        // Most members are no objects, which is refused; unknown ones are looked at no further.
        let _ = draft.read(raw, &Path::Field("provider"), Source::Provider);
        draft.take_unknown_members()
    }

    #[test]
    fn what_is_listed_as_known_is_read_and_all_else_is_noted() {
        for member in PROVIDER_MEMBERS {
            assert_eq!(unknown_members(member), Vec::<String>::new(), "{member}");
        }
        assert_eq!(unknown_members("onyl"), ["provider.onyl"]);
    }
}
