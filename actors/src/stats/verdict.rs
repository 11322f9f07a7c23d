//! What a failed attempt says about the endpoint: the rows of the event table.
//!
//! One place, used by the slow statistics and the fast cells alike, so that both read a failure the same way.

use crate::domain::{Failure, FailureKind};

/// What a failed attempt says about the endpoint that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Refused, unresolvable, no TLS: certain and instant. Opens the breaker at once.
    Refused,
    /// It answered wrongly or not to the end. Counts.
    Fault,
    /// A clock ran out. Counts, unless the endpoint was merely overloaded.
    Late,
    /// It asked to be left alone for a while: a promise with a date, not a fault.
    Busy,
    /// Our account or key there is wrong: the whole provider is closed.
    Account,
    /// It forbade one request: the account's fault only when it happens again without a success between.
    Forbidden,
    /// Our name for the model is wrong there: the endpoint is closed.
    UnknownModel,
    /// The caller's mistake, our own deadline, or a shortage of our own: says nothing about the endpoint.
    Silent,
}

impl Verdict {
    /// What `failure` says.
    #[must_use]
    pub const fn of(failure: &Failure) -> Verdict {
        match failure.kind {
            FailureKind::Connect | FailureKind::Tls => Verdict::Refused,
            // 529 is a 429 by another name; 503 is a failure like any other.
            FailureKind::Overloaded if matches!(failure.status, Some(529)) => Verdict::Busy,
            FailureKind::Reset
            | FailureKind::Overloaded
            | FailureKind::Server
            | FailureKind::Malformed
            | FailureKind::Truncated
            | FailureKind::UnexpectedStatus => Verdict::Fault,
            FailureKind::Timeout => Verdict::Late,
            FailureKind::RateLimited => Verdict::Busy,
            FailureKind::Auth => Verdict::Account,
            FailureKind::Forbidden => Verdict::Forbidden,
            FailureKind::NotFound => Verdict::UnknownModel,
            FailureKind::Shortage
            | FailureKind::Deadline
            | FailureKind::ContentPolicy
            | FailureKind::ContextLength
            | FailureKind::BadRequest
            | FailureKind::TooLarge
            | FailureKind::Unprocessable => Verdict::Silent,
        }
    }

    /// Whether it counts against the endpoint's success rate.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Verdict::Refused | Verdict::Fault | Verdict::Late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Blame, Next};

    #[test]
    fn a_shortage_of_ours_says_nothing_about_the_endpoint() {
        let shortage = Failure { kind: FailureKind::Shortage, status: None, retry_after: None };
        assert_eq!(Verdict::of(&shortage), Verdict::Silent);
        assert_eq!(shortage.kind.blame(), Blame::Configuration);
        assert_eq!(shortage.kind.next(), Next::AnotherEndpoint, "a kept connection may serve");
    }

    #[test]
    fn a_deadline_of_ours_says_nothing_about_the_endpoint() {
        let of = |kind| Verdict::of(&Failure { kind, status: Some(200), retry_after: None });
        assert_eq!(of(FailureKind::Deadline), Verdict::Silent);
        assert!(!of(FailureKind::Deadline).is_failure());
        assert!(of(FailureKind::Timeout).is_failure());
    }
}
