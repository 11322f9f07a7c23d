//! How many first answers of aliases with a cascade were accepted, as the records tell.

use std::collections::BTreeMap;

use pointsman_domain::{ApiType, AttemptReason, AttemptRecord, Cascade, CascadeSignal, Generation, GenerationStatus};

use super::diff::units::count;

/// What became of the first answers of each alias, by the signals that its cascade had.
#[derive(Debug, Clone, Default)]
pub struct Acceptances(BTreeMap<(String, Vec<&'static str>), Acceptance>);

/// What became of the first answers of an alias.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// First answers, not streamed.
    pub answers: u64,
    /// First answers that another model was asked to replace.
    pub escalated: u64,
    /// Milliseconds that these second attempts took together.
    waited_ms: u64,
}

impl Acceptance {
    /// Share of the first answers that were accepted.
    pub fn accepted(&self) -> f64 {
        1.0 - count(self.escalated) / count(self.answers.max(1))
    }

    /// Mean seconds by which an escalated answer is later.
    pub fn seconds(&self) -> f64 {
        count(self.waited_ms) / 1e3 / count(self.escalated.max(1))
    }

    fn merge(&mut self, other: Acceptance) {
        self.answers += other.answers;
        self.escalated += other.escalated;
        self.waited_ms = self.waited_ms.saturating_add(other.waited_ms);
    }
}

impl Acceptances {
    /// Counts a generation, if a cascade judged its answer: streams, requests without fallbacks and failures have no verdict.
    pub fn add(&mut self, generation: &Generation) {
        let Some((alias, cascade)) = judging(generation) else { return };
        let second = generation.attempts.iter().find(|attempt| attempt.reason == AttemptReason::Cascade);
        let waited_ms = second.map_or(0, |second| second.queue_ms.saturating_add(second.duration_ms));
        let one = Acceptance { answers: 1, escalated: u64::from(second.is_some()), waited_ms };
        self.0.entry(key(alias, cascade)).or_default().merge(one);
    }

    /// Adds what another part of the records gave.
    pub fn merge(&mut self, other: Acceptances) {
        other.0.into_iter().for_each(|(key, acceptance)| self.0.entry(key).or_default().merge(acceptance));
    }

    /// The acceptance of an alias with this cascade; `None` if its signals judged no answer.
    pub fn of(&self, alias: &str, cascade: &Cascade) -> Option<Acceptance> {
        self.0.get(&key(alias, cascade)).copied()
    }
}

/// The cascade that judged the first answer, and the name of its alias, as serving finds them.
fn judging(generation: &Generation) -> Option<(&str, &Cascade)> {
    let decision = &*generation.decision;
    decision.router.as_ref()?;
    let is_judged = generation.api_type == ApiType::Completions
        && generation.status == GenerationStatus::Completed
        && !generation.streamed;
    let attempts = || generation.attempts.iter().filter(|_| is_judged);
    let is_first = |attempt: &&AttemptRecord| attempt.served && attempt.reason != AttemptReason::Cascade;
    let first = attempts().find(|attempt| attempt.is_set_aside()).or_else(|| attempts().find(is_first))?;
    let candidate = decision.plan().find(|candidate| candidate.index == first.endpoint)?;
    decision.cascade_of(candidate, &generation.catalog)
}

/// The name of an alias, and the signals of its cascade in their order.
fn key(alias: &str, cascade: &Cascade) -> (String, Vec<&'static str>) {
    let on = CascadeSignal::ALL.into_iter().filter(|signal| cascade.on.contains(signal));
    (alias.to_owned(), on.map(CascadeSignal::as_str).collect())
}
