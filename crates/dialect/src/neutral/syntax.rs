//! The text of a body, and what is wrong with one that cannot be read.
//!
//! A body is read in one pass by a [`Cursor`](crate::json::Cursor), which checks the grammar, the depth and the surrogate pairs as
//! it goes. Only where that pass stops is the text looked at again, to say what is wrong with it and where.

use std::str;

use memchr::memchr2;
use pointsman_domain::{Invalid, InvalidReason};

use super::surrogates::lone_half;

/// The body as UTF-8. The vectorised check does not say where a fault is: that is looked up only then.
///
/// # Errors
/// The 400 for invalid UTF-8, with line and column.
pub(crate) fn text(body: &[u8]) -> Result<&str, Invalid> {
    simdutf8::basic::from_utf8(body)
        .or_else(|_| str::from_utf8(body).map_err(|fault| broken_at(body, fault.valid_up_to(), "invalid UTF-8")))
}

/// Looks for what makes a text unreadable: nesting deeper than `max_depth`, half a surrogate pair, or anything that is no JSON.
///
/// # Errors
/// The 400 for the first of these, with line and column.
pub(crate) fn check(text: &str, max_depth: usize) -> Result<(), Invalid> {
    let body = text.as_bytes();
    if let Some(at) = too_deep(body, max_depth) {
        return Err(broken_at(body, at, &format!("nesting deeper than {max_depth} levels")));
    }
    if let Some(at) = lone_half(body, 0) {
        return Err(broken_at(body, at, "half of a surrogate pair"));
    }
    if text.trim_ascii().is_empty() {
        return Err(empty());
    }
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|fault| not_json(&fault))
}

/// The 400 for a text that another reader found to be no JSON, with line and column where they are known.
pub(crate) fn broken(text: &str, max_depth: usize) -> Invalid {
    let unknown = || Invalid::body(InvalidReason::InvalidJson, "Request body is not valid JSON.");
    check(text, max_depth).err().unwrap_or_else(unknown)
}

/// The body is not JSON, as the parser puts it; its own text ends in line and column.
fn not_json(fault: &serde_json::Error) -> Invalid {
    Invalid::body(InvalidReason::InvalidJson, format!("Request body is not valid JSON: {fault}."))
}

/// The body is not JSON because of `what` at a byte position.
fn broken_at(body: &[u8], at: usize, what: &str) -> Invalid {
    let before = body.get(..at).unwrap_or(body);
    let line = 1 + memchr::memchr_iter(b'\n', before).count();
    let column = 1 + before.len() - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let message = format!("Request body is not valid JSON: {what} at line {line} column {column}.");
    Invalid::body(InvalidReason::InvalidJson, message)
}

/// There is no body.
fn empty() -> Invalid {
    let message = "Request body is not valid JSON: the body is empty at line 1 column 1. Send a JSON object with the \
                   fields of this call.";
    Invalid::body(InvalidReason::InvalidJson, message)
}

/// Where the nesting first exceeds `max_depth`.
fn too_deep(body: &[u8], max_depth: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = body.get(at) {
        match byte {
            b'"' => at = string_end(body, at + 1),
            b'{' | b'[' => {
                depth += 1;
                if depth > max_depth {
                    return Some(at);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position of the quote that ends a string, for the position after its first quote.
fn string_end(body: &[u8], mut at: usize) -> usize {
    while let Some(skipped) = body.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        let found = at + skipped;
        if body.get(found) == Some(&b'"') {
            return found;
        }
        at = found + 2;
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use pointsman_domain::InvalidReason;

    use super::*;
    use crate::{ChatPurpose, ChatRequest, RequestLimits, neutral::lone_halves_replaced};

    fn refused(body: &[u8]) -> String {
        text(body).and_then(|text| check(text, 4)).expect_err("must be refused").message
    }

    fn passes(body: &str) -> bool {
        check(body, 4).is_ok()
    }

    #[test]
    fn depth_is_counted_outside_strings_only() {
        assert!(passes(r#"{"a":[[["]]]]{{{{[[[[\"[[[["]]]}"#));
        assert_eq!(
            refused(br#"{"a":[[[[1]]]]}"#),
            "Request body is not valid JSON: nesting deeper than 4 levels at line 1 column 9."
        );
    }

    #[test]
    fn siblings_do_not_add_up() {
        assert!(passes(r#"[[],[],[],[],[],[],[],[{}]]"#));
    }

    #[test]
    fn a_pair_of_surrogates_passes_and_half_a_pair_does_not() {
        for good in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\\\\ud83d \u00e9""#] {
            assert!(passes(good), "{good}");
        }
        for broken in [r#""\u"#, r#""\uzzzz""#] {
            assert!(!refused(broken.as_bytes()).contains("surrogate"), "{broken}");
        }
        for bad in [r#""\ud83d""#, r#""\ude00""#, r#""\\\ud83d\n""#, r#""\ud83d\ud83d""#, r#""\uDBFFx""#] {
            assert!(refused(bad.as_bytes()).contains("surrogate"), "{bad}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_located() {
        assert_eq!(
            refused(b"{\n\"a\": \"\xff\"}"),
            "Request body is not valid JSON: invalid UTF-8 at line 2 column 7."
        );
    }

    /// A chat body with a piece of something else in the place of a few of its bytes.
    fn maimed(at: prop::sample::Index, length: usize, piece: &str) -> String {
        const WHOLE: &str = concat!(
            r#"{"model":"a/b","messages":[{"role":"user","content":"say \"hi\" \u00e9 \ud83d\ude00"},"#,
            r#"{"role":"user","content":[{"type":"text","text":"x\n"}],"name":"n"}],"tools":[{"type":"function","#,
            r#""function":{"name":"f","parameters":{"a":[1,-2.5e3,null]}}}],"stop":["."],"extra_body":{"top_k":3}}"#
        );
        let start = at.index(WHOLE.len());
        let end = WHOLE.len().min(start + length);
        [WHOLE.get(..start).unwrap(), piece, WHOLE.get(end..).unwrap()].concat()
    }

    proptest! {
        #[test]
        fn a_body_is_called_no_json_exactly_if_it_is_none(
            at: prop::sample::Index,
            length in 0_usize..4,
            piece in r#"[\[\]{}:,"\\u0d8e.+\- a\n]{0,4}"#,
        ) {
            let body = maimed(at, length, &piece);
            let read = ChatRequest::parse(body.clone().into(), ChatPurpose::Chat, &RequestLimits::default());
            let is_refused = read.is_err_and(|invalid| invalid.reason == InvalidReason::InvalidJson);
            // A half of a character is no fault of a client.
            let whole = lone_halves_replaced(&body);
            prop_assert_eq!(is_refused, check(&whole, RequestLimits::default().max_depth).is_err(), "{}", body);
        }
    }
}
