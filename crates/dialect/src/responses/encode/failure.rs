//! Errors as clients of the Responses API read them: within a response that failed, and as a body of its own.

use bytes::{BufMut as _, BytesMut};

use crate::{json::push_string, stream_error::StreamError};

/// Seconds that a client is asked to wait after a rate limit. Clients read the number out of the message.
const RETRY_SECONDS: u32 = 5;

/// Appends the `error` of a response that failed.
pub(super) fn push_failure(error: &StreamError, out: &mut BytesMut) {
    let code = code(error);
    push!(out; br#"{"code":"#, code, br#","message":"#);
    if code == "rate_limit_exceeded" && !error.message.contains("try again in") {
        push_string(out, &format!("{} Please try again in {RETRY_SECONDS}s.", error.message));
    } else {
        push_string(out, &error.message);
    }
    out.put_u8(b'}');
}

/// Appends the body of an answer that is only this error: it has the form of chat.
pub(super) fn push_error_body(error: &StreamError, out: &mut BytesMut) {
    let start = out.len();
    error.push(out);
    // It writes a member after others.
    if let Some(comma) = out.get_mut(start) {
        *comma = b'{';
    }
    out.put_u8(b'}');
}

/// The word that clients act on: everything that they do not know they try again.
fn code(error: &StreamError) -> &'static str {
    let mentions = |word: &str| error.error_type.contains(word) || error.reason.is_some_and(|text| text.contains(word));
    match error.code {
        _ if mentions("context_length") => "context_length_exceeded",
        402 => "insufficient_quota",
        429 => "rate_limit_exceeded",
        400 | 403 | 404 | 413 | 422 => "invalid_prompt",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn failure(code: u16, error_type: &'static str) -> Value {
        let mut out = BytesMut::new();
        push_failure(
            &StreamError { code, error_type, message: "No.".into(), ..StreamError::broken_answer() },
            &mut out,
        );
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_failure_has_the_code_that_clients_act_on() {
        for (code, error_type, expected) in [
            (400, "context_length_exceeded", "context_length_exceeded"),
            (402, "payment_required", "insufficient_quota"),
            (400, "invalid_request", "invalid_prompt"),
            (502, "provider_unavailable", "server_error"),
            (503, "provider_overloaded", "server_error"),
        ] {
            assert_eq!(failure(code, error_type), json!({"code": expected, "message": "No."}), "{code}");
        }
    }

    #[test]
    fn a_rate_limit_says_when_to_try_again() {
        let expected = json!({"code": "rate_limit_exceeded", "message": "No. Please try again in 5s."});
        assert_eq!(failure(429, "rate_limit_exceeded"), expected);
    }

    #[test]
    fn an_error_of_its_own_has_the_form_of_chat() {
        let mut out = BytesMut::new();
        push_error_body(&StreamError::broken_answer(), &mut out);
        let body: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&body["error"]["code"], &body["error"]["type"]), (&json!(502), &json!("provider_error")));
    }
}
