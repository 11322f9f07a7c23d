//! Whether an upstream reports an error inside a 200. `crate::refusal` reads what kind of failure it is; nothing of it reaches
//! the client.

use crate::{answer::AnswerFault, json::Raw, refusal};

/// Whether a member of an answer holds what a content filter noted, which is not for clients.
pub(super) fn is_filter_note(name: &[u8]) -> bool {
    name == b"prompt_filter_results" || name.starts_with(b"content_filter_")
}

/// Whether a member `error` says that something is wrong.
pub(super) fn is_error(error: Raw<'_>) -> bool {
    !(error.is_null() || matches!(error.bytes(), b"false" | b"0" | b"\"\""))
}

/// Whether a member `base_resp` says so: MiniMax refuses with a 200, and tells success with the code 0.
pub(super) fn is_refusal(base_resp: Raw<'_>) -> bool {
    base_resp.member(b"status_code").and_then(Raw::count).is_some_and(|code| code != 0)
}

/// The failure that an answer of another kind than chat holds.
pub(super) fn fault_of_whole(answer: Raw<'_>) -> Option<AnswerFault> {
    let error = answer.member(b"error").filter(|error| is_error(*error)).map(refusal::fault_of_whole);
    error.or_else(|| answer.member(b"base_resp").filter(|it| is_refusal(*it)).map(refusal::fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json::Cursor, refusal::fault_of_data as fault_of_event};
    use pointsman_domain::FailureKind;

    fn check(event: &str, kind: FailureKind) {
        assert_eq!(fault_of_event(event.as_bytes()).kind, kind, "{event}");
    }

    #[test]
    fn an_error_is_classed_like_its_status() {
        check(r#"{"error":{"code":429,"message":"slow down"}}"#, FailureKind::RateLimited);
        check(r#"{"error":{"code":"529"}}"#, FailureKind::Overloaded);
        check(r#"{"error":{"status":502,"type":"invalid_request_error"}}"#, FailureKind::Server);
        check(r#"{"error":{"code":400,"type":"invalid_request_error"}}"#, FailureKind::BadRequest);
        check(r#"{"error":{"code":400,"type":"context_length_exceeded"}}"#, FailureKind::ContextLength);
        check(r#"{"error":{"code":401}}"#, FailureKind::Auth);
    }

    #[test]
    fn an_error_without_a_status_is_classed_by_its_words() {
        check(r#"{"error":{"code":"rate_limit_exceeded"}}"#, FailureKind::RateLimited);
        check(r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#, FailureKind::Overloaded);
        check(r#"{"type":"authentication_error","message":"no"}"#, FailureKind::Auth);
        check(r#"{"error":{"type":"api_error","code":null}}"#, FailureKind::Server);
        check(r#"{"error":"out of memory"}"#, FailureKind::Server);
        check("boom", FailureKind::Server);
        check("", FailureKind::Server);
    }

    #[test]
    fn an_error_about_content_says_why() {
        let why = |event: &str| fault_of_event(event.as_bytes()).refused_content;
        for code in ["content_filter", "content_policy_violation", "moderation_blocked"] {
            assert_eq!(
                why(&format!(r#"{{"error":{{"code":"{code}","message":"Unsafe."}}}}"#)).as_deref(),
                Some("Unsafe.")
            );
        }
        assert_eq!(why(r#"{"error":{"code":"invalid_prompt","message":"No."}}"#), None);
        assert_eq!(why(r#"{"error":{"status":503,"code":"content_filter"}}"#), None, "the filter itself failed");
    }

    #[test]
    fn the_detail_names_the_error_and_quotes_nothing() {
        let detail = |event: &str| fault_of_event(event.as_bytes()).detail;
        let quoted = r#"{"error":{"code":500,"type":"server_error","message":"Cannot process this: my illness"}}"#;
        assert_eq!(detail(quoted), "the upstream reported an error 500 [server_error]");
        assert_eq!(detail(r#"{"error":{"type":"my illness, sk-abcdefghijkl"}}"#), "the upstream reported an error");
        assert_eq!(detail(&format!("\"{}\"", "x".repeat(100_000))), "the upstream reported an error");
    }

    #[test]
    fn only_an_error_that_says_something_is_one() {
        let said = |json: &str| is_error(Cursor::new(json).value().unwrap());
        for quiet in ["null", "false", "0", "\"\""] {
            assert!(!said(quiet), "{quiet}");
        }
        for loud in ["{}", "\"no\"", "true", "500"] {
            assert!(said(loud), "{loud}");
        }
    }
}
