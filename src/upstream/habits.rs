//! What providers were found to want of members that the gateway adds, or in which it returns reasoning.
//!
//! It is found by a refusal after which the same request without or with the member was accepted, or by an answer. It is shared
//! by all workers and forgotten at a reload.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicU16, Ordering},
};

use pointsman_actors::domain::{AddedMembers, Endpoint, ReasoningHistory};

use super::objection::Objection;

/// What differs from an endpoint's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Habits {
    omits: AddedMembers,
    /// `Unknown`: as configured.
    history: ReasoningHistory,
}

/// Those of one provider.
#[derive(Debug, Default)]
pub struct ProviderHabits(AtomicU16);

impl Habits {
    /// The provider gives and takes `reasoning_content`.
    pub const REASONING_CONTENT: Habits =
        Habits { omits: AddedMembers::of_bits(0), history: ReasoningHistory::Content };

    /// These habits with what would answer an objection of `endpoint`, which was called with them. `None` if it was about a
    /// member that was not sent.
    #[must_use]
    pub fn answering(self, objection: Objection, endpoint: &Endpoint) -> Option<Habits> {
        let called = self.applied(endpoint);
        match objection {
            Objection::To(member) if called.omits.has(member) => None,
            Objection::To(member) => Some(Habits { omits: self.omits.with(member), ..self }),
            Objection::ReasoningContent => {
                let history = match called.reasoning_history {
                    ReasoningHistory::Content | ReasoningHistory::Both => ReasoningHistory::Nothing,
                    _ => ReasoningHistory::Content,
                };
                Some(Habits { history, ..self })
            }
        }
    }

    /// The endpoint with these habits.
    #[must_use]
    pub fn applied(self, endpoint: &Endpoint) -> Cow<'_, Endpoint> {
        if self == Habits::default() {
            return Cow::Borrowed(endpoint);
        }
        let history = self.history;
        Cow::Owned(Endpoint {
            omits: endpoint.omits.union(self.omits),
            reasoning_history: if history == ReasoningHistory::Unknown { endpoint.reasoning_history } else { history },
            ..endpoint.clone()
        })
    }

    fn bits(self) -> u16 {
        let history = match self.history {
            ReasoningHistory::Content => 1,
            ReasoningHistory::Nothing => 2,
            _ => 0,
        };
        history << 8 | u16::from(self.omits.bits())
    }
}

impl ProviderHabits {
    /// What is known so far.
    #[must_use]
    pub fn known(&self) -> Habits {
        let bits = self.0.load(Ordering::Relaxed);
        let history = match bits >> 8 {
            1 => ReasoningHistory::Content,
            2 => ReasoningHistory::Nothing,
            _ => ReasoningHistory::Unknown,
        };
        Habits { omits: AddedMembers::of_bits((bits & 0xff) as u8), history }
    }

    /// Remembers what an answer shows. A refusal has shown more.
    pub fn learn_unless_known(&self, found: Habits) {
        if self.known().history == ReasoningHistory::Unknown {
            self.learn(found);
        }
    }

    /// Remembers what was found. What is found later about reasoning counts.
    pub fn learn(&self, found: Habits) {
        let merged = |bits: u16| {
            let found = found.bits();
            let history = if found >> 8 == 0 { bits & 0xff00 } else { found & 0xff00 };
            let merged = history | (bits | found) & 0xff;
            (merged != bits).then_some(merged)
        };
        // Nothing new is no failure.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
    }
}
