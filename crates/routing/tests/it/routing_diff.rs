//! Recorded decisions, made again under another configuration.

use std::{cell::Cell, sync::Arc};

use pointsman_domain::{
    Decision, Exploration, Generation, GenerationId, GenerationStatus, Objective, QualityFloor, Query, ReasoningFormat,
    RouteError, RoutingPolicy, Source, Sourced, TaskClass, UnknownQuality, Usage, Usd, Weights, WhatIf,
};
use pointsman_routing::{
    decide::{decide_to_serve, decide_with_terms, without_candidates},
    explain::{
        ResolvedWhatIf,
        diff::{
            Answerable, Asked as Read, Calibration, Comparison, Grade, LoadAdjusted, LoadSample, Metric, Redecided,
            SelfTest, Shadow, Side, Tally, Watched,
        },
    },
};
use proptest::{prelude::*, sample::select, test_runner::TestRunner};

use crate::{
    routing_properties::{asked, endpoints},
    routing_world::{NOW, World, alias, attempts::attempts, code},
};

/// The record of a decision in this world.
pub(crate) fn recorded(world: &World, decided: Result<Decision, RouteError>, course: &str) -> Generation {
    let decision = decided.unwrap_or_else(|error| without_candidates(&error, &world.snapshot, NOW));
    let attempts = if decision.candidates.is_empty() { Vec::new() } else { attempts(world, &decision, course) };
    let (policy, catalog) = (Arc::clone(&world.snapshot.policy), Arc::clone(&world.snapshot.catalog));
    let id = GenerationId::new(1, [decision.seed, 2, 3]);
    Generation {
        owner: 1,
        key: 1,
        request_id: "request".into(),
        status: GenerationStatus::Completed,
        requested_model: "service/auto".into(),
        attempts,
        usage: Usage { prompt_tokens: 1000, completion_tokens: 100, ..Usage::default() },
        cost: None,
        ..Generation::admitted(id, 1, Arc::new(decision), policy, catalog)
    }
}

fn side(world: &World) -> Side {
    let (catalog, policy) = (Arc::clone(&world.snapshot.catalog), Arc::clone(&world.snapshot.policy));
    Side { catalog, policy, objective: None }
}

pub(crate) fn between(before: &World, after: &World) -> Comparison {
    Comparison::new(&before.snapshot.catalog, &before.snapshot.policy, None, &side(after))
}

/// What a decision in this world reads, and its terms.
fn read(world: &World, query: Query, seed: Option<u64>) -> Read {
    let (snapshot, live) = (Arc::new(world.snapshot.clone()), world.live.clone());
    let terms = decide_with_terms(&snapshot, &live, &query, NOW, seed).ok().and_then(|(_, terms)| terms);
    Read { query: Box::new(query), snapshot, live, now: NOW, seed, terms }
}

fn shadow_of(own: &Side, serving: &Side) -> Shadow {
    let watched = Watched { share: 1.0, alias: None, objective: None, until_ms: None };
    Shadow::new("other".into(), watched, own, serving)
}

#[test]
fn the_terms_of_a_decision_are_told_unless_more_than_scores_depends_on_the_policy() {
    let terms = |line: &str, change: &dyn Fn(&mut Query)| {
        let world = World::of(line);
        let mut query = world.query(Objective::Balanced, "");
        change(&mut query);
        read(&world, query, Some(7)).terms.is_some()
    };
    assert!(terms("a/1 300ms | b/2 400ms", &|_| ()));
    assert!(!terms("a/1 300ms | b/2 400ms half9", &|_| ()), "whether it is probed depends on scores");
    let free = Exploration { share: 0.5, max_extra_cost: 0.0, max_extra_first_token: 1.0 };
    assert!(!terms("a/1 300ms | b/2 400ms", &|query| query.exploration = free), "what costs no more depends on scores");
    let quality = Weights { quality: 1.0, ..Weights::default() };
    assert!(
        !terms("a/1 300ms | b/2 400ms", &|query| query.weights = quality),
        "quality ranks models of a conversation"
    );
}

#[test]
fn a_shadow_watches_requests_until_its_end() {
    let world = World::of("a/1 300ms");
    let watched = Watched { share: 1.0, alias: None, objective: None, until_ms: Some(1_000) };
    let shadow = Shadow::new("over".into(), watched, &side(&world), &side(&world));
    let query = world.query(Objective::Balanced, "");
    assert_eq!([999, 1_000].map(|unix_ms| shadow.watches(&query, Some(7), unix_ms)), [true, false]);
}

fn redecided(before: &World, after: &World, generation: &Generation) -> Redecided {
    between(before, after).decide(generation, &Calibration::default()).expect("it comes out as it was made")
}

/// What another configuration changes.
#[derive(Debug, Clone)]
enum Changed {
    Nothing,
    Weights(f64),
    FailureTime(u64),
    TimeValue(f64),
    Exploration(f64),
    Slow(u64),
    Attempts(u32),
    Inflation(f64),
    Off(&'static str),
    Price(&'static str, f64),
    Blocked(&'static str),
    Quality(f64),
    PerAccepted,
    LeastQuality(f64),
    Removed(&'static str),
    /// A provider that is no longer in the file.
    Gone(&'static str),
}

fn changed() -> impl Strategy<Value = Changed> {
    let provider = || select(vec!["w", "x", "y", "z"]);
    prop_oneof![
        Just(Changed::Nothing),
        (0.01_f64..0.99).prop_map(Changed::Weights),
        (1_u64..20).prop_map(Changed::FailureTime),
        (0.0_f64..2.0).prop_map(Changed::TimeValue),
        (0.1_f64..2.0).prop_map(Changed::Exploration),
        (1_u64..20).prop_map(Changed::Slow),
        (1_u32..5).prop_map(Changed::Attempts),
        (1.0_f64..4.0).prop_map(Changed::Inflation),
        provider().prop_map(Changed::Off),
        (provider(), select(vec![0.1, 0.5, 2.0, 10.0])).prop_map(|(provider, factor)| Changed::Price(provider, factor)),
        select(vec!["a/*", "b/3"]).prop_map(Changed::Blocked),
        (0.0_f64..4.0).prop_map(Changed::Quality),
        Just(Changed::PerAccepted),
        (0.0_f64..1.0).prop_map(Changed::LeastQuality),
        select(vec!["c/4", "a/2"]).prop_map(Changed::Removed),
        provider().prop_map(Changed::Gone),
    ]
}

impl Changed {
    /// The same endpoints, statistics and live state under the changed configuration.
    fn world(&self, lines: &[String]) -> Option<World> {
        let default = RoutingPolicy::default();
        let policy = match *self {
            Changed::Weights(latency) => {
                RoutingPolicy { balanced: Weights { latency, cost: 1.0 - latency, quality: 0.0 }, ..default }
            }
            Changed::Quality(quality) => {
                RoutingPolicy { balanced: Weights { quality, ..Weights::default() }, ..default }
            }
            Changed::FailureTime(seconds) => {
                RoutingPolicy { failure_time: std::time::Duration::from_secs(seconds), ..default }
            }
            Changed::PerAccepted => RoutingPolicy { per_accepted: true, ..default },
            Changed::TimeValue(value) => RoutingPolicy { cheapest_time_value: value, ..default },
            Changed::Exploration(exploration) => RoutingPolicy { exploration, ..default },
            Changed::Slow(seconds) => {
                RoutingPolicy { reliable_slow: std::time::Duration::from_secs(seconds), ..default }
            }
            Changed::Attempts(max_attempts) => {
                RoutingPolicy { retry: pointsman_domain::RetryPolicy { max_attempts, ..default.retry }, ..default }
            }
            Changed::Inflation(hot_inflation) => RoutingPolicy { hot_inflation, ..default },
            _ => default,
        };
        let of = |line: &String, provider: &str| line.contains(&format!("@{provider} "));
        let line = |line: &String| match *self {
            Changed::Off(provider) if of(line, provider) => format!("{line} off"),
            Changed::Price(provider, factor) if of(line, provider) => repriced(line, factor),
            _ => line.clone(),
        };
        let kept = |line: &&String| match *self {
            Changed::Removed(model) => !line.starts_with(model),
            Changed::Gone(provider) => !of(line, provider),
            _ => true,
        };
        let lines: Vec<String> = lines.iter().filter(kept).map(line).collect();
        let mut auto = alias("service/auto");
        if let Changed::Blocked(pattern) = *self {
            auto.blocked = vec![pattern.parse().unwrap()];
        }
        if let Changed::LeastQuality(least) = *self {
            auto.min_quality = Some(QualityFloor::Mean(least));
        }
        let aliases = vec![auto, pointsman_domain::Alias { free_only: true, ..alias("service/free") }];
        (!lines.is_empty()).then(|| World::aliased(&lines.join(" | "), policy, aliases))
    }

    /// The query as the changed configuration reads it.
    fn query(&self, mut query: Query) -> Query {
        match *self {
            Changed::Weights(latency) if query.routing.weights.is_none() => {
                Query { weights: Weights { latency, cost: 1.0 - latency, quality: 0.0 }, ..query }
            }
            Changed::Quality(quality) if query.routing.weights.is_none() => {
                Query { weights: Weights { quality, ..Weights::default() }, ..query }
            }
            Changed::LeastQuality(least) if query.router.as_deref() == Some("service/auto") => {
                let of_alias = Sourced { value: QualityFloor::Mean(least), source: Source::Alias };
                query.routing_mut().min_quality.get_or_insert(of_alias);
                query
            }
            _ => query,
        }
    }
}

fn repriced(line: &str, factor: f64) -> String {
    let word = |word: &str| match word.strip_prefix('$').and_then(|prices| prices.split_once('/')) {
        Some((prompt, completion)) => {
            let [prompt, completion] = [prompt, completion].map(|price| price.parse::<f64>().unwrap() * factor);
            format!("${prompt}/{completion}")
        }
        None => word.to_owned(),
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Up to twenty endpoints of one model at as many providers, so that not all are recorded.
fn many() -> impl Strategy<Value = Vec<String>> {
    let one = (20_u32..4000, 10_u32..400, 1_u32..50, 0_u32..6);
    prop::collection::vec(one, 18..24).prop_map(|endpoints| {
        let line = |(place, (ms, tps, price, bad)): (usize, &(u32, u32, u32, u32))| {
            let (provider, dollars) = (["w", "x", "y", "z"][place % 4], f64::from(*price) / 10.0);
            let gate = if ms % 16 == 0 { "half9" } else { "" };
            format!("a/1@{provider} variant:v{place} {ms}ms {tps}tps bad{bad} ok30 ${dollars}/{} {gate}", 2.0 * dollars)
        };
        endpoints.iter().enumerate().map(line).collect()
    })
}

fn choice(decided: &Result<Decision, RouteError>) -> Option<pointsman_domain::EndpointId> {
    decided.as_ref().ok().and_then(|decision| Some(decision.candidates.first()?.endpoint))
}

/// The recorded decision, and what a gateway with the changed configuration would have decided on the same inputs and seed.
fn both(
    lines: &[String],
    changed: &Changed,
    query: Query,
    seed: Option<u64>,
) -> Option<(World, World, Generation, Result<Decision, RouteError>)> {
    let (before, after) = (Changed::Nothing.world(lines)?, changed.world(lines)?);
    let record = recorded(&before, decide_to_serve(&before.snapshot, &before.live, &query, NOW, seed), "ok");
    let name = |target: &pointsman_domain::Target| match *target {
        pointsman_domain::Target::Model(index) => before.catalog().model(index).unwrap().id.to_string(),
        pointsman_domain::Target::Alias(index) => before.catalog().alias(index).unwrap().id.clone(),
    };
    let known = |name: &String| match after.catalog().resolve(name, query.today) {
        pointsman_domain::Resolved::Found(target) => Some(target),
        _ => None,
    };
    let targets = query.targets.iter().map(|target| known(&name(target))).collect::<Option<Vec<_>>>();
    let targets = targets?;
    let query = changed.query(Query { targets, ..query });
    let run = decide_to_serve(&after.snapshot, &after.live, &query, NOW, seed);
    Some((before, after, record, run))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_configuration_of_the_decision_gives_every_score_bit_for_bit_and_changes_nothing(
        endpoints in endpoints(), asked in asked(),
    ) {
        let world = World::of(&endpoints.join(" | "));
        let Some(query) = asked.query(&world) else { return Ok(()) };
        let record = recorded(&world, decide_to_serve(&world.snapshot, &world.live, &query, NOW, asked.seed), "ok");
        let comparison = between(&world, &world);
        prop_assert_eq!(comparison.self_test(&record.decision), SelfTest::Identical);
        let made = comparison.decide(&record, &Calibration::default()).unwrap();
        prop_assert_eq!(made.grade, Grade::Exact);
        prop_assert_eq!((made.from, made.before), (made.to, made.after));
        prop_assert!(comparison.changes().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn an_exact_answer_is_what_a_gateway_with_that_configuration_decides(
        endpoints in endpoints(), asked in asked(), changed in changed(),
    ) {
        let Some(query) = World::of(&endpoints.join(" | ")).pipe(|world| asked.query(&world)) else { return Ok(()) };
        let Some((before, after, record, run)) = both(&endpoints, &changed, query, asked.seed) else { return Ok(()) };
        let made = redecided(&before, &after, &record);
        prop_assert_eq!(made.from, record.decision.candidates.first().map(|first| first.endpoint));
        if made.grade == Grade::Exact {
            prop_assert_eq!(made.to, choice(&run), "{:?}", changed);
        }
    }

    #[test]
    fn a_shadow_chooses_what_a_gateway_with_its_configuration_would_and_one_without_changes_always_agrees(
        endpoints in prop_oneof![endpoints(), many()], asked in asked(), changed in changed(), share in select(vec![0.0, 0.6]),
    ) {
        if matches!(changed, Changed::Removed(_) | Changed::Gone(_)) {
            return Ok(());
        }
        let Some(query) = World::of(&endpoints.join(" | ")).pipe(|world| asked.query(&world)) else { return Ok(()) };
        let exploration = Exploration { share, max_extra_cost: share, max_extra_first_token: 1.0 };
        let query = Query { exploration, ..query };
        let Some((before, after, record, run)) = both(&endpoints, &changed, query.clone(), asked.seed) else { return Ok(()) };
        let read = read(&before, query, asked.seed);
        let serves = record.decision.plan().next().map(|first| first.index);
        let chosen = |shadow: &World| shadow_of(&side(shadow), &side(&before)).decide(&read, &[], serves);
        let first = run.as_ref().ok().and_then(|decision| decision.plan().next());
        let made = chosen(&after);
        prop_assert_eq!(made.choice, first.map(|first| first.index), "{:?}", changed);
        let figures = first.map_or([0.0; 3], |first| {
            [first.predicted.cost, first.predicted.first_token_p50, first.predicted.failure]
        });
        prop_assert_eq!([made.cost, made.first_token, made.failure], figures.map(|figure| figure as f32));
        let mut scored = run.iter().flat_map(|decision| decision.candidates.iter().chain(&decision.rivals));
        let served = first.zip(scored.find(|one| Some(one.index) == serves));
        if let Some((first, served)) = served {
            prop_assert_eq!(made.gap, Some((served.score - first.score) as f32));
        }
        let whole = Read { terms: None, ..read.clone() };
        prop_assert_eq!(&shadow_of(&side(&after), &side(&before)).decide(&whole, &[], serves), &made);
        let same = chosen(&before);
        prop_assert_eq!((same.choice, same.gap), (serves, serves.map(|_| 0.0)));
        // It only reads.
        if let Ok(again) = decide_to_serve(&read.snapshot, &read.live, &read.query, NOW, asked.seed) {
            prop_assert_eq!(&again, &*record.decision);
        }
    }

    #[test]
    fn a_shadow_of_another_objective_chooses_what_a_gateway_with_it_would(
        endpoints in prop_oneof![endpoints(), many()], asked in asked(), objective in select(Objective::ALL.to_vec()),
        share in select(vec![0.0, 0.6]),
    ) {
        let world = World::of(&endpoints.join(" | "));
        let Some(query) = asked.query(&world) else { return Ok(()) };
        let exploration = Exploration { share, max_extra_cost: 1.0, max_extra_first_token: 1.0 };
        let of = |value| Sourced { value, source: Source::Default };
        let query = Query { exploration, objective: of(query.objective.value), ..query };
        let [serving, other] = [query.objective.value, objective].map(|one| Side { objective: Some(one), ..side(&world) });
        let read = read(&world, query.clone(), asked.seed);
        let made = shadow_of(&other, &serving).decide(&read, &[], None);
        let query = Query { objective: of(objective), ..query };
        let run = decide_to_serve(&world.snapshot, &world.live, &query, NOW, asked.seed);
        let first = run.as_ref().ok().and_then(|decision| decision.plan().next());
        prop_assert_eq!(made.choice, first.map(|first| first.index));
        prop_assert_eq!(made.cost, first.map_or(0.0, |first| first.predicted.cost) as f32);
    }

    #[test]
    fn without_a_provider_nothing_goes_there_and_who_did_not_depend_on_it_stays(
        endpoints in endpoints(), asked in asked(), gone in select(vec!["w", "x", "y", "z"]), is_off in any::<bool>(),
    ) {
        let Some(query) = World::of(&endpoints.join(" | ")).pipe(|world| asked.query(&world)) else { return Ok(()) };
        let changed = if is_off { Changed::Off(gone) } else { Changed::Gone(gone) };
        let Some((before, after, record, run)) = both(&endpoints, &changed, query, asked.seed) else { return Ok(()) };
        let made = redecided(&before, &after, &record);
        let at = |id| before.catalog().endpoints.iter().find(|endpoint| endpoint.id == id)
            .and_then(|endpoint| before.catalog().provider_of(endpoint)).unwrap().slug.as_str() == gone;
        prop_assert!(!made.to.is_some_and(at));
        let decision = &record.decision;
        let is_named = |index: u32| before.catalog().endpoint(index).is_some_and(|endpoint| at(endpoint.id));
        let was_there = decision.candidates.iter().chain(&decision.rivals).any(|candidate| is_named(candidate.index))
            || decision.excluded.iter().any(|excluded| is_named(excluded.index));
        if !was_there {
            prop_assert_eq!((made.from, made.before), (made.to, made.after));
        }
        // Where it was a candidate and no attempt, only what others are measured by can move a choice.
        let is_planned = decision.plan().take(decision.max_attempts as usize).any(|candidate| is_named(candidate.index));
        if !is_planned && run.is_ok_and(|run| (run.baselines, run.quality) == (decision.baselines, decision.quality)) {
            prop_assert_eq!((made.from, made.before), (made.to, made.after));
        }
        // Whatever changes is listed.
        let mut tally = Tally::new(1);
        tally.add(&made, 1, "it", "balanced");
        let is_changed = made.grade != Grade::None && (made.from, made.before) != (made.to, made.after);
        prop_assert_eq!(tally.moves.contains_key(&(made.from, made.to)), is_changed);
    }

    #[test]
    fn other_weights_give_the_choice_the_score_and_the_terms_of_a_preview_with_them(
        endpoints in endpoints(), asked in asked(), latency in 0.0_f64..1.0,
    ) {
        let changed = Changed::Weights(latency);
        let Some(query) = World::of(&endpoints.join(" | ")).pipe(|world| asked.query(&world)) else { return Ok(()) };
        if query.routing.weights.is_some() {
            return Ok(());
        }
        let Some((before, after, record, run)) = both(&endpoints, &changed, query.clone(), asked.seed) else { return Ok(()) };
        let made = redecided(&before, &after, &record);
        let weights = Weights { latency, cost: 1.0 - latency, quality: 0.0 };
        let what_if = WhatIf { weights: Some(weights), ..WhatIf::default() };
        let what_if = ResolvedWhatIf::new(what_if, before.catalog()).unwrap();
        let preview = what_if.world(&before.snapshot, &before.live, &query, NOW).decide(NOW, asked.seed);
        if made.grade != Grade::Exact {
            return Ok(());
        }
        prop_assert_eq!(made.to, choice(&preview));
        let (Ok(preview), Ok(run)) = (preview, run) else { return Ok(()) };
        let [(shown, of_preview), (_, of_run)] = [&preview, &run].map(|decision| {
            let first = &decision.candidates[0];
            (first.score.to_bits(), format!("{:?}", first.terms))
        });
        prop_assert_eq!((made.scores[1].to_bits(), of_run), (shown, of_preview));
    }

    #[test]
    fn prices_times_a_factor_move_nothing_where_no_price_counts(
        endpoints in endpoints(), asked in asked(), factor in select(vec![1.0, 0.5, 4.0]),
    ) {
        let lines: Vec<String> = endpoints.iter().map(|line| repriced(line, factor)).collect();
        let (before, after) = (World::of(&endpoints.join(" | ")), World::of(&lines.join(" | ")));
        let Some(mut query) = asked.query(&before) else { return Ok(()) };
        query.routing_mut().max_cost = None;
        query.routing_mut().provider.max_price = Default::default();
        let record = recorded(&before, decide_to_serve(&before.snapshot, &before.live, &query, NOW, asked.seed), "ok");
        let made = redecided(&before, &after, &record);
        if factor == 1.0 {
            prop_assert_eq!((made.from, made.before), (made.to, made.after));
        } else if matches!(asked.objective, Objective::Fastest | Objective::Reliable) {
            prop_assert_eq!(made.from, made.to);
        }
    }
}

trait Pipe: Sized {
    fn pipe<R>(self, then: impl FnOnce(Self) -> R) -> R {
        then(self)
    }
}

impl Pipe for World {}

const TWO: &str = "acme/a 100ms 100tps $2/4 | bolt/b 300ms 100tps $1/2";

#[test]
fn the_least_quality_of_an_alias_holds_where_it_is_named_after_a_model() {
    let lines = ["b/3@w $0/0".to_owned()];
    let query =
        Query { task_class: Some(code()), ..World::of(&lines[0]).query(Objective::Cheapest, "b/3, service/auto") };
    let (before, after, record, run) = both(&lines, &Changed::LeastQuality(0.0), query, None).unwrap();
    let made = redecided(&before, &after, &record);
    assert_eq!((made.grade, made.to, choice(&run)), (Grade::Exact, None, None));
}

#[test]
fn what_passed_an_unchanged_least_quality_passes_it_again_although_the_record_does_not_tell_its_quality() {
    let grade = |line: &str, after: &str, (least, allows_unknown): (f64, bool)| {
        let (before, after) = (World::of(line), World::of(after));
        let mut query = Query { task_class: Some(code()), ..before.query(Objective::Cheapest, "") };
        let source = Source::Metadata;
        let unknown = if allows_unknown { UnknownQuality::Allow } else { UnknownQuality::Exclude };
        query.routing_mut().min_quality = Some(Sourced { value: QualityFloor::Mean(least), source });
        query.routing_mut().quality_unknown = Some(Sourced { value: unknown, source });
        let decided = decide_to_serve(&before.snapshot, &before.live, &query, NOW, None);
        redecided(&before, &after, &recorded(&before, decided, "ok")).grade
    };
    assert_eq!(grade("b/3 cool4", "b/3 cool4", (0.0, true)), Grade::Exact);
    assert_eq!(grade("b/3 q0.4 cool4", "b/3 q0.4 cool4", (0.2, false)), Grade::Exact);
    assert_eq!(grade("b/3 q0.4 cool4", "b/3 q0.3 cool4", (0.2, false)), Grade::Partial, "ratings are not recorded");
}

/// The grade of what is decided once the second endpoint is affordable, and whether the choice is what a gateway then chooses. Before,
/// only the first one is.
fn once_affordable(first: &str, second: &str, change: impl Fn(&mut Query)) -> (Grade, bool) {
    let lines = [format!("a/2@x $1.3/2.6 {first}"), format!("a/2@z $3.4/6.8 {second}")];
    let mut query = World::of(&lines.join(" | ")).query(Objective::Cheapest, "");
    let value = Usd::from_femto(4_000_000_000_000);
    query.routing_mut().max_cost = Some(Sourced { value, source: Source::Metadata });
    change(&mut query);
    let (before, after, record, run) = both(&lines, &Changed::Price("z", 0.75), query, None).unwrap();
    assert_eq!(before.name(record.decision.candidates[0].index), "a/2@x");
    let made = redecided(&before, &after, &record);
    (made.grade, made.to == choice(&run))
}

#[test]
fn a_choice_that_serves_for_want_of_a_better_one_is_not_certain_beside_an_endpoint_that_is_not_recorded() {
    let plain = |_: &mut Query| ();
    assert_eq!(once_affordable("", "", plain), (Grade::Exact, true), "it is dearer");
    let alone = |query: &mut Query| query.routing_mut().provider.allow_fallbacks = false;
    assert_eq!(once_affordable("half2", "", alone), (Grade::Partial, false), "half-open");
    assert_eq!(once_affordable("open3", "", plain), (Grade::Partial, false), "behind an open breaker");
    assert_eq!(once_affordable("k12 knee1", "", plain), (Grade::Partial, false), "saturated");
    let pending = |query: &mut Query| query.pending_reasoning = ReasoningFormat::Anthropic;
    let keeps = "state:anthropic-claude-v1";
    assert_eq!(once_affordable("", keeps, pending), (Grade::Partial, false), "it would lose the reasoning");
}

/// A request in whose scores quality counts.
fn by_quality(world: &World, task_class: Option<TaskClass>) -> Query {
    let weights = Weights { quality: 0.5, ..Weights::default() };
    let mut query = Query { task_class, weights, ..world.query(Objective::Balanced, "") };
    query.routing_mut().weights = Some(Sourced { value: weights, source: Source::Metadata });
    query
}

#[test]
fn where_quality_counted_and_none_was_known_an_endpoint_without_figures_leaves_no_doubt() {
    let world = World::of("a/1@x | a/1@y half2");
    let mut query = by_quality(&world, None);
    query.routing_mut().provider.allow_fallbacks = false;
    let made = redecided(&world, &world, &recorded(&world, world.decide(&query), "ok"));
    assert_eq!((made.grade, made.from), (Grade::Exact, made.to));
}

#[test]
fn another_score_of_an_endpoint_that_is_not_recorded_leaves_the_choice_open() {
    let world = |score: &str| {
        let line = |n| format!("a/{n}@p{n} {}ms q{}", 100 + 60 * n, if n == 19 { score } else { "0.5" });
        World::of(&(0..20).map(line).collect::<Vec<_>>().join(" | "))
    };
    let (before, after) = (world("0.5"), world("0.9"));
    let query = by_quality(&before, Some(code()));
    let decided = decide_to_serve(&before.snapshot, &before.live, &query, NOW, None);
    let record = recorded(&before, decided, "ok");
    assert!(record.decision.omitted.contains(&before.catalog().endpoints[19].id));
    assert_eq!([&before, &after].map(|other| redecided(&before, other, &record).grade), [Grade::Exact, Grade::Partial]);
}

#[test]
fn the_score_of_a_choice_past_an_open_breaker_is_its_score_and_not_the_time_at_which_it_opens() {
    let world = World::of("a/2 open3");
    let record = recorded(&world, world.decide(&world.query(Objective::Cheapest, "")), "ok");
    let score = record.decision.candidates[0].score;
    assert_eq!(redecided(&world, &world, &record).scores, [score; 2]);
}

#[test]
fn other_weights_are_answered_exactly_although_candidates_are_left_out_of_the_record() {
    let lines: Vec<String> = (0..20).map(|n| format!("a/{n}@p{n} {}ms 100tps ok30 $1.{n}/2", 100 + 60 * n)).collect();
    let world = |latency: f64| {
        let policy = RoutingPolicy {
            balanced: Weights { latency, cost: 1.0 - latency, quality: 0.0 },
            ..RoutingPolicy::default()
        };
        World::under(&lines.join(" | "), policy)
    };
    let (before, after) = (world(0.5), world(0.45));
    let query = before.query(Objective::Balanced, "");
    let mut exact = 0;
    for seed in 1..=100 {
        let decided = decide_to_serve(&before.snapshot, &before.live, &query, NOW, Some(seed));
        let record = recorded(&before, decided, "ok");
        assert!(!record.decision.omitted.is_empty());
        exact += u32::from(redecided(&before, &after, &record).grade == Grade::Exact);
    }
    assert!(exact > 80, "{exact} of 100");
}

/// What measured costs of twice the predicted ones make of predictions: of the endpoints that this record called, nearly twice.
fn twice_as_dear(record: &Generation) -> Calibration {
    let mut record = record.clone();
    let predicted = record.decision.plan().next().map_or(0.0, |first| first.predicted.cost);
    for attempt in &mut record.attempts {
        attempt.cost = Some(Usd::from_femto((2e15 * predicted) as i128));
    }
    let mut calibration = Calibration::default();
    calibration.add(&record);
    for _ in 0..12 {
        calibration.merge(&calibration.clone());
    }
    calibration
}

#[test]
fn where_an_unrecorded_endpoint_could_win_the_measured_cost_of_its_plan_lies_within_the_stated_range() {
    let (exact, partial) = (Cell::new(0), Cell::new(0));
    let cases = (many(), select(Objective::ALL.to_vec()), changed(), prop::option::of(1_u64..1000));
    let check = |(endpoints, objective, changed, seed): (Vec<String>, Objective, Changed, Option<u64>)| {
        let query = World::of(&endpoints.join(" | ")).query(objective, "");
        let Some((before, after, record, run)) = both(&endpoints, &changed, query, seed) else { return Ok(()) };
        prop_assert!(!record.decision.omitted.is_empty());
        let (chosen, of_world) = (choice(&run), recorded(&after, run, "ok"));
        let calibration = twice_as_dear(&of_world);
        let made = between(&before, &after).decide(&record, &calibration).unwrap();
        if made.grade == Grade::Exact {
            exact.set(exact.get() + 1);
            prop_assert_eq!(made.to, chosen, "{:?}", changed);
            return Ok(());
        }
        partial.set(partial.get() + u32::from(made.grade == Grade::Partial));
        if chosen.is_none() {
            return Ok(());
        }
        let cost = between(&after, &after).decide(&of_world, &calibration).unwrap().before.cost;
        let [_, Some([least, most])] = made.cost_ranges else { panic!("{made:?}") };
        prop_assert!((least..=most).contains(&cost), "{:?}: {} not in {:?}", changed, cost, made.cost_ranges);
        // The same where it is the configuration before.
        let (own, other) = (side(&before), side(&after));
        let against = Comparison::new(&own.catalog, &own.policy, Some(&other), &own);
        let made = against.decide(&record, &calibration).unwrap();
        let [Some([least, most]), None] = made.cost_ranges else { panic!("{made:?}") };
        prop_assert!((least..=most).contains(&cost), "{:?}: {} not in {:?}", changed, cost, made.cost_ranges);
        Ok(())
    };
    TestRunner::new(ProptestConfig::with_cases(4_000)).run(&cases, check).unwrap();
    assert!(exact.get() > 500 && partial.get() > 500, "{exact:?} {partial:?}");
}

#[test]
fn uncertain_choices_before_and_after_bound_what_is_known_of_spending() {
    let (before, after) = (World::of(TWO), World::of(&TWO.replace("$2/4", "$0.2/0.4")));
    let query = before.query(Objective::Balanced, "");
    let made = redecided(&before, &after, &recorded(&before, before.decide(&query), "ok"));
    let [was, is] = [made.before.cost, made.after.cost];
    let bounds = |cost_ranges| {
        let mut tally = Tally::new(0);
        tally.add(&Redecided { cost_ranges, ..made.clone() }, 1, "", "balanced");
        tally.spend_bounds()
    };
    let change = |was: i64, is: i64| is as f64 / was as f64 - 1.0;
    let is_near = |bounds: Option<[f64; 2]>, expected: [f64; 2]| {
        let bounds = bounds.unwrap();
        assert!(bounds.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9), "{bounds:?} {expected:?}");
    };
    assert_eq!(bounds([None, None]), None);
    is_near(bounds([None, Some([is / 2, 3 * is])]), [change(was, is / 2), change(was, 3 * is)]);
    is_near(bounds([Some([was / 2, 3 * was]), None]), [change(3 * was, is), change(was / 2, is)]);
    is_near(
        bounds([Some([was / 2, 3 * was]), Some([is / 2, 3 * is])]),
        [change(3 * was, is / 2), change(was / 2, 3 * is)],
    );
}

/// A tally of decisions with many seeds, before and after.
fn tally(before: &World, after: &World, decisions: u64) -> (Comparison, Tally) {
    let comparison = between(before, after);
    let mut tally = Tally::new(5);
    for seed in 1..=decisions {
        let objective = Objective::ALL[seed as usize % 4];
        let query = before.query(objective, "");
        let decided = decide_to_serve(&before.snapshot, &before.live, &query, NOW, Some(seed));
        let record = recorded(before, decided, "ok");
        let made = comparison.decide(&record, &Calibration::default()).unwrap();
        tally.add(&made, seed / 4, record.id.as_str(), objective.as_str());
    }
    (comparison, tally)
}

#[test]
fn unchanged_decisions_count_nothing_and_the_moves_sum_to_the_whole() {
    let (before, same) = (World::of(TWO), World::of(TWO));
    let (_, nothing) = tally(&before, &same, 400);
    assert_eq!((nothing.moved, nothing.moves.len()), (0, 0));
    assert_eq!(nothing.cost[0], nothing.cost[1]);
    for estimate in nothing.estimates() {
        assert_eq!((estimate.delta, estimate.interval.unwrap_or_default()), (0.0, [0.0, 0.0]), "{:?}", estimate.metric);
    }
    let (_, moved) = tally(&before, &World::of(&TWO.replace("$2/4", "$0.2/0.4")), 400);
    assert!(moved.moved > 0);
    assert_eq!(moved.moves.values().map(|moved| moved.cost).sum::<i128>(), moved.cost[1] - moved.cost[0]);
    assert_eq!(moved.moves.values().map(|moved| moved.failure).sum::<i128>(), moved.failure[1] - moved.failure[0]);
    assert_eq!(moved.reasons.values().map(|moved| moved.decisions).sum::<u64>(), moved.moved);
}

#[test]
fn parts_of_the_records_add_up_to_the_same_bits_in_any_order() {
    let (before, after) = (World::of(TWO), World::of(&TWO.replace("$2/4", "$0.2/0.4")));
    let (_, whole) = tally(&before, &after, 200);
    let comparison = between(&before, &after);
    let mut parts: Vec<Tally> = (0..16).map(|_| Tally::new(5)).collect();
    for seed in (1..=200_u64).rev() {
        let objective = Objective::ALL[seed as usize % 4];
        let query = before.query(objective, "");
        let record = recorded(&before, decide_to_serve(&before.snapshot, &before.live, &query, NOW, Some(seed)), "ok");
        let made = comparison.decide(&record, &Calibration::default()).unwrap();
        parts[seed as usize % 16].add(&made, seed / 4, record.id.as_str(), objective.as_str());
    }
    let merged = parts.into_iter().rev().fold(Tally::new(5), |mut all, part| {
        all.merge(part);
        all
    });
    assert_eq!(format!("{:?}", merged.estimates()), format!("{:?}", whole.estimates()));
    assert_eq!((merged.moves, merged.reasons, merged.examples), (whole.moves, whole.reasons, whole.examples));
}

#[test]
fn fewer_than_thirty_clusters_give_no_interval() {
    let (before, after) = (World::of(TWO), World::of(&TWO.replace("$2/4", "$0.2/0.4")));
    let intervals = |decisions| tally(&before, &after, decisions).1.estimates()[0].interval;
    assert_eq!(intervals(100), None);
    let [least, most] = intervals(400).unwrap();
    let delta = tally(&before, &after, 400).1.estimates()[0].delta;
    assert!(least <= delta && delta <= most && least < most, "{least} {delta} {most}");
}

#[test]
fn a_move_is_put_down_to_the_changes_that_cause_it() {
    let check = |after: &str, latency: f64, expected: &[&str]| {
        let policy = RoutingPolicy {
            balanced: Weights { latency, cost: 1.0 - latency, quality: 0.0 },
            ..RoutingPolicy::default()
        };
        let (before, after) = (World::of(TWO), World::under(after, policy));
        let query = before.query(Objective::Balanced, "");
        let comparison = between(&before, &after);
        let record = recorded(&before, before.decide(&query), "ok");
        let made = comparison.decide(&record, &Calibration::default()).unwrap();
        let changes = comparison.changes().iter().enumerate();
        let named: Vec<&str> =
            changes.filter(|(bit, _)| made.reason >> bit & 1 == 1).map(|(_, change)| change.key.as_str()).collect();
        assert_eq!(named, expected, "{:?}", comparison.changes());
    };
    check(TWO, 0.5, &[]);
    check(TWO, 0.99, &["routing.balanced"]);
    check(&TWO.replace("$2/4", "$0.2/0.4"), 0.5, &["prices of acme"]);
    check(&TWO.replace("$2/4", "$2.1/4.2"), 0.99, &["routing.balanced"]);
    check("acme/a 100ms 100tps $2/4 | bolt/b 300ms 100tps $1/2 off", 0.5, &["providers.bolt"]);
}

#[test]
fn keys_of_breakers_and_statistics_are_named_as_open_loop() {
    let default = RoutingPolicy::default();
    let policy = RoutingPolicy {
        breaker: pointsman_domain::BreakerPolicy { consecutive: 9, ..default.breaker },
        stats: pointsman_domain::StatsPolicy { max_weight: 7.0, ..default.stats },
        hedge: pointsman_domain::HedgePolicy { budget: 0.5, ..default.hedge.clone() },
        ..default
    };
    let comparison = between(&World::of(TWO), &World::under(TWO, policy));
    let of = |answerable| {
        let changes = comparison.changes().iter().filter(|change| change.answerable == answerable);
        changes.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        of(Answerable::OpenLoop),
        ["routing.expert.max_weight 100.0 → 7.0", "routing.breaker.consecutive 3 → 9"]
    );
    assert_eq!(of(Answerable::AfterChoice), ["routing.hedge.budget 0.02 → 0.5"]);
    assert_eq!(of(Answerable::Yes), [""; 0]);
}

#[test]
fn cascades_and_spend_paces_are_named_as_what_no_decision_made_again_shows() {
    let cascade = pointsman_domain::Cascade {
        to: "bolt/b".to_owned(),
        on: pointsman_domain::CascadeSignal::SAFE.to_vec(),
        budget: None,
    };
    let changes = |change: &dyn Fn(&mut pointsman_domain::Alias)| {
        let mut auto = alias("service/auto");
        change(&mut auto);
        let after = World::aliased(TWO, RoutingPolicy::default(), vec![auto]);
        let before = World::aliased(TWO, RoutingPolicy::default(), vec![alias("service/auto")]);
        let changes = between(&before, &after);
        changes.changes().iter().map(|it| (it.to_string(), it.answerable)).collect::<Vec<_>>()
    };
    let after_choice = |key: &str| vec![(format!("alias service/auto.{key}"), Answerable::AfterChoice)];
    assert_eq!(changes(&|auto| auto.cascade = Some(Arc::new(cascade.clone()))), after_choice("cascade"));
    assert_eq!(changes(&|auto| auto.spend_pace = "2.5".parse().ok()), after_choice("spend_pace"));
}

#[test]
fn a_half_open_endpoint_that_was_paced_too_is_no_probe_when_its_decision_is_made_again() {
    let world = World::of(&format!("{TWO} | coil/c 90ms 200tps $0/0 half7 paced5"));
    let decision = world.decide(&world.query(Objective::Cheapest, "")).unwrap();
    assert!(world.name(decision.candidates[0].index).starts_with("bolt/b") && decision.standby.len() == 1);
    assert_eq!(between(&world, &world).self_test(&decision), SelfTest::Identical);
}

#[test]
fn an_endpoint_that_was_never_measured_has_no_answer_and_is_named() {
    let (before, after) = (World::of(TWO), World::of(&format!("{TWO} | acme/a@coil 50ms 400tps $0.1/0.2")));
    let (comparison, tally) = tally(&before, &after, 40);
    assert_eq!(tally.grades.get(&Grade::None), Some(&40));
    let named: Vec<_> = tally.unmeasured.iter().map(|(id, count)| (comparison.name(*id).unwrap(), *count)).collect();
    assert_eq!(named, [("acme/a at coil".to_owned(), 40)]);
    assert_eq!((tally.summed, tally.estimates()), (0, Vec::new()), "what is not known is not 0");
}

#[test]
fn prices_that_differ_from_those_of_the_records_are_summed_by_what_was_spent_at_them() {
    let (recorded_world, other) = (World::of(TWO), World::of(&TWO.replace("$2/4", "$3/6")));
    let (own, priced) = (side(&recorded_world), side(&other));
    let share = |before: &Side| {
        let comparison = Comparison::new(&own.catalog, &own.policy, Some(before), &own);
        let mut tally = Tally::new(0);
        for objective in [Objective::Fastest, Objective::Cheapest] {
            let query = recorded_world.query(objective, "");
            let record = recorded(&recorded_world, recorded_world.decide(&query), "ok");
            tally.add(&comparison.decide(&record, &Calibration::default()).unwrap(), 1, "", objective.as_str());
        }
        tally.priced_otherwise as f64 / tally.cost[0] as f64
    };
    assert_eq!(share(&own), 0.0);
    assert!((0.5..1.0).contains(&share(&priced)), "{}", share(&priced));
}

#[test]
fn an_objective_by_default_follows_the_configuration_and_one_of_the_request_does_not() {
    let world = World::of(TWO);
    let moved = |source| {
        let mut query = world.query(Objective::Cheapest, "");
        query.objective = Sourced { value: Objective::Cheapest, source };
        let record = recorded(&world, world.decide(&query), "ok");
        let after = Side { objective: Some(Objective::Fastest), ..side(&world) };
        let comparison = Comparison::new(&world.snapshot.catalog, &world.snapshot.policy, None, &after);
        let made = comparison.decide(&record, &Calibration::default()).unwrap();
        made.from != made.to
    };
    assert!(moved(Source::Default));
    assert!(!moved(Source::Metadata) && !moved(Source::Key));
}

#[test]
fn what_endpoints_measured_corrects_their_predictions_and_thirty_observations_hold_it_back() {
    let world = World::of(TWO);
    let query = world.query(Objective::Fastest, "");
    let mut calibration = Calibration::default();
    let mut record = recorded(&world, world.decide(&query), "ok");
    record.attempts[0].first_token_ms = Some(1_000);
    (0..3_000).for_each(|_| calibration.add(&record));
    let made = |calibration: &Calibration| between(&world, &world).decide(&record, calibration).unwrap().before;
    let (plain, corrected) = (made(&Calibration::default()), made(&calibration));
    assert!(plain.first_token < 110_000_000, "{plain:?}");
    assert!((900_000_000..=1_000_000_000).contains(&corrected.first_token), "{corrected:?}");
    let mut little = Calibration::default();
    (0..3).for_each(|_| little.add(&record));
    assert!(made(&little).first_token < 2 * plain.first_token, "a few observations change little");
}

/// What a price that draws all traffic to the first endpoint does to its load, with so many requests a second.
fn under_load(per_second: u64) -> LoadAdjusted {
    const LINES: &str = "acme/a 500ms 50tps $4/8 k1 knee3 w60 ok60 | bolt/b 700ms 50tps $2/4 k1 knee60 w60 ok60";
    let (before, after) = (World::of(LINES), World::of(&LINES.replace("$4/8", "$1.9/3.8")));
    let comparison = Arc::new(between(&before, &after));
    let mut sample = LoadSample::default();
    for seed in 1..=600_u64 {
        let query = before.query(Objective::Cheapest, "");
        let decided = decide_to_serve(&before.snapshot, &before.live, &query, NOW, Some(seed));
        let record = Generation { created_ms: (1_000 * seed / per_second) as i64, ..recorded(&before, decided, "ok") };
        sample.add(&record, &comparison, seed, seed / 4);
    }
    sample.adjusted(&Calibration::default(), 600, || true).unwrap()
}

#[test]
fn traffic_that_moves_loads_its_endpoint_beyond_the_knee_and_slows_it_down() {
    let (busy, calm) = (under_load(10), under_load(1));
    let after = |estimates: &[pointsman_routing::explain::diff::Estimate], metric| {
        estimates.iter().find(|estimate| estimate.metric == metric).unwrap().after
    };
    let of = |load: &LoadAdjusted, metric| [after(&load.plain, metric), after(&load.adjusted, metric)];
    let [plain, loaded] = of(&busy, Metric::FirstTokenP50);
    assert!(loaded > 1.3 * plain, "{plain} {loaded}");
    let load = busy.loads[0];
    assert!(load.in_flight[0] == 1.0 && load.in_flight[1] > load.knee, "{load:?}");
    assert!((1..=5).contains(&busy.rounds) && busy.last_move < 0.05, "{} {}", busy.rounds, busy.last_move);
    let [plain, loaded] = of(&calm, Metric::FirstTokenP50);
    assert!(loaded >= plain && calm.loads[0].in_flight[1] < busy.loads[0].in_flight[1], "{plain} {loaded}");
    // Nothing moves, so nothing is added.
    let same = World::of(TWO);
    let comparison = Arc::new(between(&same, &same));
    let mut sample = LoadSample::default();
    let query = same.query(Objective::Balanced, "");
    sample.add(&recorded(&same, same.decide(&query), "ok"), &comparison, 1, 1);
    let still = sample.adjusted(&Calibration::default(), 1, || true).unwrap();
    assert_eq!((still.rounds, still.loads.len(), still.plain), (1, 0, still.adjusted));
    assert!(LoadSample::default().adjusted(&Calibration::default(), 0, || true).is_none());
}
