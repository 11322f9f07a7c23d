//! Errors within an answer: the event `error`, and what a failed response says. Answers that are no 200 have the form of chat.

use pointsman_domain::FailureKind;

use crate::{answer::AnswerFault, json::Raw, refusal};

/// The failure of an event `error`, whose members stand at its top or in `error`.
pub(super) fn of_event(event: Raw<'_>) -> AnswerFault {
    refusal::fault(event)
}

/// The failure of a response whose status is not a success.
pub(super) fn of_response(response: Raw<'_>) -> AnswerFault {
    match response.member(b"error").filter(|error| !error.is_null()) {
        Some(error) => refusal::fault(error),
        None => AnswerFault::new(FailureKind::Server, "the response failed without an error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Cursor;

    #[test]
    fn an_error_is_classed_by_its_code() {
        let check = |code: &str, kind: FailureKind| {
            let flat = format!(r#"{{"type":"error","code":"{code}","message":"m","param":null}}"#);
            let nested = format!(r#"{{"type":"error","error":{{"code":"{code}","message":"m"}}}}"#);
            let failed = format!(r#"{{"status":"failed","error":{{"code":"{code}","message":"m"}}}}"#);
            let value = |text: &'_ str| of_event(Cursor::new(text).value().unwrap()).kind;
            assert_eq!((value(&flat), value(&nested)), (kind, kind), "{code}");
            assert_eq!(of_response(Cursor::new(&failed).value().unwrap()).kind, kind, "{code}");
        };
        check("server_error", FailureKind::Server);
        check("rate_limit_exceeded", FailureKind::RateLimited);
        check("insufficient_quota", FailureKind::Auth);
        check("context_length_exceeded", FailureKind::ContextLength);
        check("invalid_prompt", FailureKind::BadRequest);
        check("invalid_image_format", FailureKind::BadRequest);
        check("image_parse_error", FailureKind::BadRequest);
        check("image_file_not_found", FailureKind::BadRequest);
        for code in ["http_error", "external_connector_error", "vector_store_timeout", "mcp_error", "tool_user_error"] {
            check(code, FailureKind::RefusedHere);
        }
        check("server_is_overloaded", FailureKind::Overloaded);
    }

    #[test]
    fn a_failed_response_without_an_error_is_a_fault_of_the_upstream() {
        assert_eq!(of_response(Cursor::new(r#"{"error":null}"#).value().unwrap()).kind, FailureKind::Server);
    }
}
