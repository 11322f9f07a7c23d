//! Sums of generations per 15 minutes.

pub(crate) mod counters;
mod dimension;
pub mod explanation;
pub mod grouping;

use std::{collections::BTreeMap, time::Duration};

use pointsman_domain::Usd;

pub use self::counters::ActivityCounters;
use self::dimension::Dimension;
use crate::facts_view::FactsView;

/// Width of a slot of the sums.
pub const SLOT: Duration = Duration::from_secs(15 * 60);
/// What was counted, by slot and key.
pub type Sums = BTreeMap<(i64, ActivityKey), ActivityCounters>;

/// Number of the slot that a time lies in.
pub fn slot(ms: i64) -> i64 {
    ms.div_euclid(SLOT.as_millis() as i64)
}

/// Beginning of a slot, Unix milliseconds.
pub fn slot_start(slot: i64) -> i64 {
    slot.saturating_mul(SLOT.as_millis() as i64)
}

/// What sums are kept by: a name for each [`Dimension`], empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActivityKey([String; Dimension::ALL.len()]);

impl ActivityKey {
    /// The key under which an entry with these facts counts.
    pub fn of(facts: &FactsView<'_>) -> ActivityKey {
        ActivityKey(Dimension::ALL.map(|dimension| facts.label(dimension.label()).to_owned()))
    }

    /// Its name in a dimension.
    pub fn get(&self, dimension: Dimension) -> &str {
        self.0.get(dimension as usize).map_or("", String::as_str)
    }

    /// The same with another name in a dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, name: impl Into<String>) -> ActivityKey {
        if let Some(place) = self.0.get_mut(dimension as usize) {
            *place = name.into();
        }
        self
    }

    /// The names of the dimensions that `keeps` admits; the others are empty.
    #[must_use]
    pub fn only(mut self, keeps: impl Fn(Dimension) -> bool) -> ActivityKey {
        for (name, dimension) in self.0.iter_mut().zip(Dimension::ALL) {
            if !keeps(dimension) {
                name.clear();
            }
        }
        self
    }
}

/// What a key spent on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// Start of the day, Unix milliseconds, UTC; `None` for long ago.
    pub day_ms: Option<i64>,
    /// Label of the owner.
    pub owner: String,
    /// Label of the key; empty for callers without one.
    pub key: String,
    /// Team of the account at the time; empty without one.
    pub team: String,
    /// Known cost of all attempts.
    pub cost: Usd,
}
