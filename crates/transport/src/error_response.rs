//! Answers with an error status, as attempts and clients see them. What a refusal is about is read by
//! [`pointsman_dialect::read_refusal`]; here are the wait, the quota and the text for a client.

use std::{borrow::Cow, time::SystemTime};

use actix_http::header::HeaderMap;
use pointsman_dialect::{RefusedAttempt, TokenLimit, read_refusal, refuses_signature, retry_delay};
use pointsman_domain::Failure;
use pointsman_routing::stats::QuotaReport;
use serde_json::Value;

use super::{failure::UpstreamError, rate_limits::quota, redact::Redactor, retry_after::retry_after};

/// Most bytes of a provider's body that a caller sees.
const RAW_LIMIT: usize = 2 * 1024;

/// Shortest id of a request that is searched for, in bytes.
const MIN_REQUEST_ID: usize = 6;

/// Most bytes of a machine-readable code.
const CODE_LIMIT: usize = 64;

/// Names of members that hold the provider's id of the request, or of the gateway's account.
const IDS: [&str; 4] = ["request_id", "requestId", "x-request-id", "user_id"];

/// Classifies an answer to `call` whose status is not 200.
pub(super) fn classify(
    call: RefusedAttempt<'_>,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
    redactor: &Redactor,
) -> UpstreamError {
    let retry_after = retry_after(headers, now).or_else(|| retry_delay(call.dialect, body));
    let amazon_type = headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
    let status = call.status;
    let limit = token_limit(headers, call.prompt_tokens);
    let call = RefusedAttempt { amazon_type, names_a_wait: retry_after.is_some(), limit, ..call };
    let refusal = read_refusal(call, body);
    let code = refusal.code.as_deref().and_then(|code| machine_readable(&redactor.clean(code, CODE_LIMIT)));
    UpstreamError {
        failure: Box::new(Failure {
            kind: refusal.kind,
            status: Some(status),
            retry_after,
            evidence: refusal.evidence,
        }),
        cause: None,
        detail: format!("status {status}, code {}, {} bytes of body", code.as_deref().unwrap_or("none"), body.len()),
        is_about_content: refusal.is_about_content,
        wants_fewer_tokens: refusal.wants_fewer_tokens,
        raw: refusal.is_for_client.then(|| redactor.clean(&without_ids(body), RAW_LIMIT)),
        code,
        refuses_signature: refuses_signature(call.dialect, status, body),
        objection: None,
        quota: Some(quota(headers, || now).of_refusal(retry_after)).filter(QuotaReport::is_some).map(Box::new),
    }
}

/// The limit on tokens that has refused this request, as far as headers say. They stand whatever refused it.
fn token_limit(headers: &HeaderMap, prompt_tokens: u32) -> Option<TokenLimit> {
    let count = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let of_prompts = || {
        let has_room = count("anthropic-ratelimit-input-tokens-remaining")? >= prompt_tokens.into();
        let has_requests = count("anthropic-ratelimit-requests-remaining") != Some(0);
        count("anthropic-ratelimit-input-tokens-limit").filter(|_| !has_room && has_requests)
    };
    let of_all = || {
        let has_requests = count("x-ratelimit-remaining-requests") != Some(0);
        count("x-ratelimit-limit-tokens").filter(|_| has_requests)
    };
    // Anthropic counts long prompts apart.
    let has_room = |(name, least): (&str, u32)| count(name).map(|left| left >= least.into());
    let remaining = [
        ("anthropic-ratelimit-requests-remaining", 1),
        ("anthropic-ratelimit-input-tokens-remaining", prompt_tokens.max(1)),
        ("anthropic-ratelimit-output-tokens-remaining", 1),
        ("anthropic-ratelimit-tokens-remaining", prompt_tokens.max(1)),
    ]
    .map(has_room);
    let is_other = matches!(remaining, [Some(true), input, _, tokens] if input.or(tokens).is_some())
        && !remaining.contains(&Some(false));
    let other = is_other.then_some(TokenLimit::Other);
    of_prompts().map(TokenLimit::Prompts).or(other).or_else(|| of_all().map(TokenLimit::All))
}

/// A body without the provider's ids of the request and of the account, which are nobody's business but ours.
fn without_ids(body: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(body);
    let Ok(whole) = serde_json::from_str::<Value>(&text) else { return text };
    let ids = IDS.iter().flat_map(|name| [whole.get(name), whole.get("error").and_then(|error| error.get(name))]);
    let ids: Vec<&str> = ids.flatten().filter_map(Value::as_str).filter(|id| id.len() >= MIN_REQUEST_ID).collect();
    ids.into_iter().fold(text, |text, id| Cow::Owned(text.replace(id, "***")))
}

/// The code, if it is a single word. Codes are logged, and a sentence may hold parts of the prompt.
fn machine_readable(code: &str) -> Option<Box<str>> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-.:".contains(character);
    (!code.is_empty() && code.chars().all(plain)).then(|| code.into())
}

#[cfg(test)]
mod tests {
    use actix_http::header::{HeaderName, HeaderValue};

    use std::time::Duration;

    use pointsman_domain::{Dialect, Evidence, FailureKind};

    use super::*;
    use pointsman_base::secret::Secret;

    fn call(status: u16) -> RefusedAttempt<'static> {
        RefusedAttempt {
            dialect: Dialect::OpenAi,
            status,
            amazon_type: None,
            names_a_wait: false,
            model: "acme-1",
            request: br#"{"model":"acme-1","messages":[{"role":"user","content":"Hi"}]}"#,
            prompt_tokens: 8,
            limit: None,
        }
    }

    fn classify_text(status: u16, body: &str) -> UpstreamError {
        let redactor = Redactor::new([Secret::from("sk-provider-secret")]);
        classify(call(status), &HeaderMap::new(), body.as_bytes(), SystemTime::UNIX_EPOCH, &redactor)
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
    fn every_shape_of_an_error_body_gives_its_code() {
        let check =
            |body: &str, code: Option<&str>| assert_eq!(classify_text(400, body).code.as_deref(), code, "{body}");
        check(r#"{"error":{"message":"No.","type":"t","code":"c"}}"#, Some("c"));
        check(r#"{"error":{"message":"No.","type":"t","code":null}}"#, Some("t"));
        check(r#"{"error":{"message":"No.","code":400}}"#, Some("400"));
        check(r#"{"error":{"code":400,"message":"No.","status":"INVALID_ARGUMENT"}}"#, Some("INVALID_ARGUMENT"));
        check(
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"No."}}"#,
            Some("invalid_request_error"),
        );
        check(r#"{"object":"error","message":"No.","type":"BadRequestError","code":40301}"#, Some("40301"));
        check(r#"{"error":"No.","error_type":"validation"}"#, Some("validation"));
        check(r#"[{"error":{"code":400,"message":"No."}}]"#, Some("400"));
        check(r#"{"error":{"message":"No.","code":"a sentence, not a code"}}"#, None);
        for nothing in [r#"{"detail":"No."}"#, "", "<html>No.</html>", "null", "[]", "{}", "7"] {
            check(nothing, None);
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
        let waiting = classify(call(429), &headers, body.as_bytes(), SystemTime::UNIX_EPOCH, &Redactor::default());
        assert_eq!(waiting.failure.kind, FailureKind::RateLimited);
    }

    #[test]
    fn a_limit_in_a_header_counts_only_if_it_leaves_no_room() {
        let kind = |tokens_left: &'static str, requests_left: &'static str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [
                ("anthropic-ratelimit-input-tokens-limit", "30000"),
                ("anthropic-ratelimit-input-tokens-remaining", tokens_left),
                ("anthropic-ratelimit-requests-remaining", requests_left),
            ] {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            let call = RefusedAttempt { dialect: Dialect::Anthropic, prompt_tokens: 40_000, ..call(429) };
            classify(call, &headers, b"", SystemTime::UNIX_EPOCH, &Redactor::default()).failure.kind
        };
        assert_eq!(kind("30000", "7"), FailureKind::OverLimit);
        assert_eq!(kind("30000", "0"), FailureKind::RateLimited);
        assert_eq!(kind("50000", "7"), FailureKind::RateLimited);
        assert_eq!(kind("", "7"), FailureKind::RateLimited);
    }

    #[test]
    fn a_limit_is_another_one_if_all_that_headers_tell_of_leave_room() {
        let is_of_one = |left: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in left.iter().chain(&[("retry-after", "60")]) {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            let call = RefusedAttempt { dialect: Dialect::Anthropic, prompt_tokens: 250_000, ..call(429) };
            let failure = classify(call, &headers, b"", SystemTime::UNIX_EPOCH, &Redactor::default()).failure;
            assert_eq!(failure.kind, FailureKind::RateLimited);
            failure.evidence == Evidence::Request
        };
        let requests = ("anthropic-ratelimit-requests-remaining", "3999");
        let (enough, few) = ("1900000", "249999");
        let (input, output) =
            ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-output-tokens-remaining");
        assert!(is_of_one(&[requests, (input, enough), (output, "80000")]));
        assert!(is_of_one(&[requests, ("anthropic-ratelimit-tokens-remaining", enough)]));
        assert!(!is_of_one(&[requests, (input, few)]), "{few} are too few");
        assert!(!is_of_one(&[requests, (input, enough), (output, "0")]));
        assert!(!is_of_one(&[("anthropic-ratelimit-requests-remaining", "0"), (input, enough)]));
        assert!(!is_of_one(&[requests]) && !is_of_one(&[(input, enough)]) && !is_of_one(&[]));
    }

    #[test]
    fn the_providers_id_of_the_request_is_masked() {
        let shown = |body: &str| classify_text(400, body).raw.unwrap();
        let body = r#"{ "error":{"message":"bad (request req_011UP)"},"request_id":"req_011UP"}"#;
        assert_eq!(shown(body), r#"{ "error":{"message":"bad (request ***)"},"request_id":"***"}"#);
        assert_eq!(shown(r#"{"error":{"requestId":"0a1b-2c3d"}}"#), r#"{"error":{"requestId":"***"}}"#);
        assert_eq!(shown(r#"{"error":"no","user_id":"user_3D0IV"}"#), r#"{"error":"no","user_id":"***"}"#);
        assert_eq!(shown("not JSON"), "not JSON");
    }

    #[test]
    fn the_requested_wait_is_kept() {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("retry-after"), HeaderValue::from_static("7"));
        let error = classify(call(429), &headers, b"", SystemTime::UNIX_EPOCH, &Redactor::default());
        assert_eq!(error.failure.retry_after, Some(Duration::from_secs(7)));
    }
}
