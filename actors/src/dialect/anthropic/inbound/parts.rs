//! Parts of a chat message.

use bytes::{BufMut as _, BytesMut};

use super::{refused, required};
use crate::{
    dialect::{
        json::{Raw, push_member},
        neutral::EscapedText,
    },
    domain::Invalid,
};

/// Parts of a chat message, written one after the other.
#[derive(Default)]
pub(super) struct Parts {
    json: BytesMut,
    /// The parts' texts, while there is nothing else: joined they are a plain string.
    texts: Option<Vec<u8>>,
    has_others: bool,
    /// Whether there is more than one part, or a mark.
    has_structure: bool,
}

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    pub(super) fn begin(&mut self) {
        if !self.json.is_empty() {
            self.json.put_u8(b',');
            self.has_structure = true;
        }
        self.has_others = true;
    }

    pub(super) fn end(&mut self, mark: Option<Raw<'_>>) {
        if let Some(mark) = mark.filter(|mark| mark.is_object()) {
            push_member(&mut self.json, b"cache_control", mark.bytes());
            self.has_structure = true;
        }
        self.json.put_u8(b'}');
    }

    pub(super) fn text(&mut self, text: Raw<'_>, mark: Option<Raw<'_>>) {
        if let Some(text) = EscapedText::of(text) {
            self.escaped(&text, mark);
        }
    }

    pub(super) fn escaped(&mut self, text: &EscapedText<'_>, mark: Option<Raw<'_>>) {
        let had_others = self.has_others;
        self.begin();
        self.has_others = had_others;
        self.texts.get_or_insert_default().extend_from_slice(text.bytes());
        self.json.put_slice(b"{\"type\":\"text\",\"text\":");
        text.push_quoted(&mut self.json);
        self.end(mark);
    }

    pub(super) fn image(&mut self, block: Raw<'_>, path: &str, mark: Option<Raw<'_>>) -> Result<(), Invalid> {
        let source = block.member(b"source").ok_or_else(|| required(&format!("{path}.source")))?;
        let text = |name: &str| {
            let text = source.member(name.as_bytes()).and_then(EscapedText::of);
            text.ok_or_else(|| required(&format!("{path}.source.{name}")))
        };
        let kind = source.member(b"type").and_then(Raw::text);
        let url = match kind.as_deref() {
            Some("base64") => {
                let (media_type, data) = (text("media_type")?, text("data")?);
                if !media_type.unescaped().starts_with("image/") {
                    return Err(refused(
                        &format!("{path}.source.media_type"),
                        "The media type must be one of an image.",
                    ));
                }
                let mut url = BytesMut::from(&b"\"data:"[..]);
                url.put_slice(media_type.bytes());
                url.put_slice(b";base64,");
                url.put_slice(data.bytes());
                url.put_u8(b'"');
                url
            }
            Some("url") => {
                let address = web_address(text("url")?, &format!("{path}.source.url"))?;
                let mut url = BytesMut::new();
                address.push_quoted(&mut url);
                url
            }
            _ => return Err(refused(&format!("{path}.source.type"), "The source must be base64 or url.")),
        };
        self.begin();
        self.json.put_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
        self.json.put_slice(&url);
        self.json.put_u8(b'}');
        self.end(mark);
        Ok(())
    }

    /// A file that the provider fetches.
    pub(super) fn linked_file(&mut self, address: &EscapedText<'_>, name: &EscapedText<'_>, mark: Option<Raw<'_>>) {
        self.begin();
        self.json.put_slice(b"{\"type\":\"file\",\"file\":{\"filename\":");
        name.push_quoted(&mut self.json);
        push_member(&mut self.json, b"file_data", b"");
        address.push_quoted(&mut self.json);
        self.json.put_u8(b'}');
        self.end(mark);
    }

    pub(super) fn file(
        &mut self,
        media_type: &EscapedText<'_>,
        data: &EscapedText<'_>,
        name: &EscapedText<'_>,
        mark: Option<Raw<'_>>,
    ) {
        self.begin();
        self.json.put_slice(b"{\"type\":\"file\",\"file\":{\"filename\":");
        name.push_quoted(&mut self.json);
        self.json.put_slice(b",\"file_data\":\"data:");
        self.json.put_slice(media_type.bytes());
        self.json.put_slice(b";base64,");
        self.json.put_slice(data.bytes());
        self.json.put_slice(b"\"}");
        self.end(mark);
    }

    /// Appends the parts as an array, or a single plain text as a string: some servers understand nothing else.
    pub(super) fn push(&self, out: &mut BytesMut) {
        if !self.has_structure && !self.has_others && self.texts.is_some() {
            return self.push_joined(out);
        }
        out.put_u8(b'[');
        out.put_slice(&self.json);
        out.put_u8(b']');
    }

    /// Appends texts joined to one string, which every upstream understands in the result of a call.
    pub(super) fn push_joined(&self, out: &mut BytesMut) {
        match &self.texts {
            Some(text) if !self.has_others => {
                out.put_u8(b'"');
                out.put_slice(text);
                out.put_u8(b'"');
            }
            _ => self.push(out),
        }
    }
}

/// An address that a provider may be given.
pub(super) fn web_address<'a>(address: EscapedText<'a>, path: &str) -> Result<EscapedText<'a>, Invalid> {
    if ["https://", "http://"].iter().any(|scheme| address.unescaped().starts_with(scheme)) {
        return Ok(address);
    }
    Err(refused(path, "The address must begin with https:// or http://."))
}
