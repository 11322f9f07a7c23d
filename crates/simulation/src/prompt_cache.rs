//! The prompt cache of a simulated provider: which beginnings of prompts it has read before.
//!
//! Two kinds, as real providers have them: some remember every prompt of a certain length, others only what the client
//! marks. Nothing expires; what was read longest ago is forgotten.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use parking_lot::Mutex;

/// Most beginnings that are remembered.
const MOST_PREFIXES: usize = 4_096;

/// The beginning of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    hash: u64,
    /// Its length.
    tokens: u32,
    /// Whether it is to be kept for an hour, which costs more.
    for_an_hour: bool,
}

/// What became of a prompt in the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CacheUse {
    /// Tokens read from the cache.
    pub(super) read: u32,
    /// Tokens written to the cache.
    pub(super) written: u32,
    /// Whether they are kept for an hour.
    pub(super) for_an_hour: bool,
}

/// Collects the beginnings of one prompt, part by part.
pub(super) struct PromptReader {
    hasher: DefaultHasher,
    tokens: u32,
    prefixes: Vec<Prefix>,
}

impl PromptReader {
    /// For a prompt of this model.
    pub(super) fn new(model: &str) -> PromptReader {
        let mut hasher = DefaultHasher::new();
        model.hash(&mut hasher);
        PromptReader { hasher, tokens: 0, prefixes: Vec::new() }
    }

    /// A further part of the prompt.
    pub(super) fn part(&mut self, text: &str, tokens: u32) {
        text.hash(&mut self.hasher);
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// The prompt up to here may be kept.
    pub(super) fn mark(&mut self, for_an_hour: bool) {
        self.prefixes.push(Prefix { hash: self.hasher.finish(), tokens: self.tokens, for_an_hour });
    }

    /// The tokens so far.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// What may be kept, the shortest first.
    pub(super) fn finish(self) -> Vec<Prefix> {
        self.prefixes
    }
}

/// The beginnings that were read before, the newest last.
#[derive(Debug, Default)]
pub(super) struct PromptCache(Mutex<VecDeque<u64>>);

impl PromptCache {
    /// Looks for the longest beginning that was read before, and remembers all of them. None is longer than the prompt, which
    /// has `prompt_tokens`.
    pub(super) fn pass(&self, prefixes: &[Prefix], prompt_tokens: u32) -> CacheUse {
        let mut seen = self.0.lock();
        let known = prefixes.iter().rposition(|prefix| seen.contains(&prefix.hash));
        let read = known.and_then(|place| prefixes.get(place)).map_or(0, |prefix| prefix.tokens.min(prompt_tokens));
        for prefix in prefixes {
            seen.retain(|hash| *hash != prefix.hash);
            seen.push_back(prefix.hash);
        }
        let surplus = seen.len().saturating_sub(MOST_PREFIXES);
        seen.drain(..surplus);
        let longest = prefixes.last();
        CacheUse {
            read,
            written: longest.map_or(0, |prefix| prefix.tokens.min(prompt_tokens) - read),
            for_an_hour: longest.is_some_and(|prefix| prefix.for_an_hour),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(parts: &[&str]) -> Vec<Prefix> {
        let mut reader = PromptReader::new("m");
        for part in parts {
            reader.part(part, 10);
            reader.mark(false);
        }
        reader.finish()
    }

    #[test]
    fn what_was_written_is_read_by_a_longer_prompt_with_the_same_beginning() {
        let cache = PromptCache::default();
        let used = |parts: &[&str]| {
            let used = cache.pass(&prefixes(parts), 1_000);
            (used.read, used.written)
        };
        assert_eq!(used(&["a", "b"]), (0, 20));
        assert_eq!(used(&["a", "b", "c"]), (20, 10));
        assert_eq!(used(&["a", "x"]), (10, 10));
        assert_eq!(used(&["b"]), (0, 10));
        assert_eq!(used(&[]), (0, 0));
    }

    #[test]
    fn old_beginnings_are_forgotten() {
        let cache = PromptCache::default();
        cache.pass(&prefixes(&["first"]), 1_000);
        for number in 0..MOST_PREFIXES {
            cache.pass(&prefixes(&[&number.to_string()]), 1_000);
        }
        assert_eq!(cache.pass(&prefixes(&["first"]), 1_000).read, 0);
    }
}
