//! Counts of errors by class.

use pointsman_domain::FailureKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// 429 or 529.
    RateLimited,
    /// A time-out.
    Timeout,
    /// Connection refused or broken.
    Connect,
    /// 5xx and similar errors.
    Server,
    /// 401 to 404: the account or the model name.
    Auth,
    /// Invalid answers.
    Other,
}

impl ErrorClass {
    /// The class of a failure; `None` for refusals of the request, our own deadline and our own shortages.
    pub const fn of(kind: FailureKind, status: Option<u16>) -> Option<ErrorClass> {
        match kind {
            FailureKind::RateLimited => Some(ErrorClass::RateLimited),
            FailureKind::Overloaded if matches!(status, Some(529)) => Some(ErrorClass::RateLimited),
            FailureKind::Timeout => Some(ErrorClass::Timeout),
            FailureKind::Connect | FailureKind::Tls | FailureKind::Reset => Some(ErrorClass::Connect),
            FailureKind::Overloaded | FailureKind::Server => Some(ErrorClass::Server),
            FailureKind::Auth | FailureKind::Forbidden | FailureKind::NotFound => Some(ErrorClass::Auth),
            FailureKind::Malformed | FailureKind::Truncated | FailureKind::UnexpectedStatus => Some(ErrorClass::Other),
            FailureKind::Shortage
            | FailureKind::Deadline
            | FailureKind::GatewayLimit
            | FailureKind::ContentPolicy
            | FailureKind::ContextLength
            | FailureKind::OverLimit
            | FailureKind::RefusedHere
            | FailureKind::BadRequest
            | FailureKind::TooLarge
            | FailureKind::Unprocessable => None,
        }
    }
}

/// Counts by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// 429 or 529.
    pub rate_limited: u64,
    /// Time-outs.
    pub timeout: u64,
    /// Connections refused or broken.
    pub connect: u64,
    /// 5xx and similar errors.
    pub server: u64,
    /// 401 to 404.
    pub auth: u64,
    /// Invalid answers.
    pub other: u64,
}

impl ErrorCounts {
    /// The total.
    pub const fn total(&self) -> u64 {
        self.rate_limited + self.timeout + self.connect + self.server + self.auth + self.other
    }

    pub(crate) fn count(&mut self, class: ErrorClass) {
        *match class {
            ErrorClass::RateLimited => &mut self.rate_limited,
            ErrorClass::Timeout => &mut self.timeout,
            ErrorClass::Connect => &mut self.connect,
            ErrorClass::Server => &mut self.server,
            ErrorClass::Auth => &mut self.auth,
            ErrorClass::Other => &mut self.other,
        } += 1;
    }

    pub(crate) fn add(&mut self, other: &ErrorCounts) {
        self.rate_limited += other.rate_limited;
        self.timeout += other.timeout;
        self.connect += other.connect;
        self.server += other.server;
        self.auth += other.auth;
        self.other += other.other;
    }
}
