//! What recorded decisions are made again under: a catalog, a policy, and how a recorded request reads there.

use std::{collections::HashMap, sync::Arc};

use pointsman_domain::{
    Alias, AliasSplit, Catalog, Decision, Endpoint, EndpointId, Needs, Objective, ParameterNames, Quality, Query,
    Resolved, RoutingParameters, RoutingPolicy, Source, Sourced, SplitPart, StickyBy, TakenSplit, Target, Task,
    TaskClass, TaskClassSource, Tick,
};

use super::{
    changes::decide_alike,
    restriction::{Restriction, without_lists},
    side::{Side, translated},
};
use crate::{
    quality::{Evidence, Posterior, QualityTable},
    split::{Drawn, divide, matching_rule},
    stats::{EndpointStats, Estimates, Fit, OutputLengths, PromptScales, Snapshot, splitmix64},
};

/// What a record tells of the quality of an endpoint.
#[derive(Clone, Copy)]
pub(super) enum RecordedQuality {
    NotRecorded,
    /// The quality, or that it was unknown.
    Recorded(Option<Quality>),
}

/// A [`Side`] prepared for the decisions that were recorded with one catalog.
pub(in crate::explain) struct Setup {
    /// Without estimates: they come from each record.
    pub snapshot: Snapshot,
    objective: Option<Objective>,
    /// Position here of each endpoint of the recorded catalog.
    positions: Vec<Option<u32>>,
    by_id: HashMap<EndpointId, u32>,
    /// Whether endpoints here were in the recorded catalog.
    was_there: Vec<bool>,
    /// Whether they have the prices that they had there.
    same_prices: Vec<bool>,
    /// Whether they have the scores that they had there, by class.
    same_scores: Vec<[bool; Task::ALL.len()]>,
    /// Whether this is the setup of the decisions themselves.
    pub is_recorded: bool,
    decides_as_recorded: bool,
    /// Whether nothing else differs but how times count beside costs and failures.
    pub weighs_otherwise: bool,
    /// Whether nothing else differs but that and the noise of scores.
    pub scores_otherwise: bool,
    recorded: Arc<Catalog>,
    recorded_policy: Arc<RoutingPolicy>,
    /// What is taken from requests.
    lifted: Vec<Restriction>,
}

impl Setup {
    /// The setup in which the decisions were made.
    pub(super) fn recorded(catalog: &Arc<Catalog>, policy: &Arc<RoutingPolicy>) -> Setup {
        let side = Side { catalog: Arc::clone(catalog), policy: Arc::clone(policy), objective: None };
        Setup { is_recorded: true, ..Setup::new(&side, catalog, policy) }
    }

    /// That one, for requests without these restrictions and for records that were changed.
    pub(in crate::explain) fn without(
        lifted: &[Restriction],
        catalog: &Arc<Catalog>,
        policy: &Arc<RoutingPolicy>,
    ) -> Setup {
        let side = Side { catalog: without_lists(catalog, lifted), policy: Arc::clone(policy), objective: None };
        Setup { lifted: lifted.to_vec(), weighs_otherwise: false, ..Setup::new(&side, catalog, policy) }
    }

    /// Another one.
    pub(super) fn new(side: &Side, recorded: &Arc<Catalog>, recorded_policy: &Arc<RoutingPolicy>) -> Setup {
        let catalog = &side.catalog;
        let by_id = positions_in(catalog);
        let positions: Vec<Option<u32>> =
            recorded.endpoints.iter().map(|endpoint| by_id.get(&endpoint.id).copied()).collect();
        let before: HashMap<EndpointId, &Endpoint> =
            recorded.endpoints.iter().map(|endpoint| (endpoint.id, endpoint)).collect();
        // An endpoint without prices is ranked at the highest of others.
        let is_same = |endpoint: &Endpoint, before: &Endpoint| {
            endpoint.pricing == before.pricing && (endpoint.pricing.is_some() || Arc::ptr_eq(catalog, recorded))
        };
        let same_prices = catalog.endpoints.iter();
        let same_prices =
            same_prices.map(|now| before.get(&now.id).is_some_and(|before| is_same(now, before))).collect();
        let has_score = |now: &Endpoint, task: Task| {
            before.get(&now.id).is_some_and(|before| belief(recorded, before, task) == belief(catalog, now, task))
        };
        let same_scores =
            catalog.endpoints.iter().map(|endpoint| Task::ALL.map(|task| has_score(endpoint, task))).collect();
        let was_there = catalog.endpoints.iter().map(|endpoint| before.contains_key(&endpoint.id)).collect();
        let stats = catalog.endpoints.iter().map(|endpoint| EndpointStats::new(catalog, endpoint, NOTHING)).collect();
        let snapshot = Snapshot {
            version: 0,
            catalog: Arc::clone(catalog),
            policy: Arc::clone(&side.policy),
            at: Tick(0),
            endpoints: stats,
            lengths: OutputLengths::new(catalog),
            prompts: PromptScales::new(catalog),
            quality: Arc::new(QualityTable::of_catalog(catalog, &Evidence::default())),
        };
        Setup {
            snapshot,
            objective: side.objective,
            positions,
            by_id,
            was_there,
            same_prices,
            same_scores,
            is_recorded: false,
            decides_as_recorded: decide_alike(&side.policy, recorded_policy),
            weighs_otherwise: decide_alike(&side.policy, &with_weights_of(recorded_policy, &side.policy)),
            scores_otherwise: decide_alike(&side.policy, &with_scores_of(recorded_policy, &side.policy)),
            recorded: Arc::clone(recorded),
            recorded_policy: Arc::clone(recorded_policy),
            lifted: Vec::new(),
        }
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }

    /// Position here of an endpoint of the recorded catalog.
    pub(super) fn position(&self, recorded: u32) -> Option<u32> {
        self.positions.get(recorded as usize).copied().flatten()
    }

    /// Position here of an endpoint.
    pub(in crate::explain) fn find(&self, endpoint: EndpointId) -> Option<u32> {
        self.by_id.get(&endpoint).copied()
    }

    /// Whether an endpoint here was in the recorded catalog.
    pub(super) fn was_there(&self, index: u32) -> bool {
        self.was_there.get(index as usize).copied().unwrap_or_default()
    }

    /// Whether the endpoint has the prices that it had.
    pub(super) fn has_recorded_prices(&self, index: u32) -> bool {
        self.same_prices.get(index as usize).copied().unwrap_or_default()
    }

    /// Whether an endpoint has prices here, and other ones than it had.
    pub(super) fn reprices(&self, endpoint: EndpointId) -> bool {
        let found = self.find(endpoint).filter(|index| !self.has_recorded_prices(*index));
        let found = found.and_then(|index| self.catalog().endpoint(index));
        found.is_some_and(|endpoint| endpoint.pricing.is_some())
    }

    /// Longest answer of an endpoint in the recorded catalog.
    pub(super) fn recorded_longest(&self, recorded: u32) -> u32 {
        self.recorded.endpoint(recorded).map_or(u32::MAX, |endpoint| endpoint.limits.longest_answer())
    }

    /// Quality of an endpoint here, and whether ratings count in it as they did in the record: where its score and the class of
    /// the request are the same, it is the recorded one; else scores alone tell it.
    pub(super) fn quality(
        &self,
        decision: &Decision,
        query: &Query,
        index: u32,
        recorded: RecordedQuality,
    ) -> (Option<Quality>, bool) {
        let Some(task) = query.task_class.map(|class| class.task) else { return (None, true) };
        let now = self.snapshot.quality.get(index, task);
        let RecordedQuality::Recorded(quality) = recorded else { return (now, false) };
        if self.is_recorded || self.has_recorded_score(decision, query, index) {
            return (quality, true);
        }
        let is_same_task = decision.task_class.is_some_and(|class| class.task == task);
        (now, is_same_task && quality.is_none_or(|quality| quality.ratings <= 0.0))
    }

    /// Whether the request has the class that it had, and the endpoint the score that it had for it.
    pub(super) fn has_recorded_score(&self, decision: &Decision, query: &Query, index: u32) -> bool {
        let [now, before] = [query.task_class, decision.task_class].map(|class| class.map(|class| class.task));
        let of_class = |task: Task| self.same_scores.get(index as usize).and_then(|of| of.get(task as usize));
        now == before && now.is_none_or(|task| of_class(task) == Some(&true))
    }

    /// Whether an endpoint that passed the recorded least quality passes here: that, its score and the class are the same.
    pub(super) fn has_recorded_floor(&self, decision: &Decision, query: &Query, index: u32) -> bool {
        let floor = |of: &RoutingParameters| {
            (of.min_quality.map(|least| least.value), of.quality_unknown.map(|unknown| unknown.value))
        };
        floor(&query.routing) == floor(&decision.parameters) && self.has_recorded_score(decision, query, index)
    }

    /// Factor beyond which an endpoint counts as saturated, here and in the record.
    pub(super) fn saturations(&self) -> [f64; 2] {
        [&self.snapshot.policy, &self.recorded_policy].map(|policy| libm::log(policy.hot_inflation.max(1.0)))
    }

    /// Whether scores and order follow from the same constants.
    pub(super) fn decides_as_recorded(&self) -> bool {
        self.decides_as_recorded
    }

    /// The policy of the decisions.
    pub(super) fn recorded_policy(&self) -> &RoutingPolicy {
        &self.recorded_policy
    }

    /// The seed of the decision. One that was made without noise had none, so another is drawn from its time.
    pub(super) fn seed(&self, decision: &Decision) -> u64 {
        let is_new = self.recorded_policy.exploration <= 0.0 && self.snapshot.policy.exploration > 0.0;
        if is_new { splitmix64(decision.tick.0).max(1) } else { decision.seed }
    }

    /// The request of a decision as it reads here. `None` if a model or alias that it names is gone.
    pub(super) fn query(&self, decision: &Decision, tags: &[(String, String)]) -> Option<Query> {
        let query = decision.query();
        if self.is_recorded {
            return Some(query);
        }
        let mut read = self.read(query, decision.tick.0 ^ decision.seed, tags)?;
        self.lifted.iter().for_each(|restriction| restriction.lift(&mut read));
        Some(read)
    }

    /// A request of the recorded catalog as it reads here. One that no split has placed gets a place from `draw`.
    pub(super) fn read(&self, mut query: Query, draw: u64, tags: &[(String, String)]) -> Option<Query> {
        let taken = query.split.clone();
        let requested = taken.as_ref().map_or(&query.targets, |taken| &taken.requested);
        let targets: Vec<Target> =
            requested.iter().map(|target| self.target(*target, &query)).collect::<Option<_>>()?;
        let catalog = self.catalog();
        let alias = targets.iter().find_map(|target| match target {
            Target::Alias(index) => catalog.alias(*index),
            Target::Model(_) => None,
        });
        query.router = alias.map(|alias| alias.id.clone());
        let drawn = |_: &Alias, split: &AliasSplit| drawn(taken.as_deref(), draw, tags, split);
        let divided = divide(catalog, &targets, query.today, drawn);
        query.split = divided.as_ref().map(|divided| Arc::clone(&divided.taken));
        let (targets, settings) = divided.map_or((targets, None), |divided| (divided.targets, divided.settings));
        query.targets = targets;
        let alias = settings.as_ref().or(alias);
        query.objective = self.objective(query.objective, alias);
        with_alias_defaults(&mut query, alias);
        let balanced = self.snapshot.policy.balanced;
        query.weights = query.routing.weights.map_or(balanced, |weights| weights.value);
        query.task_class = query.task_class.map(|class| class_under(class, alias));
        translate(&mut query.needs, &self.recorded.parameters, &catalog.parameters);
        Some(query)
    }

    fn target(&self, target: Target, query: &Query) -> Option<Target> {
        let name = match target {
            Target::Model(index) => self.recorded.model(index)?.id.as_str(),
            Target::Alias(index) => self.recorded.alias(index)?.id.as_str(),
        };
        match self.catalog().resolve(name, query.today) {
            Resolved::Found(target) => Some(target),
            // A filter excludes its endpoints.
            Resolved::Retired(_) => {
                let position = self.catalog().models.iter().position(|model| model.id.as_str() == name)?;
                Some(Target::Model(position as u32))
            }
            Resolved::Unknown => None,
        }
    }

    /// What requests, then aliases, then keys, then the configuration say. The settings of keys are those of the record.
    fn objective(&self, recorded: Sourced<Objective>, alias: Option<&Alias>) -> Sourced<Objective> {
        let default = || {
            let value = if recorded.source == Source::Default { recorded.value } else { Objective::default() };
            Sourced { value: self.objective.unwrap_or(value), source: Source::Default }
        };
        match (recorded.source, alias.and_then(|alias| alias.objective)) {
            (Source::Alias | Source::Key | Source::Default, Some(value)) => Sourced { value, source: Source::Alias },
            (Source::Alias | Source::Default, None) => default(),
            _ => recorded,
        }
    }
}

/// What the score of an endpoint says.
fn belief(catalog: &Catalog, endpoint: &Endpoint, task: Task) -> Option<Posterior> {
    catalog.quality_score(endpoint, task).map(Posterior::of_score)
}

fn positions_in(catalog: &Catalog) -> HashMap<EndpointId, u32> {
    (0_u32..).zip(&catalog.endpoints).map(|(index, endpoint)| (endpoint.id, index)).collect()
}

/// The place of the request, and what it meets here. One that no split has placed gets a place from `draw`, and where tags were
/// left out of the record, a rule counts as it did.
fn drawn(taken: Option<&TakenSplit>, draw: u64, tags: &[(String, String)], split: &AliasSplit) -> Drawn {
    let rule_as_recorded = || {
        let SplitPart::Rule(at) = taken?.part else { return None };
        let recorded = taken?.split.rules.get(at as usize)?;
        let position = split.rules.iter().position(|rule| rule.tags == recorded.tags)?;
        u32::try_from(position).ok()
    };
    Drawn {
        sticky: taken.map_or(StickyBy::Request, |taken| taken.sticky),
        place: taken.map_or_else(|| (splitmix64(draw) >> 48) as u16, |taken| taken.place),
        rule: matching_rule(split, tags).or_else(rule_as_recorded),
        canary_stopped: taken.is_some_and(|taken| taken.canary_stopped && taken.split.canary == split.canary),
    }
}

/// A policy with the weights of another.
fn with_weights_of(policy: &RoutingPolicy, other: &RoutingPolicy) -> RoutingPolicy {
    RoutingPolicy {
        balanced: other.balanced,
        cheapest_time_value: other.cheapest_time_value,
        reliable_time_share: other.reliable_time_share,
        per_accepted: other.per_accepted,
        ..policy.clone()
    }
}

/// A policy with the weights, the noise and the worth of failures and slow answers of another.
fn with_scores_of(policy: &RoutingPolicy, other: &RoutingPolicy) -> RoutingPolicy {
    RoutingPolicy {
        exploration: other.exploration,
        staleness: other.staleness,
        failure_time: other.failure_time,
        reliable_slow: other.reliable_slow,
        ..with_weights_of(policy, other)
    }
}

/// Takes from the alias what the request does not say itself.
fn with_alias_defaults(query: &mut Query, alias: Option<&Alias>) {
    fn merged<T: Copy + PartialEq>(given: Option<Sourced<T>>, alias: Option<T>) -> Option<Sourced<T>> {
        let own = given.filter(|given| given.source < Source::Alias);
        let of_key = given.filter(|given| given.source > Source::Alias);
        own.or(alias.map(|value| Sourced { value, source: Source::Alias })).or(of_key)
    }
    let routing = &query.routing;
    let weights = merged(routing.weights, alias.and_then(|alias| alias.weights));
    let latency = merged(routing.preferred_max_latency, alias.and_then(|alias| alias.preferred_max_latency));
    let throughput = merged(routing.preferred_min_throughput, alias.and_then(|alias| alias.preferred_min_throughput));
    let min_quality = merged(routing.min_quality, alias.and_then(|alias| alias.min_quality));
    let quality_unknown = merged(routing.quality_unknown, alias.and_then(|alias| alias.quality_unknown));
    let is_same = (weights, latency, throughput, min_quality, quality_unknown)
        == (
            routing.weights,
            routing.preferred_max_latency,
            routing.preferred_min_throughput,
            routing.min_quality,
            routing.quality_unknown,
        );
    if !is_same {
        let routing: &mut RoutingParameters = query.routing_mut();
        (routing.weights, routing.preferred_max_latency) = (weights, latency);
        routing.preferred_min_throughput = throughput;
        (routing.min_quality, routing.quality_unknown) = (min_quality, quality_unknown);
    }
}

/// The class of a task, unless the client, the key or an earlier turn named it.
fn class_under(class: TaskClass, alias: Option<&Alias>) -> TaskClass {
    match (class.source, alias.and_then(|alias| alias.task)) {
        (TaskClassSource::Alias | TaskClassSource::Features | TaskClassSource::Default, Some(task)) => {
            TaskClass { task, source: TaskClassSource::Alias, ..class }
        }
        (TaskClassSource::Alias, None) => TaskClass::of_features(class.features),
        _ => class,
    }
}

/// Needed parameters by their names, because each catalog numbers them in its own way.
fn translate(needs: &mut Needs, from: &ParameterNames, to: &ParameterNames) {
    if from != to {
        needs.parameters = translated(needs.parameters, from, to);
        needs.any_parameter = translated(needs.any_parameter, from, to);
    }
}

/// Estimates of an endpoint of which the record tells nothing.
const NOTHING: Estimates = Estimates {
    fit: Fit { intercept: 0.0, prompt_slope: 0.0, load_exponent: 1.0, knee: 1.0, variance: 0.0, knee_is_sure: false },
    weight: 0.0,
    age: f64::INFINITY,
    per_token: 0.0,
    pace_weight: 0.0,
    shown: 1.0,
    per_token_variance: 0.0,
    tail: 0.0,
    first_tail: 0.0,
    failures: 0.0,
    successes: 0.0,
    usual_failure: 0.0,
};
