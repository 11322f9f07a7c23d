use super::{
    estimators::{difference, direct_method, doubly_robust, ips, recorded, snips},
    *,
};
use crate::stats::splitmix64;
use pointsman_domain::EndpointId;

/// By hand: four requests, a policy that always chooses C, predictions 1.5 for C and 3.5 for B.
fn by_hand() -> Observations {
    let request = |(cluster, (is_c, probability, outcome)): (u64, (bool, f64, f64))| Observation {
        cluster,
        weight: if is_c { 1.0 / probability } else { 0.0 },
        outcome,
        predicted: if is_c { 1.5 } else { 3.5 },
        own: if is_c { 1.5 } else { 3.5 },
        expected: 1.5,
        expected_unsupported: 0.0,
        unsupported: 0.0,
    };
    let all = [(true, 0.5, 2.0), (false, 0.5, 4.0), (true, 0.25, 1.0), (false, 0.75, 3.0)];
    Observations::new((0..).zip(all).map(request).collect())
}

#[test]
fn the_example_by_hand_gives_the_known_figures_and_is_refused_for_its_effective_sample() {
    let all = by_hand();
    let diagnostics = Diagnostics::new(&all);
    assert_eq!(ips(&all).value, 2.0);
    assert!((snips(&all).value - 4.0 / 3.0).abs() < 1e-15);
    assert_eq!((doubly_robust(&all).value, direct_method(&all)), (1.25, 1.5));
    assert!((diagnostics.effective - 1.8).abs() < 1e-12);
    assert_eq!((diagnostics.mean_weight.value, diagnostics.matched, diagnostics.agreement()), (1.5, 2, 0.5));
    let sample = sample(4, |n| [(2.0, 2.0), (0.0, 4.0), (4.0, 1.0), (0.0, 3.0)][n as usize]);
    let spend = &sample.estimates(name)[0];
    assert!(matches!(spend.refusals[..], [Finding::FewEffective(effective)] if (effective - 1.8).abs() < 1e-12));
    assert_eq!(spend.interval, None);
}

fn name(endpoint: EndpointId) -> String {
    format!("model at provider-{}", endpoint.0)
}

/// Requests with these weights and costs, a cluster each, and one label.
fn sample(count: u64, of: impl Fn(u64) -> (f64, f64)) -> Sample {
    let mut sample = Sample::default();
    for n in 0..count {
        let (weight, cost) = of(n);
        let known = |outcome: f64| Measured::Known {
            outcome,
            predicted: 1.5,
            own: 1.5,
            expected: 1.5,
            expected_unsupported: 0.0,
        };
        let request = LoggedRequest {
            draw: n,
            cluster: n,
            choice: Some(EndpointId(n % 2)),
            weight,
            unsupported: 0.0,
            has_chance: true,
            outcomes: [known(cost), Measured::NotApplicable, Measured::NotApplicable, Measured::NotApplicable],
        };
        sample.add(request, vec![("objective", "cheapest".to_owned())]);
    }
    sample.sort();
    sample
}

/// A share of 1 from a seed.
fn unit(seed: u64) -> f64 {
    (splitmix64(seed) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Half of the requests went to a cheap endpoint by chance; the other policy sends all there.
fn coin(n: u64) -> (f64, f64) {
    if unit(n).lt(&0.5) { (2.0, 1.0 + unit(n + 1_000_000)) } else { (0.0, 3.0 + unit(n + 1_000_000)) }
}

#[test]
fn with_enough_support_there_is_a_figure_with_an_interval_that_holds_the_truth() {
    let sample = sample(4_000, coin);
    let spend = &sample.estimates(name)[0];
    assert!(spend.refusals.is_empty(), "{:?}", spend.refusals);
    let truth = 1.5 / 2.5 - 1.0;
    let [least, most] = spend.interval.unwrap();
    assert!(least < truth && truth < most && most - least < 0.06, "{least} {most}");
    let [early, late] = spend.any_time.unwrap();
    let wider = (late - early) / (most - least);
    assert!((1.4..2.2).contains(&wider), "an interval for repeated looks is {wider} times as wide");
}

#[test]
fn the_same_policy_gives_the_plain_mean() {
    let all: Vec<Observation> =
        by_hand().iter().map(|one| Observation { weight: 1.0, expected: one.predicted, ..*one }).collect();
    let all = Observations::new(all);
    for estimate in [ips(&all).value, snips(&all).value, doubly_robust(&all).value] {
        assert_eq!(estimate, recorded(&all).value);
    }
    assert_eq!((difference(&all).value, difference(&all).error), (0.0, 0.0));
}

#[test]
fn requests_of_one_session_widen_the_interval_and_do_not_narrow_it() {
    let single: Vec<Observation> = by_hand().iter().copied().collect();
    let tenfold = Observations::new(single.iter().flat_map(|one| [*one; 10]).collect());
    let (once, ten) = (doubly_robust(&by_hand()), doubly_robust(&tenfold));
    assert!((once.value - ten.value).abs() < 1e-12);
    assert!((once.error - ten.error).abs() < 1e-12, "{} {}", once.error, ten.error);
    let apart =
        Observations::new((0..).zip(tenfold.iter()).map(|(cluster, one)| Observation { cluster, ..*one }).collect());
    assert!(doubly_robust(&apart).error < 0.4 * ten.error, "as if each were on its own");
}

#[test]
fn probabilities_that_are_not_those_of_the_choices_are_refused() {
    let right = sample(4_000, coin);
    let halved = sample(4_000, |n| (coin(n).0 * 2.0, coin(n).1));
    let refused = |sample: &Sample| sample.estimates(name)[0].refusals.clone();
    assert_eq!(refused(&right), []);
    assert!(
        matches!(refused(&halved)[..], [Finding::Weights(mean, wanted, _)] if (mean - 2.0).abs() < 0.1 && wanted.eq(&1.0))
    );
}

#[test]
fn without_support_for_a_fifth_there_is_no_headline_and_the_bounds_hold_the_truth() {
    let mut sample = Sample::default();
    for n in 0..4_000 {
        // A fifth of the other policy's choices cost 9 and were never made.
        let (weight, cost) = coin(n);
        let outcome = if n == 0 { 9.0 } else { cost };
        let known =
            Measured::Known { outcome, predicted: 1.5, own: 1.5, expected: 0.8 * 1.5, expected_unsupported: 0.2 * 1.5 };
        sample.add(
            LoggedRequest {
                draw: n,
                cluster: n,
                choice: None,
                weight: 0.8 * weight,
                unsupported: 0.2,
                has_chance: true,
                outcomes: [known, Measured::NotApplicable, Measured::NotApplicable, Measured::NotApplicable],
            },
            Vec::new(),
        );
    }
    sample.sort();
    let spend = &sample.estimates(name)[0];
    assert_eq!(spend.interval, None);
    let Some(Bound::Unsupported([least, most])) = spend.bound else { panic!("{:?}", spend.bound) };
    let truth = 0.8 * 1.5 + 0.2 * 9.0;
    assert!(least < truth && truth < most, "{least} {truth} {most}");
    assert!(spend.refusals[0].to_string().starts_with("20.0 % of what the other configuration would choose"));
}

#[test]
fn few_failures_give_an_exact_interval_of_the_effective_sample_and_hardly_any_a_bound() {
    let with = |every: u64| {
        let mut sample = Sample::default();
        for n in 0..4_000 {
            let outcome = f64::from(u8::from(n % every == 0));
            let known =
                Measured::Known { outcome, predicted: 0.01, own: 0.01, expected: 0.01, expected_unsupported: 0.0 };
            let outcomes = [Measured::NotApplicable, known, Measured::NotApplicable, Measured::NotApplicable];
            let (choice, weight) = (None, coin(n).0);
            let request =
                LoggedRequest { draw: n, cluster: n, choice, weight, unsupported: 0.0, has_chance: true, outcomes };
            sample.add(request, Vec::new());
        }
        sample.sort();
        sample.estimates(name).remove(0)
    };
    assert!(with(20).interval.is_some() && with(20).bound.is_none());
    let Some(Bound::FewFailures([least, most])) = with(400).bound else { panic!("{:?}", with(400).bound) };
    assert!(least < 0.0025 && 0.0025 < most && with(400).interval.is_none(), "{least} {most}");
    let Some(Bound::AtMost(most)) = with(3_999).bound else { panic!("{:?}", with(3_999).bound) };
    assert!(most < 0.005, "{most}");
}

#[test]
fn a_part_without_support_is_named_although_the_whole_has_enough() {
    let mut all = sample(4_000, coin);
    for n in 0..400 {
        let known =
            Measured::Known { outcome: 2.0, predicted: 2.0, own: 2.0, expected: 2.0, expected_unsupported: 0.0 };
        let outcomes = [known, Measured::NotApplicable, Measured::NotApplicable, Measured::NotApplicable];
        let weight = if n % 20 == 0 { 20.0 } else { 0.0 };
        let cluster = 10_000 + n;
        all.add(
            LoggedRequest { draw: n, cluster, choice: None, weight, unsupported: 0.0, has_chance: true, outcomes },
            vec![("objective", "reliable".to_owned())],
        );
    }
    all.sort();
    let warnings = &all.estimates(name)[0].warnings;
    let thin = warnings.iter().find(|finding| matches!(finding, Finding::ThinSlice(..))).unwrap();
    assert!(
        thin.to_string().starts_with("objective reliable has too little support of its own (effective 20 requests)")
    );
}

#[test]
fn times_are_refused_where_traffic_grows_beyond_what_an_endpoint_carries() {
    let grown = |factor: f64, knee: f64| {
        let mut shifts = TrafficShifts::default();
        for _ in 0..100 {
            shifts.add(EndpointId(7), [0.1, 0.1 * factor], [3.0, knee]);
        }
        let shift = TrafficShift { name: "small at acme".to_owned(), ..shifts.growing(100).remove(0) };
        finding::about_shifts(&[shift])
    };
    let counts = |[refusals, warnings]: [Vec<Finding>; 2]| (refusals.len(), warnings.len());
    assert_eq!(counts(grown(1.2, 5.0)), (0, 0));
    assert_eq!(counts(grown(2.5, 5.0)), (0, 1));
    assert_eq!(counts(grown(5.0, 50.0)), (0, 1), "it stays below its knee");
    let [refusals, _] = grown(5.0, 5.0);
    assert_eq!(
        refusals[0].to_string(),
        "small at acme would carry 5.0 times its traffic, about 15.0 requests in flight instead of 3.0, and slows down from 5.0 \
         on: run it as a canary before you believe times and failures"
    );
    let mut shifts = TrafficShifts::default();
    shifts.add(EndpointId(7), [0.0, 1.0], [0.0, 5.0]);
    let refused = |shifts: &TrafficShifts| {
        let [refusals, _] = finding::about_shifts(&shifts.growing(1));
        refusals[0].to_string()
    };
    let unknown = refused(&shifts);
    assert!(unknown.contains("traffic that it never had, an unknown number of requests in flight"), "{unknown}");
    shifts.carry(EndpointId(7), 6.0);
    let known = refused(&shifts);
    assert!(known.contains("traffic that it never had, about 6.0 requests in flight instead of 0.0"), "{known}");
}

#[test]
fn outcomes_that_are_missing_refuse_a_figure_if_they_are_many_or_uneven() {
    let [refusals, warnings] = finding::about_missing(0.03, None);
    assert!(matches!(refusals[..], [Finding::Missing(_)]) && warnings.is_empty());
    let [refusals, warnings] = finding::about_missing(0.01, Some([0.0, 0.02]));
    assert!(matches!(refusals[..], [Finding::MissingUnevenly(..)]) && matches!(warnings[..], [Finding::Missing(_)]));
    assert_eq!(finding::about_missing(0.0, None), [Vec::new(), Vec::new()]);
}

#[test]
fn exact_intervals_of_shares_are_the_known_ones() {
    for (seen, of, expected) in [
        (0.0, 10.0, [0.0, 0.308_497]),
        (5.0, 10.0, [0.187_086, 0.812_914]),
        (10.0, 10.0, [0.691_503, 1.0]),
        (3.0, 200.0, [0.003_104, 0.043_208]),
    ] {
        let found = clopper_pearson(seen, of);
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-5), "{seen} of {of}: {found:?}");
    }
}

/// Requests half of which went to each endpoint by chance; the first is accepted in 70 %, the second in 90 %, and such shares of the
/// answers are rated. The other policy sends all to the first.
fn rated_sample(rates: [f64; 2]) -> Sample {
    let (mut sample, mut ratings) = (Sample::default(), std::collections::BTreeMap::new());
    let none = Measured::NotApplicable;
    for n in 0..6_000 {
        let at = usize::from(unit(n) < 0.5);
        sample.add(
            LoggedRequest {
                draw: n,
                cluster: n,
                choice: Some(EndpointId(at as u64)),
                weight: [2.0, 0.0][at],
                unsupported: 0.0,
                has_chance: true,
                outcomes: [none; 4],
            },
            Vec::new(),
        );
        if unit(n + 1_000_000) < rates[at] {
            ratings.insert(n, f64::from(u8::from(unit(n + 2_000_000) < [0.7, 0.9][at])));
        }
    }
    sample.sort();
    sample.rate(&ratings);
    sample
}

#[test]
fn the_share_of_accepted_answers_is_estimated_from_the_rated_ones_alone() {
    let estimates = rated_sample([0.3, 0.3]).estimates(name);
    let [acceptance] = &estimates[..] else { panic!("{estimates:?}") };
    assert_eq!((acceptance.measure, &acceptance.refusals[..]), (Measure::Acceptance, &[][..]));
    assert!((1_600..2_000).contains(&acceptance.requests), "{acceptance:?}");
    assert!(
        matches!(acceptance.warnings[..], [.., Finding::Rated(share)] if (share - 0.3).abs() < 0.02),
        "{acceptance:?}"
    );
    let [least, most] = acceptance.interval.unwrap();
    assert!((acceptance.before - 0.8).abs() < 0.03 && (acceptance.after - 0.7).abs() < 0.04, "{acceptance:?}");
    assert!(least < -0.1 && -0.1 < most && most - least < 0.08, "{least} {most}");
    assert_eq!(rated_sample([0.0, 0.0]).estimates(name).len(), 0, "without ratings there is no figure");
}

#[test]
fn intervals_of_the_share_of_accepted_answers_cover_the_truth_in_nineteen_of_twenty_samples() {
    let covered = (0..400).filter(|seed| {
        let of = |n: u64| {
            let (drawn, good) = (unit(seed * 10_000 + n) < 0.3, unit(seed * 10_000 + n + 5_000));
            let outcome = f64::from(u8::from(good < if drawn { 0.7 } else { 0.9 }));
            let weight = if drawn { 0.8 / 0.3 } else { 0.2 / 0.7 };
            Observation { weight, ..Observation::plain(n, outcome) }
        };
        let [least, most] = estimators::snips_difference(&Observations::new((0..1_000).map(of).collect())).interval();
        let truth = (0.8 * 0.7 + 0.2 * 0.9) - (0.3 * 0.7 + 0.7 * 0.9);
        least <= truth && truth <= most
    });
    let covered = covered.count();
    assert!((370..=390).contains(&covered), "{covered} of 400");
}

#[test]
fn where_answers_of_one_endpoint_are_rated_much_more_often_their_acceptance_is_refused() {
    let estimates = rated_sample([0.5, 0.2]).estimates(name);
    let is_named =
        |finding: &Finding| matches!(finding, Finding::RatedUnevenly(least, most) if *least < 0.25 && *most > 0.45);
    assert!(estimates[0].refusals.iter().any(is_named), "{:?}", estimates[0].refusals);
    assert_eq!(estimates[0].interval, None);
}
