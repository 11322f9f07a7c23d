use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A set of request parameter names, as positions in a catalog's [`ParameterNames`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ParameterSet(u128);

impl ParameterSet {
    /// Whether everything in `needed` is in the set.
    #[must_use]
    pub const fn covers(self, needed: ParameterSet) -> bool {
        needed.0 & !self.0 == 0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: ParameterSet) -> ParameterSet {
        ParameterSet(self.0 | other.0)
    }

    /// What is in this set but not in `other`.
    #[must_use]
    pub const fn without(self, other: ParameterSet) -> ParameterSet {
        ParameterSet(self.0 & !other.0)
    }

    /// The set as bits, one for each position: for records.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The set of these bits.
    pub const fn of_bits(bits: u128) -> ParameterSet {
        ParameterSet(bits)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// More than [`ParameterNames::CAPACITY`] different names were listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyParameters;

impl fmt::Display for TooManyParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the catalog names more than {} different parameters", ParameterNames::CAPACITY)
    }
}

/// The *gated* parameter names: an endpoint receives such a parameter only if it lists it.
///
/// These are the thirteen published names and every further name that any endpoint lists.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParameterNames(Vec<Arc<str>>);

impl ParameterNames {
    /// How many different names a catalog may hold.
    pub const CAPACITY: usize = 128;

    /// The names that are gated in every catalog.
    pub const PUBLISHED: [&'static str; 13] = [
        "tools",
        "tool_choice",
        "max_tokens",
        "temperature",
        "top_p",
        "reasoning",
        "include_reasoning",
        "structured_outputs",
        "response_format",
        "stop",
        "frequency_penalty",
        "presence_penalty",
        "seed",
    ];

    /// The registry with the published names alone.
    pub fn published() -> ParameterNames {
        ParameterNames(Self::PUBLISHED.iter().map(|name| Arc::from(*name)).collect())
    }

    /// Adds `name` if it is new, and gives its set.
    ///
    /// # Errors
    /// When the registry is full.
    pub fn intern(&mut self, name: &str) -> Result<ParameterSet, TooManyParameters> {
        if let Some(known) = self.find(name) {
            return Ok(known);
        }
        if self.0.len() >= Self::CAPACITY {
            return Err(TooManyParameters);
        }
        self.0.push(name.into());
        Ok(ParameterSet(1 << (self.0.len() - 1)))
    }

    /// The set with the gated parameter that controls `name`, if any.
    ///
    /// Three request fields are controlled by another parameter: `max_completion_tokens` under `max_tokens`,
    /// `reasoning_effort` under `reasoning`, `parallel_tool_calls` under `tools`. `cache_control` is controlled by none,
    /// because endpoints that do not list it may have a translation of it.
    pub fn gate(&self, name: &str) -> Option<ParameterSet> {
        self.find(match name {
            "cache_control" => return None,
            "max_completion_tokens" => "max_tokens",
            "reasoning_effort" => "reasoning",
            "parallel_tool_calls" => "tools",
            other => other,
        })
    }

    /// Whether `set` has this name.
    pub fn lists(&self, set: ParameterSet, name: &str) -> bool {
        self.find(name).is_some_and(|one| set.covers(one))
    }

    /// What an endpoint that lists `listed` can be sent: one that lists `reasoning_effort` gets `reasoning` in that form.
    pub fn accepted(&self, listed: ParameterSet) -> ParameterSet {
        let reasoning = self.find("reasoning").filter(|_| self.lists(listed, "reasoning_effort"));
        listed.union(reasoning.unwrap_or_default())
    }

    /// The names in `set`, in the order they were added.
    pub fn names(&self, set: ParameterSet) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().enumerate().filter(move |(position, _)| set.0 & (1 << position) != 0).map(|(_, name)| name)
    }

    fn find(&self, name: &str) -> Option<ParameterSet> {
        self.0.iter().position(|known| &**known == name).map(|position| ParameterSet(1 << position))
    }
}
