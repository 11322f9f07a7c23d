//! Parts that hold media.

use bytes::{BufMut as _, BytesMut};

use super::models::Capabilities;
use crate::{
    json::{push_member, push_string},
    neutral::{
        Content, EscapedText, MediaSource, UnsupportedFields,
        media_type::{FileKind, type_of_name},
    },
};

/// Types of text that the API takes by their names. Others are plain text.
const TEXTS: [&str; 12] = [
    "text/plain",
    "text/html",
    "text/css",
    "text/csv",
    "text/markdown",
    "text/md",
    "text/xml",
    "text/rtf",
    "text/javascript",
    "text/x-typescript",
    "text/x-python",
    "application/x-javascript",
];

/// Appends a medium as a part. False, and nothing appended, if this API has no part for it: then it is named as dropped.
pub(super) fn push_media(
    content: &Content<'_>,
    capabilities: Capabilities,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) -> bool {
    let (source, guess) = match content {
        Content::Image { source, .. } => (source, "image/jpeg"),
        Content::File { source, name } => {
            if name.as_ref().is_some_and(|name| !name.is_blank()) {
                unsupported.drop("messages[].content[].file.filename");
            }
            (source, "application/pdf")
        }
        Content::Video { source } => (source, "video/mp4"),
        Content::Audio { format, data } => {
            push!(out; br#"{"inlineData":{"mimeType":"audio/"#, format.bytes(), br#"","data":"#, data, b"}}");
            return true;
        }
        _ => {
            unsupported.drop("messages[].content[]");
            return false;
        }
    };
    push_source(source, guess, out);
    if let Content::Image { detail: Some(detail), .. } = content {
        push_resolution(detail, capabilities, out, unsupported);
    }
    out.put_u8(b'}');
    true
}

/// Appends a part without its closing brace.
fn push_source(source: &MediaSource<'_>, guess: &str, out: &mut BytesMut) {
    match source {
        MediaSource::Base64 { media_type, data } => push_inline(&media_type.unescaped(), data, out),
        MediaSource::Url(address) | MediaSource::FileId(address) => {
            push!(out; br#"{"fileData":{"mimeType":"#, type_of_name(&address.unescaped()).unwrap_or(guess),
                br#","fileUri":"#, address, b"}");
        }
        MediaSource::Text { text, .. } => push!(out; br#"{"text":"#, text),
    }
}

fn push_inline(media_type: &str, data: &EscapedText<'_>, out: &mut BytesMut) {
    out.put_slice(b"{\"inlineData\":{\"mimeType\":");
    let is_other_text = FileKind::from_type(media_type) == FileKind::Text && !TEXTS.contains(&media_type);
    push_string(
        out,
        match media_type {
            "image/jpg" => "image/jpeg",
            _ if is_other_text => "text/plain",
            known => known,
        },
    );
    push!(out; br#","data":"#, data, b"}");
}

/// Appends how finely an image is to be looked at.
fn push_resolution(
    detail: &EscapedText<'_>,
    capabilities: Capabilities,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    let level: &[u8] = match &*detail.unescaped() {
        "auto" => return,
        "low" if capabilities.resolves_parts => b"{\"level\":\"MEDIA_RESOLUTION_LOW\"}",
        "high" if capabilities.resolves_parts => b"{\"level\":\"MEDIA_RESOLUTION_HIGH\"}",
        _ => return unsupported.drop("messages[].content[].image_url.detail"),
    };
    push_member(out, b"mediaResolution", level);
}
