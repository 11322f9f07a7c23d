use pointsman_domain::{CostBreakdown, Usage};

use crate::ledger::tests::admitted;

use super::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn attempt(provider: &str, error_type: Option<&'static str>) -> AttemptRecord {
    AttemptRecord {
        n: 1,
        model: "acme/small".into(),
        provider_name: provider.into(),
        provider_slug: provider.into(),
        status: Some(200),
        error_type: error_type.map(Into::into),
        first_token_ms: error_type.is_none().then_some(40),
        duration_ms: 90,
        cost: Some(Usd::from_femto(7 * FEMTO_PER_NANO)),
        served: error_type.is_none(),
        ..AttemptRecord::default()
    }
}

fn call(at_ms: i64, key: u64, attempts: Vec<AttemptRecord>) -> Generation {
    let usage = Usage { prompt_tokens: 3, completion_tokens: 4, ..Usage::default() };
    Generation { created_ms: at_ms, key, attempts, usage, latency_ms: Some(150), ..admitted(0) }
}

fn sum(series: &Series, by: GroupBy, subject: &Subject, span: i64, now: i64) -> [u32; 4] {
    let range = series.range(by, span, now).unwrap();
    let found = range.series.into_iter().find(|(other, _)| other == subject);
    found.into_iter().flat_map(|(_, slots)| slots).fold([0; 4], |sum, slot| {
        let [ok, rescued, failed, shed] = sum;
        [ok + slot.ok, rescued + slot.rescued, failed + slot.failed, shed + slot.shed]
    })
}

#[test]
fn calls_and_attempts_of_unknown_cost_are_counted_and_only_what_is_known_is_added() {
    let mut series = Series::default();
    let unpriced = || AttemptRecord { cost: None, ..attempt("dark", None) };
    let lost = || AttemptRecord { cost: None, ..attempt("dark", Some("upstream_status")) };
    let priced = || attempt("acme", None);
    let answer = || CostBreakdown { prompt: Usd::from_femto(5 * FEMTO_PER_NANO), ..CostBreakdown::default() };
    let generations =
        [(None, vec![unpriced()]), (Some(answer()), vec![lost(), priced()]), (Some(answer()), vec![priced()])];
    for (cost, attempts) in generations {
        series.count(&Generation { cost, ..call(HOUR, 1, attempts) });
    }
    let figures = |by, subject: Subject| {
        let range = series.range(by, HOUR, HOUR).unwrap();
        let slots = range.series.into_iter().find(|(other, _)| *other == subject).unwrap().1;
        let cost: Usd = slots.iter().map(Slot::cost).sum();
        (slots.iter().map(|slot| slot.unknown_costs).sum::<u32>(), cost.femto() / FEMTO_PER_NANO)
    };
    assert_eq!(figures(GroupBy::All, Subject::All), (2, 10));
    assert_eq!(figures(GroupBy::Provider, Subject::Provider("dark".into())), (2, 0));
    assert_eq!(figures(GroupBy::Provider, Subject::Provider("acme".into())), (0, 10));
}

#[test]
fn a_slot_has_64_bytes_and_all_series_together_stay_below_16_mb() {
    assert_eq!(size_of::<Slot>(), 64);
    let mut series = Series::default();
    let mut grown = 0;
    // At each quarter of an hour, and at the beginning of the next hour.
    for round in 0..5 {
        for number in 0..600 {
            let mut attempt = attempt(&format!("p{}", number % 40), None);
            attempt.model = format!("acme/{number}").into();
            series.count(&call(100 * HOUR + round * HOUR / 4, number, vec![attempt]));
        }
        assert!(series.bytes() < 16 << 20, "{}", series.bytes());
        assert!(round == 0 || series.bytes() == grown, "it does not grow");
        grown = series.bytes();
    }
}

#[test]
fn a_call_saved_by_its_second_attempt_is_rescued_and_a_failure_of_the_first_provider() {
    let mut series = Series::default();
    series.count(&call(HOUR, 9, vec![attempt("bad", Some("provider_error")), attempt("good", None)]));
    series.count(&call(HOUR, 9, vec![attempt("good", None)]));
    series.count(&Generation { status: GenerationStatus::Cancelled, ..call(HOUR, 9, Vec::new()) });
    series.count(&Generation { status: GenerationStatus::Truncated, ..call(HOUR, 9, Vec::new()) });
    series.count(&Generation { status: GenerationStatus::Running, ..call(HOUR, 9, Vec::new()) });
    series.count_shed(5, HOUR);
    assert_eq!(sum(&series, GroupBy::All, &Subject::All, HOUR, HOUR), [1, 1, 1, 5]);
    assert_eq!(sum(&series, GroupBy::Key, &Subject::Key { owner: 1, key: 9 }, HOUR, HOUR), [1, 1, 1, 0]);
    assert_eq!(sum(&series, GroupBy::Provider, &Subject::Provider("bad".into()), HOUR, HOUR), [0, 0, 1, 0]);
    assert_eq!(sum(&series, GroupBy::Provider, &Subject::Provider("good".into()), HOUR, HOUR), [1, 1, 0, 0]);
    let endpoint = Subject::Endpoint { model: "acme/small".into(), provider: "good".into() };
    assert_eq!(sum(&series, GroupBy::Endpoint, &endpoint, HOUR, HOUR), [1, 1, 0, 0]);
}

#[test]
fn slots_move_out_of_the_range_and_are_not_counted_again_a_day_later() {
    let mut series = Series::default();
    let at = |hours: i64| series_at(hours);
    fn series_at(hours: i64) -> i64 {
        1_000 * HOUR + hours * HOUR
    }
    series.count(&call(at(0), 1, vec![attempt("p", None)]));
    let all = |series: &Series, span, now| sum(series, GroupBy::All, &Subject::All, span, now)[0];
    assert_eq!(all(&series, HOUR, at(0)), 1);
    assert_eq!(all(&series, HOUR, at(2)), 0);
    assert_eq!(all(&series, 24 * HOUR, at(2)), 1);
    assert_eq!(all(&series, 24 * HOUR, at(24)), 0);
    series.count(&call(at(24), 1, vec![attempt("p", None)]));
    assert_eq!(all(&series, 24 * HOUR, at(24)), 1, "the slot of the day before is empty");
    assert!(series.range(GroupBy::Endpoint, 24 * HOUR, at(24)).is_none(), "endpoints have one hour");
}

#[test]
fn a_late_record_goes_into_its_own_slot_and_a_clock_set_back_begins_anew() {
    let mut series = Series::default();
    for minutes in [100, 98] {
        series.count(&call(minutes * MINUTE, 1, vec![attempt("p", None)]));
    }
    let range = series.range(GroupBy::All, 4 * MINUTE, 100 * MINUTE).unwrap();
    let ok: Vec<u32> = range.series[0].1.iter().map(|slot| slot.ok).collect();
    assert_eq!((range.start_ms, range.step_ms, ok), (97 * MINUTE, MINUTE, vec![0, 1, 0, 1]));
    series.count(&call(500_000 * HOUR, 1, Vec::new()));
    series.count(&call(101 * MINUTE, 1, vec![attempt("p", None)]));
    assert_eq!(sum(&series, GroupBy::All, &Subject::All, HOUR, 101 * MINUTE)[0], 1);
}

#[test]
fn percentiles_lie_within_their_bucket_and_stay_when_a_bucket_is_full() {
    let mut slot = Slot::default();
    assert_eq!(slot.first_output_ms(50), None);
    for _ in 0..90_000 {
        slot.add_first_output(60);
    }
    for _ in 0..10_000 {
        slot.add_first_output(3_000);
    }
    let [median, high] = [50, 95].map(|percent| slot.first_output_ms(percent).unwrap());
    assert!((51..=100).contains(&median), "{median}");
    assert!((2_501..=5_000).contains(&high), "{high}");
    let mut slow = Slot::default();
    slow.add_first_output(u64::MAX);
    assert_eq!(slow.first_output_ms(50), Some(120_000));
}

#[test]
fn more_keys_than_have_room_share_one_series_until_others_are_stale() {
    let mut series = Series::default();
    for key in 0..MOST_KEYS as u64 + 6 {
        series.count(&call(HOUR, key, Vec::new()));
    }
    assert_eq!(sum(&series, GroupBy::Key, &Subject::Other, HOUR, HOUR)[0], 6);
    series.count(&call(30 * HOUR, 9_999, Vec::new()));
    assert_eq!(sum(&series, GroupBy::Key, &Subject::Key { owner: 1, key: 9_999 }, HOUR, 30 * HOUR)[0], 1);
}

#[test]
fn cost_is_exact_to_a_billionth_of_a_dollar() {
    let mut series = Series::default();
    series.count(&call(HOUR, 1, vec![attempt("bad", Some("provider_error"))]));
    let range = series.range(GroupBy::All, MINUTE, HOUR).unwrap();
    assert_eq!(range.series[0].1[0].cost(), Usd::from_femto(7 * FEMTO_PER_NANO));
    assert_eq!(range.series[0].1[0].tokens, 7);
}

#[test]
fn generations_of_an_earlier_process_count_where_the_series_reach_back_and_change_no_later_slot() {
    let (mut series, now) = (Series::default(), 100 * HOUR);
    series.count(&call(now, 9, vec![attempt("good", None)]));
    for age in [MINUTE, 2 * HOUR, 30 * HOUR] {
        series.restore(&call(now - age, 9, vec![attempt("good", None)]), now);
    }
    let endpoint = Subject::Endpoint { model: "acme/small".into(), provider: "good".into() };
    assert_eq!(sum(&series, GroupBy::All, &Subject::All, 24 * HOUR, now), [3, 0, 0, 0]);
    assert_eq!(sum(&series, GroupBy::All, &Subject::All, HOUR, now), [2, 0, 0, 0]);
    assert_eq!(sum(&series, GroupBy::Endpoint, &endpoint, HOUR, now), [2, 0, 0, 0]);
}
