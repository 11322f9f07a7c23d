//! Errors as clients of the Messages API read them: the body of an answer that is no 200, and the event `error` of a stream.
//!
//! The other direction, errors of an upstream, is in [`crate::refusal`].

use std::collections::BTreeSet;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::{
    json::{Raw, Splice, object, push_member, push_string, quoted, with_first_members},
    neutral::lone_halves_replaced,
    stream_error::StreamError,
};

/// A prompt that the provider found too long, without its numbers, in the words after which clients shorten it.
pub const UPSTREAM_TOO_LONG: &str =
    "prompt is too long: it exceeds the context window of the model (capability_rejected: prompt_too_long)";

/// Smaller numbers in a text are no context window.
const LEAST_WINDOW: u64 = 1_024;

/// An error in the gateway's own words.
#[derive(Debug, Clone, Copy)]
pub struct MessagesError<'a> {
    /// The status that a client of chat gets.
    pub status: u16,
    /// One sentence for people.
    pub message: &'a str,
    /// The machine name of the cause; clients of this API find it as `error.details.error_code`.
    pub reason: Option<&'a str>,
    /// The members of `error.metadata` that a client of chat gets, as a JSON object.
    pub metadata: Option<&'a str>,
    /// Id of the request.
    pub request_id: Option<&'a str>,
}

impl<'a> From<&'a StreamError> for MessagesError<'a> {
    fn from(error: &'a StreamError) -> MessagesError<'a> {
        MessagesError {
            status: error.code,
            message: &error.message,
            reason: error.reason,
            metadata: None,
            request_id: error.request_id.as_deref(),
        }
    }
}

impl MessagesError<'_> {
    /// The status for a client of this API: an overload has one of its own, which its SDKs know.
    pub fn messages_status(&self) -> u16 {
        if self.status == 503 { 529 } else { self.status }
    }

    /// `error.type`, which follows from the status.
    pub fn kind(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            408 | 504 => "timeout_error",
            409 => "conflict_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 | 529 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }

    /// The refusal of an upstream with this API, as it came but for the id of the request. Clients read its words: they leave a
    /// feature out, or shorten the conversation. `None` if it has another form.
    pub fn passed_on(&self, refusal: &str) -> Option<Bytes> {
        let refusal = &lone_halves_replaced(refusal);
        let whole = object(refusal).ok()?;
        let is_error = whole.kind().as_deref() == Some("error");
        whole.member(b"error").filter(|error| is_error && error.member(b"message").is_some_and(Raw::is_string))?;
        let mut splice = Splice::new(refusal);
        if let Some(theirs) = whole.member(b"request_id") {
            splice.replace(theirs, &self.request_id.map_or(BytesMut::from(&b"null"[..]), quoted));
        }
        Some(splice.finish())
    }

    /// The body of a response with this error.
    pub fn body(&self) -> Bytes {
        let mut out = BytesMut::new();
        push_error(self, &mut out);
        out.freeze()
    }
}

/// Appends the body of an answer with this error.
pub(super) fn push_error(error: &MessagesError<'_>, out: &mut BytesMut) {
    push_as(error.kind(), error, out);
}

/// Appends the event that ends a stream with this error. Clients repeat the request only after an overload, so that is what
/// every error is called that may pass.
pub(super) fn push_stream_error(error: &StreamError, out: &mut BytesMut) {
    let may_pass = !error.is_final && matches!(error.code, 408 | 409 | 429 | 502 | 503 | 504 | 529);
    let kind = if may_pass { "overloaded_error" } else { "api_error" };
    out.put_slice(b"event: error\ndata: ");
    push_as(kind, &error.into(), out);
    out.put_slice(b"\n\n");
}

fn push_as(kind: &str, error: &MessagesError<'_>, out: &mut BytesMut) {
    push!(out; br#"{"type":"error","error":{"type":""#, kind.as_bytes(), br#"","message":"#, error.message);
    if let Some(reason) = error.reason {
        let code = [b"\"error_code\":", &quoted(reason)[..]].concat();
        push_member(out, b"details", &with_first_members(error.metadata.unwrap_or("{}").as_bytes(), &code));
    }
    push!(out; br#"},"request_id":"#);
    match error.request_id {
        Some(id) => push_string(out, id),
        None => out.put_slice(b"null"),
    }
    out.put_u8(b'}');
}

/// The message about a prompt that does not fit, in the words that clients of this API read: they shorten the conversation
/// after the first, and ask for fewer output tokens after the second.
pub fn too_long_message(prompt_tokens: u64, max_tokens: u64, context_length: u64) -> String {
    if prompt_tokens >= context_length {
        return format!("prompt is too long: {prompt_tokens} tokens > {context_length} maximum");
    }
    format!(
        "input length and `max_tokens` exceed context limit: {prompt_tokens} + {max_tokens} > {context_length}, decrease input \
         length or `max_tokens` and try again"
    )
}

/// The same about a prompt that a provider refused, with the numbers of its text. `None` unless these are two: the length of
/// the prompt and the limit.
pub fn too_long_by(refusal: &str) -> Option<String> {
    let numbers = refusal.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
    let numbers: BTreeSet<u64> = numbers.filter(|number| *number >= LEAST_WINDOW).collect();
    match numbers.into_iter().collect::<Vec<_>>().as_slice() {
        [most, length] => Some(too_long_message(*length, 0, *most)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::refusal::kind_of;
    use pointsman_domain::{Dialect, FailureKind};

    #[test]
    fn a_refusal_in_this_form_passes_with_our_request_id_and_any_other_is_told_in_our_words() {
        let refusal = r#"{ "type":"error","error":{"type":"invalid_request_error","message":"a\u00e9","new":1.0},"request_id":"req_theirs"}"#;
        let passed = error(400).passed_on(refusal).unwrap();
        assert_eq!(passed, refusal.replace("req_theirs", "req-1"));
        let nameless = MessagesError { request_id: None, ..error(400) };
        assert_eq!(nameless.passed_on(refusal).unwrap(), refusal.replace("\"req_theirs\"", "null"));
        let cut = refusal.replace("\\u00e9", "\\ud83d");
        assert!(String::from_utf8_lossy(&error(400).passed_on(&cut).unwrap()).contains("a\u{fffd}"));
        let chat = r#"{"error":{"message":"a"}}"#;
        for other in ["", "{}", "<html>", chat, r#"{"type":"error","error":{"message":1}}"#, refusal.get(..60).unwrap()]
        {
            assert_eq!(error(400).passed_on(other), None, "{other}");
        }
    }

    fn error(status: u16) -> MessagesError<'static> {
        MessagesError {
            status,
            message: "No \"such\" model.",
            reason: Some("model_not_found"),
            metadata: None,
            request_id: Some("req-1"),
        }
    }

    #[test]
    fn the_body_has_the_shape_and_the_words_of_this_api() {
        let body: Value = serde_json::from_slice(&error(404).body()).unwrap();
        let expected = json!({"type": "error", "request_id": "req-1", "error": {"type": "not_found_error",
            "message": "No \"such\" model.", "details": {"error_code": "model_not_found"}}});
        assert_eq!(body, expected);
        let detailed = MessagesError { metadata: Some(r#"{"raw":"x","provider_name":"A"}"#), ..error(404) };
        let body: Value = serde_json::from_slice(&detailed.body()).unwrap();
        let details = json!({"error_code": "model_not_found", "raw": "x", "provider_name": "A"});
        assert_eq!(body["error"]["details"], details);
        let bare = MessagesError { reason: None, request_id: None, ..error(500) };
        let expected =
            r#"{"type":"error","error":{"type":"api_error","message":"No \"such\" model."},"request_id":null}"#;
        assert_eq!(bare.body(), expected);
    }

    #[test]
    fn every_status_has_its_type_and_an_overload_its_own_status() {
        let cases = [
            (400, "invalid_request_error", 400),
            (401, "authentication_error", 401),
            (402, "billing_error", 402),
            (403, "permission_error", 403),
            (404, "not_found_error", 404),
            (405, "invalid_request_error", 405),
            (408, "timeout_error", 408),
            (413, "request_too_large", 413),
            (422, "invalid_request_error", 422),
            (429, "rate_limit_error", 429),
            (500, "api_error", 500),
            (502, "api_error", 502),
            (503, "overloaded_error", 529),
            (504, "timeout_error", 504),
        ];
        for (status, kind, shown) in cases {
            assert_eq!((error(status).kind(), error(status).messages_status()), (kind, shown), "{status}");
        }
    }

    #[test]
    fn an_error_in_a_stream_that_may_pass_is_called_an_overload() {
        let stream_error = |code| StreamError {
            code,
            message: "m".into(),
            kind: "provider_error",
            error_type: "provider_unavailable",
            reason: None,
            provider_name: None,
            request_id: None,
            previous_errors: None,
            is_final: false,
        };
        for (code, kind) in
            [(502, "overloaded_error"), (429, "overloaded_error"), (500, "api_error"), (403, "api_error")]
        {
            let mut out = BytesMut::new();
            push_stream_error(&stream_error(code), &mut out);
            let expected = format!(
                "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"m\"}},\"request_id\":null}}\n\n"
            );
            assert_eq!(out, expected, "{code}");
        }
    }

    #[test]
    fn an_error_in_a_stream_that_no_time_cures_is_not_called_an_overload() {
        for code in [502, 503] {
            let mut out = BytesMut::new();
            push_stream_error(&StreamError { code, is_final: true, ..StreamError::broken_answer() }, &mut out);
            assert!(
                out.starts_with(b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\""),
                "{code}"
            );
        }
    }

    #[test]
    fn the_numbers_of_a_providers_refusal_are_found_in_its_text() {
        for (text, length, most) in [
            (
                "maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
                130_000,
                128_000,
            ),
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for a model with 32768 maximum",
                40_000,
                32_768,
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                1_200_000,
                1_048_576,
            ),
        ] {
            assert_eq!(
                too_long_by(text),
                Some(format!("prompt is too long: {length} tokens > {most} maximum")),
                "{text}"
            );
        }
        for text in ["190000 + 20000 > 200000", "Input is too long for requested model.", "error 400, code 2048"] {
            assert_eq!(too_long_by(text), None, "{text}");
        }
    }

    #[test]
    fn a_prompt_that_does_not_fit_is_told_in_the_words_that_clients_act_on() {
        let alone = too_long_message(210_000, 10, 200_000);
        assert_eq!(alone, "prompt is too long: 210000 tokens > 200000 maximum");
        let with_output = too_long_message(190_000, 20_000, 200_000);
        let expected = "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, ";
        assert!(with_output.starts_with(expected), "{with_output}");
        for message in [alone, with_output] {
            let error =
                MessagesError { status: 400, message: &message, reason: None, metadata: None, request_id: None };
            assert_eq!(kind_of(Dialect::Anthropic, 400, None, &error.body()), FailureKind::ContextLength);
        }
    }
}
