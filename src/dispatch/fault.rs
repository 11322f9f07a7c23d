//! A fault of an answer and a failure of the transport, each as the other: what the walk, the statistics
//! and the relay make of them is the same.

use pointsman_actors::dialect::AnswerFault;

use crate::upstream::UpstreamError;

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
