//! Quality: which endpoints it excludes, what it adds to scores, and what is said of it.

use std::sync::Arc;

use pointsman_domain::{
    Candidate, Decision, Objective, Quality, QualityFloor, Query, RoutingPolicy, Source, Sourced, StickyEndpoint, Task,
    UnknownQuality, Weights,
};
use pointsman_routing::{
    decide::decide,
    explain::{fill_selection_probabilities, nearest_relaxation, reason_sentence, replay, why_not},
    quality::{QualityTable, Rated, RatingSums, TrafficTable, UNIT},
};

use crate::routing_world::{NOW, World, code};

/// The day of all ratings, since 1970.
const TODAY: i32 = 20_000;
/// A small model that is cheap and a large one that is good.
const TWO: &str = "meadow/small 200ms $1/2 q0.6 | meadow/large@swift 300ms $8/16 q0.95";

fn asked(world: &World, objective: Objective, quality: f64) -> Query {
    let weights = Weights { quality, ..Weights::default() };
    Query { weights, task_class: Some(code()), ..world.query(objective, "") }
}

fn least(floor: QualityFloor, unknown: Option<UnknownQuality>) -> impl Fn(&mut Query) {
    move |query| {
        let source = Source::TopLevel;
        query.routing_mut().min_quality = Some(Sourced { value: floor, source });
        query.routing_mut().quality_unknown = unknown.map(|value| Sourced { value, source });
    }
}

/// Reason and detail of each excluded endpoint.
fn excluded(text: &str, ask: impl Fn(&mut Query)) -> Vec<(String, &'static str, String)> {
    let world = World::of(text);
    let mut query = asked(&world, Objective::Balanced, 0.0);
    ask(&mut query);
    let excluded = world.decide(&query).map_or_else(|error| error.excluded, |decision| decision.excluded);
    let told =
        |one: &pointsman_domain::ExcludedEndpoint| (world.name(one.index), one.reason.as_str(), one.detail.to_string());
    excluded.iter().map(told).collect()
}

fn choice(world: &World, query: &Query) -> String {
    world.name(world.decide(query).unwrap().candidates[0].index)
}

#[test]
fn an_endpoint_below_the_least_quality_is_excluded_with_figure_source_and_date() {
    let below = "quality for code 0.6, below 0.7 (own-eval, 2026-11-02, n 100)";
    assert_eq!(
        excluded(TWO, least(QualityFloor::Mean(0.7), None)),
        [("meadow/small".to_owned(), "quality_below", below.to_owned())]
    );
    assert!(excluded(TWO, least(QualityFloor::Mean(0.6), None)).is_empty(), "a score that equals the least is enough");
    let rated = "a/a q0.8 rated0.2,30 | b/b q0.8";
    let below = "quality for code 0.44, below 0.5 (own-eval, 2026-11-02, n 100; 30 ratings)";
    assert_eq!(
        excluded(rated, least(QualityFloor::Mean(0.5), None)),
        [("a/a".to_owned(), "quality_below", below.to_owned())]
    );
    let tenth = excluded("a/a q0.8 | b/b q0.8 rated0.9,100", least(QualityFloor::Tenth(0.75), None));
    assert_eq!(tenth.len(), 1, "few answers leave more doubt: {tenth:?}");
    assert!(tenth[0].2.starts_with("lower tenth of quality for code 0.6"), "{tenth:?}");
}

#[test]
fn an_unknown_quality_is_excluded_as_such_unless_it_is_allowed() {
    let text = "a/a | b/b q0.8";
    let unknown = "no score for code; quality_unknown = \"allow\" would let it in";
    let expected = [("a/a".to_owned(), "quality_unknown", unknown.to_owned())];
    assert_eq!(excluded(text, least(QualityFloor::Mean(0.1), None)), expected);
    assert_eq!(excluded(text, least(QualityFloor::Mean(0.1), Some(UnknownQuality::Exclude))), expected);
    assert!(excluded(text, least(QualityFloor::Mean(0.1), Some(UnknownQuality::Allow))).is_empty());
    let of_no_class = |query: &mut Query| {
        least(QualityFloor::Mean(0.9), None)(query);
        query.task_class = None;
    };
    assert!(excluded(text, of_no_class).is_empty(), "what has no class of task is asked for no quality");
}

#[test]
fn an_allowed_unknown_quality_is_said() {
    let world = World::of("a/a 50ms | b/b 900ms q0.8");
    let mut query = asked(&world, Objective::Fastest, 0.0);
    least(QualityFloor::Mean(0.1), Some(UnknownQuality::Allow))(&mut query);
    let reason = reason_sentence(&world.decide(&query).unwrap(), world.catalog(), &[]);
    assert!(reason.contains("quality for code unknown, let in by quality_unknown = \"allow\""), "{reason}");
}

#[test]
fn the_nearest_relaxation_names_the_least_quality() {
    let world = World::of("a/a q0.6 | b/b q0.5 | c/c q0.69 fp8 expired | d/d");
    let mut query = asked(&world, Objective::Balanced, 0.0);
    least(QualityFloor::Mean(0.7), None)(&mut query);
    let nearest = nearest_relaxation(&world.decide(&query).unwrap_err(), &world.snapshot).unwrap();
    assert_eq!((world.name(nearest.index), nearest.against[0].reason.as_str()), ("a/a".to_owned(), "quality_below"));
}

/// Everything that a decision without quality holds, and in which order.
fn figures(decision: &Decision) -> Vec<String> {
    let of = |one: &Candidate| {
        let terms: Vec<_> = one.terms.iter().map(|term| (term.name, term.value.to_bits())).collect();
        format!("{} {} {terms:?}", one.index, one.score.to_bits())
    };
    decision.candidates.iter().map(of).collect()
}

#[test]
fn without_a_weight_and_a_least_quality_scores_change_no_bit() {
    let with = "a/a 90ms 50tps $4/8 q0.9 | b/b 400ms 90tps $1/2 q0.2 rated0.1,50 | c/c 300ms 60tps $2/4";
    let without = "a/a 90ms 50tps $4/8 | b/b 400ms 90tps $1/2 | c/c 300ms 60tps $2/4";
    for objective in Objective::ALL {
        for seed in [None, Some(7), Some(99)] {
            let decided = |text: &str, has_class: bool| {
                let world = World::of(text);
                let query = asked(&world, objective, 0.0);
                let query = Query { task_class: query.task_class.filter(|_| has_class), ..query };
                decide(&world.snapshot, &world.live, &query, NOW, seed).unwrap()
            };
            let (rated, plain) = (decided(with, true), decided(without, false));
            assert_eq!(figures(&rated), figures(&plain), "{objective} {seed:?}");
            assert_eq!((rated.quality, rated.explored), (None, plain.explored));
        }
    }
}

#[test]
fn the_term_of_quality_is_its_share_of_the_weights_times_the_loss_in_median_losses() {
    let world = World::of(TWO);
    let decision = world.decide(&asked(&world, Objective::Balanced, 1.0)).unwrap();
    let names: Vec<&str> = decision.candidates[0].terms.iter().map(|term| term.name).collect();
    assert_eq!(names, ["time", "failure_time", "expected_cost", "failure_cost", "quality"]);
    let of = |model: &str| {
        let candidate = decision.candidates.iter().find(|one| world.name(one.index).starts_with(model)).unwrap();
        candidate.terms.iter().last().unwrap().value
    };
    // Of two losses, 0.4 and 0.05, the lower median is the lesser one.
    assert!((of("meadow/small") - 0.5 * 0.4 / 0.05).abs() < 1e-9, "{}", of("meadow/small"));
    assert!((of("meadow/large") - 0.5).abs() < 1e-9);
    let sum: f64 = decision.candidates[0].terms.iter().map(|term| term.value).sum();
    assert_eq!(sum.to_bits(), decision.candidates[0].score.to_bits());
}

#[test]
fn the_distance_of_a_loser_is_one_of_quality_too_only_where_quality_counts() {
    let world = World::of(TWO);
    for (weight, loser, unit) in
        [(1.0, "meadow/small", " times the medians"), (0.0, "meadow/large", " times the median time and cost")]
    {
        let decision = world.decide(&asked(&world, Objective::Balanced, weight)).unwrap();
        let answer = why_not(loser, &decision, &world.snapshot.policy, world.catalog());
        assert!(answer.sentence.contains(unit), "{}", answer.sentence);
    }
}

#[test]
fn a_heavier_weight_of_quality_leads_to_the_better_model() {
    let world = World::of(TWO);
    assert_eq!(choice(&world, &asked(&world, Objective::Balanced, 0.0)), "meadow/small");
    assert_eq!(choice(&world, &asked(&world, Objective::Balanced, 1.0)), "meadow/large@swift");
    for objective in [Objective::Fastest, Objective::Reliable, Objective::Cheapest] {
        assert_eq!(choice(&world, &asked(&world, objective, 1.0)), "meadow/small", "{objective} has no such weight");
    }
}

#[test]
fn nearly_perfect_qualities_are_not_blown_up() {
    let world = World::of("a/a q0.999 $1/2 | b/b q0.9999 $2/4");
    assert_eq!(choice(&world, &asked(&world, Objective::Balanced, 1.0)), "a/a", "a thousandth is not worth the price");
}

#[test]
fn an_unknown_quality_counts_as_the_lowest_known_one_and_not_at_all_where_none_is_known() {
    let world = World::of("a/a | b/b q0.6 | c/c q0.9");
    let decision = world.decide(&asked(&world, Objective::Balanced, 1.0)).unwrap();
    let term = |name: &str| {
        let candidate = decision.candidates.iter().find(|one| world.name(one.index) == name).unwrap();
        (candidate.terms.iter().last().unwrap().value, candidate.inputs.quality.is_some())
    };
    assert!((term("a/a").0 - term("b/b").0).abs() < 1e-9);
    assert_eq!((term("a/a").1, term("b/b").1), (false, true), "it stays unknown");
    let nobody = World::of("a/a 90ms $4/8 | b/b 400ms $1/2");
    let (one, other) = (asked(&nobody, Objective::Balanced, 1.0), asked(&nobody, Objective::Balanced, 0.0));
    assert_eq!(nobody.decide(&one).unwrap().quality, None);
    assert_eq!(choice(&nobody, &one), choice(&nobody, &other));
}

#[test]
fn cheapest_may_count_what_is_spent_until_an_answer_is_accepted() {
    let policy = |per_accepted| RoutingPolicy { per_accepted, ..RoutingPolicy::default() };
    // Both have as much to say, so the lower tenths differ as the means do.
    let text = "a/a $1/2 q0.3 | b/b $2/4 q0.9";
    let of = |per_accepted| {
        let world = World::under(text, policy(per_accepted));
        (choice(&world, &asked(&world, Objective::Cheapest, 0.0)), world)
    };
    assert_eq!(of(false).0, "a/a");
    let (first, world) = of(true);
    assert_eq!(first, "b/b");
    let decision = world.decide(&asked(&world, Objective::Cheapest, 0.0)).unwrap();
    let candidate = &decision.candidates[0];
    let [cost, failure, time, again] = candidate.terms.iter().map(|term| term.value).collect::<Vec<_>>()[..] else {
        panic!("four terms")
    };
    let tenth = candidate.inputs.quality.unwrap().tenth;
    assert!(((cost + failure + time) / tenth / (cost + failure + time + again) - 1.0).abs() < 1e-9);
}

fn with_noise(world: &World, seed: u64) -> Decision {
    decide(&world.snapshot, &world.live, &asked(world, Objective::Balanced, 1.0), NOW, Some(seed)).unwrap()
}

#[test]
fn noise_doubts_ratings_and_not_scores() {
    // Times and prices are certain here, so that nothing else has noise.
    let policy = || RoutingPolicy { staleness: 0.0, ..RoutingPolicy::default() };
    let firsts = |text: &str| {
        let world = World::under(text, policy());
        let first = |seed| world.name(with_noise(&world, seed).candidates[0].index);
        (1..200).map(first).collect::<std::collections::BTreeSet<_>>().len()
    };
    let sure = "w1000000 100ms 100tps";
    assert_eq!(firsts(&format!("a/a {sure} q0.80 | b/b {sure} q0.78")), 1);
    assert_eq!(firsts(&format!("a/a {sure} q0.80 rated0.8,4 | b/b {sure} q0.78 rated0.78,4")), 2);
}

#[test]
fn a_replay_gives_the_same_bits_and_probabilities_match_the_seeds() {
    let world = World::of(
        "a/a 200ms $1/2 q0.60 rated0.6,9 | b/b 210ms $1/2 q0.62 rated0.64,20 | c/c 190ms $1.1/2 | d/d $1/2 q0.5",
    );
    let mut counts = [0_u32; 4];
    for seed in 1..=4000 {
        let decision = with_noise(&world, seed);
        let again = replay(&decision, &world.snapshot.policy);
        assert!(again.is_identical(), "seed {seed}: {:?}", again.differences);
        counts[decision.candidates[0].index as usize] += 1;
    }
    let mut decision = with_noise(&world, 1);
    fill_selection_probabilities(&mut decision, &world.snapshot.policy);
    for candidate in &decision.candidates {
        let counted = f64::from(counts[candidate.index as usize]) / 4000.0;
        let told = candidate.selection_probability.unwrap();
        assert!((counted - told).abs() < 0.03, "{}: {counted} {told}", world.name(candidate.index));
    }
}

#[test]
fn where_only_a_probe_has_a_known_quality_it_counts_neither_in_the_decision_nor_in_its_replay() {
    let world = World::of("a/a 200ms half1 q0.9 | b/b 200ms");
    let decision = world.decide(&asked(&world, Objective::Balanced, 1.0)).unwrap();
    assert!(decision.candidates[0].probe && decision.quality.is_none());
    let again = replay(&decision, &world.snapshot.policy);
    assert!(again.is_identical(), "{:?}", again.differences);
}

#[test]
fn the_reason_says_the_quality_its_source_and_the_ratings_since() {
    let world = World::of("meadow/small 200ms $1/2 q0.71 rated0.8,38 | meadow/large@swift 300ms $8/16 q0.72");
    let decision = world.decide(&asked(&world, Objective::Balanced, 0.2)).unwrap();
    let reason = reason_sentence(&decision, world.catalog(), &[]);
    for part in [
        "it has the best balance of time, cost and quality",
        "quality for code 0.71 (own-eval, 2026-11-02, n 100; 38 ratings since: 0.77 ±",
        "class named by the request",
        " (1 − quality) ÷ median",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn the_reason_says_that_ratings_show_no_difference_where_they_show_none() {
    let says = |rated: f64| {
        let world = World::of(&format!("a/a q0.8 rated0.8,400 | b/b q0.8 rated{rated},400 | c/c q0.8"));
        let decision = world.decide(&asked(&world, Objective::Balanced, 1.0)).unwrap();
        reason_sentence(&decision, world.catalog(), &[]).contains("; ratings show no difference to 1 other candidate")
    };
    assert!(says(0.8) && !says(0.7));
}

#[test]
fn a_mean_that_is_no_number_excludes_and_ranks_last_instead_of_failing() {
    let mut world = World::of("a/a q0.8 | b/b q0.9");
    let broken = Quality { mean: f64::NAN, tenth: f64::NAN, ratings: f64::NAN };
    world.snapshot.quality = std::sync::Arc::new(world.snapshot.quality.with(0, Task::Code, broken));
    let mut query = asked(&world, Objective::Balanced, 1.0);
    assert!(world.decide(&query).is_ok());
    least(QualityFloor::Mean(0.1), None)(&mut query);
    assert_eq!(choice(&world, &query), "b/b");
}

#[test]
fn ratings_change_no_model_in_the_middle_of_a_conversation() {
    let text = |mean: f64| {
        format!("a/a 200ms q0.7 rated{mean},50 | b/b 200ms q0.7 rated0.7,50 | a/a@other 900ms q0.7 rated{mean},50")
    };
    let ask = |mean: f64, last: Option<u32>| {
        let world = World::of(&text(mean));
        let served = |at: u32| StickyEndpoint { endpoint: world.catalog().endpoint(at).unwrap().id, cached_tokens: 0 };
        let query = Query { sticky: last.map(served), ..asked(&world, Objective::Balanced, 4.0) };
        (world.decide(&query).unwrap(), world)
    };
    let first = |(decision, world): &(Decision, World)| world.name(decision.candidates[0].index);
    assert_eq!(first(&ask(0.9, None)), "a/a");
    assert_eq!(first(&ask(0.1, None)), "b/b", "a new conversation goes where answers are better");
    let later = ask(0.1, Some(0));
    assert_eq!(first(&later), "a/a", "this one was begun with the other model");
    let answer = why_not("b/b", &later.0, &later.1.snapshot.policy, later.1.catalog());
    assert_eq!((answer.reason, answer.rank), ("conversation_model", Some(3)));
    let reason = reason_sentence(&later.0, later.1.catalog(), &[]);
    assert!(reason.contains("the conversation stays with the model that served it last"), "{reason}");
}

/// Shares of the first of two models whose answers are rated as they come, of the last fifty requests and of 5,000 ratings in
/// steps of fifty.
fn shares_of_first(text: &str, quality: [f64; 2], seed: u64) -> [f64; 2] {
    let mut draws = (0..).map(|at: u64| (splitmix(seed ^ splitmix(at)) >> 11) as f64 / (1_u64 << 53) as f64);
    let mut draw = || draws.next().unwrap_or_default();
    let (mut world, mut sums) = (World::of(text), RatingSums::default());
    let mut of_first = Vec::new();
    for at in 0..5_000 {
        if at % 50 == 0 {
            let evidence = sums.evidence(TODAY, &TrafficTable::new(), 0.25);
            world.snapshot.quality = Arc::new(QualityTable::of_catalog(world.catalog(), &evidence));
            of_first.push(probability_of_first(&world));
        }
        let index = u32::from(draw() >= *of_first.last().unwrap());
        sums.add(&rating(&world, index, at, draw() < quality[index as usize]));
    }
    [of_first[99], of_first.iter().sum::<f64>() / 100.0]
}

fn probability_of_first(world: &World) -> f64 {
    let mut decision = with_noise(world, 1);
    fill_selection_probabilities(&mut decision, &world.snapshot.policy);
    decision.candidates.iter().find(|one| one.index == 0).unwrap().selection_probability.unwrap()
}

fn rating(world: &World, index: u32, order: u64, is_accepted: bool) -> Rated {
    let endpoint = world.catalog().endpoint(index).unwrap();
    Rated {
        task: Task::Code,
        model: world.catalog().model_of(endpoint).unwrap().id.as_str().into(),
        endpoint: endpoint.id,
        is_judged: false,
        rater: 1,
        day: TODAY,
        order: (0, order),
        weight: UNIT,
        accepted: if is_accepted { UNIT } else { 0 },
    }
}

fn splitmix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Both shares in forty runs, in order.
fn forty_runs(text: &str, quality: [f64; 2]) -> [Vec<f64>; 2] {
    let runs: Vec<[f64; 2]> = (0..40).map(|seed| shares_of_first(text, quality, splitmix(seed))).collect();
    let shares = [0, 1].map(|of: usize| {
        let mut shares: Vec<f64> = runs.iter().map(|run| run[of]).collect();
        shares.sort_by(f64::total_cmp);
        shares
    });
    let told = shares.each_ref().map(|of| [0, 10, 20, 30, 39].map(|at| format!("{:.2}", of[at])).join(" "));
    eprintln!("{text}, {quality:?}: share of the first at the end {}, of all {}", told[0], told[1]);
    shares
}

#[test]
fn after_five_thousand_ratings_luck_leaves_two_models_of_equal_quality_their_shares_without_ratings() {
    for (text, least) in [("a/a q0.8 | b/b q0.8", 36), ("a/a q0.9 | b/b q0.9", 36), ("a/a | b/b", 24)] {
        let without = probability_of_first(&World::of(text));
        let near = |shares: &[f64]| shares.iter().filter(|share| (**share - without).abs() <= 0.03).count();
        let shares = forty_runs(text, [0.8; 2]);
        let counts = shares.each_ref().map(|shares| near(shares));
        eprintln!("{text}: within three points of {without:.2} in {counts:?} of 40 runs");
        assert!(counts[0] >= least, "{text}: {counts:?}");
    }
}

#[test]
fn luck_keeps_the_better_of_two_models_from_nothing_that_ratings_show() {
    for text in ["a/a q0.8 | b/b q0.8", "a/a | b/b"] {
        let [last, all] = forty_runs(text, [0.8, 0.7]);
        // In one run they may look alike at the end.
        assert!(last[0] > 0.45 && last[1] > 0.95 && all[0] > 0.7, "{text}: {last:?} {all:?}");
    }
}
