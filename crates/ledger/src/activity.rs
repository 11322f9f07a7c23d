//! Sums of generations per 15 minutes.

use std::{collections::BTreeMap, time::Duration};

use pointsman_domain::Usd;

use crate::{facts::label, facts_view::FactsView};

/// Width of a slot of the sums.
pub const SLOT: Duration = Duration::from_secs(15 * 60);
/// What was counted, by slot and key.
pub type Sums = BTreeMap<(i64, ActivityKey), ActivityCounters>;

/// Number of the slot that a time lies in.
#[must_use]
pub fn slot(ms: i64) -> i64 {
    ms.div_euclid(SLOT.as_millis() as i64)
}

/// What sums are shown by.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActivityKey {
    /// Catalog id of the model, or the requested name if none served.
    pub model: String,
    /// Slug of the provider; empty if none served.
    pub provider: String,
    /// Label of the owner ([`owner_label`](crate::generations::owner_label)).
    pub owner: String,
    /// Label of the key; empty for callers without one.
    pub key: String,
    /// Team of the account; empty without one.
    pub team: String,
}

impl ActivityKey {
    /// The key under which an entry with these facts counts.
    #[must_use]
    pub fn of(facts: &FactsView<'_>) -> ActivityKey {
        let text = |field| facts.label(field).to_owned();
        ActivityKey {
            model: text(label::MODEL),
            provider: text(label::PROVIDER),
            owner: text(label::OWNER),
            key: text(label::KEY),
            team: text(label::TEAM),
        }
    }

    /// The key as replicas exchange it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = [&self.model, &self.provider, &self.owner, &self.key, &self.team];
        parts.map(|part| part.replace('\n', " ")).join("\n").into_bytes()
    }

    /// Undoes [`ActivityKey::to_bytes`]; `None` if these bytes are no key.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<ActivityKey> {
        let mut parts = std::str::from_utf8(bytes).ok()?.split('\n').map(str::to_owned);
        Some(ActivityKey {
            model: parts.next()?,
            provider: parts.next()?,
            owner: parts.next()?,
            key: parts.next()?,
            team: parts.next()?,
        })
    }
}

/// Generations of one slot, model, provider, owner, key and team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityRow {
    /// Start of the 15-minute slot, Unix milliseconds.
    pub slot_ms: i64,
    /// Catalog id of the model, or the requested name if none served.
    pub model: String,
    /// Slug of the provider; empty if none served.
    pub provider: String,
    /// Label of the owner ([`owner_label`](crate::generations::owner_label)).
    pub owner: String,
    /// Label of the key; empty for callers without one.
    pub key: String,
    /// Team of the account; empty without one.
    pub team: String,
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
    /// Known cost of all attempts.
    pub cost: Usd,
}

impl ActivityCounters {
    /// Number of counters beside the cost.
    pub(super) const COUNT: usize = 13;

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
        ]
    }

    pub(super) const fn with(counts: [u64; ActivityCounters::COUNT], cost: Usd) -> ActivityCounters {
        let [requests, failed, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, ..] = counts;
        let [.., cache_write_tokens, cache_write_1h_tokens, audio_tokens, audio_output_tokens, _, _, _] = counts;
        let [.., images, web_searches, unknown_costs] = counts;
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
            cost,
        }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &ActivityCounters) {
        let mut counts = self.counts();
        counts.iter_mut().zip(other.counts()).for_each(|(count, more)| *count = count.saturating_add(more));
        *self = ActivityCounters::with(counts, self.cost + other.cost);
    }

    /// The counters, then the cost, as replicas exchange them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let counts = self.counts().into_iter().flat_map(u64::to_le_bytes);
        counts.chain(self.cost.femto().to_le_bytes()).collect()
    }

    /// Undoes [`ActivityCounters::to_bytes`]; `None` if these bytes are no counters.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<ActivityCounters> {
        let (stored, cost) = bytes.split_at_checked(ActivityCounters::COUNT * 8)?;
        let mut counts = [0; ActivityCounters::COUNT];
        counts.iter_mut().zip(stored.as_chunks().0).for_each(|(count, bytes)| *count = u64::from_le_bytes(*bytes));
        Some(ActivityCounters::with(counts, Usd::from_femto(i128::from_le_bytes(cost.try_into().ok()?))))
    }
}

impl ActivityRow {
    /// The row of a sum.
    #[must_use]
    pub fn of(slot: i64, key: ActivityKey, counters: ActivityCounters) -> ActivityRow {
        let ActivityKey { model, provider, owner, key, team } = key;
        let slot_ms = slot.saturating_mul(SLOT.as_millis() as i64);
        ActivityRow { slot_ms, model, provider, owner, key, team, counters }
    }

    /// The row of a sum that a replica sent; `None` if it is none.
    #[must_use]
    pub fn read(slot: i64, key: &[u8], sum: &[u8]) -> Option<ActivityRow> {
        Some(ActivityRow::of(slot, ActivityKey::read(key)?, ActivityCounters::read(sum)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_they_were_written_and_no_part_of_one_is_a_sum() {
        let all = ActivityCounters::with([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], Usd::from_femto(-14));
        let bytes = all.to_bytes();
        assert_eq!(ActivityCounters::read(&bytes), Some(all));
        assert!(all.counts().iter().zip(ActivityCounters::NAMES).all(|(count, _)| *count > 0));
        assert!((0..bytes.len()).all(|cut| ActivityCounters::read(&bytes[..cut]).is_none()));
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
        for (key, parts) in [("m\np\no\nk\n", ("k", "")), ("m\np\no\n\nblue", ("", "blue"))] {
            let read = ActivityKey::read(key.as_bytes()).unwrap();
            assert_eq!((&*read.key, &*read.team), parts, "{key:?}");
            assert_eq!(read.to_bytes(), key.as_bytes());
        }
        assert_eq!(ActivityKey::read(b"m\np\no\nk"), None);
    }
}
