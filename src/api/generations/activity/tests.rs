use pointsman_ledger::activity::{
    ActivityCounters, ActivityKey, SLOT, Sums,
    grouping::{Dimension, Grouping, Period},
    slot, slot_start,
};

use super::query::{ActivityQuery, Asked};
use crate::api::{generations::ledger_query, models::measurements::rfc_3339};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// 2026-11-23T06:07:00Z.
const NOW: i64 = 1_795_414_020_000;

fn parsed(query: &str) -> Result<ActivityQuery, String> {
    let parsed = ActivityQuery::parse(query, None, Asked::Rows, NOW);
    parsed.map_err(|error| error.message().to_owned())
}

fn at(time: &str) -> i64 {
    slot(ledger_query::time("since", time).unwrap())
}

/// Beginnings of the periods with the requests in them, latest first.
fn periods(query: &str, times: &[&str]) -> Vec<(String, u64)> {
    let query = parsed(query).unwrap();
    let grouping = query.grouping(query.since_ms, &query.by, &[]);
    let mut sums = Sums::new();
    for time in times {
        let place = grouping.place(at(time), ActivityKey::default()).unwrap();
        sums.entry(place).or_default().requests += 1;
    }
    let shown =
        |((start, _), sum): (&(i64, ActivityKey), &ActivityCounters)| (rfc_3339(slot_start(*start)), sum.requests);
    sums.iter().rev().map(shown).collect()
}

#[test]
fn days_and_hours_begin_where_the_offset_says() {
    let times = ["2026-11-22T17:45:00Z", "2026-11-22T18:30:00Z", "2026-11-23T00:00:00Z", "2026-11-23T05:15:00Z"];
    for (query, expected) in [
        ("group=day", &[("2026-11-23T00:00:00.000Z", 2), ("2026-11-22T00:00:00.000Z", 2)][..]),
        ("group_by=day&tz_offset_minutes=330", &[("2026-11-22T18:30:00.000Z", 3), ("2026-11-21T18:30:00.000Z", 1)]),
        ("tz_offset_minutes=-360", &[("2026-11-22T06:00:00.000Z", 4)]),
        (
            "group_by=team,hour&tz_offset_minutes=30",
            &[
                ("2026-11-23T04:30:00.000Z", 1),
                ("2026-11-22T23:30:00.000Z", 1),
                ("2026-11-22T18:30:00.000Z", 1),
                ("2026-11-22T17:30:00.000Z", 1),
            ],
        ),
    ] {
        let expected: Vec<_> = expected.iter().map(|(start, count)| ((*start).to_owned(), *count)).collect();
        assert_eq!(periods(query, &times), expected, "{query}");
    }
}

#[test]
fn the_period_before_is_as_long_and_ends_where_the_other_begins() {
    let day = |text: &str| ledger_query::time("since", text).unwrap();
    let query = parsed("group_by=team&since=2026-11-10&until=2026-11-17").unwrap();
    assert_eq!(query.before_ms, Some(day("2026-11-03")));
    assert_eq!(parsed("group_by=team&since=2026-09-01&until=2026-11-17").unwrap().before_ms, None, "sums may be gone");
    let query = parsed("group_by=team,day").unwrap();
    assert_eq!((query.since_ms, query.until_ms), (day("2026-10-25"), day("2026-11-23T06:15:00Z")));
}

#[test]
fn what_rows_are_told_apart_by_is_refused_with_what_was_meant() {
    for (query, message) in [
        ("group_by=taem", "Unknown value 'taem' in 'group_by'. Did you mean 'team'?"),
        ("group_by=team,colour", "Unknown value 'colour' in 'group_by'. Allowed: "),
        ("group_by=team&group=day", "'group' belongs to answers without 'group_by'"),
        ("modle=acme/small", "Unknown parameter 'modle'. Did you mean 'model'?"),
    ] {
        let refused = parsed(query).unwrap_err();
        assert!(refused.starts_with(message), "{refused}");
    }
    assert_eq!(parsed("group_by=team,team,day,hour,day").unwrap().by.dimensions, [Dimension::Team]);
}

#[test]
fn single_days_add_up_to_the_range_and_to_its_hours_in_every_zone_and_across_changes_of_the_clock() {
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
    const SLOTS_A_DAY: i64 = DAY_MS / SLOT.as_millis() as i64;
    let mut rng = StdRng::seed_from_u64(33);
    let first = at("2026-02-20T00:00:00Z");
    let rows: Vec<(i64, u64)> =
        (0..3_000).map(|n| (first + rng.random_range(0..40 * SLOTS_A_DAY), 1 + n % 3)).collect();
    let sum = |slots: std::ops::Range<i64>, period: i64, offset: i64| -> u64 {
        let period = Some(Period { slots: period, offset });
        let grouping = Grouping { slots: slots.start..=slots.end - 1, period, by: Vec::new(), only: Vec::new() };
        let counts = |(slot, _): &&(i64, u64)| grouping.place(*slot, ActivityKey::default()).is_some();
        rows.iter().filter(counts).map(|(_, requests)| requests).sum()
    };
    // Quarters of an hour from UTC before and after 8 March 2026, when clocks go forward in St. John's.
    for (before, after) in [(0, 0), (22, 22), (-14, -10), (56, 56), (-48, -48)] {
        let offset = |day: i64| if day < 16 { before } else { after };
        let midnight = |day: i64| first + day * SLOTS_A_DAY - offset(day);
        let days = |period| (2..30).map(|day| sum(midnight(day)..midnight(day + 1), period, offset(day))).sum::<u64>();
        let range = midnight(2)..midnight(30);
        let truth: u64 = rows.iter().filter(|(slot, _)| range.contains(slot)).map(|(_, requests)| requests).sum();
        assert!(truth > 1_000, "{truth}");
        assert_eq!(
            (days(SLOTS_A_DAY), days(4), sum(range, SLOTS_A_DAY, after)),
            (truth, truth, truth),
            "{before} {after}"
        );
    }
}
