use std::{collections::BTreeMap, sync::Arc};

use chrono::NaiveDate;
use pointsman_domain::{EndpointId, Quality, QualityScore, QualityScores, Task};
use proptest::prelude::*;

use super::*;
use crate::stats::splitmix64;

mod alike;

const TODAY: i32 = 20_000;
const ANNA: u64 = 1;
const SHARE: f64 = 0.25;

fn scores(score: f64, count: u32) -> QualityScores {
    let date = NaiveDate::from_ymd_opt(2026, 11, 2).unwrap();
    let score = QualityScore { score, count, source: "own-eval".into(), date, licence: None };
    QualityScores::from_iter([(Task::Code, score)])
}

/// A rating by Anna of an answer that was served today.
fn rated(model: &str, order: u64, accepted: bool) -> Rated {
    Rated {
        task: Task::Code,
        model: model.into(),
        endpoint: EndpointId::new(model, "acme", ""),
        is_judged: false,
        rater: ANNA,
        day: TODAY,
        order: (0, order),
        weight: UNIT,
        accepted: if accepted { UNIT } else { 0 },
    }
}

fn sums_of(ratings: impl IntoIterator<Item = Rated>) -> RatingSums {
    let mut sums = RatingSums::default();
    for rated in ratings {
        sums.add(&rated);
    }
    sums
}

/// The quality of endpoints of these models for code, the first of each at `acme`.
fn table(endpoints: &[(&str, &str)], scores: &QualityScores, evidence: &Evidence) -> Vec<Option<Quality>> {
    let none = QualityScores::default();
    let endpoints = endpoints.iter().map(|(model, provider)| ScoredEndpoint {
        id: EndpointId::new(model, provider, ""),
        model,
        scores,
        own_scores: &none,
    });
    let count = endpoints.len() as u32;
    let table = QualityTable::new(endpoints, evidence);
    (0..count).map(|position| table.get(position, Task::Code)).collect()
}

fn quality(sums: &RatingSums, scores: &QualityScores, traffic: &TrafficTable) -> Option<Quality> {
    table(&[("m/one", "acme")], scores, &sums.evidence(TODAY, traffic, SHARE))[0]
}

/// So many answers of each model, divided evenly among so many accounts, of which Anna's is the first.
fn traffic(models: &[(&str, u64, u64)]) -> TrafficTable {
    let of = |(model, answers, accounts): &(&str, u64, u64)| {
        let by: Traffic = (ANNA..ANNA + accounts).map(|account| ((account, TODAY), answers / accounts)).collect();
        ((Task::Code, Arc::from(*model)), by)
    };
    models.iter().map(of).collect()
}

fn alone() -> TrafficTable {
    BTreeMap::new()
}

#[test]
fn a_score_without_ratings_is_believed_as_it_is() {
    let known = quality(&RatingSums::default(), &scores(0.75, 400), &alone()).unwrap();
    assert_eq!((known.mean, known.ratings), (0.75, 0.0));
    assert!((0.6..0.7).contains(&known.tenth), "of twenty answers: {known:?}");
    let little = quality(&RatingSums::default(), &scores(0.75, 4), &alone()).unwrap();
    assert!(little.tenth < known.tenth, "less is known: {little:?}");
}

#[test]
fn what_nobody_has_scored_or_rated_is_unknown() {
    let sums = sums_of((0..50).map(|order| rated("m/other", order, true)));
    assert_eq!(quality(&sums, &QualityScores::default(), &alone()), None);
    assert_eq!(QualityTable::new([].into_iter(), &Evidence::default()).get(7, Task::Math), None);
}

#[test]
fn ratings_outweigh_a_score_and_fade_to_it() {
    let sums = sums_of((0..80).map(|order| rated("m/one", order, order % 4 == 0)));
    let at = |day: i32| {
        let evidence = sums.evidence(day, &alone(), SHARE);
        table(&[("m/one", "acme")], &scores(0.9, 400), &evidence)[0].unwrap()
    };
    let (now, later, last) = (at(TODAY), at(TODAY + 30), at(TODAY + 600));
    // 20 answers at 0.9 and 80 at 0.25.
    assert!((now.mean - 0.38).abs() < 1e-12 && now.ratings == 80.0, "{now:?}");
    assert!((later.mean - (18.0 + 10.0) / 60.0).abs() < 1e-12 && later.ratings == 40.0, "{later:?}");
    assert!((last.mean - 0.9).abs() < 1e-3, "{last:?}");
}

#[test]
fn a_model_without_a_score_begins_at_the_mean_of_its_class() {
    let mut ratings: Vec<Rated> = (0..100).map(|order| rated("m/other", order, true)).collect();
    ratings.push(rated("m/one", 100, true));
    let one = quality(&sums_of(ratings), &QualityScores::default(), &alone()).unwrap();
    // One accepted answer, and two at the 102 of 103 of the class.
    assert!((one.mean - (1.0 + 2.0 * 102.0 / 103.0) / 3.0).abs() < 1e-12, "{one:?}");
}

#[test]
fn a_model_without_a_score_begins_above_its_class_where_it_is_better_than_usual_in_others() {
    let of = |task: Task, model: &'static str, from: u64, [accepted, rejected]: [u64; 2]| {
        (from..from + accepted + rejected).map(move |at| Rated { task, ..rated(model, at, at < from + accepted) })
    };
    let mean = |math: [u64; 2]| {
        let code = of(Task::Code, "m/other", 0, [50, 50]).chain(of(Task::Code, "m/one", 100, [1, 0]));
        let math = of(Task::Math, "m/one", 200, math).chain(of(Task::Math, "m/other", 500, [20, 80]));
        quality(&sums_of(code.chain(math)), &QualityScores::default(), &alone()).unwrap().mean
    };
    let alike = (1.0 + 2.0 * 52.0 / 103.0) / 3.0;
    assert!((mean([0, 0]) - alike).abs() < 1e-12, "{}", mean([0, 0]));
    // Fifteen of twenty where 36 of 122 are usual: better, though worse than the other model is at code by far.
    let better = (1.0 + 2.0 * (52.0 / 103.0 + (15.0 - 20.0 * 36.0 / 122.0) / 30.0)) / 3.0;
    assert!((mean([15, 5]) - better).abs() < 1e-12, "{} {better}", mean([15, 5]));
    assert!(mean([0, 20]) < alike && mean([40, 0]) <= 1.0);
    let unknown = sums_of(of(Task::Math, "m/one", 0, [40, 0]));
    assert_eq!(quality(&unknown, &QualityScores::default(), &alone()), None, "without ratings for the class");
}

#[test]
fn ratings_of_one_account_for_another_class_move_a_shared_model_little() {
    let by = |rater: u64| Rated { rater, ..rated("m/one", rater, true) };
    let flood = (0..10_000).map(|at| Rated { task: Task::Math, ..rated("m/one", 1_000 + at, false) });
    let usual = (0..100).map(|at| Rated { task: Task::Math, rater: 9, ..rated("m/other", 20_000 + at, true) });
    let fair = sums_of([by(2), by(3)].into_iter().chain(usual));
    let mut flooded = fair.clone();
    flood.for_each(|rated| _ = flooded.add(&rated));
    let traffic = BTreeMap::from([(
        (Task::Math, Arc::from("m/one")),
        (1..=5).map(|account| ((account, TODAY), 3_000)).collect(),
    )]);
    let mean = |sums: &RatingSums| quality(sums, &QualityScores::default(), &traffic).unwrap().mean;
    assert!(mean(&fair) - mean(&flooded) < 0.05, "{} {}", mean(&fair), mean(&flooded));
}

#[test]
fn an_endpoint_learns_from_others_of_its_model_up_to_fifty_answers() {
    let sums = sums_of((0..1_000).map(|order| rated("m/one", order, order % 2 == 0)));
    let evidence = sums.evidence(TODAY, &alone(), SHARE);
    let of = table(&[("m/one", "acme"), ("m/one", "bolt")], &scores(0.9, 20), &evidence);
    let (rated, other) = (of[0].unwrap(), of[1].unwrap());
    assert!((rated.mean - 518.0 / 1_020.0).abs() < 1e-12 && rated.ratings == 1_000.0, "{rated:?}");
    assert!((other.mean - rated.mean).abs() < 1e-12, "{other:?}");
    assert!(other.ratings < 50.0 && other.tenth < rated.tenth - 0.05, "with less certainty: {other:?}");
}

#[test]
fn an_endpoint_with_a_score_of_its_own_learns_from_no_other_and_no_other_from_it() {
    let sums = sums_of((0..1_000).map(|order| rated("m/one", order, false)));
    let (model, own, none) = (scores(0.9, 20), scores(0.6, 20), QualityScores::default());
    let at = |provider: &str, own_scores| ScoredEndpoint {
        id: EndpointId::new("m/one", provider, ""),
        model: "m/one",
        scores: &model,
        own_scores,
    };
    let endpoints = [at("acme", &own), at("bolt", &none), at("crag", &own)];
    let evidence = sums.evidence(TODAY, &alone(), SHARE);
    let table = QualityTable::new(endpoints.into_iter(), &evidence);
    let mean = |position| table.get(position, Task::Code).unwrap().mean;
    assert!(mean(0) < 0.02, "{}", mean(0));
    assert_eq!((mean(1), mean(2)), (0.9, 0.6));
    let shown = report([("m/one", &model)], endpoints, &evidence);
    assert_eq!((shown[0].quality, shown[0].ratings), (table.get(1, Task::Code), 1_000), "of the others");
}

#[test]
fn judges_move_nothing_that_people_say() {
    let mut sums = sums_of((0..40).map(|order| rated("m/one", order, true)));
    let before = quality(&sums, &scores(0.5, 20), &alone());
    for order in 0..500 {
        sums.add(&Rated { is_judged: true, ..rated("m/one", 1_000 + order, false) });
    }
    assert_eq!(quality(&sums, &scores(0.5, 20), &alone()), before);
    let (known, evidence) = (scores(0.5, 20), sums.evidence(TODAY, &alone(), SHARE));
    let shown = report([("m/one", &known)], [], &evidence);
    let judged = shown[0].judged.unwrap();
    assert!(judged.mean < 0.05 && judged.ratings == 500.0, "but it is shown: {judged:?}");
}

#[test]
fn one_account_has_a_quarter_of_the_evidence_of_a_shared_model_however_much_it_rates() {
    let shared = traffic(&[("m/one", 20_000, 5)]);
    let others = |order: u64| Rated { rater: 2 + order % 4, ..rated("m/one", order, true) };
    let fair = sums_of((0..400).map(others));
    let mut flooded = fair.clone();
    for order in 0..10_000 {
        flooded.add(&rated("m/one", 1_000 + order, false));
    }
    let (fair, flooded) = (quality(&fair, &scores(0.9, 20), &shared), quality(&flooded, &scores(0.9, 20), &shared));
    let (fair, flooded) = (fair.unwrap(), flooded.unwrap());
    // It counts for a third of the 420 answers of the others and the score.
    assert!((flooded.ratings - 540.0).abs() < 1e-9, "{flooded:?}");
    assert!(flooded.mean >= 0.75 * fair.mean - 1e-12, "{fair:?} {flooded:?}");
    let alone = sums_of((0..10_000).map(|order| rated("m/one", order, false)));
    let unshared = quality(&alone, &scores(0.9, 20), &traffic(&[("m/one", 20_000, 1)])).unwrap();
    assert_eq!(unshared.ratings, 10_000.0, "nobody else uses it");
    let only_rater = quality(&alone, &scores(0.9, 20), &shared).unwrap();
    assert!(only_rater.mean >= 0.75 * 0.9 - 1e-12, "others use it: {only_rater:?}");
}

#[test]
fn ratings_at_twice_the_rate_of_other_models_steer_nothing_and_at_a_similar_one_they_do() {
    let of =
        |model: &'static str, from: u64, count: u64| (from..from + count).map(move |order| rated(model, order, false));
    let mut sums = sums_of(of("m/one", 0, 100).chain(of("m/other", 500, 50)));
    let known = scores(0.8, 20);
    let steering = |one: u64| quality(&sums, &known, &traffic(&[("m/one", one, 1), ("m/other", 1_000, 1)])).unwrap();
    assert_eq!((steering(1_000).mean, steering(1_000).ratings), (0.8, 0.0));
    assert!(steering(1_600).mean < 0.2, "1.25 times the rate: {:?}", steering(1_600));
    let evidence = sums.evidence(TODAY, &traffic(&[("m/one", 1_000, 1), ("m/other", 1_000, 1)]), SHARE);
    let shown = report([("m/one", &known)], [], &evidence);
    assert!(shown[0].is_selective && shown[0].quality.unwrap().mean < 0.2, "but it is shown: {shown:?}");
    assert_eq!(shown[0].rate, Some(0.1));
    // Nor do they tell at what a model without a score begins: its one accepted answer is all of its class.
    sums.add(&rated("m/new", 900, true));
    let evidence = sums.evidence(TODAY, &traffic(&[("m/one", 1_000, 1), ("m/other", 1_000, 1)]), SHARE);
    let new = table(&[("m/new", "acme")], &QualityScores::default(), &evidence)[0].unwrap();
    assert!((new.mean - (1.0 + 2.0 * 2.0 / 3.0) / 3.0).abs() < 1e-12, "{new:?}");
}

#[test]
fn ratings_of_answers_that_are_not_counted_yet_make_no_model_selective() {
    let of = |model: &'static str, from: u64, count: u64| (from..from + count).map(move |at| rated(model, at, true));
    let sums = sums_of(of("m/one", 0, 130).chain(of("m/other", 500, 520)));
    let evidence = sums.evidence(TODAY, &traffic(&[("m/one", 5, 1), ("m/other", 45, 1)]), SHARE);
    let known = scores(0.9, 20);
    let shown = report([("m/one", &known), ("m/other", &known)], [], &evidence);
    assert!(shown.iter().all(|shown| !shown.is_selective), "{shown:?}");
}

#[test]
fn answers_of_accounts_that_never_rate_count_in_the_rate() {
    let mut traffic = traffic(&[("m/one", 1_000, 5), ("m/other", 1_000, 5)]);
    traffic.insert((Task::Math, "m/one".into()), [((ANNA, TODAY), 900)].into());
    let evidence = sums_of((0..50).map(|at| rated("m/one", at, true))).evidence(TODAY, &traffic, SHARE);
    assert_eq!(report([("m/one", &scores(0.9, 20))], [], &evidence)[0].rate, Some(0.05));
}

#[test]
fn one_account_that_rates_all_of_its_answers_of_a_model_keeps_nobody_elses_ratings_from_steering() {
    let shared = traffic(&[("m/one", 5_000, 5), ("m/other", 5_000, 5)]);
    let is_selective = |of_anna: u64, of_each: u64| {
        let of = |model: &'static str, rater, count| {
            (0..count).map(move |at| Rated { rater, ..rated(model, rater * 10_000 + at, true) })
        };
        let others = (2..6).flat_map(|rater| of("m/one", rater, of_each).chain(of("m/other", rater, 50)));
        let sums = sums_of(of("m/one", ANNA, of_anna).chain(others));
        let evidence = sums.evidence(TODAY, &shared, SHARE);
        let known = scores(0.9, 20);
        let shown = report([("m/one", &known), ("m/other", &known)], [], &evidence);
        [shown[0].is_selective, shown[1].is_selective]
    };
    assert_eq!(is_selective(1_000, 50), [false; 2]);
    assert_eq!(is_selective(1_000, 150), [true; 2], "all of them do");
}

#[test]
fn an_account_that_rates_more_than_others_makes_no_model_selective_by_asking_it_more() {
    // Anna rates each second answer and asks the first model most, the others rate one in a hundred and ask the second.
    let by =
        |anna: u64, others: u64| (ANNA..ANNA + 5).map(move |at| ((at, TODAY), if at == ANNA { anna } else { others }));
    let traffic = TrafficTable::from([
        ((Task::Code, "m/one".into()), by(1_000, 200).collect()),
        ((Task::Code, "m/other".into()), by(200, 1_000).collect()),
    ]);
    let of = |model: &'static str, rater: u64, count: u64| {
        (0..count).map(move |at| Rated { rater, ..rated(model, rater * 10_000 + at, true) })
    };
    let ratings = (ANNA..ANNA + 5).flat_map(|rater| {
        let [one, other] = if rater == ANNA { [500, 100] } else { [2, 10] };
        of("m/one", rater, one).chain(of("m/other", rater, other))
    });
    let evidence = sums_of(ratings).evidence(TODAY, &traffic, SHARE);
    let known = scores(0.9, 20);
    let shown = report([("m/one", &known), ("m/other", &known)], [], &evidence);
    assert!(shown.iter().all(|shown| !shown.is_selective), "{shown:?}");
    assert!(shown[0].rate > Some(0.25) && shown[1].rate < Some(0.04), "though the rates of all differ: {shown:?}");
}

/// Uniform draws in the order of a seed.
fn draws(seed: u64) -> impl Iterator<Item = f64> {
    (0..).map(move |at: u64| (splitmix64(seed ^ splitmix64(at)) >> 11) as f64 / (1u64 << 53) as f64)
}

/// Ratings with these probabilities, a hundred a day. Gives which of them revealed a fall.
fn falls(seed: u64, probabilities: impl Iterator<Item = f64>) -> Vec<usize> {
    let mut sums = RatingSums::default();
    let rated = probabilities.zip(draws(seed)).enumerate().filter_map(|(at, (probability, drawn))| {
        let day = TODAY + (at / 100) as i32;
        sums.add(&Rated { day, ..rated("m/one", at as u64, drawn < probability) }).map(|_| at)
    });
    rated.collect()
}

#[test]
fn a_fall_from_nine_tenths_to_six_is_found_within_sixty_ratings_in_nine_of_ten_runs() {
    let found = (0..200).filter(|seed| {
        let at = falls(*seed, (0..560).map(|at| if at < 500 { 0.9 } else { 0.6 }));
        at.iter().any(|at| *at >= 500)
    });
    let found = found.count();
    assert!(found >= 180, "{found} of 200");
}

#[test]
fn a_constant_quality_raises_an_alarm_in_less_than_one_of_a_hundred_windows_of_a_thousand_ratings() {
    let alarms = (0..2_000).filter(|seed| !falls(*seed, (0..1_000).map(|_| 0.8)).is_empty()).count();
    assert!(alarms < 20, "{alarms} of 2,000");
}

#[test]
fn after_a_fall_what_is_older_counts_half_and_the_fall_is_told_once() {
    let at = falls(7, (0..1_000).map(|at| if at < 500 { 1.0 } else { 0.3 }));
    assert_eq!(at.len(), 1, "{at:?}");
    let ratings = |days: i32, from: u64, good: bool| {
        (0..200).map(move |at| Rated { day: TODAY - days, ..rated("m/one", from + at, good) })
    };
    let sums = sums_of(ratings(10, 0, true).chain(ratings(0, 200, false)));
    let fallen = quality(&sums, &scores(0.5, 20), &alone()).unwrap();
    let expected = 200.0 * (0.5 * libm::exp2(-10.0 / 30.0) + 1.0);
    assert!((fallen.ratings - expected).abs() < 1e-9, "{fallen:?}, not {expected}");
    let (known, evidence) = (scores(0.5, 20), sums.evidence(TODAY, &alone(), SHARE));
    let drift = report([("m/one", &known)], [], &evidence)[0].drift.unwrap();
    assert_eq!(drift.before, 1.0);
}

#[test]
fn a_fall_that_one_account_reports_takes_nothing_from_what_others_said() {
    let others = |at: u64| Rated { rater: 2 + at % 5, day: TODAY - 1, ..rated("m/one", at, true) };
    let before = sums_of((0..300).map(others));
    let mut after = before.clone();
    let found = (300..400).filter(|at| after.add(&rated("m/one", *at, false)).is_some()).count();
    assert_eq!(found, 1);
    let [before, after] = [before, after].map(|sums| quality(&sums, &scores(0.9, 20), &alone()).unwrap());
    let fair = 300.0 * libm::exp2(-1.0 / 30.0);
    assert!(
        (before.ratings - fair).abs() < 1e-9 && (after.ratings - fair - 100.0).abs() < 1e-9,
        "{before:?} {after:?}"
    );
}

#[test]
fn a_fall_that_every_account_sees_halves_what_all_of_them_said_before() {
    let of_five = |at: u64, day: i32, good: bool| Rated { rater: 2 + at % 5, day, ..rated("m/one", at, good) };
    let before = (0..300).map(|at| of_five(at, TODAY - 1, at % 11 < 10));
    let after = (300..400).map(|at| of_five(at, TODAY, false));
    let fallen = quality(&sums_of(before.chain(after)), &scores(0.9, 20), &alone()).unwrap();
    let expected = 300.0 * 0.5 * libm::exp2(-1.0 / 30.0) + 100.0;
    assert!((fallen.ratings - expected).abs() < 1e-9, "{fallen:?}, not {expected}");
}

#[test]
fn a_fall_that_was_shown_by_ratings_withdrawn_since_halves_nothing() {
    let bad = |at: u64| rated("m/one", at, false);
    let good = |at: u64| Rated { day: TODAY - 1, ..rated("m/one", at, true) };
    let (of_all, fair) =
        (|sums: &RatingSums| quality(sums, &scores(0.9, 20), &alone()).unwrap(), sums_of((0..300).map(good)));
    let mut sums = fair.clone();
    assert_eq!((300..400).filter_map(|at| sums.add(&bad(at))).count(), 1);
    sums.remove(&bad(399));
    assert!(of_all(&sums).ratings < 250.0, "those that are left show it: {:?}", of_all(&sums));
    (300..399).for_each(|at| _ = sums.remove(&bad(at)));
    assert_eq!(of_all(&sums), of_all(&fair));
}

#[test]
fn a_fall_that_later_ratings_dilute_stays_when_an_old_one_is_withdrawn_and_all_are_to_be_read_anew() {
    let of = |at: u64| rated("m/one", at, if at < 150 { !at.is_multiple_of(10) } else { !at.is_multiple_of(2) });
    let mut sums = sums_of((0..310).map(of));
    let drift =
        |sums: &RatingSums| report([("m/one", &scores(0.9, 20))], [], &sums.evidence(TODAY, &alone(), SHARE))[0].drift;
    let found = drift(&sums);
    assert!(found.is_some() && sums.remove(&of(0)));
    assert_eq!(drift(&sums), found);
    assert!(drift(&sums_of((1..310).map(of))).is_some(), "read anew it is there too");
}

/// Twice the ratings that are good, and then as many bad ones, by five accounts on some days.
fn falling(seed: u64) -> Vec<Rated> {
    let rated = |(at, drawn): (u64, f64)| Rated {
        rater: ANNA + at % 5,
        day: TODAY + (at / 40) as i32,
        ..rated("m/one", at, drawn < if at < 140 { 0.9 } else { 0.4 })
    };
    (0..220).zip(draws(seed)).map(rated).collect()
}

#[test]
fn a_rating_that_is_withdrawn_leaves_nothing_behind_whatever_it_had_shown() {
    let mut falls = 0;
    for seed in 0..12 {
        let (mut sums, ratings) = (RatingSums::default(), falling(seed));
        for next in ratings {
            for accepted in [true, false] {
                let gone =
                    Rated { order: (0, next.order.1), accepted: if accepted { UNIT } else { 0 }, ..next.clone() };
                let mut after = sums.clone();
                falls += usize::from(after.add(&gone).is_some());
                after.remove(&gone);
                let seen = |sums: &RatingSums| sums.evidence(TODAY, &alone(), SHARE);
                assert_eq!(seen(&after), seen(&sums), "{seed} {gone:?}");
                assert_eq!(after.add(&next), sums.clone().add(&next), "{seed}, and in what follows");
            }
            sums.add(&next);
        }
    }
    assert!(falls > 6, "{falls} of them had shown a fall");
}

#[test]
fn a_fall_goes_with_the_rating_that_revealed_it_also_if_later_ones_went_before() {
    let ratings = falling(3);
    let mut sums = RatingSums::default();
    let revealing = ratings.iter().position(|rated| sums.add(rated).is_some()).unwrap();
    let fair = sums_of(ratings[..revealing].iter().cloned());
    let seen = |sums: &RatingSums| sums.evidence(TODAY, &alone(), SHARE);
    let later = &ratings[revealing + 1..revealing + 13];
    let mut sums = sums_of(ratings[..revealing + 13].iter().cloned());
    sums.remove(&ratings[revealing]);
    let drift = |sums: &RatingSums| report([("m/one", &scores(0.9, 20))], [], &seen(sums))[0].drift;
    assert!(drift(&sums).is_some(), "those that are left reveal it");
    let mut sums = sums_of(ratings[..revealing + 13].iter().cloned());
    later.iter().rev().chain([&ratings[revealing]]).for_each(|rated| _ = sums.remove(rated));
    assert_eq!(seen(&sums), seen(&fair));
}

#[test]
fn when_withdrawn_ratings_had_pushed_others_out_of_the_window_they_are_to_be_read_anew() {
    let good = |at| rated("m/one", at, true);
    let mut sums = sums_of((0..200).map(good));
    for at in 200..300 {
        sums.add(&good(at));
        assert!(!sums.remove(&good(at)), "one that comes and goes pushes none out");
    }
    (300..360).for_each(|at| _ = sums.add(&good(at)));
    let told = (300..360).filter(|at| sums.remove(&good(*at))).count();
    assert_eq!(told, 4, "of 112 that are remembered the first 56 may go");
    let mut few = sums_of((0..30).map(good));
    assert!((0..30).all(|at| !few.remove(&good(at))), "there are no others");
}

#[test]
fn an_account_that_begins_to_rate_or_pauses_makes_no_model_selective() {
    // Each day so many answers of each model, and whether they are rated.
    let is_selective = |days: &[(u64, u64, bool)]| {
        let (mut sums, mut traffic) = (RatingSums::default(), TrafficTable::new());
        for (day, (one, other, are_rated)) in (TODAY..).zip(days) {
            for (model, count) in [("m/one", *one), ("m/other", *other)] {
                traffic.entry((Task::Code, model.into())).or_default().insert((ANNA, day), count);
                let order = |at: u64| at + 1_000 * day as u64 + if model == "m/one" { 0 } else { 500 };
                let of = |at: u64| Rated { day, ..rated(model, order(at), true) };
                (0..count).filter(|_| *are_rated).for_each(|at| _ = sums.add(&of(at)));
            }
        }
        let (evidence, known) = (sums.evidence(TODAY + days.len() as i32, &traffic, SHARE), scores(0.9, 20));
        report([("m/one", &known)], [], &evidence)[0].is_selective
    };
    assert!(!is_selective(&[(20, 200, false), (100, 100, true)]), "it begins when traffic has moved");
    assert!(!is_selective(&[(100, 100, true), (20, 200, false)]), "traffic moves when it has ended");
    assert!(!is_selective(&[(100, 20, true), (20, 200, false), (100, 20, true)]));
}

/// Ratings in which everything differs.
fn any_rated() -> impl Strategy<Value = Rated> {
    let whom = (
        0..2_u8,
        0..3_u64,
        any::<bool>(),
        prop_oneof![Just(0), Just(i32::MIN), Just(i32::MAX), TODAY - 400..TODAY + 2],
    );
    let what = (any::<(i64, u64)>(), 1..=UNIT, 0.0..=1.0_f64);
    (whom, what).prop_map(|((model, rater, is_judged, day), (order, weight, share))| Rated {
        is_judged,
        rater,
        day,
        order,
        weight,
        accepted: (weight as f64 * share) as i64,
        ..rated(["m/one", "m/other"][usize::from(model)], 0, true)
    })
}

proptest! {
    #[test]
    fn what_is_withdrawn_leaves_nothing_behind(kept in prop::collection::vec(any_rated(), 0..40), gone in any_rated()) {
        prop_assume!(kept.iter().all(|rated| rated.order != gone.order));
        let before = sums_of(kept);
        let mut after = before.clone();
        after.add(&gone);
        after.remove(&gone);
        prop_assert_eq!(after.is_empty(), before.is_empty());
        let seen = |sums: &RatingSums| sums.evidence(TODAY, &alone(), SHARE);
        prop_assert_eq!(seen(&after), seen(&before));
    }

    #[test]
    fn the_order_of_ratings_does_not_matter(mut ratings in prop::collection::vec(any_rated(), 0..40), now in TODAY - 500..TODAY + 500) {
        let forwards = sums_of(ratings.clone()).evidence(now, &alone(), SHARE);
        ratings.reverse();
        prop_assert_eq!(sums_of(ratings).evidence(now, &alone(), SHARE), forwards);
    }

    #[test]
    fn no_ratings_make_of_a_belief_what_is_no_probability(
        ratings in prop::collection::vec(any_rated(), 0..200),
        now in prop_oneof![Just(i32::MIN), Just(i32::MAX), TODAY - 500..TODAY + 500],
        score in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.0), Just(1.0), 0.0..1.0_f64],
        count in any::<u32>(),
        accounts in 1..3_u64,
        share in 0.01..=1.0_f64,
    ) {
        let evidence = sums_of(ratings).evidence(now, &traffic(&[("m/one", 100, accounts)]), share);
        let endpoints = [("m/one", "acme"), ("m/one", "bolt"), ("m/other", "acme")];
        for known in [scores(score, count), QualityScores::default()] {
            for quality in table(&endpoints, &known, &evidence).into_iter().flatten() {
                prop_assert!(quality.mean > 0.0 && quality.mean < 1.0, "{:?}", quality);
                prop_assert!((0.0..1.0).contains(&quality.tenth), "{:?}", quality);
                prop_assert!(quality.ratings >= 0.0 && quality.ratings.is_finite(), "{:?}", quality);
            }
        }
    }
}
