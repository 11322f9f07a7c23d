//! What a failed attempt says about its endpoint.
//!
//! Used by the statistics and by the live board, so that both read a failure the same way.

use pointsman_domain::{Evidence, Failure, FailureKind};

/// What a failed attempt says about the endpoint that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureEffect {
    /// Connection refused, name not resolved, TLS failed. Opens the breaker at once.
    Refused,
    /// A server error, or a wrong or incomplete answer. Counts as a failure.
    Fault,
    /// The same of a request that may have caused it: opens the breaker only if different callers see one without a success in
    /// between.
    UnclearFault,
    /// A time-out. Counts as a failure, unless the endpoint was merely overloaded.
    Late,
    /// A 429: a cooldown, not a failure.
    Busy,
    /// The provider says that the account or key is wrong there: closes the whole provider.
    Account,
    /// The provider says that the model is unknown or closed there: closes the endpoint.
    UnknownModel,
    /// Perhaps about the account or key: closes the provider if different callers get it without a success in between.
    UnclearAccount,
    /// Perhaps about the model: closes the endpoint in the same way.
    UnclearModel,
    /// About the request, our own deadline or our own shortage: says nothing about the endpoint.
    Silent,
}

impl FailureEffect {
    /// The effect of `failure`.
    pub const fn of(failure: &Failure) -> FailureEffect {
        if matches!(failure.evidence, Evidence::Request) {
            return FailureEffect::Silent;
        }
        match failure.kind {
            FailureKind::Connect | FailureKind::Tls => FailureEffect::Refused,
            // 529 is treated as a 429, 503 as a server error.
            FailureKind::Overloaded if matches!(failure.status, Some(529)) => FailureEffect::Busy,
            // An error in the place of an answer that is about the request.
            FailureKind::Malformed if matches!(failure.evidence, Evidence::Unknown { said: 1.. }) => {
                FailureEffect::Silent
            }
            FailureKind::Reset
            | FailureKind::Overloaded
            | FailureKind::Server
            | FailureKind::Timeout
            | FailureKind::Malformed
            | FailureKind::Truncated
            | FailureKind::UnexpectedStatus
                if matches!(failure.evidence, Evidence::Unknown { .. }) =>
            {
                FailureEffect::UnclearFault
            }
            FailureKind::Reset
            | FailureKind::Overloaded
            | FailureKind::Server
            | FailureKind::Malformed
            | FailureKind::Truncated
            | FailureKind::UnexpectedStatus => FailureEffect::Fault,
            FailureKind::Timeout => FailureEffect::Late,
            FailureKind::RateLimited => FailureEffect::Busy,
            FailureKind::Auth => match failure.evidence {
                Evidence::Known(_) => FailureEffect::Account,
                Evidence::Unknown { .. } => FailureEffect::UnclearAccount,
                Evidence::None | Evidence::Request => FailureEffect::Silent,
            },
            FailureKind::Forbidden | FailureKind::NotFound => match failure.evidence {
                Evidence::Known(_) => FailureEffect::UnknownModel,
                Evidence::Unknown { .. } => FailureEffect::UnclearModel,
                Evidence::None | Evidence::Request => FailureEffect::Silent,
            },
            FailureKind::Shortage
            | FailureKind::Deadline
            | FailureKind::GatewayLimit
            | FailureKind::OverLimit
            | FailureKind::RefusedHere
            | FailureKind::ContentPolicy
            | FailureKind::ContextLength
            | FailureKind::BadRequest
            | FailureKind::TooLarge
            | FailureKind::Unprocessable => FailureEffect::Silent,
        }
    }

    /// Whether it counts as a failure of the endpoint.
    pub const fn is_failure(self) -> bool {
        use FailureEffect::{Fault, Late, Refused, UnclearFault};
        matches!(self, Refused | Fault | UnclearFault | Late)
    }
}
