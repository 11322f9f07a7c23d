use pointsman_domain::Dialect;

use super::*;
use crate::refusal::kind_of;

fn kind_of_response(status: u16, error_type: Option<&str>, body: &[u8]) -> FailureKind {
    kind_of(Dialect::Converse, status, error_type, body)
}

#[test]
fn errors_are_classified_by_the_type_in_the_head_or_in_the_body() {
    let kind = |status: u16, error_type: Option<&str>, message: &str| {
        kind_of_response(status, error_type, json!({"message": message}).to_string().as_bytes())
    };
    let cases = [
        (400, "ValidationException", "messages: must not be empty", FailureKind::BadRequest),
        (400, "ValidationException", "Input is too long for requested model.", FailureKind::ContextLength),
        (400, "ValidationException", "The provided model identifier is invalid.", FailureKind::NotFound),
        (403, "AccessDeniedException:http://internal.amazon.com/", "You don't have access", FailureKind::Forbidden),
        (403, "ExpiredTokenException", "The security token is expired", FailureKind::Auth),
        (403, "InvalidSignatureException", "Signature expired", FailureKind::Auth),
        (404, "ResourceNotFoundException", "no", FailureKind::NotFound),
        (408, "ModelTimeoutException", "no", FailureKind::Timeout),
        (424, "ModelErrorException", "no", FailureKind::Server),
        (429, "ThrottlingException:", "Too many requests", FailureKind::RateLimited),
        (429, "ModelNotReadyException", "no", FailureKind::Overloaded),
        (500, "InternalServerException", "no", FailureKind::Server),
        (503, "ServiceUnavailableException", "no", FailureKind::Overloaded),
    ];
    for (status, error_type, message, expected) in cases {
        assert_eq!(kind(status, Some(error_type), message), expected, "{error_type} {message}");
    }
    let body = br#"{"__type":"com.amazon#ThrottlingException","Message":"no"}"#;
    assert_eq!(kind_of_response(400, None, body), FailureKind::RateLimited);
    for (status, expected) in [
        (424, FailureKind::Server),
        (408, FailureKind::Timeout),
        (429, FailureKind::RateLimited),
        (302, FailureKind::UnexpectedStatus),
    ] {
        assert_eq!(kind_of_response(status, Some("SomethingNew"), b"<html>"), expected, "{status}");
    }
}

#[test]
fn exceptions_of_a_stream_have_the_kind_of_their_status() {
    let cases = [
        ("throttlingException", FailureKind::RateLimited),
        ("modelStreamErrorException", FailureKind::Server),
        ("modelTimeoutException", FailureKind::Timeout),
        ("internalServerException", FailureKind::Server),
        ("serviceUnavailableException", FailureKind::Overloaded),
        ("validationException", FailureKind::BadRequest),
        ("somethingNew", FailureKind::Server),
    ];
    for (name, expected) in cases {
        let fault = fault_of_exception(name, br#"{"message":"key sk-abcdefghijkl \u001b"}"#);
        assert_eq!(fault.kind, expected, "{name}");
        assert_eq!(fault.detail, format!("the upstream reported an error [{name}]"));
    }
}
