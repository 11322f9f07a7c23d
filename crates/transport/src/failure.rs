//! Classification of attempts that failed below HTTP.
//!
//! `refusal` classifies answers with an error status.

use std::{fmt, io};

use actix_http::error::PayloadError;
use awc::error::{ConnectError, SendRequestError};
use pointsman_dialect::AnswerFault;
use pointsman_domain::{Evidence, Failure, FailureKind, Finding};
use pointsman_routing::stats::QuotaReport;

use super::{
    connector::{ConnectFailure, cause},
    guard::Fault,
    objection::{Lesson, Objection},
    shortage::{CAUSE, is_shortage},
};

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError {
    /// Kind, status and `retry-after` of the failure, for statistics and fallback.
    pub failure: Box<Failure>,
    /// Detail for the log, never for the client. Contains no text of the provider except machine-readable codes.
    pub detail: String,
    /// Cause of a failed connection, as one word without a host. `None` for other failures.
    pub cause: Option<&'static str>,
    /// The provider's body, or its reason within a 200, cleaned and cut to 2 KiB; only where the failure is about the request
    /// and its words are not about the gateway's account.
    pub raw: Option<String>,
    /// The provider's own code for the error, made printable.
    pub code: Option<Box<str>>,
    /// Whether the provider refused the content of the request, or of its answer.
    pub is_about_content: bool,
    /// Whether it would accept fewer output tokens.
    pub wants_fewer_tokens: bool,
    /// Whether it refused a signature of a thought: with stand-ins it may accept the request.
    pub refuses_signature: bool,
    /// The gateway's own member that the refusal may be about, and what is learned if the call succeeds without it.
    pub objection: Option<(Objection, Lesson)>,
    /// Remaining quota that the provider reported, if any.
    pub quota: Option<Box<QuotaReport>>,
}

impl UpstreamError {
    /// A failure without a refusal. `detail` is for our log.
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> UpstreamError {
        UpstreamError {
            failure: Box::new(Failure::of(kind)),
            detail: detail.into(),
            cause: None,
            raw: None,
            code: None,
            is_about_content: false,
            wants_fewer_tokens: false,
            refuses_signature: false,
            objection: None,
            quota: None,
        }
    }

    /// The gateway could not make the credentials of a call.
    pub(super) fn without_credentials(detail: impl Into<String>) -> UpstreamError {
        let finding = Finding { words: "", meaning: "the gateway cannot make the credentials for its calls" };
        let mut error = UpstreamError::new(FailureKind::Auth, detail);
        error.failure.evidence = Evidence::Known(finding);
        error
    }

    /// A timeout. `detail` names the awaited event.
    pub fn timeout(detail: impl Into<String>) -> UpstreamError {
        UpstreamError::new(FailureKind::Timeout, detail)
    }

    pub(super) fn with_status(mut self, status: u16) -> UpstreamError {
        self.failure.status = Some(status);
        self
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.failure.kind.as_str(), self.detail)
    }
}

impl std::error::Error for UpstreamError {}

/// A failure before the head was complete.
pub(super) fn of_send(error: &SendRequestError) -> UpstreamError {
    match error {
        SendRequestError::Connect(ConnectError::Io(error)) => of_connect(error),
        SendRequestError::Send(error) => of_io(error, "before the answer"),
        // Others cannot happen to a request with a body of known length.
        error => UpstreamError::new(FailureKind::Reset, format!("request: {error}")),
    }
}

fn of_connect(error: &io::Error) -> UpstreamError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ConnectFailure>()) {
        Some(failure) => UpstreamError {
            cause: Some(cause(&failure.fault)),
            ..UpstreamError::new(failure.fault.kind(), failure.to_string())
        },
        None => UpstreamError::new(FailureKind::Connect, format!("connect: {error}")),
    }
}

/// A failure after a regular head.
pub(super) fn of_body(error: &PayloadError) -> UpstreamError {
    let (PayloadError::Incomplete(Some(error)) | PayloadError::Io(error)) = error else {
        return UpstreamError::new(FailureKind::Malformed, format!("body: {error}"));
    };
    // A TLS session without `close_notify` may have been cut by an attacker.
    if Fault::of(error).is_none() && error.kind() == io::ErrorKind::UnexpectedEof {
        return UpstreamError::new(FailureKind::Truncated, format!("body: {error}"));
    }
    of_io(error, "body")
}

fn of_io(error: &io::Error, place: &str) -> UpstreamError {
    match Fault::of(error) {
        Some(fault) => of_fault(fault),
        None if is_shortage(error) => of_shortage(error),
        None => UpstreamError::new(FailureKind::Reset, format!("{place}: {error}")),
    }
}

fn of_shortage(error: &io::Error) -> UpstreamError {
    let error = UpstreamError::new(FailureKind::Shortage, error.to_string());
    UpstreamError { cause: Some(CAUSE), ..error }
}

fn of_fault(fault: Fault) -> UpstreamError {
    let error = UpstreamError::new(fault.kind(), fault.to_string());
    if fault == Fault::SwitchingProtocols { error.with_status(101) } else { error }
}

// A fault in an answer and a failure of the transport mean the same to plan, statistics and relay.

impl From<AnswerFault> for UpstreamError {
    fn from(fault: AnswerFault) -> UpstreamError {
        let mut error = UpstreamError::new(fault.kind, fault.detail);
        error.failure.evidence = fault.evidence;
        UpstreamError {
            is_about_content: fault.refused_content.is_some(),
            wants_fewer_tokens: fault.wants_fewer_tokens,
            raw: fault.refused_content.filter(|why| !why.is_empty()).map(Into::into),
            ..error
        }
    }
}

impl From<UpstreamError> for AnswerFault {
    fn from(error: UpstreamError) -> AnswerFault {
        AnswerFault::new(error.failure.kind, error.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_memory_for_a_socket_is_no_failure_of_the_provider() {
        let shortage = || io::Error::from_raw_os_error(libc::ENOBUFS);
        let sent = of_send(&SendRequestError::Send(shortage()));
        let read = of_body(&PayloadError::Io(shortage()));
        for error in [sent, read] {
            assert_eq!((error.failure.kind, error.cause), (FailureKind::Shortage, Some("gateway_shortage")), "{error}");
        }
    }

    #[test]
    fn a_connection_that_is_reset_in_mid_request_was_not_refused() {
        for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe] {
            let error = of_send(&SendRequestError::Send(kind.into()));
            assert_eq!((error.failure.kind, error.cause), (FailureKind::Reset, None), "{error}");
        }
        let ended = of_send(&SendRequestError::Send(Fault::NoAnswer.into()));
        assert_eq!((ended.failure.kind, ended.cause), (FailureKind::Reset, None), "{ended}");
    }
}
