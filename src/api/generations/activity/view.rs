//! The activity in answers.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_domain::Usd;
use pointsman_ledger::activity::{ActivityCounters, grouping::Dimension};
use serde::Serialize;

use super::{
    query::{Length, date},
    reading::{Activity, Row},
};
use crate::{
    api::{
        csv::{Csv, cells},
        generations::generation_list::{Coverage, key_name},
        models::measurements::rfc_3339,
        number::{Dollars, Figure},
    },
    state::gateway::Worker,
};

const MINUTE_MS: i64 = 60_000;

view! {
    /// The activity in answers.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct ActivityBody<'a> {
        fn new(activity: &'a Activity, worker: &Worker) {
            let query = &activity.query;
            let is_grouped = query.is_grouped;
            let length = query.by.length.map(Length::as_str);
            let words = query.by.dimensions.iter().map(|dimension| dimension.as_str()).chain(length).collect();
            let before = query.before_ms.filter(|_| is_grouped).map(|before_ms| RangeBody {
                since: rfc_3339(before_ms),
                until: rfc_3339(before_ms + query.until_ms - query.since_ms),
            });
        }

        /// Latest first. With `group_by`, of one time the dearest first.
        pub(crate) data: Vec<RowBody<'a>> =
            activity.rows.iter().map(|row| RowBody::new(row, activity, worker)).collect(),
        /// Beginning of the first quarter of an hour that is counted. RFC 3339, UTC, with milliseconds.
        pub(crate) since: String = rfc_3339(query.since_ms),
        /// End of the last one. RFC 3339, UTC, with milliseconds.
        pub(crate) until: String = rfc_3339(query.until_ms),
        /// What the rows are summed up by, beside model, provider and key; absent with `group_by`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) group: Option<&'static str> = length.filter(|_| !is_grouped),
        /// What the rows are told apart by, as asked for; absent without `group_by`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) group_by: Option<Vec<&'static str>> = is_grouped.then_some(words),
        /// Local time less UTC in minutes, as asked for; days begin at local midnight.
        pub(crate) tz_offset_minutes: i64 = query.offset_ms / MINUTE_MS,
        /// The time just before, which is as long. Its figures are `before` in `totals` and `cost_before` in rows. Absent without
        /// `group_by`, and where it began more than 90 days ago.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) before: Option<RangeBody> = before,
        /// All rows together; absent without `group_by`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) totals: Option<TotalsBody> =
            is_grouped.then(|| TotalsBody::new(&activity.total, activity.before.as_ref())),
        /// Whose records these are, where replicas share them: those of all, or, while PostgreSQL is away, those of this
        /// replica alone. Absent otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) replicas: Option<Coverage> = activity.replicas,
    }
}

/// A range of time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct RangeBody {
    /// Its beginning. RFC 3339, UTC, with milliseconds.
    pub(crate) since: String,
    /// Its end. RFC 3339, UTC, with milliseconds.
    pub(crate) until: String,
}

view! {
    /// Sums of all rows, each with that of the period before and the difference.
    pub(crate) struct TotalsBody as "ActivityTotals" {
        fn new(now: &ActivityCounters, before: Option<&ActivityCounters>) {
            let count = |of: fn(&ActivityCounters) -> u64| {
                let (value, before) = (of(now), before.map(of));
                let change = before.map(|before| value.cast_signed().saturating_sub(before.cast_signed()));
                Count { value, before, change }
            };
        }

        pub(crate) requests: Count = count(|sum| sum.requests),
        pub(crate) failed: Count = count(|sum| sum.failed),
        pub(crate) prompt_tokens: Count = count(|sum| sum.prompt_tokens),
        pub(crate) completion_tokens: Count = count(|sum| sum.completion_tokens),
        pub(crate) cached_tokens: Count = count(|sum| sum.cached_tokens),
        pub(crate) reasoning_tokens: Count = count(|sum| sum.reasoning_tokens),
        pub(crate) cache_write_tokens: Count = count(|sum| sum.cache_write_tokens),
        pub(crate) cache_write_1h_tokens: Count = count(|sum| sum.cache_write_1h_tokens),
        pub(crate) audio_tokens: Count = count(|sum| sum.audio_tokens),
        pub(crate) audio_output_tokens: Count = count(|sum| sum.audio_output_tokens),
        pub(crate) images: Count = count(|sum| sum.images),
        pub(crate) web_searches: Count = count(|sum| sum.web_searches),
        pub(crate) unknown_costs: Count = count(|sum| sum.unknown_costs),
        pub(crate) cost: Cost = Cost::new(now.cost, before.map(|before| before.cost)),
    }
}

/// A count and that of the period before.
#[derive(Serialize, Clone, Copy)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct Count {
    /// In the period.
    pub(crate) value: u64,
    /// In the period before; `null` where it is not known.
    pub(crate) before: Option<u64>,
    /// The first less the second; `null` where that is not known.
    pub(crate) change: Option<i64>,
}

view! {
    /// An amount of US dollars and that of the period before.
    #[derive(Clone, Copy)]
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct Cost {
        pub(super) fn new(value: Usd, before: Option<Usd>) {
            let change = before.map(|before| Dollars(value - before));
        }

        /// In the period.
        pub(crate) value: Dollars = Dollars(value),
        /// In the period before; `null` where it is not known.
        pub(crate) before: Option<Dollars> = before.map(Dollars),
        /// The first less the second; `null` where that is not known.
        pub(crate) change: Option<Dollars> = change,
    }
}

view! {
    /// Sums of calls that have in common what rows are told apart by: without `group_by` day or hour, model, provider and key. Of
    /// the members that name it a row has those alone, and account and team of a key.
    pub(crate) struct RowBody<'a> as "ActivityRow" {
        fn new(row: &'a Row, activity: &'a Activity, worker: &Worker) {
            let (query, names, counters) = (&activity.query, &activity.names, &row.counted.counters);
            let by = &query.by;
            let label = |dimension| row.key.get(dimension);
            let text = |dimension| by.has(dimension).then(|| Some(label(dimension)).filter(|text| !text.is_empty()));
            let one = |of: &'a BTreeSet<String>| {
                Some(of).filter(|of| of.len() == 1).and_then(|of| of.first()).map(String::as_str)
            };
            let has_account = by.has(Dimension::Account) || by.has(Dimension::Key);
            let owner = one(&row.counted.accounts).filter(|_| has_account);
            let account = has_account.then(|| owner.and_then(|owner| names.name(Dimension::Account, owner)));
            let team =
                (has_account || by.has(Dimension::Team)).then(|| one(&row.counted.teams).filter(|team| !team.is_empty()));
            let key = by.has(Dimension::Key).then(|| {
                let number = |label: &str| u64::from_str_radix(label, 16).ok();
                match query.is_grouped {
                    true => names.name(Dimension::Key, label(Dimension::Key)).map(str::to_owned),
                    false => owner
                        .and_then(number)
                        .and_then(|owner| key_name(worker, owner, number(label(Dimension::Key)).unwrap_or_default())),
                }
            });
        }

        /// Local date of the day or hour, by `tz_offset_minutes`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) date: Option<String> = by.length.map(|_| date(row.start_ms, query.offset_ms)),
        /// Beginning of the day or hour. RFC 3339, UTC, with milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) start: Option<String> = by.length.map(|_| rfc_3339(row.start_ms)),
        /// Id of the model that served; if none did, the requested one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) model: Option<&'a str> = by.has(Dimension::Model).then(|| label(Dimension::Model)),
        /// Slug of the provider that served; `null` if none did.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "crate::base::words::OrNull<String>"))]
        pub(crate) provider_slug: Option<Option<&'a str>> = text(Dimension::Provider),
        /// Name of the key that called; `null` if it does not exist any more. Without `group_by` the name of another key of its
        /// account stands for that of a removed one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "crate::base::words::OrNull<String>"))]
        pub(crate) key: Option<Option<String>> = key,
        /// Number of the key, as 16 hexadecimal digits; `null` for callers without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "crate::base::words::OrNull<String>"))]
        pub(crate) key_id: Option<Option<&'a str>> = text(Dimension::Key),
        /// Number of the account, as 16 hexadecimal digits. It identifies the records of the account, also after its keys
        /// were removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) owner: Option<&'a str> = owner,
        /// Name of the account; `null` if it has no key any more.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "crate::base::words::OrNull<String>"))]
        pub(crate) account: Option<Option<&'a str>> = account,
        /// Name of the team at the time; `null` without one, and where there were several.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "crate::base::words::OrNull<String>"))]
        pub(crate) team: Option<Option<&'a str>> = team,
        /// The alias that was asked for; `null` for a fixed model.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "crate::base::words::OrNull<String>"))]
        pub(crate) alias: Option<Option<&'a str>> = text(Dimension::Alias),
        /// What the choice optimised.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) objective: Option<&'a str> = by.has(Dimension::Objective).then(|| label(Dimension::Objective)),
        /// Class of the task; `null` without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "crate::base::words::OrNull<String>"))]
        pub(crate) task: Option<Option<&'a str>> = text(Dimension::Task),
        /// Calls that were admitted in it and have ended.
        pub(crate) requests: u64 = counters.requests,
        /// Requests that ended with an error. A client that left is no error.
        pub(crate) failed: u64 = counters.failed,
        /// Tokens of the prompt, those read from or written to a cache included.
        pub(crate) prompt_tokens: u64 = counters.prompt_tokens,
        /// Tokens of the answer, reasoning included.
        pub(crate) completion_tokens: u64 = counters.completion_tokens,
        /// Prompt tokens read from the provider's cache.
        pub(crate) cached_tokens: u64 = counters.cached_tokens,
        /// Tokens of the answer that were spent on reasoning.
        pub(crate) reasoning_tokens: u64 = counters.reasoning_tokens,
        /// Prompt tokens written to the provider's cache.
        pub(crate) cache_write_tokens: u64 = counters.cache_write_tokens,
        /// Of those, the tokens written to be kept for one hour.
        pub(crate) cache_write_1h_tokens: u64 = counters.cache_write_1h_tokens,
        /// Other prompt tokens that are audio.
        pub(crate) audio_tokens: u64 = counters.audio_tokens,
        /// Tokens of the answer that are audio.
        pub(crate) audio_output_tokens: u64 = counters.audio_output_tokens,
        /// Billed images.
        pub(crate) images: u64 = counters.images,
        /// Billed web searches.
        pub(crate) web_searches: u64 = counters.web_searches,
        /// Requests of which `cost` leaves something out, because an endpoint has no known price.
        pub(crate) unknown_costs: u64 = counters.unknown_costs,
        /// Its part of the cost of all rows, from 0 to 1. Absent without `group_by`, and while nothing was spent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) share: Option<Figure> =
            Figure::part(counters.cost, activity.total.cost).filter(|_| query.is_grouped),
        /// US dollars in the period before. Absent without `group_by`, with `day` or `hour` in it, and where that period began
        /// more than 90 days ago.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) cost_before: Option<Dollars> = row.before.map(Dollars),
        /// `cost` less `cost_before`; absent where that is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) cost_change: Option<Dollars> = row.before.map(|before| Dollars(counters.cost - before)),
        /// US dollars of all attempts whose price is known, failed ones included.
        pub(crate) cost: Dollars = Dollars(counters.cost),
    }
}

impl Activity {
    /// The activity as it is shown.
    pub(crate) fn body(&self, worker: &Worker) -> ActivityBody<'_> {
        ActivityBody::new(self, worker)
    }
}

impl<'a> ActivityBody<'a> {
    /// The rows as CSV: the members that they have, in their order, without those that are made of others.
    pub(super) fn csv(&self) -> Csv {
        let mut csv = Csv::default();
        let rows: Vec<BTreeMap<String, String>> = self.data.iter().map(cells).collect();
        let is_counted = |name: &str| !CELLS.iter().take(ABOUT).any(|about| *about == name);
        let has = |name: &&str| rows.iter().any(|row| row.contains_key(*name)) || (rows.is_empty() && is_counted(name));
        let columns: Vec<&str> = CELLS.into_iter().filter(has).collect();
        csv.row(columns.iter().copied());
        let row = |row: &BTreeMap<String, String>| {
            csv.row(columns.iter().map(|name| row.get(*name).map_or("", String::as_str)));
        };
        rows.iter().for_each(row);
        csv
    }
}

impl<'a> RowBody<'a> {
    /// What the row is about in a dimension; `None` where rows are not told apart by it, or where there is none.
    pub(crate) fn name(&self, dimension: Dimension) -> Option<&str> {
        match dimension {
            Dimension::Account => self.account.flatten(),
            Dimension::Key => self.key.as_ref().and_then(Option::as_deref),
            Dimension::Team => self.team.flatten(),
            Dimension::Model => self.model,
            Dimension::Provider => self.provider_slug.flatten(),
            Dimension::Alias => self.alias.flatten(),
            Dimension::Objective => self.objective,
            Dimension::Task => self.task.flatten(),
        }
    }
}

/// How many of [`CELLS`] say what a row is about.
const ABOUT: usize = 12;
/// The members of rows in the order of CSV.
const CELLS: [&str; 28] = [
    "date",
    "start",
    "team",
    "account",
    "owner",
    "key",
    "key_id",
    "model",
    "provider_slug",
    "alias",
    "objective",
    "task",
    "requests",
    "failed",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "audio_tokens",
    "audio_output_tokens",
    "images",
    "web_searches",
    "unknown_costs",
    "cost",
    "share",
    "cost_before",
];
