//! Where conversations were served last, so that the next turn can go where its prompt is still in the cache.
//!
//! [`Sessions`] is read when a question for the router is formed and written when an answer was whole; what it says
//! is worth a bonus in the scores ([`crate::decide`]), never a pin. It holds no word of any prompt: a conversation is
//! known by 128 bits of a hash under a secret key, made from its owner, the model or alias asked for, and either the
//! caller's `session_id` or the [`ConversationOpening`] of the prompt. So callers never share, and nobody can ask for another's.
//!
//! Two names are tried: the conversation's own, then that of its instructions (tools and system messages), which
//! requests that are no conversation have in common. Hashing every message would find longer common beginnings in
//! a few cases more (a turn that was edited), at the price of hashing whole prompts; the beginning is enough, since what
//! a provider really read from its cache corrects what was expected of it.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    mem,
};

use highway::{HighwayHash as _, HighwayHasher, Key};
use parking_lot::Mutex;

use crate::domain::{ConversationOpening, EndpointId, StickyEndpoint, StickyPolicy, Tick, Usage};

/// Locks that conversations are spread over: more than a machine has workers that ask at the same instant.
const SHARDS: usize = 16;
/// What is left of older observations of an endpoint's cache with each new one: about eight count.
const KEPT: f32 = 0.875;
/// Endpoints whose caches are known; more than a catalog may hold, so only retired ones push it over.
const MOST_ENDPOINTS: usize = 20_000;

/// The conversations of all callers. Shared by all workers; its locks are held for a look-up.
pub struct Sessions {
    secret: [u64; 4],
    shards: [Mutex<Shard>; SHARDS],
    caches: Mutex<HashMap<EndpointId, Cache>>,
}

/// Who says something, to whom, and how it begins.
#[derive(Debug, Clone, Copy)]
pub struct ConversationStart<'a> {
    /// Whose key it is.
    pub owner: u64,
    /// The model or alias asked for.
    pub target: &'a str,
    /// The caller's own name for the conversation.
    pub session_id: Option<&'a str>,
    /// How the prompt begins.
    pub opening: Option<ConversationOpening>,
    /// Estimated prompt tokens.
    pub prompt_tokens: u32,
}

/// One turn of a conversation: the names it is looked up under. Kept with the request until it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationTurn {
    conversation: u128,
    instructions: Option<Shared>,
    prompt_tokens: u32,
}

/// Instructions long enough to be cached by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shared {
    name: u128,
    tokens: u32,
}

/// What is known under a name.
#[derive(Debug, Clone, Copy)]
struct Held {
    endpoint: EndpointId,
    /// Tokens its cache should hold.
    tokens: u32,
    at: Tick,
}

/// How much of what was expected of an endpoint's cache was read from it, observation by observation, decayed.
#[derive(Debug, Clone, Copy)]
struct Cache {
    read: f32,
    observed: f32,
}

impl Default for Cache {
    /// Everything is expected before anything was seen: as after one observation that said so.
    fn default() -> Cache {
        Cache { read: 1.0, observed: 1.0 }
    }
}

impl Cache {
    fn share(self) -> f64 {
        f64::from(self.read / self.observed)
    }

    fn learn(&mut self, share: f32) {
        self.read = self.read * KEPT + share;
        self.observed = self.observed * KEPT + 1.0;
    }
}

impl Sessions {
    /// Nothing is known yet. The secret should be random; it never leaves the process.
    #[must_use]
    pub fn new(secret: [u64; 4]) -> Sessions {
        Sessions { secret, shards: Default::default(), caches: Mutex::default() }
    }

    /// The turn a request is, if its prompt is long enough for caches to matter.
    #[must_use]
    pub fn turn(&self, policy: &StickyPolicy, speaker: &ConversationStart<'_>) -> Option<ConversationTurn> {
        if !policy.enabled || speaker.prompt_tokens < policy.min_prompt_tokens {
            return None;
        }
        let conversation = match (speaker.session_id, speaker.opening) {
            (Some(id), _) => self.name(speaker, Kind::Session, id.as_bytes()),
            (None, Some(opening)) => self.name(speaker, Kind::ConversationOpening, &opening.conversation.to_le_bytes()),
            (None, None) => return None,
        };
        let long = speaker.opening.filter(|opening| opening.instruction_tokens >= policy.min_prompt_tokens);
        let instructions = long.map(|opening| Shared {
            name: self.name(speaker, Kind::Instructions, &opening.instructions.to_le_bytes()),
            tokens: opening.instruction_tokens,
        });
        Some(ConversationTurn { conversation, instructions, prompt_tokens: speaker.prompt_tokens })
    }

    /// Where the turn's prompt, or its beginning, may still be cached. Changes nothing.
    #[must_use]
    pub fn sticky(&self, policy: &StickyPolicy, turn: &ConversationTurn, now: Tick) -> Option<StickyEndpoint> {
        let held = self.held(policy, turn, now).next()?;
        let share = self.caches.lock().get(&held.endpoint).copied().unwrap_or_default().share();
        let tokens = f64::from(held.tokens.min(turn.prompt_tokens)) * share;
        (tokens >= 1.0).then_some(StickyEndpoint { endpoint: held.endpoint, cached_tokens: tokens as u32 })
    }

    /// The turn was answered by `endpoint`: from now on its cache should hold the prompt and the answer.
    pub fn served(
        &self,
        policy: &StickyPolicy,
        turn: &ConversationTurn,
        endpoint: EndpointId,
        usage: &Usage,
        now: Tick,
    ) {
        let expected = self.held(policy, turn, now).find(|held| held.endpoint == endpoint);
        if let Some(expected) = expected.filter(|_| !usage.estimated) {
            self.learn(policy, expected, usage);
        }
        let small = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let tokens = small(usage.total_tokens());
        self.put(policy, turn.conversation, Held { endpoint, tokens, at: now });
        if let Some(shared) = turn.instructions {
            // The estimate, by how far off that of the whole prompt was.
            let tokens = u64::from(shared.tokens) * usage.prompt_tokens / u64::from(turn.prompt_tokens.max(1));
            self.put(policy, shared.name, Held { endpoint, tokens: small(tokens), at: now });
        }
    }

    /// Conversations and instructions kept in mind.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known under the turn's names and still good, the better first.
    fn held(&self, policy: &StickyPolicy, turn: &ConversationTurn, now: Tick) -> impl Iterator<Item = Held> {
        let ttl = policy.ttl;
        let names = [Some(turn.conversation), turn.instructions.map(|shared| shared.name)];
        let found = names.into_iter().flatten().filter_map(|name| self.shard(name)?.lock().get(name));
        found.filter(move |held| now.since(held.at) < ttl)
    }

    fn learn(&self, policy: &StickyPolicy, expected: Held, usage: &Usage) {
        let tokens = u64::from(expected.tokens).min(usage.prompt_tokens);
        if tokens < u64::from(policy.min_prompt_tokens.max(1)) {
            return;
        }
        let share = (usage.cached_tokens as f32 / tokens as f32).min(1.0);
        let mut caches = self.caches.lock();
        if caches.len() >= MOST_ENDPOINTS && !caches.contains_key(&expected.endpoint) {
            caches.clear();
        }
        caches.entry(expected.endpoint).or_default().learn(share);
    }

    fn put(&self, policy: &StickyPolicy, name: u128, held: Held) {
        if let Some(shard) = self.shard(name) {
            let most = (policy.max_conversations as usize).div_ceil(SHARDS);
            shard.lock().put(name, held, most);
        }
    }

    fn shard(&self, name: u128) -> Option<&Mutex<Shard>> {
        self.shards.get((name >> 64) as usize % SHARDS)
    }

    /// The name of something under the secret: its owner is part of it, so two callers never have one in common.
    fn name(&self, speaker: &ConversationStart<'_>, kind: Kind, what: &[u8]) -> u128 {
        let mut hasher = HighwayHasher::new(Key(self.secret));
        hasher.append(&speaker.owner.to_le_bytes());
        hasher.append(&[kind as u8]);
        hasher.append(&(speaker.target.len() as u64).to_le_bytes());
        hasher.append(speaker.target.as_bytes());
        hasher.append(what);
        let [low, high] = hasher.finalize128();
        u128::from(high) << 64 | u128::from(low)
    }
}

/// What a name stands for.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Session,
    ConversationOpening,
    Instructions,
}

type Names = HashMap<u128, Held, BuildHasherDefault<Uniform>>;

/// Two generations: what is written goes to the young one; when that is full it becomes the old one, and what nobody
/// wrote since is forgotten. So the bound holds at every moment, and nothing is ever searched for the oldest.
#[derive(Default)]
struct Shard {
    young: Names,
    old: Names,
}

impl Shard {
    fn get(&self, name: u128) -> Option<Held> {
        self.young.get(&name).or_else(|| self.old.get(&name)).copied()
    }

    fn put(&mut self, name: u128, held: Held, most: usize) {
        if self.young.len() >= (most / 2).max(1) && !self.young.contains_key(&name) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&name);
        self.young.insert(name, held);
    }

    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

/// Names are the output of a keyed hash already.
#[derive(Default)]
struct Uniform(u64);

impl Hasher for Uniform {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, name: u128) {
        self.0 = name as u64;
    }
}

#[cfg(test)]
mod tests;
