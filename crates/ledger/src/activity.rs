//! Sums of generations per 15 minutes.

use pointsman_domain::{GenerationStatus, Usd};

use crate::{
    entry::RollUp,
    facts::{FEMTO_PER_MILLI, label, number},
    facts_view::FactsView,
    record,
    sums::SLOT,
};

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

/// Separates the parts of a key.
const SEPARATOR: u8 = b'\n';

impl ActivityCounters {
    /// Number of counters beside the cost.
    const COUNT: usize = 13;

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

    const fn with(counts: [u64; ActivityCounters::COUNT], cost: Usd) -> ActivityCounters {
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

    /// The counters, then the cost.
    fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        self.counts().iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        out.extend_from_slice(&self.cost.femto().to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<ActivityCounters> {
        let (stored, cost) = bytes.split_at_checked(ActivityCounters::COUNT * 8)?;
        let mut counts = [0; ActivityCounters::COUNT];
        counts.iter_mut().zip(stored.as_chunks().0).for_each(|(count, bytes)| *count = u64::from_le_bytes(*bytes));
        Some(ActivityCounters::with(counts, Usd::from_femto(i128::from_le_bytes(cost.try_into().ok()?))))
    }

    /// The counters of one entry.
    fn of(facts: &FactsView<'_>) -> ActivityCounters {
        let failed = u64::from(facts.label(label::STATUS) == GenerationStatus::Failed.as_str());
        let mut counters = ActivityCounters { requests: 1, failed, unknown_costs: 1, ..ActivityCounters::default() };
        let mut femto = 0;
        for (field, number) in facts.numbers() {
            let count = u64::try_from(number).unwrap_or_default();
            match field {
                number::COST_MILLIS => femto += i128::from(number) * FEMTO_PER_MILLI,
                number::COST_REST => femto += i128::from(number),
                number::PROMPT_TOKENS => counters.prompt_tokens = count,
                number::COMPLETION_TOKENS => counters.completion_tokens = count,
                number::CACHED_TOKENS => counters.cached_tokens = count,
                number::REASONING_TOKENS => counters.reasoning_tokens = count,
                number::CACHE_WRITE_TOKENS => counters.cache_write_tokens = count,
                number::CACHE_WRITE_1H_TOKENS => counters.cache_write_1h_tokens = count,
                number::AUDIO_TOKENS => counters.audio_tokens = count,
                number::AUDIO_OUTPUT_TOKENS => counters.audio_output_tokens = count,
                number::IMAGES => counters.images = count,
                // Only a known cost has one.
                number::COST_NANOS => counters.unknown_costs = 0,
                number::WEB_SEARCHES => counters.web_searches = count,
                _ => {}
            }
        }
        counters.cost = Usd::from_femto(femto);
        counters
    }
}

impl ActivityRow {
    /// The row of a stored sum; `None` if it is none.
    #[must_use]
    pub fn read(slot: i64, key: &[u8], sum: &[u8]) -> Option<ActivityRow> {
        let mut parts = std::str::from_utf8(key).ok()?.split(char::from(SEPARATOR)).map(str::to_owned);
        Some(ActivityRow {
            slot_ms: slot.saturating_mul(SLOT.as_millis() as i64),
            model: parts.next()?,
            provider: parts.next()?,
            owner: parts.next()?,
            key: parts.next()?,
            team: parts.next()?,
            counters: ActivityCounters::read(sum)?,
        })
    }
}

fn append_part(key: &mut Vec<u8>, part: &str) {
    key.extend(part.bytes().map(|byte| if byte == SEPARATOR { b' ' } else { byte }));
}

/// Sums by model, provider, owner, key and team.
pub(super) struct Activity;

impl RollUp for Activity {
    fn key(&self, facts: &FactsView<'_>, key: &mut Vec<u8>) -> bool {
        let parts = [label::MODEL, label::PROVIDER, label::OWNER, label::KEY, label::TEAM];
        for (at, field) in parts.into_iter().enumerate() {
            if at > 0 {
                key.push(SEPARATOR);
            }
            append_part(key, facts.label(field));
        }
        true
    }

    fn count(&self, facts: &FactsView<'_>, sum: &mut Vec<u8>) {
        let mut counters = ActivityCounters::read(sum).unwrap_or_default();
        counters.add(&ActivityCounters::of(facts));
        counters.write(sum);
    }

    fn merge(&self, sum: &mut Vec<u8>, more: &[u8]) {
        let Some(more) = ActivityCounters::read(more) else { return };
        let mut counters = ActivityCounters::read(sum).unwrap_or_default();
        counters.add(&more);
        counters.write(sum);
    }

    fn blobs(&self, record: &[u8]) -> [Option<[u8; 32]>; 2] {
        record::versions_of(record).map_or([None; 2], |hashes| hashes.map(|hash| Some(hash.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_they_were_written_and_no_part_of_one_is_a_sum() {
        let mut all = ActivityCounters::with([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13], Usd::from_femto(-14));
        let (mut sum, mut more) = (Vec::new(), Vec::new());
        all.write(&mut sum);
        assert_eq!(ActivityCounters::read(&sum), Some(all));
        let counters = ActivityCounters { requests: 2, reasoning_tokens: 9, ..ActivityCounters::default() };
        counters.write(&mut more);
        Activity.merge(&mut sum, &more);
        all.add(&counters);
        assert_eq!((all.requests, all.reasoning_tokens, all.unknown_costs), (3, 15, 13));
        assert_eq!(ActivityCounters::read(&sum), Some(all));
        assert!(all.counts().iter().zip(ActivityCounters::NAMES).all(|(count, _)| *count > 0));
        assert!((0..sum.len()).all(|cut| ActivityCounters::read(&sum[..cut]).is_none()));
    }

    #[test]
    fn the_key_of_a_sum_names_key_and_team() {
        let mut sum = Vec::new();
        ActivityCounters::default().write(&mut sum);
        let read = |key: &str| ActivityRow::read(1, key.as_bytes(), &sum);
        for (key, parts) in [("m\np\no\nk\n", ("k", "")), ("m\np\no\n\nblue", ("", "blue"))] {
            let row = read(key).unwrap();
            assert_eq!((&*row.key, &*row.team), parts, "{key:?}");
        }
        assert_eq!(read("m\np\no\nk"), None);
    }
}
