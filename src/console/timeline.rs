//! Charts of the last minutes, hours or days, and a table with the same numbers. Minutes are those that the ledger counts as calls
//! end; hours and days are its sums.

use std::collections::BTreeMap;

use chrono::DateTime;
use maud::{Markup, html};
use pointsman_actors::ledger::series::{Slot, first_output_ms};
use pointsman_base::clock;
use pointsman_domain::{Usd, grouped};

use super::{
    chart::{self, Chart, Kind, Series},
    format, words,
};
use crate::{
    access::keys::Caller,
    api::{
        admin::{series, series_view::Totals},
        generations::{activity, ledger_query::Listed},
        models::measurements::rfc_3339,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Colours of the most frequent reasons of refusals.
const REASON_TONES: [&str; 6] = ["t4", "t2", "t3", "t7", "t8", "t9"];

/// A range of time that can be chosen.
#[derive(Debug, Clone, Copy)]
struct Range {
    /// Its word in the address.
    word: &'static str,
    name: &'static str,
    span_ms: i64,
    step_ms: i64,
    /// What a slot is called.
    slot: &'static str,
}

const RANGES: [Range; 5] = [
    Range { word: "15m", name: "15 min", span_ms: HOUR_MS / 4, step_ms: MINUTE_MS, slot: "a minute" },
    Range { word: "1h", name: "1 h", span_ms: HOUR_MS, step_ms: MINUTE_MS, slot: "a minute" },
    Range { word: "24h", name: "24 h", span_ms: DAY_MS, step_ms: HOUR_MS / 4, slot: "in 15 minutes" },
    Range { word: "7d", name: "7 d", span_ms: 7 * DAY_MS, step_ms: HOUR_MS, slot: "an hour" },
    Range { word: "30d", name: "30 d", span_ms: 30 * DAY_MS, step_ms: DAY_MS, slot: "a day (UTC)" },
];

/// What happened in each slot of a range, oldest first. The last slot is not over.
pub(super) struct Timeline {
    range: Range,
    buckets: Vec<Bucket>,
    refused: Vec<(&'static str, Vec<u64>)>,
    marks: Vec<(i64, &'static str)>,
}

#[derive(Default)]
struct Bucket {
    start_ms: i64,
    totals: Totals,
    p50: Option<f64>,
    p95: Option<f64>,
}

impl Timeline {
    /// The range that `word` names; without one the last 15 minutes if nothing happened before them in the hour, else the hour.
    ///
    /// # Errors
    /// 503 when the ledger does not answer in time; 404 without records on disk, which hours and days need; 429 as analyses.
    pub(super) async fn read(worker: &Worker, caller: &Caller, word: Option<&str>) -> Result<Timeline, ApiError> {
        let range = match RANGES.into_iter().find(|range| Some(range.word) == word) {
            Some(range) => range,
            None => fitting(worker).await?,
        };
        let buckets = match range.step_ms {
            HOUR_MS.. => of_sums(worker, caller, range).await?,
            _ => of_minutes(worker, range).await?,
        };
        let since_ms = buckets.first().map_or(0, |bucket| bucket.start_ms);
        let loaded = worker.shared.process.reloads.status.loaded().into_iter();
        let marks = loaded.filter(|(at_ms, _)| *at_ms >= since_ms).map(|(at_ms, what)| (at_ms / 1_000, what));
        let refused = refusals(worker, &buckets, range.step_ms);
        Ok(Timeline { range, refused, marks: marks.collect(), buckets })
    }

    /// The word of the range in the address.
    pub(super) const fn word(&self) -> &'static str {
        self.range.word
    }

    /// The call of the API with the same numbers.
    pub(super) fn api(&self) -> String {
        match (self.range.step_ms, self.range.span_ms) {
            (DAY_MS, _) => "/api/v1/admin/activity?group_by=day".to_owned(),
            (HOUR_MS, _) => format!("/api/v1/admin/activity?group_by=hour&since={}", self.since_ms()),
            (_, DAY_MS) => "/api/v1/admin/series?span=24h".to_owned(),
            _ => "/api/v1/admin/series?span=1h".to_owned(),
        }
    }

    fn since_ms(&self) -> i64 {
        self.buckets.first().map_or(0, |bucket| bucket.start_ms)
    }

    /// The charts, and their numbers as a table.
    pub(super) fn show(&self) -> Markup {
        let slot = self.range.slot;
        let is_detailed = self.range.step_ms < HOUR_MS;
        let count = |name, tone, filter, of: fn(&Totals) -> u64| {
            Series::new(name, tone, filter, self.buckets.iter().map(|bucket| Some(of(&bucket.totals) as f64)))
        };
        let served = if is_detailed { "first attempt" } else { "answered" };
        let mut calls = vec![count(served, "t1", "", |totals| totals.ok)];
        if is_detailed {
            calls.push(count("after a failover", "t2", "rescued=true", |totals| totals.rescued));
        }
        calls.push(count("failed", "t4", "status=failed", |totals| totals.failed));
        let cost = self.buckets.iter().map(|bucket| Some(bucket.totals.spent.to_f64()));
        let cost = vec![Series::new("known cost, failed attempts included", "t5", "", cost)];
        let time =
            |name, tone, of: fn(&Bucket) -> Option<f64>| Series::new(name, tone, "", self.buckets.iter().map(of));
        let times = vec![time("p50", "t1", |bucket| bucket.p50), time("p95", "t2", |bucket| bucket.p95)];
        let reasons = self.refused.iter().zip(REASON_TONES).map(|((reason, counts), tone)| {
            let counts = counts.iter().map(|count| Some(*count as f64));
            Series::new(&words::spaced(reason), tone, &format!("reason={reason}"), counts)
        });
        let refused: u64 = self.refused.iter().flat_map(|(_, counts)| counts).sum();
        let all: u64 = self.buckets.iter().map(|bucket| bucket.totals.calls()).sum();
        let spent = self.buckets.iter().fold(Usd::ZERO, |sum, bucket| sum + bucket.totals.spent);
        let said = |what: String| format!("{what} in all");
        html! {
            div.plots {
                (chart::figure("plot-calls", &format!("Requests {slot}"), &said(grouped(all.into())), &self.chart(Kind::Bars, "", calls)))
                (chart::figure("plot-cost", &format!("Cost {slot}"), &said(format::dollars(spent)), &self.chart(Kind::Bars, "$", cost)))
                @if is_detailed {
                    (chart::figure("plot-first", "Time to the first token", "median and 95th percentile", &self.chart(Kind::Lines, "ms", times)))
                }
                @if refused > 0 {
                    @let chart = Chart { link: Some("refused".to_owned()), ..self.chart(Kind::Bars, "", reasons.collect()) };
                    (chart::figure("plot-refused", &format!("Refused {slot}"), &said(grouped(refused.into())), &chart))
                }
            }
            (self.table())
        }
    }

    fn chart(&self, kind: Kind, unit: &'static str, series: Vec<Series>) -> Chart {
        Chart {
            kind,
            unit,
            x: self.buckets.iter().map(|bucket| (bucket.start_ms / 1_000) as f64).collect(),
            step: self.range.step_ms / 1_000,
            offset: (self.range.step_ms == DAY_MS).then_some(0),
            running: true,
            series,
            marks: self.marks.clone(),
            link: Some("decisions".to_owned()),
            ..Chart::default()
        }
    }

    /// The slots with calls, newest first.
    fn table(&self) -> Markup {
        let busy = self.buckets.iter().rev().filter(|bucket| bucket.totals != Totals::default());
        html! {
            details {
                summary { "The same as numbers" }
                div.scroll tabindex="0" {
                    table {
                        caption.visually-hidden { "Slots of time in which calls ended, newest first" }
                        thead { tr {
                            th scope="col" { "From, " (format::zone()) } th.r scope="col" { "First attempt" } th.r scope="col" { "After a failover" } th.r scope="col" { "Failed" }
                            th.r scope="col" { "Refused" } th.r scope="col" { "Cost" } th.r scope="col" { "Tokens" } th.r scope="col" { "p50" } th.r scope="col" { "p95" }
                        } }
                        tbody { @for bucket in busy { (self.row(bucket)) } }
                    }
                }
            }
        }
    }

    fn row(&self, bucket: &Bucket) -> Markup {
        let (start, totals) = (rfc_3339(bucket.start_ms), &bucket.totals);
        let address = format!("decisions?since={}&until={}", bucket.start_ms, bucket.start_ms + self.range.step_ms);
        html! {
            tr {
                th scope="row" { a href=(address) { @if self.range.span_ms > DAY_MS { (format::short_time(&start)) } @else { (format::clock(&start)) } } }
                td.r { (format::count(totals.ok)) } td.r { (format::count(totals.rescued)) } td.r { (format::count(totals.failed)) } td.r { (format::count(totals.shed)) }
                td.r { (format::sum(totals.spent, totals.unknown_costs)) } td.r { (format::count(totals.tokens)) }
                td.r { (format::millis(bucket.p50)) } td.r { (format::millis(bucket.p95)) }
            }
        }
    }
}

/// Links to the ranges. `word`: the one that the address has.
pub(super) fn ranges(word: Option<&str>) -> Markup {
    html! {
        nav.ranges aria-label="Time" {
            @for range in RANGES {
                a.button href={ "./?range=" (range.word) } aria-current=[(word == Some(range.word)).then_some("true")] { (range.name) }
            }
        }
    }
}

/// The range for a page that names none.
async fn fitting(worker: &Worker) -> Result<Range, ApiError> {
    let [quarter, hour, ..] = RANGES;
    let (_, minutes) = series::minutes(worker, HOUR_MS).await?;
    let before = minutes.len().saturating_sub(15);
    Ok(if minutes.iter().take(before).all(|slot| *slot == Slot::default()) { quarter } else { hour })
}

async fn of_minutes(worker: &Worker, range: Range) -> Result<Vec<Bucket>, ApiError> {
    let (start_ms, minutes) = series::minutes(worker, range.span_ms).await?;
    let mut slots: BTreeMap<i64, Vec<&Slot>> = BTreeMap::new();
    for (minute, slot) in minutes.iter().enumerate() {
        let at_ms = start_ms + minute as i64 * MINUTE_MS;
        slots.entry(at_ms - at_ms.rem_euclid(range.step_ms)).or_default().push(slot);
    }
    let buckets = slots.into_iter().filter(|(at_ms, _)| *at_ms >= start_ms).map(|(start_ms, slots)| {
        let first = |percent| first_output_ms(slots.iter().copied(), percent).map(|millis| millis as f64);
        Bucket { start_ms, totals: Totals::sum(slots.iter().copied()), p50: first(50), p95: first(95) }
    });
    Ok(buckets.collect())
}

async fn of_sums(worker: &Worker, caller: &Caller, range: Range) -> Result<Vec<Bucket>, ApiError> {
    let now_ms = clock::unix_millis();
    let start_ms = now_ms - now_ms.rem_euclid(range.step_ms) - (range.span_ms - range.step_ms);
    let word = if range.step_ms == DAY_MS { "day" } else { "hour" };
    let query = format!("group_by={word}&since={start_ms}");
    let activity = activity::read(worker, caller, Listed::Everybody(worker), &query).await?;
    let body = activity.body(worker);
    let totals = |row: &activity::view::RowBody<'_>| Totals {
        ok: row.requests.saturating_sub(row.failed),
        failed: row.failed,
        tokens: row.prompt_tokens.saturating_add(row.completion_tokens),
        spent: row.cost.0,
        unknown_costs: row.unknown_costs,
        ..Totals::default()
    };
    let millis = |time: &str| DateTime::parse_from_rfc3339(time).map(|time| time.timestamp_millis()).ok();
    let known = body.data.iter().filter_map(|row| Some((millis(row.start.as_deref()?)?, totals(row))));
    let known: BTreeMap<i64, Totals> = known.collect();
    let slots = (0..range.span_ms / range.step_ms).map(|slot| start_ms + slot * range.step_ms);
    let bucket =
        |start_ms| Bucket { start_ms, totals: known.get(&start_ms).copied().unwrap_or_default(), ..Bucket::default() };
    Ok(slots.map(bucket).collect())
}

/// How many calls were refused in each slot for the most frequent reasons.
fn refusals(worker: &Worker, buckets: &[Bucket], step_ms: i64) -> Vec<(&'static str, Vec<u64>)> {
    let since_ms = buckets.first().map_or(i64::MAX, |bucket| bucket.start_ms);
    let mut reasons: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
    for (at_ms, reason) in worker.shared.records.refused_calls.reasons_since(since_ms) {
        let counts = reasons.entry(reason).or_insert_with(|| vec![0; buckets.len()]);
        let slot = usize::try_from((at_ms - since_ms) / step_ms).ok();
        slot.and_then(|slot| counts.get_mut(slot)).into_iter().for_each(|count| *count += 1);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    reasons.truncate(REASON_TONES.len());
    reasons
}
