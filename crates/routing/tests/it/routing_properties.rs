//! What holds for every request in every world.

use std::{collections::HashSet, time::Duration};

use pointsman_domain::{
    Decision, Exploration, Modalities, Modality, ModelPattern, Objective, QualityFloor, Query, RouteError,
    RoutingPolicy, Source, Sourced, UnknownQuality, Usd, Weights,
};
use pointsman_routing::{
    decide::{decide, decide_to_serve},
    explain::{
        MOST_WORDS, WhatIfWorld, fill_selection_probabilities, reason_sentence, replay, summary_sentence,
        summary_without_choice,
    },
    stats::{Gate, LiveBoard, LiveEndpoint, LiveProvider, LiveView},
};
use proptest::{prelude::*, sample::select};

use crate::routing_world::{NOW, World, attempts, code, parameters};

/// One endpoint's ordinary figures: anything that keeps it eligible.
fn figures() -> impl Strategy<Value = String> {
    let numbers = (20_u32..4000, 10_u32..400, 0_u32..40, 0_u32..40, 0_u32..10);
    let load = (0_u32..12, 1_u32..20, 0_u32..600);
    (numbers, 0_u32..50, load).prop_map(|((ms, tps, w, ok, bad), price, (k, knee, idle))| {
        let dollars = f64::from(price) / 10.0;
        format!("{ms}ms {tps}tps w{w} ok{ok} bad{bad} ${dollars}/{} k{k} knee{knee} idle{idle}", 2.0 * dollars)
    })
}

/// What is known of an endpoint's answers.
fn quality() -> impl Strategy<Value = String> {
    let rated = (0_u32..=10, 1_u32..60).prop_map(|(mean, count)| format!("rated{},{count}", f64::from(mean) / 10.0));
    let score = (0_u32..=10).prop_map(|score| format!("q{}", f64::from(score) / 10.0));
    let both = (prop::option::weighted(0.6, score), prop::option::weighted(0.3, rated));
    both.prop_map(|(score, rated)| format!("{} {}", score.unwrap_or_default(), rated.unwrap_or_default()))
}

/// What may stand in the way of an endpoint, besides.
fn obstacle() -> impl Strategy<Value = &'static str> {
    select(vec![
        "",
        "",
        "",
        "",
        "",
        "unseen",
        "open3",
        "half2",
        "half20",
        "probing",
        "cool4",
        "fault9",
        "paced1",
        "disabled",
        "ctx500",
        "tools",
        "tools",
        "silent",
        "quota900,5",
    ])
}

/// Up to eight endpoints of up to four models at up to four providers, no two alike. One model may have expired,
/// one may see images, and one provider may be off.
pub(crate) fn endpoints() -> impl Strategy<Value = Vec<String>> {
    let (models, providers) = (vec!["a/1", "a/2", "b/3", "c/4"], vec!["w", "x", "y", "z"]);
    let figures = (figures(), quality()).prop_map(|(figures, quality)| format!("{figures} {quality}"));
    let one = (select(models.clone()), select(providers.clone()), figures, obstacle());
    let model = || prop::option::of(select(models.clone()));
    let traits = (model(), model(), prop::option::of(select(providers)));
    (prop::collection::vec(one, 1..9), traits).prop_map(|(entries, (expired, seeing, off))| {
        let mut seen = HashSet::new();
        let distinct = entries.into_iter().filter(|(model, provider, _, _)| seen.insert((*model, *provider)));
        let text = distinct.map(|(model, provider, figures, obstacle)| {
            let expired = if expired == Some(model) { "expired" } else { "" };
            let off = if off == Some(provider) { "off" } else { "" };
            let seeing = if seeing == Some(model) { "in:image" } else { "" };
            format!("{model}@{provider} {figures} {obstacle} {expired} {seeing} {off}")
        });
        text.collect()
    })
}

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) objective: Objective,
    models: &'static str,
    tools: bool,
    image: bool,
    blocked: Option<&'static str>,
    key_blocked: Option<&'static str>,
    max_cost: Option<u32>,
    max_price: Option<u32>,
    fallbacks: bool,
    order: bool,
    streamed: bool,
    pub(crate) seed: Option<u64>,
    quality: AskedQuality,
}

/// What is asked of the quality of answers.
#[derive(Debug, Clone)]
struct AskedQuality {
    has_class: bool,
    weight: Option<u32>,
    least: Option<(u32, bool)>,
    allows_unknown: bool,
}

fn asked_quality() -> impl Strategy<Value = AskedQuality> {
    let least = prop::option::weighted(0.2, (0_u32..9, any::<bool>()));
    (any::<bool>(), prop::option::weighted(0.4, 0_u32..20), least, any::<bool>()).prop_map(
        |(has_class, weight, least, allows_unknown)| AskedQuality { has_class, weight, least, allows_unknown },
    )
}

pub(crate) fn asked() -> impl Strategy<Value = Asked> {
    let text =
        (select(Objective::ALL.to_vec()), select(vec!["", "a/1", "a/1, b/3", "service/free", "b/3, service/auto"]));
    let patterns = || prop::option::weighted(0.3, select(vec!["a/*", "b/3", "a/1"]));
    let needs = (any::<bool>(), prop::bool::weighted(0.1));
    let ceilings = (prop::option::of(1_u32..90), prop::option::weighted(0.3, 1_u32..60));
    let lists = (needs, (patterns(), patterns()), ceilings);
    let flags = (prop::bool::weighted(0.8), any::<bool>(), any::<bool>(), prop::option::of(1_u64..1_000_000));
    (text, lists, flags, asked_quality()).prop_map(
        |((objective, models), (needs, blocked, ceilings), (fallbacks, order, streamed, seed), quality)| Asked {
            objective,
            models,
            tools: needs.0,
            image: needs.1,
            blocked: blocked.0,
            key_blocked: blocked.1,
            max_cost: ceilings.0,
            max_price: ceilings.1,
            fallbacks,
            order,
            streamed,
            seed,
            quality,
        },
    )
}

impl Asked {
    /// The query, unless the world lacks a model it names.
    pub(crate) fn query(&self, world: &World) -> Option<Query> {
        let known = |name: &str| {
            name.is_empty()
                || name.starts_with("service/")
                || world.catalog().models.iter().any(|m| m.id.as_str() == name)
        };
        if !self.models.split(',').all(|name| known(name.trim())) {
            return None;
        }
        let mut query = world.query(self.objective, self.models);
        if self.tools {
            query.needs.parameters = parameters(["tools"]);
        }
        if self.image {
            query.needs.input = Modalities::NONE.with(Modality::Image);
        }
        let patterns = |given: Option<&str>| given.iter().map(|one| one.parse().expect("a pattern")).collect();
        query.routing_mut().blocked = patterns(self.blocked);
        query.key_blocked = patterns(self.key_blocked);
        let usd = |cents: u32| Usd::from_f64(f64::from(cents) / 1e4).expect("an amount");
        query.routing_mut().max_cost =
            self.max_cost.map(|cents| Sourced { value: usd(cents), source: Source::Metadata });
        let per_token = |dimes: u32| Usd::from_f64(f64::from(dimes) / 1e7).expect("an amount");
        query.routing_mut().provider.max_price.completion = self.max_price.map(per_token);
        query.routing_mut().provider.allow_fallbacks = self.fallbacks;
        if self.order {
            query.routing_mut().provider.order = vec!["y".to_owned(), "w".to_owned()];
        }
        query.streamed = self.streamed;
        self.quality.ask(&mut query);
        Some(query)
    }
}

impl AskedQuality {
    fn ask(&self, query: &mut Query) {
        query.task_class = self.has_class.then(code);
        let source = Source::Metadata;
        if let Some(tenths) = self.weight {
            let weights = Weights { quality: f64::from(tenths) / 10.0, ..Weights::default() };
            (query.weights, query.routing_mut().weights) = (weights, Some(Sourced { value: weights, source }));
        }
        let Some((tenths, of_mean)) = self.least else { return };
        let least = f64::from(tenths) / 10.0;
        let value = if of_mean { QualityFloor::Mean(least) } else { QualityFloor::Tenth(least) };
        query.routing_mut().min_quality = Some(Sourced { value, source });
        let value = if self.allows_unknown { UnknownQuality::Allow } else { UnknownQuality::Exclude };
        query.routing_mut().quality_unknown = Some(Sourced { value, source });
    }
}

fn world(endpoints: &[String]) -> World {
    World::of(&endpoints.join(" | "))
}

fn ask(world: &World, asked: &Asked) -> Option<(Query, Result<Decision, RouteError>)> {
    let query = asked.query(world)?;
    let decided = decide(&world.snapshot, &world.live, &query, NOW, asked.seed);
    Some((query, decided))
}

/// Rank of the first endpoint among candidates when `models` is the alias for everything.
fn rank_of_first(objective: Objective, endpoints: &[String], seed: Option<u64>) -> usize {
    let world = world(endpoints);
    let first = world.catalog().endpoints.first().unwrap().id;
    let policy = RoutingPolicy {
        retry: pointsman_domain::RetryPolicy {
            max_attempts: 1,
            last_resort: 0,
            budget_ratio: 0.0,
            ..RoutingPolicy::default().retry
        },
        ..RoutingPolicy::default()
    };
    let world =
        World { snapshot: pointsman_routing::stats::Snapshot { policy: policy.into(), ..world.snapshot }, ..world };
    let query = world.query(objective, "");
    let decision = decide(&world.snapshot, &world.live, &query, NOW, seed).unwrap();
    decision.candidates.iter().position(|candidate| candidate.endpoint == first).unwrap()
}

/// Healthy endpoints at idle, each of its own model, so that nothing but figures decides.
fn healthy() -> impl Strategy<Value = Vec<(u32, u32, u32, u32)>> {
    prop::collection::vec((20_u32..4000, 20_u32..400, 0_u32..20, 1_u32..50), 2..7)
}

fn told(healthy: &[(u32, u32, u32, u32)]) -> Vec<String> {
    let entry = |(place, (ms, tps, bad, price)): (usize, &(u32, u32, u32, u32))| {
        let dollars = f64::from(*price) / 10.0;
        format!("m/{place}@p{place} {ms}ms {tps}tps bad{bad} ok30 ${dollars}/{}", 2.0 * dollars)
    };
    healthy.iter().enumerate().map(entry).collect()
}

/// How attempts may go, as in `routing_world::attempts`.
fn courses() -> impl Strategy<Value = &'static str> {
    let courses = [
        "",
        "ok",
        "500",
        "timeout",
        "connect refused",
        "partly 500",
        "partly cancelled",
        "cancelled",
        "429, ok",
        "skip ok",
        "lost_race, hedge ok",
        "500, timeout, last_resort ok",
        "500, connect refused, 503",
        "truncated partly",
        "panic ok",
        "probe 500, ok",
    ];
    select(courses.to_vec())
}

/// Words of the wire that a summary must not hold: the codes with an underscore, and `p95`.
fn has_code(summary: &str) -> bool {
    let is_code = |word: &str| word.contains('_') || word == "p95" || word == "p50";
    summary.split(|c: char| c.is_whitespace() || ",.;:()".contains(c)).any(is_code)
}

/// Everything that a decision says, less the class and the qualities that are read for its record alone.
fn without_quality(decided: Result<Decision, RouteError>) -> String {
    let mut decision = match decided {
        Ok(decision) => decision,
        Err(error) => return format!("{:?}", error.excluded),
    };
    decision.task_class = None;
    let candidates = decision.candidates.iter_mut().chain(&mut decision.rivals).chain(&mut decision.standby);
    candidates.for_each(|candidate| candidate.inputs.quality = None);
    format!("{decision:?}")
}

proptest! {
    #[test]
    fn without_a_weight_and_a_least_quality_no_decision_differs_from_one_that_knows_no_quality(
        endpoints in endpoints(), asked in asked(), explored in prop::bool::weighted(0.3),
    ) {
        let unasked = AskedQuality { has_class: true, weight: None, least: None, allows_unknown: false };
        let decided = |endpoints: &[String], quality: AskedQuality| {
            let world = world(endpoints);
            let mut query = Asked { quality, ..asked.clone() }.query(&world)?;
            if explored {
                query.exploration = Exploration { share: 0.5, max_extra_cost: 0.5, max_extra_first_token: 1.0 };
            }
            Some(without_quality(decide_to_serve(&world.snapshot, &world.live, &query, NOW, asked.seed)))
        };
        let unrated = |line: &String| {
            let words = line.split(' ').filter(|word| !word.starts_with("rated") && !word.starts_with('q') || word.starts_with("quota"));
            words.collect::<Vec<_>>().join(" ")
        };
        let plain: Vec<String> = endpoints.iter().map(unrated).collect();
        prop_assert_eq!(decided(&endpoints, unasked.clone()), decided(&plain, AskedQuality { has_class: false, ..unasked }));
    }

    #[test]
    fn a_summary_has_at_most_25_words_and_no_codes(
        endpoints in endpoints(), asked in asked(), course in courses(), provider in "[A-Za-z]{1,9}( [A-Za-z()]{1,9}){0,7}",
    ) {
        let mut world = world(&endpoints);
        for named in &mut std::sync::Arc::make_mut(&mut world.snapshot.catalog).providers {
            named.name = provider.as_str().into();
        }
        let Some((_, decided)) = ask(&world, &asked) else { return Ok(()) };
        let summary = match decided {
            Err(error) => summary_without_choice(&error.excluded),
            Ok(decision) => {
                // A plan that is shorter than the course has fewer attempts.
                let called = decision.plan().count().saturating_sub(course.matches("skip").count());
                let course: Vec<&str> = course.split(", ").take(called).collect();
                let attempts = attempts::attempts(&world, &decision, &course.join(", "));
                let summary = summary_sentence(&decision, world.catalog(), &attempts);
                prop_assert_eq!(&summary, &summary_sentence(&decision, world.catalog(), &attempts));
                summary
            }
        };
        let words = summary.split_whitespace().count();
        prop_assert!((5..=MOST_WORDS).contains(&words) || summary.ends_with("answered."), "{words}: {summary}");
        prop_assert!(summary.ends_with('.') && !summary.contains('?') && !has_code(&summary), "{summary}");
    }

    #[test]
    fn what_is_blocked_expired_incapable_or_unaffordable_is_never_chosen(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((query, decided)) = ask(&world, &asked) else { return Ok(()) };
        let Ok(decision) = decided else { return Ok(()) };
        for candidate in &decision.candidates {
            let endpoint = world.catalog().endpoint(candidate.index).unwrap();
            let model = world.catalog().model_of(endpoint).unwrap();
            let mut blocked = query.routing.blocked.iter().chain(&query.key_blocked);
            let is_blocked = blocked.any(|p: &ModelPattern| p.matches(model.id.as_str(), &model.canonical_slug));
            prop_assert!(!is_blocked && !endpoint.disabled && model.expiration_date.is_none());
            prop_assert!(endpoint.parameters.covers(query.needs.parameters));
            prop_assert!(model.architecture.input.covers(query.needs.input));
            if let Some(limit) = query.routing.provider.max_price.completion {
                prop_assert!(endpoint.pricing.as_ref().is_some_and(|pricing| pricing.completion <= limit));
            }
            prop_assert!(endpoint.limits.context_length > 800);
            if asked.models == "service/free" {
                prop_assert!(endpoint.is_free());
            }
            if let Some(limit) = query.routing.max_cost {
                prop_assert!(candidate.inputs.cost <= limit.value.to_f64() * 1.000_001);
            }
            let text = endpoints.iter().find(|text| text.starts_with(&format!("{}@{} ", model.id, world.catalog().provider_of(endpoint).unwrap().slug))).unwrap();
            let never = ["cool4", "fault9", "expired", " off", "disabled"];
            prop_assert!(!never.iter().any(|word| text.contains(word)), "never called: {text}");
        }
    }

    #[test]
    fn candidates_and_excluded_make_the_pool_without_duplicates(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((query, decided)) = ask(&world, &asked) else { return Ok(()) };
        let (candidates, excluded) = match decided {
            Ok(decision) => (decision.candidates.iter().map(|c| c.index).collect(), decision.excluded),
            Err(error) => (Vec::new(), error.excluded),
        };
        let listed: Vec<u32> = candidates.iter().copied().chain(excluded.iter().map(|e| e.index)).collect();
        let distinct: HashSet<u32> = listed.iter().copied().collect();
        prop_assert_eq!(distinct.len(), listed.len(), "no endpoint twice");
        let asked_for: HashSet<u32> = query.targets.iter().flat_map(|target| match *target {
            pointsman_domain::Target::Model(model) => world.catalog().model(model).unwrap().endpoints.clone(),
            pointsman_domain::Target::Alias(_) => {
                let on = |index: &u32| {
                    let endpoint = world.catalog().endpoint(*index).unwrap();
                    world.catalog().provider_of(endpoint).unwrap().is_on()
                };
                (0..world.catalog().endpoints.len() as u32).filter(on).collect()
            }
        }).collect();
        prop_assert_eq!(distinct, asked_for);
        if !asked.fallbacks {
            prop_assert!(candidates.len() <= 1);
        }
    }

    #[test]
    fn a_decision_reads_no_live_state_but_what_is_copied_for_its_query(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some(query) = asked.query(&world) else { return Ok(()) };
        let board = LiveBoard::new(world.catalog(), 1);
        let gate = Gate::Cooling { until: NOW.plus(Duration::from_secs(9)) };
        let mut copied = LiveView {
            endpoints: vec![LiveEndpoint { gate, in_flight: 99, ..LiveEndpoint::default() }; 20],
            providers: vec![LiveProvider { gate, ..LiveProvider::default() }; 20],
        };
        board.refresh_for(&query, world.catalog(), NOW, &mut copied);
        let decided = |live| decide(&world.snapshot, live, &query, NOW, asked.seed);
        prop_assert_eq!(format!("{:?}", decided(&copied)), format!("{:?}", decided(&board.view(NOW))));
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(endpoints in endpoints(), asked in asked(), turn in 0_usize..9) {
        let mut turned = endpoints.clone();
        turned.reverse();
        let length = turned.len();
        turned.rotate_left(turn % length);
        let (here, there) = (world(&endpoints), world(&turned));
        let (Some((_, one)), Some((_, other))) = (ask(&here, &asked), ask(&there, &asked)) else { return Ok(()) };
        match (one, other) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(here.plan(&one), there.plan(&other));
                let scores = |decision: &Decision| decision.candidates.iter().map(|c| c.score.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(scores(&one), scores(&other));
                prop_assert_eq!(one.explored, other.explored);
            }
            (Err(one), Err(other)) => prop_assert_eq!(one.opens, other.opens),
            (one, other) => prop_assert!(false, "{:?} {:?}", one, other),
        }
    }

    #[test]
    fn score_terms_sum_to_the_score_and_nothing_is_broken(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((_, Ok(decision))) = ask(&world, &asked) else { return Ok(()) };
        for candidate in &decision.candidates {
            let sum: f64 = candidate.terms.iter().map(|term| term.value).sum();
            prop_assert_eq!(sum.to_bits(), candidate.score.to_bits());
            prop_assert!(candidate.score.is_finite() && candidate.score >= 0.0);
            prop_assert!((0.0..=1.0).contains(&candidate.predicted.failure));
            prop_assert!(candidate.predicted.first_token_p50 <= candidate.predicted.first_token_p95);
            let ([low, high], cost) = (candidate.cost_range(), candidate.inputs.cost);
            prop_assert!(0.0 <= low && low <= cost && cost <= high && high.is_finite(), "{} {} {}", low, cost, high);
        }
        let [time, cost, failed, next] = decision.baselines;
        let used = match asked.objective {
            Objective::Fastest => vec![next],
            Objective::Cheapest => vec![cost, failed],
            Objective::Reliable => vec![time],
            Objective::Balanced => vec![time, cost, failed, next],
        };
        prop_assert!(used.iter().all(|yardstick| yardstick.is_finite() && *yardstick > 0.0));
        let worked_out = decision.baselines.iter().filter(|yardstick| **yardstick != 0.0).count();
        prop_assert_eq!(worked_out, used.len(), "no other is worked out");
        let sentence = reason_sentence(&decision, world.catalog(), &[]);
        prop_assert!(sentence.contains(". Chosen ") && sentence.ends_with('.') && !sentence.contains('?'), "{}", sentence);
    }

    #[test]
    fn shut_gates_are_passed_only_when_nothing_else_is_left(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((_, Ok(decision))) = ask(&world, &asked) else { return Ok(()) };
        let panics = decision.candidates.iter().filter(|candidate| candidate.panic).count();
        prop_assert!(panics == 0 || panics == decision.candidates.len());
        for candidate in &decision.candidates {
            let cell = world.live.endpoint(candidate.index);
            let free = cell.gate.is_passing() && cell.due.is_none();
            prop_assert!(free || candidate.panic || candidate.probe);
        }
    }

    #[test]
    fn the_reserve_holds_only_endpoints_with_a_temporary_reason(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((_, Ok(decision))) = ask(&world, &asked) else { return Ok(()) };
        prop_assert!(decision.standby.len() <= decision.max_attempts as usize);
        for standby in &decision.standby {
            prop_assert!(decision.candidates.iter().all(|candidate| candidate.endpoint != standby.endpoint));
            let reason = decision.excluded.iter().find(|excluded| excluded.endpoint == standby.endpoint);
            let reason = reason.map(|excluded| excluded.reason.as_str());
            let of_the_moment = ["circuit_open", "probe_in_flight", "paced", "saturated"];
            prop_assert!(reason.is_some_and(|reason| of_the_moment.contains(&reason)), "{:?}", reason);
        }
    }

    #[test]
    fn a_record_replays_bit_for_bit(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((_, Ok(decision))) = ask(&world, &asked) else { return Ok(()) };
        let again = replay(&decision, &world.snapshot.policy);
        prop_assert_eq!(again.candidates.len(), decision.candidates.len() + decision.rivals.len());
        prop_assert!(again.is_identical(), "{:?} {:?}", again.differences, again.lost);
    }

    #[test]
    fn a_preview_is_what_serving_decides_with_the_same_seed_and_snapshot(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some(query) = asked.query(&world) else { return Ok(()) };
        let shown = WhatIfWorld::real(&world.snapshot, &world.live, &query).decide(NOW, asked.seed);
        let served = decide_to_serve(&world.snapshot, &world.live, &query, NOW, asked.seed);
        prop_assert_eq!(&shown, &served, "worlds this small are told whole");
        let (Ok(mut shown), Ok(served)) = (shown, served) else { return Ok(()) };
        fill_selection_probabilities(&mut shown, &world.snapshot.policy);
        let everybody = || shown.candidates.iter().chain(&shown.rivals);
        let shares: Vec<f64> = everybody().filter_map(|candidate| candidate.selection_probability).collect();
        prop_assert!(shares.len() == everybody().count() && shares.iter().all(|share| (0.0..=1.0).contains(share)));
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let everybody = shown.candidates.iter_mut().chain(&mut shown.rivals);
        everybody.for_each(|candidate| candidate.selection_probability = None);
        prop_assert_eq!(shown, served, "telling the chances changes nothing else");
    }

    #[test]
    fn without_exploration_no_seed_matters(endpoints in endpoints(), asked in asked(), seed in 1_u64..1_000_000) {
        let mut world = world(&endpoints);
        world.snapshot.policy = RoutingPolicy { exploration: 0.0, ..RoutingPolicy::default() }.into();
        let (unseeded, seeded) = (Asked { seed: None, ..asked.clone() }, Asked { seed: Some(seed), ..asked });
        prop_assert_eq!(ask(&world, &unseeded), ask(&world, &seeded));
    }

    #[test]
    fn targets_are_tried_in_their_order(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((_, Ok(decision))) = ask(&world, &asked) else { return Ok(()) };
        prop_assert!(decision.candidates.iter().map(|candidate| candidate.target).is_sorted());
    }

    #[test]
    fn the_same_arguments_give_the_same_decision(endpoints in endpoints(), asked in asked()) {
        let world = world(&endpoints);
        let Some((query, decided)) = ask(&world, &asked) else { return Ok(()) };
        prop_assert_eq!(decide(&world.snapshot, &world.live, &query, NOW, asked.seed), decided);
    }

    #[test]
    fn a_slower_first_token_never_improves_rank_under_fastest(
        healthy in healthy(), slower in 1_u32..5000, seed in prop::option::of(1_u64..1000),
    ) {
        let mut worse = healthy.clone();
        worse[0].0 += slower;
        let rank = |endpoints: &[(u32, u32, u32, u32)]| rank_of_first(Objective::Fastest, &told(endpoints), seed);
        prop_assert!(rank(&worse) >= rank(&healthy));
    }

    #[test]
    fn a_higher_price_never_improves_rank_under_cheapest(
        healthy in healthy(), dearer in 1_u32..100, seed in prop::option::of(1_u64..1000),
    ) {
        let mut worse = healthy.clone();
        worse[0].3 += dearer;
        let rank = |endpoints: &[(u32, u32, u32, u32)]| rank_of_first(Objective::Cheapest, &told(endpoints), seed);
        prop_assert!(rank(&worse) >= rank(&healthy));
    }

    #[test]
    fn a_worse_failure_rate_never_improves_rank_under_reliable_nor_any_other(
        healthy in healthy(), more in 1_u32..20, seed in prop::option::of(1_u64..1000),
        objective in select(Objective::ALL.to_vec()),
    ) {
        let mut worse = healthy.clone();
        worse[0].2 += more;
        let rank = |endpoints: &[(u32, u32, u32, u32)]| rank_of_first(objective, &told(endpoints), seed);
        prop_assert!(rank(&worse) >= rank(&healthy));
    }
}
