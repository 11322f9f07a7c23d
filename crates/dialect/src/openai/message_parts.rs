//! The content of a chat message that the gateway writes for a client of another dialect.

use bytes::{BufMut as _, BytesMut};

use crate::{
    json::{Raw, push_member},
    neutral::EscapedText,
};

/// Parts of a message, in order. They borrow the client's request and are copied once, when they are written.
#[derive(Debug, Default)]
pub(crate) struct MessageParts<'a>(Vec<MessagePart<'a>>);

#[derive(Debug)]
struct MessagePart<'a> {
    content: PartContent<'a>,
    /// `cache_control` as the client wrote it.
    cache_control: Option<Raw<'a>>,
}

#[derive(Debug)]
enum PartContent<'a> {
    Text(EscapedText<'a>),
    Refusal(EscapedText<'a>),
    /// An object of these members, under the name of its type.
    Media {
        kind: &'static str,
        members: [Option<(&'static str, MediaMember<'a>)>; 2],
    },
}

/// The value of a member of an image, a file or audio.
#[derive(Debug)]
pub(crate) enum MediaMember<'a> {
    /// As the client wrote it.
    Written(Raw<'a>),
    Text(EscapedText<'a>),
    /// A data URL of base64.
    Base64 {
        media_type: EscapedText<'a>,
        data: EscapedText<'a>,
    },
}

impl<'a> MessageParts<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a text, with the mark that the prompt up to it may be cached.
    pub(crate) fn text(&mut self, text: EscapedText<'a>, cache_control: Option<Raw<'a>>) {
        self.add(PartContent::Text(text), cache_control);
    }

    pub(crate) fn refusal(&mut self, text: EscapedText<'a>) {
        self.add(PartContent::Refusal(text), None);
    }

    /// Adds an image, a file or audio: an object of these members, under the name of its type.
    pub(crate) fn media(
        &mut self,
        kind: &'static str,
        members: [Option<(&'static str, MediaMember<'a>)>; 2],
        cache_control: Option<Raw<'a>>,
    ) {
        self.add(PartContent::Media { kind, members }, cache_control);
    }

    /// Marks the last part, unless it has a mark: the prompt up to it may be cached.
    pub(crate) fn mark_last(&mut self, breakpoint: Option<Raw<'a>>) {
        if let Some(last) = self.0.last_mut() {
            last.cache_control = last.cache_control.or(breakpoint.filter(|breakpoint| breakpoint.is_object()));
        }
    }

    /// Moves the parts of another list behind these.
    pub(crate) fn append(&mut self, other: MessageParts<'a>) {
        self.0.extend(other.0);
    }

    fn add(&mut self, content: PartContent<'a>, cache_control: Option<Raw<'a>>) {
        self.0.push(MessagePart { content, cache_control: cache_control.filter(|breakpoint| breakpoint.is_object()) });
    }

    /// Appends the parts as an array.
    pub(crate) fn push(&self, out: &mut BytesMut) {
        out.put_u8(b'[');
        for (place, part) in self.0.iter().enumerate() {
            if place > 0 {
                out.put_u8(b',');
            }
            part.push(out);
        }
        out.put_u8(b']');
    }

    /// Appends the parts as an array, or a single text without a mark as a string: some servers understand nothing else.
    pub(crate) fn push_short(&self, out: &mut BytesMut) {
        match self.0.as_slice() {
            [MessagePart { content: PartContent::Text(text), cache_control: None }] => text.push_quoted(out),
            _ => self.push(out),
        }
    }

    /// Appends texts joined to one string, which every server understands in the result of a call. With anything else among
    /// them, the parts are an array.
    pub(crate) fn push_joined(&self, out: &mut BytesMut) {
        let start = out.len();
        out.put_u8(b'"');
        for part in &self.0 {
            let PartContent::Text(text) = &part.content else {
                out.truncate(start);
                return self.push(out);
            };
            out.put_slice(text.bytes());
        }
        out.put_u8(b'"');
    }
}

impl MessagePart<'_> {
    fn push(&self, out: &mut BytesMut) {
        match &self.content {
            PartContent::Text(text) => {
                out.put_slice(b"{\"type\":\"text\",\"text\":");
                text.push_quoted(out);
            }
            PartContent::Refusal(text) => {
                out.put_slice(b"{\"type\":\"refusal\",\"refusal\":");
                text.push_quoted(out);
            }
            PartContent::Media { kind, members } => {
                out.put_slice(b"{\"type\":\"");
                out.put_slice(kind.as_bytes());
                out.put_u8(b'"');
                push_member(out, kind.as_bytes(), b"{");
                for (place, (name, value)) in members.iter().flatten().enumerate() {
                    out.put_slice(if place > 0 { b",\"" } else { b"\"" });
                    out.put_slice(name.as_bytes());
                    out.put_slice(b"\":");
                    value.push(out);
                }
                out.put_u8(b'}');
            }
        }
        if let Some(breakpoint) = self.cache_control {
            push_member(out, b"cache_control", breakpoint.bytes());
        }
        out.put_u8(b'}');
    }
}

impl MediaMember<'_> {
    fn push(&self, out: &mut BytesMut) {
        match self {
            MediaMember::Written(value) => out.put_slice(value.bytes()),
            MediaMember::Text(text) => text.push_quoted(out),
            MediaMember::Base64 { media_type, data } => {
                out.put_slice(b"\"data:");
                out.put_slice(media_type.bytes());
                out.put_slice(b";base64,");
                out.put_slice(data.bytes());
                out.put_u8(b'"');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> EscapedText<'_> {
        EscapedText::plain(text)
    }

    fn written(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn texts_are_a_string_where_nothing_is_lost_by_it() {
        let mut parts = MessageParts::default();
        parts.text(plain("a"), None);
        assert_eq!(written(|out| parts.push_short(out)), r#""a""#);
        parts.text(plain("b"), None);
        assert_eq!(written(|out| parts.push_short(out)), r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#);
        assert_eq!(written(|out| parts.push_joined(out)), r#""ab""#);
        parts.refusal(plain("c"));
        assert_eq!(written(|out| parts.push_joined(out)), written(|out| parts.push(out)));
    }

    #[test]
    fn media_are_objects_under_the_name_of_their_type() {
        let mut parts = MessageParts::default();
        let data = MediaMember::Base64 { media_type: plain("image/png"), data: plain("AAAA") };
        parts.media("image_url", [Some(("url", data)), None], None);
        parts.media("file", [None, Some(("file_data", MediaMember::Text(plain("x"))))], None);
        let expected = r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"file","file":{"file_data":"x"}}]"#;
        assert_eq!(written(|out| parts.push(out)), expected);
    }
}
