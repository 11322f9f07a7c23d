//! Sums of generations per 15 minutes.

mod dimension;
pub mod explanation;
pub mod grouping;

use std::{collections::BTreeMap, time::Duration};

use pointsman_domain::Usd;

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

/// Lists the counters once: members, names and order.
macro_rules! counters {
    ($($(#[$meaning:meta])* $name:ident,)*) => {
        /// Sums over generations.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct ActivityCounters {
            $($(#[$meaning])* pub $name: u64,)*
            /// Known cost of all attempts.
            pub cost: Usd,
        }

        impl ActivityCounters {
            /// Names of the counters beside the cost, in order: those of columns, too.
            pub const NAMES: [&str; ActivityCounters::COUNT] = [$(stringify!($name)),*];
            /// Number of counters beside the cost.
            pub const COUNT: usize = [$(stringify!($name)),*].len();

            /// All counters but the cost.
            pub const fn counts(&self) -> [u64; ActivityCounters::COUNT] {
                [$(self.$name),*]
            }

            /// Counters in the order of [`ActivityCounters::NAMES`], and a cost.
            pub const fn with(counts: [u64; ActivityCounters::COUNT], cost: Usd) -> ActivityCounters {
                let [$($name),*] = counts;
                ActivityCounters { $($name,)* cost }
            }
        }
    };
}

counters! {
    /// Generations.
    requests,
    /// Generations that ended with an error. One whose client left is none.
    failed,
    /// Generations with an attempt at an unknown price, which `cost` leaves out.
    unknown_costs,
    /// Input tokens, cached ones included.
    prompt_tokens,
    /// Output tokens, reasoning included.
    completion_tokens,
    /// Input tokens read from a cache.
    cached_tokens,
    /// Output tokens spent on reasoning.
    reasoning_tokens,
    /// Input tokens written to a cache.
    cache_write_tokens,
    /// Those of them that were written for one hour.
    cache_write_1h_tokens,
    /// Input tokens of audio.
    audio_tokens,
    /// Output tokens of audio.
    audio_output_tokens,
    /// Billed images.
    images,
    /// Billed web searches.
    web_searches,
    /// What the cost of the answers is made of, whole billionths of a dollar: tokens of prompts that a cache neither gave nor took.
    input_nanos,
    /// Tokens read from caches and written to them.
    cache_nanos,
    /// Tokens of answers.
    output_nanos,
    /// Cost of attempts that did not serve: they failed, or lost a race.
    lost_nanos,
}

impl ActivityCounters {
    /// Adds another sum.
    pub fn add(&mut self, other: &ActivityCounters) {
        let mut counts = self.counts();
        counts.iter_mut().zip(other.counts()).for_each(|(count, more)| *count = count.saturating_add(more));
        *self = ActivityCounters::with(counts, self.cost + other.cost);
    }
}
