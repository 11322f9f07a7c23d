//! Content of messages and of results of calls, as parts of chat.

use std::borrow::Cow;

use pointsman_domain::Invalid;

use super::{ChatReader, check_type, mistyped, refused, required};
use crate::{
    json::{Members, Raw},
    neutral::{
        Content, EscapedText, MediaSource, Part, Path, UnsupportedFields, base64::has_odd_base64,
        media_type::bare_data, none_of,
    },
};

/// How closely an image may be looked at.
const DETAILS: [&str; 4] = ["auto", "low", "high", "original"];

member_values! {
    /// The members of a content part, whatever its type.
    struct ContentPart {
        kind = b"type", text = b"text", refusal = b"refusal", image_url = b"image_url", detail = b"detail",
        file_data = b"file_data", file_url = b"file_url", file_id = b"file_id", filename = b"filename",
        input_audio = b"input_audio", breakpoint = b"prompt_cache_breakpoint"
    }
}

impl<'a> ContentPart<'a> {
    /// Reads a part. `unsupported` gets the members that have no form in chat, as those of `place`.
    fn read(members: &mut Members<'a>, place: &str, unsupported: &mut UnsupportedFields) -> ContentPart<'a> {
        let mut read = ContentPart::default();
        for (key, value) in members.filter(|(_, value)| !value.is_null()) {
            let name = key.name();
            match read.slot(&name) {
                Some(member) => *member = Some(value),
                // They say something about an answer, not to the model.
                None if *name == *b"logprobs" => {}
                None => unsupported.drop_member(place, &name, value),
            }
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

impl<'a> ChatReader<'a> {
    /// The content of a message of the user, the developer or the system, or the output of a call.
    pub(super) fn content(&mut self, content: Raw<'a>, path: &Path<'_>) -> Result<Vec<Part<'a>>, Invalid> {
        self.each(content, path, |reader, part, path| {
            let content = reader.part(part, path)?;
            Ok(content.map(|content| Part::marked(content, part.breakpoint)))
        })
    }

    /// The content of a message of the model, where no mark of the cache may stand.
    pub(super) fn answer(&mut self, content: Raw<'a>, path: &Path<'_>) -> Result<Vec<Part<'a>>, Invalid> {
        self.each(content, path, |_, part, path| {
            Ok(Some(Part::new(match &*part.kind(path)? {
                "output_text" | "input_text" | "text" => Content::Text(part.text(path)?),
                "refusal" => Content::Refusal(needed_text(part.refusal, path, "refusal")?),
                _ => return Err(none_of(path.member("type"), part.kind, &["output_text", "refusal"])),
            })))
        })
    }

    /// The parts of a content. `read` gives none where only endpoints of this dialect have one.
    fn each(
        &mut self,
        content: Raw<'a>,
        path: &Path<'_>,
        mut read: impl FnMut(&mut Self, &ContentPart<'a>, &Path<'_>) -> Result<Option<Part<'a>>, Invalid>,
    ) -> Result<Vec<Part<'a>>, Invalid> {
        if let Some(text) = EscapedText::read(content) {
            return Ok(vec![Part::new(Content::Text(text))]);
        }
        check_type(content.is_array(), path, "a string or an array of parts")?;
        let place = if matches!(path, Path::Member(_, "output")) { "input[].output[]" } else { "input[].content[]" };
        let (mut parts, mut objects) = (Vec::new(), content.objects());
        while let Some((index, part)) = objects.next_object() {
            let part = ContentPart::read(part, place, &mut self.unsupported);
            parts.extend(read(self, &part, &path.item(index))?);
        }
        Ok(parts)
    }

    fn part(&mut self, part: &ContentPart<'a>, path: &Path<'_>) -> Result<Option<Content<'a>>, Invalid> {
        Ok(Some(match &*part.kind(path)? {
            "input_text" | "output_text" | "text" => Content::Text(part.text(path)?),
            "input_image" => match (part.image_url, part.file_id) {
                (Some(url), _) => self.image(url, part.detail, path)?,
                (None, Some(_)) => {
                    self.needs_native(path.member("file_id"));
                    return Ok(None);
                }
                (None, None) => return Err(required(path.member("image_url"))),
            },
            "input_file" => self.file(part, path)?,
            "input_audio" => self.audio(part, path)?,
            "input_video" | "computer_screenshot" | "encrypted_content" => {
                self.needs_native(path.member("type"));
                return Ok(None);
            }
            _ => {
                let allowed = ["input_text", "input_image", "input_file", "input_audio"];
                return Err(none_of(path.member("type"), part.kind, &allowed));
            }
        }))
    }

    fn image(&mut self, url: Raw<'a>, detail: Option<Raw<'a>>, path: &Path<'_>) -> Result<Content<'a>, Invalid> {
        let url_path = path.member("image_url");
        let text = EscapedText::read(url).ok_or_else(|| mistyped(url_path, "a string"))?;
        let source = MediaSource::at(text);
        let is_image = match &source {
            MediaSource::Url(url) => is_web_address(&url.unescaped()),
            MediaSource::Base64 { media_type, .. } => media_type.as_str().starts_with("image/"),
            _ => false,
        };
        if !is_image {
            return Err(refused(url_path, "Only http, https and data URLs are accepted."));
        }
        if detail.is_some_and(|detail| !detail.text().is_some_and(|word| DETAILS.contains(&&*word))) {
            return Err(none_of(path.member("detail"), detail, &DETAILS));
        }
        self.has_odd_base64 |= has_odd_base64(url, false);
        Ok(Content::Image { source, detail: detail.and_then(EscapedText::read) })
    }

    fn file(&mut self, part: &ContentPart<'a>, path: &Path<'_>) -> Result<Content<'a>, Invalid> {
        let sources = [("file_data", part.file_data), ("file_url", part.file_url), ("file_id", part.file_id)];
        let given = sources.into_iter().find_map(|(name, value)| Some((name, value?)));
        let (name, value) = given.ok_or_else(|| required(path.member("file_data")))?;
        let text = EscapedText::read(value).ok_or_else(|| mistyped(path.member(name), "a string"))?;
        if text.is_empty() {
            return Err(refused(path.member(name), format!("'{}' must not be empty.", path.member(name))));
        }
        check_type(part.filename.is_none_or(Raw::is_string), path.member("filename"), "a string")?;
        let title = part.filename.and_then(EscapedText::read);
        self.has_odd_base64 |= name == "file_data" && has_odd_base64(value, true);
        let source = if name == "file_id" { MediaSource::FileId(text) } else { MediaSource::at(text) };
        Ok(Content::File { source: source.typed(title.as_ref()), name: title })
    }

    fn audio(&mut self, part: &ContentPart<'a>, path: &Path<'_>) -> Result<Content<'a>, Invalid> {
        let path = path.member("input_audio");
        let audio = part.input_audio.filter(|audio| audio.is_object()).ok_or_else(|| required(path))?;
        let [data, format] = audio.pick([b"data", b"format"]);
        let filled = |value: Option<Raw<'a>>, name| {
            let text = needed_text(value, &path, name)?;
            let path = path.member(name);
            if text.is_empty() { Err(refused(path, format!("'{path}' must not be empty."))) } else { Ok(text) }
        };
        let (text, format) = (filled(data, "data")?, filled(format, "format")?);
        self.has_odd_base64 |= data.is_some_and(|data| has_odd_base64(data, true));
        Ok(Content::Audio { format, data: bare_data(text) })
    }
}

fn is_web_address(url: &str) -> bool {
    let is = |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    is("https://") || is("http://")
}

fn needed_text<'a>(text: Option<Raw<'a>>, path: &Path<'_>, name: &str) -> Result<EscapedText<'a>, Invalid> {
    let text = text.ok_or_else(|| required(path.member(name)))?;
    EscapedText::read(text).ok_or_else(|| mistyped(path.member(name), "a string"))
}
