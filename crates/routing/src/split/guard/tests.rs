use super::*;
use crate::stats::splitmix64;

const DEFAULTS: Guardrail = Guardrail { spend: Some(0.1), failures: Some(0.005), first_token: Some(0.2) };

/// A world: probability of failure, mean cost, and median time of the first content of each kind.
#[derive(Clone, Copy)]
struct Kind {
    failures: f64,
    spend: f64,
    seconds: f64,
}

const USUAL: Kind = Kind { failures: 0.02, spend: 0.001, seconds: 0.4 };

fn uniform(seed: u64) -> f64 {
    (splitmix64(seed) >> 11) as f64 / (1_u64 << 53) as f64
}

fn ended(kind: Kind, seed: u64) -> Ended {
    let failed = uniform(seed) < kind.failures;
    // Costs and times that spread over a factor of e, as lengths do.
    let spend = kind.spend * 2.0 * uniform(seed ^ 0xaaaa);
    let time = kind.seconds * libm::exp(uniform(seed ^ 0xbbbb) - 0.5);
    Ended { failed, spend, first_token: (!failed).then(|| Duration::from_secs_f64(time)) }
}

/// The breach and the number of requests after which it was seen, with a canary of this share.
fn run(share: f64, canary: Kind, guardrail: Guardrail, requests: u64, seed: u64) -> Option<(&'static str, u64)> {
    run_beside(USUAL, share, canary, guardrail, requests, seed)
}

/// The same beside other requests of this kind.
fn run_beside(
    others: Kind,
    share: f64,
    canary: Kind,
    guardrail: Guardrail,
    requests: u64,
    seed: u64,
) -> Option<(&'static str, u64)> {
    let mut evidence = Evidence::default();
    for n in 0..requests {
        let draw = splitmix64(seed.wrapping_mul(1_000_003) ^ n);
        match uniform(draw ^ 0xcccc) < share {
            true => evidence.canary.add(ended(canary, draw)),
            false => evidence.others.add(ended(others, draw)),
        }
        if let Some(breach) = evidence.breach(&guardrail) {
            return Some((breach.limit, n));
        }
    }
    None
}

#[test]
fn an_equal_canary_stays_although_it_is_looked_at_after_every_request() {
    let fallen = (0..60).filter(|seed| run(0.05, USUAL, DEFAULTS, 20_000, *seed).is_some()).count();
    assert!(fallen <= 3, "{fallen} of 60");
}

#[test]
fn an_equal_canary_of_half_of_the_requests_stays_although_nothing_more_is_allowed() {
    let nothing_more = Guardrail { spend: Some(0.0), failures: Some(0.0), first_token: Some(0.0) };
    let fallen = (0..100).filter(|seed| run(0.5, USUAL, nothing_more, 4_000, *seed).is_some()).count();
    assert!(fallen <= 5, "{fallen} of 100");
}

/// Whether a canary of half of the requests falls back, whose times spread as widely as those of the others.
fn falls_back_by_wide_times(seed: u64) -> bool {
    let no_later = Guardrail { first_token: Some(0.0), ..Guardrail::default() };
    let mut evidence = Evidence::default();
    (0..4_000).any(|n| {
        let draw = splitmix64(seed.wrapping_mul(1_000_003) ^ n);
        let time = Duration::from_secs_f64(libm::exp(14.0 * (uniform(draw ^ 0xbbbb) - 0.5)));
        let arm = if uniform(draw ^ 0xcccc) < 0.5 { &mut evidence.canary } else { &mut evidence.others };
        arm.add(Ended { failed: false, spend: 0.0, first_token: Some(time) });
        evidence.breach(&no_later).is_some()
    })
}

#[test]
fn an_equal_canary_stays_although_the_percentile_of_the_others_is_an_estimate() {
    let fallen = (0..400).filter(|seed| falls_back_by_wide_times(*seed)).count();
    assert!((fallen as f64) < ERROR * 400.0, "{fallen} of 400");
}

#[test]
fn equal_costs_that_differ_by_rounding_do_not_stop_a_canary() {
    let none_more = Guardrail { spend: Some(0.0), ..Guardrail::default() };
    for spend in [0.1, 0.003, 0.000_7] {
        let answer = |spend| Ended { failed: false, spend, first_token: None };
        let mut evidence = Evidence::default();
        for n in 0..4_000 {
            let arm = if n % 3 == 0 { &mut evidence.canary } else { &mut evidence.others };
            arm.add(answer(spend));
            assert_eq!(evidence.breach(&none_more), None, "{spend} after {n}");
        }
        (0..400).for_each(|_| evidence.canary.add(answer(spend * 2.0)));
        assert_eq!(evidence.breach(&none_more).map(|breach| breach.limit), Some("max_spend"));
    }
}

#[test]
fn a_canary_that_is_worse_falls_back_by_the_limit_that_it_exceeds() {
    let worse = [
        ("max_failures", Kind { failures: 0.2, ..USUAL }, 6_000),
        ("max_spend", Kind { spend: 0.0015, ..USUAL }, 12_000),
        ("max_ttft", Kind { seconds: 0.8, ..USUAL }, 8_000),
    ];
    for (limit, kind, most) in worse {
        for seed in 0..10 {
            let (found, after) = run(0.05, kind, DEFAULTS, 40_000, seed).expect(limit);
            assert!(found == limit && after < most, "{found} after {after} requests, expected {limit}");
        }
    }
}

/// The requests after which a canary of this share that fails twice as often as the others fell back, for each of these seeds.
fn fallen_after(failures: f64, share: f64, most: u64, seeds: u64) -> Vec<Option<u64>> {
    let (others, twice) = (Kind { failures, ..USUAL }, Kind { failures: 2.0 * failures, ..USUAL });
    (0..seeds).map(|seed| Some(run_beside(others, share, twice, DEFAULTS, most, seed)?.1)).collect()
}

/// At 500 requests a second where few fail, and at 100 where more do.
#[test]
fn a_canary_of_a_quarter_that_fails_twice_as_often_falls_back_within_a_minute() {
    for (failures, a_second) in [(0.02, 500), (0.05, 100), (0.1, 100)] {
        let fallen = fallen_after(failures, 0.25, 60 * a_second, 20);
        assert!(fallen.iter().all(Option::is_some), "{failures} at {a_second} a second: {fallen:?}");
    }
}

/// Prints the table of docs/POLICY.md.
#[test]
#[ignore = "prints figures: cargo test -p pointsman-routing --lib -- --ignored --nocapture requests_until_a_canary"]
fn requests_until_a_canary_that_fails_twice_as_often_falls_back() {
    for (failures, share) in [(0.02, 0.25), (0.05, 0.05), (0.05, 0.25), (0.1, 0.25), (0.2, 0.25)] {
        let mut fallen = fallen_after(failures, share, 60_000, 41);
        fallen.sort_unstable_by_key(|after| after.unwrap_or(u64::MAX));
        eprintln!("{failures} at a share of {share}: {:?} requests", fallen[20]);
    }
}

#[test]
fn what_has_no_limit_is_not_judged() {
    let only_spend = Guardrail { spend: Some(0.1), ..Guardrail::default() };
    assert_eq!(run(0.05, Kind { failures: 0.5, ..USUAL }, only_spend, 5_000, 1), None);
}

#[test]
fn nothing_is_concluded_from_a_few_requests() {
    let mut evidence = Evidence::default();
    (0..1_000).for_each(|seed| evidence.others.add(ended(USUAL, seed)));
    let failed = Ended { failed: true, spend: 0.0, first_token: None };
    (0..FEWEST - 1).for_each(|_| evidence.canary.add(failed));
    assert_eq!(evidence.breach(&DEFAULTS), None);
    evidence.canary.add(failed);
    assert_eq!(evidence.breach(&DEFAULTS).map(|breach| breach.limit), Some("max_failures"));
}
