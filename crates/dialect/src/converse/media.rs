//! Parts that hold media. Their bytes are always in the body: Converse fetches nothing but from the store of its own cloud.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut as _, BytesMut};

use crate::neutral::{Content, EscapedText, MediaSource, UnsupportedFields, media_type::FileKind};

/// Media types of images, and their names here.
const IMAGES: [(&str, &str); 5] =
    [("image/png", "png"), ("image/jpeg", "jpeg"), ("image/jpg", "jpeg"), ("image/gif", "gif"), ("image/webp", "webp")];
/// Media types of documents, and their names here. Other texts are plain ones.
const DOCUMENTS: [(&str, &str); 8] = [
    ("application/pdf", "pdf"),
    ("text/csv", "csv"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("text/html", "html"),
    ("text/markdown", "md"),
];
/// Media types of videos, and their names here.
const VIDEOS: [(&str, &str); 8] = [
    ("video/mp4", "mp4"),
    ("video/quicktime", "mov"),
    ("video/x-matroska", "mkv"),
    ("video/webm", "webm"),
    ("video/x-flv", "flv"),
    ("video/mpeg", "mpeg"),
    ("video/x-ms-wmv", "wmv"),
    ("video/3gpp", "three_gp"),
];
/// Formats of sound.
const SOUNDS: [&str; 12] = ["mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "webm"];

/// Writes media, and counts the documents: a name of the client's choosing could be read by the model as an instruction.
#[derive(Debug, Default)]
pub(super) struct MediaWriter {
    documents: u32,
}

impl MediaWriter {
    /// Appends an image, a document, sound or a video as a block. False, and nothing appended, if the API has no block for
    /// it: then it is named as dropped.
    pub(super) fn push(
        &mut self,
        content: &Content<'_>,
        out: &mut BytesMut,
        unsupported: &mut UnsupportedFields,
    ) -> bool {
        let (is_written, name) = match content {
            Content::Image { source, detail } => {
                let is_written = named(source, &IMAGES).is_some_and(|(format, data)| block("image", format, data, out));
                if is_written && detail.as_ref().is_some_and(|detail| detail.bytes() != b"auto") {
                    unsupported.drop("messages[].content[].image_url.detail");
                }
                (is_written, "image_url")
            }
            Content::Audio { format, data } => {
                let format = sound_of(&format.unescaped());
                (format.is_some_and(|format| block("audio", format, data, out)), "input_audio")
            }
            Content::Video { source } => (moving(source, out), "video_url"),
            Content::File { source, name } => {
                let is_written = self.document(source, out) || moving(source, out);
                if is_written && name.as_ref().is_some_and(|name| !name.is_blank()) {
                    unsupported.drop("messages[].content[].file.filename");
                }
                (is_written, "file")
            }
            _ => (false, ""),
        };
        if !is_written {
            let dot = if name.is_empty() { "" } else { "." };
            unsupported.drop(&format!("messages[].content[]{dot}{name}"));
        }
        is_written
    }

    fn document(&mut self, source: &MediaSource<'_>, out: &mut BytesMut) -> bool {
        let of_text;
        let (format, data) = match source {
            MediaSource::Text { text, .. } => {
                of_text = EscapedText::escaping(&STANDARD.encode(text.unescaped().as_bytes()));
                ("txt", &of_text)
            }
            MediaSource::Base64 { media_type, data } => match (named(source, &DOCUMENTS), named(source, &IMAGES)) {
                (Some(document), _) => document,
                (None, Some((format, data))) => return block("image", format, data, out),
                (None, None) if FileKind::from_type(&media_type.unescaped()) == FileKind::Text => ("txt", data),
                (None, None) => return false,
            },
            MediaSource::Url(_) | MediaSource::FileId(_) => return false,
        };
        self.documents += 1;
        out.put_slice(
            format!("{{\"document\":{{\"format\":\"{format}\",\"name\":\"document-{}\"", self.documents).as_bytes(),
        );
        push!(out; br#","source":{"bytes":"#, data, b"}}}");
        true
    }
}

/// Whether the API has a name for the format of sound or of a video.
pub(crate) fn has_format_of(media_type: &str) -> bool {
    let is_video = || VIDEOS.iter().any(|(known, _)| *known == media_type);
    media_type.strip_prefix("audio/").map_or_else(is_video, |format| sound_of(format).is_some())
}

fn sound_of(format: &str) -> Option<&'static str> {
    let format = match format {
        "mpeg" | "mpga" => "mp3",
        "x-wav" | "wave" => "wav",
        other => other,
    };
    SOUNDS.into_iter().find(|known| *known == format)
}

/// Appends sound or a video of a known format.
fn moving(source: &MediaSource<'_>, out: &mut BytesMut) -> bool {
    if let Some((format, data)) = named(source, &VIDEOS) {
        return block("video", format, data, out);
    }
    let MediaSource::Base64 { media_type, data } = source else { return false };
    let media_type = media_type.unescaped();
    let format = media_type.strip_prefix("audio/").and_then(sound_of);
    format.is_some_and(|format| block("audio", format, data, out))
}

/// Whether it becomes a document.
pub(super) fn is_document(content: &Content<'_>) -> bool {
    let Content::File { source, .. } = content else { return false };
    match source {
        MediaSource::Text { .. } => true,
        MediaSource::Base64 { media_type, .. } => {
            named(source, &DOCUMENTS).is_some() || FileKind::from_type(&media_type.unescaped()) == FileKind::Text
        }
        MediaSource::Url(_) | MediaSource::FileId(_) => false,
    }
}

/// The format and the data of media in the body whose type is in the table.
fn named<'s, 'a>(
    source: &'s MediaSource<'a>,
    table: &[(&str, &'static str)],
) -> Option<(&'static str, &'s EscapedText<'a>)> {
    let MediaSource::Base64 { media_type, data } = source else { return None };
    let media_type = media_type.unescaped().to_ascii_lowercase();
    table.iter().find(|(known, _)| *known == media_type).map(|(_, format)| (*format, data))
}

fn block(kind: &str, format: &str, data: &EscapedText<'_>, out: &mut BytesMut) -> bool {
    push!(out; format!("{{\"{kind}\":{{\"format\":\"{format}\",\"source\":{{\"bytes\":").as_bytes(), data, b"}}}");
    true
}
