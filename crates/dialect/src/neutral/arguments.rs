//! Arguments of calls for upstreams that want an object instead of a text.

use bytes::{BufMut as _, BytesMut};

use super::{conversation::ToolKind, lone_halves_replaced, text::EscapedText, unsupported_fields::UnsupportedFields};
use crate::json::Raw;

/// Appends the input of a call in the history as a JSON object. The text of a custom tool becomes its member `input`.
pub(crate) fn push_call_input(
    kind: ToolKind,
    text: &EscapedText<'_>,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    match kind {
        ToolKind::Function => {
            if !push_arguments_object(text, out) {
                unsupported.emulate("messages[].tool_calls[].function.arguments");
            }
        }
        ToolKind::Custom => {
            unsupported.emulate("messages[].tool_calls[].custom");
            push!(out; br#"{"input":"#, text, b"}");
        }
    }
}

/// Appends the arguments as a JSON object. Returns false if the text was no object: blank becomes `{}`, another JSON value
/// is wrapped as `{"value":…}`, and anything else as `{"INVALID_JSON":"…"}`.
pub(crate) fn push_arguments_object(text: &EscapedText<'_>, out: &mut BytesMut) -> bool {
    let unescaped = text.unescaped();
    // Within a text of JSON, an escape is written with two backslashes.
    let unescaped = lone_halves_replaced(&unescaped);
    let trimmed = unescaped.trim();
    if trimmed.is_empty() {
        out.put_slice(b"{}");
        return true;
    }
    match Raw::whole(trimmed) {
        Ok(value) if value.is_object() => {
            out.put_slice(value.bytes());
            true
        }
        Ok(value) => {
            push!(out; br#"{"value":"#, value.bytes(), b"}");
            false
        }
        Err(_) => {
            push!(out; br#"{"INVALID_JSON":"#, unescaped, b"}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(arguments: &str) -> (String, bool) {
        let mut out = BytesMut::new();
        let is_object = push_arguments_object(&EscapedText::escaping(arguments), &mut out);
        (String::from_utf8(out.to_vec()).unwrap(), is_object)
    }

    #[test]
    fn an_object_is_spliced_byte_for_byte_and_anything_else_is_wrapped() {
        let exact = r#"{"a": 1.0, "b":12345678901234567890,"c":"\u00e9"}"#;
        assert_eq!(object(exact), (exact.into(), true));
        assert_eq!(object(r#"{"a":"x\ud83d"}"#), ("{\"a\":\"x\u{fffd}\"}".into(), true));
        assert_eq!(object(" \n"), ("{}".into(), true));
        assert_eq!(object("[1]"), (r#"{"value":[1]}"#.into(), false));
        assert_eq!(object("{bad"), (r#"{"INVALID_JSON":"{bad"}"#.into(), false));
    }
}
