//! `GET /activity`: requests, tokens and cost of the caller by day or hour, model, provider and key, from the sums of the
//! durable ledger. Sums outlive the records. The activity of all keys is in [`crate::api::admin::activity`].
//!
//! The ledger adds up slots of 15 minutes. `since` and `until` are rounded outwards to them.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse};
use chrono::DateTime;
use pointsman_base::clock;
use pointsman_config::Scope;
use pointsman_dialect::shown;
use pointsman_domain::Invalid;
use pointsman_ledger::{
    activity::{ActivityCounters, ActivityRow},
    generations::owner_label,
};
use serde::Serialize;

use super::{
    generation_list::{Coverage, key_name, ledger, unreadable},
    ledger_query::{self, Listed},
};
use crate::{
    access::keys::Caller,
    api::{answer::uncached, auth::Authorized, models::measurements::rfc_3339, number::Dollars, query_parameters},
    base::error::ApiError,
    state::gateway::Worker,
};

const MINUTE_MS: i64 = 60_000;
const SLOT_MS: i64 = 15 * MINUTE_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Longest time range. The ledger keeps sums for 90 days.
const MAX_RANGE_MS: i64 = 92 * DAY_MS;

/// Shows the activity of the caller.
///
/// # Errors
/// 400 for a bad parameter, 404 without a durable ledger.
pub(crate) async fn show(
    Authorized(caller): Authorized,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    respond(&worker, &caller, Listed::Own(&caller), request.query_string()).await
}

/// The activity that `caller` asks for.
///
/// # Errors
/// As [`show`].
pub(crate) async fn respond(
    worker: &Worker,
    caller: &Caller,
    listed: Listed<'_>,
    query: &str,
) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&read(worker, caller, listed, query).await?.body(worker)))
}

/// The activity that `caller` asks for, to be shown.
///
/// # Errors
/// As [`show`].
pub(crate) async fn read(
    worker: &Worker,
    caller: &Caller,
    listed: Listed<'_>,
    query: &str,
) -> Result<Activity, ApiError> {
    let ledger = ledger(worker)?;
    let query = ActivityQuery::parse(query, listed, clock::unix_millis())?;
    let (since_ms, until_ms) = (query.since_ms, query.until_ms);
    // The last millisecond before the end: the ledger counts the slot of both times in.
    let asked = query.clone();
    let (replicas, last_ms) = (worker.shared.replicas.clone(), until_ms.saturating_sub(1));
    let read = move || {
        let foreign = replicas.map_or(Ok(None), |replicas| replicas.activity(since_ms..=last_ms, &ledger));
        let (foreign, coverage) = Coverage::of(foreign);
        let mut rows = ledger.activity(since_ms, last_ms)?;
        rows.extend(foreign.unwrap_or_default());
        Ok((asked.sums(rows), coverage))
    };
    let (sums, replicas) = worker.analyse(caller, read).await?.map_err(unreadable)?;
    Ok(Activity { query, sums, replicas })
}

/// Sums of a time range, latest first.
pub(crate) struct Activity {
    query: ActivityQuery,
    sums: BTreeMap<Group, ActivityCounters>,
    replicas: Option<Coverage>,
}

impl Activity {
    /// The activity as it is shown.
    pub(crate) fn body(&self, worker: &Worker) -> ActivityBody<'_> {
        let ActivityQuery { since_ms, until_ms, period, offset_ms, .. } = &self.query;
        let row = |(group, counters)| RowBody::new(group, counters, &self.query, worker);
        ActivityBody {
            data: self.sums.iter().map(row).collect(),
            since: rfc_3339(*since_ms),
            until: rfc_3339(*until_ms),
            group: period.as_str(),
            tz_offset_minutes: offset_ms / MINUTE_MS,
            replicas: self.replicas,
        }
    }
}

/// What the sums are grouped by, beside model, provider and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Day,
    Hour,
}

impl Period {
    const fn as_str(self) -> &'static str {
        match self {
            Period::Day => "day",
            Period::Hour => "hour",
        }
    }

    const fn millis(self) -> i64 {
        match self {
            Period::Day => DAY_MS,
            Period::Hour => HOUR_MS,
        }
    }

    /// How far back the activity goes without `since`, the current period not counted.
    const fn default_range(self) -> i64 {
        match self {
            Period::Day => 29 * DAY_MS,
            Period::Hour => 23 * HOUR_MS,
        }
    }
}

/// A validated query.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ActivityQuery {
    /// Beginning of the first slot.
    since_ms: i64,
    /// End of the last slot.
    until_ms: i64,
    period: Period,
    /// Local time minus UTC.
    offset_ms: i64,
    /// Owners of the rows; `None` for all.
    owner: Option<u64>,
}

/// One row of the answer, in its order: latest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    start_ms: std::cmp::Reverse<i64>,
    model: String,
    provider: String,
    owner: String,
    key: String,
}

impl ActivityQuery {
    const PARAMETERS: [&'static str; 4] = ["since", "until", "group", "tz_offset_minutes"];

    fn parse(query: &str, listed: Listed<'_>, now_ms: i64) -> Result<ActivityQuery, ApiError> {
        let (mut since, mut until, mut period, mut offset_ms) = (None, None, Period::Day, 0);
        let mut owner = match listed {
            Listed::Own(caller) => Some(caller.owner),
            Listed::Everybody(_) => None,
        };
        for (name, value) in query_parameters::pairs(query, &ledger_query::allowed(&Self::PARAMETERS, listed))? {
            match name.as_str() {
                "since" => since = Some(ledger_query::time("since", &value)?),
                "until" => until = Some(ledger_query::time("until", &value)?),
                "group" => period = read_period(&value)?,
                "tz_offset_minutes" => offset_ms = read_offset(&value)?,
                _ => owner = ledger_query::owner(&name, &value, listed)?.or(owner),
            }
        }
        let query = ActivityQuery { since_ms: 0, until_ms: 0, period, offset_ms, owner };
        let until_ms = slot_end(until.unwrap_or(now_ms.saturating_add(1)));
        let since_ms = slot_start(since.unwrap_or_else(|| query.start(until_ms - 1) - period.default_range()));
        ledger_query::in_order(since, Some(until.unwrap_or(until_ms) - 1))?;
        if until_ms - since_ms > MAX_RANGE_MS {
            let message = "'since' and 'until' must be at most 92 days apart. The ledger keeps sums for 90 days.";
            return Err(ApiError::bad_query("since", message));
        }
        Ok(ActivityQuery { since_ms, until_ms, ..query })
    }

    /// Beginning of the day or hour that a time lies in.
    fn start(&self, ms: i64) -> i64 {
        let local = ms + self.offset_ms;
        local - local.rem_euclid(self.period.millis()) - self.offset_ms
    }

    fn sums(&self, rows: Vec<ActivityRow>) -> BTreeMap<Group, ActivityCounters> {
        let owner = self.owner.map(owner_label);
        let is_listed = |row: &ActivityRow| owner.as_ref().is_none_or(|owner| **owner == *row.owner);
        let mut sums: BTreeMap<Group, ActivityCounters> = BTreeMap::new();
        for row in rows.into_iter().filter(is_listed) {
            let start_ms = std::cmp::Reverse(self.start(row.slot_ms));
            let group = Group { start_ms, model: row.model, provider: row.provider, owner: row.owner, key: row.key };
            sums.entry(group).or_default().add(&row.counters);
        }
        sums
    }
}

fn slot_start(ms: i64) -> i64 {
    ms - ms.rem_euclid(SLOT_MS)
}

fn slot_end(ms: i64) -> i64 {
    slot_start(ms.saturating_add(SLOT_MS - 1))
}

fn read_period(value: &str) -> Result<Period, ApiError> {
    let periods = [Period::Day, Period::Hour];
    let found = periods.into_iter().find(|period| period.as_str() == value);
    found.ok_or_else(|| ApiError::invalid(Invalid::none_of("group", &shown(value), &periods.map(Period::as_str))))
}

fn read_offset(value: &str) -> Result<i64, ApiError> {
    let minutes = value.parse::<i64>().ok().filter(|minutes| (-12 * 60..=14 * 60).contains(minutes));
    let minutes = minutes.filter(|minutes| minutes % 15 == 0).ok_or_else(|| {
        let message = "'tz_offset_minutes' must be local time minus UTC in minutes, a multiple of 15 from -720 to 840.";
        ApiError::bad_query("tz_offset_minutes", message)
    });
    minutes.map(|minutes| minutes * MINUTE_MS)
}

/// The activity in answers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct ActivityBody<'a> {
    /// Latest first.
    pub(crate) data: Vec<RowBody<'a>>,
    /// Beginning of the first quarter of an hour that is counted. RFC 3339, UTC, with milliseconds.
    pub(crate) since: String,
    /// End of the last one. RFC 3339, UTC, with milliseconds.
    pub(crate) until: String,
    /// What the rows are summed up by.
    #[cfg_attr(test, schemars(extend("enum" = ["day", "hour"])))]
    pub(crate) group: &'static str,
    /// Local time less UTC in minutes, as asked for; days begin at local midnight.
    pub(crate) tz_offset_minutes: i64,
    /// Whose records these are, where replicas share them: those of all, or, while PostgreSQL is away, those of this
    /// replica alone. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<Coverage>,
}

/// Sums of one day or hour, model, provider and key.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ActivityRow"))]
pub(crate) struct RowBody<'a> {
    /// Local date of the day or hour, by `tz_offset_minutes`.
    pub(crate) date: String,
    /// Beginning of the day or hour. RFC 3339, UTC, with milliseconds.
    pub(crate) start: String,
    /// Id of the model that served; if none did, the requested one.
    pub(crate) model: &'a str,
    /// Slug of the provider that served; `null` if none did.
    pub(crate) provider_slug: Option<&'a str>,
    /// Name of the key that called; `null` if neither it nor another key of its account exists any more.
    pub(crate) key: Option<String>,
    /// Number of the account, as 16 hexadecimal digits. It identifies the records of the account, also after its keys
    /// were removed.
    pub(crate) owner: &'a str,
    /// Calls that were admitted in it and have ended.
    pub(crate) requests: u64,
    /// Requests that ended with an error. A client that left is no error.
    pub(crate) failed: u64,
    /// Tokens of the prompt, those read from or written to a cache included.
    pub(crate) prompt_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub(crate) completion_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    pub(crate) cached_tokens: u64,
    /// Tokens of the answer that were spent on reasoning.
    pub(crate) reasoning_tokens: u64,
    /// Prompt tokens written to the provider's cache.
    pub(crate) cache_write_tokens: u64,
    /// Of those, the tokens written to be kept for one hour.
    pub(crate) cache_write_1h_tokens: u64,
    /// Other prompt tokens that are audio.
    pub(crate) audio_tokens: u64,
    /// Tokens of the answer that are audio.
    pub(crate) audio_output_tokens: u64,
    /// Billed images.
    pub(crate) images: u64,
    /// Billed web searches.
    pub(crate) web_searches: u64,
    /// Requests of which `cost` leaves something out, because an endpoint has no known price.
    pub(crate) unknown_costs: u64,
    /// US dollars of all attempts whose price is known, failed ones included.
    pub(crate) cost: Dollars,
}

impl<'a> RowBody<'a> {
    fn new(group: &'a Group, counters: &ActivityCounters, query: &ActivityQuery, worker: &Worker) -> RowBody<'a> {
        let start_ms = group.start_ms.0;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let local = DateTime::from_timestamp_millis(start_ms + query.offset_ms).unwrap_or_default();
        RowBody {
            date: local.format("%Y-%m-%d").to_string(),
            start: rfc_3339(start_ms),
            model: &group.model,
            provider_slug: Some(&*group.provider).filter(|slug| !slug.is_empty()),
            key: number(&group.owner).and_then(|owner| key_name(worker, owner, number(&group.key).unwrap_or_default())),
            owner: &group.owner,
            requests: counters.requests,
            failed: counters.failed,
            prompt_tokens: counters.prompt_tokens,
            completion_tokens: counters.completion_tokens,
            cached_tokens: counters.cached_tokens,
            reasoning_tokens: counters.reasoning_tokens,
            cache_write_tokens: counters.cache_write_tokens,
            cache_write_1h_tokens: counters.cache_write_1h_tokens,
            audio_tokens: counters.audio_tokens,
            audio_output_tokens: counters.audio_output_tokens,
            images: counters.images,
            web_searches: counters.web_searches,
            unknown_costs: counters.unknown_costs,
            cost: Dollars(counters.cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23T06:07:00Z.
    const NOW: i64 = 1_795_414_020_000;

    fn row(time: &str, owner: u64, requests: u64) -> ActivityRow {
        ActivityRow {
            slot_ms: slot_start(ledger_query::time("since", time).unwrap()),
            model: "acme/small".to_owned(),
            provider: "acme".to_owned(),
            owner: owner_label(owner).into(),
            key: String::new(),
            team: String::new(),
            counters: ActivityCounters { requests, ..ActivityCounters::default() },
        }
    }

    fn query(period: Period, offset_minutes: i64, owner: Option<u64>) -> ActivityQuery {
        ActivityQuery { since_ms: 0, until_ms: NOW, period, offset_ms: offset_minutes * MINUTE_MS, owner }
    }

    #[test]
    fn days_and_hours_begin_where_the_offset_says_and_the_latest_comes_first() {
        let rows = ["2026-11-22T17:45:00Z", "2026-11-22T18:30:00Z", "2026-11-23T00:00:00Z", "2026-11-23T05:15:00Z"];
        for (period, offset, expected) in [
            (Period::Day, 0, &[("2026-11-23T00:00:00.000Z", 2), ("2026-11-22T00:00:00.000Z", 2)][..]),
            (Period::Day, 330, &[("2026-11-22T18:30:00.000Z", 3), ("2026-11-21T18:30:00.000Z", 1)]),
            (Period::Day, -360, &[("2026-11-22T06:00:00.000Z", 4)]),
            (
                Period::Hour,
                30,
                &[
                    ("2026-11-23T04:30:00.000Z", 1),
                    ("2026-11-22T23:30:00.000Z", 1),
                    ("2026-11-22T18:30:00.000Z", 1),
                    ("2026-11-22T17:30:00.000Z", 1),
                ],
            ),
        ] {
            let sums = query(period, offset, None).sums(rows.iter().map(|time| row(time, 1, 1)).collect());
            let found: Vec<_> = sums.iter().map(|(group, sum)| (rfc_3339(group.start_ms.0), sum.requests)).collect();
            let expected: Vec<_> = expected.iter().map(|(start, count)| ((*start).to_owned(), *count)).collect();
            assert_eq!(found, expected, "{period:?} {offset}");
        }
    }

    #[test]
    fn sums_are_of_one_owner_or_apart_by_owner() {
        let rows = || vec![row("2026-11-23", 1, 2), row("2026-11-23", 2, 5), row("2026-11-23T00:15:00Z", 1, 3)];
        let requests = |owner| {
            let sums = query(Period::Day, 0, owner).sums(rows());
            sums.values().map(|sum| sum.requests).collect::<Vec<_>>()
        };
        assert_eq!((requests(None), requests(Some(2)), requests(Some(3))), (vec![5, 5], vec![5], vec![]));
    }

    /// The requests of these rows in a range, as an answer adds them up.
    fn requests(rows: &[ActivityRow], range: std::ops::Range<i64>, period: Period, offset_minutes: i64) -> u64 {
        let within = rows.iter().filter(|row| range.contains(&row.slot_ms)).cloned().collect();
        query(period, offset_minutes, None).sums(within).values().map(|counters| counters.requests).sum()
    }

    #[test]
    fn single_days_add_up_to_the_range_and_to_its_hours_in_every_zone_and_across_changes_of_the_clock() {
        use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
        let mut rng = StdRng::seed_from_u64(33);
        let first = ledger_query::time("since", "2026-02-20T00:00:00Z").unwrap();
        let mut slot = || first + rng.random_range(0..40 * DAY_MS / SLOT_MS) * SLOT_MS;
        let rows: Vec<ActivityRow> = (0..3_000)
            .map(|n| ActivityRow {
                slot_ms: slot(),
                counters: ActivityCounters { requests: 1 + n % 3, ..Default::default() },
                ..row("2026-03-01", 1, 1)
            })
            .collect();
        // Minutes from UTC before and after 8 March 2026, when clocks go forward in St. John's.
        for (before, after) in [(0, 0), (330, 330), (-210, -150), (840, 840), (-720, -720)] {
            let offset = |day: i64| if day < 16 { before } else { after };
            let midnight = |day: i64| first + day * DAY_MS - offset(day) * MINUTE_MS;
            let (start, end) = (2, 30);
            let sum = |period: Period| -> u64 {
                (start..end).map(|day| requests(&rows, midnight(day)..midnight(day + 1), period, offset(day))).sum()
            };
            let range = midnight(start)..midnight(end);
            let truth: u64 =
                rows.iter().filter(|row| range.contains(&row.slot_ms)).map(|row| row.counters.requests).sum();
            assert!(truth > 1_000, "{truth}");
            assert_eq!((sum(Period::Day), sum(Period::Hour)), (truth, truth), "{before} {after}");
            assert_eq!(requests(&rows, range.clone(), Period::Day, after), truth);
            assert_eq!(requests(&rows, range, Period::Hour, after), truth);
        }
    }
}
