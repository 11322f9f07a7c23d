//! Aliases: the built-in ones and `[[aliases]]`.
//!
//! An entry with the name of a built-in alias restricts that alias. It cannot add paid models to the free pool.

use std::sync::Arc;

use pointsman_domain::{
    Alias, Catalog, ModelId, ModelPattern, Objective, Preference, Task, UnknownQuality, Usd, Weights,
};

use super::{
    accounts, quality,
    routing::{RoutingConfig, ServiceConfig, built_in_alias, preference, weights},
    section::{Item, Section, words},
    splits,
};

const MAX_ALIASES: usize = 250;
const MAX_PATTERNS: usize = 1_000;
/// Number of built-in aliases, `auto` and `free`. They come first.
const BUILT_IN: usize = 2;

/// All aliases in the order of the catalog, and their synonyms as (synonym, alias id).
pub(super) struct Aliases<'t> {
    pub(super) aliases: Vec<Alias>,
    pub(super) synonyms: Vec<(String, String)>,
    /// Names and synonyms of the built-in aliases.
    pub(super) built_in: Vec<String>,
    /// Names and synonyms chosen by the operator, with their locations.
    pub(super) named: Vec<(String, Item<'t>)>,
    /// Names to which an alias leads, with the alias and their locations.
    pub(super) led_to: Vec<(String, Item<'t>)>,
}

impl<'t> Aliases<'t> {
    pub(super) fn read(root: &Section<'t>, service: &ServiceConfig, routing: &RoutingConfig) -> Aliases<'t> {
        let prefix = &service.alias_prefix;
        let spelled = |spelling: &String| {
            let canonical = format!("{prefix}/{}", built_in_alias(spelling)?);
            (*spelling != canonical).then(|| (spelling.clone(), canonical))
        };
        let built_in = built_in(prefix);
        let synonyms: Vec<(String, String)> = routing.alias_synonyms.iter().filter_map(spelled).collect();
        let spellings = synonyms.iter().map(|(spelling, _)| spelling.clone());
        let mut aliases = Aliases {
            built_in: built_in.iter().map(|alias| alias.id.clone()).chain(spellings).collect(),
            aliases: built_in,
            synonyms,
            named: Vec::new(),
            led_to: Vec::new(),
        };
        let mut restricted = Vec::new();
        for (alias, mut named, led_to) in
            root.sections("aliases", MAX_ALIASES, |section| read_alias(section, prefix, routing))
        {
            if let Some(built_in) = aliases.aliases.iter_mut().take(BUILT_IN).find(|known| known.id == alias.id) {
                *built_in = restricted_to(built_in, alias.clone());
                refuse_second(&alias.id, &named, &mut restricted);
                let is_known = |name: &String| {
                    *name == alias.id || aliases.synonyms.iter().any(|(known, id)| known == name && *id == alias.id)
                };
                named.retain(|(name, _)| !is_known(name));
            } else {
                aliases.aliases.push(alias.clone());
            }
            let spellings = named.iter().map(|(name, _)| name).filter(|name| **name != alias.id);
            aliases.synonyms.extend(spellings.map(|spelling| (spelling.clone(), alias.id.clone())));
            aliases.named.extend(named);
            aliases.led_to.extend(led_to.into_iter().map(|item| (alias.id.clone(), item)));
        }
        aliases
    }
}

/// Reports names to which an alias leads that mean nothing, or another alias that divides its requests.
pub(super) fn check_led_to(led_to: &[(String, Item<'_>)], catalog: &Catalog) {
    for (of, item) in led_to {
        if !catalog.knows(item.text, true) {
            let models = catalog.models.iter().map(|model| model.id.as_str());
            let aliases = catalog.aliases.iter().map(|alias| alias.id.as_str());
            item.unknown("neither a model nor an alias", models.chain(aliases));
        } else if let Some(other) = catalog.alias_called(item.text)
            && other.split.is_some()
            && other.id != *of
        {
            let wrong = format!("'{}' is an alias that divides its requests itself", item.text);
            item.fault(wrong, "models, and aliases without ladder, rules, shares and canary");
        }
    }
}

/// A built-in alias with the restrictions of the operator's entry. The free pool stays free.
fn restricted_to(built_in: &Alias, entry: Alias) -> Alias {
    Alias {
        free_only: built_in.free_only || entry.free_only,
        description: if entry.description.is_empty() { built_in.description.clone() } else { entry.description },
        ..entry
    }
}

/// Reports a second entry for the same built-in alias.
fn refuse_second(id: &str, named: &[(String, Item<'_>)], restricted: &mut Vec<String>) {
    if restricted.iter().any(|known| known == id)
        && let Some((_, item)) = named.iter().find(|(name, _)| name == id)
    {
        item.fault("is used twice, here and by another alias", "one entry for each built-in alias");
    }
    restricted.push(id.to_owned());
}

fn built_in(prefix: &str) -> Vec<Alias> {
    let alias = |name: &str, free_only, description: &str| Alias {
        id: format!("{prefix}/{name}"),
        free_only,
        objective: None,
        task: None,
        weights: None,
        preferred_max_latency: None,
        preferred_min_throughput: None,
        min_quality: None,
        quality_unknown: None,
        spend_pace: None,
        allowed: Vec::new(),
        blocked: Vec::new(),
        split: None,
        cascade: None,
        description: description.to_owned(),
    };
    vec![
        alias("auto", false, "The service chooses among all models."),
        alias("free", true, "The service chooses among the models that cost nothing."),
    ]
}

/// An alias, its names with their locations, and the names to which it leads.
fn read_alias<'t>(
    section: &Section<'t>,
    prefix: &str,
    routing: &RoutingConfig,
) -> (Alias, Vec<(String, Item<'t>)>, Vec<Item<'t>>) {
    keys! { section:
        //! Aliases, one `[[aliases]]` each. An entry named `auto` or `free` restricts the built-in alias of that name:
        //! its lists, objective and targets apply to it, and `free` never includes paid models.
        /// `thrifty` becomes `service/thrifty`; a name with a slash is not changed.
        name = required("a name such as \"cheap\", or a full one such as \"team/cheap\""),
        /// Additional names.
        synonyms = texts(64),
        /// Objective of requests with this alias.
        objective = choice(&words(Objective::ALL, Objective::as_str)) [absent = "`routing.objective`"],
        /// Class of the tasks, whose quality counts. `metadata.task` of a request goes before it.
        task = choice(&words(Task::ALL, Task::as_str))
            [absent = "found from the request"],
        /// Weights for `balanced`, as in `[routing.balanced]`.
        weights = with(|section, key| weights(section, key, ""))
            [absent = "`routing.balanced`", kind = "table", allowed = "`latency`, `cost`, `quality`"],
        /// Target for the time to first token at the client, such as `{ p95 = 0.8 }`; a number is `p50`. With
        /// `cheapest` it is met at the lowest cost. See `/health/slo`.
        preferred_max_latency = with(|section, key| preference(section, key, Preference::latency_fault))
            [
                unit = "seconds",
                absent = "none",
                kind = "number or table",
                allowed = "`p50`, `p75`, `p90`, `p95`, `p99`",
            ],
        /// Throughput that half of the answers reach; or `{ p90 = 20 }`.
        preferred_min_throughput = with(|section, key| preference(section, key, Preference::throughput_fault))
            [
                unit = "tokens per second",
                absent = "none",
                kind = "number or table",
                allowed = "`p50`, `p75`, `p90`, `p95`, `p99`",
            ],
        /// Least quality for the class of the task: the mean, or with `{ p10 = 0.7 }` the lower tenth. Endpoints below it are
        /// excluded.
        min_quality = with(quality::floor)
            [absent = "none", kind = "number or table", allowed = "0 to 1, or `p10`"],
        /// What `min_quality` does with endpoints without a score and ratings.
        quality_unknown = choice(&words(UnknownQuality::ALL, UnknownQuality::as_str)) [absent = "that of the key, else `exclude`"],
        /// What a thousand chats are to cost, on average over all of them: of the models that the alias allows, the best for the money
        /// are chosen (`quality` of `weights` must be above 0). [POLICY.md](POLICY.md#spend-pace) explains it.
        spend_pace = with(spend_pace)
            [absent = "none", unit = "US dollars", kind = "decimal string", allowed = "an amount such as `\"2.50\"`"],
        /// Models to choose from; empty: all. `check` reports lists that leave no model.
        allowed "allowed_models" = with(patterns) [allowed = "ids, and prefixes such as `acme/*`"],
        /// Models to leave out.
        blocked "blocked_models" = with(patterns) [allowed = "ids, and prefixes such as `acme/*`"],
        /// Only models without cost.
        free_only = flag() [default = "false"],
        /// Shown in lists of aliases.
        description = text_or(""),
    }
    let name = name.unwrap_or("?");
    let id = if name.contains('/') { name.to_owned() } else { format!("{prefix}/{name}") };
    if section.has("name") && id.parse::<ModelId>().is_err() {
        section.fault("name", "is not a name", "printable ASCII without spaces and stars, with at most one slash");
    }
    if id == format!("{prefix}/free") && free_only == Some(false) {
        section.fault("free_only", "would widen the built-in alias 'free'", "true, or leave it out");
    }
    if spend_pace.is_some() {
        check_spend_pace(section, objective.unwrap_or(routing.objective), weights.unwrap_or(routing.policy.balanced));
    }
    let (split, led_to) = splits::read(section).unzip();
    let mut led_to = led_to.unwrap_or_default();
    let (cascade, to) = super::cascades::read(section).unzip();
    led_to.extend(to);
    let leads_elsewhere = split.is_some() || cascade.is_some();
    if leads_elsewhere && (free_only == Some(true) || id == format!("{prefix}/free")) {
        let allowed = "no ladder, rules, shares, canary and cascade for it; an alias of another name can lead to it";
        section.fault("name", "is an alias of free models, which must not lead elsewhere", allowed);
    }
    let alias = Alias {
        id,
        split: split.map(Arc::new),
        cascade: cascade.map(Arc::new),
        free_only: free_only.unwrap_or(false),
        objective,
        task,
        weights,
        preferred_max_latency,
        preferred_min_throughput,
        min_quality,
        quality_unknown,
        spend_pace,
        allowed,
        blocked,
        description,
    };
    let mut named: Vec<(String, Item<'t>)> =
        section.item("name").map(|item| (alias.id.clone(), item)).into_iter().collect();
    for item in synonyms.unwrap_or_default() {
        if item.text.is_empty() || item.text.len() > 256 || !item.text.bytes().all(|b| b.is_ascii_graphic()) {
            item.fault("is not a name", "1 to 256 printable ASCII characters without spaces");
        }
        named.push((item.text.to_owned(), item));
    }
    (alias, named, led_to)
}

fn spend_pace(section: &Section<'_>, key: &'static str) -> Option<Usd> {
    let amount = accounts::dollars(section, key);
    if amount == Some(Usd::ZERO) {
        section.fault(key, "is 0", "an amount above 0; free_only = true is for models without cost");
    }
    amount.filter(|amount| !amount.is_zero())
}

/// Reports a spend pace that has nothing to steer.
fn check_spend_pace(section: &Section<'_>, objective: Objective, weights: Weights) {
    let has_weight = weights.quality > 0.0;
    if objective != Objective::Balanced {
        section.fault("spend_pace", "steers the objective 'balanced' alone", "objective = \"balanced\" beside it");
    } else if !has_weight {
        let allowed = "quality above 0 in weights beside it, or in [routing.balanced]";
        section.fault("spend_pace", "weighs cost against quality, and the weight of quality is 0", allowed);
    }
}

/// A list of model ids and prefixes ending in `*`.
pub(super) fn patterns(section: &Section<'_>, key: &'static str) -> Vec<ModelPattern> {
    let items = section.texts(key, MAX_PATTERNS).unwrap_or_default();
    let parsed = items.iter().filter_map(|item| {
        let pattern = item.text.parse().ok();
        if pattern.is_none() {
            item.fault("is not a pattern", "a model id, or a prefix that ends in one '*' such as \"acme/*\"");
        } else if !item.text.ends_with('*') {
            item.names_model(false);
        }
        pattern
    });
    parsed.collect()
}
