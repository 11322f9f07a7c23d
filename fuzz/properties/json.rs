//! Reading what was written for others.

use serde::de::IgnoredAny;
use serde_json::Value;

/// The text as a value. It must be JSON; there is no value where a number is larger than any that can be held, which
/// JSON allows and which is passed on as it came.
///
/// Half a surrogate pair is passed on as its provider escaped it, because the other half may stand in the next chunk:
/// clients put them together, serde would not read the one.
pub(crate) fn read(text: &str) -> Option<Value> {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        panic!("not JSON ({error}): {text}");
    }
    match serde_json::from_str(&without_surrogates(text)) {
        Ok(value) => Some(value),
        Err(error) if error.to_string().starts_with("number out of range") => None,
        Err(error) => panic!("not readable ({error}): {text}"),
    }
}

fn without_surrogates(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u") {
        let surrogate = after.is_char_boundary(4)
            && matches!(after.as_bytes(), [b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', _, _, ..]);
        whole.push_str(before);
        whole.push_str(if surrogate { "\\ufffd" } else { "\\u" });
        rest = if surrogate { after.get(4..).unwrap_or_default() } else { after };
    }
    whole.push_str(rest);
    whole
}
