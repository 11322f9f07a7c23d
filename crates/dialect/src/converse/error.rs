//! Errors of Converse inside a 200: exceptions of a stream, and bodies that are an error. Nothing of them reaches the client.

use crate::{answer::AnswerFault, json::Raw, refusal};

pub(crate) use refusal::fault_of_exception;

/// The failure of a 200 whose body is an error: a message, or a type of error, in the place of an answer.
pub(crate) fn fault_of_body(body: Raw<'_>) -> Option<AnswerFault> {
    let kind = body.member(b"__type").or_else(|| body.member(b"Output")?.member(b"__type"));
    let message = body.member(b"message").or_else(|| body.member(b"Message"));
    let says = |value: Option<Raw<'_>>| value.is_some_and(Raw::is_string);
    (says(kind) || says(message)).then(|| refusal::fault(body))
}
