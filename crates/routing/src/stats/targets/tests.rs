use super::*;
use crate::stats::seeded_hash::splitmix64;

const POLICY: TargetPolicy = TargetPolicy { gain: 0.1, max_margin: 4.0, min_margin: 0.5, reserve: 0.2 };

fn at(seconds: f64) -> Tick {
    Tick((seconds * 1e6) as u64)
}

fn p95(name: &str, bound: f64, source: Source) -> RequestedTarget<'_> {
    let value = Preference { p95: Some(bound), ..Preference::default() };
    RequestedTarget { name, objective: Objective::Cheapest, preference: Sourced { value, source } }
}

fn first_token(seconds: f64) -> FirstTokenWait {
    FirstTokenWait::FirstToken(Duration::from_secs_f64(seconds))
}

/// Requests in time and missed in the shortest window, and the margin, of the only target.
fn only(targets: &LatencyTargets, seconds: f64) -> (u64, u64, f64) {
    let reports = targets.report(at(seconds));
    assert_eq!(reports.len(), 1, "{reports:?}");
    let Tally { met, missed } = reports[0].windows[0];
    (met, missed, reports[0].margin)
}

#[test]
fn what_counts_as_a_miss() {
    for (waited, expected) in [
        (first_token(0.8), Some((1, 0))),
        (first_token(0.801), Some((0, 1))),
        (FirstTokenWait::Failed(Duration::ZERO), Some((0, 1))),
        (FirstTokenWait::Left(Duration::from_secs(1)), Some((0, 1))),
        (FirstTokenWait::Left(Duration::from_millis(300)), None),
    ] {
        let targets = LatencyTargets::default();
        targets.observe(&p95("a", 0.8, Source::Alias), waited, &POLICY, at(0.0));
        let seen = targets.report(at(0.0)).first().map(|report| (report.windows[0].met, report.windows[0].missed));
        assert_eq!(seen, expected, "{waited:?}");
    }
}

#[test]
fn budget_and_burn_rate_follow_from_the_misses() {
    let targets = LatencyTargets::default();
    let requested = p95("a", 0.8, Source::Alias);
    for request in 0..100 {
        targets.observe(&requested, first_token(if request < 2 { 1.0 } else { 0.1 }), &POLICY, at(0.0));
    }
    let report = &targets.report(at(1.0))[0];
    let window = &report.windows[0];
    assert_eq!(window.attainment(), Some(0.98));
    assert!((report.allowed(window) - 5.0).abs() < 1e-9);
    assert!((report.budget_left(window).unwrap() - 0.6).abs() < 1e-9);
    assert!((report.burn_rate(window).unwrap() - 0.4).abs() < 1e-9);
    let quiet = targets.report(at(1e6));
    assert_eq!(quiet[0].budget_left(&quiet[0].windows[2]), None, "a day later nothing is known");
}

#[test]
fn misses_widen_the_margin_and_success_narrows_it_within_bounds() {
    let targets = LatencyTargets::default();
    let requested = p95("a", 0.8, Source::TopLevel);
    assert_eq!(targets.margin(&requested, at(0.0)), 1.0);
    let mut before = 1.0;
    for _ in 0..50 {
        targets.observe(&requested, first_token(2.0), &POLICY, at(0.0));
        let margin = targets.margin(&requested, at(0.0));
        assert!(margin >= before && margin <= 4.0 + 1e-9, "{margin}");
        before = margin;
    }
    assert!((before - 4.0).abs() < 1e-9);
    let fastest = RequestedTarget { objective: Objective::Fastest, ..requested };
    for _ in 0..1000 {
        targets.observe(&requested, first_token(0.1), &POLICY, at(0.0));
        targets.observe(&fastest, first_token(0.1), &POLICY, at(0.0));
    }
    assert!((targets.margin(&requested, at(0.0)) - 0.5).abs() < 1e-9, "at least cost the budget is there to be spent");
    assert_eq!(targets.margin(&fastest, at(0.0)), 1.0);
}

#[test]
fn an_unused_margin_decays() {
    let targets = LatencyTargets::default();
    let requested = p95("a", 0.8, Source::TopLevel);
    for _ in 0..50 {
        targets.observe(&requested, first_token(2.0), &POLICY, at(0.0));
    }
    let margins = [0.0, 300.0, 600.0, 36_000.0].map(|second| (targets.margin(&requested, at(second)) * 100.0).round());
    assert_eq!(margins, [400.0, 200.0, 141.0, 100.0]);
}

#[test]
fn an_early_failure_is_a_miss_and_leaves_the_margin_unchanged() {
    let targets = LatencyTargets::default();
    let requested = p95("a", 0.8, Source::TopLevel);
    targets.observe(&requested, FirstTokenWait::Failed(Duration::from_millis(20)), &POLICY, at(0.0));
    assert_eq!(only(&targets, 0.0), (0, 1, 1.0));
    targets.observe(&requested, FirstTokenWait::Failed(Duration::from_secs(2)), &POLICY, at(0.0));
    assert!(only(&targets, 0.0).2 > 1.05);
}

#[test]
fn bounds_of_one_switch_the_feedback_off() {
    let targets = LatencyTargets::default();
    let requested = p95("a", 0.8, Source::TopLevel);
    let off = TargetPolicy { max_margin: 1.0, min_margin: 1.0, ..POLICY };
    for _ in 0..50 {
        targets.observe(&requested, first_token(2.0), &off, at(0.0));
    }
    assert_eq!(only(&targets, 0.0), (0, 50, 1.0));
}

#[test]
fn every_bound_of_a_preference_is_a_target_and_the_strictest_margin_counts() {
    let targets = LatencyTargets::default();
    let value = Preference { p50: Some(0.2), p95: Some(0.8), ..Preference::default() };
    let preference = Sourced { value, source: Source::Alias };
    let requested = RequestedTarget { name: "a", objective: Objective::Cheapest, preference };
    for _ in 0..10 {
        targets.observe(&requested, first_token(0.5), &POLICY, at(0.0));
    }
    let reports = targets.report(at(0.0));
    let seen: Vec<_> = reports.iter().map(|r| (r.percentile, r.windows[0].met, r.windows[0].missed)).collect();
    assert_eq!(seen, [(Percentile::P50, 0, 10), (Percentile::P95, 10, 0)]);
    assert_eq!(targets.margin(&requested, at(0.0)), reports[0].margin);
    assert!(reports[0].margin > 1.5 && reports[1].margin < 1.0);
}

#[test]
fn targets_differ_if_anything_that_is_shown_differs() {
    let targets = LatencyTargets::default();
    let requested = p95("a", 0.8, Source::TopLevel);
    let fastest = RequestedTarget { objective: Objective::Fastest, ..requested };
    let others =
        [p95("b", 0.8, Source::TopLevel), p95("a", 0.9, Source::TopLevel), p95("a", 0.8, Source::Alias), fastest];
    for requested in [requested, p95("a", 0.8001, Source::Metadata)].iter().chain(&others) {
        targets.observe(requested, first_token(0.1), &POLICY, at(0.0));
    }
    assert_eq!(targets.report(at(0.0)).len(), 1 + others.len(), "to the millisecond, and wherever a request said it");
}

#[test]
fn callers_cannot_displace_targets_of_aliases_or_grow_the_list() {
    let targets = LatencyTargets::default();
    targets.observe(&p95("service/quick", 0.8, Source::Alias), first_token(0.1), &POLICY, at(0.0));
    for n in 0..1000 {
        let requested = p95("service/auto", 1.0 + f64::from(n), Source::TopLevel);
        targets.observe(&requested, first_token(0.1), &POLICY, at(f64::from(n)));
    }
    let reports = targets.report(at(1000.0));
    assert_eq!(reports.len(), 1 + MOST_ASKED);
    assert_eq!(&*reports[0].name, "service/quick");
    let bounds: Vec<u64> = reports[1..].iter().map(|report| report.bound.as_secs()).collect();
    assert_eq!(bounds, (1000 - 63..=1000).collect::<Vec<_>>(), "the newest stay");
}

/// Two endpoints in virtual time: `cheap` is slow at times, `dear` never. The decision assumes that nineteen in twenty
/// answers of `cheap` come within `believed` seconds, and chooses it if that, times the margin, is within the bound.
/// Returns the attainment and the share that `cheap` served.
fn held(percentile: f64, believed: f64, late_share: f64, reserve: f64) -> (f64, f64) {
    let targets = LatencyTargets::default();
    let policy = TargetPolicy { reserve, ..POLICY };
    let bound = 0.8;
    let value =
        if percentile > 0.9 { p95("a", bound, Source::Alias).preference.value } else { Preference::median(bound) };
    let preference = Sourced { value, source: Source::Alias };
    let requested = RequestedTarget { name: "a", objective: Objective::Cheapest, preference };
    let (mut met, mut cheap) = (0_u32, 0_u32);
    let requests = 20_000_u32;
    for n in 0..requests {
        let now = at(f64::from(n) * 0.1);
        let takes_cheap = believed * targets.margin(&requested, now) <= bound;
        let chance = splitmix64(u64::from(n)) as f64 / u64::MAX as f64;
        let time = if takes_cheap && chance < late_share { 1.2 } else { 0.3 };
        targets.observe(&requested, first_token(time), &policy, now);
        cheap += u32::from(takes_cheap);
        met += u32::from(time <= bound);
    }
    (f64::from(met) / f64::from(requests), f64::from(cheap) / f64::from(requests))
}

#[test]
fn a_target_is_kept_although_predictions_are_too_low_and_the_cheap_endpoint_serves_what_the_budget_allows() {
    // One in five answers of `cheap` is late, so it may serve a quarter less the reserve: a fifth.
    let (attainment, cheap) = held(0.95, 0.6, 0.2, 0.2);
    assert!((0.95..0.97).contains(&attainment), "{attainment}");
    assert!((0.15..0.25).contains(&cheap), "{cheap}");
    // Twice as late, half as much.
    let (attainment, cheap) = held(0.95, 0.6, 0.4, 0.2);
    assert!((0.95..0.97).contains(&attainment), "{attainment}");
    assert!((0.07..0.13).contains(&cheap), "{cheap}");
}

#[test]
fn a_cheap_endpoint_that_keeps_the_bound_serves_everything() {
    let (attainment, cheap) = held(0.95, 0.6, 0.01, 0.2);
    assert!(attainment > 0.98 && cheap > 0.99, "{attainment} {cheap}");
}

#[test]
fn a_median_leaves_half_of_the_budget_to_the_cheap_one() {
    let (attainment, cheap) = held(0.5, 0.6, 0.9, 0.2);
    assert!((0.5..0.65).contains(&attainment), "{attainment}");
    assert!(cheap > 0.35, "{cheap}");
}
