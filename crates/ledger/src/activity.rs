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
#[must_use]
pub fn slot(ms: i64) -> i64 {
    ms.div_euclid(SLOT.as_millis() as i64)
}

/// Beginning of a slot, Unix milliseconds.
#[must_use]
pub fn slot_start(slot: i64) -> i64 {
    slot.saturating_mul(SLOT.as_millis() as i64)
}

/// What sums are kept by: a name for each [`Dimension`], empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActivityKey([String; Dimension::ALL.len()]);

impl ActivityKey {
    /// The key under which an entry with these facts counts.
    #[must_use]
    pub fn of(facts: &FactsView<'_>) -> ActivityKey {
        ActivityKey(Dimension::ALL.map(|dimension| facts.label(dimension.label()).to_owned()))
    }

    /// Its name in a dimension.
    #[must_use]
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

    /// The key as replicas exchange it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Dimension::EXCHANGED.map(|dimension| self.get(dimension).replace('\n', " ")).join("\n").into_bytes()
    }

    /// Undoes [`ActivityKey::to_bytes`]; `None` if these bytes are no key. Replicas of earlier versions send the first five names.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<ActivityKey> {
        let parts: Vec<&str> = std::str::from_utf8(bytes).ok()?.split('\n').collect();
        let named = Dimension::EXCHANGED.into_iter().zip(&parts);
        (parts.len() >= 5)
            .then(|| named.fold(ActivityKey::default(), |key, (dimension, part)| key.with(dimension, *part)))
    }
}

/// Generations of one slot and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityRow {
    /// Number of the slot.
    pub slot: i64,
    /// What they have in common.
    pub key: ActivityKey,
    /// What was counted.
    pub counters: ActivityCounters,
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

/// Sums over generations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ActivityCounters {
    /// Generations.
    pub requests: u64,
    /// Generations that ended with an error. One whose client left is none.
    pub failed: u64,
    /// Input tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Output tokens, reasoning included.
    pub completion_tokens: u64,
    /// Input tokens read from a cache.
    pub cached_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// Input tokens written to a cache.
    pub cache_write_tokens: u64,
    /// Those of them that were written for one hour.
    pub cache_write_1h_tokens: u64,
    /// Input tokens of audio.
    pub audio_tokens: u64,
    /// Output tokens of audio.
    pub audio_output_tokens: u64,
    /// Billed images.
    pub images: u64,
    /// Billed web searches.
    pub web_searches: u64,
    /// Generations with an attempt at an unknown price, which `cost` leaves out.
    pub unknown_costs: u64,
    /// What the cost of the answers is made of, whole billionths of a dollar: tokens of prompts that a cache neither gave nor took.
    /// 0 in this and the next three for generations that earlier versions counted.
    pub input_nanos: u64,
    /// Tokens read from caches and written to them.
    pub cache_nanos: u64,
    /// Tokens of answers.
    pub output_nanos: u64,
    /// Cost of attempts that did not serve: they failed, or lost a race.
    pub lost_nanos: u64,
    /// Known cost of all attempts.
    pub cost: Usd,
}

impl ActivityCounters {
    /// Number of counters beside the cost.
    pub(super) const COUNT: usize = 17;
    /// How many of them replicas of the first version exchange.
    const EXCHANGED: usize = 13;

    /// Names of the counters, in the order of [`ActivityCounters::counts`].
    pub const NAMES: [&str; ActivityCounters::COUNT] = [
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
        "input_nanos",
        "cache_nanos",
        "output_nanos",
        "lost_nanos",
    ];

    /// All counters but the cost.
    #[must_use]
    pub const fn counts(&self) -> [u64; ActivityCounters::COUNT] {
        [
            self.requests,
            self.failed,
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_tokens,
            self.reasoning_tokens,
            self.cache_write_tokens,
            self.cache_write_1h_tokens,
            self.audio_tokens,
            self.audio_output_tokens,
            self.images,
            self.web_searches,
            self.unknown_costs,
            self.input_nanos,
            self.cache_nanos,
            self.output_nanos,
            self.lost_nanos,
        ]
    }

    pub(super) const fn with(counts: [u64; ActivityCounters::COUNT], cost: Usd) -> ActivityCounters {
        let [requests, failed, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, ..] = counts;
        let [_, _, _, _, _, _, cache_write_tokens, cache_write_1h_tokens, audio_tokens, audio_output_tokens, ..] =
            counts;
        let [.., images, web_searches, unknown_costs, input_nanos, cache_nanos, output_nanos, lost_nanos] = counts;
        ActivityCounters {
            requests,
            failed,
            prompt_tokens,
            completion_tokens,
            cached_tokens,
            reasoning_tokens,
            cache_write_tokens,
            cache_write_1h_tokens,
            audio_tokens,
            audio_output_tokens,
            images,
            web_searches,
            unknown_costs,
            input_nanos,
            cache_nanos,
            output_nanos,
            lost_nanos,
            cost,
        }
    }

    /// The same without what the cost is made of.
    #[must_use]
    pub const fn undivided(self) -> ActivityCounters {
        ActivityCounters { input_nanos: 0, cache_nanos: 0, output_nanos: 0, lost_nanos: 0, ..self }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &ActivityCounters) {
        let mut counts = self.counts();
        counts.iter_mut().zip(other.counts()).for_each(|(count, more)| *count = count.saturating_add(more));
        *self = ActivityCounters::with(counts, self.cost + other.cost);
    }

    /// The counters of the first version, then the cost, as replicas exchange them; and the counters that came later.
    #[must_use]
    pub fn to_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let counts = self.counts();
        let (first, later) = counts.split_at(ActivityCounters::EXCHANGED);
        let bytes = |counts: &[u64]| counts.iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<u8>>();
        ([bytes(first), self.cost.femto().to_le_bytes().to_vec()].concat(), bytes(later))
    }

    /// Undoes [`ActivityCounters::to_bytes`]; `None` if these bytes are no counters. Replicas of earlier versions send nothing
    /// in `later`.
    #[must_use]
    pub fn read(bytes: &[u8], later: &[u8]) -> Option<ActivityCounters> {
        let (stored, cost) = bytes.split_at_checked(ActivityCounters::EXCHANGED * 8)?;
        let mut counts = [0; ActivityCounters::COUNT];
        let words = stored.as_chunks().0.iter().chain(later.as_chunks().0);
        counts.iter_mut().zip(words).for_each(|(count, bytes)| *count = u64::from_le_bytes(*bytes));
        Some(ActivityCounters::with(counts, Usd::from_femto(i128::from_le_bytes(cost.try_into().ok()?))))
    }
}

impl ActivityRow {
    /// The row of a sum that a replica sent; `None` if it is none.
    #[must_use]
    pub fn read(slot: i64, key: &[u8], sum: &[u8], later: &[u8]) -> Option<ActivityRow> {
        Some(ActivityRow { slot, key: ActivityKey::read(key)?, counters: ActivityCounters::read(sum, later)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_they_were_written_and_no_part_of_one_is_a_sum() {
        let counts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17];
        let all = ActivityCounters::with(counts, Usd::from_femto(-14));
        let (bytes, later) = all.to_bytes();
        assert_eq!(ActivityCounters::read(&bytes, &later), Some(all));
        assert!(all.counts().iter().zip(ActivityCounters::NAMES).all(|(count, _)| *count > 0));
        assert!((0..bytes.len()).all(|cut| ActivityCounters::read(&bytes[..cut], &later).is_none()));
        let earlier = ActivityCounters::read(&bytes, &[]).unwrap();
        assert_eq!(
            (earlier.unknown_costs, earlier.lost_nanos, earlier.cost),
            (13, 0, all.cost),
            "of an earlier version"
        );
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_that_of_an_earlier_version_lacks_the_last_names() {
        let all = Dimension::ALL.into_iter().fold(ActivityKey::default(), |key, at| key.with(at, format!("<{at:?}>")));
        assert_eq!(ActivityKey::read(&all.to_bytes()), Some(all.clone()));
        let kept = [Dimension::Model, Dimension::Provider, Dimension::Account, Dimension::Key, Dimension::Team];
        let earlier = all.clone().only(|dimension| kept.contains(&dimension));
        assert_eq!(ActivityKey::read(b"<Model>\n<Provider>\n<Account>\n<Key>\n<Team>"), Some(earlier));
        assert_eq!(ActivityKey::read(b"m\np\no\nk"), None);
    }
}
