//! What people read of each figure, as `sentences.txt` says; `UPDATE_EXPECT=1 cargo test --lib estimate_report` writes it.

use expect_test::expect_file;
use pointsman_routing::explain::estimate::{LoggedRequest, Measured, Sample};

use super::*;

/// So many requests, each in a group of its own. Chance sent half of them where the other configuration sends all.
fn requests(count: u64, change: impl Fn(u64, &mut LoggedRequest)) -> Sample {
    let mut sample = Sample::default();
    let mut ratings = BTreeMap::new();
    for n in 0..count {
        let (is_same, spread) = (n % 2 == 0, (n % 5) as f64);
        let mut request = LoggedRequest {
            draw: n,
            cluster: n,
            choice: Some(EndpointId(n % 2)),
            weight: if is_same { 2.0 } else { 0.0 },
            unsupported: 0.0,
            has_chance: true,
            outcomes: [
                known(if is_same { 0.001 } else { 0.003 } * (1.0 + 0.1 * spread), 0.002),
                failed(n % 40 == 0),
                known(if is_same { 0.4 } else { 0.3 } + 0.02 * spread, 0.4),
                known(if is_same { 1.5 } else { 1.0 } + 0.1 * spread, 1.4),
            ],
        };
        change(n, &mut request);
        sample.add(request, Vec::new());
        if n % 3 == 0 {
            ratings.insert(n, f64::from(u8::from(n % 18 != 0)));
        }
    }
    sample.sort();
    sample.rate(&ratings);
    sample
}

fn known(outcome: f64, predicted: f64) -> Measured {
    Measured::Known { outcome, predicted, own: predicted, expected: predicted, expected_unsupported: 0.0 }
}

fn failed(is_failed: bool) -> Measured {
    known(f64::from(u8::from(is_failed)), 0.0)
}

/// With an endpoint that gets so many times its traffic, where it slows down from six requests in flight on.
fn moved(mut sample: Sample, factor: f64) -> Sample {
    let shares = if factor.is_finite() { [1.0, factor] } else { [0.0, 1.0] };
    sample.shifts.add(EndpointId(7), shares, [2.0, 6.0]);
    sample
}

fn sentences(sample: &Sample, figures: &[Measure]) -> String {
    let name = |endpoint: EndpointId| format!("small at provider-{}", endpoint.0);
    let largest = sample.shifts.growing(sample.len()).first().map(|shift| (name(shift.endpoint), shift.factor));
    let bodies = sample.estimates(name).into_iter().filter(|one| figures.contains(&one.measure));
    let mut text = String::new();
    for figure in bodies {
        let EstimateBody { figure, sentence, refusals, bound, .. } =
            EstimateBody::new(&figure, "new.toml", largest.as_ref());
        let is_said = refusals.is_empty() || bound.is_some();
        assert_eq!(is_said, sentence.contains("(effective ") && sentence.contains("Not covered: "), "{sentence}");
        text += &format!("{figure}: {sentence}\n");
    }
    text
}

#[test]
fn every_figure_comes_with_its_interval_its_effective_sample_and_what_is_not_covered() {
    use Measure::{Acceptance, Failures, FirstToken, FirstTokenP95, Spend, Total};
    let plain = |_: u64, _: &mut LoggedRequest| ();
    let failing = |every: u64| move |n: u64, one: &mut LoggedRequest| one.outcomes[1] = failed(n.is_multiple_of(every));
    let unsupported = |_: u64, one: &mut LoggedRequest| (one.weight, one.unsupported) = (0.8 * one.weight, 0.2);
    let cases: [(&str, Sample, &[Measure]); 12] = [
        ("Enough of everything", requests(4_000, plain), &Measure::ALL[..]),
        ("More traffic for an endpoint that can carry it", moved(requests(4_000, plain), 1.5), &[Spend, Total]),
        ("Far more, beyond what it carries", moved(requests(4_000, plain), 5.0), &[Spend, Failures, Total]),
        ("Traffic for an endpoint that had none", moved(requests(4_000, plain), f64::INFINITY), &[Spend, Total]),
        ("Few failures", requests(4_000, failing(800)), &[Failures]),
        ("Hardly a failure", requests(4_000, failing(4_000)), &[Failures]),
        ("Few groups", requests(4_000, |n, one| one.cluster = n % 20), &[Spend]),
        ("Few requests", requests(300, plain), &[Spend, FirstToken, Acceptance]),
        ("Choices that were never made", requests(4_000, unsupported), &[Spend, Failures, FirstTokenP95, Total]),
        (
            "Nothing left to chance",
            requests(4_000, |_, one| {
                (one.weight, one.unsupported, one.has_chance) = (0.0, 1.0, false);
            }),
            &[Spend],
        ),
        ("Wrong probabilities", requests(4_000, |_, one| one.weight *= 2.0), &[Spend]),
        (
            "Unknown costs",
            requests(4_000, |n, one| {
                if n % 20 < 2 {
                    one.outcomes[0] = Measured::Missing;
                }
            }),
            &[Spend],
        ),
    ];
    let text: String =
        cases.iter().map(|(title, sample, figures)| format!("# {title}\n{}\n", sentences(sample, figures))).collect();
    expect_file!["sentences.txt"].assert_eq(&text);
}
