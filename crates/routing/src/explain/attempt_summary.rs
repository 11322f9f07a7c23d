//! A text on how the attempts of a request went.
//!
//! A decision holds the planned order only. The records of the attempts hold which endpoint answered, failed or was
//! cancelled because another one was faster.

use pointsman_domain::{AttemptReason, AttemptRecord};

/// How the attempt at the chosen endpoint and the attempts after it ended: clauses without a full stop.
pub(crate) struct AttemptSummary {
    /// Number of attempts.
    count: usize,
    /// How the chosen endpoint fared: `failed (500)`.
    choice: String,
    /// One clause per other attempt, in order of their start: `bolt answered as fallback`.
    others: Vec<String>,
    /// If all attempts failed, each endpoint with its failure: `the chosen endpoint (500)`, `bolt (timeout)`.
    failures: Vec<String>,
    /// Whether the chosen endpoint answered.
    answered: bool,
}

impl AttemptSummary {
    /// Summarises `attempts`, sorted by their start, for a decision for the endpoint at index `choice`. `None` without
    /// attempts. `name` gives the name of the endpoint of an attempt.
    pub(crate) fn new(
        attempts: &[AttemptRecord],
        choice: u32,
        name: impl Fn(&AttemptRecord) -> String,
    ) -> Option<AttemptSummary> {
        let first = attempts.first()?;
        let choice_attempt = (first.endpoint == choice).then_some(first);
        let writer = AttemptWriter { attempts, name };
        let others = attempts.iter().skip(usize::from(choice_attempt.is_some()));
        let all_failed = choice_attempt.is_some() && attempts.iter().all(has_failed);
        let failures = attempts.iter().filter(|_| all_failed);
        Some(AttemptSummary {
            count: attempts.len(),
            // Its breaker opened, or its provider reached its concurrency limit, between the decision and the attempt.
            choice: choice_attempt
                .map_or_else(|| "was skipped (no longer available)".to_owned(), |first| writer.outcome(first)),
            others: others.filter_map(|attempt| writer.clause(attempt)).collect(),
            failures: failures.map(|attempt| writer.failure(attempt, choice)).collect(),
            answered: choice_attempt.is_some_and(|first| first.error_type.is_none()),
        })
    }

    /// `2 attempts: the chosen endpoint failed (500), bolt answered as fallback.`
    pub(crate) fn sentence(&self) -> String {
        let attempts = if self.count == 1 { "1 attempt".to_owned() } else { format!("{} attempts", self.count) };
        if self.failures.len() > 1 {
            return format!("{attempts}, all failed: {}.", self.failures.join(", "));
        }
        format!("{attempts}: the chosen endpoint {}{}.", self.choice, self.others_after(", "))
    }

    /// `failed (500); bolt answered as fallback`. `None` if the chosen endpoint answered.
    pub(crate) fn of_choice(&self) -> Option<String> {
        (!self.answered).then(|| format!("{}{}", self.choice, self.others_after("; ")))
    }

    fn others_after(&self, separator: &str) -> String {
        if self.others.is_empty() { String::new() } else { format!("{separator}{}", self.others.join(", ")) }
    }
}

struct AttemptWriter<'a, N> {
    attempts: &'a [AttemptRecord],
    name: N,
}

impl<N: Fn(&AttemptRecord) -> String> AttemptWriter<'_, N> {
    /// The clause of an attempt at another endpoint. `None` for a hedge that won: the clause of the attempt that it
    /// replaced names it.
    fn clause(&self, attempt: &AttemptRecord) -> Option<String> {
        let name = (self.name)(attempt);
        if attempt.reason == AttemptReason::Hedge {
            let is_named = attempt.error_type.is_none() && self.attempts.iter().any(lost_to_hedge);
            return (!is_named).then(|| format!("the hedge at {name} {}", self.outcome(attempt)));
        }
        let role = match attempt.reason {
            AttemptReason::Fallback => " as fallback",
            AttemptReason::LastResort => " as a last resort",
            AttemptReason::Probe => " as a probe",
            AttemptReason::Panic => " although it was blocked",
            AttemptReason::Cascade => " in its place",
            AttemptReason::First | AttemptReason::Hedge => "",
        };
        let role = if attempt.error_type.is_none() { role } else { "" };
        Some(format!("{name} {}{role}", self.outcome(attempt)))
    }

    fn outcome(&self, attempt: &AttemptRecord) -> String {
        match attempt.error_type.as_deref() {
            None => "answered".to_owned(),
            Some(AttemptRecord::LOST_RACE) => self.lost_race(attempt),
            Some(AttemptRecord::CANCELLED) if attempt.served => "was cancelled while it answered".to_owned(),
            Some(AttemptRecord::CANCELLED) => "was cancelled".to_owned(),
            Some(kind) if attempt.served => format!("failed after its first content ({})", cause(attempt, kind)),
            Some(kind) => format!("failed ({})", cause(attempt, kind)),
        }
    }

    fn lost_race(&self, attempt: &AttemptRecord) -> String {
        let winner = self.attempts.iter().find(|other| other.served || other.error_type.is_none());
        match winner {
            None => "was cancelled when the request ended".to_owned(),
            Some(_) if attempt.reason == AttemptReason::Hedge => "was slower".to_owned(),
            Some(winner) => {
                let hedge = if winner.reason == AttemptReason::Hedge { "the hedge at " } else { "" };
                format!("was late and slower than {hedge}{}", (self.name)(winner))
            }
        }
    }

    fn failure(&self, attempt: &AttemptRecord, choice: u32) -> String {
        let name = if attempt.endpoint == choice { "the chosen endpoint".to_owned() } else { (self.name)(attempt) };
        format!("{name} ({})", cause(attempt, attempt.outcome()))
    }
}

/// Whether a hedge was faster than this attempt.
fn lost_to_hedge(attempt: &AttemptRecord) -> bool {
    attempt.reason != AttemptReason::Hedge && attempt.error_type.as_deref() == Some(AttemptRecord::LOST_RACE)
}

/// Whether the attempt failed before its first content.
fn has_failed(attempt: &AttemptRecord) -> bool {
    let other = [AttemptRecord::LOST_RACE, AttemptRecord::CANCELLED];
    !attempt.served && attempt.error_type.as_deref().is_some_and(|kind| !other.contains(&kind))
}

/// The HTTP status of a refusal, else the name of the failure.
fn cause(attempt: &AttemptRecord, kind: &str) -> String {
    match attempt.status.filter(|status| *status >= 400) {
        Some(status) => status.to_string(),
        None => attempt.cause.as_deref().unwrap_or(kind).to_owned(),
    }
}
