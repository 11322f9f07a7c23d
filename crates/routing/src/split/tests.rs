use pointsman_domain::{Canary, Guardrail, SplitRule, SplitShare};
use proptest::prelude::*;

use super::*;

fn names(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn split(weights: &[f64], canary: Option<f64>) -> AliasSplit {
    AliasSplit {
        sticky: StickyBy::Session,
        ladder: Vec::new(),
        rules: Vec::new(),
        canary: canary.map(|share| Canary { share, names: names("canary/x"), guardrail: Guardrail::default() }),
        shares: weights.iter().map(|weight| SplitShare { weight: *weight, names: names("share/x") }).collect(),
    }
}

fn places() -> impl Iterator<Item = u16> {
    0..=u16::MAX
}

#[test]
fn every_part_has_exactly_the_places_of_its_probability() {
    for split in
        [split(&[0.1, 0.25], Some(0.05)), split(&[0.5, 0.5], Some(0.25)), split(&[1.0], None), split(&[], Some(0.01))]
    {
        let all = parts(&split, false);
        let total: f64 = all.iter().map(|(_, probability)| probability).sum();
        assert!((total - 1.0).abs() < 1e-12, "{all:?}");
        for (part, probability) in all {
            let count = places().filter(|place| part_at(&split, *place, false) == (part, probability)).count();
            assert_eq!(count as f64 / f64::from(PLACES), probability, "{part:?} of {split:?}");
        }
    }
}

#[test]
fn a_canary_takes_an_equal_share_of_every_part() {
    let split = split(&[0.2, 0.3], Some(0.05));
    let (with, without) = (parts(&split, false), parts(&split, true));
    assert_eq!(with[0].0, SplitPart::Canary);
    for ((part, reduced), (_, whole)) in with[1..].iter().zip(&without) {
        assert!((reduced / whole - 0.95).abs() < 1e-4, "{part:?}: {reduced} of {whole}");
    }
}

#[test]
fn a_canary_that_fell_back_leaves_everybody_where_they_would_be_without_it() {
    let (tried, plain) = (split(&[0.2, 0.3], Some(0.25)), split(&[0.2, 0.3], None));
    assert!(places().all(|place| part_at(&tried, place, true) == part_at(&plain, place, false)));
}

#[test]
fn a_growing_canary_keeps_the_requests_that_it_has() {
    let (small, large) = (split(&[0.4], Some(0.05)), split(&[0.4], Some(0.25)));
    let on_trial = |split: &AliasSplit, place| part_at(split, place, false).0 == SplitPart::Canary;
    assert!(places().filter(|place| on_trial(&small, *place)).all(|place| on_trial(&large, place)));
}

#[test]
fn hashed_places_give_shares_within_three_standard_errors() {
    let split = split(&[0.1], Some(0.05));
    let sessions = 40_000;
    for (part, probability) in parts(&split, false) {
        let of = |n: u32| part_at(&split, place("service/chat", 7, &n.to_le_bytes()), false).0;
        let count = (0..sessions).filter(|n| of(*n) == part).count() as f64;
        let error = (f64::from(sessions) * probability * (1.0 - probability)).sqrt();
        assert!((count - f64::from(sessions) * probability).abs() < 3.0 * error, "{part:?}: {count}");
    }
}

#[test]
fn the_place_of_a_session_is_the_same_everywhere_and_another_for_another_alias_or_caller() {
    assert_eq!(place("service/chat", 7, b"session"), place("service/chat", 7, b"session"));
    assert_eq!(place("service/chat", 7, b"session"), 34_018, "replicas and restarts give the same place");
    let others = [
        place("service/code", 7, b"session"),
        place("service/chat", 8, b"session"),
        place("service/chat", 7, b"other"),
    ];
    assert!(others.iter().all(|other| *other != place("service/chat", 7, b"session")), "{others:?}");
}

#[test]
fn the_first_rule_whose_tags_are_all_there_counts() {
    let rule = |tags: &[(&str, &str)]| SplitRule {
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        names: names("rule/x"),
    };
    let split = AliasSplit {
        rules: vec![rule(&[("plan", "pro"), ("beta", "yes")]), rule(&[("plan", "pro")])],
        ..split(&[], None)
    };
    let tags = |text: &str| -> Vec<(String, String)> {
        text.split_whitespace()
            .filter_map(|tag| tag.split_once('='))
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect()
    };
    for (text, expected) in
        [("plan=pro", Some(1)), ("beta=yes plan=pro", Some(0)), ("plan=free beta=yes", None), ("", None)]
    {
        assert_eq!(matching_rule(&split, &tags(text)), expected, "{text}");
    }
}

#[test]
fn another_place_of_a_small_part_does_not_depend_on_the_true_one() {
    let split = Arc::new(split(&[0.0001], Some(0.5)));
    for (part, probability) in parts(&split, false) {
        let of_part = || places().filter(|place| part_at(&split, *place, false).0 == part);
        let [first, last] = [of_part().next(), of_part().last()].map(Option::unwrap);
        let taken = |place| TakenSplit {
            requested: Vec::new(),
            alias: 0,
            split: Arc::clone(&split),
            sticky: StickyBy::User,
            place,
            canary_stopped: false,
            part,
            probability,
        };
        let another = |place, seed| another_place(&taken(place), seed);
        assert!((0..2_000).all(|seed| another(first, seed) == another(last, seed)), "{part:?}");
        let drawn: std::collections::BTreeSet<u16> = (0..2_000).map(|seed| another(first, seed)).collect();
        assert!(drawn.len() > 1_900.min((probability * f64::from(PLACES)) as usize - 1), "{part:?}: {}", drawn.len());
        assert!(drawn.iter().all(|place| part_at(&split, *place, false).0 == part), "{part:?}");
    }
}

proptest! {
    #[test]
    fn any_definition_gives_the_recorded_part_again(
        weights in prop::collection::vec(0.0001..0.3_f64, 0..4),
        canary in prop::option::of(0.0001..1.0_f64),
        place in any::<u16>(),
        canary_stopped in any::<bool>(),
    ) {
        let split = Arc::new(split(&weights, canary));
        let (part, probability) = part_at(&split, place, canary_stopped);
        prop_assert!(probability > 0.0 && probability <= 1.0);
        let taken = TakenSplit {
            requested: vec![Target::Alias(0)], alias: 0, split, sticky: StickyBy::User, place, canary_stopped, part, probability,
        };
        prop_assert!(is_reproduced(&taken));
        let moved = TakenSplit { place: another_place(&taken, 1), ..taken.clone() };
        prop_assert!(is_reproduced(&moved));
        let likeliest = part_at(&taken.split, likeliest_place(&taken.split, canary_stopped), canary_stopped).1;
        prop_assert!(parts(&taken.split, canary_stopped).iter().all(|(_, other)| *other <= likeliest));
        let other = TakenSplit { probability: probability / 2.0, ..taken };
        prop_assert!(!is_reproduced(&other));
    }
}
