//! Classifies answers with an error status.
//!
//! The status decides nearly everything. The body is read for three things: whether a 400 is about the length of the
//! prompt, whether a 403 is about content policy, and the text for a caller who made a mistake. Servers use different
//! shapes of error bodies, so every known shape is tried and none is required.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use actix_http::header::HeaderMap;
use pointsman_actors::{
    dialect::{kind_of_refusal, refuses_signature, retry_delay},
    domain::{Blame, Dialect, Failure, FailureKind},
    stats::QuotaReport,
};
use serde_json::Value;

use super::{failure::UpstreamError, rate_limits::quota, redact::Redactor, retry_after::retry_after};

/// Most bytes of a provider's body that a caller sees.
const RAW_LIMIT: usize = 2 * 1024;

/// Shortest id of a request that is searched for, in bytes.
const MIN_REQUEST_ID: usize = 6;

/// Most bytes of a machine-readable code.
const CODE_LIMIT: usize = 64;

/// Phrases in codes or messages of popular servers for a prompt that is too long, in lower case.
const LENGTH_PHRASES: [&str; 20] = [
    "context_length_exceeded",
    "context_window_exceeded",
    "contextwindowexceeded",
    "exceed_context_size",
    "model_max_prompt_tokens_exceeded",
    "prompt_too_long",
    "maximum context length",
    "maximum model length",
    "maximum prompt length",
    "model's context length",
    "max_model_len",
    "available context size",
    "exceed context window",
    "exceeds the context window",
    "prompt is too long",
    "input is too long",
    "reduce the length of the messages",
    "total number of tokens in the prompt cannot exceed",
    "exceeds the maximum number of tokens allowed",
    "`inputs` tokens + `max_new_tokens` must be",
];

/// Phrases of popular servers for content that violates a policy, in lower case.
const POLICY_PHRASES: [&str; 11] = [
    "content_policy",
    "content policy",
    "content_filter",
    "content filter",
    "content management policy",
    "policy_violation",
    "policy violation",
    "usage policies",
    "moderation",
    "flagged",
    "safety",
];

/// Phrases for a refusal because of content that has no code of its own, in lower case.
const CONTENT_PHRASES: [&str; 3] =
    ["content filtering policy", "violating our usage policy", "content management policy"];

/// Names of members that hold the provider's id of the request.
const REQUEST_IDS: [&str; 3] = ["request_id", "requestId", "x-request-id"];

/// Classifies an answer whose status is not 200.
pub(super) fn classify(
    (dialect, status): (Dialect, u16),
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
    redactor: &Redactor,
) -> UpstreamError {
    let error = ErrorBody::read(body);
    let retry_after = retry_after(headers, now).or_else(|| retry_delay(dialect, body));
    let amazon_type = headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
    let of_dialect = kind_of_refusal(dialect, status, retry_after.is_some(), amazon_type, body);
    let kind = of_dialect.unwrap_or_else(|| kind(status, retry_after, &error));
    let is_clients_fault = kind.blame() == Blame::Client;
    let code = error.code.as_deref().and_then(|code| machine_readable(&redactor.clean(code, CODE_LIMIT)));
    UpstreamError {
        failure: Failure { kind, status: Some(status), retry_after },
        cause: None,
        detail: format!("status {status}, code {}, {} bytes of body", code.as_deref().unwrap_or("none"), body.len()),
        is_about_content: code.as_deref().is_some_and(names_content) || error.mentions(&CONTENT_PHRASES),
        raw: is_clients_fault.then(|| redactor.clean(&without_request_id(body), RAW_LIMIT)),
        code,
        refuses_signature: refuses_signature(dialect, status, body),
        objection: None,
        quota: Some(quota(headers, || now)).filter(QuotaReport::is_some).map(Box::new),
    }
}

/// A body without the provider's id of the request, which is nobody's business but ours.
fn without_request_id(body: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(body);
    let Ok(whole) = serde_json::from_str::<Value>(&text) else { return text };
    let ids =
        REQUEST_IDS.iter().flat_map(|name| [whole.get(name), whole.get("error").and_then(|error| error.get(name))]);
    let ids: Vec<&str> = ids.flatten().filter_map(Value::as_str).filter(|id| id.len() >= MIN_REQUEST_ID).collect();
    ids.into_iter().fold(text, |text, id| Cow::Owned(text.replace(id, "***")))
}

/// Whether a code says that the content was refused.
fn names_content(code: &str) -> bool {
    ["content_filter", "content_policy", "moderation_blocked"].iter().any(|word| code.starts_with(word))
}

fn kind(status: u16, retry_after: Option<Duration>, error: &ErrorBody) -> FailureKind {
    match status {
        // An account without money. Nothing says when that ends.
        429 if retry_after.is_none() && error.code.as_deref() == Some("insufficient_quota") => FailureKind::Auth,
        400 | 422 if error.mentions(&LENGTH_PHRASES) => FailureKind::ContextLength,
        403 if error.mentions(&POLICY_PHRASES) => FailureKind::ContentPolicy,
        status => FailureKind::of_status(status.into()).unwrap_or(FailureKind::UnexpectedStatus),
    }
}

/// Contents of an error body.
#[derive(Debug, Default, PartialEq, Eq)]
struct ErrorBody {
    code: Option<String>,
    message: Option<String>,
    /// Text to search for phrases, in lower case.
    text: String,
}

impl ErrorBody {
    fn read(body: &[u8]) -> ErrorBody {
        let Ok(mut whole) = serde_json::from_slice::<Value>(body) else {
            return ErrorBody { text: String::from_utf8_lossy(body).to_lowercase(), ..ErrorBody::default() };
        };
        // Google wraps its error object into a list.
        if let Some(first) = whole.as_array_mut().and_then(|list| list.first_mut()) {
            whole = first.take();
        }
        let error = whole.get("error").unwrap_or(&whole);
        let code = [error.get("code"), error.get("type"), whole.get("code"), whole.get("error_type")]
            .into_iter()
            .flatten()
            .find_map(scalar);
        let message = [error.get("message"), Some(error), whole.get("message"), whole.get("detail")]
            .into_iter()
            .flatten()
            .find_map(sentence);
        let kinds = [error.get("code"), error.get("type")].into_iter().flatten().filter_map(scalar);
        let texts: Vec<String> = kinds.chain(message.clone()).collect();
        ErrorBody { code, message, text: texts.join("\n").to_lowercase() }
    }

    fn mentions(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.text.contains(phrase))
    }
}

/// A code: a string at some servers, a number at others.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A message: a string, or the first `msg` of FastAPI's list of objects.
fn sentence(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(list) => list.first()?.get("msg").and_then(sentence),
        _ => None,
    }
}

/// The code, if it is a single word. Codes are logged, and a sentence may hold parts of the prompt.
fn machine_readable(code: &str) -> Option<Box<str>> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-.:".contains(character);
    (!code.is_empty() && code.chars().all(plain)).then(|| code.into())
}

#[cfg(test)]
mod tests {
    use actix_http::header::{HeaderName, HeaderValue};

    use super::*;
    use crate::base::secret::Secret;

    fn classify_text(status: u16, body: &str) -> UpstreamError {
        let redactor = Redactor::new([Secret::from("sk-provider-secret")]);
        classify((Dialect::OpenAi, status), &HeaderMap::new(), body.as_bytes(), SystemTime::UNIX_EPOCH, &redactor)
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: FailureKind) {
        assert_eq!(classify_text(status, body).failure.kind, expected, "{status} {body}");
    }

    #[test]
    fn the_status_decides() {
        let expected = [
            (FailureKind::BadRequest, vec![400, 405, 406, 410, 415, 418, 431, 451, 499]),
            (FailureKind::Auth, vec![401, 402]),
            (FailureKind::Forbidden, vec![403]),
            (FailureKind::NotFound, vec![404]),
            (FailureKind::TooLarge, vec![413]),
            (FailureKind::Unprocessable, vec![422]),
            (FailureKind::RateLimited, vec![429]),
            (FailureKind::Server, vec![408, 409, 425, 500, 501, 502, 504, 505, 520, 598]),
            (FailureKind::Overloaded, vec![503, 529]),
            (FailureKind::UnexpectedStatus, vec![201, 202, 204, 206, 301, 302, 304, 307, 308, 600, 999]),
        ];
        for (kind, statuses) in expected {
            for status in statuses {
                check(status, r#"{"error":{"message":"No."}}"#, kind);
                check(status, "", kind);
            }
        }
    }

    #[test]
    fn a_prompt_that_is_too_long_is_recognised_in_the_messages_of_popular_servers() {
        let sentences = [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "the request exceeds the available context size, try increasing it",
            "Requested tokens (9001) exceed context window of 8192",
            "Input is too long for requested model.",
            "Please reduce the length of the messages or completion.",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        ];
        for sentence in sentences {
            check(
                400,
                &serde_json::json!({ "error": { "message": sentence } }).to_string(),
                FailureKind::ContextLength,
            );
            check(400, &serde_json::json!({ "error": sentence }).to_string(), FailureKind::ContextLength);
            check(422, &serde_json::json!({ "detail": sentence }).to_string(), FailureKind::ContextLength);
            check(400, sentence, FailureKind::ContextLength);
            check(500, sentence, FailureKind::Server);
        }
        check(400, r#"{"error":{"message":"No.","code":"context_length_exceeded"}}"#, FailureKind::ContextLength);
        check(400, r#"{"error":{"type":"exceed_context_size_error","code":400}}"#, FailureKind::ContextLength);
    }

    #[test]
    fn other_things_that_are_too_long_are_bad_requests() {
        check(400, r#"{"error":{"message":"Invalid 'user': string too long."}}"#, FailureKind::BadRequest);
        check(400, r#"{"error":{"message":"max_tokens is too large: 99999."}}"#, FailureKind::BadRequest);
        check(400, r#"{"error":{"message":"Invalid 'stop': too many."}}"#, FailureKind::BadRequest);
    }

    #[test]
    fn every_shape_of_an_error_body_gives_its_code_and_message() {
        let check = |body: &str, code: Option<&str>, message: Option<&str>| {
            assert_eq!(classify_text(400, body).code.as_deref(), code, "{body}");
            assert_eq!(ErrorBody::read(body.as_bytes()).message.as_deref(), message, "{body}");
        };
        check(r#"{"error":{"message":"No.","type":"t","code":"c"}}"#, Some("c"), Some("No."));
        check(r#"{"error":{"message":"No.","type":"t","code":null}}"#, Some("t"), Some("No."));
        check(r#"{"error":{"message":"No.","code":400}}"#, Some("400"), Some("No."));
        check(
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"No."}}"#,
            Some("invalid_request_error"),
            Some("No."),
        );
        check(
            r#"{"object":"error","message":"No.","type":"BadRequestError","code":40301}"#,
            Some("40301"),
            Some("No."),
        );
        check(r#"{"error":"No.","error_type":"validation"}"#, Some("validation"), Some("No."));
        check(r#"{"detail":"No."}"#, None, Some("No."));
        check(r#"{"detail":[{"loc":["body"],"msg":"No."}]}"#, None, Some("No."));
        check(r#"[{"error":{"code":400,"message":"No."}}]"#, Some("400"), Some("No."));
        check(r#"{"error":{"message":"No.","code":"a sentence, not a code"}}"#, None, Some("No."));
        for nothing in ["", "<html>No.</html>", "null", "[]", "{}", "7", r#"{"error":{"message":7}}"#] {
            check(nothing, None, None);
        }
    }

    #[test]
    fn only_a_callers_own_mistake_shows_the_providers_body_and_never_its_secrets() {
        let body = r#"{"error":{"message":"Bad key sk-provider-secret\u0007 or sk-other-abcdef"}}"#;
        for status in [400, 413, 422] {
            let error = classify_text(status, body);
            assert_eq!(error.raw.as_deref(), Some(r#"{"error":{"message":"Bad key ***\u0007 or ***"}}"#));
        }
        for status in [401, 402, 403, 404, 408, 429, 500, 503, 529, 302] {
            let error = classify_text(status, body);
            assert_eq!(error.raw, None, "{status}");
        }
    }

    #[test]
    fn the_shown_body_is_cut_and_the_log_holds_none_of_it() {
        let error = classify_text(400, &format!(r#"{{"error":{{"message":"{}"}}}}"#, "prompt ".repeat(1_000)));
        assert_eq!(error.raw.unwrap().len(), RAW_LIMIT);
        assert_eq!(error.detail, "status 400, code none, 7024 bytes of body");
    }

    #[test]
    fn a_403_for_content_differs_from_one_for_the_account() {
        let policy = |body: &str| classify_text(403, body).failure.kind == FailureKind::ContentPolicy;
        assert!(policy(r#"{"error":{"code":"content_policy_violation"}}"#));
        assert!(policy(r#"{"error":{"message":"Your input was flagged by our moderation."}}"#));
        assert!(!policy(r#"{"error":{"message":"Country not supported."}}"#));
    }

    #[test]
    fn a_refusal_because_of_content_is_known_by_its_code_or_its_words() {
        for (body, expected) in [
            (r#"{"error":{"code":"content_filter","message":"No."}}"#, true),
            (
                r#"{"error":{"code":"invalid_prompt","message":"Your prompt was flagged as potentially violating our usage policy."}}"#,
                true,
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
                true,
            ),
            (r#"{"error":{"code":"invalid_prompt","message":"Invalid prompt."}}"#, false),
        ] {
            assert_eq!(classify_text(400, body).is_about_content, expected, "{body}");
        }
    }

    #[test]
    fn an_account_without_money_is_no_rate_limit() {
        let body = r#"{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":"insufficient_quota"}}"#;
        check(429, body, FailureKind::Auth);
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("retry-after"), HeaderValue::from_static("7"));
        let waiting =
            classify((Dialect::OpenAi, 429), &headers, body.as_bytes(), SystemTime::UNIX_EPOCH, &Redactor::default());
        assert_eq!(waiting.failure.kind, FailureKind::RateLimited);
    }

    #[test]
    fn the_providers_id_of_the_request_is_masked() {
        let shown = |body: &str| classify_text(400, body).raw.unwrap();
        let body = r#"{ "error":{"message":"bad (request req_011UP)"},"request_id":"req_011UP"}"#;
        assert_eq!(shown(body), r#"{ "error":{"message":"bad (request ***)"},"request_id":"***"}"#);
        assert_eq!(shown(r#"{"error":{"requestId":"0a1b-2c3d"}}"#), r#"{"error":{"requestId":"***"}}"#);
        assert_eq!(shown("not JSON"), "not JSON");
    }

    #[test]
    fn the_requested_wait_is_kept() {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("retry-after"), HeaderValue::from_static("7"));
        let error = classify((Dialect::OpenAi, 429), &headers, b"", SystemTime::UNIX_EPOCH, &Redactor::default());
        assert_eq!(error.failure.retry_after, Some(std::time::Duration::from_secs(7)));
    }
}
