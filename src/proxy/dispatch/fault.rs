//! A fault of an answer and a failure of the transport, each as the other: what the walk, the statistics
//! and the relay make of them is the same.

use pointsman_actors::dialect::AnswerFault;

use crate::upstream::UpstreamError;

/// A failure of an attempt whose answer had begun: its status was a 200, whatever came after it.
pub fn behind_head(mut error: UpstreamError) -> UpstreamError {
    error.failure.status.get_or_insert(200);
    error
}

impl From<AnswerFault> for UpstreamError {
    fn from(fault: AnswerFault) -> UpstreamError {
        UpstreamError::new(fault.kind, fault.detail)
    }
}

impl From<UpstreamError> for AnswerFault {
    fn from(error: UpstreamError) -> AnswerFault {
        AnswerFault { kind: error.failure.kind, detail: error.detail.into() }
    }
}
