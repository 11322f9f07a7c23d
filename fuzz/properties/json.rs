//! Reading what was written for others.

use serde_json::Value;

/// The text as JSON. Half a surrogate pair is passed on as its provider escaped it, because the other half may stand in
/// the next chunk; clients put them together, serde would not read the one.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\u") {
        let surrogate = after.get(..4).is_some_and(|digits| {
            matches!(digits.as_bytes(), [b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..])
        });
        whole.push_str(before);
        whole.push_str(if surrogate { "\\ufffd" } else { "\\u" });
        rest = if surrogate { after.get(4..).unwrap_or_default() } else { after };
    }
    whole.push_str(rest);
    serde_json::from_str(&whole).map_err(|error| format!("{error}: {text}"))
}
