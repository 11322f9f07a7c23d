//! What differs between two configurations, by the names of the keys, and how far records answer it.

use std::{collections::BTreeSet, fmt};

use pointsman_domain::{
    Alias, Catalog, Endpoint, EndpointId, Model, Provider, ProviderState, RoutingPolicy, StickyPolicy,
};

use super::side::Side;

/// A value that only the decisions tell.
const AS_RECORDED: &str = "as recorded";

/// How far recorded decisions answer what a key changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answerable {
    /// The decisions can be made again with another value.
    Yes,
    /// The key changes statistics, breakers or caches over time: only an open loop over the recorded observations can tell.
    OpenLoop,
    /// The key changes what happens after a choice, or by what was spent before: decisions made again do not show it.
    AfterChoice,
}

/// One difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The key, or what it is about.
    pub key: String,
    /// Both values, as far as they can be shown in a few characters.
    pub values: Option<[String; 2]>,
    /// How far records answer it.
    pub answerable: Answerable,
    pub(super) kind: Kind,
}

/// What is changed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Policy(&'static PolicyKey),
    Objective,
    /// Prices of all endpoints of a provider.
    Prices(String),
    Provider(String),
    /// A model with its endpoints, but for their prices.
    Model(String),
    Alias(String),
}

impl Change {
    /// Whether it is the default objective, beside what it was in each decision.
    pub fn is_recorded_objective(&self) -> bool {
        self.kind == Kind::Objective && self.values.as_ref().is_some_and(|[before, _]| before == AS_RECORDED)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.values {
            Some([before, after]) => write!(f, "{} {before} → {after}", self.key),
            None => f.write_str(&self.key),
        }
    }
}

/// A constant of the policy with its key.
pub(super) struct PolicyKey {
    key: &'static str,
    answerable: Answerable,
    differs: fn(&RoutingPolicy, &RoutingPolicy) -> bool,
    shown: fn(&RoutingPolicy) -> String,
    /// Takes the value of the second policy into the first.
    pub take: fn(&mut RoutingPolicy, &RoutingPolicy),
}

impl PartialEq for PolicyKey {
    fn eq(&self, other: &PolicyKey) -> bool {
        self.key == other.key
    }
}

impl fmt::Debug for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

macro_rules! policy_keys {
    ($($key:literal $answerable:ident $($member:ident).+;)*) => {
        &[$(PolicyKey {
            key: $key,
            answerable: Answerable::$answerable,
            differs: |one, other| one.$($member).+ != other.$($member).+,
            shown: |policy| format!("{:?}", policy.$($member).+),
            take: |policy, from| policy.$($member).+ = from.$($member).+.clone(),
        }),*]
    };
}

static POLICY: &[PolicyKey] = policy_keys! {
    "routing.exploration" Yes exploration;
    "routing.per_accepted" Yes per_accepted;
    "routing.balanced" Yes balanced;
    "routing.retry.max_attempts" Yes retry.max_attempts;
    "routing.expert.staleness" Yes staleness;
    "routing.expert.hot_inflation" Yes hot_inflation;
    "routing.expert.failure_time" Yes failure_time;
    "routing.expert.cheapest_time_value" Yes cheapest_time_value;
    "routing.expert.reliable_time_share" Yes reliable_time_share;
    "routing.expert.reliable_slow" Yes reliable_slow;
    "timeouts.first_content" Yes clocks.first_content;
    "timeouts.total" Yes clocks.total;
    "routing.expert.half_life" OpenLoop stats.half_life;
    "routing.expert.max_weight" OpenLoop stats.max_weight;
    "routing.expert.prior_ttft" OpenLoop stats.prior_first_token;
    "routing.expert.prior_time_per_token" OpenLoop stats.prior_per_token;
    "routing.breaker.consecutive" OpenLoop breaker.consecutive;
    "routing.breaker.base" OpenLoop breaker.base;
    "routing.expert.breaker_factor" OpenLoop breaker.factor;
    "routing.expert.breaker_max_steps" OpenLoop breaker.max_steps;
    "routing.expert.breaker_timeout_step" OpenLoop breaker.timeout_step;
    "routing.pacing" OpenLoop pacing;
    "routing.sticky" OpenLoop sticky;
    "routing.expert.target_gain" OpenLoop targets.gain;
    "routing.expert.target_max_margin" OpenLoop targets.max_margin;
    "routing.expert.target_min_margin" OpenLoop targets.min_margin;
    "routing.expert.target_reserve" OpenLoop targets.reserve;
    "routing.hedge.objectives" AfterChoice hedge.objectives;
    "routing.hedge.budget" AfterChoice hedge.budget;
    "routing.expert.hedge_sigma" AfterChoice hedge.sigma;
    "routing.retry.last_resort" AfterChoice retry.last_resort;
    "routing.retry.budget_ratio" AfterChoice retry.budget_ratio;
    "routing.retry.wait" AfterChoice retry.wait;
    "timeouts.connect" AfterChoice clocks.connect;
    "timeouts.first_byte" AfterChoice clocks.first_byte;
    "stream.idle_timeout" AfterChoice clocks.idle;
};

/// Whether both policies score and order alike.
pub(super) fn decide_alike(one: &RoutingPolicy, other: &RoutingPolicy) -> bool {
    let decides = |key: &&PolicyKey| key.answerable != Answerable::AfterChoice;
    !POLICY.iter().filter(decides).any(|key| (key.differs)(one, other))
}

/// Whether a change of stickiness asks for conversations that no record tells of: those that would have been kept longer, or at
/// all.
pub(super) fn keeps_more(before: &StickyPolicy, after: &StickyPolicy) -> bool {
    after.enabled
        && (!before.enabled
            || after.ttl != before.ttl
            || after.max_conversations != before.max_conversations
            || after.min_prompt_tokens < before.min_prompt_tokens)
}

impl Side {
    /// Whether both lead to the same decisions.
    #[must_use]
    pub fn decides_like(&self, other: &Side) -> bool {
        between(self, other).iter().all(|change| change.answerable == Answerable::AfterChoice)
    }
}

/// All differences: of the policy in the order of its keys, then of the catalog by name.
pub(super) fn between(before: &Side, after: &Side) -> Vec<Change> {
    let policy = POLICY.iter().filter(|key| (key.differs)(&before.policy, &after.policy)).map(|key| Change {
        key: key.key.to_owned(),
        values: Some([&before.policy, &after.policy].map(|policy| short((key.shown)(policy)))),
        answerable: key.answerable,
        kind: Kind::Policy(key),
    });
    let mut changes: Vec<Change> = policy.collect();
    // Without a value before, the records tell what the objective was.
    let objectives = [before.objective, after.objective].map(|objective| objective.map(|it| it.as_str().to_owned()));
    match objectives {
        [_, None] => {}
        [Some(one), Some(other)] if one == other => {}
        [before, Some(after)] => changes.push(Change {
            key: "routing.objective".to_owned(),
            values: Some([before.unwrap_or_else(|| AS_RECORDED.to_owned()), after]),
            answerable: Answerable::Yes,
            kind: Kind::Objective,
        }),
    }
    let (before, after) = (&*before.catalog, &*after.catalog);
    changes.extend(providers(before, after));
    changes.extend(prices(before, after));
    changes.extend(models(before, after));
    changes.extend(aliases(before, after));
    changes
}

/// `Duration` and structs print at some length.
fn short(shown: String) -> String {
    let inner = shown.split_once(" { ").and_then(|(_, rest)| rest.strip_suffix(" }"));
    inner.map_or_else(|| shown.clone(), |inner| format!("{{{inner}}}"))
}

fn exact(key: String, values: Option<[&str; 2]>, kind: Kind) -> Change {
    let values = values.map(|values| values.map(str::to_owned));
    Change { key, values, answerable: Answerable::Yes, kind }
}

fn providers(before: &Catalog, after: &Catalog) -> Vec<Change> {
    let state = |provider: Option<&Provider>| match provider.map(|provider| &provider.state) {
        None => "absent",
        Some(ProviderState::On) => "on",
        Some(ProviderState::Off(_)) => "off",
    };
    let figures = |provider: &Provider| (provider.is_on(), provider.collects_data, provider.zero_data_retention);
    let slugs: BTreeSet<&str> =
        before.providers.iter().chain(&after.providers).map(|provider| provider.slug.as_str()).collect();
    let change = |slug: &str| {
        let of = |catalog: &'_ Catalog| catalog.providers.iter().find(|one| one.slug.as_str() == slug).cloned();
        let (was, is) = (of(before), of(after));
        let differs = was.as_ref().map(figures) != is.as_ref().map(figures)
            || was.as_ref().map(|it| &it.name) != is.as_ref().map(|it| &it.name);
        let states = [state(was.as_ref()), state(is.as_ref())];
        let values = (states[0] != states[1]).then_some(states);
        differs.then(|| exact(format!("providers.{slug}"), values, Kind::Provider(slug.to_owned())))
    };
    slugs.into_iter().filter_map(change).collect()
}

fn endpoint_in(catalog: &Catalog, id: EndpointId) -> Option<&Endpoint> {
    catalog.endpoints.iter().find(|endpoint| endpoint.id == id)
}

fn prices(before: &Catalog, after: &Catalog) -> Vec<Change> {
    let differs =
        |endpoint: &&Endpoint| endpoint_in(before, endpoint.id).is_some_and(|was| was.pricing != endpoint.pricing);
    let slugs: BTreeSet<&str> = after
        .endpoints
        .iter()
        .filter(differs)
        .filter_map(|endpoint| Some(after.provider_of(endpoint)?.slug.as_str()))
        .collect();
    let change = |slug: &str| exact(format!("prices of {slug}"), None, Kind::Prices(slug.to_owned()));
    slugs.into_iter().map(change).collect()
}

/// An endpoint without what belongs to other changes, and without positions.
fn bare(catalog: &Catalog, endpoint: &Endpoint) -> (Endpoint, Vec<String>) {
    let names = catalog.parameters.names(endpoint.parameters).map(ToString::to_string).collect();
    let endpoint = Endpoint {
        model: 0,
        provider: 0,
        pricing: None,
        parameters: Default::default(),
        upstream_model: "".into(),
        ..endpoint.clone()
    };
    (endpoint, names)
}

fn models(before: &Catalog, after: &Catalog) -> Vec<Change> {
    // Endpoints of a provider that comes or goes change with it.
    let has_both = |catalog: &Catalog, endpoint: &Endpoint| {
        let slug = catalog.provider_of(endpoint).map(|provider| provider.slug.as_str());
        slug.is_some_and(|slug| has_provider(before, slug) && has_provider(after, slug))
    };
    let ids: BTreeSet<&str> = before.models.iter().chain(&after.models).map(|model| model.id.as_str()).collect();
    let change = |id: &str| {
        let (was, is) = (find_model(before, id), find_model(after, id));
        let differs = match (was, is) {
            (Some(was), Some(is)) => {
                let facts = |model: &Model| {
                    let modalities = (model.architecture.input, model.architecture.output);
                    (modalities, model.expiration_date, model.quality.clone())
                };
                let of = |catalog: &Catalog, model: &Model| {
                    let own = catalog.endpoints_of(model).filter(|(_, endpoint)| has_both(catalog, endpoint));
                    let mut all: Vec<_> = own.map(|(_, endpoint)| bare(catalog, endpoint)).collect();
                    all.sort_by_key(|(endpoint, _)| endpoint.id);
                    all
                };
                facts(was) != facts(is) || of(before, was) != of(after, is)
            }
            _ => true,
        };
        let states = [was, is].map(|model| if model.is_some() { "there" } else { "absent" });
        let values = (states[0] != states[1]).then_some(states);
        differs.then(|| exact(format!("models.\"{id}\""), values, Kind::Model(id.to_owned())))
    };
    ids.into_iter().filter_map(change).collect()
}

pub(super) fn has_provider(catalog: &Catalog, slug: &str) -> bool {
    catalog.providers.iter().any(|provider| provider.slug.as_str() == slug)
}

pub(super) fn find_model<'c>(catalog: &'c Catalog, id: &str) -> Option<&'c Model> {
    catalog.models.iter().find(|model| model.id.as_str() == id)
}

fn aliases(before: &Catalog, after: &Catalog) -> Vec<Change> {
    let bare = |alias: &Alias| Alias { description: String::new(), ..alias.clone() };
    let of = |catalog: &Catalog, id: &str| catalog.aliases.iter().find(|alias| alias.id == id).map(bare);
    let ids: BTreeSet<&str> = before.aliases.iter().chain(&after.aliases).map(|alias| alias.id.as_str()).collect();
    let change = |id: &str| {
        let choosing = |catalog| of(catalog, id).map(|alias| Alias { cascade: None, spend_pace: None, ..alias });
        let differs = choosing(before) != choosing(after);
        differs.then(|| exact(format!("alias {id}"), None, Kind::Alias(id.to_owned())))
    };
    // A record keeps the multiplier that a pace had.
    let kept = |catalog, id: &str| of(catalog, id).map(|alias| (alias.cascade, alias.spend_pace)).unwrap_or_default();
    let after_choice = |id: &str| {
        let [(cascade, pace), (other_cascade, other_pace)] = [before, after].map(|catalog| kept(catalog, id));
        let keys = [("cascade", cascade != other_cascade), ("spend_pace", pace != other_pace)];
        let change = |key| exact(format!("alias {id}.{key}"), None, Kind::Alias(id.to_owned()));
        let changed = keys.into_iter().filter(|(_, differs)| *differs);
        changed.map(|(key, _)| Change { answerable: Answerable::AfterChoice, ..change(key) }).collect::<Vec<_>>()
    };
    ids.iter().filter_map(|id| change(id)).chain(ids.iter().flat_map(|id| after_choice(id))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// All values that differ from this one in one place, with the path of the place.
    fn changed(value: &Value, path: &str) -> Vec<(String, Value)> {
        let one = |value: Value| vec![(path.to_owned(), value)];
        match value {
            Value::Null | Value::String(_) => Vec::new(),
            Value::Bool(is) => one(Value::Bool(!is)),
            Value::Number(number) if number.is_f64() => one(Value::from(number.as_f64().unwrap() + 0.25)),
            Value::Number(number) => one(Value::from(number.as_u64().unwrap() + 1)),
            Value::Array(list) => one(Value::Array(list[1..].to_vec())),
            Value::Object(members) => {
                let of_member = |(name, member): (&String, &Value)| {
                    changed(member, &format!("{path}.{name}"))
                        .into_iter()
                        .map(|(at, member)| {
                            let mut members = members.clone();
                            members.insert(name.clone(), member);
                            (at, Value::Object(members))
                        })
                        .collect::<Vec<_>>()
                };
                members.iter().flat_map(of_member).collect()
            }
        }
    }

    #[test]
    fn every_constant_of_a_policy_has_a_row() {
        let policy = RoutingPolicy::default();
        let all = changed(&serde_json::to_value(&policy).unwrap(), "policy");
        assert!(all.len() > 40, "{}", all.len());
        for (path, value) in all.into_iter().filter(|(path, _)| path != "policy.version") {
            let other: RoutingPolicy = serde_json::from_value(value).unwrap();
            assert!(POLICY.iter().any(|key| (key.differs)(&policy, &other)), "{path}: no row");
        }
    }
}
