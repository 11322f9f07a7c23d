//! Sums of generations per 15 minutes.

use pointsman_actors::domain::{GenerationStatus, Usd};

use crate::store::{
    entry::RollUp,
    facts::{FEMTO_PER_MILLI, label, number},
    facts_view::FactsView,
    record,
    sums::SLOT,
};

/// Generations of one slot, model, provider, owner and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityRow {
    /// Start of the 15-minute slot, Unix milliseconds.
    pub slot_ms: i64,
    /// Catalog id of the model, or the requested name if none served.
    pub model: String,
    /// Slug of the provider; empty if none served.
    pub provider: String,
    /// Label of the owner ([`owner_label`](crate::store::generations::owner_label)).
    pub owner: String,
    /// Label of the key; empty where it is not known.
    pub key: String,
    /// What was counted.
    pub counters: ActivityCounters,
}

/// Sums over generations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ActivityCounters {
    /// Generations.
    pub requests: u64,
    /// Generations that did not complete.
    pub failed: u64,
    /// Input tokens, cached ones included.
    pub prompt_tokens: u64,
    /// Output tokens, reasoning included.
    pub completion_tokens: u64,
    /// Input tokens read from a cache.
    pub cached_tokens: u64,
    /// Output tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// Cost of all attempts.
    pub cost: Usd,
}

/// Separates the parts of a key.
const SEPARATOR: u8 = b'\n';

impl ActivityCounters {
    /// Adds another sum.
    pub fn add(&mut self, other: &ActivityCounters) {
        self.requests = self.requests.saturating_add(other.requests);
        self.failed = self.failed.saturating_add(other.failed);
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cost += other.cost;
    }

    fn write(&self, out: &mut Vec<u8>) {
        let counts = [
            self.requests,
            self.failed,
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_tokens,
            self.reasoning_tokens,
        ];
        out.clear();
        counts.into_iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        out.extend_from_slice(&self.cost.femto().to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<ActivityCounters> {
        let (counts, cost) = bytes.split_at_checked(6 * 8)?;
        let mut counts = counts.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)));
        Some(ActivityCounters {
            requests: counts.next()?,
            failed: counts.next()?,
            prompt_tokens: counts.next()?,
            completion_tokens: counts.next()?,
            cached_tokens: counts.next()?,
            reasoning_tokens: counts.next()?,
            cost: Usd::from_femto(i128::from_le_bytes(cost.try_into().ok()?)),
        })
    }

    /// The counters of one entry.
    fn of(facts: &FactsView<'_>) -> ActivityCounters {
        let completed = GenerationStatus::Completed.as_str();
        let failed = u64::from(facts.label(label::STATUS) != completed);
        let mut counters = ActivityCounters { requests: 1, failed, ..ActivityCounters::default() };
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
            key: parts.next().unwrap_or_default(),
            counters: ActivityCounters::read(sum)?,
        })
    }
}

fn append_part(key: &mut Vec<u8>, part: &str) {
    key.extend(part.bytes().map(|byte| if byte == SEPARATOR { b' ' } else { byte }));
}

/// Sums by model, provider, owner and key.
pub(super) struct Activity;

impl RollUp for Activity {
    fn key(&self, facts: &FactsView<'_>, key: &mut Vec<u8>) -> bool {
        for (at, field) in [label::MODEL, label::PROVIDER, label::OWNER].into_iter().enumerate() {
            if at > 0 {
                key.push(SEPARATOR);
            }
            append_part(key, facts.label(field));
        }
        // Older records name no key; their sums stay as they were.
        let api_key = facts.label(label::KEY);
        if !api_key.is_empty() {
            key.push(SEPARATOR);
            append_part(key, api_key);
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
