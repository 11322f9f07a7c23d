//! Content of messages and of results of calls, as parts of chat.

use bytes::{BufMut as _, BytesMut};

use super::{ChatBodyWriter, mistyped, refused, required};
use crate::{
    dialect::{json::Raw, neutral::EscapedText},
    domain::Invalid,
};

/// Parts of a chat message, written one after the other.
#[derive(Debug, Default)]
pub(super) struct Parts {
    json: BytesMut,
    /// The texts, joined.
    text: BytesMut,
    has_others: bool,
}

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    fn begin(&mut self) {
        if !self.json.is_empty() {
            self.json.put_u8(b',');
        }
    }

    pub(super) fn text(&mut self, text: &EscapedText<'_>) {
        self.begin();
        self.text.put_slice(text.bytes());
        self.json.put_slice(b"{\"type\":\"text\",\"text\":");
        text.push_quoted(&mut self.json);
        self.json.put_u8(b'}');
    }

    fn refusal(&mut self, text: &EscapedText<'_>) {
        self.begin();
        self.has_others = true;
        self.json.put_slice(b"{\"type\":\"refusal\",\"refusal\":");
        text.push_quoted(&mut self.json);
        self.json.put_u8(b'}');
    }

    /// Adds a part that holds an object of these members.
    fn media(&mut self, kind: &[u8], members: &[(&[u8], Option<Raw<'_>>)]) {
        self.begin();
        self.has_others = true;
        self.json.put_slice(b"{\"type\":\"");
        self.json.put_slice(kind);
        self.json.put_slice(b"\",\"");
        self.json.put_slice(kind);
        self.json.put_slice(b"\":{");
        let mut is_first = true;
        for (name, value) in members {
            let Some(value) = value else { continue };
            if !std::mem::replace(&mut is_first, false) {
                self.json.put_u8(b',');
            }
            self.json.put_u8(b'"');
            self.json.put_slice(name);
            self.json.put_slice(b"\":");
            self.json.put_slice(value.bytes());
        }
        self.json.put_slice(b"}}");
    }

    /// Moves the parts of another list behind these.
    pub(super) fn append(&mut self, other: Parts) {
        if other.is_empty() {
            return;
        }
        self.begin();
        self.json.put_slice(&other.json);
        self.text.put_slice(&other.text);
        self.has_others |= other.has_others;
    }

    /// Appends the parts as an array.
    pub(super) fn push(&self, out: &mut BytesMut) {
        out.put_u8(b'[');
        out.put_slice(&self.json);
        out.put_u8(b']');
    }

    /// Appends texts joined to one string, which every upstream understands in the result of a call.
    pub(super) fn push_joined(&self, out: &mut BytesMut) {
        if self.has_others {
            return self.push(out);
        }
        out.put_u8(b'"');
        out.put_slice(&self.text);
        out.put_u8(b'"');
    }
}

impl ChatBodyWriter<'_> {
    /// The content of a message of the user, the developer or the system.
    pub(super) fn content(&mut self, content: Raw<'_>, path: &str, parts: &mut Parts) -> Result<(), Invalid> {
        if let Some(text) = EscapedText::of(content) {
            parts.text(&text);
            return Ok(());
        }
        self.each(content, path, |writer, part, path| writer.part(part, path, parts))
    }

    /// The content of a message of the model.
    pub(super) fn answer(&mut self, content: Raw<'_>, path: &str, parts: &mut Parts) -> Result<(), Invalid> {
        if let Some(text) = EscapedText::of(content) {
            parts.text(&text);
            return Ok(());
        }
        self.each(content, path, |_, part, path| match kind_of(part, path)?.as_ref() {
            "output_text" | "input_text" | "text" => {
                parts.text(&text_of(part, "text", path)?);
                Ok(())
            }
            "refusal" => {
                parts.refusal(&text_of(part, "refusal", path)?);
                Ok(())
            }
            _ => Err(unknown(path, &["output_text", "refusal"])),
        })
    }

    /// The output of a call. Images and files go to `user`, because chat has no place for them in a result.
    pub(super) fn output(
        &mut self,
        output: Raw<'_>,
        path: &str,
        texts: &mut Parts,
        user: &mut Parts,
    ) -> Result<(), Invalid> {
        if let Some(text) = EscapedText::of(output) {
            texts.text(&text);
            return Ok(());
        }
        self.each(output, path, |writer, part, path| {
            if matches!(kind_of(part, path)?.as_ref(), "input_text" | "output_text" | "text") {
                return writer.part(part, path, texts);
            }
            writer.fates.emulate("input[].output");
            writer.part(part, path, user)
        })
    }

    /// Visits the parts of a content that is not a string.
    fn each(
        &mut self,
        content: Raw<'_>,
        path: &str,
        mut visit: impl FnMut(&mut Self, Raw<'_>, &str) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        if !content.is_array() {
            return Err(mistyped(path, "a string or an array of parts"));
        }
        for (index, part) in content.elements().enumerate() {
            visit(self, part, &format!("{path}[{index}]"))?;
        }
        Ok(())
    }

    fn part(&mut self, part: Raw<'_>, path: &str, parts: &mut Parts) -> Result<(), Invalid> {
        let member = |name: &str| part.member(name.as_bytes()).filter(|value| !value.is_null());
        match kind_of(part, path)?.as_ref() {
            "input_text" | "output_text" | "text" => parts.text(&text_of(part, "text", path)?),
            "input_image" => match (member("image_url"), member("file_id")) {
                (Some(url), _) if url.is_string() => {
                    parts.media(b"image_url", &[(b"url", Some(url)), (b"detail", member("detail"))]);
                }
                (Some(_), _) => return Err(mistyped(&format!("{path}.image_url"), "a string")),
                (None, Some(_)) => self.needs_native(format!("{path}.file_id")),
                (None, None) => return Err(required(&format!("{path}.image_url"))),
            },
            "input_file" => {
                let source =
                    ["file_data", "file_url", "file_id"].into_iter().find_map(|name| Some((name, member(name)?)));
                let Some((name, value)) = source else { return Err(required(&format!("{path}.file_data"))) };
                if !value.is_string() {
                    return Err(mistyped(&format!("{path}.{name}"), "a string"));
                }
                // Chat has data and addresses under the same name.
                let name: &[u8] = if name == "file_id" { b"file_id" } else { b"file_data" };
                parts.media(b"file", &[(b"filename", member("filename")), (name, Some(value))]);
            }
            "input_audio" => {
                let audio = member("input_audio").filter(|audio| audio.is_object());
                let audio = audio.ok_or_else(|| required(&format!("{path}.input_audio")))?;
                let members = [(&b"data"[..], audio.member(b"data")), (b"format", audio.member(b"format"))];
                parts.media(b"input_audio", &members);
            }
            "input_video" | "computer_screenshot" | "encrypted_content" => {
                self.needs_native(format!("{path}.type"));
            }
            _ => return Err(unknown(path, &["input_text", "input_image", "input_file", "input_audio"])),
        }
        Ok(())
    }
}

fn unknown(path: &str, allowed: &[&'static str]) -> Invalid {
    let path = format!("{path}.type");
    refused(&path, format!("'{path}' must be one of {}.", allowed.join(", "))).allowing(allowed.iter().copied())
}

fn kind_of<'a>(part: Raw<'a>, path: &str) -> Result<std::borrow::Cow<'a, str>, Invalid> {
    part.member(b"type").and_then(Raw::text).ok_or_else(|| required(&format!("{path}.type")))
}

fn text_of<'a>(part: Raw<'a>, name: &str, path: &str) -> Result<EscapedText<'a>, Invalid> {
    let text = part.member(name.as_bytes()).ok_or_else(|| required(&format!("{path}.{name}")))?;
    EscapedText::of(text).ok_or_else(|| mistyped(&format!("{path}.{name}"), "a string"))
}
