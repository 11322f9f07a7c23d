//! Content of messages and of results of calls, as parts of chat.

use std::borrow::Cow;

use pointsman_domain::Invalid;

use super::{ChatBodyWriter, mistyped, required};
use crate::{
    json::{Members, Raw},
    neutral::{
        EscapedText, Path,
        media_type::{bare_data, is_bare_base64, type_of_file},
        none_of,
    },
    openai::message_parts::{MediaMember, MessageParts},
};

/// Most members of a part that are named although chat has no form for them.
const MAX_OTHERS: usize = 64;

/// The members of a content part, whatever its type.
#[derive(Default)]
struct ContentPart<'a> {
    kind: Option<Raw<'a>>,
    text: Option<Raw<'a>>,
    refusal: Option<Raw<'a>>,
    image_url: Option<Raw<'a>>,
    detail: Option<Raw<'a>>,
    file_data: Option<Raw<'a>>,
    file_url: Option<Raw<'a>>,
    file_id: Option<Raw<'a>>,
    filename: Option<Raw<'a>>,
    input_audio: Option<Raw<'a>>,
    prompt_cache_breakpoint: Option<Raw<'a>>,
    /// Names and values of the first members that chat has no form for.
    others: Vec<(Raw<'a>, Raw<'a>)>,
}

impl<'a> ContentPart<'a> {
    fn read(members: &mut Members<'a>) -> ContentPart<'a> {
        let mut read = ContentPart::default();
        for (key, value) in members.filter(|(_, value)| !value.is_null()) {
            let member = match &*key.name() {
                b"type" => &mut read.kind,
                b"text" => &mut read.text,
                b"refusal" => &mut read.refusal,
                b"image_url" => &mut read.image_url,
                b"detail" => &mut read.detail,
                b"file_data" => &mut read.file_data,
                b"file_url" => &mut read.file_url,
                b"file_id" => &mut read.file_id,
                b"filename" => &mut read.filename,
                b"input_audio" => &mut read.input_audio,
                b"prompt_cache_breakpoint" => &mut read.prompt_cache_breakpoint,
                // They say something about an answer, not to the model.
                b"logprobs" => continue,
                _ => {
                    if read.others.len() < MAX_OTHERS {
                        read.others.push((key, value));
                    }
                    continue;
                }
            };
            *member = Some(value);
        }
        read
    }

    fn kind(&self, path: &Path<'_>) -> Result<Cow<'a, str>, Invalid> {
        self.kind.and_then(Raw::text).ok_or_else(|| required(path.member("type")))
    }

    /// The text of a part of text.
    fn text(&self, path: &Path<'_>) -> Result<EscapedText<'a>, Invalid> {
        needed_text(self.text, path, "text")
    }
}

impl<'a> ChatBodyWriter<'a> {
    /// The content of a message of the user, the developer or the system, or the output of a call.
    pub(super) fn content(
        &mut self,
        content: Raw<'a>,
        path: &Path<'_>,
        parts: &mut MessageParts<'a>,
    ) -> Result<(), Invalid> {
        if let Some(text) = EscapedText::of(content) {
            parts.text(text, None);
            return Ok(());
        }
        self.each(content, path, |writer, part, path| writer.part(&part, path, parts))
    }

    /// The content of a message of the model.
    pub(super) fn answer(
        &mut self,
        content: Raw<'a>,
        path: &Path<'_>,
        parts: &mut MessageParts<'a>,
    ) -> Result<(), Invalid> {
        if let Some(text) = EscapedText::of(content) {
            parts.text(text, None);
            return Ok(());
        }
        self.each(content, path, |_, part, path| {
            match &*part.kind(path)? {
                "output_text" | "input_text" | "text" => parts.text(part.text(path)?, None),
                "refusal" => parts.refusal(needed_text(part.refusal, path, "refusal")?),
                _ => return Err(none_of(path.member("type"), part.kind, &["output_text", "refusal"])),
            }
            Ok(())
        })
    }

    /// Visits the parts of a content that is not a string.
    fn each(
        &mut self,
        content: Raw<'a>,
        path: &Path<'_>,
        mut visit: impl FnMut(&mut Self, ContentPart<'a>, &Path<'_>) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        if !content.is_array() {
            return Err(mistyped(path, "a string or an array of parts"));
        }
        let holder = if matches!(path, Path::Member(_, "output")) { "input[].output[]" } else { "input[].content[]" };
        let mut objects = content.objects();
        while let Some((index, part)) = objects.next_object() {
            let part = ContentPart::read(part);
            for (key, value) in &part.others {
                self.unsupported.drop_member(holder, &key.name(), *value);
            }
            visit(self, part, &path.item(index))?;
        }
        Ok(())
    }

    fn part(&mut self, part: &ContentPart<'a>, path: &Path<'_>, parts: &mut MessageParts<'a>) -> Result<(), Invalid> {
        let written = |name: &'static str, value: Option<Raw<'a>>| Some((name, MediaMember::Written(value?)));
        match &*part.kind(path)? {
            "input_text" | "output_text" | "text" => parts.text(part.text(path)?, None),
            "input_image" => match (part.image_url, part.file_id) {
                (Some(url), _) if url.is_string() => {
                    parts.media("image_url", [written("url", Some(url)), written("detail", part.detail)], None);
                }
                (Some(_), _) => return Err(mistyped(path.member("image_url"), "a string")),
                (None, Some(_)) => self.needs_native(path.member("file_id")),
                (None, None) => return Err(required(path.member("image_url"))),
            },
            "input_file" => {
                let sources = [("file_data", part.file_data), ("file_url", part.file_url), ("file_id", part.file_id)];
                let source = sources.into_iter().find_map(|(name, value)| Some((name, value?)));
                let (name, value) = source.ok_or_else(|| required(path.member("file_data")))?;
                if !value.is_string() {
                    return Err(mistyped(path.member(name), "a string"));
                }
                let file = match EscapedText::of(value).filter(|_| name == "file_data") {
                    Some(data) if is_bare_base64(&data.unescaped()) => {
                        let title = part.filename.and_then(Raw::text);
                        let media_type = type_of_file("", title.as_deref(), &data.unescaped());
                        MediaMember::Base64 { media_type: EscapedText::escaping(&media_type), data }
                    }
                    _ => MediaMember::Written(value),
                };
                // Chat has data and addresses under the same name.
                let name = if name == "file_id" { "file_id" } else { "file_data" };
                parts.media("file", [written("filename", part.filename), Some((name, file))], None);
            }
            "input_audio" => {
                let audio = part.input_audio.filter(|audio| audio.is_object());
                let [data, format] =
                    audio.ok_or_else(|| required(path.member("input_audio")))?.pick([b"data", b"format"]);
                let data = match data.and_then(EscapedText::of) {
                    Some(text) => Some(("data", MediaMember::Text(bare_data(text)))),
                    None => written("data", data),
                };
                parts.media("input_audio", [data, written("format", format)], None);
            }
            "input_video" | "computer_screenshot" | "encrypted_content" => self.needs_native(path.member("type")),
            _ => {
                return Err(none_of(
                    path.member("type"),
                    part.kind,
                    &["input_text", "input_image", "input_file", "input_audio"],
                ));
            }
        }
        parts.mark_last(part.prompt_cache_breakpoint);
        Ok(())
    }
}

fn needed_text<'a>(text: Option<Raw<'a>>, path: &Path<'_>, name: &str) -> Result<EscapedText<'a>, Invalid> {
    let text = text.ok_or_else(|| required(path.member(name)))?;
    EscapedText::of(text).ok_or_else(|| mistyped(path.member(name), "a string"))
}
