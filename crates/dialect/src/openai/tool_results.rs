//! Results of tool calls in the form that every chat server takes: one text.
//!
//! A client of another dialect may put images and files into a result, and mark one as failed. Chat servers take media in
//! messages of the user only, and know no such mark. For the same reason media of instructions go to the user.

use bytes::{BufMut as _, Bytes, BytesMut};

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
    /// The same of media in instructions.
    pub(crate) moved_instructions: bool,
    /// Failed results say so in their text.
    pub(crate) told_failures: bool,
}

/// Writes the results and the instructions in a body of the gateway's own as plain texts. `None` if they are.
pub(crate) fn plain_results(body: &[u8]) -> Option<PlainResults> {
    let text = std::str::from_utf8(body).ok()?;
    let messages = object(text).ok()?.member(b"messages")?;
    let mut rewriter = Rewriter {
        splice: Splice::new(text),
        media: Vec::new(),
        moved_media: false,
        moved_instructions: false,
        told_failures: false,
    };
    let mut messages = messages.elements().peekable();
    while let Some(message) = messages.next() {
        let next = messages.peek().map(|next| Author::of(next.member(b"role")));
        rewriter.message(message, next);
    }
    rewriter.finish()
}

struct Rewriter<'a> {
    splice: Splice<'a>,
    /// Media that wait for a message of the user.
    media: Vec<Raw<'a>>,
    moved_media: bool,
    moved_instructions: bool,
    told_failures: bool,
}

impl<'a> Rewriter<'a> {
    /// Rewrites a message. `next`: the author of the one behind it.
    fn message(&mut self, message: Raw<'a>, next: Option<Author>) {
        let [role, content, id, failed] = message.pick([b"role", b"content", b"tool_call_id", b"is_error"]);
        let author = Author::of(role);
        let parts = || content.into_iter().flat_map(Raw::elements);
        let mut written = BytesMut::new();
        match author {
            Author::Model => return,
            Author::User if self.media.is_empty() => return,
            Author::User => written.put_slice(&user_message(&std::mem::take(&mut self.media), content)),
            Author::Tool => {
                let failed = failed.is_some_and(|flag| flag.bytes() == b"true");
                let has_moved = self.take_media(parts());
                self.moved_media |= has_moved;
                self.told_failures |= failed;
                match failed || has_moved {
                    false if self.media.is_empty() => return,
                    true => push_result(id, content, failed, &mut written),
                    false => written.put_slice(message.bytes()),
                }
            }
            Author::Instructor => {
                let has_moved = self.take_media(parts());
                self.moved_instructions |= has_moved;
                match has_moved {
                    false if self.media.is_empty() => return,
                    true => push_texts(message, parts(), &mut written),
                    false => written.put_slice(message.bytes()),
                }
            }
        }
        let goes_on = next.is_some_and(|next| next == author || next == Author::User) && !written.is_empty();
        if !goes_on && !self.media.is_empty() {
            if !written.is_empty() {
                written.put_u8(b',');
            }
            written.put_slice(&user_message(&std::mem::take(&mut self.media), None));
        }
        self.splice.replace(message, &written);
    }

    /// Takes the media among these parts; whether there are any.
    fn take_media(&mut self, parts: impl Iterator<Item = Raw<'a>>) -> bool {
        let before = self.media.len();
        self.media.extend(parts.filter(|part| text_of(*part).is_none()));
        self.media.len() > before
    }

    fn finish(self) -> Option<PlainResults> {
        let Rewriter { splice, moved_media, moved_instructions, told_failures, .. } = self;
        let has_changed = moved_media || moved_instructions || told_failures;
        has_changed.then(|| PlainResults { body: splice.finish(), moved_media, moved_instructions, told_failures })
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    Instructor,
    User,
    Model,
    Tool,
}

impl Author {
    fn of(role: Option<Raw<'_>>) -> Author {
        match role.map(Raw::inner_text) {
            Some("system" | "developer") => Author::Instructor,
            Some("user") => Author::User,
            Some("tool") => Author::Tool,
            _ => Author::Model,
        }
    }
}

/// Appends instructions without their media. Nothing, if there is nothing else in them.
fn push_texts<'a>(message: Raw<'a>, parts: impl Iterator<Item = Raw<'a>>, out: &mut BytesMut) {
    let texts: Vec<&[u8]> = parts.filter(|part| text_of(*part).is_some()).map(Raw::bytes).collect();
    if texts.is_empty() {
        return;
    }
    out.put_u8(b'{');
    for (key, value) in message.members() {
        if out.len() > 1 {
            out.put_u8(b',');
        }
        out.put_slice(key.bytes());
        out.put_u8(b':');
        match &*key.name() {
            b"content" => {
                out.put_u8(b'[');
                out.put_slice(&texts.join(&b","[..]));
                out.put_u8(b']');
            }
            _ => out.put_slice(value.bytes()),
        }
    }
    out.put_u8(b'}');
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
    fn media_of_instructions_stand_in_a_message_of_the_user_behind_them() {
        let picture: Value = serde_json::from_str(PICTURE).unwrap();
        let rule = json!({"type": "text", "text": "rule"});
        let says = |role: &str, content: Value| json!({"role": role, "content": content});
        let plain = |messages: &[Value]| plain(&messages.iter().map(Value::to_string).collect::<Vec<_>>());
        let both = says("system", json!([rule, picture]));
        let (text, go) = (says("system", json!([rule])), json!({"type": "text", "text": "go"}));
        let said = says("user", json!([picture, go]));
        assert_eq!(plain(&[both.clone(), says("user", json!("go"))]), json!([text, said]));
        let alone = says("user", json!([picture]));
        assert_eq!(plain(std::slice::from_ref(&both)), json!([text, alone]));
        assert_eq!(plain(&[says("developer", json!([picture]))]), json!([alone]));
        let brief = says("system", json!("Be brief."));
        let answer = says("assistant", json!("so"));
        assert_eq!(plain(&[both, brief.clone(), answer.clone()]), json!([text, brief, alone, answer]));
    }

    #[test]
    fn what_has_no_media_stays_before_and_behind_what_had_some() {
        let [before, behind] = ["a", "c"].map(|id| json!({"role": "tool", "tool_call_id": id, "content": "r"}));
        let seen = result("b", &format!("[{PICTURE}]"), "");
        let picture: Value = serde_json::from_str(PICTURE).unwrap();
        let (moved, alone) = (
            json!({"role": "tool", "tool_call_id": "b", "content": ""}),
            json!({"role": "user", "content": [picture]}),
        );
        assert_eq!(plain(&[before.to_string(), seen, behind.to_string()]), json!([before, moved, behind, alone]));
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
        let rule = r#"{"role":"system","content":"rule"}"#.to_owned();
        assert_eq!(plain(&[rule, user.clone()]), Value::Null);
        assert_eq!(plain(&[result("a", r#""r""#, ""), user]), Value::Null);
    }
}
