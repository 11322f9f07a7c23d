use pointsman_domain::Dialect;

use super::*;
use crate::refusal::kind_of;

fn kind_of_response(status: u16, body: &[u8]) -> FailureKind {
    kind_of(Dialect::Gemini, status, None, body)
}

#[test]
fn errors_are_classified_by_their_words_and_tell_how_long_to_wait() {
    let error =
        |status: &str, message: &str| json!({"error": {"code": 400, "status": status, "message": message}}).to_string();
    let kind = |status: &str, message: &str| kind_of_response(400, error(status, message).as_bytes());
    assert_eq!(kind("INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), FailureKind::Auth);
    assert_eq!(
        kind("INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        FailureKind::ContextLength
    );
    assert_eq!(kind("FAILED_PRECONDITION", "User location is not supported for the API use."), FailureKind::Auth);
    assert_eq!(kind("INVALID_ARGUMENT", "Invalid value"), FailureKind::BadRequest);
    assert_eq!(kind_of_response(504, b"<html>"), FailureKind::Timeout);
    let limited = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDay"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}]}});
    for body in [limited.clone(), json!([limited])] {
        let body = body.to_string();
        assert_eq!(kind_of_response(429, body.as_bytes()), FailureKind::RateLimited);
        assert_eq!(retry_delay(body.as_bytes()), Some(Duration::from_secs(36)));
    }
    let told = error("RESOURCE_EXHAUSTED", "Please retry in 36.5s.");
    assert_eq!(retry_delay(told.as_bytes()), Some(Duration::from_millis(36_500)));
}

#[test]
fn statuses_mean_what_they_say_and_a_key_that_is_refused_is_ours() {
    let of = |code: u16, status: &str, details: Value| {
        let body = json!({"error": {"code": code, "status": status, "message": "no", "details": details}});
        kind_of_response(code, body.to_string().as_bytes())
    };
    for (code, status, expected) in [
        (401, "UNAUTHENTICATED", FailureKind::Auth),
        (403, "PERMISSION_DENIED", FailureKind::Forbidden),
        (404, "NOT_FOUND", FailureKind::NotFound),
        (429, "RESOURCE_EXHAUSTED", FailureKind::RateLimited),
        (499, "CANCELLED", FailureKind::Timeout),
        (500, "INTERNAL", FailureKind::Server),
        (503, "UNAVAILABLE", FailureKind::Overloaded),
        (504, "DEADLINE_EXCEEDED", FailureKind::Timeout),
        (418, "BRAND_NEW", FailureKind::BadRequest),
    ] {
        assert_eq!(of(code, status, json!([])), expected, "{status}");
    }
    assert_eq!(of(400, "INVALID_ARGUMENT", json!([{"reason": "API_KEY_INVALID"}])), FailureKind::Auth);
    assert_eq!(kind_of_response(302, b""), FailureKind::UnexpectedStatus);
}

#[test]
fn a_limit_of_a_day_is_long_only_if_no_time_is_told() {
    let limited = |details: Value| {
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota", "details": details}})
            .to_string()
    };
    let daily = json!({"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]});
    assert_eq!(retry_delay(limited(json!([daily])).as_bytes()), Some(Duration::from_secs(60)));
    let info = json!({"retryDelay": "36.5s"});
    assert_eq!(retry_delay(limited(json!([daily, info])).as_bytes()), Some(Duration::from_millis(36_500)));
    let endless = limited(json!([{"retryDelay": format!("{}s", "9".repeat(400))}]));
    assert_eq!(retry_delay(endless.as_bytes()), Some(Duration::from_secs(1_000_000_000_000)));
    let minute = json!({"violations": [{"quotaId": "RequestsPerMinute"}]});
    for body in
        [limited(json!([minute])), "<html>".into(), limited(json!([{"retryDelay": "-1s"}, {"retryDelay": "NaNs"}]))]
    {
        assert_eq!(retry_delay(body.as_bytes()), None, "{body}");
    }
}

#[test]
fn a_refusal_of_a_signature_is_told_from_other_refusals() {
    let body =
        |message: &str| json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}).to_string();
    for message in
        ["Function call is missing a thought_signature in functionCall parts.", "Corrupted thought signature."]
    {
        assert!(refuses_signature(400, body(message).as_bytes()), "{message}");
        assert!(!refuses_signature(500, body(message).as_bytes()), "{message}");
    }
    assert!(!refuses_signature(400, body("Invalid value").as_bytes()));
    assert!(!refuses_signature(400, b"thought_signature"));
}

#[test]
fn an_error_in_a_stream_is_a_failure_of_its_kind_and_its_detail_quotes_nothing() {
    let error = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy \u{1b} sk-abcdefghijkl"}});
    let fault = streamed(&[chunk(json!([{"text": "Hi"}]), None), error], ToolNames::default()).unwrap_err();
    assert_eq!(fault.kind, FailureKind::Overloaded);
    assert_eq!(fault.detail, "the upstream reported an error 503 [UNAVAILABLE]");
    for data in [&b"<html>"[..], b"{}", b""] {
        let (mut decoder, mut sink) = (Decoder::new(ToolNames::default(), None), CompletionWriter::default());
        let fault = decoder.event(&StreamEvent { data: data.into(), is_error: true }, &mut sink).unwrap_err();
        assert_eq!(fault.kind, FailureKind::Server);
    }
}
