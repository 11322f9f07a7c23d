//! How the attempts of a request went, in words.
//!
//! A decision says who goes first; who answered, who failed and who lost a race is known from the attempts alone.

use crate::domain::{AttemptReason, AttemptRecord};

/// What became of the choice, and of whoever was called after it: clauses without a stop.
pub(crate) struct AttemptSummary {
    /// `failed (500)`
    choice: String,
    /// `bolt answered as fallback`, in the order in which they began.
    others: Vec<String>,
    /// Where all failed, with what: `the choice (500)`, `bolt (timeout)`.
    failures: Vec<String>,
    /// Whether the choice did.
    answered: bool,
}

impl AttemptSummary {
    /// How `attempts`, in the order in which they began, went after a decision for the endpoint at position `choice`.
    /// `None` when nobody was called.
    pub(crate) fn of(
        attempts: &[AttemptRecord],
        choice: u32,
        name: impl Fn(&AttemptRecord) -> String,
    ) -> Option<AttemptSummary> {
        let first = attempts.first()?;
        let called = (first.endpoint == choice).then_some(first);
        let told = Told { attempts, name };
        let others = attempts.iter().skip(usize::from(called.is_some())).filter_map(|attempt| told.clause(attempt));
        let all_failed = called.is_some() && attempts.iter().all(has_failed);
        let failures = attempts.iter().filter(|_| all_failed);
        Some(AttemptSummary {
            // Its gate shut, or its provider had no place for it, before its turn came.
            choice: called.map_or_else(|| "was passed over".to_owned(), |first| told.fate(first)),
            others: others.collect(),
            failures: failures.map(|attempt| told.failure(attempt, choice)).collect(),
            answered: called.is_some_and(|first| first.error_type.is_none()),
        })
    }

    /// A sentence; `None` where the choice answered and nobody else was called.
    pub(crate) fn sentence(&self) -> Option<String> {
        let all = match self.failures.len() {
            0 | 1 => None,
            2 => Some("Both attempts failed".to_owned()),
            count => Some(format!("All {count} attempts failed")),
        };
        match all {
            Some(all) => Some(format!("{all}: {}.", self.failures.join(", "))),
            None if self.answered && self.others.is_empty() => None,
            None => Some(format!("The choice {}{}.", self.choice, self.after(", "))),
        }
    }

    /// `failed (500); bolt answered as fallback`; `None` where the choice answered.
    pub(crate) fn of_choice(&self) -> Option<String> {
        (!self.answered).then(|| format!("{}{}", self.choice, self.after("; ")))
    }

    /// The others behind a mark.
    fn after(&self, mark: &str) -> String {
        if self.others.is_empty() { String::new() } else { format!("{mark}{}", self.others.join(", ")) }
    }
}

/// Attempts, and how their endpoints are called.
struct Told<'a, N> {
    attempts: &'a [AttemptRecord],
    name: N,
}

impl<N: Fn(&AttemptRecord) -> String> Told<'_, N> {
    /// What became of an attempt other than the choice; `None` where it is told with whom it outran.
    fn clause(&self, attempt: &AttemptRecord) -> Option<String> {
        let name = (self.name)(attempt);
        if attempt.reason == AttemptReason::Hedge {
            let outran = self.attempts.iter().any(is_outrun);
            let told = outran && attempt.error_type.is_none();
            return (!told).then(|| format!("the hedge at {name} {}", self.fate(attempt)));
        }
        let role = match attempt.reason {
            AttemptReason::Fallback => " as fallback",
            AttemptReason::LastResort => " as a last resort",
            AttemptReason::Probe => " as a probe",
            AttemptReason::Panic => " past its shut gate",
            AttemptReason::First | AttemptReason::Hedge => "",
        };
        let role = if attempt.error_type.is_none() { role } else { "" };
        Some(format!("{name} {}{role}", self.fate(attempt)))
    }

    fn fate(&self, attempt: &AttemptRecord) -> String {
        match attempt.error_type {
            None => "answered".to_owned(),
            Some(AttemptRecord::LOST_RACE) => self.defeat(attempt),
            Some(AttemptRecord::CANCELLED) if attempt.served => "was cancelled while it answered".to_owned(),
            Some(AttemptRecord::CANCELLED) => "was cancelled".to_owned(),
            Some(kind) if attempt.served => format!("failed after its first content ({})", figure(attempt, kind)),
            Some(kind) => format!("failed ({})", figure(attempt, kind)),
        }
    }

    fn defeat(&self, attempt: &AttemptRecord) -> String {
        let winner = self.attempts.iter().find(|other| other.served || other.error_type.is_none());
        match winner {
            None => "was given up".to_owned(),
            Some(_) if attempt.reason == AttemptReason::Hedge => "lost the race".to_owned(),
            Some(winner) => format!("was late and lost the race to {}", (self.name)(winner)),
        }
    }

    fn failure(&self, attempt: &AttemptRecord, choice: u32) -> String {
        let name = if attempt.endpoint == choice { "the choice".to_owned() } else { (self.name)(attempt) };
        format!("{name} ({})", figure(attempt, attempt.outcome()))
    }
}

/// Whether one lost against its hedge.
fn is_outrun(attempt: &AttemptRecord) -> bool {
    attempt.reason != AttemptReason::Hedge && attempt.error_type == Some(AttemptRecord::LOST_RACE)
}

/// Whether it failed before the client saw anything of it.
fn has_failed(attempt: &AttemptRecord) -> bool {
    let other = [AttemptRecord::LOST_RACE, AttemptRecord::CANCELLED];
    !attempt.served && attempt.error_type.is_some_and(|kind| !other.contains(&kind))
}

/// The status of a refusal, else the word for what went wrong.
fn figure(attempt: &AttemptRecord, kind: &str) -> String {
    match attempt.status.filter(|status| *status >= 400) {
        Some(status) => status.to_string(),
        None => attempt.cause.unwrap_or(kind).to_owned(),
    }
}
