use super::*;

/// So many ratings of a model, of which these are accepted, by an account.
fn ratings(model: &'static str, rater: u64, [accepted, rejected]: [u64; 2]) -> impl Iterator<Item = Rated> {
    let order = seeded_order(model, rater);
    (0..accepted + rejected).map(move |at| Rated { rater, ..rated(model, order + at, at < accepted) })
}

/// Ratings of other models and accounts have other orders.
fn seeded_order(model: &str, rater: u64) -> u64 {
    100_000 * (rater + 10 * model.bytes().map(u64::from).sum::<u64>())
}

/// Of two models: what is believed of each by itself, and beside the other.
fn beside(ratings: [Vec<Rated>; 2], scores: &QualityScores, traffic: &TrafficTable) -> [[Quality; 2]; 2] {
    let of = |ratings: Vec<Rated>, models: &[(&str, &str)]| {
        let evidence = sums_of(ratings).evidence(TODAY, traffic, SHARE);
        table(models, scores, &evidence).into_iter().map(Option::unwrap).collect::<Vec<_>>()
    };
    let (one, two) = (("m/one", "acme"), ("m/two", "acme"));
    let both = of(ratings.concat(), &[one, two]);
    let [first, second] = ratings;
    [[of(first, &[one])[0], of(second, &[two])[0]], [both[0], both[1]]]
}

#[test]
fn a_difference_that_chance_makes_of_equal_models_counts_for_neither_and_one_that_it_does_not_make_counts_in_full() {
    let rated =
        |[one, two]: [[u64; 2]; 2]| [ratings("m/one", ANNA, one).collect(), ratings("m/two", ANNA, two).collect()];
    for counts in [[[2_025, 475], [1_975, 525]], [[45, 5], [1_700, 300]]] {
        let [own, [one, two]] = beside(rated(counts), &scores(0.8, 20), &alone());
        assert!((one.mean - two.mean).abs() < 1e-12, "{one:?} {two:?}");
        let spread = |of: Quality| of.mean - of.tenth;
        assert!(spread(one) > 0.8 * spread(own[0]), "no surer than by its own ratings: {own:?} {one:?}");
        assert_eq!([one, two].map(|of| of.ratings), counts.map(|[a, b]| (a + b) as f64), "each tells its own");
        let [accepted, rejected] = [0, 1].map(|of: usize| (counts[0][of] + counts[1][of]) as f64);
        let pooled = (16.0 + accepted) / (20.0 + accepted + rejected);
        assert!((one.mean - pooled).abs() < 1e-12, "{one:?} {pooled}");
    }
    let [own, [one, two]] = beside(rated([[800, 200], [700, 300]]), &scores(0.8, 20), &alone());
    assert!((one.mean - own[0].mean).abs() < 1e-3 && (two.mean - own[1].mean).abs() < 1e-3, "{own:?} {one:?} {two:?}");
    let [own, [one, two]] = beside(rated([[2_500, 0], [0, 0]]), &scores(0.8, 20), &alone());
    assert_eq!([one, two], own, "a model without ratings keeps its score");
}

#[test]
fn measured_scores_tell_models_apart_that_a_few_ratings_do_not() {
    let (good, bad) = (scores(0.9, 400), scores(0.8, 400));
    let none = QualityScores::default();
    let at = |model: &'static str, scores| ScoredEndpoint {
        id: EndpointId::new(model, "acme", ""),
        model,
        scores,
        own_scores: &none,
    };
    let sums = sums_of(ratings("m/one", ANNA, [18, 2]).chain(ratings("m/two", ANNA, [16, 4])));
    let evidence = sums.evidence(TODAY, &alone(), SHARE);
    let table = QualityTable::new([at("m/one", &good), at("m/two", &bad)].into_iter(), &evidence);
    let [one, two] = [0, 1].map(|at| table.get(at, Task::Code).unwrap().mean);
    assert!(one - two > 0.06, "{one} {two}");
}

#[test]
fn one_account_that_uses_a_model_alone_moves_an_alike_one_that_others_use_by_its_share_at_most() {
    let shared: TrafficTable =
        [((Task::Code, "m/one".into()), (2..7).map(|account| ((account, TODAY), 100)).collect())].into();
    for count in [1, 8, 40, 200] {
        for share in [0, 2, 4, 6, 8, 10] {
            let others = (2..7).flat_map(|rater| ratings("m/one", rater, [count * 3, count])).collect();
            let flood = ratings("m/two", ANNA, [1_000 * share, 10_000 - 1_000 * share]).collect();
            let [[own, _], [one, _]] = beside([others, flood], &scores(0.75, 1), &shared);
            let most = SHARE * (share as f64 / 10.0 - own.mean).abs() + 1e-3;
            assert!((one.mean - own.mean).abs() <= most, "{count} {share}: {own:?} {one:?}");
        }
    }
}

#[test]
fn an_endpoint_without_ratings_is_believed_as_its_alike_sibling_is() {
    let sums = sums_of(ratings("m/one", ANNA, [810, 190]).chain(ratings("m/two", ANNA, [790, 210])));
    let evidence = sums.evidence(TODAY, &alone(), SHARE);
    let of = table(&[("m/one", "acme"), ("m/one", "bolt"), ("m/two", "acme")], &scores(0.8, 20), &evidence);
    let [rated, unrated, other] = [0, 1, 2].map(|at: usize| of[at].unwrap());
    assert!((rated.mean - other.mean).abs() < 1e-12 && (rated.mean - unrated.mean).abs() < 1e-12, "{of:?}");
    assert!(unrated.tenth < rated.tenth - 0.05, "with less certainty: {of:?}");
}
