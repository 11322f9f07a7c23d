//! What providers were found to want of members that the gateway adds, or in which it returns reasoning.
//!
//! It is found by a refusal after which the same request without or with the member was accepted, or by an answer. One caller
//! alone teaches only what its request cannot have caused. It is shared by all workers and forgotten at a reload.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, AtomicU16, Ordering},
};

use parking_lot::Mutex;
use pointsman_domain::{AddedMembers, Endpoint, ReasoningHistory};

use super::objection::Objection;

/// Bits of what is remembered of reasoning, beside those of members.
const CONTENT: u16 = 1 << 8;
const REQUIRED: u16 = 1 << 9;

/// What differs from an endpoint's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Habits {
    omits: AddedMembers,
    /// `Unknown`: as configured.
    history: ReasoningHistory,
}

/// Those of one provider.
#[derive(Debug, Default)]
pub struct ProviderHabits {
    known: AtomicU16,
    /// What one caller's call seemed to show, with that caller: no news for others until a second one's shows it too.
    heard: Mutex<Option<(u64, Habits)>>,
    /// Whether anything is heard, so that the lock is taken only then.
    is_heard: AtomicBool,
}

impl Habits {
    /// The provider gives and takes `reasoning_content`.
    pub const REASONING_CONTENT: Habits =
        Habits { omits: AddedMembers::of_bits(0), history: ReasoningHistory::Content };

    /// These habits with what would answer an objection of `endpoint`, which was called with them. `None` if nothing is left to
    /// try: a member that was objected to is left out, and reasoning was tried as `reasoning_content` and left out, or stands in every
    /// answer.
    #[must_use]
    pub fn answering(self, objection: Objection, endpoint: &Endpoint) -> Option<Habits> {
        let called = self.applied(endpoint);
        match objection {
            Objection::To(member) if called.omits.has(member) => None,
            Objection::To(member) => Some(Habits { omits: self.omits.with(member), ..self }),
            Objection::NoReasoningContent if called.reasoning_history == ReasoningHistory::Required => None,
            Objection::NoReasoningContent => Some(Habits { history: ReasoningHistory::Required, ..self }),
            Objection::ReasoningContent if self.history == ReasoningHistory::Nothing => None,
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
        // That reasoning was better left out is not remembered: it may have been one that only this client sends.
        let history = match self.history {
            ReasoningHistory::Content => CONTENT,
            ReasoningHistory::Required => CONTENT | REQUIRED,
            _ => 0,
        };
        history | u16::from(self.omits.bits())
    }
}

impl ProviderHabits {
    /// What is known so far.
    pub fn known(&self) -> Habits {
        let bits = self.known.load(Ordering::Relaxed);
        let history = match bits & (CONTENT | REQUIRED) {
            0 => ReasoningHistory::Unknown,
            CONTENT => ReasoningHistory::Content,
            _ => ReasoningHistory::Required,
        };
        Habits { omits: AddedMembers::of_bits((bits & 0xff) as u8), history }
    }

    /// Remembers what was found.
    pub fn learn(&self, found: Habits) {
        // Most answers show nothing new, and workers share the value.
        if self.known.load(Ordering::Relaxed) & found.bits() != found.bits() {
            self.known.fetch_or(found.bits(), Ordering::Relaxed);
        }
    }

    /// Remembers what a call of `caller` seems to show once a call of another one has shown the same. Only accounts count as
    /// callers.
    pub fn hear(&self, found: Habits, caller: Option<u64>) {
        let Some(caller) = caller else { return };
        let mut heard = self.heard.lock();
        match *heard {
            Some((first, same)) if first != caller && same == found => {
                self.learn(found);
                *heard = None;
            }
            _ => *heard = Some((caller, found)),
        }
        self.is_heard.store(heard.is_some(), Ordering::Relaxed);
    }

    /// Forgets what one caller's call seemed to show: one with all members was accepted since.
    pub fn contradict(&self) {
        if self.is_heard.load(Ordering::Relaxed) {
            let mut heard = self.heard.lock();
            *heard = None;
            self.is_heard.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_domain::{AddedMember, EndpointId};

    use super::*;

    #[test]
    fn where_reasoning_is_missed_every_answer_gets_some_and_that_is_remembered() {
        let endpoint = Endpoint::with_defaults(EndpointId::new("acme/m", "acme", ""), 0, 0, "m");
        let answering = |habits: Habits, objection| habits.answering(objection, &endpoint);
        let (known, required) =
            (Habits::REASONING_CONTENT, Habits { history: ReasoningHistory::Required, ..Habits::default() });
        assert_eq!(answering(Habits::default(), Objection::NoReasoningContent), Some(required));
        assert_eq!(answering(known, Objection::NoReasoningContent), Some(required));
        assert_eq!(answering(required, Objection::NoReasoningContent), None);
        assert_eq!(
            answering(required, Objection::ReasoningContent),
            Some(known),
            "another model there knows no such member"
        );
        let habits = ProviderHabits::default();
        habits.learn(required);
        habits.learn(known);
        assert_eq!(habits.known(), required, "an answer with reasoning takes nothing back");
        assert_eq!(required.applied(&endpoint).reasoning_history, ReasoningHistory::Required);
    }

    #[test]
    fn one_caller_alone_teaches_nothing_for_the_calls_of_others() {
        let habits = ProviderHabits::default();
        let without_store = Habits { omits: AddedMembers::default().with(AddedMember::Store), ..Habits::default() };
        let without_include = Habits { omits: AddedMembers::default().with(AddedMember::Include), ..Habits::default() };
        for _ in 0..9 {
            habits.hear(without_store, Some(1));
            habits.hear(without_store, None);
        }
        assert_eq!(habits.known(), Habits::default());
        habits.contradict();
        habits.hear(without_store, Some(2));
        habits.hear(without_include, Some(1));
        assert_eq!(habits.known(), Habits::default(), "a success between, then another member");
        habits.hear(without_include, Some(2));
        assert_eq!(habits.known(), without_include);
    }
}
