//! Results of tool calls in the form that every chat server takes: one text.
//!
//! A client of another dialect may put images and files into a result, and mark one as failed. Chat servers take media in
//! messages of the user only, and know no such mark.

use bytes::{BufMut as _, Bytes, BytesMut};
use memchr::memmem;

use crate::{
    json::{Raw, Splice, object},
    neutral::EscapedText,
};

/// How the gateway begins the message of a result.
pub(crate) const RESULT: &[u8] = b"{\"role\":\"tool\",\"tool_call_id\":";
/// The mark of a failed result.
pub(crate) const FAILED: &[u8] = b"\"is_error\":true";

/// A body with plain results.
pub(crate) struct PlainResults {
    pub(crate) body: Bytes,
    /// Media were moved to the message of the user behind the results.
    pub(crate) moved_media: bool,
    /// Failed results say so in their text.
    pub(crate) told_failures: bool,
}

/// Writes the results in a body of the gateway's own as plain texts. `None` if they are.
pub(crate) fn plain_results(body: &[u8]) -> Option<PlainResults> {
    let has = |part: &[u8]| memmem::find(body, part).is_some();
    if !has(RESULT) || !(has(FAILED) || has(b"\"type\":\"image_url\"") || has(b"\"type\":\"file\"")) {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    let messages = object(text).ok()?.member(b"messages")?;
    let mut splice = Splice::new(text);
    let mut found = PlainResults { body: Bytes::new(), moved_media: false, told_failures: false };
    let mut media: Vec<Raw<'_>> = Vec::new();
    let mut messages = messages.elements().peekable();
    while let Some(message) = messages.next() {
        let [role, content, id, failed] = message.pick([b"role", b"content", b"tool_call_id", b"is_error"]);
        let is = |name: &str| role.is_some_and(|role| role.inner_text() == name);
        if !is("tool") {
            if is("user") && !media.is_empty() {
                splice.replace(message, &user_message(&std::mem::take(&mut media), content));
            }
            continue;
        }
        let failed = failed.is_some_and(|flag| flag.bytes() == b"true");
        let moved = content.into_iter().flat_map(Raw::elements).filter(|part| text_of(*part).is_none());
        let before = media.len();
        media.extend(moved);
        let has_moved = media.len() > before;
        found.moved_media |= has_moved;
        found.told_failures |= failed;
        let mut written = BytesMut::new();
        if failed || has_moved {
            push_result(id, content, failed, &mut written);
        } else {
            written.put_slice(message.bytes());
        }
        let next = messages.peek().and_then(|next| next.member(b"role"));
        if !media.is_empty() && !next.is_some_and(|role| matches!(role.inner_text(), "tool" | "user")) {
            written.put_u8(b',');
            written.put_slice(&user_message(&std::mem::take(&mut media), None));
        }
        splice.replace(message, &written);
    }
    (found.moved_media || found.told_failures).then(|| PlainResults { body: splice.finish(), ..found })
}

fn text_of(part: Raw<'_>) -> Option<EscapedText<'_>> {
    part.member(b"text").and_then(EscapedText::of)
}

fn push_result(id: Option<Raw<'_>>, content: Option<Raw<'_>>, failed: bool, out: &mut BytesMut) {
    out.put_slice(RESULT);
    out.put_slice(id.map_or(b"\"\"", Raw::bytes));
    out.put_slice(if failed { b",\"content\":\"Error: " } else { b",\"content\":\"" });
    match content.and_then(EscapedText::of) {
        Some(text) => out.put_slice(text.bytes()),
        None => {
            let texts = content.into_iter().flat_map(Raw::elements).filter_map(text_of);
            texts.for_each(|text| out.put_slice(text.bytes()));
        }
    }
    out.put_slice(b"\"}");
}

/// A message of the user with these parts before its own content.
fn user_message(media: &[Raw<'_>], content: Option<Raw<'_>>) -> BytesMut {
    let mut out = BytesMut::from(&b"{\"role\":\"user\",\"content\":["[..]);
    for (place, part) in media.iter().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        out.put_slice(part.bytes());
    }
    match content {
        Some(text) if text.is_string() => {
            out.put_slice(b",{\"type\":\"text\",\"text\":");
            out.put_slice(text.bytes());
            out.put_u8(b'}');
        }
        Some(parts) if parts.is_filled() => {
            out.put_u8(b',');
            out.put_slice(parts.inner());
        }
        _ => {}
    }
    out.put_slice(b"]}");
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn result(id: &str, content: &str, more: &str) -> String {
        format!(r#"{{"role":"tool","tool_call_id":"{id}","content":{content}{more}}}"#)
    }

    /// The messages that these become; null where nothing is changed.
    fn plain(messages: &[String]) -> Value {
        let body = format!(r#"{{"model":"m","messages":[{}],"n":1}}"#, messages.join(","));
        plain_results(body.as_bytes()).map_or(Value::Null, |plain| {
            let body: Value = serde_json::from_slice(&plain.body).unwrap();
            assert_eq!(body["n"], 1);
            body["messages"].clone()
        })
    }

    const PICTURE: &str = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}"#;

    #[test]
    fn media_of_results_stand_before_what_the_user_says_next() {
        let seen = format!(r#"[{{"type":"text","text":"r1"}},{PICTURE}]"#);
        let picture: Value = serde_json::from_str(PICTURE).unwrap();
        let texts = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
        let user = r#"{"role":"user","content":"go"}"#.to_owned();
        let moved = plain(&[result("a", &seen, ""), result("b", r#""r2""#, ""), user]);
        let said = json!({"role": "user", "content": [picture, {"type": "text", "text": "go"}]});
        assert_eq!(moved, json!([texts("a", "r1"), texts("b", "r2"), said]));
        // Without a message of the user there, they get one.
        let alone = json!({"role": "user", "content": [picture]});
        assert_eq!(plain(&[result("a", &seen, "")]), json!([texts("a", "r1"), alone]));
        let answer = r#"{"role":"assistant","content":"x"}"#.to_owned();
        let expected = json!([texts("a", "r1"), alone, {"role": "assistant", "content": "x"}]);
        assert_eq!(plain(&[result("a", &seen, ""), answer]), expected);
    }

    #[test]
    fn a_failed_result_says_so_in_its_text() {
        let expected = json!([{"role": "tool", "tool_call_id": "a", "content": "Error: no\"pe"}]);
        assert_eq!(plain(&[result("a", r#""no\"pe""#, r#","is_error":true"#)]), expected);
    }

    #[test]
    fn plain_results_stay_as_they_are() {
        assert_eq!(plain(&[result("a", r#""r""#, "")]), Value::Null);
        let user = format!(r#"{{"role":"user","content":[{PICTURE}]}}"#);
        assert_eq!(plain(&[result("a", r#""r""#, ""), user]), Value::Null);
    }
}
