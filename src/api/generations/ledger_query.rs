//! Query parameters of the lists of generations and of the activity.
//!
//! An unknown parameter is refused: a filter with a misspelt name would be ignored, and the list would show too much.

use chrono::{DateTime, NaiveDate, NaiveTime};
use pointsman_dialect::shown;
use pointsman_domain::{Generation, Invalid, Usd};
use pointsman_ledger::{
    entry::{Filter, Key, TextFilter},
    event::Event,
    facts::{label, number},
    generations::{nanos, owner_label},
};

use crate::{
    access::keys::Caller,
    api::{
        cursor,
        query_parameters::{self, LARGEST, MOST_DOLLARS, integer},
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Statuses of ended generations.
const STATUSES: [&str; 3] = ["completed", "failed", "cancelled"];

/// The owner of the records in a list.
#[derive(Clone, Copy)]
pub(crate) enum Listed<'a> {
    /// Records of one caller.
    Own(&'a Caller),
    /// All, with a filter by key.
    Everybody(&'a Worker),
}

impl Listed<'_> {
    /// The only owner of the records; `None` for all.
    pub(crate) fn owner(self) -> Option<u64> {
        match self {
            Listed::Own(caller) => Some(caller.owner),
            Listed::Everybody(_) => None,
        }
    }
}

/// Which generations a list shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Conditions that the ledger checks.
    pub(crate) filter: Filter,
    /// The cursor.
    pub(crate) after: Option<Key>,
    /// Most generations.
    pub(crate) limit: usize,
    /// Lowest cost; the filter checks it to a billionth of a dollar only.
    min_cost: Usd,
    /// Events that must not have happened.
    without: Vec<Event>,
}

impl Selection {
    const PARAMETERS: [&'static str; 20] = [
        "limit",
        "after",
        "since",
        "until",
        "model",
        "provider",
        "team",
        "alias",
        "objective",
        "task",
        "status",
        "rescued",
        "hedged",
        "explored",
        "missed_target",
        "slower_than_predicted",
        "min_ttft_ms",
        "min_cost",
        "q",
        "cause",
    ];

    /// Parses a query string. `limit` is at most `most`, by default `default`.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub(crate) fn parse(
        query: &str,
        listed: Listed<'_>,
        (default, most): (usize, usize),
    ) -> Result<Selection, ApiError> {
        let mut selection = Selection { limit: default, ..Selection::default() };
        if let Listed::Own(caller) = listed {
            selection.require_label(label::OWNER, [owner_label(caller.owner)]);
        }
        for (name, value) in query_parameters::pairs(query, &allowed(&Selection::PARAMETERS, listed))? {
            selection.add(&name, &value, listed, most)?;
        }
        in_order(selection.filter.since_ms, selection.filter.until_ms)?;
        Ok(selection)
    }

    /// The filter of a command line: times and statuses, as in a query string.
    ///
    /// # Errors
    /// A message that names the parameter.
    pub(crate) fn filter_of(parameters: &[(&str, &str)]) -> Result<Filter, ApiError> {
        let mut selection = Selection::default();
        for (name, value) in parameters {
            match *name {
                "since" => selection.filter.since_ms = Some(time(name, value)?),
                "until" => selection.filter.until_ms = Some(time(name, value)?.saturating_sub(1)),
                _ => selection.require_label(label::STATUS, statuses(value)?),
            }
        }
        in_order(selection.filter.since_ms, selection.filter.until_ms)?;
        Ok(selection.filter)
    }

    /// Whether a generation that passed the filter is shown.
    pub(crate) fn admits(&self, generation: &Generation) -> bool {
        generation.spent().unwrap_or_default() >= self.min_cost
            && !self.without.iter().any(|event| event.happened(generation))
    }

    fn add(&mut self, name: &str, value: &str, listed: Listed<'_>, most: usize) -> Result<(), ApiError> {
        match name {
            "limit" => self.limit = integer(name, value, 1..=most as i64)? as usize,
            "after" => self.after = Some(cursor::read(value, listed.owner())?),
            "since" => self.filter.since_ms = Some(time(name, value)?),
            // The ledger counts the last millisecond in.
            "until" => self.filter.until_ms = Some(time(name, value)?.saturating_sub(1)),
            "model" => self.require_label(label::MODEL, list(value)),
            "provider" => self.require_label(label::PROVIDER, list(value)),
            "team" => self.require_label(label::TEAM, list(value)),
            "alias" => self.require_label(label::ALIAS, list(value)),
            "objective" => self.require_label(label::OBJECTIVE, list(value)),
            "task" => self.require_label(label::TASK, list(value)),
            "status" => self.require_label(label::STATUS, statuses(value)?),
            "cause" => self.require_label(label::CAUSE, list(value)),
            "min_ttft_ms" => {
                let least = integer(name, value, 0..=LARGEST)?;
                self.filter.numbers.push((number::FIRST_TOKEN_MS, least..=i64::MAX));
            }
            "min_cost" => {
                self.min_cost = dollars(name, value)?;
                self.filter.numbers.push((number::COST_NANOS, nanos(self.min_cost)..=i64::MAX));
            }
            "q" => {
                let fields = vec![label::REQUESTED_MODEL, label::MODEL, label::PROVIDER];
                self.filter.text = Some(TextFilter { fields, lowercase: value.to_lowercase().into() });
            }
            _ => return self.add_event_or_key(name, value, listed),
        }
        Ok(())
    }

    fn add_event_or_key(&mut self, name: &str, value: &str, listed: Listed<'_>) -> Result<(), ApiError> {
        if let Some(event) = Event::ALL.into_iter().find(|event| event.as_str() == name) {
            match flag(name, value)? {
                true => self.require_label(label::EVENT, [event.as_str().into()]),
                false => self.without.push(event),
            }
            return Ok(());
        }
        let (Some(owner), Listed::Everybody(worker)) = (owner(name, value, listed)?, listed) else { return Ok(()) };
        self.require_label(label::OWNER, [owner_label(owner)]);
        // Callers without a key have no number of one.
        let key = (name == "key").then(|| worker.setup.keys.named(value)).flatten();
        if let Some(key) = key.filter(|key| key.id != 0) {
            self.require_label(label::KEY, [owner_label(key.id)]);
        }
        Ok(())
    }

    fn require_label(&mut self, field: u8, texts: impl IntoIterator<Item = Box<str>>) {
        self.filter.labels.push((field, texts.into_iter().collect()));
    }
}

/// The owner of records that `key`, `account` or `owner` names; `None` for other parameters and in lists of own records.
///
/// # Errors
/// 400 for an unknown key or account and for a malformed owner.
pub(in crate::api) fn owner(name: &str, value: &str, listed: Listed<'_>) -> Result<Option<u64>, ApiError> {
    let Listed::Everybody(worker) = listed else { return Ok(None) };
    match name {
        "key" => {
            let found = worker.setup.keys.named(value);
            let message = "'key' must be the name of a configured or issued key. Records of a removed key are found by \
                           'owner', as in GET /admin/ledger.";
            found.map(|caller| Some(caller.owner)).ok_or_else(|| ApiError::bad_query("key", message))
        }
        "account" => {
            let names = worker.shared.access.registry.account_names();
            let found = names.iter().find(|(_, name)| name == value);
            let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
            let none = || ApiError::invalid(Invalid::none_of("account", &shown(value), &names));
            found.map(|(number, _)| Some(*number)).ok_or_else(none)
        }
        "owner" => owner_number(value).map(Some),
        _ => Ok(None),
    }
}

/// The number of an account.
///
/// # Errors
/// 400 for a malformed one.
pub(in crate::api) fn owner_number(value: &str) -> Result<u64, ApiError> {
    let message = "'owner' must be the 16 hexadecimal digits in GET /admin/ledger or /admin/keys.";
    let digits = Some(value).filter(|value| value.len() == 16 && value.bytes().all(|b| b.is_ascii_hexdigit()));
    let owner = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    owner.ok_or_else(|| ApiError::bad_query("owner", message))
}

/// The parameters of a list: `known`, and those of everybody's lists.
fn allowed(known: &[&'static str], listed: Listed<'_>) -> Vec<&'static str> {
    let mut allowed = known.to_vec();
    if listed.owner().is_none() {
        allowed.extend(["key", "account", "owner"]);
    }
    allowed
}

/// Refuses a time range that ends before it begins. `last_ms` is within the range.
pub(in crate::api) fn in_order(since_ms: Option<i64>, last_ms: Option<i64>) -> Result<(), ApiError> {
    match (since_ms, last_ms) {
        (Some(since), Some(last)) if last < since => {
            Err(ApiError::bad_query("until", "'until' must be later than 'since'."))
        }
        _ => Ok(()),
    }
}

/// The last millisecond of the year 9999.
const MAX_MILLIS: i64 = 253_402_300_799_999;

/// A time, a date (its beginning in UTC), or Unix milliseconds.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "described, never made")]
pub(crate) enum Time {
    Rfc3339(#[schemars(extend("format" = "date-time"))] String),
    Date(#[schemars(extend("format" = "date"))] String),
    Millis(#[schemars(range(min = 0, max = MAX_MILLIS))] i64),
}

/// Unix milliseconds of a [`Time`].
pub(crate) fn moment(value: &str) -> Option<i64> {
    // A plus sign that was not escaped arrives as a space.
    let with_offset = DateTime::parse_from_rfc3339(&value.replace(' ', "+"));
    let with_offset = with_offset.ok().map(|time| time.timestamp_millis());
    let date = || NaiveDate::parse_from_str(value, "%Y-%m-%d").ok();
    let midnight = || date().map(|date| date.and_time(NaiveTime::MIN).and_utc().timestamp_millis());
    let millis = || value.parse().ok().filter(|millis| (0..=MAX_MILLIS).contains(millis));
    with_offset.or_else(midnight).or_else(millis)
}

/// Unix milliseconds of a time.
pub(in crate::api) fn time(param: &str, value: &str) -> Result<i64, ApiError> {
    moment(value).ok_or_else(|| {
        let message = format!(
            "'{param}' must be a time such as 2026-11-23T06:00:00Z, a date such as 2026-11-23 (its beginning in UTC), or \
             Unix milliseconds."
        );
        ApiError::bad_query(param, message)
    })
}

pub(in crate::api) fn flag(param: &str, value: &str) -> Result<bool, ApiError> {
    value.parse().map_err(|_| ApiError::invalid(Invalid::none_of(param, &shown(value), &["true", "false"])))
}

fn dollars(param: &str, value: &str) -> Result<Usd, ApiError> {
    // With an exponent too, as JavaScript writes numbers.
    let amount = Usd::from_number(value).filter(|amount| (Usd::ZERO..=MOST_DOLLARS).contains(amount));
    amount.ok_or_else(|| ApiError::bad_query(param, format!("'{param}' must be US dollars, such as 0.0015.")))
}

fn statuses(value: &str) -> Result<Vec<Box<str>>, ApiError> {
    let unknown = list(value).find(|status| !STATUSES.contains(&&**status));
    match unknown {
        None => Ok(list(value).collect()),
        Some(status) => Err(ApiError::invalid(Invalid::none_of("status", &shown(&status), &STATUSES))),
    }
}

/// The items of a comma-separated list.
fn list(value: &str) -> impl Iterator<Item = Box<str>> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Box::from)
}
