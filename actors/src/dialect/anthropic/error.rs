//! Errors of the Messages API: the body of an answer that is no 200, and the event `error` of a stream.
//!
//! Nothing of them reaches the client from here.

use std::borrow::Cow;

use crate::{
    dialect::{
        answer::AnswerFault,
        json::{Cursor, Raw},
        sanitize::{NAME_CHARS, clean, reported_error},
    },
    domain::FailureKind,
};

/// Values of `details.error_code` for a limit on spending that no waiting helps against.
const SPEND_LIMITS: [&str; 2] = ["enforced_spend_limit_reached", "contract_spend_limit_reached"];
/// The code of a rate limit that rises with use.
const RAMP_LIMIT: &str = "ramp_limit_exceeded";
/// What a message says about a prompt that does not fit, in lower case.
const TOO_LONG: [&str; 2] = ["prompt is too long", "input length and `max_tokens` exceed context limit"];
/// What a message says about our account, in lower case.
const ACCOUNT: [&str; 3] = ["credit balance", "usage limit", "spend limit"];
/// What a refusal says if the content is the reason, in lower case.
const CONTENT: [&str; 4] = ["content policy", "content filter", "usage policy", "policy violation"];

/// The failure that an answer of `status` stands for. `has_retry_after`: it names a time to wait, as every rate limit does
/// that passes.
pub(crate) fn kind_of_response(status: u16, has_retry_after: bool, body: &[u8]) -> FailureKind {
    let by_status = FailureKind::of_status(u64::from(status)).unwrap_or(FailureKind::UnexpectedStatus);
    let value = std::str::from_utf8(body).ok().and_then(|text| Cursor::new(text).value().ok());
    let Some(error) = value.and_then(|value| value.member(b"error")).filter(|error| error.is_object()) else {
        return by_status;
    };
    let said = Said::read(error);
    let by_type = match by_status {
        // What is only about the request is told apart by the text; the type repeats the status.
        FailureKind::BadRequest => said.kind(),
        FailureKind::Forbidden => said.kind().filter(|kind| *kind == FailureKind::ContentPolicy),
        FailureKind::RateLimited => said.kind_of_limit(has_retry_after),
        FailureKind::Server if said.kind == "timeout_error" => Some(FailureKind::Timeout),
        FailureKind::Server if said.kind == "overloaded_error" => Some(FailureKind::Overloaded),
        _ => None,
    };
    by_type.unwrap_or(by_status)
}

/// The failure of an event `error`, or of a 200 whose body is an error.
pub(super) fn fault(value: Raw<'_>) -> AnswerFault {
    let error = value.member(b"error").filter(|error| !error.is_null()).unwrap_or(value);
    let said = Said::read(error);
    AnswerFault::new(said.kind().unwrap_or(FailureKind::Server), reported_error(&said.kind))
}

/// What an error says about itself.
struct Said {
    /// Its type, cleaned.
    kind: String,
    message: String,
    code: Option<String>,
}

impl Said {
    fn read(error: Raw<'_>) -> Said {
        let text = |value: Option<Raw<'_>>| value.and_then(Raw::text).map(Cow::into_owned);
        Said {
            kind: clean(&text(error.member(b"type")).unwrap_or_default(), NAME_CHARS).into_owned(),
            message: text(error.member(b"message")).or_else(|| text(Some(error))).unwrap_or_default(),
            code: text(error.member(b"details").and_then(|details| details.member(b"error_code"))),
        }
    }

    fn mentions(&self, words: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        words.iter().any(|words| message.contains(words))
    }

    fn is_spend_limit(&self) -> bool {
        self.code.as_deref().is_some_and(|code| SPEND_LIMITS.contains(&code))
    }

    /// The kind by type and text; `None` for an unknown type.
    fn kind(&self) -> Option<FailureKind> {
        Some(match &*self.kind {
            "invalid_request_error" if self.mentions(&TOO_LONG) => FailureKind::ContextLength,
            "invalid_request_error" if self.is_spend_limit() || self.mentions(&ACCOUNT) => FailureKind::Auth,
            "invalid_request_error" => FailureKind::BadRequest,
            "authentication_error" | "billing_error" => FailureKind::Auth,
            "permission_error" if self.mentions(&CONTENT) => FailureKind::ContentPolicy,
            "permission_error" => FailureKind::Forbidden,
            "not_found_error" => FailureKind::NotFound,
            "request_too_large" => FailureKind::TooLarge,
            "rate_limit_error" if self.is_spend_limit() => FailureKind::Auth,
            "rate_limit_error" => FailureKind::RateLimited,
            "overloaded_error" => FailureKind::Overloaded,
            "timeout_error" => FailureKind::Timeout,
            "api_error" | "conflict_error" => FailureKind::Server,
            _ => return None,
        })
    }

    fn kind_of_limit(&self, has_retry_after: bool) -> Option<FailureKind> {
        let passes = has_retry_after || self.code.as_deref() == Some(RAMP_LIMIT);
        let is_account = self.is_spend_limit() || (self.kind == "rate_limit_error" && !passes);
        is_account.then_some(FailureKind::Auth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: &str, message: &str, details: &str) -> String {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"{details}}},"request_id":"req_1"}}"#)
    }

    fn check(status: u16, kind: &str, message: &str, expected: FailureKind) {
        assert_eq!(
            kind_of_response(status, true, body(kind, message, "").as_bytes()),
            expected,
            "{status} {kind} {message}"
        );
    }

    /// D38.
    #[test]
    fn errors_are_classified_by_status_type_and_text() {
        check(400, "invalid_request_error", "messages: at least one is needed", FailureKind::BadRequest);
        check(
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            FailureKind::ContextLength,
        );
        check(
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 1 + 2 > 3",
            FailureKind::ContextLength,
        );
        check(400, "invalid_request_error", "Your credit balance is too low", FailureKind::Auth);
        check(400, "invalid_request_error", "You have reached your specified API usage limits.", FailureKind::Auth);
        check(401, "authentication_error", "no", FailureKind::Auth);
        check(402, "billing_error", "no", FailureKind::Auth);
        check(403, "permission_error", "no", FailureKind::Forbidden);
        check(403, "permission_error", "Blocked by our content policy", FailureKind::ContentPolicy);
        check(404, "not_found_error", "no", FailureKind::NotFound);
        check(409, "conflict_error", "no", FailureKind::Server);
        check(413, "request_too_large", "no", FailureKind::TooLarge);
        check(429, "rate_limit_error", "slow down", FailureKind::RateLimited);
        check(500, "api_error", "no", FailureKind::Server);
        check(503, "api_error", "no", FailureKind::Overloaded);
        check(504, "timeout_error", "no", FailureKind::Timeout);
        check(529, "overloaded_error", "no", FailureKind::Overloaded);
    }

    /// D38.
    #[test]
    fn a_limit_on_spending_is_a_fault_of_our_account_and_no_rate_limit() {
        let kind = |code: &str, has_retry_after: bool| {
            let details = format!(r#","details":{{"error_code":"{code}"}}"#);
            kind_of_response(429, has_retry_after, body("rate_limit_error", "no", &details).as_bytes())
        };
        assert_eq!(kind("enforced_spend_limit_reached", true), FailureKind::Auth);
        assert_eq!(kind("contract_spend_limit_reached", false), FailureKind::Auth);
        assert_eq!(kind("ramp_limit_exceeded", false), FailureKind::RateLimited);
        assert_eq!(kind("other", true), FailureKind::RateLimited);
        assert_eq!(kind("other", false), FailureKind::Auth, "what time cures says when");
    }

    #[test]
    fn a_body_of_another_form_is_classified_by_its_status() {
        for body in ["", "<html>", "{", r#"{"error":"busy"}"#, "\u{fffd}"] {
            assert_eq!(kind_of_response(429, false, body.as_bytes()), FailureKind::RateLimited, "{body}");
            assert_eq!(kind_of_response(529, false, body.as_bytes()), FailureKind::Overloaded, "{body}");
        }
        assert_eq!(kind_of_response(302, false, b""), FailureKind::UnexpectedStatus);
    }

    #[test]
    fn an_error_within_an_answer_is_classified_and_its_detail_quotes_nothing() {
        let fault = |text: &str| fault(Cursor::new(text).value().unwrap());
        assert_eq!(fault(&body("overloaded_error", "busy", "")).kind, FailureKind::Overloaded);
        assert_eq!(fault(&body("something_new", "busy", "")).kind, FailureKind::Server);
        assert_eq!(fault("{}").kind, FailureKind::Server);
        let detail = fault(&body("api_error", "key \\u001b sk-abcdefghijkl is bad", "")).detail;
        assert_eq!(detail, "the upstream reported an error [api_error]");
    }
}
