//! Content blocks: texts, images and documents.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut as _, BytesMut};

use crate::neutral::{Content, EscapedText, MediaSource, UnsupportedFields, media_type::FileKind};

/// Media types of images that the API takes.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The type of block that media become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Image,
    Pdf,
    Text,
    /// A document of some type at an address or in the provider's store.
    Remote,
}

/// Whether the API has a block for it that may carry a cache breakpoint.
pub(super) fn is_sendable(content: &Content<'_>) -> bool {
    match content {
        Content::Text(text) | Content::Refusal(text) => !text.is_blank(),
        Content::Image { source, .. } => block_of_image(source).is_some(),
        Content::File { source, .. } => block_of_file(source).is_some(),
        Content::ToolCall { .. } | Content::ToolResult { .. } => true,
        Content::Audio { .. } | Content::Video { .. } | Content::Reasoning(_) | Content::Unknown => false,
    }
}

/// Appends a text, an image or a document as a block without its closing brace. False, and nothing appended, if the API has
/// no block for it: then it is named as dropped.
pub(super) fn push_block(content: &Content<'_>, out: &mut BytesMut, unsupported: &mut UnsupportedFields) -> bool {
    match content {
        Content::Text(text) | Content::Refusal(text) if !text.is_blank() => {
            push!(out; br#"{"type":"text","text":"#, text);
            true
        }
        Content::Image { source, detail } => {
            let Some(block) = block_of_image(source) else { return dropped("image_url", unsupported) };
            if detail.as_ref().is_some_and(|detail| detail.bytes() != b"auto") {
                unsupported.drop("messages[].content[].image_url.detail");
            }
            push_media(block, source, out)
        }
        Content::File { source, name } => {
            let Some(block) = block_of_file(source).filter(|block| push_media(*block, source, out)) else {
                return dropped("file", unsupported);
            };
            if let Some(name) = name.as_ref().filter(|name| !name.is_blank()) {
                push_title(block, name, out, unsupported);
            }
            true
        }
        Content::Audio { .. } => dropped("input_audio", unsupported),
        Content::Video { .. } => dropped("video_url", unsupported),
        Content::Unknown => {
            unsupported.drop("messages[].content[]");
            false
        }
        _ => false,
    }
}

/// Appends the name of a file. Images have no title.
fn push_title(block: Block, name: &EscapedText<'_>, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    if block == Block::Image {
        return unsupported.drop("messages[].content[].file.filename");
    }
    push!(out; br#","title":"#, name);
}

fn dropped(kind: &str, unsupported: &mut UnsupportedFields) -> bool {
    unsupported.drop(&format!("messages[].content[].{kind}"));
    false
}

fn block_of_image(source: &MediaSource<'_>) -> Option<Block> {
    match source {
        MediaSource::Base64 { media_type, .. } => image_type(&media_type.unescaped()).map(|_| Block::Image),
        MediaSource::Url(url) => is_https(url).then_some(Block::Image),
        MediaSource::FileId(_) => Some(Block::Image),
        MediaSource::Text { .. } => None,
    }
}

fn block_of_file(source: &MediaSource<'_>) -> Option<Block> {
    match source {
        MediaSource::Base64 { media_type, .. } => match FileKind::from_type(&media_type.unescaped()) {
            FileKind::Pdf => Some(Block::Pdf),
            FileKind::Text => Some(Block::Text),
            _ => image_type(&media_type.unescaped()).map(|_| Block::Image),
        },
        MediaSource::Url(url) => is_https(url).then_some(Block::Remote),
        MediaSource::FileId(_) => Some(Block::Remote),
        MediaSource::Text { .. } => Some(Block::Text),
    }
}

fn image_type(media_type: &str) -> Option<&'static str> {
    let wanted = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
    IMAGES.into_iter().find(|known| *known == wanted)
}

fn is_https(url: &EscapedText<'_>) -> bool {
    url.unescaped().get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Appends `{"type":…,"source":{…}`.
fn push_media(block: Block, source: &MediaSource<'_>, out: &mut BytesMut) -> bool {
    let text = match (block, source) {
        (Block::Text, source) => match plain_text(source) {
            Some(text) => Some(text),
            None => return false,
        },
        _ => None,
    };
    let kind: &[u8] = if block == Block::Image { b"image" } else { b"document" };
    push!(out; br#"{"type":""#, kind, br#"","source":{"type":"#);
    match (source, text) {
        (_, Some(text)) => push!(out; br#""text","media_type":"text/plain","data":"#, text),
        (MediaSource::Base64 { media_type, data }, None) => {
            let media_type = media_type.unescaped();
            push_base64(image_type(&media_type).unwrap_or("application/pdf"), data, out);
        }
        (MediaSource::Url(url), None) => push!(out; br#""url","url":"#, url),
        (MediaSource::FileId(id), None) => push!(out; br#""file","file_id":"#, id),
        (MediaSource::Text { text, .. }, None) => text.push_quoted(out),
    }
    out.put_u8(b'}');
    true
}

fn push_base64(media_type: &str, data: &EscapedText<'_>, out: &mut BytesMut) {
    push!(out; br#""base64","media_type":"#, media_type, br#","data":"#, data);
}

/// The text of a text file; `None` if it is blank. What is no UTF-8 is replaced, and data that are no base64 are themselves the
/// text: better than nothing.
fn plain_text<'a>(source: &MediaSource<'a>) -> Option<EscapedText<'a>> {
    match source {
        MediaSource::Text { text, .. } => Some(text.clone()),
        MediaSource::Base64 { data, .. } => {
            let text = match STANDARD.decode(data.unescaped().as_bytes()) {
                Ok(bytes) => EscapedText::escaping(&String::from_utf8_lossy(&bytes)),
                Err(_) => data.clone(),
            };
            Some(text).filter(|text| !text.is_blank())
        }
        MediaSource::Url(_) | MediaSource::FileId(_) => None,
    }
}
