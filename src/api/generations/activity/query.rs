//! What is asked of the activity: a range of time, what its rows are told apart by, and which calls count.

use chrono::DateTime;
use pointsman_dialect::shown;
use pointsman_domain::{Invalid, InvalidReason, closest_name, listed_names};
use pointsman_ledger::{
    activity::{
        SLOT,
        grouping::{Dimension, Grouping, Period},
        slot,
    },
    generations::owner_label,
};

use super::names::{KnownNames, Named};
use crate::{
    api::{generations::ledger_query, query_parameters},
    base::error::ApiError,
};

const MINUTE_MS: i64 = 60_000;
const SLOT_MS: i64 = SLOT.as_millis() as i64;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Longest time range.
const MAX_RANGE_MS: i64 = 92 * DAY_MS;
/// How long sums are kept at least.
const KEPT_MS: i64 = 90 * DAY_MS;

pointsman_domain::named! {
    /// Length of the periods that rows are told apart by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Length {
        Day = "day",
        Hour = "hour",
    }
}

impl Length {
    pub(super) const fn millis(self) -> i64 {
        match self {
            Length::Day => DAY_MS,
            Length::Hour => HOUR_MS,
        }
    }

    /// How far back the activity goes without `since`, the current period not counted.
    const fn default_range(self) -> i64 {
        match self {
            Length::Day => 29 * DAY_MS,
            Length::Hour => 23 * HOUR_MS,
        }
    }

    fn named(name: &str) -> Option<Length> {
        Length::ALL.into_iter().find(|length| length.as_str() == name)
    }
}

/// What the rows of an answer are told apart by, in the order in which they were named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupBy {
    pub(super) dimensions: Vec<Dimension>,
    pub(super) length: Option<Length>,
}

impl GroupBy {
    /// All together.
    pub(super) const NOTHING: GroupBy = GroupBy { dimensions: Vec::new(), length: None };

    /// Without `group_by`: as every answer before there was such a parameter.
    fn unasked(length: Length) -> GroupBy {
        let dimensions = vec![Dimension::Model, Dimension::Provider, Dimension::Account, Dimension::Key];
        GroupBy { dimensions, length: Some(length) }
    }

    fn read(value: &str) -> Result<GroupBy, ApiError> {
        let mut read = GroupBy { dimensions: Vec::new(), length: None };
        for name in value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.as_str() == name);
            match (dimension, Length::named(name)) {
                (Some(dimension), _) if read.dimensions.contains(&dimension) => {}
                (Some(dimension), _) => read.dimensions.push(dimension),
                // Hours tell their days.
                (None, Some(length)) => read.length = read.length.filter(|has| *has == Length::Hour).or(Some(length)),
                (None, None) => {
                    return Err(ApiError::invalid(Invalid::none_of("group_by", &shown(name), &GroupBy::names())));
                }
            }
        }
        Ok(read)
    }

    /// All words of `group_by`.
    pub(crate) fn names() -> Vec<&'static str> {
        let dimensions = Dimension::ALL.into_iter().map(Dimension::as_str);
        dimensions.chain(Length::ALL.into_iter().map(Length::as_str)).collect()
    }

    pub(super) fn has(&self, dimension: Dimension) -> bool {
        self.dimensions.contains(&dimension)
    }
}

/// Of each dimension the labels of which calls must have one.
pub(super) type Labels = Vec<(Dimension, Vec<String>)>;

/// A validated query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActivityQuery {
    /// Beginning of the first slot.
    pub(super) since_ms: i64,
    /// End of the last slot.
    pub(super) until_ms: i64,
    /// Beginning of the period that it is compared with, which is as long; `None` where sums so old may be gone.
    pub(super) before_ms: Option<i64>,
    pub(super) by: GroupBy,
    /// Whether the caller said what rows are told apart by.
    pub(super) is_grouped: bool,
    /// Local time minus UTC.
    pub(super) offset_ms: i64,
    /// The names that calls must have, of each dimension one.
    pub(super) filters: Vec<(Dimension, Vec<Named>)>,
}

/// Which answer a query is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Rows,
    /// Why the cost differs from that of another period.
    Explanation,
}

impl ActivityQuery {
    const TIMES: [&'static str; 3] = ["since", "until", "tz_offset_minutes"];

    /// Reads a query string. `owner`: the account whose sums alone may be read; `None` for all.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub(super) fn parse(query: &str, owner: Option<u64>, asked: Asked, now_ms: i64) -> Result<ActivityQuery, ApiError> {
        let (mut since, mut until, mut compared, mut offset_ms) = (None, None, None, 0);
        let (mut length, mut group_by) = (None, None);
        let mut filters: Vec<(Dimension, Vec<Named>)> = Vec::new();
        if let Some(owner) = owner {
            filters.push((Dimension::Account, vec![Named::Label(owner_label(owner).into())]));
        }
        for (name, value) in query_parameters::pairs(query, &Self::allowed(owner, asked))? {
            match name.as_str() {
                "since" => since = Some(ledger_query::time("since", &value)?),
                "until" => until = Some(ledger_query::time("until", &value)?),
                "compare_to" => compared = Some(ledger_query::time("compare_to", &value)?),
                "group" => length = Some(read_length(&value)?),
                "group_by" => group_by = Some(GroupBy::read(&value)?),
                "tz_offset_minutes" => offset_ms = read_offset(&value)?,
                "owner" => {
                    let owner = owner_label(ledger_query::owner_number(&value)?);
                    filters.push((Dimension::Account, vec![Named::Label(owner.into())]));
                }
                _ => {
                    let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.as_str() == name);
                    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                    let names: Vec<Named> = names.map(|name| Named::Name(name.to_owned())).collect();
                    filters.extend(dimension.filter(|_| !names.is_empty()).map(|dimension| (dimension, names)));
                }
            }
        }
        if length.is_some() && group_by.is_some() {
            let message = "'group' belongs to answers without 'group_by': name 'day' or 'hour' in 'group_by' instead.";
            return Err(ApiError::bad_query("group", message));
        }
        let is_grouped = group_by.is_some();
        let by = group_by.unwrap_or_else(|| GroupBy::unasked(length.unwrap_or(Length::Day)));
        let length = by.length.unwrap_or(Length::Day);
        let until_ms = slot_end(until.unwrap_or(now_ms.saturating_add(1)));
        let first = || start_of(until_ms - 1, length, offset_ms) - length.default_range();
        let since_ms = slot_start(since.unwrap_or_else(first));
        ledger_query::in_order(since, Some(until.unwrap_or(until_ms) - 1))?;
        if until_ms - since_ms > MAX_RANGE_MS {
            let message = "'since' and 'until' must be at most 92 days apart. The ledger keeps sums for 90 days.";
            return Err(ApiError::bad_query("since", message));
        }
        let before_ms = compared.map_or(since_ms - (until_ms - since_ms), slot_start);
        let is_kept = before_ms >= slot_start(now_ms - KEPT_MS);
        if compared.is_some() && !is_kept {
            let message = "'compare_to' must be less than 90 days ago: the ledger keeps sums for so long.";
            return Err(ApiError::bad_query("compare_to", message));
        }
        let before_ms = is_kept.then_some(before_ms);
        Ok(ActivityQuery { since_ms, until_ms, before_ms, by, is_grouped, offset_ms, filters })
    }

    /// The parameters of an answer.
    fn allowed(owner: Option<u64>, asked: Asked) -> Vec<&'static str> {
        let mut allowed = Self::TIMES.to_vec();
        allowed.extend(Dimension::ALL.map(Dimension::as_str));
        match asked {
            Asked::Rows => allowed.extend(["group", "group_by"]),
            Asked::Explanation => allowed.push("compare_to"),
        }
        if owner.is_none() {
            allowed.push("owner");
        }
        allowed
    }

    /// What is asked of the ledger for the time from `since_ms`, as long as the query is for. `only`: see
    /// [`ActivityQuery::resolved`]. What a row says beside what it is told apart by is told apart too.
    pub(super) fn grouping(&self, since_ms: i64, by: &GroupBy, only: &[(Dimension, Vec<String>)]) -> Grouping {
        let length_ms = self.until_ms - self.since_ms;
        let mut dimensions = by.dimensions.clone();
        let said: &[Dimension] = match () {
            () if by.has(Dimension::Key) => &[Dimension::Account, Dimension::Team],
            () if by.has(Dimension::Account) => &[Dimension::Team],
            () => &[],
        };
        dimensions.extend(said.iter().filter(|dimension| !by.has(**dimension)));
        Grouping {
            slots: slot(since_ms)..=slot(since_ms + length_ms - 1),
            by: dimensions,
            period: by
                .length
                .map(|length| Period { slots: length.millis() / SLOT_MS, offset: self.offset_ms / SLOT_MS }),
            only: only.to_vec(),
        }
    }

    /// The labels of the names that calls must have. `is_counted` tells whether the ledger has a label.
    ///
    /// # Errors
    /// What is wrong with a name that neither the configuration nor the ledger knows.
    pub(super) fn resolved<E>(
        &self,
        known: &KnownNames,
        mut counted: impl FnMut(Dimension) -> Result<Vec<String>, E>,
    ) -> Result<Result<Labels, Invalid>, E> {
        let mut only = Vec::new();
        for (dimension, names) in &self.filters {
            let mut labels = Vec::new();
            for name in names {
                match name {
                    Named::Label(label) => labels.push(label.clone()),
                    Named::Name(name) => match known.label(*dimension, name) {
                        Some(label) => labels.push(label),
                        None => {
                            let (counted, label) = (counted(*dimension)?, KnownNames::label_of_gone(*dimension, name));
                            if !counted.contains(&label) {
                                return Ok(Err(unknown(*dimension, name, known, &counted)));
                            }
                            labels.push(label);
                        }
                    },
                }
            }
            only.push((*dimension, labels));
        }
        Ok(Ok(only))
    }
}

/// That nobody knows a name, with what may have been meant.
fn unknown(dimension: Dimension, name: &str, known: &KnownNames, counted: &[String]) -> Invalid {
    let mut names: Vec<&str> = known.names(dimension).collect();
    // Accounts and keys are counted under their numbers.
    if !matches!(dimension, Dimension::Account | Dimension::Key) {
        names.extend(counted.iter().map(String::as_str).filter(|name| !name.is_empty()));
    }
    names.sort_unstable();
    names.dedup();
    let (what, name) = (dimension.as_str(), shown(name));
    let meant = closest_name(&name, names.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!(" Did you mean '{meant}'?"));
    let listed = if names.is_empty() {
        String::new()
    } else {
        format!(" Known: {}.", listed_names(&name, names.iter().copied()))
    };
    let message = format!("Neither the configuration nor the ledger knows the {what} '{name}'.{meant}{listed}");
    Invalid::field(InvalidReason::InvalidValue, what, message).allowing(names)
}

/// Beginning of the day or hour that a time lies in.
fn start_of(ms: i64, length: Length, offset_ms: i64) -> i64 {
    let local = ms + offset_ms;
    local - local.rem_euclid(length.millis()) - offset_ms
}

/// The local date of a time.
pub(super) fn date(ms: i64, offset_ms: i64) -> String {
    DateTime::from_timestamp_millis(ms + offset_ms).unwrap_or_default().format("%Y-%m-%d").to_string()
}

fn slot_start(ms: i64) -> i64 {
    ms - ms.rem_euclid(SLOT_MS)
}

fn slot_end(ms: i64) -> i64 {
    slot_start(ms.saturating_add(SLOT_MS - 1))
}

fn read_length(value: &str) -> Result<Length, ApiError> {
    let names = Length::ALL.map(Length::as_str);
    Length::named(value).ok_or_else(|| ApiError::invalid(Invalid::none_of("group", &shown(value), &names)))
}

fn read_offset(value: &str) -> Result<i64, ApiError> {
    let minutes = value.parse::<i64>().ok().filter(|minutes| (-12 * 60..=14 * 60).contains(minutes));
    let minutes = minutes.filter(|minutes| minutes % 15 == 0).ok_or_else(|| {
        let message = "'tz_offset_minutes' must be local time minus UTC in minutes, a multiple of 15 from -720 to 840.";
        ApiError::bad_query("tz_offset_minutes", message)
    });
    minutes.map(|minutes| minutes * MINUTE_MS)
}
