//! Sticky sessions: where conversations were served last, so that the next turn finds its prompt in the provider's
//! cache.
//!
//! [`Sessions`] is read before the decision and written after a complete answer. It gives a bonus in the score
//! ([`crate::decide`]), never a pin. It stores no text: the key of a conversation is a 128-bit keyed hash of the
//! caller, the requested model or alias, and the caller's `session_id` or the [`SessionOpening`] of the prompt.
//! Callers never share entries.
//!
//! Two keys are looked up: that of the conversation, then that of a prefix that separate requests may share. This is
//! the instructions (tools and system messages) or, where these are too short for a cache, the first 4 KiB of text.
//! Hashing every message would find longer common prefixes in a few more cases (edited turns), at the cost of hashing
//! whole prompts. What a provider really read from its cache corrects the expectation, for conversations and for
//! shared prefixes apart: a prefix may be too short for a cache that holds whole conversations.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher},
    mem,
};

use highway::{HighwayHash as _, HighwayHasher, Key};
use parking_lot::Mutex;
use pointsman_domain::{EndpointId, SessionOpening, StickyEndpoint, StickyPolicy, TaskClass, Tick, Usage};

/// Number of locks, above the number of workers that look up at the same time.
const SHARDS: usize = 16;
/// Decay of earlier observations of an endpoint's cache with each new one: about eight count.
const DECAY: f32 = 0.875;
/// Maximum number of cache estimates, above twice the size of a catalog.
const MOST_CACHES: usize = 40_000;

/// Conversations of all callers. Shared by all workers; a lock is held for a look-up only.
pub struct Sessions {
    secret: [u64; 4],
    shards: [Mutex<Shard>; SHARDS],
    caches: Mutex<HashMap<(EndpointId, CachedPart), Cache>>,
}

/// What identifies a conversation.
#[derive(Debug, Clone, Copy)]
pub struct SessionStart<'a> {
    /// The caller's key.
    pub owner: u64,
    /// The requested model or alias.
    pub target: &'a str,
    /// The caller's `session_id`.
    pub session_id: Option<&'a str>,
    /// Hashes of the beginning of the prompt.
    pub opening: Option<SessionOpening>,
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
}

/// Keys of one turn of a conversation. Kept with the request until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTurn {
    conversation: u128,
    shared: Option<Shared>,
    prompt_tokens: u32,
}

/// A prefix that other requests may share, long enough to be cached by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shared {
    key: u128,
    tokens: u32,
}

/// What of a prompt a cache should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CachedPart {
    /// The conversation so far.
    Conversation,
    /// The prefix that others share.
    Shared,
}

/// Entry of a key.
#[derive(Debug, Clone, Copy)]
struct CacheEntry {
    endpoint: EndpointId,
    /// Tokens that its cache should hold.
    tokens: u32,
    /// Class of the conversation's task; `None` in the entries of shared prefixes.
    task: Option<TaskClass>,
    at: Tick,
}

/// Decayed share of the expected tokens of a part that were read from an endpoint's cache.
#[derive(Debug, Clone, Copy)]
struct Cache {
    read: f32,
    observed: f32,
}

impl Default for Cache {
    /// The prior is one observation in which everything expected was read.
    fn default() -> Cache {
        Cache { read: 1.0, observed: 1.0 }
    }
}

impl Cache {
    fn share(self) -> f64 {
        f64::from(self.read / self.observed)
    }

    fn learn(&mut self, share: f32) {
        self.read = self.read * DECAY + share;
        self.observed = self.observed * DECAY + 1.0;
    }
}

impl Sessions {
    /// Without entries. The secret should be random; it never leaves the process.
    pub fn new(secret: [u64; 4]) -> Sessions {
        Sessions { secret, shards: Default::default(), caches: Mutex::default() }
    }

    /// The keys of a request; `None` if its prompt is too short for caches to matter.
    pub fn turn(&self, policy: &StickyPolicy, start: &SessionStart<'_>) -> Option<SessionTurn> {
        if !policy.enabled || start.prompt_tokens < policy.min_prompt_tokens {
            return None;
        }
        let conversation = match (start.session_id, start.opening) {
            (Some(id), _) => self.key(start, KeyKind::Session, id.as_bytes()),
            (None, Some(opening)) => self.key(start, KeyKind::SessionOpening, &opening.conversation.to_le_bytes()),
            (None, None) => return None,
        };
        let instructions = start.opening.map(|opening| (KeyKind::Instructions, opening.instructions));
        let beginning = start.opening.and_then(|opening| opening.beginning).map(|prefix| (KeyKind::Beginning, prefix));
        let mut prefixes = [instructions, beginning].into_iter().flatten();
        let long = prefixes.find(|(_, prefix)| prefix.tokens >= policy.min_prompt_tokens);
        let shared = long.map(|(kind, prefix)| Shared {
            key: self.key(start, kind, &prefix.hash.to_le_bytes()),
            tokens: prefix.tokens,
        });
        Some(SessionTurn { conversation, shared, prompt_tokens: start.prompt_tokens })
    }

    /// Endpoints whose cache may hold the prompt or its beginning. Changes nothing.
    pub fn sticky(&self, policy: &StickyPolicy, turn: &SessionTurn, now: Tick) -> Option<StickyEndpoint> {
        let (part, entry) = self.entries(policy, turn, now).next()?;
        let share = self.caches.lock().get(&(entry.endpoint, part)).copied().unwrap_or_default().share();
        let tokens = f64::from(entry.tokens.min(turn.prompt_tokens)) * share;
        (tokens >= 1.0).then_some(StickyEndpoint { endpoint: entry.endpoint, cached_tokens: tokens as u32 })
    }

    /// Class of the conversation's task as it was when the conversation was served last. Changes nothing.
    pub fn task(&self, policy: &StickyPolicy, turn: &SessionTurn, now: Tick) -> Option<TaskClass> {
        let entry = self.shard(turn.conversation)?.lock().get(turn.conversation)?;
        entry.task.filter(|_| now.since(entry.at) < policy.ttl)
    }

    /// Records that `endpoint` answered the turn: its cache should hold the prompt and the answer.
    pub fn served(
        &self,
        policy: &StickyPolicy,
        turn: &SessionTurn,
        endpoint: EndpointId,
        task: Option<TaskClass>,
        usage: &Usage,
        now: Tick,
    ) {
        let expected = self.entries(policy, turn, now).find(|(_, entry)| entry.endpoint == endpoint);
        if let Some((part, expected)) = expected.filter(|_| !usage.estimated) {
            self.learn(policy, part, expected, usage);
        }
        let small = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let tokens = small(usage.total_tokens());
        self.put(policy, turn.conversation, CacheEntry { endpoint, tokens, task, at: now });
        if let Some(shared) = turn.shared {
            // The estimate, corrected by the error of the estimate of the whole prompt.
            let tokens = u64::from(shared.tokens) * usage.prompt_tokens / u64::from(turn.prompt_tokens.max(1));
            self.put(policy, shared.key, CacheEntry { endpoint, tokens: small(tokens), task: None, at: now });
        }
    }

    /// Unexpired entries of the turn's keys, the better first.
    fn entries(
        &self,
        policy: &StickyPolicy,
        turn: &SessionTurn,
        now: Tick,
    ) -> impl Iterator<Item = (CachedPart, CacheEntry)> {
        let ttl = policy.ttl;
        let shared = turn.shared.map(|shared| (CachedPart::Shared, shared.key));
        let keys = [Some((CachedPart::Conversation, turn.conversation)), shared];
        let found = keys.into_iter().flatten().filter_map(|(part, key)| {
            let entry = self.shard(key)?.lock().get(key)?;
            Some((part, entry))
        });
        found.filter(move |(_, entry)| now.since(entry.at) < ttl)
    }

    fn learn(&self, policy: &StickyPolicy, part: CachedPart, expected: CacheEntry, usage: &Usage) {
        let tokens = u64::from(expected.tokens).min(usage.prompt_tokens);
        if tokens < u64::from(policy.min_prompt_tokens.max(1)) {
            return;
        }
        let share = (usage.cached_tokens as f32 / tokens as f32).min(1.0);
        let mut caches = self.caches.lock();
        let key = (expected.endpoint, part);
        if caches.len() >= MOST_CACHES && !caches.contains_key(&key) {
            caches.clear();
        }
        caches.entry(key).or_default().learn(share);
    }

    fn put(&self, policy: &StickyPolicy, key: u128, entry: CacheEntry) {
        if let Some(shard) = self.shard(key) {
            let most = (policy.max_conversations as usize).div_ceil(SHARDS);
            shard.lock().put(key, entry, most);
        }
    }

    fn shard(&self, key: u128) -> Option<&Mutex<Shard>> {
        self.shards.get((key >> 64) as usize % SHARDS)
    }

    /// The key of a value under the secret. The caller is part of it, so two callers never share one.
    fn key(&self, start: &SessionStart<'_>, kind: KeyKind, what: &[u8]) -> u128 {
        let mut hasher = HighwayHasher::new(Key(self.secret));
        hasher.append(&start.owner.to_le_bytes());
        hasher.append(&[kind as u8]);
        hasher.append(&(start.target.len() as u64).to_le_bytes());
        hasher.append(start.target.as_bytes());
        hasher.append(what);
        let [low, high] = hasher.finalize128();
        u128::from(high) << 64 | u128::from(low)
    }
}

/// What a key identifies.
#[derive(Clone, Copy)]
#[repr(u8)]
enum KeyKind {
    Session,
    SessionOpening,
    Instructions,
    Beginning,
}

/// Keys are the output of a keyed hash already, so that nobody can choose colliding ones.
type Entries = HashMap<u128, CacheEntry, BuildHasherDefault<DefaultHasher>>;

/// Two generations: writes go to the young one. When it is full it replaces the old one, whose entries are dropped. So
/// the size is bounded at any time, without searching for the oldest entry.
#[derive(Default)]
struct Shard {
    young: Entries,
    old: Entries,
}

impl Shard {
    fn get(&self, key: u128) -> Option<CacheEntry> {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    fn put(&mut self, key: u128, entry: CacheEntry, most: usize) {
        if self.young.len() >= (most / 2).max(1) && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, entry);
    }
}

#[cfg(test)]
mod tests;
